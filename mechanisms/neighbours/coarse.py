"""Rows in one byte a number, which tell that most inner products are too small to matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Booleans, Floats, Integers, Singles
from mechanisms.neighbours.kernels import compile_strictly

__all__ = ["CoarseRows"]

LEVELS = 127
"""Largest size of a number of a row, in steps."""

MARGIN = 1e-9
"""Covers rounding in double precision, relative to the product of the lengths."""

BLOCK = 1 << 18
"""Bytes of rows that are held in the processor's cache while several queries pass."""

AHEAD, LINE = 32, 64
"""Rows that are fetched together, and bytes that memory hands over at a time."""


class CoarseRows:
    """Rows by slot, each rounded to 127 steps of its own to either side, with the length of what rounding left out.

    Let x be a row and a X what it is rounded to, with whole X; let q be a query and b Q the same for it. Then

        x.q <= a b X.Q + |x - aX| |q| + |aX| |q - bQ|

    by the inequality of Cauchy and Schwarz, and X.Q is computed exactly. A row takes a quarter of its memory in single
    precision, and 24 bytes.

    Parameters
    ----------
    width : int
    """

    def __init__(self, width: int) -> None:
        # 127 * steps * width stays below 2^31, so that sums of whole numbers are exact
        self._steps = min((2**31 - 1) // (LEVELS * max(width, 1)), 2**15 - 1)
        if self._steps < 1:
            raise ac.ParameterError(f"{width} features with hashing; accepted: at most {(2**31 - 1) // LEVELS}")
        self._rows = np.empty((0, width), np.int8)
        self._about = np.empty((0, 3))

    def insert(self, slots: Integers, rows: Singles) -> None:
        """Store rows at these slots, which may be new."""
        room, size = len(self._rows), 1 + int(slots.max(initial=-1))
        if size > room:
            more = max(size, room + room // 4) - room
            self._rows = np.concatenate([self._rows, np.zeros((more, self._rows.shape[1]), np.int8)])
            self._about = np.concatenate([self._about, np.zeros((more, 3))])
        compile_strictly(_round)(rows, slots, LEVELS, self._rows, self._about)

    def reach(self, queries: Singles, slots: Sequence[Integers], least: Sequence[Floats]) -> list[Integers]:
        """Of some sorted slots for each query those whose inner product may be as large as `least` demands of each."""
        rounded, about = np.empty(queries.shape, np.int16), np.empty((len(queries), 3))
        compile_strictly(_round)(queries, np.arange(len(queries)), self._steps, rounded, about)
        ends = np.cumsum([0, *map(len, slots)])
        every, bars = np.concatenate(slots), np.concatenate(least)
        kept = np.empty(len(every), bool)
        compile_strictly(_compare)(every, bars, ends, (self._rows, self._about), (rounded, about), kept)
        return [every[low:high][kept[low:high]] for low, high in pairwise(ends)]


def _round(rows: Singles, slots: Integers, steps: int, rounded: NDArray[Any], about: Floats) -> None:
    """Round each row to whole steps; also the step, and bounds on the lengths of the rounded row and of the error."""
    for i in range(slots.size):
        row, place = rows[i], slots[i]
        most = 0.0
        for j in range(row.size):
            most = max(most, abs(np.float64(row[j])))
        step = most / steps if most > 0 else 1.0
        length, error = 0.0, 0.0
        for j in range(row.size):
            whole = np.rint(row[j] / step)
            rounded[place, j] = whole
            length += (step * whole) ** 2
            error += (row[j] - step * whole) ** 2
        about[place, 0], about[place, 1] = step, np.sqrt(length) * (1 + 1e-9)
        about[place, 2] = np.sqrt(error) * (1 + 1e-9)


def _compare(
    slots: Integers,
    least: Floats,
    ends: Integers,
    records: tuple[Any, Any],
    queries: tuple[Any, Any],
    kept: Booleans,
) -> int:
    """Whether the bound on each inner product is as large as demanded; a block of rows meets all queries in turn.

    Rows come from memory in no order that a processor foresees. A first pass over a few of them, which does nothing but
    read a number from each line of memory, makes it fetch many at a time; its result is returned to keep it alive.
    """
    (rows, rows_about), (points, points_about) = records, queries
    at, touched = ends[:-1].copy(), np.int8(0)
    block = rows.shape[0] if at.size == 1 else max(BLOCK // max(rows.shape[1], 1), 1)
    for first in range(0, rows.shape[0], block):
        for query in range(at.size):
            point, (step, length, error) = points[query], points_about[query]
            size = length + error
            while at[query] < ends[query + 1] and slots[at[query]] < first + block:
                begin, end = at[query], min(at[query] + AHEAD, ends[query + 1])
                for place in range(begin, end):
                    row = rows[slots[place]]
                    for j in range(0, row.size, LINE):
                        touched ^= row[j]
                for place in range(begin, end):
                    slot = slots[place]
                    row = rows[slot]
                    total = np.int32(0)
                    for j in range(point.size):
                        total = np.int32(total + np.int32(np.int32(row[j]) * np.int32(point[j])))
                    away, left_out = rows_about[slot, 1], rows_about[slot, 2]
                    product = rows_about[slot, 0] * step * total
                    bound = product + left_out * size + away * error + MARGIN * (away + left_out) * size
                    kept[place] = bound >= least[place]
                at[query] = end
    return int(touched)
