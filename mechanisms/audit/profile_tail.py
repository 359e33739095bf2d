"""How many of the guesses of a one-run audit can be right under a whole privacy profile (f-DP)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["profile_tail"]

PRECISION = 1e-10
"""To which the probability is found, from above."""

ROUNDING = 1e-9
"""Relative; far above what the sums over at most 10^7 guesses err."""


def profile_tail(
    correct: int, guesses: int, records: int, epsilons: NDArray[np.float64], deltas: NDArray[np.float64]
) -> float:
    """The most that P[at least so many correct guesses] can be, if ``P <= e^eps Q + delta(eps)`` for all these eps.

    Parameters
    ----------
    correct, guesses, records : int
        v, r and m.
    epsilons, deltas : array of shape (k,)
        Points of the profile, of the worse direction; epsilons of either sign.

    Notes
    -----
    After Mahloujifar, Melis & Chaudhuri 2024 (arXiv 2410.22235); the proof is given here, and does not rest on theirs.

    Let the bits S_1..S_m be fair and independent, all guesses a function of the output O, r of them in number, and p_i
    the probability that exactly i are correct. For a set T of numbers and a record j, let E be the set of outputs that
    guess j, rightly for the bits s, with a total of correct guesses in T. With the bit j turned, the same outputs guess
    j wrongly, and their total is one less. The profile says P_s[E] <= F(P_s'[E]), F(x) = min_k e^eps_k x + delta_k,
    where s' is s with that bit turned. Now average over s and j: s' is as uniform as s, and F is concave (Jensen), so

        sum_{i in T} (i/m) p_i  <=  F( sum_{i in T} ((r - i + 1)/m) p_{i-1} ).

    Let A_i = sum_{l >= i} (l/m) p_l and H_i = sum_{l >= i} ((r - l)/m) p_l. For T = {i+1, .., r} this is
    A_{i+1} <= F(H_i), that is ``H_i >= G(A_{i+1})``, G(y) = max_k e^-eps_k (y - delta_k), besides H_i >= H_{i+1} and

        A_i = A_{i+1} + i/(r - i) (H_i - H_{i+1}),    A_0 + H_0 = (r/m) sum_i p_i <= r/m.

    Suppose that the tail is tau. Then A_v + H_v = tau r/m with A_v >= tau v/m. Going down from v, the least A_0 + H_0
    belongs to A_v = tau v/m and to the least H_i at every step: more of A_v, or of any H_i, raises all that follows,
    since i/(r - i) falls with i. Where that least sum is above r/m, no mechanism has the tail tau. The sum grows with
    tau, so the largest tau that is left is found by bisection.
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
            if right + wrong > guesses / records * (1 + ROUNDING):
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
