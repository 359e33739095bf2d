"""What a round of shuffled reports of a very large crowd costs at least, by the central limit theorem.

Where all others have one input, of report R, the hockey-stick divergence is E (Y_1 + ... + Y_n)_+/n exactly, with
independent Y = (P0 - u P1)/R at R's report (Balle et al. 2019, Lemma 5.3), of mean 1 - u, deviation d and third
absolute central moment r. (x)_+ rises no faster than x, and in the mean of |F - Phi| the standardised sum is at most
r/(d^3 sqrt(n)) from a normal variable Z (Goldstein 2010, Thm 1.1):

    H(u) >= d/sqrt(n) (E (Z - x)_+ - r/(d^3 sqrt(n))),   x = sqrt(n) (u - 1)/d.

Sums of scores (`accountant.events.shuffled_below`) lose all their digits in crowds of about 1e10 users.
"""

from __future__ import annotations

import math

import numpy as np

from accountant.events.shuffled_attacks import Attack
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import erfcx

__all__ = ["MANY_USERS", "log_normal_delta"]

MANY_USERS = 10**7
"""Users from which the bound is computed: in smaller crowds sums of scores say more."""

ROUNDING = 1e-9
"""Relative, of all terms."""

FARTHEST = 12.0
"""Deviations beyond which nothing is known: the distance from a normal variable is more than is left there."""


def log_normal_delta(attack: Attack, users: int, epsilons: FloatArray) -> FloatArray:
    """Logs of a lower bound on H(e^epsilon) at all epsilons."""
    kept = attack.others > 0.0
    first, second, others = (each[kept] for each in attack[:3])
    found = np.full(epsilons.shape, -math.inf)
    if float(attack.first[~kept].sum() + attack.second[~kept].sum()) > 0.0:
        return found
    with np.errstate(over="ignore"):
        ratios, others = np.stack([first / others, second / others], axis=1), others / others.sum()
    for i, epsilon in enumerate(epsilons.tolist()):
        if not 0.0 <= epsilon < 1.0:
            continue
        away = math.expm1(epsilon)
        # less their mean
        with np.errstate(over="ignore", invalid="ignore"):
            values = ratios[:, 0] - ratios[:, 1] - away * (ratios[:, 1] - 1.0)
        largest = float(np.max(np.abs(values)))
        if not 0.0 < largest < math.inf:
            continue
        values /= largest  # their squares and cubes may be too large for a number
        with np.errstate(under="ignore"):
            deviation, third = math.sqrt(float(others @ values**2)), float(others @ np.abs(values) ** 3)
        if not third > 1e-290:
            continue
        x = math.sqrt(users) * away / deviation / largest * (1.0 + ROUNDING)
        if x < FARTHEST:
            hazard = 1.0 - x * math.sqrt(math.pi / 2.0) * float(erfcx(x / math.sqrt(2.0)))
            left = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * hazard * (1.0 - ROUNDING)
            left -= third / deviation / deviation / deviation / math.sqrt(users) * (1.0 + ROUNDING)
            # probabilities that are off by a share of themselves change the mean of |Y| by no more than this
            total = deviation * largest / math.sqrt(users) * left * (1.0 - ROUNDING) - 16.0 * attack.accuracy * (
                2.0 + away
            )
            if total > 0.0:
                found[i] = math.log(total)
    return found
