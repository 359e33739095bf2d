"""Chances of noisy votes, before anything is spent: which label wins, whether a query passes, how many are answered.

They are functions of votes that are known or assumed. From private votes they would be private themselves, and nobody
paid for them: take votes from public points (`mechanisms.forecast`), or assume gaps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

import accountant as ac
from mechanisms.arrays import Floats, Integers
from mechanisms.noise.source import additive_noise
from mechanisms.validation import check_count

__all__ = ["answer_probability", "expected_answers", "pass_probability", "winning_probability"]

GAUSSIAN_REACH = 9.0
"""Standard deviations beyond which Gaussian noise is left out: 2 Phi(-9) = 2e-19."""

LAPLACE_REACH = 40
"""Scales beyond which Laplace noise is left out: e^-40 = 4e-18."""

NATS = 40.0
"""-log of the error that is left to the trapezoidal rule."""

LARGEST_DISCRETE = 1e5
"""Largest scale of discrete noise whose values are summed one by one."""

NUMBERS = 1 << 19
"""Numbers held at once."""


def answer_probability(event: ac.Event, votes: object, labels: object = None) -> Any:
    """The exact probability that a noisy vote returns a label: that its noisy count is the largest.

    For Gaussian noise of standard deviation s and votes n, label i wins with probability
    ``integral phi(x) prod_{j != i} Phi(x + (n_i - n_j)/s) dx``; for Laplace noise with its density and distribution
    function in their place; for noise on the integers as a sum, in which ties go to the lower label, as in the
    mechanisms. The absolute error is below 1e-13 (notebooks/mathematics.md, Chances of a noisy vote).

    Parameters
    ----------
    event : accountant.Event
        The vote, sampled or not: `GNMax`, `LNMax`, or another with additive noise. Under Poisson sampling `votes` are
        those of a sample.
    votes : array of shape (c,) or (m, c)
        Votes for each class, known or assumed; with ``[gap, 0]`` or ``[gap, 0, 0, ...]`` only gaps are assumed.
    labels : int, int array of shape (m,), or None
        None is the plurality label of each row, the lowest one among ties.

    Returns
    -------
    float, or float array of shape (m,)

    Raises
    ------
    accountant.ParameterError
        The event has no additive noise, discrete noise has a scale above 1e5, or an array is not as described.
    """
    table, single = _read_votes(votes)
    wanted = _read_labels(labels, table)
    # equal rows are computed once
    rows, back = np.unique(np.column_stack([table, wanted]), axis=0, return_inverse=True)
    table, wanted = rows[:, :-1], rows[:, -1].astype(np.int64)
    distribution, scale, discrete = additive_noise(event)
    gaps = (table[np.arange(len(table)), wanted][:, None] - table) / (1.0 if discrete else scale)
    if discrete:
        chance: Callable[[Floats, Integers], Floats] = partial(_discrete, distribution, scale)
    else:
        chance = _gaussian if distribution == "gaussian" else _laplace
    found = np.minimum(chance(gaps, wanted), 1.0)[back.ravel()]
    return float(found[0]) if single else found


def pass_probability(event: ac.Event, votes: object) -> Any:
    """The probability that a query passes noisy screening: ``Phi((max_i n_i - threshold)/sigma)``.

    Parameters
    ----------
    event : accountant.Event
        `NoisyScreening`, sampled or not; under Poisson sampling `votes` are those of a sample.
    votes : array of shape (c,) or (m, c)

    Returns
    -------
    float, or float array of shape (m,)

    Raises
    ------
    accountant.ParameterError
        The event is another one, or the array is not as described.
    """
    screening = event.unsampled if isinstance(event, ac.Event) else event
    if not isinstance(screening, ac.NoisyScreening):
        raise ac.ParameterError(f"event = {ac.shorten(event)}; accepted: NoisyScreening, sampled or not")
    table, single = _read_votes(votes)
    found = ndtr((table.max(axis=1) - screening.threshold) / screening.sigma)
    return float(found[0]) if single else found


def expected_answers(pass_probabilities: object, max_labels: int | None = None) -> float:
    """The expected number of answers to queries that pass independently: ``E[min(S, max_labels)]``, S the passes.

    S has the Poisson binomial distribution, which is convolved query by query: exact but for rounding.

    Parameters
    ----------
    pass_probabilities : array of shape (m,)
        Of each query, as from `pass_probability`; without screening all are 1.
    max_labels : int or None
        Most answers, at which a run stops; None is no limit.

    Raises
    ------
    accountant.ParameterError
        A value is no probability, or `max_labels` is negative.
    """
    chances = _read_numbers("pass_probabilities", pass_probabilities)
    if chances.ndim != 1 or not ((chances >= 0) & (chances <= 1)).all():
        accepted = "numbers in [0, 1], of shape (m,)"
        raise ac.ParameterError(f"pass_probabilities = {ac.shorten(pass_probabilities)}; accepted: {accepted}")
    if max_labels is None or check_count("max_labels", max_labels, 0) >= len(chances):
        return math.fsum(chances)
    # E[min(S, cap)] = sum over queries of P[fewer than cap passed before it] times its own chance
    before = np.zeros(max_labels)
    before[:1] = 1.0
    answers = []
    for chance in chances:
        answers.append(chance * before.sum())
        before[1:] = before[1:] * (1 - chance) + before[:-1] * chance
        before[:1] *= 1 - chance
    return math.fsum(answers)


# --- probabilities of the largest noisy count ------------------------------------------------------------


def _gaussian(gaps: Floats, labels: Integers) -> Floats:
    """The trapezoidal rule, with a step at which it is right to e^-40.

    In a strip of half-width a the integrand is at most e^{c a^2/2} times its size on the line, as |Phi(x + iy)| <=
    Phi(x) e^{y^2/2}. So step h errs by at most 2 e^{c a^2/2 - 2 pi a/h} (Trefethen & Weideman 2014, Thm 5.1), which
    a = 2 pi/(h c) makes 2 e^{-2 pi^2/(h^2 c)}.
    """
    step = math.sqrt(2 * math.pi**2 / (NATS * gaps.shape[1]))
    x = np.arange(-math.ceil(GAUSSIAN_REACH / step), math.ceil(GAUSSIAN_REACH / step) + 1) * step
    weights = step * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    own = np.arange(gaps.shape[1]) == labels[:, None]

    def of_rows(rows: slice) -> Floats:
        below = np.where(own[rows, None, :], 0.0, log_ndtr(x[:, None] + gaps[rows, None, :]))
        found: Floats = np.exp(below.sum(axis=2)) @ weights
        return found

    return _by_rows(of_rows, len(gaps), len(x) * gaps.shape[1])


def _laplace(gaps: Floats, labels: Integers) -> Floats:
    """Gauss-Legendre rules with 16 nodes, between the corners of the integrand and at most one scale long.

    Such a rule errs by at most 64/15 times the panel's half-length times 4^-32/(1 - 4^-2) times the bound of the
    integrand on the ellipse that reaches 9/16 of a scale beyond the panel and 15/16 to either side of the line
    (Trefethen 2019, Thm 19.3). There no distribution function exceeds 1 in modulus, and the density not e^{9/16} times
    its largest value on the panel.
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    grid = np.arange(-LAPLACE_REACH, LAPLACE_REACH + 1.0)
    own = np.arange(gaps.shape[1]) == labels[:, None]

    def of_rows(rows: slice) -> Floats:
        corners = np.clip(-gaps[rows], -LAPLACE_REACH, LAPLACE_REACH)
        edges = np.sort(np.concatenate([np.broadcast_to(grid, (len(corners), len(grid))), corners], axis=1), axis=1)
        half = np.diff(edges, axis=1)[:, :, None] / 2
        x = edges[:, :-1, None] + half * (1 + nodes)
        power, below = np.exp(x), np.ones_like(x)
        for j in range(gaps.shape[1]):
            shifted = power * np.exp(np.clip(gaps[rows, j], -100, 100))[:, None, None]
            # e^y/2 below 0, 1 - e^-y/2 above
            cdf = np.where(shifted < 1, shifted / 2, 1 - 0.5 / shifted)
            below *= np.where(own[rows, j, None, None], 1.0, cdf)
        found: Floats = (below * np.minimum(power, 1 / power) / 2 * half * weights).sum(axis=(1, 2))
        return found

    return _by_rows(of_rows, len(gaps), 4 * 16 * (2 * LAPLACE_REACH + gaps.shape[1]))


def _discrete(distribution: str, scale: float, gaps: Floats, labels: Integers) -> Floats:
    """The sum over values of the label's own noise; a class below it in order must stay below, others may tie."""
    if scale > LARGEST_DISCRETE:
        raise ac.ParameterError(f"discrete noise of scale {scale:g}; accepted: at most {LARGEST_DISCRETE:g}")
    chances, cumulative = _discrete_noise(distribution, scale)
    reach = len(chances) // 2
    x = np.arange(-reach, reach + 1.0)
    column = np.arange(gaps.shape[1])

    def of_rows(rows: slice) -> Floats:
        below = np.ones((len(labels[rows]), len(x)))
        for j in column:
            shifted = x + gaps[rows, j, None]
            last = np.where(j < labels[rows, None], np.ceil(shifted) - 1, np.floor(shifted))
            at = np.clip(last, -reach - 1, reach).astype(np.int64) + reach + 1
            below *= np.where(j == labels[rows, None], 1.0, cumulative[at])
        found: Floats = below @ chances
        return found

    return _by_rows(of_rows, len(gaps), 8 * len(x))


@lru_cache(maxsize=16)
def _discrete_noise(distribution: str, scale: float) -> tuple[Floats, Floats]:
    """Probabilities of -R..R, and their sums up to -R - 1, -R, ..., R."""
    beyond = GAUSSIAN_REACH if distribution == "gaussian" else LAPLACE_REACH
    x = np.arange(-math.ceil(beyond * scale) - 1, math.ceil(beyond * scale) + 2.0)
    sizes = np.exp(-(x**2) / (2 * scale**2) if distribution == "gaussian" else -np.abs(x) / scale)
    chances = sizes / math.fsum(sizes)
    return chances, np.minimum(np.concatenate([[0.0], np.cumsum(chances)]), 1.0)


def winning_probability(chances: Floats, first: Integers, labels: Integers) -> Floats:
    """The probability that a label has the largest of c independent integers, ties going to the lower label.

    Parameters
    ----------
    chances : array of shape (m, c, w)
        Probabilities of the values ``first, first + 1, ...`` of each integer.
    first : array of shape (m, c)
    labels : array of shape (m,)
    """
    m, classes, width = chances.shape
    cumulative = np.concatenate([np.zeros((m, classes, 1)), np.cumsum(chances, axis=2)], axis=2)
    rows = np.arange(m)
    own, start = chances[rows, labels], first[rows, labels]
    values = start[:, None] + np.arange(width)
    below = np.ones((m, width))
    for j in range(classes):
        # values up to `last` are below: all that tie count for higher labels only
        last = values - np.less(j, labels)[:, None]
        at = np.clip(last - first[:, j, None] + 1, 0, width)
        below *= np.where(np.equal(j, labels)[:, None], 1.0, np.take_along_axis(cumulative[:, j], at, axis=1))
    found: Floats = np.minimum((below * own).sum(axis=1), 1.0)
    return found


def _by_rows(of_rows: Callable[[slice], Floats], count: int, width: int) -> Floats:
    """Results of blocks of rows, each of which holds `width` numbers for a row."""
    size = max(NUMBERS // max(width, 1), 1)
    blocks = [of_rows(slice(start, min(start + size, count))) for start in range(0, count, size)]
    return np.concatenate(blocks) if blocks else np.empty(0)


# --- arguments -------------------------------------------------------------------------------------------


def _read_numbers(name: str, values: object) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ac.ParameterError(f"{name} = {ac.shorten(values)}; accepted: numbers") from None


def _read_votes(votes: object) -> tuple[Floats, bool]:
    """Votes as a table, and whether they were one row."""
    table = _read_numbers("votes", votes)
    if table.ndim not in (1, 2) or table.shape[-1] == 0:
        raise ac.ParameterError(f"votes have shape {table.shape}; accepted: (c,) or (m, c), a number for each class")
    if not (np.abs(table) <= 1e12).all():
        raise ac.ParameterError("votes are not all in range; accepted: numbers in [-1e+12, 1e+12]")
    return np.atleast_2d(table), table.ndim == 1


def _read_labels(labels: object, table: Floats) -> Integers:
    if labels is None:
        plurality: Integers = table.argmax(axis=1).astype(np.int64)
        return plurality
    given = np.asarray(labels)
    rows, classes = table.shape
    if given.dtype.kind not in "iu" or given.shape not in ((), (rows,)):
        accepted = f"an integer, or integers of shape ({rows},)"
        raise ac.ParameterError(f"labels = {ac.shorten(labels)}; accepted: {accepted}")
    if given.size and not (given.min() >= 0 and given.max() < classes):
        raise ac.ParameterError(f"labels = {ac.shorten(labels)}; accepted: 0..{classes - 1}")
    found: Integers = np.broadcast_to(given, rows).astype(np.int64)
    return found
