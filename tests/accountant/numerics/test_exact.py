"""Sums that are rounded up, against rationals."""

import math
import random
import sys
from fractions import Fraction

import pytest

import accountant as ac
from accountant.numerics.exact import FEW, root_down, root_up, round_down, round_up, sum_up


@pytest.mark.parametrize("seed", range(20))
def test_the_least_float_that_is_not_below(seed):
    dice = random.Random(seed)
    number = Fraction(dice.random()) * dice.randrange(1, 10**12) / Fraction(dice.random())
    found = round_up(number)
    assert math.nextafter(found, 0.0) < number <= found
    assert round_up(Fraction(found)) == found


@pytest.mark.parametrize("seed", range(20))
def test_roots_are_the_floats_next_to_them(seed):
    dice = random.Random(seed)
    number = Fraction(10 ** dice.uniform(-200, 200)) * dice.randrange(1, 10**12)
    above, below = root_up(number), root_down(number)
    assert Fraction(math.nextafter(above, 0.0)) ** 2 < number <= Fraction(above) ** 2
    assert Fraction(below) ** 2 <= number < Fraction(math.nextafter(below, math.inf)) ** 2
    assert root_up(Fraction(above) ** 2) == root_down(Fraction(above) ** 2) == above


@pytest.mark.parametrize("size", [1, 5, FEW, FEW + 1, 500])
def test_sums_are_never_too_small(size):
    dice = random.Random(size)
    terms = [(10 ** dice.uniform(-9, 3), dice.randrange(1, 10**9)) for _ in range(size)]
    exact = sum(Fraction(number) * count for number, count in terms)
    assert exact <= sum_up(terms) <= exact * (1 + Fraction(1, 10**14))
    if size <= FEW:
        assert sum_up(terms) == round_up(exact)
    assert sum_up([*terms, (math.inf, 1)]) == math.inf
    assert sum_up([*terms, (math.inf, 0)]) == sum_up(terms)


def test_nothing_costs_nothing():
    assert sum_up([]) == sum_up([(0.0, 5), (Fraction(0), 3)]) == 0.0


def test_what_is_in_no_float_is_rounded_to_the_next_one():
    """Groups of nearly nothing were an OverflowError: the inverse of their epsilon is in no float."""
    huge, largest = Fraction(10) ** 400, sys.float_info.max
    assert (round_up(huge), round_down(huge)) == (math.inf, largest)
    assert (round_up(-huge), round_down(-huge)) == (-largest, -math.inf)
    with pytest.raises(ac.ParameterError, match=r"scale = .* is out of range"):
        ac.Group(ac.PureDP(5e-324), 3)
