"""Certified privacy profiles of a whole run as losses on a grid, for programs that read loss distributions.

With H(u) = sup_S P(S) - u Q(S) and u_j = e^(j h), any convex function through points above H at the u_j, straight
between them, lies above H: it is the profile of losses on the grid, which dominate the run (Doroshenko et al. 2022,
Alg. 1). A point at u_j with a lower bound on H(u_(j+1)) gives such a function below H, since H falls. Bounds need not
be convex themselves; the lower convex hull of points above a convex function is above it too. At u = 0 H is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.attack import renyi_bounds
from accountant.errors import ParameterError, ProfileUnavailable, ToleranceUnreachable, real
from accountant.events.composition import Composition
from accountant.interop.peers import refuse_secret
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.price import epsilon
from accountant.tight.closed_forms import given_finite
from accountant.tight.fourier import HockeyStick
from accountant.tight.infinite_losses import OneSidedTradeOff
from accountant.tight.loss_composition import Question, plan
from accountant.tight.loss_trade_off import LossTradeOff, Table
from accountant.tight.polygon import ULP
from accountant.tight.route import TightRun
from accountant.tight.trade_off import BetweenTradeOffs, ProfileTradeOff, SureTradeOff, TradeOff

__all__ = ["GridLosses", "grid_losses", "profile_above"]

TAIL = 1e-20
"""Delta up to which losses are on the grid; larger ones count as infinite, or not at all."""

LARGEST = 690.0
"""Largest loss on the grid: e^690 is still a number."""

MOST = 2**20
"""Most points of a grid whose step was not given."""

DELTAS = (0.5, 0.1, 1e-2, 1e-5, 1e-9, 1e-13, 1e-18)
"""Where a composed measure is to be exact; others are looked at where one of these serves."""


class GridLosses(NamedTuple):
    """Losses (first + j) * step with their probabilities; what is left to an infinite loss."""

    step: float
    first: int
    probabilities: FloatArray
    infinite: float


def grid_losses(
    run: Composition, *, above: bool, step: float | None = None, tolerance: float = 1e-3
) -> tuple[GridLosses, ...]:
    """Losses on a grid that dominate the run, or, unless `above`, that the run dominates: remove, then add.

    Only one of them where the run's adjacency is REPLACE, whose pairs are the same in both directions.

    Raises
    ------
    ParameterError
        A number is out of range, or the grid takes too many points.
    ProfileUnavailable
        An event is known by a Rényi bound only, and losses from below are asked for.
    """
    places = _places(run, step)
    if places.most == 0:
        return (GridLosses(places.step, 0, np.ones(1), 0.0),)
    directions = DIRECTIONS[:1] if run.adjacency is Adjacency.REPLACE else DIRECTIONS
    return tuple(_losses(run, direction, places, above, tolerance) for direction in directions)


def profile_above(run: Composition, tolerance: float = 1e-4) -> Callable[[float], float]:
    """An upper bound on delta at any epsilon >= 0, in both directions, from bounds that are computed once.

    Between the places of a grid it is the straight line in e^epsilon; errors as for `grid_losses`.
    """
    places = _places(run, None)
    x = places.x[places.most :]
    if places.most == 0:
        return lambda point: 0.0
    worst = np.full_like(x, -math.inf)
    for direction in DIRECTIONS[:1] if run.adjacency is Adjacency.REPLACE else DIRECTIONS:
        worst = np.maximum(worst, _profile_bounds(run, direction, x, True, tolerance)[1])
    values = np.minimum(np.exp(worst) * (1 + 1e-13), 1.0)

    def delta(point: float) -> float:
        if point >= x[-1]:
            return float(values[-1])
        left = min(int(point / x[1]), x.size - 2)
        share = max(math.expm1(point - x[left]) / math.expm1(x[1]), 0.0)
        return min(float(values[left] + share * (values[left + 1] - values[left])) * (1 + 1e-13), 1.0)

    return delta


class _Places(NamedTuple):
    """Multiples -most, ..., most of a step; of what tells nothing 0 alone."""

    step: float
    most: int

    @property
    def x(self) -> FloatArray:
        return np.asarray(self.step * np.arange(-self.most, self.most + 1.0))


def _places(run: Composition, step: float | None) -> _Places:
    """Those that hold the losses."""
    refuse_secret(run)
    if step is not None:
        step = real("value_discretization_interval", step, 1e-9, 10.0)
    finite, logs, lost = given_finite(run)
    end = _largest_loss(finite) + abs(logs[0] - logs[1])
    if end == 0.0 and lost == 0 and logs == (0.0, 0.0):
        return _Places(step or 1e-4, 0)
    if end > LARGEST:
        raise ParameterError(f"losses of this run reach {end:.4g}; accepted: at most {LARGEST:g}")
    if step is None:
        step = 1e-4
        while end > step * MOST / 2:
            step *= 2
    most = math.ceil(end / step) + 1
    if most > 4 * MOST:
        least = end / (4 * MOST)
        raise ParameterError(
            f"value_discretization_interval = {step:g} takes {2 * most} points; accepted: {least:.2g} or more"
        )
    return _Places(step, most)


def _largest_loss(finite: Composition) -> float:
    """Of those that are finite, and have more than `TAIL`."""
    pure = float(finite.renyi(math.inf)) if finite.releases else 0.0
    return min(pure, epsilon(finite, TAIL, method="renyi").epsilon) if pure > 0.0 else 0.0


def _losses(run: Composition, direction: Direction, places: _Places, above: bool, tolerance: float) -> GridLosses:
    x = places.x
    lower, upper, sure = _profile_bounds(run, direction, x, above, tolerance)
    if above:
        values, start = np.exp(upper), 1.0
    else:
        values = np.append(np.exp(lower[1:]), sure)
        start = float(np.exp(lower[0]))
    # what rounds below moves by less than this
    values = np.clip(values * (1 + (1 if above else -1) * 1e-13), 0.0, start)
    values = np.maximum.accumulate(values[::-1])[::-1] if above else np.minimum.accumulate(values)
    kept, masses = _hull(places, values, start)
    probabilities = np.zeros(x.size)
    probabilities[kept] = np.maximum(masses, 0.0)
    return GridLosses(places.step, -places.most, probabilities, float(values[kept[-1]]))


def _hull(places: _Places, values: FloatArray, start: float) -> tuple[NDArray[np.int64], FloatArray]:
    """Corners of the lower convex hull of `start` at 0 and (e^x, values), but the first, and the masses there."""
    corners = np.empty(values.size, dtype=np.int64)
    kept = corners[: convex_corners(places.x, values, corners)]
    # the slope at a corner changes by q_j = p_j / u_j
    drops, gaps = -np.diff(values[kept]), np.diff(kept) * places.step
    with np.errstate(over="ignore"):  # gaps of 710 nats and more: nothing is left of such a term
        before, after = drops / -np.expm1(-gaps), np.append(drops / np.expm1(gaps), 0.0)
    first = int(np.argmax(start - values[kept] >= after))  # what comes before is above the line from the start
    kept = kept[first:]
    return kept, np.append(start - values[kept[0]], before[first:]) - after[first:]


@Kernel
def convex_corners(x: FloatArray, values: FloatArray, corners: NDArray[np.int64]) -> int:
    """Write the places of the corners of the lower convex hull of (e^x, values), x rising; returns how many."""
    count = 0
    for i in range(x.size):
        while count > 1:
            j, k = corners[count - 1], corners[count - 2]
            # slopes in units of e^-x at the middle one
            left = (values[j] - values[k]) / -math.expm1(x[k] - x[j])
            right = (values[i] - values[j]) / math.expm1(x[i] - x[j])
            if left < right:
                break
            count -= 1
        corners[count] = i
        count += 1
    return count


# --- bounds on the profile at many places -----------------------------------------------------------------


def _profile_bounds(
    run: Composition, direction: Direction, x: FloatArray, above: bool, tolerance: float
) -> tuple[FloatArray, FloatArray, float]:
    """Bounds on log H(e^x) at rising x, and the probability of an infinite loss at least."""
    try:
        side = TightRun(run, tolerance).trade_off(direction)
    except ProfileUnavailable:
        if not above:
            raise
        lower, upper = renyi_bounds(run)(x)
        sure = 0.0
    else:
        lower, upper = _bounds(side, x)
        sure = side.lost[0] if isinstance(side, SureTradeOff | OneSidedTradeOff) else 0.0
    upper = np.where(x * (1 - ULP) >= run._largest_loss(), -math.inf, upper)
    return np.minimum(lower, upper), upper, sure


def _bounds(side: TradeOff, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    if isinstance(side, SureTradeOff):
        return _with_lost(*_bounds(side.finite, x), side.lost)
    if isinstance(side, OneSidedTradeOff):  # H(u) = d + (1 - d) H'(u (1 - d')/(1 - d)), which falls
        most, least = (
            math.log1p(-other) - math.log1p(-lost) for lost, other in zip(side.lost[::-1], side.other, strict=True)
        )
        return _with_lost(_bounds(side.finite, x + most)[0], _bounds(side.finite, x + least)[1], side.lost)
    if isinstance(side, BetweenTradeOffs):
        return _bounds(side.below, x)[0], _bounds(side.above, x)[1]
    if isinstance(side, ProfileTradeOff):
        return side.log_bounds(x)
    if not isinstance(side, LossTradeOff):
        raise ProfileUnavailable(f"{type(side).__name__} has no profile that can be read at many places")
    with np.errstate(divide="ignore"):
        lower, upper = np.log(-np.expm1(np.minimum(x, 0.0))), np.zeros_like(x)
    for over, under in _tables(side):
        upper, lower = np.minimum(upper, _chords(over, x)), np.maximum(lower, _chords(under, x))
    return np.minimum(lower, upper), upper


def _with_lost(lower: FloatArray, upper: FloatArray, lost: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Logs of d + (1 - d) H' from bounds on d and on H'."""
    low, high = lost
    lower = np.logaddexp(math.log(low), math.log1p(-low) + lower) if low > 0 else lower
    upper = np.logaddexp(math.log(high), math.log1p(-high) + upper) if high > 0 else upper
    return lower - 1e-12, np.minimum(upper + 1e-12, 0.0)


def _tables(side: LossTradeOff) -> list[tuple[Table, Table]]:
    """Composed measures, one above and one below, each tilted for another delta."""
    found = []
    for delta in DELTAS:
        try:
            run = plan(side.entries, side.run, Question(delta, 0.0, side.tolerance), side.direction, HockeyStick())
            run.compose()
        except ToleranceUnreachable as error:
            problem = error
            continue
        found.append((Table(run.measures[0], 1, run.log_infinite), Table(run.measures[1], -1)))
    if not found:
        raise problem
    return found


def _chords(table: Table, x: FloatArray) -> FloatArray:
    """Logs of the straight lines, in e^x, between a table's corners; beyond them what falling values say."""
    after = np.clip(np.searchsorted(table.x, x), 1, table.x.size - 1)
    left, right = table.x[after - 1], table.x[after]
    with np.errstate(all="ignore"):
        share = np.clip(np.expm1(x - left) / np.expm1(right - left), 0.0, 1.0)
        logs = np.logaddexp(np.log1p(-share) + table.log_values[after - 1], np.log(share) + table.log_values[after])
    logs = np.where(np.isnan(logs), -math.inf, logs)
    before, beyond = (0.0, table.log_values[-1]) if table.sign > 0 else (table.log_values[0], -math.inf)
    logs = np.where(x < table.x[0], before, np.where(x > table.x[-1], beyond, logs))
    return np.asarray(np.minimum(logs + table.sign * 1e-14, 0.0))
