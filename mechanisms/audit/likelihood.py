"""Scores for audits: log likelihood ratios of a run's releases with and without a record, as promised.

A score is ``log P[releases | with] - log P[releases | without]``, summed over the releases of a run, under the
mechanism's own events and for a canary whose influence is known. If the mechanism keeps its promise, this is the
statistic of the most powerful test between the two data sets (Neyman & Pearson 1933). It is computed from the promised
events and never from the implementation. If the mechanism breaks its promise, the likelihoods are wrong, which may cost
power. It cannot make a bound wrong: `audit` chooses a set of scores by the first half of the runs and counts it in the
other half, for any score; `audit_one_run` accepts any guesses that are functions of the outputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

import accountant as ac
from mechanisms.arrays import Floats
from mechanisms.noise.source import additive_noise
from mechanisms.validation import check_count, check_rate

__all__ = ["View", "individual_score", "label_log_ratios", "label_score", "number_score", "sampled_view"]

Score: TypeAlias = Callable[[Any], Floats]

GRID_POINTS = 2001
"""Points of the grid on which probabilities of a noisy arg max are integrated."""

LEAST_CHANCE = 1e-300
"""Least probability of an outcome, so that scores are finite."""

MOST_COUNTS = 20_000
"""Most different vote counts of a sample."""


@dataclass(frozen=True, eq=False)
class View:
    """The values of a query on one data set before noise, and their probabilities.

    Attributes
    ----------
    values : float array of shape (v, c)
        Votes for each class, or other numbers to which noise is added; several rows if records are sampled.
    chances : float array of shape (v,)
        Probability of each row.
    """

    values: Floats
    chances: Floats

    @classmethod
    def certain(cls, values: object) -> View:
        """One row of probability 1, for mechanisms that do not sample."""
        return cls(np.atleast_2d(np.asarray(values, dtype=np.float64)), np.ones(1))


def sampled_view(labels: Sequence[int], n_classes: int, n_neighbors: int, rate: float = 1.0) -> View:
    """Votes of the nearest neighbours within a Poisson sample.

    Parameters
    ----------
    labels : sequence of int
        Labels of the records, the nearest to the query first.
    n_classes, n_neighbors : int
    rate : float
        Probability with which each record is in the sample.

    Raises
    ------
    accountant.ParameterError
        A value is out of range, or there are too many different vote counts.
    """
    k, classes = check_count("n_neighbors", n_neighbors, 1), check_count("n_classes", n_classes, 1)
    rate = check_rate(rate)
    chances: dict[tuple[int, ...], float] = {(0,) * classes: 1.0}
    for label in labels:
        following: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for votes, chance in chances.items():
            if sum(votes) == k:
                following[votes] += chance
                continue
            following[(*votes[:label], votes[label] + 1, *votes[label + 1 :])] += rate * chance
            if rate < 1.0:
                following[votes] += (1 - rate) * chance
        if len(following) > MOST_COUNTS:
            raise ac.ParameterError(
                f"{len(following)} different counts; accepted: at most {MOST_COUNTS}, take a smaller k"
            )
        chances = dict(following)
    return View(np.array(list(chances), dtype=np.float64), np.array(list(chances.values())))


def label_log_ratios(vote: ac.Event, without: View, joined: View, screening: ac.Event | None = None) -> Floats:
    """Log likelihood ratio of each outcome of one query: no answer, then each class.

    Screening and vote are independent, as they are priced: each draws a sample of its own, if records are sampled.

    Parameters
    ----------
    vote : Event
        GNMax or LNMax, or noise on counts of which the arg max is released; sampled or not.
    without, joined : View
        Votes for the query without and with the canary, taking account of sampling.
    screening : Event, optional
        NoisyScreening, sampled or not; None if every query is answered.
    """
    logs = []
    for view in (joined, without):
        winners = np.log(np.maximum(view.chances @ _win_chances(_noise(vote), view.values), LEAST_CHANCE))
        if screening is None:
            logs.append(np.concatenate([[0.0], winners]))
        else:
            passing = float(view.chances @ _pass_chances(screening, view.values))
            chances = np.maximum([1 - passing, passing], LEAST_CHANCE)
            logs.append(np.concatenate([[np.log(chances[0])], winners + np.log(chances[1])]))
    return np.asarray(logs[0] - logs[1])


def label_score(
    vote: ac.Event, without: Sequence[View], joined: Sequence[View], screening: ac.Event | None = None
) -> Score:
    """Score of the labels (.., t) of t queries, -1 if unanswered: the sum of their log likelihood ratios.

    Parameters
    ----------
    vote, screening : Event
        As for `label_log_ratios`.
    without, joined : sequence of View
        One for each query.
    """
    tables = np.stack([label_log_ratios(vote, a, b, screening) for a, b in zip(without, joined, strict=True)])

    def score(labels: Any) -> Floats:
        outcomes = np.asarray(labels, dtype=np.int64) + 1
        return np.asarray(tables[np.arange(len(tables)), outcomes].sum(axis=-1))

    return score


def number_score(event: ac.Event, without: Sequence[View], joined: Sequence[View]) -> Score:
    """Score of t releases of c numbers, shape (.., t, c): the sum of their log density ratios.

    Parameters
    ----------
    event : Event
        Gaussian or Laplace noise, continuous or discrete, on every number; sampled or not.
    without, joined : sequence of View
        The numbers before noise; one view for each release.
    """
    noise = _noise(event)

    def log_density(releases: Floats, views: Sequence[View]) -> Floats:
        total = np.zeros(releases.shape[:-2])
        for t, view in enumerate(views):
            away = releases[..., t, None, :] - view.values
            parts = noise.log_density(away).sum(axis=-1) + np.log(np.maximum(view.chances, LEAST_CHANCE))
            total = total + logsumexp(parts, axis=-1)
        return np.asarray(total)

    def score(numbers: Any) -> Floats:
        releases = np.asarray(numbers, dtype=np.float64)
        return log_density(releases, joined) - log_density(releases, without)

    return score


class IndividualParameters(Protocol):
    """The parameters of an `IndividualKNN` on which its likelihoods depend."""

    budget: float
    count_sigma: float
    vote_sigma: float
    min_count: float


def individual_score(
    knn: IndividualParameters, labels: Sequence[int], n_classes: int, retiring: bool = True
) -> Callable[[Any, Any], float]:
    """Score of Ind-KNN's released (counts, labels) if all records near the queries have kernel 1 with each of them.

    The last record is the canary. Budgets follow from the released counts, so the score can follow the run on both data
    sets. For each query it adds the log ratio of the densities of K, or of the probabilities that K is `min_count`, and
    that of the probabilities of the label given K.

    Parameters
    ----------
    knn : IndividualKNN
        Only its parameters are read.
    labels : sequence of int
        Labels of the records near the queries, the canary's last.
    n_classes : int
    retiring : bool
        Whether records retire when their budgets are spent, as is promised. False scores as if budgets were infinite,
        which shows records that do not retire.
    """
    count_sigma, vote_sigma, min_count = knn.count_sigma, knn.vote_sigma, knn.min_count
    noise = _noise(ac.Gaussian(1.0))
    price = 1 / (2 * count_sigma**2)
    whole = knn.budget if retiring else np.inf
    voters = np.eye(n_classes)[list(labels)]

    def log_chance(counts: Any, answers: Any, votes: Floats) -> float:
        left, total = np.full(len(votes), whole), 0.0
        for count, answer in zip(counts, answers, strict=True):
            active = left >= price
            left = np.where(active, left - price, left)
            away = (count - active.sum()) / count_sigma
            total += float(log_ndtr(away)) if count <= min_count else float(noise.log_density(away))
            parts = np.where(active, np.minimum(1 / (vote_sigma * np.sqrt(count)), np.sqrt(2 * left)), 0.0)
            left = np.maximum(left - parts**2 / 2, 0.0)
            total += float(np.log(max(_win_chances(noise, (parts @ votes)[None])[0, int(answer)], LEAST_CHANCE)))
        return total

    def score(counts: Any, answers: Any) -> float:
        return log_chance(counts, answers, voters) - log_chance(counts, answers, voters[:-1])

    return score


# --- noise ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Noise:
    """Gaussian or Laplace noise. Ratios of discrete probabilities are those of the density, so it serves both."""

    gaussian: bool
    scale: float

    def log_density(self, away: Any) -> Floats:
        """Log density up to a constant."""
        size = np.abs(np.asarray(away, dtype=np.float64)) / self.scale
        return np.asarray(-(size**2) / 2 if self.gaussian else -size)

    def below(self, away: Any) -> Floats:
        """P[noise <= away]."""
        units = np.asarray(away, dtype=np.float64) / self.scale
        if self.gaussian:
            return np.asarray(ndtr(units))
        return np.asarray(np.where(units < 0, np.exp(-np.abs(units)) / 2, 1 - np.exp(-np.abs(units)) / 2))


def _noise(event: ac.Event) -> _Noise:
    """The noise of an event, sampled or not."""
    noise = additive_noise(event)
    return _Noise(noise.distribution == "gaussian", noise.scale)


def _win_chances(noise: _Noise, values: Floats) -> Floats:
    """Probability of each entry to be the largest of its row with noise, by the trapezoidal rule over its noise.

    With two classes and Gaussian noise, the difference of the noises is Gaussian.
    """
    if noise.gaussian and values.shape[1] == 2:
        ahead = noise.below((values[:, 0] - values[:, 1]) / np.sqrt(2.0))
        return np.stack([ahead, 1 - ahead], axis=1)
    reach = 9.0 if noise.gaussian else 36.0
    grid = np.linspace(-reach, reach, GRID_POINTS) * noise.scale
    density = np.exp(noise.log_density(grid))
    density /= density.sum()
    rows = []
    for votes in values:
        # axes: grid, winner, other entry; the winner does not compete with itself
        others = noise.below(grid[:, None, None] + votes[None, :, None] - votes[None, None, :])
        others[:, np.arange(len(votes)), np.arange(len(votes))] = 1.0
        rows.append(density @ others.prod(axis=2))
    return np.array(rows)


def _pass_chances(screening: ac.Event, values: Floats) -> Floats:
    """Probability that the largest entry of each row plus noise reaches the threshold."""
    inner: Any = screening.unsampled
    if not isinstance(inner, ac.NoisyScreening):
        raise ac.ParameterError(f"screening = {ac.shorten(screening)}; accepted: NoisyScreening, sampled or not")
    return np.asarray(ndtr((values.max(axis=1) - inner.threshold) / inner.sigma))
