"""Forecasts of reverse k-NN: public points vote in the place of private records, exact chances of the noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Booleans, Floats, Integers, Singles
from mechanisms.federation.protocols import LocalProtocol, protocol_for
from mechanisms.federation.trust_models import RoundRelease
from mechanisms.forecast.proposal import Forecast
from mechanisms.forecast.report_chances import report_probability
from mechanisms.forecast.sample import PublicSample, draw_records, extrapolate
from mechanisms.local_reports.collision import CollisionReports
from mechanisms.local_reports.randomized_response import RandomizedBits
from mechanisms.neighbours.reverse import Connections, votes_of
from mechanisms.queries import cluster_centres
from mechanisms.reverse_knn import ReverseKNN
from mechanisms.vote_chances import answer_probability

__all__ = ["ReverseKNNGrid", "forecast_reverse_knn"]

REPEATS = 4
"""Private data sets that are drawn from the public points."""


@dataclass(frozen=True)
class ReverseKNNGrid:
    """Values to compare.

    Parameters
    ----------
    queries : tuple of int
        s.
    n_neighbors : tuple of int
        k.
    noise : tuple of str or None
        Of the central model. None: Laplace noise, and with delta above 0 Gaussian noise, too.
    adjacency : accountant.Adjacency
    model : tuple of str
        Trust models.
    randomizer : tuple of str
        Of the local and shuffle models: "collision", "randomized-response", or "best" where it is one of these.
    """

    queries: tuple[int, ...]
    n_neighbors: tuple[int, ...] = (1, 2, 3)
    noise: tuple[str, ...] | None = None
    adjacency: ac.Adjacency = ac.Adjacency.REPLACE
    model: tuple[str, ...] = ("central",)
    randomizer: tuple[str, ...] = ("collision", "randomized-response")

    def releases(self, delta: float) -> Iterator[dict[str, Any]]:
        """Trust models, with the noise or the randomizer of each."""
        for model in self.model:
            if model == "central":
                yield from (
                    {"model": model, "noise": noise, "adjacency": self.adjacency} for noise in self.noises(delta)
                )
            else:
                yield from ({"model": model, "randomizer": randomizer} for randomizer in self.randomizer)

    def noises(self, delta: float) -> tuple[str, ...]:
        """Kinds of noise that can meet a target with this delta."""
        if self.noise is not None:
            return self.noise
        return ("laplace",) if delta == 0 else ("laplace", "gaussian")


def forecast_reverse_knn(
    sample: PublicSample, grid: ReverseKNNGrid, epsilon: float, delta: float
) -> Iterator[Forecast]:
    """Forecasts of all settings; every one meets the target."""
    for queries in grid.queries:
        centres = cluster_centres(sample.features, queries)
        for k in grid.n_neighbors:
            if k > queries:
                continue
            votes = _Votes(sample, centres, k)
            for trust in grid.releases(delta):
                sizes = {"n_queries": queries, "n_neighbors": k, "n_classes": sample.n_classes}
                model: dict[str, Any] = {**sizes, "epsilon": epsilon, "delta": delta, **trust}
                release = ReverseKNN(**model).planned(sample.n_records, sample.n_classes)
                yield votes.forecast(model, release)


class _Votes:
    """Counts at the queries in drawn data sets, as each public point sees them: without its own vote.

    Every second data set is drawn from half of the points: see `extrapolate`.
    """

    def __init__(self, sample: PublicSample, centres: Singles, k: int) -> None:
        self.sample = sample
        connections = Connections(centres, k)
        nearest = connections.find_nearest(sample.features)
        entries = votes_of(nearest, sample.labels[:, None], sample.n_classes)
        self.centre = connections.find_best(sample.features)
        own = (nearest == self.centre[:, None]).any(axis=1)
        rng = np.random.default_rng([sample.seed, len(centres), k])
        shape = len(centres), sample.n_classes
        self.tables = [
            self._count(draw_records(sample, rng, share), entries, own, shape) for share in REPEATS * (1.0, 0.5)
        ]
        self.support = k * len(sample) / len(centres)

    def _count(self, records: Integers, entries: Integers, own: Booleans, shape: tuple[int, int]) -> Floats:
        """Counts (m, c) at the query of each point."""
        size, repeated = shape[0] * shape[1], np.repeat(records, entries.shape[1]).astype(float)
        counts: Any = np.bincount(entries.ravel(), repeated, size).reshape(shape)
        seen: Floats = counts[self.centre]
        seen[np.arange(len(records)), self.sample.labels] -= records * own
        return seen

    def forecast(self, model: dict[str, Any], release: RoundRelease) -> Forecast:
        """What the setting brings: every public point takes the label of its centre."""
        right = [float(np.mean(self._chances(release, votes))) for votes in self.tables]
        mean = extrapolate(self.sample, np.mean(right[::2]), np.mean(right[1::2]))
        accuracy = float(np.clip(mean, 0, 1))
        queries, delta = model["n_queries"], model["delta"]
        price = release.guarantee(delta).epsilon
        return Forecast("reverse-knn", model, queries, float(queries), accuracy, accuracy, price, delta, self.support)

    def _chances(self, release: RoundRelease, votes: Floats) -> Floats:
        """The probability that each point's query is labelled like the point."""
        labels = self.sample.labels
        if release.protocol == "counts":
            found: Floats = answer_probability(release.event, votes, labels)
            return found
        protocol = protocol_for(release.protocol, release.parameters, release.request.size)
        randomizer = protocol.randomizer if isinstance(protocol, LocalProtocol) else None
        if not isinstance(randomizer, CollisionReports | RandomizedBits):
            accepted = "collision or randomized-response, whose chances are known"
            raise ac.ParameterError(f"a forecast of {release.protocol} reports; accepted: {accepted}")
        return report_probability(randomizer.responses, votes, self.sample.n_records, labels)
