"""What one round of the shuffle model costs: the smallest of the bounds that are known for its reports.

The general bound (`accountant.events.blanket`), for a single bit in crowds that are not large the worst of all inputs
(`accountant.events.shuffled_single_bit`), for words of few users the worst data (`accountant.events.shuffled_words`),
for other bits slots (`accountant.events.shuffled_bits`) and, in small crowds, where slots would give nearly all users
away, a race (`accountant.events.shuffled_race`), and where bits are many two users
(`accountant.events.shuffled_two`). Proofs:
notebooks/mathematics.md, Shuffled reports and Shuffled bits.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from accountant.events.blanket import blanket, local_epsilon, log_shuffled_delta
from accountant.events.collision import Collision
from accountant.events.event import Event
from accountant.events.race_numbers import log_numbers_delta, may_know_numbers, work_of_numbers
from accountant.events.race_words import words_of
from accountant.events.randomized_response import BELOW, ROUNDED, RandomizedResponse, log_one_report
from accountant.events.shuffled_any import log_any_delta
from accountant.events.shuffled_bits import log_sums_of
from accountant.events.shuffled_inputs import Facts, common_share, kinds
from accountant.events.shuffled_race import RACED_BITS, RACED_USERS, log_race_delta, work_of
from accountant.events.shuffled_single_bit import log_single_bit_delta, may_go_through, work_of_laws
from accountant.events.shuffled_two import log_two_users_delta, work_of_two_users
from accountant.events.shuffled_words import (
    ROOM,
    log_between,
    log_words_delta,
    may_enumerate,
    may_search,
    work_of_point,
    work_of_words,
)
from accountant.events.word_laws import slack_of
from accountant.numerics.kernel import FloatArray
from accountant.patience import OPERATIONS_PER_SECOND, grant, spend

__all__ = [
    "MOST_BITS",
    "RACES",
    "fewer_searched",
    "has_many_bits",
    "is_enumerated",
    "log_alone",
    "log_bits_delta",
    "log_known_delta",
    "log_round_delta",
    "log_searched_delta",
    "log_two_delta",
    "logs_alone",
    "may_do_without",
    "may_race_many",
    "operations_for_words",
    "work_ahead",
    "work_of_known",
    "work_of_two",
]

MOST_BITS = 64
"""Bits up to which the bound is computed."""

MOST_EPSILON = 16.0
"""Epsilon of all bits up to which the bound is computed; beyond it few users hide anything."""

LEAST_EPSILON = 1e-16
"""The same up to which a report costs what it does alone: what rounding is allowed for would be more."""

ALONE = 2000.0
"""Bits times users times e^-epsilon0 from which this bound is known to be the smaller one, if epsilon0 is neither tiny
nor large: the other is not computed."""

LEAST = -692.0
"""Log of a delta below which that is not so sure; or below a fourth of those users."""

SLOTS, FEW_SLOTS, FEW_BITS = 300.0, 40.0, 8
"""Users, in the mean, who come from what all have in common, and beyond whom slots cost little, so that no race is run;
beyond whom they cost a hundredth of epsilon; what counts with more than so many bits, whose races are dear."""


ENOUGH_SLOTS, ENOUGH_OF_LOG = 10.0, 0.97
"""The same from which on they are at most a tenth of epsilon, and over log 1/delta, as e^-users is the probability that
there are none in slots: where there is no patience for a race, they do."""

MANY_BITS, TWO_HIDE = 16, 8.0
"""Bits beyond which a race is run only where patience is enough for it; and users, times e^-epsilon0, up to
which two of them may then cost less than what is known of all."""

FEW_HIDE = 30.0
"""Users, times e^-epsilon0, up to which races of sets of two entries are run: beyond, others say nearly as much."""

LIKELY = 0.9
"""Share of the epsilon of two bits at which it is asked whether numbers of words are gone through."""

RACES = 45.0
"""About how many races are run for a profile."""

FINEST = 1e-4
"""Share of the epsilon of one bit that rounding of laws of words may be, about; with more, other bounds are smaller."""

FOR_WORDS, FOR_FEWER, NEARLY = 0.6, 0.45, 0.7
"""Shares of the patience that the worst data of words may take: of all users, and of fewer, of whom there are at least
that share."""

FOR_GRID = 0.6
"""Share of the patience that races of many bits may take for a grid."""

ALONE_FROM, SEEN = 0.25, -50.0
"""Epsilon of one bit, and log of its profile, from which on only the bound by all inputs is looked at, where it is to
be had: others are no smaller, but for less than a millionth, and take most of the time."""

WHAT = "bounds on shuffled bits"


def log_round_delta(
    local: float | Event, users: int, epsilon: float, race: bool = True, slots: bool = True, whole: bool = True
) -> float:
    """log of the smallest known upper bound on H(e^epsilon), epsilon >= 0, of one round.

    The bound for bits alone where the general one is larger by far; without a race in small crowds, if told so; by a
    race alone, where that is known to be the smallest, if told so; of the first inputs alone (`log_race_delta`), if
    not `whole`.
    """
    found = math.inf
    if isinstance(local, RandomizedResponse):
        facts = Facts(local.bits, local.ones, local.length)
        if not slots:
            return log_races_delta(local.epsilon, facts, users, epsilon)
        found = log_bits_delta(local.epsilon, facts, users, epsilon, race, whole)
        if local.bits == 1:
            if local.epsilon >= ALONE_FROM and found > SEEN and may_go_through(local.epsilon, users):
                return min(found, log_alone(local, epsilon))
            found = min(found, log_any_delta(local.epsilon, users, epsilon))
        end = local.epsilon * local.bits
        hiding = users * math.exp(-end)
        if (
            (0.25 if local.bits == 2 else 1e-3) <= end <= 4.0
            and local.bits * hiding >= ALONE
            and max(-hiding / 4, LEAST) < found < math.inf
        ):
            return found
    known = log_shuffled_delta(blanket(local), users, epsilon)
    # of many buckets the general bound knows more
    if not (isinstance(local, Collision) and local.buckets >= 4 * local.nonzeros):
        known = min(known, log_any_delta(local_epsilon(local), users, epsilon))
    return min(found if found < known else known, log_alone(local, epsilon))


def log_alone(local: float | Event, epsilon: float) -> float:
    """Log of H(e^epsilon) of the changed report itself: who sees it shuffled, with others that are the same, sees less.

    Of a randomizer of which only its epsilon is known the general bound has it.
    """
    if not isinstance(local, Event):
        return 0.0
    return float(logs_alone(local, np.array([epsilon]))[0])


def logs_alone(local: Event, epsilons: FloatArray) -> FloatArray:
    """The same at many."""
    spend(local._profile_work() * epsilons.size, WHAT)
    found: FloatArray = local._log_profile(BELOW * epsilons)[0] + ROUNDED
    return found


def log_bits_delta(
    epsilon: float, facts: Facts, users: int, point: float, race: bool = True, whole: bool = True
) -> float:
    """Log of an upper bound on H(e^point), point >= 0, of one changed report beside users - 1 others.

    Infinite where the bound is not computed: beyond `MOST_BITS` bits, or a local epsilon of `MOST_EPSILON`.
    """
    bits, end = facts.bits, facts.bits * epsilon
    if bits == 1 and 0.0 <= point < end and may_go_through(epsilon, users):
        return log_single_bit_delta(epsilon, users, point)
    if race and enumerates(epsilon, facts, users) and 0.0 <= point < end:
        return log_words_delta(epsilon, facts, users, point)
    if bits > MOST_BITS or users < 2 or not 0.0 < end <= MOST_EPSILON or not point < end:
        return math.inf
    if end <= LEAST_EPSILON:
        return log_one_report(epsilon, bits, point)
    # the kinds of long reports are above those of short ones, but fewer and nearer to each other
    long = kinds(bits)
    short = kinds(bits, facts.length) if facts.length else long
    several = (long,) if short is long else (long, short)
    found = min(log_sums_of(np.stack(each, axis=1), epsilon, facts, users, point) for each in several)
    if race and may_race(epsilon, facts, users):
        return min(found, log_races_delta(epsilon, facts, users, point, whole))
    return found


def log_races_delta(epsilon: float, facts: Facts, users: int, point: float, whole: bool = True) -> float:
    """The same by races alone."""
    return min(log_race_delta(epsilon, each, users, point, whole) for each in facts_for_races(epsilon, facts, users))


def may_race(epsilon: float, facts: Facts, users: int) -> bool:
    """Whether a race is run: where few users, in the mean, come from what all have in common: slots then cost much."""
    if facts.bits > RACED_BITS or not 2 < users <= RACED_USERS:
        return False
    if facts.bits < 2 or not LEAST_EPSILON < facts.bits * epsilon <= MOST_EPSILON:
        return False
    return in_slots(epsilon, facts, users) < (SLOTS if facts.bits <= FEW_BITS else FEW_SLOTS)


def in_slots(epsilon: float, facts: Facts, users: int) -> float:
    """How many users, in the mean, come from what all have in common."""
    log_share, most = common_share(epsilon, facts, users)
    return most * math.exp(log_share)


def work_ahead(local: float | Event, users: int, searched: bool = False) -> tuple[float, float]:
    """About how many operations races take, once, and at every point; none where none are run.

    Of a single bit what the laws of all reports take, once; of words of few users what the worst data take, each time.
    If so, for an epsilon that is `searched`.
    """
    if not isinstance(local, RandomizedResponse):
        return 0.0, 0.0
    facts = Facts(local.bits, local.ones, local.length)
    if local.bits == 1:
        return work_of_laws(local.epsilon, users) if may_go_through(local.epsilon, users) else 0.0, 0.0
    if enumerates(local.epsilon, facts, users):
        return 0.0, work_of_point(facts, users)
    if not may_race(local.epsilon, facts, users):
        return 0.0, 0.0
    return work_of_races(local.epsilon, facts, users, searched)


def has_many_bits(local: float | Event) -> bool:
    """Whether a race, if one may be run, is run only where patience is enough for all of it."""
    return isinstance(local, RandomizedResponse) and local.bits > MANY_BITS


def may_race_many(local: float | Event, users: int) -> bool:
    """Whether races of many bits are run for a profile on a grid: patience is enough. The same throughout a price."""
    once, each = work_ahead(local, users) if has_many_bits(local) else (0.0, 0.0)
    if each == 0.0:
        return False
    return once + RACES * each <= grant((may_race_many, local, users), FOR_GRID) * OPERATIONS_PER_SECOND


def may_do_without(local: float | Event, users: int, log_delta: float) -> bool:
    """Whether slots cost a tenth of epsilon at most at a delta whose log is given, or bits are many."""
    if not isinstance(local, RandomizedResponse):
        return False
    least = max(ENOUGH_SLOTS, ENOUGH_OF_LOG * -log_delta)
    return has_many_bits(local) or in_slots(local.epsilon, Facts(local.bits, local.ones, local.length), users) >= least


@lru_cache(maxsize=64)
def work_of_races(epsilon: float, facts: Facts, users: int, searched: bool) -> tuple[float, float]:
    """About how many operations races take, once, and at every point."""
    several = [work_of(epsilon, each, users, searched) for each in facts_for_races(epsilon, facts, users)]
    return sum(once for once, _ in several), sum(each for _, each in several)


def log_known_delta(local: float | Event, users: int, epsilon: float) -> float:
    """Log of an upper bound on H(e^epsilon) by all numbers of others with this or that word; infinite without one."""
    if not isinstance(local, RandomizedResponse):
        return math.inf
    may = facts_for_numbers(local, users, epsilon)
    return min((log_numbers_delta(local.epsilon, each, users, epsilon) for each in may), default=math.inf)


def work_of_known(local: float | Event, users: int) -> float:
    """About how many operations that takes at a point; none where it is never computed."""
    if not isinstance(local, RandomizedResponse):
        return 0.0
    return len(facts_for_numbers(local, users, 2 * local.epsilon * LIKELY)) * work_of_numbers(users)


def facts_for_numbers(local: RandomizedResponse, users: int, epsilon: float) -> list[Facts]:
    """What is known of inputs where all numbers of words are gone through at this epsilon."""
    facts = Facts(local.bits, local.ones, local.length)
    if local.bits == 1 or enumerates(local.epsilon, facts, users) or not may_race(local.epsilon, facts, users):
        return []
    several = facts_for_races(local.epsilon, facts, users)
    return [each for each in several if may_know_numbers(local.epsilon, each, users, epsilon)]


def log_two_delta(local: float | Event, epsilon: float) -> float:
    """Log of H(e^epsilon) of two users, rounded up: more of them cost no more."""
    assert isinstance(local, RandomizedResponse)
    return log_two_users_delta(local.epsilon, Facts(local.bits, local.ones, local.length), epsilon)


def work_of_two(local: float | Event, users: int) -> float:
    """About how many operations that takes at a point; none where it is never computed."""
    if not isinstance(local, RandomizedResponse) or not MANY_BITS < local.bits <= MOST_BITS or users < 2:
        return 0.0
    end = local.bits * local.epsilon
    if not LEAST_EPSILON < end <= MOST_EPSILON or users * math.exp(-end) > TWO_HIDE:
        return 0.0
    return work_of_two_users(Facts(local.bits, local.ones, local.length))


def log_searched_delta(local: float | Event, users: int, epsilon: float, most: float) -> float:
    """Log of an upper bound on H(e^epsilon) by the profile of the worst data of words of few users."""
    assert isinstance(local, RandomizedResponse)
    found = log_between(local.epsilon, Facts(local.bits, local.ones, local.length), users, most, epsilon)
    return min(found, log_alone(local, epsilon))


def is_enumerated(local: float | Event, users: int) -> bool:
    """Whether the worst data of words are found for every epsilon by itself."""
    if not isinstance(local, RandomizedResponse):
        return False
    return enumerates(local.epsilon, Facts(local.bits, local.ones, local.length), users)


def searches(epsilon: float, facts: Facts, users: int) -> bool:
    """Whether the worst data of words may be looked for: not where rounding of laws would be much of the profile."""
    return may_search(facts, users) and slack_of(2**facts.bits, users) <= FINEST * epsilon


def enumerates(epsilon: float, facts: Facts, users: int) -> bool:
    """The same, for every epsilon by itself."""
    return may_enumerate(facts, users) and searches(epsilon, facts, users)


def operations_for_words(local: float | Event, users: int) -> float:
    """How many operations may be spent on the worst data of words of few users: the same throughout a price.

    None where there is no patience for as many as are expected; then other bounds are looked at. Of few users, whose
    data are few, no end is set.
    """
    if not isinstance(local, RandomizedResponse):
        return 0.0
    facts = Facts(local.bits, local.ones, local.length)
    if not searches(local.epsilon, facts, users):
        return 0.0
    if enumerates(local.epsilon, facts, users):
        return math.inf
    work = work_of_words(local.epsilon, facts, users)
    left = grant((operations_for_words, local, users), FOR_WORDS) * OPERATIONS_PER_SECOND
    return min(ROOM * work, left) if work <= left else 0.0


def fewer_searched(local: float | Event, users: int) -> tuple[int, float]:
    """Fewer users, as many as may be, of whom the worst data of words are found, and operations for that; or none.

    The same throughout a price. More users cost no more, as some of the others may be told by name. None where the
    worst data of all of them are found.
    """
    if not isinstance(local, RandomizedResponse) or operations_for_words(local, users):
        return 0, 0.0
    facts, least = Facts(local.bits, local.ones, local.length), math.ceil(NEARLY * users)
    if not searches(local.epsilon, facts, least):
        return 0, 0.0
    left = grant((fewer_searched, local, users), FOR_FEWER) * OPERATIONS_PER_SECOND
    for fewer in range(users - 1, least - 1, -1):
        work = work_of_words(local.epsilon, facts, fewer) if searches(local.epsilon, facts, fewer) else math.inf
        if work <= left:
            return fewer, min(ROOM * work, left)
    return 0, 0.0


def facts_for_races(epsilon: float, facts: Facts, users: int) -> list[Facts]:
    """What is known of inputs, or less where that is no less of others: long reports are of fewer kinds.

    Where all are sets of few entries that is what counts; of two, whose races take longer, in small crowds alone.
    """
    bits, ones, length = facts
    is_short = 0 < length < bits + bits // 2
    found = [Facts(bits, 0, length)] if is_short else []
    entries = Facts(2 * ones, ones)
    if 2 * ones <= bits and words_of(entries) and (ones == 1 or users * math.exp(-2 * ones * epsilon) < FEW_HIDE):
        return [*found, entries]
    return found or [Facts(bits)]
