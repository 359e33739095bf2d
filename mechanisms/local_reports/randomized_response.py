"""Randomized response on every entry: a report is the whole vector of bits, each flipped at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import cached_property

import numpy as np

import accountant as ac
from mechanisms.arrays import Bytes, Floats, Integers
from mechanisms.local_reports.randomizer import (
    Estimate,
    MalformedReport,
    Responses,
    check_entries,
    check_parameters,
    stack_reports,
)
from mechanisms.noise.exact_draws import DIGITS, coins
from mechanisms.noise.source import Randomness

__all__ = ["RandomizedBits"]


BITS_AT_ONCE = 2**22
"""Most bits held at once."""


@dataclass(frozen=True)
class RandomizedBits:
    """Randomized response on all entries of the domain, at ``epsilon / (2 nonzeros)`` per bit.

    Two inputs differ in at most 2c bits, c = `nonzeros`, so each is flipped with probability
    ``1/(exp(epsilon/(2c)) + 1)`` (Wang et al. 2022, after Duchi, Jordan & Wainwright 2013), rounded up to a multiple of
    2^-64.

    Parameters
    ----------
    domain : int
        Number of entries; [1, 1e9].
    nonzeros : int
        Entries of every input; [1, min(domain, 256)].
    epsilon : float
        Pure-DP parameter of the report, in nats; [1e-9, 500].

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    domain: int
    nonzeros: int
    epsilon: float

    def __post_init__(self) -> None:
        for name, value in check_parameters(self.domain, self.nonzeros, self.epsilon).items():
            object.__setattr__(self, name, value)

    @property
    def event(self) -> ac.RandomizedResponse:
        bits = 2 * self.nonzeros
        return ac.RandomizedResponse(self.epsilon / bits, bits=bits, adjacency=ac.Adjacency.REPLACE)

    @property
    def crowd_event(self) -> ac.RandomizedResponse:
        """The same, with what is known of all inputs: it counts where reports are shuffled."""
        return replace(self.event, ones=self.nonzeros, length=max(self.domain, 2 * self.nonzeros))

    @property
    def report_bytes(self) -> int:
        """One bit for each entry, the first in the lowest bit; unused bits of the last byte are zero."""
        return -(-self.domain // 8)

    @property
    def flip_probability(self) -> float:
        """Probability that a bit is flipped."""
        return self.responses.q

    @property
    def mean_variance(self) -> float:
        """Variance of any count for one user: ``e/(e-1)^2``, e = exp(epsilon/(2c))."""
        return float(self.responses.count_variance(0.0, 1))

    def count_variance(self, counts: Integers, n: int) -> Floats:
        """Variance of estimated counts, which here is the same for all true counts."""
        return self.responses.count_variance(counts, n)

    @cached_property
    def _threshold(self) -> int:
        """How many of the 2^64 words flip a bit."""
        with localcontext() as context:
            context.prec = DIGITS
            return int(2**64 / (Decimal(self.event.epsilon).exp() + 1)) + 1

    @cached_property
    def responses(self) -> Responses:
        """Probabilities that a bit of the report is 1."""
        flipped = self._threshold
        return Responses((2**64 - flipped) / 2**64, flipped / 2**64, (2**64 - 2 * flipped) / 2**64)

    def randomize(self, entries: Integers, source: Randomness) -> bytes:
        row = check_entries(entries, self.nonzeros, self.domain)
        return self.randomize_many(row[None], source).tobytes()

    def randomize_many(self, entries: Integers, source: Randomness) -> Bytes:
        rows = check_entries(entries, self.nonzeros, self.domain, many=True)
        reports = np.empty((len(rows), self.report_bytes), np.uint8)
        for some in self._blocks(len(rows)):
            block = rows[some]
            bits = coins(source, len(block) * self.domain, self._threshold).reshape(len(block), self.domain)
            bits[np.arange(len(block))[:, None], block] ^= True
            reports[some] = np.packbits(bits, axis=1, bitorder="little")
        return reports

    def check(self, report: bytes) -> None:
        self.check_many(stack_reports([report], self.report_bytes))

    def check_many(self, reports: Bytes) -> None:
        self._check_padding(stack_reports(reports, self.report_bytes))

    def estimate(self, reports: Sequence[bytes] | Bytes) -> Estimate:
        rows = stack_reports(reports, self.report_bytes)
        self._check_padding(rows)
        ones = np.zeros(self.domain, np.int64)
        for some in self._blocks(len(rows)):
            bits = np.unpackbits(rows[some], axis=1, count=self.domain, bitorder="little")
            ones += bits.sum(axis=0, dtype=np.int64)
        return self.responses.estimate(ones, len(rows))

    def _check_padding(self, rows: Bytes) -> None:
        """Reject reports with a one after the last bit."""
        used = self.domain % 8
        bad = np.flatnonzero(rows[:, -1] >> used) if used else np.empty(0, np.int64)
        if bad.size:
            raise MalformedReport(
                f"reports[{bad[0]}] ends with the byte {rows[bad[0], -1]}; accepted: below {1 << used}, as it holds "
                f"{used} bits"
            )

    def _blocks(self, n: int) -> Iterator[slice]:
        step = max(1, BITS_AT_ONCE // self.domain)
        return (slice(start, start + step) for start in range(0, n, step))
