"""Records similar to queries, from records in partitions: their slots, kernels and labels come back, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.neighbours.kernels import Similarity
from mechanisms.neighbours.records import Records
from mechanisms.shards.records import Shard, ShardedRecords

__all__ = ["ShardedSimilar"]

FIRST = 8
"""Queries of the first pass over the partitions."""

PASS = 1024
"""Most queries of a pass."""

HELD = 1 << 24
"""Pairs of a query and a similar record that are held at once, about; each takes 20 bytes."""


@dataclass(frozen=True, eq=False)
class _Similar:
    """Similar records of a partition, query after query.

    Attributes
    ----------
    counts : int array of shape (q,)
        How many there are for each query.
    slots, kernels, labels : array of shape (sum of counts,)
    """

    counts: Integers
    slots: Integers
    kernels: Floats
    labels: Integers


class ShardedSimilar:
    """As `mechanisms.neighbours.records.Records`, for records in partitions; a record's slot is its index.

    Whether a record is similar to a query does not depend on budgets: partitions answer for many queries in one pass,
    before the first of them is charged. Counts, charges and votes are made of their answers where the budgets are.

    Parameters
    ----------
    kernel : Similarity
    records : ShardedRecords
    labels : int array of shape (n,)
        Where to write the labels of records that are similar to a query.

    Attributes
    ----------
    gone : int array
        Slots of records that were removed.
    ask : callable
        As `ShardedRecords.ask`.
    """

    def __init__(self, kernel: Similarity, records: ShardedRecords, labels: Integers) -> None:
        self.kernel, self.size, self.width = kernel, len(records), records.width
        self._labels, self.gone = labels, np.empty(0, np.int64)
        self.ask: Callable[..., Any] = records.ask
        self._records, self._pass = records, FIRST
        self._slots, self._kernels = np.empty(0, np.int64), np.empty(0)

    def free(self, slots: Integers) -> None:
        """Records whose budget is gone are never charged; their partition stays as it is."""
        self.gone = np.concatenate([self.gone, slots])

    def near(self, queries: Singles) -> Iterator[tuple[Singles, Integers]]:
        """Pairs (query, slots of similar records, in order), found for many queries at a time."""
        first = 0
        while first < len(queries):
            some = queries[first : first + self._pass]
            parts = self._records.ask("similar", _find, (self.kernel, some), _put_together)
            stops = np.cumsum(parts.counts)
            for query, start, stop in zip(some, stops - parts.counts, stops, strict=True):
                self._slots, self._kernels = parts.slots[start:stop], parts.kernels[start:stop]
                self._labels[self._slots] = parts.labels[start:stop]
                yield query, self._slots
            first += len(some)
            usual = max(len(parts.slots) / len(some), 1.0)
            self._pass = max(min(int(HELD / usual), 4 * len(some), PASS), 1)

    def select(self, query: Singles, slots: Integers) -> tuple[Integers, Floats]:
        """Some of the slots that `near` gave last, and their kernels."""
        return slots, self._kernels[np.searchsorted(self._slots, slots)]


def _find(shard: Shard, question: tuple[Similarity, Singles]) -> _Similar:
    kernel, queries = question
    records = Records(kernel, kernel.prepare(shard.features))
    found = [records.select(query, slots) for query, slots in records.near(queries)]
    slots = np.concatenate([each for each, _ in found])
    counts = np.array([len(each) for each, _ in found])
    return _Similar(counts, shard.first + slots, np.concatenate([each for _, each in found]), shard.labels[slots])


def _put_together(parts: Sequence[_Similar]) -> _Similar:
    """The records of several partitions, sorted by query and slot, in whatever order the partitions come."""
    query = np.concatenate([np.repeat(np.arange(len(part.counts)), part.counts) for part in parts])
    slots = np.concatenate([part.slots for part in parts])
    order = np.lexsort((slots, query))
    kernels, labels = (np.concatenate([getattr(part, name) for part in parts])[order] for name in ("kernels", "labels"))
    return _Similar(np.sum([part.counts for part in parts], axis=0), slots[order], kernels, labels)
