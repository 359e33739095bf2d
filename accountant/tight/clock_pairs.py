"""What stands for screenings of many kinds: pairs of games on clocks from above, one pair of each kind from below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import spend
from accountant.tight.game_value import GameValue, PlayedGame
from accountant.tight.screening_blocks import SamePair, divergence_of_pairs, log_of_sum

__all__ = ["MOST_STEPS", "ClockPair", "SamePairs", "same_work", "use_same_pairs"]

Entries = Sequence[tuple[Event, int]]

MOST_STEPS = 4e6
"""Screenings up to which pairs are played all the time: every number of them has a loss."""

SAME, SAME_STEP = 5e6, 1e3
"""Operations (see `accountant.patience`) of the pairs of a kind that are played all the time, and of each of its
screenings there."""

SUMMED, PAIRED = 12.0, 60.0
"""The same of an order of a curve: of each loss of a game, and of a pair that is played all the time."""

LOOKED_AT = 1024
"""Grid points of a game at which it is asked for about a divergence."""


class ClockPair(Event):
    """The pair whose profile bounds a game on a clock from above."""

    between_bounds: ClassVar[bool] = True

    games: tuple[GameValue, GameValue]
    logs: FloatArray
    apart: int

    def __init__(self, like: Event, game: PlayedGame) -> None:
        apart = max(game.upper.shape[1] // LOOKED_AT, 1)
        with np.errstate(divide="ignore"):
            logs = np.log(game.upper[:, ::apart]) + math.log(apart * game.step)
        games = tuple(GameValue(game, game, way) for way in range(2))
        self.__dict__.update(adjacency=like.adjacency, games=games, logs=logs, apart=apart)

    def __repr__(self) -> str:
        return "<pair above screenings of many kinds>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        """About its divergence, by which grids are chosen; the largest loss at infinity."""
        # E_Q[(P/Q)^a] = 1 + a (a - 1) times the integral of u^(a-2) V(u) over all u
        game, logs = self.games[0]._above, self.logs
        x = self.apart * game.step * np.arange(logs.shape[1])
        finite = np.isfinite(orders)
        a = np.maximum(np.where(finite, orders, 2.0), 1.0 + 1e-9)
        b, sums = (a - 1)[:, None], []
        for way in range(2):
            sums.append(log_of_sum(b * x + logs[way]))
            sums.append(log_of_sum(logs[1 - way] - (b + 1) * x))
        most = np.maximum(np.logaddexp(*sums[:2]), np.logaddexp(*sums[2:]))
        return np.where(finite, np.logaddexp(0.0, np.log(a * (a - 1)) + most) / (a - 1), game.end)

    def _curve_work(self, rate: float = 1.0) -> float:
        return 2 * SUMMED * self.logs.size

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
        at = np.maximum(np.where(np.isfinite(orders), orders, 2.0), 1.0 + 1e-9)
        finite = np.max([divergence_of_pairs(pairs, way, at) for way, pairs in self.pairs.items()], axis=0)
        return np.where(np.isfinite(orders), finite, self._farthest)

    @cached_property
    def _farthest(self) -> float:
        sums = (sum(float(np.max(np.abs(each.losses))) for each in pairs) for pairs in self.pairs.values())
        return max(sums)

    def _curve_work(self, rate: float = 1.0) -> float:
        return PAIRED * sum(len(pairs) for pairs in self.pairs.values())

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(pair, 1) for pair in self.pairs[direction]]


def same_work(kinds: int, steps: int) -> float:
    """Operations of `SamePairs`."""
    return SAME * kinds + SAME_STEP * steps


def use_same_pairs(families: Entries, order: float) -> SamePairs:
    """These, counted before they are made.

    Raises
    ------
    ToleranceUnreachable
        They take too much memory: every number of screenings has a loss.
    """
    if (steps := sum(count for _, count in families)) > MOST_STEPS:
        raise ToleranceUnreachable(f"pairs of {steps} screenings that are played at every step take too much memory")
    spend(same_work(len(families), steps), "pairs that are played at every step")
    return SamePairs(families, order)
