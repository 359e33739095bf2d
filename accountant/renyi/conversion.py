"""From a Rényi bound at one order a to (epsilon, delta), and back, on arrays.

An order enters as b = a - 1, which stays exact near 1. All three rules are non-increasing in delta; epsilons are at
least 0. "optimal" is the smallest price that a Rényi bound at that order implies.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from accountant.errors import ParameterError, shorten
from accountant.numerics.exact import SPARE
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.roots import golden_bracket, golden_step
from accountant.numerics.special import divergence_from_log_mean, log_mean_excess, log_mean_term, logaddexp

__all__ = ["CONVERSIONS", "Conversion", "check_conversion", "epsilon_from_renyi", "log_delta_from_renyi"]

Conversion = Literal["improved", "classic", "optimal"]
CONVERSIONS: tuple[Conversion, ...] = get_args(Conversion)


def check_conversion(conversion: object) -> Conversion:
    """`conversion`, if it is one; otherwise raise ParameterError."""
    for known in CONVERSIONS:
        if isinstance(conversion, str) and conversion == known:
            return known
    raise ParameterError(f"conversion = {shorten(conversion)}; accepted: {', '.join(CONVERSIONS)}")


def epsilon_from_renyi(conversion: Conversion, b: FloatArray, renyi: FloatArray, log_delta: float) -> FloatArray:
    """Epsilon that a Rényi divergence `renyi` at order 1 + b implies at delta = exp(log_delta), rounded up.

    What is paid and what is gained err by less than eight halves of an ulp, which SPARE holds
    (notebooks/mathematics.md, Rounding).
    """
    # Mironov 2017, Prop. 3
    paid: FloatArray = (renyi - log_delta / b) * SPARE
    if conversion == "classic":
        return paid
    # Canonne, Kamath & Steinke 2020, Prop. 12:  eps + log((a-1)/a) - (log delta + log a)/(a-1)
    improved: FloatArray = np.maximum(paid - (np.log1p(1 / b) + np.log1p(b) / b) / SPARE, 0.0)
    if conversion == "improved":
        return improved
    result = np.empty_like(improved)
    optimal_epsilons(b, renyi, log_delta, improved, result)
    return result


def log_delta_from_renyi(
    conversion: Conversion, b: FloatArray, renyi: FloatArray, epsilon: float | FloatArray
) -> FloatArray:
    """Log of the delta that a Rényi divergence `renyi` at order 1 + b implies at `epsilon`, rounded up; may be above 0.

    The divergence is rounded up first, as b may be 1e12 where it all but cancels epsilon; the rest in the same way.
    """
    with np.errstate(over="ignore"):
        paid: FloatArray = b * (renyi * SPARE - epsilon)
    paid *= np.where(paid < 0.0, 1 / SPARE, SPARE)
    if conversion == "classic":
        return paid
    # the same proposition solved for delta
    improved: FloatArray = paid - (b * np.log1p(1 / b) + np.log1p(b)) / SPARE
    if conversion == "improved":
        return improved
    result = np.empty_like(improved)
    optimal_log_deltas(b, renyi, float(epsilon), improved, result)
    return result


# --- the optimal conversion ----------------------------------------------------------------------------


SHARP = 1e8
"""Largest order - 1 at which the optimal rule is solved; beyond, rounding could beat what it gains on improved."""


@Kernel
def bernoulli_gap(b: float, epsilon: float, log_delta: float, z: float) -> float:
    """D_a(Bernoulli(p) || Bernoulli(q)) where p - e^eps q = delta and p = delta + (1 - delta)/(1 + e^-z)."""
    delta = math.exp(log_delta)
    log_rest = math.log1p(-delta)
    log_share = log_rest - logaddexp(0.0, -z)  # log(p - delta)
    log_q = log_share - epsilon
    up = epsilon + logaddexp(0.0, log_delta - log_share)  # log(p/q)
    q = math.exp(log_q)
    kept = -math.expm1(log_q)  # 1 - q, > 0 since p - delta < 1
    gained = q * math.expm1(epsilon) if epsilon < 1.0 else math.exp(log_share) - q
    lost = (delta + gained) / kept  # 1 - (1-p)/(1-q)
    log_kept = math.log(kept)
    down = math.log1p(-lost) if lost < 0.5 else log_rest - logaddexp(0.0, z) - log_kept
    passed = log_mean_term(b, logaddexp(log_share, log_delta), log_q, up)
    log_mean = logaddexp(passed, log_kept + log_mean_excess(b, down))
    return divergence_from_log_mean(b, log_mean)


@Kernel
def smallest_gap(b: float, epsilon: float, log_delta: float) -> float:
    """Least D_a over all pairs of two-point distributions whose hockey-stick divergence at epsilon is delta.

    Asoodeh et al. 2021, Thm 2 (two points suffice). Along p - e^eps q = delta the
    divergence's exponential is convex in p, so golden-section search on the logit finds its minimum. It looks no
    further to the right than where the divergence, which changes by (1/b + delta) e^-z there, would be the same in
    floating point, and at the least value of the first outcome's term alone, p = a delta.
    """
    flat = -math.log(1e-15 * max(b * epsilon / (1.0 + b * math.exp(log_delta)), 1e-5))
    low, left, right, high = golden_bracket(log_delta + min(math.log(b), 0.0) - 8.0, min(max(flat, 5.0), 45.0))
    at_left = bernoulli_gap(b, epsilon, log_delta, left)
    at_right = bernoulli_gap(b, epsilon, log_delta, right)
    while high - low > 1e-9 * (1.0 + abs(low)):
        lower = at_left <= at_right
        low, left, right, high = golden_step(low, left, right, high, lower)
        fresh = bernoulli_gap(b, epsilon, log_delta, left if lower else right)
        at_left, at_right = (fresh, at_left) if lower else (at_right, fresh)
    found = min(at_left, at_right)
    log_share = log_delta + math.log(b) - math.log1p(-math.exp(log_delta))
    if log_share < 0.0:
        found = min(found, bernoulli_gap(b, epsilon, log_delta, log_share - math.log(-math.expm1(log_share))))
    return found


@Kernel
def narrow_gap(b: float, renyi: float, given: float, low: float, high: float, seek_epsilon: bool) -> float:
    """Bisect [low, high], epsilons or log deltas, to 1e-13; returns the end that no pair below the Rényi bound reaches.

    `given` is the log delta or the epsilon.
    """
    while high - low > 1e-13 * abs(high):
        middle = 0.5 * (low + high)
        gap = smallest_gap(b, middle, given) if seek_epsilon else smallest_gap(b, given, middle)
        if gap >= renyi:
            high = middle
        else:
            low = middle
    return high


@Kernel
def optimal_epsilons(
    b: FloatArray, renyi: FloatArray, log_delta: float, improved: FloatArray, result: FloatArray
) -> None:
    """Fill `result` with the smallest epsilons."""
    for i in range(b.size):
        high = improved[i]
        if b[i] > SHARP:
            result[i] = high
        elif high == 0.0 or not high < math.inf or smallest_gap(b[i], 0.0, log_delta) >= renyi[i]:
            result[i] = 0.0 if high < math.inf else high
        else:
            result[i] = narrow_gap(b[i], renyi[i], log_delta, 0.0, high, True)


@Kernel
def optimal_log_deltas(
    b: FloatArray, renyi: FloatArray, epsilon: float, improved: FloatArray, result: FloatArray
) -> None:
    """Fill `result` with the logs of the smallest deltas."""
    for i in range(b.size):
        high = min(improved[i], -1e-12)
        low = max(4.0 * high - 1.0, -745.0)
        if b[i] > SHARP or high <= -745.0 or smallest_gap(b[i], epsilon, high) < renyi[i]:
            result[i] = improved[i]
            continue
        while low > -745.0 and smallest_gap(b[i], epsilon, low) >= renyi[i]:
            high = low
            low = max(2.0 * low, -745.0)
        result[i] = narrow_gap(b[i], renyi[i], epsilon, low, high, False)
