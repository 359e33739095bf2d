"""Several rounds of a labeller that answers query by query; a student's hidden layer gives the next round's features.

`mechanisms.federation.reverse_rounds` is about something else: the rounds of reverse k-NN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Booleans, Singles
from mechanisms.budgets.journal import Journal
from mechanisms.features import FeatureMap, feature_map
from mechanisms.frames import read_labels, read_public, read_records
from mechanisms.labelling import Labelling
from mechanisms.noise.source import as_randomness
from mechanisms.pate import GNMax, LNMax
from mechanisms.phases import phase
from mechanisms.private_knn import PrivateKNN
from mechanisms.queries import central_points
from mechanisms.students.network import NetworkStudent, Student
from mechanisms.validation import LARGEST_FEATURE, check_count

__all__ = ["Rounds", "label_in_rounds"]


@dataclass(frozen=True, eq=False)
class Rounds:
    """What all rounds together released, and what they cost.

    Attributes
    ----------
    labels : int array of shape (m,), or text
        The latest released label of every public point; -1, or "" among names, where none was asked for or answered.
    asked : bool array of shape (m,)
        Public points that were queries in at least one round.
    rounds : tuple of Labelling
    student : Student
        Trained on the public points and `labels`, at no further cost; it answers the number of a class.
    """

    labels: Any
    asked: Booleans
    rounds: tuple[Labelling, ...]
    student: Student

    @property
    def answered(self) -> Booleans:
        """Public points with a label."""
        found: Booleans = self.labels >= 0 if self.labels.dtype.kind == "i" else self.labels != ""
        return found

    @property
    def composition(self) -> ac.Composition:
        """What all rounds spent."""
        return sum((each.composition for each in self.rounds), ac.Composition())

    @property
    def planned(self) -> ac.Composition | None:
        """The most that all rounds could have spent, fixed before they began; None if nothing was fixed."""
        return None if self.rounds[-1].odometer else self.rounds[-1].promised

    def guarantee(self, delta: float, conversion: ac.Conversion = "improved") -> ac.Guarantee:
        """As for `Labelling.guarantee`, over all rounds."""
        return self.rounds[-1].guarantee(delta, conversion)


def label_in_rounds(
    labeller: PrivateKNN | GNMax | LNMax,
    X: object,
    y: object,
    public: object,
    *,
    queries: int | None = None,
    rounds: int = 1,
    features: str | Callable[[Singles], object] = "raw",
    images: tuple[int, ...] | None = None,
    make_student: Callable[[], Student] = NetworkStudent,
    journal: Journal | None = None,
    progress: Callable[[int], object] | None = None,
) -> Rounds:
    """Label public points by private records, round after round (Zhu et al. 2020, section 3).

    Later rounds compare records in the student's last hidden layer. The student has learnt from released labels only,
    so a round costs no more than its own queries.

    Parameters
    ----------
    labeller : PrivateKNN, GNMax or LNMax
        Answers every round with its own parameters. All releases count as its own, within its plan if it has one, and
        what it released before is part of the price.
    X : array of shape (n, d), or a data frame of pandas, polars or pyarrow
        Private records.
    y : array of shape (n,), labels 0..c-1, or names among the labeller's `classes`
    public : array of shape (m, d), or a data frame, whose columns are matched by name
        Public points. They must not depend on private records.
    queries : int or None
        Points to ask about in each round, those in the middle of clusters; None asks about all.
    rounds : int
    features : {"raw", "standardised", "hog"} or callable
        Features of the first round; see `mechanisms.features`.
    images : tuple of int, optional
        Shape of one record as an image, for "hog".
    make_student : callable
        Makes a student; it learns from the public points themselves, not their features.
    journal : Journal, optional
        Makes all rounds durable, as for `PrivateKNN.label`.
    progress : callable, optional
        Called with the number of queries done, of all rounds together.

    Raises
    ------
    accountant.ParameterError
        A value is not as described; or no query of a round was answered, so that no student can learn.
    """
    records, names = read_records(X, labeller.classes)
    points = read_public(public, records, names)
    check_count("rounds", rounds, 1)
    for name, table in (("X", records), ("public", points)):
        if len(table) == 0:
            raise ac.ParameterError(f"{name} holds no points; accepted: at least one")
    numbers, _ = read_labels(y, len(records), labeller.n_classes, names.classes)
    asked = len(points) if queries is None else check_count("queries", queries, 1, len(points))
    if isinstance(labeller, PrivateKNN) and labeller.clip is not None:
        raise ac.ParameterError(f"clip = {labeller.clip}; accepted: None, students learn one label for each point")
    # a resumed run has asked some of these queries already; what is new is held against the plan in each round
    resumed = journal is not None and journal.held()[0] > 0
    limit, before = labeller.n_queries, 0 if resumed else labeller.asked
    if limit is not None and rounds * asked > limit - before:
        accepted = f"at most {limit - before}, what is left of n_queries = {limit}"
        raise ac.ParameterError(f"{rounds} rounds of {asked} queries; accepted: {accepted}")
    with labeller._lend() as own:
        # one source for all rounds: starting from the seed again would repeat the noise
        own.rng = as_randomness(own.rng)
        if names.classes is not None:
            own.classes, own.n_classes = None, len(names.classes)  # students learn numbers
        describe: FeatureMap = feature_map(features, points, images)
        labels = np.full(len(points), -1, np.int64)
        seen = np.zeros(len(points), bool)
        done: list[Labelling] = []
        student = make_student()
        if journal is not None:
            journal.about = {"rounds": rounds}
        for _ in range(rounds):
            with phase("choosing the queries"):
                described = describe(points)
                chosen = central_points(described, asked)
            tick = None if progress is None else _shift(progress, len(done) * asked)
            out = own.fit(describe(records), numbers).label(described[chosen], journal, tick)
            done.append(out)
            labels[chosen[out.answered]] = out.labels[out.answered]
            seen[chosen] = True
            if not (labels >= 0).any():
                raise ac.ParameterError(f"none of {asked} queries was answered, which cost {out.composition}")
            with phase("training the student"):
                student = make_student().fit(points, labels)
            describe = feature_map(partial(_transform, student), points)
        return Rounds(names.spell(labels), seen, tuple(done), student)


def _transform(student: Student, records: Singles) -> Singles:
    """A student's last hidden layer, clipped to the features that mechanisms accept.

    An error would come after earlier rounds were released, and reveal a private record that is far from all others.
    """
    with np.errstate(all="ignore"):
        hidden = np.nan_to_num(np.asarray(student.transform(records)), nan=0.0)
    cut: Singles = np.clip(hidden, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.float32)
    return cut


def _shift(progress: Callable[[int], object], before: int) -> Callable[[int], object]:
    """`progress` for a round that follows `before` queries."""
    return lambda done: progress(before + done)
