"""The profile of a noisy screening, at the worst of all counts, which is found without looking at the others.

A pair moves the count from t to t + 1 (or down, in the mirrored screening, -t against -threshold): x = (t - threshold)
sigma^-1, h = 1/sigma. With the individual sampled at a rate g passing gains g (Phi(x + h) - v Phi(x)), v = 1 + (u-1)/g,
and for the pair taken backwards failing gains c (Phi(-x) - v Phi(-x - h)), c = 1 - u (1 - g), v = u g/c. The slope of
Phi(y + h) - v Phi(y) is phi(y) (e^{-y h - h^2/2} - v), which changes its sign once, from + to -, at
y = -log v/h - h/2: the best count is one of the two next to that place, or the nearest that there is
(notebooks/mathematics.md, Noisy screening).
"""

from __future__ import annotations

import math

from accountant.events.screening_search import pair_at
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import log_mixture_ratio_at

__all__ = ["fill_profile"]

CANCELLED = 1e-6
"""1/v below which its rounding matters."""


@Kernel
def log_gain(t: float, epsilon: float, sigma: float, threshold: float, rate: float, backward: bool) -> float:
    """log of p - e^epsilon q of the outcome that gains, at a count; -inf where none does."""
    pair = pair_at(t, sigma, threshold, rate)
    log_p, ratio = pair.log_moved, pair.up
    if backward:
        log_p, ratio = pair.log_fail, -log_mixture_ratio_at(rate, pair.down)
    return log_p + math.log(-math.expm1(epsilon - ratio)) if ratio > epsilon else -math.inf


@Kernel
def best_count(
    epsilon: float, sigma: float, threshold: float, low: float, last: float, rate: float, backward: bool
) -> float:
    """A real t in [low, last] next to which the gain is the largest; where nothing gains, any."""
    if not backward or rate == 1.0:
        log_v = log_mixture_ratio_at(1.0 / rate, epsilon)
        return min(max(threshold + (1.0 if backward else -1.0) * sigma * sigma * log_v - 0.5, low), last)
    left = 1.0 + math.expm1(-epsilon) / rate  # 1/v
    if left > CANCELLED:
        return min(max(threshold - sigma * sigma * math.log(left) - 0.5, low), last)
    if left < -CANCELLED:
        return last
    # epsilon is all but the largest ratio: by halving
    while last - low > 0.5:
        middle = math.floor(0.5 * (low + last))
        here = log_gain(middle, epsilon, sigma, threshold, rate, True)
        if log_gain(middle + 1.0, epsilon, sigma, threshold, rate, True) > here or here == -math.inf:
            low = middle + 1.0  # what gains does so at the higher counts
        else:
            last = middle
    return low


@Kernel
def fill_profile(
    sigma: float,
    threshold: float,
    low: float,
    high: float,
    rate: float,
    backward: bool,
    epsilons: FloatArray,
    logs: FloatArray,
) -> None:
    """Fill `logs` with the log of the largest P(S) - e^e Q(S) over pairs and outcomes S, at epsilons >= 0."""
    for i in range(epsilons.size):
        logs[i] = -math.inf
        for sign in (1.0, -1.0):
            bottom, last = (low, high - 1.0) if sign > 0.0 else (-high, -low - 1.0)
            place = best_count(epsilons[i], sigma, sign * threshold, bottom, last, rate, backward)
            first = max(math.floor(place) - 1.0, bottom)
            # one more on each side, as the place is rounded
            for step in range(4):
                t = min(first + step, last)
                logs[i] = max(logs[i], log_gain(t, epsilons[i], sigma, sign * threshold, rate, backward))
