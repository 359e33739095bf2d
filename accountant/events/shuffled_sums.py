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

from accountant.events.shuffled_lattice import fill_squares
from accountant.numerics.kernel import FloatArray

__all__ = ["DAMPING", "log_chords", "log_sums_between_nodes", "place_nodes"]

SEGMENTS = np.array([[0.0, 0.125, 24.0], [3.0, 0.3125, 16.0], [8.0, 0.8, 40.0], [40.0, 2.0, 30.0]])
"""Start, distance and number of the nodes, in units of one over the sum's deviation; the last end is a node, too."""

DAMPING = (0.0, 1.0, 3.0, 6.0, 10.0)
"""Values of v w^2/2 that are tried where the nodes end."""

ROUNDING = 1e-12
"""Added to f: what sums of rotated phases may have lost."""


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
    nodes, segments = place_nodes(1.0 / math.sqrt(float(slots[0] * variance.max())))
    squares = np.empty((len(kinds), nodes.size))
    fill_squares(theta, away, *ratios, kinds, segments, squares)
    top = float(log_mean.max())
    added = variance[:, None] * np.diff(nodes) ** 2 / 4 + ROUNDING
    less = np.exp(2.0 * (log_mean - top))[:, None]
    both = np.stack([squares[:, :-1], squares[:, 1:]]) + added
    both = np.where(np.min(both, axis=0) > 1.0, 1.0, both)  # no chord is cut off at one end only: f is not convex
    starts, ends = 0.5 * np.log(np.max(less * both, axis=1))
    logs = log_chords(theta, nodes, np.exp(slots[:, None] * starts), np.exp(slots[:, None] * ends))
    return logs + slots * top


def place_nodes(unit: float, parts: FloatArray = SEGMENTS) -> tuple[FloatArray, FloatArray]:
    """Nodes for a sum of which one over the deviation is `unit`, and their segments: start, distance, number."""
    segments = np.vstack([parts, [parts[-1, 0] + parts[-1, 1] * parts[-1, 2], 1.0, 1.0]])
    nodes = unit * np.concatenate([start + step * np.arange(number) for start, step, number in segments])
    segments[:, :2] *= unit
    return nodes, segments


def log_chords(theta: float, nodes: FloatArray, starts: FloatArray, ends: FloatArray) -> FloatArray:
    """Log of 1/pi times the integral of chords over theta^2 + w^2; beyond the last node 1 stands for the chord.

    `starts` and `ends` have the values at both ends of the parts between nodes, in their last dimension.
    """
    between = np.diff(nodes)
    angles = np.diff(np.arctan(nodes / theta)) / theta
    after = (0.5 * np.diff(np.log1p((nodes / theta) ** 2)) - nodes[:-1] * angles) / between
    inner = starts @ (angles - after) + ends @ after
    last = float(nodes[-1])
    beyond = math.atan(theta / last) / theta
    damped = [np.log(inner + beyond * math.exp(-damping)) + damping * (theta / last) ** 2 for damping in DAMPING]
    logs: FloatArray = np.min(damped, axis=0) - math.log(math.pi) + 1e-9
    return logs
