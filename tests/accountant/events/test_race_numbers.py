"""Races for all numbers of others with this or that word: sums by their definition, all data of few users, patience."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.events import race_numbers
from accountant.events.race_numbers import (
    CLOCKS,
    CLOCKS_OF_IMAGES,
    ask,
    halves,
    largest_of_all,
    least,
    log_numbers_delta,
    may_know_numbers,
)
from accountant.events.race_sums import Sorts, log_mean_positive, mean_of_ones
from accountant.events.shuffled import grid_pair, pair_of
from accountant.events.shuffled_below import points_of, points_with
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_race import log_race_delta
from accountant.events.shuffled_rounds import log_known_delta, work_of_known
from accountant.patience import allow_work
from tests.accountant.events.test_shuffled_bits import report_at, worst_of

# --- sums -------------------------------------------------------------------------------------------------------


def mean_positive(own, terms):
    """E (own + the sum of terms)_+, by all outcomes; a term is a list of values with their masses."""
    return math.fsum(
        max(own + math.fsum(value for value, _ in each), 0.0) * math.prod(mass for _, mass in each)
        for each in itertools.product(*terms)
    )


values = st.floats(-30.0, 3.0) | st.floats(-1e6, -30.0)
sorts_of_two = st.lists(
    st.lists(st.tuples(values, st.floats(0.01, 0.5)), min_size=2, max_size=2), min_size=4, max_size=4
)


@settings(max_examples=12)
@given(
    sorts_of_two,
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2)),
    st.floats(-5.0, 3.0),
    st.floats(0.02, 0.98),
)
def test_sums_by_their_definition(several, numbers, own, ones):
    """At least what all have in common, or each has for itself, says, and the largest that any number says."""
    if not sum(numbers):
        numbers = (1, 0, 0)
    c, second, first = numbers
    table = np.zeros((2, 4, 8))
    for sort, pairs in enumerate(several):
        table[:, sort, :2] = [[value for value, _ in pairs], [math.log(mass) for _, mass in pairs]]
    sorts = Sorts(table[0], table[1], np.full(4, 2), np.array(numbers), own, ones)
    rest = [several[2]] * second + [several[3]] * first
    by_ones = [mean_positive(own, [several[1]] * k + [several[0]] * (c - k) + rest) for k in range(c + 1)]
    exact = mean_of_ones(np.array(by_ones), c * ones)
    each = math.fsum(math.comb(c, k) * ones**k * (1 - ones) ** (c - k) * by_ones[k] for k in range(c + 1))
    assert max(each, (1 - ones) * by_ones[0] + ones * by_ones[-1]) <= exact * (1 + 1e-12)
    for enough in (-800.0, 800.0):
        found = math.exp(log_mean_positive(1.0, sorts, enough, 1e3)[0])
        assert exact * (1 - 1e-9) <= found


def test_sums_are_nearly_exact():
    """Beside a rough bound that is three times as much."""
    table = np.zeros((2, 4, 8))
    table[0, :, :3], table[1, :, :3] = [0.3, -1.5, -4.0], np.log([0.7, 0.2, 0.1])
    sorts = Sorts(table[0], table[1], np.full(4, 3), np.array([0, 3, 6]), -1.0, 0.5)
    exact = mean_positive(-1.0, [[(0.3, 0.7), (-1.5, 0.2), (-4.0, 0.1)]] * 9)
    assert exact < math.exp(log_mean_positive(1.0, sorts, -800.0, 1e3)[0]) < 1.02 * exact
    assert math.exp(log_mean_positive(1.0, sorts, 800.0, 1e3)[0]) > 1.5 * exact


# --- all numbers ------------------------------------------------------------------------------------------------


@given(st.integers(2, 12), st.randoms(use_true_random=False))
def test_boxes_hold_all_numbers(others, random):
    """However they are divided, every number of others of each word is in one box, and has what is least there."""
    boxes = [(0, others, 0, others)]
    for _ in range(random.randrange(30)):
        box = boxes.pop(random.randrange(len(boxes)))
        boxes += [box] if sum(least(box, others)) == others else halves(box, others)
    for first in range(others + 1):
        for second in range(others + 1 - first):
            inside = [box for box in boxes if box[0] <= first <= box[1] and box[2] <= second <= box[3]]
            assert len(inside) == 1
            numbers = (others - first - second, second, first)
            assert all(a <= b for a, b in zip(least(inside[0], others), numbers, strict=True))


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("facts", "size", "users"), [(Facts(2, 1), 3, 3), (Facts(2), 3, 3), (Facts(2), 3, 4)])
@pytest.mark.parametrize("epsilon0", [0.5, 3.0, 7.0])
def test_never_below_the_worst_data(facts, size, users, epsilon0):
    """All data of sets of one entry, in common or not, and of the four words; the bound with any clocks."""
    words = list(itertools.product((0, 1), repeat=size))
    several = [[word for word in words if sum(word) <= 1]]
    if not facts.ones:
        several.append([word for word in words if sum(word) % 2])
    us = np.exp(np.array([0.72, 0.85, 0.97]) * epsilon0)
    worst = np.max(
        [worst_of([np.array(list(report_at(w, epsilon0 / 2))) for w in some], users, us) for some in several], axis=0
    )
    clocks = CLOCKS if facts.ones else CLOCKS_OF_IMAGES
    for u, exact in zip(us.tolist(), worst.tolist(), strict=True):
        assert exact <= math.exp(log_numbers_delta(epsilon0 / 2, facts, users, math.log(u)))
        for near in (clocks[0], clocks[-1]):
            assert exact <= math.exp(largest_of_all([ask(epsilon0 / 2, facts, users, math.log(u), near)]) + 1e-8)


@pytest.mark.parametrize("users", [2, 4])
@pytest.mark.parametrize("epsilon0", [7.0, 14.0, 28.0])
def test_values_whose_squares_overflow(epsilon0, users):
    """Of rare reports: between what words of two bits cost and a report alone."""
    u, words = 0.85 * epsilon0, itertools.product((0, 1), repeat=2)
    alone = math.log(-math.expm1(u - epsilon0)) - 2.0 * math.log1p(math.exp(-epsilon0 / 2))
    laws = [np.array(list(report_at(word, epsilon0 / 2))) for word in words]
    worst = math.log(worst_of(laws, users, np.array([math.exp(u)]))[0])
    assert worst - 1e-9 <= log_numbers_delta(epsilon0 / 2, Facts(2), users, u) <= alone + 1e-6


@pytest.mark.audit
@pytest.mark.parametrize("facts", [Facts(2, 1), pytest.param(Facts(2), marks=pytest.mark.audit)])
def test_nearer_than_one_theta_for_all_near_the_local_epsilon(facts):
    """Half of what a race with the same theta for all kinds says, or less; at both its ends it is not computed."""
    assert log_numbers_delta(1.0, facts, 14, 1.85) < log_race_delta(1.0, facts, 14, 1.85) - 0.3
    assert may_know_numbers(1.0, facts, 14, 1.5)
    assert not any(may_know_numbers(1.0, facts, 14, point) for point in (0.5, 2.0, 2.5))
    assert not may_know_numbers(1.0, facts, 10**6, 1.5)
    assert not may_know_numbers(1.0, Facts(4, 2), 14, 1.5)


@pytest.mark.audit
@pytest.mark.parametrize("ones", [0, 1])
def test_next_to_the_local_epsilon(ones):
    """Where the report alone has a delta of 1e-12, less than what times may add that are looked at first."""
    local = ac.RandomizedResponse(0.75, 2, ones=ones)
    laws = [np.array(list(report_at(word, 0.75))) for word in ((0, 0, 1), (0, 1, 0), (1, 0, 0))]
    for gap in (1e-9, 1e-11, 1e-12):
        found, (reached,) = ac.shuffled_delta(local, 3, 1.5 - gap), worst_of(laws, 3, np.array([math.exp(1.5 - gap)]))
        assert max(float(reached) - 1e-15, 0.0) < found <= ac.shuffled_delta(local, 1, 1.5 - gap) * (1 + 1e-6)


def test_boxes_that_are_left_count(monkeypatch):
    """Without time to divide them what their least numbers cost is the bound: more, never less."""
    asked = [ask(1.0, Facts(2, 1), 12, 1.8, CLOCKS[0])]
    finely = largest_of_all(asked)
    monkeypatch.setattr(race_numbers, "MANY", 1)
    assert largest_of_all(asked) > finely


# --- what takes how long -----------------------------------------------------------------------------------------


@pytest.mark.audit
def test_only_with_patience():
    """What is known depends on the patience alone, and no price is refused for it."""
    local = ac.RandomizedResponse(1.0, 2, ones=1)
    assert work_of_known(local, 16) > 0.0
    assert (
        work_of_known(ac.RandomizedResponse(1.0, 3), 16) == work_of_known(1.0, 16) == work_of_known(local, 10**5) == 0.0
    )
    assert math.isinf(log_known_delta(local, 10**5, 1.5))
    with allow_work(5.0):
        finely = pair_of(local, 16)
    with allow_work(2.0):
        quickly = pair_of(local, 16)
    assert all((a == b).all() for a, b in zip(quickly, grid_pair(local, 16), strict=True))
    deltas = [
        float(np.sum(np.exp(masses + losses)[losses > 1.8] * -np.expm1(1.8 - losses[losses > 1.8])))
        for losses, masses in (finely, quickly)
    ]
    assert deltas[0] < 0.9 * deltas[1]
    with pytest.raises(ac.ToleranceUnreachable, match="patience"):
        ac.epsilon(ac.Shuffled(local, 16), 1e-6, patience=0.01)


@pytest.mark.audit
def test_lower_ends_do_not_depend_on_what_was_asked_before():
    """Nor does what is counted: profiles with fewer points are not part of the work."""
    local = ac.RandomizedResponse(1.0, 2, ones=1)

    def points(patience):
        with allow_work(patience) as allowance:
            return points_of(local, 16, ac.Shuffled(local, 16)), allowance.spent

    quick, after = points(2.0), points(5.0)
    assert quick[1] < after[1]
    points_with.cache_clear()
    assert points(5.0) == after
    assert points(2.0) == quick


def test_an_epsilon_has_no_more_than_its_delta():
    local = ac.RandomizedResponse(1.0, 2, ones=1)
    found = ac.shuffled_epsilon(local, 12, 1e-4)
    assert ac.shuffled_delta(local, 12, found) <= 1e-4 * (1 + 1e-12)
    assert found < 0.99 * ac.shuffled_epsilon(local, 12, 1e-4, patience=0.6)


@pytest.mark.audit
@pytest.mark.parametrize("ones", [0, 1])
def test_both_ends_of_twenty_users_are_near_each_other(ones):
    """They were 9 % apart."""
    found = ac.epsilon(ac.Shuffled(ac.RandomizedResponse(1.0, 2, ones=ones), 20), 1e-6)
    assert found.lower < found.epsilon < 1.04 * found.lower
