"""Sums of the reports of a race (`accountant.events.shuffled_race`): moments and characteristic functions of one slot.

A slot's report v has a rate r and a value y. At time x, with Z = e^(x r) y and beside a spare report of rate s,

    g(s, theta) = E e^(-x r) e^(tau Z),   tau = theta e^(-x s),

and |g(s, theta + i w)|, divided by g(s, theta), is that of z = e^(-x s) Z tilted. As log E e^(-x r) e^(tau Z) is convex
in tau, its chords between the values at a few tau serve all spare reports and thetas.

Reports of all kinds stand one after the other, as do spare ones of all kinds and, for each, numbers of bits in which
they agree with the first input of the changed user.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel, SummingKernel

__all__ = [
    "COUNTS",
    "NEAREST",
    "POWERS",
    "IntArray",
    "Reports",
    "Spares",
    "fill_powers_at_ends",
    "fill_thetas",
    "find_deviation",
]

IntArray = NDArray[np.int64]

Reports = tuple[FloatArray, FloatArray, FloatArray]
"""Masses, rates and values y, or factors Z, of the reports of one kind."""

Spares = tuple[FloatArray, FloatArray]
"""Masses and rates of spare reports, for one kind and number of bits that agree."""

AllReports = tuple[FloatArray, FloatArray, FloatArray, IntArray]
AllSpares = tuple[FloatArray, FloatArray, IntArray]
"""The same of all, and where those of each kind, or kind and number, begin, and the last end."""

LARGEST = 600.0
"""Exponent beyond which theta is too large."""

FARTHEST = 690.0
"""Logarithm of the largest factor of a value: a positive one beyond is infinite, a negative one is cut off."""

LEAST = 1e-300
"""A mean that is less counts as so much: it may have lost digits."""

FINE = 0.05
"""How near theta comes to the best one, in its logarithm."""

RATIO, SIZE = 0.2, 360
"""Distance of the logs of the tau with computed means, and how many there are about the first theta."""

GROWTH = math.expm1(RATIO)
"""By what share each of them is above the one before."""

MATTERS = 1e-5
"""Of the whole: what is less is not told from its largest value."""

ROUNDING = 1e-12
"""Added to squares: what sums of rotated phases may have lost."""

NEAREST, COUNTS, POWERS = 0.25, (14, 9, 14, 14), (1, 3, 3, 2)
"""Distance of the first nodes w, in units of one over the sum's deviation, how many parts there are of this and of each
further distance, and how many times the one before it is."""


@Kernel
def fill_factors(x: float, rates: FloatArray, values: FloatArray, factors: FloatArray) -> None:
    """Fill Z, or what is more."""
    for v in range(rates.size):
        if x * rates[v] > FARTHEST and values[v] > 0.0:
            factors[v] = math.inf
        else:
            factors[v] = math.exp(min(x * rates[v], FARTHEST)) * values[v]


@Kernel
def log_mean(tau: float, x: float, masses: FloatArray, rates: FloatArray, factors: FloatArray) -> float:
    """log E e^(-x r) e^(tau Z), infinite where an exponent is too large.

    The mean is 1 and more or less: where it is near 0 rather, it is added up itself, and no digit of it is lost.
    """
    total = 0.0
    for v in range(masses.size):
        exponent = (tau * factors[v] if tau > 0.0 else 0.0) - x * rates[v]
        if exponent > LARGEST:
            return math.inf
        total += masses[v] * math.expm1(exponent)
    if total > -0.5:
        return math.log1p(total)
    mean = 0.0
    for v in range(masses.size):
        mean += masses[v] * math.exp((tau * factors[v] if tau > 0.0 else 0.0) - x * rates[v])
    return math.log(max(mean, LEAST))


@Kernel
def fill_row(left: int, first: float, x: float, reports: Reports, row: FloatArray) -> None:
    """Fill two values of a row of log means that is nan before: at 0, and at e^(first + j RATIO) for j >= 0."""
    masses, rates, factors = reports
    for j in range(left, left + 2):
        if math.isnan(row[j]):
            row[j] = log_mean(math.exp(first + (j - 1) * RATIO) if j > 0 else 0.0, x, masses, rates, factors)


@Kernel
def log_power(
    log_theta: float,
    x: float,
    number: float,
    first: float,
    reports: Reports,
    spares: Spares,
    row: FloatArray,
) -> float:
    """log of the sum of g(s, theta)^number over spare reports, by chords between the values of the row."""
    spare_masses, spare_rates = spares
    most, total = -math.inf, 0.0
    for s in range(spare_masses.size):
        place = (log_theta - x * spare_rates[s] - first) / RATIO
        if not place < SIZE - 1:
            return math.inf
        left = int(place) + 1 if place >= 0.0 else 0
        if math.isnan(row[left]) or math.isnan(row[left + 1]):
            fill_row(left, first, x, reports, row)
        if row[left + 1] == math.inf:
            return math.inf
        share = math.expm1((place - left + 1) * RATIO) / GROWTH if left > 0 else math.exp(place * RATIO)
        power = number * (row[left] + share * (row[left + 1] - row[left]))
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
    first: float,
    reports: Reports,
    spares: Spares,
    row: FloatArray,
) -> float:
    """Log of e^(theta own) times the sum of powers over theta^2."""
    return math.exp(log_theta) * own - 2.0 * log_theta + log_power(log_theta, x, number, first, reports, spares, row)


@Kernel
def find_theta(
    start: float,
    own: float,
    x: float,
    number: float,
    first: float,
    reports: Reports,
    spares: Spares,
    row: FloatArray,
) -> float:
    """Log of a theta at which e^(theta own) times the sum of powers over theta^2 is about the least, from `start` on.

    By golden sections.
    """
    step, middle = 0.5, start
    low, high = middle - step, middle + step
    below = log_cost(low, own, x, number, first, reports, spares, row)
    least = log_cost(middle, own, x, number, first, reports, spares, row)
    above = log_cost(high, own, x, number, first, reports, spares, row)
    for _ in range(60):
        if least < math.inf and least <= below and least <= above:
            break
        step *= 1.5
        if below < above or below == math.inf:
            high, above, middle, least, low = middle, least, low, below, low - step
            below = log_cost(low, own, x, number, first, reports, spares, row)
        else:
            low, below, middle, least, high = middle, least, high, above, high + step
            above = log_cost(high, own, x, number, first, reports, spares, row)
    while high - low > FINE:
        longer = high - middle > middle - low
        place = middle + 0.381966 * ((high - middle) if longer else (low - middle))
        value = log_cost(place, own, x, number, first, reports, spares, row)
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
    return middle


@Kernel
def pick_reports(reports: AllReports, kind: int) -> Reports:
    """Those of one kind."""
    masses, rates, factors, starts = reports
    a, b = starts[kind], starts[kind + 1]
    return masses[a:b], rates[a:b], factors[a:b]


@Kernel
def pick_spares(spares: AllSpares, place: int) -> Spares:
    """Those of one kind and number of bits that agree."""
    masses, rates, starts = spares
    a, b = starts[place], starts[place + 1]
    return masses[a:b], rates[a:b]


@Kernel
def fill_thetas(
    x: float,
    number: float,
    own: FloatArray,
    kind: int,
    enough: float,
    reports: AllReports,
    spares: AllSpares,
    log_thetas: FloatArray,
    most: FloatArray,
) -> None:
    """For every number of bits that agree, a good theta for this kind, or, where that is bad for others, the worst.

    `own` is what the changed user's report adds, `log_thetas` holds the logs of thetas to begin with. Fills these, and
    logs of bounds e^(theta own) E_s g^number/(2 theta) for all kinds. No worst is sought if all are below `enough`.
    """
    masses, rates, values, starts = reports
    kinds, first = starts.size - 1, log_thetas[0] - 0.5 * SIZE * RATIO
    factors, rows, tried = np.empty(rates.size), np.full((kinds, SIZE + 1), math.nan), np.empty(kinds)
    fill_factors(x, rates, values, factors)
    tilted = masses, rates, factors, starts
    most[:] = math.inf
    for agree in range(own.size):
        log_theta, worst, best = log_thetas[agree], kind, math.inf
        for turn in range(3):
            one, beside = pick_reports(tilted, worst), pick_spares(spares, worst * own.size + agree)
            log_theta = find_theta(log_theta, own[agree], x, number, first, one, beside, rows[worst])
            for each in range(kinds):
                one, beside = pick_reports(tilted, each), pick_spares(spares, each * own.size + agree)
                power = log_power(log_theta, x, number, first, one, beside, rows[each])
                tried[each] = math.exp(log_theta) * own[agree] + power - math.log(2.0) - log_theta
            before, worst = worst, int(tried.argmax())
            if tried[worst] < best:
                best, log_thetas[agree] = tried[worst], log_theta
                most[agree] = tried
            if worst == before or (turn > 0 and worst == kind) or tried[worst] < enough:
                break


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
