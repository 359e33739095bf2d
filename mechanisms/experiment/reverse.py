"""A reverse k-NN experiment from data split over clients to labels; its guarantee is fixed before it begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.budgets.journal import Journal
from mechanisms.datasets import Dataset
from mechanisms.exclusive import exclusive
from mechanisms.experiment.labelling import check_classes
from mechanisms.experiment.outcome import Diagnostics, Once, Outcome, accuracy_of, accuracy_of_labels, accuracy_on
from mechanisms.features import feature_map
from mechanisms.reverse_knn import ReverseKNN, ReverseLabelling
from mechanisms.students.network import NetworkStudent
from mechanisms.validation import check_count, nominal_count

__all__ = ["SPLITS", "ReverseExperiment", "ReverseSetting", "split_over_clients"]

SPLITS = ("iid", "by-label", "dirichlet")

ADJACENCIES = {str(each): each for each in (ac.Adjacency.REPLACE, ac.Adjacency.ADD_REMOVE)}

CONCENTRATION = 0.1
"""Of the Dirichlet law over clients, for each class: most records of a class lie with few of them."""

NO_NOISE = 1e9
"""Epsilon at which noise decides nothing, for comparison."""


@dataclass(frozen=True)
class ReverseSetting:
    """What a person chooses; see `ReverseKNN` for all but these.

    Parameters
    ----------
    adjacency : {"replace", "add-remove"}
        The latter in the central model alone.
    queries, neighbors : int
        Its n_queries and n_neighbors.
    clients : int
        Among which the private records are split.
    client_split : {"iid", "by-label", "dirichlet"}
        At random; sorted by label, so that a client sees few classes; or every class by shares of its own. The labels
        do not depend on it.
    features : str
        "raw", "standardised" or "hog".
    seed : int or None
        None draws exact noise from the system, as a real release must.
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
    clients: int = 10
    client_split: str = "iid"
    features: str = "raw"
    seed: int | None = None
    mechanism: str = field(default="reverse-knn", init=False)

    def __post_init__(self) -> None:
        check_count("clients", self.clients, 1)
        if self.client_split not in SPLITS:
            raise ac.ParameterError(f"client_split = {self.client_split!r}; accepted: {', '.join(SPLITS)}")

        if self.adjacency not in ADJACENCIES:
            raise ac.ParameterError(f"adjacency = {self.adjacency!r}; accepted: {', '.join(ADJACENCIES)}")

    def labeller(self, n_classes: int, **changed: Any) -> ReverseKNN:
        """The mechanism with these parameters."""
        names = ("epsilon", "delta", "model", "noise", "randomizer", "rounds", "balance", "dropout")
        chosen: dict[str, Any] = {name: getattr(self, name) for name in names}
        chosen |= {"n_queries": self.queries, "n_neighbors": self.neighbors, "rng": self.seed}
        chosen["adjacency"] = ADJACENCIES[self.adjacency]
        return ReverseKNN(n_classes=n_classes, **{**chosen, **changed})


class ReverseExperiment(Once):
    """Everything fixed before the first release: the data, who holds it, the mechanism with its noise, and the price.

    Parameters
    ----------
    setting : ReverseSetting
    private : Dataset
        With labels, one for each record.
    public : Dataset
        Labels, if any, are used for nothing but diagnostics.
    test : Dataset or None
        Used for nothing but diagnostics.
    n_classes : int or None
        As for `Experiment`.
    nominal : int or None
        As for `Experiment`, under add-remove adjacency. Under replace adjacency the number of records is public, and
        `nominal` must be None.

    Raises
    ------
    accountant.AccountantError
        Data and setting do not go together, or no noise meets the target. Nothing has been spent.

    Attributes
    ----------
    nominal : int
        The number of private records that everything public is made of.
    guarantee : accountant.Guarantee
    planned : accountant.Composition
    noise : float
    """

    def __init__(
        self,
        setting: ReverseSetting,
        private: Dataset,
        public: Dataset,
        test: Dataset | None = None,
        n_classes: int | None = None,
        nominal: int | None = None,
    ) -> None:
        self.n_classes = check_classes(private, public, test, n_classes)
        self.nominal = _nominal(setting, private, nominal)
        check_count("clients", setting.clients, 1, self.nominal)
        check_count("queries", setting.queries, 1, len(public))
        labels = private.labels
        assert labels is not None
        self.setting, self.private, self.public, self.test = setting, private, public, test
        self.holders = split_over_clients(labels, setting.clients, setting.client_split, setting.seed or 0)
        self.labeller = setting.labeller(self.n_classes)
        self.release = self.labeller.planned(self.nominal, self.n_classes)
        self.planned = ac.Composition([(self.release.event, setting.rounds)])
        self.guarantee = self.release.guarantee(setting.delta)
        self.noise = self.release.noise
        self._claim()  # a copy would run once more under the same guarantee

    @exclusive
    def run(self, journal: Journal | None = None, diagnostics: bool = False) -> Outcome:
        """Spend the budget, once.

        Parameters
        ----------
        journal
            As for `ReverseKNN.label`.
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
        describe = feature_map(self.setting.features, self.public.features, self.public.images)
        records, points = describe(self.private.features), describe(self.public.features)
        out = self.labeller.label(records, labels, points, self.holders, journal)
        student = NetworkStudent().fit(self.public.features, out.labels)
        return Outcome(
            labels=out.labels,
            predictions=student.predict(self.public.features),
            asked=self.setting.rounds * self.setting.queries,
            answered=self.setting.rounds * self.setting.queries,
            guarantee=self.guarantee,
            planned=self.planned,
            spent=out.composition,
            noise=self.noise,
            diagnostics=self._diagnostics(out, student, records, points) if diagnostics else None,
        )

    def _diagnostics(
        self,
        out: ReverseLabelling,
        student: NetworkStudent,
        records: NDArray[np.float32],
        points: NDArray[np.float32],
    ) -> Diagnostics:
        labels = self.private.labels
        # in the central model the noise is added to the same counts, whatever the model that was run
        bare = self.setting.labeller(
            self.n_classes, model="central", noise="laplace", delta=0.0, epsilon=NO_NOISE, rng=0
        )

        def counted() -> NetworkStudent:
            return NetworkStudent().fit(self.public.features, bare.label(records, labels, points).labels)

        noiseless = accuracy_of(self.test, counted)
        nonprivate = accuracy_of(self.test, lambda: NetworkStudent().fit(self.private.features, labels))
        return Diagnostics(
            label_accuracy=accuracy_of_labels(out.labels, self.public),
            student_accuracy=accuracy_on(self.test, student.predict),
            nonprivate_accuracy=nonprivate,
            noiseless_accuracy=noiseless,
            bytes_per_client=out.bytes_per_client,
        )


def _nominal(setting: ReverseSetting, private: Dataset, given: int | None) -> int:
    """The number of private records that the plan may look at."""
    if setting.adjacency == ac.Adjacency.REPLACE.value:
        if given is not None:
            accepted = "None, their number is public and taken as it is"
            raise ac.ParameterError(f"nominal = {given!r} records under replace adjacency; accepted: {accepted}")
        return len(private)
    return nominal_count(len(private)) if given is None else check_count("nominal", given, 1)


def split_over_clients(labels: NDArray[np.int64], clients: int, how: str = "iid", seed: int = 0) -> NDArray[np.int64]:
    """Who holds each record, 0..clients-1.

    Parameters
    ----------
    labels : array of shape (n,)
    clients : int
    how : {"iid", "by-label", "dirichlet"}
        In equal parts at random; in equal parts of the records sorted by label; or every class in shares from a
        Dirichlet law of concentration 0.1 (Hsu, Qi & Brown 2019), where clients can end up with nothing.
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
