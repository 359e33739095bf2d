"""Sums of the reports of a race (`accountant.events.shuffled_race`): characteristic functions of one slot.

As in `accountant.events.race_thetas`: |g(s, theta + i w)|, divided by g(s, theta), is the characteristic function of
z = e^(-x s) Z tilted.
"""

from __future__ import annotations

import math

import numpy as np

from accountant.events.race_thetas import Reports, Spares, fill_factors, log_mean
from accountant.events.shuffled_sums import DAMPING
from accountant.numerics.kernel import FloatArray, Kernel, SummingKernel

__all__ = ["COUNTS", "NEAREST", "POWERS", "fill_powers_at_ends", "find_deviation", "log_chord"]

MATTERS = 1e-5
"""Of the whole: what is less is not told from its largest value."""

ROUNDING = 1e-12
"""Added to squares: what sums of rotated phases may have lost."""

NEAREST, COUNTS, POWERS = 0.25, (14, 9, 14, 14), (1, 3, 3, 2)
"""Distance of the first nodes w, in units of one over the sum's deviation, how many parts there are of this and of each
further distance, and how many times the one before it is."""


@Kernel
def fill_weights(tau: float, x: float, reports: Reports, weights: FloatArray) -> tuple[float, float, float]:
    """Fill e^(-x r) e^(tau Z) times masses, over their sum; its log, and mean and variance of Z with these weights.

    The variance is no less than rounding may have made of it.
    """
    masses, rates, factors = reports
    log_sum = log_mean(tau, x, masses, rates, factors)
    one, two = 0.0, 0.0
    for v in range(masses.size):
        weights[v] = masses[v] * math.exp(tau * factors[v] - x * rates[v] - log_sum)
        if weights[v] > 0.0:  # where nothing is left of a factor, which may be infinite, it does not count
            one += weights[v] * factors[v]
            two += weights[v] * factors[v] ** 2
    return log_sum, one, two - one**2 + 1e-11 * two


@Kernel
def find_deviation(
    theta: float,
    x: float,
    number: float,
    reports: Reports,
    spares: Spares,
) -> float:
    """Of the sum of so many z, tilted, beside the spare report that adds the most."""
    masses, rates, values = reports
    spare_masses, spare_rates = spares
    factors, weights = np.empty(rates.size), np.empty(rates.size)
    fill_factors(x, rates, values, factors)
    most, scale = -math.inf, 1.0
    for s in range(spare_masses.size):
        power = number * log_mean(theta * math.exp(-x * spare_rates[s]), x, masses, rates, factors)
        if power + math.log(spare_masses[s]) > most:
            most, scale = power + math.log(spare_masses[s]), math.exp(-x * spare_rates[s])
    return scale * math.sqrt(number * fill_weights(theta * scale, x, (masses, rates, factors), weights)[2])


@Kernel
def fill_powers_at_ends(
    theta: float,
    x: float,
    number: float,
    log_scale: float,
    reports: Reports,
    spares: Spares,
    step: float,
    ends: FloatArray,
) -> None:
    """Fill bounds on the sum of |g(s, theta + i w)|^number, over e^log_scale, at both ends of each part between nodes.

    `step` is the distance of the first nodes. With f = |g|^2/g(theta)^2 and V the variance of z tilted, f is at most
    its chord plus V d^2/4 between nodes at a distance d; the power of a line is at most the chord of its own values for
    number >= 2.
    """
    masses, rates, values = reports
    spare_masses, spare_rates = spares
    factors, weights = np.empty(rates.size), np.empty(rates.size)
    fill_factors(x, rates, values, factors)
    real, imaginary, phases = np.empty(ends.shape[1] + 1), np.empty(ends.shape[1] + 1), np.empty((4, rates.size))
    ends[:] = 0.0
    for s in range(spare_masses.size):
        scale = math.exp(-x * spare_rates[s])
        log_g, _, variance = fill_weights(theta * scale, x, (masses, rates, factors), weights)
        share = spare_masses[s] * math.exp(number * log_g - log_scale)
        if share < MATTERS:
            ends += share
            continue
        fill_phases(weights, factors, scale * step, real, imaginary, phases)
        j, gap = 0, step
        for part in range(len(COUNTS)):
            gap *= POWERS[part]
            added = variance * scale**2 * gap**2 / 4.0 + ROUNDING
            for _ in range(COUNTS[part]):
                start = real[j] ** 2 + imaginary[j] ** 2 + added
                end = real[j + 1] ** 2 + imaginary[j + 1] ** 2 + added
                if min(start, end) > 1.0:
                    start = end = 1.0
                ends[0, j] += share * start ** (0.5 * number)
                ends[1, j] += share * end ** (0.5 * number)
                j += 1


@Kernel
def log_chord(theta: float, nodes: FloatArray, ends: FloatArray) -> float:
    """As `accountant.events.shuffled_sums.log_chords` has it, of one row of values at both ends of each part."""
    inner, angle, half = 0.0, 0.0, 0.0
    for j in range(nodes.size - 1):
        after_angle, after_half = math.atan(nodes[j + 1] / theta), 0.5 * math.log1p((nodes[j + 1] / theta) ** 2)
        turned = (after_angle - angle) / theta
        after = (after_half - half - nodes[j] * turned) / (nodes[j + 1] - nodes[j])
        inner += ends[0, j] * (turned - after) + ends[1, j] * after
        angle, half = after_angle, after_half
    last = nodes[-1]
    beyond, least = math.atan(theta / last) / theta, math.inf
    for damping in DAMPING:
        damped = math.log(inner + beyond * math.exp(-damping)) + damping * (theta / last) ** 2
        if not damped >= least:  # what is not a number stays so
            least = damped
    return least - math.log(math.pi) + 1e-9


@SummingKernel
def fill_phases(
    weights: FloatArray, factors: FloatArray, step: float, real: FloatArray, imaginary: FloatArray, phases: FloatArray
) -> None:
    """Fill the sum of weights times e^(i w Z) at the nodes w, the first of which are so far apart.

    `phases` has room for four numbers of every report: its summand, and by what it is multiplied from node to node.
    """
    c, s, turn, lift = phases[0], phases[1], phases[2], phases[3]
    total = 0.0
    for v in range(weights.size):
        c[v], s[v], turn[v], lift[v] = weights[v], 0.0, 1.0, 0.0
        if weights[v] > 0.0:
            turn[v], lift[v] = math.cos(step * factors[v]), math.sin(step * factors[v])
        total += c[v]
    real[0], imaginary[0] = total, 0.0
    node = 1
    for part in range(len(COUNTS)):
        for v in range(weights.size if POWERS[part] > 1 else 0):
            once, twice = turn[v], lift[v]
            for _ in range(POWERS[part] - 1):
                turn[v], lift[v] = turn[v] * once - lift[v] * twice, turn[v] * twice + lift[v] * once
        for _ in range(COUNTS[part]):
            across, up = 0.0, 0.0
            for v in range(weights.size):
                c[v], s[v] = c[v] * turn[v] - s[v] * lift[v], c[v] * lift[v] + s[v] * turn[v]
                across += c[v]
                up += s[v]
            real[node], imaginary[node] = across, up
            node += 1
