"""Where draws come from, and how the noise of an event is drawn from it."""

from mechanisms.noise.source import Randomness, Seeded, System, as_randomness, noise_of

__all__ = ["Randomness", "Seeded", "System", "as_randomness", "noise_of"]
