"""Labelled public points that stand for private records, and votes that such records would cast."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.neighbours.rounding import squared_lengths
from mechanisms.queries import central_points
from mechanisms.validation import check_count, check_features, check_labels

__all__ = ["MOST_POINTS", "PublicSample", "draw_records", "extrapolate", "vote_counts"]

MOST_POINTS = 4000
"""Most public points that a forecast is made from; of more, a random choice is taken."""

FEWEST_POINTS = 20


@dataclass(frozen=True, eq=False)
class PublicSample:
    """Public points with labels, as a sample of the distribution from which the private records came.

    Attributes
    ----------
    features : float array of shape (m, d)
    labels : int array of shape (m,)
    n_classes : int
    n_records : int
        Public number of private records.
    seed : int
        Of the draws of a forecast, which are of public points.
    """

    features: Singles
    labels: Integers
    n_classes: int
    n_records: int
    seed: int = 0

    @classmethod
    def of(cls, X: object, y: object, n_classes: int | None, n_records: object, seed: int) -> PublicSample:
        """A sample of checked arrays; of more than `MOST_POINTS` points a random choice.

        Raises
        ------
        accountant.ParameterError
            A value is not as described, or there are too few points.
        """
        points = check_features(X, "public")
        records = check_count("n_records", n_records, 1)
        check_count("seed", seed, 0)
        if len(points) < FEWEST_POINTS:
            raise ac.ParameterError(f"public holds {len(points)} points; accepted: at least {FEWEST_POINTS}")
        labels, classes = check_labels(y, len(points), n_classes)
        if len(points) > MOST_POINTS:
            some = np.sort(np.random.default_rng(seed).choice(len(points), MOST_POINTS, replace=False))
            points, labels = points[some], labels[some]
        return cls(points, labels, classes, records, seed)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def weight(self) -> float:
        """Private records for which a public point stands; one is left out, the point that is asked about."""
        return self.n_records / (len(self) - 1)

    @cached_property
    def distances(self) -> Singles:
        """Squared distances (m, m) of all pairs; those of a point to itself are infinite."""
        squares = squared_lengths(self.features)
        found = (squares[:, None] + squares - 2.0 * (self.features @ self.features.T)).astype(np.float32)
        np.fill_diagonal(found, np.inf)
        return found

    @cached_property
    def order(self) -> Integers:
        """The other points (m, m - 1) by their distance from each."""
        return np.argsort(self.distances, axis=1, kind="stable")[:, :-1].astype(np.int32)

    def centres(self, count: int) -> Integers:
        """Points in the middle of clusters, as `label_in_rounds` chooses its queries."""
        known: dict[int, Integers] = self.__dict__.setdefault("_centres", {})
        if count not in known:
            known[count] = central_points(self.features, count)
        return known[count]


def draw_records(sample: PublicSample, rng: np.random.Generator, share: float = 1.0) -> Integers:
    """Private records (m,) for which each public point stands: `weight`, rounded at random to one of its neighbours.

    There are fewer public points than records as a rule, and their own randomness is more than that of the records:
    Poisson numbers would count it twice. With a `share` below 1 only so many points, chosen at random, stand for all.
    """
    mean = sample.weight / share
    found: Integers = (np.floor(mean) + (rng.random(len(sample)) < mean - np.floor(mean))).astype(np.int64)
    left_out = rng.permutation(len(sample))[round(share * len(sample)) :]
    found[left_out] = 0
    return found


def extrapolate(sample: PublicSample, whole: Any, half: Any) -> Any:
    """What as many points as there are records would give, from what all public points and half of them gave.

    Votes of m points scatter more than those of n records. A smooth function of votes is off by about b/m then, and by
    2 b/m if it is computed from half of the points; for the records it would be off by b/n (Quenouille 1956).
    """
    more = max(1 - len(sample) / sample.n_records, 0.0)
    return whole + more * (whole - half)


def vote_counts(sample: PublicSample, records: Integers, rate: float, k: int, rng: np.random.Generator) -> Floats:
    """Votes (m, c) of the k nearest records in a fresh Poisson sample for every public point, which is left out.

    Parameters
    ----------
    records : array of shape (m,)
        Records at each public point, from `draw_records`.
    """
    m, classes = len(sample), sample.n_classes
    # as many ranks as k sampled records need, with room for chance
    ranks = min(m - 1, int(np.ceil((k + 6 * np.sqrt(k) + 20) / (rate * sample.weight))) + 40)
    counts = np.empty((m, classes))
    size = max((1 << 22) // ranks, 1)
    for start in range(0, m, size):
        near = sample.order[start : start + size, :ranks]
        held = rng.binomial(records[near], rate)
        votes = np.diff(np.minimum(np.cumsum(held, axis=1), k), axis=1, prepend=0)
        entries = np.arange(len(near))[:, None] * classes + sample.labels[near]
        counts[start : start + size] = np.bincount(
            entries.ravel(), votes.ravel().astype(float), len(near) * classes
        ).reshape(len(near), classes)
    return counts
