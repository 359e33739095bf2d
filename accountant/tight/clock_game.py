"""The game of a few reference families on a clock, of which a run of many kinds of screening takes a random time.

With references G_i that take t_i ticks each,

    O_0(u) = max(1 - u, 0),   O_j(u) = max over the references i with t_i <= j of (G_i O_{j - t_i})(u):

whoever has j ticks left spends them as he likes. The screenings of a run take T ticks, a sum of independent numbers,
and cost at most E[O_T] in any order (notebooks/mathematics.md, Many kinds of screening).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.clock_laws import ULP, Law, laws_of, least_chance
from accountant.tight.clock_references import Clock, Reference, cost_of, curve_of
from accountant.tight.cover_kernels import (
    EARLY,
    STEP_ROUNDING,
    Choices,
    Covers,
    IntArray,
    Lattice,
    make_covers,
    raise_window,
)
from accountant.tight.game_setup import PORTIONS, round_down
from accountant.tight.game_value import PlayedGame
from accountant.tight.kinds_above import close_window
from accountant.tight.pairs import INPUT_ERROR, Family, Pairs
from accountant.tight.screening_game import Tree, gather, make_lattice, never
from accountant.tight.stretches import choices_of

__all__ = [
    "ClockSetup",
    "Sized",
    "play_on_clock",
    "play_work",
    "reference_tree",
    "set_clock",
    "size_clock",
]

SHORTEST = 8
"""Steps of the longest reference that a block takes at least."""

BEGUN, MOVED, SEARCHED, ADDED = 8e6, 3.8, 27.0, 0.5
"""Operations (see `accountant.patience`) of a game, and, at each grid point in both directions, of a reference by
doubling of the number of its pairs, while all points are looked at by the root of that number, and of a block."""

OUTER = 9.0
"""Nats below delta, over all screenings, up to which windows reach: values beyond are those at the edge, and add less
than that share."""

BLOCK_LOSS = 1.3
"""Steps of the costliest reference that a block costs by itself, about."""

GRID_LOSS = 0.22
"""Share of the divergence that a grid adds, about, over the square of its step in deviations of a screening's loss: a
sixth by interpolation, if places are random, and some of what the search for the best pair gives away."""

SWAY = 0.5
"""By what share of it the order less 1 at which an adversary chooses differs from that of the price, about, times the
root of 2 log 1/delta: what it is where he stands moves as outcomes do."""

RATES = 10.0 ** np.linspace(-3.0, 1.5, 46)
"""Exponents, over the ticks of the longest reference, by which it is asked how many ticks screenings take at most."""

AROUND = np.array([-1.0, 1.0])
"""The sides of that order."""

ORDERS = 10.0 ** np.linspace(-3.0, 3.0, 121)
"""Orders, less 1, at which it is asked how far losses matter, times about the one at which the price is found."""


FEWER = 4
"""Of these, each so many are asked of every kind."""


def play_work(references: Sequence[Reference], blocks: int, points: float, early: float) -> float:
    """Operations of a game of so many grid points, and of those in its first steps, of so many different blocks."""
    pairs = np.array([each.pairs.up.size for each in references])
    moved, searched = MOVED * float(np.sum(np.log2(pairs + 2))), SEARCHED * float(np.sum(np.sqrt(pairs)))
    return BEGUN + (moved + ADDED * blocks) * points + searched * early


def usual_ticks(ticks: Sequence[int]) -> float:
    """Those of a step, by which it is asked how many steps are left."""
    return math.sqrt(min(ticks) * max(ticks))


class Block(NamedTuple):
    """So many equal blocks: the law of the ticks of one, and what is known beyond the grid, its Rényi bound at orders
    1 + b and its largest loss."""

    many: int
    law: Law
    b: FloatArray
    curve: FloatArray
    end: float

    def bound(self, step: float, upper: FloatArray) -> PlayedGame:
        """Its game, of which nothing is known from below."""
        return PlayedGame(step, upper, never(upper.shape), STEP_ROUNDING, self.b, self.curve, self.end)


class ClockSetup(NamedTuple):
    """All blocks of a clock, and the game that all of them are read off."""

    references: list[Reference]
    blocks: list[Block]
    step: float
    reach: IntArray
    ends: IntArray
    slack: float

    @property
    def last(self) -> int:
        return int(self.reach[-1])

    @property
    def work(self) -> float:
        """Operations of the game."""
        early = int(EARLY * usual_ticks([each.ticks for each in self.references]))
        points, first = float(np.sum(self.reach)), float(np.sum(self.reach[:early]))
        return play_work(self.references, len(self.blocks), points, first)


class Reaches(NamedTuple):
    """How far losses matter where ticks are left, at portions of them: only sizes windows, and arrays stay small."""

    end: float
    b: FloatArray
    curve: FloatArray
    floor: FloatArray

    def of(self, ticks: float) -> FloatArray:
        """At `PORTIONS` of so many ticks."""
        times = PORTIONS * ticks
        costs = np.min(np.multiply.outer(self.curve, times) - self.floor[:, None], axis=0)
        return np.asarray(np.minimum(costs, self.end * times))


class Sized(NamedTuple):
    """What is known of a clock's game before a law is made.

    The ticks of all screenings have that mean, and exponential means at `RATES`. The divergences are those of all
    screenings, of the costliest reference, and what it costs beside by mixtures and by trading kinds for others.
    """

    clock: Clock
    mean: float
    log_means: FloatArray
    reaches: Reaches
    deviation: float
    depth: float
    total: float
    costliest: float
    beside: float

    def last(self, blocks: int) -> int:
        """Ticks that one of so many blocks takes at most, about."""
        # Chernoff's bound
        far = float(np.min((self.depth + self.log_means / blocks) * self.clock.longest / RATES))
        return min(math.ceil(far) + (self.clock.longest if blocks > 1 else 0), self.clock.most)

    def cuts(self, blocks: int, tolerances: Sequence[float]) -> list[Cut]:
        """So many blocks, on grids that add those shares to the variance of every step."""
        last, found = self.last(blocks), list[Cut]()
        reach = self.reaches.of(last)
        different = min(blocks, len(self.clock.kinds) + 1)
        early = EARLY * usual_ticks([each.ticks for each in self.clock.references]) / (last + 1.0)
        for tolerance in tolerances:
            step = round_down(min(self.deviation * math.sqrt(4 * tolerance), float(reach[-1]) / 64))
            cells = np.minimum(reach / step + 2.0, np.ceil(self.reaches.end * PORTIONS * last / step))
            sums = np.concatenate([[0.0], np.cumsum(np.diff(PORTIONS) * (cells[1:] + cells[:-1]) / 2)])
            first, points = (last + 1.0) * np.interp([early, 1.0], PORTIONS, sums)
            work = play_work(self.clock.references, different, float(points), float(first))
            added = GRID_LOSS * (step / self.deviation) ** 2 * self.total
            lost = self.beside + added + BLOCK_LOSS * self.costliest * (blocks - 1)
            found.append(Cut(blocks, step, work, lost))
        return found

    def numbers(self) -> list[int]:
        """Of blocks, up to those of few steps."""
        shortest, found = max(int(self.mean / (SHORTEST * self.clock.longest)), 1), [1]
        while found[-1] < shortest:
            found.append(min(max(found[-1] + 1, int(1.25 * found[-1])), shortest))
        return found


class Cut(NamedTuple):
    """So many blocks, the step of the grid, operations, and the divergence that is lost, about."""

    blocks: int
    step: float
    work: float
    lost: float


def size_clock(clock: Clock, order: float, log_delta: float) -> Sized:
    count, b = sum(kind.times for kind in clock.kinds), ORDERS * (order - 1)
    curves = np.max([curve_of(each, b) / each.ticks for each in clock.references], axis=0)
    end = max(float(np.max(each.pairs)) / each.ticks for each in clock.references) * (1 + 4 * INPUT_ERROR)
    taking = [(kind.times, kind.above.deviation()) for kind in clock.kinds if kind.cost > 0.0]
    deviation = math.sqrt(sum(many * each**2 for many, each in taking) / sum(many for many, _ in taking))
    reaches = Reaches(end, b, curves, (log_delta - math.log(count) - OUTER) / b)
    tick = cost_of(clock.references[-1].pairs, order) / clock.references[-1].ticks
    total = sum(kind.times * kind.cost for kind in clock.kinds)
    depth = -math.log(least_chance(log_delta))
    sway, mean, means = SWAY / math.sqrt(max(-2 * log_delta, 2.0)), clock.mean(), clock.log_means(RATES / clock.longest)
    beside = _beside(clock, mean, (order - 1) * (1 + sway * AROUND))
    return Sized(clock, mean, means, reaches, deviation, depth, total, clock.longest * tick, beside)


def _beside(clock: Clock, ticks: float, b: FloatArray) -> float:
    """What so many ticks cost more than all screenings, at orders next to that of the price.

    There whoever trades kinds for others takes the best reference.
    """
    most = np.max([curve_of(each, b) / each.ticks for each in clock.references], axis=0)
    own = [kind.times * curve_of(Reference(1, kind.above), b) for kind in clock.kinds if kind.cost > 0.0]
    return max(float(np.mean(ticks * most - np.sum(own, axis=0))), 0.0)


def set_clock(sized: Sized, cut: Cut, order: float, log_delta: float) -> ClockSetup:
    """Blocks of the screenings of a clock, by the laws of their ticks."""
    clock, b = sized.clock, ORDERS[::FEWER] * (order - 1)
    curves = np.array([curve_of(Reference(1, kind.above), b) if kind.cost else 0.0 * b for kind in clock.kinds])
    largest = np.array([float(np.max(kind.above, initial=0.0)) for kind in clock.kinds])
    blocks = []
    for many, part, law in laws_of(clock, cut.blocks, log_delta):
        times = np.array(part, dtype=float)
        curve = (times @ curves) * (1 + 1e-9) + 1e-14 / b
        blocks.append(Block(many, law, b, curve, float(times @ largest) * (1 + 1e-9)))
    last = max(block.law.first + block.law.chances.size - 1 for block in blocks)
    reaches = sized.reaches.of(max(last, 1))
    times = np.arange(last + 1.0)
    reach = np.interp(times, PORTIONS * last, reaches)
    farthest = float(reach[-1]) / cut.step + 2.0
    ends = np.ceil(np.minimum(sized.reaches.end * times / cut.step, farthest)).astype(np.int64)
    cells = np.minimum(np.ceil(reach / cut.step).astype(np.int64) + 1, ends)
    slack = (cut.step / sized.deviation) ** 2 / 12
    return ClockSetup(clock.references, blocks, cut.step, cells, ends, slack)


@Kernel
def fill_clock(
    values: FloatArray,
    totals: FloatArray,
    chances: FloatArray,
    durations: IntArray,
    windows: IntArray,
    choices: Choices,
    covers: Covers,
    lattice: Lattice,
    usual: float,
    slack: float,
) -> None:
    """Play tick by tick, and add to `totals` the values of all ticks by their `chances`, one row for each of both.

    Axes of `values` are (tick, direction, grid point); ticks take turns. `windows` has the reach and the end of each
    tick; `usual` ticks are a step, about.
    """
    base, unplayed = lattice.base, np.zeros((2, 0), np.int64)
    for j in range(windows.shape[0]):
        new, known, end = values[j % values.shape[0]], windows[j, 0], windows[j, 1]
        new[:] = 0.0
        turn = j, j / usual, usual
        for k in range(durations.size):
            if durations[k] > j:
                continue
            old = values[(j - durations[k]) % values.shape[0]]
            raise_window(old, new, choices, k, covers, unplayed, lattice, known, turn, slack)
        close_window(new, lattice, known, end)
        for row in range(totals.shape[0]):
            if chances[row, j] > 0.0:
                for d in range(2):
                    for i in range(totals.shape[2]):
                        totals[row, d, i] += chances[row, j] * new[d, base + i]


def play_on_clock(setup: ClockSetup) -> list[tuple[PlayedGame, int]]:
    """Values from above of all blocks, and how many there are of each."""
    lines = [reference_tree(each, setup.slack).stretches for each in setup.references]
    limit = max(each.limit(setup.step, setup.last) for each in lines)
    lattice, choices = make_lattice(limit, setup.last, setup.step), choices_of(lines, setup.step, limit, setup.last)
    durations = np.array([each.ticks for each in setup.references])
    chances = np.zeros((len(setup.blocks), setup.reach.size))
    for row, block in zip(chances, setup.blocks, strict=True):
        row[block.law.first : block.law.first + block.law.chances.size] = block.law.chances
    totals = np.zeros((len(setup.blocks), 2, setup.last + 1))
    fill_clock(
        np.zeros((int(durations.max()) + 1, 2, lattice.size(setup.last))),
        totals,
        chances,
        durations,
        np.stack([setup.reach, setup.ends], axis=-1),
        choices,
        make_covers(choices, setup.last + 1),
        lattice,
        usual_ticks(durations.tolist()),
        setup.slack,
    )
    games = []
    for block, total in zip(setup.blocks, totals, strict=True):
        upper = (total + block.law.beyond) * (1 + (block.law.chances.size + 4) * ULP)
        games.append((block.bound(setup.step, upper), block.many))
    return games


def reference_tree(reference: Reference, slack: float) -> Tree:
    """The pairs of a reference, to be searched."""
    by_down = Pairs(reference.pairs.up[::-1], reference.pairs.down[::-1])
    return gather(Family(by_down, by_down), slack)
