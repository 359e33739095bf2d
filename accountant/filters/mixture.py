"""What a run may have lost that chose its releases on the way: a mixture over Rényi orders.

For neighbours P and Q let L be the loss log P/Q of all that was released so far, and S(a) the sum of the Rényi curves
of these releases at order a. With weights w(a) that add up to 1,

    M = sum_a w(a) e^{(a-1) (L - S(a))}

is a supermartingale under P, as every release multiplies the mean of e^{(a-1) L} by at most e^{(a-1) eps(a)}, whatever
was released before (the argument of Feldman & Zrnic 2021, Thm 4.3, which is the case of one order). So E[M] <= 1 at
every stopping time, and a run that stops while (1 - e^{eps-L})_+ <= delta M for all L is (eps, delta)-DP
(notebooks/mathematics.md, Filters and odometers).
"""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["Mixture", "filter_mixture", "odometer_mixture", "single_order"]

ROUNDING = 1e-9
"""Added to every log of a delta: far above what sums, curves and the search below round."""

CURVE_ROUNDING = 1 + 1e-12
"""Times the sums: above the relative error of curves."""


@Kernel
def slope_and_height(
    x: float, epsilon: float, b: FloatArray, weights: FloatArray, sums: FloatArray
) -> tuple[float, float]:
    """Derivative and value of log(1 - e^-x) - log sum w e^{b (eps + x - S)}, which is concave in x > 0."""
    top = -math.inf
    for k in range(b.size):
        if sums[k] < math.inf:
            top = max(top, weights[k] + b[k] * (epsilon + x - sums[k]))
    total = 0.0
    moment = 0.0
    for k in range(b.size):
        if sums[k] < math.inf:
            part = math.exp(weights[k] + b[k] * (epsilon + x - sums[k]) - top)
            total += part
            moment += b[k] * part
    height = math.log(-math.expm1(-x)) - top - math.log(total)
    return 1.0 / math.expm1(x) - moment / total, height


@Kernel
def log_worst_share(epsilon: float, b: FloatArray, weights: FloatArray, sums: FloatArray) -> float:
    """Upper bound on the log of sup_L (1 - e^{eps-L})_+ / M(L), inf where every sum is infinite.

    The logarithm is concave in L, so the larger end of a tangent on each side of its top bounds it.
    """
    if not np.min(sums) < math.inf:
        return math.inf
    low, high = math.log(1e-15), math.log(700.0)
    slope, height = slope_and_height(math.exp(high), epsilon, b, weights, sums)
    if slope > 0.0:  # only where every b is below e^-700
        return math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        slope, height = slope_and_height(math.exp(middle), epsilon, b, weights, sums)
        if slope > 0.0:
            low = middle
        else:
            high = middle
        if high - low < 1e-7:
            break
    slope, height = slope_and_height(math.exp(low), epsilon, b, weights, sums)
    return height + max(slope, 0.0) * (math.exp(high) - math.exp(low))


@Kernel
def least_epsilon(log_delta: float, b: FloatArray, weights: FloatArray, sums: FloatArray) -> float:
    """The least epsilon >= 0 whose share is at most delta, up to 1e-12 of itself above; inf where there is none."""
    if log_worst_share(0.0, b, weights, sums) <= log_delta:
        return 0.0
    high = 1.0
    while log_worst_share(high, b, weights, sums) > log_delta:
        high *= 2.0
        if high > 1e300:
            return math.inf
    low = 0.0
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if log_worst_share(middle, b, weights, sums) <= log_delta:
            high = middle
        else:
            low = middle
    return high


@Kernel
def advance(sums: FloatArray, curve: FloatArray, count: float, b: FloatArray, result: FloatArray) -> float:
    """Fill `result` with sums + count * curve, rounded up; returns the largest b * count * curve."""
    up = 1.0 + 2.0**-52
    rise = 0.0
    for k in range(b.size):
        more = curve[k] * count * up
        result[k] = (sums[k] + more) * up
        rise = max(rise, b[k] * more)
    return rise


class Mixture:
    """Rényi orders and their weights, chosen before anything is released.

    Parameters
    ----------
    distances : array of shape (k,)
        Orders minus 1, rising.
    weights : array of shape (k,)
        Their weights; only their ratios count.
    """

    def __init__(self, distances: FloatArray, weights: FloatArray) -> None:
        # round as the order 1 + b rounds
        self.distances = (1.0 + np.asarray(distances, float)) - 1.0
        self.log_weights = np.log(np.asarray(weights, float) / math.fsum(weights))
        self.orders = 1.0 + self.distances

    def log_share(self, sums: FloatArray, epsilon: float) -> float:
        """Log of the delta at which a run with these sums at the orders is (epsilon, delta)-DP; inf if at none."""
        return log_worst_share(epsilon, self.distances, self.log_weights, sums * CURVE_ROUNDING) + ROUNDING

    def epsilon(self, sums: FloatArray, log_delta: float) -> float:
        """The epsilon of a run with these sums at a delta; inf where there is none."""
        return least_epsilon(log_delta - ROUNDING, self.distances, self.log_weights, sums * CURVE_ROUNDING)

    def advance(self, sums: FloatArray, curve: FloatArray, count: int) -> tuple[FloatArray, float]:
        """Sums after more releases, rounded up, and an upper bound on what these add to `log_share` at any epsilon."""
        result = np.empty_like(sums)
        return result, advance(sums, curve, float(count), self.distances, result) * (1 + 1e-9)


def single_order(order: float) -> Mixture:
    """One order alone: the Rényi filter of Feldman & Zrnic 2021 and Lécuyer 2021."""
    return Mixture(np.array([order - 1.0]), np.ones(1))


def filter_mixture(epsilon: float, log_delta: float) -> Mixture:
    """Orders around the one at which Gaussian noise fills (epsilon, delta), which has most of the weight.

    The order at which a budget is met is near 1.7 log(1/delta)/epsilon for curves that rise linearly; others help
    where curves rise steeper, or not at all.
    """
    scale = min(-log_delta / epsilon, 1e9)
    multiples = np.concatenate([np.geomspace(0.5, 1.5, 8), [1.7], np.geomspace(2.0, 16.0, 7)])
    weights = np.where(multiples == 1.7, 0.7, 0.3 / (multiples.size - 1))
    return Mixture(np.clip(multiples * scale, 1e-6, 1e9), weights)


def odometer_mixture() -> Mixture:
    """Orders from 1.1 to 10001, as nothing is known of the size of the run."""
    return Mixture(np.geomspace(0.1, 1e4, 31), np.ones(31))
