"""Words of few users by enumeration: against sorted reports, in rationals, and against bounds for more users."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import accountant as ac
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_race import log_race_delta
from accountant.events.shuffled_rounds import log_round_delta
from accountant.events.shuffled_words import laws_of_reports, log_words_delta, may_enumerate
from tests.accountant.events.test_shuffled_bits import report, report_at, worst_of


@pytest.mark.parametrize(("bits", "users"), [(2, 2), (2, 6), (3, 2), (3, 3), (4, 2)])
@pytest.mark.parametrize("epsilon0", [0.3, 2.0, 9.0])
def test_worst_of_all_data(bits, users, epsilon0):
    """Every pair of words of the changed user, and all others', by sorted reports."""
    words = list(itertools.product((0, 1), repeat=bits))
    us = np.exp(np.array([0.0, 0.2, 0.6, 0.97]) * epsilon0)
    worst = worst_of([np.array(list(report_at(word, epsilon0 / bits))) for word in words], users, us)
    for u, exact in zip(us.tolist(), worst.tolist(), strict=True):
        found = math.exp(log_words_delta(epsilon0 / bits, Facts(bits, 0, bits), users, math.log(u)))
        assert exact * (1 - 1e-12) - 1e-16 <= found <= exact * (1 + 1e-10) + 1e-15 * u


@pytest.mark.parametrize("odds", [Fraction(3, 2), Fraction(9)])
def test_small_differences_in_rationals(odds):
    """Where probabilities of both are nearly in the ratio u what is left keeps digits, and is not too small."""
    words, users = list(itertools.product((0, 1), repeat=2)), 4
    laws = {word: report(word, odds) for word in words}
    point = 2 * math.log(odds) * (1 - 1e-9)
    u, found = Fraction(math.exp(point)), math.exp(log_words_delta(math.log(odds), Facts(2, 0, 2), users, point))
    exact = Fraction(0)
    for others in itertools.combinations_with_replacement(words, users - 1):
        for second in words[1:]:
            told = {}
            for seen in itertools.product(words, repeat=users):
                key, rest = tuple(sorted(seen)), math.prod(laws[w][z] for w, z in zip(others, seen[1:], strict=True))
                told[key] = told.get(key, 0) + (laws[words[0]][seen[0]] - u * laws[second][seen[0]]) * rest
            exact = max(exact, sum(max(each, 0) for each in told.values()))
    # u is rounded by an ulp
    assert float(exact) * (1 - 1e-5) <= found <= float(exact) * (1 + 1e-5) + 1e-12


@pytest.mark.parametrize(("bits", "users"), [(2, 5), (3, 4)])
def test_laws_add_up(bits, users):
    laws = laws_of_reports(0.7, bits, users)
    assert laws.shape == (math.comb(users + 2**bits - 1, users),) * 2
    assert laws.sum(axis=1) == pytest.approx(np.ones(laws.shape[0]), rel=1e-14)


@pytest.mark.parametrize(
    ("epsilon0", "bits", "users", "delta"), [(1.0, 2, 6, 1e-2), (0.5, 2, 4, 1e-3), (2.0, 3, 3, 1e-4)]
)
def test_a_price_is_that_of_the_worst_words(epsilon0, bits, users, delta):
    """Races beside so few users were up to a fifth above."""
    local = ac.RandomizedResponse(epsilon0 / bits, bits, length=bits)
    found = ac.shuffled_epsilon(local, users, delta)
    words = list(itertools.product((0, 1), repeat=bits))
    us = np.exp(found * np.array([1 - 1e-4, 1.0]))
    worst = worst_of([np.array(list(report_at(word, epsilon0 / bits))) for word in words], users, us)
    assert worst[1] <= delta * (1 + 1e-9)
    assert worst[0] > delta * (1 - 1e-9)
    rounds = ac.epsilon(ac.Shuffled(local, users), delta)
    assert found * (1 - 1e-6) <= rounds.epsilon <= found * 1.01


def test_bounds_for_more_users_are_above():
    """Races, and what is known of longer words."""
    for point in (0.0, 0.5):
        exact = log_words_delta(0.5, Facts(2, 0, 2), 6, point)
        assert exact <= log_race_delta(0.5, Facts(2, 0, 2), 6, point) + 1e-9
        assert exact <= log_round_delta(ac.RandomizedResponse(0.5, 2), 6, point) + 1e-9
        assert log_words_delta(0.5, Facts(2, 0, 2), 7, point) < exact


def test_what_is_enumerated():
    assert may_enumerate(Facts(2, 0, 2), 23)
    assert not may_enumerate(Facts(2, 0, 2), 24)
    assert may_enumerate(Facts(3, 0, 3), 6)
    assert may_enumerate(Facts(2, 1, 2), 5)
    assert not any(may_enumerate(facts, 5) for facts in (Facts(2), Facts(2, 0, 3), Facts(1, 0, 1)))
    assert not may_enumerate(Facts(2, 0, 2), 10**12)
    with pytest.raises(ac.ToleranceUnreachable, match=r"would take about .* s"):
        ac.shuffled_epsilon(ac.RandomizedResponse(0.5, 2, length=2), 22, 1e-6, patience=1e-3)


@pytest.mark.parametrize("ones", [1, 2])
def test_what_is_known_of_words_never_costs(ones):
    """Where the most ones of an input were told, too, nothing was enumerated: 7 % more."""
    plain, told = (ac.RandomizedResponse(0.5, 2, length=2, **more) for more in ({}, {"ones": ones}))
    assert ac.shuffled_epsilon(told, 7, 1e-3) <= ac.shuffled_epsilon(plain, 7, 1e-3)
    assert ac.epsilon(ac.Shuffled(told, 7), 1e-3).epsilon <= ac.epsilon(ac.Shuffled(plain, 7), 1e-3).epsilon * (
        1 + 1e-9
    )
