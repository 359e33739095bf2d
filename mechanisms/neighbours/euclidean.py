"""Exact nearest neighbours of a query within a sample, in an order that depends on the records alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.neighbours.distances import distance_margin, squared_distances
from mechanisms.neighbours.rounding import product_error, squared_lengths

__all__ = ["QUERY_BATCH", "Neighbours"]

QUERY_BATCH = 256
"""Queries whose products with all records are held at once."""


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Positions in a subset that may be among the nearest, with bounds on each squared distance less a constant."""

    positions: Integers
    low: Floats
    high: Floats


class Neighbours:
    """Euclidean nearest neighbours among subsets of fixed records.

    Distances from a matrix product in single precision only narrow the choice (see `mechanisms.neighbours.rounding`).
    If they decided, removing one record could reorder others and so move more than the one vote that is priced.
    Ties go to the lower index.

    Parameters
    ----------
    records : array of shape (n, d), float32
    """

    def __init__(self, records: Singles) -> None:
        self.records = records
        self._squares = squared_lengths(records)
        self._lengths = np.sqrt(self._squares)

    def batches(self, queries: Singles) -> Iterator[tuple[int, Singles]]:
        """Pairs (position of a query, its inner products with all records), computed `QUERY_BATCH` at a time."""
        for start in range(0, len(queries), QUERY_BATCH):
            products = queries[start : start + QUERY_BATCH] @ self.records.T
            for offset, row in enumerate(products):
                yield start + offset, row

    def find_nearest(self, query: Singles, products: Singles, subset: Integers, k: int) -> Integers:
        """The k records of `subset` that are nearest to the query, or all of them if there are at most k.

        Parameters
        ----------
        query : array of shape (d,)
        products : array of shape (n,)
            Inner products of the query with all records, from `batches`.
        subset : array of int
            Sorted indices of records.
        k : int
        """
        if len(subset) <= k:
            return subset
        squares = self._squares[subset]
        # |x - q|^2 less |q|^2, which is the same for all records x
        distances = squares - 2.0 * products[subset]
        square = float(np.dot(query.astype(float), query.astype(float)))
        # the product is doubled, and so is its error; the second term covers the double precision of the rest
        slack = 2 * product_error(len(query), math.sqrt(square) * self._lengths[subset])
        slack += 2 * distance_margin(len(query)) * (squares + square)
        low, high = distances - slack, distances + slack
        reach = np.partition(high, k - 1)[k - 1]
        positions = np.flatnonzero(low <= reach)
        if len(positions) > k:
            positions = self._settle(query, subset, _Candidates(positions, low[positions], high[positions]), k)
        return subset[positions]

    def _settle(self, query: Singles, subset: Integers, candidates: _Candidates, k: int) -> Integers:
        """The k nearest of candidates that single precision cannot tell apart, by distances in double precision."""
        # certain: at most k candidates, itself included, can be as near
        certain = np.searchsorted(np.sort(candidates.low), candidates.high, side="right") <= k
        sure, doubtful = candidates.positions[certain], candidates.positions[~certain]
        exact = squared_distances(
            self.records, subset[doubtful], query[None].astype(float), np.zeros(len(doubtful), np.int64)
        )
        chosen = doubtful[np.argsort(exact, kind="stable")[: k - len(sure)]]
        return np.sort(np.concatenate([sure, chosen]))
