"""One-run audits: many records, each there or not, and how many of them the outputs of a single run give away."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln

import accountant as ac
from mechanisms.audit.paired import generator_of
from mechanisms.audit.profile_tail import profile_tail
from mechanisms.validation import check_count, check_real, shorten

__all__ = ["OneRunAudit", "audit_one_run", "one_run_tail"]

FloatArray: TypeAlias = NDArray[np.float64]

LARGEST = 60.0
"""Largest epsilon looked at: no number of guesses that fits into memory shows more."""

STEP = 1e-6
"""Least step of the search for the bound, which is too low by at most so much."""

GRID = tuple(0.05 * 1.1**step for step in range(56))
"""Values of epsilon at which a whole profile is held against the guesses: 0.05 to 9.5."""

MOST_TOGETHER = 20_000
"""Most guesses that are held against all points of a profile together: the time grows with their number."""


@dataclass(frozen=True)
class OneRunAudit:
    """A lower bound on epsilon from one run and the evidence for it; ``float(audit)`` is the bound.

    Attributes
    ----------
    epsilon_lower : float
        With probability at least `confidence` over records and run, no (epsilon, delta)-DP guarantee below it is true.
    correct, guesses : int
        Guesses that were right, and how many were made.
    records : int
        Canaries, each of which was there with probability 1/2.
    delta, confidence : float
    """

    epsilon_lower: float
    correct: int
    guesses: int
    records: int
    delta: float
    confidence: float

    def __float__(self) -> float:
        return self.epsilon_lower

    def __str__(self) -> str:
        return (
            f"epsilon >= {math.floor(self.epsilon_lower * 1e4) / 1e4:g} at delta {self.delta:g}, confidence "
            f"{self.confidence:g} ({self.correct} of {self.guesses} guesses correct, {self.records} records, one run)"
        )

    def p_value(self, promise: ac.Event | ac.Composition) -> float:
        """How probable so many correct guesses are at most, if a whole promise is true; below 0.05 it is refuted.

        A promise with a privacy profile is (epsilon, delta(epsilon))-DP for every epsilon at once: the tail has all
        those bounds (`one_run_tail`), and one that uses all of them together (`profile_tail`), so the least of them is
        one. With v the least number of correct guesses at which it is at most alpha, it is so with probability at most
        P[at least v correct] <= alpha. Which bound is best may therefore be chosen afterwards, at no cost in
        confidence; epsilons from 0.05 to 9.5 are tried, all together for up to 20 000 guesses, which takes a second.

        Parameters
        ----------
        promise : Event or Composition
            What is said that one record costs under the adjacency of the audit.
        """
        deltas = [ac.delta(promise, epsilon).delta for epsilon in GRID]
        counts = self.correct, self.guesses, self.records
        tails = [one_run_tail(*counts, epsilon, delta) for epsilon, delta in zip(GRID, deltas, strict=True)]
        # H_-e(P||Q) = 1 - e^-e + e^-e H_e(Q||P): the profile at the other side of 0
        epsilons = np.array([-each for each in GRID[::-1]] + list(GRID))
        others = [-math.expm1(-e) + math.exp(-e) * delta for e, delta in zip(GRID, deltas, strict=True)]
        if self.guesses > MOST_TOGETHER:
            return min(tails)
        return min(*tails, profile_tail(*counts, epsilons, np.array(others[::-1] + deltas)))


def audit_one_run(
    mechanism: Callable[[NDArray[np.bool_], np.random.Generator], Any],
    *,
    records: int,
    guesses: int,
    delta: float,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
) -> OneRunAudit:
    """Lower confidence bound on the epsilon of a mechanism at a given delta, from a single run.

    For mechanisms that take many records: each canary is put in or left out by a coin of its own, the mechanism runs
    once, and its outputs are asked which canaries were there (Steinke, Nasr & Jagielski 2023).

    Parameters
    ----------
    mechanism : callable
        ``mechanism(included, rng) -> scores``: runs once with the canaries that are marked, besides whatever records
        are always there, and returns a number for each canary: positive where its outputs say that it was there,
        negative where not, and the farther from 0 the surer; best a log likelihood ratio (see
        `mechanisms.audit.likelihood`). Scores may use the outputs alone, and must not look at `included`.
    records : int
        m, canaries.
    guesses : int
        r, in [1, m]: the scores farthest from 0 become guesses, from all others the auditor abstains. It is fixed
        before the run.
    delta : float
        In [0, 1).
    confidence : float
        In (0, 1).
    rng : Generator, int or None
        None for system entropy.

    Raises
    ------
    accountant.ParameterError
        A value is out of range, or scores are not m numbers.

    Notes
    -----
    Assumptions: the coins S_1..S_m are fair and independent of each other and of whatever the mechanism draws; the
    outputs O are (epsilon, delta)-DP for one canary more or less; guesses are a function of O. Records that are always
    there may be anything. Under replacement, a canary that is left out is replaced by a record fixed beforehand.

    The bound. Let x_i be the probability that guess i is correct given O and S_1..S_{i-1}. Let p and q be the
    densities of O given S_1..S_{i-1} and S_i = 1 or 0; averaged over the later coins they are (epsilon, delta)-close,
    too (joint convexity). By Bayes, the guess S_i = 1 has ``x_i = p/(p + q)``, and with ``c = e^eps/(1 + e^eps)``

        E[max(x_i - c, 0)] <= 1/2 int max(p - c (p + q), 0) + 1/2 int max(q - c (p + q), 0)
        = (int max(p - e^eps q, 0) + int max(q - e^eps p, 0)) / (2 (1 + e^eps))
        <= delta / (1 + e^eps),

    where every output is in one of the two integrals only, as only one guess is made of it. Draw U_i uniform and
    independent, and let guess i be correct where U_i <= x_i, B_i = [U_i <= c], N_i = [c < U_i <= x_i]. Then the number
    of correct guesses is ``W <= B + N``: B, the sum of B_i over the r guesses, is Binomial(r, c) whatever O is, as r is
    fixed, and N is a number in 0, 1, .. with ``E[N] <= eta = m delta / (1 + e^eps)``. Whatever the two have to do with
    each other,

        P[W >= v] <= P[B >= v] + sum_i P[B = v - i and N >= i],   sum_i i P[B = v - i and N >= i] <= eta,

    which is largest where eta is spent on the smallest i first (a fractional knapsack): `one_run_tail`. For delta = 0
    it is the binomial tail. Steinke, Nasr & Jagielski (2023, Thm 5.2) bound the same tail; this bound is the one that
    is derived here, and does not rest on theirs.

    The search. The bound is the least epsilon whose tail is above ``1 - confidence``: if the true epsilon were below
    it, an event of probability at most ``1 - confidence`` would have happened. A step from a to b refutes all between
    where the tail with c of b and eta of a, which is at least as large as theirs, does.
    """
    if not callable(mechanism):
        raise ac.ParameterError(f"mechanism = {shorten(mechanism)}; accepted: a callable")
    m = check_count("records", records, 1, 10**7)
    r = check_count("guesses", guesses, 1, m)
    delta = check_real("delta", delta, "[0, 1)", lambda value: 0 <= value < 1)
    confidence = check_real("confidence", confidence, "(0, 1)", lambda value: 0 < value < 1)
    generator = generator_of(rng)
    included = generator.random(m) < 0.5
    scores = _check_scores(mechanism(included.copy(), generator), m)
    # scores that are equal are ranked by a coin: their order must not depend on what was included
    ranked = np.lexsort((generator.random(m), -np.abs(scores)))[:r]
    correct = int(np.count_nonzero((scores[ranked] > 0) == included[ranked]))
    return OneRunAudit(_bound(correct, r, m, delta, confidence), correct, r, m, delta, confidence)


def one_run_tail(correct: int, guesses: int, records: int, epsilon: float, delta: float) -> float:
    """The most that P[at least so many correct guesses] can be under (epsilon, delta)-DP; proof in `audit_one_run`.

    Parameters
    ----------
    correct, guesses, records : int
        v, r and m.
    epsilon, delta : float
    """
    return _tail(correct, guesses, _share(epsilon), records * delta / (1 + math.exp(epsilon)))


def _share(epsilon: float) -> float:
    """e^eps/(1 + e^eps): the largest chance of a correct guess under eps-DP."""
    return 1 / (1 + math.exp(-epsilon))


def _tail(correct: int, guesses: int, share: float, excess: float) -> float:
    """P[B >= v], and what `excess` correct guesses beyond B, on average, can add."""
    if correct <= 0:
        return 1.0
    tail = float(betainc(correct, guesses - correct + 1, share))
    if excess > 0.0:
        below = np.arange(correct - 1, -1, -1)
        chances = _binomial(below, guesses, share)
        missing = correct - below
        spent = np.cumsum(missing * chances)
        whole = int(np.searchsorted(spent, excess))
        tail += float(chances[:whole].sum())
        if whole < len(below):
            tail += (excess - (float(spent[whole - 1]) if whole else 0.0)) / int(missing[whole])
    return min(tail, 1.0)


def _binomial(hits: NDArray[np.int64], trials: int, share: float) -> FloatArray:
    """P[Binomial(trials, share) = hits]."""
    ways = gammaln(trials + 1) - gammaln(hits + 1) - gammaln(trials - hits + 1)
    chances: FloatArray = np.exp(ways + hits * math.log(share) + (trials - hits) * math.log1p(-share))
    return chances


@lru_cache(maxsize=1024)
def _bound(correct: int, guesses: int, records: int, delta: float, confidence: float) -> float:
    """The least epsilon that is not refuted, to within STEP and from below."""
    alpha = 1 - confidence

    def excess(epsilon: float) -> float:
        return records * delta / (1 + math.exp(epsilon))

    if _tail(correct, guesses, 0.5, excess(0.0)) > alpha:
        return 0.0
    low, step = 0.0, 1.0
    while step > STEP and low < LARGEST - 1:
        if _tail(correct, guesses, _share(low + step), excess(low)) <= alpha:
            low += step
        else:
            step /= 2
    return low


def _check_scores(scores: Any, m: int) -> FloatArray:
    try:
        checked = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise ac.ParameterError(f"mechanism returned {shorten(scores)}; accepted: {m} scores, numbers") from None
    if checked.shape != (m,) or np.isnan(checked).any():
        raise ac.ParameterError(f"mechanism returned scores of shape {checked.shape}; accepted: ({m},), none nan")
    return checked
