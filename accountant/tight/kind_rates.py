"""True-positive rates of several kinds of screening: blocks or games on clocks above, an attack of one order below.

Every test that a game keeps is an attack, a set S of outcomes with its Q(S) and P(S); between two of them lies
whoever draws which one to use (notebooks/mathematics.md, Attack risk).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import share_patience
from accountant.tight.answers import certain_of
from accountant.tight.clock_blocks import set_clock_run
from accountant.tight.clock_order import play_in_clock_order
from accountant.tight.cover_kernels import STEP_ROUNDING
from accountant.tight.game_value import GameValue, PlayedGame
from accountant.tight.loss_composition import bound_delta_above
from accountant.tight.loss_trade_off import PLACE, LossTradeOff
from accountant.tight.screening_blocks import Aim
from accountant.tight.setting import Setting
from accountant.tight.trade_off import ROUNDING, BetweenTradeOffs, Rates, TradeOff, profile_of

__all__ = ["AddedTradeOff", "AttackPair", "Attacks", "between_sides", "sides_by_clocks"]

Entries = Sequence[tuple[Event, int]]

CLOCK_SHARE = 0.8
"""Share of what is left of patience that games on clocks may take: rates are read off grids after them."""

APART = 3.0
"""Nats between rates of which each has a grid of its own."""

RAREST, LARGEST_LOG = 1e-60, 700.0
"""Tests with smaller false-positive rates are left out, and likelihood ratios beyond it."""

ONE_ULP = 2.0**-52
"""More than the rounding of 1 less a rate."""

UNDERFLOW = 1e-297
"""More than lines lack by underflow, relative to nothing (notebooks/mathematics.md, Screening game)."""


@dataclass(frozen=True, eq=False)
class AddedTradeOff(TradeOff):
    """A run whose profile is nowhere above that of another by more than `lost`: T(a) <= T'(a) + lost."""

    above: TradeOff
    lost: float

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        return fprs.copy(), self._add(self.above.rates(fprs, known)[1])

    def segments(self, floor: float, ceiling: float) -> Rates:
        places, rates = self.above.segments(floor, ceiling)
        return places, self._add(rates)

    def profile(self, epsilon: float) -> Interval:
        return Interval(0.0, float(self._add(np.array([profile_of(self.above, epsilon).upper]))[0]))

    def at_zero(self) -> Interval:
        return Interval(0.0, float(self._add(np.array([self.above.at_zero().upper]))[0]))

    def _add(self, rates: FloatArray) -> FloatArray:
        return np.minimum((rates + self.lost) * (1 + ROUNDING), 1.0)


class AboveTradeOff(LossTradeOff):
    """T of pairs of which only the upper end is asked: grids are made for rates that are not near others."""

    def __init__(self, entries: Entries, direction: Direction, tolerance: float) -> None:
        super().__init__(entries, direction, tolerance)
        self.looked: list[float] = []

    def _rates(self, fprs: FloatArray, known: FloatArray | float) -> Rates:
        for fpr in fprs.tolist():
            if all(abs(math.log(fpr / other)) > APART for other in self.looked):
                try:
                    self._look_near(fpr, fpr, 1.0, 1.0)
                except ToleranceUnreachable:
                    if not self.tables:
                        raise
                self.looked.append(fpr)
        self._spend(PLACE * fprs.size)
        return fprs.copy(), np.min([np.ones_like(fprs), *(above.upper(fprs) for above, _ in self.tables)], axis=0)

    def profile(self, epsilon: float) -> Interval:
        found = bound_delta_above(self.entries, epsilon, self.tolerance, None, (self.direction,))
        return Interval(0.0, found.upper)


def attacks_of(game: GameValue) -> tuple[FloatArray, FloatArray]:
    """False- and true-positive rates of tests of a game, both rising: none is above a line between neighbours."""
    played, way = game._below, game._way
    found = [(0.0, 0.0), (1.0, 1.0)]
    for each in range(2):
        fprs, tprs = _tests_of(played, each)
        if each != way:  # the reversed test: who says the other thing in the other direction
            fprs, tprs = 1 - tprs + ONE_ULP, 1 - fprs - ONE_ULP
        kept = (fprs >= RAREST) & (fprs <= 1.0) & (tprs >= fprs)
        found += zip(fprs[kept].tolist(), np.minimum(tprs[kept], 1.0).tolist(), strict=True)
    hull: list[tuple[float, float]] = []
    for fpr, tpr in sorted(found):
        if hull and tpr <= hull[-1][1]:
            continue
        while hull and (fpr == hull[-1][0] or (len(hull) > 1 and _is_below(hull[-2], hull[-1], (fpr, tpr)))):
            hull.pop()
        hull.append((fpr, tpr))
    places, rates = np.array(hull).T
    return places, rates


class AttackPair(Event):
    """The pair of which the best tests are those of a game: what it may choose after other releases, from below.

    Both distributions have a mass for each step between neighbouring tests.
    """

    def __init__(self, like: Event, game: GameValue) -> None:
        fprs, tprs = attacks_of(game)
        logs = np.log(np.diff(fprs)), np.log(np.diff(tprs))
        self.__dict__.update(adjacency=like.adjacency, fprs=fprs, tprs=tprs, way=game._way, logs=logs)

    fprs: FloatArray
    tprs: FloatArray
    way: int
    logs: tuple[FloatArray, FloatArray]

    def __repr__(self) -> str:
        return "<attacks on screenings of several kinds>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        log_q, log_p = self.logs
        losses, found = log_p - log_q, np.empty(orders.size)
        for i, order in enumerate(orders.tolist()):
            if order == math.inf:
                found[i] = float(np.max(np.abs(losses)))
            else:
                b = max(order - 1, 1e-9)
                sums = np.logaddexp.reduce(log_p + b * losses), np.logaddexp.reduce(log_q - b * losses)
                found[i] = max(*sums, 0.0) / b
        return found

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        log_q, log_p = self.logs
        losses, u = log_p - log_q, np.exp(np.minimum(epsilons, LARGEST_LOG))  # which fall
        forward = np.searchsorted(-losses, -epsilons)
        backward = np.searchsorted(-losses, epsilons, side="right")
        both = (
            self.tprs[forward] - u * self.fprs[forward],
            (1 - self.fprs[backward]) - u * (1 - self.tprs[backward]),
        )
        with np.errstate(divide="ignore"):
            logs = [np.minimum(np.log(np.maximum(each * (1 - ROUNDING), 0.0)), 0.0) for each in both]
        return (logs[0], logs[1]) if self.way == 0 else (logs[1], logs[0])


@dataclass(frozen=True, eq=False)
class Attacks(TradeOff):
    """What the tests of a game reach in one direction, and whoever draws one of two; nothing is known from above."""

    game: GameValue

    @cached_property
    def corners(self) -> tuple[FloatArray, FloatArray]:
        return attacks_of(self.game)

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        reached = np.interp(fprs, *self.corners) * (1 - ROUNDING)  # T is concave
        return np.maximum(reached, fprs), np.ones_like(fprs)

    def segments(self, floor: float, ceiling: float) -> Rates:
        return np.array([floor, ceiling]), np.ones(2)

    def profile(self, epsilon: float) -> Interval:
        return Interval(self.game.delta(epsilon).lower, 1.0)

    def at_zero(self) -> Interval:
        return Interval(0.0, 1.0)


def _tests_of(played: PlayedGame, way: int) -> tuple[FloatArray, FloatArray]:
    """No less than the false-positive rates, and no more than the true-positive ones, of the tests at its grid points.

    A line is a - u q, kept as its value v and as u q at its grid point: a = v + u q.
    """
    value, slope = played.tests[way]["value"], played.tests[way]["slope"]
    x = played.step * np.arange(value.size)
    with np.errstate(under="ignore"):
        fprs = (slope * (1 + played.slope_error) + UNDERFLOW) * np.exp(-x) * (1 + STEP_ROUNDING * (1 + x))
        tprs = (value * (1 - STEP_ROUNDING) + slope * (1 - played.slope_error) - UNDERFLOW) * (1 - STEP_ROUNDING)
    return fprs, tprs


def _is_below(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    """Whether a point is no higher than the line between two others."""
    return (middle[1] - first[1]) * (last[0] - first[0]) <= (last[1] - first[1]) * (middle[0] - first[0])


def sides_by_clocks(
    families: Entries, setting: Setting, aim: Aim, log_delta: float, most_lost: float
) -> dict[Direction, TradeOff] | None:
    """Both directions, by games on clocks that lose no more than that, about; None where there are none.

    Raises
    ------
    OutOfPatience
        Nothing of it is there patience for.
    """
    with share_patience(CLOCK_SHARE):
        clocks = set_clock_run(families, aim, log_delta, most_lost)
        if clocks is None:
            return None
        clocks.foresee(len(families))
        blocks, lost = clocks.play()
    games = play_in_clock_order(clocks.order) if clocks.in_order else None
    unseen = None if games else clocks.same_pairs(families, aim.order)
    return between_sides(families, setting, blocks, games, unseen, lost)


def between_sides(
    families: Entries,
    setting: Setting,
    blocks: Entries,
    games: Mapping[Direction, GameValue] | None,
    unseen: Event | None,
    lost: float = 0.0,
) -> dict[Direction, TradeOff]:
    """Both directions: `blocks` are above all interleavings but for what is `lost`, one order or `unseen` is below."""
    singles = list(setting.singles)
    certain = certain_of(singles) or singles
    sides: dict[Direction, TradeOff] = {}
    for direction in DIRECTIONS:
        above: TradeOff = AboveTradeOff([*singles, *blocks], direction, setting.tolerance)
        if lost > 0.0:
            above = AddedTradeOff(above, lost)
        if games is None:
            assert unseen is not None
            below: TradeOff = LossTradeOff([*certain, (unseen, 1)], direction, setting.tolerance)
        elif certain:
            attacks = AttackPair(families[0][0], games[direction])
            below = LossTradeOff([*certain, (attacks, 1)], direction, setting.tolerance)
        else:
            below = Attacks(games[direction])
        sides[direction] = BetweenTradeOffs(above, below)
    return sides
