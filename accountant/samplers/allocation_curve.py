"""Rényi curve of random allocation, from above in both directions."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import allow_work, count_done, spend, tally_work
from accountant.samplers.allocation_pairs import sum_above
from accountant.tight.polygon import ULP

__all__ = ["allocation_curve"]

LOG_LOST: dict[Direction, float] = {"remove": -80.0, "add": -200.0}
"""Logs of what the grid cuts off."""

FINENESS = 0.04
"""Steps of the grid, in standard deviations of the ratio."""

ATTEMPTS = (1, 1.0), (4, 0.5)
"""Times that step, and the seconds that a direction's sums may take; else moments alone are a bound."""

WHAT, LEAST, NODE = "a Rényi curve of random allocation", 1e5, 1e5
"""What is counted; operations that are left at least where it begins, and of each order at which it is computed."""

BESIDE = 1.4
"""What a curve takes, as a multiple of the work of its sums."""

MOMENTS = 256
"""Whole orders up to which moments are exact."""

GRID_ORDERS = np.geomspace(0.01, 7.0, 60) + 1
NODES = np.array(sorted({*GRID_ORDERS, *np.arange(2.0, MOMENTS + 1), *(MOMENTS * np.geomspace(1.1, 1e6, 300))}))
"""Orders at which the curve is computed; between them (a - 1) D_a, which is convex, is bounded by its chords."""

SPLITS = np.hstack([[np.geomspace(1.0, 8.0, 13), np.zeros(13)], [np.ones(13), np.geomspace(1e-4, 8.0, 13)]])
"""Factors of the log of a grid's last place, and what is added: where another bound takes over."""

ROUNDING = 1e-8
"""Relative rounding of g, but for that of places near 1, and of sums."""


def allocation_curve(event: Event, steps: int, orders: FloatArray) -> FloatArray:
    """An upper bound on D_a of one of `steps` steps in both directions, at orders in [1, inf]."""
    if (orders > NODES[-1]).all():
        return event._curve(orders)
    spend(LEAST, WHAT, once=(WHAT, event, steps))  # where nothing is left, that is said at once
    nodes, values, operations = _curve_at_nodes(event, steps)
    count_done(BESIDE * operations, (WHAT, event, steps, "all"))
    found = np.empty_like(orders)
    near = orders <= nodes[0]
    far = orders > nodes[-1]
    between = ~near & ~far
    found[near] = values[0] / (nodes[0] - 1)
    found[between] = np.interp(orders[between], nodes, values) / (orders[between] - 1)
    found[far] = event._curve(orders[far])
    return found


@lru_cache(maxsize=64)
def _curve_at_nodes(event: Event, steps: int) -> tuple[FloatArray, FloatArray, float]:
    """Orders, and the largest convex function below bounds on (a - 1) D_a at them; and operations that took."""
    own = event._curve(NODES) * (NODES - 1)
    mean, operations = None, NODE * NODES.size
    for coarser, seconds in ATTEMPTS:
        # bounded by itself: curves do not depend on the patience of a price
        with tally_work() as tally, allow_work(seconds):
            mean = mean or mean_of_steps(event, steps, coarser * FINENESS)
        operations += tally[0]
    worst = np.maximum(_log_moments_removed(event, steps, mean), _log_moments_added(event, steps, mean))
    worst = np.minimum(worst, own)
    corners = [0]
    for i in range(1, NODES.size):
        if not math.isfinite(worst[i]):
            break
        while len(corners) > 1 and _bends_down(worst, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    return NODES[corners], worst[corners], operations


def _bends_down(values: FloatArray, a: int, b: int, c: int) -> bool:
    rise = (values[b] - values[a]) * (NODES[c] - NODES[b])
    return bool(rise >= (values[c] - values[b]) * (NODES[b] - NODES[a]))


class Halves(NamedTuple):
    """The mean X of the ratios from above: E(z - X)_+ for z < 1 by places below 1, E(X - z)_+ for z > 1 by the others.

    Attributes
    ----------
    low, high : ndarray of shape (places, 2)
        Logs of places and of masses, in rising order.
    log_zero, log_lost : float
        Logs of what lies at 0, and of what E(X - z)_+ may have beyond the last place.
    rounding : float
        Relative rounding of E g for a convex g with g(1) = g'(1) = 0.
    """

    low: FloatArray
    high: FloatArray
    log_zero: float
    log_lost: float
    rounding: float

    def log_mean(self, power: float) -> float:
        """Log of E g(X) over all places, g(x) = x^power - 1 - power (x - 1)."""
        both = np.concatenate([self.low, self.high])
        return float(np.logaddexp.reduce(both[:, 1] + _log_excess(power, both[:, 0])))


def mean_of_steps(event: Event, steps: int, fineness: float = FINENESS) -> Halves | None:
    """The mean of the ratios of `steps` steps, on grids that reach far; None if they take too long."""
    variance = math.expm1(min(float(event._curve(np.array([2.0]))[0]), 50.0))
    halves, errors, beyond = [], [], []
    for direction, sign in zip(DIRECTIONS, (1, -1), strict=True):
        try:
            total = sum_above(event, steps, direction, fineness * math.sqrt(variance / steps), LOG_LOST[direction])
        except ToleranceUnreachable:
            return None
        places = total.places / steps
        # places err by a share `moved`; near 1, where g is about c (x - 1)^2, E g by 2 moved / deviation of itself
        moved = total.moved + 8 * ULP * (2 + float(np.max(np.abs(np.log(places)))) + math.log(steps))
        deviation = math.sqrt(float(np.sum(total.masses * (places - 1) ** 2)) + 1e-300)
        errors.append(2 * total.error + ULP * (8 * places.size + 64) + 4 * moved / deviation + ROUNDING)
        half = (total.masses > 0) & (sign * (places - 1) > 0)
        halves.append(np.log(np.column_stack([places[half], total.masses[half]])))
        beyond.append(total.lost / steps if sign > 0 else total.zero)
    with np.errstate(divide="ignore"):
        log_lost, log_zero = np.log(beyond).tolist()
    return Halves(halves[1], halves[0], log_zero, log_lost, max(errors))


def whole_moments(event: Event, steps: int) -> FloatArray:
    """Logs of bounds on E X^n, n = 0, ..., MOMENTS: E S^n/n! is the coefficient of z^n in (sum_j E X_1^j z^j/j!)^t."""
    orders = np.arange(MOMENTS + 1.0)
    logs = np.zeros(MOMENTS + 1)
    logs[2:] = (orders[2:] - 1) * event._curve(orders[2:])
    factorials = np.append(0.0, np.cumsum(np.log(orders[1:])))
    power, result = logs - factorials, None
    for bit in range(steps.bit_length()):
        if steps >> bit & 1:
            result = power if result is None else _multiply_series(result, power)
        if steps >> bit > 1:
            power = _multiply_series(power, power)
    assert result is not None
    # one multiplication errs by `rounding` in the log of a coefficient; as the first, 1, is exact, so much is added
    # to at most n factors each time
    largest = np.maximum.accumulate(np.maximum(np.abs(result), np.abs(logs - factorials)))
    rounding = ULP * (3 * largest + orders + 16)
    error = orders * (2 * steps.bit_length() + 4) * rounding + 4 * ULP * (factorials + orders * math.log(steps))
    return np.asarray(result + factorials - orders * math.log(steps) + error)


def _multiply_series(a: FloatArray, b: FloatArray) -> FloatArray:
    """Logs of the coefficients of a product of power series."""
    found = np.empty_like(a)
    for n in range(a.size):
        terms = a[: n + 1] + b[n::-1]
        top = terms.max()
        found[n] = top + np.log(np.sum(np.exp(terms - top)))
    return found


def _log_moments_removed(event: Event, steps: int, mean: Halves | None) -> FloatArray:
    """Logs of bounds on E X^a under Q at all nodes.

    E f(X) = 1 + E g(X), g = f - f(1) - f'(1) (x - 1) >= 0. On the grid g becomes larger. Beyond its last place y a line
    takes its place, from which g differs by int_y f''(z) E(X - z)_+ dz, with E(X - z)_+ at most what is lost, for z < s
    with any s, and at most z^(1-c) E X^c beyond.
    """
    moments, found = whole_moments(event, steps), np.full(NODES.size, math.inf)
    whole = (np.round(NODES) == NODES) & (NODES <= MOMENTS)
    found[whole] = moments[NODES[whole].astype(int)]
    if mean is None or not mean.high.size:
        return found
    end, powers = float(event._curve(np.array([math.inf]))[0]), np.arange(3.0, MOMENTS + 1)
    high = float(mean.high[-1, 0])
    for i in np.flatnonzero(GRID_ORDERS[-1] >= NODES).tolist():
        order = float(NODES[i])
        terms = [mean.log_mean(order), mean.log_zero + math.log(order - 1)]
        if high < end:
            c, splits = powers[powers > order + 0.5], high * SPLITS[0] + SPLITS[1]
            tails = moments[c.astype(int)] + np.outer(splits, order - c) - np.log(c - order)
            between = mean.log_lost + math.log(order) + (order - 1) * splits
            beyond = math.log(order * (order - 1)) + np.min(tails, axis=1)
            terms.append(float(np.min(np.logaddexp(between, beyond))))
        else:
            terms.append(mean.log_lost + math.log(order) + (order - 1) * high)
        found[i] = min(found[i], np.logaddexp(0.0, np.logaddexp.reduce(terms) + mean.rounding))
    return found


def _log_moments_added(event: Event, steps: int, mean: Halves | None) -> FloatArray:
    """Logs of bounds on E X^-b under Q, b = a - 1, at all nodes.

    As above; below its first place y the grid has a mass `zero` at 0, so that E(z - X)_+ <= zero z for z < y, and
    E(z - X)_+ <= z^(1+c) E X^-c for very small z. As a mean is at least the geometric mean, E X^-c <= (E X_1^(-c/t))^t.
    """
    b = NODES - 1
    found = b * event._curve(1 + b / steps)
    if mean is None or not mean.low.size:
        return found
    end, low = float(event._curve(np.array([math.inf]))[0]), float(mean.low[0, 0])
    c = steps * np.geomspace(1e-3, 1e3, 61)
    heads = c * event._curve(1 + c / steps)
    for i in np.flatnonzero(NODES <= MOMENTS).tolist():
        order = float(NODES[i])
        terms = [mean.log_mean(1 - order)]
        # the line from the first place to 0, and the slope of g at infinity
        terms += [mean.log_zero + math.log(order) + (1 - order) * low, mean.log_lost + math.log(order - 1)]
        if -low < end:
            far = c > order
            splits = low * SPLITS[0] - SPLITS[1]
            tails = heads[far] + np.outer(splits, c[far] - order + 1) - np.log(c[far] - order + 1)
            between = mean.log_zero + math.log(order) + (1 - order) * splits
            beyond = math.log(order * (order - 1)) + np.min(tails, axis=1, initial=math.inf)
            terms.append(float(np.min(np.logaddexp(between, beyond))))
        found[i] = min(found[i], np.logaddexp(0.0, np.logaddexp.reduce(terms) + mean.rounding))
    return np.asarray(found)


def _log_excess(power: float, logs: FloatArray) -> FloatArray:
    """log(x^power - 1 - power (x - 1)), x = e^logs: where x is near 1 by the binomial series."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        x = np.expm1(logs)
        values = np.expm1(power * logs) - power * x
        near = np.abs(x) * max(abs(power), 1.0) < 0.05
        term, series = power * x[near], np.zeros(int(near.sum()))
        for j in range(2, 12):
            term = term * (power - j + 1) / j * x[near]
            series += term
        values[near] = series
        return np.where(power * logs > 600, power * logs, np.log(np.maximum(values, 1e-300)))
