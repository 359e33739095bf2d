"""Sums of likelihood ratios of shuffled bits: their characteristic functions, bounded between nodes.

For any theta > 0 and v >= 0 (a normal variable Z of variance v only adds, by Jensen) and any mixture of kinds

    E (Y_1 + ... + Y_M + Z)_+
        <= 1/pi int_0^inf e^(v (theta^2 - w^2)/2) max over kinds |phi(theta + i w)|^M/(theta^2 + w^2) dw.

Let f(w) = |phi(theta + i w)|^2/phi(theta)^2 = E cos w (Y - Y'), Y and Y' independent and tilted by e^(theta Y), with
variance V. f'' >= -2 V, so between two nodes at a distance d it is at most its chord plus V d^2/4; and for M >= 2 the
power M/2 of a line is convex, at most the chord of its own values at both ends. Proofs: notebooks/mathematics.md,
Shuffled bits.
"""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["DAMPING", "log_sums_between_nodes"]

SEGMENTS = np.array([[0.0, 0.125, 24.0], [3.0, 0.3125, 16.0], [8.0, 0.8, 40.0], [40.0, 2.0, 30.0]])
"""Start, distance and number of the nodes, in units of one over the sum's deviation; the last end is a node, too."""

DAMPING = (0.0, 1.0, 3.0, 6.0, 10.0)
"""Values of v w^2/2 that are tried where the nodes end."""

ROUNDING = 1e-12
"""Added to f: what sums of rotated phases may have lost."""


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
    nodes = squares.shape[1]
    most = excess.shape[0]
    real, imaginary = np.zeros(nodes), np.zeros(nodes)
    # phases of both products: value, weight, cosine, sine, and those of a step
    first, second = np.zeros((most, 6)), np.zeros((most, 6))
    for row in range(kinds.shape[0]):
        m, k, i = int(kinds[row, 0]), int(kinds[row, 1]), int(kinds[row, 2])
        real[:] = 0.0
        imaginary[:] = 0.0
        total = 0.0
        for j in range(m + 1):
            weight, share = 1.0 + excess[m, j], masses[m, j]
            for l in range(k + 1):  # noqa: E741
                first[l, 0] = weight * (excess[k, l] - away)
                first[l, 1] = masses[k, l] * math.exp(theta * first[l, 0])
            for l in range(i + 1):  # noqa: E741
                second[l, 0] = -weight * (1.0 + away) * excess[i, l]
                second[l, 1] = masses[i, l] * math.exp(theta * second[l, 0])
            total += share * np.sum(first[: k + 1, 1]) * np.sum(second[: i + 1, 1])
            node = 0
            for part in range(segments.shape[0]):
                start, step, number = segments[part, 0], segments[part, 1], int(segments[part, 2])
                start_phases(first, k, start, step)
                start_phases(second, i, start, step)
                for _ in range(number):
                    a, b = turn_phases(first, k)
                    c, d = turn_phases(second, i)
                    real[node] += share * (a * c - b * d)
                    imaginary[node] += share * (a * d + b * c)
                    node += 1
        for node in range(nodes):
            squares[row, node] = (real[node] / total) ** 2 + (imaginary[node] / total) ** 2


@Kernel
def start_phases(phases: FloatArray, last: int, start: float, step: float) -> None:
    """Set cosine and sine of start times value, and of step times value."""
    for l in range(last + 1):  # noqa: E741
        value = phases[l, 0]
        phases[l, 2], phases[l, 3] = math.cos(start * value), math.sin(start * value)
        phases[l, 4], phases[l, 5] = math.cos(step * value), math.sin(step * value)


@Kernel
def turn_phases(phases: FloatArray, last: int) -> tuple[float, float]:
    """The weighted sum of cosines and of sines; all phases then go one step on."""
    cosines, sines = 0.0, 0.0
    for l in range(last + 1):  # noqa: E741
        c, s = phases[l, 2], phases[l, 3]
        cosines += phases[l, 1] * c
        sines += phases[l, 1] * s
        phases[l, 2] = c * phases[l, 4] - s * phases[l, 5]
        phases[l, 3] = c * phases[l, 5] + s * phases[l, 4]
    return cosines, sines


def log_sums_between_nodes(
    theta: float,
    away: float,
    ratios: tuple[FloatArray, FloatArray],
    kinds: FloatArray,
    moments: FloatArray,
    slots: FloatArray,
) -> FloatArray:
    """Logs of bounds on E (Y_1 + ... + Y_M)_+ for numbers M >= 2 of slots; `moments` are those at theta, in rows."""
    log_mean, mean, variance, _ = moments.T
    variance = variance + 1e-11 * (variance + mean**2)  # no less than rounding may have made of it
    unit = 1.0 / math.sqrt(float(slots[0] * variance.max()))
    segments = np.vstack([SEGMENTS, [SEGMENTS[-1, 0] + SEGMENTS[-1, 1] * SEGMENTS[-1, 2], 1.0, 1.0]])
    nodes = unit * np.concatenate([start + step * np.arange(number) for start, step, number in segments])
    segments[:, :2] *= unit
    squares = np.empty((len(kinds), nodes.size))
    fill_squares(theta, away, *ratios, kinds, segments, squares)
    top, between = float(log_mean.max()), np.diff(nodes)
    added = variance[:, None] * between**2 / 4 + ROUNDING
    ends = (
        np.max(log_mean[:, None] - top + 0.5 * np.log(np.minimum(part + added, 1.0)), axis=0)
        for part in (squares[:, :-1], squares[:, 1:])
    )
    angles = np.diff(np.arctan(nodes / theta)) / theta
    after = (0.5 * np.diff(np.log1p((nodes / theta) ** 2)) - nodes[:-1] * angles) / between
    inner = sum(
        np.exp(slots[:, None] * end) @ weights for end, weights in zip(ends, (angles - after, after), strict=True)
    )
    last = float(nodes[-1])
    beyond = math.atan(theta / last) / theta
    damped = [np.log(inner + beyond * math.exp(-damping)) + damping * (theta / last) ** 2 for damping in DAMPING]
    logs: FloatArray = np.min(damped, axis=0) + slots * top - math.log(math.pi) + 1e-9
    return logs
