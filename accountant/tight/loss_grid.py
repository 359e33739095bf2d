"""One event's privacy loss on a grid, as two measures that bracket its privacy profile.

Write H(u) = sup_S P(S) - u Q(S), convex and decreasing in u = e^eps. A measure p on losses l has the curve
C(u) = sum p_l (1 - u e^-l)_+. Whatever the other events are, their composition with this one costs
delta = E_others[H(u e^-L)], so replacing the event by a measure with C >= H (C <= H) bounds delta from above
(below); neither measure has to be a probability. Both are built from values of H alone:

* above: the polygon through H at the grid points ("connect the dots", Doroshenko et al. 2022);
* below: the largest of the polygon's edges, each lowered by as much as H can sag under it.

Their gap is O(step^2) where the loss has a density. Masses are kept as p_l e^{tilt l}, so that whatever
is far away but decides delta is as accurate as the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.answers import Outcomes
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.tight.contraction import contract
from accountant.tight.polygon import (
    ULP,
    Grid,
    Masses,
    Polygon,
    lower_edges,
    lower_points,
    normalise,
    polygon_values,
    sags,
    second_differences,
)

__all__ = [
    "COARSEST",
    "MAX_POINTS",
    "Bracket",
    "Grid",
    "Masses",
    "aligned_step",
    "bracket",
    "largest_atom",
    "loss_range",
    "require_cells",
    "unreachable",
    "whole_reach",
]

COARSEST = 12.0
"""Largest step of a grid, times 1 + its tilt: exponentials of what is between two points are floats."""

MAX_POINTS = 2**23
"""Points of a grid, at most."""

HEADROOM = 600.0
"""Tilted values are scaled so that the largest is e^600: they then keep full precision 1300 nats below it."""

ROOM = 100.0
"""Nats that the whole of the other distribution may be above that."""


NEAREST = 1e-30
"""How near to a loss of 0 a grid is aligned with an atom, in steps."""

MANY_KNOTS = 512
"""Places at which atoms are looked for, at most: where there are more, none of them counts for much."""


class Bracket(NamedTuple):
    """Measures above and, if asked for, below one event; logs of what the upper has at infinity and in all."""

    measures: tuple[Masses, ...]
    log_infinite: float
    log_whole: float


def log_values(event: Event, direction: Direction, losses: FloatArray) -> FloatArray:
    """log H(e^l) for l >= 0, log(H(e^l) - (1 - e^l)) for l < 0: what is left when the linear part is taken off.

    For l < 0 it is e^l H(Q||P) at -l, from H_{-e}(P||Q) = 1 - e^-e + e^-e H_e(Q||P).
    """
    forward = DIRECTIONS.index(direction)
    negative = losses < 0
    values = np.empty_like(losses)
    with np.errstate(divide="ignore", under="ignore", over="ignore", invalid="ignore"):
        if not negative.all():
            values[~negative] = event._log_profile(losses[~negative])[forward]
        if negative.any():
            values[negative] = losses[negative] + event._log_profile(-losses[negative])[1 - forward]
    return np.minimum(values, 0.0)


def loss_range(event: Event, direction: Direction, tilt: float, log_top: float, log_bottom: float) -> Interval:
    """Losses beyond which the event does not matter.

    Above the upper end less than exp(log_top) of P is left; below the lower one the tilted mass is about
    exp(log_bottom). The bounds hold for any range: a poor one is only less sharp.
    """

    def beyond(e: FloatArray) -> NDArray[np.bool_]:
        """Whether e > 0 is above the range, -e below it, and e not below it: each false, then true, as e grows."""
        forward, backward = log_values(event, direction, e), log_values(event, direction, -e)
        with np.errstate(divide="ignore", over="ignore"):
            # P(l <= e) <= 1 - H(e^e)
            early = np.log(-np.expm1(forward)) > log_bottom
            return np.stack([forward <= log_top, backward - tilt * e <= log_bottom, early])

    ladder = 2.0 ** np.arange(-60.0, 1001.0, 20.0)
    at = np.where((found := beyond(ladder)).any(axis=1), found.argmax(axis=1), ladder.size - 1)
    rungs = [np.geomspace(ladder[max(i - 1, 0)], ladder[i], 81) for i in at.tolist()]
    finer = beyond(np.concatenate(rungs)).reshape(3, 3, 81)
    first = [int(finer[i, i].argmax()) if finer[i, i].any() else 80 for i in range(3)]
    high, low = float(rungs[0][first[0]]), -float(rungs[1][first[1]])
    if first[2] > 0:
        low = float(rungs[2][first[2] - 1])
    end = event._largest_finite_loss
    return Interval(max(low, -end), min(high, end))


def whole_reach(reach: Interval, step: float) -> Interval:
    """From a negative loss, where the sharper measure from below starts, if those are not too many cells."""
    return Interval(-step, reach.upper) if reach.lower > 0 and reach.upper < 2**18 * step else reach


def require_cells(event: Event, reach: Interval, step: float) -> None:
    """Raise ToleranceUnreachable if so many losses are more than a grid has points."""
    cells = (reach.upper - reach.lower) / step if step > 0.0 else math.inf
    if not cells <= MAX_POINTS:
        raise unreachable(repr(event), cells, step)


def unreachable(what: str, points: float, step: float) -> ToleranceUnreachable:
    size = f"{points:.3g} points at a step of {step:.3g}; accepted: at most {MAX_POINTS}"
    return ToleranceUnreachable(f"{what} takes a grid of {size}, hence a larger tolerance or fewer releases")


def atoms(event: Event, direction: Direction, reach: float) -> tuple[FloatArray, FloatArray]:
    """Losses at which P has an atom of more than what lies within `reach`, and the masses."""
    ends = [*event._profile_knots(), float(event._curve(np.array([math.inf]))[0])]
    places = np.array([e for e in ends if 0 < e < math.inf])
    if not 0 < places.size <= MANY_KNOTS:
        return places[:0], places[:0]
    places = np.unique(np.concatenate([places, -places, np.zeros(1)]))
    near = 1e-4 * reach
    values = [np.exp(log_values(event, direction, places + sign * near)) for sign in (-1, 0, 1)]
    for i, sign in enumerate((-1, 0, 1)):
        values[i] -= np.minimum(np.expm1(np.minimum(places + sign * near, 0.0)), 0.0)
    masses = (values[2] - values[1]) / math.expm1(near) + (values[1] - values[0]) / math.expm1(-near)
    real = masses > 1e-3
    return places[real], masses[real]


def largest_atom(event: Event, direction: Direction, step: float) -> float:
    """Where P has its largest atom, modulo the step: the offset that puts a grid point there; 0 if there is none.

    Next to a loss of 0 it is 0: between two points that are 1e-290 apart numbers would leave the range of floats.
    """
    if (outcomes := outcomes_of(event, direction)) is not None:
        places, masses = outcomes.losses, outcomes.log_p
    else:
        places, masses = atoms(event, direction, step)
    offset = float(np.fmod(places[np.argmax(masses)], step)) if places.size else 0.0
    return offset if abs(offset) > NEAREST * step else 0.0


def outcomes_of(event: Event, direction: Direction) -> Outcomes | None:
    """The pair of a direction, if it has finitely many outcomes."""
    found = event._outcomes()
    return found if found is None or direction == DIRECTIONS[0] else found.reversed()


def aligned_step(entries: Sequence[tuple[Event, int]], direction: Direction, largest: float, tilt: float) -> float:
    """A step of at most `largest` that puts the atoms of the first 64 events on grid points, as nearly as it can."""
    gaps: list[tuple[float, float]] = []
    for event, count in entries[:64]:
        if event.between_bounds:
            continue
        places, masses = atoms(event, direction, largest)
        if places.size:
            apart = np.abs(places - places[np.argmax(masses)])
            wide = apart > 0.05 * largest  # what is closer together is as good as one atom
            gaps += zip(apart[wide].tolist(), (count * masses[wide]).tolist(), strict=True)
    if not gaps:
        return largest
    gap = max(gaps, key=lambda each: each[1])[0]
    least = max(math.ceil(gap / largest * (1 - 1e-12)), 1)
    steps = gap / np.arange(least, least + min(least, 4000) + 1)
    # what cells cost anyway, and what rounding misplaced atoms down costs below
    cost = 0.3 * float(sum(count for _, count in entries)) * (1 + tilt) * steps**2
    for length, weight in gaps:
        cost += weight * np.abs(length - steps * np.round(length / steps))
    return float(steps[np.argmin(cost)])


def bracket(
    event: Event, direction: Direction, reach: Interval, offset: float, grid: Grid, both: bool = True
) -> Bracket:
    """Measures above and, if `both`, below the event, at losses offset + i * step within `reach`."""
    require_cells(event, reach, grid.step)
    (low, high), (step, tilt), half_step = whole_reach(reach, grid.step), grid, grid.step / 2
    first, last = math.floor((low - offset) / step), max(math.ceil((high - offset) / step), 1)
    losses = offset + half_step * np.arange(2.0 * first, 2 * last + 1)
    logs = log_values(event, direction, losses)
    known = int(np.sum(losses < 0))
    nearest = float(losses[known - 1]) if known else -math.inf
    largest = max(float(np.max(logs + tilt * losses)), tilt * nearest + math.log(-math.expm1(nearest)))
    largest = max(largest, tilt * float(losses[0]) - ROOM)  # the unit mass must not overflow either
    scale = largest - HEADROOM + 2 * step * (1 + tilt)
    with np.errstate(under="ignore"):
        values = np.exp(logs + tilt * losses - scale)
        lines = np.exp(tilt * losses[losses < half_step] - scale) * -np.expm1(losses[losses < half_step])
        unit = float(np.exp(tilt * losses[0] - scale))
        fine = second_differences(values, lines, half_step, tilt, unit)
    curve = np.empty_like(fine)
    others = polygon_values(fine, values[-1], half_step, tilt, curve) + curve[0]
    # the masses' own curve against H: every step of the sum rounds a few times; as |H'| (u_k - u_{k-1}) is at most the
    # H before, the rounding of losses, here and in the profile, changes H by less than that share of a cell
    whole = values + np.pad(lines[:known], (0, values.size - known))
    ratios = curve[whole > 1e-290] / whole[whole > 1e-290]
    error = event._profile_error + 4 * ULP * float(np.max(np.abs(losses))) * (1 / half_step + 1 + tilt)
    error += 4 * ULP * (10 + fine.size - float(np.min(logs[values > 1e-290], initial=0.0)))
    gaps = 1 - float(ratios.min(initial=1.0)), float(ratios.max(initial=1.0)) - 1
    short, long = (max(gap, 0.0) + error for gap in gaps)
    # a mass between two grid points is split among them so that P and Q stay the same
    share = 1 / (1 + math.exp(half_step))
    coarse = fine[::2].copy()
    coarse[:-1] += fine[1::2] * (share * math.exp(-half_step * tilt))
    coarse[1:] += fine[1::2] * ((1 - share) * math.exp(half_step * tilt))
    # at u = 0 the curve must be at least 1 above, at most 1 below
    top, spare = coarse.copy(), max(fine[0] - unit * (1 - error) + others * (1 + error), 0.0)
    top[0] += max(unit * (1 + error) - others * (1 - error) - fine[0], 0.0)
    excess = -math.log(max(1 - short, 1e-300))
    upper, rest = normalise(top, first, offset, scale + excess), (float(logs[-1]) + excess, excess + 4 * error)
    if not both:
        return Bracket((upper,), *rest)
    off = max(short, long)
    sag, leap = sags(fine, curve, half_step, tilt, off)
    rise = values[:known:2] + 2 * off * curve[:known:2]
    scale += math.log(max(1 - 6 * off, 1e-300))
    polygon = Polygon(coarse, curve[::2], sag, leap, rise, spare, first, offset, scale)
    candidates = [lower_edges(polygon, grid), lower_points(polygon, grid, tilt * float(losses[0]) - scale)]
    if (outcomes := outcomes_of(event, direction)) is not None:
        candidates.append(contract(outcomes, event._profile_error, reach, offset, grid))
    return Bracket((upper, max(candidates, key=lambda found: found.log_total)), *rest)
