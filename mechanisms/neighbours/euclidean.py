"""Exact nearest neighbours within a sample, in an order that depends on the records alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["BATCH", "Neighbours"]

BATCH = 256
"""Queries whose distances are held at once."""

ROWS = 128
"""Records compared in double precision at once."""

UNIT = 2.0**-24
"""Unit roundoff of single precision."""


TINY = 2.0**-124
"""What a doubled product in single precision can lose to underflow, also where that is flushed to zero."""


class Neighbours:
    """Euclidean nearest neighbours among subsets of fixed records.

    Distances come from a matrix product in single precision, whose last bits may depend on which other records
    are in the matrix. A removal that reorders other records would move more than the one vote that is priced,
    so these distances only narrow the choice: whatever they cannot decide, by a bound on their rounding error
    (Higham 2002, section 3.1), is compared in double precision, record by record. Ties go to the lower index.

    Parameters
    ----------
    records : array of shape (n, d), float32
    """

    def __init__(self, records: NDArray[np.float32]) -> None:
        self.records = records
        wide = np.einsum("ij,ij->i", records, records, dtype=np.float64)
        self._squares = wide
        self._norms = np.sqrt(wide)

    def batches(self, queries: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """(position, inner products of that query with all records), the products made `BATCH` queries at a time."""
        for start in range(0, len(queries), BATCH):
            products = queries[start : start + BATCH] @ self.records.T
            for offset, row in enumerate(products):
                yield start + offset, row

    def nearest(
        self, query: NDArray[np.float32], products: NDArray[np.float32], subset: NDArray[np.int64], k: int
    ) -> NDArray[np.int64]:
        """The k records of `subset` (sorted indices) nearest to the query; all of them if there are no more."""
        if len(subset) <= k:
            return subset
        squares = self._squares[subset]
        distances = squares - 2.0 * products[subset]
        length = float(np.sqrt(np.dot(query.astype(float), query.astype(float))))
        # |fl(x.q) - x.q| <= gamma_d |x| |q|, doubled as the product is; what double precision adds is far below
        slack = 2.02 * (len(query) + 2) * UNIT * length * self._norms[subset] + 1e-13 * squares
        slack += (len(query) + 2) * TINY
        within = np.partition(distances + slack, k - 1)[k - 1]
        candidates = np.flatnonzero(distances - slack <= within)
        if len(candidates) > k:
            candidates = self._settle(query, subset, candidates, distances, slack, k)
        return subset[candidates]

    def _settle(
        self,
        query: NDArray[np.float32],
        subset: NDArray[np.int64],
        candidates: NDArray[np.int64],
        distances: NDArray[np.float64],
        slack: NDArray[np.float64],
        k: int,
    ) -> NDArray[np.int64]:
        """Of candidates that rounding cannot tell apart, the k nearest by distances in double precision."""
        lows, highs = (distances - slack)[candidates], (distances + slack)[candidates]
        # surely among the k nearest: at most k records, itself included, could be as near
        certain = np.searchsorted(np.sort(lows), highs, side="right") <= k
        sure, open_ones = candidates[certain], candidates[~certain]
        wide, exact = query.astype(float), np.empty(len(open_ones))
        for start in range(0, len(open_ones), ROWS):
            rows = self.records[subset[open_ones[start : start + ROWS]]] - wide
            # a product of its own for each row: what a record's distance rounds to depends on no other record
            exact[start : start + ROWS] = np.matmul(rows[:, None, :], rows[:, :, None]).ravel()
        chosen = open_ones[np.argsort(exact, kind="stable")[: k - len(sure)]]
        return np.sort(np.concatenate([sure, chosen]))
