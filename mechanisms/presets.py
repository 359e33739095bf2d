"""Settings of Ind-KNN that Zhu et al. 2023 print for their data sets, by name and epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import accountant as ac

__all__ = ["PRESETS", "IndividualKNNPreset", "individual_knn_preset"]

EPSILONS = (0.5, 1.0, 1.5, 2.0)

TABLES = 30
"""L of the hashed settings."""

BANDWIDTH = math.exp(0.75)
"""nu^2 = e^1.5, which the printed thresholds agree with."""

Pairs = tuple[tuple[float, float], ...]
"""Noise of votes and threshold for each epsilon, as printed."""

COMMON: dict[str, Pairs] = {
    "fashion-mnist": ((1.3, 0.6), (0.6, 0.6), (0.3, 0.6), (0.3, 0.6)),
    "ag-news": ((0.6, 0.35), (0.4, 0.36), (0.25, 0.37), (0.2, 0.38)),
    "dbpedia": ((0.45, 0.35), (0.3, 0.37), (0.2, 0.37), (0.1, 0.38)),
    "cifar10-rbf": ((0.6, 0.8), (0.5, 0.25), (0.4, 0.26), (0.2, 0.28)),
    "fashion-mnist-rbf": ((1.3, 0.83), (0.7, 0.82), (0.4, 0.84), (0.3, 0.84)),
    "cifar10-hash": ((0.6, 0.25), (0.4, 0.50), (0.3, 0.52), (0.2, 0.53)),
    "ag-news-hash": ((0.7, 0.35), (0.4, 0.36), (0.25, 0.36), (0.2, 0.36)),
}
"""Rows that both versions print alike: Table 5 (arXiv), Table 2 of the supplement (UAI)."""

CIFAR10: dict[str, Pairs] = {
    "cifar10": ((0.7, 0.12), (0.4, 0.12), (0.4, 0.12), (0.4, 0.12)),
    "cifar10-uai": ((0.7, 0.26), (0.4, 0.26), (0.4, 0.27), (0.4, 0.28)),
}
"""The row in which they differ: arXiv, UAI."""

PRESETS = tuple(sorted(COMMON | CIFAR10))

QUERIES = {"cifar10": 1000, "fashion-mnist": 500, "ag-news": 800, "dbpedia": 800, "ag-news-hash": 1000}
"""Queries that the settings were searched for (Figs 1, 2 and 4)."""

BITS = {"cifar10-hash": 8, "ag-news-hash": 9}


@dataclass(frozen=True)
class IndividualKNNPreset:
    """A setting of a table.

    Attributes
    ----------
    name : str
    epsilon : float
    n_queries : int
        Queries of the paper's experiment.
    vote_sigma, threshold : float
        `threshold` is as printed, but where that is a misprint.
    kernel : {"cosine", "rbf"}
    hashing : (int, int) or None
    printed_threshold : float
    """

    name: str
    epsilon: float
    n_queries: int
    vote_sigma: float
    threshold: float
    kernel: str
    hashing: tuple[int, int] | None
    printed_threshold: float

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments of `IndividualKNN` and of `IndividualKNN.for_budget`; "rbf" expects features of unit length."""
        found: dict[str, Any] = {"threshold": self.threshold, "vote_sigma": self.vote_sigma, "kernel": self.kernel}
        if self.kernel == "rbf":
            found["bandwidth"] = BANDWIDTH
        return found if self.hashing is None else {**found, "hashing": self.hashing}


def individual_knn_preset(name: str, epsilon: float) -> IndividualKNNPreset:
    """Noise of votes, threshold and hashing that Zhu et al. 2023 print.

    They were searched for on validation records whose privacy the papers do not pay for, with the features of
    pretrained networks (ViT, ResNet50, sentence-transformer) and delta 1e-5: for other features let
    `plan_labelling` search on public points.

    Parameters
    ----------
    name : str
        "cifar10", "fashion-mnist", "ag-news" or "dbpedia" for the cosine kernel, "cifar10-rbf", "fashion-mnist-rbf",
        "cifar10-hash", "ag-news-hash"; "cifar10-uai" is the row in which the UAI version differs from arXiv's. Three
        thresholds of "cifar10-rbf" repeat the cosine's: here the RBF kernel of unit vectors at that cosine t stands in
        their place, ``exp(-(2 - 2t)/e^1.5)``, which lies in the range that the paper says it searched.
    epsilon : float
        0.5, 1, 1.5 or 2.

    Raises
    ------
    accountant.ParameterError
        The paper prints no such setting.
    """
    if name not in PRESETS:
        raise ac.ParameterError(f"preset = {name!r}; accepted: {', '.join(PRESETS)}")
    if epsilon not in EPSILONS:
        raise ac.ParameterError(f"preset {name!r} at epsilon {epsilon!r}; accepted: 0.5, 1, 1.5, 2")
    sigma, printed = (COMMON | CIFAR10)[name][EPSILONS.index(epsilon)]
    kernel = "rbf" if name.endswith("-rbf") else "cosine"
    threshold = printed
    if name == "cifar10-rbf" and printed < 0.5:
        threshold = math.exp(-(2 - 2 * printed) / BANDWIDTH**2)
    data = next(each for each in (name, name.rpartition("-")[0]) if each in QUERIES)
    hashing = (TABLES, BITS[name]) if name in BITS else None
    return IndividualKNNPreset(name, float(epsilon), QUERIES[data], sigma, threshold, kernel, hashing, printed)
