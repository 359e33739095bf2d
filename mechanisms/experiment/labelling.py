"""A labelling experiment from data to labels and a student; its noise meets a guarantee fixed before it begins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import accountant as ac
from mechanisms.budgets.journal import Journal
from mechanisms.exclusive import exclusive
from mechanisms.experiment.base import MOST_ROUNDS, BaseExperiment
from mechanisms.experiment.outcome import Diagnostics, Outcome
from mechanisms.experiment.student import StudentOptions, choose_student
from mechanisms.labelling import least_noise
from mechanisms.noisy_sgd import LinearNoisySGD, TwoLayerNoisySGD
from mechanisms.pate import GNMax, LNMax
from mechanisms.private_knn import PrivateKNN
from mechanisms.rounds import label_in_rounds
from mechanisms.validation import check_count, check_positive, check_rate, require

__all__ = ["MECHANISMS", "Diagnostics", "Experiment", "Outcome", "Setting"]

Voting: TypeAlias = PrivateKNN | GNMax | LNMax

MECHANISMS = ("private-knn", "gnmax", "lnmax", "noisy-sgd")
TEACHERS = ("logistic", "nearest")


@dataclass(frozen=True)
class Setting(StudentOptions):
    """The options of an experiment, with those of `StudentOptions`; None chooses by the size of the data.

    Parameters
    ----------
    mechanism : {"private-knn", "gnmax", "lnmax", "noisy-sgd"}
    epsilon : float or None
        Of the guarantee, for all rounds together: the noise follows from it. None: the noise is given, by `vote_sigma`
        or `noise_multiplier`, and the guarantee follows.
    delta : float
    queries : int or None
        Public points to ask about in each round. None: as many as the budget allows with noise of a tenth of the
        neighbours, or a fifteenth of the teachers; at least six for every five classes. It must be given if the noise
        is.
    choose : {"central", "random", "first"} or sequence of int
        Which public points are asked about: those in the middle of clusters, points drawn at random, the first ones, or
        those in these rows; but for "central", a round goes on where the one before it ended.
    rounds : int
        At most 1000.
    max_labels : int or None
        Most queries answered in a round; None is all of them. A number below `queries` is of use with screening only;
        without it, no more are asked where `queries` is None.
    screening_ratio : float or None
        Standard deviation of the screening noise over that of the vote noise; None switches screening off.
    vote_sigma, screening_sigma : float or None
        The noise itself, in votes (for "lnmax" the scale of the votes' Laplace noise), in place of `epsilon` and
        `screening_ratio`.
    threshold : float or None
        Votes needed to pass screening; None is 0.6 of the neighbours or teachers.
    neighbors : int or None
        None: the expected number of records of a class in a sample.
    sampling_rate : float
        Of Private-kNN's samples; batches of NoisySGD have a tenth of that rate, unless `batch` is given.
    teachers : int or None
        None: one for every eight records.
    teacher : {"logistic", "nearest"}
        Logistic regression, or the label of the shard's nearest record.
    clip : float or None
        Of NoisySGD, as for `LinearNoisySGD`; None: 0.1. Of the others, for label sets, as for `PrivateKNN` and `GNMax`:
        None is one label for each record.
    hidden : int or None
        Of NoisySGD: units of a hidden layer; None is softmax regression.
    steps, batch, learning_rate, noise_multiplier
        Of NoisySGD: number of steps, expected size of a batch (None: by `sampling_rate`), and as for `LinearNoisySGD`;
        None of `noise_multiplier` follows from `epsilon`.
    features : str
        Of the first round, by a name in `mechanisms.features`.
    method : {"renyi", "tight", "auto"} or None
        As for `accountant.epsilon`; None: "auto".
        there.
    conversion : accountant.Conversion or None
        That of the Rényi route; one that is named means that route.
    seed : int or None
        None draws exact noise from system entropy, as a real release must.
    """

    mechanism: str
    epsilon: float | None
    delta: float
    queries: int | None = None
    choose: str | tuple[int, ...] = "central"
    rounds: int = 1
    max_labels: int | None = None
    screening_ratio: float | None = None
    vote_sigma: float | None = None
    screening_sigma: float | None = None
    threshold: float | None = None
    neighbors: int | None = None
    sampling_rate: float = 0.5
    teachers: int | None = None
    teacher: str = "logistic"
    steps: int = 500
    batch: int | None = None
    clip: float | None = None
    learning_rate: float = 0.02
    noise_multiplier: float | None = None
    hidden: int | None = None
    features: str = "raw"
    method: str | None = None
    conversion: ac.Conversion | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, value, accepted in (
            ("mechanism", self.mechanism, MECHANISMS),
            ("teacher", self.teacher, TEACHERS),
        ):
            if value not in accepted:
                raise ac.ParameterError(f"{name} = {value!r}; accepted: {', '.join(accepted)}")
        super().__post_init__()
        check_count("rounds", self.rounds, 1, MOST_ROUNDS)
        if self.max_labels is not None:
            check_count("max_labels", self.max_labels, 0)
        check_rate(self.sampling_rate)
        self._check_noise()
        sets = self.clip is not None and self.mechanism != "noisy-sgd"
        if sets and (self.mechanism == "lnmax" or self.screens or self.student == "conv"):
            only = "None, or private-knn or gnmax without screening, with the student network"
            raise ac.ParameterError(f"clip = {self.clip!r} with {self.mechanism}; accepted: {only}")

    @property
    def fixed_noise(self) -> float | None:
        """The noise that is given in place of a target; None if it follows from `epsilon`."""
        return self.noise_multiplier if self.mechanism == "noisy-sgd" else self.vote_sigma

    @property
    def screens(self) -> bool:
        """Whether queries are screened."""
        return self.screening_ratio is not None or self.screening_sigma is not None

    def _check_noise(self) -> None:
        """Refuse a target beside a noise, neither of both, and noise of another mechanism."""
        own, other = "vote_sigma", "noise_multiplier"
        if self.mechanism == "noisy-sgd":
            own, other = other, own
        if self.hidden is not None and self.mechanism != "noisy-sgd":
            raise ac.ParameterError(f"hidden = {self.hidden!r} with {self.mechanism}; accepted: noisy-sgd")
        if getattr(self, other) is not None:
            raise ac.ParameterError(f"{other} = {getattr(self, other)!r} with {self.mechanism}; accepted: {own}")
        if (self.epsilon is None) == (self.fixed_noise is None):
            both = f"epsilon = {self.epsilon!r} and {own} = {self.fixed_noise!r}"
            raise ac.ParameterError(f"{both}; accepted: one of them, from which the other follows")
        if self.screening_sigma is not None and (self.vote_sigma is None or self.screening_ratio is not None):
            accepted = "with vote_sigma and without screening_ratio"
            raise ac.ParameterError(f"screening_sigma = {self.screening_sigma!r}; accepted: {accepted}")
        if self.threshold is not None and not self.screens:
            raise ac.ParameterError(
                f"threshold = {self.threshold!r} without screening; accepted: with screening_ratio or screening_sigma"
            )
        if self.fixed_noise is not None:
            check_positive(own, self.fixed_noise)
            if self.mechanism != "noisy-sgd" and self.queries is None:
                raise ac.ParameterError(
                    f"queries = None with {own}; accepted: their number, which the price depends on"
                )


class Experiment(BaseExperiment):
    """An experiment with votes of neighbours or teachers, or with noisy gradients.

    Parameters, errors and attributes as for `BaseExperiment`; in addition:

    Attributes
    ----------
    queries : int
        Public points to ask about in each round.
    """

    setting: Setting

    @property
    def _takes_sets(self) -> bool:
        return self.setting.clip is not None and self.setting.mechanism != "noisy-sgd"

    @property
    def asked(self) -> int:
        return self.setting.rounds * self.queries

    def _plan(self) -> None:
        setting = self.setting
        self.make_student = choose_student(setting, self.public, self.n_classes)
        self.labeller: Voting | LinearNoisySGD
        plan: Callable[[float], ac.Composition]
        if setting.mechanism == "noisy-sgd":
            self.queries, start, plan = 0, 1.0, self._plan_training
        else:
            self.queries, start = self._choose_queries(), self._scale()
            plan = partial(self._plan_votes, self.queries)
        if setting.fixed_noise is not None:
            self.noise = setting.fixed_noise
        else:
            assert setting.epsilon is not None  # one of the two is there
            self.noise = least_noise(plan, setting.epsilon, setting.delta, start, **self._route())
        self.planned = plan(self.noise)
        if setting.mechanism == "noisy-sgd":
            self.labeller = self._make_noisy_sgd(self.noise)
        else:
            self.labeller = self._make_voting(self.noise, self.queries)
        self.guarantee = self._price(self.planned)
        if isinstance(self.labeller, PrivateKNN):
            self.labeller.warn_if_thin(self.n_classes)

    @exclusive
    def run(
        self,
        journal: Journal | None = None,
        progress: Callable[[int], object] | None = None,
        diagnostics: bool = False,
    ) -> Outcome:
        """Label the public points; can be called once, as it spends the whole budget.

        Parameters
        ----------
        journal, progress
            As for `label_in_rounds`.
        diagnostics : bool
            Compute accuracies too, which are not paid for.

        Raises
        ------
        UsageError
            It was called before: the guarantee covers one run.
        """
        self._begin()
        if isinstance(self.labeller, LinearNoisySGD):
            model = self.labeller.fit(self.private.features, self._labels, journal)
            predictions = model.predict(self.public.features)
            found = self._diagnose(predictions, model.predict) if diagnostics else None
            return self._report(predictions, predictions, model.spent_, (0, 0), found)
        out = label_in_rounds(
            self.labeller,
            self.private.features,
            self._labels,
            self.public.features,
            queries=self.queries,
            choose=self.setting.choose,
            rounds=self.setting.rounds,
            features=self.setting.features,
            images=self.public.images,
            make_student=self.make_student,
            journal=journal,
            progress=progress,
        )
        predictions = out.student.predict(self.public.features)
        answered = sum(int(each.answered.sum()) for each in out.rounds)
        found = self._diagnose(out.labels, out.student.predict) if diagnostics else None
        return self._report(out.labels, predictions, out.composition, (self.asked, answered), found)

    # --- what follows from the setting and the nominal size of the data ----------------------------------------

    def _route(self) -> dict[str, Any]:
        chosen = self.setting
        # prices of screening within 0.1 % take longer than patience lasts
        width = 0.01 if chosen.screens else 1e-3
        return {"method": chosen.method, "conversion": chosen.conversion, "tolerance": width}

    def _price(self, run: ac.Composition) -> ac.Guarantee:
        return ac.epsilon(run, self.setting.delta, **self._route())

    def _size(self) -> int:
        """Number of neighbours or teachers, which is the most votes that a query can get."""
        n, chosen = self.nominal, self.setting
        name = "neighbors" if chosen.mechanism == "private-knn" else "teachers"
        given: int | None = getattr(chosen, name)
        if given is not None:
            return check_count(name, given, 1, n)
        if name == "teachers":
            return max(n // 8, 1)
        # rounding to two digits adds at most 5 %; there must not be more neighbours than records
        return max(min(round(n * chosen.sampling_rate / self.n_classes), int(0.95 * n)), 1)

    def _scale(self) -> float:
        """Noise at which votes still decide: a tenth of the neighbours, or a fifteenth of the teachers."""
        return self._size() / (10 if self.setting.mechanism == "private-knn" else 15)

    def describe_votes(self) -> str:
        if not isinstance(self.labeller, PrivateKNN | GNMax | LNMax):
            return ""
        voters = f"{self._size()} {'neighbours' if isinstance(self.labeller, PrivateKNN) else 'teachers'}"
        screened = self.labeller.screening_event is not None
        return f"{voters}, screening at {self.labeller._passing:g} votes for one class" if screened else voters

    def _choose_queries(self) -> int:
        """Number of queries of a round."""
        m, chosen = len(self.public), self.setting
        if chosen.queries is not None:
            return check_count("queries", chosen.queries, 1, m)
        if chosen.max_labels is not None and not chosen.screens:  # what comes after these would not be answered
            m = min(m, max(chosen.max_labels, 1))
        fewest = min(math.ceil(1.2 * self.n_classes), m)

        def affordable(count: int) -> bool:
            assert chosen.epsilon is not None  # else the number is given
            return self._price(self._plan_votes(count, self._scale())).epsilon <= chosen.epsilon

        # search the largest affordable count: double, then bisect
        low, high = fewest, fewest
        while high < m and affordable(high):
            low, high = high, min(2 * high, m)
        if affordable(high):
            return high
        while high - low > max(1, low // 100):
            middle = (low + high) // 2
            low, high = (middle, high) if affordable(middle) else (low, middle)
        return low

    def _make_voting(self, noise: float, queries: int) -> Voting:
        """The mechanism with that noise on its votes."""
        chosen = self.setting
        screening = chosen.screening_sigma
        if chosen.screening_ratio is not None:
            screening = chosen.screening_ratio * noise
        common: dict[str, Any] = {
            "screening_sigma": screening,
            "threshold": chosen.threshold,
            "max_labels": queries if chosen.max_labels is None else min(chosen.max_labels, queries),
            "n_classes": self.n_classes,
            "rng": chosen.seed,
        }
        if chosen.mechanism != "lnmax":
            common["clip"] = chosen.clip
        if chosen.mechanism == "private-knn":
            nominal: dict[str, Any] = {"n_records": self.nominal}
            return PrivateKNN(self._size(), chosen.sampling_rate, vote_sigma=noise, **common, **nominal)
        teacher = None if chosen.teacher == "logistic" else _nearest_record
        return (GNMax if chosen.mechanism == "gnmax" else LNMax)(self._size(), noise, teacher, **common)

    def _plan_votes(self, queries: int, noise: float) -> ac.Composition:
        """The most that all rounds can spend."""
        one = self._make_voting(noise, queries).planned(queries)
        assert one is not None  # _make_voting always limits the labels
        return self.setting.rounds * one

    def _plan_training(self, noise: float) -> ac.Composition:
        return self._make_noisy_sgd(noise).planned

    def _make_noisy_sgd(self, noise: float) -> LinearNoisySGD:
        chosen = self.setting
        rate = chosen.sampling_rate / 10
        if chosen.batch is not None:
            rate = check_count("batch", chosen.batch, 1, self.nominal) / self.nominal
        steps = chosen.steps, 0.1 if chosen.clip is None else chosen.clip, chosen.learning_rate
        more: dict[str, Any] = {"n_classes": self.n_classes, "rng": chosen.seed}
        if chosen.hidden is None:
            return LinearNoisySGD(noise, rate, *steps, **more)
        return TwoLayerNoisySGD(noise, rate, *steps, **more, hidden=check_count("hidden", chosen.hidden, 1, 10**6))


def _nearest_record() -> Any:
    return require("sklearn.neighbors").KNeighborsClassifier(1)
