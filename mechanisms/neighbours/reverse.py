"""Which queries a record votes for: its k nearest, or its k best once every query has a public price."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import accountant as ac
from mechanisms.arrays import Booleans, Floats, Integers, Singles
from mechanisms.neighbours.rounding import UNIT, product_error, squared_lengths
from mechanisms.validation import check_count, check_features

__all__ = ["Connections", "votes_of"]

SCORES = 1 << 22
"""Scores held at once."""

PAIRS = 1 << 20
"""Coordinates held at once, in double precision, of differences whose scores are too close to call."""


class Connections:
    """Each record's k queries of least score |x - q|^2 + price(q), from that record and public values alone.

    If scores in single precision decided, the last bits of a matrix product could move a vote when another record
    joins: counts would change by more than the 2 k r that is priced (r labels for each record), and votes would depend
    on which client holds a record. So these scores only narrow the choice (see `mechanisms.neighbours.rounding`).
    Ties go to the lower index.

    Parameters
    ----------
    queries : array of shape (s, d)
    n_neighbors : int
        k, at most s.
    prices : array of shape (s,), optional
        In units of squared distance; a query of higher price attracts fewer records. They must not depend on private
        records.

    Raises
    ------
    accountant.ParameterError
        A value is not as described.
    """

    def __init__(self, queries: object, n_neighbors: int = 1, prices: object = None) -> None:
        self.queries = check_features(queries, "queries")
        self.n_neighbors = check_count("n_neighbors", n_neighbors, 1, len(self.queries))
        self.prices = check_prices(prices, len(self.queries))
        squares = squared_lengths(self.queries)
        # the same shift for all queries changes no order
        offsets = squares + self.prices
        self._offsets = (offsets - offsets.min()).astype(np.float32)
        self._twice = np.ascontiguousarray(-2 * self.queries.T)
        self._longest = float(np.sqrt(squares.max()))
        largest = float(np.abs(self._offsets).max()) + float(np.abs(self.prices).max()) + float(squares.max())
        self._offset_error = 4 * UNIT * largest

    def find_nearest(self, records: Singles) -> Integers:
        """Queries (n, k) of every record, in rising order of their index."""
        chosen = np.empty((len(records), self.n_neighbors), np.int64)
        for rows, block in self._blocks(records):
            chosen[rows] = self._choose(block)
        return chosen

    def find_best(self, points: Singles) -> Integers:
        """The one query (n,) of least score for each point."""
        return Connections(self.queries, 1, self.prices).find_nearest(points)[:, 0]

    def _blocks(self, records: Singles) -> Iterator[tuple[slice, Singles]]:
        size = max(SCORES // len(self.queries), 1)
        for start in range(0, len(records), size):
            rows = slice(start, start + size)
            yield rows, records[rows]

    def _choose(self, records: Singles) -> Integers:
        """Queries of some records."""
        k = self.n_neighbors
        scores = records @ self._twice
        scores += self._offsets
        if k == 1:
            best = scores.argmin(axis=1)[:, None]
            last = np.take_along_axis(scores, best, axis=1)[:, 0]
        else:
            best = np.argpartition(scores, k - 1, axis=1)[:, :k]
            last = np.take_along_axis(scores, best, axis=1).max(axis=1)
        # rounded up: no candidate is lost where the sum falls between two numbers of single precision
        bar = np.nextafter((last + 2 * self._error(records)).astype(np.float32), np.float32(np.inf))
        within = scores <= bar[:, None]
        open_rows = np.flatnonzero(np.count_nonzero(within, axis=1) > k)
        if len(open_rows):
            best[open_rows] = self._settle(records[open_rows], within[open_rows])
        return np.sort(best, axis=1).astype(np.int64)

    def _error(self, records: Singles) -> Floats:
        """Bound on the error of each record's scores, and on that of the comparison in double precision."""
        d = records.shape[1]
        lengths = np.sqrt(squared_lengths(records))
        # d + 2 columns: the offset is added to the product, which costs as much as two more of its terms
        error: Floats = product_error(d + 2, 2 * self._longest * lengths) + self._offset_error
        error += 4 * (d + 4) * UNIT**2 * lengths**2
        return error

    def _settle(self, records: Singles, within: Booleans) -> Integers:
        """The k best of the queries marked for each record, by scores in double precision."""
        row, query = np.nonzero(within)
        exact = np.empty(len(row))
        size = max(PAIRS // records.shape[1], 1)
        for start in range(0, len(row), size):
            part = slice(start, start + size)
            difference = records[row[part]].astype(float) - self.queries[query[part]]
            # one sum for each row: the rounding of a pair's distance must depend on no other pair
            exact[part] = np.square(difference).sum(axis=1)
        exact += self.prices[query]
        order = np.lexsort((query, exact, row))
        starts = np.searchsorted(row, np.arange(len(records)))
        chosen: Integers = query[order[starts[:, None] + np.arange(self.n_neighbors)]]
        return chosen


def check_prices(prices: object, n: int) -> Floats:
    """Finite prices, one for each query; zeros for None."""
    if prices is None:
        return np.zeros(n)
    try:
        table = np.asarray(prices, dtype=np.float64)
    except (TypeError, ValueError):
        raise ac.ParameterError(f"prices are not numbers; accepted: shape ({n},), one for each query") from None
    if table.shape != (n,):
        raise ac.ParameterError(f"prices have shape {table.shape}; accepted: ({n},), one for each query")
    if not (np.abs(table) <= 1e30).all():
        raise ac.ParameterError("prices are not all in range; accepted: numbers in [-1e+30, 1e+30]")
    return table


def votes_of(nearest: Integers, labels: Integers, n_classes: int) -> Integers:
    """Entries (n, k r) of the flattened (s, c) table of counts to which each record adds one.

    Parameters
    ----------
    nearest : array of shape (n, k)
        Queries of each record.
    labels : array of shape (n, r)
        Labels of each record, all different.
    n_classes : int
        c.
    """
    entries = nearest[:, :, None] * n_classes + labels[:, None, :]
    return entries.reshape(len(nearest), -1)
