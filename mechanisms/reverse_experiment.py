"""A reverse k-NN experiment from data split over clients to accuracies; its guarantee is fixed before it begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets import Dataset
from mechanisms.experiment import Outcome
from mechanisms.features import feature_map
from mechanisms.journal import Journal
from mechanisms.reverse_knn import ReverseKNN
from mechanisms.students import NetworkStudent
from mechanisms.validation import checked_count

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
        checked_count("clients", self.clients, 1)
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


class ReverseExperiment:
    """Everything fixed before the first release: the data, who holds it, the mechanism with its noise, and the price.

    Parameters
    ----------
    setting : ReverseSetting
    private : Dataset
        With labels, one for each record.
    public : Dataset
        Labels, if any, are used for nothing but accuracies.
    test : Dataset or None
    n_classes : int or None
        None takes the largest label of all three. Give it where that is private.

    Raises
    ------
    accountant.AccountantError
        Data and setting do not go together, or no noise meets the target. Nothing has been spent.

    Attributes
    ----------
    guarantee : accountant.Guarantee
    planned : accountant.Composition
    bytes_per_client : float or None
        After the run: sent by a client, on average, over all rounds.
    noiseless_accuracy : float or None
        After the run: of a student that learnt the same counts without noise. Not private, like that of one that
        learnt the private records themselves.
    """

    def __init__(
        self,
        setting: ReverseSetting,
        private: Dataset,
        public: Dataset,
        test: Dataset | None = None,
        n_classes: int | None = None,
    ) -> None:
        known = [each.labels for each in (private, public, test) if each is not None and each.labels is not None]
        if private.labels is None or any(labels.ndim != 1 for labels in known):
            raise ac.ParameterError(f"{private.name}: accepted: one label for each record (label sets: mx.ReverseKNN)")
        checked_count("clients", setting.clients, 1, len(private))
        checked_count("queries", setting.queries, 1, len(public))
        largest = max(int(labels.max()) for labels in known)
        self.n_classes = largest + 1 if n_classes is None else checked_count("classes", n_classes, largest + 1)
        self.setting, self.private, self.public, self.test = setting, private, public, test
        self.holders = split_over_clients(private.labels, setting.clients, setting.client_split, setting.seed or 0)
        self.labeller = setting.labeller(self.n_classes)
        self.release = self.labeller.planned(len(private), self.n_classes)
        self.planned = ac.Composition([(self.release.event, setting.rounds)])
        self.guarantee = self.release.guarantee(setting.delta)
        self.noise = self.release.noise
        self.bytes_per_client: float | None = None
        self.noiseless_accuracy: float | None = None

    def run(self, journal: Journal | None = None) -> Outcome:
        """Spend the budget; see `ReverseKNN.label` for `journal`."""
        labels = self.private.labels
        assert labels is not None
        describe = feature_map(self.setting.features, self.public.features, self.public.images)
        records, points = describe(self.private.features), describe(self.public.features)
        out = self.labeller.label(records, labels, points, self.holders, journal)
        self.bytes_per_client = out.bytes_per_client
        student = NetworkStudent().fit(self.public.features, out.labels)
        truth = self.public.labels
        accuracy = None if truth is None else float(np.mean(out.labels == truth))
        taught = nonprivate = None
        if self.test is not None and self.test.labels is not None:
            bare = self.setting.labeller(
                self.n_classes, model="central", noise="laplace", delta=0.0, epsilon=NO_NOISE, rng=0
            )
            noiseless = NetworkStudent().fit(self.public.features, bare.label(records, labels, points).labels)
            self.noiseless_accuracy = self._accuracy(noiseless)
            taught = self._accuracy(student)
            nonprivate = self._accuracy(NetworkStudent().fit(self.private.features, labels))
        return Outcome(
            labels=out.labels,
            predictions=student.predict(self.public.features),
            asked=self.setting.rounds * self.setting.queries,
            answered=self.setting.rounds * self.setting.queries,
            label_accuracy=accuracy,
            student_accuracy=taught,
            nonprivate_accuracy=nonprivate,
            guarantee=self.guarantee,
            planned=self.planned,
            spent=out.composition,
            noise=self.noise,
        )

    def _accuracy(self, student: NetworkStudent) -> float:
        assert self.test is not None
        return float(np.mean(student.predict(self.test.features) == self.test.labels))


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
