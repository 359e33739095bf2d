"""Bounds on a privacy profile between points where it is known: it falls, and is convex in e^epsilon."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray

Places = NDArray[np.intp]

__all__ = ["bound_between"]

SPARE = 1e-12
"""Share of their terms by which sums here may err: a few roundings, and exponentials of at most 710."""

LEAST = 2e-323
"""What they may err by where their terms are next to the least floats."""

FURTHER = 4
"""Known points beyond the nearest one on either side through which lines are drawn."""


def bound_between(
    epsilons: FloatArray, lower: FloatArray, upper: FloatArray, known: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds on a profile at all of some points, from those where it is known.

    With u = e^epsilon the profile H is convex in u and falls: it lies below the polygon through upper bounds, and above
    every line through two points, beyond both. With u < u_1 < u_2 or u_2 < u_1 < u,
    H(u) >= (1 + r) H(u_1) - r H(u_2), r = (u - u_1)/(u_1 - u_2) (notebooks/mathematics.md, Many points of a curve).

    Parameters
    ----------
    epsilons : array of shape (n,)
        Rising, in [0, inf).
    lower, upper : array of shape (n,)
        Bounds at each, at worst 0 and 1.
    known : array of shape (n,) of bool
        Where lines are drawn through.

    Returns
    -------
    lower, upper : array of shape (n,)
        Never wider than those given.
    """
    places = np.flatnonzero(known)
    if not places.size:
        return lower, upper
    high = np.minimum(upper, _polygon(epsilons, epsilons[places], upper[places]))
    high = np.minimum.accumulate(high)
    at, low_at, high_at = epsilons[places], lower[places], high[places]
    low = lower.copy()
    for side in (1, -1):
        near = np.searchsorted(at, epsilons, "left") if side > 0 else np.searchsorted(at, epsilons, "right") - 1
        for further in range(1, FURTHER + 1):
            far = near + side * further
            inside = ((far < at.size) if side > 0 else (far >= 0)).nonzero()[0]
            one, two = near[inside], far[inside]
            r = _ratio(epsilons[inside], at[one], at[two])
            with np.errstate(over="ignore", invalid="ignore"):
                kept, lost = (1 + r) * low_at[one], r * high_at[two]
                line = kept * (1 - SPARE) - lost * (1 + SPARE) - LEAST
            low[inside] = np.maximum(low[inside], np.where(np.isfinite(line), line, 0.0))
    low = np.maximum.accumulate(low[::-1])[::-1]
    return np.minimum(low, high), high


def _polygon(epsilons: FloatArray, at: FloatArray, upper: FloatArray) -> FloatArray:
    """The largest convex function that is nowhere above these bounds at these points, infinite outside them."""
    corners: list[int] = []
    for i in range(at.size):
        while len(corners) > 1:
            last, this = np.array(corners[-1:]), np.array([i])
            if upper[last[0]] < _chord(at[last], at, upper, np.array(corners[-2:-1]), this)[0]:
                break
            corners.pop()
        corners.append(i)
    left = np.clip(np.searchsorted(at[corners], epsilons, "right") - 1, 0, max(len(corners) - 2, 0))
    one, two = np.array(corners)[left], np.array(corners)[np.minimum(left + 1, len(corners) - 1)]
    inside = (epsilons >= at[0]) & (epsilons <= at[-1])
    found = np.where(epsilons > at[-1], upper[-1], np.inf)
    chord = _chord(epsilons[inside], at, upper, one[inside], two[inside])
    nothing = (upper[one[inside]] == 0.0) & (upper[two[inside]] == 0.0)  # else the line may underflow
    found[inside] = np.where(nothing, 0.0, chord * (1 + SPARE) + LEAST)
    return found


def _chord(epsilon: FloatArray, at: FloatArray, upper: FloatArray, one: Places, two: Places) -> FloatArray:
    """The line in e^epsilon through two points, at a point between them."""
    gap = at[two] - at[one]
    with np.errstate(invalid="ignore", divide="ignore"):
        back = np.where(gap > 0.0, np.expm1(epsilon - at[two]) / np.expm1(-gap), 1.0)
        ahead = np.exp(epsilon - at[two]) * np.expm1(at[one] - epsilon) / np.expm1(-gap)
    ahead = np.where(gap > 0.0, ahead, 0.0)
    return np.asarray(back * upper[one] + ahead * upper[two])


def _ratio(epsilon: FloatArray, one: FloatArray, two: FloatArray) -> FloatArray:
    """(u - u_1)/(u_1 - u_2), of which all differences have one sign."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.asarray(np.expm1(epsilon - one) / -np.expm1(two - one))
