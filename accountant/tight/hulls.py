"""Convex hulls of values at grid points: an upper bound on a convex function may be lowered to its chords."""

from __future__ import annotations

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["HULL_ROUNDING", "hull_of", "hull_of_both", "lower_to_hull"]

HULL_ROUNDING = 1e-12
"""Relative: more than a chord over at most 600 nats is rounded."""


@Kernel
def hull_of(values: FloatArray, step: float) -> FloatArray:
    """The largest function below values at x = 0, step, 2 step, ... that is convex in u = e^x."""
    found, corners, n = values.copy(), np.zeros(values.size, np.int64), 1
    for i in range(1, values.size):
        while n > 1:
            a, b = corners[n - 2], corners[n - 1]
            share = np.exp(-step * (i - b)) * np.expm1(-step * (b - a)) / np.expm1(-step * (i - a))
            if values[b] < values[a] + (values[i] - values[a]) * share:
                break
            n -= 1
        corners[n] = i
        n += 1
    for c in range(n - 1):
        a, i = corners[c], corners[c + 1]
        for b in range(a + 1, i):
            share = np.exp(-step * (i - b)) * np.expm1(-step * (b - a)) / np.expm1(-step * (i - a))
            found[b] = min(values[a] + (values[i] - values[a]) * share, values[b])
    return found


@Kernel
def hull_of_both(values: FloatArray, step: float) -> FloatArray:
    """The same of a game, W(u) = max(1 - u, 0) + V(u), of which V is given in both directions.

    Axes of `values` are (direction, i): V at u = e^(i step), and V of the game with both data sets exchanged, whose W
    is u W(1/u): a chord of the one is a chord of the other.
    """
    found, last = values.copy(), values.shape[1] - 1
    found[0, 0] = found[1, 0] = min(values[0, 0], values[1, 0])
    right, left = found[0].copy(), found[1].copy()
    corners, n = np.zeros(2 * last + 1, np.int64), 0
    for i in range(-last, last + 1):
        while n > 1:
            b = corners[n - 1]
            if (right[b] if b >= 0 else left[-b]) < _chord(right, left, step, corners[n - 2], b, i):
                break
            n -= 1
        corners[n] = i
        n += 1
    for k in range(n - 1):
        for b in range(corners[k] + 1, corners[k + 1]):
            value = _chord(right, left, step, corners[k], b, corners[k + 1])
            if b >= 0:
                found[0, b] = min(found[0, b], value)
            if b <= 0:
                found[1, -b] = min(found[1, -b], value)
    return found


@Kernel
def _chord(right: FloatArray, left: FloatArray, step: float, a: int, b: int, c: int) -> float:
    """V at place b of a chord of W from place a to c; at b < 0 that of the game with both data sets exchanged."""
    if b < 0:
        right, left, a, b, c = left, right, -c, -b, -a
    start = right[a] if a >= 0 else np.exp(step * a) * left[-a]
    share = np.exp(-step * (c - b)) * np.expm1(-step * (b - a)) / np.expm1(-step * (c - a))
    value = start + (right[c] - start) * share
    if a < 0:  # what a chord of max(1 - u, 0) is above it
        value -= (1 - share) * np.expm1(step * a)
    return float(value)


def lower_to_hull(upper: FloatArray, step: float) -> FloatArray:
    """Upper bounds on V, lowered to the largest convex W below them: that of a game is convex, and so below that one.

    Neighbours share covers, so that values have steps where one ends: a pair with that profile would be too large.
    """
    found = hull_of_both(upper, step) * (1 + HULL_ROUNDING)
    # what is the same in both directions stays so: one of them is priced then
    return np.maximum(found, found[::-1]) if np.array_equal(upper[0], upper[1]) else found
