"""Noisy screening: one bit that says whether a noisy plurality passes a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from accountant.adjacency import Adjacency
from accountant.errors import integer
from accountant.events.event import Event
from accountant.events.parameters import Range
from accountant.events.registry import register
from accountant.events.screening_search import screening_curve
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import log_mixture_ratio, log_ndtr_steps

__all__ = ["DataDependentScreening", "NoisyScreening"]

Sigma = Annotated[float, Range(1e-6, 1e12, noise=True, usual=(0.05, 1e4))]
"""Standard deviation, in votes."""

Threshold = Annotated[float, Range(-1e12, 1e12, usual=(-50.0, 150.0))]


class _Pairs(NamedTuple):
    """Bernoulli pairs (P, Q), one per entry: logs of Q's two probabilities and of P/Q at both outcomes.

    They come in blocks of `block` pairs, by rising count within each.
    """

    log_pass: FloatArray
    log_fail: FloatArray
    ratio_pass: FloatArray
    ratio_fail: FloatArray
    block: int

    def reversed(self) -> _Pairs:
        """The pairs (Q, P)."""
        return _Pairs(
            self.log_pass + self.ratio_pass,
            self.log_fail + self.ratio_fail,
            -self.ratio_pass,
            -self.ratio_fail,
            self.block,
        )

    def and_also(self, other: _Pairs) -> _Pairs:
        return _Pairs(
            np.concatenate([self.log_pass, other.log_pass]),
            np.concatenate([self.log_fail, other.log_fail]),
            np.concatenate([self.ratio_pass, other.ratio_pass]),
            np.concatenate([self.ratio_fail, other.ratio_fail]),
            self.block,
        )

    def log_profile(self, epsilons: FloatArray) -> FloatArray:
        """Log of the largest P(S) - e^e Q(S) over pairs and outcomes S, at epsilons >= 0."""
        worst = np.full_like(epsilons, -math.inf)
        for log_q, ratio in ((self.log_pass, self.ratio_pass), (self.log_fail, self.ratio_fail)):
            # for e >= 0 at most one outcome gains, so none are added up
            gaining = ratio > 0
            worst_gain(epsilons, (log_q + ratio)[gaining], ratio[gaining], worst)
        return worst


class _Screening(Event):
    """Events that release one bit, passed with probability Phi((t - threshold)/sigma) at count t."""

    family: ClassVar[bool] = True
    sigma: float
    threshold: float

    def _counts(self) -> tuple[int, int]:
        """Lowest and highest count of any neighbouring pair; neighbours differ by one."""
        raise NotImplementedError

    def _pairs(self, rate: float = 1.0) -> _Pairs:
        """Pairs (with the individual, without), the individual moving the count up or down by one."""
        return _bernoulli_pairs(self.sigma, self.threshold, *self._counts(), rate)

    def _reversed_pairs(self, rate: float) -> _Pairs:
        """The same pairs, (without, with)."""
        return _reversed_bernoulli_pairs(self.sigma, self.threshold, *self._counts(), rate)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._subsampled_curve(1.0, orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = self._pairs().log_profile(epsilons)
        return both, both

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        low, high = self._counts()
        curve = np.empty_like(orders)
        screening_curve(self.sigma, self.threshold, float(low), float(high), rate, orders, curve)
        return curve

    def _subsampled_log_profile(self, rate: float, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._pairs(rate).log_profile(epsilons), self._reversed_pairs(rate).log_profile(epsilons)


@register("noisy-screening")
@dataclass(frozen=True)
class NoisyScreening(_Screening):
    """Noisy screening: tells only whether ``count + N(0, sigma^2) >= threshold``, count the plurality of votes.

    Rényi curve: the largest Bernoulli divergence
    ``1/(a-1) * log( p^a q^(1-a) + (1-p)^a (1-q)^(1-a) )`` over all feasible neighbouring counts and both
    directions (private-knn, Thm 7, corrected in accounting.md, section 2.1: every feasible pair, the
    infeasible ``(k, k+1)`` left out). Under Poisson subsampling exact for every real order: the worst pair
    ``((1-g) p_t + g p_t', p_t)`` with ``t' = t +- 1``, by joint convexity (accounting.md, section 2.1).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in votes; [1e-6, 1e12].
    threshold : float
        Votes needed to pass; [-1e12, 1e12].
    max_votes : int
        Largest possible count (k neighbours, or the number of teachers); [1, 1e7].
    min_votes : int
        Smallest possible count; [0, max_votes). Above 0 only if that many votes are always cast: under
        Poisson sampling a sample can be smaller than k.
    adjacency : Adjacency
        One record more or less, or one replaced, moves the count by at most one in either case.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    sigma: Sigma
    threshold: Threshold
    max_votes: Annotated[int, Range(1, 1e7, usual=(1, 80))]
    min_votes: Annotated[int, Range(0, 1e7, usual=(0, 20))] = 0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("min_votes", self.min_votes, 0, self.max_votes - 1)

    def _counts(self) -> tuple[int, int]:
        return self.min_votes, self.max_votes


@register("data-dependent-screening")
@dataclass(frozen=True)
class DataDependentScreening(_Screening):
    """Noisy screening priced at the count that was actually seen. The cost is itself private.

    The actual count against one more and one less, both directions (accounting.md, section 2.1, after
    private-knn, section 4.3). A guarantee built on it is marked data-dependent, and Poisson subsampling
    does not amplify it.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in votes; [1e-6, 1e12].
    threshold : float
        Votes needed to pass; [-1e12, 1e12].
    plurality : int
        The largest vote count that was seen; [0, 1e12].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    data_dependent: ClassVar[bool] = True

    sigma: Sigma
    threshold: Threshold
    plurality: Annotated[int, Range(0, 1e12)]
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _counts(self) -> tuple[int, int]:
        return max(self.plurality - 1, 0), self.plurality + 1


@lru_cache(maxsize=4)
def _bernoulli_pairs(sigma: float, threshold: float, low: int, high: int, rate: float) -> _Pairs:
    t = np.arange(low, high, dtype=float)
    x = (t - threshold) / sigma
    up_pass, up_fail = log_ndtr_steps(x, 1 / sigma)
    log_pass, log_fail = log_ndtr(x), log_ndtr(-x)
    rising = _Pairs(log_pass, log_fail, up_pass, up_fail, high - low)  # (t+1, t)
    pairs = rising.and_also(rising.reversed())
    return pairs._replace(
        ratio_pass=log_mixture_ratio(rate, pairs.ratio_pass), ratio_fail=log_mixture_ratio(rate, pairs.ratio_fail)
    )


@lru_cache(maxsize=4)
def _reversed_bernoulli_pairs(sigma: float, threshold: float, low: int, high: int, rate: float) -> _Pairs:
    return _bernoulli_pairs(sigma, threshold, low, high, rate).reversed()


@Kernel
def worst_gain(epsilons: FloatArray, log_p: FloatArray, ratio: FloatArray, worst: FloatArray) -> None:
    """Raise `worst` to the largest log of p - e^e q = p (1 - e^{e - log p/q}) over the given (p, log p/q)."""
    for i in range(epsilons.size):
        for j in range(log_p.size):
            gap = ratio[j] - epsilons[i]
            if gap > 0.0 and log_p[j] > worst[i]:
                worst[i] = max(worst[i], log_p[j] + math.log(-math.expm1(-gap)))
