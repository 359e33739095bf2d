"""Searches for roots and minima in a bracket that only ever narrows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Interval", "crossing"]


class Interval(NamedTuple):
    """A value is certified to lie in [lower, upper]."""

    lower: float
    upper: float


def crossing(f: Callable[[float], float], left: float, right: float, fine: float) -> tuple[float, float]:
    """Where in [left, right] a falling f passes 0, by bisection: f(first) > 0 >= f(second).

    (left, left) if f is below already there; (right, inf) if it never is.
    """
    if f(left) <= 0:
        return left, left
    if f(right) > 0:
        return right, math.inf
    while right - left > fine * right:
        middle = left + (right - left) / 2
        left, right = (middle, right) if f(middle) > 0 else (left, middle)
    return left, right
