"""The best real order of many runs in one compiled call, for events that can be written as rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.events.answers import BITS, LAPLACE, LINEAR, SAMPLED_GAUSSIAN, SCREENING
from accountant.events.composition import Composition
from accountant.events.subsampled_moments import Derivatives
from accountant.numerics.exact import CURVE_ROUNDING, SPARE
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.roots import golden_bracket, golden_step
from accountant.renyi.rows import (
    NUDGE,
    Place,
    addresses,
    addresses_anywhere,
    curve_by_address,
    linear_curve,
    row_at,
    table_of,
)

__all__ = ["STEPS", "BestOrders", "best_orders", "search_work"]

CLASSIC_EPSILON, IMPROVED_EPSILON, CLASSIC_DELTA, IMPROVED_DELTA = range(4)
MANY = 2000
"""Rows from which a search begins on a sample of them."""
SAMPLE = 100


SEARCH, ROW, SCREENED = 1e4, 3e3, 1e5
"""Operations of a compiled search, of each release in it, and of each kind of screening: it has a worst pair at every
order."""

STEPS = 12
"""Orders that such a search asks of curves each of which takes long."""


class BestOrders(NamedTuple):
    """One entry per run: best order minus 1, epsilon or log delta there, and the curve at order infinity.

    Curves are larger by CURVE_ROUNDING, and what follows from them is rounded up. `limited` is whether some curve at
    infinity is no more than its epsilon, about.
    """

    b: FloatArray
    value: FloatArray
    limit: FloatArray
    limited: bool


class Outcome(NamedTuple):
    """If some curve was sought where its kernel does not reach, and if some limit is no more than its price."""

    beyond: bool
    limited: bool


class Entries(NamedTuple):
    """The events of a run: every step-th row of a table from `start` to before `end`.

    `state` holds the count of each row, and where the worst pair of a screening was at the last order (a `Place`), to
    find it sooner; `addresses` the curves by kind of row. Every row stands for `weight` such rows;
    screenings are `certified` or only guide.
    """

    table: FloatArray
    state: FloatArray
    addresses: NDArray[np.int64]
    start: int
    end: int
    step: int
    weight: float
    certified: bool


class Target(NamedTuple):
    """The log delta or the epsilon that is given, the rule of conversion, and the range of log(order - 1)."""

    given: float
    rule: int
    low: float
    high: float


def search_work(run: Composition) -> float | None:
    """Operations of the search for one order of many, or None where some event cannot be written as a row."""
    table = table_of(run.entries)
    if len(table) < len(run.entries):
        return None
    screened = table[:, 0] == SCREENING
    slow = math.fsum(event._curve_work() for event, apart in zip(run.entries, screened, strict=True) if not apart)
    return SEARCH + SCREENED * int(np.count_nonzero(screened)) + ROW * len(table) + STEPS * slow


def best_orders(
    runs: Sequence[Composition], given: FloatArray, rule: int, low: float, high: float
) -> BestOrders | None:
    """Best orders of runs at the given log deltas or epsilons, log(order - 1) in [low, high].

    None if an event of some run cannot be written as a row.
    """
    counts: list[float] = []
    starts = [0]
    for run in runs:
        counts += map(float, run.entries.values())
        starts.append(len(counts))
    table = table_of(runs[0].entries if len(runs) == 1 else chain.from_iterable(run.entries for run in runs))
    if len(table) < len(counts):
        return None
    each, ends, found = np.array(counts), np.array(starts), np.empty((3, len(runs)))
    outcome = search_all(table, each, addresses(table), ends, given, rule, low, high, found)
    if outcome.beyond:
        outcome = search_all(table, each, addresses_anywhere(table), ends, given, rule, low, high, found)
    return BestOrders(found[0], found[1], found[2], outcome.limited)


@Kernel
def total(run: Entries, b: float) -> Derivatives:
    """The sum of counts times K of the rows, its value compensated (Neumaier 1974); the curve alone at b = inf."""
    curve, lost, first, second = 0.0, 0.0, 0.0, 0.0
    for i in range(run.start, run.end, run.step):
        row, count = row_at(run.table, i), run.state[i, 0] * run.weight
        if row.kind == LINEAR:
            each = linear_curve(row, b)
        else:
            address, place = run.addresses[int(row.kind)], Place(run.state[i, 1], run.state[i, 2])
            each = curve_by_address(address, (row, b, run.certified, place))
            run.state[i, 1], run.state[i, 2] = each.votes, each.sign
        term = count * each.value
        whole = curve + term
        lost += (curve - whole) + term if curve >= term else (term - whole) + curve
        curve = whole
        first += count * each.first
        second += count * each.second
    return Derivatives(curve + lost if curve < math.inf else curve, first, second)


@Kernel
def value(rule: int, given: float, b: float, curve: float) -> float:
    """What the search minimises: epsilon, also below 0, or log delta, by the conversion of that rule, rounded up."""
    if rule <= IMPROVED_EPSILON:
        paid = (curve - given / b) * SPARE
        if rule == CLASSIC_EPSILON:
            return paid
        return paid - (math.log1p(1.0 / b) + math.log1p(b) / b) / SPARE
    paid = b * (curve * SPARE - given)
    paid *= 1.0 / SPARE if paid < 0.0 else SPARE
    if rule == CLASSIC_DELTA:
        return paid
    return paid - (b * math.log1p(1.0 / b) + math.log1p(b)) / SPARE


@Kernel
def price_at(rule: int, given: float, b: float, curve: float) -> float:
    """The same as it is told, by `accountant.renyi.conversion`: epsilon is at least 0."""
    found = value(rule, given, b, curve)
    return max(found, 0.0) if rule == IMPROVED_EPSILON else found


class Imbalance(NamedTuple):
    """How far an order is from the best: `g` rises through 0 there, `slope` is dg/dlog b, `tilt` d value/dlog b."""

    g: float
    slope: float
    tilt: float


@Kernel
def imbalance(rule: int, given: float, b: float, sums: Derivatives) -> Imbalance:
    """g is the log of a rising function of K over a falling one of b.

    The value is stationary where b K' - K = -log delta (less log(1+b), improved), or, for log delta, where
    K' = epsilon (plus log(1 + 1/b), improved). K being convex, the left sides rise.
    """
    if rule <= IMPROVED_EPSILON:
        left, slope = sums.first, sums.second
        right, fall = -given, 0.0
        if rule == IMPROVED_EPSILON:
            right, fall = right - math.log1p(b), b / (1.0 + b)
    else:
        left, slope = sums.first / b + sums.value, sums.second / b
        right, fall = given, 0.0
        if rule == IMPROVED_DELTA:
            right, fall = right + math.log1p(1.0 / b), 1.0 / (1.0 + b)
    if not right > 0.0 or not left < math.inf:
        return Imbalance(math.inf, math.nan, math.inf)
    if not left > 0.0:
        return Imbalance(-math.inf, math.nan, math.inf)
    tilt = (left - right) / b if rule <= IMPROVED_EPSILON else (left - right) * b
    return Imbalance(math.log(left / right), slope / left + fall / right, tilt)


@Kernel
def search(run: Entries, target: Target, x: float) -> tuple[float, float]:
    """(b, curve) of the least value seen, by Newton's method in log b inside a bracket that only ever narrows.

    The search begins at x = log b. Every order gives a valid bound, so a search that stops early is only less sharp.
    It stops where a further step promises less than 1e-14 of the value. Without a second derivative steps are secants.
    """
    best, best_b, best_curve = math.inf, 1.0, math.inf
    given, rule, low, high = target
    left, right = low, high
    step_before = math.inf
    rough = False
    last_x, last_g = math.nan, math.nan
    for _ in range(200):
        b = (1.0 + math.exp(x)) - 1.0  # the order itself is what is priced
        sums = total(run, b)
        if math.isnan(sums.value):
            break  # a kernel does not reach so far: what it finds is not used
        at = value(rule, given, b, sums.value)
        if at < best:
            best, best_b, best_curve = at, b, sums.value
        g, slope, tilt = imbalance(rule, given, b, sums)
        if g == 0.0:
            break
        if g > 0.0:
            right = x
        else:
            left = x
        if right - left < 1e-12:
            break
        if not 0.0 < slope < math.inf:
            rough = rough or math.isnan(slope)
            slope = (g - last_g) / (x - last_x)
        last_x, last_g = x, g
        known = 0.0 < slope < math.inf and abs(g) < math.inf
        move = -g / slope if known else math.copysign(math.inf, -g)
        if known and 0.5 * abs(tilt * move) < 1e-14 * abs(at) and left <= x + move <= right:
            rough = rough and slope * NUDGE > 1e-2  # the curve leaps up within what differences see
            break
        move = min(max(move, -4.0), 4.0)
        halve = low < left and right < high and (abs(move) > 0.5 * step_before or not known)  # Newton does not close in
        aim = 0.5 * (left + right) if halve else x + move
        if not left < aim < right:
            edge = low if g > 0.0 else high
            aim = edge if edge in (left, right) else 0.5 * (left + right)
        step_before = abs(aim - x)
        x = aim
    if rough and low < math.log(best_b) < high:
        return polish(run, target, best_b, best_curve)
    return best_b, best_curve


@Kernel
def polish(run: Entries, target: Target, b: float, curve: float) -> tuple[float, float]:
    """(b, curve) of the least value near a point that differences over NUDGE have found: they see nothing finer."""
    best, middle = value(target.rule, target.given, b, curve), math.log(b)
    low, left, right, high = golden_bracket(middle - 4.0 * NUDGE, middle + 4.0 * NUDGE)
    at_left, at_right = math.nan, math.nan
    for _ in range(40):
        for side in (-1.0, 1.0):
            if (side < 0.0 and math.isnan(at_left)) or (side > 0.0 and math.isnan(at_right)):
                here = (1.0 + math.exp(left if side < 0.0 else right)) - 1.0
                there = total(run, here).value
                at = value(target.rule, target.given, here, there)
                if at < best:
                    best, b, curve = at, here, there
                if side < 0.0:
                    at_left = at
                else:
                    at_right = at
        lower = at_left < at_right
        low, left, right, high = golden_step(low, left, right, high, lower)
        if lower:
            at_left, at_right = math.nan, at_left
        else:
            at_left, at_right = at_right, math.nan
    return b, curve


@Kernel
def first_guess(run: Entries, target: Target) -> float:
    """log of the best order - 1 if every curve were a straight line of its slope near order 1.

    Curves of sampled Gaussians leap up where their rate hides them no more, about e^(b mu^2/2) = 1/rate, and are then
    as steep as without a sample: where the lines say an order beyond the first of these leaps it is that, or what the
    steeper lines say.
    """
    slope, steep, leap = 0.0, 0.0, math.inf
    for i in range(run.start, run.end):
        row, count = row_at(run.table, i), run.state[i, 0]
        if row.kind == LINEAR:
            each = row.slope
            steepest = each
        elif row.kind == SAMPLED_GAUSSIAN:
            steepest = 0.5 * row.mu**2
            # no more than the divergence of a mixture from one of its parts
            each = row.rate * min(0.5 * row.rate * math.expm1(min(row.mu**2, 300.0)), steepest)
            leap = min(leap, math.log(1.0 / row.rate) / steepest)
        elif row.kind in (LAPLACE, BITS):
            address, place = run.addresses[int(row.kind)], Place(0.0, 0.0)
            each = curve_by_address(address, (row, 0.0, False, place)).value
            steepest = each
        else:
            each = 0.3 * (row.rate / row.sigma) ** 2
            steepest = each
        slope += count * each
        steep += count * steepest
    if not slope > 0.0:
        return 0.0
    b = guess_on(slope, target)
    if b > leap:
        b = max(leap, guess_on(steep, target))
    return min(max(math.log(b), target.low), target.high) if b > 0.0 else 0.0


@Kernel
def guess_on(slope: float, target: Target) -> float:
    """The best order - 1 for one straight line."""
    return math.sqrt(-target.given / slope) if target.rule <= IMPROVED_EPSILON else target.given / (2.0 * slope)


@Kernel
def search_all(
    table: FloatArray,
    counts: FloatArray,
    addresses: NDArray[np.int64],
    starts: NDArray[np.int64],
    given: FloatArray,
    rule: int,
    low: float,
    high: float,
    best: FloatArray,
) -> Outcome:
    """Fill the columns of `best`, each a `BestOrders` of one run, whose rows are starts[i] to starts[i+1] of the table.

    Where a kernel did not reach they are not to be used.
    """
    state = np.empty((starts[-1], 3))
    for j in range(starts[-1]):
        state[j, 0] = counts[j] * (1.0 + CURVE_ROUNDING)
        state[j, 1], state[j, 2] = row_at(table, j).threshold, 0.0
    last, length, limited = math.nan, 0, False
    for i in range(given.size):
        start, end = starts[i], starts[i + 1]
        run, target = Entries(table, state, addresses, start, end, 1, 1.0, False), Target(given[i], rule, low, high)
        guided = False
        for j in range(start, end):
            guided = guided or table[j, 0] == SCREENING
        # neighbours in a sweep have about the same best order
        alike = end - start == length and low < last < high
        x = last if alike else first_guess(run, target)
        if end - start >= MANY:
            step = (end - start) // SAMPLE
            b, _ = search(Entries(table, state, addresses, start, end, step, float(step), False), target, x)
            x = min(max(math.log(b), low), high)
        b, curve = search(run, target, x)
        surely = Entries(table, state, addresses, start, end, 1, 1.0, True)
        if guided:
            whole = total(surely, b).value
            if whole > curve * (1.0 + 3e-13):  # a pair that is only locally the worst misled the search
                b, whole = search(surely, target, math.log(b))
            curve = whole
        best[0, i], best[1, i] = b, price_at(rule, target.given, b, curve)
        best[2, i] = total(surely, math.inf).value
        asked = best[1, i] if rule <= IMPROVED_EPSILON else target.given
        limited = limited or best[2, i] <= asked * (1.0 + 4.0 * CURVE_ROUNDING)
        last, length = math.log(b), end - start
    beyond = False
    for j in range(starts[-1]):
        beyond = beyond or math.isnan(state[j, 1])
    return Outcome(beyond, limited)
