"""Several Gaussian releases on samples of a fixed size: the adversary chooses the triple of each step as he goes.

The game is played for some hundreds of steps (`accountant.tight.drawn_values`): of more steps strides of it are
composed like other releases, and what is left after them (`accountant.tight.strides`); what attackers tell is told by
blocks of steps, whose pair has the profile W_n (notebooks/mathematics.md, Runs of samples of a fixed size).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.drawn_triples import FARTHEST
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import remember, share_patience, spend
from accountant.tight.drawn_values import LIKELY, ORDERS, Values, curve_of, grid_of, play_above, play_below
from accountant.tight.hulls import hull_of
from accountant.tight.polygon import ULP
from accountant.tight.searched import is_quick, is_searched
from accountant.tight.strides import Stride, find_stride, stride_work
from accountant.tight.trade_off import Rates, TradeOff

__all__ = [
    "DrawnBlock",
    "DrawnPart",
    "DrawnTradeOff",
    "has_games",
    "join_drawn",
    "least_delta",
    "least_epsilon",
    "shares_between",
    "with_blocks",
]

Entries: TypeAlias = Sequence[tuple[Event, int]]

LONGEST, LONGEST_REPEATED = 512, 256
"""Steps of a block, at most, and half of those of a game of which strides are taken; of samples with replacement, whose
losses reach farther."""

LEAST_DELTA, MOST_DELTA = 1e-7, 0.5
"""Deltas below which blocks are no use, for what transforms round, and above which no strides are taken."""

SHARE, SHARE_REPEATED, SEARCHED = 0.7, 0.5, 0.8
"""Of the patience, which a game may take: the lower end is asked afterwards, which of samples with replacement takes
longer; and where a price is one of a search."""

FINE, FINE_STEPS, COARSEST = 0.1, 100, 0.2
"""Step of the grid, as a share of the deviation of a release's loss: of so many steps, from where on it grows like the
root of their number, and at most."""

FINE_BELOW = 0.08
"""The same of the game from below."""

GAMES = 512, 384, 256, 128, 64
"""Half of the steps that are played; fewer where that takes longer than there is patience for."""

COMPOSED = 2e8
"""Operations (see `accountant.patience`) that are left for composing strides."""

LOST = 1e-2
"""Share of the least delta that strides may add."""

TWICE = 2.001
"""Over what strides may add: the probability that all is told instead, also where several kinds are played."""

Curve: TypeAlias = tuple[FloatArray, FloatArray]


class OnGrid(Event):
    """Steps of a game as the pair that dominates all of them together, known at points of a grid."""

    _profile_error = 1e-11

    sampled: Event
    steps: int

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.steps * self.sampled._curve(orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.sampled._curve_work(rate)

    def _profile_work(self) -> float:
        return 100.0

    @property
    def _largest_finite_loss(self) -> float:  # type: ignore[override]
        return max(float(places[-2]) for places, _ in self._played())

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        remove, add = (_log_between(curve, epsilons) for curve in self._played())
        return remove, add

    @abstractmethod
    def _played(self) -> tuple[Curve, Curve]:
        """Profiles of both directions."""


@dataclass(frozen=True)
class DrawnBlock(OnGrid):
    """Some releases of one kind, as the pair that dominates all of them together."""

    sampled: Event
    steps: int
    played: int
    adjacency: Adjacency = Adjacency.REPLACE

    def _played(self) -> tuple[Curve, Curve]:
        kept = (self.played - 1, self.played) if self.played > 1 else (1,)
        game = play_above(self.sampled, self.played, kept, _fineness(self.played))
        curve = _hull(game.step, game.at[self.steps])
        return curve, curve


@dataclass(frozen=True)
class DrawnPart(OnGrid):
    """A stride of many such releases, or what is left of them after `many` strides."""

    between_bounds: ClassVar[bool] = True  # its curve is no bound

    sampled: Event
    steps: int
    stride: Stride
    left: int
    last: bool
    adjacency: Adjacency = Adjacency.REPLACE

    def _curve(self, orders: FloatArray) -> FloatArray:
        """About its divergence, by which grids are chosen; the largest loss at infinity."""
        with np.errstate(divide="ignore"):
            found = np.interp(np.log(orders - 1), np.log(ORDERS - 1), curve_of(self.sampled))
        return np.where(np.isinf(orders), math.inf, self.steps * found)

    def _curve_work(self, rate: float = 1.0) -> float:
        return 0.0

    def _played(self) -> tuple[Curve, Curve]:
        return take_strides(self.sampled, self.stride, self.left)[self.last]


@remember("strides of a game of triples", 64)
def take_strides(sampled: Event, stride: Stride, left: int) -> tuple[tuple[Curve, Curve], tuple[Curve, Curve]]:
    """Profiles of a stride, and of so many steps after all strides and of what these may add.

    That is at most t to a delta that is no more than a half, where telling all with probability 2 t adds more.
    """
    fine, kept = _fineness(stride.last), tuple(sorted({*stride.kept, left}))
    work = float(stride_work(1, np.array(grid_of(sampled, stride.last, fine)[1] + 1.0)))
    with share_patience(1.0, beside=work + COMPOSED):
        game = play_above(sampled, stride.last, kept, fine)
    spend(work, "strides of a game of samples")
    values = {steps: np.array([game.at[steps]] * 2) for steps in stride.kept}
    each, lost = find_stride(stride, values, game.step)
    remove, add = (_hull(game.step, side) for side in each)
    told = min(TWICE * stride.many * lost, 1.0)
    curve = _hull(game.step, game.at[left] * (1 - told) + told)
    return (remove, add), (curve, curve)


def _fineness(steps: int) -> float:
    """A longer game gains more than a finer grid."""
    return min(max(FINE * math.sqrt(steps / FINE_STEPS), FINE), COARSEST)


def _log_between(curve: Curve, epsilons: FloatArray) -> FloatArray:
    """Logs of what chords say."""
    places, values = curve
    after = np.clip(np.searchsorted(places, epsilons, side="right"), 1, places.size - 1)
    low, high = places[after - 1], places[after]
    share = shares_between(np.minimum(epsilons - low, high - low), high - low)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log((1 - share) * values[after - 1] + share * values[after]))


def join_drawn(entries: Entries, delta: float, longest: int | None = None) -> list[tuple[Event, int]] | None:
    """The releases with blocks in the place of those that are played, or strides of a game of twice `longest` steps.

    None where there are none; `delta` is about the one that is asked.
    """
    if not delta >= LEAST_DELTA:
        return None
    found: list[tuple[Event, int]] = []
    for event, count in entries:
        parts = _blocks(event, count) if longest is None else _strides(event, count, longest)
        found += parts or [(event, count)]
    return found if any(isinstance(event, OnGrid) for event, _ in found) else None


def with_blocks(entries: Entries, delta: float, ask: Callable[[Entries], Interval], found: Interval) -> Interval:
    """An upper end, or that of a game where it is smaller; `delta` is about the one that is asked."""
    if is_quick():
        return found
    repeated = any(triple.repeats is not None for event, _ in entries if (triple := event._triple()) is not None)
    share = SEARCHED if is_searched() else SHARE_REPEATED if repeated else SHARE
    for longest in GAMES if delta <= MOST_DELTA else (None,):
        if (joined := join_drawn(entries, delta, longest)) is None:
            break
        with suppress(OutOfPatience, ToleranceUnreachable), share_patience(share):
            return Interval(0.0, min(found.upper, ask(joined).upper))
    return found


def least_epsilon(entries: Entries, delta: float) -> float:
    """What an adversary reaches who may exchange the roles of both data sets on the way; 0 where none is known."""
    values = _values_below(entries, delta)
    if values is None:
        return 0.0
    step, ((_, known),) = values.step, values.at.items()
    above = np.flatnonzero(known >= delta * (1 + 4 * ULP))
    return float(step * above[-1]) * (1 - 4 * ULP) if above.size else 0.0


def least_delta(entries: Entries, epsilon: float, delta: float) -> float:
    """The same at an epsilon, where delta is at most so much."""
    values = _values_below(entries, delta)
    if values is None:
        return 0.0
    step, ((_, known),) = values.step, values.at.items()
    at = math.ceil(min(epsilon / step, 1e9) * (1 + 4 * ULP))  # a profile falls
    return max(float(known[at]), 0.0) if at < known.size else 0.0


def _values_below(entries: Entries, delta: float) -> Values | None:
    """Of a run of releases of one kind."""
    if is_searched() or not delta >= LEAST_DELTA or len(entries) != 1 or not _is_played(*entries[0]):
        return None
    (event, count), pair = entries[0], entries[0][0]._certain(entries[0][1])
    with suppress(OutOfPatience, ToleranceUnreachable):
        return None if pair.between_bounds else play_below(pair, event, count, FINE_BELOW)
    return None


def _strides(event: Event, count: int, longest: int) -> list[tuple[Event, int]] | None:
    """Strides of a game of twice so many steps, and what is left; fewer steps are played all."""
    if not _is_played(event, count):
        return None
    if count <= 2 * longest:
        return [(DrawnBlock(event, count, count), 1)]
    many = count // longest - 1
    order = int(np.nanargmin(count * curve_of(event) - LIKELY / (ORDERS - 1)))
    lost = LOST * LEAST_DELTA / many  # the same strides for every delta
    stride = Stride(many, longest, longest, 1, lost, float(ORDERS[order]) - 1)
    left = count - many * longest
    return [(DrawnPart(event, longest, stride, left, False), many), (DrawnPart(event, left, stride, left, True), 1)]


def has_games(entries: Entries) -> bool:
    """Whether some releases are played."""
    return any(_is_played(event, count) for event, count in entries)


def _is_played(event: Event, count: int) -> bool:
    triple = event._triple()
    return triple is not None and count > 1 and 0.0 < triple.rate < 1.0 and 0.0 < triple.mu <= FARTHEST


@dataclass(frozen=True, eq=False)
class DrawnTradeOff(TradeOff):
    """What can be told at most, of releases one by one and of blocks: above, T is the smaller of both."""

    alone: TradeOff
    blocks: TradeOff

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        lower, upper = self.alone.rates(fprs, known)
        with suppress(OutOfPatience, ToleranceUnreachable), share_patience(SHARE):
            upper = np.minimum(upper, self.blocks.rates(fprs, known)[1])
        return np.minimum(lower, upper), upper

    def segments(self, floor: float, ceiling: float) -> Rates:
        middle = np.array([math.sqrt(floor * ceiling)])
        with suppress(OutOfPatience, ToleranceUnreachable), share_patience(SHARE):
            if self.blocks.rates(middle)[1][0] < self.alone.rates(middle)[1][0]:
                return self.blocks.segments(floor, ceiling)
        return self.alone.segments(floor, ceiling)

    def profile(self, epsilon: float) -> Interval:
        found = self.alone.profile(epsilon)
        with suppress(OutOfPatience, ToleranceUnreachable), share_patience(SHARE):
            upper = min(found.upper, self.blocks.profile(epsilon).upper)
            return Interval(min(found.lower, upper), upper)
        return found

    def at_zero(self) -> Interval:
        return self.alone.at_zero()


def _blocks(event: Event, count: int) -> list[tuple[Event, int]] | None:
    """Blocks of about one length, of one game."""
    triple = event._triple()
    if triple is None or not _is_played(event, count):
        return None
    blocks = -(-count // (LONGEST if triple.repeats is None else LONGEST_REPEATED))
    length, longer = divmod(count, blocks)
    if not longer:
        return [(DrawnBlock(event, length, length), blocks)]
    return [
        (DrawnBlock(event, length, length + 1), blocks - longer),
        (DrawnBlock(event, length + 1, length + 1), longer),
    ]


def shares_between(parts: FloatArray, wholes: FloatArray) -> FloatArray:
    """(e^part - 1)/(e^whole - 1), 0 <= part <= whole, which may be far beyond what exponentials reach."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(parts - wholes) * (np.expm1(-parts) / np.expm1(-wholes)))


def _hull(step: float, upper: FloatArray) -> Curve:
    """The largest convex function of u = e^place below values; a profile that is below them is below it."""
    values = hull_of(upper, step)
    # from the lowest on the profile falls no more
    end = int(np.argmin(values)) + 1
    places = step * np.arange(end + 0.0)
    return np.append(places, places[-1] + 700.0), np.append(values[:end], values[end - 1])
