"""The pairs of two-point distributions that a noisy screening may show, one for every count and neighbour."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.events.answers import Choices
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.scipy_special import log_ndtr
from accountant.numerics.special import log_mixture, log_mixture_ratio, log_ndtr_steps
from accountant.patience import spend

__all__ = ["Pairs", "Screening"]

PAIR = 1000.0
"""Operations (see `accountant.patience`) that the pairs of one count take."""


FEW = 512
"""Counts up to which the pairs of many screenings are kept."""

MOST = 2**17
"""Counts that a game tells apart."""

NEAR = 40.0
"""Standard deviations from the threshold beyond which all counts are one block."""


class Screening(NamedTuple):
    """One bit, 1 with probability Phi((t - threshold)/sigma) at count t.

    `low` and `high` are the lowest and the highest count of any neighbouring pair; neighbours differ by one.
    """

    sigma: float
    threshold: float
    low: int
    high: int

    def pairs(self, rate: float) -> Pairs:
        """Pairs (with the individual, without) under Poisson subsampling, 0 < rate <= 1.

        First those in which the individual moves the count up, by rising count, then those in which it moves it down.
        """
        self.spend_on_pairs(rate)
        return _pairs(self, rate)

    def spend_on_pairs(self, rate: float) -> None:
        """Count the work of `pairs`, once in a price."""
        spend(PAIR * (self.high - self.low), f"the pairs of {self.high - self.low} counts", once=(self, rate))

    def reversed_pairs(self, rate: float) -> Pairs:
        """The same pairs, (without, with)."""
        self.spend_on_pairs(rate)
        return _reversed_pairs(self, rate)

    def choices(self, rate: float) -> Choices:
        """Log-ratios of pairs that dominate all of them; of blocks of counts, where they are very many."""
        if self.high - self.low <= MOST:
            return self.pairs(rate).choices()
        spend(PAIR * (MOST + 2), f"the pairs of {MOST} blocks of counts", once=(self, rate))
        return _block_choices(self, rate)

    @property
    def counts(self) -> NDArray[np.int64]:
        """The count without the individual, for each of `pairs`."""
        return np.concatenate([np.arange(self.low, self.high), np.arange(self.low + 1, self.high + 1)])

    @property
    def steps(self) -> NDArray[np.int64]:
        """By how much the individual moves the count, for each of `pairs`: 1 or -1."""
        return np.repeat([1, -1], self.high - self.low)


class Pairs(NamedTuple):
    """Bernoulli pairs (P, Q), one per entry: logs of Q's two probabilities, of P/Q at both outcomes, and of P's two."""

    log_pass: FloatArray
    log_fail: FloatArray
    ratio_pass: FloatArray
    ratio_fail: FloatArray
    moved_pass: FloatArray
    moved_fail: FloatArray

    def reversed(self) -> Pairs:
        """The pairs (Q, P)."""
        return Pairs(self.moved_pass, self.moved_fail, -self.ratio_pass, -self.ratio_fail, self.log_pass, self.log_fail)

    def choices(self) -> Choices:
        """Log-ratios, whichever outcome has the larger."""
        ratios = np.stack([self.ratio_pass, self.ratio_fail])
        return Choices(ratios.max(axis=0), -ratios.min(axis=0))

    def and_also(self, other: Pairs) -> Pairs:
        """These pairs, then the others."""
        return Pairs(*(np.concatenate(both) for both in zip(self, other, strict=True)))

    def log_profile(self, epsilons: FloatArray) -> FloatArray:
        """Log of the largest P(S) - e^e Q(S) over pairs and outcomes S, at epsilons >= 0."""
        worst = np.full_like(epsilons, -math.inf)
        for log_p, ratio in ((self.moved_pass, self.ratio_pass), (self.moved_fail, self.ratio_fail)):
            # for e >= 0 at most one outcome gains, so none are added up
            gaining = ratio > 0
            worst_gain(epsilons, log_p[gaining], ratio[gaining], worst)
        return worst


def _pairs(screening: Screening, rate: float) -> Pairs:
    return (_many_pairs if screening.high - screening.low > FEW else _few_pairs)(screening, rate)


@lru_cache(maxsize=256)
def _few_pairs(screening: Screening, rate: float) -> Pairs:
    """Runs have many kinds, and each step of their price asks for the pairs of all of them."""
    return _make_pairs(screening, rate)


@lru_cache(maxsize=4)
def _many_pairs(screening: Screening, rate: float) -> Pairs:
    return _make_pairs(screening, rate)


def _make_pairs(screening: Screening, rate: float) -> Pairs:
    sigma = screening.sigma
    x = (np.arange(screening.low, screening.high + 1, dtype=float) - screening.threshold) / sigma
    up_pass, up_fail = log_ndtr_steps(x[:-1], 1 / sigma)
    passed, failed = log_ndtr(x), log_ndtr(-x)
    rising = Pairs(passed[:-1], failed[:-1], up_pass, up_fail, passed[1:], failed[1:])  # (t+1, t)
    pairs = rising.and_also(rising.reversed())
    if rate == 1.0:
        return pairs
    return pairs._replace(
        ratio_pass=log_mixture_ratio(rate, pairs.ratio_pass),
        ratio_fail=log_mixture_ratio(rate, pairs.ratio_fail),
        moved_pass=log_mixture(rate, pairs.log_pass, pairs.moved_pass),
        moved_fail=log_mixture(rate, pairs.log_fail, pairs.moved_fail),
    )


@lru_cache(maxsize=4)
def _block_choices(screening: Screening, rate: float) -> Choices:
    """One pair above those of each block of counts: the ratio of passing falls in the count, that of failing rises.

    Played is the pair in the middle of the block (notebooks/mathematics.md, Screening game).
    """
    sigma, threshold, low, high = screening
    both: list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]] = []
    for sign, bottom, last in ((1.0, low, high - 1), (-1.0, -high, -low - 1)):
        near = (min(max(math.floor(sign * threshold + way * NEAR * sigma), bottom), last + 1) for way in (-1, 1))
        first, beyond = near
        width = max(1, -(-(beyond - first) // MOST))
        starts = np.unique(np.concatenate([[bottom], np.arange(first, beyond, width), [min(beyond, last)]]))
        ends = np.append(starts[1:] - 1, last)
        up, down = _ratios(sigma, sign * threshold, starts, ends, rate)
        middles = (starts + ends) // 2
        both.append((up, down, *_ratios(sigma, sign * threshold, middles, middles, rate)))
    up, down, *played = (np.concatenate(parts) for parts in zip(*both, strict=True))
    # a pair of the mirrored screening is one that passes less often
    return Choices(up, down, (played[0], played[1]))


def _ratios(
    sigma: float, threshold: float, passing: NDArray[np.int64], failing: NDArray[np.int64], rate: float
) -> tuple[FloatArray, FloatArray]:
    """Log-ratios of passing at some counts, and of failing at others, in absolute value."""
    up, _ = log_ndtr_steps((passing.astype(float) - threshold) / sigma, 1 / sigma)
    _, down = log_ndtr_steps((failing.astype(float) - threshold) / sigma, 1 / sigma)
    return (up, -down) if rate == 1.0 else (log_mixture_ratio(rate, up), -log_mixture_ratio(rate, down))


@lru_cache(maxsize=4)
def _reversed_pairs(screening: Screening, rate: float) -> Pairs:
    return _pairs(screening, rate).reversed()


@Kernel
def worst_gain(epsilons: FloatArray, log_p: FloatArray, ratio: FloatArray, worst: FloatArray) -> None:
    """Raise `worst` to the largest log of p - e^e q = p (1 - e^{e - log p/q}) over the given (p, log p/q)."""
    for i in range(epsilons.size):
        for j in range(log_p.size):
            gap = ratio[j] - epsilons[i]
            if gap > 0.0 and log_p[j] > worst[i]:
                worst[i] = max(worst[i], log_p[j] + math.log(-math.expm1(-gap)))
