"""What Ind-KNN's counts and votes cost each record, and how votes are summed up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers

__all__ = ["VOTE_GRAIN", "Prices", "Selected", "count_between", "pay_for", "worth_of_budget"]

VOTE_GRAIN = 2.0**-36
"""Votes of a record are rounded down to multiples of it, so that sums below 2^17 are exact in any order.

That is enough for 10^10 s2^2 selected records, s2 being the noise of the votes.
"""

PART_MARGIN = 2.0**-50
"""Relative rounding error allowed for in the vote of a record that spends all it has left."""

BUDGET_MARGIN = 2.0**-50
"""Relative rounding error of amounts, with which `accountant.IndividualFilter` prices a budget."""


def worth_of_budget(budget: float) -> ac.GaussianDP:
    """What a whole interaction is as private as, whatever is asked: mu-GDP with mu^2/2 = B, as the filter prices it."""
    return ac.GaussianDP(math.sqrt(2 * budget * (1 + BUDGET_MARGIN)))


@dataclass(frozen=True)
class Prices:
    """What records pay for counts and votes, in units of their budget.

    Attributes
    ----------
    budget : float
    count_units : int
        For being counted.
    vote_sigma : float
        s2, the noise of the votes in units of sqrt(K).
    min_count : float
        Least K.
    n_classes : int
    """

    budget: float
    count_units: int
    vote_sigma: float
    min_count: float
    n_classes: int

    @property
    def filter(self) -> ac.IndividualFilter:
        """Converts units; holds no records."""
        return ac.IndividualFilter(self.budget)

    def scale(self, count: float) -> float:
        """Noise of the votes of a query with K = `count`."""
        return self.vote_sigma * math.sqrt(count)

    def votes(self, kernels: Floats, left: Integers, count: float) -> tuple[Floats, Integers]:
        """Votes of selected records, in units of their noise, which then has scale 1, and what they cost: f^2/2."""
        scale, units = self.scale(count), self.filter
        with np.errstate(over="ignore"):  # a warning would reveal that some record is near
            parts, price = kernels / scale, units.units((kernels / scale) ** 2 / 2)
        most = np.sqrt(2 * units.nats(left)) * (1 - PART_MARGIN)
        return np.where(price <= left, parts, most), np.minimum(price, left)

    def after(self, kernels: Floats, left: Integers, count: float) -> Integers:
        """What counted records have left once they have voted; it falls with their kernel and grows with `count`."""
        rest: Integers = left - self.votes(kernels, left, count)[1]
        return rest

    def sum_votes(self, voters: Integers, parts: Floats) -> Floats:
        """Votes for each class, as exact sums: a record must not change how the votes of others are rounded."""
        return np.bincount(voters, np.floor(parts / VOTE_GRAIN) * VOTE_GRAIN, self.n_classes).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Selected:
    """Records of one partition whose kernel with a query reaches the threshold.

    Attributes
    ----------
    rows, labels : int array of shape (n,)
    kernels : float array of shape (n,)
    """

    rows: Integers
    kernels: Floats
    labels: Integers


def count_between(
    queries: Sequence[Selected], left: Integers, low: Floats, high: Floats, prices: Prices
) -> tuple[Integers, Integers]:
    """Fewest and most records that each of several queries can count, if each K is between `low` and `high`.

    What a record has left before a query is between two bounds: equal ones before the first. Every step keeps the order
    of what two records have left, if both are counted or both are not, and a larger K takes less: so the bounds hold
    before the next query. A record whose bounds do not agree on whether it is counted may have anything down to 0
    afterwards, and no more than the larger of both cases leaves it. If every K before a query is known, both numbers
    are equal.

    Parameters
    ----------
    queries : sequence of Selected
    left : int array
        What each record of the partition has left.
    low, high : float array
    prices : Prices
    """
    least, most, cost = left.copy(), left.copy(), prices.count_units
    counts = np.zeros((2, len(queries)), np.int64)
    for i, query in enumerate(queries):
        may = most[query.rows] >= cost
        rows, kernels = query.rows[may], query.kernels[may]
        sure = least[rows] >= cost
        counts[:, i] = np.count_nonzero(sure), len(rows)
        counted = prices.after(kernels, np.maximum(least[rows] - cost, 0), low[i])
        least[rows] = np.where(sure, counted, 0)
        rich = prices.after(kernels, most[rows] - cost, high[i])
        most[rows] = np.where(sure, rich, np.maximum(rich, cost - 1))
    return counts[0], counts[1]


def pay_for(queries: Sequence[Selected], left: Integers, known: Floats, prices: Prices) -> tuple[Integers, Floats]:
    """Charge records for queries with known K, one after another; returns how many each counted, and its votes.

    Parameters
    ----------
    queries : sequence of Selected
    left : int array
        What each record of the partition has left; it is changed.
    known : float array
        K of each query.
    prices : Prices
    """
    counts, votes = np.zeros(len(queries), np.int64), np.zeros((len(queries), prices.n_classes))
    for i, query in enumerate(queries):
        active = left[query.rows] >= prices.count_units
        rows = query.rows[active]
        left[rows] -= prices.count_units
        counts[i] = len(rows)
        parts, units = prices.votes(query.kernels[active], left[rows], known[i])
        left[rows] -= units
        votes[i] = prices.sum_votes(query.labels[active], parts)
    return counts, votes
