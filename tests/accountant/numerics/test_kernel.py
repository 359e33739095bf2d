"""Kernels whose sums are added in any order: infinities stay infinite, and sums are those of floats in some order."""

import math

import numpy as np
import pytest

from accountant.numerics.kernel import SummingKernel


@SummingKernel
def add_up(values):
    total = 0.0
    for each in values:
        total += each
    return total


@pytest.mark.parametrize(("values", "total"), [([1.0, math.inf], math.inf), ([-math.inf, 5.0], -math.inf), ([], 0.0)])
def test_infinities_stay_infinite(values, total):
    assert add_up(np.array(values * 9)) == total


def test_what_is_not_a_number_stays_so():
    assert math.isnan(add_up(np.array([math.inf, -math.inf] * 5)))


def test_sums_are_near_the_exact_one():
    values = np.random.default_rng(0).normal(size=1001)
    assert add_up(values) == pytest.approx(math.fsum(values), abs=1e-15 * float(np.abs(values).sum()))
