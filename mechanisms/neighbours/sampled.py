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
from mechanisms.neighbours.kernels import compile_strictly, squares
from mechanisms.neighbours.rounding import product_error, squared_lengths
from mechanisms.noise.sampling import RecordSampler, within_rate

__all__ = ["Nearest", "SampledSearch", "count_rows", "find_sampled", "merge_nearest"]

PRODUCTS = 1 << 18
"""Inner products held at once: few enough to be in a cache still when they are compared."""

ENOUGH = 1 << 16
"""Pairs of a query and a record that are looked at together; the distances found then leave more out."""

PROBE, FIRST = 4096, 16
"""Records by which distances are guessed, and how many times as many a part must have."""


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

    def of(self, query: int, sample: int) -> NDArray[Any]:
        """Votes of the records found, in the order of their indices."""
        index = self.index[query, sample]
        order = np.argsort(index, kind="stable")
        votes: NDArray[Any] = self.votes[query, sample, order[np.count_nonzero(index < 0) :]]
        return votes

    def among(self, first: int, size: int) -> Nearest:
        """Those of so many records, of which the first has this index."""
        other = (self.index < first) | (self.index >= first + size)
        index, distance = np.where(other, -1, self.index), np.where(other, np.inf, self.distance)
        return Nearest(
            index, distance, np.where(other.reshape(other.shape + (1,) * (self.votes.ndim - 3)), 0, self.votes)
        )


def find_sampled(
    records: Singles, votes: NDArray[Any], first: int, search: SampledSearch, known: Nearest | None = None
) -> Nearest:
    """The nearest of some records, of which the first has the index `first` among all, and of those that are known.

    Products in single precision, of blocks of records, only leave out records that are certainly further away than k
    sampled ones; draws and distances in double precision decide (see `mechanisms.neighbours.rounding`). So the result
    does not depend on how records are cut into parts or blocks.

    Parameters
    ----------
    records : array of shape (n, d), float32
    votes : array of shape (n, ...)
    first : int
    search : SampledSearch
    known : Nearest, optional
        What was found in other parts, by this function or by `merge_nearest`: there is less to look at in this one.
    """
    # what came over a network may lie at odd addresses, and would be copied for each block
    queries = np.require(search.queries, requirements=["C", "ALIGNED"])
    search = replace(search, queries=queries, numbers=np.require(search.numbers, requirements=["C", "ALIGNED"]))
    before, guess = _begin(search, known, len(votes)), np.full(len(queries), np.inf)
    heaps = before.some(slice(None))
    if len(records) >= FIRST * PROBE and not np.isfinite(heaps.far).all():
        guess = _guess_distances(records, search)
    _search(heaps, records, first, search, guess)
    # what lies beyond a guess was left out: where it is needed, once more without
    missed = np.flatnonzero(~(heaps.far <= guess))
    if missed.size:
        again = before.some(missed)
        part = replace(search, queries=search.queries[missed], numbers=search.numbers[missed])
        _search(again, records, first, part, np.full(missed.size, np.inf))
        heaps.put(missed, again)
    return heaps.take(votes, None if known is None else _flat(known.votes))


def _begin(search: SampledSearch, known: Nearest | None, place: int) -> _Heaps:
    """Heaps of what is known, whose votes stand at `place` and behind."""
    if known is None:
        return _Heaps.empty(search.shape)
    places = place + np.arange(known.index.size).reshape(known.index.shape)
    return _Heaps(known.distance, known.index, places, np.count_nonzero(known.index < 0, axis=2))


def _flat(votes: NDArray[Any]) -> NDArray[Any]:
    """Votes of all queries and samples, one record after another."""
    return votes.reshape(-1, *votes.shape[3:])


def _search(heaps: _Heaps, records: Singles, first: int, search: SampledSearch, guess: Floats) -> None:
    """Fill the heaps; records beyond `guess`, of shape (q,), may be left out."""
    sieve, wide, done = _Sieve(search.queries, records), search.queries.astype(float), 0
    while done < len(records):
        whose, row, done = sieve.keep(done, np.minimum(heaps.far, guess))
        words = search.sampler.words(search.numbers[whose], first + row)
        member = np.stack([within_rate(words[:, column], rate) for column, rate in search.rates])
        some = np.flatnonzero(np.logical_or.reduce(member))
        whose, row = whose[some], row[some]
        heaps.add(whose, first + row, row, squared_distances(records, row, wide, whose), member[:, some])


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
    queries, samples, k = parts[0].index.shape
    # one heap after another, each from all parts
    index, distance = (
        np.stack([getattr(part, name) for part in parts], axis=2).ravel() for name in ("index", "distance")
    )
    votes = np.stack([part.votes for part in parts], axis=2)
    place = np.flatnonzero(index >= 0)
    heaps = _Heaps.empty((queries * samples, 1, k))
    heaps.add(place // (len(parts) * k), index[place], place, distance[place], np.ones((1, len(place)), bool))
    return heaps.shaped((queries, samples, k)).take(votes.reshape(-1, *votes.shape[4:]))


class _Sieve:
    """Leaves out records that are certainly further from a query than a given distance D.

    |x - q|^2 <= D if and only if x.q - |x|^2 / 2 >= (|q|^2 - D) / 2. A matrix product in single precision gives x.q but
    for an error of at most e |x| |q| + s <= e (|x|^2 + |q|^2) / 2 + s, with e and s of `product_error`. So a record
    within D has

        x.q, as computed, - (1 - e) |x|^2 / 2 >= (1 - e) |q|^2 / 2 - D / 2 - s

    and what is subtracted and what is compared with are rounded down to single precision. The rounding of the
    difference leaves nothing more out: it is monotone, and the right side is a number of single precision.
    """

    def __init__(self, queries: Singles, records: Singles) -> None:
        width = queries.shape[1]
        # of squared lengths and distances in double precision, also of those that decide
        self._margin = 4 * distance_margin(width)
        self._share = 1 - float(product_error(width, 1.0)) - self._margin
        # twice, for what a processor that flushes subnormal numbers to zero loses in the comparison
        self._least = 2 * float(product_error(width, 0.0))
        self._queries, self._squares = queries, squares(queries)
        self._records, self._halves = records, _round_down(self._share / 2 * squares(records))
        step = count_rows(len(queries))
        self._products = np.empty((len(queries), step), np.float32)
        self._kept = np.empty((2, ENOUGH + self._products.size), np.int64)

    def keep(self, start: int, far: Floats) -> tuple[Integers, Integers, int]:
        """Pairs (query, row) that may be within the distances `far` of the queries, for some rows from `start` on.

        Returns
        -------
        whose, row : int array
        stop : int
            The first row that was not looked at.
        """
        bars = _round_down((self._share * self._squares - (1 + self._margin) * far) / 2 - self._least)
        step, count = self._products.shape[1], 0
        while start < len(self._records) and count < ENOUGH:
            block = self._records[start : start + step]
            products = self._products[:, : len(block)]
            np.matmul(self._queries, block.T, out=products)
            halves = self._halves[start : start + step]
            count = compile_strictly(_scan)(products, halves, bars, start, self._kept, count)
            start += len(block)
        return self._kept[0, :count], self._kept[1, :count], start


def count_rows(queries: int) -> int:
    """Records in a block that is multiplied with so many queries."""
    return max(PRODUCTS // max(queries, 1), 256)


def _round_down(values: Floats) -> Singles:
    """Single precision, never more."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


def _scan(products: Singles, halves: Singles, bars: Singles, start: int, kept: Integers, count: int) -> int:
    """Positions where a product less a half is at least the bar of its row; most groups of 64 hold none."""
    for i in range(bars.size):
        row, bar = products[i], bars[i]
        for group in range(0, row.size, 64):
            product, half = row[group : group + 64], halves[group : group + 64]
            near = 0
            for j in range(product.size):
                near += product[j] - half[j] >= bar
            if near:
                for j in range(product.size):
                    if product[j] - half[j] >= bar:
                        kept[0, count] = i
                        kept[1, count] = start + group + j
                        count += 1
    return count


@dataclass(frozen=True, eq=False)
class _Heaps:
    """The nearest so far, of each sample of each query: a heap with the furthest, by (distance, index), in front.

    It is put in order when it is full. Until then its places are filled from behind, and those that are free are
    infinitely far: the one in front is the last of them.

    Attributes
    ----------
    distance, index, place : array of shape (q, samples, k)
        Squared distance of a record, its index, and where its votes stand.
    free : int array of shape (q, samples)
        Number of free places.
    """

    distance: Floats
    index: Integers
    place: Integers
    free: Integers

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> _Heaps:
        free = np.full(shape[:-1], shape[-1])
        return cls(np.full(shape, np.inf), np.full(shape, -1), np.zeros(shape, np.int64), free)

    @property
    def far(self) -> Floats:
        """Distance within which there are k records of every sample of a query, shape (q,)."""
        furthest: Floats = self.distance[:, :, 0].max(axis=1, initial=0.0)
        return furthest

    def some(self, queries: Integers | slice) -> _Heaps:
        """A copy of the heaps of some queries."""
        return _Heaps(
            self.distance[queries].copy(),
            self.index[queries].copy(),
            self.place[queries].copy(),
            self.free[queries].copy(),
        )

    def shaped(self, shape: tuple[int, ...]) -> _Heaps:
        """The same heaps, in order, of so many queries and samples."""
        index, place = self.index.reshape(shape), self.place.reshape(shape)
        return _Heaps(self.distance.reshape(shape), index, place, self.free.reshape(shape[:-1]))

    def put(self, queries: Integers, heaps: _Heaps) -> None:
        """Replace the heaps of some queries."""
        for each in ("distance", "index", "place", "free"):
            getattr(self, each)[queries] = getattr(heaps, each)

    def add(self, whose: Integers, index: Integers, place: Integers, distance: Floats, member: Booleans) -> None:
        """Offer records to the samples of a query of which they are members; `place` is where their votes stand."""
        heaps = self.distance, self.index, self.place, self.free
        compile_strictly(_push)(whose, index, place, distance, member, heaps)

    def take(self, votes: NDArray[Any], known: NDArray[Any] | None = None) -> Nearest:
        """What was found, with the votes at its places; behind `votes` come those of `known`."""
        there, behind = self.index >= 0, self.place >= len(votes)
        taken = np.zeros((*self.index.shape, *votes.shape[1:]), votes.dtype)
        taken[there & ~behind] = votes[self.place[there & ~behind]]
        if known is not None:
            taken[there & behind] = known[self.place[there & behind] - len(votes)]
        return Nearest(self.index, self.distance, taken)


def _push(
    whose: Integers, index: Integers, place: Integers, distance: Floats, member: Booleans, heaps: tuple[Any, ...]
) -> None:
    """Put a record into a free place, or in place of the furthest of a heap, and the heap in order from there."""
    k = heaps[0].shape[2]
    for i in range(whose.size):
        for s in range(member.shape[0]):
            far, names, places = heaps[0][whose[i], s], heaps[1][whose[i], s], heaps[2][whose[i], s]
            gap, name, free = distance[i], index[i], heaps[3][whose[i], s]
            if not member[s, i] or (free == 0 and (far[0] < gap or (far[0] == gap and names[0] < name))):
                continue
            slot = max(free - 1, 0)
            far[slot], names[slot], places[slot] = gap, name, place[i]
            heaps[3][whose[i], s] = slot
            # all of a heap that is full for the first time, or from its front
            top = -1 if slot else (k // 2 - 1 if free else 0)
            while top >= 0:
                at, gap, name, where = top, far[top], names[top], places[top]
                while 2 * at + 1 < k:
                    below = 2 * at + 1
                    if below + 1 < k and (
                        far[below + 1] > far[below]
                        or (far[below + 1] == far[below] and names[below + 1] > names[below])
                    ):
                        below += 1
                    if far[below] < gap or (far[below] == gap and names[below] < name):
                        break
                    far[at], names[at], places[at] = far[below], names[below], places[below]
                    at = below
                far[at], names[at], places[at] = gap, name, where
                top -= 1
