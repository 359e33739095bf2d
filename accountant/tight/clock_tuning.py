"""Clocks of few kinds with references of their own, whose tick is such that screenings take about whole numbers of it.

A kind that takes a whole number of ticks is its own reference, and nothing is lost by mixtures. Any other is a mixture
of itself made a little smaller and a little larger (notebooks/mathematics.md, Many kinds of screening).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accountant.numerics.kernel import FloatArray
from accountant.tight.clock_ladders import Rung, Spread, clock_of, gather_clocks, ticks_of
from accountant.tight.clock_plans import Games
from accountant.tight.clock_references import NEAR, Clock, Kind, Reference, fit_pairs, share_of
from accountant.tight.pairs import Pairs

__all__ = ["WHOLE", "lost_ticks", "own_rung", "scale", "tune_clocks"]

MOST_TUNED, MOST_PAIRS = 10, 4096
"""Kinds of a game that have references of their own, and pairs of these."""

LONGER = 1.5
"""By how much more ticks than asked the costliest kind may take."""

WHOLE = 1e-7
"""Relative: how near to a whole number of ticks a screening takes that."""


def tune_clocks(kinds: Sequence[Kind], order: float, ticks: float, spread: Spread) -> Games:
    """Games of kinds that are not too far apart, the costliest of which takes `ticks` ticks or a little more."""

    def make(group: list[Kind]) -> tuple[Clock | None, list[Kind]]:
        some, rest = group[:MOST_TUNED], group[MOST_TUNED:]
        if len(some) == 1 or max(kind.above.up.size for kind in some) > MOST_PAIRS:
            return None, []
        tick = _best_tick(some, ticks)
        return clock_of([own_rung(kind, kind.cost, tick, order) for kind in some]), rest

    return gather_clocks(kinds, spread, make)


def _best_tick(group: Sequence[Kind], ticks: float) -> float:
    """Divergence of a tick with which references cost least beside their kinds.

    It is one of those of which some kind takes a whole number: between these what is lost is concave, about.
    """
    costs, times = (np.array([getattr(kind, name) for kind in group]) for name in ("cost", "times"))
    largest = float(np.max(costs))
    whole = [
        np.arange(math.ceil(ticks * share), math.floor(LONGER * ticks * share) + 1) / share
        for share in (costs / largest).tolist()
    ]
    tried = np.concatenate([[ticks], *whole])
    lost = np.minimum(*lost_ticks(np.multiply.outer(tried, costs / largest))) @ times / tried
    return largest / float(tried[np.argmin(lost)]) * (1 + WHOLE / 10)


def lost_ticks(ticks: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ticks that screenings of so many take more: where they are rounded up, and by a mixture of two, about.

    A mixture is one of noise: its shares are between the roots of both numbers of ticks, as that of the screening is.
    """
    low, near = np.floor(ticks), np.rint(ticks)
    start, end = np.sqrt(low), np.sqrt(low + 1)
    mixed = low + (np.sqrt(ticks) - start) / (end - start)
    rounded = np.where(np.abs(ticks - near) <= WHOLE * ticks, 0.0, np.ceil(ticks) - ticks)
    return rounded, np.maximum(mixed - ticks, 0.0)


def own_rung(kind: Kind, cost: float, tick: float, order: float, step: float = 0.0) -> Rung:
    """A kind of that cost as its own reference of a whole number of ticks, or as a mixture of two of its own.

    Costs are those on a grid of that step, if there is one.
    """
    ticks = cost / tick
    rounded, mixed = (float(each) for each in lost_ticks(np.array(ticks)))
    whole = kind, None, Reference(math.ceil(ticks * (1 - WHOLE)), kind.above), 1.0
    if rounded <= mixed:
        return whole
    low, high = (scale(kind.above, cost, math.floor(ticks) + i, tick, order, step) for i in range(2))
    share = math.inf if high is None else share_of(kind.above, high.pairs, None if low is None else low.pairs)
    if high is None or share > 1.0:
        return whole
    return min((whole, (kind, low, high, share)), key=ticks_of)


def scale(pairs: Pairs, cost: float, ticks: int, tick: float, order: float, step: float = 0.0) -> Reference | None:
    """Pairs of that cost made smaller or larger, so that they take those ticks; None of no ticks, or if not found."""

    def make(size: float) -> Pairs:
        larger = math.sqrt(size / cost)
        return Pairs(larger * pairs.up, larger * pairs.down)

    found = fit_pairs(make, ticks * tick, order, NEAR * WHOLE, step) if ticks else None
    return None if found is None else Reference(ticks, found)
