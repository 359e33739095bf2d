"""Upper bounds on the profile of whole runs at hundreds of losses, for what is made of one: within seconds."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from accountant.delta_curve import known_deltas
from accountant.events.composition import Composition
from accountant.numerics.kernel import FloatArray
from accountant.patience import OPERATIONS_PER_SECOND, spend, spend_apart
from accountant.renyi.many_epsilons import bound_deltas
from accountant.renyi.route import LONG

__all__ = ["LOSSES", "curve_at", "orders_of", "profile_above", "route_of", "spend_on_curves"]

LOSSES = np.concatenate([[0.0], np.geomspace(1e-4, 300.0, 320)])
"""Epsilons at which the profile of one try bounds what a test can tell."""

DISTANCES = np.concatenate([np.geomspace(1e-3, 1e4, 500), np.geomspace(3e4, 1e13, 25)])
"""Orders minus 1 at which the bound is computed; between them a chord holds."""

NEGLIGIBLE = 1e-25
"""A profile below it is bounded by the Rényi curve: no order up to the largest of `DISTANCES` tells the difference."""

FEW = 128
"""About how many of `DISTANCES` are asked for where that takes long."""


def route_of(run: Composition) -> str:
    """The route to the profile of one try, asked at hundreds of epsilons: many screenings take a game for each."""
    return "renyi" if run.releases > 1 and any(event.family for event in run.entries) else "auto"


def spend_on_curves(runs: tuple[Composition, ...], seconds: float) -> None:
    """Count the Rényi curves of runs at all orders that are asked for, where their profile may take so many seconds."""
    for run in runs:
        orders, work = orders_of(run, seconds), run._curve_work()
        if work > 0.0:
            asked = orders.size + LOSSES.size * (orders is DISTANCES)
            what = f"{asked} orders of the Rényi curve of what is tried"
            spend(asked * work, what, free=LONG, once=(orders_of, run))


def orders_of(run: Composition, seconds: float) -> FloatArray:
    """Distances from 1 of the orders of which its curve is asked: fewer, where all would take longer than that."""
    work = run._curve_work() * (DISTANCES.size + LOSSES.size)
    return DISTANCES if work <= max(LONG, seconds * OPERATIONS_PER_SECOND) else DISTANCES[:: DISTANCES.size // FEW]


def profile_above(runs: tuple[Composition, ...], losses: FloatArray, seconds: float) -> tuple[FloatArray, float]:
    """Upper bounds on the profile of the dearest run at each loss: by the tight route where it can matter.

    Not where next to nothing is left, nor where the Rényi bound shows a run to be cheaper than another one; and of
    several runs at every fourth loss, as each price takes a while. And the operations that took, of so many seconds.
    """
    one = len(runs) == 1 and runs[0].releases == 1
    asked = np.arange(losses.size) % (1 if len(runs) == 1 else 4) == 0
    found = np.zeros_like(losses)
    with spend_apart(seconds) as work:
        bounds = [_by_renyi(run, losses, seconds) for run in runs]
        for number in sorted(range(len(runs)), key=lambda number: -float(np.log(bounds[number] + 1e-300).sum())):
            run, bound = runs[number], bounds[number]
            wanted = asked & (bound > (0.0 if one else np.maximum(NEGLIGIBLE, found))) & (route_of(run) != "renyi")
            if wanted.any() and (known := known_deltas(run, losses[wanted].tolist())) is not None:
                bound[wanted] = np.minimum(known, bound[wanted])
            found = np.maximum(found, bound)
    return found, work.spent


def _by_renyi(run: Composition, losses: FloatArray, seconds: float) -> FloatArray:
    """The same from the curve alone."""
    b = orders_of(run, seconds)
    return np.minimum(bound_deltas(run, losses, b, curve_at(run, b.size), nearer=b is DISTANCES), 1.0)


@lru_cache(maxsize=64)
def curve_at(run: Composition, number: int) -> FloatArray:
    """The curve of what is tried, at so many of the orders."""
    return run.renyi(1 + (DISTANCES if number == DISTANCES.size else DISTANCES[:: DISTANCES.size // FEW]))
