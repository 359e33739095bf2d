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
        heaps.place[missed], heaps.free[missed] = again.place, again.free
    return heaps.take(votes)


def _search(heaps: _Heaps, records: Singles, first: int, search: SampledSearch, known: Floats, guess: Floats) -> None:
    """Fill the heaps; records beyond `known`, of shape (q, samples), or `guess`, of shape (q,), may be left out."""
    sieve, wide, done = _Sieve(search.queries, records), search.queries.astype(float), 0
    while done < len(records):
        far = np.minimum(heaps.distance[:, :, 0], known).max(axis=1, initial=0.0)
        whose, row, done = sieve.keep(done, np.minimum(far, guess))
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
    heaps, samples = _Heaps(parts[0].index.shape), parts[0].index.shape[1]
    heaps.index[:], heaps.distance[:] = parts[0].index, parts[0].distance  # in the order of heaps, as they were left
    heaps.free[:] = np.count_nonzero(heaps.index < 0, axis=2)
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

    |x - q|^2 <= D if and only if x.q - |x|^2 / 2 >= (|q|^2 - D) / 2. A matrix product in single precision gives x.q but
    for an error of at most e |x| |q| + s <= e (|x|^2 + |q|^2) / 2 + s, with e and s of `product_error`. So a record that
    is not left out must have

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


class _Heaps:
    """The nearest so far, of each sample of each query: a heap with the furthest, by (distance, index), in front.

    It is put in order when it is full. Until then its places are filled from behind, and those that are free are
    infinitely far: the one in front is the last of them.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.distance = np.full(shape, np.inf)
        self.index, self.place = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
        self.free = np.full(shape[:-1], shape[-1])

    def add(self, whose: Integers, index: Integers, place: Integers, distance: Floats, member: Booleans) -> None:
        """Offer records to the samples of a query of which they are members; `place` is where their votes stand."""
        heaps = self.distance, self.index, self.place, self.free
        compile_strictly(_push)(whose, index, place, distance, member, heaps)

    def take(self, votes: NDArray[Any]) -> Nearest:
        """What was found, with the votes at its places."""
        there = self.index >= 0
        taken = np.zeros((*self.index.shape, *votes.shape[1:]), votes.dtype)
        taken[there] = votes[self.place[there]]
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
