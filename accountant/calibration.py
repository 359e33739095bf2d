"""Search for the parameter at which a monotone cost meets a target; the result meets it as evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from accountant.errors import AccountantError, CalibrationError, ProfileUnavailable, ToleranceUnreachable
from accountant.numerics.roots import LOGARITHM, narrow

__all__ = ["FINE", "solve", "solve_near"]

NEARBY = 1.1
"""Ratio of the first two values that are looked at beside a good guess."""

FINE = 1e-7
"""Relative distance within which the returned parameter is of the best one, by default."""


def solve(
    excess: Callable[[float], float],
    bounds: tuple[float, float],
    start: float,
    *,
    integer: bool = False,
    slack: float = 1e-9,
    fine: float = FINE,
) -> float:
    """The most economical x in [low, high] with ``excess(x) <= 0``, for a monotone `excess`.

    For a decreasing excess (more noise) that is the smallest such x, for an increasing one (more releases)
    the largest. The bracket [fails, meets] is only ever narrowed by evaluation, so the value returned was
    itself evaluated and met the target.

    Parameters
    ----------
    excess : callable
        Cost above the target; may raise an AccountantError where x is out of range.
    bounds : (float, float)
        Range (low, high), 0 < low < high.
    start : float
        Where the search begins.
    integer : bool
        Search the integers only.
    slack : float
        Relative size up to which a step in the wrong direction counts as rounding.
    fine : float
        Relative distance within which the returned parameter is of the best one.

    Raises
    ------
    CalibrationError
        No x in the range meets the target, or excess does not look monotone.
    """
    low, high = bounds
    if integer:
        low, high = float(math.ceil(low)), float(math.floor(high))
        if low > high:
            raise CalibrationError("there is no integer in the range")
    seen: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in seen:
            value = excess(x)
            if math.isnan(value):
                raise CalibrationError(f"the cost at {x:g} is not a number")
            seen[x] = value
        return seen[x]

    fails, meets = _find_bracket(at, seen, low, high, _find_start(at, low, high, start, integer), integer)
    if fails is not None:
        _, meets = narrow(at, (fails, meets), LOGARITHM, fine=fine, whole=integer)
    _refuse_if_not_monotone(seen, slack)
    return meets


def solve_near(
    share: Callable[[float], float],
    bounds: tuple[float, float],
    guess: tuple[float, int],
    *,
    integer: bool = False,
    slack: float = 1e-9,
    fine: float = FINE,
) -> float:
    """As `solve`, for a cost that is dear to evaluate, with a guess that a cheaper bound on it gave.

    Parameters
    ----------
    share : callable
        The cost as a share of what it may be, at least 0.
    bounds : (float, float)
    guess : (float, int)
        Where x is about, and whether the cost rises with x (1) or falls (-1); the cost is known there.
    integer, slack, fine
        As for `solve`.
    """
    low, high = (float(math.ceil(bounds[0])), float(math.floor(bounds[1]))) if integer else bounds
    seen: dict[float, float] = {}

    def at(x: float) -> float:
        """Nearly straight in log x."""
        if x not in seen:
            seen[x] = share(x)
            if not seen[x] >= 0.0:
                raise CalibrationError(f"the cost at {x:g} is {seen[x]}")
        return math.log(max(seen[x], 1e-300))

    x, rises = guess
    first, ratio, outside = at(x) <= 0.0, NEARBY, math.nan
    while True:
        # halve, on a log scale, towards the first value that is refused
        away = x * ratio ** (rises if first else -rises) if math.isnan(outside) else math.sqrt(x) * math.sqrt(outside)
        if integer:
            away = float(math.floor(away)) if away < x else float(math.ceil(away))
        away = min(max(away, low), high)
        if away in (x, outside) or _adjacent(x, outside, integer):  # the end of the range
            if first:
                return x
            raise CalibrationError(f"no value in [{low:g}, {high:g}] meets the target")
        try:
            met = at(away) <= 0.0
        except (CalibrationError, ProfileUnavailable, ToleranceUnreachable):
            raise
        except AccountantError:
            outside = away
            continue
        if met != first:
            break
        x, ratio = away, ratio**2
    _, meets = narrow(at, (away, x) if first else (x, away), LOGARITHM, fine=fine, whole=integer)
    _refuse_if_not_monotone(seen, slack)
    return meets


def _refuse_if_not_monotone(seen: dict[float, float], relative: float) -> None:
    """Raise CalibrationError if the values seen both rise and fall, by more than rounding."""
    points = sorted(seen)
    values = [seen[x] for x in points]
    scale = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    slack = relative * scale
    rises = [x for x, (a, b) in zip(points, pairwise(values), strict=False) if b > a + slack]
    falls = [x for x, (a, b) in zip(points, pairwise(values), strict=False) if b < a - slack]
    if rises and falls:
        raise CalibrationError(f"the cost is not monotone: it rises after {rises[0]:g} and falls after {falls[0]:g}")


def _find_start(at: Callable[[float], float], low: float, high: float, start: float, integer: bool) -> float:
    """A point at which the cost can be evaluated: `start`, or the nearest of its multiples by powers of 2."""
    start = min(max(start, low), high)
    first: AccountantError | None = None
    for step in range(30):
        for x in (start / 2.0**step, start * 2.0**step):
            x = min(max(float(round(x)) if integer else x, low), high)
            try:
                at(x)
                return x
            except CalibrationError:
                raise
            except AccountantError as error:
                first = first or error
    assert first is not None
    raise first


def _find_bracket(
    at: Callable[[float], float], seen: dict[float, float], low: float, high: float, start: float, integer: bool
) -> tuple[float | None, float]:
    """(fails, meets) on either side of the target; or (None, the end of the range that meets it best)."""
    first = at(start)
    ends: dict[int, float] = {}
    reasons: dict[int, str] = {}
    for sign, edge in ((1, high), (-1, low)):
        inside, outside, factor = start, math.nan, 2.0
        while inside != edge and not _adjacent(inside, outside, integer):
            if math.isnan(outside):
                x = min(inside * factor, high) if sign > 0 else max(inside / factor, low)
                factor = min(factor**2, 1e3)
            else:  # halve, on a log scale, towards the first value that `make` refuses
                x = math.sqrt(inside) * math.sqrt(outside)
            if integer:
                x = min(float(math.floor(x)) if sign > 0 else float(math.ceil(x)), high)
                x = inside + sign if x == inside else x
            try:
                value = at(x)
            except CalibrationError:
                raise
            except AccountantError as error:
                outside, reasons[sign] = x, str(error)
                continue
            if (value <= 0) != (first <= 0):
                return (inside, x) if value <= 0 else (x, inside)
            inside = x
        ends[sign] = inside
    up, down = at(ends[1]), at(ends[-1])
    if first > 0:
        better = 1 if up < down else -1
        detail = f"; beyond {ends[better]:g}: {reasons[better]}" if better in reasons else ""
        raise CalibrationError(
            f"no value in [{ends[-1]:g}, {ends[1]:g}] meets the target (over it by {min(up, down):g} at best){detail}"
        )
    if up == down and len(set(seen.values())) == 1:
        raise CalibrationError(
            f"the cost is the same from {ends[-1]:g} to {ends[1]:g} (below the target by {-up:g}): nothing to calibrate"
        )
    return None, ends[1] if up > down else ends[-1]


def _adjacent(inside: float, outside: float, integer: bool) -> bool:
    """Whether a value that works is next to one that `make` refuses."""
    gap = abs(outside - inside)
    return gap <= (1 if integer else FINE / 100 * inside)
