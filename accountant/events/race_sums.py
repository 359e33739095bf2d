"""What a race (`accountant.events.shuffled_race`) says of others whose words are known: sums to any accuracy.

Of each word there are so many others. At a time x, for what the spare report s has in common with both inputs of the
changed user, the sum X = k Y_0 + sum_j e^(x (r_j(v_j) - r_j(s))) Y_j has independent terms of few values. These are
spread to both neighbours on a grid, which keeps their mean, so that E (X)_+ is no smaller (Jensen's inequality). With
any theta > 0 and the period L of N points of the grid, (X)_+ e^(-theta X) is at most

    b(X) = sum of z e^(-theta z) over all z > 0 that differ from X by a multiple of L,

and E e^(theta X) b(X) is a finite Fourier sum. What s says of an entry that no input of the changed user has, in which
others differ, is 1 for some number of these others, of known mean: the largest mean of any such number counts.

Proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.events.race_thetas import FARTHEST, LARGEST, IntArray
from accountant.events.race_tilts import Sorts, find_tilt, log_any_ones
from accountant.numerics.kernel import FloatArray, Kernel

ComplexArray = NDArray[np.complex128]

__all__ = ["Crossing", "log_known_sum"]

KINDS = 3
"""Words that others may have: one of its own, of which a spare report is told in two ways, or one of both inputs."""

MOST_VALUES = 8
"""Values of a term, at most."""

FINE = 0.18
"""Distance of points on the grid, over the deviation of a term when tilted."""

PERIOD, TAIL = 14.0, 16.0
"""Length of a period, in deviations of the sum when tilted; and, over theta, what it is longer by."""

FARTHEST_PLACE = 1e15
"""Points below 0 beyond which values are cut off."""

LEAST_POINTS, MOST_POINTS = 64, 1500
"""Points of a period."""

ROUNDING = 1e-13
"""Relative, for every term of a sum: values, probabilities, powers and Fourier sums."""

PASSES, SURE = 8, 0.01
"""How often thetas are sought for other numbers of ones, and for what shares of errors."""

HOPELESS = 12.0
"""Log of how much more than what is known a rough bound says for no finer one to be sought."""

NOTHING = 1e-9
"""Of the whole: frequencies at which a sum is less are not looked at, but added."""

TILT, FREQUENCY, FOR_ONES = 660.0, 150.0, 1.85
"""Operations (see `accountant.patience`) of a theta that is tried, of a point of a period, and of that for each other
user with a word of their own."""


@Kernel
def spread(theta: float, gap: float, sort: int, sorts: Sorts, places: IntArray, weights: FloatArray) -> float:
    """Fill places on the grid and tilted probabilities of a term that is spread, which add up to 1; the log of all."""
    size, log_sum = sorts.sizes[sort], -math.inf
    for v in range(size):
        ratio = max(sorts.values[sort, v] / gap, -FARTHEST_PLACE)
        place = math.floor(ratio)
        share = ratio - place
        for after in range(2):
            part = share if after else 1.0 - share
            at = 2 * v + after
            places[sort, at] = int(place) + after
            weights[sort, at] = -math.inf
            if part > 0.0:
                weights[sort, at] = math.log(part) + sorts.logs[sort, v] + theta * gap * (place + after)
            log_sum = max(log_sum, weights[sort, at])
    total = 0.0
    for at in range(2 * size):
        total += math.exp(weights[sort, at] - log_sum)
    log_sum += math.log(total)
    for at in range(2 * size):
        weights[sort, at] = math.exp(weights[sort, at] - log_sum)
    return log_sum


@Kernel
def lower_by_ones(theta: float, gap: float, points: int, sorts: Sorts, found: FloatArray, unsure: FloatArray) -> None:
    """Lower bounds on E (X)_+ by how many of the others with a word of their own have a 1 there, of spare reports."""
    places, weights = np.zeros((4, 2 * MOST_VALUES), dtype=np.int64), np.zeros((4, 2 * MOST_VALUES))
    own, second, first = sorts.numbers
    log_all = np.zeros(4)
    for sort in range(4):
        if sorts.numbers[max(sort - 1, 0)] > 0:
            log_all[sort] = spread(theta, gap, sort, sorts, places, weights)
            for v in range(2 * sorts.sizes[sort]):
                places[sort, v] %= points
    turns, at = np.empty(points, dtype=np.complex128), np.zeros((4, 2 * MOST_VALUES), dtype=np.int64)
    for w in range(points):
        turns[w] = complex(math.cos(2.0 * math.pi / points * w), math.sin(2.0 * math.pi / points * w))
    # z at the least point, which is the `moved`-th from the sum's 0
    least = sorts.own - gap * math.floor(sorts.own / gap)
    moved = math.floor((sorts.own - least) / gap + 0.5) % points
    powers, sums, lost = np.empty(own + 1, dtype=np.complex128), np.zeros(own + 1), 0.0
    for w in range(points // 2 + 1):
        ratio = math.exp(-theta * gap) * turns[w]
        away = 1.0 - ratio if w > 0 else complex(-math.expm1(-theta * gap), 0.0)
        weight = math.exp(-theta * least) * (least / away + gap * ratio / away**2)
        weight = weight.conjugate() * turns[(w * moved) % points] * (1.0 if w == 0 or 2 * w == points else 2.0)
        lost += ROUNDING * (own + second + first + 3.0) * abs(weight)
        rest = weight * transform(2, second, sorts.sizes[2], turns, at, weights)
        rest *= transform(3, first, sorts.sizes[3], turns, at, weights)
        zero = transform(0, min(own, 1), sorts.sizes[0], turns, at, weights)
        one = transform(1, min(own, 1), sorts.sizes[1], turns, at, weights)
        turn_on(places, points, at)
        most = abs(rest) * max(abs(zero), abs(one)) ** own
        if most < NOTHING * abs(weight):
            lost += most
            continue
        powers[0] = rest
        for k in range(own):
            powers[k + 1] = powers[k] * zero
        turned = complex(1.0, 0.0)
        for k in range(own + 1):
            sums[k] += (powers[own - k] * turned).real
            turned *= one
    log_rest = theta * sorts.own + second * log_all[2] + first * log_all[3] - math.log(points)
    for k in range(own + 1):
        log_whole = log_rest + ((own - k) * log_all[0] if k < own else 0.0) + (k * log_all[1] if k > 0 else 0.0)
        if log_whole < LARGEST:
            value = math.exp(log_whole) * (max(sums[k], 0.0) + lost)
            if value < found[k]:
                found[k], unsure[k] = value, math.exp(log_whole) * lost


@Kernel
def turn_on(places: IntArray, points: int, at: IntArray) -> None:
    """Move to the next frequency: phases are places times the frequency, modulo the points."""
    for sort in range(4):
        for v in range(places.shape[1]):
            after = at[sort, v] + places[sort, v]
            at[sort, v] = after - points if after >= points else after


@Kernel
def transform(sort: int, power: int, size: int, turns: ComplexArray, at: IntArray, weights: FloatArray) -> complex:
    """A power of the characteristic function of a term, when tilted."""
    if power == 0:
        return complex(1.0, 0.0)
    total = complex(0.0, 0.0)
    for v in range(2 * size):
        total += weights[sort, v] * turns[at[sort, v]]
    found = complex(1.0, 0.0)
    while power > 0:
        if power % 2:
            found *= total
        total *= total
        power //= 2
    return found


class Crossing(NamedTuple):
    """Values and rates of others' reports by kind, spare ones by kind and what they have in common with both inputs.

    As in `accountant.events.race_crowds`, with times, the logs of their weights, and own values.
    """

    masses: FloatArray
    rates: FloatArray
    values: FloatArray
    starts: IntArray
    spare_masses: FloatArray
    spare_rates: FloatArray
    spare_lacks: FloatArray
    spare_starts: IntArray
    own: FloatArray
    places: FloatArray
    log_times: FloatArray
    log_alls: FloatArray  # of times, if everything is told at them


@Kernel
def fill_sort(x: float, sort: int, spare: int, crowd: Crossing, sorts: Sorts) -> None:
    """Fill values and logs of one sort at a time x beside this spare report: rounded up."""
    kind = max(sort - 1, 0)
    a, b = crowd.starts[kind], crowd.starts[kind + 1]
    sorts.sizes[sort] = b - a
    for v in range(b - a):
        exponent = x * (crowd.rates[a + v] - crowd.spare_rates[spare]) - crowd.spare_lacks[spare]
        value = crowd.values[a + v]
        if exponent > FARTHEST:
            value = math.inf if value > 0.0 else value * math.exp(FARTHEST)
        else:
            value *= math.exp(exponent)
        sorts.values[sort, v] = value + 1e-12 * abs(value)
        sorts.logs[sort, v] = math.log(crowd.masses[a + v]) - x * crowd.rates[a + v]


@Kernel
def mean_of_ones(found: FloatArray, mean: float) -> float:
    """The largest mean of `found` at any random number with this mean; infinite where one of them is."""
    for each in found:
        if not each < math.inf:
            return math.inf
    most = 0.0
    for low in range(found.size):
        if low > mean:
            break
        for high in range(found.size):
            if high < mean:
                continue
            share = (mean - low) / (high - low) if high > low else 0.0
            most = max(most, found[low] + share * (found[high] - found[low]))
    return most


@Kernel
def log_known_sum(numbers: IntArray, clock: float, enough: float, crowd: Crossing) -> tuple[float, float]:
    """Log of what the race says at all its times; what adds less than `enough` has a rougher bound.

    With the operations that were taken.
    """
    agreeing, total, work = crowd.own.size, 0.0, 0.0
    values, logs, sizes = np.zeros((4, MOST_VALUES)), np.zeros((4, MOST_VALUES)), np.zeros(4, dtype=np.int64)
    near = np.full(agreeing, 1.0)
    for t in range(crowd.places.size):
        at_time, all_told = 0.0, math.exp(crowd.log_alls[t])
        if crowd.log_alls[t] < enough:
            total += all_told
            continue
        for agree in range(agreeing):
            some = [crowd.spare_starts[kind * agreeing + agree] for kind in range(KINDS)]
            both = crowd.spare_masses[some[0]] + crowd.spare_masses[some[0] + 1]
            weight, ones = crowd.spare_masses[some[2]], crowd.spare_masses[some[0] + 1] / both
            is_again = both < weight * (1.0 - 1e-9)
            if is_again and numbers[0] == 0:  # nobody has an image
                continue
            log_weight = crowd.log_times[t] + math.log(weight)
            if is_again:
                log_weight += numbers[0] * math.log(both / weight)
            sorts = Sorts(values, logs, sizes, numbers, clock * crowd.own[agree], ones)
            fill_sort(crowd.places[t], 0, some[0], crowd, sorts)
            fill_sort(crowd.places[t], 1, some[0] + 1, crowd, sorts)
            fill_sort(crowd.places[t], 2, some[1], crowd, sorts)
            fill_sort(crowd.places[t], 3, some[2], crowd, sorts)
            log_mean, theta, taken = log_mean_positive(
                near[agree], sorts, enough - log_weight, crowd.log_alls[t] - log_weight
            )
            work += taken
            near[agree] = theta if abs(log_mean) < LARGEST else near[agree]
            at_time += math.exp(log_mean + log_weight)
            if not at_time < all_told:
                at_time = all_told
                break
        total += at_time
    return math.log(max(total, 1e-300)), work


@Kernel
def log_mean_positive(near: float, sorts: Sorts, enough: float, known: float) -> tuple[float, float, float]:
    """Log of a bound on E (X)_+, whatever number of the others with a word of their own have a 1, of the given mean.

    A rougher one if that is below `enough`, or far above what is known anyway. With a theta, and the operations taken.
    """
    theta, _, tried = find_tilt(near, sorts)
    rough, work = log_any_ones(theta, sorts), TILT * tried
    if not enough < rough < known + HOPELESS:
        return rough, theta, work
    first_theta = theta
    own, second, first = sorts.numbers
    found, unsure, share = np.full(own + 1, math.inf), np.full(own + 1, math.inf), sorts.ones
    for _ in range(PASSES):
        some = Sorts(sorts.values, sorts.logs, sorts.sizes, sorts.numbers, sorts.own, share)
        theta, variance, tried = find_tilt(theta, some)
        work += TILT * tried
        if not variance < math.inf:  # squares overflow
            return rough, first_theta, work
        length = PERIOD * math.sqrt(variance) + TAIL / theta
        points = length / (FINE * math.sqrt(variance / (own + second + first)) + 1e-300)
        points = int(min(max(points, LEAST_POINTS), MOST_POINTS))
        lower_by_ones(theta, length / points, points, some, found, unsure)
        work += points * (FREQUENCY + FOR_ONES * own)
        worst = 0
        while worst <= own and unsure[worst] < max(SURE * found[worst], math.exp(enough)):
            worst += 1
        if worst > own:
            break
        share = worst / max(own, 1)
    return math.log(max(mean_of_ones(found, own * sorts.ones), 1e-300)), first_theta, work
