"""Tails of binomial counts to nearly all digits, also of a few among very many trials.

Continued fractions for the incomplete beta function lose up to eight digits there.
"""

from __future__ import annotations

import math

from accountant.numerics.kernel import Kernel
from accountant.numerics.special import log_binomial_pmf

__all__ = ["log_binomial_tails"]


def log_binomial_tails(n: int, k: int, p: float) -> tuple[float, float]:
    """log P(X < k) and log P(X >= k) of X ~ Bin(n, p), 0 < p < 1.

    The tail that does not hold the mean is summed, from k on outwards; the other one is what it leaves.
    """
    if not 0 < k <= n:
        return (-math.inf, 0.0) if k <= 0 else (0.0, -math.inf)
    if k > n * p:
        above = sum_outwards(float(n), float(k), p, 1.0)
        return math.log(-math.expm1(above)), above
    below = sum_outwards(float(n), k - 1.0, p, -1.0)
    return below, math.log(-math.expm1(below))


@Kernel
def sum_outwards(n: float, k: float, p: float, way: float) -> float:
    """log of the sum of P(X = k), P(X = k + way), ..., which fall from the first on.

    Each follows from the one before, and every 256th is computed anew, so that roundings do not add up.
    """
    log_first, odds = log_binomial_pmf(n, k, p), p / (1.0 - p)
    total, term, steps = 0.0, 1.0, 0
    while term > 1e-18 * total:
        total += term
        if k == (n if way > 0.0 else 0.0):
            break
        term *= (n - k) / (k + 1.0) * odds if way > 0.0 else k / (n - k + 1.0) / odds
        k += way
        steps += 1
        if steps % 256 == 0:
            term = math.exp(log_binomial_pmf(n, k, p) - log_first)
    return log_first + math.log(total)
