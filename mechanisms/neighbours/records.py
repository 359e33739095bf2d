"""Features of records that come and go, and which of them are similar to a query."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.neighbours.kernels import Similarity, squares
from mechanisms.validation import check_count

__all__ = ["LARGEST_BATCH", "Answered", "Records", "grow"]

LARGEST_BATCH = 256
"""Most queries whose products with all records are held at once."""

SPARE = 4096
"""Fewest rows by which the memory for records grows."""


class Records:
    """Features of records that come and go, each in a slot of its own from which it is never moved.

    A matrix product in single precision finds the records whose kernel may reach the threshold; the kernel that decides
    is computed record by record in double precision (see `mechanisms.neighbours.rounding`).

    Parameters
    ----------
    kernel : Similarity
    rows : array of shape (n, d), float32
        Prepared features of the first records, in slots 0..n-1. The array is kept, and later written to.
    """

    def __init__(self, kernel: Similarity, rows: Singles) -> None:
        self.kernel = kernel
        self.size, self.width = rows.shape
        self._blocks = [rows]
        self._free: list[int] = []
        self._squares = squares(rows)

    def insert(self, rows: Singles) -> Integers:
        """Store prepared rows and return their slots: freed slots first, then new ones."""
        new = max(len(rows) - len(self._free), 0)
        freed = [self._free.pop() for _ in range(len(rows) - new)]
        slots = np.array(freed + list(range(self.size, self.size + new)), np.int64)
        self._make_room(new)
        self._squares = grow(self._squares, self.size)
        self._squares[slots] = squares(rows)
        for start, block in self._iterate_blocks():
            here = (slots >= start) & (slots < start + len(block))
            block[slots[here] - start] = rows[here]
        return slots

    def free(self, slots: Integers) -> None:
        """Let other records have these slots."""
        self._free.extend(slots.tolist())

    def near(self, queries: Singles) -> Iterator[tuple[Singles, Integers]]:
        """Pairs (query, slots of records that it may select, in order)."""
        for query, products in self.batches(queries):
            yield query, self.find_near(query, products)

    def batches(self, queries: Singles) -> Iterator[tuple[Singles, Singles]]:
        """Pairs (query, its inner products with the rows of all slots), computed many queries at a time."""
        most = min(LARGEST_BATCH, max(self.width // 2, 8))
        for first in range(0, len(queries), most):
            some = queries[first : first + most]
            products = np.empty((len(some), self.size), np.float32)
            for start, block in self._iterate_blocks():
                np.matmul(some, block.T, out=products[:, start : start + len(block)])
            yield from zip(some, products, strict=True)

    def find_near(self, query: Singles, products: Singles) -> Integers:
        """Slots, in order, whose kernel may reach the threshold."""
        return np.flatnonzero(products >= self.kernel.least_product(query, self._squares[: len(products)]))

    def least_products(self, query: Singles, slots: Integers) -> Floats:
        """Inner products below which the records in these slots are certainly not selected."""
        least: Floats = np.broadcast_to(self.kernel.least_product(query, self._squares[slots]), len(slots))
        return least

    def select(self, query: Singles, slots: Integers) -> tuple[Integers, Floats]:
        """Those of the sorted `slots` whose kernel reaches the threshold, and their kernels."""
        values = np.empty(len(slots))
        for start, block in self._iterate_blocks():
            low, high = np.searchsorted(slots, (start, start + len(block)))
            values[low:high] = self.kernel.values(block, slots[low:high] - start, query)
        reached = values >= self.kernel.threshold
        return slots[reached], values[reached]

    def _iterate_blocks(self) -> Iterator[tuple[int, Singles]]:
        """First slot of every block, and the part of the block that holds records."""
        start = 0
        for block in self._blocks:
            yield start, block[: self.size - start]
            start += len(block)

    def _make_room(self, new: int) -> None:
        room = sum(map(len, self._blocks)) - self.size
        if new > room:
            # np.empty takes no memory before it is written to
            more = max(new - room, self.size // 4, SPARE)
            self._blocks.append(np.empty((more, self.width), np.float32))
        self.size += new


class Answered:
    """Answered queries and their labels, of which the latest are kept.

    Parameters
    ----------
    kernel : Similarity
    width : int
        Columns of a query.
    most : bool or int
        How many are kept: all, none, or that number.

    Raises
    ------
    accountant.ParameterError
        `most` is not as described.
    """

    def __init__(self, kernel: Similarity, width: int, most: bool | int) -> None:
        self._kernel, self._width = kernel, width
        self.most = 10**12 * most if isinstance(most, bool) else check_count("reuse", most, 0)
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self._records = Records(self._kernel, np.empty((0, self._width), np.float32))
        self._labels = np.empty(0, np.int64)
        self._order: deque[int] = deque()

    def find_similar(self, query: Singles) -> tuple[Integers, Floats]:
        """Labels and kernels of those whose kernel with the query reaches the threshold."""
        if not self._order:
            return np.empty(0, np.int64), np.empty(0)
        ((_, products),) = self._records.batches(query[None])
        slots, values = self._records.select(query, self._records.find_near(query, products))
        return self._labels[slots], values

    def remember(self, query: Singles, label: int) -> None:
        """Keep a prepared query with its label."""
        if self.most == 0:
            return
        if len(self._order) == self.most:
            self._records.free(np.array([self._order.popleft()]))
        (slot,) = self._records.insert(query[None])
        self._order.append(int(slot))
        self._labels = grow(self._labels, self._records.size)
        self._labels[slot] = label


def grow(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array with room for at least `size` entries; new entries are 0."""
    if size <= len(array):
        return array
    return np.concatenate([array, np.zeros(max(size - len(array), len(array) // 4), array.dtype)])
