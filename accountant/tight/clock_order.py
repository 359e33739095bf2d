"""Very many kinds of screening from below: in one order, each kind by its own pairs, next to those of its reference.

The search for the best pair is that of the reference (`accountant.tight.clock_references`); what is played is the pair
of the kind that is nearest to it in skew. Any choice is certified from below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.numerics.kernel import FloatArray
from accountant.patience import spend
from accountant.tight.clock_game import ORDERS, reference_tree
from accountant.tight.clock_references import Clock, Kind, Reference, curve_of
from accountant.tight.cover_kernels import STEP_ROUNDING, IntArray
from accountant.tight.game_kernels import extend_left, play_step
from accountant.tight.game_setup import PORTIONS, round_down
from accountant.tight.game_value import GameValue, PlayedGame
from accountant.tight.pairs import INPUT_ERROR, Pairs, play_tables
from accountant.tight.screening_game import Tree, make_lattice, never

__all__ = ["Ordered", "play_in_clock_order", "set_order"]

MOVE = 120.0
"""Operations (see `accountant.patience`) of a step at a grid point, in both directions, with its tests."""

KIND = 5e5
"""The same of a kind, beside its steps."""


SPARE = 1e-6
"""More than the tests of two neighbouring grid points differ in what matters for the choice of a grid."""


class Ordered(NamedTuple):
    """Kinds, the one that is played last first, with the tree of each one's reference.

    Windows are `reaches` where `places` of the steps are left, and on a line between them.
    """

    kinds: list[Kind]
    guides: list[Tree]
    step: float
    places: FloatArray
    reaches: FloatArray
    slack: float

    @property
    def steps(self) -> int:
        return int(self.places[-1])

    @property
    def work(self) -> float:
        """Operations that it takes, by arithmetic alone."""
        ends = self.reaches / self.step + 1.5
        cells = float(np.sum(np.diff(self.places) * (ends[1:] + ends[:-1]) / 2))
        return MOVE * (cells + 8.0 * (self.steps + 1)) + KIND * len(self.kinds)

    def windows(self) -> IntArray:
        """Of every step."""
        reach = np.interp(np.arange(self.steps + 1.0), self.places, self.reaches)
        return np.asarray(np.ceil(reach / self.step) + 1, dtype=np.int64)


def set_order(
    clocks: Sequence[Clock], alone: Sequence[Kind], order: float, log_delta: float, tolerance: float
) -> Ordered:
    """The costliest kind last; `tolerance` is the share that the grid takes, about."""
    found: list[tuple[Kind, Tree, FloatArray]] = []
    slack, b = tolerance / 3, ORDERS * (order - 1)
    for clock in clocks:
        trees = [reference_tree(each, slack) for each in clock.references]
        curves = [curve_of(each, b) for each in clock.references]
        for kind, (_, high) in zip(clock.kinds, clock.rungs, strict=True):
            if kind.cost > 0.0:
                found.append((kind, trees[high - 1], curves[high - 1]))
    for kind in (kind for kind in alone if kind.cost > 0.0):
        own = Reference(1, kind.above)
        found.append((kind, reference_tree(own, slack), curve_of(own, b)))
    found.sort(key=lambda each: each[0].cost, reverse=True)
    kinds, trees, curves = (list(each) for each in zip(*found, strict=True))
    ends = np.cumsum([0.0, *(kind.times for kind in kinds)])
    steps = ends[-1]
    square = sum(kind.times * kind.above.deviation() ** 2 for kind in kinds)
    # where the kind changes costs bend, and between there are few places: only windows are sized
    places = np.unique(np.concatenate([ends, PORTIONS * steps]))
    many = np.diff(ends)[:, None]
    total = np.cumsum(np.concatenate([np.zeros((1, b.size)), many * np.array(curves)]), axis=0)
    costs, floor = np.full(places.size, np.inf), (log_delta - math.log(steps) - 25.0) / b
    for i in range(b.size):
        np.minimum(costs, np.interp(places, ends, total[:, i]) - floor[i], out=costs)
    largest = np.cumsum([0.0, *(kind.times * float(np.max(kind.above)) for kind in kinds)])
    reaches = np.minimum(costs, np.interp(places, ends, largest))
    step = round_down(min(math.sqrt(4 * tolerance * square / steps), float(reaches[-1]) / 64))
    return Ordered(kinds, trees, step, places, reaches, slack)


def play_in_clock_order(asked: Ordered) -> dict[Direction, GameValue]:
    """What the adversary gets; only bounds from below are certified."""
    spend(asked.work, f"a game of {asked.steps} screenings in one order")
    reach, step = asked.windows(), asked.step
    last = int(reach[-1])
    limit = max(tree.stretches.limit(step, last) for tree in asked.guides)
    lattice = make_lattice(limit, last, step)
    players = {id(tree): tree.player(step, limit, last) for tree in asked.guides}
    slope_error = (reach.size + 1) * STEP_ROUNDING
    shape = 2, 2, lattice.size(last)
    upper, tests = np.zeros(shape), never(shape)
    now = done = 0
    for kind, tree in zip(asked.kinds, asked.guides, strict=True):
        player = players[id(tree)]._replace(played=play_tables(_own_pairs(kind, tree), step, limit))
        for _ in range(kind.times):
            known, wanted = int(reach[done]), int(reach[done + 1])
            for way in range(2):
                extend_left(upper[now], tests[now], lattice, known, wanted, way)
            done, after = done + 1, 1 - now
            old, new, turn = (upper[now], tests[now]), (upper[after], tests[after]), (done, float(done), 1.0)
            play_step(*old, *new, player, lattice, known, wanted, turn, slope_error, asked.slack)
            now = after
    inside = slice(lattice.base, lattice.base + last + 1)
    found = tests[now, :, inside].copy()
    # grids of what comes first are chosen by the tests' own values
    values = found["value"] * (1 + SPARE) + 1e-300
    game = PlayedGame(step, values, found, slope_error, np.ones(1), np.array([math.inf]), math.inf)
    return {direction: GameValue(game, game, way) for way, direction in enumerate(DIRECTIONS)}


def _own_pairs(kind: Kind, tree: Tree) -> Pairs:
    """For each pair of a reference one of the kind's own, of about that skew."""
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.log(tree.members.up) - np.log(tree.members.down)
        known = np.log(kind.played.up) - np.log(kind.played.down)
    wanted = np.nan_to_num(wanted)
    order = np.argsort(known)
    known = known[order]
    i = np.clip(np.searchsorted(known, wanted), 1, max(known.size - 1, 1))
    if known.size > 1:
        i -= wanted - known[i - 1] < known[i] - wanted
    else:
        i[:] = 0
    picked = order[i]
    return Pairs(kind.played.up[picked] * (1 - INPUT_ERROR), kind.played.down[picked] * (1 - INPUT_ERROR))
