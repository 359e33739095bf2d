"""Prices: epsilon and delta of an event or a composition, by the chosen route."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from accountant.calibration import solve
from accountant.conversion import Conversion, checked_conversion
from accountant.errors import ParameterError, real, shown
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee
from accountant.renyi import renyi_delta, renyi_epsilon

__all__ = ["calibrate", "delta", "epsilon"]

METHODS = ("renyi",)


def epsilon(
    run: Event | Composition, delta: float, *, method: str = "renyi", conversion: Conversion = "improved"
) -> Guarantee:
    """Epsilon at a given delta.

    Parameters
    ----------
    run : Event or Composition
    delta : float
        In [0, 1); 0 asks for pure DP.
    method : {"renyi"}
    conversion : {"improved", "classic", "optimal"}
        "improved": Canonne, Kamath & Steinke 2020, Prop. 12; "classic": Mironov 2017, Prop. 3; "optimal": the
        smallest epsilon that a Rényi bound at one order implies (Asoodeh et al. 2021), never above improved.

    Returns
    -------
    Guarantee

    Raises
    ------
    ParameterError
        A value is out of range, or a name is unknown.
    NoGuarantee
        delta = 0 and no pure-DP limit exists.
    """
    composition = _checked_run(run, method)
    return renyi_epsilon(composition, real("delta", delta, 0.0, 1.0, open_high=True), checked_conversion(conversion))


_epsilon = epsilon  # functions below have a parameter of that name


def delta(
    run: Event | Composition, epsilon: float, *, method: str = "renyi", conversion: Conversion = "improved"
) -> Guarantee:
    """Delta at a given epsilon in [0, 1e300]; parameters, result and errors otherwise as for `epsilon`."""
    composition = _checked_run(run, method)
    return renyi_delta(composition, real("epsilon", epsilon, 0.0, 1e300), checked_conversion(conversion))


def calibrate(
    make: Callable[[float], Event | Composition],
    epsilon: float,
    delta: float,
    *,
    bounds: tuple[float, float] = (1e-9, 1e12),
    start: float = 1.0,
    integer: bool = False,
    method: str = "renyi",
    conversion: Conversion = "improved",
) -> float:
    """The most economical parameter with which a run meets a target.

    Parameters
    ----------
    make : callable
        From one positive number to a run whose epsilon is monotone in it: a noise scale, a rate, a count.
    epsilon, delta : float
        The target, as for `epsilon`.
    bounds : (float, float)
        Range to search, 0 < low < high; values at which `make` refuses end it.
    start : float
        Where the search begins.
    integer : bool
        Search the integers only; the result is an int.
    method, conversion
        As for `epsilon`.

    Returns
    -------
    float
        Where more of the parameter costs less (noise), the smallest value that meets the target; where more
        costs more (rates, counts), the largest. Priced again it meets the target exactly as stated, and it
        is within 1e-7 of the best value, relatively.

    Raises
    ------
    CalibrationError
        No value in the range meets the target, or the cost is not monotone.
    ParameterError
        A parameter is out of range.
    """
    target = real("epsilon", epsilon, 0.0, 1e300)
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ParameterError(f"bounds = {shown(bounds)}; accepted: a pair (low, high)") from None
    low, high = real("bounds[0]", low, 0.0, math.inf, open_low=True), real("bounds[1]", high, low, 1e300)
    price = partial(_epsilon, delta=delta, method=method, conversion=conversion)
    begin = real("start", start, 0.0, math.inf, open_low=True, open_high=True)
    value = solve(lambda x: price(make(x)).epsilon - target, low, high, begin, integer=integer)
    return int(value) if integer else value


def _checked_run(run: object, method: object) -> Composition:
    if method not in METHODS:
        raise ParameterError(f"method = {method!r}; accepted: {', '.join(METHODS)}")
    if isinstance(run, Event):
        return 1 * run
    if isinstance(run, Composition):
        return run
    raise ParameterError(f"run = {run!r}; accepted: an event, or a composition such as 100 * Gaussian(20.0)")
