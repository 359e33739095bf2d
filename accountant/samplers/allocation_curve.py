"""Rényi curve of random allocation, from above in both directions."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from accountant.adjacency import Direction
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.samplers.allocation_pairs import add_copies, bracket_step, pair_above
from accountant.samplers.discrete_pair import Outcomes
from accountant.samplers.likelihoods import add_spreads

__all__ = ["allocation_curve"]

LOG_LOST: dict[Direction, float] = {"remove": -80.0, "add": -200.0}
"""Logs of what the grid cuts off."""

FINENESS = 0.04
"""Steps of the grid, in standard deviations of the ratio."""

MOMENTS = 256
"""Whole orders up to which moments are exact."""

GRID_ORDERS = np.geomspace(0.01, 7.0, 60) + 1
NODES = np.unique(np.concatenate([GRID_ORDERS, np.arange(2.0, MOMENTS + 1), MOMENTS * np.geomspace(1.1, 1e6, 300)]))
"""Orders at which the curve is computed; between them (a - 1) D_a, which is convex, is bounded by its chords."""

ROUNDING = 1e-8
"""Relative rounding of g, of places and of sums."""


def allocation_curve(event: Event, steps: int, orders: FloatArray) -> FloatArray:
    """An upper bound on D_a of one of `steps` steps in both directions, at orders in [1, inf]."""
    nodes, values = _curve_at_nodes(event, steps)
    found = np.empty_like(orders)
    near = orders <= nodes[0]
    far = orders > nodes[-1]
    between = ~near & ~far
    found[near] = values[0] / (nodes[0] - 1)
    found[between] = np.interp(orders[between], nodes, values) / (orders[between] - 1)
    found[far] = event._curve(orders[far])
    return found


@lru_cache(maxsize=64)
def _curve_at_nodes(event: Event, steps: int) -> tuple[FloatArray, FloatArray]:
    """Orders, and the largest convex function below bounds on (a - 1) D_a at them."""
    own = event._curve(NODES) * (NODES - 1)
    worst = np.minimum(np.maximum(_log_moments_removed(event, steps), _log_moments_added(event, steps)), own)
    corners = [0]
    for i in range(1, NODES.size):
        if not math.isfinite(worst[i]):
            break
        while len(corners) > 1 and _bends_down(worst, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    return NODES[corners], worst[corners]


def _bends_down(values: FloatArray, a: int, b: int, c: int) -> bool:
    rise = (values[b] - values[a]) * (NODES[c] - NODES[b])
    return bool(rise >= (values[c] - values[b]) * (NODES[b] - NODES[a]))


def mean_of_steps(event: Event, steps: int, direction: Direction) -> Outcomes:
    """The mean of the ratios, spread on a grid that reaches far."""
    variance = math.expm1(min(float(event._curve(np.array([2.0]))[0]), 50.0))
    fine, log_lost = FINENESS * math.sqrt(variance / steps), LOG_LOST[direction]
    one = bracket_step(event, direction, min(fine * math.sqrt(steps), 0.125), log_lost)[0]
    total = add_copies(one, steps, lambda size: fine * math.sqrt(steps / size), log_lost, add_spreads)
    return pair_above(total, steps, direction)


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
    found = result + factorials - orders * math.log(steps)
    return np.asarray(found + 1e-14 * (np.abs(result) + factorials + orders * math.log(steps)) + 1e-13)


def _multiply_series(a: FloatArray, b: FloatArray) -> FloatArray:
    """Logs of the coefficients of a product of power series."""
    return np.array([np.logaddexp.reduce(a[: n + 1] + b[n::-1]) for n in range(a.size)])


def _log_moments_removed(event: Event, steps: int) -> FloatArray:
    """Logs of bounds on E X^a under Q at all nodes.

    E f(X) = 1 + E g(X), g = f - f(1) - f'(1) (x - 1) >= 0. On the grid g becomes larger. Beyond its last place y a line
    takes its place, from which g differs by int_y f''(z) E(X - z)_+ dz, with E(X - z)_+ <= z^(1-c) E X^c.
    """
    moments, found = whole_moments(event, steps), np.full(NODES.size, math.inf)
    whole = (np.round(NODES) == NODES) & (NODES <= MOMENTS)
    found[whole] = moments[NODES[whole].astype(int)]
    mean = mean_of_steps(event, steps, "remove")
    logs, end = np.log(mean.places), float(event._curve(np.array([math.inf]))[0])
    high, powers = float(logs[-1]), np.arange(3.0, MOMENTS + 1)
    with np.errstate(divide="ignore"):
        log_masses, log_zero, log_lost = np.log(mean.masses), *np.log([mean.zero, mean.lost])
    for i in np.flatnonzero(GRID_ORDERS[-1] >= NODES).tolist():
        order = float(NODES[i])
        terms = [float(np.logaddexp.reduce(log_masses + _log_excess(order, logs)))]
        terms += [log_zero + math.log(order - 1), log_lost + math.log(order) + (order - 1) * high]
        if high < end:
            c = powers[powers > order + 0.5]
            tails = moments[c.astype(int)] + (order - c) * high - np.log(c - order)
            terms.append(math.log(order * (order - 1)) + float(tails.min()))
        found[i] = min(found[i], np.logaddexp(0.0, np.logaddexp.reduce(terms) + mean.accuracy + ROUNDING))
    return found


def _log_moments_added(event: Event, steps: int) -> FloatArray:
    """Logs of bounds on E X^-b under Q, b = a - 1, at all nodes.

    As above; below its first place y the grid has a mass `zero` at 0, so that E(z - X)_+ <= zero z for z < y, and
    E(z - X)_+ <= z^(1+c) E X^-c for very small z. As a mean is at least the geometric mean, E X^-c <= (E X_1^(-c/t))^t.
    """
    b = NODES - 1
    found = b * event._curve(1 + b / steps)
    mean = mean_of_steps(event, steps, "add")
    logs, end = np.log(mean.places), float(event._curve(np.array([math.inf]))[0])
    low = float(logs[0])
    with np.errstate(divide="ignore"):
        log_masses, log_zero, log_lost = np.log(mean.masses), *np.log([mean.zero, mean.lost])
    c = steps * np.geomspace(1e-3, 1e3, 61)
    heads = c * event._curve(1 + c / steps)
    for i in np.flatnonzero(NODES <= MOMENTS).tolist():
        order = float(NODES[i])
        terms = [float(np.logaddexp.reduce(log_masses + _log_excess(1 - order, logs)))]
        # the line from the first place to 0, and the slope of g at infinity
        terms += [log_zero + math.log(order) + (1 - order) * low, log_lost + math.log(order - 1)]
        if -low < end:
            far = c > order
            splits = low * np.geomspace(1.0, 8.0, 13)
            tails = heads[far] + np.outer(splits, c[far] - order + 1) - np.log(c[far] - order + 1)
            between = log_zero + math.log(order) + (1 - order) * splits
            beyond = math.log(order * (order - 1)) + np.min(tails, axis=1, initial=math.inf)
            terms.append(float(np.min(np.logaddexp(between, beyond))))
        found[i] = min(found[i], np.logaddexp(0.0, np.logaddexp.reduce(terms) + mean.accuracy + ROUNDING))
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
