"""The attacker of a run: bounds on what any test of one neighbour against the other achieves, in either direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accountant.adjacency import DIRECTIONS
from accountant.advice import allow_with_advice
from accountant.errors import (
    DataDependentError,
    ParameterError,
    ProfileUnavailable,
    ToleranceUnreachable,
    is_one_of,
    real,
    shorten,
)
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.numerics.scipy_special import ndtri
from accountant.patience import OPERATIONS_PER_SECOND, PATIENCE, check_patience, share_patience, spend
from accountant.renyi.route import LONG
from accountant.tight.route import TightRun
from accountant.tight.trade_off import ProfileTradeOff, Rates, TradeOff, both_signs

__all__ = ["METHODS", "WAYS", "Attack", "How", "ask"]

METHODS = ("auto", "tight", "renyi")
WAYS = ("worst", *DIRECTIONS)

SMALLEST = 1e-300
"""Rates below are bounded by what is known at this one."""

UNDERFLOW = 5e-324
"""Rounding error of a product that underflows."""

ZOOMS = 4
"""Looks for where a bound on true-positive rates crosses 1 - a."""

FINE = 1e-9
"""Relative distance of rates that are not told apart."""

TRIED = 16
"""Places at which mu is bounded from below."""

Found = TypeVar("Found")


class How(NamedTuple):
    """Route and source of an answer."""

    method: str
    source: str


def ask(
    run: object,
    question: Callable[[Attack], Found],
    direction: str,
    method: str,
    tolerance: float,
    patience: float = PATIENCE,
) -> tuple[Found, How]:
    """The answer of the tight route, or, where it is not to be had and `method` is "auto", of the Rényi route.

    Raises
    ------
    ParameterError
        A value is out of range.
    DataDependentError
        The cost of the run depends on private data.
    ProfileUnavailable, ToleranceUnreachable
        The tight route was asked for.
    OutOfPatience
        The route that is left would take longer than `patience`.
    """
    if not is_one_of(method, METHODS):
        raise ParameterError(f"method = {shorten(method)}; accepted: {', '.join(METHODS)}")
    if not is_one_of(direction, WAYS):
        raise ParameterError(f"direction = {shorten(direction)}; accepted: {', '.join(WAYS)}")
    width, seconds = real("tolerance", tolerance, 1e-6, 1.0), check_patience(patience)
    whole = 1 * run if isinstance(run, Event) else run
    if not isinstance(whole, Composition):
        raise ParameterError(f"run = {shorten(run)}; accepted: an event, or a composition such as 100 * Gaussian(20.0)")
    if whole.data_dependent:
        raise DataDependentError(
            "the cost of this run depends on private data, so publishing its risk leaks; "
            "accepted: events whose cost does not"
        )

    def by_losses(width: float) -> tuple[Found, How]:
        with _without_deltas():
            tight = TightRun(whole, width)
            sides = tuple(tight.trade_off(each) for each in DIRECTIONS)
            return question(Attack(sides, direction, tight.mu, tight.mu_above)), How("tight", tight.source)

    def rehearsed(width: float) -> None:
        by_losses(width)

    with allow_with_advice(seconds, rehearsed if method == "tight" else None, width):
        if float(whole.renyi(math.inf)) == 0.0:
            return question(Attack((NoTradeOff(),) * 2, direction)), How("tight", "nothing is released")
        if method == "tight":
            return by_losses(width)
        work = whole._curve_work()
        orders = _orders_within(seconds if method == "renyi" else RENYI_SHARE * seconds, work)
        if method == "auto":
            with suppress(ProfileUnavailable, ToleranceUnreachable), share_patience(1.0, orders.size * work):
                return by_losses(width)
        spend(orders.size * work, f"a Rényi curve at {orders.size} orders", free=LONG)
        bound = ProfileTradeOff(renyi_bounds(whole, orders), fine=RENYI_FINE, lines=2001)
        return question(Attack((bound,) * 2, direction)), How("renyi", "Rényi bound, from above only")


@contextmanager
def _without_deltas() -> Iterator[None]:
    """A block whose refusals do not tell the interval of a delta on the way, which nobody asked for."""
    try:
        yield
    except ToleranceUnreachable as error:
        error.found = error.curve = None
        raise


def _orders_within(seconds: float, work: float) -> FloatArray:
    """Rényi orders, less 1, each of which takes so many operations; fewer where all take longer than that."""
    most = max(LONG / 2, seconds * OPERATIONS_PER_SECOND)
    return next((b for skip in SKIPPED if (b := ORDERS[::skip]).size * work <= most), ORDERS[:: SKIPPED[-1]])


@dataclass(frozen=True)
class Attack:
    """Bounds on the trade-off of both directions, remove and add; the same object where they are the same."""

    both: tuple[TradeOff, ...]
    direction: str
    mu: float | None = None
    mu_above: float | None = None

    @property
    def sides(self) -> list[TradeOff]:
        """The directions that are asked about."""
        if self.direction != "worst":
            return [self.both[DIRECTIONS.index(self.direction)]]
        return [self.both[0]] if self.both[0] is self.both[1] else list(self.both)

    def rates(self, fprs: FloatArray) -> Rates:
        """Bounds on the true-positive rates, in the worse of the directions, at rising rates in [0, 1]."""
        lower, upper = fprs.copy(), fprs.copy()  # guessing
        inside = (fprs > 0) & (fprs < 1)
        places = np.maximum(fprs[inside], SMALLEST)
        for side in self.sides:
            if places.size:
                low, high = side.rates(places, known=lower[inside])
                # T is concave, and 0 or more at 0
                share = np.where(fprs[inside] < SMALLEST, fprs[inside] / SMALLEST, 1.0)
                lower[inside] = np.maximum(lower[inside], low * share - UNDERFLOW * (share < 1))
                upper[inside] = np.maximum(upper[inside], high)
            at_zero = side.at_zero()
            lower[fprs == 0] = np.maximum(lower[fprs == 0], at_zero.lower)
            upper[fprs == 0] = np.maximum(upper[fprs == 0], at_zero.upper)
        return np.minimum(lower, upper), np.minimum(upper, 1.0)

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        """Upper bounds on delta at each epsilon >= 0, in the larger of the directions."""
        return np.array([self._profile(self.sides, epsilon).upper for epsilon in epsilons.tolist()])

    def advantage(self) -> Interval:
        """Bounds on H(1), which is the same in both directions."""
        return self._profile(self.sides, 0.0)

    def error(self, prior: float) -> Interval:
        """Bounds on the smallest probability of error of who believes in membership with probability `prior`.

        It is p (1 - H((1 - p) / p)). Who believes in membership with p > 1/2 believes in its absence with 1 - p, and
        asks about the other direction: 1 - H would lose all digits there.
        """
        less = min(prior, 1 - prior)
        sides = self.sides if prior <= 0.5 or len(self.sides) > 1 else [self.both[self.sides[0] is self.both[0]]]
        found = self._profile(sides, math.log1p(-less) - math.log(less))
        return Interval(less * (1 - found.upper), less * (1 - found.lower))

    @staticmethod
    def _profile(sides: Iterable[TradeOff], x: float) -> Interval:
        """Bounds on H(e^x) = sup_S P(S) - e^x Q(S), x >= 0, in the larger of the directions."""
        ends = [side.profile(x) for side in sides]
        return Interval(max(end.lower for end in ends), max(end.upper for end in ends))

    def gaussian(self, floor: float) -> Interval:
        """Bounds on the smallest mu of which the run is mu-Gaussian-DP wherever no error rate is below the floor."""
        if self.mu is not None:
            return Interval(self.mu * (1 - 1e-15), self.mu * (1 + 1e-15))
        ends = [bound_mu(side, other, floor) for side, other in zip(self.both, self.both[::-1], strict=True)]
        upper = max(end.upper for end in ends)
        if self.mu_above is not None:
            upper = min(upper, self.mu_above * (1 + 1e-15))
        return Interval(min(max(end.lower for end in ends), upper), upper)


def bound_mu(side: TradeOff, other: TradeOff, floor: float) -> Interval:
    """Bounds on sup z(a) + z(b), b = 1 - T(a), over a >= floor with b >= floor, and at a = floor.

    Where a > b is left out (the other direction has it), so that T is not needed near 1. From above: T is at most a
    straight line on each segment; where the line exceeds mu's trade-off function, which is concave in a, is the
    complement of an interval, so the largest mu on a segment is at an end of it (Dong, Roth & Su 2022, Eq. 6 for the
    function). From below any places do: those that are worst from above are tried.
    """
    places = np.geomspace(floor, 0.5, 33)
    lower, upper = side.rates(places)
    crossed = np.flatnonzero(lower >= 1 - places)
    ceiling = float(places[crossed[0]]) if crossed.size else 0.5
    if ceiling > floor:
        ends, rates = side.segments(floor, ceiling)
        scores = sum_of_scores(ends, rates)
        most = min(float(np.max(scores)), most_before_crossing(side, places, upper)) * (1 + 1e-12)
        places = np.unique(np.append(ends[np.argsort(scores)[-TRIED:]], floor))
        lower, upper = side.rates(places)
    else:
        most = float(sum_of_scores(places[:1], upper[:1])[0]) * (1 + 1e-12)
    inside = (1 - upper >= floor) | (places == floor)
    least = max(float(np.max(sum_of_scores(places[inside], lower[inside]))) * (1 - 1e-12), 0.0)
    if ceiling == floor:
        least, most = invert(other, floor, Interval(least, most))
    return Interval(min(least, most), max(most, 0.0))


def most_before_crossing(side: TradeOff, places: FloatArray, upper: FloatArray) -> float:
    """At least the largest z(a) + z(b) with b >= a, from bounds on T from above that may reach 1 - a early.

    Up to a place c where T is surely below 1 - c lines above T tell; beyond, z(a) + z(b) <= 2 z(a) <= 2 z(c).
    """
    floor = float(places[0])
    for _ in range(ZOOMS):
        later = np.flatnonzero(upper >= 1 - places)
        if later.size and later[0] == 0:
            return math.inf
        surely = int(later[0]) - 1 if later.size else places.size - 1
        crossing = places[surely : surely + 1]
        places = np.geomspace(places[surely], places[min(surely + 1, places.size - 1)], 17)
        upper = side.rates(places)[1]
    found = [sum_of_scores(crossing, 1 - crossing)]
    if crossing[0] > floor:
        found.append(sum_of_scores(*side.segments(floor, float(crossing[0]))))
    return float(np.max(np.concatenate(found)))


def sum_of_scores(fprs: FloatArray, rates: FloatArray) -> FloatArray:
    """Phi^-1(t) - Phi^-1(a): the mu of the Gaussian whose trade-off function passes through (a, t)."""
    return np.asarray(ndtri(rates) - ndtri(fprs))


def invert(other: TradeOff, floor: float, known: Interval) -> Interval:
    """The mu at false-positive rate `floor` where the false negatives are too few to be told from 0.

    They are the b at which the other direction has T(b) = 1 - floor; T rises.
    """
    low, high, least, most = SMALLEST, floor, known.lower, known.upper
    for _ in range(ZOOMS):
        places = np.geomspace(low, high, 33)
        lower, upper = other.rates(places, 1 - floor)
        ends = sum_of_scores(places, np.full_like(places, 1 - floor))
        fewer, enough = np.flatnonzero(upper < 1 - floor), np.flatnonzero(lower >= 1 - floor)
        if fewer.size:
            low, most = float(places[fewer[-1]]), min(most, float(ends[fewer[-1]]))
        if enough.size:
            high, least = float(places[enough[0]]), max(least, float(ends[enough[0]]))
        if not high > low * (1 + FINE):
            break
    return Interval(least * (1 - 1e-12), most * (1 + 1e-12))


# --- without a profile ------------------------------------------------------------------------------------

RENYI_FINE = 1e-6
"""Relative distance of epsilons at which the search for the best one ends."""

BOUND = 200.0
"""Operations (see `accountant.patience`) of a bound on a value of a profile."""

ORDERS = np.geomspace(1e-4, 1e6, 701)
"""Rényi orders, less 1, at which delta is bounded: a best order in between is missed by less than 2 %."""

SKIPPED, RENYI_SHARE = (1, 2, 4, 8), 0.2
"""Every so many-th of them is asked, where more take longer than the patience, or than that share of it by "auto"."""


def renyi_bounds(run: Composition, b: FloatArray = ORDERS) -> Callable[[FloatArray], Rates]:
    """Bounds on the log of the profile at any reals, from the Rényi curve at orders 1 + b: nothing from below."""

    curve, end = run.renyi(1 + b), float(run.renyi(math.inf))
    with np.errstate(over="ignore"):
        heights = b * (curve - np.log1p(1 / b)) - np.log1p(b)
    finite = np.isfinite(heights)
    kept, cuts = _least_lines(b[finite], heights[finite])
    b, curve = b[finite][kept], curve[finite][kept]

    def log_bounds(x: FloatArray) -> Rates:
        spend(BOUND * x.size, f"a Rényi bound on {x.size} values of a profile", free=LONG)
        size, known = np.abs(x), np.zeros_like(x)
        if b.size:
            # Canonne, Kamath & Steinke 2020, Prop. 12, which holds at any order
            at = np.searchsorted(cuts, size)
            known = np.minimum(b[at] * (curve[at] - size - np.log1p(1 / b[at])) - np.log1p(b[at]), 0.0)
        known = np.where(size >= end, -math.inf, known + 1e-12)
        return np.full_like(x, -math.inf), both_signs(x, known, known)

    return log_bounds


def _least_lines(falls: FloatArray, heights: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """Which of the lines height - fall s, by rising fall, are the least somewhere, and the s from which the next is."""
    kept, cuts = list[int](), list[float]()
    for i, (fall, height) in enumerate(zip(falls.tolist(), heights.tolist(), strict=True)):
        while kept:
            cut = (height - heights[kept[-1]]) / (fall - falls[kept[-1]])
            if not cuts or cut > cuts[-1]:
                cuts.append(float(cut))
                break
            kept.pop()
            cuts.pop()
        kept.append(i)
    return np.array(kept, dtype=int), np.array(cuts)


class NoTradeOff(TradeOff):
    """Nothing is released: T(a) = a."""

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        return fprs.copy(), fprs.copy()

    def segments(self, floor: float, ceiling: float) -> Rates:
        ends = np.array([floor, ceiling])
        return ends, ends.copy()

    def profile(self, x: float) -> Interval:
        return Interval(0.0, 0.0)

    def at_zero(self) -> Interval:
        return Interval(0.0, 0.0)
