"""Kernels that add two distributions of likelihood ratios on grids of logarithms (`accountant.samplers.likelihoods`).

Lags are outermost, and the products of one lag are taken of slices of one length: several at once, in the same order.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = [
    "IntArray",
    "convolve_contractions",
    "convolve_few_contractions",
    "convolve_few_spreads",
    "convolve_spreads",
    "reach_of_sum",
]

IntArray = NDArray[np.int64]


@Kernel
def reach_of_sum(apart: float) -> float:
    """How far log(e^x + e^(x + apart)) is from the larger of x and x + apart."""
    return math.log1p(math.exp(-abs(apart)))


@Kernel
def meet(a: FloatArray, b: FloatArray, apart: int, lag: int) -> tuple[FloatArray, FloatArray, int]:
    """What has i - (j + apart) = lag of a_i and of b_j, and the larger of i and j + apart of the first of them."""
    first, last = max(0, lag + apart), min(a.size, b.size + lag + apart)
    back = lag + apart
    return a[first:last], b[first - back : last - back], first + max(0, -lag)


@Kernel
def convolve_spreads(
    a: FloatArray, b: FloatArray, apart: int, least: int, step: float, twice: bool, low: FloatArray, high: FloatArray
) -> None:
    """Masses of sums at the grid point below (`low`) and the one above (`high`), `least` points after `a`'s first one.

    b_j stands `apart` points after a_j. With `twice`, a and b are the same: pairs with i < j are counted for those
    with i > j.
    """
    rise = math.expm1(step)
    for lag in range(0 if twice else 1 - b.size - apart, a.size - apart):
        reach = reach_of_sum(lag * step) / step
        cells = math.floor(reach)
        share = math.expm1((reach - cells) * step) / rise
        weight = 2.0 if twice and lag > 0 else 1.0
        up, down = share * weight, (1.0 - share) * weight
        of_a, of_b, larger = meet(a, b, apart, lag)
        start, end = larger + cells - least, larger + cells - least + of_a.size
        below, beyond = low[start:end], high[start:end]
        for i in range(of_a.size):
            mass = of_a[i] * of_b[i]
            below[i] += mass * down
            beyond[i] += mass * up


@Kernel
def convolve_few_spreads(
    a: FloatArray,
    b: FloatArray,
    apart: int,
    least: int,
    step: float,
    some_a: IntArray,
    some_b: IntArray,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """The same for few masses: `some_a` and `some_b` are the indices of those above 0."""
    rise = math.expm1(step)
    for i in some_a:
        for j in some_b:
            lag = i - j - apart
            reach = reach_of_sum(lag * step) / step
            cells = math.floor(reach)
            share = math.expm1((reach - cells) * step) / rise
            place = cells - least + max(i, j + apart)
            mass = a[i] * b[j]
            low[place] += mass * (1.0 - share)
            high[place] += mass * share


@Kernel
def convolve_contractions(
    a: FloatArray,
    places_a: FloatArray,
    b: FloatArray,
    places_b: FloatArray,
    apart: int,
    least: int,
    step: float,
    twice: bool,
    edges: FloatArray,
    masses: FloatArray,
    moments: FloatArray,
    later_masses: FloatArray,
    later_moments: FloatArray,
) -> None:
    """Masses and first moments of sums by cell, and of those that fall into the cell after; see `convolve_spreads`."""
    for lag in range(0 if twice else 1 - b.size - apart, a.size - apart):
        cells = math.floor(reach_of_sum(lag * step) / step)
        weight = 2.0 if twice and lag > 0 else 1.0
        of_a, of_b, larger = meet(a, b, apart, lag)
        at_a, at_b, _ = meet(places_a, places_b, apart, lag)
        start, end = larger + cells - least, larger + cells - least + of_a.size
        ends = edges[start + 1 : end + 1]
        here, mean_here = masses[start:end], moments[start:end]
        after, mean_after = later_masses[start:end], later_moments[start:end]
        for i in range(of_a.size):
            mass = weight * of_a[i] * of_b[i]
            total = at_a[i] + at_b[i]
            later = mass if total >= ends[i] else 0.0
            here[i] += mass - later
            mean_here[i] += (mass - later) * total
            after[i] += later
            mean_after[i] += later * total


@Kernel
def convolve_few_contractions(
    a: FloatArray,
    places_a: FloatArray,
    b: FloatArray,
    places_b: FloatArray,
    apart: int,
    least: int,
    step: float,
    some_a: IntArray,
    some_b: IntArray,
    edges: FloatArray,
    masses: FloatArray,
    moments: FloatArray,
) -> None:
    """The same for few masses, each at once in its cell."""
    for i in some_a:
        for j in some_b:
            cells = math.floor(reach_of_sum((i - j - apart) * step) / step)
            total = places_a[i] + places_b[j]
            place = cells - least + max(i, j + apart)
            if total >= edges[place + 1]:
                place += 1
            masses[place] += a[i] * b[j]
            moments[place] += a[i] * b[j] * total
