"""Sums on a lattice: certified bounds against sums in rational numbers."""

import math
from fractions import Fraction
from itertools import accumulate

import mpmath as mp
import numpy as np
import pytest

from accountant.numerics import lattice_powers
from accountant.numerics.lattice_powers import lattice_power

MOST = 2**20


def exact_sum(masses, count):
    """Logs of the probabilities of the sum, the masses being exactly these floats."""
    one, total = [Fraction(float(each)) for each in masses], [Fraction(1)]
    for _ in range(count):
        longer = [Fraction(0)] * (len(total) + len(one) - 1)
        for i, a in enumerate(total):
            for j, b in enumerate(one):
                longer[i + j] += a * b
        total = longer
    return total


def log(value):
    if value == 0:
        return -math.inf
    with mp.workdps(40):
        return float(mp.log(mp.mpf(value.numerator) / value.denominator))


def random_law(rng):
    """Masses p_j on 0, ..., K of a law whose mirror image is p_j e^(-h j) over its sum, and h."""
    size, h = int(rng.integers(2, 9)), 10 ** rng.uniform(-3, 1.2)
    symmetric = rng.random(size) * (rng.random(size) < 0.8)
    symmetric[0] = symmetric[0] or 0.3
    logs = np.log(np.maximum(symmetric + symmetric[::-1], 1e-300)) + h / 2 * np.arange(size)
    masses = np.exp(logs - np.logaddexp.reduce(logs))
    return np.where(symmetric + symmetric[::-1] > 0, masses, 0.0), h


@pytest.mark.each_run(17)
@pytest.mark.parametrize("seed", range(24))
def test_bounds_hold_the_sum_and_are_narrow(seed):
    rng = np.random.default_rng(seed)
    masses, h = random_law(rng)
    count, log_lost = int(rng.integers(2, 24)), float(rng.uniform(-80, -15))
    with np.errstate(divide="ignore"):
        found = lattice_power(np.log(masses), count, -h / 2, log_lost, MOST)
    exact = exact_sum(masses, count)
    middle, end = -(-(len(exact) - 1) // 2), found.first + found.low.size
    inside = np.array([log(each) for each in exact[found.first : end]])
    assert inside.size == found.low.size
    for low, value, high in zip(found.low, inside, found.high, strict=True):
        assert low <= value <= high or value == -math.inf
        if value > max(log_lost, -690.0):
            assert high - low < 1e-6
    assert log(sum(exact[middle : found.first])) <= found.log_before <= log_lost or found.first == middle
    assert log(sum(exact[end:])) <= found.log_beyond
    assert found.log_beyond <= log_lost


def test_many_copies_of_a_bit_are_binomial():
    epsilon, count = 0.002, 300_000
    likely = -math.log1p(math.exp(-epsilon))
    found = lattice_power(np.array([likely - epsilon, likely]), count, -epsilon, -60.0, MOST)
    for k in range(found.first, found.first + found.low.size, 211):
        with mp.workdps(30):
            log_p = mp.log(1 / (1 + mp.exp(-mp.mpf(epsilon))))
            exact = float(mp.log(mp.binomial(count, k)) + count * log_p - (count - k) * mp.mpf(epsilon))
        low, high = found.low[k - found.first], found.high[k - found.first]
        assert low <= exact <= high
        assert high - low < 1e-7


def test_one_copy_and_copies_that_are_certain():
    logs = np.log(np.array([0.2, 0.3, 0.5]))
    found = lattice_power(logs, 1, 0.0, -60.0, MOST)
    assert found.first == 2  # the first behind the mean
    assert found.low[0] <= logs[2] <= found.high[0] < logs[2] + 1e-9
    with np.errstate(divide="ignore"):
        sure = lattice_power(np.log(np.array([math.exp(-80.0), 1.0])), 100, -40.0, -30.0, MOST)
    assert sure.high[-1] == pytest.approx(0.0, abs=1e-9)
    assert sure.log_beyond == -math.inf


def test_a_sum_that_takes_too_much_is_none():
    assert lattice_power(np.log(np.array([0.5, 0.5])), 10**9, 0.0, -60.0, 2**10) is None


def test_many_masses_with_heavy_ends_are_transformed_and_bound_the_sum(monkeypatch):
    size, count, heavy = 1000, 32, 4000
    weights = [heavy + 1] + [1] * (size - 2) + [heavy + 1]
    ways = [1] + [0] * ((size - 1) * count)
    for _ in range(count):  # sums of weights, in whole numbers
        sums, earlier = list(accumulate(ways)), [0] * (size - 1) + ways
        ways = [
            heavy * (each + earlier[n]) + sums[n] - (sums[n - size] if n >= size else 0) for n, each in enumerate(ways)
        ]
    monkeypatch.setattr(lattice_powers, "_sums", None)  # a transform is near enough everywhere
    logs = np.log(np.array(weights) / sum(weights))
    found = lattice_power(logs, count, 0.0, -60.0, MOST)
    for n in range(found.first, found.first + found.low.size, 97):
        exact = log(Fraction(ways[n], sum(weights) ** count))
        low, high = found.low[n - found.first], found.high[n - found.first]
        assert low <= exact <= high
        assert high - low < 1e-6
