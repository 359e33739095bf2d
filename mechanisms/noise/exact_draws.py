"""Draws of integers from 64-bit words, exactly or to within 2^-100 in total variation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import accumulate

import numpy as np

from mechanisms.arrays import Booleans, Integers, Words
from mechanisms.noise.source import Randomness

__all__ = ["DistributionTable", "below", "coins", "expm1", "logarithmic_series", "poisson"]

DIGITS = 60
"""Decimal digits of computed probabilities: the relative error of an operation is 1e-58, and 2^-128 is 3e-39."""

LARGEST_TABLE = 2**21
"""Most values of a tabulated distribution."""


def below(source: Randomness, size: int, bound: int) -> Words:
    """Exactly uniform on 0..bound-1, for bound < 2^32: words of an incomplete cell are drawn again (Lemire 2019)."""
    words, short = source.words(size), np.uint64(2**64 % bound)
    while (again := np.flatnonzero(words * np.uint64(bound) < short)).size:
        words = words.copy()
        words[again] = source.words(again.size)
    return scale_words(words, bound)


def scale_words(words: Words, bound: int) -> Words:
    """floor(word * bound / 2^64) for bound < 2^32, in 64-bit arithmetic (Lemire 2019)."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    factor = np.uint64(bound)
    return ((words >> half) * factor + (((words & low) * factor) >> half)) >> half


def coins(source: Randomness, size: int, threshold: int) -> Booleans:
    """True with probability exactly threshold / 2^64.

    A word makes four coins of 16 bits. A coin that equals the first 16 bits of the threshold draws 48 more bits.
    """
    first, rest = np.uint16(threshold >> 48), np.uint64(threshold & (2**48 - 1))
    quarters = source.words(-(-size // 4)).view(np.uint16)[:size]
    heads: Booleans = quarters < first
    ties = np.flatnonzero(quarters == first)
    heads[ties] = (source.words(ties.size) >> np.uint64(16)) < rest
    return heads


@dataclass(frozen=True, eq=False)
class DistributionTable:
    """A distribution on first, first + 1, ..., drawn by inversion.

    The table holds cumulative probabilities in units of 2^-128, as two words each. What is drawn differs from the
    tabulated distribution by at most its number of values times 2^-128 in total variation, including what is beyond
    the table (less than 2^-128).
    """

    first: int
    high: Words
    low: Words

    @classmethod
    def of(cls, probabilities: Iterator[Decimal], first: int) -> DistributionTable:
        """Tabulate until less than 2^-128 is left, which the last value gets."""
        cumulative: list[int] = []
        with localcontext() as context:
            context.prec = DIGITS
            for total in accumulate(probabilities):
                cumulative.append(int(total * 2**128))
                if cumulative[-1] >= 2**128 - 1 or len(cumulative) >= LARGEST_TABLE:
                    break
        if cumulative[-1] < 2**128 - 1:
            raise OverflowError(f"{len(cumulative)} values do not cover the distribution")
        cumulative.pop()
        words = [(value >> 64, value & (2**64 - 1)) for value in cumulative]
        high, low = np.array(words, dtype=np.uint64).reshape(-1, 2).T
        return cls(first, np.ascontiguousarray(high), np.ascontiguousarray(low))

    def draw(self, source: Randomness, size: int) -> Integers:
        """Independent draws: how many cumulative values a uniform 128-bit word reaches."""
        words = source.words(size)
        values = np.searchsorted(self.high, words, side="left")
        # second words matter only if the first words are equal, which has probability len(high) / 2^64
        last = np.searchsorted(self.high, words, side="right")
        for i in np.flatnonzero(values != last):
            second = source.words(1)[0]
            values[i] += int(np.count_nonzero(self.low[values[i] : last[i]] <= second))
        return values.astype(np.int64) + self.first


def expm1(number: Decimal) -> Decimal:
    """exp(number) - 1 to 1e-38 of itself; by its series where the difference has fewer digits."""
    if abs(number) > Decimal("1e-20"):
        return number.exp() - 1
    return number * (1 + number / 2 * (1 + number / 3))


def poisson(rate: Decimal) -> Iterator[Decimal]:
    """P(0), P(1), ... of the Poisson distribution, in the decimal precision of the caller's context."""
    probability, value = (-rate).exp(), 0
    while True:
        yield probability
        value += 1
        probability = probability * rate / value


def logarithmic_series(ratio: Decimal) -> Iterator[Decimal]:
    """P(1), P(2), ... of the logarithmic series, P(j) = -ratio^j / (j log(1 - ratio)); precision as for `poisson`.

    Fisher, Corbet & Williams 1943.
    """
    power, value = -ratio / (1 - ratio).ln(), 1
    while True:
        yield power / value
        value += 1
        power *= ratio
