"""Sums that are exact until they become a float."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

__all__ = [
    "CURVE_ROUNDING",
    "FEW",
    "SPARE",
    "quotient_up",
    "root_down",
    "root_up",
    "round_down",
    "round_up",
    "sum_up",
    "times_up",
]

FEW = 64
"""Terms up to which a sum is exact; of more, each product and the sum are rounded up by more than they are rounded."""

SPARE = 1.0 + 2.0**-50
"""A factor that rounds up what a few operations have rounded."""

CURVE_ROUNDING = 1e-12
"""More than the relative error of Rényi curves; prices are read off curves that are larger by this share."""


def round_up(number: Fraction) -> float:
    """The least float that is not below a number."""
    try:
        nearest = number.numerator / number.denominator  # correctly rounded
    except OverflowError:
        return math.inf if number > 0 else -sys.float_info.max
    above, below = nearest.as_integer_ratio()
    enough = above * number.denominator >= number.numerator * below
    return nearest if enough else math.nextafter(nearest, math.inf)


def round_down(number: Fraction) -> float:
    """The largest float that is not above a number."""
    return -round_up(-number)


def times_up(count: int, number: float) -> float:
    """The least float that is not below so many times a number."""
    return round_up(count * Fraction(number))


def quotient_up(count: int, above: float, below: float) -> float:
    """The least float that is not below so many times a quotient."""
    return round_up(count * Fraction(above) / Fraction(below))


def root_up(square: Fraction) -> float:
    """The least float whose square is not below a positive number.

    Parameters
    ----------
    square : Fraction
        Whole numbers and what a float holds exactly are fractions; below 1e300.
    """
    root = math.sqrt(square.numerator / square.denominator)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(less := math.nextafter(root, 0.0)) ** 2 >= square:
        root = less
    return root


def root_down(square: Fraction) -> float:
    """The largest float whose square is not above a positive number."""
    root = root_up(square)
    return root if Fraction(root) ** 2 == square else math.nextafter(root, 0.0)


def sum_up(terms: Iterable[tuple[Fraction | float, int]]) -> float:
    """At least the sum of numbers >= 0 times counts: the least such float where they are few."""
    kept = [(number, count) for number, count in terms if number and count]
    if any(number == math.inf for number, _ in kept):
        return math.inf
    if len(kept) <= FEW:
        return round_up(sum((Fraction(number) * count for number, count in kept), Fraction(0)))
    return math.fsum(float(number) * count * SPARE for number, count in kept) * SPARE
