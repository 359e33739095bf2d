"""Which queries a record votes for: its k nearest, or its k best once every query has a public price."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.validation import check_count, check_features

__all__ = ["Connections", "votes_of"]

BLOCK = 1 << 22
"""Scores held at once."""

PAIRS = 1 << 20
"""Differences held at once, in double precision, of records whose scores are too close to call."""

UNIT = 2.0**-24
"""Unit roundoff of single precision."""

TINY = 2.0**-125
"""What a product in single precision can lose to underflow, twice over; also where it is flushed to zero."""


class Connections:
    """Every record's k queries with the least |x - q|^2 + price(q), a function of that record and public things alone.

    Scores come from matrix products in single precision, whose last bits depend on which other records share the
    product. A vote that another record could tip would make the counts move by more than the 2kr that is priced, and a
    record's vote change with the client that holds it. So those scores only narrow the choice, by a bound on their
    rounding error (Higham 2002, section 3.1, which holds for any order of summation); what they leave open is compared
    in double precision, record by record. Ties go to the lower index.

    Parameters
    ----------
    queries : array of shape (s, d)
    n_neighbors : int
        k, at most s.
    prices : array of shape (s,), optional
        In units of squared distance; higher ones attract fewer records. They must not depend on private records.

    Raises
    ------
    accountant.ParameterError
        A value is not as described.
    """

    def __init__(self, queries: object, n_neighbors: int = 1, prices: object = None) -> None:
        self.queries = check_features(queries, "queries")
        self.n_neighbors = check_count("n_neighbors", n_neighbors, 1, len(self.queries))
        self.prices = check_prices(prices, len(self.queries))
        wide = np.einsum("ij,ij->i", self.queries, self.queries, dtype=np.float64)
        # a shift common to all queries decides nothing
        offsets = wide + self.prices
        self._offsets = (offsets - offsets.min()).astype(np.float32)
        self._twice = np.ascontiguousarray(-2 * self.queries.T)
        self._longest = float(np.sqrt(wide.max()))
        d = self.queries.shape[1]
        # of a score, for each unit of |x|: the product, and adding the offset to it
        self._relative = 2.02 * (d + 4) * UNIT * self._longest
        # for each unit of |x|^2: comparing in double precision
        self._double = 4 * (d + 4) * UNIT**2
        largest = float(np.abs(self._offsets).max()) + float(np.abs(self.prices).max()) + wide.max()
        self._absolute = 4 * UNIT * largest + (d + 2) * TINY

    def nearest(self, records: NDArray[np.float32]) -> NDArray[np.int64]:
        """Queries (n, k) of every record, in rising order of their index."""
        chosen = np.empty((len(records), self.n_neighbors), np.int64)
        for rows, block in self._blocks(records):
            chosen[rows] = self._of_block(block)
        return chosen

    def best(self, points: NDArray[np.float32]) -> NDArray[np.int64]:
        """The one query (n,) that each point prefers to all others."""
        return Connections(self.queries, 1, self.prices).nearest(points)[:, 0]

    def _blocks(self, records: NDArray[np.float32]) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        size = max(BLOCK // len(self.queries), 1)
        for start in range(0, len(records), size):
            rows = slice(start, start + size)
            yield rows, records[rows]

    def _of_block(self, records: NDArray[np.float32]) -> NDArray[np.int64]:
        k = self.n_neighbors
        scores = records @ self._twice
        scores += self._offsets
        lengths = np.sqrt(np.einsum("ij,ij->i", records, records, dtype=np.float64))
        slack = self._relative * lengths + self._absolute + self._double * lengths**2
        if k == 1:
            best = scores.argmin(axis=1)[:, None]
            last = np.take_along_axis(scores, best, axis=1)[:, 0]
        else:
            best = np.argpartition(scores, k - 1, axis=1)[:, :k]
            last = np.take_along_axis(scores, best, axis=1).max(axis=1)
        # rounded up: no candidate is lost where the sum falls between two numbers of single precision
        bar = np.nextafter((last + 2 * slack).astype(np.float32), np.float32(np.inf))
        within = scores <= bar[:, None]
        open_rows = np.flatnonzero(np.count_nonzero(within, axis=1) > k)
        if len(open_rows):
            best[open_rows] = self._settle(records[open_rows], within[open_rows])
        return np.sort(best, axis=1).astype(np.int64)

    def _settle(self, records: NDArray[np.float32], within: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The k best of the queries marked for each record, by scores in double precision."""
        row, query = np.nonzero(within)
        exact = np.empty(len(row))
        size = max(PAIRS // records.shape[1], 1)
        for start in range(0, len(row), size):
            part = slice(start, start + size)
            difference = records[row[part]].astype(float) - self.queries[query[part]]
            # summed along each row by itself: what a pair's distance rounds to depends on no other pair
            exact[part] = np.square(difference).sum(axis=1)
        exact += self.prices[query]
        order = np.lexsort((query, exact, row))
        starts = np.searchsorted(row, np.arange(len(records)))
        chosen: NDArray[np.int64] = query[order[starts[:, None] + np.arange(self.n_neighbors)]]
        return chosen


def check_prices(prices: object, n: int) -> NDArray[np.float64]:
    """Finite prices, one for each query; zeros for None."""
    if prices is None:
        return np.zeros(n)
    try:
        checked = np.asarray(prices, dtype=np.float64)
    except (TypeError, ValueError):
        raise ac.ParameterError(f"prices are not numbers; accepted: shape ({n},), one for each query") from None
    if checked.shape != (n,):
        raise ac.ParameterError(f"prices have shape {checked.shape}; accepted: ({n},), one for each query")
    if not (np.abs(checked) <= 1e30).all():
        raise ac.ParameterError("prices are not all numbers in [-1e+30, 1e+30]")
    return checked


def votes_of(nearest: NDArray[np.int64], labels: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Entries (n, k r) of the flattened (s, c) table of counts that a record adds one to.

    Parameters
    ----------
    nearest : array of shape (n, k)
    labels : array of shape (n, r)
        Every record's labels, all different.
    """
    entries = nearest[:, :, None] * n_classes + labels[:, None, :]
    return entries.reshape(len(nearest), -1)
