"""How much shuffling hides one randomized bit: the worst of all inputs of the others.

Shuffled bits are their sum. Let C be that of the others' reports, f its probabilities and F its distribution function,
p = 1/(1 + e^epsilon), and m the number of others whose input is 1, of n - 1. Where the changed user's is 0 or 1,

    P0(s) = (1 - p) f(s) + p f(s - 1),    P1(s) = p f(s) + (1 - p) f(s - 1).

C is a sum of independent bits, so f(s - 1)/f(s) rises and P0/P1 falls, and with u = e^point >= 1

    H(u) = max over s of P0(S <= s) - u P1(S <= s) = max over s of a f(s) - (u - 1) F(s - 1),   a = 1 - p - u p.

The other direction has m and n - 1 - m exchanged. With fewer others of both inputs H is no smaller, as the rest may be
told: so all m from one number to another are below those whose fewer inputs are the least of both among them. Proofs:
notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from accountant.events.blanket import log_pmfs
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.patience import spend

__all__ = ["log_single_bit_delta", "may_go_through", "work_of_laws"]

MOST_FLIPPED = 300.0
"""Flipped reports, in the mean, up to which all inputs are gone through: beyond, slots cost little."""

SHARE = 0.02
"""Of the rarer input: how many numbers of others with it are looked at together."""

LEAST = 1e-26
"""What is added for counts beyond the ends of what is looked at: more than their probability."""

FAR = 62.0
"""Log of one over the probability, by Bernstein's inequality, of counts beyond either end of a binomial law."""

ROUNDING, SLACK = 2e-15, 1e-9
"""Of the local epsilon: what points may be off by. Of either term, relatively: for rounding."""

PAIR = 1e4
"""Operations of a pair of numbers of others, besides those of its convolution."""

WHAT = "bounds on shuffled bits"


def may_go_through(epsilon: float, users: int) -> bool:
    """Whether all inputs of the others are gone through: where few reports are flipped."""
    return users > 1 and users * chance_to_flip(epsilon) <= MOST_FLIPPED


def chance_to_flip(epsilon: float) -> float:
    """The probability p that a bit is flipped."""
    return math.exp(-epsilon) / (1.0 + math.exp(-epsilon))


def log_single_bit_delta(epsilon: float, users: int, point: float) -> float:
    """Log of an upper bound on H(e^point), 0 <= point < epsilon, of one changed report beside users - 1 others.

    It is the largest over all inputs of the others, but for those that are looked at together, and `LEAST`.
    """
    chances, below = laws_of_sums(epsilon, users)
    spend(2.0 * chances.size, WHAT)
    point -= ROUNDING * epsilon
    # a = (1 - p) (1 - e^(point - epsilon))
    kept = -math.expm1(point - epsilon) / (1.0 + math.exp(-epsilon))
    most = largest_difference(kept * (1.0 + SLACK), max(math.expm1(point), 0.0) * (1.0 - SLACK), chances, below)
    return math.log(most + LEAST)


@Kernel
def largest_difference(first: float, second: float, chances: FloatArray, below: FloatArray) -> float:
    """The largest of first f(s) - second F(s - 1)."""
    most = 0.0
    for s in range(chances.size):
        most = max(most, first * chances[s] - second * below[s])
    return most


@lru_cache(maxsize=2)
def laws_of_sums(epsilon: float, users: int) -> tuple[FloatArray, FloatArray]:
    """f(s) and F(s - 1) for all numbers of others with either input, one after the other; see `work_of_laws`."""
    p, pairs = chance_to_flip(epsilon), list(fewest(users - 1))
    laws = {number: binomial_law(number, p) for number in sorted({number for pair in pairs for number in pair})}
    # as many zeros as are flipped, and fewer ones
    chances = [np.convolve(laws[zeros], laws[ones][::-1]) for zeros, ones in pairs]
    return np.concatenate(chances), np.concatenate([np.append(0.0, np.cumsum(each)[:-1]) for each in chances])


def work_of_laws(epsilon: float, users: int) -> float:
    """About how many operations these take, which are not counted there: once for all points."""
    p = chance_to_flip(epsilon)
    sizes = [(counts_of(zeros, p).size, counts_of(ones, p).size) for zeros, ones in fewest(users - 1)]
    return float(sum(zeros * ones + PAIR for zeros, ones in sizes))


def fewest(others: int) -> Iterator[tuple[int, int]]:
    """Pairs of fewest zeros and ones among others such that any numbers of them are above one pair, and near it."""
    ones = 0
    while ones <= others:
        most = ones + int(SHARE * min(ones, others - ones))
        yield others - most, ones
        ones = most + 1


def binomial_law(number: int, p: float) -> FloatArray:
    """Probabilities of how many of so many bits are flipped, between ends that are passed seldom."""
    counts = counts_of(number, p)
    found = np.empty(counts.size)
    log_pmfs(np.full(counts.size, float(number)), counts, p, found)
    return np.exp(found)


def counts_of(number: int, p: float) -> FloatArray:
    """All counts from y below the mean to x above: FAR = x^2/(2 (mean + x/3)) = y^2/(2 mean)."""
    mean = number * p
    above = FAR / 3 + math.sqrt((FAR / 3) ** 2 + 2 * FAR * mean)
    first = max(math.floor(mean - math.sqrt(2 * FAR * mean)), 0)
    return np.arange(first, min(math.ceil(mean + above), number) + 1.0)
