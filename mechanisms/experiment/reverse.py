"""A reverse k-NN experiment from data split over clients to labels; its guarantee is fixed before it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.budgets.journal import Journal
from mechanisms.exclusive import exclusive
from mechanisms.experiment.base import MOST_ROUNDS, BaseExperiment
from mechanisms.experiment.outcome import Outcome
from mechanisms.experiment.student import StudentOptions, choose_student, on_images
from mechanisms.features import feature_map
from mechanisms.federation.client import label_sets
from mechanisms.federation.reverse_rounds import Clusters
from mechanisms.phases import phase
from mechanisms.reverse_knn import ReverseKNN
from mechanisms.shards.dataset import PartitionedDataset
from mechanisms.students.network import Student
from mechanisms.validation import check_count, check_real

__all__ = ["SPLITS", "ReverseExperiment", "ReverseSetting", "split_over_clients"]

SPLITS = ("iid", "by-label", "dirichlet")

ADJACENCIES = {str(each): each for each in (ac.Adjacency.REPLACE, ac.Adjacency.ADD_REMOVE)}

USUAL_CLIENTS = 10

CONCENTRATION = 0.1
"""Of the Dirichlet distribution over clients, for each class: few clients hold most records of a class."""

NO_NOISE = 1e9
"""Epsilon at which the noise changes no label."""


@dataclass(frozen=True)
class ReverseSetting(StudentOptions):
    """The options of an experiment; see `StudentOptions` and `ReverseKNN` for those that are not listed.

    The student also says where later rounds ask.

    Parameters
    ----------
    adjacency : {"replace", "add-remove"}
        "add-remove" in the central model only.
    queries, neighbors : int
        `n_queries` and `n_neighbors` of `ReverseKNN`.
    clients : int or None
        Number of clients among which the private records are split; None: 10, or the public number of records where
        there are fewer.
    client_split : {"iid", "by-label", "dirichlet"}
        At random; sorted by label, so that a client holds few classes; or every class in random shares. The released
        labels do not depend on it.
    features : str
        "raw", "standardised" or "hog".
    seed : int or None
        None draws exact noise from system entropy, as a real release must.
    assignment : tuple of int or None
        The cluster, 0..queries-1, of each public point, found elsewhere from public data (see `ReverseKNN.label`).
    """

    epsilon: float
    delta: float
    model: str = "central"
    noise: str = "laplace"
    randomizer: str = "collision"
    queries: int = 40
    neighbors: int = 1
    rounds: int = 1
    balance: float = 0.0
    dropout: float = 0.0
    adjacency: str = "replace"
    clients: int | None = None
    client_split: str = "iid"
    features: str = "raw"
    seed: int | None = None
    assignment: tuple[int, ...] | None = None
    mechanism: str = field(default="reverse-knn", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clients is not None:
            check_count("clients", self.clients, 1)
        check_count("rounds", self.rounds, 1, MOST_ROUNDS)
        check_real("balance", self.balance, "[0, 1]", lambda value: 0 <= value <= 1)
        if self.client_split not in SPLITS:
            raise ac.ParameterError(f"client_split = {self.client_split!r}; accepted: {', '.join(SPLITS)}")
        if self.adjacency not in ADJACENCIES:
            raise ac.ParameterError(f"adjacency = {self.adjacency!r}; accepted: {', '.join(ADJACENCIES)}")

    def make_labeller(self, n_classes: int, **changed: Any) -> ReverseKNN:
        """The mechanism with these options, but for those that are `changed`."""
        names = ("epsilon", "delta", "model", "noise", "randomizer", "rounds", "balance", "dropout")
        chosen: dict[str, Any] = {name: getattr(self, name) for name in names}
        chosen |= {"n_queries": self.queries, "n_neighbors": self.neighbors, "rng": self.seed}
        chosen["adjacency"] = ADJACENCIES[self.adjacency]
        return ReverseKNN(n_classes=n_classes, **{**chosen, **changed})


class ReverseExperiment(BaseExperiment):
    """An experiment with reverse k-NN over simulated clients.

    Parameters, errors and attributes as for `BaseExperiment`, but for `nominal`: under replace adjacency the number of
    records is public, and `nominal` must be None.
    """

    setting: ReverseSetting

    @property
    def _takes_sets(self) -> bool:
        labels = self.private.labels
        return isinstance(labels, np.ndarray) and labels.ndim == 2

    @property
    def _assignment(self) -> NDArray[np.int64] | None:
        given = self.setting.assignment
        return None if given is None else np.array(given, np.int64)

    @property
    def asked(self) -> int:
        return self.setting.rounds * self.setting.queries

    def _plan(self) -> None:
        usual = min(USUAL_CLIENTS, self.nominal) if self.setting.clients is None else self.setting.clients
        clients = check_count("clients", usual, 1, self.nominal)
        setting = self.setting = replace(self.setting, clients=clients)
        check_count("queries", setting.queries, 1, len(self.public))
        Clusters.of(None, self._assignment, np.zeros((len(self.public), 1), np.float32), setting.queries)
        if self._takes_sets and setting.client_split != "iid":
            raise ac.ParameterError(f"client_split = {setting.client_split!r} with label sets; accepted: iid")
        if isinstance(self.private, PartitionedDataset):
            if setting.model != "central":
                raise ac.ParameterError(f"model = {setting.model!r} with records in partitions; accepted: central")
            n_labels, self.holders = 1, None
        else:
            n_labels = label_sets(self._labels, len(self.private)).shape[1]
            self.holders = split_over_clients(self._labels, clients, setting.client_split, setting.seed or 0)
        if self._takes_sets and setting.student == "conv":
            raise ac.ParameterError("student = 'conv' with label sets; accepted: network")
        self.make_student = choose_student(setting, self.public, self.n_classes)
        self.labeller = setting.make_labeller(self.n_classes, make_student=self._make_asking_student())
        self.release = self.labeller.planned(self.nominal, self.n_classes, n_labels)
        self.planned = setting.rounds * self.release.event
        self.guarantee = self.release.guarantee(setting.delta)
        self.noise = self.release.noise

    def _count_records(self, nominal: int | None) -> int:
        if self.setting.adjacency != ac.Adjacency.REPLACE.value:
            return super()._count_records(nominal)
        if nominal is not None:
            accepted = "None, their number is public and taken as it is"
            raise ac.ParameterError(f"nominal = {nominal!r} records under replace adjacency; accepted: {accepted}")
        return len(self.private)

    def _make_asking_student(self) -> Callable[[], Any] | None:
        """What makes the student that says where later rounds ask: from features, but "conv" from images."""
        if self.setting.student == "network":
            return None
        return on_images(self.make_student, self.public.features)

    @exclusive
    def run(self, journal: Journal | None = None, diagnostics: bool = False) -> Outcome:
        """Label the public points; can be called once, as it spends the whole budget.

        Parameters
        ----------
        journal
            As for `ReverseKNN.label`.
        diagnostics : bool
            Compute accuracies too, which are not paid for.

        Raises
        ------
        UsageError
            It was called before: the guarantee covers one run.
        """
        self._begin()
        with phase("computing features"):
            describe = feature_map(self.setting.features, self.public.features, self.public.images)
            points, records = describe(self.public.features), cast(Any, self.private.features)
            if not isinstance(self.private, PartitionedDataset):  # those stay as they are
                records = describe(np.asarray(records))
        out = self.labeller.label(records, self._labels, points, self.holders, journal, assignment=self._assignment)
        with phase("training the student"):
            student = self.make_student().fit(self.public.features, out.labels)
        found = None
        if diagnostics:
            train = partial(self._train_noiseless, records, points)
            found = self._diagnose(out.labels, student.predict, train, out.bytes_per_client)
        predictions = student.predict(self.public.features)
        return self._report(out.labels, predictions, out.composition, (self.asked, self.asked), found)

    def _train_noiseless(self, records: NDArray[np.float32], points: NDArray[np.float32]) -> Student:
        """A student that learns labels from the same counts without noise."""
        # every model adds its noise to the same counts: the central one is the cheapest to run without it
        changed: dict[str, Any] = {"model": "central", "noise": "laplace", "delta": 0.0, "epsilon": NO_NOISE, "rng": 0}
        bare = self.setting.make_labeller(self.n_classes, **changed)
        found = bare.label(records, self._labels, points, assignment=self._assignment)
        return self.make_student().fit(self.public.features, found.labels)


def split_over_clients(labels: NDArray[np.int64], clients: int, how: str = "iid", seed: int = 0) -> NDArray[np.int64]:
    """Who holds each record, 0..clients-1.

    Parameters
    ----------
    labels : array of shape (n,)
    clients : int
    how : {"iid", "by-label", "dirichlet"}
        In equal parts at random; in equal parts of the records sorted by label; or every class in shares from a
        Dirichlet distribution of concentration 0.1 (Hsu, Qi & Brown 2019), where clients can end up with nothing.
    seed : int
    """
    rng = np.random.default_rng(seed)
    n = len(labels)
    order = rng.permutation(n)
    if how == "by-label":
        order = order[np.argsort(labels[order], kind="stable")]
    holders = np.empty(n, np.int64)
    if how != "dirichlet":
        holders[order] = np.arange(n) * clients // n
        return holders
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        shares = np.cumsum(rng.dirichlet(np.full(clients, CONCENTRATION)))
        holders[rows] = np.searchsorted(shares[:-1], (np.arange(len(rows)) + 0.5) / len(rows))
    return holders
