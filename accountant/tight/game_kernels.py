"""Compiled loops of one step of the family game; `accountant.tight.screening_game` says what they compute."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.cover_kernels import (
    STEP_ROUNDING,
    Choices,
    Covers,
    IntArray,
    Lattice,
    raise_window,
    record,
)

__all__ = [
    "LOST",
    "OUTCOME",
    "TEST",
    "UNSURE",
    "Played",
    "Player",
    "extend_left",
    "play",
    "play_step",
    "take_better",
]

OUTCOME = record("p", "q", "bend_lower", "bend_upper", "slope_lower", "slope_upper")
"""One outcome of a pair: its probabilities under P and Q; e^off - 1 and p e^off, where off is how far it lies from the
grid point below it, and from the one above."""

TEST = record("value", "accepted", "missed", "slope", "kept")
"""A test S at u: a lower bound on P(S) - u Q(S), then P(S), P(not S), u Q(S), or Q(S) where x < 0, and Q(not S)."""

LOST = 1e-306
"""More than products of one step that are below 1e-307 lose, all together: `missed` and `slope` are raised by it."""

UNSURE = 1e-297
"""More than P(S) and Q(not S) may be wrong by after 1e8 steps, besides their relative errors."""


class Played(NamedTuple):
    """A family's pairs that are played, by direction: their outcomes, the shifts to the grid point below each, and the
    log-ratios of the first one."""

    outcomes: NDArray[np.void]
    shifts: IntArray
    falls: FloatArray


class Player(NamedTuple):
    """What a family is played with: the pair at every grid point, covers of its stretches, and tables of both."""

    policy: IntArray
    covers: Covers
    choices: Choices
    played: Played


@Kernel
def extend_tests(
    old: NDArray[np.void],
    new: NDArray[np.void],
    policy: IntArray,
    outcomes: NDArray[np.void],
    shifts: IntArray,
    falls: FloatArray,
    lattice: Lattice,
    reach: int,
    slope_error: float,
) -> None:
    """The adversary plays `policy` once, then goes on with the tests that `old` holds up to `reach` on either side.

    A test at u = e^x_k is a record TEST: masses that only ever add up, and a value P(S) - u Q(S), less 1 - u where
    x_k < 0, that is rounded down. As a line in u it stays below W everywhere, so it serves at other points too. After
    either outcome the adversary goes on with the better of the tests at the two grid points around it, or with the
    test that always says yes, or no.

    Products underflow on coarse grids, and a later step may move what was lost by e^600: P(not S) and u Q(S) are
    rounded up and the value pays for it (notebooks/mathematics.md, Screening game).
    """
    base, decay = lattice.base, lattice.decay
    for i in range(policy.size):
        node = policy[i]
        value, accepted, missed, slope, kept = 0.0, 0.0, 0.0, 0.0, 0.0
        for o in range(2):
            at = i + shifts[node, o]
            outcome = outcomes[node, o]
            height, c, tilted = 0.0, 0, 0.0
            for k in range(2):
                bend = outcome.bend_lower if k == 0 else outcome.bend_upper
                if bend == math.inf or abs(at + k) > reach:
                    continue
                test = old[base + at + k]
                change = bend * (decay[-at - k] * test.kept if at + k < 0 else -test.slope)
                trial = test.value + change - slope_error * abs(change) - UNSURE * abs(bend)
                if at + k == 0 and bend < 0.0:
                    trial += bend * (1.0 + slope_error)  # from W to V
                if trial > height:
                    height, c, tilted = trial, base + at + k, outcome.slope_lower if k == 0 else outcome.slope_upper
            if height > 0.0:
                value += outcome.p * height
                accepted += outcome.p * old[c].accepted
                missed += outcome.p * old[c].missed
                slope += (tilted if at >= 0 else tilted * decay[base - c]) * old[c].slope
                kept += outcome.q * old[c].kept
            elif at < 0:  # W >= 1 - u
                accepted += outcome.p
                slope += outcome.slope_upper * decay[-at - 1]
            else:  # W >= 0
                missed += outcome.p
                kept += outcome.q
        gap = falls[node] - i * lattice.step
        if gap > 0.0:
            value -= outcomes[node, 0].p * math.expm1(-gap)  # W = V + (1 - u)_+
        value, missed, slope = value - 2.0 * LOST, missed + LOST, slope + LOST
        if not value > 0.0:
            value, accepted, missed, slope, kept = 0.0, 0.0, 1.0, 0.0, 1.0
        found = new[base + i]
        found.value, found.accepted, found.missed = value * (1.0 - STEP_ROUNDING), accepted, missed
        found.slope, found.kept = slope, kept


@Kernel
def extend_left(
    upper: FloatArray, tests: NDArray[np.void], lattice: Lattice, known: int, wanted: int, direction: int
) -> None:
    """Give one direction its values left of x = 0, from the other direction, and its values beyond the known window.

    Beyond the window the upper bound keeps the value at the edge, as V falls on either side of 0; there are no tests.
    """
    base, decay, other = lattice.base, lattice.decay, 1 - direction
    end = min(base + wanted + base, upper.shape[1])
    upper[direction, base + known + 1 : end] = upper[direction, base + known]
    for k in range(1, base + 1):
        upper[direction, base - k] = decay[k] * upper[other, base + min(k, known)]
    for k in range(1, min(base, known) + 1):
        test, own = tests[other, base + k], tests[direction, base - k]
        # the complement of the other direction's test, with P and Q exchanged; Q(S) for the slope, as u may underflow
        own.value, own.accepted, own.missed = decay[k] * test.value, test.kept, decay[k] * test.slope
        own.slope, own.kept = test.missed, test.accepted


@Kernel
def play_step(
    old: FloatArray,
    old_tests: NDArray[np.void],
    new: FloatArray,
    new_tests: NDArray[np.void],
    player: Player,
    lattice: Lattice,
    reach: int,
    known: int,
    turn: tuple[int, float, float],
    slope_error: float,
    slack: float,
) -> None:
    """One more step before what is left: fill the grid points up to `known` of both directions.

    `old` was extended by `extend_left`, from the grid points up to `reach`. Where covers are kept so are the
    pairs that are played; `turn` is as for `raise_window`.
    """
    base, policy, played = lattice.base, player.policy, player.played
    for d in range(2):
        new[d, base : base + known + 1] = 0.0
    raise_window(old, new, player.choices, 0, player.covers, policy, lattice, known, turn, slack)
    for d in range(2):
        outcomes, shifts, falls = played.outcomes[d], played.shifts[d], played.falls[d]
        extend_tests(
            old_tests[d], new_tests[d], policy[d, : known + 1], outcomes, shifts, falls, lattice, reach, slope_error
        )


@Kernel
def play(
    upper: FloatArray,
    tests: NDArray[np.void],
    windows: IntArray,
    ends: IntArray,
    player: Player,
    lattice: Lattice,
    slack: float,
) -> int:
    """Play one step for each entry of `windows` but the first; return which of the two buffers holds the end.

    Axes of `upper` and `tests` are (buffer, direction, grid point). `windows` are the numbers of grid points that each
    step takes into account; they never fall. From the grid points `ends` on nothing is left to win after each step.
    """
    slope_error = windows.size * STEP_ROUNDING
    now = 0
    for j in range(1, windows.size):
        for d in range(2):
            extend_left(upper[now], tests[now], lattice, windows[j - 1], windows[j], d)
        after, reach, known = 1 - now, windows[j - 1], windows[j]
        old, new, turn = (upper[now], tests[now]), (upper[after], tests[after]), (j, float(j), 1.0)
        play_step(old[0], old[1], new[0], new[1], player, lattice, reach, known, turn, slope_error, slack)
        for d in range(2):
            for k in range(lattice.base + ends[j], lattice.base + known + 1):
                upper[after, d, k] = 0.0
        now = after
    return now


@Kernel
def take_better(upper: FloatArray, tests: NDArray[np.void], others: FloatArray, other_tests: NDArray[np.void]) -> None:
    """Keep the larger of two upper bounds, and of two tests the better one: what may choose has both."""
    for d in range(upper.shape[0]):
        for i in range(upper.shape[1]):
            upper[d, i] = max(upper[d, i], others[d, i])
            if other_tests[d, i].value > tests[d, i].value:
                tests[d, i] = other_tests[d, i]
