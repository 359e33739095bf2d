"""Tuning: the best of a random number of labelling runs, scored privately, for a price that is known beforehand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.budgets.journal import Journal, Part
from mechanisms.exclusive import Exclusive, UsageError, exclusive
from mechanisms.individual_knn import IndividualKNN
from mechanisms.noise.exact_draws import below
from mechanisms.noise.source import Randomness, as_randomness, check_noise, noise_of
from mechanisms.noise.tries import Tries, draw_tries
from mechanisms.phases import listen, phase
from mechanisms.reverse_knn import ReverseKNN
from mechanisms.students.network import NetworkStudent
from mechanisms.tuning_grid import Model, combine, make_model, most_spent, noises_of, prepare, renew
from mechanisms.validation import check_count, check_features, check_labels, check_positive, check_public, name_as

__all__ = ["Tuner", "Tuning", "TuningError", "tune"]


class TuningError(ac.AccountantError, RuntimeError):
    """A try failed; the whole price had been charged."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a tuning released, which is all that may leave it.

    Attributes
    ----------
    setting : dict or None
        The setting of the best try; None if no try was drawn, which a Poisson number allows.
    score : float or None
        Its noisy number of validation records that its student labels rightly. It may lie outside [0, their number].
    labels : int array of shape (m,)
        Its labels of the public points, -1 where there is none. They need not be paid for again.
    student : object or None
        The student that learnt these labels; None if nothing was labelled.
    selection : accountant.Selection
        The release: all tries together.
    charges : int
        How often it was charged: once, and once for every run in the same journal that was killed.
    """

    setting: dict[str, Any] | None
    score: float | None
    labels: Integers
    student: Any
    selection: ac.Selection
    charges: int

    @property
    def composition(self) -> ac.Composition:
        """What was spent."""
        return self.charges * self.selection

    def guarantee(self, delta: float) -> ac.Guarantee:
        """The guarantee for everything that was charged; parameters and errors as for `Selection.guarantee`."""
        return price_selections(self.composition, delta)


class Tuner(Exclusive):
    """Chooses one setting of a mechanism by private validation records (Papernot & Steinke 2022).

    A number of tries is drawn from `tries`. Every try draws a setting from the grid, all equally likely; labels the
    public points by the private records; lets a student learn the labels; and adds N(0, score_sigma^2) to the number
    of validation records that the student labels rightly. The try with the highest score is released: its setting,
    its score and its labels of the public points. All else stays secret: how many tries there were, and the settings,
    scores, labels and durations of the others.

    **Who is protected.** A record is features and label together, in the private data or in the validation data.
    Under add-remove adjacency a neighbour has one record less in either of them; under replace adjacency another one in
    its place (`ReverseKNN` by default). A private record costs what the labelling costs: the score is made of the
    released labels. A validation record changes the score alone, by 1 at most, as the student is made of released
    labels and labels every validation record by itself. The two are composed, so that an individual with one record in
    each is covered as well. Features and labels of the public points, and the grid, are public, and must not depend
    on any private record.

    **The price** is that of `accountant.Selection` of the settings, each with its score, and is known before anything
    is drawn: see `selection` and `guarantee`. Every setting counts as the dearest would. It assumes that the number of
    tries stays secret. The time that a run takes tells about it: do not let those see the clock from whom records are
    to be protected, and do not kill a run because it takes long.

    Parameters
    ----------
    make : callable
        Makes a mechanism of named values: a class such as ``mx.PrivateKNN``, a `functools.partial` of one, or a
        function. `PrivateKNN` without `clip`, `IndividualKNN` without a store, or `ReverseKNN`; with `n_classes`, and
        labels as numbers. Its `rng` is that of the tuner.
    grid : mapping of str to sequence
        Values for each name; all combinations are settings, at most 1000.
    public : array of shape (m, d)
        Public points, which every try labels.
    tries : accountant.Poisson, NegativeBinomial or Geometric
        With a mean of at most 1000.
    score_sigma : float
        Noise of the score, in validation records.
    n_records : int
        Public number of private records; under replace adjacency the exact one.
    make_student : callable or None
        Makes a student with `fit` and `predict`, which must depend on nothing but what `fit` gets. None:
        `NetworkStudent`.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source. A seed is for rehearsals on public data: whoever
        knows it knows the tries.

    Attributes
    ----------
    settings : list of dict
    selection : accountant.Selection
        The release of a run.
    score_event : accountant.Gaussian

    Raises
    ------
    accountant.ParameterError
        A value is not as described.
    accountant.AdjacencyMismatch
        Settings have different adjacency.
    """

    def __init__(
        self,
        make: Callable[..., Model],
        grid: Mapping[str, Sequence[Any]],
        public: object,
        *,
        tries: Tries,
        score_sigma: float,
        n_records: int,
        make_student: Callable[[], Any] | None = None,
        rng: Any = None,
    ) -> None:
        self.public: Singles = check_features(public, "public")
        self.n_records = check_count("n_records", n_records, 1)
        self.make_student = NetworkStudent if make_student is None else make_student
        self.settings = combine(grid)
        self._models = [make_model(make, setting) for setting in self.settings]
        for model, setting in zip(self._models, self.settings, strict=True):
            prepare(model, setting, len(self.public), self.n_records)
        classes = {model.n_classes for model in self._models}
        if len(classes) > 1:
            raise ac.ParameterError(f"n_classes = {sorted(map(str, classes))}; accepted: the same in all settings")
        self.n_classes = check_count("n_classes", classes.pop(), 1)
        self._rng, self.tries = rng, tries
        self._costs = [most_spent(model, len(self.public), self.n_records, self.n_classes) for model in self._models]
        adjacency = self._costs[0].adjacency
        assert adjacency is not None  # every mechanism releases something
        with name_as("sigma", "score_sigma"):
            self.score_event = ac.Gaussian(check_positive("score_sigma", score_sigma), 1.0, adjacency)
        draw_tries(tries, as_randomness(0))  # refuses what cannot be drawn
        self.selection = ac.Selection(tuple(cost + self.score_event for cost in self._costs), tries)

    def guarantee(self, delta: float) -> ac.Guarantee:
        """The price of a run, fixed before it; parameters and errors as for `accountant.Selection.guarantee`."""
        return self.selection.guarantee(delta)

    def try_guarantee(self, delta: float) -> ac.Guarantee:
        """What one try with the dearest setting would cost alone, by the Rényi route."""
        prices = [ac.epsilon(cost + self.score_event, delta, method="renyi") for cost in dict.fromkeys(self._costs)]
        return max(prices, key=lambda each: each.epsilon)

    @exclusive
    def run(self, X: object, y: object, validation: tuple[object, object], journal: Journal | None = None) -> Tuning:
        """Charge for all tries, make them, and release the best; can be called once.

        Parameters
        ----------
        X, y : arrays of shapes (n, d) and (n,)
            Private records, labels 0..c-1.
        validation : pair of arrays of shapes (v, d) and (v,)
            Private validation records.
        journal : Journal, optional
            The whole price is on disk before the first draw, and the result before it is returned. A run that was
            killed in between has released nothing, and stays charged: another start makes new tries and is charged as
            well. A finished run is returned again, at no cost.

        Raises
        ------
        accountant.ParameterError
            An array is not as described; nothing has been spent.
        TuningError
            A try failed; everything is charged.
        UsageError
            It was called before: the price is that of one run.
        """
        if "_begun" in self.__dict__:
            raise UsageError("Tuner.run was called before; accepted: a new Tuner, with a price of its own")
        data = self._check(X, y, validation)
        source = as_randomness(self._rng)
        noises = (noises_of(model, self.n_records, self.n_classes) for model in self._models)
        for event in (self.score_event, *chain.from_iterable(noises)):
            check_noise(event, source)
        part = Part() if journal is None else journal.part(self._header(journal, data, source))
        self._begun = True
        if not part.answers:
            number = 0 if source.repeatable else len(part.charges)
            part.charge(number, "selection")
            part.answer(number, answer := self._make_tries(data, source), None)
        else:
            ((answer, _),) = part.answers.values()
        chosen, score, labels = answer
        found = np.array(labels, np.int64)
        student = self._teach(found) if chosen is not None else None
        setting = None if chosen is None else self.settings[chosen]
        return Tuning(setting, score, found, student, self.selection, len(part.charges))

    def _make_tries(self, data: _Records, source: Randomness) -> list[Any]:
        """Position of the best setting, its score and its labels; nothing else of the tries outlives the call."""
        nothing: list[Any] = [None, None, [-1] * len(self.public)]
        best: tuple[tuple[float, int], list[Any]] | None = None
        try:
            with phase("tuning; how many tries there are stays secret"), _silence():
                for _ in range(draw_tries(self.tries, source)):
                    position = int(below(source, 1, len(self._models))[0])
                    labels = self._label(position, data, source)
                    count = self._count_right(labels, data)
                    score = float(count + noise_of(self.score_event, source, 1)[0])
                    rank = (score, int(source.words(1)[0]))  # equal scores: by lot
                    if best is None or rank > best[0]:
                        best = rank, [position, score, labels.tolist()]
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the whole price is charged, and nothing was released") from None
        except Exception:
            if source.repeatable:  # a rehearsal
                raise
            reason = "why is not said, as it may depend on private records; the whole price is charged"
            raise TuningError(f"a try failed; {reason}; accepted: a rehearsal with a seed on public data") from None
        return nothing if best is None else best[1]

    def _label(self, position: int, data: _Records, source: Randomness) -> Integers:
        """The released labels of one run."""
        model = renew(self._models[position], source)
        if isinstance(model, ReverseKNN):
            labels = model.label(data.features, data.labels, self.public).labels
        elif isinstance(model, IndividualKNN):
            labels = model.fit(data.features, data.labels).predict(self.public)
        else:
            labels = model.fit(data.features, data.labels).label(self.public).labels
        return np.asarray(labels, np.int64)

    def _teach(self, labels: Integers) -> Any:
        """A student of released labels; None if there are none."""
        return self.make_student().fit(self.public, labels) if (labels >= 0).any() else None

    def _count_right(self, labels: Integers, data: _Records) -> int:
        """Validation records that the student labels rightly.

        One after the other: in a common product another record could change the last bits of what is predicted. Where
        the student raises an error, which would reveal a record that it does not take, it is wrong.
        """
        student = self._teach(labels)
        if student is None:
            return 0
        right = 0
        for row, label in zip(data.validation, data.truth.tolist(), strict=True):
            try:
                right += int(student.predict(row[None])[0]) == label
            except Exception:
                if as_randomness(self._rng).repeatable:  # a rehearsal
                    raise
        return right

    def _check(self, X: object, y: object, validation: tuple[object, object]) -> _Records:
        """All private arrays, and that every setting accepts them: later, an error would tell what was drawn."""
        features, points = check_features(X, "X"), check_features(validation[0], "validation")
        for each in (features, points):
            check_public(self.public, each)
        labels, _ = check_labels(y, len(features), self.n_classes)
        truth, _ = check_labels(validation[1], len(points), self.n_classes)
        if self.selection.adjacency is ac.Adjacency.REPLACE and len(features) != self.n_records:
            raise ac.ParameterError(
                f"{len(features)} records; accepted: n_records = {self.n_records}, which are public under replacement"
            )
        for model in self._models:
            if not isinstance(model, ReverseKNN):
                renew(model, as_randomness(0)).fit(features, labels)
        return _Records(features, labels, points, truth)

    def _header(self, journal: Journal, data: _Records, source: Randomness) -> dict[str, Any]:
        """What a tuning that goes on must have in common with the one that was interrupted."""
        return {
            "mechanism": f"tuning of {type(self._models[0]).__name__}",
            "settings": [repr(model) for model in self._models],
            "event": repr(self.selection),
            "public": [*self.public.shape, sha256(self.public.tobytes()).hexdigest()],
            "private": journal.keyed_digest(data.features, data.labels, data.validation, data.truth),
            "seed": source.state(),
        }


def tune(
    make: Callable[..., Model],
    grid: Mapping[str, Sequence[Any]],
    X: object,
    y: object,
    public: object,
    validation: tuple[object, object],
    *,
    tries: Tries,
    score_sigma: float,
    n_records: int,
    make_student: Callable[[], Any] | None = None,
    rng: Any = None,
    journal: Journal | None = None,
) -> Tuning:
    """Tune a mechanism in one call; parameters, result and errors as for `Tuner` and `Tuner.run`."""
    tuner = Tuner(
        make,
        grid,
        public,
        tries=tries,
        score_sigma=score_sigma,
        n_records=n_records,
        make_student=make_student,
        rng=rng,
    )
    return tuner.run(X, y, validation, journal)


def price_selections(run: ac.Composition, delta: float) -> ac.Guarantee:
    """The price of tunings together; of one alone the smaller of two bounds."""
    if run.releases == 1 and isinstance(only := next(iter(run.entries)), ac.Selection):
        return only.guarantee(delta)
    return ac.epsilon(run, delta, method="renyi")


@dataclass(frozen=True, eq=False)
class _Records:
    """Private and validation records."""

    features: Singles
    labels: Integers
    validation: Singles
    truth: NDArray[np.int64]


@contextmanager
def _silence() -> Iterator[None]:
    """No phase, progress or warning of a try is seen: which there are tells what was drawn."""
    with listen(lambda name, total: nullcontext(lambda done: None)), warnings.catch_warnings(action="ignore"):
        yield
