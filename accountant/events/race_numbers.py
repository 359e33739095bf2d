"""What few users' reports of two bits tell: a race for all numbers of others who have this or that word.

With two bits others are of three kinds: those with the first or the second input of the changed user, and those with a
word of their own. Who is told some of the others' reports by name sees no less, so that data with at least so many of
each kind cost no more than data with just so many. All numbers are divided into boxes, of which the one whose least
numbers cost most is divided further. What these cost is known nearly exactly (`accountant.events.race_sums`), where a
race with one theta for all kinds (`accountant.events.shuffled_race`) says less near the largest epsilon.

Proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import NamedTuple

import numpy as np

from accountant.events.race_bounds import Clocks, Race, log_chances, mean_rate, most_rates, prepare
from accountant.events.race_sums import Crossing, log_known_sum
from accountant.events.race_words import crowd_of_words, words_of
from accountant.events.shuffled_inputs import Facts
from accountant.numerics.exponential_sums import sum_exponentials
from accountant.patience import count_done, remember

__all__ = ["FROM", "log_numbers_delta", "may_know_numbers", "work_of_numbers"]

MOST_USERS = 200
"""Users beyond whom other bounds say as much."""

FROM = 0.7
"""Share of the local epsilon from which the bound is computed."""

LEFT_OUT = 0.25
"""Share of the others that the least numbers of a box may lack."""

SHARE = 3e-3
"""Of what is expected, about: what times that are left out may add."""

FINE, ROUGH = 8.0, 3.0
"""Logs of how much less than expected a time and a spare report may add for a rougher bound: at last, and at first."""

FEW_LACK = 1.0
"""Others that the least numbers of a box may lack for finer bounds: of more the box is rather divided."""

ALIKE = 0.1
"""Log of how much more than the largest known one a box may cost for no box to be divided any more."""

ANCHORS = 12
"""In so many parts of epsilon0 clocks are the same."""

CLOCKS = tuple(Clocks(1.0, slower, narrow) for slower in (0.0, 0.1) for narrow in (0.0, 0.25, 0.45))
CLOCKS_OF_IMAGES = tuple(
    Clocks(share, *others) for share in (0.5, 1.0) for others in ((0.0, 0.0), (0.3, 0.25), (0.3, 0.5))
)
"""Clocks that are tried: without and with mirror images."""

LEAST, START = -60.0, -20.0
"""Log of the least delta that is expected, and of that before anything is known."""

CALL = 3e4
"""Operations (see `accountant.patience`) of a bound for given numbers, beside its sums."""

MOST_WORK, BESIDE = 1.2e7, 5
"""Operations after which no box is divided any more: for each user, and as many beside."""

SLACK = 1e-8
"""Added to the logarithm for rounding."""

Numbers = tuple[int, int, int]
"""Others with a word of their own, with the second input, and with the first."""

Box = tuple[int, int, int, int]
"""Least and most others with the first input, and with the second."""


class Question(NamedTuple):
    """One race: what it asks of others, the changed user's clock, and logs of what times left out add and of H."""

    race: Race
    crossing: Crossing
    clock: float
    log_told: float
    expected: float


def may_know_numbers(epsilon: float, facts: Facts, users: int, point: float) -> bool:
    """Whether the bound is computed: for two bits, few users, and not far from the local epsilon."""
    return facts in (Facts(2), Facts(2, 1)) and 2 < users <= MOST_USERS and FROM <= point / (2 * epsilon) < 1.0


def work_of_numbers(users: int) -> float:
    """About how many operations the bound takes at a point, at most."""
    return MOST_WORK * (users + BESIDE)


def log_numbers_delta(epsilon: float, facts: Facts, users: int, point: float) -> float:
    """Log of an upper bound on H(e^point) of one changed report beside users - 1 others, where `may_know_numbers`."""
    anchor = round(ANCHORS * point / (2 * epsilon))
    several = good_clocks(epsilon, facts, users, anchor)
    return largest_of_all([ask(epsilon, facts, users, point, near) for near in several]) + SLACK


@remember("clocks beside few users", 256)
def good_clocks(epsilon: float, facts: Facts, users: int, anchor: int) -> tuple[Clocks, ...]:
    """Two of some clocks, good where most others are alike: the smaller bound counts, and any are valid."""
    point, several = min(anchor / ANCHORS, 0.99) * 2 * epsilon, CLOCKS_OF_IMAGES if facts == Facts(2) else CLOCKS
    asked = [ask(epsilon, facts, users, point, near) for near in several]
    costs = np.array(
        [[log_bound(each, some, each.expected - ROUGH)[0] for some in corners(users - 1)] for each in asked]
    )
    both = itertools.combinations(range(len(several)), 2)
    best = min(both, key=lambda pair: float(np.max(np.min(costs[list(pair)], axis=0))))
    return tuple(several[one] for one in best)


def corners(others: int) -> list[Numbers]:
    """Where all others have one word, or two words as many."""
    half = others // 2
    return [(others, 0, 0), (0, others, 0), (0, 0, others), (others - half, 0, half), (others - 2, 1, 1)]


def ask(epsilon: float, facts: Facts, users: int, point: float, near: Clocks) -> Question:
    """The race with these clocks; what is expected is what a rough bound says where all others have one word."""
    family = words_of(facts)[0]
    race = prepare(epsilon, family, users, point, near)
    if family.mirrored:  # of each that has a word of its own, by itself
        race = race._replace(crowd=crowd_of_words(epsilon, family, 1, near.slower * epsilon, near.narrow * epsilon))
    clock = near.share * mean_rate(race)
    asked = with_times(race, clock, min(START, race.log_known))
    costs = [log_bound(asked, each, START)[0] for each in corners(users - 1)[:3]]
    return with_times(race, clock, min(max(*costs, LEAST), race.log_known))


def with_times(race: Race, clock: float, expected: float) -> Question:
    """Times between which little is left out, for all of the others or most of them."""
    share, crowd = SHARE * math.exp(expected - race.log_known), race.crowd
    low = clock + math.floor((1.0 - LEFT_OUT) * race.others) * float(crowd.rates.min())
    times = sum_exponentials(low, most_rates(race, clock, math.log(share)), share)
    log_times = np.log(times.weights) - times.places * clock
    crossing = Crossing(
        *(crowd.masses, crowd.rates, race.values, crowd.starts),
        *(crowd.spare_masses, crowd.spare_rates, crowd.spare_lacks, crowd.spare_starts),
        *(race.own, times.places, log_times, log_times),
    )
    return Question(race, crossing, clock, math.log(times.short + share) + race.log_known, expected)


def log_bound(asked: Question, numbers: Numbers, enough: float) -> tuple[float, float]:
    """Log of the bound beside others of whom so many have which word, and the operations that it took.

    What adds less than `enough` is rougher.
    """
    race = asked.race._replace(others=float(sum(numbers)))
    log_alls = asked.crossing.log_times + log_chances(race, asked.clock, asked.crossing.places) + race.log_known
    found, work = log_known_sum(np.array(numbers), asked.clock, enough, asked.crossing._replace(log_alls=log_alls))
    count_done(CALL + work)
    return min(float(np.logaddexp(found, asked.log_told)), race.log_known), CALL + work


def smaller_bound(several: list[Question], numbers: Numbers, expected: float, enough: float) -> tuple[float, float]:
    """The smallest bound of these races, first rougher ones, until one is small enough; and the operations taken."""
    found, work, lacking = math.inf, 0.0, several[0].race.others - sum(numbers)
    for less in (ROUGH, FINE) if lacking <= FEW_LACK else (ROUGH,):
        for asked in several:
            bound, taken = log_bound(asked, numbers, expected - less)
            found, work = min(found, bound), work + taken
            if found <= enough:
                return found, work
    return found, work


def largest_of_all(several: list[Question]) -> float:
    """Log of a bound for all numbers of others: the largest of what the least numbers of boxes cost."""
    others, expected = int(several[0].race.others), min(each.expected for each in several)
    first = [smaller_bound(several, each, expected, -math.inf) for each in corners(others)[:4]]
    largest, left = max(cost for cost, _ in first), work_of_numbers(others + 1) - sum(work for _, work in first)
    boxes = [(-math.inf, (0, others, 0, others))]
    while boxes and left > 0.0 and -boxes[0][0] > largest + ALIKE:
        for box in halves(heapq.heappop(boxes)[1], others):
            numbers, cost = least(box, others), math.inf
            if sum(numbers) >= (1.0 - LEFT_OUT) * others:
                cost, taken = smaller_bound(several, numbers, largest, largest + ALIKE)
                left -= taken
            if sum(numbers) == others:
                largest = max(largest, cost)
            else:
                heapq.heappush(boxes, (-cost, box))
    return max(largest, -boxes[0][0]) if boxes else largest


def least(box: Box, others: int) -> Numbers:
    """The least numbers of each word in a box."""
    first, most_first, second, most_second = box
    return max(others - most_first - most_second, 0), second, first


def halves(box: Box, others: int) -> list[Box]:
    """Two parts of a box: numbers of those with the second input, of which few cost most, are divided first."""
    first, most_first, second, most_second = box
    if most_second > second:
        middle = second if second == 0 else second + (most_second - second) // 4
        found = [(first, most_first, second, middle), (first, most_first, middle + 1, most_second)]
    else:
        middle = (first + most_first) // 2
        found = [(first, middle, second, most_second), (middle + 1, most_first, second, most_second)]
    return [(a, min(b, others - c), c, min(d, others - a)) for a, b, c, d in found if a + c <= others]
