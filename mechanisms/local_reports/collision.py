"""Collision: a report names one bucket of a public random hash; buckets that the input hits are likelier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property

import numpy as np

import accountant as ac
from mechanisms.arrays import Bytes, Floats, Integers, Words
from mechanisms.local_reports.collision_hash import LARGEST_BUCKETS, buckets_of, hits_of
from mechanisms.local_reports.randomizer import (
    Estimate,
    MalformedReport,
    Responses,
    check_entries,
    check_parameters,
    stack_reports,
)
from mechanisms.noise.exact_draws import DIGITS
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count

__all__ = ["CollisionReports", "best_buckets"]


SEED_BYTES = 8


@dataclass(frozen=True)
class CollisionReports:
    """Collision mechanism (Wang et al. 2022, Def. 5, after Wang et al. 2021) with a fresh public hash in every report.

    Let c be the entries of an input and l the number of buckets. With ``Omega = c exp(epsilon) + l - c`` each bucket
    that the input hits is reported with probability ``p = exp(epsilon)/Omega``; the other buckets share the rest
    evenly. The hash of an entry of the input is the reported bucket with probability p, that of any other entry with
    probability 1/l over the choice of the hash; so ``(hits - 1/l)/(p - 1/l)`` is an unbiased count.

    A report is the seed of the hash (8 bytes, little-endian, drawn for each report) and the bucket (as few bytes as
    hold l - 1). p is rounded down to a multiple of 2^-64, so far that no other bucket has less than exp(-epsilon) times
    its probability: the report as drawn is epsilon-DP, not only in real numbers.

    Parameters
    ----------
    domain : int
        Number of entries; [1, 1e9].
    nonzeros : int
        Entries c of every input; [1, min(domain, 256)].
    epsilon : float
        Pure-DP parameter of the report, in nats; [1e-9, 500].
    buckets : int, optional
        Number l of buckets, [nonzeros + 1, 2^24]; None is the number of smallest variance, see `best_buckets`.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    domain: int
    nonzeros: int
    epsilon: float
    buckets: int | None = None

    def __post_init__(self) -> None:
        for name, value in check_parameters(self.domain, self.nonzeros, self.epsilon).items():
            object.__setattr__(self, name, value)
        if self.buckets is None:
            object.__setattr__(self, "buckets", best_buckets(self.domain, self.nonzeros, self.epsilon))
        else:
            low = self.nonzeros + 1
            object.__setattr__(self, "buckets", check_count("buckets", self.buckets, low, LARGEST_BUCKETS))

    @property
    def event(self) -> ac.Collision:
        return ac.Collision(self.epsilon, self.nonzeros, self._l)

    @property
    def report_bytes(self) -> int:
        return SEED_BYTES + self._bucket_bytes

    @property
    def hit_probability(self) -> float:
        """Probability p of each bucket that the input hits."""
        return self.responses.p

    @property
    def mean_variance(self) -> float:
        """Variance of a count for one user, averaged over the entries: c ones and d - c zeros, whatever the input."""
        per_entry = self.responses.count_variance(np.array([1.0, 0.0]), 1)
        return float((self.nonzeros * per_entry[0] + (self.domain - self.nonzeros) * per_entry[1]) / self.domain)

    def count_variance(self, counts: Integers, n: int) -> Floats:
        """Variance of estimated counts, from the true ones."""
        return self.responses.count_variance(counts, n)

    @property
    def _l(self) -> int:
        assert self.buckets is not None
        return self.buckets

    @property
    def _bucket_bytes(self) -> int:
        return max(1, -(-(self._l - 1).bit_length() // 8))

    @cached_property
    def _share(self) -> int:
        """Number K of the 2^64 words that choose one hit bucket.

        If c buckets are hit, each other bucket has at least ``floor((2^64 - c K)/(l-c))`` words; if fewer are hit, it
        has more, but never more than K. So the report is epsilon-DP if ``K <= e^epsilon ((2^64 - c K)/(l-c) - 1)``,
        which is solved for K.
        """
        c, others = self.nonzeros, self._l - self.nonzeros
        with localcontext() as context:
            context.prec = DIGITS
            share = (2**64 - others) / (others * (-Decimal(self.epsilon)).exp() + c)
            return int(share * (1 - Decimal(10) ** -40))

    @cached_property
    def responses(self) -> Responses:
        """Probabilities that an entry hashes to the reported bucket."""
        share, l = self._share, self._l  # noqa: E741
        return Responses(share / 2**64, 1 / l, (share * l - 2**64) / (l * 2**64))

    def randomize(self, entries: Integers, source: Randomness) -> bytes:
        row = check_entries(entries, self.nonzeros, self.domain)
        return self.randomize_many(row[None], source).tobytes()

    def randomize_many(self, entries: Integers, source: Randomness) -> Bytes:
        rows = check_entries(entries, self.nonzeros, self.domain, many=True)
        seeds, words = source.words(len(rows)), source.words(len(rows))
        reported = self._draw(buckets_of(seeds, rows, self._l), words)
        reports = np.empty((len(rows), self.report_bytes), np.uint8)
        reports[:, :SEED_BYTES] = seeds.astype("<u8").view(np.uint8).reshape(-1, 8)
        reports[:, SEED_BYTES:] = reported.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : self._bucket_bytes]
        return reports

    def _draw(self, hit: Integers, words: Words) -> Integers:
        """Reported buckets, from the buckets that the entries hit and one uniform word for each report."""
        hit = np.sort(hit, axis=1)
        hit[:, 1:][hit[:, 1:] == hit[:, :-1]] = self._l  # a bucket hit twice counts once
        hit = np.sort(hit, axis=1)
        distinct = (hit < self._l).sum(axis=1)
        turn = words // np.uint64(self._share)
        of_input = turn < distinct.astype(np.uint64)
        chosen = np.take_along_axis(hit, np.where(of_input, turn, np.uint64(0)).astype(np.int64)[:, None], axis=1)[:, 0]
        rest = words - distinct.astype(np.uint64) * np.uint64(self._share)
        other = (rest % (self._l - distinct).astype(np.uint64)).astype(np.int64)
        for column in hit.T:  # number the other buckets in order, skipping those that are hit
            other += other >= column
        return np.where(of_input, chosen, other)

    def check(self, report: bytes) -> None:
        self.check_many(stack_reports([report], self.report_bytes))

    def check_many(self, reports: Bytes) -> None:
        self._parse(stack_reports(reports, self.report_bytes))

    def estimate(self, reports: Sequence[bytes] | Bytes) -> Estimate:
        seeds, reported = self._parse(stack_reports(reports, self.report_bytes))
        return self.responses.estimate(hits_of(seeds, reported, self._l, self.domain), len(seeds))

    def _parse(self, rows: Bytes) -> tuple[Words, Integers]:
        """Seeds and buckets of reports."""
        seeds = np.ascontiguousarray(rows[:, :SEED_BYTES]).view("<u8")[:, 0].astype(np.uint64)
        padded = np.zeros((len(rows), 8), np.uint8)
        padded[:, : self._bucket_bytes] = rows[:, SEED_BYTES:]
        reported = padded.view("<i8")[:, 0].astype(np.int64)
        if reported.size and reported.max() >= self._l:
            bad = int(np.argmax(reported))
            raise MalformedReport(f"reports[{bad}] names the bucket {reported[bad]}; accepted: 0..{self._l - 1}")
        return seeds, reported


def best_buckets(domain: int, nonzeros: int, epsilon: float) -> int:
    """The number of buckets that minimises the variance of a count, averaged over the entries of the domain.

    For d entries in the domain, c of them in an input, l buckets and ``w = c + (l-c) e^-epsilon``, the sum of the
    variances is, up to a factor without l, ``((d-c)(l-1) w^2 + c (w-1) l^2)/(l-c)^2``. The numerator is a cubic in
    ``x = l-c`` with coefficients a_i >= 0, so the quotient ``a3 x + a2 + a1/x + a0/x^2`` is convex, and bisection on
    its steps finds the minimum over all integers.
    """
    decay = math.exp(-epsilon)

    def total(l: int) -> float:  # noqa: E741
        x = l - nonzeros
        w = nonzeros + x * decay
        above = nonzeros - 1 + x * decay  # w - 1
        return float((domain - nonzeros) * (l - 1) * (w / x) ** 2 + nonzeros * above * (l / x) ** 2)

    low, high = nonzeros + 1, LARGEST_BUCKETS
    while low < high:
        middle = (low + high) // 2
        if total(middle + 1) < total(middle):
            low = middle + 1
        else:
            high = middle
    return low
