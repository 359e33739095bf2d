"""Where a mechanism's draws come from: a seeded generator for experiments, system entropy for real releases."""

from __future__ import annotations

import secrets
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import accountant as ac

__all__ = ["Randomness", "Seeded", "System", "as_randomness"]

Floats = NDArray[np.float64]


class Randomness(Protocol):
    """A source of independent uniform draws; everything else is made from them."""

    def uniform(self, size: int) -> Floats:
        """`size` draws, uniform on the open interval (0, 1), with 53 bits each."""
        ...


class System:
    """Cryptographic randomness of the operating system. It cannot be seeded, by accident or otherwise."""

    def uniform(self, size: int) -> Floats:
        words = np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)
        return _open_interval(words)


class Seeded:
    """Reproducible randomness for experiments; never for a real release."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def uniform(self, size: int) -> Floats:
        return _open_interval(self.generator.integers(0, 2**64, size, dtype=np.uint64))


def _open_interval(words: NDArray[np.uint64]) -> Floats:
    """The middles of 2^53 equal cells: neither 0 nor 1, and symmetric about 1/2."""
    return ((words >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53


def as_randomness(rng: object) -> Randomness:
    """`None` gives system entropy; a seed or a `numpy.random.Generator` a reproducible source.

    Raises
    ------
    accountant.ParameterError
        `rng` is something else.
    """
    if rng is None:
        return System()
    if isinstance(rng, System | Seeded):
        return rng
    if isinstance(rng, np.random.Generator):
        return Seeded(rng)
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return Seeded(np.random.default_rng(int(rng)))
    raise ac.ParameterError(f"rng = {rng!r}; accepted: a Generator, a seed >= 0, or None for system entropy")


def gaussian(source: Randomness, sigma: float, size: int) -> Floats:
    """N(0, sigma^2) by inversion.

    A bit or an arg max made from it has its probability right to 1e-15, since every draw's cell has width
    2^-53; the noisy numbers themselves must not be released, for their low bits are not those of a Gaussian.
    """
    draws: Floats = sigma * ndtri(source.uniform(size))
    return draws


def laplace(source: Randomness, scale: float, size: int) -> Floats:
    """Laplace noise by inversion; the same caution as for `gaussian`."""
    centred = source.uniform(size) - 0.5
    draws: Floats = -scale * np.sign(centred) * np.log1p(-2 * np.abs(centred))
    return draws


def noise_of(event: ac.Event, source: Randomness, size: int) -> Floats:
    """The noise that an event prices: what is drawn and what is priced come from one object.

    Raises
    ------
    accountant.ParameterError
        The event has no additive noise.
    """
    inner: Any = event.event if isinstance(event, ac.PoissonSubsampled) else event
    if isinstance(inner, ac.Gaussian | ac.GNMax | ac.NoisyScreening):
        return gaussian(source, inner.sigma, size)
    if isinstance(inner, ac.Laplace | ac.LNMax):
        return laplace(source, inner.scale, size)
    raise ac.ParameterError(
        f"{event!r} has no additive noise; accepted: Gaussian, GNMax, NoisyScreening, Laplace, LNMax"
    )
