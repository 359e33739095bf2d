"""Prices: epsilon and delta of an event or a composition, by the chosen route."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from accountant.calibration import FINE, solve, solve_near
from accountant.errors import (
    AccountantError,
    NoGuarantee,
    ParameterError,
    ProfileUnavailable,
    ToleranceUnreachable,
    real,
    shorten,
)
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee
from accountant.numerics.kernel import FloatArray
from accountant.patience import PATIENCE, allow_work, check_patience
from accountant.renyi.conversion import Conversion, check_conversion
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.risk import advantage, gaussian_dp, true_positive_rate
from accountant.tight.closed_forms import closed_form
from accountant.tight.route import TightRun, single_release_epsilon

__all__ = ["Curve", "calibrate", "curve", "delta", "epsilon"]

ROUTES = ("renyi", "tight", "auto")

CHEAP_EVENTS = 16
"""Distinct events of which `auto` asks each for a lower bound of its own."""


def epsilon(
    run: Event | Composition,
    delta: float,
    *,
    method: str = "renyi",
    conversion: Conversion = "improved",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Guarantee:
    """Epsilon at a given delta.

    Parameters
    ----------
    run : Event or Composition
    delta : float
        In [0, 1); 0 asks for pure DP.
    method : {"renyi", "tight", "auto"}
        "renyi": the best real order of the Rényi curve, fast for every event. "tight": the exact price up to
        `tolerance`, between certified ends; events need a privacy profile. "auto": the cheapest of a closed form,
        Rényi and tight that is within `tolerance`; Rényi where tight is not to be had. The guarantee says which.
    conversion : {"improved", "classic", "optimal"}
        "improved": Canonne, Kamath & Steinke 2020, Prop. 12; "classic": Mironov 2017, Prop. 3; "optimal": the
        smallest epsilon that a Rényi bound at one order implies (Asoodeh et al. 2021), never above improved.
        The Rényi route's alone.
    tolerance : float
        Largest width of the certified interval, relative to its upper end; [1e-6, 1]. The tight route's alone.
    patience : float
        Seconds that the tight route may take; (0, inf]. Its work is counted before it is done, as what an idle core
        does in a second (`accountant.patience.OPERATIONS_PER_SECOND`), not timed: a price that is refused is
        refused on every machine, at once, with the patience or the tolerance that would do. "auto" then gives the
        Rényi price. In memory its grids take up to 2 GB.

    Returns
    -------
    Guarantee

    Raises
    ------
    ParameterError
        A value is out of range, or a name is unknown.
    NoGuarantee
        delta = 0 and no pure-DP limit exists.
    ProfileUnavailable, ToleranceUnreachable
        The tight route cannot price an event, or not narrowly enough.
    OutOfPatience
        The same, where it would take longer than `patience`; a ToleranceUnreachable.
    """
    composition, rule = _check_run(run, method), check_conversion(conversion)
    point, width = real("delta", delta, 0.0, 1.0, open_high=True), real("tolerance", tolerance, 1e-6, 1.0)
    seconds = check_patience(patience)
    if method == "renyi":
        return renyi_epsilon(composition, point, rule)
    with allow_work(seconds):
        return _certified_epsilon(composition, point, method, rule, width)


def _certified_epsilon(
    composition: Composition, point: float, method: str, rule: Conversion, width: float
) -> Guarantee:
    """By the tight route, or, where `method` is "auto", by whichever is enough."""
    if method == "tight":
        return TightRun(composition, width).epsilon(point)
    if closed_form(composition) is None and point > 0.0:
        try:
            found = renyi_epsilon(composition, point, rule)
        except NoGuarantee:  # the curve is infinite
            return TightRun(composition, width).epsilon(point)
        lower = single_release_epsilon(composition, point) if len(composition) <= CHEAP_EVENTS else 0.0
        if found.epsilon - lower <= width * found.epsilon:
            return replace(found, lower=lower)
        with suppress(ProfileUnavailable, ToleranceUnreachable, NoGuarantee):  # the last: below what tails may hold
            return TightRun(composition, width).epsilon(point)
        return found
    with suppress(ProfileUnavailable):
        return TightRun(composition, width).epsilon(point)
    return renyi_epsilon(composition, point, rule)


_epsilon = epsilon  # functions below have a parameter of that name


def delta(
    run: Event | Composition,
    epsilon: float,
    *,
    method: str = "renyi",
    conversion: Conversion = "improved",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Guarantee:
    """Delta at a given epsilon in [0, 1e300]; parameters, result and errors otherwise as for `epsilon`."""
    composition, rule = _check_run(run, method), check_conversion(conversion)
    point, width = real("epsilon", epsilon, 0.0, 1e300), real("tolerance", tolerance, 1e-6, 1.0)
    with allow_work(check_patience(patience)):
        if method == "tight":
            return TightRun(composition, width).delta(point)
        if method == "auto":
            with suppress(ProfileUnavailable, ToleranceUnreachable):
                return TightRun(composition, width).delta(point)
    return renyi_delta(composition, point, rule)


class Curve(NamedTuple):
    """Delta as a function of epsilon, between certified ends.

    Attributes
    ----------
    epsilons, upper, lower : array of shape (n,)
        `lower` is 0 on the Rényi route, which gives no lower end.
    method : str
        "renyi" or "tight".
    """

    epsilons: FloatArray
    upper: FloatArray
    lower: FloatArray
    method: str


def curve(
    run: Event | Composition,
    epsilons: ArrayLike,
    *,
    method: str = "tight",
    conversion: Conversion = "improved",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Curve:
    """Delta at every one of a 1-D array of epsilons in [0, 1e300]; otherwise as `delta`, `patience` for all of them."""
    composition, rule = _check_run(run, method), check_conversion(conversion)
    points = [real("epsilon", epsilon, 0.0, 1e300) for epsilon in np.ravel(np.asarray(epsilons)).tolist()]
    width = real("tolerance", tolerance, 1e-6, 1.0)
    if method != "renyi":
        try:
            with allow_work(check_patience(patience)):
                bounds = np.array(TightRun(composition, width).deltas(points)).reshape(-1, 2)
            return Curve(np.array(points), bounds[:, 1], bounds[:, 0], "tight")
        except (ProfileUnavailable, ToleranceUnreachable):
            if method == "tight":
                raise
    upper = np.array([renyi_delta(composition, epsilon, rule).delta for epsilon in points])
    return Curve(np.array(points), upper, np.zeros_like(upper), "renyi")


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
    conversion: Conversion = "improved",
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
        As for `epsilon`; the default route is "renyi" for epsilon and "auto" for risk, whose upper end counts.
    patience : float
        As for `epsilon`, for all prices of the search together.

    Returns
    -------
    float
        Where more of the parameter costs less (noise), the smallest value that meets the target; where more
        costs more (rates, counts), the largest. Priced again it meets the target exactly as stated, and it
        is within 1e-7 of the best value, relatively; on the tight route within `tolerance` / 1000 of the value at
        which the upper end of an interval of that `tolerance` meets the target.

    Raises
    ------
    CalibrationError
        No value in the range meets the target, or the cost is not monotone.
    ParameterError
        A parameter is out of range.
    """
    cost, goal, slack = _choose_target(
        target,
        {"epsilon": epsilon, "delta": delta, "value": value, "fpr": fpr, "fpr_floor": fpr_floor},
        method,
        conversion,
        tolerance,
    )
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ParameterError(f"bounds = {shorten(bounds)}; accepted: a pair (low, high)") from None
    low, high = real("bounds[0]", low, 0.0, math.inf, open_low=True), real("bounds[1]", high, low, 1e300)
    begin = real("start", start, 0.0, math.inf, open_low=True, open_high=True)
    fine = max(FINE, slack / 1000)
    search: Any = {"integer": integer, "slack": slack, "fine": fine}
    with allow_work(check_patience(patience)):
        guess = None
        if target == "epsilon" and delta is not None and method not in (None, "renyi") and goal > 0.0:
            price = partial(_epsilon, delta=delta, conversion=conversion)
            guess = _guess(lambda x: price(make(x)).epsilon - goal, (low, high), begin, integer)
        if guess is not None:
            found = solve_near(lambda x: cost(make(x)) / goal, (low, high), guess, **search)
        else:
            found = solve(lambda x: cost(make(x)) - goal, (low, high), begin, **search)
    return int(found) if integer else found


def _guess(
    excess: Callable[[float], float], bounds: tuple[float, float], start: float, integer: bool
) -> tuple[float, int] | None:
    """Where the Rényi route meets the target, and whether cost rises there (1) or falls (-1); None if it does not."""
    with suppress(AccountantError):
        found = solve(excess, bounds, start, integer=integer, fine=1e-3)
        for beside in (2 * found, found / 2):
            if bounds[0] <= (beside := float(round(beside)) if integer else beside) <= bounds[1] and beside != found:
                change = (excess(beside) - excess(found)) * (beside - found)
                return (found, 1 if change > 0 else -1) if change else None
    return None


TARGETS = {"epsilon": ("epsilon", "delta"), "advantage": ("value",), "tpr": ("value", "fpr"), "mu": ("value",)}
"""What `calibrate` may be asked to meet, and what it then needs."""


def _choose_target(
    target: str, given: dict[str, float | None], method: str | None, conversion: Conversion, tolerance: float
) -> tuple[Callable[[Event | Composition], float], float, float]:
    """The upper end of what is to be met, as a function of a run; its goal; by how much it may wobble."""
    if target not in TARGETS:
        raise ParameterError(f"target = {shorten(target)}; accepted: {', '.join(TARGETS)}")
    needed, allowed = TARGETS[target], (*TARGETS[target], *(["fpr_floor"] if target == "mu" else []))
    for name, number in given.items():
        if (number is None and name in needed) or (number is not None and name not in allowed):
            wrong = "" if number is None else " has no meaning here"
            raise ParameterError(
                f"{name} = {shorten(number)}{wrong}; accepted with target = {target!r}: {', '.join(allowed)}"
            )
    width = real("tolerance", tolerance, 1e-6, 1.0)
    if target == "epsilon":
        goal = real("epsilon", given["epsilon"], 0.0, 1e300)
        point = real("delta", given["delta"], 0.0, 1.0, open_high=True)
        route = "renyi" if method is None else method
        price = partial(_epsilon, delta=point, method=route, conversion=conversion, tolerance=tolerance)
        return lambda run: price(run).epsilon, goal, 1e-9 if route == "renyi" else width
    how: Any = {"method": "auto" if method is None else method, "tolerance": tolerance}
    if target == "mu":
        goal = real("value", given["value"], 0.0, 1e300, open_low=True)
        floor = 1e-9 if given["fpr_floor"] is None else given["fpr_floor"]
        return lambda run: gaussian_dp(run, floor, **how).upper, goal, width
    goal = real("value", given["value"], 0.0, 1.0, open_low=True, open_high=True)
    if target == "advantage":
        return lambda run: advantage(run, **how).upper, goal, width
    rate = real("fpr", given["fpr"], 0.0, goal, open_high=True)
    return lambda run: float(true_positive_rate(run, rate, **how).upper), goal, width


def _check_run(run: object, method: object) -> Composition:
    if method not in ROUTES:
        raise ParameterError(f"method = {method!r}; accepted: {', '.join(ROUTES)}")
    if isinstance(run, Event):
        return 1 * run
    if isinstance(run, Composition):
        return run
    raise ParameterError(f"run = {run!r}; accepted: an event, or a composition such as 100 * Gaussian(20.0)")
