"""Very many equal votes at the votes that were cast: a block of them has one pair that dominates its game.

The pair whose profile is the value of the game of k votes stands for any k votes in a row, whatever is chosen in them
(notebooks/mathematics.md, Blocks of screenings, which is of any families); blocks are composed like other releases.
From below stands one neighbour in each vote. A dozen blocks are hardly nearer than the pair that dominates each vote,
a few are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from accountant.adjacency import Adjacency, Direction
from accountant.events.event import Event
from accountant.events.votes_seen import OneNeighbour, SeenVotes, as_directed
from accountant.numerics.kernel import FloatArray
from accountant.patience import fits
from accountant.tight.game_value import GameValue
from accountant.tight.loss_composition import Entries
from accountant.tight.vote_game import solve_votes, work_of

__all__ = ["VoteBlock", "blocks_of", "cut_votes", "votes_as_blocks"]

MOST_BLOCKS = 12
"""With more of them nothing is gained."""

LEAST_VOTES = 32
"""Of a block, if there are several."""

NATS = 8.0
"""Deltas for which games are played are told apart by so much, that one game may serve several grids."""

LEAST = -575.0
"""Log of the least of them."""

FINEST = 1e9
"""Operations that a finer grid of a block's game may take."""

TYPICAL = 1e-8
"""A delta by which blocks are cut where others come last."""

BESIDE = 1e9
"""Operations that all games of blocks may take there."""

SPARE = 1.25
"""Times the work of a block's game that it takes with what composes blocks."""


@dataclass(frozen=True)
class VoteBlock(Event):
    """Some equal votes that were cast, between the pair that dominates their game and one neighbour in each.

    Parameters
    ----------
    seen : SeenVotes
    times : int
    tolerance : float
        What the game's grid may add.
    delta : float
        Where the game is to be tight; 0: not far above what may be lost of the run.
    """

    data_dependent: ClassVar[bool] = True
    between_bounds: ClassVar[bool] = True

    seen: SeenVotes
    times: int
    tolerance: float
    delta: float = 0.0
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", self.seen.adjacency)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.times * self.seen._curve(orders)

    def _sharpened(self) -> Event | None:
        return None

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        if sign < 0:
            return self._certain()._surrogates(direction, step, log_lost, sign)
        delta = self.delta or math.exp(min(max(NATS * math.floor(log_lost / NATS + 2.0), LEAST), -1.0))
        value = solve_votes(((self.seen, self.times),), delta, self.tolerance, FINEST)
        return [(VotePair(self, value, direction), 1)]

    def _certain(self, times: int = 1) -> SameNeighbour:
        return SameNeighbour(self)


@dataclass(frozen=True)
class SameNeighbour(Event):
    """One neighbour in each vote of a block."""

    between_bounds: ClassVar[bool] = True

    block: VoteBlock

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]  # as the block
        return self.block.adjacency

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.block._curve(orders)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        seen, times = self.block.seen, self.block.times
        pieces = OneNeighbour(seen, seen._pairs().costliest())._surrogates(direction, step, log_lost, sign)
        return [(piece, many * times) for piece, many in pieces]


class VotePair(Event):
    """The pair whose profile bounds the game of a block from above; the votes that were cast come first."""

    block: VoteBlock
    value: GameValue
    direction: Direction

    def __init__(self, block: VoteBlock, value: GameValue, direction: Direction) -> None:
        end = value._above.end
        self.__dict__.update(
            adjacency=block.adjacency, block=block, value=value, direction=direction, _largest_finite_loss=end
        )

    def __repr__(self) -> str:
        return f"<pair above {self.block.times} votes>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        return np.where(np.isinf(orders), self._largest_finite_loss, math.nan)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        reversed_game = GameValue(self.value._above, self.value._below, 1)
        first, second = as_directed([self.value.log_upper(epsilons), reversed_game.log_upper(epsilons)], self.direction)
        return first, second


def cut_votes(
    event: SeenVotes, count: int, delta: float, tolerance: float, begun: float, most: float
) -> tuple[list[int] | None, float]:
    """Lengths of as few blocks as there is room for, the last the shortest, or None; and all work with that.

    Beside what is begun games of at most so many operations have room.
    """
    for blocks in range(1, MOST_BLOCKS + 1):
        length = -(-count // blocks)
        if length < (LEAST_VOTES if blocks > 1 else 2):
            break
        whole, rest = divmod(count, length)
        work = sum(work_of(((event, each),), delta, tolerance) for each in {length, rest or length})
        if work <= most and fits(SPARE * (begun + work)):
            return [length] * whole + [rest] * (rest > 0), begun + work
    return None, begun


def votes_as_blocks(singles: Entries, tolerance: float) -> Entries:
    """The same releases, many equal votes as blocks: where families of pairs come last, no game of votes does."""
    found: list[tuple[Event, int]] = []
    begun = 0.0
    for event, count in singles:
        lengths = None
        if isinstance(event, SeenVotes):
            lengths, begun = cut_votes(event, count, TYPICAL, tolerance, begun, BESIDE - begun)
            found += blocks_of(event, lengths or [], tolerance)
        if lengths is None:
            found.append((event, count))
    return found


def blocks_of(event: SeenVotes, lengths: list[int], tolerance: float, delta: float = 0.0) -> list[tuple[Event, int]]:
    """Blocks of such lengths."""
    return [(VoteBlock(event, each, tolerance, delta), lengths.count(each)) for each in sorted(set(lengths))]
