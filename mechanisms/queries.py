"""Which public points to ask about. Selection sees public data alone, so it costs nothing."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from mechanisms.neighbours.reverse import Connections
from mechanisms.validation import check_count, check_features, few_threads, require

__all__ = ["central_points", "cluster_centres"]

LARGEST = 2 * 10**9
"""Multiplications of a pass of k-means up to which centres are refined."""

SMALL = 10**8
"""Multiplications of a pass up to which k-means begins often enough to find the best of many."""

PASSES = 10
"""Of k-means over many points."""


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
    points = check_features(public, "public")
    count = check_count("count", count, 1, len(points))
    if count == len(points):
        return np.arange(count)
    cluster = require("sklearn.cluster")
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


def cluster_centres(public: object, count: int, weights: object = None, seed: int = 0) -> NDArray[np.float32]:
    """Centres (count, d) of clusters of public points: k-means, begun by k-means++ (Arthur & Vassilvitskii 2007).

    Parameters
    ----------
    public : array of shape (m, d)
    count : int
        At most m. Where m d count is above 1e8, k-means begins once and makes ten passes; where it is above 4e9, over a
        random choice of the points.
    weights : array of shape (m,), optional
        Importance of each point, not negative; more of it attracts more centres.
    seed : int
        The same seed gives the same centres.
    """
    points = check_features(public, "public")
    count = check_count("count", count, 1, len(points))
    importance = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=float)
    if points.size * count > SMALL:
        return _few_passes(points, count, importance, np.random.default_rng(seed))
    cluster = require("sklearn.cluster")
    # warnings: that there are fewer distinct points than clusters
    with warnings.catch_warnings(action="ignore"), few_threads(points.size):
        fitted = cluster.KMeans(count, n_init=20, random_state=seed).fit(points, sample_weight=importance)
    return np.ascontiguousarray(fitted.cluster_centers_, dtype=np.float32)


def _few_passes(
    points: NDArray[np.float32], count: int, weights: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Centres of clusters of many points."""
    most = max(2 * LARGEST // (points.shape[1] * count), count)
    if len(points) > most:
        some = np.sort(rng.choice(len(points), most, replace=False))
        points, weights = points[some], weights[some]
    with few_threads(0):
        centres = points[_spread(points, count, weights, rng)]
    for _ in range(PASSES):
        nearest = Connections(centres).best(points)
        order = np.argsort(nearest, kind="stable")
        sizes = np.bincount(nearest, weights, minlength=count)
        taken = np.flatnonzero(np.bincount(nearest, minlength=count))
        starts = np.searchsorted(nearest[order], taken)
        sums = np.add.reduceat(points[order] * weights[order, None], starts, axis=0)
        heavy = sizes[taken] > 0
        # a cluster of no weight stays where it is
        centres[taken[heavy]] = (sums[heavy] / sizes[taken[heavy], None]).astype(np.float32)
    return centres


def _spread(
    points: NDArray[np.float32], count: int, weights: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Different points, each drawn by its weight times its squared distance to those drawn before."""
    squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    distances = np.ones(len(points))
    drawn = np.empty(count, np.int64)
    for i in range(count):
        total = np.cumsum(weights * distances)
        if total[-1] > 0:
            drawn[i] = min(np.searchsorted(total, rng.random() * total[-1], side="right"), len(points) - 1)
        else:  # those left repeat the ones drawn
            drawn[i] = np.setdiff1d(np.arange(len(points)), drawn[:i])[0]
        gaps = np.maximum(squares - 2.0 * (points @ points[drawn[i]]) + squares[drawn[i]], 0.0)
        distances = np.minimum(distances, gaps) if i else gaps
        distances[drawn[: i + 1]] = 0.0
    return drawn
