"""Flooding: pairs of a +1 and a -1 that cancel, so that a shuffler's output hides how many there are of either.

Messages that are only shuffled show, for every count, how many say +1 and how many say -1. Noise that is a difference
of two geometric variables hides their difference alone: without a single +1 the true count is 0 for certain. So users
also send pairs, Z3 of them in all for each count (Ghazi et al. 2020): what is seen is
``U = t + Z1 + Z3`` and ``V = Z2 + Z3``, with Z1, Z2 geometric, ``P(z+1) = e^(-1/b) P(z)``, and Z3 negative binomial.

Price of one count that moves from t to t + 1. Let eta = `Flood.epsilon`, and a the smallest number >= 1 with
``P3(z) <= e^eta P3(z-1)`` for all z >= a.

* U of t + 1 against U of t: Z1 one less, so every term grows by at most e^(1/b): pure DP at 1/b.
* U of t against U of t + 1: write Z3 = z + 1 instead of z, and Z2 one less. Terms with z + 1 >= a are at most
  e^(1/b + eta) times as large; the rest of P has mass P(Z3 < a) = `Flood.delta`.

So the count is (1/b + eta, delta)-DP in one direction, (1/b, 0)-DP in the other, and dominated by randomized response
at 1/b + eta that besides tells everything with probability delta (Kairouz, Oh & Viswanath 2015, Thm 3.3). A replaced
record moves c counts up and c down: together that is randomized response on 2c bits, and c delta on top. That is a
bound, not the exact price: most losses are far below 1/b + eta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betainc

import accountant as ac
from mechanisms.validation import checked_positive, checked_real

__all__ = ["LARGEST_SCALE", "Flood", "flood_for"]

LARGEST_SCALE = 2e4
"""Largest 1/log(1/ratio) of negative binomials whose parts are tabulated."""

MARGIN = 1 + 1e-9
"""Room for the rounding of an incomplete beta function."""


@dataclass(frozen=True)
class Flood:
    """Pairs for each count, over all users that must take part: negative binomial, ``P(z) = C(z+r-1, z) (1-x)^r x^z``.

    Parameters
    ----------
    epsilon : float
        eta, what the pairs add to the price of a count that moves, in nats; (0, 500].
    shape : float
        r; above 0.
    ratio : float
        x; [1e-9, exp(-1/2e4)].
    """

    epsilon: float
    shape: float
    ratio: float

    def __post_init__(self) -> None:
        checked_real("epsilon", self.epsilon, "(0, 500]", lambda number: 0 < number <= 500)
        checked_positive("shape", self.shape)
        most = math.exp(-1 / LARGEST_SCALE)
        checked_real("ratio", self.ratio, f"[1e-9, {most:.6g}]", lambda number: 1e-9 <= number <= most)

    @property
    def mean(self) -> float:
        """Expected pairs for each count."""
        return self.shape * self.ratio / (1 - self.ratio)

    @property
    def delta(self) -> float:
        """P(Z3 < a). ``P3(z)/P3(z-1) = x (z+r-1)/z`` falls in z for r >= 1, and is below x for r < 1."""
        steepness = math.expm1(self.epsilon) + (1 - self.ratio)  # e^eta - x
        least = max(1.0, math.ceil(self.ratio * (self.shape - 1) / steepness * (1 + 1e-12)))
        # DLMF 8.17.24: P(Z3 <= a-1) = I_{1-x}(r, a)
        return float(betainc(self.shape, least, 1 - self.ratio)) * MARGIN


def flood_for(epsilon: float, delta: float) -> Flood:
    """The flood with the fewest pairs whose price is (epsilon, delta) for each count.

    For small epsilon that is about 4.6 log(1/delta)/epsilon pairs, with ``log(1/x)`` near 0.46 epsilon: Chernoff's
    bound for the gamma law that the pairs then nearly have.

    Raises
    ------
    accountant.ParameterError
        A value is out of range, or epsilon is so small that the pairs could not be drawn.
    """
    checked_real("epsilon", epsilon, "(0, 500]", lambda number: 0 < number <= 500)
    checked_real("delta", delta, "[1e-100, 1)", lambda number: 1e-100 <= number < 1)
    floods = [_smallest(epsilon, delta, math.exp(-decay)) for decay in _decays(epsilon)]
    if not floods:
        raise ac.ParameterError(f"epsilon = {epsilon:g} of flooding; accepted: at least {2 / LARGEST_SCALE:g}")
    return min(floods, key=lambda flood: flood.mean)


def _decays(epsilon: float) -> list[float]:
    """Candidates for log(1/x), about the best one."""
    candidates = {min(epsilon * 2 ** (i / 8), 20.0) for i in range(-20, 17)}
    return sorted(decay for decay in candidates if decay >= 1 / LARGEST_SCALE)


def _smallest(epsilon: float, delta: float, ratio: float) -> Flood:
    """The smallest shape that keeps delta, to 1e-6, from the side that does."""
    high = 1.0
    while Flood(epsilon, high, ratio).delta > delta:
        high *= 2
    low = 0.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if Flood(epsilon, middle, ratio).delta > delta:
            low = middle
        else:
            high = middle
    return Flood(epsilon, high, ratio)
