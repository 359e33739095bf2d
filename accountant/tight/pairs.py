"""Two-point pairs of distributions, and what a step that plays one of them is on a grid.

A pair's log P/Q is `up` at one outcome and -`down` at the other: its step moves u to u e^-up or to u e^down, and u is
a martingale under P (`accountant.tight.screening_game`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray
from accountant.tight.cover_kernels import CHORD, STEP_ROUNDING, IntArray
from accountant.tight.game_kernels import OUTCOME, Played

__all__ = ["INPUT_ERROR", "TINY", "Family", "Pairs", "chord_tables", "gain", "longest_shift", "play_tables", "shares"]

INPUT_ERROR = 1e-11
"""Relative error allowed to log-ratios of pairs; the events' own stay below 1e-12."""

TINY = 1e-280
"""Smaller log-ratios may have underflowed."""

BEYOND = 12.0
"""Nats beyond 0 up to which shifts from the end of the window are told apart."""


class Pairs(NamedTuple):
    """Two-point pairs: log P/Q is `up` at one outcome and -`down` at the other."""

    up: FloatArray
    down: FloatArray

    def both_ways(self) -> Pairs:
        """The pairs (P, Q) in the first row and (Q, P) in the second."""
        return Pairs(np.stack([self.up, self.down]), np.stack([self.down, self.up]))

    def masses(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Probabilities of the outcomes (up, down) under P, then under Q: two equations say E_Q[P/Q] = 1."""
        both = gain(self.up + self.down)
        with np.errstate(invalid="ignore"):
            up = np.where(both > 0, gain(self.down) / both, 0.5)
            down = np.where(both > 0, gain(self.up) / both, 0.5)
        return up, down * np.exp(-self.down), up * np.exp(-self.up), down

    def variation(self) -> FloatArray:
        """Total variation distances of P and Q."""
        both = gain(self.up + self.down)
        return np.divide(gain(self.up) * gain(self.down), both, out=np.zeros_like(both), where=both > 0)

    def deviation(self, cap: float = math.inf) -> float:
        """Largest standard deviation of the privacy loss under P, losses being cut at `cap`."""
        p, rest, _, _ = self.masses()
        apart = np.minimum(self.up, cap) + np.minimum(self.down, cap)
        return float(np.max(np.sqrt(p * rest) * apart, initial=0.0))


class Family(NamedTuple):
    """Pairs that together dominate a family, and members of it next below each: the same, unless there are too many."""

    above: Pairs
    played: Pairs


def gain(t: FloatArray | float) -> FloatArray:
    """1 - e^-t."""
    return np.asarray(-np.expm1(-np.asarray(t)))


def shares(low: FloatArray, high: FloatArray, step: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Weights of two grid points between them, `low` above the first and `high` below the second, linear in u."""
    return gain(high) / gain(step), np.exp(-high) * gain(low) / gain(step)


def share_of_peak(pairs: Pairs, peaks: FloatArray) -> FloatArray:
    """The probability with which pairs have that total variation distance, nothing happening otherwise; at most 1."""
    most = pairs.variation()
    share = np.divide(peaks, most, out=np.ones_like(most), where=most > 0)
    return np.asarray(np.minimum(share * (1 + STEP_ROUNDING), 1.0))


def longest_shift(loss: float, step: float, last: int) -> int:
    """The longest shift, in steps; one to far beyond the window is cut, as V is larger nearer to x = 0."""
    return int(min(loss / step + 1.0, last + 1.0 + min(BEYOND / step, last + 1.0)))


def chord_tables(
    pairs: Pairs, share: FloatArray, step: float, limit: int, last: int
) -> tuple[NDArray[np.void], IntArray]:
    """What `fill_chords` wants: a CHORD record for each pair, and the whole steps (down, up) to its outcomes.

    Left of -`last` the upper bound is e^x times a constant: what a shift that is cut misses there is a factor.
    """
    p, rest, _, _ = pairs.masses()
    (far, beyond), (ahead, over) = (_cells(length, step, limit) for length in pairs)
    below, above = shares(step - beyond, beyond, step), shares(over, step - over, step)
    chords = np.empty(p.shape, CHORD)
    further = pairs.up - (limit + 1.0) * step if limit > 2 * last + 1 else np.zeros_like(p)
    fallen = p * np.exp(-np.clip(further * (1 - 1e-12), 0.0, 600.0))
    weights = {
        "below": fallen * below[0],
        "below_next": fallen * below[1],
        "here": (1 - share) / share,
        "above": rest * above[0],
        "above_next": rest * above[1],
        "gap": p,
    }
    for name, weight in weights.items():
        chords[name] = share * weight * (1 + 2 * STEP_ROUNDING)
    # p (1 - e^(x - up)) = p (gain(up) - e^-up (e^x - 1))
    chords["gap_start"] = gain(pairs.up) * (1 + STEP_ROUNDING)
    chords["gap_slope"] = np.exp(-pairs.up) * (1 - STEP_ROUNDING)
    return chords, np.stack([far, ahead], axis=-1)


def play_tables(members: Pairs, step: float, limit: int) -> Played:
    """Pairs that are played: two outcomes of each, and shifts of at most `limit` steps to the grid point below each."""
    pairs = members.both_ways()
    p, rest, q, keep = pairs.masses()
    far, ahead = _cells(pairs.up, step, limit)[0], _cells(pairs.down, step, limit)[0]
    # tiny log-ratios keep their digits: how far an outcome lies from the upper grid point, and from the lower one
    back, on = far * step - pairs.up, pairs.down - ahead * step
    outcomes = np.empty((*p.shape, 2), OUTCOME)
    for i, (share, other, lower, upper) in enumerate(((p, q, back + step, back), (rest, keep, on, on - step))):
        outcomes[..., i]["p"], outcomes[..., i]["q"] = share, other
        for name, off in (("lower", lower), ("upper", upper)):
            outcomes[..., i][f"bend_{name}"] = np.where(off < 600.0, np.expm1(np.minimum(off, 600.0)), math.inf)
            outcomes[..., i][f"slope_{name}"] = share * np.exp(np.minimum(off, 600.0))
    return Played(outcomes, np.stack([-far - 1, ahead], axis=-1), np.array(members))


def _cells(length: FloatArray, step: float, limit: int) -> tuple[IntArray, FloatArray]:
    """Whole steps in a length, at most `limit`, and the rest, 0 if cut; exact, as `step` has few bits."""
    cells = np.minimum(np.floor(length / step), limit)
    cells -= length < cells * step  # the quotient was rounded up
    rest = length - cells * step
    cells += (rest >= step) & (cells < limit)
    rest = length - cells * step
    return cells.astype(np.int64), np.where(rest < step, rest, 0.0)
