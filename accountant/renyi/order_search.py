"""The best real order of many runs in one compiled call, for events that can be written as rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accountant.events.composition import Composition
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.renyi.rows import LINEAR, SAMPLED_GAUSSIAN, SCREENING, WIDTH, curve_limit, rows_of, scaled_cumulant

__all__ = ["BestOrders", "best_orders"]

CLASSIC_EPSILON, IMPROVED_EPSILON, CLASSIC_DELTA, IMPROVED_DELTA = range(4)
MANY = 2000
"""Rows from which a search begins on a sample of them."""
SAMPLE = 100
CHUNK = 65536


class BestOrders(NamedTuple):
    """One entry per run: best order minus 1, the curve there, and the curve at order infinity."""

    b: FloatArray
    curve: FloatArray
    limit: FloatArray


def best_orders(
    runs: Sequence[Composition], given: FloatArray, rule: int, low: float, high: float
) -> BestOrders | None:
    """Best orders of runs at the given log deltas or epsilons, log(order - 1) in [low, high].

    None if an event of some run cannot be written as a row.
    """
    table: list[tuple[float, ...]] = []
    done: list[FloatArray] = []
    counts: list[float] = []
    starts = [0]
    for run in runs:
        events = list(run.entries)
        for piece in range(0, len(events), CHUNK):
            rows = rows_of(events[piece : piece + CHUNK])
            if rows is None:
                return None
            table += rows
            if len(table) >= CHUNK:
                done.append(np.array(table))
                table = []
        counts += map(float, run.entries.values())
        starts.append(len(counts))
    whole = np.concatenate([*done, np.array(table).reshape(-1, WIDTH)])
    found = np.empty((len(runs), 3))
    search_all(whole, np.array(counts), np.array(starts), given, rule, low, high, found)
    return BestOrders(found[:, 0], found[:, 1], found[:, 2])


@Kernel
def total(
    rows: FloatArray, counts: FloatArray, start: int, end: int, step: int, b: float, certified: bool
) -> tuple[float, float, float]:
    """Sums of counts times `scaled_cumulant` over every step-th row, the first compensated (Neumaier 1974)."""
    curve, lost, first, second = 0.0, 0.0, 0.0, 0.0
    for i in range(start, end, step):
        each, bent, curved = scaled_cumulant(rows[i], b, certified)
        term = counts[i] * each
        whole = curve + term
        lost += (curve - whole) + term if curve >= term else (term - whole) + curve
        curve = whole
        first += counts[i] * bent
        second += counts[i] * curved
    return (curve + lost if curve < math.inf else curve), first, second


@Kernel
def value(rule: int, given: float, b: float, curve: float) -> float:
    """What the search minimises: epsilon, or log delta, by the conversion of that rule."""
    if rule == CLASSIC_EPSILON:
        return curve - given / b
    if rule == IMPROVED_EPSILON:
        return curve - math.log1p(1.0 / b) - (given + math.log1p(b)) / b
    if rule == CLASSIC_DELTA:
        return b * (curve - given)
    return b * (curve - given - math.log1p(1.0 / b)) - math.log1p(b)


@Kernel
def imbalance(rule: int, given: float, b: float, sums: tuple[float, float, float]) -> tuple[float, float, float]:
    """(g, dg/dlog b, d value/dlog b); g rises through 0 at the best order.

    g is the log of a rising function of K over a falling one of b.

    The value is stationary where b K' - K = -log delta (less log(1+b), improved), or, for log delta, where
    K' = epsilon (plus log(1 + 1/b), improved). K being convex, the left sides rise.
    """
    curve, first, second = sums
    if rule <= IMPROVED_EPSILON:
        left, slope = first, second
        right, fall = -given, 0.0
        if rule == IMPROVED_EPSILON:
            right, fall = right - math.log1p(b), b / (1.0 + b)
    else:
        left, slope = first / b + curve, second / b
        right, fall = given, 0.0
        if rule == IMPROVED_DELTA:
            right, fall = right + math.log1p(1.0 / b), 1.0 / (1.0 + b)
    if not right > 0.0 or not left < math.inf:
        return math.inf, math.nan, math.inf
    if not left > 0.0:
        return -math.inf, math.nan, math.inf
    tilt = (left - right) / b if rule <= IMPROVED_EPSILON else (left - right) * b
    return math.log(left / right), slope / left + fall / right, tilt


@Kernel
def search(
    rows: FloatArray,
    counts: FloatArray,
    start: int,
    end: int,
    step: int,
    given: float,
    rule: int,
    low: float,
    high: float,
    x: float,
    certified: bool,
) -> tuple[float, float]:
    """(b, curve) of the least value seen, by Newton's method in log b inside a bracket that only ever narrows.

    Every order gives a valid bound, so a search that stops early is only less sharp. It stops where a further step
    promises less than 1e-14 of the value. Without a second derivative steps are secants.
    """
    best, best_b, best_curve = math.inf, 1.0, math.inf
    left, right = low, high
    step_before = math.inf
    last_x, last_g = math.nan, math.nan
    for _ in range(200):
        b = (1.0 + math.exp(x)) - 1.0  # the order itself is what is priced
        sums = total(rows, counts, start, end, step, b, certified)
        at = value(rule, given, b, sums[0])
        if at < best:
            best, best_b, best_curve = at, b, sums[0]
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
            slope = (g - last_g) / (x - last_x)
        last_x, last_g = x, g
        known = 0.0 < slope < math.inf and abs(g) < math.inf
        move = -g / slope if known else math.copysign(math.inf, -g)
        if known and 0.5 * abs(tilt * move) < 1e-14 * abs(at) and left <= x + move <= right:
            break
        move = min(max(move, -4.0), 4.0)
        halve = low < left and right < high and (abs(move) > 0.5 * step_before or not known)  # Newton does not close in
        target = 0.5 * (left + right) if halve else x + move
        if not left < target < right:
            edge = low if g > 0.0 else high
            target = edge if edge in (left, right) else 0.5 * (left + right)
        step_before = abs(target - x)
        x = target
    return best_b, best_curve


@Kernel
def first_guess(
    rows: FloatArray, counts: FloatArray, start: int, end: int, given: float, rule: int, low: float, high: float
) -> float:
    """log of the best order - 1 if every curve were a straight line of its slope near order 1."""
    slope = 0.0
    for i in range(start, end):
        if rows[i, 0] == LINEAR:
            slope += counts[i] * rows[i, 1]
        elif rows[i, 0] == SAMPLED_GAUSSIAN:
            slope += counts[i] * 0.5 * rows[i, 2] ** 2 * math.expm1(min(rows[i, 1] ** 2, 300.0))
        else:
            slope += counts[i] * 0.3 * (rows[i, 5] / rows[i, 1]) ** 2
    if not slope > 0.0:
        return 0.0
    b = math.sqrt(-given / slope) if rule <= IMPROVED_EPSILON else given / (2.0 * slope)
    return min(max(math.log(b), low), high) if b > 0.0 else 0.0


@Kernel
def search_all(
    rows: FloatArray,
    counts: FloatArray,
    starts: FloatArray,
    given: FloatArray,
    rule: int,
    low: float,
    high: float,
    found: FloatArray,
) -> None:
    """Fill `found` with (b, curve, limit) of every run; its rows are rows[starts[i]:starts[i+1]]."""
    last, length = math.nan, 0
    for i in range(given.size):
        start, end = starts[i], starts[i + 1]
        limit, steered = 0.0, False
        for j in range(start, end):
            limit += counts[j] * curve_limit(rows[j])
            steered = steered or rows[j, 0] == SCREENING
        found[i, 2] = limit
        # neighbours in a sweep have about the same best order
        alike = end - start == length and low < last < high
        x = last if alike else first_guess(rows, counts, start, end, given[i], rule, low, high)
        if end - start >= MANY:
            step = (end - start) // SAMPLE
            b, _ = search(rows, counts * step, start, end, step, given[i], rule, low, high, x, False)
            x = min(max(math.log(b), low), high)
        b, curve = search(rows, counts, start, end, 1, given[i], rule, low, high, x, False)
        if steered:
            whole = total(rows, counts, start, end, 1, b, True)[0]
            if whole > curve * (1.0 + 3e-13):  # a pair that is only locally the worst misled the search
                b, whole = search(rows, counts, start, end, 1, given[i], rule, low, high, math.log(b), True)
            curve = whole
        found[i, 0], found[i, 1] = b, curve
        last, length = math.log(b), end - start
