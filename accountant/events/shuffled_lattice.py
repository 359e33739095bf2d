"""Moments and characteristic functions of Y = W (A - u B), W, A and B products of m, k and i independent ratios.

A ratio is t = e^epsilon with probability 1/(1+t) and else 1/t, so W A = t^e and W B = t^e' for whole e and e' up to b,
the most bits in which two inputs differ: with x_e = t^e - 1 and u = 1 + away

    Y = x_e - u x_e' - away,        E f(W A | W = t^j) = f_k(j),        f_0 = f(t^j),
    f_k(j) = f_(k-1)(j + 1)/(1+t) + f_(k-1)(j - 1) t/(1+t).

So the functions f of all kinds take b^2 steps together. No step cancels where f >= 0; errors are relative to E |f|.
"""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["fill_moments", "fill_squares"]

WIDTH = 4
"""Nodes that go through the steps at once."""


@Kernel
def fill_moments(
    theta: float, away: float, excess: FloatArray, masses: FloatArray, kinds: FloatArray, found: FloatArray
) -> None:
    """Fill rows of log E e^(theta Y), and mean, variance and fourth central moment of Y tilted, for every (m, k, i).

    Sums begin with E e^x - 1, which is small.
    """
    ahead, behind = find_span(kinds, 1), find_span(kinds, 2)
    most = max(ahead[0], behind[0])
    first, second = np.empty((most + 1, 2 * most + 1, 5)), np.empty((most + 1, 2 * most + 1, 5))
    for e in range(most - ahead[0], most + ahead[0] + 1, ahead[2]):
        fill_powers(theta, lattice_value(excess, e - most), first[0, e])
    for e in range(most - behind[0], most + behind[0] + 1, behind[2]):
        fill_powers(theta, -((1.0 + away) * lattice_value(excess, e - most) + away), second[0, e])
    step_all(first, masses[1], ahead)
    step_all(second, masses[1], behind)
    raw = np.zeros(5)
    for row in range(kinds.shape[0]):
        m, k, i = int(kinds[row, 0]), int(kinds[row, 1]), int(kinds[row, 2])
        raw[:] = 0.0
        for j in range(m + 1):
            share, a, b = masses[m, j], first[k, most + 2 * j - m], second[i, most + 2 * j - m]
            raw[0] += share * (a[0] + b[0] + a[0] * b[0])
            one, other = 1.0 + a[0], 1.0 + b[0]
            raw[1] += share * (a[1] * other + one * b[1])
            raw[2] += share * (a[2] * other + 2.0 * a[1] * b[1] + one * b[2])
            raw[3] += share * (a[3] * other + 3.0 * (a[2] * b[1] + a[1] * b[2]) + one * b[3])
            raw[4] += share * (a[4] * other + 4.0 * (a[3] * b[1] + a[1] * b[3]) + 6.0 * a[2] * b[2] + one * b[4])
        scale = 1.0 + raw[0]
        mean, square, cube, fourth = raw[1] / scale, raw[2] / scale, raw[3] / scale, raw[4] / scale
        found[row, 0] = math.log1p(raw[0])
        found[row, 1] = mean
        # less, and more, than rounding may have made of them
        found[row, 2] = max(square - mean * mean - 1e-12 * square, 0.0)
        around = fourth - 4.0 * mean * cube + 6.0 * mean * mean * square - 3.0 * mean**4
        found[row, 3] = around + 1e-11 * (fourth + mean * mean * square + mean**4)


@Kernel
def find_span(kinds: FloatArray, column: int) -> tuple[int, int, int]:
    """The largest e that counts for W A, or W B, the most steps, and the distance of the e that count: 1 or 2."""
    reach, last, distance = 0, 0, 2
    for row in range(kinds.shape[0]):
        steps = int(kinds[row, column])
        reach, last = max(reach, int(kinds[row, 0]) + steps), max(last, steps)
    for row in range(kinds.shape[0]):
        if (reach - int(kinds[row, 0] + kinds[row, column])) % 2:
            distance = 1
    return reach, last, distance


@Kernel
def lattice_value(excess: FloatArray, e: int) -> float:
    """x_e, from the last row of all products or the one before."""
    last = excess.shape[0] - 1
    row = last if (e + last) % 2 == 0 else last - 1
    return float(excess[row, (e + row) // 2])


@Kernel
def fill_powers(theta: float, x: float, powers: FloatArray) -> None:
    """Fill e^(theta x) - 1 and x^n e^(theta x), n = 1, ..., 4."""
    powers[0] = math.expm1(theta * x)
    term = math.exp(theta * x)
    for n in range(1, 5):
        term *= x
        powers[n] = term


@Kernel
def step_all(values: FloatArray, ratio: FloatArray, span: tuple[int, int, int]) -> None:
    """Fill f_1, f_2, ... from f_0, in values[k, middle + j, :]."""
    told, flipped, middle = ratio[0], ratio[1], values.shape[1] // 2
    for k in range(1, span[1] + 1):
        for e in range(middle - span[0] + k, middle + span[0] - k + 1, span[2]):
            for n in range(values.shape[2]):
                values[k, e, n] = flipped * values[k - 1, e + 1, n] + told * values[k - 1, e - 1, n]


@Kernel
def fill_squares(
    theta: float,
    away: float,
    excess: FloatArray,
    masses: FloatArray,
    kinds: FloatArray,
    segments: FloatArray,
    squares: FloatArray,
) -> None:
    """Fill rows of |phi(theta + i w)|^2/phi(theta)^2 at the segments' nodes, for every (m, k, i)."""
    ahead, behind = find_span(kinds, 1), find_span(kinds, 2)
    most = max(ahead[0], behind[0])
    # the last node is w = 0, of which phi(theta) is made
    size = (squares.shape[1] // WIDTH + 1) * WIDTH
    first, second = np.zeros((2 * most + 1, 2, size)), np.zeros((2 * most + 1, 2, size))
    for e in range(most - ahead[0], most + ahead[0] + 1, ahead[2]):
        x = lattice_value(excess, e - most)
        fill_phases(math.exp(theta * x), x, segments, first[e])
    for e in range(most - behind[0], most + behind[0] + 1, behind[2]):
        x = (1.0 + away) * lattice_value(excess, e - most)
        fill_phases(math.exp(-theta * (x + away)), -x, segments, second[e])
    one = np.empty((most + 1, 2 * most + 1, 2 * WIDTH))
    other = np.empty((most + 1, 2 * most + 1, 2 * WIDTH))
    sums = np.empty((kinds.shape[0], 2, size))
    real, imaginary = np.empty(WIDTH), np.empty(WIDTH)
    for start in range(0, size, WIDTH):
        for e in range(2 * most + 1):
            for n in range(WIDTH):
                one[0, e, n], one[0, e, WIDTH + n] = first[e, 0, start + n], first[e, 1, start + n]
                other[0, e, n], other[0, e, WIDTH + n] = second[e, 0, start + n], second[e, 1, start + n]
        step_nodes(one, masses[1], ahead)
        step_nodes(other, masses[1], behind)
        for row in range(kinds.shape[0]):
            m, k, i = int(kinds[row, 0]), int(kinds[row, 1]), int(kinds[row, 2])
            real[:] = 0.0
            imaginary[:] = 0.0
            for j in range(m + 1):
                share, a, b = masses[m, j], one[k, most + 2 * j - m], other[i, most + 2 * j - m]
                for n in range(WIDTH):
                    real[n] += share * (a[n] * b[n] - a[WIDTH + n] * b[WIDTH + n])
                    imaginary[n] += share * (a[n] * b[WIDTH + n] + a[WIDTH + n] * b[n])
            for n in range(WIDTH):
                sums[row, 0, start + n], sums[row, 1, start + n] = real[n], imaginary[n]
    for row in range(kinds.shape[0]):
        total = sums[row, 0, size - 1]
        for node in range(squares.shape[1]):
            squares[row, node] = (sums[row, 0, node] / total) ** 2 + (sums[row, 1, node] / total) ** 2


@Kernel
def step_nodes(values: FloatArray, ratio: FloatArray, span: tuple[int, int, int]) -> None:
    """The same as `step_all` for a number of nodes that is known when this is compiled."""
    told, flipped, middle = ratio[0], ratio[1], values.shape[1] // 2
    for k in range(1, span[1] + 1):
        for e in range(middle - span[0] + k, middle + span[0] - k + 1, span[2]):
            for n in range(2 * WIDTH):
                values[k, e, n] = flipped * values[k - 1, e + 1, n] + told * values[k - 1, e - 1, n]


@Kernel
def fill_phases(weight: float, value: float, segments: FloatArray, phases: FloatArray) -> None:
    """Fill weight times cosines and sines of node times value; where the nodes end, those of 0."""
    node = 0
    for part in range(segments.shape[0]):
        start, step = segments[part, 0] * value, segments[part, 1] * value
        c, s = weight * math.cos(start), weight * math.sin(start)
        turn, lift = math.cos(step), math.sin(step)
        for _ in range(int(segments[part, 2])):
            phases[0, node], phases[1, node] = c, s
            c, s = c * turn - s * lift, c * lift + s * turn
            node += 1
    phases[0, node:] = weight
