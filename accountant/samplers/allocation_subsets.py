"""Several of t steps, drawn at random: a pair below, by the sum of rounded losses of all steps.

Any function of the observed steps tells no more than they do; its distribution with the record and without it is known
exactly (notebooks/mathematics.md, Random allocation).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.events.discrete_pair import DiscretePair
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import remember, spend
from accountant.samplers.allocation_pairs import LARGEST_STEP, bracket_step, pair_below
from accountant.samplers.likelihoods import Ratios
from accountant.samplers.score_laws import Scores, bounds_on_sums, window_of
from accountant.tight.directed_run import TRANSFORM
from accountant.tight.polygon import ULP

__all__ = ["Drawn", "subset_pair"]

LONGEST = 2.0**20
"""Points of the transform that convolves rounded losses, at most."""

MOST_POINTS = 2.0**20
"""Of all transforms of both laws together."""

LEAST = -45.0
"""Log of what may be beyond the window, at most."""

VAGUE, NOTHING = 4.0, 1e-8
"""How far apart bounds on a probability may be that are made use of, unless it is next to nothing beside the other."""

SMALLEST = 1e-250
"""The least probability that is told from 0."""

MOMENT = 4000.0
"""Operations of a score beside that, by law and tilt: for its moments."""

WHAT = "scores of the steps of an epoch"

POINT = 60.0
"""Operations (see `accountant.patience`) at a point of a law beside its transforms."""


class Drawn(NamedTuple):
    """So many of the steps, told by the losses that samples at a rate have."""

    steps: int
    selected: int
    rate: float


@remember(WHAT, 64)
def subset_pair(event: Event, drawn: Drawn, direction: Direction, step: float, log_lost: float) -> DiscretePair:
    """A pair below that of `selected` of `steps` steps: what the sum of rounded losses tells of who took part.

    With T_i = round(log(1 + rate (X_i - 1)) / step), or any other function of the observed steps, the sum of
    all T_i has the distribution p^{*selected} * q^{*(steps - selected)} with the record and q^{*steps} without it.
    Sums beyond a window are left out on both sides.
    """
    steps, selected, rate = drawn
    one = bracket_step(event, direction, LARGEST_STEP / 4, log_lost)[1]
    losses = np.append(np.log1p(rate * (one.places - 1)), math.log1p(-rate) if rate < 1.0 else 0.0)
    with_zero = np.append(one.masses, one.zero), np.append(one.masses * one.places, 0.0)
    spread = math.sqrt(max(steps * float(np.sum(with_zero[0] * losses**2)), step**2))
    # rounding adds up over the steps to a variance of steps * step^2/12; losses are about as the rate
    step = step * min(rate * steps / selected, 1.0) / (4 * math.sqrt(steps))
    step = max(step, (14 * spread + 2 * float(np.max(np.abs(losses)))) / LONGEST)
    (without, given), core = _laws(losses, with_zero, drawn, step, log_lost)
    points = 2 ** math.ceil(math.log2(max(core[1] - core[0] + 1, 64)))
    transforms = sum(len(law.tilts(*core)) for law in (without, given))
    work = points * (3 * TRANSFORM * math.log2(points) + POINT) + MOMENT * losses.size
    spend(transforms * work, f"{transforms} laws of sums of scores")
    mirrored = direction == DIRECTIONS[1]
    # below are what is certain of the direction's first law, and all that may be of the other
    first = bounds_on_sums(without if mirrored else given, core[0], points, core)[0]
    least, second = bounds_on_sums(given if mirrored else without, core[0], points, core)
    second = np.maximum(second, SMALLEST)
    # sums are left out where hardly anything is known of the other
    known = second <= np.minimum(np.maximum(VAGUE * least, NOTHING * first), 2.0)
    good = (first > SMALLEST) & known
    if not good.any():  # two equal distributions are below all
        return pair_below(Ratios(np.ones(1), np.ones(1), 0.0, 0.0, 0.0, 16 * ULP), direction)
    with_q, with_p = (first[good], second[good]) if mirrored else (second[good], first[good])
    surplus = max(float((with_p if mirrored else with_q).sum()), 1.0)
    zero = 0.0 if mirrored else max(1 - float(with_q.sum()), 0.0)
    error = surplus - 1 + steps * (one.error + one.moved)
    return pair_below(Ratios(with_q, with_p / with_q, zero, 0.0, error, 16 * ULP), direction)


def _laws(
    losses: FloatArray, masses: tuple[FloatArray, FloatArray], drawn: Drawn, step: float, log_lost: float
) -> tuple[tuple[Scores, Scores], tuple[int, int]]:
    """The laws of the sum of rounded losses, without the record and with it, and from where to where they matter."""
    while True:
        scores = np.round(losses / step).astype(np.int64)
        places, group = np.unique(scores, return_inverse=True)
        with np.errstate(divide="ignore"):
            q, p = (np.log(np.bincount(group, each, places.size)) for each in masses)
        laws = tuple(Scores(places, (q, p), counts) for counts in ((drawn.steps, 0), _counts(drawn)))
        core = window_of(laws, min(log_lost, LEAST))
        transforms = sum(len(law.tilts(*core)) for law in laws)
        too_many = (core[1] - core[0]) / min(LONGEST, MOST_POINTS / transforms)
        if too_many < 1.0:
            return (laws[0], laws[1]), core
        step *= 1.1 * too_many


def _counts(drawn: Drawn) -> tuple[int, int]:
    return drawn.steps - drawn.selected, drawn.selected
