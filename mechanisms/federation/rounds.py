"""Rounds of reverse k-NN: where they ask, what comes back, and the labels that public points get from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.federation.balancing import balanced_prices
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.server import ReleasedCounts
from mechanisms.federation.targets import route_of
from mechanisms.federation.trust_models import RoundRelease
from mechanisms.labelling import Labelling
from mechanisms.queries import cluster_centres
from mechanisms.students.network import NetworkStudent

__all__ = ["Course", "ReverseLabelling", "Round", "simplex_rows", "winners"]

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

    def guarantee(self, delta: float, conversion: ac.Conversion = "improved") -> ac.Guarantee:
        """What all rounds cost, and all other runs that its object began before; fixed before the first round.

        Under the adjacency of `ReverseKNN`.

        In the local model it holds for what a record sends, against everyone; in the shuffle model for what the
        shuffler passes on.

        Raises
        ------
        accountant.NoGuarantee
            No finite epsilon for this delta: 0 with Gaussian noise, or below what the shuffle model was set up for.
        """
        return ac.epsilon(self.promised, delta, conversion=conversion, **route_of(self.promised))


@dataclass(frozen=True, eq=False)
class Course:
    """How a run asks and what it makes of the answers: fixed before the first release, and read from nowhere else.

    Parameters
    ----------
    release : RoundRelease
    n_queries : int
        s.
    soft_labels : bool
    balance : float
    make_student : callable or None
        As for `ReverseKNN`.
    """

    release: RoundRelease
    n_queries: int
    soft_labels: bool
    balance: float
    make_student: Callable[[], Any] | None = None

    def run(
        self, points: NDArray[np.float32], ask: Callable[[int, RoundSetup], ReleasedCounts]
    ) -> tuple[tuple[Round, ...], NDArray[np.int64]]:
        """All rounds, and the labels (m, c) of the public points as ones and zeros.

        Parameters
        ----------
        points : array of shape (m, d)
        ask : callable
            ``ask(number, setup)`` releases the counts of one round, numbered from 0.
        """
        release = self.release
        votes = np.zeros((len(points), release.n_classes))
        done: list[Round] = []
        for number in range(release.rounds):
            importance = self._importance(points, votes) if number else None
            queries = cluster_centres(points, self.n_queries, importance)
            prices = self.balance * balanced_prices(points, queries) if self.balance else np.zeros(len(queries))
            setup = release.setup(queries, prices)
            found = ask(number, setup)
            centre = setup.connections.best(points)
            soft = simplex_rows(found.counts, found.variance)
            done.append(Round(queries, prices, centre, found.counts, found.variance, soft))
            votes += soft[centre] if self.soft_labels else winners(found.counts, release.n_labels)[centre]
        only = winners(found.counts, release.n_labels)[centre]
        return tuple(done), only if release.rounds == 1 else winners(votes, release.n_labels)

    def _importance(self, points: NDArray[np.float32], votes: NDArray[np.float64]) -> NDArray[np.float64]:
        """How uncertain a student is at each public point; it sees released labels alone."""
        student = (self.make_student or NetworkStudent)().fit(points, votes.argmax(axis=1))
        chances = np.clip(student.predict_proba(points), 1e-12, 1.0)
        entropy = -(chances * np.log(chances)).sum(axis=1) / np.log(max(chances.shape[1], 2))
        importance: NDArray[np.float64] = FLOOR + (1 - FLOOR) * entropy
        return importance


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
