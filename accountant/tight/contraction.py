"""A pair of finitely many outcomes on a grid of losses, from below: they are merged until their mean is on the grid.

Merging outcomes, or parts of them, is a post-processing, which lowers the privacy profile. Merged ones have the loss r
of all their P-mass against all their Q-mass, sum p_i (e^(r - l_i) - 1) = 0. From the lowest outcome up, those up to the
next grid point are merged with so much of the ones above it as brings r there; what is left of the last one comes next.
The same from the highest outcome down, and the better of both. P and Q stay the same, and the variance of the loss
falls by the square of how far merged outcomes lie apart, where rounding losses down would lower the mean by half a
step for every outcome (proof: notebooks/mathematics.md, Privacy-loss distributions).
"""

from __future__ import annotations

import math

import numpy as np

from accountant.events.answers import Outcomes
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.roots import Interval
from accountant.tight.polygon import NOTHING, ULP, Grid, Masses, normalise

__all__ = ["contract"]

SMALLEST = -700.0
"""Log of the least share of the largest tilted mass that is kept."""


@Kernel
def merge_upwards(
    places: FloatArray, left: FloatArray, step: float, tilt: float, lowered: int, out: FloatArray
) -> None:
    """Fill `out` with tilted masses at places 0, 1, ..., in steps; `left` is what is left of each outcome, and used up.

    `places` rise, and `left` are tilted masses, each at its own place. What has nothing above it to be merged with has
    its mean between two grid points: it goes to the next one less `lowered`, with its P-mass (1), or its Q-mass if
    all is mirrored (0).
    """
    count = places.size
    i = 0
    while i < count:
        point = math.ceil(places[i])
        lacking, total = 0.0, 0.0
        while i < count and places[i] <= point:
            gap = (point - places[i]) * step
            mass = left[i] * math.exp(tilt * gap)
            lacking += mass * math.expm1(gap)
            total += mass
            i += 1
        while lacking > 0.0 and i < count:
            gap = (places[i] - point) * step
            if abs(tilt * gap) > 600.0:
                break
            mass = left[i] * math.exp(-tilt * gap)
            excess = -mass * math.expm1(-gap)
            if excess <= lacking:
                lacking -= excess
                total += mass
                i += 1
            else:
                share = lacking / excess
                total += mass * share
                left[i] *= 1.0 - share
                lacking = 0.0
        if lacking > 0.0 and lowered > 0:
            out[int(point) - 1] += total * math.exp(-tilt * step)
        else:
            out[int(point)] += total


def contract(outcomes: Outcomes, error: float, reach: Interval, offset: float, grid: Grid) -> Masses:
    """A measure below a pair, at losses next below offset + i * step; `error` is that of the outcomes' masses."""
    step, tilt = grid
    kept = (outcomes.losses >= reach.lower) & (outcomes.losses <= reach.upper)  # what is left out lowers the profile
    losses, log_p = outcomes.losses[kept], outcomes.log_p[kept]
    logs = log_p + tilt * losses
    kept = logs >= (scale := float(np.max(logs, initial=-math.inf))) + SMALLEST
    losses, log_p, masses = losses[kept], log_p[kept], np.exp(logs[kept] - scale)
    if losses.size == 0:
        return Masses(np.ones(1), 0, offset, NOTHING)
    first = math.floor((losses[0] - offset) / step) - 1
    places = (losses - offset) / step - first
    # an outcome as near to a grid point as rounding goes is there; `shift` covers it
    whole = np.rint(places)
    exact = 16 * ULP * (whole + abs(first))
    places = np.where(np.abs(places - whole) <= exact, whole, places)
    size = math.ceil(places[-1]) + 2
    up, down = np.zeros(size), np.zeros(size)
    merge_upwards(places, masses.copy(), step, tilt, 1, up)
    # mirrored, P and Q change places: p e^(t l) = q e^(-(1 + t)(-l))
    merge_upwards(size - 1 - places[::-1], masses[::-1].copy(), step, -1.0 - tilt, 0, down)
    weights = max(up, down[::-1], key=lambda found: float(found.sum()))
    far = float(np.max(np.abs(losses))) + abs(offset) + step
    # a mean is off its grid point by less than the roundings of its sum, a share of a step each
    shift = ULP * (64 * far + 8 * (losses.size + 50) * math.expm1(step))
    sizes = float(np.max(np.abs(log_p))) + abs(scale) + 4 * (1 + tilt) * far
    scale += math.log(max(1 - error - ULP * (8 * sizes + losses.size + 64), 1e-300)) - tilt * shift
    return normalise(weights, first, offset - shift, scale)
