"""Scores for audits: how much likelier a run's releases are with a record than without it, by what is promised.

A score is the log likelihood ratio ``log P[releases | with] - log P[releases | without]``, summed over the releases of
a run, under the mechanism's own events and at the canary's known influence: what the most powerful test between the two
data sets looks at (Neyman & Pearson 1933), if the mechanism keeps its word. It is computed from the promised events
and never from the implementation. A mechanism that breaks its word is scored by the wrong likelihoods, which may cost
power. It cannot make a bound wrong: `audit` chooses by the first half of the runs a set of scores, and counts it in the
other half, whatever the score is; `audit_one_run` takes any guesses that are made of the outputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtr

import accountant as ac
from mechanisms.validation import check_count, check_rate, shorten

__all__ = ["View", "individual_score", "label_log_ratios", "label_score", "number_score", "sampled_view"]

FloatArray: TypeAlias = NDArray[np.float64]
Score: TypeAlias = Callable[[Any], FloatArray]

POINTS = 2001
"""Of the grid on which the chances of a noisy argmax are integrated."""

FLOOR = 1e-300
"""Least chance of an outcome; a score must be a finite number."""

STATES = 20_000
"""Most different counts of a sample."""


@dataclass(frozen=True, eq=False)
class View:
    """What a query's answer is made of on one data set, before noise: values and how probable they are.

    Attributes
    ----------
    values : float array of shape (v, c)
        Votes for each class, or other numbers that get the noise.
    chances : float array of shape (v,)
        Probability of each row; several rows where records are sampled.
    """

    values: FloatArray
    chances: FloatArray

    @classmethod
    def certain(cls, values: object) -> View:
        """One row, for sure: nothing is sampled."""
        return cls(np.atleast_2d(np.asarray(values, dtype=np.float64)), np.ones(1))


def sampled_view(labels: Sequence[int], n_classes: int, n_neighbors: int, rate: float = 1.0) -> View:
    """Votes of the nearest neighbours within a Poisson sample.

    Parameters
    ----------
    labels : sequence of int
        Of the records, the nearest to the query first.
    n_classes, n_neighbors : int
    rate : float
        Probability with which each record is in the sample.

    Raises
    ------
    accountant.ParameterError
        A value is out of range, or there are too many different counts.
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
        if len(following) > STATES:
            raise ac.ParameterError(f"{len(following)} different counts; accepted: at most {STATES}, take a smaller k")
        chances = dict(following)
    return View(np.array(list(chances), dtype=np.float64), np.array(list(chances.values())))


def label_log_ratios(vote: ac.Event, without: View, joined: View, screening: ac.Event | None = None) -> FloatArray:
    """Log likelihood ratio of each outcome of one query: of no answer, then of each class.

    Screening and vote are independent, as they are priced: each has a sample of its own, if there is one.

    Parameters
    ----------
    vote : Event
        GNMax or LNMax, or noise on counts of which the largest is released; sampled or not.
    without, joined : View
        Votes for the query without and with the canary, sampling included.
    screening : Event, optional
        NoisyScreening, sampled or not; None where every query is answered.
    """
    logs = []
    for view in (joined, without):
        winners = np.log(np.maximum(view.chances @ _winning(_noise(vote), view.values), FLOOR))
        if screening is None:
            logs.append(np.concatenate([[0.0], winners]))
        else:
            passing = float(view.chances @ _passing(screening, view.values))
            chances = np.maximum([1 - passing, passing], FLOOR)
            logs.append(np.concatenate([[np.log(chances[0])], winners + np.log(chances[1])]))
    return np.asarray(logs[0] - logs[1])


def label_score(
    vote: ac.Event, without: Sequence[View], joined: Sequence[View], screening: ac.Event | None = None
) -> Score:
    """Score of the labels (.., t) of t queries, -1 where unanswered: the sum of their log likelihood ratios.

    Parameters
    ----------
    vote, screening : Event
        As for `label_log_ratios`.
    without, joined : sequence of View
        One for each query.
    """
    tables = np.stack([label_log_ratios(vote, a, b, screening) for a, b in zip(without, joined, strict=True)])

    def score(labels: Any) -> FloatArray:
        outcomes = np.asarray(labels, dtype=np.int64) + 1
        return np.asarray(tables[np.arange(len(tables)), outcomes].sum(axis=-1))

    return score


def number_score(event: ac.Event, without: Sequence[View], joined: Sequence[View]) -> Score:
    """Score of released numbers (.., t, c), t releases of c numbers each: the sum of log density ratios.

    Parameters
    ----------
    event : Event
        Gaussian or Laplace noise, continuous or discrete, on every number; sampled or not.
    without, joined : sequence of View
        The numbers before noise; one view for each release.
    """
    noise = _noise(event)

    def log_density(releases: FloatArray, views: Sequence[View]) -> FloatArray:
        total = np.zeros(releases.shape[:-2])
        for t, view in enumerate(views):
            away = releases[..., t, None, :] - view.values
            parts = noise.log_density(away).sum(axis=-1) + np.log(np.maximum(view.chances, FLOOR))
            total = total + logsumexp(parts, axis=-1)
        return np.asarray(total)

    def score(numbers: Any) -> FloatArray:
        releases = np.asarray(numbers, dtype=np.float64)
        return log_density(releases, joined) - log_density(releases, without)

    return score


def individual_score(
    *,
    budget: float,
    count_sigma: float,
    vote_sigma: float,
    min_count: float,
    labels: Sequence[int],
    n_classes: int,
    retiring: bool = True,
) -> Callable[[Any, Any], float]:
    """Score of Ind-KNN's released (counts, labels), for records that have kernel 1 with every query.

    The last record is the canary. Budgets follow from the released counts, so that both data sets can be replayed: the
    ratio of the densities of K, or of its chances of being `min_count`, and that of the chances of the label given K.

    Parameters
    ----------
    budget, count_sigma, vote_sigma, min_count : float
        As for `IndividualKNN`.
    labels : sequence of int
        Of the records near the queries, the canary's last.
    n_classes : int
    retiring : bool
        Whether the score lets records retire, as is promised. False looks for those that go on: as if budgets had no
        end.
    """
    noise = _noise(ac.Gaussian(1.0))
    price = 1 / (2 * count_sigma**2)
    whole = budget if retiring else np.inf
    voters = np.eye(n_classes)[list(labels)]

    def log_chance(counts: Any, answers: Any, votes: FloatArray) -> float:
        left, total = np.full(len(votes), whole), 0.0
        for count, answer in zip(counts, answers, strict=True):
            active = left >= price
            left = np.where(active, left - price, left)
            away = (count - active.sum()) / count_sigma
            total += float(log_ndtr(away)) if count <= min_count else float(noise.log_density(away))
            parts = np.where(active, np.minimum(1 / (vote_sigma * np.sqrt(count)), np.sqrt(2 * left)), 0.0)
            left = np.maximum(left - parts**2 / 2, 0.0)
            total += float(np.log(max(_winning(noise, (parts @ votes)[None])[0, int(answer)], FLOOR)))
        return total

    def score(counts: Any, answers: Any) -> float:
        return log_chance(counts, answers, voters) - log_chance(counts, answers, voters[:-1])

    return score


# --- noise ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Noise:
    """Noise of a scale, Gaussian or Laplace. Discrete noise has the density's ratios, which is all that is needed."""

    gaussian: bool
    scale: float

    def log_density(self, away: Any) -> FloatArray:
        """Up to a constant."""
        size = np.abs(np.asarray(away, dtype=np.float64)) / self.scale
        return np.asarray(-(size**2) / 2 if self.gaussian else -size)

    def below(self, away: Any) -> FloatArray:
        """P[noise <= away]."""
        units = np.asarray(away, dtype=np.float64) / self.scale
        if self.gaussian:
            return np.asarray(ndtr(units))
        return np.asarray(np.where(units < 0, np.exp(-np.abs(units)) / 2, 1 - np.exp(-np.abs(units)) / 2))


def _noise(event: ac.Event) -> _Noise:
    inner: Any = event.event if isinstance(event, ac.PoissonSubsampled) else event
    if isinstance(inner, ac.Gaussian | ac.GNMax | ac.NoisyScreening | ac.DiscreteGaussian):
        return _Noise(True, inner.sigma)
    if isinstance(inner, ac.Laplace | ac.LNMax | ac.DiscreteLaplace):
        return _Noise(False, inner.scale)
    raise ac.ParameterError(
        f"event = {shorten(event)}; accepted: Gaussian, GNMax, NoisyScreening, DiscreteGaussian, Laplace, LNMax, "
        "DiscreteLaplace, sampled or not"
    )


def _winning(noise: _Noise, values: FloatArray) -> FloatArray:
    """P[each entry is the largest of its row with noise], by the trapezoidal rule over the winner's noise.

    Between two classes Gaussian noise decides by its difference.
    """
    if noise.gaussian and values.shape[1] == 2:
        ahead = noise.below((values[:, 0] - values[:, 1]) / np.sqrt(2.0))
        return np.stack([ahead, 1 - ahead], axis=1)
    reach = 9.0 if noise.gaussian else 36.0
    grid = np.linspace(-reach, reach, POINTS) * noise.scale
    density = np.exp(noise.log_density(grid))
    density /= density.sum()
    rows = []
    for votes in values:
        # (grid, winner, other): the winner's own column decides nothing
        others = noise.below(grid[:, None, None] + votes[None, :, None] - votes[None, None, :])
        others[:, np.arange(len(votes)), np.arange(len(votes))] = 1.0
        rows.append(density @ others.prod(axis=2))
    return np.array(rows)


def _passing(screening: ac.Event, values: FloatArray) -> FloatArray:
    """P[largest entry of each row plus noise reaches the threshold]."""
    inner: Any = screening.event if isinstance(screening, ac.PoissonSubsampled) else screening
    if not isinstance(inner, ac.NoisyScreening):
        raise ac.ParameterError(f"screening = {shorten(screening)}; accepted: NoisyScreening, sampled or not")
    return np.asarray(ndtr((values.max(axis=1) - inner.threshold) / inner.sigma))
