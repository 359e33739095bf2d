"""Which function of the observed steps is to tell who took part in several of them: scores of samples at some rate.

Any score of the steps is below (notebooks/mathematics.md, Random allocation). Those of few steps with large ratios
tell most if their rate is below the share of steps that are drawn, at small deltas by a factor of two to five.
"""

from __future__ import annotations

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import remember, spend
from accountant.samplers.allocation_subsets import WHAT, Drawn, subset_pair

__all__ = ["best_rate"]

FACTOR = 0.7
"""Of the next lower rate that is tried."""

LEAST, MOST = 0.03, 0.9
"""Of the share of steps that are drawn, and of all: no rate below or above is tried."""

BETTER = 1.002
"""A lower rate is taken where what it costs is more by this factor."""

ORDERS = 1 + np.geomspace(0.05, 1000.0, 60)
"""Rényi orders by which rates are compared."""

GRID = 0.5
"""Coarsest grid on which they are; else about the deviation of the scores."""

OUTCOME = 1200.0
"""Operations for each outcome of the scores where rates are compared."""

LOST = -60.0
"""Log of what may be left out of a step then."""


def best_rate(event: Event, drawn: Drawn, direction: Direction, log_delta: float, times: int) -> float:
    """About the rate at which the scores of so many epochs have the largest price; that of a sample, or a lower one."""
    return _search(event, drawn._replace(rate=0.0), direction, float(round(log_delta)), times)


@remember(WHAT, 256)
def _search(event: Event, drawn: Drawn, direction: Direction, log_delta: float, times: int) -> float:
    variance = np.expm1(min(float(event._curve(np.array([2.0]))[0]), 50.0))
    step = min(float(drawn.selected * np.sqrt(variance / drawn.steps)), GRID)

    def price(rate: float) -> float:
        curve = _divergences(event, drawn._replace(rate=rate), direction, step)
        return float(np.min(times * curve - log_delta / (ORDERS - 1)))

    best = min(drawn.selected / drawn.steps, MOST)
    highest = price(best)
    least = LEAST * drawn.selected / drawn.steps
    while (rate := FACTOR * best) > least and (found := price(rate)) > BETTER * highest:
        best, highest = rate, found
    return best


def _divergences(event: Event, drawn: Drawn, direction: Direction, step: float) -> FloatArray:
    """About the Rényi divergences of the scores' distributions."""
    pair = subset_pair(event, drawn, direction, step, LOST)
    spend(OUTCOME * pair._masses.size, WHAT)
    exponents = ORDERS if direction == DIRECTIONS[0] else 1 - ORDERS
    logs = np.log(pair._masses) + exponents[:, None] * np.log(pair._places)
    return np.asarray(np.logaddexp.reduce(logs, axis=1) / (ORDERS - 1))
