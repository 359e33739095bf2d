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

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray
from accountant.tight.cover_kernels import IntArray, Lattice, make_covers
from accountant.tight.game_kernels import TEST, Player, play
from accountant.tight.pairs import INPUT_ERROR, TINY, Family, Pairs, play_tables, share_of_peak
from accountant.tight.stretches import Stretches, choices_of, cut_in_stretches

__all__ = [
    "EDGE",
    "Tree",
    "Windows",
    "gather",
    "make_lattice",
    "never",
    "play_steps",
]


MOST_GROUPS = 8192
"""Pairs that are told apart; more are gathered under pairs that dominate them."""

EDGE = 2
"""Grid points beyond the longest shift."""

RARE = 0.1, 1.6
"""By how much pairs of little variance may differ in a group, and where there are too many of them."""


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
    limit = tree.stretches.limit(step, last)
    lattice = make_lattice(limit, last, step)
    upper = np.zeros((2, 2, lattice.size(last)))
    tests = np.empty(upper.shape, TEST)
    tests[0, :, : lattice.base + int(windows.reach[0]) + 1] = never(())
    end = play(upper, tests, *windows, tree.player(step, limit, last), lattice, slack)
    inside = slice(lattice.base, lattice.base + last + 1)
    return upper[end, :, inside].copy(), tests[end, :, inside].copy()


@dataclass(frozen=True, eq=False)
class Tree:
    """Pairs that dominate a family, each with a probability, and a member that is played next below each.

    `slack` is what a step may give away.
    """

    corners: Pairs
    share: FloatArray
    members: Pairs
    slack: float

    @cached_property
    def stretches(self) -> Stretches:
        """Of these pairs; only a game that is played needs them."""
        return cut_in_stretches(self.corners, self.share, self.slack)

    def player(self, step: float, limit: int, last: int) -> Player:
        """For shifts of at most `limit` steps, and windows of at most `last`."""
        choices = choices_of([self.stretches], step, limit, last)
        covers, played = make_covers(choices, last + 1), play_tables(self.members, step, limit)
        return Player(np.zeros((2, last + 1), np.int64), covers, choices, played)


def make_lattice(limit: int, last: int, step: float) -> Lattice:
    """Grid points up to `last` that shifts of at most `limit` steps may leave."""
    base = limit + EDGE
    with np.errstate(over="ignore"):
        growth = np.minimum(np.expm1(step * np.arange(last + 1)), 1e300)
    return Lattice(base, step, np.exp(-step * np.arange(base + 1)), growth)


def gather(family: Family, loss: float) -> Tree:
    """Pairs that dominate a family, in stretches, and a member next below each.

    The profile of a pair is a tent in u: 0 at e^-down and at e^up, and at 1 the total variation. So the pair of
    the largest `up` and `down`, its peak cut to the largest total variation, dominates all pairs of a group.

    Neighbours that hardly differ are a group: where the variance is largest that may cost a share `loss` of it,
    elsewhere more, and if there are too many groups still more, before it is more everywhere.
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
        if starts.size <= MOST_GROUPS:
            break
        rare, loss = (2 * rare, loss) if rare < rarest else (rare, 2 * loss)
    members = Pairs(*np.maximum(np.asarray(family.above) * (1 + INPUT_ERROR), TINY))
    up, down, most = np.maximum.reduceat(np.stack([*members, members.variation()]), starts, axis=1)
    corners = Pairs(up, down)
    costliest = np.lexsort((variance, group))[np.append(starts[1:], group.size) - 1]
    picked = np.asarray(family.played)[:, costliest]
    chosen = np.where(picked > TINY, picked * (1 - INPUT_ERROR), 0.0)
    return Tree(corners, share_of_peak(corners, most), Pairs(*chosen), loss)
