"""Search for the parameter at which a monotone cost meets a target; the result meets it as evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from accountant.errors import (
    AccountantError,
    CalibrationError,
    DataDependentError,
    NoGuarantee,
    OutOfPatience,
    ParameterError,
    ProfileUnavailable,
    ToleranceUnreachable,
)
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.decimals import format_down, format_up, format_up_short
from accountant.numerics.roots import LOGARITHM, narrow

__all__ = ["FINE", "USUAL", "Bounds", "Tries", "refuse_search", "solve", "solve_near"]

NEARBY, DISTANT, FARTHEST = 1.1, 2.0, 1e6
"""Least and largest ratio of the first two values that are looked at beside a guess, and largest of one to the next."""

BEYOND, CLOSEST = 0.1, 1.02
"""Share of the way to the target by which the next value aims beyond it, and least ratio, which is squared at each."""

STARTS = 30
"""Powers of 2 by which a start is multiplied, and divided, until the cost can be evaluated."""

HALVED = 1
"""Values out of range until the end of the range is looked for."""

USUAL = 48
"""Prices that a search takes, about."""

SHORT = 2.0
"""By what factor a search that has taken more is longer than what it took, about."""

TOLD = 0.5
"""Share of these from which on they tell what the others take: the first ones are the cheapest."""

FINE = 1e-7
"""Relative distance within which the returned parameter is of the best one, by default."""


class Bounds(NamedTuple):
    """Where to search.

    Attributes
    ----------
    low, high : float
    accepts : callable, optional
        Whether x is in range at all, where that is known without its excess.
    infinite : int
        Values that are tried for one at which the cost is finite.
    """

    low: float
    high: float
    accepts: Callable[[float], bool] | None = None
    infinite: int = 2 * STARTS


def solve(
    excess: Callable[[float], float],
    bounds: tuple[float, float] | Bounds,
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
    bounds : (float, float) or Bounds
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
    OutOfPatience
        As the excess raises it: values beyond one that takes too long are not tried.
    """
    low, high, accepts, infinite = Bounds(*bounds)
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

    first = _find_start(at, (low, high), start, integer, infinite)
    sides = [_Side(first, edge, integer, accepts) for edge in (high, low)]
    fails, meets = _find_bracket(at, seen, sides, slack)
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
    first, outside, least = at(x) <= 0.0, math.nan, CLOSEST
    ratio = min(max(NEARBY, math.exp(0.5 * abs(at(x)))), DISTANT)  # most costs rise or fall no faster
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
        change = at(away) - at(x)
        aim = (1.0 + BEYOND) * at(away) / change * math.log(away / x) if 0.0 < abs(change) < math.inf else math.inf
        ratio = min(max(math.exp(min(abs(aim), 3.0 * math.log(ratio))), least), FARTHEST)
        x, least = away, min(least**2, FARTHEST)
    _, meets = narrow(at, (away, x) if first else (x, away), LOGARITHM, fine=fine, whole=integer)
    _refuse_if_not_monotone(seen, slack)
    return meets


class Tries:
    """What makes a run of a value; counts the values.

    Runs whose cost depends on private data are refused, unless whoever asks has `marked` set: then the value is shown
    with the caution that it depends on them, too.
    """

    def __init__(self, make: Callable[[float], Event | Composition], *, marked: bool = False) -> None:
        self.make, self.count, self.marked = make, 0, marked

    def __call__(self, x: float) -> Event | Composition:
        self.count += 1
        try:
            run = self.make(x)
        except ParameterError as error:
            if float(x).is_integer() or "accepted: an integer" not in str(error):
                raise
            raise ParameterError(f"{error}; calibrate with integer = True tries no others") from None
        if getattr(run, "data_dependent", False) and not self.marked:
            raise DataDependentError(
                "the cost of this run depends on private data, and so would the value found; accepted: events whose "
                "cost does not"
            )
        return run

    def accept(self, x: float) -> bool:
        """Whether `make` makes a run of it."""
        try:
            self.make(x)
        except AccountantError:
            return False
        return True


def refuse_search(error: OutOfPatience, count: int, seconds: float) -> OutOfPatience:
    """The refusal of a search that ends at its so many-th price, from that of the price."""
    said, _, _ = str(error).partition(", patience = ")
    about = error.seconds * max(USUAL / max(count, 1), SHORT)
    known = "or more" if count >= TOLD * USUAL else "at least"
    return OutOfPatience(
        f"price {count} of a calibration ends it: with those before, {said}, and the whole search about "
        f"{format_up_short(about)} s, patience = {seconds:g}; accepted: patience = {format_up_short(about)} {known}",
        about,
    )


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


def _find_start(
    at: Callable[[float], float], bounds: tuple[float, float], start: float, integer: bool, infinite: int
) -> float:
    """A point at which the cost can be evaluated: `start`, or the nearest of its multiples by powers of 2."""
    low, high = bounds
    start = min(max(start, low), high)
    first: AccountantError | None = None
    tried: set[float] = set()
    for step in range(STARTS):
        for x in (start / 2.0**step, start * 2.0**step):
            x = min(max(float(round(x)) if integer else x, low), high)
            if x in tried:
                continue
            tried.add(x)
            try:
                at(x)
                return x
            except (CalibrationError, DataDependentError, OutOfPatience):
                raise
            except AccountantError as error:
                first = first or error
                infinite -= isinstance(error, NoGuarantee)
                if infinite <= 0:
                    raise first from None
    assert first is not None
    raise first


def _find_bracket(
    at: Callable[[float], float], seen: dict[float, float], sides: list[_Side], slack: float
) -> tuple[float | None, float]:
    """(fails, meets) on either side of the target; or (None, the end of the range that meets it best).

    One step to either side tells where the target lies; the other side is looked at only if it is not there.
    """
    first, high, low = at(sides[0].inside), sides[0].edge, sides[1].edge
    for begin in (True, False):
        for side in sides:
            if not begin and first > 0 and at(side.inside) * (1 - slack) > first:
                continue  # what rises rises on
            while (x := side.advance(at)) is not None:
                if (at(x) <= 0) != (first <= 0):
                    return (side.before, x) if at(x) <= 0 else (x, side.before)
                if begin:
                    break
        # first where the cost falls, if it must
        sides.sort(key=lambda side: at(side.inside) * (1 if first > 0 else -1))
    ends = {edge: next(side for side in sides if side.edge == edge) for edge in (low, high)}
    up, down = at(ends[high].inside), at(ends[low].inside)
    least, largest = (end.inside if end.walked else end.edge for end in (ends[low], ends[high]))
    if first > 0:
        reason = ends[high if up < down else low].reason
        detail = f"; beyond {largest if up < down else least:g}: {reason}" if reason else ""
        raise CalibrationError(
            f"no value in [{least:g}, {largest:g}] meets the target (over it by {format_up(min(up, down))} at best)"
            f"{detail}"
        )
    if up == down and len(set(seen.values())) == 1:
        raise CalibrationError(
            f"the cost is the same from {least:g} to {largest:g} (below the target by {format_down(-up)}): "
            "nothing to calibrate; accepted: a target that some of these values miss"
        )
    return None, largest if up > down else least


class _Side:
    """The values from a start towards one end of the range; `inside` is the last that was evaluated.

    `before` is the one before it, `reason` says why values beyond are refused, if they are; `walked` whether there is
    no next one.
    """

    def __init__(self, start: float, edge: float, integer: bool, accepts: Callable[[float], bool] | None) -> None:
        self.inside = self.before = start
        self.edge, self.integer, self.accepts, self.refused = edge, integer, accepts, 0
        self.outside, self.factor = math.nan, 2.0
        self.reason: str | None = None
        self.walked = False

    def advance(self, at: Callable[[float], float]) -> float | None:
        """Evaluate the next value, and return it; None at the end."""
        while self.inside != self.edge and not _adjacent(self.inside, self.outside, self.integer):
            x = self._following()
            try:
                at(x)
            except (CalibrationError, OutOfPatience):
                raise
            except AccountantError as error:
                self.outside, self.reason = x, str(error)
                self.refused += 1
                if self.refused <= HALVED or (last := self._last_accepted()) is None or last == self.inside:
                    continue  # next to an end prices may be dear
                try:
                    at(x := last)
                except (CalibrationError, OutOfPatience):
                    raise
                except AccountantError as another:
                    self.outside, self.reason, self.accepts = x, str(another), None
                    continue
            self.before, self.inside = self.inside, x
            return x
        self.walked = True
        return None

    def _last_accepted(self) -> float | None:
        """The last value in range before the first that is not, which is kept; None if that one is in range."""
        if self.accepts is None or self.accepts(self.outside):
            return None
        last = self.inside
        while not _adjacent(last, self.outside, self.integer):
            x = math.sqrt(last) * math.sqrt(self.outside)
            x = float(round(x)) if self.integer else x
            if x in (last, self.outside):
                break
            last, self.outside = (x, self.outside) if self.accepts(x) else (last, x)
        return last

    def _following(self) -> float:
        rises = self.edge > self.inside
        if math.isnan(self.outside):
            x = min(self.inside * self.factor, self.edge) if rises else max(self.inside / self.factor, self.edge)
            self.factor = min(self.factor**2, 1e3)
        else:  # halve, on a log scale, towards the first value that `make` refuses
            x = math.sqrt(self.inside) * math.sqrt(self.outside)
        if self.integer:
            x = min(float(math.floor(x)), self.edge) if rises else float(math.ceil(x))
            x = self.inside + (1 if rises else -1) if x == self.inside else x
        return x


def _adjacent(inside: float, outside: float, integer: bool) -> bool:
    """Whether a value that works is next to one that `make` refuses."""
    gap = abs(outside - inside)
    return gap <= (1 if integer else FINE / 100 * inside)
