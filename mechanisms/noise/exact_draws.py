"""Draws from laws on the integers by 64-bit words, exactly or to within 2^-100 in total variation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from mechanisms.noise.source import Randomness

__all__ = ["LawTable", "below", "coins", "logarithmic_series", "poisson"]

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

DIGITS = 60
"""Decimal digits in which laws are computed: relative error 1e-58 per operation, 2^-128 is 3e-39."""

LARGEST_TABLE = 2**21
"""Most values of a tabulated law."""


def below(source: Randomness, size: int, bound: int) -> Words:
    """Uniform on 0..bound-1, exactly, for bound < 2^32: words of an incomplete cell are drawn again (Lemire 2019)."""
    words, short = source.words(size), np.uint64(2**64 % bound)
    while (again := np.flatnonzero(words * np.uint64(bound) < short)).size:
        words = words.copy()
        words[again] = source.words(again.size)
    return scaled(words, bound)


def scaled(words: Words, bound: int) -> Words:
    """floor(word * bound / 2^64) for bound < 2^32, in 64-bit arithmetic (Lemire 2019)."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    factor = np.uint64(bound)
    return ((words >> half) * factor + (((words & low) * factor) >> half)) >> half


def coins(source: Randomness, size: int, threshold: int) -> NDArray[np.bool_]:
    """True with probability exactly threshold / 2^64.

    A word makes four coins of 16 bits; a coin that ties with the threshold's first 16 bits gets 48 more.
    """
    first, rest = np.uint16(threshold >> 48), np.uint64(threshold & (2**48 - 1))
    quarters = source.words(-(-size // 4)).view(np.uint16)[:size]
    heads: NDArray[np.bool_] = quarters < first
    ties = np.flatnonzero(quarters == first)
    heads[ties] = (source.words(ties.size) >> np.uint64(16)) < rest
    return heads


@dataclass(frozen=True, eq=False)
class LawTable:
    """A law on first, first + 1, ..., by inversion: cumulative probabilities in units of 2^-128, as two words.

    The law drawn differs from the one tabulated by at most its number of values times 2^-128 in total variation, what
    lies beyond the table (less than 2^-128) included.
    """

    first: int
    high: Words
    low: Words

    @classmethod
    def of(cls, probabilities: Iterator[Decimal], first: int) -> LawTable:
        """Tabulate until what is left is below 2^-128; the last value gets it."""
        cumulative: list[int] = []
        with localcontext() as context:
            context.prec = DIGITS
            for total in accumulate(probabilities):
                cumulative.append(int(total * 2**128))
                if cumulative[-1] >= 2**128 - 1 or len(cumulative) >= LARGEST_TABLE:
                    break
        if cumulative[-1] < 2**128 - 1:
            raise OverflowError(f"{len(cumulative)} values hold too little of the law")
        cumulative.pop()
        words = [(value >> 64, value & (2**64 - 1)) for value in cumulative]
        high, low = np.array(words, dtype=np.uint64).reshape(-1, 2).T
        return cls(first, np.ascontiguousarray(high), np.ascontiguousarray(low))

    def draw(self, source: Randomness, size: int) -> Integers:
        """Independent draws: the number of cumulative values that a 128-bit word is not below."""
        words = source.words(size)
        values = np.searchsorted(self.high, words, side="left")
        # only a word equal to a first word needs its second one, and that happens once in 2^64 / values
        last = np.searchsorted(self.high, words, side="right")
        for i in np.flatnonzero(values != last):
            second = source.words(1)[0]
            values[i] += int(np.count_nonzero(self.low[values[i] : last[i]] <= second))
        return values.astype(np.int64) + self.first


def poisson(rate: Decimal) -> Iterator[Decimal]:
    """P(0), P(1), ... of a Poisson law, in the caller's precision."""
    probability, value = (-rate).exp(), 0
    while True:
        yield probability
        value += 1
        probability = probability * rate / value


def logarithmic_series(ratio: Decimal) -> Iterator[Decimal]:
    """P(1), P(2), ... of the logarithmic series law: P(j) = -ratio^j / (j log(1 - ratio)) (Fisher, Corbet & Williams
    1943), likewise."""
    power, value = -ratio / (1 - ratio).ln(), 1
    while True:
        yield power / value
        value += 1
        power *= ratio
