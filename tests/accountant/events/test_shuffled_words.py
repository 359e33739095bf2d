"""Words of few users by the worst data: against sorted reports, in rationals, attacks, and bounds for more users."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import accountant as ac
from accountant.events.shuffled import pair_of
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_race import log_race_delta
from accountant.events.shuffled_rounds import fewer_searched, log_round_delta, operations_for_words
from accountant.events.shuffled_words import (
    ROOM,
    log_between,
    log_profile_of_words,
    log_words_delta,
    may_enumerate,
    may_search,
    points_of_words,
    work_of_words,
)
from accountant.patience import OPERATIONS_PER_SECOND, allow_work
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


def told(epsilon, bits, numbers, ones, us):
    """H(u) beside so many others with each word, by arrays of all numbers of words but the first: no common code."""
    words, users = 2**bits, sum(numbers) + 1
    report = [[math.exp(-epsilon * (x ^ z).bit_count()) for z in range(words)] for x in range(words)]
    report = np.array(report) / (1 + math.exp(-epsilon)) ** bits

    def with_one(law, word):
        found = report[word][0] * law
        for z in range(1, words):
            moved = np.roll(law, 1, axis=z - 1)
            found = found + report[word][z] * moved
        return found

    law = np.zeros((users + 1,) * (words - 1))
    law[(0,) * (words - 1)] = 1.0
    for word, many in enumerate(numbers):
        for _ in range(many):
            law = with_one(law, word)
    first, second = with_one(law, 0), with_one(law, 2**ones - 1)
    return np.array([float(np.maximum(first - u * second, 0.0).sum()) for u in us])


@pytest.mark.each_run(2)
@pytest.mark.parametrize(
    ("bits", "users", "epsilon"),
    [(2, 24, 1.0), (2, 30, 0.3), (2, 30, 2.5), (3, 6, 1.0)],
)
def test_never_below_an_attack(bits, users, epsilon):
    """Random data, most of which have one word; and the data that are told as the worst are an attack."""
    facts, words, rng = Facts(bits, 0, bits), 2**bits, np.random.default_rng(users)
    points = np.array([0.1, 0.4, 0.8]) * bits * epsilon
    most = ROOM * work_of_words(epsilon, facts, users)
    above = np.exp([log_between(epsilon, facts, users, most, float(point)) for point in points])
    for each in range(6):
        few = rng.multinomial(rng.integers(0, users // 2), rng.dirichlet(np.full(words, 0.5)))
        few[0 if each % 3 else rng.integers(words)] += users - 1 - few.sum()
        assert np.all(told(epsilon, bits, few.tolist(), int(rng.integers(1, bits + 1)), np.exp(points)) <= above)
    worst = told(epsilon, bits, [users - 1] + [0] * (words - 1), bits, np.exp(points))
    assert np.all(above <= worst * 1.15 + 1e-12)


def test_both_limits():
    """Reports that tell nearly nothing, and such as are hidden by nobody."""
    facts, users = Facts(2, 0, 2), 12
    little = math.exp(log_between(1e-6, facts, users, 1e8, 0.0))
    assert told(1e-6, 2, [11, 0, 0, 0], 2, [1.0])[0] * (1 - 1e-9) <= little < 1e-6 / math.sqrt(users)
    much = math.exp(log_between(12.0, facts, users, math.inf, 12.0))
    alone = 1 / (1 + math.exp(-12.0)) ** 2
    assert alone * (1 - 1e-3) < much <= alone
    assert log_between(12.0, facts, users, math.inf, 24.0) == -math.inf


@pytest.mark.parametrize("point", [0.0, 0.35, 0.77])
def test_more_users_cost_less(point):
    logs = [log_between(0.7, Facts(2, 0, 2), users, math.inf, 1.4 * point) for users in (24, 27, 31, 44)]
    assert np.all(np.diff(logs) < 0)


def test_between_points_the_profile_is_below_its_chords():
    facts, users = Facts(2, 0, 2), 12
    points, logs = points_of_words(0.9, 2, users), log_profile_of_words(0.9, facts, users, math.inf)
    for place in (3, 100, 300):
        point = 0.5 * float(points[place] + points[place + 1])
        between, exact = log_between(0.9, facts, users, math.inf, point), log_words_delta(0.9, facts, users, point)
        assert exact <= between <= logs[place]
        assert between <= exact + 1e-3
    assert log_between(0.9, facts, users, math.inf, float(points[7])) == pytest.approx(float(logs[7]), abs=1e-12)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_prices_nearly_meet_their_lower_ends(delta):
    """Races were 3 % above."""
    local = ac.RandomizedResponse(1.0, 2, length=2)
    price = ac.epsilon(ac.Shuffled(local, 30), delta)
    assert price.lower <= price.epsilon <= price.lower * 1.002
    found = ac.shuffled_epsilon(local, 30, delta)
    assert price.lower <= found <= price.lower * 1.002
    assert ac.shuffled_delta(local, 30, found) <= delta


def test_without_patience_other_bounds_count():
    """What is searched is counted, and is no more than the patience allows; else races are run, or nothing."""
    local, users = ac.RandomizedResponse(1.0, 2, length=2), 40
    exact = ac.shuffled_epsilon(local, users, 1e-3)
    work = work_of_words(1.0, Facts(2, 0, 2), users) / OPERATIONS_PER_SECOND
    with allow_work(5.0) as allowance:
        pair_of(local, users)
    assert 0.0 < allowance.spent < 1.2 * ROOM * work * OPERATIONS_PER_SECOND
    with allow_work(0.5 * work), pytest.raises(ac.OutOfPatience):
        log_profile_of_words(1.0, Facts(2, 0, 2), users, math.inf)
    with pytest.raises(ac.OutOfPatience):
        ac.shuffled_epsilon(local, users, 1e-3, patience=0.2 * work)
    general = ac.shuffled_epsilon(ac.RandomizedResponse(1.0, 2), users, 1e-3)
    assert exact < general


@pytest.mark.each_run(7)
@pytest.mark.parametrize(("bits", "users"), [(2, 10), (2, 30), (3, 6)])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-15, 1e-13, 1e-11, 1e-9, 8.0])
def test_no_round_costs_more_than_a_report_alone_nor_much_more_than_data(epsilon, bits, users):
    """Rounding of laws was up to five times the profile of tiny epsilons, and more than a report costs alone."""
    local, alone = ac.RandomizedResponse(epsilon, bits, length=bits), ac.RandomizedResponse(epsilon, bits)
    for share in (0.0, 0.5, 0.95):
        point = share * bits * epsilon
        most = ac.delta(alone, point).delta * (1 + 1e-9) + 5e-324
        assert ac.delta(ac.Shuffled(local, users), point).delta <= most
        assert ac.shuffled_delta(local, users, point) <= most
    if 1e-16 < epsilon < 1e-8:
        found = ac.delta(ac.Shuffled(local, users), 0.0).delta
        assert found <= told(1e-3, bits, [users - 1] + [0] * (2**bits - 1), bits, [1.0])[0] * 1e3 * epsilon * 1.25


@pytest.mark.audit
def test_one_user_more_costs_no_more_where_the_search_ends():
    """Six users of four bits were priced by races alone, at 3.475: more than five."""
    local = ac.RandomizedResponse(1.0, 4, length=4)
    with allow_work(5.0):
        assert operations_for_words(local, 6) == 0.0
        fewer, most = fewer_searched(local, 6)
        assert fewer == 5
        assert 0.0 < most <= 2.5 * OPERATIONS_PER_SECOND
        assert fewer_searched(local, 5) == (0, 0.0)
        assert fewer_searched(local, 10**9) == (0, 0.0)
    five, six = (ac.epsilon(ac.Shuffled(local, users), 1e-3) for users in (5, 6))
    assert six.lower < six.epsilon <= five.epsilon * (1 + 1e-9)
    assert ac.shuffled_epsilon(local, 6, 1e-3) <= five.epsilon * (1 + 1e-4)
    assert ac.shuffled_delta(local, 6, five.epsilon) <= 1e-3 * (1 + 1e-3)


def test_who_may_be_searched():
    assert may_search(Facts(2, 0, 2), 140)
    assert may_search(Facts(4, 3, 4), 6)
    assert not any(may_search(facts, 5) for facts in (Facts(2), Facts(2, 0, 3), Facts(1, 0, 1), Facts(5, 0, 5)))
    assert not any(may_search(Facts(2, 0, 2), users) for users in (1, 10**3, 10**12))
