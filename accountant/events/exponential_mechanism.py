"""Private selection: the exponential mechanism and permute-and-flip."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import Choices, GroupLine
from accountant.events.event import Event
from accountant.events.generic_subsampling import generic_subsampled_curve
from accountant.events.laplace import Laplace
from accountant.events.laplace_maxima import LARGEST_SHIFT, LaplaceMaximum
from accountant.events.parameters import EpsilonOfNoise
from accountant.events.priced import PricedAsAnother
from accountant.events.randomized_response import PureDP
from accountant.events.registry import register
from accountant.events.two_candidates import Contest, reached_by_two
from accountant.numerics.exact import times_up
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import (
    divergence_from_log_mean,
    log_mean_excess,
    log_mean_term,
    log_mixture_ratio,
    log_mixture_ratio_at,
    logaddexp,
)

__all__ = ["ExponentialMechanism", "LargestOfLaplace", "PermuteAndFlip"]


LEAST_SHIFT = 1e-50
"""Largest losses below are priced as those of any release."""

LARGEST_SAMPLED = 600.0
"""Range up to which the worst pair of a sample is searched for; beyond, the generic bound stands."""

SAMPLED = 1e5
"""Operations (see `accountant.patience`) of that search, about."""

CHOICES = 4096
"""Cells of the range in which the largest loss may lie, in compositions."""

SHARE = 1e-13
"""How much of the worst pair's value its search may add."""

CELLS = 20_000
"""Most cells of a search; those left over count by their upper bounds."""


class BoundedRangeLike(Event):
    """Events whose losses lie in an interval of length `_range()`, wherever that interval is."""

    family: ClassVar[bool] = True

    @abstractmethod
    def _range(self) -> float:
        """Largest loss less smallest loss of any two neighbours."""

    def _curve(self, orders: FloatArray) -> FloatArray:
        curve = np.empty_like(orders)
        fill_bounded_range(self._range(), orders, curve)
        return curve

    def _curve_work(self, rate: float = 1.0) -> float:
        return SAMPLED if 0.0 < rate < 1.0 and not self._chords else super()._curve_work(rate)

    @property
    def _chords(self) -> bool:  # type: ignore[override]
        return self._range() > LARGEST_SAMPLED

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        if self._chords:
            return generic_subsampled_curve(self, rate, orders)
        curve = self._curve(orders)
        if self._range() > 0.0:
            fill_sampled_bounded_range(self._range(), rate, orders, curve)
        return np.minimum(curve, log_mixture_ratio_at(rate, self._range()))

    def _choices(self, rate: float = 1.0) -> Choices:
        # of all t in a cell, the largest loss is at its end, and the least, t - epsilon, at its beginning
        t = np.linspace(0.0, self._range(), CHOICES + 1)
        rest = t[::-1]
        up, down = (log_mixture_ratio(rate, t), -log_mixture_ratio(rate, -rest)) if rate < 1.0 else (t, rest)
        return Choices(up[1:], down[:-1], (up[:-1], down[:-1]))

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = bounded_range_log_profile(self._range(), epsilons)
        return both, both


@register("exponential-mechanism")
@dataclass(frozen=True)
class ExponentialMechanism(BoundedRangeLike):
    """Exponential mechanism: one of many candidates, each with probability proportional to ``exp(c * score)``.

    `epsilon` is 2 c times the sensitivity of the scores; if no score falls when others rise (as counts of records), c
    times it. It bounds the range of losses: the largest less the smallest (Dong, Durfee & Rogers 2020), which
    says more than pure DP. The worst of such pairs have two losses, t and t - epsilon, with 0 <= t <= epsilon; curve
    and profile are the largest over t, both attained by a mechanism. Curve::

        t - log(a (1 - e^-epsilon)/(1 - e^(-a epsilon)))/(a - 1)  with
        e^t = (a - 1) (1 - e^(-a epsilon))/(a (e^-epsilon - e^(-a epsilon)))

    and profile at 0 <= e <= epsilon::

        (1 - e^((e - epsilon)/2))^2/(1 - e^-epsilon)

    (proof: notebooks/mathematics.md, Private selection). The curve is below ``a epsilon^2/8``. On the tight route every
    mechanism of a composition may have another t, chosen after all that went before. Poisson-sampled the largest
    over t is searched for between certified ends, up to a range of 600; beyond, the generic bound stands.

    Parameters
    ----------
    epsilon : float
        Range of the losses, in nats; [0, 1e6].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        `epsilon` is not a number or out of range.
    """

    epsilon: EpsilonOfNoise
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _largest_loss(self) -> Fraction:
        return Fraction(self.epsilon)

    @classmethod
    def examples(cls) -> tuple[ExponentialMechanism, ...]:
        return (cls(1.0),)

    def _range(self) -> float:
        return self.epsilon

    def _group(self, size: int) -> Event:
        return ExponentialMechanism(times_up(size, self.epsilon), self.adjacency)


class NoisyLargest(PricedAsAnother):
    """Noisy maxima whose largest loss is `epsilon`: which of any number of scores is largest after noise is added."""

    epsilon: float

    @abstractmethod
    def _noise(self) -> str:
        """Its kind."""

    def _price(self) -> Event:
        if self.epsilon < LEAST_SHIFT:
            return PureDP(self.epsilon, self.adjacency)
        return Laplace(1.0, self.epsilon, adjacency=self.adjacency)

    def _line(self) -> GroupLine:
        return GroupLine("geometric", 1, self.epsilon)

    def _certain(self, times: int = 1) -> Event:
        return reached_by_two(Contest(self._noise(), self.epsilon), self, times) if self.epsilon > 0.0 else self


@dataclass(frozen=True)
class LargestOfLaplace(NoisyLargest):
    """Laplace noise on every score."""

    epsilon: EpsilonOfNoise
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _price(self) -> Event:
        if LEAST_SHIFT <= self.epsilon <= LARGEST_SHIFT:
            return LaplaceMaximum(self.epsilon, self.adjacency)
        return super()._price()

    def _noise(self) -> str:
        return "laplace"


@register("permute-and-flip")
@dataclass(frozen=True)
class PermuteAndFlip(NoisyLargest):
    """Permute-and-flip: candidates in random order, each taken with probability ``exp(c (score - best))``.

    The same as the noisy maximum with exponential noise of scale 1/c (Ding et al. 2021). `epsilon` is 2 c times the
    sensitivity of the scores (c times it if none falls when others rise); the release is epsilon-DP (McKenna & Sheldon
    2020). Its losses may range over more than epsilon, so the curve of the exponential mechanism does not hold. It is
    priced as Laplace noise whose largest loss is `epsilon` (proof: notebooks/mathematics.md, Noisy maxima as Laplace
    noise), of which two candidates reach the profile; in runs the lower end is what two equal ones tell
    (notebooks/mathematics.md, Prices from below).

    Parameters
    ----------
    epsilon : float
        Pure-DP parameter in nats; [0, 1e6].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        `epsilon` is not a number or out of range.
    """

    epsilon: EpsilonOfNoise
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _noise(self) -> str:
        return "exponential"

    @classmethod
    def examples(cls) -> tuple[PermuteAndFlip, ...]:
        return (cls(1.0),)


@Kernel
def log_sinh_ratio(y: float) -> float:
    """log(sinh(y)/y), y >= 0."""
    if y < 0.5:
        q = y * y
        series = 1 / 6 + q * (1 / 120 + q * (1 / 5040 + q * (1 / 362880 + q * (1 / 39916800 + q / 6227020800))))
        return math.log1p(q * series)
    return y - math.log(2.0 * y) + math.log1p(-math.exp(-2.0 * y))


@Kernel
def langevin(y: float) -> float:
    """The slope of log(sinh(y)/y), coth(y) - 1/y, y >= 0."""
    return y / 3.0 - y**3 / 45.0 + y**5 / 472.5 if y < 0.05 else 1.0 / math.tanh(y) - 1.0 / y


@Kernel
def bounded_range_divergence(a: float, epsilon: float) -> float:
    """sup over t of D_a of losses t and t - epsilon, 1 <= a <= inf.

    At the best t the value is stationary, so that a rounding of t does not matter; the sum over the two losses is then
    one of non-negative terms.
    """
    if a == math.inf or epsilon == 0.0:
        return epsilon
    b = a - 1.0
    if b * epsilon > 80.0:  # e^t = b/a e^epsilon, which may be rounded to e^epsilon; of the other loss nothing is left
        return max(epsilon - math.log1p(1.0 / b) - math.log(-a * math.expm1(-epsilon)) / b, 0.0)
    if epsilon < 1e-4:  # the difference is half of epsilon times the slope between, but for a share of epsilon^2
        t = 0.5 * epsilon * (1.0 + langevin(0.5 * (b + 0.5) * epsilon))
    else:
        t = 0.5 * epsilon + (log_sinh_ratio(0.5 * a * epsilon) - log_sinh_ratio(0.5 * b * epsilon))
    t = min(max(t, 0.0), epsilon)
    whole = math.log(-math.expm1(-epsilon))
    log_mean = -math.inf
    if t < epsilon:
        log_p = math.log(-math.expm1(t - epsilon)) - whole
        log_mean = log_mean_term(b, log_p, log_p - t, t)
    if t > 0.0:
        log_mean = logaddexp(log_mean, math.log(-math.expm1(-t)) - whole + log_mean_excess(b, t - epsilon))
    return min(divergence_from_log_mean(b, log_mean), epsilon)


@Kernel
def fill_bounded_range(epsilon: float, orders: FloatArray, curve: FloatArray) -> None:
    """Fill `curve` at orders in [1, inf]."""
    for i in range(orders.size):
        curve[i] = bounded_range_divergence(orders[i], epsilon)


def bounded_range_log_profile(epsilon: float, points: FloatArray) -> FloatArray:
    """log( (1 - e^{(e - epsilon)/2})^2/(1 - e^-epsilon) ) at e >= 0."""
    if epsilon == 0.0:
        return np.full_like(points, -math.inf)
    with np.errstate(divide="ignore"):
        logs: FloatArray = 2 * np.log(-np.expm1(np.minimum((points - epsilon) / 2, 0.0)))
    return np.minimum(logs - math.log(-math.expm1(-epsilon)), 0.0)


# --- Poisson subsampling -------------------------------------------------------------------------------


@Kernel
def fill_sampled_bounded_range(epsilon: float, rate: float, orders: FloatArray, curve: FloatArray) -> None:
    """Lower `curve`, the event's own, to that of a Poisson sample, at finite orders."""
    for i in range(orders.size):
        b = orders[i] - 1.0
        worst = worst_sampled(b, epsilon, rate, True, -math.inf)
        worst = max(worst, worst_sampled(b, epsilon, rate, False, worst))
        curve[i] = min(curve[i], divergence_from_log_mean(b, worst))


@Kernel
def log_divergence_at(b: float, u: float, rate: float, forward: bool) -> float:
    """Log of f(e^u): with r = 1 - g + g e^u, (r^a - 1 - a (r - 1))/b or, backward, (r^-b - 1 + b (r - 1))/b."""
    loss = log_mixture_ratio_at(rate, u)
    return log_mean_excess(b, loss) if forward else loss + log_mean_excess(b, -loss)


@Kernel
def corner_at(b: float, epsilon: float, rate: float, forward: bool, t: float, scale: float) -> tuple[float, ...]:
    """At v = e^-t: v, v - c, f(1/v), 1/v - 1 and v f(c/v), c = e^-epsilon; f divided by e^scale."""
    up = math.exp(log_divergence_at(b, t, rate, forward) - scale)
    down = math.exp(log_divergence_at(b, t - epsilon, rate, forward) - t - scale)
    return math.exp(-t), -math.exp(-t) * math.expm1(t - epsilon), up, math.expm1(t), down


@Kernel
def largest_on(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    """The largest of the products of chords, over a cell between two corners: a parabola."""
    start = left[1] * left[2] + left[3] * left[4]
    end = right[1] * right[2] + right[3] * right[4]
    bend = (right[1] - left[1]) * (right[2] - left[2]) + (right[3] - left[3]) * (right[4] - left[4])
    slope = end - start - bend
    best = max(start, end)
    if bend < 0.0 < slope < -2.0 * bend:
        best = max(best, start - slope * slope / (4.0 * bend))
    return best


@Kernel
def worst_sampled(b: float, epsilon: float, rate: float, forward: bool, least: float) -> float:
    """log of the largest E_Q[f(P/Q)] over pairs with losses t and t - epsilon, or up to SHARE more; at least `least`.

    With v = e^-t and c = e^-epsilon it is [(v - c) f(1/v) + (1/v - 1) v f(c/v)]/(1 - c). f is convex and least at 1, so
    f(1/v), 1/v - 1 and v f(c/v) are convex in v, and v - c is linear: all are positive and below their chords over a
    cell, which is split until the product of the chords says no more than the best corner, or than exp(`least`): where
    all pairs are worse the other way, many are nearly as bad as each other this way.
    """
    # at high orders the best t is within 1/a of an end
    scale = -math.inf
    for i in range(61):
        near = epsilon * 0.5**i
        weight = math.log(-math.expm1(-near)) - (epsilon - near)
        scale = max(scale, weight + log_divergence_at(b, epsilon - near, rate, forward))
        scale = max(scale, math.log(-math.expm1(-near)) + log_divergence_at(b, near - epsilon, rate, forward))
    whole = math.log(-math.expm1(-epsilon))
    if least + whole > scale + 600.0:
        return least
    best = math.exp(least + whole - scale)
    above = 0.0
    lefts = np.empty(CELLS + 128)
    rights = np.empty(CELLS + 128)
    waiting = 64
    for i in range(64):
        lefts[i], rights[i] = epsilon * i / 64.0, epsilon * (i + 1) / 64.0
    for _ in range(CELLS):
        if waiting == 0:
            break
        waiting -= 1
        low, high = lefts[waiting], rights[waiting]
        left = corner_at(b, epsilon, rate, forward, low, scale)
        right = corner_at(b, epsilon, rate, forward, high, scale)
        best = max(best, left[1] * left[2] + left[3] * left[4], right[1] * right[2] + right[3] * right[4])
        bound = largest_on(left, right)
        if bound <= best * (1.0 + SHARE) or high - low <= 1e-15 * high:
            above = max(above, bound)
            continue
        middle = 0.5 * (low + high)
        lefts[waiting], rights[waiting] = low, middle
        lefts[waiting + 1], rights[waiting + 1] = middle, high
        waiting += 2
    for i in range(waiting):
        left = corner_at(b, epsilon, rate, forward, lefts[i], scale)
        above = max(above, largest_on(left, corner_at(b, epsilon, rate, forward, rights[i], scale)))
    found = scale + math.log(max(best, above)) - whole
    return found if found < math.inf else math.inf
