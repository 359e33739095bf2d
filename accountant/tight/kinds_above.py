"""The game of several kinds of screening from above only, in one compiled loop over the numbers that are left.

A block of screenings needs no tests: its pair is the one whose profile is the upper bound (see
`accountant.tight.screening_blocks`). `accountant.tight.mixed_game` says which game it is, and keeps tests as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.game_kernels import TILE, TRIALS, IntArray, Lattice, raise_tile
from accountant.tight.screening_game import Family, Windows, gather, make_lattice

__all__ = ["bound_kinds", "close_window", "raise_window", "values_kept"]


@Kernel
def raise_window(
    old: FloatArray,
    new: FloatArray,
    chords: NDArray[np.void],
    shifts: IntArray,
    policies: IntArray,
    lattice: Lattice,
    known: int,
    slack: float,
) -> None:
    """Raise the values `new`, by direction and grid point, up to `known`, to those of one more step before `old`."""
    base = lattice.base
    trials, trial, stack = np.empty((TRIALS, TILE)), np.empty(TILE), np.empty(64, np.int64)
    for d in range(2):
        for i in range(0, known + 1, TILE):
            best = trial[: min(TILE, known + 1 - i)]
            policy = policies[d, i : i + best.size]
            raise_tile(old[d], base + i, chords[d], shifts[d], lattice.growth, i, slack, best, policy, trials, stack)
            for t in range(best.size):
                new[d, base + i + t] = max(new[d, base + i + t], best[t])


@Kernel
def close_window(new: FloatArray, lattice: Lattice, known: int, end: int) -> None:
    """Fill values beyond the window, up to `known`, and left of 0; from the largest loss, `end`, on there are none."""
    base = lattice.base
    for d in range(2):
        new[d, base + end : base + known + 1] = 0.0
        new[d, base + known + 1 :] = new[d, base + known]
    for d in range(2):
        for k in range(1, base + 1):
            new[d, base - k] = lattice.decay[k] * new[1 - d, base + min(k, known)]


@Kernel
def bound_states(
    values: FloatArray,
    counts: IntArray,
    windows: IntArray,
    starts: IntArray,
    chords: NDArray[np.void],
    shifts: IntArray,
    policies: IntArray,
    lattice: Lattice,
    slack: float,
) -> int:
    """Fill `values` state by state; return the index of the last one.

    Axes of `values` are (state, direction, grid point); of the first kind only two numbers that are left are held, by
    turns. `windows` has the reach and the end of each state, as `accountant.tight.screening_game.Windows`. Nodes
    `starts[k]` up to `starts[k + 1]` of `chords` and `shifts` are the tree of kind k.
    """
    kinds, half = counts.size, values.shape[0] // 2
    left = np.zeros(kinds, np.int64)
    now = 0
    for index in range(windows.shape[0]):
        if index > 0:
            kind = kinds - 1
            while left[kind] == counts[kind]:
                left[kind] = 0
                kind -= 1
            left[kind] += 1
        now = (left[0] % 2) * half + index % half
        new, known, end = values[now], windows[index, 0], windows[index, 1]
        new[:] = 0.0
        stride = half
        for k in range(kinds):
            if k > 0:
                stride //= counts[k] + 1
            if left[k] == 0:
                continue
            old = values[now - stride if k > 0 else (now + half) % values.shape[0]]
            first, beyond = starts[k], starts[k + 1]
            raise_window(old, new, chords[:, first:beyond], shifts[:, first:beyond], policies[k], lattice, known, slack)
        close_window(new, lattice, known, end)
    return now


def values_kept(counts: Sequence[int]) -> float:
    """States whose values are held at once."""
    return 2 * math.prod(count + 1.0 for count in counts[1:])


def bound_kinds(families: Sequence[Family], windows: Windows, step: float, slack: float) -> FloatArray:
    """Upper values of the whole game, by direction and grid point: those of `mixed_game.play_kinds`."""
    trees, last = [gather(family, slack) for family in families], int(windows.reach.flat[-1])
    limit = max(tree.limit(step, last) for tree in trees)
    lattice = make_lattice(limit, last, step)
    tables = [tree.tabulate(step, limit, last) for tree in trees]
    sizes = [table.shifts.shape[1] for table in tables]
    policies = np.empty((len(tables), 2, last + 1), np.int64)
    policies[:] = np.array([table.outcomes.shape[1] for table in tables])[:, None, None]
    counts = np.array(windows.reach.shape) - 1
    values = np.zeros((int(values_kept(counts.tolist())), 2, lattice.size(last)))
    end = bound_states(
        values,
        counts,
        np.stack([windows.reach.ravel(), windows.ends.ravel()], axis=-1),
        np.cumsum([0, *sizes]),
        np.concatenate([table.chords for table in tables], axis=1),
        np.concatenate([table.shifts for table in tables], axis=1),
        policies,
        lattice,
        slack,
    )
    return values[end, :, lattice.base : lattice.base + last + 1].copy()
