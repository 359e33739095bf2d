"""Sums of many ratios on a lattice against all outcomes, and against sums by additions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac
from accountant.samplers import allocation_pairs
from accountant.samplers.allocation_pairs import lower_pair, upper_pair
from accountant.samplers.lattice_sums import settle_below, sum_on_lattice
from accountant.samplers.likelihoods import Contraction, Spread
from tests.cases import audit_after

LOG_LOST = math.log(1e-9)


def three_points(step, first, masses):
    """Outcomes on a grid of logarithms, with the mean 1, and both of the forms that a sum takes."""
    places = np.exp(step * (first + np.arange(masses.size)))
    offset = -math.log(float(masses @ places))
    places *= math.exp(offset)
    return places, Spread(masses, first, offset, step), Contraction(masses, places, first, offset, step)


def exact_sum(places, masses, count):
    """(value, probability) of the sum of `count` copies of a variable with few values, in rationals."""
    places, masses = ([Fraction(float(x)) for x in each] for each in (places, masses))
    pairs = []

    def visit(left, k, value, chance):
        if k == len(places) - 1:
            pairs.append((value + left * places[k], chance * masses[k] ** left))
            return
        for n in range(left + 1):
            visit(left - n, k + 1, value + n * places[k], chance * math.comb(left, n) * masses[k] ** n)

    visit(count, 0, Fraction(0), Fraction(1))
    return pairs


def sticks(found, u):
    """E(S - u)_+ and E(1 - S/u)_+ as a pair's masses give them."""
    above = float(found.masses @ np.maximum(found.places - u, 0.0)) + found.lost
    return above, float(found.masses @ np.maximum(1 - found.places / u, 0.0)) + found.zero


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3),
    st.sampled_from([1.0, 1e-3, 1e-6, 1e-8]),
    st.floats(0.05, 1.5),
    st.integers(-2, 1),
    st.integers(2, 25),
    st.floats(0.02, 0.4),
    st.floats(0.2, 3.0),
)
def test_both_sides_of_all_outcomes(masses, rare, apart, first, count, step, where):
    """Rare values are jumps; common ones are on the lattice."""
    masses = np.array(masses) * [1.0, 1.0, rare]
    masses /= masses.sum()
    places, spread, contraction = three_points(apart, first, masses)
    u = Fraction(where * count)
    exact = exact_sum(places, masses, count)
    truth = [float(sum(c * max(v - u, 0) for v, c in exact)), float(sum(c * max(1 - v / u, 0) for v, c in exact))]
    for removed in (True, False):
        # the bounds of that direction
        side = 0 if removed else 1
        above = sum_on_lattice(spread, count, step, LOG_LOST, removed)
        below = sum_on_lattice(contraction, count, step, LOG_LOST, removed)
        if above is not None:
            assert sticks(above, float(u))[side] >= truth[side] * (1 - 1e-12)
        if below is not None:
            assert sticks(below, float(u))[side] <= truth[side] * (1 + 1e-12)


def test_finer_lattices_come_near():
    """Widths fall as the square of the steps."""
    widths = []
    for fine in (1.0, 0.5, 0.25, 0.125):
        step = 0.3 * fine
        one = allocation_pairs.bracket_step(ac.Gaussian(1.0), "remove", step, -30.0)
        high, low = (sticks(sum_on_lattice(each, 100, step, math.log(1e-9), True), 160.0)[0] for each in one)
        widths.append(high / low - 1)
    assert widths[-1] < 0.01
    assert all(3 < wide / narrow < 6 for wide, narrow in itertools.pairwise(widths[1:]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=12).filter(lambda x: sum(x) > 0),
    st.floats(0.02, 0.8),
    st.floats(0.01, 2.0),
    st.booleans(),
)
def test_settling_lowers_every_hockey_stick(masses, apart, step, removed):
    masses = np.array(masses) / sum(masses)
    places = np.exp(apart * (np.arange(masses.size) - 3))
    index = np.empty_like(places)
    risen = settle_below(masses, places, step, removed, index)
    moved = step * index
    assert np.all(np.diff(index) >= 0)
    for u in np.concatenate([moved, places, (moved[1:] + places[:-1]) / 2]):
        high, low = (float(masses @ np.maximum(each - u, 0.0)) for each in (places, moved))
        assert low <= high + risen + 1e-14
        if not removed:
            assert float(masses @ np.maximum(u - moved, 0.0)) <= float(masses @ np.maximum(u - places, 0.0)) + 1e-14
    assert risen <= step


@pytest.mark.each_run(1)
@pytest.mark.parametrize("count", [200, 5000])
@pytest.mark.parametrize("epsilon", audit_after(1, [2.0, 0.3]))
def test_many_randomized_responses_against_the_binomial(count, epsilon):
    """One of many randomized responses, at 40 digits: the number of ones is binomial."""
    run = 1 * ac.RandomAllocation(ac.PureDP(epsilon), count)
    with mp.workdps(40):
        odds = mp.exp(mp.mpf(epsilon))
        q, up, down = 1 / (1 + odds), odds, 1 / odds
        laws, chance = [], (1 - q) ** count
        for n in range(count + 1):
            laws.append((chance, (n * up + (count - n) * down) / count))
            chance *= mp.mpf(count - n) / (n + 1) * q / (1 - q)
        at = [
            0.5 * mp.sqrt(sum(c * (x - 1) ** 2 for c, x in laws)),
            3 * mp.sqrt(sum(c * (x - 1) ** 2 for c, x in laws)),
        ]
        for e in map(float, at):
            u = mp.exp(mp.mpf(e))
            truth = float(max(sum(c * max(x - u, 0) for c, x in laws), sum(c * max(1 - u * x, 0) for c, x in laws)))
            found = ac.delta(run, e, method="tight", tolerance=0.01)
            assert found.lower <= truth * (1 + 1e-12)
            assert found.delta >= truth * (1 - 1e-12)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("epsilon", "count", "step"), [(0.7, 23, 0.0056), (0.7, 23, 1.4e-3), (0.3, 400, 1e-3), (2.0, 90, 0.02)]
)
def test_pairs_below_and_above_hold_in_both_directions(direction, epsilon, count, step):
    """Of the direction that a pair is not made for it says only what is certain."""
    q = 1 / (1 + math.exp(epsilon))
    numbers = np.arange(count + 1)
    chances = np.array([math.comb(count, n) * q**n * (1 - q) ** (count - n) for n in numbers.tolist()])
    ratios = (numbers * math.exp(epsilon) + (count - numbers) * math.exp(-epsilon)) / count
    epsilons = np.linspace(0.0, 0.6 * epsilon, 25)
    u = np.exp(epsilons)[:, None]
    truth = np.maximum(ratios - u, 0.0) @ chances, np.maximum(1 - u * ratios, 0.0) @ chances
    pairs = [make(ac.PureDP(epsilon), count, direction, step, -25.0) for make in (lower_pair, upper_pair)]
    below, above = (np.exp(pair._log_profile(epsilons)) for pair in pairs)
    for i in range(2):
        assert np.all(below[i] * (1 - pairs[0]._profile_error) <= truth[i] * (1 + 1e-13))
        assert np.all(above[i] * (1 + pairs[1]._profile_error) >= truth[i] * (1 - 1e-13))
    assert max(pair._profile_error for pair in pairs) < 1e-6
    made = ("remove", "add").index(direction)
    assert below[made][0] > 0.7 * truth[made][0]


@pytest.mark.parametrize(
    ("sigma", "steps", "delta"),
    audit_after(4, [(1.0, 1000, 1e-5), (0.6, 2000, 1e-6), (3.0, 50, 1e-3), (0.8, 300, 1e-8), (2.0, 10**6, 1e-7)]),
)
def test_lattice_and_additions_agree(monkeypatch, sigma, steps, delta):
    """Two ways to the same price: both intervals hold it."""
    run = 1 * ac.RandomAllocation(ac.Gaussian(sigma), steps)
    fast = ac.epsilon(run, delta, method="tight", tolerance=0.01)
    monkeypatch.setattr(allocation_pairs, "_sum_on_lattice", lambda *_: None)
    allocation_pairs.upper_pair.cache_clear()
    allocation_pairs.lower_pair.cache_clear()
    slow = ac.epsilon(run, delta, method="tight", tolerance=0.03)
    assert max(fast.lower, slow.lower) <= min(fast.epsilon, slow.epsilon)
    assert fast.epsilon <= 1.01 * fast.lower
    allocation_pairs.upper_pair.cache_clear()
    allocation_pairs.lower_pair.cache_clear()


def test_what_a_lattice_cannot_do_is_left_to_additions():
    masses = np.array([0.5, 0.5])
    _, spread, contraction = three_points(0.5, -1, masses)
    assert sum_on_lattice(spread, 100, 1e-7, LOG_LOST, True) is None  # too many points
    assert sum_on_lattice(spread, 100, 0.01, math.log(1e-18), True) is None  # errors of transforms
    assert sum_on_lattice(contraction, 100, 3.0, LOG_LOST, True) is None  # coarser than the ratios


def test_sums_with_jumps_have_a_bounded_number_of_outcomes():
    """A hundred thousand steps on a fine lattice: they were two million."""
    one = allocation_pairs.bracket_step(ac.Gaussian(1.0), "remove", 0.0063, -30.0)[0]
    found = sum_on_lattice(one, 10**5, 0.0095, -21.8, True)
    assert 500_000 < found.masses.size < 1_400_000
