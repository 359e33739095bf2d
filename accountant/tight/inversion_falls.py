"""Bounds on characteristic functions of sampled Gaussians at all frequencies beyond one (compiled).

The notation is that of `accountant.tight.inversion_kernels`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.tight.inversion_kernels import ROOT, loss_at

__all__ = ["RATIO", "Cells", "cells_of", "fall_by_pairs", "fall_by_waves", "fall_of_run"]

CELL, CELLS = 0.25, 60
"""Width and number of the cells in which a density is bounded from below."""

WINDOW = 2.5
"""Phase on which pairs of losses are looked at together."""

RATIO = 1.4
"""Of neighbouring frequencies at which characteristic functions are bounded."""

TYPICAL = 4.0
"""The frequency up to which rows are compared: far below, rare losses are all that tells."""


@Kernel
def find_mode(mu: float, rate: float, alpha: float) -> float:
    """About where phi e^{alpha L} is largest, y = alpha mu times the share of N(mu,1); the first such place."""
    y, low, high = 0.0, min(alpha * mu, 0.0), 0.0
    for _ in range(30):
        there = alpha * mu * rate * math.exp(mu * y - 0.5 * mu * mu - loss_at(mu, rate, y))
        if alpha > 0.0:
            y = there  # rises towards it
        else:
            low, high = (y, high) if there > y else (low, y)
            y = 0.5 * (low + high)
    return y


class Cells(NamedTuple):
    """Cells of width CELL, from left to right: L, L' and f at their ends, L from the first end on and f from below.

    In a cell f is at least `sag` times the less of its ends.
    """

    losses: FloatArray
    slopes: FloatArray
    density: FloatArray
    sag: float


@Kernel
def cells_of(mu: float, rate: float, alpha: float, log_mean: float) -> Cells:
    """Cells around the first mode of f; `log_mean` is at least log E e^{alpha L}."""
    low = find_mode(mu, rate, alpha) - 5.0
    losses, slopes, density = np.empty(CELLS + 1), np.empty(CELLS + 1), np.empty(CELLS + 1)
    base = loss_at(mu, rate, low)
    for i in range(CELLS + 1):
        y = low + i * CELL
        loss = loss_at(mu, rate, y)
        losses[i] = loss - base
        slopes[i] = mu * rate * math.exp(mu * y - 0.5 * mu * mu - loss)
        density[i] = ROOT * math.exp(min(-0.5 * y * y + alpha * loss - log_mean, 100.0))
    # on a cell -y^2/2 + alpha L sags below its ends by its curvature at most, and 0 <= L'' <= mu^2/4
    sag = math.exp(-0.125 * CELL * CELL * max(0.25 * alpha * mu * mu, 0.0)) * (1.0 - 1e-9)
    return Cells(losses, slopes, density, sag)


@Kernel
def fall_by_waves(cells: Cells, x: float) -> float:
    """A lower bound on -log |E_f e^{i x L}| that rises with x.

    Where f >= c on an interval of width w and L' >= q there, 1/L' falls, as L is convex, and the second mean value
    theorem gives |int e^{ixL} dy| <= 2/(x q): the interval takes at least c (w - 2/(x q)) from |E e^{ixL}| <= 1.
    """
    taken = 0.0
    for many in (1, 2, 4):
        gain, width = 0.0, CELL * many
        for j in range(0, CELLS - many + 1, many):
            if x * cells.slopes[j] * width > 2.0:
                lowest = cells.density[j]
                for i in range(1, many + 1):
                    lowest = min(lowest, cells.density[j + i])
                gain += lowest * (width - 2.0 / (x * cells.slopes[j]))
        taken = max(taken, gain)
    return -math.log1p(-min(taken * cells.sag * (1.0 - 1e-9), 0.999999))


@Kernel
def fall_by_pairs(cells: Cells, x: float, highest: float) -> float:
    """A lower bound on -log |E_f e^{i y L}| for all y in [x, highest].

    With an independent copy L*, 1 - |E e^{iyL}|^2 = E[1 - cos(y (L - L*))], and 1 - cos z >= z^2 (1 - cos c)/c^2 where
    |z| <= c < 2 pi. That is summed over pairs in windows on which |y (L - L*)| <= WINDOW; pairs in cells i < j have
    p_i p_j (a_j - b_i)^2 at least, [a, b] being the losses in a cell and p no more than its mass.
    """
    total, start = 0.0, 0
    mass, first, second = 0.0, 0.0, 0.0
    for j in range(CELLS):
        if highest * (cells.losses[j + 1] - cells.losses[start]) > WINDOW:
            start, mass, first, second = j + 1, 0.0, 0.0, 0.0
            continue
        a, b = cells.losses[j] - cells.losses[start], cells.losses[j + 1] - cells.losses[start]
        p = CELL * cells.sag * min(cells.density[j], cells.density[j + 1])
        total += 2.0 * p * max(mass * a * a - 2.0 * a * first + second, 0.0)
        mass, first, second = mass + p, first + p * b, second + p * b * b
    return 0.5 * x * x * total * (1.0 - math.cos(WINDOW)) / WINDOW**2 * (1.0 - 1e-6)


@Kernel
def fall_of_run(
    rows: FloatArray, slope: float, alpha: float, s: float, enough: float, falls: FloatArray, squares: FloatArray
) -> None:
    """Fill `falls`: -log |E_f e^{i x L}| of a composition is at least falls[m] for all |x| >= s r^m.

    `rows` are (mu, rate, count, log mean) of sampled Gaussians; `slope` is half the sum of mu^2 of Gaussians that are
    not sampled. No more than about `enough` is looked for. `squares` are filled with the falls of rows by pairs at low
    frequencies, over x^2.
    """
    for m in range(falls.size):
        falls[m] = slope * (s * RATIO**m) ** 2 * (1.0 - 1e-9)
    for i in range(rows.shape[0]):
        copies, fall = rows[i, 2], 0.0
        cells = cells_of(rows[i, 0], rows[i, 1], alpha, rows[i, 3])
        for m in range(falls.size):
            x = s * RATIO**m
            if copies * fall * rows.shape[0] < enough:
                fall = fall_by_waves(cells, x)
                paired = fall_by_pairs(cells, x, x * RATIO) if m < falls.size - 1 else 0.0
            else:
                paired = 0.0  # waves take no less at higher frequencies
            falls[m] += copies * max(fall, paired)
            if m == 0 or (x < TYPICAL and paired > 0.0):
                squares[i] = copies * paired / (x * x)
    for m in range(falls.size - 2, -1, -1):
        falls[m] = min(falls[m], falls[m + 1])
