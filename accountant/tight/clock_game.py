"""The game of a few reference families on a clock, of which a run of many kinds of screening takes a random time.

With references G_i that take t_i ticks each,

    O_0(u) = max(1 - u, 0),   O_j(u) = max over the references i with t_i <= j of (G_i O_{j - t_i})(u):

whoever has j ticks left spends them as he likes. The screenings of a run take T ticks, a sum of independent numbers,
and cost at most E[O_T] in any order (notebooks/mathematics.md, Many kinds of screening).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.clock_references import Clock, Reference, curve_of
from accountant.tight.game_kernels import IntArray, Lattice
from accountant.tight.game_setup import PORTIONS, round_down
from accountant.tight.game_value import PlayedGame
from accountant.tight.kinds_above import close_window, raise_window
from accountant.tight.screening_game import INPUT_ERROR, STEP_ROUNDING, Family, Pairs, Tree, gather, make_lattice, never

__all__ = ["ClockSetup", "Law", "law_of", "law_of_ticks", "law_work", "play_on_clock", "reference_tree", "set_clock"]

ULP = 2.0**-53

DEPTH = 40.0
"""Nats below delta down to which losses and ticks are told apart."""

SHORTEST = 8
"""Steps of the longest reference that a block takes at least."""

MOVE = 75.0
"""Operations (see `accountant.patience`) of a move at a grid point, in both directions."""

PRODUCT, CONVOLUTION = 0.6, 3e4
"""The same of a product of two chances, and of a convolution beside these."""

ORDERS = 10.0 ** np.linspace(-3.0, 3.0, 121)
"""Orders, less 1, at which it is asked how far losses matter, times about the one at which the price is found."""


class Law(NamedTuple):
    """Chances of `first`, `first` + 1, ... ticks, and of more than these; rounded up, and ticks never rounded down."""

    first: int
    chances: FloatArray
    beyond: float

    def plus(self, other: Law, lost: float) -> Law:
        """Of the sum of two independent numbers; what is less likely than `lost` at either end is not told apart."""
        sums = np.convolve(self.chances, other.chances)
        sums *= 1 + 2 * (min(self.chances.size, other.chances.size) + 2) * ULP
        below, above = np.cumsum(sums), np.cumsum(sums[::-1])[::-1]
        start = min(int(np.sum(below <= lost)), sums.size - 1)
        stop = max(int(np.sum(above > lost)), start + 1)
        kept = sums[start:stop].copy()
        kept[0] += float(np.sum(sums[:start])) * (1 + sums.size * ULP)
        beyond = (self.beyond + other.beyond + float(np.sum(sums[stop:]))) * (1 + sums.size * ULP + 8 * ULP)
        return Law(self.first + other.first + start, kept, beyond)

    def times(self, count: int, lost: float) -> Law:
        """Of the sum of so many."""
        found, power = None, self
        while True:
            if count & 1:
                found = power if found is None else found.plus(power, lost)
            count >>= 1
            if count == 0:
                assert found is not None
                return found
            power = power.plus(power, lost)

    def less(self, ticks: int) -> Law:
        """Of so many ticks less, but never of less than none."""
        first = self.first - ticks
        if first >= 0:
            return self._replace(first=first)
        chances = self.chances[min(-first, self.chances.size - 1) :].copy()
        chances[0] = float(np.sum(self.chances[: self.chances.size - chances.size + 1])) * (1 + self.chances.size * ULP)
        return Law(0, chances, self.beyond)


def law_of(clock: Clock, lost: float) -> Law:
    """Of the ticks that all screenings take."""
    ticks = [0, *(each.ticks for each in clock.references)]
    found = Law(0, np.ones(1), 0.0)
    for rung in sorted(set(clock.rungs)):
        # how many of a rung take the larger reference: the law is `apart` times as wide as that of their number
        larger, smaller, apart = Law(0, np.ones(1), 0.0), 0, ticks[rung + 1] - ticks[rung]
        for kind, at, share in zip(clock.kinds, clock.rungs, clock.shares, strict=True):
            if at == rung:
                larger = larger.plus(Law(0, np.array([1 - share, share]), 0.0).times(kind.times, lost), lost)
                smaller += kind.times * ticks[rung]
        chances = np.zeros((larger.chances.size - 1) * apart + 1)
        chances[::apart] = larger.chances
        found = found.plus(Law(smaller + larger.first * apart, chances, larger.beyond), lost)
    return found


def law_of_ticks(clock: Clock, log_delta: float) -> Law:
    """The same, as near as that delta needs it."""
    return law_of(clock, _least_chance(log_delta))


def law_work(clock: Clock, log_delta: float) -> float:
    """Operations of that law, by arithmetic alone: products of all pairs of chances that are told apart."""
    ticks, found, whole, depth = (
        [0, *(each.ticks for each in clock.references)],
        0.0,
        0.0,
        -math.log(_least_chance(log_delta)),
    )
    for rung in sorted(set(clock.rungs)):
        apart, number, variance, width = ticks[rung + 1] - ticks[rung], 0, 0.0, 1.0
        for kind, at, share in zip(clock.kinds, clock.rungs, clock.shares, strict=True):
            if at == rung:
                own = _width(kind.times, kind.times * share * (1 - share), depth)
                # squares of widths that double with the number, and products of these
                found += CONVOLUTION * 2 * math.log2(2 * kind.times) + PRODUCT * own * (4 * own + width)
                number, variance = number + kind.times, variance + kind.times * share * (1 - share)
                width = _width(number, variance, depth)
        found += CONVOLUTION + PRODUCT * whole * width * apart
        whole += width * apart
    return found


def _least_chance(log_delta: float) -> float:
    """Chances that are not told apart."""
    return math.exp(max(log_delta - DEPTH, -700.0))


def _width(number: float, variance: float, depth: float) -> float:
    """Places where a sum of so many indicators is that likely."""
    # Bernstein's inequality
    return min(number, 2 * (depth / 3 + math.sqrt(depth**2 / 9 + 2 * depth * variance))) + 1.0


class Beyond(NamedTuple):
    """What is known beyond the grid: ticks of either block at most, the largest loss and the Rényi curve of a tick."""

    fixed: float
    rest: float
    end: float
    b: FloatArray
    curve: FloatArray

    def bound(self, step: float, upper: FloatArray, ticks: float) -> PlayedGame:
        """A game of which nothing is known from below."""
        return PlayedGame(step, upper, never(upper.shape), STEP_ROUNDING, self.b, self.curve * ticks, self.end * ticks)


class ClockSetup(NamedTuple):
    """Blocks of a clock's game and its grid: `many` fixed blocks of `ticks` each, and one of a random time `law`."""

    references: list[Reference]
    ticks: int
    many: int
    law: Law
    step: float
    reach: IntArray
    ends: IntArray
    beyond: Beyond
    slack: float
    work: float

    @property
    def last(self) -> int:
        return int(self.reach[-1])


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


class Cut(NamedTuple):
    """So many blocks, all but the last of `ticks` each."""

    blocks: int
    ticks: int
    rest: Law
    last: int
    reaches: FloatArray
    step: float
    work: float


def _cut(reaches: Reaches, law: Law, mean: float, longest: int, asked: tuple[int, float, int]) -> Cut:
    """So many blocks, with a step of about that size, for so many references."""
    blocks, step, many = asked
    # a cut may take the time of the longest reference less one tick
    ticks = math.ceil((mean + (blocks - 1) * (longest - 1)) / blocks)
    rest = law if blocks == 1 else law.less((blocks - 1) * (ticks - longest + 1))
    last = max(ticks, rest.first + rest.chances.size - 1)
    found = reaches.of(last)
    step = round_down(min(step, float(found[-1]) / 64))
    cells = np.minimum(found / step + 2.0, np.ceil(reaches.end * PORTIONS * last / step))
    middle = float(np.sum(np.diff(PORTIONS) * (cells[1:] + cells[:-1]) / 2))
    return Cut(blocks, ticks, rest, last, found, step, MOVE * many * (last + 1.0) * (middle + 8.0))


def set_clock(
    clock: Clock, order: float, log_delta: float, tolerance: float, most_work: float, law: Law | None = None
) -> ClockSetup:
    """Few blocks, of which the game takes no more than that work; `tolerance` is the share that the grid may add."""
    longest, law = clock.references[-1].ticks, law or law_of_ticks(clock, log_delta)
    count = sum(kind.times for kind in clock.kinds)
    mean, b = max(clock.moments()[0], 1.0), ORDERS * (order - 1)
    curves = np.max([curve_of(each, b) / each.ticks for each in clock.references], axis=0)
    end = max(float(np.max(each.pairs)) / each.ticks for each in clock.references) * (1 + 4 * INPUT_ERROR)
    deviations = [(kind.times, kind.above.deviation()) for kind in clock.kinds]
    deviation = math.sqrt(sum(many * each**2 for many, each in deviations) / count)
    reaches = Reaches(end, b, curves, (log_delta - math.log(count) - DEPTH) / b)
    fine = deviation * math.sqrt(4 * tolerance)

    def cut(blocks: int) -> Cut:
        return _cut(reaches, law, mean, longest, (blocks, fine, len(clock.references)))

    def enough(found: Cut) -> bool:
        return found.work <= most_work or found.ticks <= SHORTEST * longest

    found, few = cut(1), 0
    while not enough(found):
        few, found = found.blocks, cut(2 * found.blocks)
    while found.blocks - few > 1:
        middle = cut((found.blocks + few) // 2)
        few, found = (few, middle) if enough(middle) else (middle.blocks, found)
    # with certainty no more: of what is beyond the grid no more is known
    whole = sum(k.times * clock.references[i].ticks for k, i in zip(clock.kinds, clock.rungs, strict=True))
    known = Beyond(float(found.ticks), float(whole), end, b, curves * (1 + 1e-9) + 1e-14 / b)
    return _setup_of(clock, found, known, tolerance / 3)


def _setup_of(clock: Clock, cut: Cut, beyond: Beyond, slack: float) -> ClockSetup:
    """With the window of every tick."""
    times = np.arange(cut.last + 1.0)
    reach = np.interp(times, PORTIONS * cut.last, cut.reaches)
    farthest = float(reach[-1]) / cut.step + 2.0
    ends = np.ceil(np.minimum(beyond.end * times / cut.step, farthest)).astype(np.int64)
    cells = np.minimum(np.ceil(reach / cut.step).astype(np.int64) + 1, ends)
    return ClockSetup(
        clock.references, cut.ticks, cut.blocks - 1, cut.rest, cut.step, cells, ends, beyond, slack, cut.work
    )


@Kernel
def fill_clock(
    values: FloatArray,
    totals: FloatArray,
    chances: FloatArray,
    durations: IntArray,
    windows: IntArray,
    starts: IntArray,
    chords: NDArray[np.void],
    shifts: IntArray,
    policies: IntArray,
    lattice: Lattice,
    slack: float,
) -> None:
    """Play tick by tick, and add to `totals` the values of all ticks by their `chances`, one row for each of both.

    Axes of `values` are (tick, direction, grid point); ticks take turns. `windows` has the reach and the end of each
    tick. Nodes `starts[k]` up to `starts[k + 1]` of `chords` and `shifts` are the tree of reference k.
    """
    base = lattice.base
    for j in range(windows.shape[0]):
        new, known, end = values[j % values.shape[0]], windows[j, 0], windows[j, 1]
        new[:] = 0.0
        for k in range(durations.size):
            if durations[k] > j:
                continue
            old = values[(j - durations[k]) % values.shape[0]]
            first, beyond = starts[k], starts[k + 1]
            raise_window(old, new, chords[:, first:beyond], shifts[:, first:beyond], policies[k], lattice, known, slack)
        close_window(new, lattice, known, end)
        for row in range(totals.shape[0]):
            if chances[row, j] > 0.0:
                for d in range(2):
                    for i in range(totals.shape[2]):
                        totals[row, d, i] += chances[row, j] * new[d, base + i]


def play_on_clock(setup: ClockSetup) -> tuple[PlayedGame, PlayedGame]:
    """Values from above: of a block of fixed time, and of the one of a random time."""
    trees = [reference_tree(each, setup.slack) for each in setup.references]
    limit = max(tree.limit(setup.step, setup.last) for tree in trees)
    lattice = make_lattice(limit, setup.last, setup.step)
    tables = [tree.tabulate(setup.step, limit, setup.last) for tree in trees]
    policies = np.empty((len(tables), 2, setup.last + 1), np.int64)
    policies[:] = np.array([table.outcomes.shape[1] for table in tables])[:, None, None]
    durations, law = np.array([each.ticks for each in setup.references]), setup.law
    chances = np.zeros((2, setup.reach.size))
    chances[0, setup.ticks] = 1.0
    chances[1, law.first : law.first + law.chances.size] = law.chances
    totals = np.zeros((2, 2, setup.last + 1))
    fill_clock(
        np.zeros((int(durations[-1]) + 1, 2, lattice.size(setup.last))),
        totals,
        chances,
        durations,
        np.stack([setup.reach, setup.ends], axis=-1),
        np.cumsum([0, *(table.shifts.shape[1] for table in tables)]),
        np.concatenate([table.chords for table in tables], axis=1),
        np.concatenate([table.shifts for table in tables], axis=1),
        policies,
        lattice,
        setup.slack,
    )
    totals[1] = (totals[1] + law.beyond) * (1 + (law.chances.size + 4) * ULP)
    known = setup.beyond
    return known.bound(setup.step, totals[0], known.fixed), known.bound(setup.step, totals[1], known.rest)


def reference_tree(reference: Reference, slack: float) -> Tree:
    """The pairs of a reference, to be searched."""
    by_down = Pairs(reference.pairs.up[::-1], reference.pairs.down[::-1])
    return gather(Family(by_down, by_down), slack)
