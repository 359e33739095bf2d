"""One step of the family game on a grid: upper bound by branch and bound, lower bound by tests.

Let W be the value of the game that remains (`accountant.tight.screening_families`), x = log u, V = W - max(1 - u, 0).
A pair of two-point chords with log-ratios b > 0 and -a < 0 moves u to u e^-b or to u e^a, and u is a martingale
under P: P(u e^-b) = (1 - e^-a)/(1 - e^-(a+b)) =: p. So its value is the chord of W over [u e^-b, u e^a], taken
at u. As W is convex, the chord grows with a and with b. In V it is a sum of non-negative terms,

    V_j(x) = max over pairs  p V_{j-1}(x - b) + (1 - p) V_{j-1}(x + a) + p (1 - e^(x-b))_+      for x >= 0,

and for x < 0 it is e^x times the same of the reversed pairs at -x, as W(u) = 1 - u + u W_reversed(1/u). Hence two
arrays, each the values at x >= 0 of one direction; a stretch to the left of x = 0 is taken from the other direction.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray
from accountant.tight.game_kernels import CHORD, OUTCOME, STEP_ROUNDING, TEST, GamePairs, IntArray, Lattice, play

__all__ = [
    "EDGE",
    "INPUT_ERROR",
    "STEP_ROUNDING",
    "Family",
    "Pairs",
    "Windows",
    "gain",
    "gather",
    "longest_shift",
    "make_lattice",
    "never",
    "play_steps",
    "shares",
]


INPUT_ERROR = 1e-11
"""Relative error allowed to log-ratios of pairs; the events' own stay below 1e-12."""

TINY = 1e-280
"""Smaller log-ratios may have underflowed."""

MAX_LEAVES = 8192
"""Pairs that are told apart; more are gathered under pairs that dominate them."""

EDGE = 2
"""Grid points beyond the longest shift."""

BEYOND = 12.0
"""Nats beyond 0 up to which shifts from the end of the window are told apart."""

RARE = 0.1, 1.6
"""By how much pairs of little variance may differ under one leaf, and where there are too many of them."""


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


def shares(low: FloatArray, high: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """Weights of two grid points between them, `low` above the first and `high` below the second, linear in u."""
    return gain(high) / gain(step), np.exp(-high) * gain(low) / gain(step)


def never(shape: tuple[int, ...]) -> NDArray[np.void]:
    """Tests that always say no."""
    tests = np.zeros(shape, TEST)
    tests["missed"] = tests["kept"] = 1.0
    return tests


class Windows(NamedTuple):
    """Grid points above 0 by the number of steps that are left, of each kind of screening if there are several.

    `reach` are the numbers of those that matter; they never fall with a count. From `ends` on there is nothing to win.
    """

    reach: IntArray
    ends: IntArray


def play_steps(family: Family, windows: Windows, step: float, slack: float) -> tuple[FloatArray, NDArray[np.void]]:
    """Upper values and tests after the last step, by direction and grid point.

    `step` has at most 20 bits, so that its multiples are exact. `slack` is the share of a step's variance that may be
    given away, half of it of epsilon.
    """
    tree, last = gather(family, slack), int(windows.reach[-1])
    limit = tree.limit(step, last)
    lattice = make_lattice(limit, last, step)
    upper = np.zeros((2, 2, lattice.size(last)))
    tests = np.empty(upper.shape, TEST)
    tests[0, :, : lattice.base + int(windows.reach[0]) + 1] = never(())
    end = play(upper, tests, *windows, tree.tabulate(step, limit, last), lattice, slack)
    inside = slice(lattice.base, lattice.base + last + 1)
    return upper[end, :, inside].copy(), tests[end, :, inside].copy()


class Tree(NamedTuple):
    """Pairs that dominate a family, by `gather`, and members below its leaves."""

    corners: Pairs
    share: FloatArray
    members: Pairs

    def limit(self, step: float, last: int) -> int:
        """The longest shift, in steps."""
        return longest_shift(float(np.max(self.corners)), step, last)

    def tabulate(self, step: float, limit: int, last: int) -> GamePairs:
        """Tables of shifts of at most `limit` steps, and of weights, for windows of at most `last` steps."""
        return GamePairs(
            *_chord_tables(self.corners.both_ways(), self.share, step, limit, last),
            *_test_tables(self.members.both_ways(), step, limit),
            np.array(self.members),
        )

    def with_own_tests(self, chords: GamePairs, step: float, limit: int) -> GamePairs:
        """The same chords, and tests by these members."""
        outcomes, shifts = _test_tables(self.members.both_ways(), step, limit)
        return chords._replace(outcomes=outcomes, test_shifts=shifts, falls=np.array(self.members))


def longest_shift(loss: float, step: float, last: int) -> int:
    """The longest shift, in steps; one to far beyond the window is cut, as V is larger nearer to x = 0."""
    return int(min(loss / step + 1.0, last + 1.0 + min(BEYOND / step, last + 1.0)))


def make_lattice(limit: int, last: int, step: float) -> Lattice:
    """Grid points up to `last` that shifts of at most `limit` steps may leave."""
    base = limit + EDGE
    with np.errstate(over="ignore"):
        growth = np.minimum(np.expm1(step * np.arange(last + 1)), 1e300)
    return Lattice(base, step, np.exp(-step * np.arange(base + 1)), growth)


def gather(family: Family, loss: float) -> Tree:
    """A binary tree of chords that dominate a family, and a member below each leaf.

    Node k is above nodes 2k and 2k + 1; the last half are leaves. The chord of a node is that of a pair, with a
    probability that is returned second; otherwise nothing happens.

    The profile of a pair is a tent in u: 0 at e^-down and at e^up, and at 1 the total variation. So the pair of
    the largest `up` and `down`, its peak cut to the largest total variation, dominates all pairs below a node.

    Neighbours that hardly differ share a leaf: where the variance is largest that may cost a share `loss` of it,
    elsewhere more, and if there are too many leaves still more, before it is more everywhere.
    """
    p, rest, _, _ = family.above.masses()
    variance = np.maximum(p * rest * (family.above.up + family.above.down) ** 2, 1e-300)
    logs = np.log(np.maximum(family.above, TINY))
    distance = np.abs(np.diff(logs, axis=1)).sum(axis=0)
    rare, rarest = RARE
    while True:
        with np.errstate(over="ignore"):
            allowed = np.clip(loss * variance.max() / variance[1:], loss, max(rare, loss))
        group = np.floor(np.concatenate([[0.0], np.cumsum(distance / allowed)]))
        starts = np.flatnonzero(np.diff(group, prepend=-1.0))
        if starts.size <= MAX_LEAVES:
            break
        rare, loss = (2 * rare, loss) if rare < rarest else (rare, 2 * loss)
    leaves = 1 << (starts.size - 1).bit_length()
    nodes = np.full((3, 2 * leaves), TINY)
    members = Pairs(*np.maximum(np.asarray(family.above) * (1 + INPUT_ERROR), TINY))
    longest = np.maximum.reduceat(np.stack([*members, members.variation()]), starts, axis=1)
    nodes[:, leaves : leaves + starts.size] = longest
    for size in (leaves >> k for k in range(leaves.bit_length() - 1)):
        nodes[:, size // 2 : size] = np.maximum(nodes[:, size : 2 * size : 2], nodes[:, size + 1 : 2 * size : 2])
    corners = Pairs(*nodes[:2])
    most = corners.variation()
    share = np.minimum(np.divide(nodes[2], most, out=np.ones_like(most), where=most > 0) * (1 + STEP_ROUNDING), 1.0)
    costliest = np.lexsort((variance, group))[np.append(starts[1:], group.size) - 1]
    chosen = np.zeros((2, leaves))
    picked = np.asarray(family.played)[:, costliest]
    chosen[:, : starts.size] = np.where(picked > TINY, picked * (1 - INPUT_ERROR), 0.0)
    return Tree(corners, share, Pairs(*chosen))


def _chord_tables(
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


def _test_tables(pairs: Pairs, step: float, limit: int) -> tuple[NDArray[np.void], IntArray]:
    """What `extend_tests` wants: two OUTCOME records for each pair, and shifts to the grid point below each."""
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
    return outcomes, np.stack([-far - 1, ahead], axis=-1)


def _cells(length: FloatArray, step: float, limit: int) -> tuple[IntArray, FloatArray]:
    """Whole steps in a length, at most `limit`, and the rest, 0 if cut; exact, as `step` has few bits."""
    cells = np.minimum(np.floor(length / step), limit)
    cells -= length < cells * step  # the quotient was rounded up
    rest = length - cells * step
    cells += (rest >= step) & (cells < limit)
    rest = length - cells * step
    return cells.astype(np.int64), np.where(rest < step, rest, 0.0)
