"""Several votes at the votes that were cast, where an adversary may choose another neighbour at every step.

P is the label's distribution at the votes that were cast, Q_v that of a neighbour (`accountant.events.votes_seen`).
Which point is asked next may depend on the labels so far, and with it how the changed voter votes there: a game
(notebooks/mathematics.md, Data-dependent costs),

    W_0(u) = max(1 - u, 0),   W_j(u) = max over v of sum_o P(o) W_{j-1}(u Q_v(o)/P(o)).

With V = W - (1 - u)_+ a step is V_j(u) = max_v [ V_1^v(u) + sum_o P(o) V_{j-1}(u Q_v(o)/P(o)) ], of which all terms are
positive. On a grid of log u interpolation linear in u is above, and every test below. P comes first; the value of the
reversed pairs is u W(1/u) - u + 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.votes_seen import SeenVotes
from accountant.numerics.kernel import FloatArray
from accountant.patience import fits, spend
from accountant.tight.cover_kernels import IntArray
from accountant.tight.game_kernels import TEST
from accountant.tight.game_setup import round_down
from accountant.tight.game_value import GameValue, PlayedGame
from accountant.tight.vote_kernels import LINE, extend_lines, fill_ends, raise_values
from accountant.tight.vote_tables import LEADERS, SLACK, Kind, Table, attack_of, kind_of, tabulate

__all__ = ["VoteKinds", "solve_in_order", "solve_votes", "work_of"]

VoteKinds = tuple[tuple[SeenVotes, int], ...]
"""Different votes that were cast, and how often each."""

LEAST_POINTS = 64
"""Cells up to what is reached, at least."""

MAX_POINTS = 2**20
"""Grid points of all states together that one game may take."""

VALUE, TEST_OUTCOME, CELL = 0.2, 5.0, 15.0
"""Operations (see `accountant.patience`) at a grid point: of a weight, of an outcome of a test, and beside them."""

LARGEST_STEP = 1.0
"""Of a grid of losses."""

FINE = 16.0
"""A step is at least so many times the error of losses."""

BEYOND = 12.0
"""Nats by which what lies beyond the grid is below delta over the number of votes."""

HALVINGS = 10
"""Times that the first step is halved at most."""

STALL = 0.7
"""The next grid is tried where the last was narrower than before by this factor."""

ORDERS = np.geomspace(1e-4, 1e4, 49)
"""Rényi orders less 1, over the deviation, that size windows."""


class Setup(NamedTuple):
    """A game but for its grid."""

    kinds: tuple[Kind, ...]
    counts: tuple[int, ...]
    deviation: float
    b: FloatArray
    curves: FloatArray
    ends: FloatArray
    floor: float

    @property
    def steps(self) -> int:
        return sum(self.counts)

    @property
    def states(self) -> int:
        return math.prod(count + 1 for count in self.counts)

    def largest(self, left: tuple[int, ...]) -> FloatArray:
        """The largest losses to the left of x = 0 and to the right, where so many are left of each kind."""
        forward, backward = (np.asarray(left, dtype=float) @ self.ends).tolist()
        return np.array([backward, forward]) * (1 + 1e-12)

    def reach(self, left: tuple[int, ...]) -> float:
        """The x beyond which delta is negligible."""
        costs = np.asarray(left) @ self.curves
        least = float(self.ends.max()) / LEAST_POINTS
        return max(float(np.min(costs - self.floor / self.b, initial=math.inf)), least)

    def states_in_order(self) -> Iterator[tuple[int, ...]]:
        """All but that of no vote, each after those that it is made of."""
        found = sorted(product(*(range(count + 1) for count in self.counts)), key=sum)
        return iter(found[1:])


@lru_cache(maxsize=64)
def _set_up(kinds: VoteKinds, delta: float, attack: bool = False) -> Setup:
    found = tuple(attack_of(event) if attack else kind_of(event) for event, _ in kinds)
    counts = tuple(count for _, count in kinds)
    steps = sum(counts)
    deviation = math.sqrt(sum(count * kind.deviation**2 for kind, count in zip(found, counts, strict=True)) / steps)
    b = ORDERS / max(deviation, 1e-200)
    b = b[(1 + b > 1) & (b < 1e15)]
    curves = np.stack([kind.divergences(1 + b) for kind in found])
    ends = np.stack([kind.largest for kind in found])
    return Setup(found, counts, deviation, b, curves, ends, math.log(delta) - math.log(steps) - BEYOND)


def solve_votes(kinds: VoteKinds, delta: float, tolerance: float, most: float = math.inf) -> GameValue:
    """Certified bounds on the value of several votes that were cast, in any order, P first.

    Parameters
    ----------
    kinds : tuple of (SeenVotes, int)
    delta : float
        Where the bounds are to be tight.
    tolerance : float
        Width of the interval of epsilon at `delta`, relative to epsilon or to the loss's standard deviation, up to
        which grids become finer.
    most : float
        Operations that a finer grid may take; the first one is played anyhow.

    Raises
    ------
    ToleranceUnreachable
        It takes too much work; `work_of` says how much.
    """
    setup = _prepare(kinds, delta)
    scale = max(setup.deviation * math.sqrt(setup.steps), 1e-200)
    step, width = _first_step(setup, tolerance), math.inf
    while True:
        game = _play_within(kinds, delta, round_down(step))
        before, width = width, game.width(0, delta, scale)
        if width <= tolerance or width > STALL * before:
            break
        step /= 2
        if (work := _work(setup, step)) > most or not fits(work):
            break
    return GameValue(game, game, 0)


def work_of(kinds: VoteKinds, delta: float, tolerance: float) -> float:
    """Operations that a game takes on its first grid, and some more; infinite if it is too large."""
    setup = _prepare(kinds, delta)
    return 1.5 * _work(setup, _first_step(setup, tolerance))


def solve_in_order(kinds: VoteKinds, delta: float, tolerance: float) -> GameValue | None:
    """The same where the order of the votes is fixed, the costliest first; None if there is no patience for it.

    Who chooses among a few neighbours as labels come, but no order, is one of those who may choose both: bounds from
    below are bounds on the value of the whole game. Those from above are not.
    """
    try:
        setup = _prepare(kinds, delta, attack=True)
    except OutOfPatience:
        return None
    step = round_down(_first_step(setup, tolerance))
    work = _work(setup, step, in_order=True)
    if work == math.inf or not fits(work):
        return None
    spend(work, f"{setup.steps} votes that were cast, in order", once=(kinds, delta, step, "in order"))
    game = _play_in_order(kinds, delta, step)
    return GameValue(game, game, 0)


@lru_cache(maxsize=8)
def _play_in_order(kinds: VoteKinds, delta: float, step: float) -> PlayedGame:
    """One vote after another, the cheapest last."""
    setup = _set_up(kinds, delta, attack=True)
    last = int(_cells(setup, setup.counts, step)[0].max())
    longest = float(setup.ends.max())
    pad = min(math.ceil(longest / step) + 2, 2 * last + 3) + 4
    left, value, wrong = [0] * len(kinds), Board(last, pad, step, 0.0).nothing(), 0.0
    for index in np.argsort([kind.deviation for kind in setup.kinds], kind="stable").tolist():
        table = tabulate(setup.kinds[index], step, last)
        wrong = max(wrong, table.error)
        board = Board(last, pad, step, setup.steps * wrong)
        for _ in range(setup.counts[index]):
            left[index] += 1
            value = board.play(value, table, *_cells(setup, tuple(left), step, last))
    upper, tests = board.both_ways(value)
    end = float(setup.largest(setup.counts).max())
    return PlayedGame(step, upper, tests, setup.steps * wrong + 1e-13, np.ones(1), np.full(1, math.inf), end)


def _prepare(kinds: VoteKinds, delta: float, attack: bool = False) -> Setup:
    for event, _ in kinds:
        _, many, outcomes = (attack_of(event).pairs if attack else event._pairs()).losses.shape
        work = 200.0 * ORDERS.size * min(many, LEADERS) * outcomes
        spend(work, "divergences of neighbours", once=(event, "divergences", attack))
        if not attack:
            kind_of(event)
    return _set_up(kinds, delta, attack)


def _whole(setup: Setup) -> float:
    """How far losses of the whole game matter."""
    return min(setup.reach(setup.counts), float(setup.largest(setup.counts).max()))


def _first_step(setup: Setup, tolerance: float) -> float:
    """The coarsest step, halved again and again, by which interpolation adds less than that share to the variance."""
    step, room = min(_whole(setup) / LEAST_POINTS, LARGEST_STEP), 1.5 * tolerance * setup.deviation**2 * setup.steps
    for _ in range(HALVINGS):
        added = sum(count * kind.added(step) for kind, count in zip(setup.kinds, setup.counts, strict=True))
        if not added > room:
            break
        step /= 2
    return step


def _cells(setup: Setup, left: tuple[int, ...], step: float, last: int | None = None) -> tuple[IntArray, IntArray]:
    """How many cells matter to the left and right of x = 0, and from which on there is nothing."""
    ends = np.ceil(setup.largest(left) / step) + 1
    cells = np.minimum(math.ceil(min(setup.reach(left), 1e18) / step) + 1, ends)
    if last is not None:
        cells, ends = np.minimum(cells, last), np.minimum(ends, 4.0 * last + 100.0)
    return cells.astype(np.int64), ends.astype(np.int64)


def _work(setup: Setup, step: float, in_order: bool = False) -> float:
    """Operations that a game takes on a grid; infinite if it has too many points, or losses are not known as finely."""
    wrong = max(float(np.max(kind.pairs.loss_errors)) for kind in setup.kinds)
    if not step > FINE * wrong:
        return math.inf
    whole = _whole(setup) / step
    if not whole * (setup.states if len(setup.counts) > 1 and not in_order else 2) <= MAX_POINTS:
        return math.inf
    total = 0.0
    for index, kind in enumerate(setup.kinds):
        _, neighbours, outcomes = kind.pairs.losses.shape
        taps = neighbours * min(2.0 * outcomes, 2.0 * float(kind.largest.max()) / step + 4)
        each = VALUE * taps + neighbours + CELL + TEST_OUTCOME * outcomes
        count = setup.counts[index]
        moves = count if in_order else setup.states * count / (count + 1)
        total += moves * (each * 1.5 * whole + 3e4)
        total += 80.0 * neighbours * outcomes * min(float(kind.largest.max()) / step + 2, whole)
    return total


def _play_within(kinds: VoteKinds, delta: float, step: float) -> PlayedGame:
    setup = _set_up(kinds, delta)
    work = _work(setup, step)
    if work == math.inf:
        raise ToleranceUnreachable(f"a game of {setup.steps} votes takes too fine a grid")
    spend(work, f"a game of {setup.steps} votes that were cast", once=(kinds, delta, step))
    return _play(kinds, delta, step)


@lru_cache(maxsize=32)
def _play(kinds: VoteKinds, delta: float, step: float) -> PlayedGame:
    """The game on a grid."""
    setup = _set_up(kinds, delta)
    last = int(_cells(setup, setup.counts, step)[0].max())
    tables = [tabulate(kind, step, last) for kind in setup.kinds]
    error = setup.steps * max(table.error for table in tables)
    pad = max(int(np.abs(table.shifts).max()) for table in tables) + 2
    board = Board(last, pad, step, error)
    start = tuple(0 for _ in setup.counts)
    known = {start: board.nothing()}
    for state in setup.states_in_order():
        windows = _cells(setup, state, step, last)
        found: Value | None = None
        for index, table in enumerate(tables):
            if state[index] == 0:
                continue
            before = tuple(many - (place == index) for place, many in enumerate(state))
            trial = board.play(known[before], table, *windows)
            found = trial if found is None else found.better(trial)
        assert found is not None
        known[state] = found
        if len(state) == 1:
            del known[(state[0] - 1,)]
    upper, tests = board.both_ways(known[setup.counts])
    end = float(setup.largest(setup.counts).max())
    return PlayedGame(step, upper, tests, error + 1e-13, np.ones(1), np.full(1, math.inf), end)


class Value(NamedTuple):
    """Bounds on the value of what is left: upper ends, on a grid that is padded, and tests."""

    upper: FloatArray
    lines: NDArray[np.void]

    def better(self, other: Value) -> Value:
        """Of two that may be chosen."""
        lines = np.where(other.lines["value"] > self.lines["value"], other.lines, self.lines)
        return Value(np.maximum(self.upper, other.upper), lines)


class Board:
    """The grid from -last to last, and what plays on it."""

    def __init__(self, last: int, pad: int, step: float, error: float) -> None:
        self.last, self.pad, self.error = last, pad, error
        self.x = np.arange(-last, last + 1) * step
        self.decay = np.exp(-np.abs(self.x))

    def nothing(self) -> Value:
        """Of no step: tests say whether u < 1."""
        lines = np.zeros(2 * self.last + 1, LINE)
        lines["slope"] = np.where(self.x < 0.0, self.decay, 0.0)
        lines["missed"] = lines["kept"] = np.where(self.x < 0.0, 0.0, 1.0)
        return Value(np.zeros(lines.size + 2 * self.pad), lines)

    def play(self, before: Value, table: Table, window: IntArray, ends: IntArray) -> Value:
        """One more step before what is left."""
        middle, (left, right) = self.last + self.pad, window.tolist()
        upper, lines = np.zeros(before.upper.size), self.nothing().lines
        policy = np.zeros(upper.size, np.int64)
        raise_values(before.upper, upper, policy, *table[:4], middle, left, right, SLACK)
        fill_ends(upper, middle, window, ends)
        policy = policy[self.pad : self.pad + lines.size]
        tests = table.outcomes, table.outcome_shifts, table.least_gains
        extend_lines(before.lines, lines, policy, *tests, self.last, left, right, self.decay, self.error)
        return Value(upper, lines)

    def both_ways(self, value: Value) -> tuple[FloatArray, NDArray[np.void]]:
        """Upper values and tests at x >= 0, of P against Q and of Q against P."""
        right, left = slice(self.last, None), slice(self.last, None, -1)
        inside = value.upper[self.pad : value.upper.size - self.pad]
        x = self.x[right]
        with np.errstate(divide="ignore"):
            backward = np.exp(np.minimum(np.log(inside[left]) + x, 0.0))  # W <= 1
            lines = value.lines
            tests = np.zeros((2, x.size), TEST)
            for name in ("value", "missed", "slope", "kept"):
                tests[name][0] = lines[name][right]
            for name, own in (("value", "value"), ("slope", "missed")):
                # of a test that is worth something u P(not S) is at most 1
                tests[name][1] = np.exp(np.minimum(np.log(np.maximum(lines[own][left], 0.0)) + x, 1.0))
            tests["kept"][1], tests["missed"][1] = 1.0, 1.0
        return np.stack([inside[right], backward * (1 + 1e-13)]), tests
