"""From a privacy profile to a lower bound of the trade-off function (f-DP)."""

from __future__ import annotations

import numpy as np

from accountant.numerics.kernel import FloatArray

__all__ = ["envelope", "supporting_lines"]

STEEPEST = 700.0
"""Lines with a larger log-slope are ignored, against overflow; this only lowers the bound."""


def supporting_lines(epsilons: FloatArray, deltas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lines below the trade-off function of every run that is (epsilon, delta)-DP in both directions, epsilon >= 0.

    At type I error a: ``1 - delta - e^eps a`` and ``e^-eps (1 - delta - a)`` (Wasserman & Zhou 2010; Dong, Roth & Su
    2022, Prop. 6). Returned as the arguments of `envelope`: logs of negated slopes, and heights at a = 0.
    """
    heights = 1.0 - deltas
    return np.concatenate([epsilons, -epsilons]), np.concatenate([heights, np.exp(-epsilons) * heights])


def envelope(log_slopes: FloatArray, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Corners (a, f(a)) of ``f(a) = max(0, max_i heights[i] - exp(log_slopes[i]) a)`` on [0, 1], by increasing a.

    f is convex and piecewise linear, so the polyline through its corners is f itself.
    """
    kept = log_slopes <= STEEPEST
    slopes = np.append(-np.exp(log_slopes[kept]), 0.0)
    levels = np.append(heights[kept], 0.0)
    order = np.lexsort((levels, slopes))
    lines: list[tuple[float, float]] = []
    corners: list[float] = []  # corners[i]: from this a on lines[i] is the largest
    for slope, level in zip(slopes[order].tolist(), levels[order].tolist(), strict=True):
        begin = 0.0
        while lines:
            above_slope, above = lines[-1]
            begin = (above - level) / (slope - above_slope) if slope > above_slope else 0.0
            if begin > corners[-1]:
                break
            lines.pop()
            corners.pop()
            begin = 0.0
        lines.append((slope, level))
        corners.append(max(begin, 0.0))
    places = np.array([0.0, *(corner for corner in corners if 0.0 < corner < 1.0), 1.0])
    values = np.max(levels[:, None] + slopes[:, None] * places, axis=0)
    return places, values
