"""(epsilon, delta)-DP as an event: all that is known of a release is one point of its privacy profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import GivenFinite, GroupLine
from accountant.events.event import Event
from accountant.events.finite_pairs import FinitePair
from accountant.events.parameters import EpsilonOfNoise, Range
from accountant.events.randomized_response import PureDP, bernoulli_log_profile
from accountant.events.registry import register
from accountant.events.sampled_groups import ChainOfApproximateDP
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_mixture, log_mixture_ratio

__all__ = ["ApproximateDP"]

DeltaOfNoise = Annotated[float, Range(1e-300, 0.999999, zero=True)]


@register("approximate-dp")
@dataclass(frozen=True)
class ApproximateDP(Event):
    """Any (epsilon, delta)-DP release, priced by the pair that dominates all of them.

    With probability `delta` it tells which of the two inputs it had, otherwise it is randomized response at `epsilon`
    (Kairouz, Oh & Viswanath 2015, Thm 3.4). Profile at e: ``delta + (1 - delta) (e^epsilon - e^e)_+/(1 + e^epsilon)``.
    The Rényi curve is infinite at every order unless `delta` is 0; compositions, Poisson-sampled ones too, have a price
    on the tight route: n releases lose ``1 - (1 - delta)**n`` for certain, and the rest is a binomial (their Thm 3.3).

    Parameters
    ----------
    epsilon : float
        In nats; [0, 1e6].
    delta : float
        0, or [1e-300, 0.999999].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    epsilon: EpsilonOfNoise
    delta: DeltaOfNoise
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    @classmethod
    def examples(cls) -> tuple[ApproximateDP, ...]:
        return (cls(0.5, 1e-6),)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return np.full_like(orders, math.inf) if self.delta > 0.0 else PureDP(self.epsilon)._curve(orders)

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        if self.delta > 0.0:
            return np.full_like(orders, math.inf)
        return PureDP(self.epsilon)._subsampled_curve(rate, orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = bernoulli_log_profile(self.epsilon, 1, epsilons)
        if self.delta > 0.0:
            both = np.logaddexp(math.log(self.delta), math.log1p(-self.delta) + both)
        return both, both

    def _profile_knots(self) -> Sequence[float]:
        return (self.epsilon,)

    def _group(self, size: int) -> Event:
        return ChainOfApproximateDP(self.epsilon, self.delta, size, self.adjacency)

    def _line(self) -> GroupLine | None:
        return GroupLine("geometric", 1, self.epsilon) if self.delta == 0.0 else None

    def _given_finite(self) -> GivenFinite | None:
        if self.delta == 0.0:
            return None
        return GivenFinite((PureDP(self.epsilon, self.adjacency),), 1, math.log1p(-self.delta), lost=self.delta)

    def _subsampled_given_finite(self, rate: float) -> GivenFinite | None:
        """Only the mixture can be told for certain: it has rate * delta where the other distribution has nothing."""
        if self.delta == 0.0:
            return None
        part = ToldApart(self.epsilon, self.delta, rate, self.adjacency)
        return GivenFinite((part,), 1, math.log1p(-rate * self.delta), 0.0)


@dataclass(frozen=True)
class ToldApart(Event):
    """A Poisson-sampled (epsilon, delta)-DP release given that its loss is finite.

    Q has (1-d) r, (1-d) p and d, with p/r = e^epsilon; the mixture (1-g) Q + g P is Q times 1 - g + g e^epsilon,
    1 - g + g e^-epsilon and 1 - g there, and has g d where Q has nothing, that is 1 - g d in all that counts here.
    """

    epsilon: EpsilonOfNoise
    delta: DeltaOfNoise
    rate: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _pair(self) -> FinitePair:
        likely = -math.log1p(math.exp(-self.epsilon))
        kept = math.log1p(-self.delta)
        log_q = np.array([math.log(self.delta), kept + likely, kept + likely - self.epsilon])
        log_p = np.array([math.log(self.delta) + math.log1p(-self.rate), 0.0, 0.0])
        log_p[1:] = log_mixture(self.rate, log_q[1:], log_q[:0:-1])
        inner = log_mixture_ratio(self.rate, np.array([-self.epsilon, self.epsilon]))
        log_finite = math.log1p(-self.rate * self.delta)
        losses = np.array([math.log1p(-self.rate), *inner.tolist()]) - log_finite
        return FinitePair(log_p - log_finite, log_q, losses)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._pair().curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._pair().log_profile(epsilons)

    def _profile_knots(self) -> Sequence[float]:
        return sorted({abs(float(loss)) for loss in self._pair().losses} - {0.0})
