"""Public prices of queries that spread records evenly over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.validation import check_count, check_features

__all__ = ["balanced_prices"]

COOLING = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Temperatures, in units of the mean excess of a squared distance over the least one of its point, divided by sqrt(s),
where s is the number of queries."""

MOST_POINTS = 20_000
"""Most public points that prices are computed from; of more, a random sample is taken."""


def balanced_prices(public: object, queries: object, passes: int = 30, seed: int = 0) -> NDArray[np.float64]:
    """A price for each query, such that about equally many public points prefer each query.

    A point x prefers the query q with the least ``|x - q|^2 + price(q)``. The prices are the dual variables of optimal
    transport of the public points to the queries in equal shares, with entropy at falling temperatures (Cuturi 2013).
    A private record then chooses by itself, so that replacing it still changes at most 2 k r counts. To balance the
    private records themselves (Wang et al. 2022, App. C) would let one record change the votes of others.

    Parameters
    ----------
    public : array of shape (m, d)
    queries : array of shape (s, d)
    passes : int
        Iterations at each temperature.
    seed : int
        Of the sample of public points, if there are more than 20 000.

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
    if len(points) > MOST_POINTS:
        points = points[np.random.default_rng(seed).choice(len(points), MOST_POINTS, replace=False)]
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
