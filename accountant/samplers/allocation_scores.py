"""Which function of the observed steps is to tell who took part in several of them: scores of samples at some rate.

Any score of the steps is below (notebooks/mathematics.md, Random allocation). Those of few steps with large ratios
tell most if their rate is below the share of steps that are drawn, at small deltas by a factor of two to five.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.events.discrete_pair import DiscretePair
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import remember, spend
from accountant.samplers.allocation_subsets import WHAT, Drawn, subset_pair

__all__ = ["about_price", "best_rate"]

FACTOR = 0.7
"""Of the next lower rate that is tried."""

LEAST, MOST = 0.03, 0.9
"""Of the share of steps that are drawn, and of all: no rate below or above is tried."""

BETTER = 1.002
"""A lower rate is taken where what it costs by Rényi divergences, as several epochs do, is more by this factor."""

ORDERS = 1 + np.geomspace(0.05, 1000.0, 60)
"""Rényi orders by which rates are compared for several epochs."""

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
        pair = subset_pair(event, drawn._replace(rate=rate), direction, step, LOST)
        if times == 1:
            return _epsilon(pair, direction, math.exp(log_delta))
        return float(np.min(times * divergences(pair, direction) - log_delta / (ORDERS - 1)))

    best = min(drawn.selected / drawn.steps, MOST)
    highest = price(best)
    least, better = LEAST * drawn.selected / drawn.steps, 1.0 if times == 1 else BETTER
    while (rate := FACTOR * best) > least and (found := price(rate)) > better * highest:
        best, highest = rate, found
    return best


def _epsilon(pair: DiscretePair, direction: Direction, delta: float) -> float:
    """About what one release costs."""
    logs, firsts = np.log(pair._places), pair._masses * pair._places
    order = np.argsort(logs)
    logs, firsts, seconds = logs[order], firsts[order], pair._masses[order]
    if direction == DIRECTIONS[0]:
        logs, firsts, seconds = logs[::-1], firsts[::-1], seconds[::-1]
    else:
        logs, firsts, seconds = -logs, seconds, firsts
    # by falling losses: delta at each is what is above it
    deltas = np.cumsum(firsts) - np.exp(logs) * np.cumsum(seconds)
    k = int(np.searchsorted(deltas, delta))
    above = float(np.sum(firsts[:k])) - delta
    return max(math.log(above / float(np.sum(seconds[:k]))), 0.0) if k and above > 0.0 else 0.0


def about_price(pieces: Sequence[tuple[Event, int]], direction: Direction, log_delta: float) -> float:
    """About what one epoch costs that is composed of so many discrete pairs, and of other events."""
    total = np.zeros_like(ORDERS)
    for event, count in pieces:
        pair = divergences(event, direction) if isinstance(event, DiscretePair) else event._curve(ORDERS)
        total += count * pair
    return float(np.min(total - log_delta / (ORDERS - 1)))


def divergences(pair: DiscretePair, direction: Direction) -> FloatArray:
    """About the Rényi divergences of the scores' distributions."""
    spend(OUTCOME * pair._masses.size, WHAT)
    exponents = ORDERS if direction == DIRECTIONS[0] else 1 - ORDERS
    logs = np.log(pair._masses) + exponents[:, None] * np.log(pair._places)
    return np.asarray(np.logaddexp.reduce(logs, axis=1) / (ORDERS - 1))
