"""What the game of votes that were cast is played with: neighbours that dominate all others, their weights on a grid.

Rounding goes up for upper bounds and down for tests: chances, losses and where these lie on the grid carry errors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.events.vote_pairs import Pairs
from accountant.events.votes_seen import SeenVotes, fill_largest_divergences
from accountant.numerics.kernel import FloatArray
from accountant.patience import remember, spend
from accountant.tight.cover_kernels import IntArray
from accountant.tight.vote_kernels import OUTCOME

__all__ = ["LEADERS", "SLACK", "Kind", "Table", "attack_of", "kind_of", "tabulate"]

LEADERS = 32
"""Neighbours by which windows are sized, those of the largest total variation."""

IDLE = 4
"""Neighbours in a row that dominate no other one, after which no further one is asked."""

SLACK = 1e-9
"""Share by which a neighbour that is left out may gain more than the one that stands for it."""

ATTACKS = 2.0, 8.0, 32.0
"""Orders of the divergences by which an attack chooses neighbours, P first and P last."""

ATTACK, CHOSEN = 30.0, 3e5
"""Operations of a term of such a divergence, and beside them."""

WHAT = "neighbours that others dominate"

SPARE = 1e-12
"""Above what logarithms' and exponentials' rounding does to what a vote gains by itself."""

ULP = 4e-16
"""Of a place."""


class Kind(NamedTuple):
    """Votes that were cast: pairs that together dominate those of all neighbours, and the largest losses."""

    pairs: Pairs
    deviation: float
    largest: FloatArray

    def added(self, step: float) -> float:
        """The variance that interpolation adds to a vote's losses, for the neighbour for which that is most."""
        with np.errstate(under="ignore", invalid="ignore"):
            part = np.mod(self.pairs.losses[0] / step, 1.0)
            found = np.sum(np.exp(self.pairs.log_masses[0]) * part * (1 - part), axis=1)
        return float(np.max(found)) * step**2

    def divergences(self, orders: FloatArray) -> FloatArray:
        """About the larger of both directions at each order."""
        both = np.empty((2, orders.size))
        for way in range(2):
            log_q, losses = self.pairs.log_masses[1 - way, :LEADERS], self.pairs.losses[way, :LEADERS]
            fill_largest_divergences(orders, log_q, losses, both[way])
        found: FloatArray = np.minimum(both.max(axis=0), self.largest.max())
        return found


@remember(WHAT, 256)
def kind_of(event: SeenVotes) -> Kind:
    """What does not depend on the grid."""
    pairs = event._pairs()
    return _kind(pairs, drop_dominated(pairs))


@remember(WHAT, 4096)
def attack_of(event: SeenVotes) -> Kind:
    """A few neighbours that cost much, for bounds from below: who chooses among them may choose among all."""
    pairs = event._pairs()
    spend(CHOSEN + ATTACK * 2 * len(ATTACKS) * pairs.losses[0].size, WHAT)
    rows = {pairs.costliest(order) for order in ATTACKS}
    mirrored = Pairs(*(part[::-1] for part in pairs))
    return _kind(pairs, sorted(rows | {mirrored.costliest(order) for order in ATTACKS}))


def _kind(pairs: Pairs, rows: list[int]) -> Kind:
    pairs = Pairs(*(part[:, rows] for part in pairs))
    with np.errstate(under="ignore"):
        square = float(np.max(np.sum(np.exp(pairs.log_masses[0]) * pairs.losses[0] ** 2, axis=1)))
    return Kind(pairs, math.sqrt(square), pairs.largest_losses())


def drop_dominated(pairs: Pairs) -> list[int]:
    """Neighbours that dominate all others, but for a share SLACK of gains; they are looked for as long as that pays.

    What a step gains is linear in the pair's own V. That of a pair is linear in u between its losses, and another's is
    convex on either side of u = 1: one is above another where it is above at its own losses and at 1.
    """
    at_one = pairs.log_heights(np.zeros(1), 1)[0, :, 0]
    left: list[int] = np.argsort(-at_one, kind="stable").tolist()
    kept: list[int] = []
    idle = 0
    while left and idle < IDLE:
        leader, *left = left
        kept.append(leader)
        spend(80.0 * (len(left) + 1) * pairs.losses.shape[2] ** 2, WHAT)
        own, others = (Pairs(*(part[:, rows] for part in pairs)) for rows in ([leader], left))
        below = np.ones(len(left), dtype=bool)
        for way in range(2 if left else 0):
            corners = own.losses[way, 0] - own.loss_errors[way, 0]
            corners = np.unique(np.append(corners[corners > 0.0], 0.0))
            least = own.log_heights(corners, -1)[way, 0] + math.log1p(SLACK) * (1 - 1e-6)
            below &= (others.log_heights(corners, 1)[way] <= least).all(axis=1)
        idle = 0 if below.any() else idle + 1
        left = [each for each, covered in zip(left, below.tolist(), strict=True) if not covered]
    return kept + left


class Table(NamedTuple):
    """One kind on a grid: for upper bounds weights and what each pair gains by itself; for tests its outcomes."""

    first: IntArray
    shifts: IntArray
    weights: FloatArray
    gains: FloatArray
    outcomes: NDArray[np.void]
    outcome_shifts: IntArray
    least_gains: FloatArray
    error: float


class Places(NamedTuple):
    """Where outcomes lead to from a grid point: the cell, how far into it, and how wrong that may be."""

    cells: FloatArray
    off: FloatArray
    errors: FloatArray
    some: NDArray[np.bool_]


def tabulate(kind: Kind, step: float, last: int) -> Table:
    """One kind on a grid of `last` cells to either side."""
    pairs, limit = kind.pairs, 2 * last + 3
    y, some = -pairs.losses[0], pairs.log_masses[0] > -math.inf
    errors = pairs.loss_errors[0] + ULP * np.abs(y)
    cells = np.clip(np.floor(y / step), -limit, limit)
    places = Places(cells, np.clip(y - cells * step, 0.0, step), errors, some)
    gains, least_gains = gains_alone(kind, step, last)
    error = float(np.max(pairs.mass_errors)) + float(np.max(errors)) + 1e-14
    weights = weights_above(pairs, places, step, limit)
    return Table(*weights, gains, outcomes_below(pairs, places, step), cells.astype(np.int64), least_gains, error)


def gains_alone(kind: Kind, step: float, last: int) -> tuple[FloatArray, FloatArray]:
    """V of each pair by itself on the grid around 1, from above and below."""
    points = np.arange(min(math.ceil(float(kind.largest.max()) / step) + 1.0, float(last)) + 1.0) * step
    sides = []
    for sign in (1, -1):
        heights = kind.pairs.log_heights(points, sign)
        heights[1] -= points  # V(u) = u V_reversed(1/u)
        with np.errstate(under="ignore"):
            sides.append(np.exp(np.concatenate([heights[1, :, :0:-1], heights[0]], axis=1)) * (1 + sign * SPARE))
    return sides[0], sides[1]


def weights_above(pairs: Pairs, places: Places, step: float, limit: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Weights of grid points in interpolation linear in u, merged by cell: where each pair's begin, cells, weights."""
    cells, off, errors, some = places
    unit = math.expm1(step)
    with np.errstate(under="ignore", over="ignore"):
        masses = np.exp(pairs.log_masses[0] + pairs.mass_errors[0]) * (1 + 1e-14)
        high = np.expm1(np.minimum(off + errors, step)) / unit
        low = (unit - np.expm1(np.maximum(off - errors, 0.0))) / unit
        beside = np.minimum(4 * np.expm1(errors) / unit, 1.0)  # if rounding put it on the wrong side of a grid point
    shares = {-1: np.where(off <= errors, beside, 0.0), 0: low, 1: high, 2: np.where(off + errors >= step, beside, 0.0)}
    first = [0]
    found: list[FloatArray] = []
    weights: list[NDArray[np.floating[Any]]] = []
    for v in range(len(cells)):
        at = np.concatenate([np.clip(cells[v] + k, -limit, limit) for k in shares])
        share = np.concatenate([np.where(some[v], masses[v] * each[v], 0.0) for each in shares.values()])
        where, group = np.unique(at[share > 0.0], return_inverse=True)
        found.append(where)
        weights.append(np.bincount(group, share[share > 0.0], where.size) * (1 + 1e-14))
        first.append(first[-1] + where.size)
    return np.array(first, dtype=np.int64), np.concatenate(found).astype(np.int64), np.concatenate(weights)


def outcomes_below(pairs: Pairs, places: Places, step: float) -> NDArray[np.void]:
    """Records OUTCOME of all pairs."""
    found = np.zeros(places.cells.shape, OUTCOME)
    with np.errstate(under="ignore"):
        p = np.exp(pairs.log_masses[0] - pairs.mass_errors[0]) * (1 - 1e-14)
        q = np.exp(pairs.log_masses[1])
    found["p"], found["q"] = np.where(places.some, p, 0.0), np.where(places.some, q, 0.0)
    found["error"] = 4 * places.errors
    for name, off in (("lower", places.off), ("upper", places.off - step)):
        found[f"bend_{name}"], found[f"rise_{name}"] = np.expm1(off), np.exp(off)
    return found
