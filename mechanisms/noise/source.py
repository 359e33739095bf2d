"""Sources of randomness: a seeded generator for experiments, exact noise from system entropy for real releases.

Exact noise is discrete (Canonne, Kamath & Steinke 2020). It lies on a lattice of spacing h, 2^-41 to 2^-40 of its
scale s, that contains the values to which it is added. The accountant prices continuous noise instead, which changes
nothing that doubles can represent (notebooks/mathematics.md, Lattice noise):

* discrete Gaussian noise that is not sampled has at most the continuous Rényi curve (their Prop. 5);
* with Poisson sampling at rate g, exp((a-1) D_a) at order a is the trapezoidal rule of step h for the integral of
  (1-g + g e^{(2z-1)/(2 s^2)})^a, which is analytic for |Im z| < pi s^2; so the two differ by a factor of
  1 + O(e^{-2 pi^2 s^2/h}) (Trefethen & Weideman 2014, Thm 5.1), with s/h >= 2^40 below any representable difference;
* for discrete Laplace noise the corners of the density lie on the lattice, and the difference is O(a^2 h^2/s^2), below
  1e-24 a^2;
* the probability that a noisy value reaches a threshold, or is the largest, is right to h/s, below 1e-12.

A draw is added as a float: one beyond 2^53 h would be rounded before the sum is, and the low bits of the sum would show
those of the value. Noise so wide that a draw is there with a probability above e^-128 is refused.
"""

from __future__ import annotations

import math
import secrets
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

import accountant as ac
from mechanisms.arrays import Floats, Words
from mechanisms.validation import require

__all__ = ["Randomness", "Seeded", "System", "additive_noise", "as_randomness", "check_noise", "noise_of"]

FINENESS = 41
"""Binary digits of exact noise below its scale, which set the spacing of the lattice."""

WIDEST = {"gaussian": 2.0**49, "laplace": 2.0**46}
"""Largest scales in lattice units: a draw is beyond 2^53 units, which floats hold exactly, with probability e^-128."""


class Randomness(Protocol):
    """A source of independent draws.

    Attributes
    ----------
    repeatable : bool
        Whether `restore` can repeat draws.
    """

    repeatable: bool

    def state(self) -> Any:
        """The present state, for `restore`; None if the source is not repeatable."""
        ...

    def restore(self, state: Any) -> None:
        """Return to an earlier state."""
        ...

    def words(self, size: int) -> Words:
        """Uniform draws of 64-bit integers."""
        ...

    def uniform(self, size: int) -> Floats:
        """Uniform draws on the open interval (0, 1), with 53 bits each."""
        ...

    def gaussian(self, sigma: float, size: int, grain: float) -> Floats:
        """Draws of N(0, sigma^2), to be added to multiples of `grain`, a power of two."""
        ...

    def laplace(self, scale: float, size: int, grain: float) -> Floats:
        """Draws of Laplace noise, to be added to multiples of `grain`."""
        ...

    def discrete_gaussian(self, sigma: float, size: int) -> Floats:
        """Integers n with probability proportional to exp(-n^2/(2 sigma^2))."""
        ...

    def discrete_laplace(self, scale: float, size: int) -> Floats:
        """Integers n with probability proportional to exp(-|n|/scale)."""
        ...


class System:
    """Cryptographic randomness of the operating system, which cannot be seeded.

    Noise comes from OpenDP's exact samplers of integers, which use the same entropy.

    Raises
    ------
    accountant.MissingExtra
        OpenDP is not installed.
    """

    repeatable = False

    def __init__(self) -> None:
        require("opendp.prelude")

    def state(self) -> None:
        return None

    def restore(self, state: None) -> None:
        return None

    def words(self, size: int) -> Words:
        return np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)

    def uniform(self, size: int) -> Floats:
        return _to_unit_interval(self.words(size))

    def gaussian(self, sigma: float, size: int, grain: float) -> Floats:
        return _draw_on_lattice("gaussian", sigma, size, _spacing(sigma, grain))

    def laplace(self, scale: float, size: int, grain: float) -> Floats:
        return _draw_on_lattice("laplace", scale, size, _spacing(scale, grain))

    def discrete_gaussian(self, sigma: float, size: int) -> Floats:
        return _draw_on_lattice("gaussian", sigma, size, 1.0)

    def discrete_laplace(self, scale: float, size: int) -> Floats:
        return _draw_on_lattice("laplace", scale, size, 1.0)


class Seeded:
    """Reproducible randomness for experiments; never use it for a real release.

    Noise is drawn by inversion. The probability of an arg max or of a bit is right to 1e-15, but the low bits of a
    noisy number are not distributed as those of exact noise.
    """

    repeatable = True

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def state(self) -> Any:
        return self.generator.bit_generator.state

    def restore(self, state: Any) -> None:
        self.generator.bit_generator.state = state

    def words(self, size: int) -> Words:
        return self.generator.integers(0, 2**64, size, dtype=np.uint64)

    def uniform(self, size: int) -> Floats:
        return _to_unit_interval(self.words(size))

    def gaussian(self, sigma: float, size: int, grain: float) -> Floats:
        draws: Floats = sigma * ndtri(self.uniform(size))
        return draws

    def laplace(self, scale: float, size: int, grain: float) -> Floats:
        centred = self.uniform(size) - 0.5
        draws: Floats = -scale * np.sign(centred) * np.log1p(-2 * np.abs(centred))
        return draws

    def discrete_gaussian(self, sigma: float, size: int) -> Floats:
        """By rejection from discrete Laplace noise (Canonne, Kamath & Steinke 2020, Algorithm 3)."""
        scale = math.floor(sigma) + 1.0
        found = np.empty(0)
        while len(found) < size:
            drawn = self.discrete_laplace(scale, 2 * (size - len(found)) + 16)
            kept = self.uniform(len(drawn)) < np.exp(-((np.abs(drawn) - sigma**2 / scale) ** 2) / (2 * sigma**2))
            found = np.concatenate([found, drawn[kept]])
        return found[:size]

    def discrete_laplace(self, scale: float, size: int) -> Floats:
        """The difference of two geometric draws, each by inversion: P[draw >= n] = exp(-n/scale)."""
        first, second = (np.floor(-scale * np.log(self.uniform(size))) for _ in range(2))
        draws: Floats = first - second
        return draws


def _to_unit_interval(words: Words) -> Floats:
    """Midpoints of 2^53 equal cells of (0, 1), symmetric about 1/2; the last is kept from rounding to 1."""
    return np.minimum(((words >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53, 1 - 2.0**-53)


def _spacing(scale: float, grain: float) -> float:
    """Of a lattice that contains the multiples of `grain` and is finer than the scale."""
    return min(2.0 ** (math.frexp(scale)[1] - FINENESS), grain)


def _refuse_wide(distribution: str, scale: float, spacing: float) -> None:
    widest = WIDEST[distribution] * spacing
    if scale > widest:
        raise ac.ParameterError(f"noise of scale {scale:g}; accepted: at most {widest:g}, of which draws are exact")


def _draw_on_lattice(distribution: str, scale: float, size: int, spacing: float) -> Floats:
    """Exact noise on the multiples of `spacing`.

    Rounding the sum of a value and a draw to a double is post-processing of the exact sum.
    """
    _refuse_wide(distribution, scale, spacing)
    draws = _sampler(f"make_{distribution}", scale / spacing)([0] * size) if size else []
    noise: Floats = np.array(draws, dtype=np.float64) * spacing
    return noise


@lru_cache(maxsize=16)
def _sampler(maker: str, scale: float) -> Any:
    """OpenDP's measurement that adds exact noise of that scale to a vector of integers."""
    dp = require("opendp.prelude")
    dp.enable_features("contrib")
    metric = dp.l2_distance(T="f64") if maker == "make_gaussian" else dp.l1_distance(T="i64")
    return getattr(dp.m, maker)(dp.vector_domain(dp.atom_domain(T="i64")), metric, scale=scale)


def as_randomness(rng: object) -> Randomness:
    """`None` gives system entropy; a seed or a `numpy.random.Generator` a reproducible source.

    Raises
    ------
    accountant.ParameterError
        `rng` is none of these.
    accountant.MissingExtra
        `rng` is None, and the exact sampler is not installed.
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


def additive_noise(event: ac.Event) -> ac.AdditiveNoise:
    """The noise that an event prices, sampled or not.

    Raises
    ------
    accountant.ParameterError
        The event has no additive noise.
    """
    noise = event.additive_noise
    if noise is None:
        raise ac.ParameterError(f"event = {ac.shorten(event)}; accepted: an event with additive noise, sampled or not")
    return noise


def check_noise(event: ac.Event, source: Randomness, grain: float = 1.0) -> None:
    """Refuse, before anything is charged or written, noise that the source could not draw exactly; a seed need not.

    Raises
    ------
    accountant.ParameterError
        The event has no additive noise, or too much for exact draws.
    """
    distribution, scale, discrete = additive_noise(event)
    if not source.repeatable:
        _refuse_wide(distribution, scale, 1.0 if discrete else _spacing(scale, grain))


def noise_of(event: ac.Event, source: Randomness, size: int, grain: float = 1.0) -> Floats:
    """Draw the noise that an event prices, so that draw and price come from one object.

    Parameters
    ----------
    grain : float
        A power of two of which the values that get the noise are multiples; 1 for counts.

    Raises
    ------
    accountant.ParameterError
        The event has no additive noise, or too much for exact draws: see `check_noise`.
    """
    distribution, scale, discrete = additive_noise(event)
    if distribution == "gaussian":
        return source.discrete_gaussian(scale, size) if discrete else source.gaussian(scale, size, grain)
    return source.discrete_laplace(scale, size) if discrete else source.laplace(scale, size, grain)
