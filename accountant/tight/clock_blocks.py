"""Very many kinds of screening: blocks of a game on a clock from above, one order of the kinds from below.

Kinds that are alike share one game (`accountant.tight.clock_references`); blocks of all games are composed like other
releases (notebooks/mathematics.md, Many kinds of screening). From below each kind plays its own pairs, the costliest
kind last; where steps are too many for that, one pair of each kind all the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import fits, spend
from accountant.tight.clock_game import ClockSetup, law_of_ticks, law_work, play_on_clock, set_clock
from accountant.tight.clock_order import Ordered, set_order
from accountant.tight.clock_references import find_clocks, find_kinds
from accountant.tight.game_value import GameValue, PlayedGame
from accountant.tight.screening_blocks import Aim, SamePair

__all__ = ["IN_ORDER", "ClockRun", "SamePairs", "same_work", "set_clock_run"]

Entries = Sequence[tuple[Event, int]]

MOST_WORK = 3.2e9, 1.6e9, 8e8
"""Operations (see `accountant.patience`) of all games on clocks, about; the next where patience is less."""

GRID_SHARE = 0.3
"""Share of the tolerance that the grids of games on clocks may add to the variance of every step."""

ORDER_SHARES = 0.3, 1.0, 3.0, 10.0
"""The same of the game of one order, of which less is lost; the next where it takes too long."""


COARSEST = 0.01
"""The tolerance for which games are played where a larger one is asked: one of delta is far less in epsilon."""

FINE_ORDER, IN_ORDER = 1.3e9, 4e9
"""Operations of a game of one order up to which no coarser grid is tried, and up to which it is played at all."""

KIND = 1.2e6
"""Operations that a kind takes, whatever its game."""

MOST_LAW = 1e9
"""Operations of the law of ticks from which on kinds have so many screenings that blocks of each are near enough."""

MOST_STEPS = 4e6
"""The same of screenings: from below, every number of them has a loss."""

SAME, SAME_STEP = 5e6, 1e3
"""Operations of the pairs of a kind that are played all the time, and of each of its screenings there."""

BEGUN = "kinds of screening"


class ClockPair(Event):
    """The pair whose profile bounds a game on a clock from above."""

    between_bounds: ClassVar[bool] = True

    games: tuple[GameValue, GameValue]

    def __init__(self, like: Event, game: PlayedGame) -> None:
        self.__dict__.update(adjacency=like.adjacency, games=tuple(GameValue(game, game, way) for way in range(2)))

    def __repr__(self) -> str:
        return "<pair above screenings of many kinds>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        """About its divergence, by which grids are chosen; the largest loss at infinity."""
        # E_Q[(P/Q)^a] = 1 + a (a - 1) times the integral of u^(a-2) V(u) over all u
        game = self.games[0]._above
        x = game.step * np.arange(game.upper.shape[1])
        with np.errstate(divide="ignore"):
            logs = np.log(game.upper) + math.log(game.step)
        finite = np.isfinite(orders)
        a = np.maximum(np.where(finite, orders, 2.0), 1.0 + 1e-9)
        b, sums = (a - 1)[:, None], []
        for way in range(2):
            sums.append(np.logaddexp.reduce(b * x + logs[way], axis=1))
            sums.append(np.logaddexp.reduce(logs[1 - way] - (b + 1) * x, axis=1))
        most = np.maximum(np.logaddexp(*sums[:2]), np.logaddexp(*sums[2:]))
        return np.where(finite, np.logaddexp(0.0, np.log(a * (a - 1)) + most) / (a - 1), game.end)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        remove, add = self.games
        return remove.log_upper(epsilons), add.log_upper(epsilons)


class SamePairs(Event):
    """One pair of each kind at every step, from both sides: what an adversary gets who never looks."""

    between_bounds: ClassVar[bool] = True

    pairs: dict[Direction, list[SamePair]]

    def __init__(self, families: Entries, order: float) -> None:
        pairs = {way: [SamePair(event, count, way, order) for event, count in families] for way in DIRECTIONS}
        self.__dict__.update(adjacency=families[0][0].adjacency, pairs=pairs)

    def __repr__(self) -> str:
        return "<pairs below screenings of many kinds>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        found = np.empty(orders.size)
        for i, order in enumerate(orders.tolist()):
            if order == math.inf:
                sums = [sum(float(np.max(np.abs(each.losses))) for each in pairs) for pairs in self.pairs.values()]
            else:
                at = max(order, 1.0 + 1e-9)
                sums = [sum(each.divergence(way, at) for each in pairs) for way, pairs in self.pairs.items()]
            found[i] = max(sums)
        return found

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(pair, 1) for pair in self.pairs[direction]]


def same_work(kinds: int, steps: int) -> float:
    """Operations of `SamePairs`."""
    return SAME * kinds + SAME_STEP * steps


class ClockRun(NamedTuple):
    """Screenings of many kinds made ready: games on clocks, kinds that are blocks of their own, an order of all."""

    like: Event
    setups: list[ClockSetup]
    alone: Entries
    order: Ordered

    @property
    def work(self) -> float:
        """Operations of the games."""
        below = self.order.work if self.order.work <= IN_ORDER else self.same_work
        return sum(setup.work for setup in self.setups) + below

    @property
    def same_work(self) -> float:
        """Operations of `SamePairs`."""
        return same_work(len(self.order.kinds), self.order.steps)

    def same_pairs(self, families: Entries, order: float) -> SamePairs:
        """What is below where one order takes too long."""
        spend(self.same_work, BEGUN)
        return SamePairs(families, order)

    def blocks(self) -> list[tuple[Event, int]]:
        """Pairs that together are above all screenings."""
        found = list(self.alone)
        for setup in self.setups:
            spend(setup.work, BEGUN)
            fixed, rest = play_on_clock(setup)
            found.append((ClockPair(self.like, rest), 1))
            if setup.many > 0:
                found.append((ClockPair(self.like, fixed), setup.many))
        return found


def set_clock_run(families: Entries, aim: Aim, log_delta: float) -> ClockRun | None:
    """Games of kinds that are alike; None where no two are, or screenings are too many for a game on a clock."""
    if (steps := sum(count for _, count in families)) > MOST_STEPS:
        return None
    spend(KIND * len(families), BEGUN)
    least = math.exp(max(log_delta - math.log(steps) - 25.0, -690.0))
    clocks, alone = find_clocks(find_kinds(families, aim.order, least), aim.order)
    law = sum(law_work(clock, log_delta) for clock in clocks)
    if not clocks or law > MOST_LAW:
        return None
    spend(law, BEGUN)
    laws = [law_of_ticks(clock, log_delta) for clock in clocks]
    apart = [(kind.event, kind.times) for kind in alone]
    tolerance = min(aim.tolerance, COARSEST)
    for share in ORDER_SHARES:
        ordered = set_order(clocks, alone, aim.order, log_delta, share * tolerance)
        if ordered.work <= FINE_ORDER:
            break
    blocks: Entries = [(aim.block(each), 1) for each in apart]
    for most in MOST_WORK:
        share = most / len(clocks)
        setups = [
            set_clock(clock, aim.order, log_delta, GRID_SHARE * tolerance, share, known)
            for clock, known in zip(clocks, laws, strict=True)
        ]
        run = ClockRun(families[0][0], setups, blocks, ordered)
        if fits(run.work):
            break
    return run
