"""Forecasts of Private-kNN: votes of public points in the place of private records, exact chances of the noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers
from mechanisms.forecast.proposal import Forecast
from mechanisms.forecast.sample import PublicSample, draw_records, extrapolate, vote_counts
from mechanisms.forecast.screenings import Screening, combine_screenings
from mechanisms.labelling import least_noise
from mechanisms.private_knn import PrivateKNN
from mechanisms.vote_chances import answer_probability, expected_answers, pass_probability

__all__ = ["PrivateKNNGrid", "forecast_private_knn"]

REPEATS = 4
"""Private data sets that are drawn from the public points for every setting."""

FINALISTS = 6
"""Best settings that are forecast again with fresh draws, so that no one of them is the best by luck."""

FINAL_REPEATS = 12
"""Data sets that are drawn for these."""

NEAREST = 6
"""Nearest queries of a point that may be the one whose label it takes."""


@dataclass(frozen=True)
class PrivateKNNGrid:
    """Values to compare.

    Parameters
    ----------
    queries : tuple of int
    sampling_rate : tuple of float
    n_neighbors : tuple of int or None
        None: a quarter, a half and all of a class's share of a sample.
    screening_ratio : tuple of float or None
        Noise of the screening over that of a vote; None is no screening.
    threshold : tuple of float
        Votes that pass the screening, as shares of the neighbours.
    max_labels : tuple of float
        With screening, most answers as shares of the queries.
    rounds : tuple of int
        Rounds with so many queries each, as `label_in_rounds` runs them. The features of later rounds are a student's,
        which no forecast knows: one round is forecast, in the given features, at the noise that all rounds together
        need. More rounds pay if the student's features are that much better; a student that learnt public labels tells.
    """

    queries: tuple[int, ...]
    sampling_rate: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5, 1.0)
    n_neighbors: tuple[int, ...] | None = None
    screening_ratio: tuple[float | None, ...] = (None, 3.0)
    threshold: tuple[float, ...] = (0.5, 0.6)
    max_labels: tuple[float, ...] = (0.5,)
    rounds: tuple[int, ...] = (1,)

    def neighbors(self, sample: PublicSample, rate: float) -> tuple[int, ...]:
        """Numbers of neighbours at a sampling rate."""
        most = max(int(0.95 * sample.n_records), 1)
        if self.n_neighbors is not None:
            return tuple(k for k in self.n_neighbors if k <= sample.n_records)
        share = sample.n_records * rate / sample.n_classes
        return tuple(sorted({min(max(round(share * part), 1), most) for part in (0.25, 0.5, 1.0)}))

    def screenings(self, queries: int) -> Iterator[Screening]:
        """As `combine_screenings`."""
        return combine_screenings(self.screening_ratio, self.threshold, self.max_labels, queries)


def forecast_private_knn(
    sample: PublicSample, grid: PrivateKNNGrid, epsilon: float, delta: float, method: str | None = None
) -> Iterator[Forecast]:
    """Forecasts of all settings that meet the target. The best are forecast a second time."""
    found = list(_forecast_all(sample, grid, (epsilon, delta, method)))
    found.sort(key=lambda each: -each.reach)
    for number, each in enumerate(found):
        if number >= FINALISTS:
            yield each
            continue
        asked = each.queries, each.rounds
        rate, k = each.parameters["sampling_rate"], each.parameters["n_neighbors"]
        again = _Votes(sample, rate, k, FINAL_REPEATS, fresh=True)
        target = epsilon, delta, method or "auto"  # the certified price of screenings takes a second
        yield again.forecast(_calibrate_again(each.parameters, asked, target), asked, target)


def _forecast_all(
    sample: PublicSample, grid: PrivateKNNGrid, target: tuple[float, float, str | None]
) -> Iterator[Forecast]:
    noises: dict[tuple[Any, ...], float | None] = {}
    for rate in grid.sampling_rate:
        for k in grid.neighbors(sample, rate):
            votes = _Votes(sample, rate, k, REPEATS)
            for queries, rounds in product(grid.queries, grid.rounds):
                for ratio, share, most in grid.screenings(queries):
                    threshold = None if share is None else share * k
                    model = {
                        "n_neighbors": k,
                        "sampling_rate": rate,
                        "threshold": threshold,
                        "max_labels": most,
                        "n_classes": sample.n_classes,
                        "n_records": sample.n_records,
                    }
                    # without screening the price depends on neither neighbours nor threshold
                    key = rate, queries, rounds, ratio, most, threshold, k if ratio else None
                    if key not in noises:
                        noises[key] = _calibrate(model, ratio, (queries, rounds), target)
                    noise = noises[key]
                    if noise is not None:
                        yield votes.forecast(_at(model, ratio, noise), (queries, rounds), target)


def _at(model: dict[str, Any], ratio: float | None, noise: float) -> dict[str, Any]:
    return {**model, "screening_sigma": None if ratio is None else ratio * noise, "vote_sigma": noise}


def _route(method: str | None, screened: bool) -> dict[str, Any]:
    """As for the command that labels; without a method many settings with screening are compared by Rényi prices."""
    width = 0.01 if screened else 1e-3
    return {"method": method or ("renyi" if screened else "auto"), "conversion": "improved", "tolerance": width}


def _calibrate(
    model: dict[str, Any], ratio: float | None, asked: tuple[int, int], target: tuple[float, float, str | None]
) -> float | None:
    """The least noise that meets the target over all rounds; None if none does."""
    epsilon, delta, method = target

    def plan(noise: float) -> ac.Composition:
        return _add_rounds(PrivateKNN(**_at(model, ratio, noise)), asked)

    try:
        return least_noise(plan, epsilon, delta, model["n_neighbors"] / 10, **_route(method, ratio is not None))
    except ac.CalibrationError:
        return None


def _calibrate_again(
    parameters: Mapping[str, Any], asked: tuple[int, int], target: tuple[float, float, str | None]
) -> dict[str, Any]:
    """The same setting, with the noise of another route."""
    model = {name: value for name, value in parameters.items() if name not in ("screening_sigma", "vote_sigma")}
    screening = parameters["screening_sigma"]
    ratio = None if screening is None else screening / parameters["vote_sigma"]
    noise = _calibrate(model, ratio, asked, target)
    return dict(parameters) if noise is None else _at(model, ratio, noise)


def _add_rounds(labeller: PrivateKNN, asked: tuple[int, int]) -> ac.Composition:
    """The most that all rounds can spend; `asked` are the queries of a round, and the number of rounds."""
    queries, rounds = asked
    one = labeller.planned(queries)
    assert one is not None  # the settings limit the labels
    every: ac.Composition = rounds * one
    return every


class _Votes:
    """Votes of `k` neighbours at one rate for all public points, twice for each drawn data set: screening and answer.

    Every second data set is drawn from half of the points: see `extrapolate`.
    """

    def __init__(self, sample: PublicSample, rate: float, k: int, repeats: int, fresh: bool = False) -> None:
        rng = np.random.default_rng([sample.seed, k, round(1e9 * rate), int(fresh)])
        self.sample, self.support = sample, k / (rate * sample.weight)
        self.pairs: list[tuple[Floats, Floats]] = []
        for share in repeats * (1.0, 0.5):
            records = draw_records(sample, rng, share)
            first, second = (vote_counts(sample, records, rate, k, rng) for _ in range(2))
            self.pairs.append((first, second))

    def forecast(
        self, model: dict[str, Any], asked: tuple[int, int], target: tuple[float, float, str | None]
    ) -> Forecast:
        """What a round of the setting brings for queries in the middle of clusters, and what all rounds cost."""
        (queries, rounds), (_, delta, method) = asked, target
        labeller = PrivateKNN(**model)
        near = self._find_nearest(self.sample.centres(queries), labeller.screening_event is not None)
        found = np.array([self._expect(labeller, near, *pair) for pair in self.pairs])
        # answers, right answers, right labels of all points
        mean = extrapolate(self.sample, found[::2].mean(axis=0), found[1::2].mean(axis=0))
        answers = float(np.clip(mean[0], 0, labeller.max_labels))
        accuracy = float(np.clip(mean[1] / max(answers, 1e-300), 0, 1))
        price = ac.epsilon(_add_rounds(labeller, asked), delta, **_route(method, labeller.screening_event is not None))
        reach = float(np.clip(mean[2], 0, 1))
        outcome = answers, accuracy, reach, price.epsilon, delta, self.support
        return Forecast("private-knn", model, queries, *outcome, rounds)

    def _expect(self, labeller: PrivateKNN, near: Integers, first: Floats, second: Floats) -> tuple[float, ...]:
        """Answers, right answers, and share of right labels of all points, for one data set."""
        sample, screening = self.sample, labeller.screening_event
        asked = sample.centres(int(near.max()) + 1)
        passes = np.ones(len(asked)) if screening is None else pass_probability(screening, first[asked])
        answers = expected_answers(passes, labeller.max_labels)
        chance = passes * (answers / max(passes.sum(), 1e-300))
        wins = _Wins(labeller.vote_event, second[asked])
        right = float(chance @ wins(np.arange(len(asked)), sample.labels[asked]))
        return answers, right, _spread(chance, wins, near, sample.labels)

    def _find_nearest(self, asked: Integers, screened: bool) -> Integers:
        """Queries (m, r) nearest to each public point, numbered from 0; a query is nearest to itself."""
        distances = self.sample.distances[:, asked].copy()
        distances[asked, np.arange(len(asked))] = -1.0
        count = min(NEAREST if screened else 1, len(asked))
        return np.argsort(distances, axis=1, kind="stable")[:, :count]


class _Wins:
    """Chances that queries are answered with labels; each pair is computed once."""

    def __init__(self, vote: ac.Event, votes: Floats) -> None:
        self.vote, self.votes = vote, votes
        self.known = np.full(votes.shape, np.nan)

    def __call__(self, queries: Integers, labels: Integers) -> Floats:
        open_pairs = np.unique(np.stack([queries, labels], axis=1)[np.isnan(self.known[queries, labels])], axis=0)
        if len(open_pairs):
            rows, columns = open_pairs.T
            self.known[rows, columns] = answer_probability(self.vote, self.votes[rows], columns)
        found: Floats = self.known[queries, labels]
        return found


def _spread(chance: Floats, wins: _Wins, near: Integers, labels: Integers) -> float:
    """The share of points whose nearest answered query has their label; points that none of them reaches are wrong."""
    left, right = np.ones(len(labels)), np.zeros(len(labels))
    for queries in near.T:
        right += left * chance[queries] * wins(queries, labels)
        left *= 1 - chance[queries]
    return float(right.mean())
