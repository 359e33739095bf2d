"""Locality-sensitive hashing by random hyperplanes: which records may be similar to a query."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.neighbours.buckets import Buckets
from mechanisms.neighbours.coarse import CoarseRows
from mechanisms.neighbours.kernels import LENGTH_ERROR, dots, squares
from mechanisms.neighbours.records import Records
from mechanisms.neighbours.rounding import product_error
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count

__all__ = ["Hashing", "hashing_of"]

Codes = NDArray[np.uint32]
"""Bucket numbers of b bits, b <= 32."""

MOST_CANDIDATES = 1 << 19
"""Candidates of several queries that are held at once, if no single query has more."""


class Hashing:
    """L tables of buckets; a record's bucket in a table says on which sides of b random hyperplanes it lies.

    Candidates for a query share its bucket in at least one table (Zhu et al. 2023, Alg. 4; Gionis, Indyk & Motwani
    1999): two vectors at an angle t do with probability ``1 - (1 - (1 - t/pi)^b)^L``. The hyperplanes go through the
    origin and do not depend on data, so they cost no privacy; a record's buckets depend on that record alone.

    Lists of the slots in every bucket find them in time that does not grow with the other records. Rows in one byte a
    number then leave out candidates that certainly are not similar enough, many queries at a time. Codes of w bytes,
    lists and these rows take ``L (4 + 2 w) + d + 24`` bytes for each slot.

    Parameters
    ----------
    tables, bits : int
        L in [1, 1000], and b in [1, 32].
    width : int
        Number of features.
    source : Randomness
        Draws the hyperplanes.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    def __init__(self, tables: int, bits: int, width: int, source: Randomness) -> None:
        self.tables = check_count("tables", tables, 1, 1000)
        self.bits = check_count("bits", bits, 1, 32)
        normals = ndtri(source.uniform(tables * bits * width)).reshape(-1, width)
        self.hyperplanes: Singles = (normals / np.linalg.norm(normals, axis=1, keepdims=True)).astype(np.float32)
        self._buckets = Buckets(self.tables, np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32)
        self._coarse = CoarseRows(width)

    def codes(self, rows: Singles) -> Codes:
        """Buckets of each row, shape (n, L)."""
        heights = rows @ self.hyperplanes.T
        slack = product_error(rows.shape[1], np.sqrt(squares(rows)) * (1 + LENGTH_ERROR))[:, None]
        above = heights >= 0
        doubtful = np.abs(heights) <= slack  # the sign may be due to rounding, which depends on the other rows
        for i in np.flatnonzero(doubtful.any(axis=1)):
            which = np.flatnonzero(doubtful[i])
            above[i, which] = dots(self.hyperplanes, which, rows[i]) >= 0
        bits = above.reshape(len(rows), self.tables, self.bits)
        codes: Codes = (bits << np.arange(self.bits, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
        return codes

    def insert(self, slots: Integers, rows: Singles) -> None:
        """Store the codes of prepared rows at these slots, which may be new."""
        self._buckets.reserve(1 + int(slots.max(initial=-1)))
        for start in range(0, len(rows), 4096):
            some = slice(start, start + 4096)
            self._buckets.insert(slots[some], self.codes(rows[some]))
        self._coarse.insert(slots, rows)

    def candidates(self, codes: NDArray[np.uint32]) -> Integers:
        """Slots, in order, that share a bucket with a query of these codes."""
        return self._buckets.find(codes)

    def near(self, records: Records, queries: Singles) -> Iterator[tuple[Singles, Integers]]:
        """Pairs (query, slots of candidates that it may select, in order).

        Parameters
        ----------
        records : Records
            Those whose rows were inserted here.
        queries : array of shape (m, d), float32
            Prepared.
        """
        waiting: list[tuple[Singles, Integers]] = []
        held = 0
        for number, (query, codes) in enumerate(zip(queries, self.codes(queries), strict=True), 1):
            waiting.append((query, self._buckets.find(codes)))
            held += len(waiting[-1][1])
            if number == len(queries) or held >= MOST_CANDIDATES:
                points, slots = zip(*waiting, strict=True)
                least = [records.least_products(*each) for each in waiting]
                yield from zip(points, self._coarse.reach(np.stack(points), slots, least), strict=True)
                waiting, held = [], 0


def hashing_of(tables_and_bits: object, width: int, source: Randomness) -> Hashing | None:
    """Hashing with (L, b) tables and bits; None for None.

    Raises
    ------
    accountant.ParameterError
        It is not a pair, or a value is out of range.
    """
    if tables_and_bits is None:
        return None
    if not isinstance(tables_and_bits, tuple | list) or len(tables_and_bits) != 2:
        raise ac.ParameterError(f"hashing = {ac.shorten(tables_and_bits)}; accepted: a pair (tables, bits), or None")
    tables, bits = tables_and_bits
    return Hashing(tables, bits, width, source)
