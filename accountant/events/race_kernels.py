"""Sums of the reports of a race (`accountant.events.shuffled_race`): moments and characteristic functions of one slot.

A slot's report v has a rate r and a value y. At time x, beside a spare report of rate s,

    g(theta) = E e^(-x r) e^(theta z),   z = e^(x (r - s)) y,

and |g(theta + i w)|, divided by g(theta), is that of z tilted. Spare reports come with probabilities.
"""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["fill_powers_at_ends", "find_theta", "log_mean_power", "spread_of"]

LARGEST = 600.0
"""Exponent beyond which theta is too large."""

FARTHEST = 690.0
"""Logarithm of the largest factor of a value."""

FINE = 0.1
"""How near theta comes to the best one, in its logarithm."""

MATTERS = 1e-5
"""Of the whole: what is less is not told from its largest value."""

ROUNDING = 1e-12
"""Added to squares: what sums of rotated phases may have lost."""


@Kernel
def value_of(x: float, rate: float, spare_rate: float, value: float) -> float:
    """z, its factor cut off, which matters for thetas below e^-600 alone, whose bound is more than telling all.

    With larger ones e^(theta z) is infinite where z > 0, and else 0, as without a cut.
    """
    return math.exp(min(x * (rate - spare_rate), FARTHEST)) * value


@Kernel
def log_mean(
    theta: float, x: float, masses: FloatArray, rates: FloatArray, values: FloatArray, spare_rate: float
) -> float:
    """log g(theta), infinite where an exponent is too large."""
    total = 0.0
    for v in range(masses.size):
        exponent = theta * value_of(x, rates[v], spare_rate, values[v]) - x * rates[v]
        if exponent > LARGEST:
            return math.inf
        total += masses[v] * math.expm1(exponent)
    return math.log1p(total)


@Kernel
def log_mean_power(
    theta: float,
    x: float,
    number: float,
    masses: FloatArray,
    rates: FloatArray,
    values: FloatArray,
    spare_masses: FloatArray,
    spare_rates: FloatArray,
) -> float:
    """log of the sum of g(theta)^number over spare reports."""
    most, total = -math.inf, 0.0
    for s in range(spare_masses.size):
        power = number * log_mean(theta, x, masses, rates, values, spare_rates[s])
        if power == math.inf:
            return math.inf
        if power > most:
            total, most = total * math.exp(most - power) + spare_masses[s], power
        else:
            total += spare_masses[s] * math.exp(power - most)
    return most + math.log(total)


@Kernel
def log_cost(
    log_theta: float,
    own: float,
    x: float,
    number: float,
    masses: FloatArray,
    rates: FloatArray,
    values: FloatArray,
    spare_masses: FloatArray,
    spare_rates: FloatArray,
) -> float:
    """Log of e^(theta own) times the sum of powers over theta^2."""
    theta = math.exp(log_theta)
    powers = log_mean_power(theta, x, number, masses, rates, values, spare_masses, spare_rates)
    return theta * own - 2.0 * log_theta + powers


@Kernel
def find_theta(
    start: float,
    own: float,
    x: float,
    number: float,
    masses: FloatArray,
    rates: FloatArray,
    values: FloatArray,
    spare_masses: FloatArray,
    spare_rates: FloatArray,
) -> float:
    """A theta at which e^(theta own) times the sum of powers over theta^2 is about the least: by golden sections."""
    step, middle = 0.5, math.log(start)
    low, high = middle - step, middle + step
    below = log_cost(low, own, x, number, masses, rates, values, spare_masses, spare_rates)
    least = log_cost(middle, own, x, number, masses, rates, values, spare_masses, spare_rates)
    above = log_cost(high, own, x, number, masses, rates, values, spare_masses, spare_rates)
    for _ in range(60):
        if least < math.inf and least <= below and least <= above:
            break
        step *= 1.5
        if below < above or below == math.inf:
            high, above, middle, least, low = middle, least, low, below, low - step
            below = log_cost(low, own, x, number, masses, rates, values, spare_masses, spare_rates)
        else:
            low, below, middle, least, high = middle, least, high, above, high + step
            above = log_cost(high, own, x, number, masses, rates, values, spare_masses, spare_rates)
    while high - low > FINE:
        longer = high - middle > middle - low
        place = middle + 0.381966 * ((high - middle) if longer else (low - middle))
        value = log_cost(place, own, x, number, masses, rates, values, spare_masses, spare_rates)
        if value < least:
            if longer:
                low = middle
            else:
                high = middle
            middle, least = place, value
        elif longer:
            high = place
        else:
            low = place
    return math.exp(middle)


@Kernel
def spread_of(
    theta: float, x: float, masses: FloatArray, rates: FloatArray, values: FloatArray, spare_rate: float
) -> float:
    """Variance of z tilted, no less than rounding may have made of it."""
    total, one, two = 0.0, 0.0, 0.0
    for v in range(masses.size):
        z = value_of(x, rates[v], spare_rate, values[v])
        weight = masses[v] * math.exp(theta * z - x * rates[v])
        total, one, two = total + weight, one + weight * z, two + weight * z * z
    return two / total - (one / total) ** 2 + 1e-11 * two / total


@Kernel
def fill_powers_at_ends(
    theta: float,
    x: float,
    number: float,
    log_scale: float,
    masses: FloatArray,
    rates: FloatArray,
    values: FloatArray,
    spare_masses: FloatArray,
    spare_rates: FloatArray,
    segments: FloatArray,
    ends: FloatArray,
) -> None:
    """Fill bounds on the sum of |g(theta + i w)|^number, over e^log_scale, at both ends of each part between nodes.

    With f = |g|^2/g(theta)^2 and V the variance of z tilted, f is at most its chord plus V d^2/4 between nodes at a
    distance d; the power of a line is at most the chord of its own values for number >= 2.
    """
    parts = ends.shape[1]
    real, imaginary, gaps = np.empty(parts + 1), np.empty(parts + 1), np.empty(parts)
    node = 0
    for part in range(segments.shape[0]):
        for _ in range(int(segments[part, 2])):
            if node < parts:
                gaps[node] = segments[part, 1]
            node += 1
    ends[:] = 0.0
    for s in range(spare_masses.size):
        log_g = log_mean(theta, x, masses, rates, values, spare_rates[s])
        share = spare_masses[s] * math.exp(number * log_g - log_scale)
        if share < MATTERS:
            ends += share
            continue
        variance = spread_of(theta, x, masses, rates, values, spare_rates[s])
        real[:] = 0.0
        imaginary[:] = 0.0
        for v in range(masses.size):
            z = value_of(x, rates[v], spare_rates[s], values[v])
            weight = masses[v] * math.exp(theta * z - x * rates[v] - log_g)
            add_phases(weight, z, segments, real, imaginary)
        for j in range(parts):
            added = variance * gaps[j] ** 2 / 4.0 + ROUNDING
            start = real[j] ** 2 + imaginary[j] ** 2 + added
            end = real[j + 1] ** 2 + imaginary[j + 1] ** 2 + added
            if min(start, end) > 1.0:
                start = end = 1.0
            ends[0, j] += share * start ** (0.5 * number)
            ends[1, j] += share * end ** (0.5 * number)


@Kernel
def add_phases(weight: float, z: float, segments: FloatArray, real: FloatArray, imaginary: FloatArray) -> None:
    """Add weight times e^(i w z) at the nodes w of segments: start, distance, number."""
    node = 0
    for part in range(segments.shape[0]):
        start, step = segments[part, 0] * z, segments[part, 1] * z
        c, s = weight * math.cos(start), weight * math.sin(start)
        turn, lift = math.cos(step), math.sin(step)
        for _ in range(int(segments[part, 2])):
            real[node] += c
            imaginary[node] += s
            c, s = c * turn - s * lift, c * lift + s * turn
            node += 1
