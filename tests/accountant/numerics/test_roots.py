"""Searches end at the right place, and their ends were evaluated."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.numerics.roots import (
    LOGARITHM,
    SQUARE,
    bisect,
    bisect_by_arrays,
    bisect_whole,
    find_crossing,
    golden_bracket,
    golden_step,
    minimise,
    narrow,
)

roots = st.floats(1e-6, 1e6)
checked = settings(max_examples=100, deadline=None, derandomize=True)


@checked
@given(root=roots)
def test_bisection_ends_at_neighbouring_floats(root):
    no, yes = bisect(lambda x: x >= root, 0.0, 1e7)
    assert (no, yes) == (math.nextafter(root, 0.0), root)
    no, yes = bisect(lambda x: x <= -root, 0.0, -1e7)
    assert (no, yes) == (math.nextafter(-root, 0.0), -root)
    found = bisect_by_arrays(lambda x: x < root)
    assert found.lower < root <= found.upper <= found.lower * (1 + 16 * 2.0**-52)


def test_bisection_by_arrays_at_its_ends():
    assert bisect_by_arrays(lambda x: x < 0.0) == (0.0, 0.0)
    assert bisect_by_arrays(lambda x: x < math.inf).upper == math.inf
    assert bisect_by_arrays(lambda x: x < 1e-310).lower < 1e-300


@checked
@given(root=st.integers(-(10**12), 10**12))
def test_whole_numbers(root):
    assert bisect_whole(lambda i: i > root, -(10**13), 10**13) == (root, root + 1)
    assert bisect_whole(lambda i: i < root, 10**13, -(10**13)) == (root, root - 1)


@checked
@given(root=roots, fine=st.sampled_from([1e-3, 1e-9]))
def test_a_crossing_is_rounded_outwards(root, fine):
    found = find_crossing(lambda x: root - x, 0.0, 1e7, fine)
    assert found.lower < root <= found.upper
    assert found.upper - found.lower <= fine * found.upper


def test_a_crossing_outside_the_bracket():
    assert find_crossing(lambda x: -1.0, 2.0, 3.0, 1e-3) == (2.0, 2.0)
    assert find_crossing(lambda x: 1.0, 2.0, 3.0, 1e-3) == (3.0, math.inf)


@checked
@given(root=roots, rising=st.booleans(), power=st.sampled_from([0.5, 1.0, 2.0, 9.0]))
@pytest.mark.parametrize("coordinate", [LOGARITHM, SQUARE])
def test_interpolation_narrows_a_bracket(coordinate, root, rising, power):
    seen = {}

    def f(x):
        seen[x] = (1 if rising else -1) * (x**power - root**power)
        return seen[x]

    bracket = (1e7, 1e-7) if rising else (1e-7, 1e7)
    fails, meets = narrow(f, bracket, coordinate, fine=1e-9)
    assert seen[fails] > 0 >= seen[meets]
    assert abs(fails - meets) <= 1e-9 * min(fails, meets)
    assert len(seen) < 150


def test_interpolation_without_values():
    """Infinite values say on which side the root is, and no more."""
    fails, meets = narrow(lambda x: math.inf if x < 3.0 else -math.inf, (0.0, 10.0), SQUARE, fine=1e-9)
    assert fails < 3.0 <= meets <= 3.0 * (1 + 1e-9)


def test_interpolation_on_whole_numbers():
    for root in (2, 7, 12345):
        assert narrow(lambda x, r=root: r - x, (1.0, 1e5), LOGARITHM, fine=1e-9, whole=True)[1] == root


def test_golden_section_finds_the_minimum():
    seen = {}

    def f(x):
        seen[x] = (x - 1.234) ** 2
        return seen[x]

    minimise(f, -3.0, 5.0, 1e-7)
    assert min(seen, key=seen.get) == pytest.approx(1.234, abs=1e-7)
    assert len(seen) < 45  # one point for each step
    assert all(golden_bracket.function(-3.0, 5.0) == np.array(golden_bracket(-3.0, 5.0)))
    assert golden_step(0.0, 1.0, 2.0, 3.0, True)[::3] == (0.0, 2.0)
    assert golden_step(0.0, 1.0, 2.0, 3.0, False)[::3] == (1.0, 3.0)
