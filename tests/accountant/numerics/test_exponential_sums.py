"""1/B as a sum of exponentials, in 40 digits."""

import math

import mpmath
import numpy as np
import pytest

from accountant.numerics.exponential_sums import GAUSS, ROUNDING, alias_error, smallest_places, sum_exponentials


def times_b(found, b):
    """B times the sum."""
    terms = zip(found.places.tolist(), found.weights.tolist(), strict=True)
    return mpmath.fsum(mpmath.mpf(w) * b * mpmath.exp(-mpmath.mpf(x) * b) for x, w in terms)


@pytest.mark.parametrize("error", [1e-2, 1e-5, 1e-9, 1e-13])
@pytest.mark.parametrize(("low", "high"), [(1.0, 1.5), (5.0, 400.0), (1e-3, 1e9)])
def test_short_by_no_more_than_it_says(low, high, error):
    found = sum_exponentials(low, high, error)
    with mpmath.workdps(40):
        short = [1 - times_b(found, b) for b in np.geomspace(low, high, 40).tolist()]
        assert min(short) >= 0
        assert max(short) <= found.short <= error + 1e-11


@pytest.mark.parametrize("error", [1e-2, 1e-6, 1e-12])
def test_never_above_one(error):
    """Neither in the range nor far beyond it, on both sides."""
    found = sum_exponentials(10.0, 1000.0, error)
    with mpmath.workdps(40):
        assert max(times_b(found, b) for b in np.geomspace(1e-6, 1e9, 150).tolist()) <= 1


def test_rounding_is_a_tenth_of_what_is_allowed_for():
    """Where nothing else makes it short, for errors down to those of the smallest deltas."""
    draws = np.random.default_rng(5)
    most = -1.0
    with mpmath.workdps(40):
        for _ in range(40):
            error, low = math.exp(draws.uniform(-55, -33)), math.exp(draws.uniform(-10, 15))
            high = low * math.exp(draws.uniform(0.1, 25))
            found = sum_exponentials(low, high, error)
            for b in np.exp(draws.uniform(math.log(low), math.log(high), 8)).tolist():
                most = max(most, float(times_b(found, b) - 1))
    assert most <= -0.9 * ROUNDING


@pytest.mark.parametrize("step", [0.2, 0.5, 1.0])
def test_trapezoidal_sum(step):
    """All terms, down to nothing: they differ from 1 by no more than the bound, and by nearly as much."""
    with mpmath.workdps(40):
        sums = []
        for shift in np.linspace(0.0, step, 16, endpoint=False).tolist():
            places = [mpmath.exp(mpmath.mpf(step) * j + shift) for j in range(-int(90 / step), int(6 / step))]
            sums.append(abs(mpmath.mpf(step) * mpmath.fsum(x * mpmath.exp(-x) for x in places) - 1))
        assert 0.9 * alias_error(step) < max(sums) <= alias_error(step)


@pytest.mark.parametrize("step", [0.2, 0.5, 1.0])
def test_smallest_places_keep_moments(step):
    """The rule has the moments of all places that it stands for, up to 2 N - 1."""
    places, weights, norm = smallest_places(step)
    assert np.all((places > 0) & (places < 1))
    assert np.all(weights > 0)
    assert norm > 0
    for power in range(2 * GAUSS):
        exact = step * np.exp(-step * (power + 1)) / -np.expm1(-step * (power + 1))
        assert weights @ places**power == pytest.approx(exact, rel=1e-12)
