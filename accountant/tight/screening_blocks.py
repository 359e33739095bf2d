"""Very many screenings: a block of them has one pair that dominates it, and blocks are composed like other releases.

Let W_k be the value of the game of k screenings (`accountant.tight.screening_families`), W that of all that follows,
or the profile of whatever else is released: an expectation E_L (1 - u e^-L)_+. Whatever is played in the block,

    E_P[W(u Q/P)] = E_L E_P[(1 - u e^-L Q/P)_+] <= E_L W_k(u e^-L),

so a block is dominated by the pair of distributions whose profile is W_k, for adaptive choices too (notebooks/
mathematics.md, Blocks of screenings). From below stands an adversary who plays the same pair of the family all the
time: the number of its outcomes is binomial. The longer the blocks the nearer are both.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.sticks import Sticks, both_sticks
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.numerics.scipy_special import gammaln
from accountant.patience import followed_by, foresee, share_patience, spend
from accountant.tight.loss_grid import bracket
from accountant.tight.polygon import ULP, Grid
from accountant.tight.screening_families import GameValue, begun_work, block_values, block_work, largest_pair

__all__ = [
    "Aim",
    "Cut",
    "ScreeningBlock",
    "cut_in_one",
    "cut_in_several",
    "divergence_of_pairs",
    "foresee_blocks",
    "log_of_sum",
    "near_order",
    "unsized_work",
]

ORDERS = 2.5
"""Ratio of neighbouring orders, less 1, for which blocks are made where many deltas are asked."""

LEAST_BLOCK = 128
"""Screenings in the shortest blocks that are tried; the next are four times as long."""

LEAST_BLOCKS = 4
"""With fewer of them than these all screenings are one game."""

LEAST = -740.0
"""Log of the least probability that is told from 0."""

COARSE = 600.0
"""A grid's step times the order from which on exponentials overflow."""

FALL = 0.4
"""What is left of a gap where blocks are four times as long, about."""

SAFELY = 0.9
"""Share of the room that a gap is to fall to in longer blocks, as the ones before did."""

LEAST_LONGER, MOST_SHORTER = 0.2, 0.7
"""Powers of 4 that longer blocks are at least longer by, and from which on four times is tried at once."""

GAME_SHARE = 0.3
"""Share of the tolerance that the grid of a block's game may add to the variance of every step."""


KEPT = 2**14
"""Cells of a game whose pair a block keeps."""

COMPOSED = 1e7
"""Operations (see `accountant.patience`) that a kind of many takes once it is a block, about: those of all grids."""

AFTER_FIRST = 16.0
"""What longer blocks take that are likely to follow, as a multiple of the first games of all: of eight times that for
blocks that are four times longer, and of 64 times for the next; found on random runs."""

UNSIZED = 1.3e4
"""Operations of the game of one screening, about, where it is not known how large it is."""

FORESEEN = 24
"""Blocks up to which the games of all are sized before the first is played."""

CURVE = 7e4
"""Operations of an order of the curve of one kind."""


@dataclass(frozen=True)
class ScreeningBlock(Event):
    """Some screenings, of several kinds in any order, between a pair that dominates them and pairs that are played.

    Parameters
    ----------
    kinds : tuple of (Event, int)
        The screenings of each kind, and how many of them.
    order : float
        Rényi order at which the pair of each kind that is played all the time is to be the costliest.
    log_lost : float
        Log of what is far less than the delta that is asked.
    tolerance : float
        Share that the game's grid adds to the variance of every step.
    """

    between_bounds: ClassVar[bool] = True

    kinds: tuple[tuple[Event, int], ...]
    order: float
    log_lost: float
    tolerance: float
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", self.kinds[0][0].adjacency)

    def _curve(self, orders: FloatArray) -> FloatArray:
        at = np.ascontiguousarray(orders, dtype=float).tobytes()
        return np.asarray(np.sum([steps * _curve_of(event, at) for event, steps in self.kinds], axis=0))

    def _curve_work(self, rate: float = 1.0) -> float:
        return CURVE * len(self.kinds)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.dominating()._log_profile(epsilons)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        if sign < 0:
            return [(pair, 1) for pair in self.played(direction)]
        return [(self.dominating(), 1)]

    def played(self, direction: Direction) -> list[SamePair]:
        """The pair of each kind that is played at every step."""
        return [SamePair(event, steps, direction, self.order) for event, steps in self.kinds]

    def gap(self) -> float:
        """By how much the divergences of both pairs differ at the order, in the worse direction."""
        above, found = self.dominating(), 0.0
        for direction in DIRECTIONS:
            if (most := above.divergence(direction, self.order)) == math.inf:
                return math.inf
            played = (pair.divergence(direction, self.order) for pair in self.played(direction))
            found = max(found, most - sum(played))
        return found

    def dominating(self) -> DominatingPair:
        """The pair whose profile is the value of the game; every grid asks for it."""
        known: DominatingPair | None = self.__dict__.get("_dominating")
        if known is None:
            known = DominatingPair(self, *block_values(Composition(self.kinds), self._delta(), self.tolerance))
            reach, step = known.games[0].window()
            if reach / step <= KEPT:
                object.__setattr__(self, "_dominating", known)
        return known

    def work(self) -> tuple[Hashable, float]:
        """What the game of that pair is known by where work is counted, and its operations."""
        return block_work(Composition(self.kinds), self._delta(), self.tolerance)

    def begun(self) -> tuple[Hashable, float]:
        """The same before that game is sized."""
        return begun_work(Composition(self.kinds), self._delta())

    def _delta(self) -> float:
        return min(max(math.exp(self.log_lost), 1e-250), 0.5)


@lru_cache(maxsize=8192)
def _curve_of(event: Event, orders: bytes) -> FloatArray:
    """Both directions of a run, and blocks of other sizes, ask for the same orders."""
    return event._curve(np.frombuffer(orders))


class DominatingPair(Event):
    """The pair whose profile is what bounds a game's value from above."""

    block: ScreeningBlock
    games: tuple[GameValue, GameValue]

    def __init__(self, block: ScreeningBlock, remove: GameValue, add: GameValue) -> None:
        self.__dict__.update(adjacency=block.adjacency, block=block, games=(remove, add))

    def __repr__(self) -> str:
        return f"<pair above {sum(steps for _, steps in self.block.kinds)} screenings>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.block._curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        remove, add = self.games
        return remove.log_upper(epsilons), add.log_upper(epsilons)

    def divergence(self, direction: Direction, order: float) -> float:
        """About its Rényi divergence; infinite where the grid is too coarse to tell."""
        game = self.games[DIRECTIONS.index(direction)]
        reach, step = game.window()
        if not 2 * step * max(order, 1.0) < COARSE:
            return math.inf
        grid = Grid(2 * step, order - 1)
        found = bracket(self, direction, Interval(-reach, reach), 0.0, grid, both=False)
        return found.measures[0].log_total / grid.tilt


class SamePair(Event):
    """The costliest pair of a family played at every step: `up` happens a binomial number of times."""

    steps: int
    one: tuple[float, float, float, float]
    losses: FloatArray
    log_p: FloatArray
    sticks: tuple[Sticks, Sticks]

    def __init__(self, event: Event, steps: int, direction: Direction, order: float) -> None:
        pair = largest_pair(event, direction, order)
        n, up, down = steps, float(pair.up), float(pair.down)
        if not min(pair.masses()[:2]) > 0.0:
            raise ToleranceUnreachable(f"an outcome of {event!r} has no probability; accepted: more noise")
        log_p, log_rest = (math.log(each) for each in pair.masses()[:2])
        ups = np.arange(n + 1.0)
        losses = ups * up - (n - ups) * down
        logs = gammaln(n + 1.0) - gammaln(ups + 1.0) - gammaln(n - ups + 1.0) + ups * log_p + (n - ups) * log_rest
        kept = np.maximum(logs, logs - losses) > LEAST
        # what is left out only lowers the profile; logarithms err by a few roundings of their largest parts
        error = 1e-12 + 64 * ULP * (float(gammaln(n + 1.0)) + n * (abs(log_p) + abs(log_rest) + up + down))
        self.__dict__.update(
            adjacency=event.adjacency,
            steps=steps,
            one=(up, down, log_p, log_rest),
            losses=losses[kept],
            log_p=logs[kept],
            sticks=both_sticks(losses[kept], logs[kept]),
            _profile_error=error,
        )

    def __repr__(self) -> str:
        return f"<pair below {self.steps} screenings>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        return np.where(np.isinf(orders), float(np.max(np.abs(self.losses))), math.nan)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        forward, backward = self.sticks
        return forward.log_value(epsilons), backward.log_value(epsilons)

    def divergence(self, direction: Direction, order: float) -> float:
        """Its Rényi divergence."""
        return float(divergence_of_pairs([self], direction, np.array([order]))[0])


def divergence_of_pairs(pairs: Sequence[SamePair], direction: Direction, orders: FloatArray) -> FloatArray:
    """Rényi divergences of all pairs together at finite orders above 1: those of one step, times their number."""
    up, down, log_p, log_rest = np.array([pair.one for pair in pairs]).T
    steps, power = np.array([float(pair.steps) for pair in pairs]), (orders - 1, -orders)[DIRECTIONS.index(direction)]
    logs = np.logaddexp(log_p + power[:, None] * up, log_rest - power[:, None] * down)
    return np.asarray(logs @ steps / (orders - 1))


def log_of_sum(logs: FloatArray) -> FloatArray:
    """Log of the sum of exponentials along the last axis, about: in a quarter of the time of ``logaddexp.reduce``."""
    most = np.max(logs, axis=-1, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        return np.asarray(np.log(np.sum(np.exp(logs - most), axis=-1)) + most[..., 0])


class Aim(NamedTuple):
    """What blocks are made for.

    Attributes
    ----------
    order : float
        Rényi order near which the price is found, in (1, inf).
    log_lost : float
        Log of what is far less than the delta that is asked.
    room : float
        By how much bounds on epsilon may differ for the blocks' sake: as the divergences at that order, about.
    tolerance : float
        The tolerance of the whole.
    between : bool
        Whether lengths between those that are four times as long each are tried: a single price is.
    wanted : float
        By how much the bounds on epsilon may differ for any sake, where games that lose far more are refused unplayed.
    """

    order: float
    log_lost: float
    room: float
    tolerance: float
    between: bool = False
    wanted: float = math.inf

    def block(self, *kinds: tuple[Event, int]) -> ScreeningBlock:
        return ScreeningBlock(kinds, self.order, self.log_lost, GAME_SHARE * self.tolerance)


class Cut(NamedTuple):
    """All screenings of one kind as blocks, and by how much the bounds on them are apart."""

    blocks: list[tuple[Event, int]]
    gap: float


def cut_in_one(event: Event, count: int, aim: Aim) -> Cut:
    """One block."""
    block = aim.block((event, count))
    return Cut([(block, 1)], block.gap())


def cut_in_several(event: Event, count: int, aim: Aim, share: float = 0.0) -> Cut | None:
    """Blocks of about one length; None where only one would be near enough.

    With a `share` of the patience, which longer blocks than the first may take, the nearest that were found.
    """
    steps = rung = LEAST_BLOCK
    gaps, nearest = [math.inf], None
    while count >= LEAST_BLOCKS * steps:
        blocks = count // steps
        length, longer = divmod(count, blocks)
        block = aim.block((event, length))
        try:
            within = share_patience(share) if nearest else nullcontext()
            with within, followed_by(partial(_longer, block, count / steps, gaps, aim)):
                gap = blocks * block.gap()
        except OutOfPatience:
            if nearest is None:
                raise
            break
        found: list[tuple[Event, int]] = [(block, blocks - longer), (aim.block((event, length + 1)), longer)]
        cut = Cut(found if longer else found[:1], gap)
        if gap <= aim.room:
            return cut
        if share and (nearest is None or gap < nearest.gap):
            nearest = cut
        if steps < rung:  # a length between that did not do
            steps = rung
            continue
        gaps.append(gap)
        steps, rung = _enough(steps, gaps, aim.room) if aim.between else 4 * steps, 4 * steps
    return nearest


def _enough(steps: int, gaps: list[float], room: float) -> int:
    """The next length: four times the last, or less where that may do, as gaps fall."""
    fall = gaps[-1] / gaps[-2] if len(gaps) > 2 else FALL
    wanted = SAFELY * room / gaps[-1]
    if not (0.0 < fall < 1.0 and wanted > math.pow(fall, MOST_SHORTER)):
        return 4 * steps
    return math.ceil(steps * math.pow(4.0, max(math.log(wanted) / math.log(fall), LEAST_LONGER)))


def _longer(block: ScreeningBlock, blocks: float, gaps: list[float], aim: Aim) -> float:
    """Operations of longer blocks than one that is refused, or of one game of all, where gaps fall on as they did."""
    work, longer, found = block.work()[1], 1.0, 0.0
    if len(gaps) < 2:  # nothing is known of them
        return 0.0
    fall = min(gaps[-1] / gaps[-2], 1.0) if len(gaps) > 2 else FALL
    gap = gaps[-1] * fall
    while gap > aim.room:
        longer, gap = 4 * longer, gap * fall
        if blocks < LEAST_BLOCKS * longer:
            return found + work * math.pow(blocks, 1.5)
        found += work * math.pow(longer, 1.5)
    return found


def foresee_blocks(blocks: Sequence[ScreeningBlock], kinds: int) -> None:
    """Refuse the games of all blocks before the first is played: once each is begun it is known what it takes."""
    what, composed = f"blocks of {kinds} kinds of screening", COMPOSED * kinds
    with followed_by(lambda: unsized_work(sum(steps for _, steps in block.kinds) for block in blocks)):
        foresee([*(block.begun() for block in blocks), (None, composed)], what)
    if len(blocks) <= FORESEEN:
        for made, operations in [block.begun() for block in blocks]:
            spend(operations, what, once=made)
        games = [(game, work - begun) for (game, work), (_, begun) in ((each.work(), each.begun()) for each in blocks)]
        with followed_by(lambda: AFTER_FIRST * math.fsum(work for _, work in games)):
            foresee([*games, (None, composed)], what)


def unsized_work(steps: Iterable[int]) -> float:
    """Operations of games before they are sized, and of what follows them: each step goes over its window.

    That is about as wide as the root of their number.
    """
    return (1 + AFTER_FIRST) * UNSIZED * math.fsum(math.pow(each, 1.5) for each in steps)


def near_order(order: float | None) -> float | None:
    """One of few orders that is near, so that blocks, and what is composed of them, serve several epsilons."""
    if order is None or not 1.0 < order < math.inf:
        return order
    return 1 + math.pow(ORDERS, round(math.log(order - 1) / math.log(ORDERS)))
