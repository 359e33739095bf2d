"""The nearest sampled records of many queries, in one pass over a part of the records, and the parts put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.arrays import Booleans, Floats, Integers, Singles
from mechanisms.neighbours.distances import distance_margin, squared_distances
from mechanisms.neighbours.kernels import compile_strictly
from mechanisms.neighbours.rounding import UNDERFLOW, UNIT, squared_lengths
from mechanisms.noise.sampling import RecordSampler, within_rate

__all__ = ["Nearest", "SampledSearch", "find_sampled", "merge_nearest"]

PRODUCTS = 1 << 22
"""Inner products held at once."""

PROBE, FIRST = 4096, 16
"""Records by which distances are guessed, and how many times as many a part must have."""

LARGEST = 1e36
"""Stands for an infinite distance: far above every product of features, and its sums fit into single precision."""


@dataclass(frozen=True, eq=False)
class SampledSearch:
    """Queries, and the samples of records among which each of them looks for its nearest.

    Attributes
    ----------
    queries : array of shape (q, d), float32
    numbers : array of shape (q,)
        The queries' numbers, by which the sampler draws.
    sampler : RecordSampler
    rates : sequence of (int, float)
        Column of the draws, and rate, of every sample of a query.
    k : int
    """

    queries: Singles
    numbers: Integers
    sampler: RecordSampler
    rates: Sequence[tuple[int, float]]
    k: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of queries, of samples of a query, and of neighbours."""
        return len(self.queries), len(self.rates), self.k


@dataclass(frozen=True, eq=False)
class Nearest:
    """At most k nearest records of each sample of each query, as a heap; all arrays have shape (q, samples, k).

    Attributes
    ----------
    index : int array
        Of a record among all records, in whichever part; -1 where there are fewer than k.
    distance : float array
        Squared, in double precision; infinite where there is no record.
    votes : array of shape (q, samples, k, ...)
        Label of each record, or its row of votes.
    """

    index: Integers
    distance: Floats
    votes: NDArray[Any]

    @property
    def far(self) -> Floats:
        """Distance of the k-th nearest, shape (q, samples); infinite where there are fewer."""
        furthest: Floats = self.distance.max(axis=2)
        return furthest

    def of(self, query: int, sample: int) -> NDArray[Any]:
        """Votes of the records found, in the order of their indices."""
        index = self.index[query, sample]
        order = np.argsort(index, kind="stable")
        votes: NDArray[Any] = self.votes[query, sample, order[np.count_nonzero(index < 0) :]]
        return votes


def find_sampled(
    records: Singles, votes: NDArray[Any], first: int, search: SampledSearch, bars: Floats | None = None
) -> Nearest:
    """The nearest of some records, of which the first has the index `first` among all.

    Products in single precision, of blocks of records, only leave out records that are certainly further away than k
    sampled ones; draws and distances in double precision decide (see `mechanisms.neighbours.rounding`). So the result
    does not depend on how records are cut into parts or blocks.

    Parameters
    ----------
    records : array of shape (n, d), float32
    votes : array of shape (n, ...)
    first : int
    search : SampledSearch
    bars : array of shape (q, samples), optional
        Distances within which k sampled records are known in other parts: records further away may be left out.
    """
    heaps, known = _Heaps(search.shape), np.full(search.shape[:2], np.inf) if bars is None else bars
    guess = np.full(len(search.queries), np.inf)
    if len(records) >= FIRST * PROBE and not np.isfinite(known).all():
        guess = _guess_distances(records, search)
    _search(heaps, records, first, search, known, guess)
    # what lies beyond a guess was left out: where it is needed, once more without
    far = np.minimum(heaps.distance[:, :, 0], known).max(axis=1, initial=0.0)
    missed = np.flatnonzero(~(far <= guess))
    if missed.size:
        part = replace(search, queries=search.queries[missed], numbers=search.numbers[missed])
        again = _Heaps(part.shape)
        _search(again, records, first, part, known[missed], np.full(missed.size, np.inf))
        heaps.distance[missed], heaps.index[missed] = again.distance, again.index
        heaps.place[missed] = again.place
    return heaps.take(votes)


def _search(heaps: _Heaps, records: Singles, first: int, search: SampledSearch, known: Floats, guess: Floats) -> None:
    """Fill the heaps; records beyond `known`, of shape (q, samples), or `guess`, of shape (q,), may be left out."""
    sieve, wide = _Sieve(search.queries), search.queries.astype(float)
    step = max(PRODUCTS // max(len(wide), 1), 1024)
    for start in range(0, len(records), step):
        block = records[start : start + step]
        far = np.minimum(heaps.distance[:, :, 0], known).max(axis=1, initial=0.0)
        whose, row = sieve.keep(block, np.minimum(far, guess))
        words = search.sampler.words(search.numbers[whose], first + start + row)
        member = np.stack([within_rate(words[:, column], rate) for column, rate in search.rates])
        some = np.flatnonzero(np.logical_or.reduce(member))
        whose, row = whose[some], row[some]
        heaps.add(whose, first + start + row, start + row, squared_distances(block, row, wide, whose), member[:, some])


def _guess_distances(records: Singles, search: SampledSearch) -> Floats:
    """A squared distance of each query within which k records of every sample are likely to lie, by some records."""
    probe = records[:: len(records) // PROBE][:PROBE]
    wanted = search.k / min(rate for _, rate in search.rates) * len(probe) / len(records)
    rank = math.ceil(1.1 * wanted + 3 * math.sqrt(wanted) + 3)
    if rank >= len(probe):
        return np.full(len(search.queries), np.inf)
    # |x - q|^2 = |q|^2 + 2 (|x|^2/2 - x.q)
    rest = squared_lengths(probe).astype(np.float32) / 2 - search.queries @ probe.T
    return np.asarray(squared_lengths(search.queries) + 2.0 * np.partition(rest, rank, axis=1)[:, rank])


def merge_nearest(parts: Sequence[Nearest]) -> Nearest:
    """The k nearest of each sample among those of several parts, in whatever order the parts come."""
    heaps, samples = _Heaps(parts[0].index.shape), parts[0].index.shape[1]
    heaps.index[:], heaps.distance[:] = parts[0].index, parts[0].distance  # in the order of a heap, as they were left
    heaps.place[:] = np.arange(heaps.place.size).reshape(heaps.place.shape)
    for number, part in enumerate(parts[1:], 1):
        place = number * part.index.size + np.arange(part.index.size).reshape(part.index.shape)
        for s in range(samples):
            there = part.index[:, s] >= 0
            member = np.zeros((samples, np.count_nonzero(there)), bool)
            member[s] = True
            query = np.nonzero(there)[0]
            heaps.add(query, part.index[:, s][there], place[:, s][there], part.distance[:, s][there], member)
    return heaps.take(np.concatenate([part.votes.reshape(-1, *part.votes.shape[3:]) for part in parts]))


class _Sieve:
    """Leaves out records that are certainly further from a query than a given distance D.

    |x - q|^2 <= D if and only if x.q - |x|^2 / 2 + (D - |q|^2) / 2 >= 0. One matrix product in single precision gives
    this number, plus a bound on its rounding error: the product of the features and of three further columns,

        x: (e |x|^2 - |x|^2 / 2,  1,                                |x|)
        q: (1,                    (D - |q|^2) / 2 + e (D + |q|^2),  e |q|)

    where e is the relative error of a product of so many terms: the error is at most e times the sum of their sizes
    (Higham 2002, section 3.1).
    """

    def __init__(self, queries: Singles) -> None:
        count, width = queries.shape
        self._margin = 4 * distance_margin(width)
        # half as much again, as the further columns are rounded themselves
        self._error, self._least = 1.5 * (width + 6) * UNIT, 4 * (width + 6) * UNDERFLOW
        self._squares = squared_lengths(queries)
        self._queries = np.ones((count, width + 3), np.float32)
        self._queries[:, :width] = queries
        self._queries[:, -1] = _round_up(self._error * np.sqrt(self._squares))
        self._products = np.empty((count, 0), np.float32)
        self._kept = np.empty((2, 0), np.int32)

    def keep(self, block: Singles, far: Floats) -> tuple[Integers, Integers]:
        """Pairs (query, row) that may be within the distances `far` of the queries."""
        squares, half = squared_lengths(block), self._squares / 2
        rows = np.ones((len(block), block.shape[1] + 3), np.float32)
        rows[:, :-3] = block
        rows[:, -3] = _round_up((self._error + self._margin) * squares - squares / 2)
        rows[:, -1] = _round_up(np.sqrt(squares))
        near = np.minimum(far, LARGEST) / 2
        bars = near * (1 + self._margin) - half * (1 - self._margin) + 2 * self._error * (near + half) + self._least
        self._queries[:, -2] = _round_up(bars)
        if self._products.shape[1] != len(block):
            self._products = np.empty((len(far), len(block)), np.float32)
            self._kept = np.empty((2, self._products.size), np.int32)
        np.matmul(self._queries, rows.T, out=self._products)
        count = compile_strictly(_scan)(self._products.view(np.int32), self._kept)
        whose, row = self._kept[:, :count].astype(np.int64)
        return whose, row


def _round_up(values: Floats) -> Singles:
    """Single precision, never less."""
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))


def _scan(products: NDArray[np.int32], kept: NDArray[np.int32]) -> int:
    """Positions of positive numbers, by the sign bit of their representation; most groups of 32 hold none."""
    count = 0
    for i in range(products.shape[0]):
        row = products[i]
        for start in range(0, row.size, 32):
            group = row[start : start + 32]
            signs = np.int32(-1)
            for j in range(group.size):
                signs &= group[j]
            if signs >= 0:
                for j in range(group.size):
                    if group[j] >= 0:
                        kept[0, count] = i
                        kept[1, count] = start + j
                        count += 1
    return count


class _Heaps:
    """The nearest so far: a heap for each sample of each query, with the furthest, by (distance, index), in front.

    Places without a record are infinitely far.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.distance = np.full(shape, np.inf)
        self.index, self.place = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)

    def add(self, whose: Integers, index: Integers, place: Integers, distance: Floats, member: Booleans) -> None:
        """Offer records to the samples of a query of which they are members; `place` is where their votes stand."""
        heaps = self.distance, self.index, self.place
        compile_strictly(_push)(whose, index, place, distance, member, heaps)

    def take(self, votes: NDArray[Any]) -> Nearest:
        """What was found, with the votes at its places."""
        there = self.index >= 0
        taken = np.zeros((*self.index.shape, *votes.shape[1:]), votes.dtype)
        taken[there] = votes[self.place[there]]
        return Nearest(self.index, self.distance, taken)


def _push(
    whose: Integers, index: Integers, place: Integers, distance: Floats, member: Booleans, heaps: tuple[Any, Any, Any]
) -> None:
    """Replace the furthest record of a heap by one that is nearer, and put the heap in order again from there."""
    k = heaps[0].shape[2]
    for i in range(whose.size):
        gap, name = distance[i], index[i]
        for s in range(member.shape[0]):
            far, names, places = heaps[0][whose[i], s], heaps[1][whose[i], s], heaps[2][whose[i], s]
            if not member[s, i] or far[0] < gap or (far[0] == gap and names[0] < name):
                continue
            at = 0
            while 2 * at + 1 < k:
                below = 2 * at + 1
                if below + 1 < k and (
                    far[below + 1] > far[below] or (far[below + 1] == far[below] and names[below + 1] > names[below])
                ):
                    below += 1
                if far[below] < gap or (far[below] == gap and names[below] < name):
                    break
                far[at], names[at], places[at] = far[below], names[below], places[below]
                at = below
            far[at], names[at], places[at] = gap, name, place[i]
