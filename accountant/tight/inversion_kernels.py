"""Compiled parts of Fourier inversion: the characteristic function of sampled Gaussians, and the sum.

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
    "Line",
    "Nodes",
    "Spectrum",
    "add_transforms",
    "invert_at",
    "loss_at",
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

AT_ONCE = 1024
"""Points that are taken through all frequencies together: what they need is in the processor's nearest memory."""

STEP_WORK, NODE_WORK = 1.0, 140.0
"""Operations (see `accountant.patience`) of one point at one frequency, and of a point."""


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
def add_up(values: FloatArray, size: int) -> float:
    """The sum of the first so many, several at once."""
    total = 0.0
    for j in range(size):
        total += values[j]
    return total


class Sizes(NamedTuple):
    """What errors are measured by: sums over nodes of |m_0| and of |L| e^{alpha L}, and of the roundings of both."""

    start: float
    growing: float
    rough_start: float
    rough_growing: float


@Kernel
def begin_nodes(mu: float, rate: float, line: Line, nodes: Nodes, begin: int, end: int, work: FloatArray) -> Sizes:
    """Fill `work` for the nodes from `begin` to before `end`, a column each: m_0 and r, two rows each, and weights."""
    real, imaginary, turn_real, turn_imaginary, weights = work[0], work[1], work[2], work[3], work[4]
    at_start, growing, rough_start, rough_growing = 0.0, 0.0, 0.0, 0.0
    for j in range(end - begin):
        y = (nodes.first + begin + j) * nodes.width
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
    return Sizes(at_start, growing, rough_start, rough_growing)


@Kernel
def turn_nodes(work: FloatArray, size: int, sums: FloatArray) -> None:
    """Add the sums of m_k over the nodes in so many columns of `work` to sums[0, k] + i sums[1, k]."""
    real, imaginary, turn_real, turn_imaginary, weights = work[0], work[1], work[2], work[3], work[4]
    for k in range(sums.shape[1]):
        sums[0, k] += add_up(real, size)
        sums[1, k] += add_up(imaginary, size)
        for j in range(size):
            a, b = real[j], imaginary[j]
            whole, c, d = a + weights[j], turn_real[j], turn_imaginary[j]
            real[j] = a + (whole * c - b * d)
            imaginary[j] = b + (whole * d + b * c)


@Kernel
def add_transforms(
    mu: float, rate: float, copies: float, line: Line, nodes: Nodes, work: FloatArray, total: FloatArray
) -> bool:
    """Add `copies` times log E e^{a L} on the line to total[0] + i total[1], and a bound on its error to total[2].

    With m_k = e^{a_k L} - 1 and r = e^{i step L} - 1:  m_{k+1} = m_k + r (m_k + 1), where |m_k + 1| = e^{alpha L}; k of
    these err by at most 16 k ulps of |m_0| + k step |L| e^{alpha L} (notebooks/mathematics.md, Fourier inversion).
    Where a transform is as small as its error that is infinite, and total[0] bounds the logarithm of the size of all.
    `work` has 5 rows, as long as so many nodes are taken at once. False if the transform at alpha is not known.
    """
    sums = np.zeros((2, line.last + 1))
    at_start, growing, rough_start, rough_growing = 0.0, 0.0, 0.0, 0.0
    for begin in range(0, nodes.size, work.shape[1]):
        end = min(begin + work.shape[1], nodes.size)
        sizes = begin_nodes(mu, rate, line, nodes, begin, end, work)
        at_start, growing = at_start + sizes.start, growing + sizes.growing
        rough_start, rough_growing = rough_start + sizes.rough_start, rough_growing + sizes.rough_growing
        turn_nodes(work, end - begin, sums)
    for k in range(line.last + 1):
        x, z = sums[0, k], sums[1, k]
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
    return True


class Spectrum(NamedTuple):
    """Which frequencies are known, 0 to `last`; the sum of bounds on |c_k| of those left out; and operations done."""

    known: bool
    last: int
    left_out: float
    work: float


@Kernel
def transform_run(
    rows: FloatArray, slope: float, line: Line, log_least: float, most: float, total: FloatArray
) -> Spectrum:
    """Fill `total` as `add_transforms` does, for a composition described as for `fall_of_run`.

    No row's E_f e^{i s L} is larger than 1 in size: as soon as the rows so far make |c_k| of `scale_spectrum` less than
    `log_least` says at the highest frequency, that one is left out, and the other rows need not be known there. No more
    than `most` operations are done.
    """
    tilt = line.alpha - 1.0 if line.turn > 0.0 else -line.alpha
    for k in range(line.last + 1):
        # N(mu,1) against N(0,1): log E e^{a L} = mu^2/2 a (a-1), and a (a-1) = z (z+1) either way
        s = k * line.step
        total[0, k] = slope * (tilt * (1.0 + tilt) - s * s)
        total[1, k] = slope * s * (1.0 + 2.0 * tilt)
        total[2, k] = 16.0 * ULP * slope * (tilt * (1.0 + tilt) + s * s + s * (1.0 + 2.0 * tilt))
    last, left_out, done = line.last, 0.0, 0.0
    for i in range(rows.shape[0]):
        part = Line(line.alpha, line.turn, line.step, last)
        nodes = nodes_of(rows[i, 0], rows[i, 1], part, rows[i, 3], math.log(rows[i, 2]))
        done += nodes.size * (STEP_WORK * last + NODE_WORK)
        if done > most:
            return Spectrum(False, last, left_out, done)
        work = np.empty((5, min(nodes.size, AT_ONCE)))
        if not add_transforms(rows[i, 0], rows[i, 1], rows[i, 2], part, nodes, work, total):
            return Spectrum(False, last, left_out, done)
        while last > 1:
            wrong = total[2, 0] + (total[2, last] if total[2, last] < math.inf else 0.0)
            log_size = total[0, last] - total[0, 0] + wrong - 2.0 * math.log(last * line.step)
            if not log_size <= log_least:
                break
            left_out += math.exp(log_size)
            last -= 1
    return Spectrum(True, last, left_out, done)


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
