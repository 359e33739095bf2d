"""Records whose kernel with a query reaches a threshold, each decided by itself alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.validation import check_count, check_positive, check_real, require, shorten

__all__ = ["BATCH", "Answered", "Cosine", "Kernel", "RadialBasis", "Records", "as_kernel", "dots", "grown", "rounding"]

Features = NDArray[np.float32]
Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

BATCH = 256
"""Most queries whose products with all records are held at once."""

UNIT = 2.0**-24
"""Unit roundoff of single precision."""

SMALLEST = 2.0**-149
"""Smallest positive number of single precision."""

SPARE = 4096
"""Fewest rows by which the room for records grows."""


def rounding(width: int, sizes: Any) -> Any:
    """By how much inner products of that size bound |x| |q|, in single precision, can be off (Higham 2002, 3.1)."""
    return 1.01 * (width + 2) * (UNIT * sizes + SMALLEST)


# --- loops over rows: what a row comes to depends on no other, which nothing that BLAS does promises -------


@cache
def compiled(loop: Callable[..., None]) -> Any:
    """A loop compiled by numba, and kept on disk; sums in one order for all rows, which the compiler may choose."""
    return require("numba").njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})(loop)


def _dots(rows: Features, which: Slots, query: Floats, out: Floats) -> None:
    for i in range(which.size):
        row = rows[which[i]]
        total = 0.0
        for j in range(query.size):
            total += np.float64(row[j]) * query[j]
        out[i] = total


def _radial(rows: Features, which: Slots, query: Floats, width: float, out: Floats) -> None:
    for i in range(which.size):
        row = rows[which[i]]
        total = 0.0
        for j in range(query.size):
            gap = np.float64(row[j]) - query[j]
            total += gap * gap
        out[i] = math.exp(-total / width / width)


def _squares(rows: Features, out: Floats) -> None:
    for i in range(rows.shape[0]):
        row = rows[i]
        total = 0.0
        for j in range(row.size):
            total += np.float64(row[j]) * np.float64(row[j])
        out[i] = total


def _directions(rows: Features, squares: Floats, out: Features) -> None:
    for i in range(rows.shape[0]):
        row, length = rows[i], math.sqrt(squares[i]) or 1.0
        for j in range(row.size):
            out[i, j] = row[j] / length


def squares(rows: Features) -> Floats:
    """Squared length of each row, in double precision."""
    out = np.empty(len(rows))
    compiled(_squares)(rows, out)
    return out


def dots(rows: Features, which: Slots, query: Features) -> Floats:
    """Inner products of those rows with the query, in double precision."""
    out = np.empty(len(which))
    compiled(_dots)(rows, which, query.astype(float), out)
    return out


# --- kernels -------------------------------------------------------------------------------------------


class Kernel(ABC):
    """A similarity in [0, 1], and the least at which a record is selected.

    Parameters
    ----------
    threshold : float
        In [0, 1].
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = check_real("threshold", threshold, "[0, 1]", lambda value: 0 <= value <= 1)

    @abstractmethod
    def prepared(self, features: Features) -> Features:
        """What is kept of features: a copy."""

    @abstractmethod
    def floor(self, query: Features, squares: Floats) -> Any:
        """Inner products below which no record of that squared length is selected, rounding included."""

    @abstractmethod
    def values(self, rows: Features, which: Slots, query: Features) -> Floats:
        """The kernel of those rows, in double precision."""


class Cosine(Kernel):
    """Inner product of directions; a zero vector has none, and its kernel is 0."""

    def prepared(self, features: Features) -> Features:
        out = np.empty_like(features)
        compiled(_directions)(features, squares(features), out)
        return out

    def floor(self, query: Features, squares: Floats) -> float:
        return self.threshold - float(rounding(len(query), 1.0 + 1e-6))

    def values(self, rows: Features, which: Slots, query: Features) -> Floats:
        return dots(rows, which, query)


class RadialBasis(Kernel):
    """``exp(-|x - q|^2 / nu^2)``, nu being the bandwidth."""

    def __init__(self, threshold: float, bandwidth: float) -> None:
        super().__init__(threshold)
        self.bandwidth = check_positive("bandwidth", bandwidth)
        # selected within this distance, up to the rounding of double precision
        self.radius = self.bandwidth * math.sqrt(-math.log(threshold)) if threshold > 0 else math.inf

    def prepared(self, features: Features) -> Features:
        return features.copy()

    def floor(self, query: Features, squares: Floats) -> Floats:
        square = float(np.dot(query.astype(float), query.astype(float)))
        both = squares + square
        reach = self.radius * self.radius * (1 + 1e-9) + 1e-9 * self.bandwidth * self.bandwidth
        floors: Floats = (both * (1 - 1e-9) - reach) / 2 - rounding(len(query), np.sqrt(squares * square))
        return floors

    def values(self, rows: Features, which: Slots, query: Features) -> Floats:
        out = np.empty(len(which))
        compiled(_radial)(rows, which, query.astype(float), self.bandwidth, out)
        return out


def as_kernel(name: object, threshold: float, bandwidth: float) -> Kernel:
    """The kernel of that name, "cosine" or "rbf".

    Raises
    ------
    accountant.ParameterError
        There is none, or a value is out of range.
    """
    if name == "cosine":
        return Cosine(threshold)
    if name == "rbf":
        return RadialBasis(threshold, bandwidth)
    raise ac.ParameterError(f"kernel = {shorten(name)}; accepted: cosine, rbf")


# --- records -------------------------------------------------------------------------------------------


class Records:
    """Features of records that come and go, each in a slot of its own; they are never moved.

    A matrix product in single precision finds the records whose kernel may reach the threshold; its last bits may
    depend on which other records are there, so it decides nothing: the kernels of those records are computed one by
    one in double precision.

    Parameters
    ----------
    kernel : Kernel
    rows : array of shape (n, d), float32
        Prepared features of the first records, in slots 0..n-1; they are kept, and written to.
    """

    def __init__(self, kernel: Kernel, rows: Features) -> None:
        self.kernel = kernel
        self.size, self.width = rows.shape
        self._blocks = [rows]
        self._free: list[int] = []
        self._squares = squares(rows)

    def insert(self, rows: Features) -> Slots:
        """Slots for prepared rows: those that were freed, then new ones."""
        new = max(len(rows) - len(self._free), 0)
        freed = [self._free.pop() for _ in range(len(rows) - new)]
        slots = np.array(freed + list(range(self.size, self.size + new)), np.int64)
        self._make_room(new)
        self._squares = grown(self._squares, self.size)
        self._squares[slots] = squares(rows)
        for start, block in self._used():
            here = (slots >= start) & (slots < start + len(block))
            block[slots[here] - start] = rows[here]
        return slots

    def free(self, slots: Slots) -> None:
        """Let others have those slots."""
        self._free.extend(slots.tolist())

    def batches(self, queries: Features) -> Iterator[tuple[Features, Features]]:
        """(query, its inner products with what is in every slot), the products made many queries at a time."""
        most = min(BATCH, max(self.width // 2, 8))
        for first in range(0, len(queries), most):
            some = queries[first : first + most]
            products = np.empty((len(some), self.size), np.float32)
            for start, block in self._used():
                np.matmul(some, block.T, out=products[:, start : start + len(block)])
            yield from zip(some, products, strict=True)

    def near(self, query: Features, products: Features) -> Slots:
        """Slots whose kernel may reach the threshold, in order."""
        return np.flatnonzero(products >= self.kernel.floor(query, self._squares[: len(products)]))

    def selected(self, query: Features, slots: Slots) -> tuple[Slots, Floats]:
        """Those of some slots, in order, whose kernel reaches the threshold, and their kernels."""
        values = np.empty(len(slots))
        for start, block in self._used():
            low, high = np.searchsorted(slots, (start, start + len(block)))
            values[low:high] = self.kernel.values(block, slots[low:high] - start, query)
        reached = values >= self.kernel.threshold
        return slots[reached], values[reached]

    def _used(self) -> Iterator[tuple[int, Features]]:
        """Where every block starts, and the part of it that is in use."""
        start = 0
        for block in self._blocks:
            yield start, block[: self.size - start]
            start += len(block)

    def _make_room(self, new: int) -> None:
        room = sum(map(len, self._blocks)) - self.size
        if new > room:
            # memory that is not written to yet is not taken yet
            more = max(new - room, self.size // 4, SPARE)
            self._blocks.append(np.empty((more, self.width), np.float32))
        self.size += new


class Answered:
    """Answered queries and their labels, of which the latest are kept.

    Parameters
    ----------
    kernel : Kernel
    width : int
    most : bool or int
        How many are kept: all, none, or so many.

    Raises
    ------
    accountant.ParameterError
        `most` is not as described.
    """

    def __init__(self, kernel: Kernel, width: int, most: bool | int) -> None:
        self._kernel, self._width = kernel, width
        self.most = 10**12 * most if isinstance(most, bool) else check_count("reuse", most, 0)
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self._records = Records(self._kernel, np.empty((0, self._width), np.float32))
        self._labels = np.empty(0, np.int64)
        self._order: deque[int] = deque()

    def similar(self, query: Features) -> tuple[NDArray[np.int64], Floats]:
        """Labels and kernels of those whose kernel with the query reaches the threshold."""
        if not self._order:
            return np.empty(0, np.int64), np.empty(0)
        ((_, products),) = self._records.batches(query[None])
        slots, values = self._records.selected(query, self._records.near(query, products))
        return self._labels[slots], values

    def remember(self, query: Features, label: int) -> None:
        """Keep a prepared query with its label."""
        if self.most == 0:
            return
        if len(self._order) == self.most:
            self._records.free(np.array([self._order.popleft()]))
        (slot,) = self._records.insert(query[None])
        self._order.append(int(slot))
        self._labels = grown(self._labels, self._records.size)
        self._labels[slot] = label


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array, with room for at least `size` entries."""
    if size <= len(array):
        return array
    return np.concatenate([array, np.zeros(max(size - len(array), len(array) // 4), array.dtype)])
