"""Poisson sampling: every record joins a sample independently."""

from __future__ import annotations

import math

import numpy as np

from mechanisms.arrays import Booleans, Integers, Words
from mechanisms.noise.exact_draws import coins
from mechanisms.noise.source import Randomness
from mechanisms.validation import require

__all__ = ["RecordSampler", "poisson_sample"]

WORD = np.dtype("<u8")
"""A 64-bit draw; in this byte order on every machine."""


def poisson_sample(n: int, rate: float, source: Randomness) -> Integers:
    """Sorted indices out of range(n), each included independently with probability `rate`, rounded down to 2^-64."""
    bar = _bar(rate)
    return np.arange(n) if bar >= 2**64 else np.flatnonzero(coins(source, n, bar))


class RecordSampler:
    """Poisson samples in which any record's membership can be found by itself, on whatever machine the record is.

    A record's draws for a query are the two 64-bit halves of the block (query, record) enciphered by AES-256: counter
    mode, which no known test tells from independent draws. A record is in a sample if its draw is below ``rate 2^64``,
    rounded down: so with at most the probability that is priced, and less by at most 2^-64.

    Parameters
    ----------
    key : bytes
        32 bytes that nobody else knows; `from_source` draws them.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._last: tuple[tuple[int, int], Words] | None = None

    @classmethod
    def from_source(cls, source: Randomness) -> RecordSampler:
        """A sampler with a fresh key."""
        return cls(source.words(4).astype(WORD).tobytes())

    def __getstate__(self) -> bytes:
        """The key alone."""
        return self.key

    def __setstate__(self, key: bytes) -> None:
        self.__init__(key)  # type: ignore[misc]

    def words(self, queries: Integers | int, records: Integers) -> Words:
        """Draws (n, 2) of each pair of a query's number and a record's index; both are at least 0."""
        ciphers = require("cryptography.hazmat.primitives.ciphers")
        blocks = np.empty((len(records), 2), WORD)
        blocks[:, 0], blocks[:, 1] = queries, records
        cipher = ciphers.Cipher(ciphers.algorithms.AES(self.key), ciphers.modes.ECB()).encryptor()
        drawn = np.frombuffer(cipher.update(blocks.view(np.uint8).ravel().data), WORD).reshape(-1, 2)
        return drawn.astype(np.uint64, copy=False)

    def draw(self, n: int, rate: float, query: int, column: int) -> Integers:
        """Sorted indices out of range(n) in the sample of a query; `column`, 0 or 1, tells its two samples apart."""
        if self._last is None or self._last[0] != (n, query):
            self._last = (n, query), self.words(query, np.arange(n))
        return np.flatnonzero(within_rate(self._last[1][:, column], rate))


def within_rate(words: Words, rate: float) -> Booleans:
    """Which uniform 64-bit draws are below ``rate 2^64``, rounded down."""
    bar = _bar(rate)
    if bar >= 2**64:
        return np.ones(len(words), bool)
    return words < np.uint64(bar)


def _bar(rate: float) -> int:
    """``rate 2^64``, rounded down."""
    return math.floor(math.ldexp(rate, 64)) if rate > 0 else 0
