"""Public prices that spread records over queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.validation import check_count, check_features

__all__ = ["balanced_prices"]

COOLING = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Temperatures in units of the mean excess of squared distances over the least, over the square root of s."""

MOST = 20_000
"""Public points that prices are learnt on; a random choice of them where there are more."""


def balanced_prices(public: object, queries: object, passes: int = 30, seed: int = 0) -> NDArray[np.float64]:
    """A price for each query at which about equally many public points prefer each.

    A point prefers the query with the least ``|x - q|^2 + price(q)``. The prices are those of the optimal transport of
    the public points to the queries, in equal shares, with entropy at a falling temperature (Cuturi 2013). Each private
    record then chooses by itself, so that one of them still moves at most 2kr counts; balancing the records themselves
    (reverse-knn, App. C) would let one record move the votes of others.

    Parameters
    ----------
    public : array of shape (m, d)
    queries : array of shape (s, d)
    passes : int
        At each temperature.
    seed : int
        Of the choice of public points, where there are more than 20 000.

    Returns
    -------
    array of shape (s,), of mean 0

    Raises
    ------
    accountant.ParameterError
        A value is not as described.
    """
    points, centres = check_features(public, "public"), check_features(queries, "queries")
    if len(points) == 0 or len(centres) == 0 or points.shape[1] != centres.shape[1]:
        raise ac.ParameterError(f"public {points.shape}, queries {centres.shape}; accepted: (m, d), (s, d), m, s >= 1")
    check_count("passes", passes, 1)
    if len(points) > MOST:
        points = points[np.random.default_rng(seed).choice(len(points), MOST, replace=False)]
    wide, others = points.astype(float), centres.astype(float)
    costs = np.maximum((wide**2).sum(axis=1)[:, None] - 2 * wide @ others.T + (others**2).sum(axis=1), 0.0)
    costs -= costs.min(axis=1, keepdims=True)
    scale = float(costs.mean()) / len(centres) ** 0.5
    prices = np.zeros(len(centres))
    if scale == 0.0:
        return prices  # all queries are the same point
    for temperature in scale * np.array(COOLING):
        for _ in range(passes):
            tempting = -(costs + prices) / temperature
            tempting -= tempting.max(axis=1, keepdims=True)
            np.exp(tempting, out=tempting)
            tempting /= tempting.sum(axis=1, keepdims=True)
            loads = tempting.mean(axis=0) * len(centres)
            prices += temperature * np.log(np.maximum(loads, 1e-9))
    balanced: NDArray[np.float64] = prices - prices.mean()
    return balanced
