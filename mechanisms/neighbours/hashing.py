"""Random hyperplanes: which records may be similar to a query, without looking at their features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import accountant as ac
from mechanisms.neighbours.kernels import Features, Slots, dots, rounding, squares
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count, shorten

__all__ = ["Hashing", "as_hashing"]

Codes = NDArray[np.uint32]


class Hashing:
    """L tables; in each a record's bucket is told by on which sides of b random hyperplanes it lies.

    Candidates for a query share its bucket in at least one table (ind-knn, Alg. 4; Gionis, Indyk & Motwani 1999): two
    vectors at an angle t do with probability ``1 - (1 - (1 - t/pi)^b)^L``. The hyperplanes go through the origin and
    know nothing of the data, so they cost no privacy; a record's buckets depend on that record alone.

    Buckets are not lists: every slot keeps its L codes, which a query reads through, a byte or so each. Adding and
    removing records touches nothing else.

    Parameters
    ----------
    tables, bits : int
        L in [1, 1000], and b in [1, 32].
    width : int
        Number of features.
    source : Randomness
        Where the hyperplanes come from.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    def __init__(self, tables: int, bits: int, width: int, source: Randomness) -> None:
        self.tables = check_count("tables", tables, 1, 1000)
        self.bits = check_count("bits", bits, 1, 32)
        normals = ndtri(source.uniform(tables * bits * width)).reshape(-1, width)
        self.hyperplanes: Features = (normals / np.linalg.norm(normals, axis=1, keepdims=True)).astype(np.float32)
        self._word = np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32
        self._codes = np.empty((self.tables, 0), self._word)

    def codes(self, rows: Features) -> Codes:
        """Buckets of each row, shape (n, L)."""
        heights = rows @ self.hyperplanes.T
        slack = rounding(rows.shape[1], np.sqrt(squares(rows)) * (1 + 1e-6))[:, None]
        above = heights >= 0
        doubtful = np.abs(heights) <= slack  # the sign is rounding's, perhaps, and that of a product of many rows
        for i in np.flatnonzero(doubtful.any(axis=1)):
            which = np.flatnonzero(doubtful[i])
            above[i, which] = dots(self.hyperplanes, which, rows[i]) >= 0
        bits = above.reshape(len(rows), self.tables, self.bits)
        codes: Codes = (bits << np.arange(self.bits, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
        return codes

    def insert(self, slots: Slots, rows: Features) -> None:
        """Give slots, new ones too, to prepared rows."""
        size = 1 + int(slots.max(initial=self._codes.shape[1] - 1))
        if size > self._codes.shape[1]:
            new = np.zeros((self.tables, size - self._codes.shape[1]), self._word)
            self._codes = np.concatenate([self._codes, new], axis=1)
        for start in range(0, len(rows), 4096):
            some = slice(start, start + 4096)
            self._codes[:, slots[some]] = self.codes(rows[some]).T

    def candidates(self, codes: NDArray[np.uint32]) -> Slots:
        """Slots, in order, that share a bucket with a query of those codes."""
        shared = np.zeros(self._codes.shape[1], bool)
        for table, code in zip(self._codes, codes.astype(self._word), strict=True):
            shared |= table == code
        return np.flatnonzero(shared)


def as_hashing(tables_and_bits: object, width: int, source: Randomness) -> Hashing | None:
    """Hashing with (L, b) tables and bits; None for None.

    Raises
    ------
    accountant.ParameterError
        It is something else, or a value is out of range.
    """
    if tables_and_bits is None:
        return None
    if not isinstance(tables_and_bits, tuple | list) or len(tables_and_bits) != 2:
        raise ac.ParameterError(f"hashing = {shorten(tables_and_bits)}; accepted: a pair (tables, bits), or None")
    tables, bits = tables_and_bits
    return Hashing(tables, bits, width, source)
