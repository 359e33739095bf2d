"""Neighbouring data sets on which a mechanism would tell most: canaries for audits.

Every helper returns a `Canary`: two data sets that differ in one record, queries, and what a query's answer is made of
on either, for a score of `mechanisms.audit.likelihood`. A bound is about its pair; other pairs may be worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import accountant as ac
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

DataSet = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Canary:
    """Two neighbouring data sets, and what is asked about them.

    Attributes
    ----------
    neighbours : pair of (X, y)
        Without and with the canary, which is the last record; or before and after it was replaced.
    query : float array of shape (1, d), or (s, d) where public points are labelled
    views : pair of View
        What an answer is made of on either, before noise.
    """

    neighbours: tuple[DataSet, DataSet]
    query: NDArray[np.float32]
    views: tuple[View, View]

    def queries(self, n: int) -> NDArray[np.float32]:
        """The query, n times."""
        return np.repeat(self.query, n, axis=0)


def near_tie(n_neighbors: int, lead: int = 1, rate: float = 1.0, n_classes: int = 2, crowd: int = 0) -> Canary:
    """Votes of which one decides who wins: class 0 leads class 1 by `lead`; the canary takes one away and adds one.

    The canary, of class 1, is nearest to the query, and takes the place of the farthest neighbour, of class 0.

    Parameters
    ----------
    n_neighbors : int
        k; of its parity is `lead`, the larger the rarer is what the canary brings about. 1 flips the winner, 0 breaks
        a tie. ``lead = k`` gives a unanimous vote.
    rate : float
        Sampling rate, of which the views take account.
    n_classes : int
    crowd : int
        Records of class 0 farther off, from which a sample is filled up.
    """
    k, more = check_count("n_neighbors", n_neighbors, 1), check_count("crowd", crowd, 0)
    if isinstance(lead, bool) or not isinstance(lead, int) or abs(lead) > k or (k - lead) % 2:
        raise ac.ParameterError(f"lead = {lead!r}; accepted: an integer of the parity of n_neighbors = {k}, up to it")
    ahead = (k + lead) // 2
    return _voters([1] * (k - ahead) + [0] * (ahead + more), 1, k, rate, n_classes)


def at_threshold(n_neighbors: int, threshold: float, rate: float = 1.0, n_classes: int = 2) -> Canary:
    """A plurality just below the bar of a screening, which the canary lifts to it.

    The canary, of class 0, takes the place of a neighbour of another class; where all of the sample votes, of nobody.

    Parameters
    ----------
    n_neighbors : int
    threshold : float
        Where it is not between the least plurality, of evenly spread votes, and `n_neighbors`: the nearest inside.
    rate, n_classes
        As for `near_tie`.
    """
    k, classes = check_count("n_neighbors", n_neighbors, 2), check_count("n_classes", n_classes, 2)
    most = min(max(math.ceil(threshold) - 1, math.ceil(k / classes)), k - 1)
    others = [1 + i % (classes - 1) for i in range(k - most)]
    return _voters([0] * most + others, 0, k, rate, n_classes)


def _voters(labels: list[int], canary: int, k: int, rate: float, n_classes: int) -> Canary:
    """Records at distances 1, 2, ... with these labels, and a canary at the query itself."""
    X = np.arange(1.0, len(labels) + 1, dtype=np.float32)[:, None]
    y = np.array(labels, np.int64)
    joined = np.concatenate([X, np.zeros((1, 1), np.float32)]), np.append(y, canary)
    views = sampled_view(labels, n_classes, k, rate), sampled_view([canary, *labels], n_classes, k, rate)
    return Canary(((X, y), joined), np.zeros((1, 1), np.float32), views)


def nobody_near(n_classes: int = 2) -> Canary:
    """Ind-KNN with nobody near the query: the canary is the only record that is ever selected.

    The one other record is at a right angle: its kernel with the query is 0.
    """
    return _selected([], n_classes)


def about_to_retire(others: int, n_classes: int = 2) -> Canary:
    """Ind-KNN with so many others near the query, which all have the same budget, and retire together.

    With a budget for one count and part of a vote, and two queries or more, the canary votes with all that is left and
    must not be seen again: parts that are not cut, charges that are forgotten and late checks all show.
    """
    return _selected([0] * check_count("others", others, 0), n_classes)


def _selected(others: list[int], n_classes: int) -> Canary:
    near, far = [1.0, 0.0], [0.0, 1.0]
    X = np.array([far] + [near] * len(others), np.float32)
    y = np.array([0, *others], np.int64)
    joined = np.concatenate([X, np.array([near], np.float32)]), np.append(y, 1)
    votes = np.bincount(others, minlength=n_classes).astype(float)
    more = votes + np.eye(n_classes)[1]
    return Canary(((X, y), joined), np.array([near], np.float32), (View.certain(votes), View.certain(more)))


def replaced_record(n_neighbors: int, others: int = 1) -> Canary:
    """Reverse k-NN with one record replaced: its k votes leave k queries, and k arrive elsewhere, for another class.

    The query is all 2k public points, at 0, 1, .., k - 1 and as many beyond 1000: every point is a query. The views
    are the counts (2k, 2), flattened.

    Parameters
    ----------
    n_neighbors : int
    others : int
        Records at either end that stay.
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
    """NoisySGD with a record whose gradient is far above any clip: its feature is `length`, the others' are 0.

    The views are the gradients, in units of the clip, of the first step from zero weights with two classes: for each of
    the two rows, feature and intercept, as in `weights_`. What they are before the step is drawn, the score may ignore.
    """
    length = check_positive("length", length)
    X, y = np.zeros((check_count("others", others, 1), 1), np.float32), np.zeros(others, np.int64)
    joined = np.concatenate([X, np.array([[length]], np.float32)]), np.append(y, 1)
    # (softmax - one-hot) of class 1 is (1/2, -1/2); times (x, 1), scaled to length 1
    unit = (np.outer([length, 1.0], [0.5, -0.5]) / math.hypot(length, 1.0) * math.sqrt(2)).ravel()
    views = View.certain(np.zeros(4)), View.certain(unit)
    return Canary(((X, y), joined), np.zeros((1, 1), np.float32), views)
