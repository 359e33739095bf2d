"""Races where more is known of inputs: which words there may be, what is shown by definition, all data of few users."""

import itertools
import math

import numpy as np
import pytest

import accountant as ac
from accountant.events.race_bounds import Clocks, find_cells, log_total, lower_cells, prepare
from accountant.events.race_words import LIFTED, crowd_of_words, log_own_words, reports_of, sets_of, words_of
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_race import log_race_delta
from accountant.numerics.exponential_sums import sum_exponentials
from tests.accountant.events.test_shuffled_bits import cliques, report_at, worst_of
from tests.accountant.events.test_shuffled_race import data_of, shown
from tests.cases import audit_after

FAMILIES = [sets_of(1, 0), sets_of(2, 0), sets_of(2, 1), sets_of(3, 2)]
NAMES = ["one entry", "two entries", "two, one shared", "three, two shared"]

FOUR_WORDS = (0b001, 0b010, 0b100, 0b111)
MIRRORED = words_of(Facts(2))[0]


def spread(word, length):
    """A binary number as bits, the lowest first."""
    return tuple(word >> bit & 1 for bit in range(length))


def distance(a, b):
    return sum(x != y for x, y in zip(a, b, strict=True))


def common_report(family, epsilon, narrow):
    """G by its definition."""
    differ = family.first ^ family.second
    weights = {
        z: math.exp(-epsilon * z.bit_count() - narrow * (z & differ).bit_count()) for z in range(1 << family.length)
    }
    total = math.fsum(weights.values())
    return {z: weight / total for z, weight in weights.items()}


def law_of(word, length, odds):
    return {z: odds ** (length - (z ^ word).bit_count()) / (1 + odds) ** length for z in range(1 << length)}


# --- which inputs there may be --------------------------------------------------------------------------------


def test_words_that_differ_in_two_bits_are_sets_of_one_entry_or_four_words():
    """All largest sets in five dimensions, with their parity as a bit more."""
    words = list(itertools.product((0, 1), repeat=5))
    near = {a: frozenset(b for b in words if b != a and distance(a, b) <= 2) for a in words}
    found = set()
    for inside in cliques(words, near):
        longer = [(*word, sum(word) % 2) for word in inside]
        assert {distance(a, b) for a, b in itertools.combinations(longer, 2)} == {2}
        one_more = [z for z in itertools.product((0, 1), repeat=6) if all(distance(z, word) == 1 for word in longer)]
        changing = [bit for bit in range(6) if len({word[bit] for word in longer}) > 1]
        found.add((len(longer), len(changing), bool(one_more)))
    # sets of one entry are one bit from a word between them; four words in three bits are from none
    assert found == {(4, 3, False), (6, 6, True)}


def test_the_four_words():
    """Of the changed user's two and another, the fourth is that one's mirror image."""
    first, second, length = MIRRORED.first, MIRRORED.second, MIRRORED.length
    others = [word for word in MIRRORED.others if word not in (first, second)]
    assert (length, MIRRORED.mirrored) == (3, True)
    assert {first, second, *others, *(word ^ first ^ second for word in others)} == set(FOUR_WORDS)


@pytest.mark.parametrize("entries", [1, 2])
def test_all_sets_are_there(entries):
    """By how many entries others share with both, the first alone, the second alone: all that are possible."""
    families = words_of(Facts(2 * entries, entries))
    assert len(families) == entries
    for family in families:
        both, apart = family.first & family.second, family.first ^ family.second
        assert family.first.bit_count() == family.second.bit_count() == entries
        seen = {
            tuple((x & part).bit_count() for part in (both, family.first & apart, family.second & apart))
            for x in family.others
        }
        assert all(x.bit_count() == entries for x in family.others)
        assert len(seen) == len(family.others)
        longest = range(1 << family.length)
        assert seen == {
            tuple((x & part).bit_count() for part in (both, family.first & apart, family.second & apart))
            for x in longest
            if x.bit_count() == entries
        }


def test_where_nothing_helps():
    for facts in (Facts(3), Facts(2, 0, 2), Facts(3, 2), Facts(6, 3)):
        assert words_of(facts) == ()
    assert words_of(Facts(2)) == (sets_of(1, 0)._replace(mirrored=True),)


# --- the race ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
@pytest.mark.parametrize(("epsilon", "slower", "narrow"), [(1e-3, 0.0, 0.0), (0.7, 0.2, 0.4), (3.0, 0.5, 0.0)])
def test_rates_and_values_are_what_they_stand_for(family, epsilon, slower, narrow):
    even, length, odds = common_report(family, epsilon, narrow), family.length, math.exp(epsilon)
    laws = [law_of(word, length, odds) for word in (family.first, family.second)]
    crowd = crowd_of_words(epsilon, family, 0, slower, narrow)
    own = np.exp(np.stack(log_own_words(epsilon, family, narrow), axis=1))
    for kind, word in enumerate(family.others):
        law = law_of(word, length, odds)
        speed = math.exp(-slower * ((word ^ family.first) & (family.first ^ family.second)).bit_count())
        some = slice(crowd.starts[kind], crowd.starts[kind + 1])
        assert crowd.speeds[some] == pytest.approx(speed)
        for a, b, c in ((0.3, 0.2, -0.1), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
            theirs = math.fsum(
                law[z] * (speed * even[z] / law[z]) ** a * (laws[0][z] / law[z]) ** b * (laws[1][z] / law[z]) ** c
                for z in law
            )
            logs = a * np.log(crowd.rates[some]) + b * crowd.log_first[some] + c * crowd.log_second[some]
            assert float(crowd.masses[some] @ np.exp(logs)) == pytest.approx(theirs, rel=1e-11)
        # spare reports, and with them what the changed user's own say
        for a, b, c in ((0.3, 0.2, -0.1), (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 1.0)):
            theirs = math.fsum(
                even[z] * (speed * even[z] / law[z]) ** a * (laws[0][z] / even[z]) ** b * (laws[1][z] / even[z]) ** c
                for z in law
            )
            found = 0.0
            for place, (x, y) in enumerate(own.tolist()):
                each = slice(*crowd.spare_starts[kind * len(own) + place :][:2].tolist())
                found += x**b * y**c * float(crowd.spare_masses[each] @ crowd.spare_rates[each] ** a)
            assert found == pytest.approx(theirs, rel=1e-11)


@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
def test_what_all_have_in_common_says_nothing_of_entries_of_others(family):
    """Others may have different ones: no theta may depend on a bit of the spare report that is in neither input."""
    either = family.first | family.second
    reports = reports_of(0.7, family, 0.3)
    words = np.arange(1 << family.length)
    assert either < words[-1]
    assert (reports.places == reports.places[words & either]).all()
    assert log_own_words(0.7, family, 0.3)[0].size == np.unique(reports.places).size


@pytest.mark.parametrize("odds", [2, 6])
@pytest.mark.parametrize(("clock", "slower", "narrow", "share"), [(0.7, 0.0, 0.5, 0.0), (2.0, 0.3, 0.0, 0.5)])
def test_a_race_says_more_than_the_shuffled_reports(odds, clock, slower, narrow, share):
    """All data of two others: shuffled <= what a race shows <= the bound, at any clocks."""
    family, epsilon, u = sets_of(1, 0), math.log(odds), odds ** (2 * share)
    even = common_report(family, epsilon, narrow * epsilon)
    first, second = (law_of(word, 3, odds) for word in (family.first, family.second))
    race = prepare(epsilon, family, 3, math.log(u), Clocks(1.0, slower, narrow, -3.0))
    cells = find_cells(race, clock)
    highest = min(log_total(cells), log_total(lower_cells(race, cells, -math.inf)))
    local = sum(max(first[z] - u * second[z], 0.0) for z in first)
    for words in itertools.combinations_with_replacement(family.others, 2):
        others = [law_of(word, 3, odds) for word in words]
        laws = [np.array(list(law.values())) for law in (*others, first, second)]
        changed = [((word ^ family.first) & (family.first ^ family.second)).bit_count() for word in words]
        clocks = [clock, *(math.exp(-k * slower * epsilon) for k in changed)]
        told, mass, other, short = shown(first, second, others, even, clocks, u)
        assert 1 - short <= min(mass, other)
        assert max(mass, other) <= 1
        assert data_of(laws[:2], *laws[2:], u) <= told + short * local + 1e-14
        assert told <= math.exp(highest)


def image(report):
    """Both bits in which the changed user's inputs differ are flipped, if they are alike."""
    differ = MIRRORED.first ^ MIRRORED.second
    return report ^ differ if report & differ in (0, differ) else report


def drawn(epsilon):
    """G of those with neither of the changed user's inputs, and what all others draw, by definition."""
    usual = common_report(MIRRORED, epsilon, 0.0)
    lifted = math.exp(LIFTED * epsilon)
    return usual, {z: math.sqrt(usual[z] * usual[image(z)]) * (lifted if image(z) != z else 1.0) for z in usual}


def exchanged(words, odds, clocks, u):
    """The hockey-stick divergence of what the race of the proof shows, and at u = 0; images are drawn afterwards.

    Where all who may be images, and the spare report, have reports with an image, who drew it is shown in part.
    """
    usual, own = drawn(math.log(odds))
    laws, (clock, *speeds) = [law_of(word, 3, odds) for word in words], clocks
    first, second = law_of(MIRRORED.first, 3, odds), law_of(MIRRORED.second, 3, odds)
    is_own = [word in (MIRRORED.first, MIRRORED.second) for word in words]
    draws = [own if each else usual for each in is_own]
    rates = [{z: c * g[z] / law[z] for z in law} for c, g, law in zip(speeds, draws, laws, strict=True)]
    low, high = (clock + sum(end(each.values()) for each in rates) for end in (min, max))
    times, found = sum_exponentials(low, high, 1e-6), {}
    for reports in itertools.product(range(8), repeat=len(words) + 1):
        *theirs, changed = reports
        chance = math.prod(law[z] for law, z in zip(laws, theirs, strict=True))
        rings = [clock, *(rate[z] for rate, z in zip(rates, theirs, strict=True))]
        for place, (x, weight) in enumerate(zip(times.places.tolist(), times.weights.tolist(), strict=True)):
            for who, ring in enumerate(rings):
                seen, spare = list(theirs), changed
                if who:
                    seen[who - 1], spare = changed, theirs[who - 1]
                told = all(image(z) != z for z, each in zip(seen, is_own, strict=True) if not each)
                told = told and image(spare) != spare
                key = place, tuple(seen), spare, (who > 0 and not is_own[who - 1]) if told else None
                share = chance * ring * weight * math.exp(-x * sum(rings))
                p, q = found.get(key, (0.0, 0.0))
                found[key] = p + share * first[changed], q + share * second[changed]
    pairs = np.array(list(found.values()))
    return float(np.maximum(pairs[:, 0] - u * pairs[:, 1], 0.0).sum()), pairs.sum(axis=0), times.short


@pytest.mark.each_run(1)
@pytest.mark.parametrize("odds", [2, 6])
@pytest.mark.parametrize(
    ("clock", "slower", "quicker", "share"), [(0.7, 0.0, 0.5, 0.0), (2.0, 0.3, 0.0, 0.5), (0.3, 0.1, 0.4, 0.8)]
)
def test_a_race_with_images_says_more_than_the_shuffled_reports(odds, clock, slower, quicker, share):
    """All data of two others among the four words: shuffled <= what the race shows, without images, <= the bound."""
    epsilon, u = math.log(odds), odds ** (2 * share)
    race = prepare(epsilon, MIRRORED, 3, math.log(u), Clocks(1.0, slower, quicker, -3.0))
    cells = find_cells(race, clock)
    highest = min(log_total(cells), log_total(lower_cells(race, cells, -math.inf)))
    ends = [np.array(list(law_of(word, 3, odds).values())) for word in (MIRRORED.first, MIRRORED.second)]
    local = float(np.maximum(ends[0] - u * ends[1], 0.0).sum())
    for words in itertools.combinations_with_replacement(MIRRORED.others, 2):
        changed = [((word ^ MIRRORED.first) & (MIRRORED.first ^ MIRRORED.second)).bit_count() for word in words]
        fast = [quicker * (word in (MIRRORED.first, MIRRORED.second)) for word in words]
        clocks = [clock, *(math.exp((f - k * slower) * epsilon) for f, k in zip(fast, changed, strict=True))]
        told, masses, short = exchanged(words, odds, clocks, u)
        assert 1 - short <= masses.min() <= masses.max() <= 1 + 1e-12
        assert told <= math.exp(highest)
        may_be = [
            (word,) if word in (MIRRORED.first, MIRRORED.second) else (word, word ^ MIRRORED.first ^ MIRRORED.second)
            for word in words
        ]
        for data in itertools.product(*may_be):
            laws = [np.array(list(law_of(word, 3, odds).values())) for word in data]
            assert data_of(laws, *ends, u) <= told + short * local + 1e-14


@pytest.mark.parametrize("odds", [2, 6])
def test_what_images_stand_on(odds):
    """The changed user's laws, and what those with the same inputs draw, do not change; where moved both are alike."""
    _, own = drawn(math.log(odds))
    laws = {word: law_of(word, 3, odds) for word in FOUR_WORDS}
    first, second = laws[MIRRORED.first], laws[MIRRORED.second]
    for word, law in laws.items():
        other = word if word in (MIRRORED.first, MIRRORED.second) else word ^ MIRRORED.first ^ MIRRORED.second
        assert all(laws[other][image(z)] == law[z] for z in law)
    assert all(own[image(z)] == pytest.approx(own[z], rel=1e-14) for z in own)
    assert all(first[z] == second[z] for z in first if image(z) != z)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("epsilon0", audit_after(2, [2.0, 5.0, 0.5]))
@pytest.mark.parametrize(
    ("facts", "size", "users"),
    [
        (Facts(2, 1), 3, 5),
        (Facts(2), 3, 6),
        (Facts(4, 2), 4, 3),
        pytest.param(Facts(4, 2), 4, 4, marks=pytest.mark.audit),
        pytest.param(Facts(2), 3, 8, marks=pytest.mark.audit),
    ],
)
def test_never_below_the_worst_data(facts, size, users, epsilon0):
    """All data of sets of so many entries at most, or of the four words and of words around another."""
    words = list(itertools.product((0, 1), repeat=size))
    if facts.ones:
        several = [[word for word in words if sum(word) <= facts.ones]]
    else:
        several = [[word for word in words if sum(word) <= 1], [word for word in words if sum(word) in (1, 3)][:4]]
        several = several[:1] if size > 3 else [several[0], [w for w in words if sum(w) % 2]]
    us = np.exp(np.array([0.0, 0.3, 0.7, 0.95]) * epsilon0)
    epsilon = epsilon0 / facts.bits
    found = np.exp([log_race_delta(epsilon, facts, users, math.log(u)) for u in us.tolist()])
    for inputs in several:
        laws = [np.array(list(report_at(word, epsilon))) for word in inputs]
        assert np.all(worst_of(laws, users, us) <= found)


@pytest.mark.parametrize(
    ("bits", "ones", "users", "near"),
    [
        (2, 1, 100, 1.03),
        pytest.param(4, 2, 100, 1.06, marks=pytest.mark.audit),
        pytest.param(2, 0, 300, 1.02, marks=pytest.mark.audit),
        pytest.param(2, 0, 100, 1.045, marks=pytest.mark.audit),
    ],
)
def test_both_ends_of_small_crowds_are_near_each_other(bits, ones, users, near):
    """They were 10, 18, 7 and 10 % apart."""
    found = ac.epsilon(ac.Shuffled(ac.RandomizedResponse(4.0 / bits, bits, ones=ones), users), 1e-6)
    assert found.lower < found.epsilon < near * found.lower
