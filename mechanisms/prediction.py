"""An Ind-KNN experiment: parameters fit to a budget and to public points, then one answer after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets import Dataset
from mechanisms.individual_knn import BudgetStore, IndividualKNN
from mechanisms.validation import checked_count, checked_real

__all__ = ["Prediction", "PredictionSetting", "completed", "predict"]

LOOKED_AT = 1000
"""Public points that the default threshold is learnt from."""


@dataclass(frozen=True)
class PredictionSetting:
    """What a person chooses; None leaves it to public data and the budget.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee for the whole interaction.
    queries : int or None
        Public points that are asked, in order; None asks all.
    selectivity : float
        Share of the other public points that a query is similar to, on average, by which the default threshold is
        chosen; (0, 1).
    threshold : float or None
        Least kernel.
    vote_sigma : float or None
        None: what lets a typical record pay for its votes with half its budget, ``sqrt(T E[f^2]/(n B))``, f being the
        kernel of similar points among the public ones.
    count_share : float
        As for `IndividualKNN.for_budget`.
    kernel : {"cosine", "rbf"}
    bandwidth : float
        Of "rbf".
    conversion : {"gdp", "renyi"}
    hashing : (int, int) or None
    reuse : bool
    seed : int or None
        None draws exact noise from the system, as a real service must.
    """

    epsilon: float
    delta: float
    queries: int | None = None
    selectivity: float = 0.05
    threshold: float | None = None
    vote_sigma: float | None = None
    count_share: float = 3.0
    kernel: str = "cosine"
    bandwidth: float = math.exp(1.5)
    conversion: ac.FilterConversion = "gdp"
    hashing: tuple[int, int] | None = None
    reuse: bool = False
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Prediction:
    """What an experiment gave.

    Attributes
    ----------
    labels : int array of shape (m,)
        One for each query; every query is answered.
    accuracy : float or None
        Where the truth is known.
    spent : float array of shape (n,)
        Share of its budget that every private record has spent. It depends on private data.
    guarantee : accountant.Guarantee
    model : IndividualKNN
    """

    labels: NDArray[np.int64]
    accuracy: float | None
    spent: NDArray[np.float64]
    guarantee: ac.Guarantee
    model: IndividualKNN


def predict(
    setting: PredictionSetting,
    private: Dataset,
    public: Dataset,
    n_classes: int | None = None,
    store: BudgetStore | None = None,
    progress: Callable[[int], object] | None = None,
) -> Prediction:
    """Label public points one by one.

    Raises
    ------
    accountant.AccountantError
        Data and setting do not go together, or no budget meets the target; nothing has been spent.
    """
    if private.labels is None or private.labels.ndim != 1:
        raise ac.ParameterError(f"{private.name}: accepted: one label for each record")
    count = len(public) if setting.queries is None else checked_count("queries", setting.queries, 1, len(public))
    setting = completed(setting, count, len(private), public)
    assert setting.threshold is not None
    assert setting.vote_sigma is not None
    parameters: dict[str, Any] = {
        "kernel": setting.kernel,
        "bandwidth": setting.bandwidth,
        "hashing": setting.hashing,
        "reuse": setting.reuse,
        "n_classes": n_classes,
        "rng": setting.seed,
        "store": store,
    }
    model = IndividualKNN.for_budget(
        setting.epsilon,
        setting.delta,
        count,
        setting.threshold,
        setting.vote_sigma,
        setting.conversion,
        setting.count_share,
        **parameters,
    )
    guarantee = model.guarantee(setting.delta, setting.conversion)
    labels = model.fit(private.features, private.labels).predict(public.features[:count], progress)
    accuracy = None if public.labels is None else float(np.mean(labels == public.labels[:count]))
    return Prediction(labels, accuracy, 1 - model.budgets_ / model.budget, guarantee, model)


def completed(setting: PredictionSetting, queries: int, records: int, public: Dataset) -> PredictionSetting:
    """The setting with threshold and noise, for so many queries and private records; public points decide.

    Raises
    ------
    accountant.AccountantError
        Data and setting do not go together, or no budget meets the target.
    """
    share = checked_real("selectivity", setting.selectivity, "(0, 1)", lambda value: 0 < value < 1)
    budget = ac.IndividualFilter.budget_for(setting.epsilon, setting.delta, setting.conversion)
    threshold, vote_sigma = setting.threshold, setting.vote_sigma
    if threshold is None or vote_sigma is None:
        kernels = public_kernels(setting, public)
        if threshold is None:
            threshold = float(np.clip(np.quantile(kernels, 1 - share), 0, 1))
        if vote_sigma is None:
            similar = kernels[kernels >= threshold]
            square = float(np.mean(similar**2)) if len(similar) else 1.0
            # a record similar to a share p of T queries pays p T E[f^2]/(2 s2^2 p n), so p does not matter
            vote_sigma = math.sqrt(queries * max(square, 1e-12) / (records * budget))
    return replace(setting, queries=queries, threshold=threshold, vote_sigma=vote_sigma)


def public_kernels(setting: PredictionSetting, public: Dataset) -> NDArray[np.float64]:
    """The kernel of every pair of some public points; it sees no private record."""
    points = public.features[:: max(len(public) // LOOKED_AT, 1)].astype(float)
    if len(points) < 2:
        raise ac.ParameterError(f"{public.name}: one public point; accepted: several, or threshold and vote_sigma")
    if setting.kernel == "cosine":
        points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-300)
        kernels = points @ points.T
    else:
        squares = (points**2).sum(axis=1)
        distances = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0)
        kernels = np.exp(-distances / setting.bandwidth**2)
    pairs: NDArray[np.float64] = kernels[np.triu_indices(len(points), 1)]
    return pairs
