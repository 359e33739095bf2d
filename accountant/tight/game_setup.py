"""What a game of screenings is made of, however fine its grid: pairs, counts, windows, and how much work it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.errors import ParameterError, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.tight.cover_kernels import EARLY, IntArray, memory_of_covers
from accountant.tight.game_kernels import TEST
from accountant.tight.kinds_above import values_kept
from accountant.tight.mixed_game import moves_of, states_kept
from accountant.tight.pairs import INPUT_ERROR, Family, Pairs, longest_shift
from accountant.tight.screening_game import EDGE, Windows, gather

__all__ = ["Asked", "Setup", "drop_dominated", "family_of", "round_down", "set_up", "work_of"]

PORTIONS = np.linspace(0.0, 1.0, 513) ** 2
"""Portions of the steps at which it is asked how far losses matter."""

FEW_PAIRS = 4096
"""Pairs of a family that are taken as they are."""

BEGUN, EACH_PAIR, MOVE, EARLY_MOVE = 1.5e6, 230.0, 130.0, 50.0
"""Operations (see `accountant.patience`) of the game of one kind, of each of its pairs, and at a grid point: of a step,
and beside of each of the first steps, by the root of the number of pairs that are told apart."""

MOST_APART = 4000
"""These, at most, about."""


class Costs(NamedTuple):
    """Operations of a game of several kinds: for each kind, and at each step beside its grid points, for each pair of
    a kind and at a grid point for the root of their number; `cell`: to extend a state's value, at each of its cells.

    What is left of few screenings is best played by another pair at nearly every point: all of them are looked at.
    """

    kind: float
    step: float
    pair: float
    many: float
    point: float
    root: float
    cell: float

    def of(self, kinds: int, pairs: float, steps: float, window: float) -> tuple[float, float]:
        """Of all kinds, and of one step."""
        search = self.pair * pairs / (1 + steps / self.many)
        early = min(0.3 + 2 * (EARLY / steps) ** kinds, 1.0)
        return self.kind * kinds, self.step + search + window * (self.point + self.root * early * math.sqrt(pairs))


COSTS = Costs(kind=1e6, step=2.5e4, pair=340.0, many=28.0, point=130.0, root=26.0, cell=20.0)
"""Measured."""

COSTS_ABOVE = Costs(kind=1e6, step=300.0, pair=330.0, many=39.0, point=10.0, root=26.0, cell=5.0)
"""The same where there are no tests."""


class Asked(NamedTuple):
    """A game. `order`: kinds come one after the other, the costliest at that Rényi order last; else as one likes.

    `tests`: whether bounds from below are wanted as well. Beyond `cap` nats nothing is told apart.
    """

    run: Composition
    delta: float
    order: float | None = None
    tests: bool = True
    cap: float = math.inf


class Setup(NamedTuple):
    """What does not depend on the grid: pairs and counts of each kind, and a Rényi bound at orders 1 + b.

    `curves` and `ends` are of one screening of each kind, `floor` the log of a delta that is negligible; beyond `end`
    is nothing.
    """

    families: tuple[Family, ...]
    counts: tuple[int, ...]
    deviation: float
    b: FloatArray
    renyi: FloatArray
    curves: FloatArray
    ends: FloatArray
    floor: float
    end: float
    order: float | None
    tests: bool
    cap: float

    @property
    def steps(self) -> int:
        return sum(self.counts)

    @property
    def moves(self) -> float:
        """Steps at a grid point that the game takes."""
        return moves_of(self.counts) if self.order is None else float(self.steps)

    @property
    def states(self) -> float:
        """States whose values are held at once."""
        return states_kept(self.counts) if self.order is None else 2.0

    @property
    def reach_of_all(self) -> float:
        """The x beyond which delta is negligible."""
        return float(self.reaches(np.ones(1))[0])

    @property
    def values(self) -> float:
        """Values that are in memory at once, with what is made of them."""
        return values_kept(self.counts) if self.above else self.states + 1.0

    @property
    def above(self) -> bool:
        """Whether it is played for upper bounds alone; one kind, and kinds in an order, have tests all the same."""
        return not self.tests and self.order is None and len(self.counts) > 1

    def cells(self, step: float) -> float:
        """Grid points that a value has in each direction, with those beyond its window that shifts reach."""
        last = min(self.reach_of_all / step + 2.0, 1e15)
        return last + 1 + 2 * (longest_shift(float(self.ends.max()), step, int(last)) + EDGE)

    def memory(self, step: float) -> float:
        """Bytes that the game takes on a grid: of values, and of pairs that are played in the window of each kind."""
        cells = self.cells(step)
        kinds, pairs = len(self.counts), max(family.above.up.size for family in self.families)
        covers = memory_of_covers(kinds, cells, pairs) if self.above else kinds * memory_of_covers(1, cells, pairs)
        return cells * (2 * self.values * (8 if self.above else 8 + TEST.itemsize) + 16 * (kinds + 1)) + covers

    def kinds(self) -> list[int]:
        """The kind of each screening, of the last one first, where they come one after the other."""
        costs = self.curves[:, int(np.argmin(np.abs(self.b - ((self.order or 1.0) - 1))))]
        last_first = np.argsort(costs, kind="stable")[::-1].tolist()
        return [k for k in last_first for _ in range(self.counts[k])]

    def order_at(self, delta: float) -> float:
        """The Rényi order above 1 at which all screenings have the least price, about."""
        return 1 + float(self.b[int(np.argmin(self.renyi - math.log(delta) / self.b))])

    def reaches(self, portions: FloatArray) -> FloatArray:
        """The x beyond which delta is negligible, where such portions of all kinds are left."""
        # as `reach`, of which all costs are these shares
        costs = np.multiply.outer(self.renyi, portions) - (self.floor / self.b)[:, None]
        largest = float(np.dot(self.counts, self.ends)) * portions
        return np.asarray(np.minimum(np.minimum(costs.min(axis=0), largest), self.cap))

    def reach(self, left: Sequence[FloatArray]) -> FloatArray:
        """The same where so many are left of each kind."""
        # Mironov 2017, Prop. 3; this only sizes windows
        best = self.largest(left)
        for b, costs in zip(self.b.tolist(), self.curves.T.tolist(), strict=True):
            cost = sum((many * each for many, each in zip(left, costs, strict=True)), np.zeros(()))
            best = np.minimum(best, cost - self.floor / b)
        return np.minimum(best, self.cap)

    def first_step(self, tolerance: float) -> float:
        """Of a grid that adds about that share to every step's variance, or a start where losses are rare and large."""
        reach = self.reach_of_all
        # interpolation adds at most step^2/4
        fine = self.deviation * math.sqrt(4 * tolerance)
        if self.cap == math.inf:
            fine = max(fine, reach / (200 * math.sqrt(self.steps)))
        return min(fine, reach / 64)

    def largest(self, left: Sequence[FloatArray]) -> FloatArray:
        """The largest loss where so many are left of each kind."""
        return sum((many * end for many, end in zip(left, self.ends.tolist(), strict=True)), np.zeros(()))

    def windows(self, step: float) -> Windows:
        """For a grid of that step."""
        if self.order is None:
            left = np.ix_(*(np.arange(count + 1.0) for count in self.counts))
        else:
            played = np.array(self.kinds())[:, None] == np.arange(len(self.counts))
            left = tuple(np.cumsum(np.insert(played, 0, False, axis=0), axis=0, dtype=float).T)
        # ends that no window holds may be too large for a number of cells
        farthest = self.reach_of_all / step + 2.0
        ends = np.ceil(np.minimum(self.largest(left) / step * (1 + INPUT_ERROR), farthest))
        if len(self.counts) == 1:
            reach = np.interp(left[0] / self.steps, PORTIONS, self.reaches(PORTIONS))
        else:
            reach = self.reach(left)
        # an end that matters is seen: V is 0 there, and elsewhere above what it is at the edge
        return Windows(*(np.minimum(cells, ends).astype(np.int64) for cells in (np.ceil(reach / step) + 1, ends)))


@lru_cache(maxsize=64)
def set_up(asked: Asked) -> Setup:
    run, delta = asked.run, asked.delta
    # values are held for all counts but the first: let that be the largest
    kinds = sorted(run, key=lambda entry: entry[1], reverse=True)
    counts, steps = tuple(count for _, count in kinds), run.releases
    floor = math.log(delta) - math.log(steps) - 25.0
    families = tuple(_few_pairs(event, math.exp(floor)) for event, _ in kinds)
    end = float(run.renyi(math.inf)) * (1 + INPUT_ERROR)
    square = sum(count * family.above.deviation(asked.cap) ** 2 for family, count in zip(families, counts, strict=True))
    deviation = math.sqrt(square / steps) or end / steps
    b, curves = _curves_near([event for event, _ in kinds], deviation)
    ends = np.array([float(event.renyi(math.inf)) for event, _ in kinds]) * (1 + INPUT_ERROR)
    return Setup(families, counts, deviation, b, counts @ curves, curves, ends, floor, end, *asked[2:])


def _curves_near(events: Sequence[Event], deviation: float) -> tuple[FloatArray, FloatArray]:
    """Rényi curves at orders 1 + b that matter for losses of that deviation, and those b."""
    middle = math.floor(-math.log10(deviation))
    decades = [decade for decade in range(middle - 4, middle + 5) if -13 <= decade <= 303]
    if not decades:  # enormous losses
        decades = [min(max(middle, -13), 303)]
    b = np.concatenate([_orders_of(decade) for decade in decades]) - 1
    curves = [np.concatenate([_curve_of(event, decade) for decade in decades]) for event in events]
    return b, np.stack(curves) * (1 + 1e-9)


def _orders_of(decade: int) -> FloatArray:
    """Orders 1 + b, for 30 b from that power of ten on."""
    return 1 + 10.0 ** (decade + np.arange(30) / 30)


@lru_cache(maxsize=8192)
def _curve_of(event: Event, decade: int) -> FloatArray:
    """Many games have the same kinds in them: their curves are known at the same orders."""
    return np.asarray(event.renyi(_orders_of(decade)))


def family_of(event: Event, least: float = 0.0) -> Family:
    """Pairs (with, without) of a family, less those that another one dominates, by rising `down`.

    A step's value is a chord of a convex function over [u e^-up, u e^down], so the longer interval dominates. Smaller
    log-ratios than `least` are raised to it: no pair's total variation exceeds its smaller log-ratio, so that less
    than `least` is lost (notebooks/mathematics.md, Screening game).
    """
    choices = event._choices()
    if choices is None:
        raise ParameterError(f"{shorten(event)}; accepted: families of pairs with two outcomes, as noisy screenings")
    up, down, played = (
        np.maximum(choices.up, least),
        np.maximum(choices.down, least),
        choices.played or (choices.up, choices.down),
    )
    keep = _find_longest(up, down)
    return Family(Pairs(up[keep], down[keep]), Pairs(played[0][keep], played[1][keep]))


def drop_dominated(pairs: Pairs) -> Pairs:
    """Pairs that no other one dominates, by rising `down`."""
    keep = _find_longest(*pairs)
    return Pairs(pairs.up[keep], pairs.down[keep])


def _find_longest(up: FloatArray, down: FloatArray) -> IntArray:
    """Those whose interval lies in no other one."""
    order = np.lexsort((up, down))[::-1]
    longest = np.maximum.accumulate(up[order])
    return np.asarray(order[np.diff(longest, prepend=-1.0) > 0][::-1])


def _few_pairs(event: Event, least: float) -> Family:
    """A family without what is far less than delta, if it has too many pairs and not all of them are that."""
    family = family_of(event)
    if family.above.up.size <= FEW_PAIRS or not np.min(family.above, axis=0).max() > least:
        return family
    return family_of(event, least)


def round_down(step: float) -> float:
    """With 20 bits, so that its multiples are exact."""
    return math.ldexp(int(math.frexp(step)[0] * 2**20), math.frexp(step)[1] - 20)


def work_of(asked: Asked, step: float, slack: float) -> float:
    """Operations that the game takes on a grid."""
    setup = set_up(asked)
    window = float(np.mean(np.interp(np.linspace(0.0, 1.0, 4097), PORTIONS, setup.reaches(PORTIONS)))) / step
    if (kinds := len(setup.counts)) > 1:
        costs = COSTS if asked.tests else COSTS_ABOVE
        once, move = costs.of(kinds, _pairs_told_apart(asked, slack), setup.steps, window)
        states = setup.steps + 1.0 if asked.order is not None else math.prod(count + 1.0 for count in setup.counts)
        once += states * costs.cell * setup.cells(step)
    else:
        pairs, early = setup.families[0].above.up.size, min(EARLY / setup.steps, 1.0)
        first = float(setup.reaches(np.array([early]))[0]) / step + 8
        searched = EARLY_MOVE * math.sqrt(min(pairs, MOST_APART)) * early * setup.steps * first
        once, move = BEGUN + EACH_PAIR * pairs + searched, MOVE * (window + 8)
    return once + setup.moves * move


@lru_cache(maxsize=64)
def _pairs_told_apart(asked: Asked, slack: float) -> float:
    """Pairs of a kind that are searched, in the mean."""
    trees = (gather(family, slack) for family in set_up(asked).families)
    return float(np.mean([np.count_nonzero(tree.members.up) for tree in trees]))
