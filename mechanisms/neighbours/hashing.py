"""Locality-sensitive hashing by random hyperplanes: which records may be similar to a query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.neighbours.kernels import LENGTH_ERROR, dots, squares
from mechanisms.neighbours.rounding import product_error
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count

__all__ = ["Hashing", "hashing_of"]

Codes = NDArray[np.uint32]
"""Bucket numbers of b bits, b <= 32."""


class Hashing:
    """L tables of buckets; a record's bucket in a table says on which sides of b random hyperplanes it lies.

    Candidates for a query share its bucket in at least one table (Zhu et al. 2023, Alg. 4; Gionis, Indyk & Motwani
    1999): two vectors at an angle t do with probability ``1 - (1 - (1 - t/pi)^b)^L``. The hyperplanes go through the
    origin and do not depend on data, so they cost no privacy; a record's buckets depend on that record alone.

    There are no lists of records for each bucket. Every slot keeps its L codes, of one to four bytes each, and a query
    scans them all; so adding and removing records changes nothing else.

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
        self._word = np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32
        self._codes = np.empty((self.tables, 0), self._word)

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
        size = 1 + int(slots.max(initial=self._codes.shape[1] - 1))
        if size > self._codes.shape[1]:
            new = np.zeros((self.tables, size - self._codes.shape[1]), self._word)
            self._codes = np.concatenate([self._codes, new], axis=1)
        for start in range(0, len(rows), 4096):
            some = slice(start, start + 4096)
            self._codes[:, slots[some]] = self.codes(rows[some]).T

    def candidates(self, codes: NDArray[np.uint32]) -> Integers:
        """Slots, in order, that share a bucket with a query of these codes."""
        shared = np.zeros(self._codes.shape[1], bool)
        for table, code in zip(self._codes, codes.astype(self._word), strict=True):
            shared |= table == code
        return np.flatnonzero(shared)


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
