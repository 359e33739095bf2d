"""Central guarantees of n users whose local reports are shuffled.

All bounds are for REPLACE adjacency (one of n users changes their input) and for users that run the same local
randomizer on their own input alone. For rounds that compose see `accountant.Shuffled`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from accountant.calibration import refuse_search, solve
from accountant.errors import OutOfPatience, ParameterError, integer, is_one_of, real
from accountant.events.blanket import NO_GAIN, USERS, clones, local_epsilon, log_shuffled_delta
from accountant.events.event import Event
from accountant.events.shuffled_rounds import (
    fewer_searched,
    is_enumerated,
    log_known_delta,
    log_round_delta,
    log_searched_delta,
    operations_for_words,
    work_ahead,
    work_of_known,
)
from accountant.numerics.decimals import format_down, format_up
from accountant.numerics.roots import LEAST, SQUARE, bisect, narrow
from accountant.patience import PATIENCE, allow_work, check_patience, fits, skip_counting, spend, tally_work

__all__ = ["local_epsilon_for", "shuffled_delta", "shuffled_epsilon"]

LogProfile = Callable[..., float]
"""The log of delta by users and epsilon."""

BOUNDS = ("closed-form", "clones", "variation-ratio")

SEARCHED = 20
"""Values of a profile of which a search asks, about."""

WHAT = "an epsilon of shuffled reports"

FINE, RACED_FINE = 2e-10, 1e-5
"""Relative widths to which an epsilon is searched, and where a race may count, which varies by more."""

STEPS, LOWEST = 6, 0.88
"""Values of that which goes through all numbers of words of few users, and from what share of an epsilon on."""

ASIDE = 1e-9
"""By what share below a central epsilon the delta of a local one is looked at: the epsilon that is found at that delta
is then at most the central one."""


def shuffled_epsilon(
    local: float | Event, n: int, delta: float, method: str = "variation-ratio", *, patience: float = PATIENCE
) -> float:
    """Central epsilon of n shuffled local reports at a given delta.

    Parameters
    ----------
    local : float, RandomizedResponse, Collision or PureDP
        Local randomizer; a float stands for any with that pure-DP epsilon, in nats, [0, 1e6]. The
        inputs of any two users of randomized response, not only of neighbours, differ in at most `bits` bits. A hash
        function of Collision is either common to all users or drawn afresh by each and part of the report.
    n : int
        Users; [1, 1e12].
    delta : float
        In [0, 1]; 0 asks for pure DP, which shuffling does not improve.
    method : {"variation-ratio", "clones", "closed-form"}
        "variation-ratio", the default and the smallest: the pair of distributions of Wang et al. 2023, from the local
        epsilon, the largest total variation between two inputs, and what the reports of all inputs have in common, as
        far as it is proved for these randomizers (see `accountant.events.blanket`); for randomized response of up to 64
        bits the smaller of that and of a bound that knows how bits differ (see `accountant.events.shuffled_rounds`).
        "clones": Feldman, McMillan & Talwar 2021, Thm 3.1, evaluated numerically. "closed-form": their closed form.
        The last two know the local epsilon only.
    patience : float
        Seconds that it may take, as for `accountant.epsilon`; (0, inf].

    Returns
    -------
    float
        In nats, never above the local epsilon. Found to 2e-10, relatively, on the safe side, in small crowds of users
        of a few bits to 1e-5; what sums leave out and what rounding may cost is part of it. Beyond a local epsilon of
        500 it is the local epsilon itself.

    Raises
    ------
    ParameterError
        A value is out of range, a name is unknown, or the closed form does not hold there: it needs
        ``local <= log(n / (16 log(2/delta)))``.
    OutOfPatience
        It would take longer than `patience`.
    """
    end, users, target = _check(local, n, delta)
    seconds = check_patience(patience)
    if method == "closed-form":
        return closed_form(end, users, target)
    profile = _profile(local, end, method)
    if profile is None or target == 0.0:
        return end
    log_delta = math.log(target)
    with allow_work(seconds):
        if most := _operations_for_words(local, users, method):
            return _epsilon_of_words(local, end, (users, most), log_delta)
    once, each = work_ahead(local, users) if method != "clones" else (0.0, 0.0)
    with allow_work(seconds):
        spend(once + SEARCHED * each, WHAT)
        with tally_work() as tally:
            highest = profile(users, 0.0, race=False) if each > 0.0 else profile(users, 0.0)
        nothing = highest <= log_delta
        spend((1 if nothing else SEARCHED) * tally[0], WHAT)
        with skip_counting():
            if not nothing and each > 0.0:
                highest = profile(users, 0.0)
            if highest <= log_delta:
                return 0.0
            found = _smallest(profile, end, users, (highest, log_delta), RACED_FINE if once * each > 0.0 else FINE)
        if method != "variation-ratio":
            return found
        found = _lower(local, users, found, log_delta)
        words = fewer_searched(local, users)
        return min(found, _epsilon_of_words(local, end, words, log_delta)) if words[0] else found


def shuffled_delta(
    local: float | Event, n: int, epsilon: float, method: str = "variation-ratio", *, patience: float = PATIENCE
) -> float:
    """Central delta of n shuffled local reports at an epsilon in [0, 1e300]; otherwise as `shuffled_epsilon`.

    The closed form is solved for delta: the smallest at which it holds and gives `epsilon`; 1 where there is none.
    """
    end, users, _ = _check(local, n, 1.0)
    point, seconds = real("epsilon", epsilon, 0.0, 1e300), check_patience(patience)
    if method == "closed-form":
        return _closed_form_delta(end, users, point)
    profile = _profile(local, end, method)
    if point >= end:
        return 0.0
    if profile is None:
        return 1.0
    with allow_work(seconds):
        if most := _operations_for_words(local, users, method):
            return min(math.exp(log_searched_delta(local, users, point, most)) + LEAST, 1.0)
        once, each = work_ahead(local, users) if method == "variation-ratio" else (0.0, 0.0)
        spend(once if each == 0.0 else 0.0, WHAT)  # races count what they do
        log_delta = profile(users, point)
        if method == "variation-ratio" and fits(work_of_known(local, users)):
            with tally_work():
                log_delta = min(log_delta, log_known_delta(local, users, point))
        if method == "variation-ratio" and (words := fewer_searched(local, users))[0]:
            log_delta = min(log_delta, log_searched_delta(local, words[0], point, words[1]))
    # an underflow to 0 would claim pure DP
    return min(math.exp(log_delta) + LEAST, 1.0)


def local_epsilon_for(
    epsilon: float, n: int, delta: float, method: str = "variation-ratio", *, patience: float = PATIENCE
) -> float:
    """Largest local epsilon with which n shuffled reports meet a central (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        Central epsilon in nats; (0, 500].
    n, delta, method
        As for `shuffled_epsilon`, which gives at most `epsilon` for the result; delta in (0, 1).
    patience : float
        As for `shuffled_epsilon`, for the whole search.

    Returns
    -------
    float
        Within 1e-7 of the largest, relatively, on the safe side. For the closed form, the largest at which it holds.

    Raises
    ------
    ParameterError
        A value is out of range, a name is unknown, or the closed form holds for no local epsilon at all.
    OutOfPatience
        It would take longer than `patience`.
    """
    seconds = check_patience(patience)
    target = real("epsilon", epsilon, 0.0, NO_GAIN, open_low=True)
    users, point = integer("n", n, 1, USERS), real("delta", delta, 0.0, 1.0, open_low=True, open_high=True)
    if method == "closed-form":
        low, high = 0.0, math.log(_closed_form_room(0.0, users, point))
        if closed_form(high, users, point) <= target:
            return high
        return bisect(lambda local: closed_form(local, users, point) > target, low, high)[0]
    count, log_delta, asked = 0, math.log(point), target * (1 - ASIDE)

    def excess(local: float) -> float:
        nonlocal count
        count += 1
        profile = _profile(local, local, method)
        return math.inf if profile is None else profile(users, asked) - log_delta if target < local else -math.inf

    with allow_work(seconds):
        try:
            if excess(NO_GAIN) <= 0.0:
                return NO_GAIN
            # a local epsilon is never amplified to more than itself
            return max(target, solve(excess, (target, NO_GAIN), min(target * 1.5, NO_GAIN)))
        except OutOfPatience as error:
            raise refuse_search(error, count, seconds) from None


def closed_form(end: float, users: int, delta: float) -> float:
    """Feldman, McMillan & Talwar 2021, Thm 3.1:

    log(1 + (e^e0 - 1)/(e^e0 + 1) (8 sqrt(e^e0 log(4/delta))/sqrt(n) + 8 e^e0/n)).
    """
    _closed_form_room(end, users, delta)
    growth = math.exp(end)
    spread = 8 * math.sqrt(growth * math.log(4 / delta) / users) + 8 * growth / users
    return min(math.log1p(math.tanh(end / 2) * spread), end)


def _closed_form_room(end: float, users: int, delta: float) -> float:
    """n / (16 log(2/delta)), or ParameterError where the closed form does not hold."""
    room = users / (16 * math.log(2 / delta)) if delta > 0 else 0.0
    if room < 1 or end > math.log(room) * (1 + 4e-16):
        limit = "a larger n" if room < 1 else f"local <= {format_down(math.log(room), 9)}, or a larger n"
        limit = limit if delta > 0 else "delta above 0"
        raise ParameterError(
            f"local = {format_up(end, 9)} with n = {users} and delta = {delta:g} is out of the closed form's range, "
            f"local <= log(n / (16 log(2/delta))); accepted: {limit}; or method = 'variation-ratio'"
        )
    return room


def _closed_form_delta(end: float, users: int, epsilon: float) -> float:
    if epsilon >= end:
        return 0.0
    low, high = math.log(5e-324), 0.0
    _closed_form_room(end, users, 1.0)

    def holds(log_delta: float) -> bool:
        try:
            return closed_form(end, users, math.exp(log_delta)) <= epsilon
        except ParameterError:
            return False

    if not holds(high):
        return 1.0
    return math.exp(bisect(holds, low, high)[1])


def _check(local: float | Event, n: int, delta: float) -> tuple[float, int, float]:
    return local_epsilon(local), integer("n", n, 1, USERS), real("delta", delta, 0.0, 1.0)


def _profile(local: float | Event, end: float, method: str) -> LogProfile | None:
    """The log of delta by users and epsilon; None where the local guarantee is as good."""
    if not is_one_of(method, BOUNDS):
        raise ParameterError(f"method = {method!r}; accepted: {', '.join(BOUNDS)}")
    if end > NO_GAIN:
        return None
    if method == "clones":
        return partial(log_shuffled_delta, clones(end))
    return partial(log_round_delta, local if isinstance(local, Event) else end)


def _operations_for_words(local: float | Event, users: int, method: str) -> float:
    """Those for the worst data of words, where these are found for all epsilons at once; else none."""
    if method != "variation-ratio" or is_enumerated(local, users):
        return 0.0
    return operations_for_words(local, users)


def _epsilon_of_words(local: float | Event, end: float, words: tuple[int, float], log_delta: float) -> float:
    """By the worst data of words of so many users, which are found for all epsilons at once with so many operations."""
    users, most = words

    def profile(n: int, epsilon: float) -> float:
        return log_searched_delta(local, n, epsilon, most)

    highest = profile(users, 0.0)
    return _smallest(profile, end, users, (highest, log_delta), FINE) if highest > log_delta else 0.0


def _lower(local: float | Event, users: int, found: float, log_delta: float) -> float:
    """A smaller epsilon where all numbers of words can be gone through; the same without patience for that."""
    work = STEPS * work_of_known(local, users)
    if work == 0.0 or not fits(work):
        return found
    spend(work, WHAT)
    target = log_delta - 1e-15 * (1.0 - log_delta)
    low, high = LOWEST * found, found
    with skip_counting():
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if log_known_delta(local, users, middle) <= target else (middle, high)
    return high


def _smallest(profile: LogProfile, end: float, users: int, logs: tuple[float, float], fine: float) -> float:
    """The smallest epsilon whose delta is at most the target; log delta falls about as the square of epsilon.

    `logs` are those of delta at epsilon 0, which may take long, and of the target.
    """
    at_zero, log_delta = logs
    target = log_delta - 1e-15 * (1.0 - log_delta)  # delta itself, not its logarithm alone, meets the target

    def excess(epsilon: float) -> float:
        above = (profile(users, epsilon) if epsilon > 0.0 else at_zero) - target
        if math.isnan(above):
            raise ArithmeticError(f"the delta of {profile} beside {users - 1} users is not a number at {epsilon!r}")
        return above

    return narrow(excess, (0.0, end), SQUARE, fine=fine)[1]
