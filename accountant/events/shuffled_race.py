"""How much shuffling hides one report of a few randomized bits in a small crowd: a race for the place of the report.

Notation as in `accountant.events.shuffled_bits`: P0 and P1 are the report of the user whose input changes, R_1, ...,
R_(n-1) those of the others. G is any distribution, c_j > 0 user j's speed, r_j = c_j G/R_j at the report the rate of
j's clock, and k > 0 that of the changed user's. Whoever's clock rings first changes places with the changed user: the
observer is shown all reports by name, after this exchange, and the time x of the ring. The shuffled reports are a
function of this. With independent v_j from R_j and a spare report s from G, Y_j = c_j (P0 - u P1)/R_j at v_j,
Y_0 = (P0 - u P1)/G at s and S the sum of all r_j(v_j), the hockey-stick divergence of what is shown is the integral
over x of

    e^(-k x) E e^(-x S) (k Y_0 + sum_j e^(x (r_j(v_j) - r_j(s))) Y_j)_+.

Nobody is given away, as in slots, but G should be near all R_j. If times come from few values x_l with
B sum_l w_l e^(-x_l B) <= 1 for B = k + S, the integral is a sum over l, and with the rest of the probability everything
may be told, which costs the local profile.

Given s, the sum has independent terms: with theta > 0 that depends on what s has in common with both inputs,

    E (X)_+ <= 1/pi int_0^inf E_s e^(theta k Y_0) prod_j |g_j(s, theta + i w)|/(theta^2 + w^2) dw,
    g_j(s, z) = E_v e^(-x r_j(v)) exp(z e^(x (r_j(v) - r_j(s))) Y_j(v)),

and by Hoelder's inequality the mean of the product is at most the largest, over kinds of users, of the mean of the
power |g_j|^(n-1).

Which G, which speeds, and the kinds of users that count: `accountant.events.race_crowds`. Proofs:
notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math

import numpy as np

from accountant.events.race_bounds import (
    CELL,
    LEAST_RACED,
    PAIR,
    Cells,
    Clocks,
    Race,
    find_cells,
    log_total,
    lower_cells,
    mean_rate,
    prepare,
    work_at,
)
from accountant.events.race_crowds import Family, count_reports, families, with_even_rest
from accountant.events.race_threes import Threes, threes_of
from accountant.events.race_words import Words, words_of
from accountant.events.shuffled_inputs import Facts
from accountant.patience import remember

__all__ = ["RACED_BITS", "RACED_USERS", "log_race_delta"]

Inputs = Family | Words | Threes
"""What inputs of the changed user and of others may be."""

RACED_BITS, RACED_USERS = 64, 10**6
"""Most bits and users for which a race is computed: its work grows with the fifth power of the bits, about."""

SMALLER, ROUNDS = 1.0, 5
"""Log of how far a bound is from what was expected before it is asked for again, by what it is; how often at most."""

USUAL, USUAL_OF_THREES = 1.5, 1.0
"""Log of what the finer bound gains, about; and where inputs differ in three bits, over the first of these alone."""

STEPS = (
    (2.0, 0.0, 0.0, 0.0, 0.0),
    (0.5, 0.0, 0.0, 0.0, 0.0),
    (math.sqrt(2.0), 0.0, 0.0, 0.0, 0.0),
    (math.sqrt(0.5), 0.0, 0.0, 0.0, 0.0),
    (1.0, 0.1, 0.0, 0.0, 0.0),
    (1.0, -0.1, 0.0, 0.0, 0.0),
    (1.0, 0.0, 0.25, 0.0, 0.0),
    (1.0, 0.0, -0.25, 0.0, 0.0),
    (1.0, 0.0, 0.0, 0.25, 0.0),
    (1.0, 0.0, 0.0, -0.25, 0.0),
    (1.0, 0.0, 0.0, 0.0, 0.1),
    (1.0, 0.0, 0.0, 0.0, -0.1),
)
"""Steps that lead to better clocks, from the mean rate at spare reports on: ratios of the changed user's rate, and by
how much slower others' clocks are, how much narrower G is and its odds, over epsilon. The first are for the first point
alone, the last where there are odds."""

STARTS = tuple(
    Clocks(share, *others) for share in (0.02, 0.1, 0.25, 0.5, 1.0, 2.0) for others in ((0.3, 0.5), (0.2, 0.25))
)
"""Clocks that a search may begin with, too, where words have mirror images: from others it seldom leads there."""

FIRST = (
    (0.4, 0.3, 0.05),
    (0.4, 0.5, 0.1),
    (0.5, 0.5, 0.3),
    (1.0, 0.3, 0.3),
    (1.0, 0.4, 0.15),
    (2.0, 0.4, 0.4),
)
"""The same where inputs differ in three bits: the rate, and two of the others."""

MOST_EVEN = 6
"""Length of reports up to which G is even in all bits, too: in longer ones other inputs cost more."""

FALLEN = 4.0
"""Log of how much less than expected a bound is before a clock is sought again."""

ANCHORS, FEWER = 48, 12
"""In so many parts of epsilon0 one clock serves all points; and, of two, the better, where a search takes longer."""

BETTER = 0.02
"""Log of how much less a bound is, at least, for a step to be taken; any clock is valid."""

TIMES = 12.0
"""How many a bound takes, about."""

MOST_SEEN, ALL_SEEN, SEEN = 250.0, 100.0, 20.0
"""Clocks that are tried in a search, about: for inputs that differ in most bits, and in each number of fewer, for all
points or one epsilon."""

CHECKED, NEAR, AT_ZERO = 0.1, 0.6, 0.1
"""Share of the points that need bounds for all inputs, where one epsilon is searched; users over e^epsilon0 below which
clocks of all points are, and the share of them that is of any number of users."""

SLACK = 1e-8
"""Added to the logarithm for rounding."""


def log_race_delta(epsilon: float, facts: Facts, users: int, point: float, whole: bool = True) -> float:
    """Log of an upper bound on H(e^point), point >= 0, of one changed report beside users - 1 others, at least two.

    If not `whole`, only for the numbers of bits in which the inputs of the changed user differ that count most, about:
    that is no more, and seldom less.
    """
    place = anchors_of(epsilon, facts, users) * point / (facts.bits * epsilon)
    anchors = [min(int(place) + k, anchors_of(epsilon, facts, users) - 1) for k in range(2)]
    near = [min(clocks_near(epsilon, facts, users, anchor, 0, False).log_delta, 0.0) for anchor in anchors]
    usual = USUAL_OF_THREES if threes_of(epsilon, facts, users) else USUAL
    log_delta, found = near[0] + (place - int(place)) * (near[1] - near[0]) - usual, math.inf
    for _ in range(ROUNDS):
        expected = max(log_delta, LEAST_RACED)
        log_delta = largest_of(epsilon, facts, users, point, expected, whole)
        found = min(found, log_delta)
        if found <= LEAST_RACED or abs(log_delta - expected) < SMALLER:
            break
    return found + SLACK


def anchors_of(epsilon: float, facts: Facts, users: int) -> int:
    """In how many parts of epsilon0 one clock serves all points."""
    return FEWER if threes_of(epsilon, facts, users) else ANCHORS


def families_of(epsilon: float, facts: Facts, users: int) -> tuple[Inputs, ...]:
    """Of all data the largest bound of any of these is one: where they are known, of the inputs that may be."""
    return words_of(facts) or threes_of(epsilon, facts, users) or families(facts)


def largest_of(epsilon: float, facts: Facts, users: int, point: float, expected: float, whole: bool) -> float:
    """The largest bound of any number of bits in which the inputs of the changed user differ, or that of one of them.

    `expected` is the log of about what H may be: bounds are fine enough for that.
    """
    most, largest = anchors_of(epsilon, facts, users), -math.inf
    anchors = anchors_near(most * point / (facts.bits * epsilon), most)
    several = families_of(epsilon, facts, users)
    for place in places_of(epsilon, several)[: None if whole else 1]:
        family = several[place]
        if point >= family.bits * epsilon:
            continue
        least = math.inf
        for clocks_of, one in ways_to_bound(facts, several, place):
            ways = [clocks_near(epsilon, facts, users, anchor, *clocks_of) for anchor in anchors]
            tried = [cells_with(epsilon, one, users, point, near._replace(log_delta=expected)) for near in ways]
            race, cells, rough = min(tried, key=lambda each: each[2])
            # no report costs more than it does alone
            if min(race.log_known, rough) <= largest:
                break
            found = float(np.fmin(log_total(lower_cells(race, cells, largest)), race.log_known))
            least = min(least, found)
            if found <= largest:
                break
        else:
            largest = max(largest, least)
    return largest


def places_of(epsilon: float, several: tuple[Inputs, ...]) -> list[int]:
    """Places of the families, of which that comes first whose reports tell most: others seldom need a finer bound.

    That is about the largest variance of (P0 - P1)/R, a^m (a^k + a^i - 2) with a = 2 cosh(epsilon) - 1, of its kinds.
    """
    known = [family for family in several if isinstance(family, Family)]
    if len(known) < len(several):
        return list(range(len(several)))
    ratio = 2.0 * math.cosh(epsilon) - 1.0
    told = [max(ratio**m * (ratio**k + ratio**i - 2.0) for m, k, i in family.numbers) for family in known]
    return sorted(range(len(several)), key=lambda place: -told[place])


def anchors_near(place: float, most: int) -> list[int]:
    """Whose clocks are tried: of one of the points nearby or, where there are few of these, of both beside."""
    if most == ANCHORS:
        return [min(round(place), most - 1)]
    return sorted({min(math.floor(place), most - 1), min(math.ceil(place), most - 1)})


def cells_with(epsilon: float, family: Inputs, users: int, point: float, near: Clocks) -> tuple[Race, Cells, float]:
    """The race with these clocks, its rougher bounds at all times, and the log of all together."""
    race = prepare(epsilon, family, users, point, near)
    cells = find_cells(race, near.share * mean_rate(race))
    found = log_total(cells)
    # a bound that is not a number is none
    return race, cells, math.inf if math.isnan(found) else found


def ways_to_bound(facts: Facts, several: tuple[Inputs, ...], place: int) -> list[tuple[tuple[int, bool], Inputs]]:
    """Whose clocks may do, and whether they are for the other G: first those that need no search of their own."""
    family = several[place]
    whose = {place} if isinstance(family, Threes) else {0, max(place - 1, 0), place}
    found = [((before, False), family) for before in sorted(whose)]
    other = with_other_reports(facts, family)
    return found if other is None else [*found, ((place, True), other)]


def with_other_reports(facts: Facts, family: Inputs) -> Inputs | None:
    """The same inputs and another G, of which the smaller bound counts; none where that is seldom of use."""
    if isinstance(family, Threes):
        return None
    if isinstance(family, Words):
        return families(Facts(facts.bits))[0] if family.mirrored else None
    return with_even_rest(facts, family) if family.bits < facts.length <= MOST_EVEN else None


@remember("clocks of users of a few bits", 1024)
def clocks_near(epsilon: float, facts: Facts, users: int, anchor: int, place: int, is_other: bool) -> Clocks:
    """Good clocks; any are valid.

    They are found at points of a grid, for inputs that differ in most bits from those at the point before on, for
    others from those of one bit more on, or some that are often good, and where G is the other one from those where it
    is not.
    """
    family = families_of(epsilon, facts, users)[place]
    other = with_other_reports(facts, family) if is_other else None
    point = anchor / anchors_of(epsilon, facts, users) * facts.bits * epsilon
    if other is not None:
        near, family = clocks_near(epsilon, facts, users, anchor, place, False), other
    elif place and (starts := starts_of(family)):
        near = starts[0]._replace(log_delta=clocks_near(epsilon, facts, users, anchor, 0, False).log_delta)
    elif place:
        near = clocks_near(epsilon, facts, users, anchor, place - 1, False)
    else:
        near = clocks_near(epsilon, facts, users, anchor - 1, place, False) if anchor else Clocks()
    if point >= family.bits * epsilon:
        return near
    if starts := starts_of(family):
        several = [near, *(each._replace(log_delta=near.log_delta) for each in starts)]
        near = min(several, key=lambda each: rough_bound(epsilon, family, users, point, each))
    for _ in range(ROUNDS):
        expected = near.log_delta
        near = near._replace(log_delta=rough_bound(epsilon, family, users, point, near))
        for step in STEPS[0 if anchor == 0 else 2 : None if isinstance(family, Threes) else -4]:
            while True:
                tried = take_step(near, step)
                if tried == near:
                    break
                found = rough_bound(epsilon, family, users, point, tried._replace(log_delta=expected))
                if not found < near.log_delta - BETTER:
                    break
                near = tried._replace(log_delta=found)
        if not LEAST_RACED < near.log_delta < expected - FALLEN:
            break
    return near


def starts_of(family: Inputs) -> tuple[Clocks, ...]:
    """Clocks that a search may begin with, beside those at the point before."""
    if isinstance(family, Threes):
        return tuple(Clocks(share, slower, family.narrow, odds=family.odds, like=like) for share, slower, like in FIRST)
    return STARTS if isinstance(family, Words) and family.mirrored else ()


def take_step(near: Clocks, step: tuple[float, float, float, float, float]) -> Clocks:
    """The clocks that one step leads to."""
    ratio, slower, narrow, odds, like = step
    slower, narrow, like = (max(each, 0.0) for each in (near.slower + slower, near.narrow + narrow, near.like + like))
    return Clocks(near.share * ratio, slower, narrow, near.log_delta, near.odds + odds, min(like, 0.9))


def rough_bound(epsilon: float, family: Inputs, users: int, point: float, near: Clocks) -> float:
    """Log of the rougher bound with these clocks."""
    return cells_with(epsilon, family, users, point, near)[2]


def work_of(epsilon: float, facts: Facts, users: int, searched: bool = False) -> tuple[float, float]:
    """About what the clocks of all points take, and the bound at one; if so, where but one epsilon is searched.

    Most points of a search need the bound of the first inputs alone, and with many users they are near 0.
    """
    several = families_of(epsilon, facts, users)
    hiding = users * math.exp(-facts.bits * epsilon)
    works = [work_of_family(epsilon, family, users, facts.bits * epsilon) for family in several]
    longest = [work for work, family in zip(works, several, strict=True) if isinstance(family, Threes)]
    first, most = (sum(longest) if longest else works[0]), works[0]
    looked = len(anchors_near(0.5, anchors_of(epsilon, facts, users)))
    seen, share = (MOST_SEEN, 1.0) if not searched else (MOST_SEEN * near_zero(hiding), CHECKED)
    cells = TIMES * (looked * (most + share * (sum(works) - most)) + most) + integrals_of(epsilon, several[0], users)
    return TIMES * (seen * first + (SEEN if searched else ALL_SEEN) * (sum(works) - first)), 2.0 * cells


def near_zero(hiding: float) -> float:
    """About up to what share of epsilon0 an epsilon is searched, with so many users over e^epsilon0."""
    return min(NEAR / max(hiding, NEAR) + AT_ZERO, 1.0)


def work_of_family(epsilon: float, family: Inputs, users: int, log_ratio: float) -> float:
    """What the rougher bound at a time takes."""
    if not isinstance(family, Family):
        return prepare(epsilon, family, users, 0.0, Clocks()).work
    reports = count_reports(family)
    return work_at((family.bits + 1, reports, reports, len(family.numbers)), users, log_ratio)


def integrals_of(epsilon: float, family: Inputs, users: int) -> float:
    """What integrals for the worst kinds take at a point."""
    if isinstance(family, Family):
        numbers, pairs = family.bits + 1, float(count_reports(family)) ** 2
    else:
        race = prepare(epsilon, family, users, 0.0, Clocks())
        numbers, pairs = race.own.size, float(race.crowd.starts[-1]) * race.crowd.spare_masses.size
    return TIMES * numbers * (CELL + 2.0 * PAIR * pairs / numbers**3)
