"""The public hash functions of Collision reports: one for each 64-bit seed, from entries to buckets.

``H(v) = floor(l * g(v) / 2^64)``, g(v) being output v + 1 of SplitMix64 started at the seed (Steele, Lea & Flood 2014).
Over a uniform seed g(v) is uniform on 64 bits exactly, since the finaliser is a bijection, so a bucket has probability
1/l to within 2^-64. Estimates are unbiased if an entry's bucket is independent of those of the c entries of the input,
that is for a (c+1)-wise independent family; of SplitMix64 this holds as far as tests of randomness can tell, and ours
measure it. Privacy needs nothing of the hash: seeds are public and drawn without looking at the input.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.noise.exact_draws import scaled
from mechanisms.validation import require

__all__ = ["LARGEST_BUCKETS", "buckets_of", "falls_of", "hits_of"]

Counts = NDArray[np.int64]
Words = NDArray[np.uint64]

LARGEST_BUCKETS = 2**24
"""Most buckets: a probability is right to buckets * 2^-64, which is 1e-12."""

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


def buckets_of(seeds: Words, entries: Counts, buckets: int) -> Counts:
    """Buckets of the entries under each seed; shape of `entries`, (n, c), from n seeds."""
    words = seeds[:, None] + STEP * (entries.astype(np.uint64) + np.uint64(1))
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return scaled(words ^ (words >> np.uint64(31)), buckets).astype(np.int64)


def hits_of(seeds: Words, reported: Counts, buckets: int, domain: int) -> Counts:
    """For how many reports each entry falls into the reported bucket; shape (domain,)."""
    hits = np.zeros(domain, np.int64)
    _compiled()(seeds, *_cells(reported, buckets), hits, np.empty((1, domain), np.uint8))
    return hits


def falls_of(seeds: Words, reported: Counts, buckets: int, domain: int) -> NDArray[np.uint8]:
    """Whether each entry falls into the reported bucket, as 0 and 1; shape (n, domain)."""
    falls = np.empty((len(seeds), domain), np.uint8)
    _compiled()(seeds, *_cells(reported, buckets), np.zeros(domain, np.int64), falls)
    return falls


def _cells(reported: Counts, buckets: int) -> tuple[Words, Words]:
    """First word that is mapped to each reported bucket, and how far the last is from it."""
    values, which = np.unique(reported, return_inverse=True)
    edges = [[-(-(z << 64) // buckets), -(-((z + 1) << 64) // buckets) - 1] for z in values.tolist()]
    first, last = np.array(edges, dtype=np.uint64).reshape(-1, 2).T
    return first[which], (last - first)[which]


@cache
def _compiled() -> Any:
    return require("numba").njit(cache=True, nogil=True)(_fall)


def _fall(seeds: Words, first: Words, span: Words, hits: Counts, falls: NDArray[np.uint8]) -> None:
    """Add up hits, and keep them apart where `falls` has a row for every report."""
    apart = 1 if falls.shape[0] == seeds.size else 0
    for i in range(seeds.size):
        row = falls[i * apart]
        for v in range(hits.size):
            word = seeds[i] + STEP * np.uint64(v + 1)
            word = (word ^ (word >> np.uint64(30))) * FIRST
            word = (word ^ (word >> np.uint64(27))) * SECOND
            word = word ^ (word >> np.uint64(31))
            row[v] = word - first[i] <= span[i]
            hits[v] += row[v]
