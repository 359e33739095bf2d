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
from accountant.events.shuffled_prices import delta_of_round, epsilon_of_round, epsilon_where
from accountant.events.shuffled_rounds import log_round_delta
from accountant.numerics.decimals import format_down, format_up
from accountant.numerics.exact import SPARE
from accountant.numerics.roots import LEAST, bisect
from accountant.patience import PATIENCE, allow_work, check_patience

__all__ = ["local_epsilon_for", "shuffled_delta", "shuffled_epsilon"]

BOUNDS = ("closed-form", "clones", "variation-ratio")

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
    profile = _profile(local, users, end, method)
    if profile is None or target == 0.0:
        return end
    with allow_work(seconds):
        if method == "clones":
            return epsilon_where(profile, end, math.log(target))
        return epsilon_of_round(local, users, math.log(target))


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
    profile = _profile(local, users, end, method)
    if point >= end:
        return 0.0
    if profile is None:
        return 1.0
    with allow_work(seconds):
        if method == "clones":
            # an underflow to 0 would claim pure DP
            return min(math.exp(profile(point)) + LEAST, 1.0)
        return delta_of_round(local, users, point)


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
        profile = _profile(local, users, local, method)
        return math.inf if profile is None else profile(asked) - log_delta if target < local else -math.inf

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
    return min(math.log1p(math.tanh(end / 2) * spread) * SPARE, end)


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


def _profile(local: float | Event, users: int, end: float, method: str) -> Callable[[float], float] | None:
    """The log of delta by epsilon; None where the local guarantee is as good."""
    if not is_one_of(method, BOUNDS):
        raise ParameterError(f"method = {method!r}; accepted: {', '.join(BOUNDS)}")
    if end > NO_GAIN:
        return None
    if method == "clones":
        return partial(log_shuffled_delta, clones(end), users)
    return partial(log_round_delta, local if isinstance(local, Event) else end, users)
