"""Several rounds of a labeller that answers query by query; a student's hidden layer gives the next round's features.

`mechanisms.federation.reverse_rounds` is about something else: the rounds of reverse k-NN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Booleans, Integers, Singles
from mechanisms.budgets.journal import Journal
from mechanisms.features import FeatureMap, feature_map
from mechanisms.frames import Vocabulary, read_labels, read_public, read_records
from mechanisms.labelling import Labelling
from mechanisms.noise.source import as_randomness
from mechanisms.pate import GNMax, LNMax
from mechanisms.phases import phase
from mechanisms.private_knn import PrivateKNN
from mechanisms.queries import central_points, order_queries, take_turn
from mechanisms.shards import is_sharded
from mechanisms.students.network import HiddenLayer, NetworkStudent, Student
from mechanisms.validation import LARGEST_FEATURE, check_count, check_features

__all__ = ["NothingAnswered", "Rounds", "label_in_rounds"]


class NothingAnswered(ac.ParameterError):
    """No query of a round was answered, so that no student can learn; the queries have been paid for."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """What all rounds together released, and what they cost.

    Attributes
    ----------
    labels : int array of shape (m,), or (m, c) for label sets, or text
        The latest released label of every public point; -1, or "" among names, where none was asked for or answered.
    asked : bool array of shape (m,)
        Public points that were queries in at least one round.
    rounds : tuple of Labelling
    student : Student
        Trained on the public points and `labels`, at no further cost; it answers the number of a class, or a set.
    """

    labels: Any
    asked: Booleans
    rounds: tuple[Labelling, ...]
    student: Student

    @property
    def answered(self) -> Booleans:
        """Public points with a label."""
        if self.labels.dtype.kind != "i":
            named: Booleans = self.labels != ""
            return named
        return _are_answered(self.labels)

    @property
    def composition(self) -> ac.Composition:
        """What all rounds spent."""
        return sum((each.composition for each in self.rounds), ac.Composition())

    @property
    def planned(self) -> ac.Composition | None:
        """The most that all rounds could have spent, fixed before they began; None if nothing was fixed."""
        return None if self.rounds[-1].odometer else self.rounds[-1].promised

    def guarantee(self, delta: float, conversion: ac.Conversion | None = None) -> ac.Guarantee:
        """As for `Labelling.guarantee`, over all rounds."""
        return self.rounds[-1].guarantee(delta, conversion)


def label_in_rounds(
    labeller: PrivateKNN | GNMax | LNMax,
    X: object,
    y: object,
    public: object,
    *,
    queries: int | None = None,
    choose: str | Sequence[int] = "central",
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
        Private records. Those in partitions, as for `PrivateKNN.fit`, can be asked in one round, by their features.
    y : array of shape (n,), labels 0..c-1, or names among the labeller's `classes`; with `clip` (n, c) label sets
    public : array of shape (m, d), or a data frame, whose columns are matched by name
        Public points. They must not depend on private records.
    queries : int or None
        Points to ask about in each round; None asks about all.
    choose : {"central", "random", "first"} or sequence of int
        Which points: those in the middle of clusters of the round's features; points drawn at random, always the same
        ones; the first ones; or those in these rows. Except for "central", a round goes on where the one before it
        ended, and begins again at the end.
    rounds : int
    features : str or callable
        Features of the first round, by name or as a map; see `mechanisms.features`.
    images : tuple of int, optional
        Shape of one record as an image, for HOG.
    make_student : callable
        Makes a student; it learns from the public points themselves, not their features.
    journal : Journal, optional
        Makes all rounds durable, as for `PrivateKNN.label`. It holds what each round asks, and the hidden layer of a
        `NetworkStudent`, so that a run goes on with the same ones on another processor; other students learn again.
    progress : callable, optional
        Called with the number of queries done, of all rounds together.

    Raises
    ------
    accountant.ParameterError
        A value is not as described; or no query of a round was answered (`NothingAnswered`).
    """
    check_count("rounds", rounds, 1)
    if is_sharded(X) and (rounds > 1 or features != "raw"):
        given = f"rounds = {rounds}, features = {ac.shorten(features)}"
        raise ac.ParameterError(f"{given} with X in partitions; accepted: 1 and 'raw'")
    records, numbers, points, names = _read(labeller, X, y, public)
    asked = len(points) if queries is None else check_count("queries", queries, 1, len(points))
    order = order_queries(choose, len(points), asked)
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
        how = {"choose": _digest(order), "features": "a map" if callable(features) else features, "images": images}
        choice = _Choice(points, order, asked, journal, {"public": _digest(points), "queries": asked, **how})
        labels = np.full(len(points), -1, np.int64)
        seen = np.zeros(len(points), bool)
        done: list[Labelling] = []
        student = make_student()
        if journal is not None:
            journal.about = {"rounds": rounds}
        for number in range(rounds):
            with phase("choosing the queries"):
                chosen, described, describe = choice.make(number, describe, _layer_of(student) if number else None)
            if not is_sharded(records) and (number or not callable(features)):
                own._made_of = points[chosen], records  # features can depend on the processor
            tick = None if progress is None else _shift(progress, len(done) * asked)
            out = own.fit(records if is_sharded(records) else describe(records), numbers).label(
                described, journal, tick
            )
            done.append(out)
            if out.labels.ndim > labels.ndim:  # label sets
                labels = np.full((len(points), out.labels.shape[1]), -1, np.int64)
            labels[chosen[out.answered]] = out.labels[out.answered]
            seen[chosen] = True
            if not _are_answered(labels).any():
                raise NothingAnswered(f"none of {asked} queries was answered, which cost {out.composition}")
            with phase("training the student"):
                student = make_student().fit(points, labels)
            describe = feature_map(partial(_transform, student.transform), points)
        return Rounds(names.spell(labels), seen, tuple(done), student)


def _read(labeller: PrivateKNN | GNMax | LNMax, X: Any, y: Any, public: object) -> tuple[Any, Any, Singles, Vocabulary]:
    """Private records and labels, public points, and names; records in partitions as they are."""
    if is_sharded(X):
        if not isinstance(labeller, PrivateKNN) or labeller.classes is not None:
            raise ac.ParameterError(f"{labeller!r} with X in partitions; accepted: PrivateKNN, without classes")
        return X, y, check_features(public, "public"), Vocabulary()
    records, names = read_records(X, labeller.classes)
    points = read_public(public, records, names)
    for name, table in (("X", records), ("public", points)):
        if len(table) == 0:
            raise ac.ParameterError(f"{name} holds no points; accepted: at least one")
    clip = getattr(labeller, "clip", None)
    numbers = np.asarray(y) if clip is not None else read_labels(y, len(records), labeller.n_classes, names.classes)[0]
    return records, numbers, points, names


def _are_answered(labels: Integers) -> Booleans:
    """Which points have a label, or a set of labels."""
    found: Booleans = labels >= 0 if labels.ndim == 1 else labels[:, 0] >= 0
    return found


@dataclass(frozen=True, eq=False)
class _Choice:
    """Chooses what each round asks; with a journal that is what it asked before the run was interrupted.

    Attributes
    ----------
    points : array of shape (m, d)
    order : int array, or None
        As `order_queries` returns it.
    asked : int
    journal : Journal or None
    about : dict
        What a run that goes on must have in common with the interrupted one.
    """

    points: Singles
    order: Integers | None
    asked: int
    journal: Journal | None
    about: dict[str, Any]

    def make(
        self, number: int, describe: FeatureMap, layer: HiddenLayer | None
    ) -> tuple[Integers, Singles, FeatureMap]:
        """Rows of the public points that a round asks about, their features, and the map that makes features.

        `layer` is that by which `describe` makes them, if it is one.
        """
        described, order = describe(self.points), self.order
        rows = central_points(described, self.asked) if order is None else take_turn(order, number, self.asked)
        made = {"rows": rows, **({} if layer is None else layer.arrays())}
        held = made if self.journal is None else self.journal.recall(self.about, made)
        if held is not made and "weights" in held:
            describe = feature_map(partial(_transform, HiddenLayer.of(held).transform), self.points)
            described = describe(self.points)
        return held["rows"], described[held["rows"]], describe


def _layer_of(student: Student) -> HiddenLayer | None:
    """All that a student's `transform` depends on, if that is known."""
    if isinstance(student, NetworkStudent) and type(student).transform is NetworkStudent.transform:
        return student.layer_
    return None


def _digest(values: NDArray[Any] | None) -> list[Any] | None:
    return None if values is None else [*values.shape, sha256(np.ascontiguousarray(values).tobytes()).hexdigest()]


def _transform(transform: Callable[[Singles], object], records: Singles) -> Singles:
    """A student's last hidden layer, clipped to the features that mechanisms accept.

    An error would come after earlier rounds were released, and reveal a private record that is far from all others.
    """
    with np.errstate(all="ignore"):
        hidden = np.nan_to_num(np.asarray(transform(records)), nan=0.0)
    cut: Singles = np.clip(hidden, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.float32)
    return cut


def _shift(progress: Callable[[int], object], before: int) -> Callable[[int], object]:
    """`progress` for a round that follows `before` queries."""
    return lambda done: progress(before + done)
