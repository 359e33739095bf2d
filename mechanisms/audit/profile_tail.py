"""How many guesses of a one-run audit can be correct under a whole privacy profile (f-DP)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["profile_tail"]

PRECISION = 1e-10
"""Relative precision of the probability, from above."""

SUM_MARGIN = 1e-9
"""Relative margin, far above the rounding error of sums over at most 10^7 guesses."""


def profile_tail(
    correct: int, guesses: int, records: int, epsilons: NDArray[np.float64], deltas: NDArray[np.float64]
) -> float:
    """Largest P[at least `correct` correct guesses] if ``P <= e^eps Q + delta(eps)`` for all these eps.

    Parameters
    ----------
    correct, guesses, records : int
        v, r and m.
    epsilons, deltas : array of shape (k,)
        Points of the profile, for the worse direction; epsilons of either sign.

    Notes
    -----
    After Mahloujifar, Melis & Chaudhuri 2024, with a proof of its own (notebooks/mathematics.md, Audits).

    Let the bits S_1..S_m be fair and independent, the r guesses a function of the output O, and p_i the probability
    that exactly i guesses are correct. For a set T of numbers and a record j, let E be the set of outputs that guess j
    correctly for the bits s and have a number of correct guesses in T. If bit j is flipped, the same outputs guess j
    wrongly, and their number of correct guesses is one less. The profile says P_s[E] <= F(P_s'[E]) with F(x) =
    min_k e^eps_k x + delta_k, where s' is s with that bit flipped. Average over s and j: s' is uniform like s, and F is
    concave (Jensen), so

        sum_{i in T} (i/m) p_i  <=  F( sum_{i in T} ((r - i + 1)/m) p_{i-1} ).

    Let A_i = sum_{l >= i} (l/m) p_l and H_i = sum_{l >= i} ((r - l)/m) p_l. For T = {i+1, .., r} this is
    A_{i+1} <= F(H_i), that is ``H_i >= G(A_{i+1})`` with G(y) = max_k e^-eps_k (y - delta_k). Also H_i >= H_{i+1} and

        A_i = A_{i+1} + i/(r - i) (H_i - H_{i+1}),    A_0 + H_0 = (r/m) sum_i p_i <= r/m.

    Suppose that the tail is tau. Then A_v + H_v = tau r/m with A_v >= tau v/m. Going down from v, A_0 + H_0 is least
    for A_v = tau v/m and the least H_i at every step: a larger A_v or H_i increases all values that follow, as
    i/(r - i) increases with i. If that least sum is above r/m, no mechanism has the tail tau. The sum increases with
    tau, so bisection finds the largest possible tau.
    """
    if correct <= 0:
        return 1.0
    scales = np.exp(-epsilons)

    def possible(tail: float) -> bool:
        right, wrong = tail * correct / records, tail * (guesses - correct) / records
        for i in range(correct - 1, -1, -1):
            more = max(wrong, float(np.max(scales * (right - deltas))))
            right += i / (guesses - i) * (more - wrong)
            wrong = more
            if right + wrong > guesses / records * (1 + SUM_MARGIN):
                return False
        return True

    low, high = 0.0, 1.0
    if possible(high):
        return 1.0
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if possible(middle) else (low, middle)
        if high < 1e-12:
            break
    return high
