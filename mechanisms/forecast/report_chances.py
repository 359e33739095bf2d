"""Chances of the labels that are estimated from reports, each of which is private by itself."""

from __future__ import annotations

import math

import numpy as np

from mechanisms.arrays import Floats, Integers
from mechanisms.local_reports.randomizer import Responses
from mechanisms.vote_chances import winning_probability

__all__ = ["report_probability"]

DEVIATIONS, OUTLIERS = 9.0, 30.0
"""Ones that are left out lie this many standard deviations, and so many more, from the mean.

By Bernstein's inequality their probability is at most ``2 exp(-x^2 / (2 (s^2 + x/3)))`` for x = 9 s + 30, below 1e-17.
"""

NUMBERS = 1 << 22
"""Numbers held at once."""


def report_probability(responses: Responses, votes: Floats, n_records: int, labels: Integers) -> Floats:
    """The probability that a label has the largest count that is estimated from all records' reports.

    A record's report has a one for a label that it votes for with probability p, for another with q, independently: a
    bit of randomized response, or whether an entry falls into Collision's bucket (taking hashes as independent). An
    estimate rises with its number of ones, which is Binomial(t, p) + Binomial(n - t, q) for t true votes of n records.
    So labels compare by ones, and ties go to the lower label.

    Parameters
    ----------
    responses : Responses
    votes : array of shape (m, c)
        True votes for each class at a query, whole numbers.
    n_records : int
        Records that report, also those that vote at other queries.
    labels : array of shape (m,)
    """
    rows, back = np.unique(np.column_stack([votes, labels]).astype(np.int64), axis=0, return_inverse=True)
    table, wanted = rows[:, :-1], rows[:, -1]
    counts, where = np.unique(table, return_inverse=True)
    where = where.reshape(table.shape)
    first, chances = _ones(responses, counts, max(n_records, int(counts.max(initial=0))))
    size = max(NUMBERS // (table.shape[1] * chances.shape[1]), 1)
    found = [
        winning_probability(chances[where[some]], first[where[some]], wanted[some])
        for some in (slice(start, start + size) for start in range(0, len(table), size))
    ]
    every: Floats = np.concatenate(found)[back.ravel()]
    return every


def _ones(responses: Responses, counts: Integers, n: int) -> tuple[Integers, Floats]:
    """First number of ones and probabilities from there, for each number of true votes."""
    first, chances = [], []
    for count in counts.tolist():
        parts = [_window(count, responses.p), _window(n - count, responses.q)]
        first.append(parts[0][0] + parts[1][0])
        chances.append(np.convolve(parts[0][1], parts[1][1]))
    width = max(map(len, chances))
    return np.array(first), np.stack([np.pad(each, (0, width - len(each))) for each in chances])


def _window(n: int, p: float) -> tuple[int, Floats]:
    """Least number of successes that is kept, and the probabilities from there."""
    from scipy.stats import binom  # takes half a second to import

    reach = DEVIATIONS * math.sqrt(n * p * (1 - p)) + OUTLIERS
    low, high = max(math.floor(n * p - reach), 0), min(math.ceil(n * p + reach), n)
    return low, binom.pmf(np.arange(low, high + 1), n, p)
