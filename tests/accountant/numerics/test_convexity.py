"""Bounds between known points of a profile: convex in e^epsilon, falling, never wider than those given."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.numerics.convexity import bound_between


def gaussian(mu, epsilon):
    """Profile of N(mu, 1) against N(0, 1), by its definition."""
    with mpmath.workdps(40):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        ends = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
        return ends[0] - mpmath.exp(epsilon) * ends[1]


def randomized_response(size, epsilon):
    """A profile with a kink: (e^size - e^epsilon)_+ / (1 + e^size)."""
    with mpmath.workdps(40):
        return max(mpmath.exp(size) - mpmath.exp(epsilon), mpmath.mpf(0)) / (1 + mpmath.exp(size))


def bounds_at(exact, epsilons, known, width):
    """Bounds at known points of about a width, both around the exact value, and nothing elsewhere."""
    lower, upper = np.zeros(len(epsilons)), np.ones(len(epsilons))
    for i in np.flatnonzero(known):
        value = float(exact(epsilons[i]))
        lower[i], upper[i] = value * (1 - width), min(value * (1 + width) + 1e-320, 1.0)
    return lower, upper


@given(
    st.sampled_from([gaussian, randomized_response]),
    st.floats(0.1, 6.0),
    st.lists(st.floats(0.0, 12.0), min_size=2, max_size=24, unique=True),
    st.data(),
    st.sampled_from([1e-11, 1e-3, 0.3]),
)
def test_bounds_hold_at_all_points(profile, size, epsilons, data, width):
    epsilons = np.sort(np.array(epsilons))
    known = np.array(data.draw(st.lists(st.booleans(), min_size=len(epsilons), max_size=len(epsilons))))
    given_low, given_high = bounds_at(lambda e: profile(size, e), epsilons, known, width)
    lower, upper = bound_between(epsilons, given_low, given_high, known)
    for epsilon, low, high in zip(epsilons, lower, upper, strict=True):
        exact = profile(size, epsilon)
        assert low <= exact + mpmath.mpf(5e-324), (epsilon, low, exact)
        assert exact <= high + mpmath.mpf(5e-324), (epsilon, high, exact)
    assert np.all(lower >= given_low)
    assert np.all(upper <= given_high)
    assert np.all(np.diff(upper) <= 0)
    assert np.all(np.diff(lower) <= 0)


def test_both_limits():
    """Many known points leave nothing open between them; where none is known nothing is said."""
    epsilons = np.linspace(0.0, 4.0, 4001)
    known = np.arange(4001) % 10 == 0
    lower, upper = bound_between(epsilons, *bounds_at(lambda e: gaussian(1.0, e), epsilons, known, 1e-12), known)
    assert np.max(((upper - lower) / upper)[50:-50]) < 1e-3
    known[:] = False
    lower, upper = bound_between(epsilons, np.zeros(4001), np.ones(4001), known)
    assert lower.max() == 0.0
    assert upper.min() == 1.0


def test_a_line_is_straight_in_the_exponential():
    """Randomized response is a line up to its kink: two points say all between and before them."""
    epsilons = np.array([0.0, 0.3, 1.0, 1.7, 1.9])
    known = np.array([False, False, True, False, True])
    lower, upper = bound_between(
        epsilons, *bounds_at(lambda e: randomized_response(2.0, e), epsilons, known, 0.0), known
    )
    exact = np.array([float(randomized_response(2.0, e)) for e in epsilons])
    assert upper[3] == pytest.approx(exact[3], rel=1e-10)
    assert lower[:2] == pytest.approx(exact[:2], rel=1e-10)


@pytest.mark.parametrize("far", [750.0, 1e5, 1e300])
def test_points_that_are_far_apart(far):
    epsilons, known = np.array([0.0, 1.0, 2.0, far, 2 * far]), np.array([True, False, True, True, True])
    lower, upper = np.array([0.5, 0.0, 0.2, 1e-30, 0.0]), np.array([0.5, 1.0, 0.2, 1e-30, 5e-324])
    lower, upper = bound_between(epsilons, lower, upper, known)
    assert np.all(np.isfinite(lower))
    assert np.all(np.isfinite(upper))
    chord = 0.5 - 0.3 * math.expm1(1.0) / math.expm1(2.0)
    assert upper[1] == pytest.approx(chord, rel=1e-10)
    assert upper[1] >= chord
    assert lower[1] >= 0.2


def test_the_least_floats_are_rounded_outward():
    epsilons, known = np.array([1.0, 1.5, 2.0]), np.array([True, False, True])
    lower, upper = bound_between(epsilons, np.array([1.5e-323, 0.0, 5e-324]), np.array([1.5e-323, 1.0, 5e-324]), known)
    with mpmath.workdps(30):
        share = (mpmath.exp(2) - mpmath.exp(1.5)) / (mpmath.exp(2) - mpmath.e)
        assert upper[1] >= share * mpmath.mpf(1.5e-323) + (1 - share) * mpmath.mpf(5e-324)
    assert lower[1] <= 1.5e-323


def test_a_line_to_nothing_that_underflows_is_above_nothing():
    epsilons, known = np.array([0.0, 1.9, 2.0]), np.array([True, False, True])
    _, upper = bound_between(epsilons, np.zeros(3), np.array([5e-324, 1.0, 0.0]), known)
    assert upper[1] > 0.0
    assert upper[2] == 0.0


def test_two_bounds_at_one_epsilon():
    """An epsilon that is the limit of a run is said twice: delta is no more than one number there, and no less."""
    epsilons, known = np.array([0.5, 1.0, 1.0, 2.0]), np.array([False, True, True, False])
    with np.errstate(all="raise"):
        lower, upper = bound_between(epsilons, np.array([0, 0, 0.01, 0]), np.array([1.0, 0.02, 1.0, 1.0]), known)
    assert lower.tolist() == [0.01, 0.01, 0.01, 0.0]
    assert upper.tolist() == [1.0, 0.02, 0.02, 0.02]
