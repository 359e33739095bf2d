"""Monotone search for a parameter that meets a target, never on the wrong side of it. Knows no event."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from accountant.errors import AccountantError, CalibrationError

__all__ = ["solve"]

TOLERANCE = 1e-7
"""Relative distance within which the returned parameter is of the best one."""


def solve(excess: Callable[[float], float], low: float, high: float, start: float, *, integer: bool = False) -> float:
    """The most economical x in [low, high] with ``excess(x) <= 0``, for a monotone `excess`.

    For a decreasing excess (more noise) that is the smallest such x, for an increasing one (more releases)
    the largest. The bracket [fails, meets] is only ever narrowed by evaluation, so the value returned was
    itself evaluated and met the target.

    Parameters
    ----------
    excess : callable
        Cost above the target; may raise an AccountantError where x is out of range.
    low, high : float
        Range, 0 < low < high.
    start : float
        Where the search begins.
    integer : bool
        Search the integers only.

    Raises
    ------
    CalibrationError
        No x in the range meets the target, or excess does not look monotone.
    """
    seen: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in seen:
            value = excess(x)
            if math.isnan(value):
                raise CalibrationError(f"the cost at {x:g} is not a number")
            seen[x] = value
        return seen[x]

    start = min(max(start, low), high)
    bracket = _bracket(at, low, high, float(round(start)) if integer else start, integer)
    if isinstance(bracket, float):
        return bracket
    fails, meets = bracket
    while abs(meets - fails) > (1 if integer else TOLERANCE * min(fails, meets)):
        x = _between(fails, meets, at(fails), at(meets), len(seen))
        if integer:
            x = float(math.floor(x)) if math.floor(x) > min(fails, meets) else float(math.ceil(x))
            if x in (fails, meets):
                x = float((int(fails) + int(meets)) // 2)
        if x in (fails, meets):
            break
        if at(x) <= 0:
            meets = x
        else:
            fails = x
    _refuse_if_not_monotone(seen)
    return meets


def _refuse_if_not_monotone(seen: dict[float, float]) -> None:
    """Raise CalibrationError if a value that fails lies between two that meet the target, or the reverse."""
    points = sorted(seen)
    turns = [x for x, following in pairwise(points) if (seen[x] <= 0) != (seen[following] <= 0)]
    if len(turns) > 1:
        raise CalibrationError(
            f"the cost is not monotone: it crosses the target near {', '.join(f'{x:g}' for x in turns)}"
        )


def _between(fails: float, meets: float, above: float, below: float, turn: int) -> float:
    """Next point, on a log scale: by interpolation, drawn a little past the root, and every third by halving."""
    a, b = math.log(fails), math.log(meets)
    share = 0.5
    if turn % 3 and math.isfinite(above) and above - below > 0:
        share = above / (above - below)
        # aim just past the estimate, alternately to either side, so that both ends close in
        nudge = 0.25 * TOLERANCE / abs(b - a)
        share = min(max(share + (nudge if turn % 3 == 1 else -nudge), nudge), 1 - nudge)
    return math.exp(a + share * (b - a))


def _bracket(
    at: Callable[[float], float], low: float, high: float, start: float, integer: bool
) -> float | tuple[float, float]:
    """(fails, meets) on either side of the target, or the end of the range that already meets it best."""
    first = at(start)
    reasons: dict[int, str] = {}
    ends = {}
    for sign, edge in ((1, high), (-1, low)):
        x, factor = start, 2.0
        while x != edge:
            following = min(x * factor, high) if sign > 0 else max(x / factor, low)
            if integer:
                following = float(math.ceil(following) if sign > 0 else math.floor(following))
            try:
                value = at(following)
            except AccountantError as error:
                reasons[sign] = str(error)
                break
            if (value <= 0) != (first <= 0):
                return (x, following) if value <= 0 else (following, x)
            x, factor = following, min(factor**2, 1e3)
        ends[sign] = x
    up, down = at(ends[1]), at(ends[-1])
    if first > 0:
        better = 1 if up < down else -1
        detail = f"; beyond {ends[better]:g}: {reasons[better]}" if better in reasons else ""
        raise CalibrationError(
            f"no value in [{ends[-1]:g}, {ends[1]:g}] meets the target (over it by {min(up, down):g} at best){detail}"
        )
    return ends[1] if up > down else ends[-1]
