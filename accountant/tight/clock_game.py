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
from accountant.tight.clock_laws import ULP, Law, law_of, least_chance
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
from accountant.tight.hulls import lower_to_hull
from accountant.tight.kinds_above import close_window
from accountant.tight.pairs import INPUT_ERROR, Family, Pairs
from accountant.tight.screening_game import Tree, gather, make_lattice, never
from accountant.tight.stretches import choices_of
from accountant.tight.strides import Stride, cut_off, find_stride, stride_work

__all__ = [
    "ClockSetup",
    "Sized",
    "play_on_clock",
    "play_work",
    "reference_tree",
    "set_clock",
    "size_clock",
]

LEFT, LONG = (8, 16, 32, 64, 128), (0.5, 1.0, 2.0, 4.0)
"""Steps of the longest reference that are left after strides at least, and strides over these."""

SPARE_DEVIATIONS = 2.0
"""Standard deviations of all ticks that are left in the mean beside these."""

UNSEEN = 9.0
"""Nats below delta of what all strides may add to it."""

BEGUN, MOVED, SEARCHED, ADDED = 8e6, 3.8, 27.0, 0.5
"""Operations (see `accountant.patience`) of a game, and, at each grid point in both directions, of a reference by
doubling of the number of its pairs, while all points are looked at by the root of that number, and of all ticks."""

COMPOSED_PAIR = 9e7
"""The same of composing a pair with others, about."""

MOST_CELLS = 1e8
"""Grid points that no game has patience for: where losses are far larger than their deviation, no grid is finer."""

OUTER = 9.0
"""Nats below delta, over all screenings, up to which windows reach: values beyond are those at the edge, and add less
than that share."""

STRIDE_LOSS = 0.15
"""Steps of the costliest reference that a stride costs by itself, about, over the log of one more than its ticks over
those that are left."""

GRID_LOSS = 0.22
"""Share of the divergence that a grid adds, about, over the square of its step in deviations of a screening's loss: a
sixth by interpolation, if places are random, and some of what the search for the best pair gives away. References are
fitted to the grid (`accountant.tight.clock_grids`), so that it adds that much in any order."""

TRADING, STRIDING = 1.4, 1.3
"""How many times what is foreseen trading kinds and strides were found to lose."""

SWAY = 0.5
"""By what share of it the order less 1 at which an adversary chooses differs from that of the price, about, times the
root of 2 log 1/delta: what it is where he stands moves as outcomes do."""

RATES = 10.0 ** np.linspace(-3.0, 1.5, 46)
"""Exponents, over the ticks of the longest reference, by which it is asked how many ticks screenings take at most."""

AROUND = np.array([-1.0, 1.0])
"""The sides of that order."""

ORDERS = 10.0 ** np.linspace(-3.0, 3.0, 121)
"""Orders, less 1, at which it is asked how far losses matter, times about the one at which the price is found."""


SOME = PORTIONS[::8]
"""Portions of all ticks at which it is asked how far losses matter where a game is only sized."""

FEWER = 4
"""Of these, each so many are asked of every kind."""


def play_work(references: Sequence[Reference], points: FloatArray, early: FloatArray) -> FloatArray:
    """Operations of a game of so many grid points, and of those in its first steps."""
    pairs = np.array([each.pairs.up.size for each in references])
    moved, searched = MOVED * float(np.sum(np.log2(pairs + 2))), SEARCHED * float(np.sum(np.sqrt(pairs)))
    return np.asarray(BEGUN + (moved + ADDED) * points + searched * early)


def usual_ticks(ticks: Sequence[int]) -> float:
    """Those of a step, by which it is asked how many steps are left."""
    return math.sqrt(min(ticks) * max(ticks))


class ClockSetup(NamedTuple):
    """The game of a clock, and what is read off it.

    What is left after all strides, if there are any, takes ticks of that `law`. Without strides a Rényi bound at orders
    1 + b and the largest loss are known of what is beyond the grid.
    """

    references: list[Reference]
    law: Law
    stride: Stride | None
    b: FloatArray
    curve: FloatArray
    end: float
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
        points, first = (np.asarray(float(np.sum(each))) for each in (self.reach, self.reach[:early]))
        found = float(play_work(self.references, points, first))
        if self.stride is not None:
            found += float(stride_work(self.stride.longest, np.asarray(float(self.last))))
        return found

    def bound(self, upper: FloatArray) -> PlayedGame:
        """A game of which nothing is known from below."""
        return PlayedGame(self.step, upper, never(upper.shape), STEP_ROUNDING, self.b, self.curve, self.end)


class Reaches(NamedTuple):
    """How far losses matter where ticks are left, at portions of them: only sizes windows, and arrays stay small."""

    end: float
    b: FloatArray
    curve: FloatArray
    floor: FloatArray

    def of(self, ticks: float, portions: FloatArray = PORTIONS) -> FloatArray:
        """At portions of so many ticks."""
        times = portions * ticks
        costs = np.min(np.multiply.outer(self.curve, times) - self.floor[:, None], axis=0)
        return np.asarray(np.minimum(costs, self.end * times))


class Sized(NamedTuple):
    """What is known of a clock's game before a law is made.

    The ticks of all screenings have that mean and standard deviation, and are `last` at most, about. The divergences
    are those of all screenings, of the costliest reference, and what it costs beside by mixtures and by trading kinds
    for others.
    """

    clock: Clock
    b: float
    log_delta: float
    mean: float
    spread: float
    last: int
    reaches: Reaches
    deviation: float
    total: float
    costliest: float
    beside: float

    def strides(self) -> list[Stride | None]:
        """Those of several lengths, after which several numbers of ticks are left; and none."""
        longest, found = self.clock.longest, list[Stride | None]([None])
        added = math.exp(max(self.log_delta - UNSEEN, -690.0))
        for steps in LEFT:
            least = steps * longest
            taken = self.mean - least - SPARE_DEVIATIONS * self.spread
            for long in LONG:
                if taken >= long * least:
                    many = math.ceil(taken / (long * least))
                    found.append(Stride(many, int(taken / many), least, longest, added / many, self.b))
        return found

    def cuts(self, stride: Stride | None, tolerances: Sequence[float]) -> list[Cut]:
        """Games of such strides, on grids that add those shares to the variance of every step."""
        last, strode = self.last, 0.0
        if stride is not None:
            last = max(last - stride.many * stride.ticks, stride.last)
            strode = STRIDE_LOSS * self.costliest * stride.many * math.log1p(stride.ticks / stride.least)
        reach = self.reaches.of(last, SOME)
        finest = [min(self.deviation * math.sqrt(4 * each), float(reach[-1]) / 64) for each in tolerances]
        steps = np.array([round_down(max(each, float(reach[-1]) / MOST_CELLS)) for each in finest])[:, None]
        cells = np.minimum(reach / steps + 2.0, np.ceil(self.reaches.end * SOME * last / steps) + 1)
        between = np.diff(SOME) * (cells[:, 1:] + cells[:, :-1]) / 2
        early = EARLY * usual_ticks([each.ticks for each in self.clock.references]) / (last + 1.0)
        # of the first portions as much as is below that
        some = np.clip((early - SOME[:-1]) / np.diff(SOME), 0.0, 1.0)
        work = play_work(self.clock.references, (last + 1.0) * np.sum(between, axis=1), (last + 1.0) * between @ some)
        if stride is not None:
            work += stride_work(stride.longest, cells[:, -1])
        added = GRID_LOSS * (steps[:, 0] / self.deviation) ** 2 * self.total
        lost, likely = self.beside + strode + added, TRADING * self.beside + STRIDING * strode + added
        each = zip(steps[:, 0].tolist(), work.tolist(), lost.tolist(), likely.tolist(), strict=True)
        return [Cut(stride, *of_one) for of_one in each]


class Cut(NamedTuple):
    """The strides, the step of the grid, operations, and the divergence that is lost, about; `likely` is rather more.

    Beside those of the game, which is `played`, the `work` is that of composing its pairs with others.
    """

    stride: Stride | None
    step: float
    played: float
    lost: float
    likely: float = 0.0

    @property
    def work(self) -> float:
        return self.played + COMPOSED_PAIR * (1 if self.stride is None else 2)


def size_clock(clock: Clock, order: float, log_delta: float) -> Sized:
    count, b = sum(kind.times for kind in clock.kinds), ORDERS * (order - 1)
    curves = np.max([curve_of(each, b) / each.ticks for each in clock.references], axis=0)
    end = max(float(np.max(each.pairs)) / each.ticks for each in clock.references) * (1 + 4 * INPUT_ERROR)
    taking = [(kind.times, kind.above.deviation()) for kind in clock.kinds if kind.cost > 0.0]
    deviation = math.sqrt(sum(many * each**2 for many, each in taking) / sum(many for many, _ in taking))
    reaches = Reaches(end, b, curves, (log_delta - math.log(count) - OUTER) / b)
    tick = cost_of(clock.references[-1].pairs, order) / clock.references[-1].ticks
    total = sum(kind.times * kind.cost for kind in clock.kinds)
    sway, mean = SWAY / math.sqrt(max(-2 * log_delta, 2.0)), clock.mean()
    beside = _beside(clock, mean, (order - 1) * (1 + sway * AROUND))
    # Chernoff's bound
    far = (clock.log_means(RATES / clock.longest) - math.log(least_chance(log_delta))) * clock.longest / RATES
    last, costliest = min(math.ceil(float(np.min(far))), clock.most), clock.longest * tick
    return Sized(clock, order - 1, log_delta, mean, clock.spread(), last, reaches, deviation, total, costliest, beside)


def _beside(clock: Clock, ticks: float, b: FloatArray) -> float:
    """What so many ticks cost more than all screenings, at orders next to that of the price.

    There whoever trades kinds for others takes the best reference.
    """
    most = np.max([curve_of(each, b) / each.ticks for each in clock.references], axis=0)
    own = [kind.times * curve_of(Reference(1, kind.above), b) for kind in clock.kinds if kind.cost > 0.0]
    return max(float(np.mean(ticks * most - np.sum(own, axis=0))), 0.0)


def set_clock(sized: Sized, cut: Cut) -> ClockSetup:
    """The game of all screenings of a clock, by the law of their ticks."""
    clock, stride, law = sized.clock, cut.stride, law_of(sized.clock, least_chance(sized.log_delta))
    if stride is None:
        b = ORDERS[::FEWER] * sized.b
        times = np.array([kind.times for kind in clock.kinds], dtype=float)
        curves = np.array([curve_of(Reference(1, kind.above), b) if kind.cost else 0.0 * b for kind in clock.kinds])
        largest = np.array([float(np.max(kind.above, initial=0.0)) for kind in clock.kinds])
        curve, end = (times @ curves) * (1 + 1e-9) + 1e-14 / b, float(times @ largest) * (1 + 1e-9)
        last = law.first + law.chances.size - 1
    else:
        law = law.less(stride.many * stride.ticks, stride.least)
        last = max(law.first + law.chances.size - 1, stride.last)
        b, curve, end = np.ones(1), np.full(1, math.inf), 0.0
    reaches = sized.reaches.of(max(last, 1))
    times = np.arange(last + 1.0)
    reach = np.interp(times, PORTIONS * last, reaches)
    farthest = float(reach[-1]) / cut.step + 2.0
    ends = np.ceil(np.minimum(sized.reaches.end * times / cut.step, farthest)).astype(np.int64)
    if stride is not None:  # games that follow from values that end at a grid point end up to a step later
        ends[stride.least + stride.longest :] += 1
    cells = np.minimum(np.ceil(reach / cut.step).astype(np.int64) + 1, ends)
    if stride is not None:
        end = cut.step * (int(cells[-1]) + 1.0)
    slack = (cut.step / sized.deviation) ** 2 / 12
    return ClockSetup(clock.references, law, stride, b, curve, end, cut.step, cells, ends, slack)


@Kernel
def fill_clock(
    values: FloatArray,
    total: FloatArray,
    chances: FloatArray,
    kept: FloatArray,
    rows: IntArray,
    durations: IntArray,
    windows: IntArray,
    choices: Choices,
    covers: Covers,
    lattice: Lattice,
    usual: float,
    slack: float,
) -> None:
    """Play tick by tick, add to `total` the values of all ticks by their `chances`, and keep some by their `rows`.

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
        # a total variation distance is the same in both directions
        new[0, base] = new[1, base] = min(new[0, base], new[1, base])
        close_window(new, lattice, known, end)
        if chances[j] > 0.0:
            for d in range(2):
                for i in range(total.shape[1]):
                    total[d, i] += chances[j] * new[d, base + i]
        if rows[j] >= 0:
            for d in range(2):
                for i in range(total.shape[1]):
                    kept[rows[j], d, i] = new[d, base + i]


def play_on_clock(setup: ClockSetup) -> tuple[list[tuple[PlayedGame, int]], float]:
    """Values from above of strides and of what is left after them, how many there are of each, and what is lost.

    That is what may be added to delta beside them.
    """
    lines = [reference_tree(each, setup.slack).stretches for each in setup.references]
    limit = max(each.limit(setup.step, setup.last) for each in lines)
    lattice, choices = make_lattice(limit, setup.last, setup.step), choices_of(lines, setup.step, limit, setup.last)
    durations, law, stride = np.array([each.ticks for each in setup.references]), setup.law, setup.stride
    chances, rows, points = np.zeros(setup.reach.size), np.full(setup.reach.size, -1), setup.last + 1
    chances[law.first : law.first + law.chances.size] = law.chances
    wanted = [] if stride is None else sorted(set(stride.kept))
    rows[wanted] = np.arange(len(wanted))
    total, kept = np.zeros((2, points)), np.zeros((len(wanted), 2, points))
    fill_clock(
        np.zeros((int(durations.max()) + 1, 2, lattice.size(setup.last))),
        total,
        chances,
        kept,
        rows,
        durations,
        np.stack([setup.reach, setup.ends], axis=-1),
        choices,
        make_covers(choices, points),
        lattice,
        usual_ticks(durations.tolist()),
        setup.slack,
    )
    left = lower_to_hull((total + law.beyond) * (1 + (law.chances.size + 4) * ULP), setup.step)
    if stride is None:
        return [(setup.bound(left), 1)], 0.0
    left, edge = cut_off(left)
    each, added = find_stride(stride, dict(zip(wanted, kept, strict=True)), setup.step)
    return [(setup.bound(each), stride.many), (setup.bound(left), 1)], (edge + stride.many * added) * (1 + 4 * ULP)


def reference_tree(reference: Reference, slack: float) -> Tree:
    """The pairs of a reference, to be searched."""
    by_down = Pairs(reference.pairs.up[::-1], reference.pairs.down[::-1])
    return gather(Family(by_down, by_down), slack)
