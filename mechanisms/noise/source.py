"""Where draws come from: a seeded generator for experiments, exact noise from system entropy for real releases.

Exact noise is discrete (Canonne, Kamath & Steinke 2020), on a lattice 2^-41 to 2^-40 of its scale apart that contains
what it is added to. What that costs is what the accountant says, which prices continuous noise:

* not sampled, discrete Gaussian noise has at most the continuous Rényi curve (their Prop. 5);
* Poisson-sampled, its exp((a-1) D_a) is the trapezoidal rule with step h for the continuous integral over
  (1-g + g e^{(2z-1)/(2 s^2)})^a, which is analytic for |Im z| < pi s^2, so the two differ by a factor of
  1 + O(e^{-2 pi^2 s^2/h}) (Trefethen & Weideman 2014, Thm 5.1): with s/h >= 2^40, by nothing that exists;
* for discrete Laplace noise the corners lie on the lattice, and the difference is O(a^2 h^2/s^2), below 1e-24 a^2;
* a threshold or an arg max that is taken of it has its probability right to h/s, below 1e-12.
"""

from __future__ import annotations

import math
import secrets
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import accountant as ac
from mechanisms.validation import require

__all__ = ["Randomness", "Seeded", "System", "as_randomness", "noise_of"]

Floats = NDArray[np.float64]

FINENESS = 41
"""Binary digits of exact noise below its scale."""

LONGEST = 56
"""Most binary digits of a scale in lattice units, so that draws fit into 64 bits: 2^7 scales are never passed."""


class Randomness(Protocol):
    """A source of independent draws.

    Attributes
    ----------
    repeatable : bool
        Whether it can go back to an earlier state, and draw the same again.
    """

    repeatable: bool

    def state(self) -> Any:
        """What `restore` takes; None if it is not repeatable."""
        ...

    def restore(self, state: Any) -> None:
        """Go back to that state."""
        ...

    def words(self, size: int) -> NDArray[np.uint64]:
        """`size` draws, uniform on the integers of 64 bits."""
        ...

    def uniform(self, size: int) -> Floats:
        """`size` draws, uniform on the open interval (0, 1), with 53 bits each."""
        ...

    def gaussian(self, sigma: float, size: int, grain: float) -> Floats:
        """N(0, sigma^2), for values that are multiples of `grain`, a power of two."""
        ...

    def laplace(self, scale: float, size: int, grain: float) -> Floats:
        """Laplace noise, likewise."""
        ...

    def discrete_gaussian(self, sigma: float, size: int) -> Floats:
        """Whole numbers n with probability proportional to exp(-n^2/(2 sigma^2))."""
        ...

    def discrete_laplace(self, scale: float, size: int) -> Floats:
        """Whole numbers n with probability proportional to exp(-|n|/scale)."""
        ...


class System:
    """Cryptographic randomness of the operating system; it cannot be seeded, by accident or otherwise.

    Noise comes from OpenDP's exact samplers of integers, which draw from the same source.

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

    def words(self, size: int) -> NDArray[np.uint64]:
        return np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)

    def uniform(self, size: int) -> Floats:
        return _open_interval(self.words(size))

    def gaussian(self, sigma: float, size: int, grain: float) -> Floats:
        return _exact("make_gaussian", sigma, size, grain)

    def laplace(self, scale: float, size: int, grain: float) -> Floats:
        return _exact("make_laplace", scale, size, grain)

    def discrete_gaussian(self, sigma: float, size: int) -> Floats:
        return _integers("make_gaussian", sigma, size)

    def discrete_laplace(self, scale: float, size: int) -> Floats:
        return _integers("make_laplace", scale, size)


class Seeded:
    """Reproducible randomness for experiments; never for a real release.

    Noise by inversion: an arg max or a bit made from it has its probability right to 1e-15, but the low bits of a
    noisy number are not those of a Gaussian, whatever the seed.
    """

    repeatable = True

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def state(self) -> Any:
        return self.generator.bit_generator.state

    def restore(self, state: Any) -> None:
        self.generator.bit_generator.state = state

    def words(self, size: int) -> NDArray[np.uint64]:
        return self.generator.integers(0, 2**64, size, dtype=np.uint64)

    def uniform(self, size: int) -> Floats:
        return _open_interval(self.words(size))

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


def _open_interval(words: NDArray[np.uint64]) -> Floats:
    """The middles of 2^53 equal cells: neither 0 nor, by rounding of the last one, 1; symmetric about 1/2."""
    return np.minimum(((words >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53, 1 - 2.0**-53)


def _exact(maker: str, scale: float, size: int, grain: float) -> Floats:
    """Exact discrete noise; the sum of a value and a draw, rounded to a float, is a function of the exact sum."""
    spacing = min(2.0 ** (math.frexp(scale)[1] - FINENESS), grain)
    if scale / spacing > 2.0**LONGEST:
        raise ac.ParameterError(f"noise of scale {scale:g}; accepted: at most {spacing * 2.0**LONGEST:g}")
    draws = _sampler(maker, scale / spacing)([0] * size) if size else []
    noise: Floats = np.array(draws, dtype=np.float64) * spacing
    return noise


def _integers(maker: str, scale: float, size: int) -> Floats:
    """Exact discrete noise on the integers."""
    if scale > 2.0**45:
        raise ac.ParameterError(f"discrete noise of scale {scale:g}; accepted: at most {2.0**45:g}")
    noise: Floats = np.array(_sampler(maker, scale)([0] * size) if size else [], dtype=np.float64)
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
        `rng` is something else.
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


def noise_of(event: ac.Event, source: Randomness, size: int, grain: float = 1.0) -> Floats:
    """The noise that an event prices: what is drawn and what is priced come from one object.

    Parameters
    ----------
    grain : float
        A power of two of which the values that get the noise are multiples; 1 for counts.

    Raises
    ------
    accountant.ParameterError
        The event has no additive noise.
    """
    inner: Any = event.event if isinstance(event, ac.PoissonSubsampled) else event
    if isinstance(inner, ac.Gaussian | ac.GNMax | ac.NoisyScreening):
        return source.gaussian(inner.sigma, size, grain)
    if isinstance(inner, ac.Laplace | ac.LNMax):
        return source.laplace(inner.scale, size, grain)
    if isinstance(inner, ac.DiscreteGaussian):
        return source.discrete_gaussian(inner.sigma, size)
    if isinstance(inner, ac.DiscreteLaplace):
        return source.discrete_laplace(inner.scale, size)
    raise ac.ParameterError(
        f"{event!r} has no additive noise; accepted: Gaussian, GNMax, NoisyScreening, Laplace, LNMax, "
        "DiscreteGaussian, DiscreteLaplace"
    )
