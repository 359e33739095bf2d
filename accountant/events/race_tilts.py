"""Sums of what few others say, tilted: rough bounds e^(theta X - 1)/theta, and the theta at which they are least.

As `accountant.events.race_sums` has them: others with a word of their own, of whom a random number have a 1 where the
spare report tells it, those with the second input of the changed user and those with the first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from accountant.events.race_thetas import LARGEST, IntArray
from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["Sorts", "find_tilt", "log_any_ones"]

NEAR = 1.1
"""How near theta comes to the best one: any is valid."""

FARTHEST_TILT = 1e-100
"""The least theta that is looked at, and one over the largest."""


class Sorts(NamedTuple):
    """Values of terms and logs of their probabilities times e^(-x r), and how many there are of each.

    The sorts are others with a word of their own, where the spare report has a 0 or a 1 in it, those with the second
    input and those with the first. `ones` is the mean share of the former that have a 1.
    """

    values: FloatArray
    logs: FloatArray
    sizes: IntArray
    numbers: IntArray  # with a word of their own, the second input, the first
    own: float
    ones: float


@Kernel
def tilt_sort(theta: float, sort: int, sorts: Sorts) -> tuple[float, float, float]:
    """Log of E e^(theta Y - x r), and mean and variance of Y when tilted; infinite where an exponent is too large."""
    values, logs = sorts.values[sort], sorts.logs[sort]
    most = -math.inf
    for v in range(sorts.sizes[sort]):
        most = max(most, theta * values[v] + logs[v])
    if not most < LARGEST:
        return math.inf, 0.0, 0.0
    total, one, two = 0.0, 0.0, 0.0
    for v in range(sorts.sizes[sort]):
        weight = math.exp(theta * values[v] + logs[v] - most)
        if weight > 0.0:  # not 0 times a square that overflows
            total += weight
            one += weight * values[v]
            two += weight * values[v] * values[v]
    return most + math.log(total), one / total, max(two / total - (one / total) ** 2, 0.0)


@Kernel
def log_rough(theta: float, sorts: Sorts) -> tuple[float, float, float]:
    """Log of a bound e^(theta X - 1)/theta on the sum, its derivative in theta, and the variance when tilted.

    Others with a word of their own are taken for those that have a 1 with the mean probability.
    """
    log_all, slope, variance = theta * sorts.own - 1.0 - math.log(theta), sorts.own - 1.0 / theta, 0.0
    own, second, first = sorts.numbers
    if own > 0:
        log_zero, mean_zero, variance_zero = tilt_sort(theta, 0, sorts)
        log_one, mean_one, variance_one = tilt_sort(theta, 1, sorts)
        log_zero = log_zero + math.log1p(-sorts.ones) if sorts.ones < 1.0 else -math.inf
        log_one = log_one + math.log(sorts.ones) if sorts.ones > 0.0 else -math.inf
        most = max(log_zero, log_one)
        if not most < LARGEST:
            return math.inf, math.inf, 0.0
        log_both = most + math.log(math.exp(log_zero - most) + math.exp(log_one - most))
        share = math.exp(log_one - log_both)
        log_all += own * log_both
        slope += own * ((1.0 - share) * mean_zero + share * mean_one)
        variance += own * ((1.0 - share) * variance_zero + share * variance_one)
        variance += own * share * (1.0 - share) * (mean_zero - mean_one) ** 2
    for sort, number in ((2, second), (3, first)):
        if number > 0:
            log_mean, mean, one = tilt_sort(theta, sort, sorts)
            if not log_mean < LARGEST:
                return math.inf, math.inf, 0.0
            log_all += number * log_mean
            slope += number * mean
            variance += number * one
    return log_all, slope, variance


@Kernel
def find_tilt(near: float, sorts: Sorts) -> tuple[float, float, int]:
    """A theta at which the rough bound is about the least, sought from `near` on; any is valid.

    And the variance of the sum when tilted, and how many thetas were tried.
    """
    low = high = near
    log_all, slope, _ = log_rough(near, sorts)
    falls, tried = slope < 0.0, 2
    while (slope < 0.0) == falls and log_all > -LARGEST and low > FARTHEST_TILT and high * FARTHEST_TILT < 1.0:
        low, high = (high, 2.0 * high) if falls else (0.5 * low, low)
        log_all, slope, _ = log_rough(high if falls else low, sorts)
        tried += 1
    while high > NEAR * low:
        middle = math.sqrt(low * high)
        if log_rough(middle, sorts)[1] < 0.0:
            low = middle
        else:
            high = middle
        tried += 1
    return low, log_rough(low, sorts)[2], tried


@Kernel
def log_any_ones(theta: float, sorts: Sorts) -> float:
    """Log of the rough bound for any random number of ones with the given mean: a convex function of it."""
    found = theta * sorts.own - 1.0 - math.log(theta)
    own, second, first = sorts.numbers
    if own > 0:
        zero, one = (
            math.log1p(-sorts.ones) + own * tilt_sort(theta, 0, sorts)[0],
            math.log(sorts.ones) + own * tilt_sort(theta, 1, sorts)[0],
        )
        most = max(zero, one)
        if not most < math.inf:
            return math.inf
        found += most + math.log(math.exp(zero - most) + math.exp(one - most))
    if second > 0:
        found += second * tilt_sort(theta, 2, sorts)[0]
    if first > 0:
        found += first * tilt_sort(theta, 3, sorts)[0]
    return found
