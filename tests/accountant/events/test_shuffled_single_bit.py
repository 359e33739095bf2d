"""One randomized bit in a crowd: by all inputs of the others, in rationals and in high precision, and its ends."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.events.blanket import blanket, log_shuffled_delta
from accountant.events.shuffled import grid_pair
from accountant.events.shuffled_any import log_any_delta
from accountant.events.shuffled_rounds import ALONE_FROM, SEEN, log_alone, log_round_delta
from accountant.events.shuffled_single_bit import LEAST, fewest, laws_of_sums, log_single_bit_delta, may_go_through
from accountant.patience import allow_work, tally_work


def sums_of(ones, zeros, p):
    """Probabilities of the sum of the reports of so many others with either input, which are flipped with p."""
    law = [p * 0 + 1]
    for one in [1 - p] * ones + [p] * zeros:
        law = [a * (1 - one) + b * one for a, b in zip([*law, 0], [0, *law], strict=True)]
    return law


def worst_of_all(odds, users, u):
    """max over inputs of the others of the hockey-stick divergence, odds to one that a bit is kept."""
    p, found = 1 / (1 + odds), []
    for ones in range(users):
        law = sums_of(ones, users - 1 - ones, p)
        first, second = [*law, 0], [0, *law]
        pairs = [((1 - p) * a + p * b, p * a + (1 - p) * b) for a, b in zip(first, second, strict=True)]
        found.append(sum(max(one - u * other, 0) for one, other in pairs))
    return max(found)


@pytest.mark.parametrize("odds", [Fraction(11, 10), Fraction(3), Fraction(40)])
@pytest.mark.parametrize("users", [2, 3, 8, 13])
@pytest.mark.parametrize("u", [Fraction(1), Fraction(21, 20), Fraction(5, 2)])
def test_worst_of_all_inputs_in_rationals(odds, users, u):
    exact = worst_of_all(odds, users, u)
    if u < odds:
        found = math.exp(log_single_bit_delta(math.log(odds), users, math.log(u)))
        assert exact <= found <= float(exact) * (1 + 1e-7) + 2 * LEAST


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("epsilon", "users"), [(0.5, 400), (4.0, 600)])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
def test_numbers_that_are_looked_at_together(epsilon, users, share):
    """No less than the worst of all inputs, and hardly more."""
    p, u = 1 / (1 + math.exp(epsilon)), math.exp(share * epsilon)
    exact = 0.0
    for ones in range(0, users, 7):
        law = np.ones(1)
        for one in [1 - p] * ones + [p] * (users - 1 - ones):
            law = np.append(law, 0.0) * (1 - one) + np.append(0.0, law) * one
        first, second = np.append(law, 0.0), np.append(0.0, law)
        exact = max(exact, float(np.maximum((1 - p - u * p) * first - (u * (1 - p) - p) * second, 0.0).sum()))
    found = log_single_bit_delta(epsilon, users, share * epsilon)
    assert math.log(exact) - 1e-10 <= found
    assert found < math.log(exact) + 0.05


@pytest.mark.parametrize("others", [0, 1, 99, 100, 101, 5000, 10**9])
def test_any_numbers_are_above_a_pair(others):
    pairs, ones = list(fewest(others)), 0
    for zeros, least in pairs:
        assert least == ones  # no number is left out
        assert 0.98 * others - 1 <= zeros + least <= others
        ones = others - zeros + 1
    assert ones == others + 1
    assert pairs[0] == (others, 0)


@pytest.mark.parametrize("share", [0.0, 1e-15, 1e-7, 0.5, 1 - 1e-9, 1 - 1e-15])
@pytest.mark.parametrize(("epsilon", "users"), [(1e-9, 5), (1.0, 2), (16.0, 4), (30.0, 10**9), (400.0, 3)])
def test_ends(epsilon, users, share):
    """Two users in high precision, and no more than alone beside any others."""
    point = share * epsilon
    found = math.exp(log_single_bit_delta(epsilon, users, point))
    with mpmath.workdps(50):
        u, t = mpmath.exp(point), mpmath.exp(epsilon)
        alone = (t - u) / (1 + t)
        assert found <= float(alone) * (1 + 2e-8) + 1e-14 * epsilon + 2 * LEAST
        if users < 6:
            exact = worst_of_all(t, users, u)
            assert float(exact) <= found <= float(exact) * (1 + 2e-8) + 1e-14 * epsilon + 2 * LEAST


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(0.05, 10.0), st.integers(2, 3000), st.floats(0.0, 0.999), st.floats(0.0, 0.999))
def test_falls_with_users_and_points(epsilon, users, share, other):
    if may_go_through(epsilon, 2 * users):
        near, far = sorted([share * epsilon, other * epsilon])
        found = log_single_bit_delta(epsilon, users, near)
        assert log_single_bit_delta(epsilon, users, far) <= found + 1e-9
        # numbers that are looked at together are rounded down by up to a percent
        assert log_single_bit_delta(epsilon, 2 * users, near) <= found + 1e-9


@pytest.mark.parametrize(
    ("epsilon", "users", "delta", "exact"),
    [
        (1.0, 1000, 1e-6, 0.126614),
        (4.0, 1000, 1e-6, 1.691006),
        (8.0, 10**5, 1e-6, 1.010105),
        (4.0, 17000, 1e-6, 0.230024),
    ],
)
def test_near_the_worst_inputs(epsilon, users, delta, exact):
    """Exact ones are those of equal inputs of all others, by sums of binomial probabilities; slots are near, too."""
    found = ac.shuffled_epsilon(ac.RandomizedResponse(epsilon), users, delta)
    assert exact * (1 - 1e-5) < found < exact * 1.003


def test_slots_take_over():
    """Where more are flipped the bound by slots is near that of all inputs."""
    local, users = ac.RandomizedResponse(1.0), 1110
    assert may_go_through(1.0, users)
    assert not may_go_through(1.0, users + 10)
    for point in (0.005, 0.05, 0.15):
        beyond = log_round_delta(local, users + 10, point)
        assert abs(beyond - log_single_bit_delta(1.0, users, point)) < 0.1


@given(
    st.floats(math.log(ALONE_FROM), math.log(8.0)).map(math.exp),
    st.floats(math.log(3), math.log(1e4)).map(lambda log: int(math.exp(log))),
    st.floats(0.0, 0.99),
)
@settings(max_examples=100)
def test_other_bounds_which_are_not_looked_at_know_no_more(epsilon, users, share):
    """They took nearly all of the time, so that the default patience refused a question to a hundred users."""
    local, point = ac.RandomizedResponse(epsilon), share * epsilon
    if may_go_through(epsilon, users) and (alone := log_single_bit_delta(epsilon, users, point)) > SEEN:
        others = log_any_delta(epsilon, users, point), log_shuffled_delta(blanket(local), users, point)
        found = log_round_delta(local, users, point)
        assert found == min(alone, log_alone(local, point)) <= min(others) + 1e-6


@pytest.mark.parametrize(
    ("epsilon", "users", "most"), [(1.0, 100, 0.483652), (2.0, 500, 0.496838), (3.0, 1000, 0.694848)]
)
def test_a_question_to_a_few_users_is_priced_at_once(epsilon, users, most):
    """It was refused, as one that would take 12 s, and took 3 to 5 s with more patience."""
    found = ac.epsilon(ac.Shuffled(ac.RandomizedResponse(epsilon), users), 1e-6, patience=2.0)
    assert most - 2e-6 < found.lower <= found.epsilon < most + 1e-6


def test_work_is_counted_once():
    """Of all laws before the first value, as of what takes longer than any of these."""
    local, users = ac.RandomizedResponse(12.0), 10**7
    with pytest.raises(ac.ToleranceUnreachable, match=r"would take about 0\.\d+ s"):
        ac.shuffled_epsilon(local, users, 1e-6, patience=1e-3)
    with pytest.raises(ac.ToleranceUnreachable, match=r"would take about 0\.\d+ s"):
        ac.shuffled_delta(local, users, 0.5, patience=1e-3)
    with tally_work() as told:
        ac.epsilon(ac.Shuffled(local, users), 1e-6)
    with tally_work() as again:
        ac.epsilon(ac.Shuffled(local, users), 1e-6)
    # what is kept between prices counts again
    assert told[0] == pytest.approx(again[0], rel=1e-3)
    assert again[0] > 1e7


def test_a_round_is_refused_before_laws_are_made():
    """They were made for the first point of its grid, and counted after that."""
    laws_of_sums.cache_clear()
    with allow_work(1e-3), pytest.raises(ac.OutOfPatience):
        grid_pair(ac.RandomizedResponse(11.9), 10**7)
    assert laws_of_sums.cache_info().currsize == 0
