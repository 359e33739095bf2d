"""Reverse k-NN: every private record votes with its label for the public queries nearest to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.balancing import balanced_prices
from mechanisms.clients import MODELS, Client, label_sets
from mechanisms.federation import Counts, Server, Shuffler
from mechanisms.journal import Journal, Part
from mechanisms.labelling import Labelling
from mechanisms.noise import Randomness, as_randomness
from mechanisms.parameters import Parameters
from mechanisms.queries import cluster_centres
from mechanisms.releases import NOISES, Release, release_for
from mechanisms.setup import Setup
from mechanisms.students import NetworkStudent
from mechanisms.validation import checked_count, checked_features, checked_positive, checked_real

__all__ = ["ReverseKNN", "ReverseLabelling", "Round", "simplex_rows"]

FLOOR = 0.2
"""Importance of a public point of which the student is certain, where 1 is that of one it knows nothing of."""


@dataclass(frozen=True, eq=False)
class Round:
    """One round of queries and what came back.

    Attributes
    ----------
    queries : float array of shape (s, d)
    prices : float array of shape (s,)
    centre : int array of shape (m,)
        The query that each public point belongs to.
    counts, variance : float array of shape (s, c)
        Unbiased estimates of the votes, and the variance of their noise.
    soft : float array of shape (s, c)
        Shares of the labels at each query: counts, projected to non-negative ones that sum to 1.
    """

    queries: NDArray[np.float32]
    prices: NDArray[np.float64]
    centre: NDArray[np.int64]
    counts: NDArray[np.float64]
    variance: NDArray[np.float64]
    soft: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReverseLabelling(Labelling):
    """As `Labelling`; every public point is answered.

    Attributes
    ----------
    soft : float array of shape (m, c)
        Shares of the labels at each public point: those of its query, on average over the rounds.
    rounds : tuple of Round
    bytes_per_client : float
        Sent by a client, on average, over all rounds.
    release : Release
        Model, protocol, noise, and the price of a round.
    """

    soft: NDArray[np.float64] | None = None
    rounds: tuple[Round, ...] = ()
    bytes_per_client: float = 0.0
    release: Release | None = None

    @property
    def queries(self) -> NDArray[np.float32]:
        """Queries of the last round."""
        return self.rounds[-1].queries

    @property
    def counts(self) -> NDArray[np.float64]:
        """Estimated votes in the last round."""
        return self.rounds[-1].counts

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance of the noise in `counts`."""
        return self.rounds[-1].variance

    def guarantee(self, delta: float, conversion: ac.Conversion = "improved") -> ac.Guarantee:
        """What all rounds together cost, fixed before the first, under the adjacency of `ReverseKNN`.

        In the local model it holds for what a record sends, against everyone; in the shuffle model for what the
        shuffler passes on.

        Raises
        ------
        accountant.NoGuarantee
            No finite epsilon for this delta: 0 with Gaussian noise, or below what the shuffle model was set up for.
        """
        assert self.release is not None
        return self.release.guarantee(delta, conversion)


class ReverseKNN(Parameters):
    """Reverse k-NN labelling (reverse-knn, Alg. 1) in one call, with all its parties in one process.

    Server, clients and shuffler are `mechanisms.federation`'s and exchange the same bytes as in a deployment. A
    record's votes depend on that record and on public things, so that labels, with a seed, do not depend on how records
    are split over clients.

    Parameters
    ----------
    n_queries : int
        s, at most the number of public points.
    n_neighbors : int
        k, queries that each record votes for; at most s.
    epsilon, delta : float
        The guarantee, for all rounds together. delta = 0 asks for pure DP: not for Gaussian noise, not for shuffling.
    model : {"central", "local", "shuffle"}
        Whom clients trust; see `mechanisms.federation`. In the local and shuffle models one record is one user, and
        sends one report in each round.
    noise : {"laplace", "gaussian", "discrete-laplace", "discrete-gaussian"}
        Of the central model.
    randomizer : {"collision", "randomized-response", "separation", "best", "shares"}
        Of the local and shuffle models. "best": the one with the least variance. "shares", of the shuffle model
        alone: any number of messages for each record, whose noise adds up to discrete Laplace noise.
    rounds : int
        T. After the first, queries gather where a student that learnt the labels so far is least certain.
    soft_labels : bool
        With several rounds: whether a point's labels are averaged as shares, or each round's winner counts as one.
    balance : float or bool
        Strength, 0 to 1, of public prices that spread records evenly over queries; see `balanced_prices`.
    dropout : float
        Share of records, below 1, whose reports may be missing in the shuffle model without weakening the guarantee.
    adjacency : accountant.Adjacency
        REPLACE: neighbouring data sets differ in one record, their number is public. ADD_REMOVE, in the central model:
        one has a record more, and half as many counts move.
    n_classes : int or None
        None takes it from the labels, which tells the largest label that occurs.
    make_student : callable or None
        Makes the student of later rounds, which needs `predict_proba`; None is `NetworkStudent`.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source: use it for real releases.

    Attributes
    ----------
    spent_ : accountant.Composition
        All that has been released so far, recorded before each release.
    """

    def __init__(
        self,
        n_queries: int = 40,
        n_neighbors: int = 1,
        epsilon: float = 1.0,
        delta: float = 0.0,
        model: str = "central",
        noise: str = "laplace",
        randomizer: str = "collision",
        rounds: int = 1,
        soft_labels: bool = True,
        balance: float = 0.0,
        dropout: float = 0.0,
        adjacency: ac.Adjacency = ac.Adjacency.REPLACE,
        n_classes: int | None = None,
        make_student: Callable[[], Any] | None = None,
        rng: Any = None,
    ) -> None:
        self.n_queries = n_queries
        self.n_neighbors = n_neighbors
        self.epsilon = epsilon
        self.delta = delta
        self.model = model
        self.noise = noise
        self.randomizer = randomizer
        self.rounds = rounds
        self.soft_labels = soft_labels
        self.balance = balance
        self.dropout = dropout
        self.adjacency = adjacency
        self.n_classes = n_classes
        self.make_student = make_student
        self.rng = rng

    def planned(self, n_records: int, n_classes: int, n_labels: int = 1) -> Release:
        """How every round will be released so that all together keep the guarantee; nothing is released yet.

        Parameters
        ----------
        n_records, n_classes : int
        n_labels : int
            r, labels of a record.

        Raises
        ------
        accountant.ParameterError
            A parameter is not as described.
        accountant.CalibrationError
            No noise is enough.
        """
        if not isinstance(self.adjacency, ac.Adjacency):
            raise ac.ParameterError(f"adjacency = {self.adjacency!r}; accepted: an accountant.Adjacency")
        for name, value, accepted in (("model", self.model, MODELS), ("noise", self.noise, NOISES)):
            if value not in accepted:
                raise ac.ParameterError(f"{name} = {value!r}; accepted: {', '.join(accepted)}")
        s = checked_count("n_queries", self.n_queries, 1)
        return release_for(
            model=self.model,
            noise=self.noise,
            randomizer=self.randomizer,
            epsilon=checked_positive("epsilon", self.epsilon),
            delta=checked_real("delta", self.delta, "[0, 1)", lambda value: 0 <= value < 1),
            rounds=checked_count("rounds", self.rounds, 1),
            records=n_records,
            shape=(s, n_classes),
            n_neighbors=checked_count("n_neighbors", self.n_neighbors, 1, s),
            n_labels=n_labels,
            dropout=checked_real("dropout", self.dropout, "[0, 1)", lambda value: 0 <= value < 1),
            adjacency=self.adjacency,
        )

    def label(
        self, X: object, y: object, public: object, clients: object = None, journal: Journal | None = None
    ) -> ReverseLabelling:
        """Label all public points.

        Parameters
        ----------
        X : array of shape (n, d)
            Private records.
        y : array of shape (n,), labels 0..c-1; or (n, c), zeros and ones, with r ones in each row
        public : array of shape (m, d)
            Public points. They must not depend on private records.
        clients : integer array of shape (n,), optional
            Who holds each record; None: one client holds all.
        journal : Journal, optional
            Lets a run of several rounds that was interrupted go on: a round is charged on disk before it is drawn, and
            its counts are there when the next one begins. A round that was drawn and whose counts are not there was
            seen by nobody, and is drawn again.

        Returns
        -------
        ReverseLabelling
            Its labels have shape (m,), or (m, c) for label sets.

        Raises
        ------
        accountant.ParameterError
            A value is not as described; nothing has been spent.
        """
        records, points = checked_features(X), checked_features(public, "public")
        labels = label_sets(y, len(records))
        classes = self._classes(labels, np.asarray(y))
        checked_count("n_queries", self.n_queries, 1, len(points))
        if points.shape[1] != records.shape[1]:
            raise ac.ParameterError(f"public has {points.shape[1]} columns; accepted: {records.shape[1]}, as X")
        strength = checked_real("balance", float(self.balance), "[0, 1]", lambda value: 0 <= value <= 1)
        holders = checked_holders(clients, len(records))
        source = as_randomness(self.rng)
        release = self.planned(len(records), classes, labels.shape[1])
        federation = Federation(release, records, np.asarray(y), holders, source)
        self.spent_ = ac.Composition()
        part = Part() if journal is None else journal.part(self._header(release, points, source))
        done: list[Round] = []
        votes = np.zeros((len(points), classes))
        for number in range(release.rounds):
            queries = cluster_centres(points, self.n_queries, self._importance(points, votes, labels, number))
            prices = strength * balanced_prices(points, queries) if strength else np.zeros(len(queries))
            setup = release.setup(queries, prices)
            part.charge(number, "counts")
            self.spent_ = self.spent_ + release.event
            if number in part.answers:
                answer, state = part.answers[number]
                found = federation.resumed(answer)
                source.restore(state)
            else:
                found = federation.run(setup)
                answer = [found.counts, found.variance, found.records, found.clients, federation.sent]
                part.answer(number, answer, source.state())
            centre = setup.connections.best(points)
            soft = simplex_rows(found.counts, found.variance)
            done.append(Round(queries, prices, centre, found.counts, found.variance, soft))
            votes += soft[centre] if self.soft_labels else winners(found.counts, labels.shape[1])[centre]
        sets = winners(votes, labels.shape[1]) if release.rounds > 1 else winners(found.counts, labels.shape[1])[centre]
        return ReverseLabelling(
            labels=sets if np.asarray(y).ndim == 2 else sets.argmax(axis=1),
            answered=np.ones(len(points), bool),
            composition=self.spent_,
            planned=release.rounds * release.event,
            soft=np.mean([each.soft[each.centre] for each in done], axis=0),
            rounds=tuple(done),
            bytes_per_client=federation.sent / len(federation.clients),
            release=release,
        )

    def _header(self, release: Release, points: NDArray[np.float32], source: Randomness) -> dict[str, Any]:
        """What a run that goes on must have in common with the one that was interrupted."""
        return {
            "mechanism": type(self).__name__,
            "protocol": [release.protocol, *release.parameters],
            "event": repr(release.event),
            "public": [*points.shape, sha256(points.tobytes()).hexdigest()],
            "classes": release.n_classes,
            **{name: getattr(self, name) for name in ("n_queries", "n_neighbors", "rounds", "soft_labels", "balance")},
            "seed": source.state(),
        }

    def _classes(self, labels: NDArray[np.int64], y: NDArray[Any]) -> int:
        least = y.shape[1] if y.ndim == 2 else int(labels.max()) + 1
        if self.n_classes is None:
            return least
        return checked_count("n_classes", self.n_classes, 1 if y.ndim == 1 and least == 1 else least)

    def _importance(
        self, points: NDArray[np.float32], votes: NDArray[np.float64], labels: NDArray[np.int64], number: int
    ) -> NDArray[np.float64] | None:
        """How uncertain a student is at each public point; None before there is one. Sees released labels alone."""
        if number == 0:
            return None
        if labels.shape[1] > 1:
            raise ac.ParameterError(f"rounds = {self.rounds} with label sets; accepted: 1, students learn one label")
        student = (self.make_student or NetworkStudent)().fit(points, votes.argmax(axis=1))
        chances = np.clip(student.predict_proba(points), 1e-12, 1.0)
        entropy = -(chances * np.log(chances)).sum(axis=1) / np.log(max(chances.shape[1], 2))
        importance: NDArray[np.float64] = FLOOR + (1 - FLOOR) * entropy
        return importance


class Federation:
    """Server, clients and shuffler of a simulation, which pass each other bytes."""

    def __init__(
        self,
        release: Release,
        records: NDArray[np.float32],
        y: NDArray[Any],
        holders: NDArray[np.int64],
        source: Randomness,
    ) -> None:
        seed = int(source.words(1)[0] >> np.uint64(1)) if source.repeatable and release.model != "central" else None
        self.clients = [
            Client(records[rows], y[rows], number, release.model, rng=seed, ids=None if seed is None else rows)
            for number, rows in enumerate(_rows_by_holder(holders), 1)
        ]
        self.server = Server(release.model, release.event, source)
        self.shuffler = Shuffler(release.least) if release.model == "shuffle" else None
        self.sent = 0

    def resumed(self, answer: list[Any]) -> Counts:
        """A round that is in a journal."""
        counts, variance, records, clients, self.sent = answer
        self.server.round += 1
        return Counts(np.array(counts), np.array(variance), records, clients)

    def run(self, setup: Setup) -> Counts:
        """One round."""
        opening = self.server.open(setup)
        collector: Server | Shuffler = self.server
        if self.shuffler is not None:
            self.shuffler.open(opening)
            collector = self.shuffler
        for client in self.clients:
            answer = client.answer(opening)
            self.sent += len(answer)
            collector.receive(answer)
        if self.shuffler is not None:
            self.server.receive(self.shuffler.close())
        return self.server.close()


def _rows_by_holder(holders: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    order = np.argsort(holders, kind="stable")
    starts = np.flatnonzero(np.diff(holders[order], prepend=holders[order[0]] - 1))
    yield from np.split(order, starts[1:])


def checked_holders(clients: object, n: int) -> NDArray[np.int64]:
    """Who holds each of n records."""
    if clients is None:
        return np.zeros(n, np.int64)
    holders = np.asarray(clients)
    if holders.shape != (n,) or holders.dtype.kind not in "iu":
        raise ac.ParameterError(
            f"clients has shape {holders.shape} and type {holders.dtype}; accepted: integers of shape ({n},)"
        )
    return holders.astype(np.int64)


def winners(counts: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """The `size` largest of each row as ones, the others zeros; ties go to the lower index."""
    chosen = np.argsort(-counts, axis=1, kind="stable")[:, :size]
    sets = np.zeros(counts.shape, np.int64)
    np.put_along_axis(sets, chosen, 1, axis=1)
    return sets


def simplex_rows(counts: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts as shares of their row: divided by their sum, then moved to the nearest point of the simplex.

    The sum is taken as at least the standard deviation of its noise: rows of noise alone come out near uniform.
    Projection: Duchi et al. 2008.
    """
    sizes = np.maximum(counts.sum(axis=1), np.sqrt(variance.sum(axis=1)))
    shares = counts / np.maximum(sizes, 1e-300)[:, None]
    shares = np.where(sizes[:, None] > 0, shares, 0.0)
    # what is added to all of a row moves nothing; without it sums of huge shares lose the 1
    shares = shares - shares.max(axis=1, keepdims=True)
    ordered = -np.sort(-shares, axis=1)
    ranks = np.arange(1, shares.shape[1] + 1)
    excess = (np.cumsum(ordered, axis=1) - 1) / ranks
    kept = np.count_nonzero(ordered > excess, axis=1)
    projected: NDArray[np.float64] = np.maximum(shares - excess[np.arange(len(shares)), kept - 1][:, None], 0.0)
    return projected
