"""Two users' shuffled bits, exactly: by all reports in rationals, and as a bound for more users."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import accountant as ac
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_two import log_two_users_delta, work_of_two_users

RR = ac.RandomizedResponse
SLACK = 1 + 1e-9


def law(word, odds):
    """Probabilities of all reports of a word."""
    return [
        math.prod((odds if told == bit else Fraction(1)) / (1 + odds) for told, bit in zip(report, word, strict=True))
        for report in itertools.product((0, 1), repeat=len(word))
    ]


def divergence_of_two(first, second, other, odds, u):
    """H(u) of the numbers of all words in two reports, one of them of another user."""
    laws = [law(word, odds) for word in (first, second, other)]
    size = len(laws[0])
    total = Fraction(0)
    for a, b in itertools.combinations_with_replacement(range(size), 2):
        ways = {(a, b), (b, a)}
        likely, unlikely = (sum(own[x] * laws[2][y] for x, y in ways) for own in laws[:2])
        total += max(likely - u * unlikely, Fraction(0))
    return total


def all_kinds(bits, length):
    """Bits in which another input differs from both, from the first alone and from the second alone."""
    some = range(bits + 1)
    return [
        (m, k, i)
        for m, k, i in itertools.product(some, repeat=3)
        if max(m + k, m + i, k + i) <= bits and m + k + i <= (length or 2 * bits)
    ]


def worst_of_two(bits, length, odds, u):
    found = []
    for m, k, i in all_kinds(bits, length):
        first, second = (1,) * (m + k) + (0,) * i, (1,) * m + (0,) * k + (1,) * i
        found.append(divergence_of_two(first, second, (0,) * (m + k + i), odds, u))
    return float(max(found))


@pytest.mark.parametrize(("bits", "length"), [(2, 0), (2, 2), (3, 0), (3, 3), (3, 4)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
def test_two_users_by_all_reports_in_rationals(bits, length, epsilon, share):
    point = share * bits * epsilon
    exact = worst_of_two(bits, length, Fraction(math.exp(epsilon)), Fraction(math.exp(point)))
    found = math.exp(log_two_users_delta(epsilon, Facts(bits, 0, length), point))
    assert exact / SLACK <= found <= exact * SLACK


@pytest.mark.parametrize(("bits", "epsilon", "delta"), [(17, 2.0, 1e-6), (17, 1.0, 1e-6), (64, 2.0, 1e-2)])
def test_more_users_cost_no_more(bits, epsilon, delta):
    """Two users of 17 bits cost 1.79, three 1.92 and eight 1.85: slots say less the fewer there are."""
    local = RR(epsilon / bits, bits)
    prices = [ac.shuffled_epsilon(local, users, delta, patience=30.0) for users in (2, 3, 8)]
    assert all(later <= first * SLACK for first, later in itertools.pairwise(prices))
    below = ac.epsilon(ac.Shuffled(local, 2), delta, patience=30.0)
    assert below.lower <= below.epsilon <= prices[0] * SLACK
    assert below.lower == pytest.approx(prices[0], rel=0.01)


def test_delta_of_few_users_of_many_bits():
    """Two users' delta at 0.7 by enumeration of both reports: 0.0228 was said."""
    local, exact = RR(2 / 17, 17), 0.0044107248
    assert ac.shuffled_delta(local, 2, 0.7) == pytest.approx(exact, rel=1e-7)
    assert ac.shuffled_delta(local, 5, 0.7) <= exact * (1 + 1e-7)


@pytest.mark.parametrize("bits", [17, 40, 64])
def test_limits(bits):
    """Nothing at the local epsilon; everywhere, and of a tiny one at 0, no more than one report tells alone."""
    facts = Facts(bits)
    assert math.exp(log_two_users_delta(1.0 / bits, facts, 1.0)) < 1e-12
    tiny = math.exp(log_two_users_delta(1e-9 / bits, facts, 0.0))
    assert 0.0 < tiny < ac.delta(RR(1e-9 / bits, bits), 0.0, method="tight").delta
    for point in np.linspace(0.0, 0.99, 7):
        alone = ac.delta(RR(1.0 / bits, bits), float(point), method="tight").delta
        assert math.exp(log_two_users_delta(1.0 / bits, facts, float(point))) <= alone * SLACK + 1e-300


def test_without_patience_for_two_users_other_bounds_count():
    local = RR(5 / 64, 64)
    assert work_of_two_users(Facts(64)) > 1e8
    quick, patient = (ac.shuffled_epsilon(local, 5, 1e-6, patience=patience) for patience in (1.0, 30.0))
    assert patient < quick
