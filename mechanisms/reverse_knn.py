"""Reverse k-NN: every private record votes with its label for the public queries that are nearest to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.budgets.journal import Journal, Part
from mechanisms.estimator import Parameters
from mechanisms.exclusive import Exclusive, exclusive
from mechanisms.federation.client import MODELS, label_sets
from mechanisms.federation.reverse_rounds import Clusters, ReverseLabelling, Round, RoundLoop, simplex_rows
from mechanisms.federation.round_setup import RoundSetup, RoundSize
from mechanisms.federation.server import ReleasedCounts
from mechanisms.federation.sharded import ShardedFederation
from mechanisms.federation.simulation import Federation, check_holders
from mechanisms.federation.targets import Target
from mechanisms.federation.trust_models import (
    NOISES,
    RANDOMIZERS,
    ReleaseRequest,
    RoundRelease,
    TrustModel,
    calibrate_release,
)
from mechanisms.frames import Vocabulary, number_text, read_records
from mechanisms.labelling_plan import subtract
from mechanisms.noise.source import Randomness, as_randomness
from mechanisms.phases import phase
from mechanisms.shards import is_sharded, shard_records
from mechanisms.validation import check_count, check_positive, check_real

__all__ = ["ReverseKNN", "ReverseLabelling", "Round", "simplex_rows"]


@dataclass(frozen=True, eq=False)
class _Held:
    """Private records, in memory or in partitions; `private` is what a journal knows them by, `earlier` what it did."""

    size: int
    width: int
    n_classes: int
    n_labels: int
    sets: bool
    names: Vocabulary
    private: tuple[NDArray[Any], ...]
    federate: Callable[[RoundRelease, Randomness], Federation]
    earlier: Callable[[], tuple[NDArray[Any], ...]]


class ReverseKNN(Exclusive, Parameters):
    """Reverse k-NN labelling (Wang et al. 2022, Alg. 1) in one call, with all parties in one process.

    Server, clients and shuffler are those of `mechanisms.federation.server` and exchange the same bytes as in a
    deployment. A record's votes depend only on that record and on public values, so that for a given seed labels do not
    depend on how records are split over clients. Under REPLACE the number of records is public and part of the results.
    Under ADD_REMOVE results reveal only that there is at least one record.

    A call of `label` uses the parameters of the moment when it begins; later changes have no effect on it.

    Parameters
    ----------
    n_queries : int
        s, at most the number of public points.
    n_neighbors : int
        k, the number of queries that each record votes for; at most s.
    epsilon, delta : float
        The guarantee for all rounds together. delta = 0 is pure DP, which Gaussian noise and shuffling do not give.
    model : {"central", "local", "shuffle"}
        Whom clients trust; see `mechanisms.federation`. In the local and shuffle models each record is a user, which
        sends one report in each round.
    noise : {"laplace", "gaussian", "discrete-laplace", "discrete-gaussian"}
        Noise of the central model.
    randomizer : {"collision", "randomized-response", "separation", "best", "shares"}
        Randomizer of the local and shuffle models. "best" is the one with the least variance. "shares", for the shuffle
        model only, sends any number of messages for each record, whose noise adds up to discrete Laplace noise.
    rounds : int
        T. Later rounds place more queries where a student that learnt the labels so far is less certain.
    soft_labels : bool
        With several rounds: average the shares of the labels at a point, or else count each round's winner as 1.
    balance : float or bool
        Strength in [0, 1] of public prices that spread records evenly over queries; see `balanced_prices`.
    dropout : float
        Shuffle model: share of records, below 1, whose reports may be missing without weakening the guarantee.
    adjacency : accountant.Adjacency
        REPLACE: neighbouring data sets differ in one record, and the number of records is public. ADD_REMOVE, for the
        central model only: one data set has one record more, half as many counts change, and the number of records
        stays private.
    n_classes : int or None
        None takes it from the labels, which reveals the largest label that occurs.
    make_student : callable or None
        Makes the student for later rounds, which needs `predict_proba`; None is `NetworkStudent`.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source: use it for real releases.
    classes : sequence of str or None
        Public names of the classes; labels are then given, and given back, by name. None takes labels as numbers.

    Attributes
    ----------
    spent_ : accountant.Composition
        All that this object has released so far, over all calls of `label`, recorded before each release.

    Raises
    ------
    mechanisms.exclusive.UsageError
        It is used in another process than before, or copied after it was used.
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
        classes: Sequence[str] | None = None,
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
        self.classes = classes

    def planned(self, n_records: int, n_classes: int, n_labels: int = 1) -> RoundRelease:
        """The release of every round with which all rounds together keep the guarantee; nothing is released yet.

        Parameters
        ----------
        n_records, n_classes : int
        n_labels : int
            r, the number of labels of a record.

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
            if not isinstance(value, str) or value not in accepted:
                raise ac.ParameterError(f"{name} = {value!r}; accepted: {', '.join(accepted)}")
        if not isinstance(self.randomizer, str):
            raise ac.ParameterError(f"randomizer = {self.randomizer!r}; accepted: {', '.join(RANDOMIZERS)}")
        s = check_count("n_queries", self.n_queries, 1)
        rounds = check_count("rounds", self.rounds, 1)
        if rounds > 1 and n_labels > 1:
            raise ac.ParameterError(f"rounds = {rounds} with label sets; accepted: 1, students learn one label")
        epsilon = check_positive("epsilon", self.epsilon)
        delta = check_real("delta", self.delta, "[0, 1)", lambda value: 0 <= value < 1)
        k = check_count("n_neighbors", self.n_neighbors, 1, s)
        dropout = check_real("dropout", self.dropout, "[0, 1)", lambda value: 0 <= value < 1)
        return calibrate_release(
            ReleaseRequest(
                TrustModel(self.model, self.noise, self.randomizer, dropout, self.adjacency),
                Target(epsilon, delta),
                RoundSize(s, n_classes, k, n_labels),
                rounds,
                # the noise depends on the number of records in the shuffle model only
                records=n_records if self.model == "shuffle" else 1,
            )
        )

    @exclusive
    def label(
        self,
        X: object,
        y: object,
        public: object,
        clients: object = None,
        journal: Journal | None = None,
        queries: object = None,
        assignment: object = None,
    ) -> ReverseLabelling:
        """Label all public points.

        Parameters
        ----------
        X : array of shape (n, d), or a data frame of pandas, polars or pyarrow
            Private records. In the central model also a dask array or data frame, or the path of Parquet files, whose
            partitions are read by Dask's workers, once in each round.
        y : array of shape (n,), labels 0..c-1, or names among `classes`; or (n, c), zeros and ones,
            with r ones in each row. Of a dask collection one that is cut alike, of Parquet files the name of their
            column of labels; one label for each record
        public : array of shape (m, d), or a data frame, whose columns are matched by name
            Public points. They must not depend on private records.
        clients : integer array of shape (n,), optional
            The client that holds each record; None is one client for all.
        journal : Journal, optional
            Makes a run of several rounds durable: a round is charged on disk before it is drawn, and its counts are on
            disk before the next round begins. A round whose counts are missing was seen by nobody, and is drawn again;
            so never continue a copy of the file as well. A journal of other private data is refused. It holds what
            every round asks, so that a run goes on with the same queries on another processor, too.
        queries : array of shape (n_queries, d), optional
            Queries of the first round, such as the centres of clusters found elsewhere (DTI, SCAN, SimCLR); None
            chooses them by k-means. They must be public: nothing about them is paid for, and the price stays the same.
        assignment : integer array of shape (m,), optional
            The query, 0..n_queries-1, whose label each public point takes in the first round; None is the nearest.
            Public, too. Without `queries` these are the means of the points that are assigned to each.

        Returns
        -------
        ReverseLabelling
            Its labels have shape (m,), or (m, c) for label sets.

        Raises
        ------
        accountant.ParameterError
            A value is not as described; nothing has been spent.
        """
        held = self._hold_shards(X, y, clients) if is_sharded(X) else self._hold(X, y, clients)
        names = held.names
        points = names.read_points(public, held.width)
        check_count("n_queries", self.n_queries, 1, len(points))
        source = as_randomness(self.rng)
        clusters = Clusters.of(queries, assignment, points, self.n_queries)
        release = self.planned(held.size, held.n_classes, held.n_labels)
        loop = replace(self.course(release), clusters=clusters)
        # fails if the events cannot be composed: then nothing is released
        getattr(self, "spent_", ac.Composition()) + release.event
        with phase("giving records to clients"):
            federation = held.federate(release, source)
        part = Part()
        if journal is not None:
            describe, digest = partial(self._header, loop, points, source), journal.keyed_digest
            part = journal.part(describe(digest(*held.private)), lambda: describe(digest(*held.earlier())))
        before = self._promise(part.identity, release)

        def ask(number: int, setup: RoundSetup) -> ReleasedCounts:
            part.charge(number, "counts")
            self._charge(part.identity, number, release)
            if number in part.answers:
                answer, state = part.answers[number]
                found = federation.resume(answer)
                source.restore(state)
                return found
            with phase(f"counting votes, round {number + 1} of {release.rounds}"):
                found = federation.run(setup)
            answer = [found.counts, found.variance, found.records, found.clients, federation.bytes_per_client]
            part.answer(number, answer, source.state())
            return found

        labelling = loop.run(points, ask, part)
        sets = labelling.labels
        labelled = sets if held.sets else names.spell(sets.argmax(axis=1))
        return replace(labelling, labels=labelled, before=before, bytes_per_client=federation.bytes_per_client)

    def _hold(self, X: object, y: object, clients: object) -> _Held:
        """Records in memory."""
        records, names = read_records(X, self.classes)
        given = number_text(y, len(records), names.classes)
        labels = label_sets(given, len(records))
        classes = self._classes(labels, given, names.classes)
        holders = check_holders(clients, len(records))

        def federate(release: RoundRelease, source: Randomness) -> Federation:
            return Federation(release, records, given, holders, source)

        size, width, private = *records.shape, (records, labels)
        sets = given.ndim == 2
        return _Held(size, width, classes, labels.shape[1], sets, names, private, federate, lambda: private)

    def _hold_shards(self, X: Any, y: Any, clients: object) -> _Held:
        """Records in partitions."""
        if self.model != "central" or clients is not None:
            given = f"model = {self.model!r}, clients = {ac.shorten(clients)}"
            raise ac.ParameterError(f"{given} with records in partitions; accepted: 'central', and None")
        found = shard_records(X, y, self.classes, self.n_classes)

        def federate(release: RoundRelease, source: Randomness) -> Federation:
            return ShardedFederation(release, found, source)

        def earlier() -> tuple[NDArray[Any], ...]:
            return (found.digest_by_partition(),)

        size, width, classes = len(found), found.width, found.n_classes
        return _Held(size, width, classes, 1, False, found.names, (found.digest,), federate, earlier)

    def _promise(self, run: str | None, release: RoundRelease) -> ac.Composition:
        """Count the whole plan of a run when it begins; returns what was promised besides."""
        planned: ac.Composition = release.rounds * release.event
        total = getattr(self, "_promised", ac.Composition())
        begun: set[str] = self.__dict__.setdefault("_begun", set())
        if run in begun:
            return subtract(total, planned)
        self._promised = total + planned
        if run is not None:
            begun.add(run)
        return total

    def _charge(self, run: str | None, number: int, release: RoundRelease) -> None:
        """Charge a round; one of a run in a journal only once, however often this object resumes the run."""
        charged = self.__dict__.setdefault("_charged", set())
        if run is None or (run, number) not in charged:
            self.spent_ = getattr(self, "spent_", ac.Composition()) + release.event
            charged.add((run, number))

    def course(self, release: RoundRelease) -> RoundLoop:
        """The loop over the rounds of a run with this release; later changes of parameters do not reach it.

        Raises
        ------
        accountant.ParameterError
            A parameter is not as described.
        """
        given = float(self.balance) if isinstance(self.balance, bool | np.bool_) else self.balance
        strength = check_real("balance", given, "[0, 1]", lambda value: 0 <= value <= 1)
        n_queries = check_count("n_queries", self.n_queries, 1)
        return RoundLoop(release, n_queries, bool(self.soft_labels), strength, self.make_student)

    def _header(self, loop: RoundLoop, points: NDArray[np.float32], source: Randomness, private: str) -> dict[str, Any]:
        """What a resumed run must have in common with the interrupted one."""
        release = loop.release
        return {
            "mechanism": type(self).__name__,
            "protocol": [release.protocol, *release.parameters],
            "event": repr(release.event),
            "public": [*points.shape, sha256(points.tobytes()).hexdigest()],
            "private": private,
            "classes": release.n_classes,
            "n_queries": loop.n_queries,
            "n_neighbors": release.n_neighbors,
            "rounds": release.rounds,
            "soft_labels": loop.soft_labels,
            "balance": loop.balance,
            "seed": source.state(),
            "clusters": loop.clusters and loop.clusters.digest,
        }

    def _classes(self, labels: NDArray[np.int64], y: NDArray[Any], names: Sequence[str] | None) -> int:
        if names is not None:
            return check_count("n_classes", self.n_classes or len(names), len(names), len(names))
        least = y.shape[1] if y.ndim == 2 else int(labels.max()) + 1
        if self.n_classes is None:
            return least
        return check_count("n_classes", self.n_classes, 1 if y.ndim == 1 and least == 1 else least)
