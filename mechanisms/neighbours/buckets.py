"""Which slots share a bucket with a query in some hash table, found without a look at the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Integers
from mechanisms.neighbours.kernels import compile_strictly

__all__ = ["Buckets"]

MOST_SLOTS = 2**31 - 1

FRESH = 1024
"""Slots with new codes that are always looked at one by one."""

SHARE = 8
"""More of them than this fraction of all sort the lists anew."""

SPARSE = 64
"""Fewer candidates than this fraction of all slots are sorted."""


class Buckets:
    """For each table the slots in the order of their codes, so that a bucket is a run of them.

    A slot that gets another record stays where it was in the lists: a query passes over it there, and compares its new
    codes. Once there are more of these than 1024 and an eighth of all slots the lists are sorted anew. So a query takes
    time in proportion to the members of its buckets, besides, and an insertion is logarithmic on average. Lists and
    codes hold ``L (4 + 2 w)`` bytes for each slot, w being the bytes of a code.

    Parameters
    ----------
    tables : int
    word : numpy dtype
        Of a code: unsigned.
    """

    def __init__(self, tables: int, word: Any) -> None:
        self._codes = np.empty((tables, 0), word)
        self._sorted, self._order = self._codes, np.empty((tables, 0), np.int32)
        self._fresh = np.empty(0, np.int64)
        self._size, self._number = 0, 0
        # the last query that found each slot, and room for what it found
        self._seen, self._found = np.zeros(0, np.int64), np.empty(0, np.int32)

    def insert(self, slots: Integers, codes: NDArray[Any]) -> None:
        """Give slots, which may be new, codes of shape (n, L)."""
        self.reserve(1 + int(slots.max(initial=self._size - 1)))
        self._codes[:, slots] = codes.T
        self._fresh = np.union1d(self._fresh, slots)

    def find(self, codes: NDArray[Any]) -> Integers:
        """Slots, in order, that share one of these codes, of shape (L,); all slots up to the largest have codes."""
        if len(self._fresh) > max(FRESH, self._size // SHARE):
            self._sort()
        self._number += 1
        wanted = codes.astype(self._codes.dtype)
        lists = self._codes, self._sorted, self._order
        count = compile_strictly(_collect)(wanted, lists, self._fresh, self._seen, self._number, self._found)
        if count > self._size // SPARSE:  # to look at all is faster than to sort so many
            return np.flatnonzero(self._seen[: self._size] == self._number)
        return np.sort(self._found[:count]).astype(np.int64)

    def _sort(self) -> None:
        """Sort all slots by their codes, table by table."""
        self._order = np.empty((len(self._codes), self._size), np.int32)
        self._sorted = np.empty_like(self._order, self._codes.dtype)
        for codes, order, ordered in zip(self._codes, self._order, self._sorted, strict=True):
            order[:] = np.argsort(codes[: self._size], kind="stable")
            ordered[:] = codes[order]
        self._fresh = np.empty(0, np.int64)

    def reserve(self, size: int) -> None:
        """Make room for so many slots."""
        if size > MOST_SLOTS:
            raise ac.ParameterError(f"{size} records with hashing; accepted: at most {MOST_SLOTS}")
        tables, room = self._codes.shape
        if size > room:
            room = max(size, room + room // 4)
            codes = np.zeros((tables, room), self._codes.dtype)
            codes[:, : self._size] = self._codes[:, : self._size]
            self._codes, self._seen, self._found = codes, np.zeros(room, np.int64), np.empty(room, np.int32)
        self._size = max(self._size, size)


def _collect(
    wanted: NDArray[Any], lists: tuple[Any, Any, Any], fresh: Integers, seen: Integers, number: int, found: Any
) -> int:
    """Slots of which some code is as wanted, each once; those of `fresh` by their codes, others by the sorted lists."""
    codes, ordered, order = lists
    count = 0
    for i in range(fresh.size):
        slot = fresh[i]
        seen[slot] = -number  # not by the lists
        for table in range(wanted.size):
            if codes[table, slot] == wanted[table]:
                seen[slot] = number
                found[count] = slot
                count += 1
                break
    for table in range(wanted.size):
        low, high = 0, ordered.shape[1]
        while low < high:
            middle = (low + high) // 2
            if ordered[table, middle] < wanted[table]:
                low = middle + 1
            else:
                high = middle
        while low < ordered.shape[1] and ordered[table, low] == wanted[table]:
            slot = order[table, low]
            if abs(seen[slot]) != number:
                seen[slot] = number
                found[count] = slot
                count += 1
            low += 1
    return count
