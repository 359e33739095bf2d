"""The smallest epsilon, or delta, that is known of one round of shuffled reports: without a grid, point by point.

A profile on a grid (`accountant.events.shuffled`) is what composes; of a single round the bounds themselves say less or
as little, and where few users have words of two bits one more that takes too long for a grid
(`accountant.events.race_numbers`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

from accountant.events.blanket import local_epsilon
from accountant.events.event import Event
from accountant.events.shuffled_rounds import (
    fewer_searched,
    has_many_bits,
    is_enumerated,
    log_known_delta,
    log_round_delta,
    log_searched_delta,
    log_two_delta,
    may_do_without,
    operations_for_words,
    work_ahead,
    work_of_known,
    work_of_two,
)
from accountant.numerics.roots import LEAST, SQUARE, narrow
from accountant.patience import fits, has_limit, keep, skip_counting, spend, tally_work

__all__ = ["delta_of_round", "epsilon_of_round", "epsilon_where"]

LogProfile = Callable[..., float]
"""The log of delta by epsilon."""

SEARCHED = 20
"""Values of a profile of which a search asks, about."""

FINE, RACED_FINE = 2e-10, 1e-5
"""Relative widths to which an epsilon is searched, and where a race may count, which varies by more."""

FARTHER, LITTLE = 8.0, 1e-3
"""By how much longer a step is than the one before, and the share of the local epsilon that stands for less."""

STEPS, LOWEST = 7, 0.88
"""Values of that which goes through all numbers of words of few users, and from what share of an epsilon on."""

WHAT = "an epsilon of shuffled reports"


def epsilon_of_round(local: float | Event, users: int, log_delta: float) -> float:
    """The smallest epsilon that is known to be enough, rounded up, at a delta above 0.

    Raises
    ------
    OutOfPatience
        It would take longer than what is left of the allowance.
    """
    end = local_epsilon(local)
    if most := operations_for_all_words(local, users):
        return epsilon_of_words(local, end, (users, most), log_delta)
    once, each = races_in_time(local, users, SEARCHED, log_delta)
    profile = partial(log_round_delta, local, users, race=each > 0.0)
    found = epsilon_where(profile, end, log_delta, (once + SEARCHED * each, each > 0.0, once * each > 0.0))
    found = lower_by_numbers(local, users, found, log_delta)
    found = lower_by_two(local, users, found, log_delta)
    words = fewer_searched(local, users)
    return min(found, epsilon_of_words(local, end, words, log_delta)) if words[0] else found


def epsilon_where(
    profile: LogProfile, end: float, log_delta: float, races: tuple[float, bool, bool] = (0.0, False, False)
) -> float:
    """The smallest epsilon up to `end`, which is enough, at which this profile is at most the delta.

    `races` says what they take, whether some may be run for the profile, and whether they count at all points; what one
    value takes is counted for all.
    """
    ahead, raced, varies = races
    spend(ahead, WHAT)
    with tally_work() as tally:
        highest = profile(0.0, race=False) if raced else profile(0.0)
    nothing = highest <= log_delta
    spend((1 if nothing else SEARCHED) * tally[0], WHAT)
    with skip_counting():
        if not nothing and varies:
            return smallest_of_races(profile, end, log_delta)
        if not nothing and raced:
            highest = profile(0.0)
        return smallest(profile, end, (highest, log_delta), FINE)


def smallest_of_races(profile: LogProfile, end: float, log_delta: float) -> float:
    """The same by races: for the first inputs, and then, from there on, for all, which seldom cost more."""
    first, known, target = cache(partial(profile, whole=False)), cache(profile), below(log_delta)  # a value takes long
    high = min(about_normal(first(0.0), log_delta), end)
    while high < end and not first(high) <= target:
        high = min(2.0 * high, end)
    low = high = smallest(first, high, (first(0.0), log_delta), RACED_FINE)
    step = RACED_FINE
    while high < end and not known(high) <= target:
        low, step = high, step * FARTHER
        high = min(high + step * max(high, LITTLE * end), end)
    if low == high:
        return low
    return narrow(lambda epsilon: known(epsilon) - target, (low, high), SQUARE, fine=RACED_FINE)[1]


def about_normal(at_zero: float, log_delta: float) -> float:
    """About the epsilon at a delta of normal losses with that delta at epsilon 0, whose logs are given."""
    mean = 2.5 * math.exp(at_zero)
    return mean * math.sqrt(2.0 * max(at_zero - log_delta, 0.0)) + mean * mean / 2.0


def delta_of_round(local: float | Event, users: int, epsilon: float) -> float:
    """The smallest delta that is known to be enough, rounded up.

    Raises
    ------
    OutOfPatience
        It would take longer than what is left of the allowance.
    """
    if epsilon >= local_epsilon(local):
        return 0.0
    if most := operations_for_all_words(local, users):
        return min(math.exp(log_searched_delta(local, users, epsilon, most)) + LEAST, 1.0)
    log_delta = log_delta_in_time(local, users, epsilon)
    if fits(work_of_known(local, users)):
        log_delta = min(log_delta, log_known_delta(local, users, epsilon))
    if (work := work_of_two(local, users)) and fits(work):
        log_delta = min(log_delta, log_two_delta(local, epsilon))
    if (words := fewer_searched(local, users))[0]:
        log_delta = min(log_delta, log_searched_delta(local, words[0], epsilon, words[1]))
    # an underflow to 0 would claim pure DP
    return min(math.exp(log_delta) + LEAST, 1.0)


def log_delta_in_time(local: float | Event, users: int, epsilon: float) -> float:
    """Log of the smallest delta that is known, of many bits without a race where that takes too long."""
    once, each = races_in_time(local, users, 1)
    if each == 0.0:
        spend(once, WHAT)
        return log_round_delta(local, users, epsilon, race=False)
    if not has_many_bits(local):
        return log_round_delta(local, users, epsilon)  # races count what they do
    spend(once + each, WHAT)
    with skip_counting():
        return log_round_delta(local, users, epsilon)


def races_in_time(local: float | Event, users: int, points: int, log_delta: float = -math.inf) -> tuple[float, float]:
    """What races take, once and at each of so many points, as `work_ahead` has it; none where others do.

    That is where there is no patience for them and what is computed beside, and these say nearly as much at a delta
    whose log is given, or bits are many.
    """
    once, each = work_ahead(local, users, True)
    if each == 0.0 or not may_do_without(local, users, log_delta):
        return once, each
    if has_many_bits(local) and not has_limit():
        return 0.0, 0.0

    def is_in_time() -> bool:
        if not fits(once + points * each):
            return False
        with tally_work() as beside:
            log_round_delta(local, users, 0.0, race=False)
        return fits(once + points * (each + beside[0]))

    return (once, each) if keep((races_in_time, local, users, points), is_in_time) else (0.0, 0.0)


def operations_for_all_words(local: float | Event, users: int) -> float:
    """Those for the worst data of words, where these are found for all epsilons at once; else none."""
    return 0.0 if is_enumerated(local, users) else operations_for_words(local, users)


def epsilon_of_words(local: float | Event, end: float, words: tuple[int, float], log_delta: float) -> float:
    """By the worst data of words of so many users, which are found for all epsilons at once with so many operations."""
    users, most = words

    def profile(epsilon: float) -> float:
        return log_searched_delta(local, users, epsilon, most)

    return smallest(profile, end, (profile(0.0), log_delta), FINE)


def lower_by_numbers(local: float | Event, users: int, found: float, log_delta: float) -> float:
    """A smaller epsilon where all numbers of words can be gone through; the same without patience for that."""
    if not (work := work_of_known(local, users)):
        return found
    target = below(log_delta)
    low, high = LOWEST * found, found
    for step in range(STEPS):
        if not fits(work):
            break
        point = 0.5 * (low + high) if step else found
        if log_known_delta(local, users, point) <= target:
            high = point
        elif step:
            low = point
        else:
            break
    return high


def lower_by_two(local: float | Event, users: int, found: float, log_delta: float) -> float:
    """A smaller epsilon where two users cost less than what is known of all; the same without patience for that."""
    work = work_of_two(local, users)
    if not work or not fits(SEARCHED * work) or log_two_delta(local, found) > below(log_delta):
        return found
    profile = partial(log_two_delta, local)
    return min(found, smallest(profile, local_epsilon(local), (profile(0.0), log_delta), FINE))


def smallest(profile: LogProfile, end: float, logs: tuple[float, float], fine: float) -> float:
    """The smallest epsilon whose delta is at most the target; log delta falls about as the square of epsilon.

    `logs` are those of delta at epsilon 0, which may take long, and of the target.
    """
    at_zero, log_delta = logs
    if at_zero <= log_delta:
        return 0.0
    target = below(log_delta)

    def excess(epsilon: float) -> float:
        above = (profile(epsilon) if epsilon > 0.0 else at_zero) - target
        if math.isnan(above):
            raise ArithmeticError(f"the delta of {profile} is not a number at {epsilon!r}")
        return above

    return narrow(excess, (0.0, end), SQUARE, fine=fine)[1]


def below(log_delta: float) -> float:
    """A target that delta itself, not its logarithm alone, meets."""
    return log_delta - 1e-15 * (1.0 - log_delta)
