"""Poisson sampling: every record joins a sample independently."""

from __future__ import annotations

import math

import numpy as np

from mechanisms.arrays import Integers
from mechanisms.noise.source import Randomness

__all__ = ["poisson_sample"]


def poisson_sample(n: int, rate: float, source: Randomness) -> Integers:
    """Sorted indices out of range(n), each included independently with probability `rate`.

    Only the gaps between included indices are drawn, which are geometric: P[gap > j] = (1 - rate)^j.
    """
    if rate >= 1.0:
        return np.arange(n)
    if rate <= 0.0 or n == 0:
        return np.empty(0, np.int64)
    parts = []
    last = -1
    while last < n:
        expected = rate * (n - last)
        size = int(expected + 4 * math.sqrt(expected) + 8)
        # the smallest g >= 1 with (1 - rate)^g < u, capped before the conversion to integers overflows
        gaps = np.minimum(np.floor(np.log(source.uniform(size)) / math.log1p(-rate)) + 1, n + 1.0)
        positions = last + np.cumsum(gaps.astype(np.int64))
        parts.append(positions)
        last = int(positions[-1])
    found = np.concatenate(parts)
    return found[: np.searchsorted(found, n)]
