"""Sources of random draws, and the noise of an event drawn from them."""

from mechanisms.noise.source import Randomness, Seeded, System, as_randomness, noise_of

__all__ = ["Randomness", "Seeded", "System", "as_randomness", "noise_of"]
