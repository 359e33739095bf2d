"""Squared distances in double precision: the same bits on every machine, whatever other rows there are."""

from __future__ import annotations

import numpy as np

from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.neighbours.kernels import compile_strictly

__all__ = ["distance_margin", "squared_distances"]


def distance_margin(width: int) -> float:
    """Bound on the relative error of squared distances and lengths of so many columns, in double precision.

    Each of at most d + 3 roundings adds a share of 2^-53 (Higham 2002, section 3.1); the rest is spare.
    """
    return (width + 8) * 2.0**-51


def _distances(rows: Singles, which: Integers, queries: Floats, whose: Integers, out: Floats) -> None:
    """Four partial sums, so that the processor can add them at once; their order is fixed."""
    width = queries.shape[1]
    whole = width // 4 * 4
    for i in range(which.size):
        row, query = rows[which[i]], queries[whose[i]]
        first = second = third = fourth = 0.0
        for j in range(0, whole, 4):
            gap = np.float64(row[j]) - query[j]
            first += gap * gap
            gap = np.float64(row[j + 1]) - query[j + 1]
            second += gap * gap
            gap = np.float64(row[j + 2]) - query[j + 2]
            third += gap * gap
            gap = np.float64(row[j + 3]) - query[j + 3]
            fourth += gap * gap
        for j in range(whole, width):
            gap = np.float64(row[j]) - query[j]
            first += gap * gap
        out[i] = (first + second) + (third + fourth)


def squared_distances(rows: Singles, which: Integers, queries: Floats, whose: Integers) -> Floats:
    """Squared distances of the rows at positions `which` from the queries at positions `whose`.

    Parameters
    ----------
    rows : array of shape (n, d), float32
    which, whose : array of shape (m,)
    queries : array of shape (q, d), float64

    Returns
    -------
    array of shape (m,)
    """
    out = np.empty(len(which))
    compile_strictly(_distances)(rows, which, queries, whose, out)
    return out
