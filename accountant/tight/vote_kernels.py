"""Compiled loops of one step of the game of votes that were cast (`accountant.tight.vote_game`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.cover_kernels import IntArray, record
from accountant.tight.game_kernels import LOST, UNSURE

__all__ = ["LINE", "OUTCOME", "extend_lines", "fill_ends", "raise_values"]

LINE = record("value", "missed", "slope", "kept")
"""A test S at u: a lower bound on V = P(S) - u Q(S) - (1 - u)_+, then P(not S), u Q(S) and Q(not S)."""

OUTCOME = record("p", "q", "error", "bend_lower", "bend_upper", "rise_lower", "rise_upper")
"""An outcome of a pair: P's probability, rounded down, and Q's, and how wrong its loss may be; e^off - 1 and e^off,
where off is how far it lies from the grid point below it, and from the one above."""

TILE = 256
"""Neighbouring grid points that are filled together."""

ROUNDING = 2.3e-16
"""Above what one operation errs by."""

LEAST = 1e-300
"""More than a product that underflows."""


@Kernel
def raise_values(
    old: FloatArray,
    new: FloatArray,
    policy: IntArray,
    first: IntArray,
    shifts: IntArray,
    weights: FloatArray,
    gains: FloatArray,
    middle: int,
    left: int,
    right: int,
    slack: float,
) -> None:
    """Fill upper bounds on the value after one more step, from `left` cells below x = 0 to `right` above it.

    Pair v gains `gains[v]` by itself, and finds the weights `first[v]` to `first[v + 1]` at so many cells from where it
    is. `policy` gets the best pair. Values are raised by a share `slack`.
    """
    near, longest = (gains.shape[1] - 1) // 2, 0
    for v in range(first.size - 1):
        longest = max(longest, first[v + 1] - first[v])
    rounding = 1.0 + slack + (longest + 8.0) * ROUNDING
    trial, best = np.empty(TILE), np.empty(TILE)
    for start in range(middle - left, middle + right + 1, TILE):
        n = min(TILE, middle + right + 1 - start)
        best[:] = -1.0
        for v in range(first.size - 1):
            trial[:] = 0.0
            for j in range(first[v], first[v + 1]):
                weight, part = weights[j], old[start + shifts[j] : start + shifts[j] + n]
                for t in range(n):
                    trial[t] += weight * part[t]
            for k in range(max(start - middle, -near), min(start - middle + n - 1, near) + 1):
                trial[middle + k - start] += gains[v, near + k]
            for t in range(n):
                if trial[t] > best[t]:
                    best[t], policy[start + t] = trial[t], v
        for t in range(n):
            new[start + t] = best[t] * rounding


@Kernel
def fill_ends(values: FloatArray, middle: int, window: IntArray, ends: IntArray) -> None:
    """Nothing is left from `ends` on, to the left and to the right; elsewhere the value at the edge is kept."""
    for side in range(2):
        sign = 2 * side - 1
        edge = middle + sign * window[side]
        last = values.size - 1 if side == 1 else 0
        for i in range(edge, last + sign, sign):
            values[i] = 0.0 if sign * (i - middle) >= ends[side] else values[edge]


@Kernel
def extend_lines(
    old: NDArray[np.void],
    new: NDArray[np.void],
    policy: IntArray,
    outcomes: NDArray[np.void],
    shifts: IntArray,
    gains: FloatArray,
    middle: int,
    left: int,
    right: int,
    decay: FloatArray,
    slope_error: float,
) -> None:
    """The adversary plays `policy` once, then goes on with the tests that `old` holds.

    After each outcome he goes on with the better of the tests at the two grid points around it, or with the one that
    says whether u < 1. `decay` is e^-|x| by grid point.

    Products underflow, and what was lost grows back where the line of a lower grid point is taken again and again:
    P(not S) and u Q(S) are raised by more than that, the value pays, and Q(not S) is that of the line with this slope
    (notebooks/mathematics.md, Screening game).
    """
    near, size, many = (gains.shape[1] - 1) // 2, old.size, outcomes.shape[1]
    keep, lost = 1.0 - (2.0 * many + 8.0) * ROUNDING, many * LOST
    for i in range(middle - left, middle + right + 1):
        v = policy[i]
        value, missed, slope, kept = 0.0, 0.0, 0.0, 0.0
        for o in range(many):
            outcome, at = outcomes[v, o], i + shifts[v, o]
            if outcome.q == 0.0 and outcome.p == 0.0:
                continue
            height, c, rise = 0.0, -1, 0.0
            for k in range(2):
                if not 0 <= at + k < size:
                    continue
                line = old[at + k]
                tilt = line.slope if at >= middle else line.kept * decay[at + k]
                bend = outcome.bend_lower if k == 0 else outcome.bend_upper
                change = -bend * tilt if at >= middle else bend * tilt
                trial = line.value + change - slope_error * abs(change) - outcome.error * abs(tilt)
                trial -= LEAST + UNSURE * abs(bend)
                if trial > height:
                    height, c = trial, at + k
                    rise = outcome.rise_lower if k == 0 else outcome.rise_upper
            if c >= 0:
                value += outcome.p * height
                missed += outcome.p * old[c].missed
                slope += outcome.p * rise * old[c].slope
                kept += outcome.q * old[c].kept
            elif at >= middle:  # always no
                missed += outcome.p
                kept += outcome.q
            elif at >= 0:  # always yes
                slope += outcome.p * outcome.rise_lower * decay[at]
        if -near <= i - middle <= near:
            value += gains[v, near + i - middle]
        value, missed, slope = value - 2.0 * lost, missed + lost, slope + lost
        if i >= middle:
            kept -= lost * decay[i]
        elif decay[i] > lost:
            kept -= lost / decay[i]
        else:
            value = 0.0
        if not value > 0.0:  # the test that says whether u < 1
            value, missed = 0.0, 1.0 if i >= middle else 0.0
            slope, kept = (0.0, 1.0) if i >= middle else (decay[i], 0.0)
        found = new[i]
        found.value, found.missed, found.slope, found.kept = value * keep, missed, slope, kept
