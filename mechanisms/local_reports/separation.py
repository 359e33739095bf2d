"""Separation: two Collision reports, on the nearest queries and on the label, each at half of epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import accountant as ac
from mechanisms.arrays import Bytes, Integers
from mechanisms.local_reports.collision import CollisionReports
from mechanisms.local_reports.collision_hash import rows_of_hits
from mechanisms.local_reports.randomizer import Estimate, Responses, check_entries, stack_reports
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count, check_real

__all__ = ["SeparationReports"]


ENTRIES_AT_ONCE = 2**22
"""Most entries of both reports whose hits are held at once."""


@dataclass(frozen=True)
class SeparationReports:
    """Separation (Wang et al. 2022, App. B): queries and label are reported separately, at half of epsilon each.

    An input is the product of k queries and r classes. The two reports are independent, so the product of the unbiased
    estimates for the query and for the class of an entry is an unbiased estimate for the entry.

    Parameters
    ----------
    queries, classes : int
        s and the number of classes; an entry is ``query * classes + class``.
    neighbours, label_ones : int
        k in [1, min(queries, 256)] and r in [1, min(classes, 256)].
    epsilon : float
        Pure-DP parameter of both reports together, in nats; [2e-9, 500].

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    queries: int
    classes: int
    neighbours: int
    label_ones: int
    epsilon: float

    def __post_init__(self) -> None:
        for whole, part in (("queries", "neighbours"), ("classes", "label_ones")):
            size = check_count(whole, getattr(self, whole), 1, 10**9)
            check_count(part, getattr(self, part), 1, min(size, 256))
        check_real("epsilon", self.epsilon, "[2e-9, 500]", lambda number: 2e-9 <= number <= 500)

    @cached_property
    def query_part(self) -> CollisionReports:
        """Randomizer of the nearest queries."""
        return CollisionReports(self.queries, self.neighbours, self.epsilon / 2)

    @cached_property
    def label_part(self) -> CollisionReports:
        """Randomizer of the label."""
        return CollisionReports(self.classes, self.label_ones, self.epsilon / 2)

    @property
    def domain(self) -> int:
        return self.queries * self.classes

    @property
    def nonzeros(self) -> int:
        return self.neighbours * self.label_ones

    @property
    def event(self) -> ac.Composition:
        return self.query_part.event + self.label_part.event

    @property
    def report_bytes(self) -> int:
        return self.query_part.report_bytes + self.label_part.report_bytes

    @property
    def mean_variance(self) -> float:
        """Variance of a count for one user, averaged over the entries: second moments of the two reports multiply."""
        query, label = self.query_part, self.label_part
        moments = (query.domain * query.mean_variance + query.nonzeros) * (
            label.domain * label.mean_variance + label.nonzeros
        )
        return (moments - self.nonzeros) / self.domain

    def randomize(self, entries: Integers, source: Randomness) -> bytes:
        row = check_entries(entries, self.nonzeros, self.domain)
        return self.randomize_many(row[None], source).tobytes()

    def randomize_many(self, entries: Integers, source: Randomness) -> Bytes:
        rows = check_entries(entries, self.nonzeros, self.domain, many=True)
        grid = rows.reshape(-1, self.neighbours, self.label_ones)
        queries, classes = grid[:, :, 0] // self.classes, grid[:, 0] % self.classes
        wrong = (grid != queries[:, :, None] * self.classes + classes[:, None]).any(axis=(1, 2))
        if wrong.any():
            raise ac.ParameterError(
                f"entries {rows[np.argmax(wrong)].tolist()} are not a product; accepted: the same {self.label_ones} "
                f"classes for each of {self.neighbours} queries"
            )
        halves = self.query_part.randomize_many(queries, source), self.label_part.randomize_many(classes, source)
        return np.hstack(halves)

    def check(self, report: bytes) -> None:
        self.check_many(stack_reports([report], self.report_bytes))

    def check_many(self, reports: Bytes) -> None:
        rows, cut = stack_reports(reports, self.report_bytes), self.query_part.report_bytes
        self.query_part.check_many(rows[:, :cut])
        self.label_part.check_many(rows[:, cut:])

    def estimate(self, reports: Sequence[bytes] | Bytes) -> Estimate:
        rows = stack_reports(reports, self.report_bytes)
        halves = np.split(rows, [self.query_part.report_bytes], axis=1)
        query, label = self.query_part._parse(halves[0]), self.label_part._parse(halves[1])
        first, second = np.zeros((self.queries, 1), np.int64), np.zeros(self.classes, np.int64)
        both = np.zeros((self.queries, self.classes), np.int64)
        step = max(1, ENTRIES_AT_ONCE // (self.queries + self.classes))
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            one = rows_of_hits(query[0][some], query[1][some], self.query_part.event.buckets, self.queries)
            other = rows_of_hits(label[0][some], label[1][some], self.label_part.event.buckets, self.classes)
            first[:, 0] += one.sum(axis=0, dtype=np.int64)
            second += other.sum(axis=0, dtype=np.int64)
            # fewer than 2^24 rows, so that sums in single precision are exact
            both += (one.T.astype(np.float32) @ other.astype(np.float32)).astype(np.int64)
        return self._products(both, first, second, len(rows))

    def _products(self, both: Integers, first: Integers, second: Integers, n: int) -> Estimate:
        """Sums over the reports of x y, where x and y are the estimates for query and class, and their variances.

        A user adds ``E[x^2] E[y^2] - E[x y]^2`` to the variance, which depends on whether the user has the query and
        the class. The numbers of such users are estimates, clipped to what is possible for n users, so the variance is
        biased for few reports.
        """
        a, b = self.query_part.responses, self.label_part.responses
        counts = (both - b.q * first - a.q * second + n * a.q * b.q) / (a.gap * b.gap)
        of_query, of_class = (np.clip(r.estimate(ones, n).counts, 0, n) for r, ones in ((a, first), (b, second)))
        of_both = np.clip(counts, np.maximum(of_query + of_class - n, 0), np.minimum(of_query, of_class))
        (a0, a1), (b0, b1) = _second_moments(a), _second_moments(b)
        variance = of_both * (a1 * b1 - 1) + (of_query - of_both) * a1 * b0 + (of_class - of_both) * a0 * b1
        variance += (n - of_query - of_class + of_both) * a0 * b0
        return Estimate(counts.ravel(), variance.ravel())


def _second_moments(responses: Responses) -> tuple[float, float]:
    """Second moments of one user's estimate if the true value is 0, and if it is 1."""
    zero, one = responses.count_variance(np.array([0.0, 1.0]), 1)
    return float(zero), float(one) + 1.0
