"""Searches for roots and minima: every bracket only ever narrows, and its ends were evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = [
    "LEAST",
    "LOGARITHM",
    "SQUARE",
    "Coordinate",
    "Interval",
    "bisect",
    "bisect_by_arrays",
    "bisect_whole",
    "exponentiate",
    "find_crossing",
    "golden_bracket",
    "golden_step",
    "minimise",
    "narrow",
]

GOLDEN = 0.6180339887498949
"""(sqrt(5) - 1)/2."""


class Interval(NamedTuple):
    """A value is certified to lie in [lower, upper]."""

    lower: float
    upper: float


LEAST = 5e-324
"""The least float above 0. Floats below 1e-308 are as far apart, so that nearest ones are off by half of it."""


def exponentiate(low: float, high: float) -> Interval:
    """Bounds on a probability e^y from bounds on y that hold with the rounding of `exp`, which may underflow."""
    return Interval(max(math.exp(min(low, 0.0)) - LEAST, 0.0), min(math.exp(min(high, 0.0)) + LEAST, 1.0))


# --- bisection -------------------------------------------------------------------------------------------


def bisect(turned: Callable[[float], bool], first: float, last: float, fine: float = 0.0) -> tuple[float, float]:
    """Ends between which a condition turns: false at the first one, true at the last one.

    They are at most `fine` apart, relative to `last`; with 0.0 they are neighbouring floats.
    """
    while abs(last - first) > fine * abs(last):
        middle = first + (last - first) / 2
        if middle in (first, last):
            break
        first, last = (first, middle) if turned(middle) else (middle, last)
    return first, last


def bisect_whole(turned: Callable[[int], bool], first: int, last: int) -> tuple[int, int]:
    """As `bisect`, on whole numbers: ends that differ by 1; `first` may be the larger one."""
    while abs(last - first) > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if turned(middle) else (middle, last)
    return first, last


def bisect_by_arrays(above: Callable[[FloatArray], NDArray[np.bool_]], at_once: int = 64) -> Interval:
    """Floats >= 0, a few roundings apart, between which a condition ends: true at `lower`, false at `upper`.

    (0, 0) if it is false at 0; `upper` is infinite if it is still true at 1e300. With more points `at_once` there are
    more of them in all, and fewer calls.
    """
    if not above(np.zeros(1))[0]:
        return Interval(0.0, 0.0)
    low, high = 0.0, 1.0
    while above(np.array([high]))[0]:
        high *= 4.0
        if high > 1e300:
            return Interval(high, math.inf)
    while True:
        # on a log scale once above 0
        points = (np.linspace if low == 0.0 else np.geomspace)(low, high, at_once + 2)[1:-1]
        points = np.unique(points[(points > low) & (points < high)])
        if points.size == 0 or (low == 0.0 and high < 1e-300):
            return Interval(low, high)
        true = above(points)
        low = max([low, *points[true].tolist()])
        high = min([high, *points[~true & (points > low)].tolist()])


def find_crossing(f: Callable[[float], float], left: float, right: float, fine: float) -> Interval:
    """Where in [left, right], 0 <= left, a falling f passes 0, rounded outwards: f(lower) > 0 >= f(upper).

    (left, left) if f is not positive there; (right, inf) if it is positive everywhere.
    """
    if f(left) <= 0:
        return Interval(left, left)
    if f(right) > 0:
        return Interval(right, math.inf)
    return Interval(*bisect(lambda x: f(x) <= 0, left, right, fine))


# --- interpolation ---------------------------------------------------------------------------------------


class Coordinate(NamedTuple):
    """A coordinate in which a function is nearly straight: of x, back to x, and its derivative by log x."""

    of: Callable[[float], float]
    back: Callable[[float], float]
    slope: Callable[[float], float]


LOGARITHM = Coordinate(math.log, math.exp, lambda x: 1.0)
SQUARE = Coordinate(lambda x: x * x, math.sqrt, lambda x: 2 * x * x)


def narrow(
    f: Callable[[float], float],
    bracket: tuple[float, float],
    coordinate: Coordinate,
    *,
    fine: float,
    whole: bool = False,
) -> tuple[float, float]:
    """Narrow a bracket (fails, meets) with f(fails) > 0 >= f(meets), in either order, for a monotone f.

    Chandrupatla 1997: interpolation by a parabola in f through the ends and the point before them where that is
    safe, else the middle; in the coordinate. No point is nearer to an end than a fourth of `fine`, so that both ends
    close in.

    Parameters
    ----------
    f : callable
    bracket : (float, float)
    coordinate : Coordinate
    fine : float
        Relative distance of the ends at which to stop.
    whole : bool
        Whole numbers only; to neighbouring ones.
    """
    fails, meets = bracket
    above, below = f(fails), f(meets)
    share = 0.5
    while abs(meets - fails) > (1 if whole else fine * min(fails, meets)):
        a, b = coordinate.of(fails), coordinate.of(meets)
        x = coordinate.back(a + share * (b - a))
        if whole:
            x = min(max(float(round(x)), min(fails, meets) + 1), max(fails, meets) - 1)
        if x in (fails, meets):  # the coordinate rounds more coarsely than fails and meets differ
            x = fails + (meets - fails) / 2
            if whole or x in (fails, meets):
                break
        value = f(x)
        if value <= 0:
            past, beyond, meets, below = b, below, x, value
        else:
            past, beyond, fails, above = a, above, x, value
        a, b = coordinate.of(fails), coordinate.of(meets)
        if value <= 0:
            share = 1 - _interpolate((b, below), (a, above), (past, beyond))
        else:
            share = _interpolate((a, above), (b, below), (past, beyond))
        margin = min(0.25 * fine * coordinate.slope(meets) / abs(b - a), 0.5) if a != b else 0.5
        share = min(max(share, margin), 1 - margin)
    return fails, meets


def _interpolate(newest: tuple[float, float], other: tuple[float, float], before: tuple[float, float]) -> float:
    """Share of the way from `newest` to `other` at which a parabola through three points (x, f(x)) passes 0.

    0.5 where the parabola is not sure to lie between them.
    """
    (x1, f1), (x2, f2), (x3, f3) = newest, other, before
    if not (math.isfinite(f1) and math.isfinite(f2) and math.isfinite(f3)) or x2 == x3 or f2 in (f1, f3) or f1 == f3:
        return 0.5
    xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
    if phi * phi >= xi or (1 - phi) ** 2 >= 1 - xi:
        return 0.5
    return f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)


# --- golden section --------------------------------------------------------------------------------------


@Kernel
def golden_bracket(low: float, high: float) -> tuple[float, float, float, float]:
    """(low, left, right, high) with the two inner points of a golden-section search."""
    return low, high - GOLDEN * (high - low), low + GOLDEN * (high - low), high


@Kernel
def golden_step(low: float, left: float, right: float, high: float, lower: bool) -> tuple[float, float, float, float]:
    """The next bracket: from `low` to `right` if the value at `left` is the lower one, else from `left` to `high`."""
    if lower:
        return low, right - GOLDEN * (right - low), left, right
    return left, right, left + GOLDEN * (high - left), high


def minimise(f: Callable[[float], float], low: float, high: float, width: float) -> None:
    """Evaluate f ever closer to its minimum in [low, high]. (scipy.optimize takes longer to import.)"""
    low, left, right, high = golden_bracket.function(low, high)
    at_left, at_right = f(left), f(right)
    while high - low > width:
        lower = at_left < at_right
        low, left, right, high = golden_step.function(low, left, right, high, lower)
        at_left, at_right = (f(left), at_left) if lower else (at_right, f(right))
