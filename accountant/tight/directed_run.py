"""One direction of a composition on a grid of losses: its measures, what they cost to make, and what they answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.event import Event
from accountant.numerics.roots import Interval, exponentiate, find_crossing
from accountant.patience import spend
from accountant.tight.flat_ends import split_log_delta, take_lower
from accountant.tight.fourier import WINDOW_NATS, ComposedLoss, HockeyStick, LossSum, Remainder
from accountant.tight.loss_grid import (
    MAX_POINTS,
    Bracket,
    bracket,
    largest_atom,
    loss_range,
    require_cells,
    unreachable,
    whole_reach,
)
from accountant.tight.near_releases import Between, find_near
from accountant.tight.polygon import ULP, Grid

__all__ = ["DirectedRun", "Entries", "Question", "RemainderTooWide", "Remainders"]

TRANSFORM, POWER, MIXTURE, CELL, OUTCOME, ANSWER, GAME, LOOKS = 2.0, 4.0, 5.0, 200.0, 60.0, 200.0, 1500.0, 600.0
"""Operations (see `accountant.patience`): of a transform, by point and doubling; of a power, by point and doubling of
the count; of a mixture of two, by point; of a cell of an event's measure beside its profile; of an outcome, where they
are finitely many; of what is asked of a composed measure, by point; of the search for an epsilon where a game comes
last, beside that. LOOKS are the values of a profile that say how far it reaches."""

BEGUN, PIECE = 2e6, 8e5
"""Operations of any composition, and of any event of it, however small the grid."""

DEEPEST = -2000.0
"""Log of a delta from which on losses are not followed further."""

NEAR = 0.8
"""Share of the tolerance up to which the bounds on a remainder may differ."""


Entries = Sequence[tuple[Event, int]]
Remainders = Mapping[Direction, Remainder]


class Question(NamedTuple):
    """What is asked, epsilon at a delta or delta at an epsilon; and how wide the answer may be.

    A delta below `least` may be known as widely as one of that size.
    """

    delta: float | None
    epsilon: float
    tolerance: float
    least: float = 0.0

    def width(self, answer: Interval, spread: float) -> float:
        """How wide an interval is: relative to delta, or to epsilon or a hundredth of `spread`."""
        least = max(self.least, 1e-300 / self.tolerance) if self.delta is None else 0.01 * spread
        return (answer.upper - answer.lower) / max(answer.upper, least)


class RemainderTooWide(ToleranceUnreachable):
    """The bounds on what remains are too far apart for the tolerance, on any grid."""


@dataclass
class DirectedRun:
    """One direction of a run: its grid, composed measures (one above, if `both` one below), and the answer so far.

    `near` says how near two releases are that stand for those between them (`accountant.tight.near_releases`).
    """

    entries: Entries
    direction: Direction
    remainder: Remainder
    grid: Grid
    spread: float
    log_delta: float
    measures: list[ComposedLoss] = field(default_factory=list)
    log_infinite: float = -math.inf
    both: bool = True
    tolerance: float | None = None
    near: float = 0.0
    found: Interval = field(default_factory=lambda: Interval(0.0, math.inf))

    def bound(self, epsilon: float, sign: int) -> float:
        """Log of delta(epsilon), from above (sign 1) or below (sign -1)."""
        if sign < 0:
            return split_log_delta(self.measures[1], epsilon, self.remainder, -1) if self.both else -math.inf
        finite = split_log_delta(self.measures[0], epsilon, self.remainder, 1)
        return min(0.0, float(np.logaddexp(finite, self.log_infinite)))

    def remainder_decides(self, question: Question) -> bool:
        """Whether the bounds on the remainder alone are further apart than was asked, about."""
        if isinstance(self.remainder, HockeyStick):
            return False
        low_end = take_lower(self.remainder)
        if question.delta is None:
            high, low = (
                split_log_delta(self.measures[0], question.epsilon, each, 1) for each in (self.remainder, low_end)
            )
            return high - low > NEAR * question.tolerance
        room = NEAR * question.tolerance * max(self.found.upper, 0.01 * self.spread)
        at = max(self.found.upper - room, 0.0)
        return split_log_delta(self.measures[0], at, low_end, 1) < math.log(question.delta)

    def _cut_too_early(self, question: Question) -> bool:
        """Whether what counts as infinite is most of the answer: delta is far smaller than was thought."""
        if question.delta is not None or self.log_delta < DEEPEST:
            return False
        least = math.log(max(question.least, 1e-300)) + math.log(question.tolerance / 8)
        finite = split_log_delta(self.measures[0], question.epsilon, self.remainder, 1)
        return self.log_infinite > max(finite + math.log(question.tolerance / 8), least)

    def compose(self) -> None:
        """Compose on the present grid, in a window that holds all but e^-WINDOW_NATS."""
        sigmas = self.spread / self.grid.step
        wanted = max(min(26 * sigmas + 4096, float(MAX_POINTS)), 16 * sigmas)
        points = self._compose(wanted)
        while (needed := max(measure.needed for measure in self.measures)) > points:
            points = self._compose(1.1 * needed)
        self.spread = needed * self.grid.step / (2 * math.sqrt(2 * WINDOW_NATS))

    def solve(self, question: Question) -> None:
        """Compose on the present grid and answer the question."""
        self.compose()
        while self._cut_too_early(question):
            self.log_delta = 2 * self.log_delta - 20
            self.compose()
        if question.delta is not None:
            if not isinstance(self.remainder, HockeyStick):
                points = self.measures[0].losses.size
                self._spend(points, GAME * points * len(self.measures))
            found = self._epsilon(math.log(question.delta), 0.02 * question.tolerance)
            self.found = Interval(max(found.lower, self.found.lower), min(found.upper, self.found.upper))
            return
        self.found = self.delta_bounds(question.epsilon)

    def delta_bounds(self, epsilon: float) -> Interval:
        """Bounds on delta at an epsilon, also at others than the grid was made for."""
        low, high = (self.bound(epsilon, sign) for sign in (-1, 1))
        # exp turns the rounding of a logarithm into a relative error
        low, high = (log + sign * 4 * ULP * (1 + abs(log)) for log, sign in ((max(low, -1e4), -1), (high, 1)))
        return exponentiate(low, high)

    def _compose(self, wanted: float) -> int:
        """Compose in a window of at least so many points; returns how many it has."""
        from scipy.fft import next_fast_len

        if not wanted <= MAX_POINTS:
            raise unreachable(f"the {self.direction} direction", wanted, self.grid.step)
        points = 2 * int(next_fast_len(math.ceil(wanted / 2), real=True))
        log_count = math.log(max(sum(count for _, count in self.entries), 1))
        ends = self.log_delta - log_count - 16, -log_count - 25
        between, entries = find_near(self.entries, self.near, self.log_delta, log_count)
        pieces = [each for event, count in entries for each in self._pieces(event, count, ends[0])]
        self._spend(points, BEGUN + sum(PIECE + LOOKS * piece._profile_work() for piece, _, _ in pieces))
        parts = [(piece, self._reach(piece, ends), many, signs) for piece, many, signs in pieces]
        self._spend(points, self._work(points, parts, between))
        sums = [LossSum(self.grid, points, self.spread) for _ in range(1 + self.both)]
        log_infinite, log_whole = -math.inf, 0.0
        ends_of_near, found = {each for one in between for each in (one.low, one.high)}, {}
        for piece, reach, many, signs in parts:
            offset = largest_atom(piece, self.direction, self.grid.step)
            measured = bracket(piece, self.direction, reach, offset, self.grid, -1 in signs)
            if piece in ends_of_near:
                found[piece] = measured
            for sign, total, masses in zip((1, -1), sums, measured.measures, strict=False):
                if sign in signs:
                    total.add(masses, many)
            if 1 in signs:
                log_infinite = _with_infinite(log_infinite, measured, many)
                log_whole += many * measured.log_whole
        for one in between:
            low, high = found[one.low], found[one.high]
            one.add_to(sums, self.direction, low.measures, high.measures)
            larger = max(low, high, key=lambda each: each.log_infinite)
            log_infinite = _with_infinite(log_infinite, larger, sum(one.counts))
            log_whole += sum(one.counts) * max(low.log_whole, high.log_whole)
        # both at once, as what was composed before stays where this is refused; the others' masses come to more than 1
        self.measures, self.log_infinite = [total.compose() for total in sums], log_infinite + log_whole
        return points

    def _pieces(self, event: Event, count: int, log_lost: float) -> list[tuple[Event, int, tuple[int, ...]]]:
        """What stands for `count` of an event, how often, and on which sides: above (1), below (-1) or both."""
        sides = (1, -1)[: 1 + self.both]
        pieces: list[tuple[Event, int, tuple[int, ...]]] = []
        for sign in sides:
            found = event._surrogates(self.direction, self.grid.step, log_lost, sign)
            if found is None:
                return [(event, count, sides)]
            pieces += [(piece, many * count, (sign,)) for piece, many in found]
        return pieces

    def _reach(self, event: Event, ends: tuple[float, float]) -> Interval:
        """Losses that matter of one event, if they are not too many on the present grid."""
        reach = loss_range(event, self.direction, self.grid.tilt, *ends)
        require_cells(event, reach, self.grid.step)
        return reach

    def _work(
        self, points: int, parts: Sequence[tuple[Event, Interval, int, Sequence[int]]], between: Sequence[Between]
    ) -> float:
        """Operations that it takes to compose them, and to answer one question."""
        transform = TRANSFORM * math.log2(points) * points
        total = (1 + self.both) * (transform + ANSWER * points)
        for event, reach, count, signs in parts:
            low, high = whole_reach(reach, self.grid.step)
            cells = (high - low) / self.grid.step + 2
            total += cells * (2 * event._profile_work() + len(signs) * CELL)
            outcomes = event._outcomes() if -1 in signs else None
            total += 0.0 if outcomes is None else OUTCOME * outcomes.losses.size
            total += len(signs) * (transform + POWER * math.log2(2 * count) * points)
        for each in between:
            powers = sum(POWER * math.log2(count) + MIXTURE for count in each.counts)
            total += (1 + self.both) * (2 * transform + powers * points)
        return total

    def _spend(self, points: int, operations: float) -> None:
        spend(operations, f"a grid of {points} losses", self.tolerance)

    def _epsilon(self, target: float, fine: float) -> Interval:
        """Bounds on the epsilon at which log delta is `target`, each found to a share `fine` of it."""

        def above(e: float) -> float:
            return self.bound(e, 1) - target * (1 + 4e-16)

        def below(e: float) -> float:
            return self.bound(e, -1) - target * (1 - 4e-16)

        top = max(float(self.measures[0].losses[-1]), 0.0) + self.grid.step
        if not isinstance(self.remainder, HockeyStick) and above(top) > 0:
            if above(1e300) > 0:
                return Interval(0.0, math.inf)
            while top < 1e300 and above(top) > 0:
                top *= 2
        upper = find_crossing(above, 0.0, top, fine).upper
        if not 0 < upper < math.inf:
            return Interval(0.0, upper)
        # far below the saddle point the errors swallow the lower bound: look for it from above
        gap = fine * upper
        while gap < upper and below(upper - gap) <= 0:
            gap *= 2
        return Interval(find_crossing(below, max(upper - gap, 0.0), upper, fine).lower, upper)


def _with_infinite(log_infinite: float, measured: Bracket, many: int) -> float:
    """The log of what is at infinity, with what copies of an event have there."""
    return float(np.logaddexp(log_infinite, measured.log_infinite + math.log(many)))
