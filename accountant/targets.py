"""Calibration: the most economical parameter with which a run meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

from accountant.advice import along_rungs, coarser_than
from accountant.calibration import USUAL, Tries, refuse_search
from accountant.errors import (
    AccountantError,
    CalibrationError,
    OutOfPatience,
    ParameterError,
    ProfileUnavailable,
    ToleranceUnreachable,
    is_one_of,
    real,
    shorten,
)
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.patience import PATIENCE, allow_work, check_patience, share_patience
from accountant.price import choose_route
from accountant.renyi.conversion import Conversion
from accountant.renyi.route import pool_of
from accountant.risk import advantage, gaussian_dp, true_positive_rate
from accountant.target_costs import Costs, Risks
from accountant.tight.searched import play_games, skip_lower_ends
from accountant.value_search import Bracket, Cost, Search, most_economical

__all__ = ["calibrate"]

TARGETS = {"epsilon": ("epsilon", "delta"), "advantage": ("value",), "tpr": ("value", "fpr"), "mu": ("value",)}
"""What `calibrate` may be asked to meet, and what it then needs."""

NEARLY, INFINITE = 0.03, 3
"""How near a guess by the Rényi route has to be, relatively; and values with an infinite curve until there is none."""

GUESSED = 0.4
"""Share of the patience that such a guess may take."""

FAR, WIDER, LATER = 4.0, 10.0, 2
"""How far below a target a cost has to be for a nearer guess, by prices whose tolerance is so many times wider; and for
how many more of them patience is left."""

APART = 10.0
"""How far a value that meets a target may be from one that does not, at most, where patience ends between them."""

CLOSEST = 1e-11
"""How near a value comes, relatively, where a price is known but for rounding."""

CLOSER = 0.05
"""Share of the patience that is left for coming so near."""


def calibrate(
    make: Callable[[float], Event | Composition],
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    target: str = "epsilon",
    value: float | None = None,
    fpr: float | None = None,
    fpr_floor: float | None = None,
    bounds: tuple[float, float] = (1e-9, 1e12),
    start: float = 1.0,
    integer: bool = False,
    method: str | None = None,
    conversion: Conversion | None = None,
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> float:
    """The most economical parameter with which a run meets a target.

    Parameters
    ----------
    make : callable
        From one positive number to a run whose epsilon is monotone in it: a noise scale, a rate, a count.
    epsilon, delta : float, optional
        The target, as for `epsilon`; only where `target` is "epsilon".
    target : {"epsilon", "advantage", "tpr", "mu"}
        What is to be met: epsilon at `delta`, or at most `value` of `advantage`, of `true_positive_rate` at `fpr`, or
        of `gaussian_dp` above `fpr_floor` (default 1e-9).
    value, fpr, fpr_floor : float, optional
        The target, where it is a risk.
    bounds : (float, float)
        Range to search, 0 < low < high; values at which `make` refuses end it.
    start : float
        Where the search begins.
    integer : bool
        Search the integers only; the result is an int.
    method, conversion, tolerance
        As for `epsilon`; the upper end counts. For a risk there is no conversion.
    patience : float
        As for `epsilon`, for all prices of the search together. By "auto", where patience or tolerance is not enough
        for the tight route, the search begins again at coarser tolerances, and ends at the most economical value that
        it came by, or at that of the Rényi route: it meets the target like any other.

    Returns
    -------
    float
        Where more of the parameter costs less (noise), the smallest value that meets the target; where more
        costs more (rates, counts), the largest. Priced again it meets the target exactly as stated, and it
        is within 1e-7 of the best value, relatively; on the tight route within `tolerance` / 1000 of the value at
        which the upper end of an interval of that `tolerance` meets the target, and within 1e-11, as far as
        a twentieth of `patience` goes, where the price is known but for rounding, as that of Gaussian noise. Runs of
        samples of a fixed size, or with replacement, are searched without the games that make their prices smaller,
        and then with them, within `tolerance` or as far as there is patience.

    Raises
    ------
    CalibrationError
        No value in the range meets the target, or the cost is not monotone.
    ParameterError
        A parameter is out of range.
    DataDependentError
        A run's cost depends on private data: so would the number found, which cannot say so.
    OutOfPatience
        The search would take longer than `patience`: it ends at the price that would, with about how long it takes.
    """
    given = {"epsilon": epsilon, "delta": delta, "value": value, "fpr": fpr, "fpr_floor": fpr_floor}
    _check_target(target, given)
    route, rule = choose_route(method, conversion if target == "epsilon" else None)
    width = real("tolerance", tolerance, 1e-6, 1.0)
    if not callable(make):
        raise ParameterError(f"make = {shorten(make)}; accepted: a function from a number to a run")
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ParameterError(f"bounds = {shorten(bounds)}; accepted: a pair (low, high)") from None
    low, high = real("bounds[0]", low, 0.0, math.inf, open_low=True), real("bounds[1]", high, low, 1e300)
    tries = make if isinstance(make, Tries) else Tries(make)
    search = Search(
        (low, high), real("start", start, 0.0, math.inf, open_low=True, open_high=True), integer, tries.accept
    )
    if target == "epsilon":
        goal = real("epsilon", epsilon, 0.0, 1e300)
        costs = Costs(tries, real("delta", delta, 0.0, 1.0, open_high=True), rule, width)
    else:
        risk, goal = _risk(target, given)
        costs = Risks(tries, 0.0, rule, width, risk)
    meet = partial(_meet, route, search, costs, goal)
    seconds = check_patience(patience)
    with allow_work(seconds, pool_of(seconds)) as work:
        outer, work.each = work.each, work.seconds / USUAL
        try:
            with skip_lower_ends():
                found = meet()
        except OutOfPatience as error:
            raise refuse_search(error, tries.count, seconds) from None
        finally:
            work.each = outer
    return int(found) if integer else found


def _meet(route: str, search: Search, costs: Costs, goal: float) -> float:
    """By the route that is asked for; nearer to the best value where prices are known but for rounding."""
    if route == "renyi":
        return search.anywhere(costs.renyi, goal)
    found = _by_games(route, search, costs, goal, (_by_tight if route == "tight" else _by_both)(search, costs, goal))
    if found not in costs.closed or search.integer or goal == 0.0:
        return found
    cost = cache(costs.tight if route == "tight" else partial(costs.sharper, width=costs.width))
    with suppress(AccountantError), share_patience(CLOSER):  # what was found meets the target
        if (rises := search.rises(cost, found)) is not None:
            return search.near(cost, goal, (found, rises), width=costs.width, fine=CLOSEST)
    return found


def _by_games(route: str, search: Search, costs: Costs, goal: float, found: float) -> float:
    """From what was found without games on, as far as there is patience for prices with them, which are smaller."""
    guess, met = costs.nearest(goal), [found]
    if guess is None or True not in costs.played:
        return found

    @cache
    def cost(x: float) -> float:
        price = costs.tight(x) if route == "tight" else costs.sharper(x, costs.width)
        met.extend([x] if price <= goal else [])
        return price

    with suppress(AccountantError), play_games():
        search.near(cost, goal, (found, guess[1]), width=costs.width, fine=costs.width)
    return max(met) if guess[1] > 0 else min(met)


def _by_tight(search: Search, costs: Costs, goal: float) -> float:
    """From near where the Rényi route meets the target, if it does."""
    tight = cache(costs.tight)
    try:
        guess = _guess(search, costs, goal)
    except OutOfPatience:
        raise
    except AccountantError as error:
        if costs.are_above(goal, tight):
            raise error
        guess = _guess_beyond(search, costs, goal, tight)
    if guess is None:
        return search.anywhere(tight, goal, slack=costs.width, fine=costs.width / 1000)
    return search.near(tight, goal, _nearer(search, costs, goal, guess, tight), width=costs.width)


def _guess(search: Search, costs: Costs, goal: float) -> tuple[float, int] | None:
    """Where about the Rényi route meets the target, and whether the cost rises there; None if that cannot be told.

    Where its prices are dear it is the nearest of those that a share of the patience knows: the tight route goes on.
    """
    look = partial(search.anywhere, costs.renyi, goal, fine=NEARLY, infinite=INFINITE)
    try:
        with share_patience(GUESSED):
            found = look()
    except OutOfPatience:
        if (near := costs.nearest(goal)) is not None:
            return near
        found = look()
    rises = search.rises(costs.renyi, found) if goal > 0.0 else None
    return None if rises is None else (found, rises)


def _nearer(
    search: Search, costs: Costs, goal: float, guess: tuple[float, int], cost: Cost, bracket: Bracket | None = None
) -> tuple[float, int]:
    """A guess by wide tight prices, where that by the Rényi route is far off: on the way prices may be dear.

    With a `bracket` some patience is left for other prices.
    """
    if not 0.0 < cost(guess[0]) < goal / FAR:
        return guess
    wide = min(WIDER * costs.width, 1.0)

    def coarse(x: float) -> float:
        if x == guess[0]:
            return cost(x)
        return costs.tight(x, wide) if bracket is None else bracket.ask(costs.tight, x, wide, LATER)

    with suppress(AccountantError):
        return search.near(coarse, goal, guess, width=wide, fine=NEARLY), guess[1]
    near = None if bracket is None else bracket.safe_side(wide)
    return guess if near is None else (near, guess[1])


def _by_both(search: Search, costs: Costs, goal: float) -> float:
    """By the smaller price of both routes; by the Rényi route alone, where the tight one refuses on the way.

    Prices that mix both routes from value to value would leap where the tight one begins to refuse.
    """
    try:
        guess = _guess(search, costs, goal)
    except OutOfPatience:
        if (found := most_economical(costs.known, goal)) is None:
            raise
        return found
    except AccountantError as error:
        return _beyond_renyi(search, costs, goal, error)
    bracket = Bracket(goal, 1 if guess is None else guess[1], search.integer)
    met, price = bracket.met, partial(bracket.ask, costs.sharper)
    sharper = cache(price)
    if guess is None:
        cost, fine = partial(sharper, width=costs.width), costs.width / 1000
        # the cost may be the same at all values, or not monotone where it is zero
        with suppress(CalibrationError, ProfileUnavailable, ToleranceUnreachable):
            return search.anywhere(cost, goal, slack=costs.width, fine=fine)
        return search.anywhere(costs.renyi, goal)
    best = max if guess[1] > 0 else min

    def near(width: float) -> None:
        cost = partial(sharper, width=width)
        begin = (best(met), guess[1]) if met else _nearer(search, costs, goal, guess, cost, bracket)
        try:
            met.append(search.near(cost, goal, begin, width=width, fine=width if True in costs.played else None))
        except OutOfPatience:
            if (last := bracket.safe_side(width)) is not None:
                price(last, width, 0)
            raise

    with suppress(ProfileUnavailable):
        along_rungs(near, costs.width)
    if met and guess[1] * math.log(best(met) / guess[0]) > 2 * NEARLY:
        return best(met)  # the Rényi route does not come near
    try:
        return best([search.anywhere(costs.renyi, goal), *met])
    except OutOfPatience:
        met += [x for x, cost in costs.known.items() if cost <= goal]  # if less closely
        if not met:
            raise
        return best(met)


def _beyond_renyi(search: Search, costs: Costs, goal: float, error: AccountantError) -> float:
    """By the tight route alone, where the Rényi route does not meet the target: that may be infinite, or just above."""
    late: OutOfPatience | None = None
    for width in (costs.width, *coarser_than(costs.width)):
        found: dict[float, float] = {}

        def sharper(x: float, width: float = width, found: dict[float, float] = found) -> float:
            if x not in found:
                found[x] = costs.sharper(x, width=width)
            return found[x]

        try:
            if costs.are_above(goal, sharper):
                break
            if (guess := _guess_beyond(search, costs, goal, sharper)) is not None:
                return search.near(sharper, goal, guess, width=width)
            return search.anywhere(sharper, goal, slack=width, fine=width / 1000)
        except OutOfPatience as refusal:
            if (best := most_economical(found, goal, APART)) is not None:
                return best
            late = late or refusal
        except (ProfileUnavailable, ToleranceUnreachable):
            continue
    raise late or error from None


def _guess_beyond(search: Search, costs: Costs, goal: float, cost: Cost) -> tuple[float, int] | None:
    """About where, and whether costs rise: the tight route is taken to be as far ahead as at what costs least.

    None where the Rényi route says nothing, or takes more than a share of the patience.
    """
    least = min(costs.known, key=costs.known.__getitem__, default=None)
    if least is None or not 0.0 < costs.known[least] < math.inf or not cost(least) < goal:
        return None
    with suppress(AccountantError), share_patience(GUESSED):
        found = search.anywhere(costs.renyi, costs.known[least] * goal / cost(least), fine=NEARLY)
        rises = search.rises(costs.renyi, found)
        return None if rises is None else (found, rises)
    return None


def _check_target(target: str, given: Mapping[str, float | None]) -> None:
    if not is_one_of(target, TARGETS):
        raise ParameterError(f"target = {shorten(target)}; accepted: {', '.join(TARGETS)}")
    needed, allowed = TARGETS[target], (*TARGETS[target], *(["fpr_floor"] if target == "mu" else []))
    for name, number in given.items():
        if (number is None and name in needed) or (number is not None and name not in allowed):
            wrong = "" if number is None else " has no meaning here"
            raise ParameterError(
                f"{name} = {shorten(number)}{wrong}; accepted with target = {target!r}: {', '.join(allowed)}"
            )


def _risk(
    target: str, given: Mapping[str, float | None]
) -> tuple[Callable[[Composition, dict[str, Any]], float], float]:
    """The upper end of a risk, as a function of a run and of how it is asked, and its goal."""
    if target == "mu":
        goal = real("value", given["value"], 0.0, 1e300, open_low=True)
        floor = 1e-9 if given["fpr_floor"] is None else given["fpr_floor"]
        return lambda run, how: gaussian_dp(run, floor, **how).upper, goal
    goal = real("value", given["value"], 0.0, 1.0, open_low=True, open_high=True)
    if target == "advantage":
        return lambda run, how: advantage(run, **how).upper, goal
    rate = real("fpr", given["fpr"], 0.0, goal, open_high=True)
    return lambda run, how: float(true_positive_rate(run, rate, **how).upper), goal
