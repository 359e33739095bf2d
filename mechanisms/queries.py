"""Which public points to ask about. Selection sees public data alone, so it costs nothing."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from mechanisms.validation import checked_count, checked_features, few_threads, needed

__all__ = ["central_points"]

LARGEST = 2 * 10**9
"""Multiplications of a pass of k-means up to which centres are refined."""


def central_points(public: object, count: int, seed: int = 0) -> NDArray[np.int64]:
    """Indices of so many public points that lie in the middle of clusters: k-means, then the point nearest each centre.

    Parameters
    ----------
    public : array of shape (m, d)
    count : int
        At most m. A pass over the centres multiplies m, d and count; where that is above 2e9, the points that
        k-means++ draws (Arthur & Vassilvitskii 2007) are taken as they are.
    seed : int
        The same seed gives the same points.

    Returns
    -------
    integer array of shape (count,), without repetition, largest cluster first
    """
    points = checked_features(public, "public")
    count = checked_count("count", count, 1, len(points))
    if count == len(points):
        return np.arange(count)
    cluster = needed("sklearn.cluster")
    drawn: NDArray[np.int64] = cluster.kmeans_plusplus(points, count, random_state=seed)[1].astype(np.int64)
    if points.size * count > LARGEST:
        return _distinct(drawn, len(points))
    # warnings: that there are fewer distinct points than clusters
    with warnings.catch_warnings(action="ignore"), few_threads(points.size):
        fitted = cluster.KMeans(count, n_init=20, random_state=seed).fit(points)
    sizes = np.bincount(fitted.labels_, minlength=count)
    chosen = np.empty(count, np.int64)
    for i, centre in enumerate(np.argsort(-sizes, kind="stable")):
        distances = ((points - fitted.cluster_centers_[centre]) ** 2).sum(axis=1)
        distances[chosen[:i]] = np.inf
        chosen[i] = int(np.argmin(distances))
    return chosen


def _distinct(drawn: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """As many different indices below n: where points repeat, k-means++ can draw one of them twice."""
    first = np.sort(np.unique(drawn, return_index=True)[1])
    others = np.setdiff1d(np.arange(n), drawn)
    return np.concatenate([drawn[first], others[: len(drawn) - len(first)]])
