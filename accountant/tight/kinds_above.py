"""The game of several kinds of screening from above only, in one compiled loop over the numbers that are left.

A block of screenings needs no tests: its pair is the one whose profile is the upper bound (see
`accountant.tight.screening_blocks`). `accountant.tight.mixed_game` says which game it is, and keeps tests as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.cover_kernels import PACE, Choices, Covers, IntArray, Lattice, make_covers, raise_window
from accountant.tight.pairs import Family
from accountant.tight.screening_game import Windows, gather, make_lattice
from accountant.tight.stretches import choices_of

__all__ = ["bound_kinds", "close_window", "values_kept"]


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
    choices: Choices,
    covers: Covers,
    lattice: Lattice,
    slack: float,
) -> int:
    """Fill `values` state by state; return the index of the last one.

    Axes of `values` are (state, direction, grid point); of the first kind only two numbers that are left are held, by
    turns. `windows` has the reach and the end of each state, as `accountant.tight.screening_game.Windows`.
    """
    kinds, half = counts.size, values.shape[0] // 2
    left, unplayed = np.zeros(kinds, np.int64), np.zeros((2, 0), np.int64)
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
            raise_window(
                old, new, choices, k, covers, unplayed, lattice, known, (index, float(np.sum(left)), PACE), slack
            )
        close_window(new, lattice, known, end)
    return now


def values_kept(counts: Sequence[int]) -> float:
    """States whose values are held at once."""
    return 2 * math.prod(count + 1.0 for count in counts[1:])


def bound_kinds(families: Sequence[Family], windows: Windows, step: float, slack: float) -> FloatArray:
    """Upper values of the whole game, by direction and grid point: those of `mixed_game.play_kinds`."""
    lines, last = [gather(family, slack).stretches for family in families], int(windows.reach.flat[-1])
    limit = max(each.limit(step, last) for each in lines)
    lattice, choices = make_lattice(limit, last, step), choices_of(lines, step, limit, last)
    counts = np.array(windows.reach.shape) - 1
    values = np.zeros((int(values_kept(counts.tolist())), 2, lattice.size(last)))
    end = bound_states(
        values,
        counts,
        np.stack([windows.reach.ravel(), windows.ends.ravel()], axis=-1),
        choices,
        make_covers(choices, last + 1),
        lattice,
        slack,
    )
    return values[end, :, lattice.base : lattice.base + last + 1].copy()
