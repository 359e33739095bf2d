"""Races where inputs differ in three bits: which inputs there are at once, what is shown by definition, attacks."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.events.race_bounds import Clocks, find_cells, log_total, lower_cells, mean_rate, prepare
from accountant.events.race_crowds import Family
from accountant.events.race_threes import (
    FEW_HIDE,
    FEWEST_HIDE,
    NEAR_ONE,
    NEAR_TWO,
    ONE_BIT,
    ONE_DIFFERS,
    PAIRS,
    STAR,
    Threes,
    crowd_of_threes,
    log_own_threes,
    threes_of,
)
from accountant.events.shuffled_attacks import bits_of
from accountant.events.shuffled_below import pair_of_sums
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_race import log_race_delta
from accountant.numerics.exponential_sums import sum_exponentials
from tests.accountant.events.test_shuffled_bits import cliques

FAMILIES = {"one bit": ONE_BIT, "near one": NEAR_ONE, "near two": NEAR_TWO, "star": STAR, "pairs": PAIRS}
each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def law_of(word, length, odds):
    return np.array([odds ** (length - (z ^ word).bit_count()) / (1 + odds) ** length for z in range(1 << length)])


def common_report(family, epsilon, narrow, odds):
    """G by its definition; of bits that are seen by all, too, by the whole report."""
    length, bits, differ = family.length, len(family.tilts), family.first ^ family.second
    weights, own = [], []
    for z in range(1 << length):
        agree = (z & differ).bit_count()
        log = sum((t.fixed + t.narrow * narrow + t.odds * odds) * (z >> i & 1) for i, t in enumerate(family.tilts))
        log -= family.bent * narrow * abs(agree - family.bits / 2)
        if family.lifts and z >> family.bits & 1:
            log += family.lifts[agree]
        weights.append(math.exp(epsilon * log))
        own.append(math.exp(-epsilon * (z >> bits).bit_count()))
    seen = np.array(weights) / sum(weights) * (1 << (length - bits))
    both = np.array(weights) * own
    return both / both.sum(), seen


def own_report(family, word, epsilon, near):
    """G_j by its definition: of bits that are seen by all, that of all and the user's report are mixed, in logs."""
    narrow, odds, like = near
    common, seen = common_report(family, epsilon, narrow, odds)
    bits, one = len(family.tilts), math.exp(epsilon)
    reports = law_of(word & ((1 << bits) - 1), bits, one)
    return common * (np.array([reports[z & ((1 << bits) - 1)] for z in range(common.size)]) / seen) ** like


# --- which inputs there are at once -----------------------------------------------------------------------------


def exchanges(family):
    """All orders of the bits that are seen, of which the family's G makes nothing."""
    bits, d = len(family.tilts), family.bits
    for order in itertools.permutations(range(bits)):
        alike = all((i < d) == (j < d) and family.tilts[i] == family.tilts[j] for i, j in enumerate(order))
        if alike and (not family.lifts or order[d] == d):
            yield order


def all_kinds(family):
    """What bits that are seen are set in an input, as a set of places, and how many of its own at most."""
    found, bits = {}, len(family.tilts)
    for word in family.others:
        for order in exchanges(family):
            seen = frozenset(order[i] for i in range(bits) if word >> i & 1)
            found[seen] = max(found.get(seen, 0), (word >> bits).bit_count())
    return found


def is_there(family, inputs, d, outside):
    """Whether all inputs, pairs of bits among d and of bits outside, are some of a family's, bits being exchanged."""
    if isinstance(family, Family):
        most = {k: m for m, k, _ in family.numbers}
        return family.bits == d and all(len(a) <= most[len(p)] for p, a in inputs)
    if family.bits != d:
        return False
    kinds, more = all_kinds(family), len(family.tilts) - d
    for order in itertools.permutations(range(d)):
        for seen in itertools.permutations(range(outside), more):
            place = {bit: d + i for i, bit in enumerate(seen)}
            keys = [
                (frozenset([order[i] for i in p] + [place[i] for i in a if i in place]), sum(i not in place for i in a))
                for p, a in inputs
            ]
            if all(kinds.get(key, -1) >= own for key, own in keys):
                return True
    return False


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("d", "outside", "number"), [(3, 3, 100), (2, 4, 100), (1, 4, 1)])
def test_all_inputs_that_differ_in_three_bits_are_there(d, outside, number):
    """All largest sets with two inputs that differ in d bits: each is one family's, and each family is needed."""
    parts = [frozenset(each) for size in range(d + 1) for each in itertools.combinations(range(d), size)]
    rest = [frozenset(each) for size in range(4) for each in itertools.combinations(range(outside), size)]

    def distance(x, y):
        return len(x[0] ^ y[0]) + len(x[1] ^ y[1])

    ends = (frozenset(), frozenset()), (parts[-1], frozenset())
    words = [(p, a) for p in parts for a in rest if all(distance((p, a), end) <= 3 for end in ends)]
    near = {x: frozenset(y for y in words if y != x and distance(x, y) <= 3) for x in words}
    several, found = [each for each in threes_of(1.0, Facts(3), 3) if each.bits == d], set()
    for inside in cliques(words, near):
        ways = [i for i, family in enumerate(several) if is_there(family, inside, d, outside)]
        assert ways
        found |= {ways[0]} if len(ways) == 1 else set()
    assert len(found) == len(several)
    assert sum(1 for _ in cliques(words, near)) >= number


def test_where_they_are_used():
    assert len(threes_of(1.0, Facts(3), 3)) == 6
    most = math.floor(FEW_HIDE * math.exp(3.0))
    assert threes_of(1.0, Facts(3), most)
    assert threes_of(1.0, Facts(3), most + 1) == ()
    least_users = math.ceil(FEWEST_HIDE * math.exp(9.0))
    assert threes_of(3.0, Facts(3), least_users)
    assert threes_of(3.0, Facts(3), least_users - 1) == ()
    assert threes_of(0.5, Facts(3), 3)
    assert threes_of(0.499, Facts(3), 3) == ()
    for facts in (Facts(2), Facts(4), Facts(3, 1), Facts(3, 0, 3)):
        assert threes_of(1.0, facts, 3) == ()
    assert ONE_DIFFERS in threes_of(1.0, Facts(3), 3)


# --- the race ---------------------------------------------------------------------------------------------------


@each_family
@pytest.mark.parametrize(
    ("epsilon", "slower", "near"),
    [(1e-3, 0.0, (0.0, 0.0, 0.0)), (0.7, 0.2, (0.6, -0.3, 0.3)), (3.0, 0.5, (0.2, 0.5, 0.9))],
)
def test_rates_and_values_are_what_they_stand_for(family, epsilon, slower, near):
    common, _ = common_report(family, epsilon, *near[:2])
    length, odds = family.length, math.exp(epsilon)
    first, second = (law_of(word, length, odds) for word in (family.first, family.second))
    crowd = crowd_of_threes(epsilon, family, slower, near)
    own = np.exp(np.stack(log_own_threes(epsilon, family, *near[:2]), axis=1))
    for kind, word in enumerate(family.others):
        law, drawn = law_of(word, length, odds), own_report(family, word, epsilon, near)
        speed = math.exp(-slower * (word & (family.first ^ family.second)).bit_count())
        some = slice(crowd.starts[kind], crowd.starts[kind + 1])
        assert crowd.speeds[some] == pytest.approx(speed)
        for a, b, c in ((0.3, 0.2, -0.1), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
            theirs = math.fsum(law * (speed * drawn / law) ** a * (first / law) ** b * (second / law) ** c)
            logs = a * np.log(crowd.rates[some]) + b * crowd.log_first[some] + c * crowd.log_second[some]
            assert float(crowd.masses[some] @ np.exp(logs)) == pytest.approx(theirs, rel=1e-11)
        # spare reports, with what the changed user's own say and how much less likely they are for this user
        for a, b, c, e in ((0.3, 0.2, -0.1, 0.4), (0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 1.0, -1.0)):
            ratios = (first / common) ** b * (second / common) ** c * (common / drawn) ** e
            theirs = math.fsum(common * (speed * drawn / law) ** a * ratios)
            found = 0.0
            for place, (x, y) in enumerate(own.tolist()):
                each = slice(*crowd.spare_starts[kind * len(own) + place :][:2].tolist())
                lacks = np.exp(e * crowd.spare_lacks[each])
                found += x**b * y**c * float(crowd.spare_masses[each] @ (crowd.spare_rates[each] ** a * lacks))
            assert found == pytest.approx(theirs, rel=1e-11)


def shown(family, words, odds, clocks, near, u):
    """The divergence of what a race shows, at u and at 0, by going through all reports and who rings; and of sorted."""
    size, epsilon = 1 << family.length, math.log(odds)
    clock, *speeds = clocks
    laws = [law_of(word, family.length, odds) for word in words]
    ends = [law_of(word, family.length, odds) for word in (family.first, family.second)]
    drawn = [own_report(family, word, epsilon, near) for word in words]
    rates = [speed * g / law for speed, g, law in zip(speeds, drawn, laws, strict=True)]
    low, high = (clock + sum(float(end(rate)) for rate in rates) for end in (np.min, np.max))
    times, told, masses = sum_exponentials(low, high, 1e-6), 0.0, np.zeros(2)
    one, two, changed = np.ogrid[:size, :size, :size]
    theirs, rings = laws[0][one] * laws[1][two], clock + rates[0][one] + rates[1][two]
    for x, weight in zip(times.places.tolist(), times.weights.tolist(), strict=True):
        before = theirs * weight * np.exp(-x * rings)
        pair = []
        for law in ends:
            chance = before * law[changed]
            # axes of what is shown: both users' names, the changed one's; T has exchanged its report with this
            first = np.swapaxes(chance * rates[0][one], 0, 2)
            second = np.swapaxes(chance * rates[1][two], 1, 2)
            pair.append(chance * clock + first + second)
        told += float(np.maximum(pair[0] - u * pair[1], 0.0).sum())
        masses += [float(each.sum()) for each in pair]
    places = np.sort(np.stack(np.broadcast_arrays(one, two, changed)).reshape(3, -1), axis=0)
    keys = places[0] + size * (places[1] + size * places[2])
    both = [np.bincount(keys, (theirs * law[changed]).ravel()) for law in ends]
    local = float(np.maximum(ends[0] - u * ends[1], 0.0).sum())
    return told, masses, times.short * local, float(np.maximum(both[0] - u * both[1], 0.0).sum())


@pytest.mark.each_run(8)
@each_family
@pytest.mark.parametrize("odds", [2, 6])
@pytest.mark.parametrize(
    ("clock", "slower", "near", "share"), [(0.7, 0.0, (0.5, 0.2, 0.3), 0.0), (2.0, 0.3, (0.0, -0.4, 0.1), 0.5)]
)
def test_a_race_says_more_than_the_shuffled_reports(family, odds, clock, slower, near, share):
    """All data of two others: shuffled <= what a race shows <= the bound, at any clocks."""
    epsilon, u, (narrow, tilt, like) = math.log(odds), odds ** (family.bits * share), near
    race = prepare(epsilon, family, 3, math.log(u), Clocks(1.0, slower, narrow, -3.0, tilt, like))
    cells = find_cells(race, clock)
    highest = min(log_total(cells), log_total(lower_cells(race, cells, -math.inf)))
    differ = family.first ^ family.second
    several = list(itertools.combinations_with_replacement(family.others, 2))
    for words in several if family.length < 6 else several[::5]:
        clocks = [clock, *(math.exp(-(word & differ).bit_count() * slower * epsilon) for word in words)]
        told, masses, lost, sorted_delta = shown(family, words, odds, clocks, near, u)
        assert 1 - 1e-6 <= masses.min() <= masses.max() <= 1 + 1e-12
        assert sorted_delta <= told + lost + 1e-14
        assert told <= math.exp(highest)


def least(epsilon, kind, users, point):
    """What scores of all reports tell at e^point where the others have one input: no more than what they cost."""
    found = pair_of_sums(bits_of(epsilon, kind), users, point, 2**14)
    return 0.0 if found is None else float(np.maximum(found.likely - math.exp(point) * found.other, 0.0).sum())


KINDS = ((0, 0, 3), (1, 1, 2), (1, 2, 1), (0, 3, 0), (2, 1, 1))


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("epsilon0", "users", "share"),
    [
        (4.0, 100, 0.53),
        (1.5, 5, 0.5),
        (6.0, 20, 0.05),
        pytest.param(4.0, 100, 0.3, marks=pytest.mark.audit),
        pytest.param(8.0, 1000, 0.6, marks=pytest.mark.audit),
        pytest.param(2.0, 8, 0.7, marks=pytest.mark.audit),
    ],
)
def test_never_below_an_attack(epsilon0, users, share):
    """Where few users hide nothing, too, no more than a report alone."""
    epsilon = epsilon0 / 3
    assert threes_of(epsilon, Facts(3), users)
    found = log_race_delta(epsilon, Facts(3), users, share * epsilon0)
    assert found <= float(ac.RandomizedResponse(epsilon, 3)._log_profile(np.array([share * epsilon0]))[0][0]) + 1e-6
    assert max(least(epsilon, kind, users, share * epsilon0) for kind in KINDS) <= math.exp(found)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.sampled_from(list(FAMILIES.values())),
    st.floats(1e-3, 8.0),
    st.integers(3, 300),
    st.floats(0.0, 0.9),
    st.tuples(st.floats(0.2, 3.0), st.floats(0.0, 0.6), st.floats(0.0, 1.0), st.floats(-0.5, 0.5), st.floats(0.0, 0.5)),
)
@example(ONE_BIT, 4.0, 100, 0.53, (0.4, 0.5, 0.3, 0.0, 0.1))
def test_no_clocks_are_below_an_attack(family, epsilon0, users, share, clocks):
    """Whatever G, own ones and clocks: for each input of the others, which all of them may have."""
    epsilon, (rate, slower, narrow, odds, like) = epsilon0 / 3, clocks
    point = share * family.bits * epsilon
    race = prepare(epsilon, family, users, point, Clocks(rate, slower, narrow, -12.0, odds, like))
    cells = find_cells(race, rate * mean_rate(race))
    found = min(log_total(cells), log_total(lower_cells(race, cells, -math.inf)))
    differ = family.first ^ family.second
    for word in family.others:
        k = (word & differ).bit_count()
        kind = (word & ~differ).bit_count(), k, family.bits - k
        assert least(epsilon, kind, users, point) <= math.exp(found)


@pytest.mark.audit
@pytest.mark.parametrize(("epsilon0", "users", "near"), [(4.0, 300, 1.035), (4.0, 100, 1.085), (2.0, 20, 1.035)])
def test_both_ends_of_small_crowds_are_near_each_other(epsilon0, users, near):
    """They were 8, 20 and 6 % apart."""
    found = ac.epsilon(ac.Shuffled(ac.RandomizedResponse(epsilon0 / 3, 3), users), 1e-6)
    assert found.lower < found.epsilon < near * found.lower


def test_a_family_is_what_it_says():
    for family in FAMILIES.values():
        assert isinstance(family, Threes)
        assert family.first == 0
        assert family.second == (1 << family.bits) - 1
        assert all(word < 1 << family.length for word in family.others)
