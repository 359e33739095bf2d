"""Audits by one run (`audit_one_run`): many records, each included or not, are guessed from the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import betainc, gammaln

import accountant as ac
from mechanisms.arrays import Booleans, Floats, Integers
from mechanisms.audit.bound import LowerBound, check_mechanism, generator_of
from mechanisms.audit.profile_tail import profile_tail
from mechanisms.validation import check_count, check_real

__all__ = ["OneRunAudit", "audit_one_run", "one_run_tail"]

LARGEST_EPSILON = 60.0
"""End of the search: no number of guesses that fits into memory proves a larger epsilon."""

LEAST_STEP = 1e-6
"""Least step of the search for the bound, which is at most this much too low."""

GRID = tuple(0.05 * 1.1**step for step in range(56))
"""Values of epsilon, 0.05 to 9.5, at which a whole profile is compared with the guesses."""

MOST_TOGETHER = 20_000
"""Most guesses that are compared with all points of a profile together, since the time grows with their number."""


@dataclass(frozen=True)
class OneRunAudit(LowerBound):
    """A lower bound on epsilon from one run, and its evidence; ``float(audit)`` is the bound.

    Attributes
    ----------
    epsilon_lower : float
        With probability at least `confidence` over records and run, no (epsilon, delta)-DP guarantee below it is true.
    correct, guesses : int
        Number of correct guesses, and of all guesses.
    records : int
        Number of canaries, each of which was included with probability 1/2.
    delta, confidence : float
    """

    epsilon_lower: float
    correct: int
    guesses: int
    records: int
    delta: float
    confidence: float

    def _describe_evidence(self) -> str:
        return f"{self.correct} of {self.guesses} guesses correct, {self.records} records, one run"

    def p_value(self, promise: ac.Event | ac.Composition) -> float:
        """Bound on the probability of at least this many correct guesses if a promise is true.

        A small value, below 0.05 say, refutes the promise. A promise with a privacy profile is (epsilon,
        delta(epsilon))-DP for every epsilon at once. So the tail of the number of correct guesses is below
        `one_run_tail` for every epsilon, below `profile_tail`, which uses all of them together, and below the least of
        these bounds. If v is the least number of correct guesses for which the least bound is at most alpha, then it is
        at most alpha with probability at most P[at least v correct] <= alpha. So choosing the best bound afterwards
        costs no confidence. Values of epsilon from 0.05 to 9.5 are tried, all together for up to 20 000 guesses, which
        takes a second.

        Parameters
        ----------
        promise : Event or Composition
            The promised price of one record under the adjacency of the audit.
        """
        deltas = [ac.delta(promise, epsilon, method="renyi").delta for epsilon in GRID]
        counts = self.correct, self.guesses, self.records
        tails = [one_run_tail(*counts, epsilon, delta) for epsilon, delta in zip(GRID, deltas, strict=True)]
        # the profile H at negative epsilons: H_-e(P||Q) = 1 - e^-e + e^-e H_e(Q||P)
        epsilons = np.array([-each for each in GRID[::-1]] + list(GRID))
        others = [-math.expm1(-e) + math.exp(-e) * delta for e, delta in zip(GRID, deltas, strict=True)]
        if self.guesses > MOST_TOGETHER:
            return min(tails)
        return min(*tails, profile_tail(*counts, epsilons, np.array(others[::-1] + deltas)))


def audit_one_run(
    mechanism: Callable[[Booleans, np.random.Generator], Any],
    *,
    records: int,
    guesses: int,
    delta: float,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
) -> OneRunAudit:
    """Lower confidence bound on the epsilon of a mechanism at a given delta, from a single run.

    For mechanisms that take many records: a fair coin decides for each canary whether it is included, the mechanism
    runs once, and the auditor guesses from its outputs which canaries were included (Steinke, Nasr & Jagielski 2023).

    Parameters
    ----------
    mechanism : callable
        ``mechanism(included, rng) -> scores``: runs once with the marked canaries, besides any records that are always
        included, and returns a number for each canary: positive if the outputs say that it was included, negative if
        not, and farther from 0 the more certain; best a log likelihood ratio (see `mechanisms.audit.likelihood`).
        Scores may depend on `included` only through the outputs.
    records : int
        m, the number of canaries.
    guesses : int
        r in [1, m], fixed before the run: the r scores farthest from 0 become guesses, and the auditor abstains from
        the others.
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
    Assumptions: the coins S_1..S_m are fair and independent of each other and of the mechanism's randomness; the
    outputs O are (epsilon, delta)-DP for one canary more or less; guesses are a function of O. Records that are always
    included may be anything. Under replacement, an excluded canary is replaced by a record fixed beforehand.

    The bound (notebooks/mathematics.md, Audits). Let x_i be the probability that guess i is correct given O and
    S_1..S_{i-1}. Let p and q be the densities of O given S_1..S_{i-1} and S_i = 1 or 0; averaged over the later coins
    they are also (epsilon, delta)-close (joint convexity). By Bayes, the guess S_i = 1 has ``x_i = p/(p + q)``, and
    with ``c = e^eps/(1 + e^eps)``

        E[max(x_i - c, 0)] <= 1/2 int max(p - c (p + q), 0) + 1/2 int max(q - c (p + q), 0)
        = (int max(p - e^eps q, 0) + int max(q - e^eps p, 0)) / (2 (1 + e^eps))
        <= delta / (1 + e^eps),

    where every output is in only one of the two integrals, since it leads to one guess. Draw U_i uniform and
    independent, and let guess i be correct if U_i <= x_i, B_i = [U_i <= c], N_i = [c < U_i <= x_i]. Then the number
    of correct guesses is ``W <= B + N``. B, the sum of B_i over the r guesses, is Binomial(r, c) for every O, as r is
    fixed, and N is a number in 0, 1, .. with ``E[N] <= eta = m delta / (1 + e^eps)``. For any joint distribution of B
    and N,

        P[W >= v] <= P[B >= v] + sum_i P[B = v - i and N >= i],   sum_i i P[B = v - i and N >= i] <= eta,

    which is largest if eta is spent on the smallest i first (a fractional knapsack): `one_run_tail`. For delta = 0 it
    is the binomial tail. Steinke, Nasr & Jagielski (2023, Thm 5.2) bound the same tail; the bound here has its own
    proof, above.

    The search. The bound is the least epsilon whose tail is above ``1 - confidence``: if the true epsilon were below
    it, an event of probability at most ``1 - confidence`` would have happened. A step from a to b refutes every epsilon
    in between if the tail with c at b and eta at a, which is at least as large as any of theirs, is small enough.
    """
    check_mechanism(mechanism, "included", "rng")
    m = check_count("records", records, 1, 10**7)
    r = check_count("guesses", guesses, 1, m)
    delta = check_real("delta", delta, "[0, 1)", lambda value: 0 <= value < 1)
    confidence = check_real("confidence", confidence, "(0, 1)", lambda value: 0 < value < 1)
    generator = generator_of(rng)
    included = generator.random(m) < 0.5
    scores = _check_scores(mechanism(included.copy(), generator), m)
    # equal scores are ranked at random: their order must not depend on what was included
    ranked = np.lexsort((generator.random(m), -np.abs(scores)))[:r]
    correct = int(np.count_nonzero((scores[ranked] > 0) == included[ranked]))
    return OneRunAudit(_search_bound(correct, r, m, delta, confidence), correct, r, m, delta, confidence)


def one_run_tail(correct: int, guesses: int, records: int, epsilon: float, delta: float) -> float:
    """Largest P[at least `correct` correct guesses] under (epsilon, delta)-DP; proof in `audit_one_run`.

    Parameters
    ----------
    correct, guesses, records : int
        v, r and m.
    epsilon, delta : float
    """
    return _bound_tail(correct, guesses, _share(epsilon), records * delta / (1 + math.exp(epsilon)))


def _share(epsilon: float) -> float:
    """e^eps/(1 + e^eps): the largest chance of a correct guess under eps-DP."""
    return 1 / (1 + math.exp(-epsilon))


def _bound_tail(correct: int, guesses: int, share: float, excess: float) -> float:
    """P[B >= v] for the binomial B, plus what `excess` further correct guesses on average can add."""
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


def _binomial(hits: Integers, trials: int, share: float) -> Floats:
    """P[Binomial(trials, share) = hits]."""
    ways = gammaln(trials + 1) - gammaln(hits + 1) - gammaln(trials - hits + 1)
    chances: Floats = np.exp(ways + hits * math.log(share) + (trials - hits) * math.log1p(-share))
    return chances


@lru_cache(maxsize=1024)
def _search_bound(correct: int, guesses: int, records: int, delta: float, confidence: float) -> float:
    """The least epsilon that is not refuted, to within LEAST_STEP and from below."""
    alpha = 1 - confidence

    def excess(epsilon: float) -> float:
        return records * delta / (1 + math.exp(epsilon))

    if _bound_tail(correct, guesses, 0.5, excess(0.0)) > alpha:
        return 0.0
    low, step = 0.0, 1.0
    while step > LEAST_STEP and low < LARGEST_EPSILON - 1:
        if _bound_tail(correct, guesses, _share(low + step), excess(low)) <= alpha:
            low += step
        else:
            step /= 2
    return low


def _check_scores(scores: Any, m: int) -> Floats:
    try:
        checked = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise ac.ParameterError(f"mechanism returned {ac.shorten(scores)}; accepted: {m} scores, numbers") from None
    if checked.shape != (m,) or np.isnan(checked).any():
        raise ac.ParameterError(f"mechanism returned scores of shape {checked.shape}; accepted: ({m},), none nan")
    return checked
