"""Which public points to ask about. The choice depends on public data alone, so it costs no privacy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.neighbours.reverse import Connections
from mechanisms.neighbours.rounding import squared_lengths
from mechanisms.validation import check_count, check_features, few_threads, require

__all__ = ["CHOICES", "central_points", "cluster_centres", "order_queries", "take_turn"]

CHOICES = ("central", "random", "first")
"""Ways to choose queries by name."""

LARGEST_PASS = 2 * 10**9
"""Multiplications in a pass of k-means up to which centres are refined."""

SMALL_PASS = 10**8
"""Multiplications in a pass up to which k-means starts 20 times and keeps the best result."""

PASSES = 10
"""Passes of k-means over many points."""


def central_points(public: object, count: int, seed: int = 0) -> Integers:
    """Indices of `count` public points in the middle of clusters: k-means, then the point nearest each centre.

    Parameters
    ----------
    public : array of shape (m, d)
    count : int
        At most m. If m d count, the multiplications of one pass, exceeds 2e9, the points that k-means++ draws (Arthur &
        Vassilvitskii 2007) are taken as they are.
    seed : int
        The same seed gives the same points.

    Returns
    -------
    integer array of shape (count,)
        Without repetition; the point of the largest cluster first.
    """
    points = check_features(public, "public")
    count = check_count("count", count, 1, len(points))
    if count == len(points):
        return np.arange(count)
    cluster = require("sklearn.cluster")
    drawn: Integers = cluster.kmeans_plusplus(points, count, random_state=seed)[1].astype(np.int64)
    if points.size * count > LARGEST_PASS:
        return _replace_repeated(drawn, len(points))
    # scikit-learn warns if there are fewer distinct points than clusters
    with warnings.catch_warnings(action="ignore"), few_threads(points.size):
        fitted = cluster.KMeans(count, n_init=20, random_state=seed).fit(points)
    sizes = np.bincount(fitted.labels_, minlength=count)
    chosen = np.empty(count, np.int64)
    for i, centre in enumerate(np.argsort(-sizes, kind="stable")):
        distances = ((points - fitted.cluster_centers_[centre]) ** 2).sum(axis=1)
        distances[chosen[:i]] = np.inf
        chosen[i] = int(np.argmin(distances))
    return chosen


def order_queries(choose: str | Sequence[int], n: int, asked: int, seed: int = 0) -> Integers | None:
    """Rows of public points in the order in which they are asked about; None for "central", which looks at features.

    Parameters
    ----------
    choose : {"central", "random", "first"} or sequence of int
        Rows must be different ones below n, at least `asked` of them.
    n, asked : int
        Number of public points, and of those that a round asks about.
    seed : int
        For "random"; nothing that it draws needs to be secret.

    Raises
    ------
    accountant.ParameterError
        It is none of these.
    """
    if isinstance(choose, str):
        if choose not in CHOICES:
            raise ac.ParameterError(f"choose = {choose!r}; accepted: {', '.join(CHOICES)} or rows of public points")
        if choose == "central":
            return None
        return np.random.default_rng(seed).permutation(n) if choose == "random" else np.arange(n)
    rows = np.asarray(choose)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(np.unique(rows)) < max(len(rows), 1):
        raise ac.ParameterError(f"choose = {ac.shorten(choose)}; accepted: different rows of public points")
    if len(rows) < asked or rows.min() < 0 or rows.max() >= n:
        accepted = f"at least {asked} rows in 0..{n - 1}"
        raise ac.ParameterError(f"choose = {len(rows)} rows in {rows.min()}..{rows.max()}; accepted: {accepted}")
    return rows.astype(np.int64)


def take_turn(order: Integers, number: int, asked: int) -> Integers:
    """The rows of round `number`, from 0: the next ones, and the first ones again after the last."""
    return order[(number * asked + np.arange(asked)) % len(order)]


def _replace_repeated(drawn: Integers, n: int) -> Integers:
    """As many different indices below n: among equal points k-means++ can draw one index twice."""
    first = np.sort(np.unique(drawn, return_index=True)[1])
    others = np.setdiff1d(np.arange(n), drawn)
    return np.concatenate([drawn[first], others[: len(drawn) - len(first)]])


def cluster_centres(public: object, count: int, weights: object = None, seed: int = 0) -> Singles:
    """Centres (count, d) of clusters of public points: k-means from k-means++ (Arthur & Vassilvitskii 2007).

    Parameters
    ----------
    public : array of shape (m, d)
    count : int
        At most m. If m d count exceeds 1e8, k-means starts once and makes ten passes; if it exceeds 4e9, over a random
        choice of points.
    weights : array of shape (m,), optional
        Importance of each point, at least 0; more important points attract more centres.
    seed : int
        The same seed gives the same centres.
    """
    points = check_features(public, "public")
    count = check_count("count", count, 1, len(points))
    importance = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=float)
    if points.size * count > SMALL_PASS:
        return _refine_few_times(points, count, importance, np.random.default_rng(seed))
    cluster = require("sklearn.cluster")
    # scikit-learn warns if there are fewer distinct points than clusters
    with warnings.catch_warnings(action="ignore"), few_threads(points.size):
        fitted = cluster.KMeans(count, n_init=20, random_state=seed).fit(points, sample_weight=importance)
    return np.ascontiguousarray(fitted.cluster_centers_, dtype=np.float32)


def _refine_few_times(points: Singles, count: int, weights: Floats, rng: np.random.Generator) -> Singles:
    """Centres of clusters of many points, by a few passes of k-means."""
    most = max(2 * LARGEST_PASS // (points.shape[1] * count), count)
    if len(points) > most:
        some = np.sort(rng.choice(len(points), most, replace=False))
        points, weights = points[some], weights[some]
    with few_threads(0):
        centres = points[_draw_apart(points, count, weights, rng)]
    for _ in range(PASSES):
        nearest = Connections(centres).find_best(points)
        order = np.argsort(nearest, kind="stable")
        sizes = np.bincount(nearest, weights, minlength=count)
        taken = np.flatnonzero(np.bincount(nearest, minlength=count))
        starts = np.searchsorted(nearest[order], taken)
        sums = np.add.reduceat(points[order] * weights[order, None], starts, axis=0)
        heavy = sizes[taken] > 0
        # a cluster of weight 0 keeps its centre
        centres[taken[heavy]] = (sums[heavy] / sizes[taken[heavy], None]).astype(np.float32)
    return centres


def _draw_apart(points: Singles, count: int, weights: Floats, rng: np.random.Generator) -> Integers:
    """Indices of different points, drawn by weight times squared distance to those drawn before."""
    squares = squared_lengths(points)
    distances = np.ones(len(points))
    drawn = np.empty(count, np.int64)
    for i in range(count):
        total = np.cumsum(weights * distances)
        if total[-1] > 0:
            drawn[i] = min(np.searchsorted(total, rng.random() * total[-1], side="right"), len(points) - 1)
        else:  # all points left are equal to drawn ones
            drawn[i] = np.setdiff1d(np.arange(len(points)), drawn[:i])[0]
        gaps = np.maximum(squares - 2.0 * (points @ points[drawn[i]]) + squares[drawn[i]], 0.0)
        distances = np.minimum(distances, gaps) if i else gaps
        distances[drawn[: i + 1]] = 0.0
    return drawn
