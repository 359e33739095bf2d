"""Votes of the nearest records in Poisson samples, from records in partitions."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.arrays import Singles
from mechanisms.neighbours.sampled import Nearest, SampledSearch, find_sampled, merge_nearest
from mechanisms.noise.sampling import RecordSampler
from mechanisms.shards.records import Shard, ShardedRecords
from mechanisms.voting import clip_votes

__all__ = ["PASS", "NearestVotes"]

PASS = 1024
"""Most queries that are answered in one pass over the partitions."""

VOTES = 1 << 21
"""Most votes that are found in one pass."""

KEPT = 2
"""Passes of which a worker remembers what it found."""


@dataclass(frozen=True, eq=False)
class _Known:
    """What a worker has found in the partitions of a pass: it leaves less to look at in others, with the same result.

    Attributes
    ----------
    parts : frozenset of int
        First index of each of these partitions: one that is read twice must not count twice.
    nearest : Nearest or None
        In all of them together, as `find_sampled` and `merge_nearest` return it.
    """

    parts: frozenset[int]
    nearest: Nearest | None


NOTHING = _Known(frozenset(), None)

_known: OrderedDict[str, _Known] = OrderedDict()
_lock = threading.Lock()


class NearestVotes:
    """The votes for queries that are asked one after another, found for many of them in one pass over the partitions.

    Parameters
    ----------
    records : ShardedRecords
    points : array of shape (m, d)
    sampler : RecordSampler
    rates : sequence of (int, float)
        Column of the draws, and rate, of each sample of a query.
    k : int
    clip : float or None
        L1 norm to which label sets are clipped.
    """

    def __init__(
        self,
        records: ShardedRecords,
        points: Singles,
        sampler: RecordSampler,
        rates: list[tuple[int, float]],
        k: int,
        clip: float | None,
    ) -> None:
        self._records, self._points, self._sampler, self._rates = records, points, sampler, rates
        self._k, self._clip = k, clip
        self._first = 0
        self._found: Nearest | None = None
        each = len(rates) * k * (1 if clip is None else records.n_classes)
        self._most = min(max(VOTES // each, 16), PASS)

    def of(self, query: int, column: int) -> NDArray[Any]:
        """Labels of the nearest records in the sample of a query, or their rows of votes, by index of record."""
        if self._found is None or not self._first <= query < self._first + len(self._found.index):
            self._found, self._first = self._pass(query), query
        sample = [each for each, _ in self._rates].index(column)
        return self._found.of(query - self._first, sample)

    def _pass(self, first: int) -> Nearest:
        points = self._points[first : first + self._most]
        numbers = np.arange(first, first + len(points))
        search = SampledSearch(points, numbers, self._sampler, self._rates, self._k)
        return self._records.ask("nearest", _answer, (search, self._clip, uuid.uuid4().hex), merge_nearest)


def _answer(shard: Shard, question: tuple[SampledSearch, float | None, str]) -> Nearest:
    search, clip, name = question
    votes = shard.labels if clip is None else clip_votes(shard.labels, clip)
    with _lock:
        before = _known.get(name, NOTHING)
    found = find_sampled(
        shard.features, votes, shard.first, search, None if shard.first in before.parts else before.nearest
    )
    own = found.among(shard.first, len(shard.features))
    with _lock:
        now = _known.pop(name, NOTHING)
        if shard.first not in now.parts:
            # other partitions may have been searched meanwhile
            whole = found if now is before else merge_nearest([each for each in (now.nearest, own) if each is not None])
            now = _Known(now.parts | {shard.first}, whole)
        _known[name] = now
        while len(_known) > KEPT:
            _known.popitem(last=False)
    return own
