"""PATE: teachers that learn from disjoint shards vote, and the class of the largest noisy count is released."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Self

import numpy as np

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.budgets.journal import Journal
from mechanisms.exclusive import exclusive
from mechanisms.frames import read_labels, read_records
from mechanisms.labelling import Labeller, Labelling
from mechanisms.noise.source import as_randomness
from mechanisms.phases import phase
from mechanisms.validation import check_count, check_fitted, few_threads, name_as
from mechanisms.voting import check_sets, clip_votes, clipped_sensitivity, noisy_label_set, tally

__all__ = ["GNMax", "LNMax"]


class _Pate(Labeller):
    """What `GNMax` and `LNMax` share; they differ in the event of a vote.

    A record is in one shard and so changes at most one teacher's vote: one count falls by 1, another rises by 1. Votes
    for label sets are clipped, so that they change by a bounded length, too.
    """

    n_teachers: int
    make_teacher: Callable[[], Any] | None
    screening_sigma: float | None
    threshold: float | None
    n_classes: int | None
    classes: Sequence[str] | None

    @property
    def _clip(self) -> float | None:
        """Where votes for label sets are clipped; None for single labels."""
        found: float | None = getattr(self, "clip", None)
        return found

    @property
    def screening_event(self) -> ac.Event | None:
        """The screening of one query by its plurality; None if it is off."""
        if self.screening_sigma is None or self._clip is not None:
            return None
        teachers = check_count("n_teachers", self.n_teachers, 1)
        with name_as("sigma", "screening_sigma"):
            return ac.NoisyScreening(self.screening_sigma, self._passing, teachers)

    @property
    def _passing(self) -> float:
        """Votes that pass screening."""
        return 0.6 * self.n_teachers if self.threshold is None else self.threshold

    @exclusive
    def fit(self, X: object, y: object) -> Self:
        """Train one teacher on each shard, for label sets one on each label. Nothing is released.

        Every record draws its shard independently. A shard with a single class always answers that class; an empty
        shard, and a teacher that raises an error, answer class 0.

        Parameters
        ----------
        X : array of shape (n, d), or a data frame of pandas, polars or pyarrow
        y : array of shape (n,), labels 0..c-1, or names among `classes`; or with `clip` of shape (n, c), zeros and ones

        Raises
        ------
        accountant.ParameterError
            An array or a parameter is not as described.
        """
        # a twin, whose parameters no other thread changes
        now = self.unused()
        records, names = read_records(X, now.classes)
        teachers = check_count("n_teachers", now.n_teachers, 1)
        if now._clip is None:
            labels, classes = read_labels(y, len(records), now.n_classes, names.classes)
        elif names.classes is not None:
            raise ac.ParameterError(f"classes with clip = {now._clip}; accepted: label sets, without names")
        else:
            labels = check_sets(y, len(records), now._clip)
            classes = labels.shape[1]
        if teachers > len(records):
            raise ac.ParameterError(f"n_teachers = {teachers}; accepted: at most the {len(records)} records")
        details = {"n_teachers": teachers, "n_classes": classes} | ({} if now._clip is None else {"clip": now._clip})
        plan, source = now._plan_of(**details), as_randomness(now.rng)
        # one draw for each record: cutting a shuffled list would move other records when one joins
        shard = (source.uniform(len(records)) * teachers).astype(np.int64)
        # of all teachers: as many threads as there are records for would change the last bits of others' answers
        with few_threads(0) if self.make_teacher is None else nullcontext():
            taught = self._teach_all(records, labels, shard, teachers)
        self._begin(plan, source, records, labels)
        self._teachers, self._width, self.n_classes_ = taught, records.shape[1], classes
        self._clipped_at, self._count_teachers = now._clip, teachers
        self._vocabulary = names
        self._fitted = True
        return self

    def _teach_all(
        self, records: Singles, labels: Integers, shard: Integers, teachers: int
    ) -> list[Callable[[Any], Integers]]:
        taught = []
        with phase("training teachers", teachers) as tick:
            for t in range(teachers):
                taught.append(self._teach_one(records[shard == t], labels[shard == t]))
                tick(t + 1)
        return taught

    def _teach_one(self, records: Singles, labels: Integers) -> Callable[[Any], Integers]:
        """The teacher of a shard; of label sets one for each label."""
        if labels.ndim == 1:
            return _teach(self._make_teacher(), records, labels)
        each = [_teach(self._make_teacher(), records, column) for column in labels.T]
        return lambda points: np.stack([np.clip(teacher(points), 0, 1) for teacher in each], axis=1)

    def _make_teacher(self) -> Any:
        if self.make_teacher is not None:
            return self.make_teacher()
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=200)

    def votes(self, queries: object) -> Any:
        """Votes for each class, one row for each query. They are private: only `label` releases labels."""
        points = self._vocabulary.read_queries(queries, self._width)
        if len(points) == 0:
            return np.empty((0, self.n_classes_), np.int64)
        with phase("asking teachers"):
            answers: Sequence[Integers] = [teacher(points) for teacher in self._teachers]
        if self._clipped_at is not None:
            # one teacher at a time: (teachers, queries, classes) would not fit
            votes = np.zeros((len(points), self.n_classes_))
            for answer in answers:
                votes += clip_votes(answer, self._clipped_at)
            return votes
        # an answer outside the classes must not stop the run: it counts for the nearest class
        columns = np.clip(np.stack(answers, axis=1), 0, self.n_classes_ - 1)
        return np.stack([tally(column, self.n_classes_) for column in columns])

    @exclusive
    def label(
        self, queries: object, journal: Journal | None = None, progress: Callable[[int], object] | None = None
    ) -> Labelling:
        """Label public queries, in order; every charge is recorded in `spent_` before its draw.

        Parameters
        ----------
        queries : array of shape (m, d), or a data frame, whose columns are matched by name
        journal, progress
            As for `PrivateKNN.label`.

        Raises
        ------
        accountant.ParameterError
            `queries` is not as described, there are more of them than the plan allows (`PlanExceeded`), or `fit` was
            not called; nothing has been spent.
        """
        check_fitted(self._fitted, "label(queries)")
        points = self._vocabulary.read_queries(queries, self._width)
        counts = self.votes(points)
        shape = counts.shape if self._clipped_at is not None else (len(counts),)
        labels = np.full(shape, -1, np.int64)
        return self._run((partial(_repeat, row) for row in counts), labels, points, journal, progress)

    def _release(self, vote: ac.Event, votes: Any) -> Any:
        if self._clipped_at is not None:
            return noisy_label_set(vote, votes, self._count_teachers / 2, self._source)
        return super()._release(vote, votes)


def _repeat(votes: Integers, event: ac.Event) -> Integers:
    """The same votes for screening and answer: teachers vote once."""
    return votes


class GNMax(_Pate):
    """PATE with Gaussian noise on every count (Papernot et al. 2018).

    Parameters
    ----------
    n_teachers : int
        Number of shards, each with one teacher.
    sigma : float
        Noise on every class's count, in votes.
    make_teacher : callable or None
        Makes a classifier with scikit-learn's `fit` and `predict`; None is logistic regression.
    screening_sigma, threshold : float or None
        Noise and threshold of an optional screening by the plurality; None is no screening, and 0.6 n_teachers.
    max_labels : int or None
        Most queries that will be answered, which fixes the guarantee before a run.
    n_classes : int or None
        Number of classes; None takes it from the labels.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source.
    n_queries : int or None
        As for `PrivateKNN`.
    clip : float or None
        For label sets (y of shape (n, c), zeros and ones; no screening): the L1 norm to which a teacher's vote is
        clipped. A query is answered by the labels whose noisy count exceeds half of the teachers.
    classes : sequence of str or None
        Public names of the classes; labels are then given, and given back, by name ("" where a query is not answered).
        None takes labels as numbers.
    """

    sigma: float
    clip: float | None

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
        classes: Sequence[str] | None = None,
        clip: float | None = None,
    ) -> None:
        self._keep(locals())

    @property
    def vote_event(self) -> ac.Event:
        """The release of one label, or of one label set."""
        if self.clip is None:
            return ac.GNMax(self.sigma)
        return ac.Gaussian(self.sigma, clipped_sensitivity(self.clip))


class LNMax(_Pate):
    """PATE with Laplace noise on every count (Papernot et al. 2017).

    Parameters
    ----------
    scale : float
        Scale of the noise (1/gamma in the paper), in votes.
    n_teachers, make_teacher, screening_sigma, threshold, max_labels, n_classes, rng, n_queries, classes
        As for `GNMax`.
    """

    scale: float

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
        classes: Sequence[str] | None = None,
    ) -> None:
        self._keep(locals())

    @property
    def vote_event(self) -> ac.Event:
        """The release of one label."""
        return ac.LNMax(self.scale)


def _teach(teacher: Any, features: Singles, labels: Integers) -> Callable[[Any], Integers]:
    """Train a teacher; returns a function from queries to its answers."""
    if len(np.unique(labels)) <= 1:
        only = int(labels[0]) if len(labels) else 0
        return lambda points: np.full(len(points), only, np.int64)

    def answer(points: Any) -> Integers:
        with warnings.catch_warnings(action="ignore"):
            try:
                return np.asarray(teacher.predict(points), np.int64).reshape(len(points))
            except Exception:  # raised to the caller, it would reveal something of the shard
                return np.zeros(len(points), np.int64)

    # warnings, of no convergence for example, would reveal something of the shard, and so would an error
    with warnings.catch_warnings(action="ignore"):
        try:
            teacher.fit(features, labels)
        except Exception:
            return lambda points: np.zeros(len(points), np.int64)
    return answer
