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
    work_of_numbers,
)
from accountant.events.race_sums import log_mean_positive, mean_of_ones
from accountant.events.race_tilts import Sorts
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_prices import epsilon_of_round
from accountant.events.shuffled_race import log_race_delta
from accountant.events.shuffled_rounds import log_known_delta, work_of_known
from accountant.patience import allow_work, tally_work
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
    monkeypatch.setattr(race_numbers, "MOST_WORK", 1.0)
    assert largest_of_all(asked) > finely


# --- what takes how long -----------------------------------------------------------------------------------------


@pytest.mark.audit
def test_only_with_patience():
    """What is known depends on the patience alone, and no price is refused for it; alone a round costs no more."""
    local = ac.RandomizedResponse(1.0, 2, ones=1)
    work = work_of_known(local, 16)
    assert work > 0.0
    assert (
        work_of_known(ac.RandomizedResponse(1.0, 3), 16) == work_of_known(1.0, 16) == work_of_known(local, 10**5) == 0.0
    )
    assert math.isinf(log_known_delta(local, 10**5, 1.5))
    found = []
    for seconds in (0.6, 5.0):
        with allow_work(seconds):
            found.append(epsilon_of_round(local, 16, math.log(1e-4)))
    assert found[1] < 0.97 * found[0]
    assert ac.epsilon(ac.Shuffled(local, 16), 1e-4, method="tight").epsilon <= found[1]


@pytest.mark.parametrize(("epsilon0", "users"), [(0.14, 13), (0.6, 30), (4.0, 12)])
def test_counted_as_what_it_takes(epsilon0, users):
    """No more than is foreseen, but for what comes before boxes are divided; and the same when clocks are known."""
    counts = []
    for _ in range(2):
        with tally_work() as tally:
            log_numbers_delta(epsilon0 / 2, Facts(2), users, 0.75 * epsilon0)
        counts += tally
    assert counts[0] == counts[1]
    assert 0.0 < counts[0] <= 1.5 * work_of_numbers(users)
