"""PATE baselines: teachers on disjoint shards vote, and the winner of the noisy votes is released."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.budgets.journal import Journal
from mechanisms.exclusive import exclusive
from mechanisms.labelling import Labeller, Labelling
from mechanisms.noise.source import as_randomness
from mechanisms.validation import check_count, check_features, check_labels, check_queries, few_threads
from mechanisms.voting import tally

__all__ = ["GNMax", "LNMax"]


class _Pate(Labeller):
    """What both baselines share; they differ in the event that prices one vote.

    A record sits in one shard, so it changes one teacher at most: one count falls by one, one rises by one.
    """

    def __init__(
        self,
        n_teachers: int,
        make_teacher: Callable[[], Any] | None,
        screening_sigma: float | None,
        threshold: float | None,
        max_labels: int | None,
        n_classes: int | None,
        rng: Any,
        n_queries: int | None,
    ) -> None:
        self.n_teachers = n_teachers
        self.make_teacher = make_teacher
        self.screening_sigma = screening_sigma
        self.threshold = threshold
        self.max_labels = max_labels
        self.n_classes = n_classes
        self.rng = rng
        self.n_queries = n_queries

    @property
    def screening_event(self) -> ac.Event | None:
        """The screening of one query on its plurality; None where it is off."""
        if self.screening_sigma is None:
            return None
        teachers = check_count("n_teachers", self.n_teachers, 1)
        threshold = 0.6 * teachers if self.threshold is None else self.threshold
        return ac.NoisyScreening(self.screening_sigma, threshold, teachers)

    @exclusive
    def fit(self, X: object, y: object) -> Self:
        """Train one teacher on each shard. Nothing is released.

        Every record draws its shard by itself. A shard that holds a single class answers that class, an empty
        one class 0, and so does a teacher that fails to answer.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,), labels 0..c-1

        Raises
        ------
        accountant.ParameterError
            An array or a parameter is not as described.
        """
        records, now = check_features(X), self.unused()  # what another thread sets meanwhile is for the next `fit`
        teachers = check_count("n_teachers", now.n_teachers, 1)
        labels, classes = check_labels(y, len(records), now.n_classes)
        if teachers > len(records):
            raise ac.ParameterError(f"n_teachers = {teachers}; accepted: at most the {len(records)} records")
        plan, source = now._plan_of(n_teachers=teachers, n_classes=classes), as_randomness(now.rng)
        # drawn for each record by itself: cutting a shuffled list would move others between shards when one joins
        shard = (source.uniform(len(records)) * teachers).astype(np.int64)
        with few_threads(records.size // teachers) if self.make_teacher is None else nullcontext():
            taught = [_taught(self._teacher(), records[shard == t], labels[shard == t]) for t in range(teachers)]
        self._begin(plan, source, records, labels)
        self._teachers, self._width, self.n_classes_ = taught, records.shape[1], classes
        self._fitted = True
        return self

    def _teacher(self) -> Any:
        if self.make_teacher is not None:
            return self.make_teacher()
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=200)

    def votes(self, queries: object) -> NDArray[np.int64]:
        """Votes for each class, one row a query. They are private, for the operator's eyes only: `label` releases."""
        points = check_queries(queries, self._width)
        if len(points) == 0:
            return np.empty((0, self.n_classes_), np.int64)
        answers: Sequence[NDArray[np.int64]] = [teacher(points) for teacher in self._teachers]
        # a teacher that answers a class that is none must not stop the run: it gives its vote to the nearest one
        columns = np.clip(np.stack(answers, axis=1), 0, self.n_classes_ - 1)
        return np.stack([tally(column, self.n_classes_) for column in columns])

    @exclusive
    def label(
        self, queries: object, journal: Journal | None = None, progress: Callable[[int], object] | None = None
    ) -> Labelling:
        """Label public queries, in order; every charge is recorded in `spent_` before its draw.

        Parameters
        ----------
        queries : array of shape (m, d)
        journal, progress
            As for `PrivateKNN.label`.

        Raises
        ------
        accountant.ParameterError
            `queries` is not as described, there are more than the plan allows (`PlanExceeded`), or `fit` was not
            called; nothing has been spent.
        """
        if not self._fitted:
            raise ac.ParameterError("label was called before fit; accepted: fit(X, y).label(queries)")
        points = check_queries(queries, self._width)
        counts = self.votes(points)
        labels = np.full(len(counts), -1, np.int64)
        return self._run((partial(_same, row) for row in counts), labels, points, journal, progress)


def _same(votes: NDArray[np.int64], event: ac.Event) -> NDArray[np.int64]:
    """Teachers vote once: screening and answer see the same counts."""
    return votes


class GNMax(_Pate):
    """GNMAX: Gaussian noise on every count (Papernot et al. 2018).

    Parameters
    ----------
    n_teachers : int
        Shards, and teachers.
    sigma : float
        Noise on every class's count, in votes.
    make_teacher : callable or None
        Makes a classifier with scikit-learn's `fit` and `predict`; None is logistic regression.
    screening_sigma, threshold : float or None
        Noise and bar of an optional screening on the plurality (None: off; 0.6 n_teachers).
    max_labels : int or None
        Most queries that will be answered; it fixes the guarantee before a run.
    n_classes : int or None
        Number of classes; None takes it from the labels.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source.
    n_queries : int or None
        As for `PrivateKNN`.
    """

    def __init__(
        self,
        n_teachers: int = 100,
        sigma: float = 20.0,
        make_teacher: Callable[[], Any] | None = None,
        screening_sigma: float | None = None,
        threshold: float | None = None,
        max_labels: int | None = None,
        n_classes: int | None = None,
        rng: Any = None,
        n_queries: int | None = None,
    ) -> None:
        super().__init__(n_teachers, make_teacher, screening_sigma, threshold, max_labels, n_classes, rng, n_queries)
        self.sigma = sigma

    @property
    def vote_event(self) -> ac.Event:
        """The release of one label."""
        return ac.GNMax(self.sigma)


class LNMax(_Pate):
    """LNMAX: Laplace noise on every count (Papernot et al. 2017).

    Parameters
    ----------
    scale : float
        Scale of the noise (1/gamma in the paper), in votes.
    n_teachers, make_teacher, screening_sigma, threshold, max_labels, n_classes, rng, n_queries
        As for `GNMax`.
    """

    def __init__(
        self,
        n_teachers: int = 100,
        scale: float = 20.0,
        make_teacher: Callable[[], Any] | None = None,
        screening_sigma: float | None = None,
        threshold: float | None = None,
        max_labels: int | None = None,
        n_classes: int | None = None,
        rng: Any = None,
        n_queries: int | None = None,
    ) -> None:
        super().__init__(n_teachers, make_teacher, screening_sigma, threshold, max_labels, n_classes, rng, n_queries)
        self.scale = scale

    @property
    def vote_event(self) -> ac.Event:
        """The release of one label."""
        return ac.LNMax(self.scale)


def _taught(
    teacher: Any, features: NDArray[np.float32], labels: NDArray[np.int64]
) -> Callable[[Any], NDArray[np.int64]]:
    """A function from queries to the teacher's answers."""
    if len(np.unique(labels)) <= 1:
        only = int(labels[0]) if len(labels) else 0
        return lambda points: np.full(len(points), only, np.int64)

    def answers(points: Any) -> NDArray[np.int64]:
        with warnings.catch_warnings(action="ignore"):
            try:
                return np.asarray(teacher.predict(points), np.int64).reshape(len(points))
            except Exception:  # which callers would see, and which depends on what is in the shard
                return np.zeros(len(points), np.int64)

    # what a teacher has to say about its shard, that it did not converge for one, is not for a log
    with warnings.catch_warnings(action="ignore"):
        teacher.fit(features, labels)
    return answers
