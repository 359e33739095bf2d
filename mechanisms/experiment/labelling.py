"""A labelling experiment from data to labels and a student; its noise meets a guarantee fixed before it begins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.budgets.journal import Journal
from mechanisms.datasets import Dataset
from mechanisms.exclusive import exclusive
from mechanisms.experiment.outcome import Diagnostics, Once, Outcome, accuracy_of, accuracy_of_labels, accuracy_on
from mechanisms.labelling import least_noise
from mechanisms.noisy_sgd import LinearNoisySGD
from mechanisms.pate import GNMax, LNMax
from mechanisms.private_knn import PrivateKNN
from mechanisms.rounds import label_in_rounds
from mechanisms.students.convolutional import ConvStudent
from mechanisms.students.network import NetworkStudent, Student
from mechanisms.validation import check_count, check_rate, nominal_count, require

__all__ = ["MECHANISMS", "Diagnostics", "Experiment", "Outcome", "Setting"]

Voting: TypeAlias = PrivateKNN | GNMax | LNMax

MECHANISMS = ("private-knn", "gnmax", "lnmax", "noisy-sgd")
STUDENTS = ("network", "conv")
TEACHERS = ("logistic", "nearest")


@dataclass(frozen=True)
class Setting:
    """What a person chooses; None leaves it to the size of the data.

    Parameters
    ----------
    mechanism : {"private-knn", "gnmax", "lnmax", "noisy-sgd"}
    epsilon, delta : float
        The guarantee, for all rounds together.
    queries : int or None
        Public points to ask about in each round. None: as many as leave the noise at a tenth of the neighbours, a
        fifteenth of the teachers; at least six for every five classes.
    rounds : int
    max_labels : int or None
        Most queries answered in a round; None is all of them. Below `queries` it needs screening to be of use.
    screening_ratio : float or None
        Screening noise over vote noise; None switches screening off.
    threshold : float or None
        Votes that pass screening; None is 0.6 of the neighbours or teachers.
    neighbors : int or None
        None: a class's share of a sample.
    sampling_rate : float
        Of Private-kNN's samples; NoisySGD's batches are a tenth of that.
    teachers : int or None
        None: one for every eight records.
    teacher : {"logistic", "nearest"}
        Logistic regression, or the nearest record of the shard.
    steps : int
        Of NoisySGD.
    features : str
        "raw", "standardised" or "hog", in the first round.
    student : {"network", "conv"}
    method : {"renyi", "tight", "auto"} or None
        Route to the price, as for `accountant.epsilon`. None: "auto", but "renyi" with screening, where a tight price
        takes long to calibrate to.
    conversion : accountant.Conversion
    seed : int or None
        None draws exact noise from the system, as a real release must.
    """

    mechanism: str
    epsilon: float
    delta: float
    queries: int | None = None
    rounds: int = 1
    max_labels: int | None = None
    screening_ratio: float | None = None
    threshold: float | None = None
    neighbors: int | None = None
    sampling_rate: float = 0.5
    teachers: int | None = None
    teacher: str = "logistic"
    steps: int = 500
    features: str = "raw"
    student: str = "network"
    method: str | None = None
    conversion: ac.Conversion = "improved"
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, value, accepted in (
            ("mechanism", self.mechanism, MECHANISMS),
            ("student", self.student, STUDENTS),
            ("teacher", self.teacher, TEACHERS),
        ):
            if value not in accepted:
                raise ac.ParameterError(f"{name} = {value!r}; accepted: {', '.join(accepted)}")
        check_count("rounds", self.rounds, 1)
        check_rate(self.sampling_rate)


class Experiment(Once):
    """Everything fixed before the first release: the data, the mechanism with its noise, and the price.

    Parameters
    ----------
    setting : Setting
    private : Dataset
        With labels, one for each record.
    public : Dataset
        Labels, if any, are used for nothing but diagnostics.
    test : Dataset or None
        Used for nothing but diagnostics.
    n_classes : int or None
        A public number. None takes what the format of the private records fixes; where it fixes nothing, the largest
        label of all three, which is thereby released and not paid for.
    nominal : int or None
        Public number of private records, of which all defaults are made. None rounds their number to two digits, which
        is thereby public.

    Raises
    ------
    accountant.AccountantError
        Data and setting do not go together, or no noise meets the target. Nothing has been spent.

    Attributes
    ----------
    n_classes, nominal, queries : int
    noise : float
    planned : accountant.Composition
    guarantee : accountant.Guarantee

    Notes
    -----
    All of these are the same for neighbouring private records, where `n_classes` and `nominal` were given.
    """

    def __init__(
        self,
        setting: Setting,
        private: Dataset,
        public: Dataset,
        test: Dataset | None = None,
        n_classes: int | None = None,
        nominal: int | None = None,
    ) -> None:
        self.n_classes = check_classes(private, public, test, n_classes)
        widths = {each.features.shape[1] for each in (private, public, test) if each is not None}
        if len(widths) > 1:
            raise ac.ParameterError(f"records of {sorted(widths)} columns; accepted: the same for all data")
        self.nominal = nominal_count(len(private)) if nominal is None else check_count("nominal", nominal, 1)
        self.setting, self.private, self.public, self.test = setting, private, public, test
        self.make_student = self._student_maker()
        self.labeller: Voting | LinearNoisySGD
        plan: Callable[[float], ac.Composition]
        if setting.mechanism == "noisy-sgd":
            self.queries, start = 0, 1.0
            plan = self._training_plan
        else:
            self.queries, start = self._queries(), self._scale()
            plan = partial(self._plan, self.queries)
        self.noise = least_noise(plan, setting.epsilon, setting.delta, start, **self._route())
        self.planned = plan(self.noise)
        self.labeller = (
            self._noisy_sgd(self.noise) if setting.mechanism == "noisy-sgd" else self._voting(self.noise, self.queries)
        )
        self.guarantee = self._price(self.planned)
        self._claim()  # a copy would run once more under the same guarantee

    @exclusive
    def run(
        self,
        journal: Journal | None = None,
        progress: Callable[[int], object] | None = None,
        diagnostics: bool = False,
    ) -> Outcome:
        """Spend the budget, once.

        Parameters
        ----------
        journal, progress
            As for `label_in_rounds`.
        diagnostics : bool
            Compute accuracies, too, which nobody paid for.

        Raises
        ------
        UsageError
            It was called before: the guarantee, fixed before the first release, covers one run.
        """
        self._begin()
        labels = self.private.labels
        assert labels is not None
        if isinstance(self.labeller, LinearNoisySGD):
            model = self.labeller.fit(self.private.features, labels)
            predictions = model.predict(self.public.features)
            found = self._diagnostics(predictions, model.predict) if diagnostics else None
            return self._outcome(predictions, predictions, 0, 0, model.spent_, found)
        out = label_in_rounds(
            self.labeller,
            self.private.features,
            labels,
            self.public.features,
            queries=self.queries,
            rounds=self.setting.rounds,
            features=self.setting.features,
            images=self.public.images,
            make_student=self.make_student,
            journal=journal,
            progress=progress,
        )
        predictions = out.student.predict(self.public.features)
        answered = sum(int(each.answered.sum()) for each in out.rounds)
        asked = self.setting.rounds * self.queries
        found = self._diagnostics(out.labels, out.student.predict) if diagnostics else None
        return self._outcome(out.labels, predictions, asked, answered, out.composition, found)

    def _outcome(
        self,
        labels: NDArray[np.int64],
        predictions: NDArray[np.int64],
        asked: int,
        answered: int,
        spent: ac.Composition,
        diagnostics: Diagnostics | None,
    ) -> Outcome:
        price, plan = self.guarantee, self.planned
        return Outcome(labels, predictions, asked, answered, price, plan, spent, self.noise, diagnostics)

    def _diagnostics(self, labels: NDArray[np.int64], predict: Callable[[Any], NDArray[np.int64]]) -> Diagnostics:
        private = self.private
        nonprivate = accuracy_of(self.test, lambda: self.make_student().fit(private.features, private.labels))
        return Diagnostics(accuracy_of_labels(labels, self.public), accuracy_on(self.test, predict), nonprivate)

    # --- what is fixed from the setting and the nominal size of the data ---------------------------------------

    def _student_maker(self) -> Callable[[], Student]:
        if self.setting.student == "network":
            return NetworkStudent
        if self.public.images is None:
            raise ac.ParameterError(f"student = 'conv' needs images, {self.public.name} has none; accepted: network")
        return partial(ConvStudent, self.public.images, self.n_classes)

    def _route(self) -> dict[str, Any]:
        chosen = self.setting
        usual = "auto" if chosen.screening_ratio is None else "renyi"
        return {"method": chosen.method or usual, "conversion": chosen.conversion, "tolerance": 1e-3}

    def _price(self, run: ac.Composition) -> ac.Guarantee:
        return ac.epsilon(run, self.setting.delta, **self._route())

    def _size(self) -> int:
        """Neighbours or teachers: the most votes that a query can get."""
        n, chosen = self.nominal, self.setting
        name = "neighbors" if chosen.mechanism == "private-knn" else "teachers"
        given: int | None = getattr(chosen, name)
        if given is not None:
            return check_count(name, given, 1, n)
        if name == "teachers":
            return max(n // 8, 1)
        # rounding to two digits adds at most a twentieth, and there must not be more neighbours than records
        return max(min(round(n * chosen.sampling_rate / self.n_classes), int(0.95 * n)), 1)

    def _scale(self) -> float:
        """Noise that votes still stand out from: as a tenth of them for neighbours, a fifteenth for teachers."""
        return self._size() / (10 if self.setting.mechanism == "private-knn" else 15)

    def _queries(self) -> int:
        """Queries of a round."""
        m, chosen = len(self.public), self.setting
        if chosen.queries is not None:
            return check_count("queries", chosen.queries, 1, m)
        fewest = min(math.ceil(1.2 * self.n_classes), m)

        def affordable(count: int) -> bool:
            return self._price(self._plan(count, self._scale())).epsilon <= chosen.epsilon

        # the largest count that is affordable: double, then bisect
        low, high = fewest, fewest
        while high < m and affordable(high):
            low, high = high, min(2 * high, m)
        if affordable(high):
            return high
        while high - low > max(1, low // 100):
            middle = (low + high) // 2
            low, high = (middle, high) if affordable(middle) else (low, middle)
        return low

    def _voting(self, noise: float, queries: int) -> Voting:
        """The mechanism with that noise on its votes."""
        chosen = self.setting
        screening = None if chosen.screening_ratio is None else chosen.screening_ratio * noise
        common: dict[str, Any] = {
            "screening_sigma": screening,
            "threshold": chosen.threshold,
            "max_labels": queries if chosen.max_labels is None else min(chosen.max_labels, queries),
            "n_classes": self.n_classes,
            "rng": chosen.seed,
        }
        if chosen.mechanism == "private-knn":
            return PrivateKNN(self._size(), chosen.sampling_rate, vote_sigma=noise, **common)
        teacher = None if chosen.teacher == "logistic" else _nearest_record
        return (GNMax if chosen.mechanism == "gnmax" else LNMax)(self._size(), noise, teacher, **common)

    def _plan(self, queries: int, noise: float) -> ac.Composition:
        """What all rounds can spend."""
        one = self._voting(noise, queries).planned(queries)
        assert one is not None  # _voting always limits the labels
        return self.setting.rounds * one

    def _training_plan(self, noise: float) -> ac.Composition:
        return self._noisy_sgd(noise).planned

    def _noisy_sgd(self, noise: float) -> LinearNoisySGD:
        chosen = self.setting
        return LinearNoisySGD(noise, chosen.sampling_rate / 10, chosen.steps, n_classes=self.n_classes, rng=chosen.seed)


def _nearest_record() -> Any:
    return require("sklearn.neighbors").KNeighborsClassifier(1)


def check_classes(private: Dataset, public: Dataset, test: Dataset | None, n_classes: int | None) -> int:
    """The number of classes: as given, as the format fixes it, or the largest label plus 1.

    Raises
    ------
    accountant.ParameterError
        Private records have no labels, some records have label sets, or a label lies outside the classes.
    """
    known = [each.labels for each in (private, public, test) if each is not None and each.labels is not None]
    if private.labels is None or any(labels.ndim != 1 for labels in known):
        accepted = "one label for each record (label sets: mx.PrivateKNN, mx.ReverseKNN)"
        raise ac.ParameterError(f"{private.name}: accepted: {accepted}")
    if n_classes is None:
        return max(private.classes or 0, *(int(labels.max()) + 1 for labels in known))
    return check_count("classes", n_classes, int(private.labels.max()) + 1)
