"""Private selection: the exponential mechanism and permute-and-flip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.event import Event
from accountant.events.parameters import EpsilonOfNoise
from accountant.events.randomized_response import BernoulliLike
from accountant.events.registry import register
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import divergence_from_log_mean, log_mean_excess, logaddexp

__all__ = ["ExponentialMechanism", "PermuteAndFlip"]


class BoundedRangeLike(Event):
    """Events whose losses lie in an interval of length `_range()`, wherever that interval is."""

    family: ClassVar[bool] = True

    def _range(self) -> float:
        """Largest loss less smallest loss of any two neighbours."""
        raise NotImplementedError

    def _curve(self, orders: FloatArray) -> FloatArray:
        curve = np.empty_like(orders)
        fill_bounded_range(self._range(), orders, curve)
        return curve

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = bounded_range_log_profile(self._range(), epsilons)
        return both, both


@register("exponential-mechanism")
@dataclass(frozen=True)
class ExponentialMechanism(BoundedRangeLike):
    """Exponential mechanism: one of many candidates, each with probability proportional to ``exp(c * score)``.

    `epsilon` is 2 c times the sensitivity of the scores; if no score falls when others rise (as counts of records), c
    times it. It bounds the range of losses: the largest less the smallest (Dong, Durfee & Rogers 2020, Def. 3.1), which
    says more than pure DP. The worst of such pairs have two losses, t and t - epsilon, with 0 <= t <= epsilon; curve
    and profile are the largest over t, both attained by a mechanism:

        curve:    t - log(a (1 - e^-epsilon)/(1 - e^(-a epsilon)))/(a - 1),
                  e^t = (a - 1) (1 - e^(-a epsilon))/(a (e^-epsilon - e^(-a epsilon))),
        profile:  (1 - e^((e - epsilon)/2))^2/(1 - e^-epsilon)  at  0 <= e <= epsilon

    (proof: notebooks/mathematics.md, Private selection). The curve is below ``a epsilon^2/8``. Compositions are priced
    by the curve: the worst t differs with what is asked. Poisson-sampled by the sharper of the generic bound and the
    integral over the profile.

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

    @classmethod
    def examples(cls) -> tuple[ExponentialMechanism, ...]:
        return (cls(1.0),)

    def _range(self) -> float:
        return self.epsilon

    def _profile_knots(self) -> Sequence[float]:
        return ()


@register("permute-and-flip")
@dataclass(frozen=True)
class PermuteAndFlip(BernoulliLike):
    """Permute-and-flip: candidates in random order, each taken with probability ``exp(c (score - best))``.

    The same as the noisy maximum with exponential noise of scale 1/c (Ding et al. 2021). `epsilon` is 2 c times the
    sensitivity of the scores (c times it if none falls when others rise); the release is epsilon-DP (McKenna & Sheldon
    2020, Thm 1). Its losses may range over more than epsilon, so the curve of the exponential mechanism does not hold;
    it is priced as any epsilon-DP release. Two candidates whose order turns have the total variation
    ``1 - e^(-epsilon/2)``, nearly that of the price, ``tanh(epsilon/2)``.

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

    @classmethod
    def examples(cls) -> tuple[PermuteAndFlip, ...]:
        return (cls(1.0),)

    def _bits(self) -> int:
        return 1


@Kernel
def log_sinh_ratio(y: float) -> float:
    """log(sinh(y)/y), y >= 0."""
    if y < 0.5:
        q = y * y
        series = 1 / 6 + q * (1 / 120 + q * (1 / 5040 + q * (1 / 362880 + q * (1 / 39916800 + q / 6227020800))))
        return math.log1p(q * series)
    return y - math.log(2.0 * y) + math.log1p(-math.exp(-2.0 * y))


@Kernel
def bounded_range_divergence(a: float, epsilon: float) -> float:
    """sup over t of D_a of losses t and t - epsilon, 1 <= a <= inf.

    At the best t the value is stationary, so that a rounding of t does not matter; the sum over the two losses is then
    one of non-negative terms.
    """
    if a == math.inf or epsilon == 0.0:
        return epsilon
    b = a - 1.0
    if b * epsilon > 80.0:
        t = epsilon - math.log1p(1.0 / b)
    else:
        t = 0.5 * epsilon + (log_sinh_ratio(0.5 * a * epsilon) - log_sinh_ratio(0.5 * b * epsilon))
    t = min(max(t, 0.0), epsilon)
    whole = math.log(-math.expm1(-epsilon))
    log_mean = -math.inf
    if t < epsilon:
        log_mean = math.log(-math.expm1(t - epsilon)) - t - whole + log_mean_excess(b, t)
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
