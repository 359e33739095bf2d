"""Noisy screening: one bit that says whether a noisy plurality passes a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from accountant.adjacency import Adjacency
from accountant.errors import integer, real
from accountant.events.event import Event
from accountant.numerics import (
    FloatArray,
    Kernel,
    divergence_from_log_mean,
    log_mean_excess,
    log_mixture_ratio,
    log_ndtr_steps,
    logaddexp,
)

__all__ = ["DataDependentScreening", "NoisyScreening"]

SIGMAS = (1e-6, 1e12)
"""Accepted standard deviations, in votes."""


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

    def worst_curve(self, orders: FloatArray) -> FloatArray:
        curve = np.empty_like(orders)
        worst_bernoulli_curve(orders, *self, curve)
        return curve

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
        # the list holds both orderings of every two counts, so it is its own reverse
        return self._pairs().worst_curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = self._pairs().log_profile(epsilons)
        return both, both

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        return np.maximum(self._pairs(rate).worst_curve(orders), self._reversed_pairs(rate).worst_curve(orders))

    def _subsampled_log_profile(self, rate: float, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._pairs(rate).log_profile(epsilons), self._reversed_pairs(rate).log_profile(epsilons)


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
        Largest possible count (k neighbours, or the number of teachers); [1, 1e6].
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

    sigma: float
    threshold: float
    max_votes: int
    min_votes: int = 0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sigma", real("sigma", self.sigma, *SIGMAS))
        object.__setattr__(self, "threshold", real("threshold", self.threshold, -1e12, 1e12))
        object.__setattr__(self, "max_votes", integer("max_votes", self.max_votes, 1, 10**6))
        object.__setattr__(self, "min_votes", integer("min_votes", self.min_votes, 0, self.max_votes - 1))

    def _counts(self) -> tuple[int, int]:
        return self.min_votes, self.max_votes


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

    sigma: float
    threshold: float
    plurality: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sigma", real("sigma", self.sigma, *SIGMAS))
        object.__setattr__(self, "threshold", real("threshold", self.threshold, -1e12, 1e12))
        object.__setattr__(self, "plurality", integer("plurality", self.plurality, 0, 10**12))

    def _counts(self) -> tuple[int, int]:
        return max(self.plurality - 1, 0), self.plurality + 1


@lru_cache(maxsize=64)
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


@lru_cache(maxsize=64)
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


@Kernel
def log_mean_at(b: float, log_pass: float, log_fail: float, ratio_pass: float, ratio_fail: float) -> float:
    """log E_Q[phi_a/b] of one Bernoulli pair."""
    return logaddexp(log_pass + log_mean_excess(b, ratio_pass), log_fail + log_mean_excess(b, ratio_fail))


@Kernel
def worst_log_mean(
    b: float,
    log_pass: FloatArray,
    log_fail: FloatArray,
    ratio_pass: FloatArray,
    ratio_fail: FloatArray,
    start: int,
    end: int,
    worst: float,
) -> float:
    """Largest log mean over pairs start, ..., end - 1, or `worst` if that is larger, by branch and bound.

    Over a block all four arrays are monotone in the count (log-probabilities because they move with it,
    log-ratios because Phi is log-concave), and phi_a grows with the size of the log-ratio on either side of 0.
    So no pair inside exceeds the sum over outcomes of the larger weight times the larger term of its two ends.
    Blocks that could beat the best by less than the slack raise it to their bound instead of being searched:
    rounding, or with more than 20 000 counts, where flat maxima abound, a relative 1e-9.
    """
    slack = 1e-14 if end - start <= 20_000 else 1e-9
    lows = np.empty(64, np.int64)
    highs = np.empty(64, np.int64)
    lows[0], highs[0], depth = start, end - 1, 1
    while depth > 0:
        depth -= 1
        low, high = lows[depth], highs[depth]
        passed = max(log_pass[low], log_pass[high])
        failed = max(log_fail[low], log_fail[high])
        ratio = max(abs(ratio_pass[low]), abs(ratio_pass[high]))
        bound = log_mean_at(
            b,
            passed,
            failed,
            math.copysign(ratio, ratio_pass[low]),
            math.copysign(max(abs(ratio_fail[low]), abs(ratio_fail[high])), ratio_fail[low]),
        )
        if bound <= worst + slack:
            worst = max(worst, bound)  # on the safe side, by no more than the slack
            continue
        if high - low < 4:
            for j in range(low, high + 1):
                worst = max(worst, log_mean_at(b, log_pass[j], log_fail[j], ratio_pass[j], ratio_fail[j]))
            continue
        middle = (low + high) // 2
        for j in (low, middle, high):
            worst = max(worst, log_mean_at(b, log_pass[j], log_fail[j], ratio_pass[j], ratio_fail[j]))
        lows[depth], highs[depth] = low, middle
        lows[depth + 1], highs[depth + 1] = middle, high
        depth += 2
    return worst


@Kernel
def worst_bernoulli_curve(
    orders: FloatArray,
    log_pass: FloatArray,
    log_fail: FloatArray,
    ratio_pass: FloatArray,
    ratio_fail: FloatArray,
    block: int,
    curve: FloatArray,
) -> None:
    """Fill `curve` with the largest Bernoulli divergence over the pairs, at orders in [1, inf].

    Pairs come in blocks of that length, monotone in the count within each.
    """
    for i in range(orders.size):
        worst = -math.inf
        if orders[i] == math.inf:
            for j in range(log_pass.size):
                worst = max(worst, ratio_pass[j], ratio_fail[j])
            curve[i] = worst
            continue
        b = orders[i] - 1.0
        for start in range(0, log_pass.size, block):
            worst = worst_log_mean(b, log_pass, log_fail, ratio_pass, ratio_fail, start, start + block, worst)
        curve[i] = divergence_from_log_mean(b, worst)
