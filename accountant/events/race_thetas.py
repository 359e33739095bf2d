"""Thetas that are good for the reports of a race (`accountant.events.shuffled_race`), and their means.

A slot's report v has a rate r and a value y. At time x, with Z = e^(x r) y and beside a spare report of rate s,

    g(s, theta) = E e^(-x r) e^(tau Z),   tau = theta e^(-x s).

As log E e^(-x r) e^(tau Z) is convex in tau, its chords between the values at a few tau serve all spare reports and
thetas. The sum of what kinds add is smooth in log theta and has one minimum, as every summand is convex in theta.

Reports of all kinds stand one after the other, as do spare ones of all kinds and, for each, numbers of bits in which
they agree with the first input of the changed user.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["IntArray", "Reports", "Spares", "fill_factors", "fill_thetas", "log_mean"]

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Reports = tuple[FloatArray, FloatArray, FloatArray]
"""Masses, rates and values y, or factors Z, of the reports of one kind."""

Spares = tuple[FloatArray, FloatArray]
"""Masses and rates of spare reports, for one kind and number of bits that agree."""

AllReports = tuple[FloatArray, FloatArray, FloatArray, IntArray]
AllSpares = tuple[FloatArray, FloatArray, IntArray]
"""The same of all, and where those of each kind, or kind and number, begin, and the last end."""


class Place(NamedTuple):
    """A time x, and how many bits of a spare report agree with the first input of the changed user.

    With what the changed user's own report adds there, the number of others, and the log of the least tau with a
    computed mean.
    """

    own: float
    x: float
    number: float
    first: float
    agree: int


class Table(NamedTuple):
    """Reports with factors Z, spare ones, log means of all kinds at the tau, which kinds are sought, what they add.

    Means are nan until they are computed.
    """

    reports: AllReports
    spares: AllSpares
    rows: FloatArray
    are_sought: BoolArray
    adds: FloatArray


TURNS = 6
"""How often a theta is sought for more kinds, at most."""

LARGEST = 600.0
"""Exponent beyond which theta is too large."""

FARTHEST = 690.0
"""Logarithm of the largest factor of a value: a positive one beyond is infinite, a negative one is cut off."""

LEAST = 1e-300
"""A mean that is less counts as so much: it may have lost digits."""

FINE = 0.05
"""How near theta comes to the best one, in its logarithm."""

MINOR, LITTLE = 0.3, 6.0
"""Logs of how much all kinds may add over those that are sought, and of how much less than enough needs no search."""

RATIO, SIZE = 0.2, 360
"""Distance of the logs of the tau with computed means, and how many there are about the first theta."""

GROWTH = math.expm1(RATIO)
"""By what share each of them is above the one before."""


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
        # of an infinite rate any theta is good, but others add to what it does
        if not place < SIZE - 1 or (place == -math.inf and log_theta > first + SIZE * RATIO):
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
def fill_adds(log_theta: float, place: Place, table: Table) -> None:
    """Fill logs of e^(theta own) E_s g^number/(2 theta), of the kinds that are sought."""
    numbers = (table.spares[2].size - 1) // table.are_sought.size
    for kind in range(table.are_sought.size):
        if table.are_sought[kind]:
            one, beside = pick_reports(table.reports, kind), pick_spares(table.spares, kind * numbers + place.agree)
            power = log_power(log_theta, place.x, place.number, place.first, one, beside, table.rows[kind])
            table.adds[kind] = math.exp(log_theta) * place.own + power - math.log(2.0) - log_theta


@Kernel
def log_sum(terms: FloatArray, log_weights: FloatArray, are_sought: BoolArray) -> float:
    """Log of the weighted sum, over the kinds that are sought, of the exponentials of terms."""
    most, total = -math.inf, 0.0
    for kind in range(terms.size):
        if are_sought[kind]:
            most = max(most, terms[kind] + log_weights[kind])
    if math.isinf(most):
        return most
    for kind in range(terms.size):
        if are_sought[kind]:
            total += math.exp(terms[kind] + log_weights[kind] - most)
    return most + math.log(total)


@Kernel
def log_cost(log_theta: float, place: Place, table: Table, log_weights: FloatArray) -> float:
    """Log of the weighted sum of what the kinds that are sought add, over theta."""
    fill_adds(log_theta, place, table)
    return log_sum(table.adds, log_weights, table.are_sought) - log_theta


@Kernel
def find_theta(start: float, place: Place, table: Table, log_weights: FloatArray) -> float:
    """Log of a theta at which what the kinds that are sought add, over theta, is about the least, from `start` on.

    By golden sections.
    """
    step, middle = 0.5, start
    low, high = middle - step, middle + step
    below, above = log_cost(low, place, table, log_weights), log_cost(high, place, table, log_weights)
    least = log_cost(middle, place, table, log_weights)
    for _ in range(60):
        if least < math.inf and least <= below and least <= above:
            break
        step *= 1.5
        if below < above or below == math.inf:
            high, above, middle, least, low = middle, least, low, below, low - step
            below = log_cost(low, place, table, log_weights)
        else:
            low, below, middle, least, high = middle, least, high, above, high + step
            above = log_cost(high, place, table, log_weights)
    while high - low > FINE:
        longer = high - middle > middle - low
        inner = middle + 0.381966 * ((high - middle) if longer else (low - middle))
        value = log_cost(inner, place, table, log_weights)
        if value < least:
            if longer:
                low = middle
            else:
                high = middle
            middle, least = inner, value
        elif longer:
            high = inner
        else:
            low = inner
    return middle


@Kernel
def copy_row(values: FloatArray, row: FloatArray) -> None:
    """Fill a row: where one array is assigned to another, numba compiles seconds of messages that are never seen."""
    for each in range(values.size):
        row[each] = values[each]


@Kernel
def fill_thetas(
    x: float,
    number: float,
    own: FloatArray,
    log_weights: FloatArray,
    enough: float,
    reports: AllReports,
    spares: AllSpares,
    log_thetas: FloatArray,
    most: FloatArray,
) -> None:
    """For every number of bits that agree, a theta at which the weighted sum of what all kinds add is about the least.

    It is found for the kind that adds most, then for those that turn out to matter, too, at last for all. `own` is what
    the changed user's report adds, `log_thetas` holds the logs of thetas to begin with. Fills these, and what
    `fill_adds` says of all kinds. Sums below `enough` are good enough.
    """
    masses, rates, values, starts = reports
    kinds, first = starts.size - 1, log_thetas[0] - 0.5 * SIZE * RATIO
    factors, rows, tried = np.empty(rates.size), np.full((kinds, SIZE + 1), math.nan), np.empty(kinds)
    fill_factors(x, rates, values, factors)
    are_all, are_sought = np.ones(kinds, dtype=np.bool_), np.empty(kinds, dtype=np.bool_)
    every = Table((masses, rates, factors, starts), spares, rows, are_all, tried)
    some = Table((masses, rates, factors, starts), spares, rows, are_sought, tried)
    for agree in range(own.size):
        place = Place(own[agree], x, number, first, agree)
        log_theta, are_sought[:] = log_thetas[agree], False
        fill_adds(log_theta, place, every)
        best = log_sum(tried, log_weights, are_all)
        copy_row(tried, most[agree])
        if best < enough - LITTLE:
            continue
        for turn in range(min(kinds, TURNS)):
            worst = 0
            for kind in range(1, kinds):
                if tried[kind] + log_weights[kind] > tried[worst] + log_weights[worst]:
                    worst = kind
            are_sought[worst] = True
            if turn == TURNS - 1:
                are_sought[:] = True
            log_theta = find_theta(log_theta, place, some, log_weights)
            fill_adds(log_theta, place, every)
            total = log_sum(tried, log_weights, are_all)
            if total < best:
                best, log_thetas[agree] = total, log_theta
                copy_row(tried, most[agree])
            if total < enough or log_sum(tried, log_weights, are_sought) > total - MINOR:
                break
            for kind in range(kinds):
                if are_sought[kind]:
                    tried[kind] = -math.inf
