"""Two of m steps, drawn at random: a pair above, by the first two symmetric sums of the steps' likelihood ratios.

The ratio of both together is 2 w/(m (m - 1)) with s = X_1 + ... + X_m and w = sum of X_i X_j over i < j. Added one by
one, s + X and w + s X, a hockey stick of the end is a mean of convex functions of the (s, w) that is reached: it may be
split between neighbouring points of a grid of s and of 2 w/s^2 with the same mean (notebooks/mathematics.md, Random
allocation).
"""

from __future__ import annotations

import math

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.discrete_pair import DiscretePair
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.patience import fits, remember, spend
from accountant.samplers.allocation_pairs import bracket_step, pair_above
from accountant.samplers.likelihoods import Ratios, Spread
from accountant.tight.polygon import ULP

__all__ = ["MOST_STEPS", "pair_of_two"]

MOST_STEPS = 24
"""With more of them one of half as many, twice, is near enough."""

STEPS = 0.02, 0.03, 0.045, 0.06
"""Of the grid, in nats, and that of the losses of one step, relative to the ratio's deviation, at most 1: the finest
for which there is patience."""

ALIKE = 2.0
"""Steps of the grid of 2 w/s^2, relative to that of s."""

SMALLEST = 1e-5
"""The least 2 w/s^2 of the grid beside 0."""

PRODUCT = 2.0
"""Operations (see `accountant.patience`) of a point and a ratio."""

SPARE = 3.0
"""Times its work for which there must be patience: the other direction and the lower end come after it."""

MARGIN = 3.0
"""Nats by which what is left out at one place is less than what all may."""

WHAT = "two of several steps"


def pair_of_two(
    event: Event, steps: int, direction: Direction, log_lost: float, most: float = math.inf
) -> DiscretePair | None:
    """A pair above that of two of `steps` steps, by at most so many operations; None where it takes too long."""
    if not 2 <= steps <= MOST_STEPS:
        return None
    deviation = math.sqrt(math.expm1(min(float(event._curve(np.array([2.0]))[0]), 50.0)))
    for step in STEPS:
        fine = step * min(deviation, 1.0)
        try:
            work = _work(bracket_step(event, direction, fine, log_lost)[0], steps)
        except ToleranceUnreachable:  # a coarser grid may do
            continue
        if work <= most and fits(SPARE * work):
            return _pair_on_grid(event, steps, direction, log_lost, fine)
    return None


def _rows(one: Spread, steps: int) -> int:
    """Points of the grid of s."""
    return one.masses.size + math.ceil(math.log(steps) / one.step) + 2


def _work(one: Spread, steps: int) -> float:
    return PRODUCT * steps * _rows(one, steps) * one.masses.size * (_logs_of_shares(one.step) + 2)


@remember(WHAT, 32)
def _pair_on_grid(event: Event, steps: int, direction: Direction, log_lost: float, step: float) -> DiscretePair:
    one = bracket_step(event, direction, step, log_lost)[0]
    spend(_work(one, steps), WHAT)
    removed, rows = direction == DIRECTIONS[0], _rows(one, steps)
    sums = np.exp(one.offset + one.step * (one.first + np.arange(rows)))
    shares = _shares(one.step)
    cut = math.exp(log_lost - MARGIN) / (steps * rows * one.masses.size)
    total = _add_steps(one, steps, sums, shares, cut, removed)
    return DiscretePair(pair_above(_collapse(total, one, steps, sums, shares, removed), 1, direction))


def _logs_of_shares(step: float) -> int:
    """Points of the grid of 2 w/s^2 between 0 and 1."""
    return math.ceil(-math.log(SMALLEST) / (ALIKE * step))


def _shares(step: float) -> FloatArray:
    """The grid of 2 w/s^2, which is below 1."""
    return np.append(0.0, np.exp(ALIKE * step * np.arange(-_logs_of_shares(step), 1.0)))


def _add_steps(
    one: Spread, steps: int, sums: FloatArray, shares: FloatArray, cut: float, removed: bool
) -> tuple[FloatArray, float]:
    """Masses of Q by s and 2 w/s^2 after all steps, and what was left out: of P where it comes first, else of Q."""
    places, left_out = one.places, np.zeros(1)
    mean = max(float(np.sum(one.masses * places)) + one.lost, 1.0)
    masses, nothing = np.zeros((sums.size, shares.size)), 1.0
    for done in range(steps):
        rest = steps - done - 1
        future = np.array([rest * mean, rest * (rest - 1) / 2 * mean**2]) if removed else np.zeros(2)
        found = masses * one.zero
        found[: places.size, 0] += nothing * one.masses
        scale = 2.0 / (steps * (steps - 1)) if removed else 0.0
        add_ratios(masses, found, sums, shares, places, one.masses, future, scale, cut, left_out)
        masses, nothing = found, nothing * one.zero
    return masses, float(left_out[0])


@Kernel
def add_ratios(
    old: FloatArray,
    new: FloatArray,
    sums: FloatArray,
    shares: FloatArray,
    places: FloatArray,
    masses: FloatArray,
    future: FloatArray,
    scale: float,
    cut: float,
    left_out: FloatArray,
) -> None:
    """Add to `new` what one more step makes of `old`, each place split between four.

    A mass that counts less than `cut` is left out: by its share of P, if `scale` is above 0, of which `future` tells
    the mean of what is added later; else by itself.
    """
    last = sums.size - 1
    ratio = sums[1] / sums[0]
    inverse = 1.0 / np.log(ratio)
    for a in range(last + 1):
        low, high = 0, shares.size
        while low < high and old[a, low] == 0.0:
            low += 1
        while high > low and old[a, high - 1] == 0.0:
            high -= 1
        if low == high:
            continue
        s = sums[a]
        for j in range(places.size):
            if masses[j] == 0.0:
                continue
            after = s + places[j]
            c = min(max(int(np.log(after / sums[0]) * inverse), 0), last - 1)
            while c > 0 and sums[c] > after:
                c -= 1
            while c < last - 1 and sums[c + 1] <= after:
                c += 1
            f = min(max((after - sums[c]) / (sums[c + 1] - sums[c]), 0.0), 1.0)
            square = (1.0 - f) * sums[c] ** 2 + f * sums[c + 1] ** 2
            times, more, k = s * s / square, 2.0 * s * places[j] / square, 0
            for b in range(low, high):
                mass = old[a, b] * masses[j]
                if mass == 0.0:
                    continue
                share = min(times * shares[b] + more, 1.0)
                counts = mass
                if scale > 0.0:
                    counts = mass * scale * (share * square / 2.0 + after * future[0] + future[1])
                if counts < cut:
                    left_out[0] += counts
                    continue
                while k < shares.size - 2 and shares[k + 1] <= share:
                    k += 1
                g = (share - shares[k]) / (shares[k + 1] - shares[k])
                new[c, k] += mass * (1.0 - f) * (1.0 - g)
                new[c, k + 1] += mass * (1.0 - f) * g
                new[c + 1, k] += mass * f * (1.0 - g)
                new[c + 1, k + 1] += mass * f * g


def _collapse(
    total: tuple[FloatArray, float], one: Spread, steps: int, sums: FloatArray, shares: FloatArray, removed: bool
) -> Ratios:
    """The ratio alone, on a grid of logarithms, and what is lost and how wrong it is."""
    masses, left_out = total
    ratios = np.outer(sums**2, shares / (steps * (steps - 1))).ravel()
    some = masses.ravel() > 0.0
    weights, ratios = masses.ravel()[some], ratios[some]
    above = ratios > 0.0
    zero = max(1 - float(weights[above].sum()), 0.0) if removed else float(weights[~above].sum()) + one.zero**steps
    weights, logs = weights[above], np.log(ratios[above])
    step = one.step
    first = math.floor(float(logs.min()) / step)
    cells = np.clip(np.floor(logs / step) - first, 0, None).astype(np.int64)
    size = int(cells.max()) + 2
    grid = np.exp(step * (first + np.arange(float(size))))
    f = np.clip((ratios[above] - grid[cells]) / (grid[cells + 1] - grid[cells]), 0.0, 1.0)
    found = np.zeros(size)
    np.add.at(found, cells, weights * (1 - f))
    np.add.at(found, cells + 1, weights * f)
    some = found > 0.0
    mean = max(float(np.sum(one.masses * one.places)) + one.lost, 1.0)
    lost = 2 * one.lost * mean + (left_out * (1 + 1e-6) if removed else 0.0)
    zero += 0.0 if removed else left_out * (1 + 1e-6)
    # a mass is a product of a few in each step, and a sum of no more terms than there are
    terms = float(masses.size) * one.masses.size
    error = steps * (one.error + ULP * (terms + 64)) + ULP * (masses.size + 8)
    return Ratios(found[some], grid[some], zero, lost, error, 2 * one.moved + ULP * 40 * (steps + 2))
