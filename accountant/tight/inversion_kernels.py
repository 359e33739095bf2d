"""Compiled parts of Fourier inversion: the characteristic function of sampled Gaussians, a bound beyond, and the sum.

For a pair whose log-ratio L is that of (1-g) N(0,1) + g N(mu,1) to N(0,1), with y ~ N(0,1) under the second,
L(y) = log(1 - g + g e^v), v = mu y - mu^2/2. All is about E e^{a L} at complex a = alpha + i s, and about the density
f(y) = phi(y) e^{alpha L(y)} / E e^{alpha L}, under which E e^{i s L} is E e^{a L} / E e^{alpha L}.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel, SummingKernel
from accountant.numerics.special import log_mixture_ratio_at
from accountant.tight.polygon import ULP

__all__ = [
    "RATIO",
    "Cells",
    "Line",
    "Nodes",
    "add_transforms",
    "cells_of",
    "count_nodes",
    "fall_by_pairs",
    "fall_by_waves",
    "fall_of_run",
    "invert_at",
    "nodes_of",
    "scale_spectrum",
    "transform_run",
]

QUADRATURE = 46.0
"""Nats by which the trapezoidal rule and what lies beyond its ends are to be below 1, before the count is added."""

WIDEST_ANGLE = 2.5
"""Angle by which e^v turns, at most, in the strip on whose edge the trapezoidal rule's error is bounded; < pi."""

ROOT = 0.3989422804014327
"""1/sqrt(2 pi)."""

CELL, CELLS = 0.25, 60
"""Width and number of the cells in which a density is bounded from below."""

WINDOW = 2.5
"""Phase on which pairs of losses are looked at together."""

RATIO = 1.4
"""Of neighbouring frequencies at which characteristic functions are bounded."""


class Line(NamedTuple):
    """Orders a = alpha + i turn k step for k = 0, 1, ..., last; `turn` is 1 or -1."""

    alpha: float
    turn: float
    step: float
    last: int


class Nodes(NamedTuple):
    """A trapezoidal rule: points (first + j) width, 0 <= j < size, none if there is no rule; and what it errs by."""

    first: float
    width: float
    size: int
    error: float


@Kernel
def loss_at(mu: float, rate: float, y: float) -> float:
    """L(y)."""
    return log_mixture_ratio_at(rate, mu * y - 0.5 * mu * mu)


@Kernel
def highest_node(mu: float, rate: float, alpha: float, wanted: float) -> float:
    """A y beyond which a rule for phi e^{alpha L} has less than 2 e^-wanted left, alpha > 0.

    L - v falls, so that beyond y phi e^{alpha L} is at most e^{alpha (L(y) - v(y))} phi e^{alpha v}, and
    phi(y) e^{alpha v(y)} = e^{alpha (alpha-1) mu^2/2} phi(y - alpha mu).
    """
    y = math.sqrt(2.0 * wanted)
    for _ in range(1000):
        past = max(y - alpha * mu, 0.0)
        above = loss_at(mu, rate, y) - mu * y + 0.5 * mu * mu
        if 0.5 * alpha * (alpha - 1.0) * mu * mu + alpha * above - 0.5 * past * past <= -wanted:
            return y
        y += 0.5
    return math.inf


@Kernel
def nodes_of(mu: float, rate: float, line: Line, log_mean: float, log_count: float) -> Nodes:
    """The rule for E e^{a L} - 1 on all of the line; `log_mean` is at least log E e^{alpha L}.

    At y + i eta, |eta| <= D, with t = mu D < pi, 1 - g + g e^{v + i mu eta} lies in the sector between 1 and the second
    term's angle, and its size is between cos(t/2) e^L and e^L, as |p + q e^{it}|^2 = (p+q)^2 - 4 p q sin^2(t/2). Hence
    |phi e^{a L}| <= phi e^{alpha L} e^{D^2/2 + |s| t} cos(t/2)^min(alpha, 0) there, and the rule on h Z errs by at most
    2 M / (e^{2 pi D/h} - 1), M the integral of that and of |phi| (Trefethen & Weideman 2014, Thm 5.1).
    """
    alpha, wanted = line.alpha, QUADRATURE + log_count
    strip = min(WIDEST_ANGLE / mu, math.sqrt(2.0 * wanted))
    log_edge = 0.5 * strip * strip + line.step * line.last * strip * mu + max(log_mean, 0.0) + 1.4
    if alpha < 0.0:
        log_edge += alpha * math.log(math.cos(0.5 * strip * mu))
    width = min(2.0 * math.pi * strip / (log_edge + wanted), 0.5)
    low = high = math.sqrt(2.0 * wanted)
    if alpha > 0.0:
        high = highest_node(mu, rate, alpha, wanted)
    else:  # e^{alpha L} <= (1-g)^alpha
        low = high = math.sqrt(2.0 * (wanted + alpha * math.log1p(-rate)))
    size = (low + high) / width + 5.0
    if not size < 1e7:
        return Nodes(0.0, 1.0, 0, 0.0)
    first = -math.ceil(low / width) - 1.0
    return Nodes(first, width, int(math.ceil(high / width) + 2.0 - first), 8.0 * math.exp(-wanted))


@SummingKernel
def add_up(values: FloatArray) -> float:
    """The sum, several at once."""
    total = 0.0
    for j in range(values.size):
        total += values[j]
    return total


@Kernel
def add_transforms(
    mu: float, rate: float, copies: float, line: Line, nodes: Nodes, work: FloatArray, total: FloatArray
) -> bool:
    """Add `copies` times log E e^{a L} on the line to total[0] + i total[1], and a bound on its error to total[2].

    With m_k = e^{a_k L} - 1 and r = e^{i step L} - 1:  m_{k+1} = m_k + r (m_k + 1), where |m_k + 1| = e^{alpha L}; k of
    these err by at most 16 k ulps of |m_0| + k step |L| e^{alpha L} (notebooks/mathematics.md, Fourier inversion).
    Where a transform is as small as its error that is infinite, and total[0] bounds the logarithm of the size of all.
    `work` has 5 rows of nodes.size. False if the transform at alpha is not known.
    """
    real, imaginary, turn_real, turn_imaginary, weights = work[0], work[1], work[2], work[3], work[4]
    at_start, growing, rough_start, rough_growing = 0.0, 0.0, 0.0, 0.0
    for j in range(nodes.size):
        y = (nodes.first + j) * nodes.width
        v = mu * y - 0.5 * mu * mu
        loss = log_mixture_ratio_at(rate, v)
        weight = nodes.width * ROOT * math.exp(-0.5 * y * y)
        if abs(line.alpha * loss) < 1.0:
            change = weight * math.expm1(line.alpha * loss)
            tilted = weight + change
        else:
            tilted = nodes.width * ROOT * math.exp(-0.5 * y * y + line.alpha * loss)
            change = tilted - weight
        angle = line.turn * line.step * loss
        half = math.sin(0.5 * angle)
        weights[j], real[j], imaginary[j] = weight, change, 0.0
        turn_real[j], turn_imaginary[j] = -2.0 * half * half, math.sin(angle)
        at_start += abs(change)
        growing += tilted * abs(loss)
        # roundings of the exponents; and of v, hence of the loss, whose slope in v is the share of the second part
        relative = 8.0 + 2.0 * y * y + 4.0 * abs(line.alpha * loss)
        rough_start += (abs(change) if abs(line.alpha * loss) < 1.0 else tilted + weight) * relative
        rough_growing += tilted * abs(loss) * relative
        share = rate * math.exp(v - loss)
        wrong = 4.0 * (share * (abs(mu * y) + mu * mu) + abs(loss))
        rough_start += tilted * abs(line.alpha) * wrong
        rough_growing += tilted * wrong
    for k in range(line.last + 1):
        x, z = add_up(real), add_up(imaginary)
        s = k * line.step
        error = (at_start + s * growing) * (0.5 * nodes.size + 16.0 * (k + 1.0)) + rough_start + s * rough_growing
        error = nodes.error + ULP * error
        size = math.hypot(1.0 + x, z)
        if not error < 0.1 * size or total[2, k] == math.inf:
            if k == 0 or not error < math.inf:
                return False
            if total[2, k] < math.inf:
                total[0, k], total[2, k] = total[0, k] + total[2, k], math.inf
            total[0, k] += copies * (math.log(size + error) + 1e-14)
        else:
            log_size = 0.5 * math.log1p(2.0 * x + (x * x + z * z)) if size > 0.5 else math.log(size)
            angle = math.atan2(z, 1.0 + x)
            total[0, k] += copies * log_size
            total[1, k] += copies * angle
            wrong = 1.06 * error / size + 8.0 * ULP * (abs(x) + abs(z) + abs(log_size) + abs(angle))
            total[2, k] += copies * wrong + ULP * (abs(total[0, k]) + abs(total[1, k]))
        for j in range(nodes.size):
            a, b = real[j], imaginary[j]
            whole, c, d = a + weights[j], turn_real[j], turn_imaginary[j]
            real[j] = a + (whole * c - b * d)
            imaginary[j] = b + (whole * d + b * c)
    return True


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
def fall_of_run(rows: FloatArray, slope: float, alpha: float, s: float, enough: float, falls: FloatArray) -> None:
    """Fill `falls`: -log |E_f e^{i x L}| of a composition is at least falls[m] for all |x| >= s r^m.

    `rows` are (mu, rate, count, log mean) of sampled Gaussians; `slope` is half the sum of mu^2 of Gaussians that are
    not sampled. No more than about `enough` is looked for.
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
    for m in range(falls.size - 2, -1, -1):
        falls[m] = min(falls[m], falls[m + 1])


@Kernel
def count_nodes(rows: FloatArray, line: Line) -> float:
    """Points of all rules together, inf if there is none for a row."""
    total = 0.0
    for i in range(rows.shape[0]):
        size = nodes_of(rows[i, 0], rows[i, 1], line, rows[i, 3], math.log(rows[i, 2])).size
        total += size if size > 0 else math.inf
    return total


@Kernel
def transform_run(rows: FloatArray, slope: float, line: Line, total: FloatArray) -> bool:
    """Fill `total` as `add_transforms` does, for a composition described as for `fall_of_run`."""
    tilt = line.alpha - 1.0 if line.turn > 0.0 else -line.alpha
    for k in range(line.last + 1):
        # N(mu,1) against N(0,1): log E e^{a L} = mu^2/2 a (a-1), and a (a-1) = z (z+1) either way
        s = k * line.step
        total[0, k] = slope * (tilt * (1.0 + tilt) - s * s)
        total[1, k] = slope * s * (1.0 + 2.0 * tilt)
        total[2, k] = 16.0 * ULP * slope * (tilt * (1.0 + tilt) + s * s + s * (1.0 + 2.0 * tilt))
    for i in range(rows.shape[0]):
        nodes = nodes_of(rows[i, 0], rows[i, 1], line, rows[i, 3], math.log(rows[i, 2]))
        work = np.empty((5, nodes.size))
        if not add_transforms(rows[i, 0], rows[i, 1], rows[i, 2], line, nodes, work, total):
            return False
    return True


@Kernel
def scale_spectrum(tilt: float, step: float, total: FloatArray) -> tuple[float, float]:
    """Put c_k = e^{log M(z) - log M(tilt)} / (z (z+1)), z = tilt + i k step, into total[0] + i total[1].

    Returned are the sum of |c_k|, half of c_0 counted, and a bound on that of their errors.
    """
    base = total[0, 0]
    whole, wrong = 0.0, 0.0
    for k in range(total.shape[1]):
        s = k * step
        a, b = tilt * (1.0 + tilt) - s * s, s * (1.0 + 2.0 * tilt)
        square = a * a + b * b
        size = math.exp(total[0, k] - base)
        phase = total[1, k]
        real, imaginary = size * math.cos(phase), size * math.sin(phase)
        share = 0.5 if k == 0 else 1.0
        total[0, k], total[1, k] = (real * a + imaginary * b) / square, (imaginary * a - real * b) / square
        each = share * size / math.sqrt(square)
        if total[2, k] == math.inf:
            total[0, k], total[1, k] = 0.0, 0.0
            wrong += each
            continue
        whole += each
        wrong += each * (math.expm1(total[2, k]) + 16.0 * ULP * (1.0 + abs(phase) + abs(base)))
    return whole, wrong


@Kernel
def invert_at(epsilon: float, step: float, total: FloatArray) -> tuple[float, float]:
    """step/pi times the sum of c_k e^{-i k step epsilon}, half of c_0 counted, and its derivative by epsilon."""
    value, slope = 0.5 * total[0, 0], 0.0
    for k in range(1, total.shape[1]):
        angle = k * step * epsilon
        c, s = math.cos(angle), math.sin(angle)
        value += total[0, k] * c + total[1, k] * s
        slope += k * step * (total[1, k] * c - total[0, k] * s)
    return step / math.pi * value, step / math.pi * slope
