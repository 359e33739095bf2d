"""What a student is, and a small neural network as the default student."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.estimator import Parameters
from mechanisms.validation import (
    check_count,
    check_features,
    check_fitted,
    check_queries,
    check_real,
    few_threads,
    require,
)

__all__ = ["HiddenLayer", "NetworkStudent", "Student", "check_answers"]

UNANSWERED = -1
"""The label of points without a label, as in scikit-learn."""


class Student(Protocol):
    """Interface of a student; its last hidden layer is the feature map of the next round."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from all public points (m, d) and their labels (m,), -1 for points without one."""
        ...

    def predict(self, X: Any) -> Integers:
        """Labels of (n, d) points."""
        ...

    def transform(self, X: Any) -> Singles:
        """Last hidden layer (n, h) at (n, d) points."""
        ...


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """The hidden layer of a `NetworkStudent`: all that its `transform` depends on.

    Attributes
    ----------
    centre : array of shape (d,)
    spread : float
        Points are scaled by both.
    weights : array of shape (d, hidden)
    bias : array of shape (hidden,)
    """

    centre: Singles
    spread: float
    weights: Singles
    bias: Singles

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> HiddenLayer:
        """The layer that gave these arrays."""
        return cls(arrays["centre"], float(arrays["spread"]), arrays["weights"], arrays["bias"])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `of` makes the layer of again."""
        return {"centre": self.centre, "spread": np.array(self.spread), "weights": self.weights, "bias": self.bias}

    def scale(self, points: Singles) -> Singles:
        """Points as the network sees them."""
        scaled: Singles = ((points - self.centre) / self.spread).astype(np.float32)
        return scaled

    def transform(self, points: Singles) -> Singles:
        """The layer (n, hidden) at checked points (n, d), computed row by row."""
        # one product for each row: in a common product another record could change the last bits of a row, and so
        # which records are nearest
        products = np.matmul(self.scale(points)[:, None, :], self.weights)[:, 0]
        active: Singles = np.maximum(products + self.bias, 0).astype(np.float32)
        return active


class NetworkStudent(Parameters):
    """A small neural network that learns from answered and unanswered public points alike.

    First, labels spread over the graph of nearest public neighbours (Zhou et al. 2004), which labels unanswered points
    and corrects some wrong answers. Then a network with one hidden layer learns all these labels. Both steps use
    scikit-learn. Label sets, (m, c) zeros and ones, do not spread: the network learns those of answered points.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    n_neighbors : int
        Number of neighbours of a point in the graph.
    clamping : float
        Share of its label that a point takes from its neighbours; in (0, 1).
    max_iter : int
        Most passes of the network over the points.
    seed : int
        Seed of the network; nothing that it draws needs to be secret.

    Raises
    ------
    accountant.ParameterError
        A parameter is not as described.
    accountant.MissingExtra
        scikit-learn is not installed.
    """

    def __init__(
        self, hidden: int = 64, n_neighbors: int = 7, clamping: float = 0.2, max_iter: int = 200, seed: int = 0
    ) -> None:
        self.hidden = check_count("hidden", hidden, 1)
        self.n_neighbors = check_count("n_neighbors", n_neighbors, 1)
        self.clamping = check_real("clamping", clamping, "(0, 1)", lambda share: 0 < share < 1)
        self.max_iter = check_count("max_iter", max_iter, 1)
        self.seed = check_count("seed", seed, 0, 2**32 - 1)
        require("sklearn")  # fail here, not after labels have been paid for

    def fit(self, X: object, y: object) -> Self:
        """Learn from public points.

        Parameters
        ----------
        X : array of shape (m, d)
        y : integer array of shape (m,), -1 where a point was not answered; or (m, c) label sets

        Raises
        ------
        accountant.ParameterError
            An array is not as described, or no point was answered.
        """
        points = check_features(X)
        labels = check_answers(y, len(points), sets=True)
        self.width_ = points.shape[1]
        self.centre_, self.spread_ = points.mean(axis=0), max(float(points.std()), 1e-12)
        scaled = self._scale(points)
        rows = np.arange(len(points))
        if labels.ndim == 2:
            self.labels_, rows = labels, np.flatnonzero(labels[:, 0] != UNANSWERED)
        else:
            self.labels_ = self._spread_labels(scaled, labels)
        self.network_ = require("sklearn.neural_network").MLPClassifier(
            (self.hidden,), alpha=1e-2, max_iter=self.max_iter, random_state=self.seed
        )
        with _suppress_warnings(), few_threads(scaled.size):
            self.network_.fit(scaled[rows], self.labels_[rows])
        return self

    def predict(self, X: object) -> Integers:
        """Labels (n,) of (n, d) points; or sets (n, c).

        Raises
        ------
        accountant.ParameterError
            `fit` was not called, or `X` is not as described.
        """
        points = self._points(X, "predict")
        if len(points) == 0:
            return np.empty((0, *self.labels_.shape[1:]), np.int64)
        return np.asarray(self.network_.predict(points), np.int64)

    def predict_proba(self, X: object) -> Floats:
        """Probabilities (n, c) of the learnt labels at (n, d) points; errors as for `predict`."""
        points = self._points(X, "predict_proba")
        return np.asarray(self.network_.predict_proba(points), np.float64)

    def transform(self, X: object) -> Singles:
        """Hidden layer (n, hidden) at (n, d) points, computed row by row; errors as for `predict`."""
        check_fitted(hasattr(self, "network_"), "transform(X)")
        return self.layer_.transform(check_queries(X, self.width_))

    @property
    def layer_(self) -> HiddenLayer:
        """The hidden layer by itself."""
        network = self.network_
        return HiddenLayer(self.centre_, self.spread_, network.coefs_[0], network.intercepts_[0])

    def _points(self, X: object, use: str) -> Singles:
        """Checked points, scaled as for the network."""
        check_fitted(hasattr(self, "network_"), f"{use}(X)")
        return self._scale(check_queries(X, self.width_))

    def _scale(self, points: Singles) -> Singles:
        scaled: Singles = ((points - self.centre_) / self.spread_).astype(np.float32)
        return scaled

    def _spread_labels(self, points: Singles, labels: Integers) -> Integers:
        """Labels of all points; one that the graph does not connect to an answer gets the nearest answer."""
        semi = require("sklearn.semi_supervised")
        neighbours = min(self.n_neighbors, len(points))
        graph = semi.LabelSpreading(kernel="knn", n_neighbors=neighbours, alpha=self.clamping, max_iter=1000)
        with _suppress_warnings(), few_threads(points.size):
            graph.fit(points, labels)
        spread: Integers = np.asarray(graph.transduction_, np.int64)
        unreached = ~np.isfinite(graph.label_distributions_).all(axis=1) | (graph.label_distributions_.sum(axis=1) == 0)
        if unreached.any():
            answered = np.flatnonzero(labels != UNANSWERED)
            near = require("sklearn.neighbors").NearestNeighbors(n_neighbors=1).fit(points[answered])
            closest = near.kneighbors(points[unreached], return_distance=False)[:, 0]
            spread[unreached] = labels[answered[closest]]
        return spread


def check_answers(y: object, n: int, sets: bool = False) -> Integers:
    """Labels (n,), at least one of them not -1; or, where `sets` are accepted, (n, c) zeros and ones, or rows of -1."""
    labels = np.asarray(y)
    if sets and labels.ndim == 2 and len(labels) == n and labels.shape[1] > 1 and labels.dtype.kind in "iu":
        gone = (labels == UNANSWERED).all(axis=1)
        if not np.isin(labels[~gone], (0, 1)).all():
            raise ac.ParameterError(
                "y holds other values than 0 and 1; accepted: sets of 0 and 1, or -1 in a whole row"
            )
        if gone.all():
            raise ac.ParameterError(f"none of {n} points was answered; accepted: at least one label set to learn from")
        return labels.astype(np.int64)
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or labels.min(initial=0) < UNANSWERED:
        found = f"{labels.dtype} values of shape {labels.shape}"
        raise ac.ParameterError(f"y holds {found}; accepted: integers of shape ({n},), -1 where unanswered")
    if not (labels != UNANSWERED).any():
        raise ac.ParameterError(f"none of {n} points was answered; accepted: at least one label to learn from")
    return labels.astype(np.int64)


def _suppress_warnings() -> Any:
    """Suppress scikit-learn's warnings about convergence and unconnected points."""
    return warnings.catch_warnings(action="ignore")
