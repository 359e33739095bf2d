"""Laws of how many ticks screenings take (notebooks/mathematics.md, Many kinds of screening)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray
from accountant.tight.clock_references import Clock

__all__ = ["DEPTH", "ULP", "Law", "law_of", "law_work", "least_chance"]

ULP = 2.0**-53

DEPTH = 25.0
"""Nats below delta down to which losses and ticks are told apart."""

PRODUCT, CONVOLUTION = 0.6, 2e4
"""The same of a product of two chances, and of a convolution beside these."""


class Law(NamedTuple):
    """Chances of `first`, `first` + 1, ... ticks, and of more than these; rounded up, and ticks never rounded down."""

    first: int
    chances: FloatArray
    beyond: float

    def plus(self, other: Law, lost: float) -> Law:
        """Of the sum of two independent numbers; what is less likely than `lost` at either end is not told apart."""
        sums = np.convolve(self.chances, other.chances)
        sums *= 1 + 2 * (min(self.chances.size, other.chances.size) + 2) * ULP
        below, above = np.cumsum(sums), np.cumsum(sums[::-1])[::-1]
        start = min(int(np.sum(below <= lost)), sums.size - 1)
        stop = max(int(np.sum(above > lost)), start + 1)
        kept = sums[start:stop].copy()
        kept[0] += float(np.sum(sums[:start])) * (1 + sums.size * ULP)
        beyond = (self.beyond + other.beyond + float(np.sum(sums[stop:]))) * (1 + sums.size * ULP + 8 * ULP)
        return Law(self.first + other.first + start, kept, beyond)

    def times(self, count: int, lost: float) -> Law:
        """Of the sum of so many."""
        found, power = None, self
        while True:
            if count & 1:
                found = power if found is None else found.plus(power, lost)
            count >>= 1
            if count == 0:
                assert found is not None
                return found
            power = power.plus(power, lost)

    def less(self, ticks: int, least: int) -> Law:
        """Of so many ticks less, but of at least so many."""
        first = self.first - ticks
        if first >= least:
            return self._replace(first=first)
        cut = min(least - first, self.chances.size - 1)
        kept = self.chances[cut:].copy()
        kept[0] += float(np.sum(self.chances[:cut])) * (1 + self.chances.size * ULP)
        return self._replace(first=least, chances=kept)


def law_of(clock: Clock, lost: float) -> Law:
    """Of the ticks that all screenings take."""
    ticks, found = clock.ticks, Law(0, np.ones(1), 0.0)
    for rung in sorted(set(clock.rungs)):
        # how many of a rung take the larger reference: the law is `apart` times as wide as that of their number
        low, high = rung
        larger, smaller, apart = Law(0, np.ones(1), 0.0), 0, ticks[high] - ticks[low]
        for kind, at, share in zip(clock.kinds, clock.rungs, clock.shares, strict=True):
            if at == rung:
                larger = larger.plus(Law(0, np.array([1 - share, share]), 0.0).times(kind.times, lost), lost)
                smaller += kind.times * ticks[low]
        chances = np.zeros((larger.chances.size - 1) * apart + 1)
        chances[::apart] = larger.chances
        found = found.plus(Law(smaller + larger.first * apart, chances, larger.beyond), lost)
    return found


def law_work(clock: Clock, log_delta: float) -> float:
    """Operations of the law of all ticks, by arithmetic alone: of products of all pairs of chances."""
    depth = -math.log(least_chance(log_delta))
    ticks, found, whole = clock.ticks, 0.0, 0.0
    for rung in sorted(set(clock.rungs)):
        apart, number, variance, width = ticks[rung[1]] - ticks[rung[0]], 0, 0.0, 1.0
        for kind, at, share in zip(clock.kinds, clock.rungs, clock.shares, strict=True):
            if at == rung:
                own = _width(kind.times, kind.times * share * (1 - share), depth)
                # squares of widths that double with the number, and products of these
                found += CONVOLUTION * 2 * math.log2(2 * kind.times) + PRODUCT * own * (4 * own + width)
                number, variance = number + kind.times, variance + kind.times * share * (1 - share)
                width = _width(number, variance, depth)
        found += CONVOLUTION + PRODUCT * whole * width * apart
        whole += width * apart
    return found


def least_chance(log_delta: float) -> float:
    """Chances that are not told apart."""
    return math.exp(max(log_delta - DEPTH, -700.0))


def _width(number: float, variance: float, depth: float) -> float:
    """Places where a sum of so many indicators is that likely."""
    # Bernstein's inequality
    return min(number, 2 * (depth / 3 + math.sqrt(depth**2 / 9 + 2 * depth * variance))) + 1.0
