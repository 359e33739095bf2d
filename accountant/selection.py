"""Selection: the best of a random number of tries, which is what tuning a run does."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import DataDependentError, OutOfPatience, ParameterError, ToleranceUnreachable, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.gaussian import Gaussian
from accountant.events.laplace import Laplace
from accountant.events.priced import PricedAlone
from accountant.events.registry import register
from accountant.events.tries import Geometric, Poisson, Tries
from accountant.guarantee import Guarantee
from accountant.numerics.exact import round_down
from accountant.numerics.kernel import FloatArray
from accountant.patience import OPERATIONS_PER_SECOND, count_done, grant, share_patience, spend, spend_apart
from accountant.price import epsilon as price
from accountant.tried_runs import LOSSES, curve_at, orders_of, profile_above, route_of, spend_on_curves

__all__ = ["Selection"]

SHARE = 0.5
"""Share of the patience that is left which the profile of one try may take."""

DRAWN = 2.5e7
"""Operations (see `accountant.patience`) of lines and of a curve drawn from the profile of one try, beside it."""

ROUNDING = 1e-11
"""Bound on the relative error of logs of slopes; each is multiplied by the order at most once."""


@register("selection")
@dataclass(frozen=True)
class Selection(PricedAlone):
    """The best of a random number of independent runs on the same data; nothing else of them is released.

    What is tried may be chosen at random as well (a hyper-parameter from a public list): the tries are then runs of one
    mechanism that draws it first, priced by the dearest of its settings, here `event` as a list. Which run is best is
    told by a score that is a function of what the run itself releases, privately; ties are broken at random or by the
    released values. The number of tries is drawn from `tries`, and not looked at: to choose it, or to stop when a score
    is good enough, has no such price.

    With f the generating function of the number of tries, eps(a) the Rényi curve of one, and the supremum over all
    probabilities (q, q') that a test may have on two neighbours,

        e^{(a-1) eps'(a)} = f(0) + e^{(a-1) eps(a)} sup f'(q)^a f'(q')^{1-a}.

    This is Lemma 7 of Papernot & Steinke 2022 with the outcome "no try" counted. The supremum is taken over what the
    profile of one try allows at 320 epsilons, not one order of its curve or one epsilon as in their Thms 2 and 6: often
    10 to 30 % less. A geometric number of tries of epsilon-DP is at most 3 epsilon-DP (Liu & Talwar 2019).
    Proof: notebooks/mathematics.md, Selection.

    Parameters
    ----------
    event : Event, Composition or list of these
        One try: a release, or a whole run. A list are the settings of which every try draws one, at random and without
        the private data: what the dearest of them costs counts at every order, and at every epsilon.
    tries : Poisson, NegativeBinomial or Geometric

    Raises
    ------
    ParameterError
        A parameter is of another kind, or `event` is an empty run.
    AdjacencyMismatch
        Settings have different adjacency.
    DataDependentError
        The cost of a try depends on private data.
    """

    event: Event | Composition | tuple[Composition, ...]
    tries: Tries
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "event", _check_tried(self.event))
        if not isinstance(self.tries, Tries):
            raise ParameterError(
                f"tries = {shorten(self.tries)}; accepted: ac.Poisson(mean), ac.NegativeBinomial(mean, shape) or "
                "ac.Geometric(mean): a number that is fixed, or chosen by looking, has no such price"
            )
        object.__setattr__(self, "adjacency", self._runs[0].adjacency)
        if any(run.data_dependent for run in self._runs):
            raise DataDependentError(
                f"event = {shorten(self.event)} has a cost that compares the data with neighbours in one order only, "
                "and the best of several tries needs both; accepted: events whose cost is public"
            )

    @classmethod
    def examples(cls) -> tuple[Event, ...]:
        settings = 20 * Gaussian(30.0), 5 * Gaussian(10.0)
        return cls(Laplace(2.0), Geometric(10.0)), cls(settings, Poisson(5.0))

    def caveats(self) -> tuple[str, ...]:
        drawn = f"every try draws one of {len(self._runs)} settings at random, or all are tried as one"
        return (
            *((drawn,) if len(self._runs) > 1 else ()),
            "the number of tries is drawn, once, and stays secret",
            "the score of a try is a function of what that try releases",
        )

    def to_table(self, *, own: bool = False) -> dict[str, Any]:
        if isinstance(self.event, Event):
            tried: Any = {**self.event.to_table(own=own), "adjacency": self.adjacency.value}
        elif isinstance(self.event, Composition):
            tried = _tables(self.event, own)
        else:
            tried = [_tables(each, own) for each in self.event]
        return {"event": self.plan_name, "of": tried, "tries": self.tries.to_table()}

    @property
    def _runs(self) -> tuple[Composition, ...]:
        """The settings; one if there are no others."""
        return _runs(self.event)

    @property
    def group_size(self) -> int:
        return max(event.group_size for event in self._tried)

    @property
    def _never_sampled(self) -> str | None:  # type: ignore[override]  # as what is tried
        return next((event._never_sampled for event in self._tried if event._never_sampled is not None), None)

    @property
    def _amplified(self) -> bool:
        return super()._amplified and all(event._amplified for event in self._tried)

    @property
    def _tried(self) -> list[Event]:
        """All events of all settings."""
        return [event for run in self._runs for event, _ in run]

    def _curve(self, orders: FloatArray) -> FloatArray:
        if self.tries.mean == 1.0 and self.tries.log_none == -math.inf:  # one try, for certain
            dearest: FloatArray = np.max([run._curve(orders) for run in self._runs], axis=0)
            return dearest
        corners, heights, limit = _hull(self, _spend_on(self.event))
        b = np.minimum(orders - 1, 1e300)
        here = np.clip(np.searchsorted(corners, b, side="right"), 1, corners.size) - 1
        slopes = np.append(np.diff(heights) / np.diff(corners), limit)[here]
        # heights rise from 0 at order 1, where the curve is the slope
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            inside = np.where(here == 0, slopes, heights[here] / b + slopes * (1 - corners[here] / b))
        return np.where(np.isinf(orders), limit, np.minimum(inside, limit))

    def guarantee(self, delta: float) -> Guarantee:
        """The price of this selection alone, which `accountant.epsilon` gives as well: of its curve or its profile.

        With s the supremum of log f'(q)/f'(q'), its profile at epsilon is at most the mean number of tries times that
        of one try at epsilon - s: the same as epsilon_one(delta / mean) + s (after Koskela, Redberg & Wang 2024; proof:
        notebooks/mathematics.md, Selection).

        Parameters
        ----------
        delta : float
            In [0, 1).

        Raises
        ------
        ParameterError
            `delta` is out of range.
        NoGuarantee
            No finite epsilon holds.
        """
        return price(self, delta)

    def _alone(self, delta: float) -> Guarantee | None:
        inner = round_down(Fraction(delta) / Fraction(max(self.tries.mean, 1.0)) * Fraction(1 - ROUNDING))
        if inner == 0.0:
            return None
        with share_patience(SHARE):
            one = _price_dearest(self._runs, inner)
        seconds = _spend_on(self.event)
        return replace(
            one,
            epsilon=(one.epsilon + _largest_shift(self, seconds)) * (1 + ROUNDING),
            delta=delta,
            method="tight" if one.method == "tight" else "renyi",
            lower=None,
            order=None,
            conversion=None,
            source="profile of one try, shifted",
        )


Tried: TypeAlias = Event | Composition | tuple[Composition, ...]


def _check_tried(tried: object) -> Tried:
    """What is tried; several settings as different compositions, of which there are two or more."""
    if isinstance(tried, Event) or (isinstance(tried, Composition) and tried.adjacency is not None):
        return tried
    runs: dict[Composition, None] = {}
    for each in tried if isinstance(tried, list | tuple) else ():
        run = 1 * each if isinstance(each, Event) else each
        if not isinstance(run, Composition) or run.adjacency is None:
            raise ParameterError(f"event: {shorten(each)} among settings; accepted: events, or compositions of some")
        runs[run] = None
    if not runs:
        raise ParameterError(f"event = {shorten(tried)}; accepted: an event, a composition of some, or a list of these")
    sum(runs, Composition())  # refuses different adjacencies
    return next(iter(runs)) if len(runs) == 1 else tuple(runs)


def _runs(event: Tried) -> tuple[Composition, ...]:
    if isinstance(event, tuple):
        return event
    return (event if isinstance(event, Composition) else 1 * event,)


def _tables(run: Composition, own: bool) -> list[dict[str, Any]]:
    """A list of tables that plans read as this composition."""
    return [{**event.to_table(own=own), "adjacency": event.adjacency.value, "count": count} for event, count in run]


def _spend_on(tried: Tried) -> float:
    """Count the Rényi curves of what is tried, at all orders that a selection asks for, and its profile.

    Returns the seconds that the profile may take: as many throughout a price.
    """
    seconds = grant((_lines, tried), SHARE)
    spend_on_curves(_runs(tried), seconds)
    try:
        count_done(_lines(tried, seconds)[1], once=(_lines, tried))
    except OutOfPatience as error:  # of what the profile may take, not of the patience
        needed = OPERATIONS_PER_SECOND * error.seconds + DRAWN * len(_runs(tried))
        spend(needed / SHARE, "the profile of one try")
        raise
    return seconds


def _price_dearest(runs: tuple[Composition, ...], delta: float) -> Guarantee:
    """The largest price of a run; one whose Rényi price is smaller than another's needs no other."""
    prices = [price(run, delta, method="renyi") for run in runs] if len(runs) > 1 else []
    order = sorted(range(len(prices)), key=lambda number: -prices[number].epsilon) or [0]
    found = _price_one(runs[order[0]], delta)
    for number in order[1:]:
        if prices[number].epsilon > found.epsilon:
            found = max(found, _price_one(runs[number], delta), key=lambda each: each.epsilon)
    return found


def _price_one(run: Composition, delta: float) -> Guarantee:
    try:
        return price(run, delta, method=route_of(run))
    except ToleranceUnreachable:
        return price(run, delta, method="renyi")


# --- what a test can tell ----------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _lines(event: Tried, seconds: float) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Heights and slopes of lines, the least of which bounds P'(S) <= h + u P(S) for all S, falling in slope.

    And the operations that they took, of so many seconds at most.

    P and P' are the distributions of one try, in either order. A profile H gives H(u) + u x at every u = e^t, and its
    reverse, as H(1/u) = 1 - 1/u + H(u)/u. At u = 1, Pinsker's inequality. Of several settings the dearest counts at
    every u.
    """
    runs = _runs(event)
    pure = max(float(run.renyi(math.inf)) for run in runs)
    losses = np.append(LOSSES[pure > LOSSES], min(pure, LOSSES[-1]))
    drawn = DRAWN * len(runs)
    deltas, operations = profile_above(runs, losses, max(seconds - drawn / OPERATIONS_PER_SECOND, 0.0))
    deltas[0] = min(deltas[0], math.sqrt(max(float(run.renyi(1.0)) for run in runs) / 2))
    with np.errstate(over="ignore"):
        slopes = np.concatenate([np.exp(losses), np.exp(-losses), [0.0]])
        heights = np.concatenate([deltas, -np.expm1(-losses) + np.exp(-losses) * deltas, [1.0]])
    return _lowest(heights * (1 + ROUNDING), slopes * (1 + ROUNDING)), operations + drawn


def _lowest(heights: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lines that are the lowest somewhere in [0, 1], from left to right."""
    kept: list[tuple[float, float]] = []
    order = np.lexsort((heights, -slopes))
    for height, slope in zip(heights[order].tolist(), slopes[order].tolist(), strict=True):
        if kept and kept[-1][1] == slope:  # the lower one came first
            continue
        while kept and (kept[-1][0] >= height or (len(kept) > 1 and _hidden(kept[-2], kept[-1], (height, slope)))):
            kept.pop()
        kept.append((height, slope))
    found = np.array(kept)
    return found[:, 0], found[:, 1]


def _hidden(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    """Whether the middle line is nowhere below both others; slopes fall."""
    first = (middle[0] - left[0]) * (left[1] - right[1])
    return first >= (right[0] - left[0]) * (left[1] - middle[1])


def _pieces(event: Tried, seconds: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Where each line is the lowest: from, to, its height and its slope; together they cover [0, 1].

    A line bounds the test wherever it is used, so that rounded ends cost nothing but sharpness.
    """
    (heights, slopes), _ = _lines(event, seconds)
    cuts = np.clip(np.diff(heights) / -np.diff(slopes), 0.0, 1.0)
    cuts = np.maximum.accumulate(cuts)
    return np.append(0.0, cuts), np.append(cuts, 1.0), heights, slopes


def _log_suprema(selection: Selection, seconds: float, b: FloatArray) -> FloatArray:
    """log of the supremum of f'(q)^{1+b} f'(q')^{-b}, for finite b: over x = 1-q and 1-q' <= h + u x."""
    low, high, heights, slopes = _pieces(selection.event, seconds)
    tries, column = selection.tries, b[:, None]
    turn = np.clip(tries.turning_point(heights, slopes, column), low, high)
    best = np.full(b.size, -math.inf)
    for x in (low, high, turn):
        other = np.minimum(heights + slopes * x, 1.0)
        own, far = tries.log_slope(x), tries.log_slope(other)
        value = own + column * np.maximum(own - far, 0.0)
        best = np.maximum(best, value.max(axis=1) + ROUNDING * (1 + b) * (1 + np.abs(own).max() + np.abs(far).max()))
    return best


@lru_cache(maxsize=64)
def _largest_shift(selection: Selection, seconds: float) -> float:
    """sup of log f'(q)/f'(q')."""
    low, high, heights, slopes = _pieces(selection.event, seconds)
    found = 0.0
    for x in (low, high):  # along a line the ratio is monotone
        own = selection.tries.log_slope(x)
        far = selection.tries.log_slope(np.minimum(heights + slopes * x, 1.0))
        found = max(found, float(np.max(own - far + ROUNDING * (1 + np.abs(own) + np.abs(far)))))
    return found


# --- the curve -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _hull(selection: Selection, seconds: float) -> tuple[FloatArray, FloatArray, float]:
    """Corners and heights of a convex polygon above b times the curve at order 1 + b, and its slope after the last one.

    b times a Rényi divergence is convex in b and 0 at b = 0, and grows at most as its limit at order infinity: so it
    lies below the lower hull of any points above it.
    """
    runs = selection._runs
    b = min((orders_of(run, seconds) for run in runs), key=len)
    limit = max(float(run.renyi(math.inf)) for run in runs) + _largest_shift(selection, seconds)
    with spend_apart(seconds):  # it is counted already
        dearest = np.max([curve_at(run, b.size) for run in runs], axis=0)
    growth = b * dearest + _log_suprema(selection, seconds, b)
    found = np.minimum(np.maximum(np.logaddexp(selection.tries.log_none, growth), 0.0), b * limit)
    kept = [(0.0, 0.0)]
    for point in zip(b.tolist(), found.tolist(), strict=True):
        if point[1] == math.inf:
            break
        while len(kept) > 1 and _slope(kept[-2], kept[-1]) >= _slope(kept[-1], point):
            kept.pop()
        kept.append(point)
    while len(kept) > 1 and _slope(kept[-2], kept[-1]) >= limit:
        kept.pop()
    corners, heights = np.array(kept).T
    return corners, heights, limit


def _slope(left: tuple[float, float], right: tuple[float, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])
