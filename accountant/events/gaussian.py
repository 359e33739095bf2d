"""Gaussian noise, the abstract budget that is as good as it, and Poisson subsampling of both."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import (
    AdditiveNoise,
    ClosedForm,
    GroupLine,
    Row,
    Summand,
    linear_row,
    sampled_gaussian_row,
)
from accountant.events.curve import StandardForm
from accountant.events.event import BatchedEvent, Event
from accountant.events.parameters import NoiseScale, Range, Scale
from accountant.events.registry import register
from accountant.events.subsampled_gaussian import subsampled_gaussian_curve, subsampled_gaussian_work
from accountant.numerics.exact import times_up
from accountant.numerics.kernel import FloatArray
from accountant.numerics.mills import INTEGRATED, log_mills_gap, log_mills_gaps

__all__ = [
    "Gaussian",
    "GaussianDP",
    "GaussianLike",
    "gaussian_log_profile",
    "gaussian_log_profiles",
]


class GaussianLike(BatchedEvent):
    """Events whose dominating pair is N(mu, 1) against N(0, 1)."""

    @abstractmethod
    def _mu(self) -> float:
        """Gaussian-DP parameter: distance of the two distributions in standard deviations."""

    def _profile_work(self) -> float:
        return 500.0 if self._mu() <= INTEGRATED else super()._profile_work()

    def _curve_work(self, rate: float = 1.0) -> float:
        return subsampled_gaussian_work(self._mu()) if 0.0 < rate < 1.0 else 0.0

    def _row(self, rate: float = 1.0) -> Row:
        mu = self._mu()
        return linear_row(mu * mu / 2) if rate == 1.0 or mu == 0.0 else sampled_gaussian_row(mu, rate)

    def _summand(self) -> Summand:
        # Dong, Roth & Su 2022, Cor. 3.3: mu-GDP composes to the root of the sum of squares
        return Summand("Gaussian", self._mu() ** 2, gaussian_closed_form)

    def _largest_loss(self) -> float:
        return math.inf if self._mu() > 0.0 else 0.0

    def _group(self, size: int) -> Event:
        # Dong, Roth & Su 2022, Thm 2.14: mu-GDP for one is k mu-GDP for k
        return self._with_mu(times_up(size, self._mu()))

    def _with_mu(self, mu: float) -> Event:
        """Gaussian noise of another mu, for the same adjacency."""
        return GaussianDP(mu, self.adjacency)

    def _line(self) -> GroupLine:
        return GroupLine("gaussian", self._mu())

    @classmethod
    def _gathered(cls, events: Sequence[Self]) -> FloatArray:
        return np.array([event._mu() ** 2 / 2 for event in events])

    @classmethod
    def _curves(cls, gathered: FloatArray, orders: FloatArray) -> FloatArray:
        # Bun & Steinke 2016, Lemma 2.5: D_a(N(mu,1) || N(0,1)) = a mu^2 / 2
        slopes = gathered
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(slopes[:, None] > 0, slopes[:, None] * orders, 0.0)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = gaussian_log_profile(self._mu(), epsilons)
        return both, both

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        return subsampled_gaussian_curve(self._mu(), rate, orders)


@register("gaussian")
@dataclass(frozen=True)
class Gaussian(GaussianLike):
    """Gaussian mechanism: a vector plus N(0, sigma^2) on every entry.

    Rényi curve ``a * sensitivity**2 / (2 * sigma**2)`` (Bun & Steinke 2016, Lemma 2.5); profile
    ``Phi(mu/2 - e/mu) - exp(e) * Phi(-mu/2 - e/mu)`` with ``mu = sensitivity/sigma`` (Balle & Wang 2018, Thm 8).
    Under Poisson subsampling exact for every real order (Mironov, Talwar & Zhang 2019, Thms 4 and 5).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in the units of the vector; [1e-50, 1e50].
    sensitivity : float
        Largest L2 distance between the vectors of neighbouring inputs; [1e-50, 1e50].
    adjacency : Adjacency
        The relation for which `sensitivity` holds.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    sigma: NoiseScale
    sensitivity: Scale = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _standard_form(self) -> StandardForm:
        return StandardForm("gaussian", self.sensitivity, inverse=True)

    @classmethod
    def examples(cls) -> tuple[Gaussian, ...]:
        return cls(20.0), cls(5.0, adjacency=Adjacency.REPLACE)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("gaussian", self.sigma)

    def _mu(self) -> float:
        return self.sensitivity / self.sigma


@register("gaussian-dp")
@dataclass(frozen=True)
class GaussianDP(GaussianLike):
    """mu-GDP: no easier to tell apart than N(mu, 1) from N(0, 1) (Dong, Roth & Su 2022, Def. 3).

    Rényi curve ``a * mu**2 / 2`` (Dong, Roth & Su 2022, Cor. B.6); profile as for the Gaussian mechanism.

    Parameters
    ----------
    mu : float
        Privacy parameter; 0, or [1e-50, 1e50].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        `mu` is not a number or out of range.
    """

    mu: Annotated[float, Range(1e-50, 1e50, zero=True, noise=True, usual=(1e-4, 10.0))]
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _standard_form(self) -> StandardForm:
        return StandardForm("gaussian", 1.0, inverse=False)

    @classmethod
    def examples(cls) -> tuple[GaussianDP, ...]:
        return (cls(0.5),)

    def _mu(self) -> float:
        return self.mu


def gaussian_closed_form(square: float) -> ClosedForm:
    """The profile of N(mu, 1) against N(0, 1), given the square of mu."""
    mu = math.sqrt(square)
    return ClosedForm(lambda points: gaussian_log_profile(mu, points), f"Gaussian with mu = {mu:.6g}", mu=mu)


def gaussian_log_profile(mu: float, epsilons: FloatArray) -> FloatArray:
    """log( Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu) ) at epsilons >= 0 (Balle & Wang 2018, Thm 8).

    With x = mu/2 - e/mu the two terms are phi(x) R(x) and phi(x) R(x - mu), R = Phi/phi the Mills ratio.
    """
    if mu == 0.0:
        return np.full_like(epsilons, -math.inf)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return log_mills_gap(mu, _distance_left(mu, epsilons), epsilons)


def gaussian_log_profiles(mus: FloatArray, epsilons: FloatArray) -> FloatArray:
    """The same for each mu, in a row each."""
    found, apart = np.full((mus.size, epsilons.size), -math.inf), mus > 0.0
    sizes = mus[apart]
    if sizes.size:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            distances = _distance_left(sizes[:, None], epsilons)
            found[apart] = log_mills_gaps(sizes, distances, np.broadcast_to(epsilons, distances.shape))
    return found


def _distance_left(mu: float | FloatArray, epsilons: FloatArray) -> FloatArray:
    """mu/2 - e/mu; where these cancel, e/mu is corrected by the remainder of its division (Dekker 1971)."""
    ratio = epsilons / mu
    distance: FloatArray = mu / 2 - ratio
    large = np.asarray(mu) >= 30.0
    if not large.any():
        return distance
    (high, low), (upper, lower) = ((top := (2.0**27 + 1) * x - ((2.0**27 + 1) * x - x), x - top) for x in (ratio, mu))
    product = ratio * mu
    rounding = low * lower - (((product - high * upper) - low * upper) - high * lower)
    remainder = ((epsilons - product) - rounding) / mu
    return np.where(large & np.isfinite(remainder), distance - remainder, distance)
