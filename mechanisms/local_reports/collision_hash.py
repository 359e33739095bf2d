"""The public hash functions of Collision reports: one for each 64-bit seed, from entries to buckets.

The bucket of entry v, out of l, is ``H(v) = floor(l * g(v) / 2^64)``, where g(v) is output v + 1 of SplitMix64 started
at the seed (Steele, Lea & Flood 2014). Over a uniform seed g(v) is exactly uniform on 64 bits, since the finaliser is a
bijection; so a bucket has probability 1/l to within 2^-64. Estimates are unbiased if an entry's bucket is independent
of the buckets of the c entries of the input, that is for a (c+1)-wise independent family. For SplitMix64 no statistical
test contradicts this, and our tests measure it. Privacy needs no property of the hash: seeds are public and do not
depend on the input.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Bytes, Integers, Words
from mechanisms.noise.exact_draws import scale_words

__all__ = ["LARGEST_BUCKETS", "buckets_of", "hits_of", "rows_of_hits"]


LARGEST_BUCKETS = 2**24
"""Most buckets: probabilities are right to buckets * 2^-64, which is 1e-12."""

INCREMENT = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
"""Constants of SplitMix64."""


def buckets_of(seeds: Words, entries: Integers, buckets: int) -> Integers:
    """Buckets of entries (n, c) under n seeds, one seed for each row."""
    words = seeds[:, None] + INCREMENT * (entries.astype(np.uint64) + np.uint64(1))
    words = (words ^ (words >> np.uint64(30))) * FIRST_FACTOR
    words = (words ^ (words >> np.uint64(27))) * SECOND_FACTOR
    return scale_words(words ^ (words >> np.uint64(31)), buckets).astype(np.int64)


def hits_of(seeds: Words, reported: Integers, buckets: int, domain: int) -> Integers:
    """For how many reports each entry hashes to the reported bucket; shape (domain,)."""
    hits = np.zeros(domain, np.int64)
    _compile()(seeds, *_cells(reported, buckets), hits, np.empty((1, domain), np.uint8))
    return hits


def rows_of_hits(seeds: Words, reported: Integers, buckets: int, domain: int) -> Bytes:
    """Whether each entry hashes to the reported bucket of each report, as 0 and 1; shape (n, domain)."""
    falls = np.empty((len(seeds), domain), np.uint8)
    _compile()(seeds, *_cells(reported, buckets), np.zeros(domain, np.int64), falls)
    return falls


def _cells(reported: Integers, buckets: int) -> tuple[Words, Words]:
    """For each report the first word that maps to its bucket, and the distance to the last such word."""
    values, which = np.unique(reported, return_inverse=True)
    edges = [[-(-(z << 64) // buckets), -(-((z + 1) << 64) // buckets) - 1] for z in values.tolist()]
    first, last = np.array(edges, dtype=np.uint64).reshape(-1, 2).T
    return first[which], (last - first)[which]


@cache
def _compile() -> Any:
    return ac.compile_function(_mark, nogil=True)


def _mark(seeds: Words, first: Words, span: Words, hits: Integers, falls: Bytes) -> None:
    """Count the hits of each entry; where `falls` has a row for every report, also mark them there."""
    apart = 1 if falls.shape[0] == seeds.size else 0
    for i in range(seeds.size):
        row = falls[i * apart]
        for v in range(hits.size):
            word = seeds[i] + INCREMENT * np.uint64(v + 1)
            word = (word ^ (word >> np.uint64(30))) * FIRST_FACTOR
            word = (word ^ (word >> np.uint64(27))) * SECOND_FACTOR
            word = word ^ (word >> np.uint64(31))
            row[v] = word - first[i] <= span[i]
            hits[v] += row[v]
