"""Discrete Gaussian noise on counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ProfileUnavailable
from accountant.events.answers import AdditiveNoise, ClosedForm, Summand
from accountant.events.event import BatchedEvent, Event
from accountant.events.gaussian import gaussian_log_profile
from accountant.events.generic_subsampling import generic_subsampled_curve
from accountant.events.parameters import NoiseScale, Range
from accountant.events.registry import register
from accountant.events.subsampling import SAMPLED_ORDER
from accountant.numerics.finite_curves import finite_curve
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import log_mixture, log_mixture_ratio

__all__ = ["DiscreteGaussian", "discrete_gaussian_log_profile"]

SAMPLED_TERMS = 20_000
"""Integers over which sampling is summed exactly, at one order; beyond, the generic bound stands."""


@register("discrete-gaussian")
@dataclass(frozen=True)
class DiscreteGaussian(BatchedEvent):
    """Discrete Gaussian mechanism: `coordinates` integers that each move by `sensitivity`, plus integer noise on each.

    Noise x has probability proportional to ``exp(-x**2/(2 sigma**2))`` (Canonne, Kamath & Steinke 2020). With
    ``theta(c) = sum over integers of exp(-(x + c)**2/(2 sigma**2))`` and sensitivity s every coordinate has the Rényi
    curve ``a s**2/(2 sigma**2) - log( theta(0)/theta((a-1) s) )/(a-1)``, found by completing the square: never above
    the continuous Gaussian's (their Prop. 5), and equal to it wherever (a-1) s is whole. Not pure DP. The profile is
    exact for one coordinate, and for m of them where sigma is 2.5 or more (somewhat less where m is below 1e12); it
    crosses the continuous Gaussian's between any two losses.

    Parameters
    ----------
    sigma : float
        Parameter of the noise; its standard deviation is at most that. [1e-50, 1e50].
    sensitivity : int
        How far each integer moves between neighbouring inputs; [1, 1e12].
    coordinates : int
        How many integers move; [1, 1e12].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    sigma: NoiseScale
    sensitivity: Annotated[int, Range(1, 1e12, usual=(1, 5))] = 1
    coordinates: Annotated[int, Range(1, 1e12)] = 1
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    _coordinate_field: ClassVar[str | None] = "coordinates"

    @classmethod
    def examples(cls) -> tuple[DiscreteGaussian, ...]:
        return (cls(2.0),)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("gaussian", self.sigma, discrete=True)

    def _group(self, size: int) -> Event:
        return DiscreteGaussian(self.sigma, size * self.sensitivity, self.coordinates, self.adjacency)

    def _summand(self) -> Summand:
        def closed_form(size: float) -> ClosedForm | None:
            profile = partial(discrete_gaussian_log_profile, self.sigma, self.sensitivity, int(size))
            try:
                profile(np.zeros(1))
            except ProfileUnavailable:
                return None
            return ClosedForm(profile, f"{int(size)} discrete Gaussians")

        return Summand(("discrete Gaussian", self.sigma, self.sensitivity), self.coordinates, closed_form)

    @classmethod
    def _gathered(cls, events: Sequence[Self]) -> FloatArray:
        return np.array([(event.sigma, float(event.sensitivity), float(event.coordinates)) for event in events])

    @classmethod
    def _curves(cls, gathered: FloatArray, orders: FloatArray) -> FloatArray:
        sigma, s, m = (gathered[:, i, None] for i in range(3))
        moved = np.where(np.isfinite(orders), orders - 1, 0.0) * s
        short = shortfall(sigma, np.abs(moved - np.round(moved)))
        with np.errstate(divide="ignore", invalid="ignore"):
            short = np.where(short > 0.0, short / (orders - 1), 0.0)
        curves: FloatArray = m * (orders * (s / sigma) ** 2 / 2 - short)
        return curves

    def _profile_work(self) -> float:
        return super()._profile_work() if self.sigma * math.sqrt(self.coordinates) <= TABLE else 1000.0

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = discrete_gaussian_log_profile(self.sigma, self.sensitivity, self.coordinates, epsilons)
        return both, both

    def _profile_knots(self) -> Sequence[float]:
        sum_of_all = self.sigma * math.sqrt(self.coordinates)
        if sum_of_all > 400:
            return ()  # no integer has a mass of 1e-3
        half, reach = self.sensitivity * self.coordinates / 2, math.ceil(6 * sum_of_all)
        if sum_of_all < 8:  # high orders look far out, and losses are far apart
            reach = min(max(reach, 200 * self.sensitivity * self.coordinates), 2000)
        return [(n + half) * (self.sensitivity / self.sigma**2) for n in range(-reach, reach + 1) if n > -half]

    def _curve_work(self, rate: float = 1.0) -> float:
        return SAMPLED_ORDER if 0.0 < rate < 1.0 else 0.0

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        """A sum over the integers that matter: Q(n) e^(a l(n)) is a bell about (a-1) s; 12 sigma hold all but e^-72.

        Beyond SAMPLED_TERMS the generic bound, which meets the sum at whole orders, stands.
        """
        curve, total = self._curve(orders), float(self.sensitivity * self.coordinates)
        variance = self.sigma**2 * self.coordinates
        reach = math.ceil(12 * math.sqrt(variance)) + 2 if variance < 1e12 else math.inf
        last = np.maximum(np.ceil(orders) - 1, 1.0) * total + reach
        direct = last + total + reach <= SAMPLED_TERMS
        if not _sums_alike(self.sigma, self.coordinates):
            direct[:] = False
        if not direct.all():
            curve[~direct] = np.minimum(curve[~direct], generic_subsampled_curve(self, rate, orders[~direct]))
        for i in np.flatnonzero(direct).tolist():
            n = np.arange(-total - reach, last[i] + 1)
            log_p, log_q = (-(x**2) / (2 * variance) - log_theta(math.sqrt(variance)) for x in (n, n + total))
            ratio = log_mixture_ratio(rate, (n + total / 2) * (self.sensitivity / self.sigma**2))
            found = np.empty(1)
            finite_curve(orders[i : i + 1], log_q, log_mixture(rate, log_q, log_p), ratio, found)
            curve[i] = min(curve[i], found[0])
        return curve


# --- theta functions -----------------------------------------------------------------------------------

NARROW = 0.35
"""Below this sigma theta is summed as it stands, from there on after Poisson's summation formula."""


def log_theta(sigma: float) -> float:
    """log theta(0): the normalisation of the noise."""
    if sigma < NARROW:
        return math.log1p(2 * math.fsum(math.exp(-((x / sigma) ** 2) / 2) for x in range(1, 6)))
    tail = math.fsum(math.exp(-2 * (math.pi * k * sigma) ** 2) for k in range(1, 6))
    return math.log(sigma * math.sqrt(2 * math.pi)) + math.log1p(2 * tail)


def shortfall(sigma: FloatArray, c: FloatArray) -> FloatArray:
    """log( theta(0)/theta(c) ) for |c| <= 1/2, relative to its size: sums of positive terms.

    theta(c)/theta(0) = e^{-c^2/(2 s^2)} (1 + 4 sum_{x>0} e^{-x^2/(2 s^2)} sinh(x c/(2 s^2))^2 / theta(0)), or by
    Poisson's formula 1 - 4 sum_{k>0} q^(k^2) sin(pi k c)^2 / (1 + 2 sum_{k>0} q^(k^2)), q = e^{-2 pi^2 s^2}.
    """
    narrow, wide = np.minimum(sigma, NARROW), np.maximum(sigma, NARROW)
    grown, theta = np.zeros(np.broadcast_shapes(sigma.shape, c.shape)), np.ones_like(sigma)
    lost, norm = grown.copy(), np.ones_like(sigma)
    for k in range(1, 6):
        # 4 e^{-x^2/2s^2} sinh(xc/2s^2)^2 = e^{(2xc - x^2)/2s^2} (1 - e^{-xc/s^2})^2, where 2c <= x
        grown += np.exp(k * (2 * c - k) / (2 * narrow**2)) * np.expm1(-k * c / narrow**2) ** 2
        theta += 2 * np.exp(-((k / narrow) ** 2) / 2)
        power = np.exp(-2 * (math.pi * k * wide) ** 2)
        lost += 4 * power * np.sin(math.pi * k * c) ** 2
        norm += 2 * power
    first = c**2 / (2 * narrow**2) - np.log1p(grown / theta)
    return np.asarray(np.where(sigma < NARROW, first, -np.log1p(-lost / norm)))


# --- profile -------------------------------------------------------------------------------------------

TABLE = 256
"""Standard deviations of the sum of all noise up to which the profile is tabulated at every integer."""

LARGE_TABLE = 4096
"""The same where losses are too coarse for the Euler-Maclaurin formula."""

FINE = 1 / 16
"""Loss between neighbouring integers up to which that formula is used; and how far out, in variances."""


def _sums_alike(sigma: float, m: int) -> bool:
    """Whether the sum of m discrete Gaussians is one itself, with variance m sigma^2, to a relative 1e-14 everywhere.

    P(sum = t) is e^{-t^2/(2 m s^2)} times a theta series of the lattice A_{m-1}, shifted with t; by Poisson's formula
    that is constant up to a share of sum e^{-2 pi^2 s^2 |w|^2} over the dual lattice's w != 0. These are the classes of
    Z^m modulo (1, ..., 1), |w|^2 the sum of squares about the mean. A representative x with median 0 has
    mean^2 <= variance, hence |w|^2 >= |x|^2/2, and the share is at most (sum_k e^{-pi^2 s^2 k^2})^m - 1.
    """
    return m == 1 or 2.1 * m * math.exp(-((math.pi * sigma) ** 2)) <= 1e-14


def discrete_gaussian_log_profile(sigma: float, s: int, m: int, epsilons: FloatArray) -> FloatArray:
    """Log of the profile of m coordinates that each move by s, at epsilons >= 0.

    The loss h (n + m s/2), h = s/sigma^2, depends on the sum n of all noise alone, which is symmetric.
    With v = e/h - m s/2 the profile is  sum_{n > v} P(n) (1 - e^{-(n - v) h}).

    Raises
    ------
    ProfileUnavailable
        There are several coordinates of little noise, or much noise and yet a large loss for each integer.
    """
    h, variance = s / sigma**2, m * sigma**2
    spread = math.sqrt(variance)
    tabulated = spread <= (TABLE if h <= FINE else LARGE_TABLE)
    if not _sums_alike(sigma, m):
        raise ProfileUnavailable(
            f"DiscreteGaussian with sigma = {sigma:g} and coordinates = {m} has no computed profile; accepted: 1, any "
            "number if sigma is 2.5 or more, or its curve, renyi(orders)"
        )
    if not (tabulated or h <= FINE):
        raise ProfileUnavailable(
            f"DiscreteGaussian with sensitivity/sigma^2 = {h:.3g}, where all noise together has a standard deviation "
            f"of {spread:.4g}, has no computed profile; accepted: at most {FINE:g}, or {LARGE_TABLE}"
        )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        v = epsilons / h - m * s / 2
        beyond = v > (40 * spread + 1 if tabulated else FINE * 2 * variance)
        result = np.empty_like(epsilons)
        near = (
            _from_table(variance, h, v[~beyond]) if tabulated else _from_gaussian(variance, h, s * m, epsilons[~beyond])
        )
        result[~beyond] = near
        if beyond.any():
            result[beyond] = _far_out(variance, h, v[beyond])
    return np.minimum(result, 0.0)


def _far_out(variance: float, h: float, v: FloatArray) -> FloatArray:
    """The sum itself, relative to its first term: it falls by e^(v/variance) with every integer."""
    first = np.floor(v) + 1
    result = np.full_like(v, -math.inf)
    kept = np.flatnonzero(first < 1e150 * math.sqrt(variance))  # beyond, squares overflow
    if kept.size:
        terms = math.ceil(min(45 * variance / float(first[kept].min()), 10 * math.sqrt(variance))) + 2
        k = np.arange(terms + 0.0)
        for part in np.array_split(kept, math.ceil(kept.size * terms / 1e6)):
            n, place = first[part, None], v[part, None]
            weights = np.exp(-k * (k + 2 * n) / (2 * variance)) * -np.expm1(-h * (k + (n - place)))
            result[part] = np.log(weights.sum(axis=1)) - first[part] ** 2 / (2 * variance)
    return result - log_theta(math.sqrt(variance))


class _Table(NamedTuple):
    first: int
    tails: FloatArray  # sum_{i >= n} P(i), in units of P(n) for n >= 0 and of P(0) for n < 0
    gains: FloatArray  # sum_{i >= n} P(i) (1 - e^{-(i - n) h}), likewise


@lru_cache(maxsize=16)
def _table(variance: float, h: float) -> _Table:
    spread = math.sqrt(variance)
    first, size = -math.ceil(12 * spread) - 2, math.ceil(62 * spread) + 16
    tails, gains = np.ones(size), np.zeros(size)
    fill_tails(first, variance, h, tails, gains)
    return _Table(first, tails, gains)


@Kernel
def fill_tails(first: int, variance: float, h: float, tails: FloatArray, gains: FloatArray) -> None:
    """From the far end, where one term is all: gains(n) = (1 - e^-h) tails(n+1) + e^-h gains(n+1), both positive."""
    for i in range(tails.size - 2, -1, -1):
        n = first + i
        fall = math.exp(-(2.0 * n + 1.0) / (2.0 * variance)) if n >= 0 else 1.0
        own = 1.0 if n >= 0 else math.exp(-float(n) * n / (2.0 * variance))
        tails[i] = own + fall * tails[i + 1]
        gains[i] = fall * (math.exp(-h) * gains[i + 1] - math.expm1(-h) * tails[i + 1])


def _from_table(variance: float, h: float, v: FloatArray) -> FloatArray:
    """Between integers the profile is linear in e^epsilon; what lies 12 standard deviations below 0 has no mass."""
    table = _table(variance, h)
    n = np.maximum(np.floor(v) + 1, table.first)
    at = (n - table.first).astype(int)
    away = h * (n - v)
    total = -np.expm1(-away) * table.tails[at] + np.exp(-away) * table.gains[at]
    logs: FloatArray = np.log(total) - np.maximum(n, 0.0) ** 2 / (2 * variance) - log_theta(math.sqrt(variance))
    return logs


CANCELS = 1e4
"""Standard deviations from which on the logarithms of density and profile are too large to be subtracted."""

BERNOULLI = (1.0, -1 / 2, 1 / 6, 0.0, -1 / 30, 0.0, 1 / 42, 0.0, -1 / 30, 0.0, 5 / 66, 0.0, -691 / 2730)


def _from_gaussian(variance: float, h: float, shift: int, epsilons: FloatArray) -> FloatArray:
    """The continuous Gaussian's profile less what the Euler-Maclaurin formula says the sum lacks.

    For f(x) = phi(x) (1 - e^{-(x-v) h}), f(v) = 0, and n the first integer above v (Apostol 1999, B_k(n - v) for B_k)

        sum_{i >= n} f(i) = Int_v^inf f - sum_{k=2}^12 B_k(n-v)/k! f^(k-1)(v) + R,   |R| <= 4 (2 pi)^-12 Int |f^(12)|,

    as |B_k(x)| <= 4 k!/(2 pi)^k (Lehmer 1940). The Taylor coefficients c of phi(v+y)/phi(v) and of that times e^{-h y}
    follow (k+1) c_{k+1} = -p c_k - c_{k-1}/var with p = v/var, and v/var + h; d is their difference over h. As p is at
    most 3/16, what is left out is below 1e-16 of the sum.
    """
    spread = math.sqrt(variance)
    v = epsilons / h - shift / 2
    log_gaussian = gaussian_log_profile(shift / spread, epsilons)
    away = np.floor(v) + 1 - v
    slope = v / variance
    c, before = np.ones_like(v), np.zeros_like(v)
    d, d_before = np.ones_like(v), np.zeros_like(v)
    lacking = np.zeros_like(v)
    for k in range(1, 12):
        # here d is d_k, and c is c_(k-1) at the steeper slope
        polynomial = np.zeros_like(v)  # B_(k+1) at `away`, by Horner's rule
        for j in range(k + 2):
            polynomial *= away
            polynomial += math.comb(k + 1, j) * BERNOULLI[j]
        lacking += polynomial / (k + 1) * d
        c, before = (-(slope + h) * c - before / variance) / k, c
        d, d_before = (-slope * d + c - d_before / variance) / (k + 1), d
    far = v / spread
    log_share = math.log(h / spread) - far**2 / 2 - 0.5 * math.log(2 * math.pi) - log_gaussian
    # Int phi(x) (1 - e^{-(x-v) h}) is h spread phi(far)/(far (far + h spread)), but for a share of 3/far^2
    cancels = far > CANCELS
    log_share[cancels] = np.log(far[cancels] / spread) + np.log(far[cancels] / spread + h)
    logs: FloatArray = log_gaussian + np.log1p(-np.exp(log_share) * lacking)
    return logs
