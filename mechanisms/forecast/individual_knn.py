"""Forecasts of Ind-KNN: the budgets of records run down as public points ask and answer, exact chances of the noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers
from mechanisms.forecast.proposal import Forecast
from mechanisms.forecast.sample import PublicSample, draw_records, extrapolate
from mechanisms.individual_knn import IndividualKNN
from mechanisms.neighbours.kernels import similarity_of
from mechanisms.vote_chances import answer_probability

__all__ = ["IndividualKNNGrid", "forecast_individual_knn"]

REPEATS = 2
"""Interactions that are followed for every setting."""

FINALISTS = 6
"""Best settings that are forecast again with fresh draws, so that no one of them is the best by luck."""

FINAL_REPEATS = 10
"""Interactions that are followed for these."""

VOTE = ac.Gaussian(1.0)


@dataclass(frozen=True)
class IndividualKNNGrid:
    """Values to compare.

    Parameters
    ----------
    queries : tuple of int
        T.
    threshold : tuple of float or None
        Least kernels; None takes them so that a point is similar to 1, 2, 5, 10 and 20 % of the others.
    vote_sigma : tuple of float or None
        None: a quarter, a half, once, twice the noise at which a typical record's votes take half its budget.
    count_share : tuple of float
        As for `IndividualKNN.for_budget`.
    kernel : tuple of str
    conversion : {"gdp", "renyi"}
    """

    queries: tuple[int, ...]
    threshold: tuple[float, ...] | None = None
    vote_sigma: tuple[float, ...] | None = None
    count_share: tuple[float, ...] = (1.0, 3.0, 9.0)
    kernel: tuple[str, ...] = ("cosine",)
    conversion: ac.FilterConversion = "gdp"

    SELECTIVITIES: ClassVar = (0.01, 0.02, 0.05, 0.1, 0.2)
    FACTORS: ClassVar = (0.25, 0.5, 1.0, 2.0)


def forecast_individual_knn(
    sample: PublicSample, grid: IndividualKNNGrid, epsilon: float, delta: float
) -> Iterator[Forecast]:
    """Forecasts of all settings; every one meets the target. The best are forecast a second time."""
    budget = ac.IndividualFilter.budget_for(epsilon, delta, grid.conversion)
    noises = {
        (queries, share): IndividualKNN.for_budget(
            epsilon, delta, queries, 0.0, 1.0, grid.conversion, share
        ).count_sigma
        for queries, share in product(grid.queries, grid.count_share)
    }
    price = ac.IndividualFilter(budget).guarantee(delta, grid.conversion).epsilon
    found: list[tuple[Forecast, _Kernels]] = []
    for kernel in grid.kernel:
        kernels = _Kernels(sample, kernel)
        for queries, threshold in product(grid.queries, kernels.thresholds(grid)):
            typical = kernels.typical_sigma(threshold, queries, budget)
            sigmas = grid.vote_sigma or tuple(typical * factor for factor in grid.FACTORS)
            for vote_sigma, share in product(sigmas, grid.count_share):
                noise = noises[queries, share]
                model = IndividualKNN(budget, threshold, noise, vote_sigma, kernel, n_classes=sample.n_classes)
                kept = {name: value for name, value in model.get_params().items() if value is not None}
                about = queries, float(queries), *_expect(kernels, model, queries, range(REPEATS)), price, delta
                found.append((Forecast("ind-knn", kept, *about, kernels.support(threshold)), kernels))
    found.sort(key=lambda pair: -pair[0].reach)
    again = range(REPEATS, REPEATS + FINAL_REPEATS)
    for number, (forecast, kernels) in enumerate(found):
        if number < FINALISTS:
            accuracy, reach = _expect(kernels, forecast.estimator(), forecast.queries, again)
            yield replace(forecast, accuracy=accuracy, reach=reach)
        else:
            yield forecast


def _expect(kernels: _Kernels, model: IndividualKNN, queries: int, numbers: range) -> tuple[float, float]:
    """Expected accuracy and reach, over interactions with these numbers; settings with the same share their draws."""
    sample = kernels.sample
    whole, half = (
        np.mean([_run(kernels, model, queries, (number, share)) for number in numbers], axis=0) for share in (1.0, 0.5)
    )
    accuracy, reach = np.clip(extrapolate(sample, whole, half), 0, 1).tolist()
    return accuracy, reach


class _Kernels:
    """Kernels of all pairs of public points; a point has none with itself."""

    def __init__(self, sample: PublicSample, kernel: str) -> None:
        self.sample, self.kernel = sample, kernel

    @cached_property
    def table(self) -> Floats:
        """Of shape (m, m)."""
        bandwidth = IndividualKNN(1.0, 0.0, 1.0, 1.0).bandwidth
        similarity = similarity_of(self.kernel, 0.0, bandwidth)
        rows = similarity.prepare(self.sample.features)
        if self.kernel == "cosine":
            found = (rows @ rows.T).astype(float)
        else:
            found = np.exp(-np.maximum(self.sample.distances, 0) / bandwidth**2).astype(float)
        np.fill_diagonal(found, -1.0)
        return found

    @cached_property
    def pairs(self) -> Floats:
        return self.table[np.triu_indices(len(self.sample), 1)]

    def thresholds(self, grid: IndividualKNNGrid) -> tuple[float, ...]:
        if grid.threshold is not None:
            return grid.threshold
        found = np.clip(np.quantile(self.pairs, [1 - share for share in grid.SELECTIVITIES]), 0, 1)
        return tuple(sorted({float(value) for value in found}))

    def typical_sigma(self, threshold: float, queries: int, budget: float) -> float:
        """``sqrt(T E[f^2]/(n B))``, at which votes cost a typical record half its budget; f is a kernel that votes."""
        similar = self.pairs[self.pairs >= threshold]
        square = float(np.mean(similar**2)) if len(similar) else 1.0
        return math.sqrt(queries * max(square, 1e-12) / (self.sample.n_records * budget))

    def support(self, threshold: float) -> float:
        """Points that vote for a query, on average."""
        return 2 * float(np.count_nonzero(self.pairs >= threshold)) / len(self.sample)


def _run(kernels: _Kernels, model: IndividualKNN, queries: int, drawn: tuple[int, float]) -> tuple[float, float]:
    """Expected accuracy and reach of one interaction, in which equal records stand at each public point.

    It follows `IndividualKNN._answer`: records that can pay are counted and charged, then vote with what they can pay.
    Counts get noise, on which the charges that follow depend; of the votes' noise only chances are computed. A point
    asks the records at other points. `drawn` is the number of the draws, and the share of points that are used.
    """
    sample = kernels.sample
    number, share = drawn
    rng = np.random.default_rng([sample.seed, queries, number])
    asked = rng.permutation(len(sample))[np.arange(queries) % len(sample)]
    noise = model.count_sigma * rng.standard_normal(queries)
    records = draw_records(sample, rng, share).astype(float)
    left = np.full(len(sample), model.budget)
    price = 1 / (2 * model.count_sigma**2)
    votes = np.empty((queries, sample.n_classes))
    for t, query in enumerate(asked):
        chosen = np.flatnonzero((kernels.table[query] >= model.threshold) & (left >= price) & (records > 0))
        left[chosen] -= price
        count = max(records[chosen].sum() + noise[t], model.min_count)
        scale = model.vote_sigma * math.sqrt(count)
        parts = np.minimum(kernels.table[query, chosen] / scale, np.sqrt(2 * np.maximum(left[chosen], 0)))
        left[chosen] -= parts**2 / 2
        votes[t] = np.bincount(sample.labels[chosen], parts * records[chosen], sample.n_classes)
    chances = answer_probability(VOTE, votes, sample.labels[asked])
    return float(np.mean(chances)), _reach(sample, asked, votes)


def _reach(sample: PublicSample, asked: Integers, votes: Floats) -> float:
    """The share of public points whose nearest query is answered with their label."""
    distances = sample.distances[:, asked].copy()
    distances[asked, np.arange(len(asked))] = -1.0
    nearest = distances.argmin(axis=1)
    pairs, back = np.unique(np.stack([nearest, sample.labels], axis=1), axis=0, return_inverse=True)
    return float(np.mean(answer_probability(VOTE, votes[pairs[:, 0]], pairs[:, 1])[back.ravel()]))
