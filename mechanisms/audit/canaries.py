"""Neighbouring data sets on which a mechanism reveals most: canaries for audits.

Every function returns a `Canary`: two data sets that differ in one record, queries, and the values of a query on each
data set, for a score of `mechanisms.audit.likelihood`. A bound holds for its pair; other pairs may be worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.audit.likelihood import View, sampled_view
from mechanisms.validation import check_count, check_positive

__all__ = [
    "Canary",
    "about_to_retire",
    "at_threshold",
    "largest_gradient",
    "near_tie",
    "nobody_near",
    "replaced_record",
]

DataSet = tuple[Singles, Integers]


@dataclass(frozen=True, eq=False)
class Canary:
    """Two neighbouring data sets, a query, and its values.

    Attributes
    ----------
    neighbours : pair of (X, y)
        Without and with the canary, which is the last record; or before and after its replacement.
    query : float array of shape (1, d), or (s, d) where public points are labelled
    views : pair of View
        Values of the query on each data set before noise.
    """

    neighbours: tuple[DataSet, DataSet]
    query: Singles
    views: tuple[View, View]

    def queries(self, n: int) -> Singles:
        """The query, n times."""
        return np.repeat(self.query, n, axis=0)


def near_tie(n_neighbors: int, lead: int = 1, rate: float = 1.0, n_classes: int = 2, crowd: int = 0) -> Canary:
    """Votes of which one decides: class 0 leads class 1 by `lead`; the canary takes one vote away and adds one.

    The canary, of class 1, is nearest to the query and takes the place of the farthest neighbour, which is of class 0.

    Parameters
    ----------
    n_neighbors : int
        k, which has the parity of `lead`.
    lead : int
        With 1 the canary changes the winner, with 0 it breaks a tie, and with k the vote is unanimous. The larger the
        lead, the rarer the outcomes that the canary makes likelier.
    rate : float
        Sampling rate, which the views take into account.
    n_classes : int
    crowd : int
        Number of farther records of class 0, which fill up a sample.
    """
    k, more = check_count("n_neighbors", n_neighbors, 1), check_count("crowd", crowd, 0)
    if isinstance(lead, bool) or not isinstance(lead, int) or abs(lead) > k or (k - lead) % 2:
        raise ac.ParameterError(f"lead = {lead!r}; accepted: an integer of the parity of n_neighbors = {k}, up to it")
    ahead = (k + lead) // 2
    return _voters([1] * (k - ahead) + [0] * (ahead + more), 1, k, rate, n_classes)


def at_threshold(n_neighbors: int, threshold: float, rate: float = 1.0, n_classes: int = 2) -> Canary:
    """A plurality just below the threshold of a screening, which the canary raises to it.

    The canary, of class 0, takes the place of a neighbour of another class, or of none if fewer than k are sampled.

    Parameters
    ----------
    n_neighbors : int
    threshold : float
        Outside the range from the least plurality, that of evenly spread votes, to `n_neighbors`, the nearest value
        inside is taken.
    rate, n_classes
        As for `near_tie`.
    """
    k, classes = check_count("n_neighbors", n_neighbors, 2), check_count("n_classes", n_classes, 2)
    most = min(max(math.ceil(threshold) - 1, math.ceil(k / classes)), k - 1)
    others = [1 + i % (classes - 1) for i in range(k - most)]
    return _voters([0] * most + others, 0, k, rate, n_classes)


def _voters(labels: list[int], canary: int, k: int, rate: float, n_classes: int) -> Canary:
    """Records at distances 1, 2, ... with these labels, and a canary at the query."""
    X = np.arange(1.0, len(labels) + 1, dtype=np.float32)[:, None]
    y = np.array(labels, np.int64)
    joined = np.concatenate([X, np.zeros((1, 1), np.float32)]), np.append(y, canary)
    views = sampled_view(labels, n_classes, k, rate), sampled_view([canary, *labels], n_classes, k, rate)
    return Canary(((X, y), joined), np.zeros((1, 1), np.float32), views)


def nobody_near(n_classes: int = 2) -> Canary:
    """Ind-KNN with no other record near the query: only the canary is ever selected.

    The other record is orthogonal to the query: its kernel is 0.
    """
    return _individual_canary([], n_classes)


def about_to_retire(others: int, n_classes: int = 2) -> Canary:
    """Ind-KNN with `others` further records near the query, which have the same budget and retire together.

    With a budget for one count and part of a vote, and two queries or more, the canary votes with all that it has left
    and must not be selected again: votes that are not clipped, missing charges and late checks all show.
    """
    return _individual_canary([0] * check_count("others", others, 0), n_classes)


def _individual_canary(others: list[int], n_classes: int) -> Canary:
    """Records with these labels at the query, one far from it, and a canary of class 1 at the query."""
    near, far = [1.0, 0.0], [0.0, 1.0]
    X = np.array([far] + [near] * len(others), np.float32)
    y = np.array([0, *others], np.int64)
    joined = np.concatenate([X, np.array([near], np.float32)]), np.append(y, 1)
    votes = np.bincount(others, minlength=n_classes).astype(float)
    more = votes + np.eye(n_classes)[1]
    return Canary(((X, y), joined), np.array([near], np.float32), (View.certain(votes), View.certain(more)))


def replaced_record(n_neighbors: int, others: int = 1) -> Canary:
    """Reverse k-NN with one record replaced: its k votes leave k queries and go to k others, for another class.

    The query holds all 2k public points, at 0, 1, .., k - 1 and at 1000, .., 1000 + k - 1; each point is a query of
    reverse k-NN. The views are the counts of shape (2k, 2), flattened.

    Parameters
    ----------
    n_neighbors : int
    others : int
        Number of records at each end that stay.
    """
    k = check_count("n_neighbors", n_neighbors, 1)
    check_count("others", others, 0)
    points = np.concatenate([np.arange(k), 1000 + np.arange(k)]).astype(np.float32)[:, None]
    ends = np.array([[(k - 1) / 2], [1000 + (k - 1) / 2]], np.float32)
    stay, classes = np.repeat(ends, others, axis=0), np.arange(2 * others) % 2
    sets, views = [], []
    for end in (0, 1):
        X, y = np.concatenate([stay, ends[end : end + 1]]), np.append(classes, end)
        counts = np.zeros((2, 2))
        np.add.at(counts, ((X[:, 0] > 500).astype(int), y), 1)
        sets.append((X, y.astype(np.int64)))
        views.append(View.certain(np.repeat(counts, k, axis=0).ravel()))
    return Canary((sets[0], sets[1]), points, (views[0], views[1]))


def largest_gradient(length: float, others: int = 1) -> Canary:
    """NoisySGD with a record whose gradient is far above any clip: its feature is `length`, that of others is 0.

    The views are the sums of gradients, in units of the clip, in the first step from zero weights with two classes;
    rows are feature and intercept, as in `weights_`.
    """
    length = check_positive("length", length)
    X, y = np.zeros((check_count("others", others, 1), 1), np.float32), np.zeros(others, np.int64)
    joined = np.concatenate([X, np.array([[length]], np.float32)]), np.append(y, 1)
    # (softmax - one-hot) of class 1 is (1/2, -1/2); times (x, 1), scaled to length 1
    unit = (np.outer([length, 1.0], [0.5, -0.5]) / math.hypot(length, 1.0) * math.sqrt(2)).ravel()
    views = View.certain(np.zeros(4)), View.certain(unit)
    return Canary(((X, y), joined), np.zeros((1, 1), np.float32), views)
