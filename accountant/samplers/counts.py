"""Counts of what a stream of batches shows, and of how often it could have."""

from __future__ import annotations

import numpy as np

from accountant.samplers.stream import Indices, Stream

__all__ = ["by_record", "by_window", "first_together", "most_alike", "neighbours", "together"]


def together(seen: Stream, lag: int) -> tuple[int, int]:
    """Records that are in both steps of disjoint pairs of steps `lag` apart, and the number of pairs."""
    first = (seen.steps // lag) % 2 == 0
    start = np.where(first, seen.steps, seen.steps - lag)
    within = start + lag < seen.length
    keys = start[within] * seen.records + seen.indices[within]
    _, counts = np.unique(keys, return_counts=True)
    starts = np.arange(seen.length)
    pairs = int(((starts // lag % 2 == 0) & (starts + lag < seen.length)).sum())
    return int((counts == 2).sum()), pairs


def by_record(seen: Stream) -> tuple[Indices, int]:
    """Participations of every record that is met, and the number of the others, which no memory is spent on."""
    _, counts = np.unique(seen.indices, return_counts=True)
    return counts, seen.records - counts.size


def first_together(seen: Stream, length: int) -> tuple[int, int]:
    """Records in the first steps of two epochs, over disjoint pairs of epochs, and the number of pairs."""
    pairs = -(-seen.length // length) // 2
    first = (seen.steps % length == 0) & (seen.steps // length < 2 * pairs)
    _, counts = np.unique(seen.steps[first] // length // 2 * seen.records + seen.indices[first], return_counts=True)
    return int((counts == 2).sum()), pairs


def most_alike(seen: Stream, length: int) -> tuple[int, int]:
    """The most records that a step of one epoch has in common with one of another, and the number of such pairs.

    Epochs of `length` steps are compared with the next one, and with the first.
    """
    from scipy.sparse import csr_array

    epochs = -(-seen.length // length)
    if epochs < 2:  # an epoch may be declared to be far longer than the stream
        return 0, 0
    met, columns = np.unique(seen.indices, return_inverse=True)
    ends = np.searchsorted(seen.steps, length * np.arange(epochs + 1))
    members = []
    for epoch, here in enumerate(map(slice, ends[:-1], ends[1:])):
        places = seen.steps[here] - epoch * length, columns[here]
        members.append(csr_array((np.ones(places[0].size, np.int64), places), shape=(length, max(met.size, 1))))
    most = pairs = 0
    for earlier, later in [(e - 1, e) for e in range(1, epochs)] + [(0, e) for e in range(2, epochs)]:
        most = max(most, int((members[earlier] @ members[later].T).max()))
        pairs += length * min(length, seen.length - later * length)
    return most, pairs


def neighbours(seen: Stream) -> tuple[int, int]:
    """Batches that hold both records 2i and 2i+1, over all i, and the number of chances."""
    half = seen.records // 2
    inside = seen.indices < 2 * half
    _, counts = np.unique(seen.steps[inside] * half + seen.indices[inside] // 2, return_counts=True)
    return int((counts == 2).sum()), half * seen.length


def by_window(seen: Stream, length: int) -> tuple[int, int, int]:
    """Pairs of a record and a window of so many steps: met never, met once, and all of them."""
    windows = seen.length // length
    inside = seen.steps < windows * length
    _, counts = np.unique(seen.steps[inside] // length * seen.records + seen.indices[inside], return_counts=True)
    total = windows * seen.records
    return total - counts.size, int((counts == 1).sum()), total
