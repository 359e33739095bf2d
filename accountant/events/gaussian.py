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
from accountant.events.subsampled_moments import curves_by_moments, log_at_branch, moments
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.mills import INTEGRATED, log_mills_gap, log_mills_gaps
from accountant.numerics.quadrature import WIDEST_STRIP, trapezoid_step
from accountant.numerics.special import (
    divergence_from_log_mean,
    log_mean_excess,
    log_mixture_ratio_at,
    log_relative_excess,
    logaddexp,
)

__all__ = [
    "Gaussian",
    "GaussianDP",
    "GaussianLike",
    "gaussian_log_profile",
    "gaussian_log_profiles",
    "subsampled_gaussian_curve",
]


class GaussianLike(BatchedEvent):
    """Events whose dominating pair is N(mu, 1) against N(0, 1)."""

    @abstractmethod
    def _mu(self) -> float:
        """Gaussian-DP parameter: distance of the two distributions in standard deviations."""

    def _profile_work(self) -> float:
        return 500.0 if self._mu() <= INTEGRATED else super()._profile_work()

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
        return self._with_mu(size * self._mu())

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


# --- Poisson subsampling -------------------------------------------------------------------------------


@Kernel
def log_term(b: float, rate: float, mu: float, y: float) -> float:
    """Log of the integrand: standard normal density times phi_a(u)/b."""
    u = log_mixture_ratio_at(rate, mu * y - 0.5 * mu * mu)
    if u > 40.0:
        # u = mu y - mu^2/2 + log g + ..., and -y^2/2 + mu y - mu^2/2 is a square
        rest = math.log(rate) + math.log1p((1.0 - rate) / rate * math.exp(0.5 * mu * mu - mu * y))
        return -0.5 * (y - mu) ** 2 + rest - 0.9189385332046727 + log_relative_excess(b, u)
    return -0.5 * y * y - 0.9189385332046727 + log_mean_excess(b, u)


@Kernel
def pull(b: float, rate: float, mu: float, y: float) -> float:
    """d/dy log( phi_a(u(y))/b ): the integrand is stationary where this equals y."""
    u = log_mixture_ratio_at(rate, mu * y - 0.5 * mu * mu)
    if u == 0.0:
        return 0.0
    share = 1.0 - (1.0 - rate) * math.exp(-u)  # u'(y)/mu
    t = b * u
    if abs(t) < 500.0:
        slope = math.expm1(t) / b if b > 0.0 else u
        log_derivative = u + math.log(abs(slope) * (1.0 + b))
    elif t > 0.0:
        log_derivative = u + t + math.log((1.0 + b) / b)
    else:
        log_derivative = u + math.log((1.0 + b) / b)
    size = mu * share * math.exp(log_derivative - log_mean_excess(b, u))
    return size if u > 0.0 else -size


@Kernel
def walk(
    b: float, rate: float, mu: float, h: float, k: float, step: float, stop: float, total: float
) -> tuple[float, float]:
    """Add terms at k h, (k+step) h, ... until they stay negligible over a whole unit, or k reaches stop."""
    patience = max(2.0, math.ceil(1.0 / h))
    quiet = 0.0
    while quiet < patience and k != stop:
        term = log_term(b, rate, mu, k * h)
        quiet = quiet + 1.0 if term < total - 42.0 else 0.0
        total = logaddexp(total, term)
        k += step
    return total, k


@Kernel
def trapezoid(b: float, rate: float, mu: float, h: float, low: float, high: float) -> float:
    """log of h times the sum of the integrand over h Z, started from each place where it may peak."""
    total = -math.inf
    covered = -math.inf
    for start in (0.0, low, high):
        k = math.floor(start / h)
        if k >= covered:
            total, _ = walk(b, rate, mu, h, k - 1.0, -1.0, covered - 1.0, total)
            total, covered = walk(b, rate, mu, h, k, 1.0, math.inf, total)
    return total + math.log(h)


@Kernel
def disjoint_log_mean(b: float, mu: float, rate: float) -> float:
    """The same when the two components do not overlap: of (1-g)^a + g^a e^{a b mu^2/2} - 1, split by (1-g) + g = 1."""
    kept, gained = math.log1p(-rate), math.log(rate) + 0.5 * (1.0 + b) * mu * mu
    if b * gained > 600.0:
        return math.log(rate) + b * gained - math.log(b)
    if b == 0.0:
        return math.log((1.0 - rate) * kept + rate * gained)
    return math.log(((1.0 - rate) * math.expm1(b * kept) + rate * math.expm1(b * gained)) / b)


@Kernel
def subsampled_gaussian_log_mean(b: float, mu: float, rate: float) -> float:
    """log E_{y~N(0,1)}[ phi_a(u(y)) ] / b for a = 1 + b.

    Trapezoidal rule on the whole line (Trefethen & Weideman 2014, Thm 5.1): the integrand is analytic in a
    strip of half-width D, beyond which either (1 - g + g e^l)^a branches (at pi/mu) or the step no longer
    gains; on its edge it is at most e^{D^2/2} times its real size, so `trapezoid_step` leaves a relative error
    below e^-44 times the growth of phi_a off the axis. g is the rate, l = mu y - mu^2/2 and u = log(1 - g + g e^l).
    """
    quick = moments(b, mu, rate).value
    if quick > 0.0:
        return math.log(quick)
    a = 1.0 + b
    odds = math.log((1.0 - rate) / rate)
    # far beyond the crossing y* of the two mixture components only g e^l counts: E = e^{a b mu^2/2} g^a
    upper = 0.5 * a * b * mu * mu + a * math.log(rate)
    crossing = 0.5 * mu + odds / mu
    beyond = a * mu - crossing
    if (
        upper > 45.0
        and beyond > 12.0
        and mu * (beyond - 12.0) > 40.0 + math.log(a)
        and 0.5 * beyond**2 > 0.7 * a + 40.0
    ):
        return upper - math.log(b)
    if (
        crossing > 12.0
        and beyond > 12.0
        and mu * (min(crossing, beyond) - 12.0) > 40.0 + math.log(a)
        and 0.5 * min(crossing, beyond) ** 2 > 0.7 * a + 45.0 - math.log(rate)
    ):
        return disjoint_log_mean(b, mu, rate)
    # stationary points of the integrand to the right: between 2 mu (where it grows as u^2) and a mu (as e^{a u})
    low, high = 2.0 * mu, a * mu
    if a < 2.0:
        bottom, top = high, low
        for _ in range(60):
            middle = 0.5 * (bottom + top)
            if pull(b, rate, mu, middle) > middle:
                bottom = middle
            else:
                top = middle
        low = high = bottom
    else:
        for _ in range(500):
            previous = low
            low = min(max(low, pull(b, rate, mu, low)), a * mu)
            if low - previous < 1e-3:
                break
        for _ in range(500):
            previous = high
            high = max(min(high, pull(b, rate, mu, high)), low)
            if previous - high < 1e-3:
                break
    total = trapezoid(b, rate, mu, trapezoid_step(WIDEST_STRIP), low, high)
    # where the integrand is negligible at its branch points, so are they
    if math.pi / mu < WIDEST_STRIP and log_at_branch(b, rate, mu) > total - 45.0:
        total = trapezoid(b, rate, mu, trapezoid_step(math.pi / mu), low, high)
    return total


def subsampled_gaussian_curves(rows: FloatArray, orders: FloatArray, curves: FloatArray) -> None:
    """Fill `curves` at finite orders >= 1, one row for every (mu, rate), mu > 0 and 0 < rate < 1."""
    if curves_by_moments(rows, orders, curves):
        remaining_curves(rows, orders, curves)


@Kernel
def remaining_curves(rows: FloatArray, orders: FloatArray, curves: FloatArray) -> None:
    """Fill `curves` where they are nan."""
    for i in range(rows.shape[0]):
        mu, rate = rows[i, 0], rows[i, 1]
        for j in range(orders.size):
            if math.isnan(curves[i, j]):
                b = orders[j] - 1.0
                curve = divergence_from_log_mean(b, subsampled_gaussian_log_mean(b, mu, rate))
                curves[i, j] = min(curve, 0.5 * orders[j] * mu * mu)


def subsampled_gaussian_curve(mu: float, rate: float, orders: FloatArray) -> FloatArray:
    """D_a( (1-g) N(0,1) + g N(mu,1) || N(0,1) ) at finite real orders a >= 1, for 0 < g < 1.

    This direction dominates the other (Mironov, Talwar & Zhang 2019, Thm 5).
    """
    curves = np.zeros((1, orders.size))
    if mu > 0.0:
        subsampled_gaussian_curves(np.array([[mu, rate]]), orders, curves)
    row: FloatArray = curves[0]
    return row
