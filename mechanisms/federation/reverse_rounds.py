"""The loop over the rounds of one reverse k-NN run: where each round asks, its counts, and the labels of public points.

`mechanisms.rounds` is about something else: rounds of the labellers that answer query by query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.budgets.journal import Part
from mechanisms.federation.balancing import balanced_prices
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.server import ReleasedCounts
from mechanisms.federation.targets import choose_route
from mechanisms.federation.trust_models import RoundRelease
from mechanisms.labelling import Labelling
from mechanisms.neighbours.reverse import Connections
from mechanisms.queries import cluster_centres
from mechanisms.students.network import NetworkStudent
from mechanisms.validation import check_queries

__all__ = ["Clusters", "ReverseLabelling", "Round", "RoundLoop", "simplex_rows", "winners"]

LEAST_IMPORTANCE = 0.2
"""Importance of a public point whose label the student is sure of; 1 is that of a point it knows nothing about."""


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
    release : RoundRelease
        Model, protocol, noise, and the price of a round; its `records_public` says whether the guarantee takes the
        number of records for public.
    """

    soft: NDArray[np.float64] | None = None
    rounds: tuple[Round, ...] = ()
    bytes_per_client: float = 0.0
    release: RoundRelease | None = None

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

    def guarantee(self, delta: float, conversion: ac.Conversion | None = None) -> ac.Guarantee:
        """What all rounds cost, and all other runs that its object began before; fixed before the first round.

        Under the adjacency of `ReverseKNN`.

        In the local model it holds for what a record sends, against everyone; in the shuffle model for what the
        shuffler passes on.

        Raises
        ------
        accountant.NoGuarantee
            No finite epsilon for this delta: 0 with Gaussian noise, or below what the shuffle model was set up for.
        """
        return ac.epsilon(self.promised, delta, conversion=conversion, **choose_route(self.promised))


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of public points that were found elsewhere, from public data alone.

    Attributes
    ----------
    queries : float array of shape (s, d)
    assignment : int array of shape (m,), or None
        The query whose label each public point takes; None is the nearest.
    """

    queries: NDArray[np.float32]
    assignment: NDArray[np.int64] | None = None

    @property
    def digest(self) -> str:
        """What tells these clusters from others."""
        assigned = b"" if self.assignment is None else self.assignment.astype("<i8").tobytes()
        return sha256(np.ascontiguousarray(self.queries).tobytes() + assigned).hexdigest()

    @classmethod
    def of(cls, queries: object, assignment: object, points: NDArray[np.float32], n_queries: int) -> Clusters | None:
        """Checked clusters; without queries these are the means of the points assigned to each. None without either.

        Raises
        ------
        accountant.ParameterError
            A value is not as described.
        """
        if queries is None and assignment is None:
            return None
        given = None if assignment is None else np.asarray(assignment)
        if given is not None and (given.shape != (len(points),) or given.dtype.kind not in "iu"):
            found = f"assignment has shape {given.shape} and type {given.dtype}"
            raise ac.ParameterError(f"{found}; accepted: integers of shape ({len(points)},), a query for each point")
        if given is not None and not ((given >= 0) & (given < n_queries)).all():
            worst = given[(given < 0) | (given >= n_queries)][0]
            raise ac.ParameterError(f"assignment holds {worst}; accepted: 0..{n_queries - 1}, below n_queries")
        if queries is None:
            assert given is not None
            sizes = np.bincount(given, minlength=n_queries)
            if not sizes.all():
                empty = int(np.argmin(sizes))
                raise ac.ParameterError(f"assignment without queries leaves {empty} empty; accepted: points in all")
            sums = np.zeros((n_queries, points.shape[1]))
            np.add.at(sums, given, points)
            table: NDArray[np.float32] = (sums / sizes[:, None]).astype(np.float32)
        else:
            table = check_queries(queries, points.shape[1])
            if len(table) != n_queries:
                raise ac.ParameterError(f"queries has {len(table)} rows; accepted: n_queries = {n_queries}")
        return cls(table, None if given is None else given.astype(np.int64))


@dataclass(frozen=True, eq=False)
class RoundLoop:
    """All rounds of one run of reverse k-NN, in one process or over a network (Wang et al. 2022, Alg. 1).

    It holds every setting of the run, so that changes of a `ReverseKNN` meanwhile have no effect.

    Parameters
    ----------
    release : RoundRelease
    n_queries : int
        s.
    soft_labels : bool
    balance : float
    make_student : callable or None
        As for `ReverseKNN`.
    clusters : Clusters or None
        Queries of the first round, and who takes which one's label; None chooses them by k-means.
    """

    release: RoundRelease
    n_queries: int
    soft_labels: bool
    balance: float
    make_student: Callable[[], Any] | None = None
    clusters: Clusters | None = None

    def run(
        self, points: NDArray[np.float32], ask: Callable[[int, RoundSetup], ReleasedCounts], part: Part | None = None
    ) -> ReverseLabelling:
        """Ask all rounds and label the public points.

        Parameters
        ----------
        points : array of shape (m, d)
        ask : callable
            ``ask(number, setup)`` releases the counts of one round, numbered from 0.
        part : Part, optional
            Of a journal, which keeps what every round asks: counts belong to no other queries.

        Returns
        -------
        ReverseLabelling
            Its labels are zeros and ones, of shape (m, c); `before` and `bytes_per_client` are left to the caller.
        """
        release = self.release
        votes = np.zeros((len(points), release.n_classes))
        rounds: list[Round] = []
        for number in range(release.rounds):
            make = partial(self._set_up, points, votes if number else None)
            held = make() if part is None else part.recall(number, make)
            setup = release.setup(held["queries"], held["prices"])
            rounds.append(_estimate(setup, held["centre"], ask(number, setup)))
            last = rounds[-1]
            votes += (last.soft if self.soft_labels else winners(last.counts, release.n_labels))[last.centre]
        labels = winners(votes, release.n_labels)
        if release.rounds == 1:  # shares of the simplex can tie where counts do not
            labels = winners(rounds[0].counts, release.n_labels)[rounds[0].centre]
        planned: ac.Composition = release.rounds * release.event
        return ReverseLabelling(
            labels=labels,
            answered=np.ones(len(points), bool),
            composition=planned,
            planned=planned,
            soft=np.mean([each.soft[each.centre] for each in rounds], axis=0),
            rounds=tuple(rounds),
            release=release,
        )

    def _set_up(self, points: NDArray[np.float32], votes: NDArray[np.float64] | None) -> dict[str, NDArray[Any]]:
        """Queries and prices of the next round, from public points and the votes (m, c) of earlier rounds.

        `centre` (m,) is the query whose label each public point takes.
        """
        if votes is None and self.clusters is not None:
            queries = self.clusters.queries
        else:
            queries = cluster_centres(points, self.n_queries, None if votes is None else self._weigh(points, votes))
        prices = self.balance * balanced_prices(points, queries) if self.balance else np.zeros(len(queries))
        given = self.clusters.assignment if votes is None and self.clusters is not None else None
        centre = Connections(queries, 1, prices).find_best(points) if given is None else given
        return {"queries": queries, "prices": prices, "centre": centre}

    def _weigh(self, points: NDArray[np.float32], votes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Importance (m,) of public points: how uncertain a student is there that learns from released labels only."""
        student = (self.make_student or NetworkStudent)().fit(points, votes.argmax(axis=1))
        chances = np.clip(student.predict_proba(points), 1e-12, 1.0)
        entropy = -(chances * np.log(chances)).sum(axis=1) / np.log(max(chances.shape[1], 2))
        importance: NDArray[np.float64] = LEAST_IMPORTANCE + (1 - LEAST_IMPORTANCE) * entropy
        return importance


def _estimate(setup: RoundSetup, centre: NDArray[np.int64], found: ReleasedCounts) -> Round:
    """One round, from its setup, the query that each public point belongs to, and its released counts."""
    connections = setup.connections
    soft = simplex_rows(found.counts, found.variance)
    return Round(connections.queries, connections.prices, centre, found.counts, found.variance, soft)


def winners(counts: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """The `size` largest of each row as ones, the others zeros; ties go to the lower index."""
    chosen = np.argsort(-counts, axis=1, kind="stable")[:, :size]
    sets = np.zeros(counts.shape, np.int64)
    np.put_along_axis(sets, chosen, 1, axis=1)
    return sets


def simplex_rows(counts: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts as shares of their row: divided by their sum, then projected to the simplex (Duchi et al. 2008).

    The divisor is at least the standard deviation of the sum's noise, so that rows of pure noise come out nearly
    uniform.
    """
    sizes = np.maximum(counts.sum(axis=1), np.sqrt(variance.sum(axis=1)))
    shares = counts / np.maximum(sizes, 1e-300)[:, None]
    shares = np.where(sizes[:, None] > 0, shares, 0.0)
    # the projection does not change with a shift of the row; without it the 1 is lost in sums of huge shares
    shares = shares - shares.max(axis=1, keepdims=True)
    ordered = -np.sort(-shares, axis=1)
    ranks = np.arange(1, shares.shape[1] + 1)
    excess = (np.cumsum(ordered, axis=1) - 1) / ranks
    kept = np.count_nonzero(ordered > excess, axis=1)
    projected: NDArray[np.float64] = np.maximum(shares - excess[np.arange(len(shares)), kept - 1][:, None], 0.0)
    return projected
