"""Students: classifiers trained on public points and their released labels, at no further privacy cost."""

from __future__ import annotations

import warnings
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

import accountant as ac
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

__all__ = ["NetworkStudent", "Student", "check_answers"]

UNANSWERED = -1
"""scikit-learn's mark of a record without a label."""


class Student(Protocol):
    """What a round needs of a student. The last hidden layer is the next round's feature map."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from all public points (m, d) and their labels (m,), -1 where there is none."""
        ...

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Labels of (n, d) points."""
        ...

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Last hidden layer (n, h) at (n, d) points."""
        ...


class NetworkStudent(Parameters):
    """A small neural network that learns from answered and unanswered public points alike.

    Labels first spread over the graph of nearest public neighbours (Zhou et al. 2004), which fills in unanswered
    points and outvotes wrong answers; then a network with one hidden layer learns all of them. Both by scikit-learn.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    n_neighbors : int
        Neighbours in the graph of public points.
    clamping : float
        Share of its label that a point takes from its neighbours; in (0, 1).
    max_iter : int
        Passes over the points.
    seed : int
        Students are made reproducible: they draw nothing that needs to stay secret.

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
        require("sklearn")  # missing here, not after the labels have been paid for

    def fit(self, X: object, y: object) -> Self:
        """Learn from public points.

        Parameters
        ----------
        X : array of shape (m, d)
        y : integer array of shape (m,), -1 where a point was not answered

        Raises
        ------
        accountant.ParameterError
            An array is not as described, or no point was answered.
        """
        points = check_features(X)
        labels = check_answers(y, len(points))
        self.width_ = points.shape[1]
        self.centre_, self.spread_ = points.mean(axis=0), max(float(points.std()), 1e-12)
        scaled = self._scaled(points)
        self.labels_ = self._spread_labels(scaled, labels)
        self.network_ = require("sklearn.neural_network").MLPClassifier(
            (self.hidden,), alpha=1e-2, max_iter=self.max_iter, random_state=self.seed
        )
        with _quiet(), few_threads(scaled.size):
            self.network_.fit(scaled, self.labels_)
        return self

    def predict(self, X: object) -> NDArray[np.int64]:
        """Labels of (n, d) points.

        Raises
        ------
        accountant.ParameterError
            `fit` was not called, or `X` is not as described.
        """
        points = self._points(X, "predict")
        if len(points) == 0:
            return np.empty(0, np.int64)
        return np.asarray(self.network_.predict(points), np.int64)

    def predict_proba(self, X: object) -> NDArray[np.float64]:
        """Chances (n, c) of the labels that it learnt at (n, d) points; errors as for `predict`."""
        points = self._points(X, "predict_proba")
        return np.asarray(self.network_.predict_proba(points), np.float64)

    def transform(self, X: object) -> NDArray[np.float32]:
        """Hidden layer (n, hidden) at (n, d) points, each row by itself; errors as for `predict`."""
        points = self._points(X, "transform")
        # products of their own: in one for all rows, a record more would change the last bits of others, and
        # with them who is nearest
        products = np.matmul(points[:, None, :], self.network_.coefs_[0])[:, 0]
        hidden = products + self.network_.intercepts_[0]
        active: NDArray[np.float32] = np.maximum(hidden, 0).astype(np.float32)
        return active

    def _points(self, X: object, use: str) -> NDArray[np.float32]:
        """As the network saw them."""
        check_fitted(hasattr(self, "network_"), f"{use}(X)")
        return self._scaled(check_queries(X, self.width_))

    def _scaled(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        scaled: NDArray[np.float32] = ((points - self.centre_) / self.spread_).astype(np.float32)
        return scaled

    def _spread_labels(self, points: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels of all points; where the graph does not reach, the nearest answered point's."""
        semi = require("sklearn.semi_supervised")
        neighbours = min(self.n_neighbors, len(points))
        graph = semi.LabelSpreading(kernel="knn", n_neighbors=neighbours, alpha=self.clamping, max_iter=1000)
        with _quiet(), few_threads(points.size):
            graph.fit(points, labels)
        found: NDArray[np.int64] = np.asarray(graph.transduction_, np.int64)
        unreached = ~np.isfinite(graph.label_distributions_).all(axis=1) | (graph.label_distributions_.sum(axis=1) == 0)
        if unreached.any():
            answered = np.flatnonzero(labels != UNANSWERED)
            near = require("sklearn.neighbors").NearestNeighbors(n_neighbors=1).fit(points[answered])
            closest = near.kneighbors(points[unreached], return_distance=False)[:, 0]
            found[unreached] = labels[answered[closest]]
        return found


def check_answers(y: object, n: int) -> NDArray[np.int64]:
    """Labels (n,) of which at least one is an answer; -1 marks the others."""
    labels = np.asarray(y)
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or labels.min(initial=0) < UNANSWERED:
        found = f"{labels.dtype} values of shape {labels.shape}"
        raise ac.ParameterError(f"y holds {found}; accepted: integers of shape ({n},), -1 where unanswered")
    if not (labels != UNANSWERED).any():
        raise ac.ParameterError(f"none of {n} points was answered; accepted: at least one label to learn from")
    return labels.astype(np.int64)


def _quiet() -> Any:
    """scikit-learn's warnings say that an iteration could go on, or that the graph has unreached points."""
    return warnings.catch_warnings(action="ignore")
