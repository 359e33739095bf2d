"""What it takes to know characteristic functions, before they are (compiled): an estimate, not a bound.

The notation is that of `accountant.tight.inversion_kernels`.
"""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.inversion_kernels import NODE_WORK, STEP_WORK, Line, loss_at, nodes_of

__all__ = ["estimate_falls", "expect_work"]

SHRINK = 1.25
"""Ratio of neighbouring frequencies at which falls are estimated."""

WIDTH, MOST, SMALL = 0.25, 4000.0, 1e-3
"""Of the points by which that is done: their distance, how many at most, and which copies times mass are left out."""

QUADRATIC = 0.02
"""How near to the ratio of the squares of two frequencies that of their falls is where lower ones are not looked at."""

LOOKED_AT = 256
"""Rows of which falls are estimated: the others are as the one before, in the order that `transform_run` has them."""


@Kernel
def estimate_falls(
    mu: float, rate: float, copies: float, alpha: float, ends: tuple[float, float], places: FloatArray
) -> FloatArray:
    """About -log |E_f e^{i x L}| times `copies` at frequencies that fall by SHRINK; f is nearly all between the `ends`.

    L counts as straight within a cell, on which the mean of e^{i x L} is sin(z)/z times that in the middle, about
    1 - z^2/6, z being half its turn.
    """
    low, high = ends
    width = max(WIDTH, (high - low) / MOST)
    size = int((high - low) / width) + 1
    losses, halves, weights = np.empty(size), np.empty(size), np.empty(size)
    for j in range(size):
        y = low + j * width
        losses[j] = loss_at(mu, rate, y)
        halves[j] = 0.5 * width * mu * rate * math.exp(mu * y - 0.5 * mu * mu - losses[j])
        weights[j] = alpha * losses[j] - 0.5 * y * y
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    kept = weights * copies > SMALL / size
    losses, halves, weights = losses[kept], halves[kept], weights[kept]
    losses = losses - (weights * losses).sum() / weights.sum()  # so that nothing cancels below
    falls = np.zeros(places.size)
    for k in range(places.size):
        x, real, imaginary = places[k], 0.0, 0.0
        for j in range(losses.size):
            sine, half = math.sin(0.5 * x * losses[j]), x * halves[j]
            mean = max(1.0 - half * half / 6.0, 0.0)
            real += weights[j] * (mean - 1.0 - 2.0 * mean * sine * sine)
            imaginary += weights[j] * mean * math.sin(x * losses[j])
        square = 2.0 * real + real * real + imaginary * imaginary
        falls[k] = -0.5 * copies * math.log1p(max(square, -1.0 + 1e-16))
        if k > 0 and abs(falls[k] * SHRINK**2 - falls[k - 1]) <= QUADRATIC * falls[k - 1]:
            falls[k + 1 :] = falls[k] * (places[k + 1 :] / x) ** 2
            break
    return falls


@Kernel
def expect_work(rows: FloatArray, slope: float, line: Line, log_least: float) -> float:
    """About how many operations `transform_run` does, inf if there is no rule for a row."""
    places = np.empty(int(math.log(line.last) / math.log(SHRINK)) + 2)
    for j in range(places.size):
        places[j] = line.last * line.step * SHRINK**-j
    left = -log_least - 2.0 * np.log(places) - slope * places**2  # what has still to fall
    each = np.zeros(places.size)
    stride, total, at, last = 1 + rows.shape[0] // LOOKED_AT, 0.0, 0, line.last
    for i in range(rows.shape[0]):
        mu, rate, copies = rows[i, 0], rows[i, 1], rows[i, 2]
        nodes = nodes_of(mu, rate, Line(line.alpha, line.turn, line.step, last), rows[i, 3], math.log(copies))
        if nodes.size == 0:
            return math.inf
        total += nodes.size * (STEP_WORK * last + NODE_WORK)
        if i % stride == 0:
            ends = nodes.first * nodes.width, (nodes.first + nodes.size) * nodes.width
            each[at:] = estimate_falls(mu, rate, copies, line.alpha, ends, places[at:])
        left[at:] -= each[at:]
        while at < places.size - 2 and left[at + 1] <= 0.0:
            at += 1
        if left[at] <= 0.0:
            # between two frequencies what is left falls about as a line
            share = min(max(left[at] / (left[at] - left[at + 1]), 0.0), 1.0)
            last = max(min(last, int((places[at] + share * (places[at + 1] - places[at])) / line.step) + 1), 1)
    return total
