"""Bounds on delta at many epsilons from one Rényi curve, without a search for the best order of each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accountant.errors import count_of
from accountant.events.composition import Composition
from accountant.numerics.exact import CURVE_ROUNDING
from accountant.numerics.kernel import FloatArray
from accountant.patience import spend
from accountant.renyi.conversion import log_delta_from_renyi
from accountant.renyi.route import FEW, nonzero_delta, renyi_delta

__all__ = ["bound_deltas", "deltas_at_many"]

DISTANCES = np.geomspace(1e-9, 1e12, 169)
"""Orders less 1 for more epsilons than are each searched for by itself."""

AT_ONE = 1e5
"""Operations (see `accountant.patience`) of an epsilon, beside those of its order."""


def bound_deltas(
    run: Composition, epsilons: FloatArray, b: FloatArray, curve: FloatArray, nearer: bool = True
) -> FloatArray:
    """Upper bounds on delta at many epsilons, from the curve at orders 1 + b and once more near the best of these.

    Every order gives a bound (Canonne, Kamath & Steinke 2020, Prop. 12); a search by itself for each epsilon would ask
    for sixty. Whoever asks counts the orders, where they take long.

    Parameters
    ----------
    run : Composition
    epsilons : array
    b, curve : array
        At least three orders less 1, rising, so near that a parabola in log b leads to the best one; and the curve.
    nearer : bool
        Whether to look near the best of them.
    """
    curve = curve * (1 + CURVE_ROUNDING)
    with np.errstate(invalid="ignore", over="ignore"):
        logs = np.array([log_delta_from_renyi("improved", b, curve, epsilon) for epsilon in epsilons.tolist()])
    best = np.fmin.reduce(logs, axis=1)
    if nearer:
        near = _vertices(np.log(b), np.where(np.isnan(logs), math.inf, logs))
        found = run.renyi(1 + near) * (1 + CURVE_ROUNDING)
        for i, epsilon in enumerate(epsilons.tolist()):
            best[i] = np.fmin(best[i], log_delta_from_renyi("improved", near[[i]], found[[i]], epsilon)[0])
    return np.where(epsilons >= run._largest_loss(), 0.0, nonzero_delta(best))


def deltas_at_many(run: Composition, epsilons: Sequence[float]) -> list[float]:
    """As `renyi_delta` by the improved rule; of more than a few epsilons by one curve for all of them.

    What is composed is nearly always smaller: orders are not searched, as `renyi_deltas_at` does.
    """
    points = np.array(epsilons, dtype=float)
    if points.size <= FEW:
        return [renyi_delta(run, epsilon, "improved").delta for epsilon in points.tolist()]
    spend(
        (DISTANCES.size + points.size) * run._curve_work() + AT_ONE * points.size,
        f"a Rényi curve of {count_of(len(run.entries), 'release')}",
    )
    found: list[float] = bound_deltas(run, points, DISTANCES, run.renyi(1 + DISTANCES)).tolist()
    return found


def _vertices(x: FloatArray, rows: FloatArray) -> FloatArray:
    """e^x where the parabola through the least value of a row and its neighbours is the least, as an order has it."""
    at = np.clip(np.argmin(rows, axis=1), 1, x.size - 2)
    left, middle, right = rows[np.arange(len(rows))[:, None], at[:, None] + np.array([-1, 0, 1])].T
    before, after = x[at] - x[at - 1], x[at + 1] - x[at]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        fall, rise = (middle - left) / before, (right - middle) / after
        moved = 0.5 * (fall * after + rise * before) / (fall - rise)
    moved = np.where(np.isfinite(moved), np.clip(moved, -before, after), 0.0)
    return np.asarray((1 + np.exp(x[at] + moved)) - 1)
