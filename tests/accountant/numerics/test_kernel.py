"""Kernels whose sums are added in any order: infinities stay infinite, and sums are those of floats in some order.

A kernel is compiled once, and it is said only while that is so.
"""

import math

import numba
import numpy as np
import pytest

from accountant.numerics import cache, kernel
from accountant.numerics.kernel import Kernel, SummingKernel


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


def doubled(x):
    return 2.0 * x


class Counts:
    """What is said of compilation, change by change."""

    def __init__(self):
        self.said, self.seconds, self.count = [0], 0.0, 0

    @property
    def compiling(self):
        return self.said[-1]

    @compiling.setter
    def compiling(self, many):
        self.said.append(many)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="numba is told not to compile")
def test_what_is_read_from_disk_is_not_said_to_be_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path))
    monkeypatch.setattr(kernel, "first_calls", Counts())
    for said in ([0, 1, 0], [0]):
        monkeypatch.setattr(kernel.first_calls, "said", [0])
        assert Kernel(doubled)(3.0) == 6.0
        assert kernel.first_calls.said == said
    assert kernel.first_calls.count == 2
