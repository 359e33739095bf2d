"""Sums that are rounded up, against rationals."""

import math
import random
from fractions import Fraction

import pytest

from accountant.numerics.exact import FEW, round_up, sum_up


@pytest.mark.parametrize("seed", range(20))
def test_the_least_float_that_is_not_below(seed):
    dice = random.Random(seed)
    number = Fraction(dice.random()) * dice.randrange(1, 10**12) / Fraction(dice.random())
    found = round_up(number)
    assert math.nextafter(found, 0.0) < number <= found
    assert round_up(Fraction(found)) == found


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
