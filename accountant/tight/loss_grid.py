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
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.events.event import Event
from accountant.numerics.special import FloatArray, Kernel

__all__ = ["Bracket", "Direction", "Grid", "Masses", "aligned_step", "bracket", "largest_atom", "loss_range"]

Direction = Literal["remove", "add"]

INPUT_ERROR = 2e-13
"""Relative error allowed to a privacy profile."""
ROUNDING = 2.0**-52
NOTHING = -1e12  # a log of 0 that may be multiplied
HEADROOM = 600.0
"""Tilted values are scaled so that the largest is e^600: they then keep full precision 1300 nats below it."""


class Grid(NamedTuple):
    """Losses offset + i * step, and the tilt at which masses are kept."""

    step: float
    tilt: float


@dataclass(frozen=True)
class Masses:
    """Masses exp(log_total - tilt * l) * weights at losses l = offset + (first + i) * step; weights sum to 1."""

    weights: FloatArray
    first: int
    offset: float
    log_total: float


class Bracket(NamedTuple):
    """Measures above and, if asked for, below one event; logs of what the upper has at infinity and in all."""

    sides: tuple[Masses, ...]
    log_infinite: float
    log_whole: float


def log_values(event: Event, direction: Direction, losses: FloatArray) -> FloatArray:
    """log H(e^l) for l >= 0, log(H(e^l) - (1 - e^l)) for l < 0: what is left when the linear part is taken off.

    For l < 0 it is e^l H(Q||P) at -l, from H_{-e}(P||Q) = 1 - e^-e + e^-e H_e(Q||P).
    """
    forward = 0 if direction == "remove" else 1
    negative = losses < 0
    values = np.empty_like(losses)
    with np.errstate(divide="ignore", under="ignore", over="ignore", invalid="ignore"):
        if not negative.all():
            values[~negative] = event._log_profile(losses[~negative])[forward]
        if negative.any():
            values[negative] = losses[negative] + event._log_profile(-losses[negative])[1 - forward]
    return np.minimum(values, 0.0)


def loss_range(
    event: Event, direction: Direction, tilt: float, log_top: float, log_bottom: float
) -> tuple[float, float]:
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
    return low, high


def atoms(event: Event, direction: Direction, reach: float) -> tuple[FloatArray, FloatArray]:
    """Losses at which P has an atom of more than what lies within `reach`, and the masses."""
    ends = [*event._profile_knots(), float(event._curve(np.array([math.inf]))[0])]
    places = np.array([e for e in ends if 0 < e < math.inf])
    if places.size == 0:
        return places, places
    places = np.unique(np.concatenate([places, -places, np.zeros(1)]))
    near = 1e-4 * reach
    values = [np.exp(log_values(event, direction, places + side * near)) for side in (-1, 0, 1)]
    for i, side in enumerate((-1, 0, 1)):
        values[i] -= np.minimum(np.expm1(np.minimum(places + side * near, 0.0)), 0.0)
    masses = (values[2] - values[1]) / math.expm1(near) + (values[1] - values[0]) / math.expm1(-near)
    real = masses > 1e-3
    return places[real], masses[real]


def largest_atom(event: Event, direction: Direction, step: float) -> float:
    """Where P has its largest atom, modulo the step: the offset that puts a grid point there; 0 if there is none."""
    places, masses = atoms(event, direction, step)
    return float(np.fmod(places[np.argmax(masses)], step)) if places.size else 0.0


def aligned_step(entries: Sequence[tuple[Event, int]], direction: Direction, largest: float, tilt: float) -> float:
    """A step of at most `largest` that puts the atoms of the first 64 events on grid points, as nearly as it can."""
    gaps: list[tuple[float, float]] = []
    for event, count in entries[:64]:
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


@Kernel
def polygon_values(masses: FloatArray, infinite: float, half: float, tilt: float, curve: FloatArray) -> float:
    """Fill `curve` with the tilted values of the masses' own curve at every point, a sum of positive terms; gives V_0.

    With V_k = sum_{i>k} p_i u_k/u_i:  V_k = (p_{k+1} + V_{k+1}) u_k/u_{k+1},  C_k = C_{k+1} + (u_{k+1}/u_k - 1) V_k.
    """
    tail = 0.0
    curve[-1] = infinite
    for k in range(masses.size - 2, -1, -1):
        tail = math.exp(-half * (1.0 + tilt)) * (masses[k + 1] + tail)
        curve[k] = curve[k + 1] * math.exp(-half * tilt) + math.expm1(half) * tail
    return tail


@Kernel
def merge_disordered(p: FloatArray, q: FloatArray, place: FloatArray, step: float, tilt: float) -> int:
    """Merge neighbouring outcomes until p/q rises, in place; returns how many are left.

    Outcome j is where line j-1 meets line j. Where two meetings come in the wrong order the line
    between them is nowhere the largest; without it its neighbours meet at the merged outcome.
    """
    size = 0
    for j in range(p.size):
        if p[j] == 0.0 and q[j] == 0.0:
            continue
        p[size], q[size], place[size] = p[j], q[j], place[j]
        size += 1
        while size > 1:
            gap = (place[size - 1] - place[size - 2]) * step
            # the later outcome in the units of the earlier
            late_p = p[size - 1] * math.exp(-tilt * gap)
            late_q = q[size - 1] * math.exp(-(1.0 + tilt) * gap)
            if p[size - 2] > 0.0 and p[size - 2] / q[size - 2] < late_p / late_q:
                break
            p[size - 2] += late_p
            q[size - 2] += late_q
            size -= 1
    return size


@Kernel
def cut_corners(p: FloatArray, step: float, tilt: float) -> None:
    """Lower convex envelope of a polygon with masses p, in place: what a concave corner lacks its neighbours give.

    A mass split between two others so that P and Q stay the same moves the corner onto their chord.
    """
    kept = np.zeros(p.size, dtype=np.int64)
    size = 0
    for j in range(p.size):
        kept[size] = j
        size += 1
        while size > 1 and p[kept[size - 2]] < 0.0:
            m, b = kept[size - 2], kept[size - 1]
            up = (b - m) * step
            share = 1.0  # of P; to the left of the first corner stands u = 0, where P has no mass
            if size > 2:
                a = kept[size - 3]
                down = (m - a) * step
                share = -math.expm1(-down) / (1.0 - math.exp(-down - up))
                p[a] += p[m] * math.exp(-down * tilt) * (1.0 - share)
            p[b] += p[m] * math.exp(up * tilt) * share
            p[m] = 0.0
            kept[size - 2] = b
            size -= 1


def bracket(
    event: Event, direction: Direction, low: float, high: float, offset: float, grid: Grid, both: bool = True
) -> Bracket:
    """Measures above and, if `both`, below the event, at losses offset + i * step from `low` to `high`."""
    (step, tilt), half = grid, grid.step / 2
    if low > 0 and high < 2**18 * step:
        low = -step  # the sharper measure from below starts at a negative loss
    first, last = math.floor((low - offset) / step), max(math.ceil((high - offset) / step), 1)
    losses = offset + half * np.arange(2.0 * first, 2 * last + 1)
    logs = log_values(event, direction, losses)
    known = int(np.sum(losses < 0))
    nearest = float(losses[known - 1]) if known else -math.inf
    largest = max(float(np.max(logs + tilt * losses)), tilt * nearest + math.log(-math.expm1(nearest)))
    scale = largest - HEADROOM + 2 * step * (1 + tilt)
    with np.errstate(under="ignore"):
        values = np.exp(logs + tilt * losses - scale)
        lines = np.exp(tilt * losses[losses < half] - scale) * -np.expm1(losses[losses < half])
        unit = float(np.exp(tilt * losses[0] - scale))
        fine = second_differences(values, lines, half, tilt, unit)
    curve = np.empty_like(fine)
    others = polygon_values(fine, values[-1], half, tilt, curve) + curve[0]
    # the masses' own curve against H: every step of the sum rounds a few times; as |H'| (u_k - u_{k-1}) is at most the
    # H before, the rounding of losses, here and in the profile, changes H by less than that share of a cell
    whole = values + np.pad(lines[:known], (0, values.size - known))
    ratios = curve[whole > 1e-290] / whole[whole > 1e-290]
    error = INPUT_ERROR + 4 * ROUNDING * float(np.max(np.abs(losses))) * (1 / half + 1 + tilt)
    error += 4 * ROUNDING * (10 + fine.size - float(np.min(logs[values > 1e-290], initial=0.0)))
    gaps = 1 - float(ratios.min(initial=1.0)), float(ratios.max(initial=1.0)) - 1
    short, long = (max(gap, 0.0) + error for gap in gaps)
    # a mass between two grid points is split among them so that P and Q stay the same
    share = 1 / (1 + math.exp(half))
    coarse = fine[::2].copy()
    coarse[:-1] += fine[1::2] * (share * math.exp(-half * tilt))
    coarse[1:] += fine[1::2] * ((1 - share) * math.exp(half * tilt))
    # at u = 0 the curve must be at least 1 above, at most 1 below
    top, spare = coarse.copy(), max(fine[0] - unit * (1 - error) + others * (1 + error), 0.0)
    top[0] += max(unit * (1 + error) - others * (1 - error) - fine[0], 0.0)
    excess = -math.log(max(1 - short, 1e-300))
    upper, rest = normalised(top, first, offset, scale + excess), (float(logs[-1]) + excess, excess + 4 * error)
    if not both:
        return Bracket((upper,), *rest)
    off = max(short, long)
    sag, leap = sags(fine, curve, half, tilt, off)
    rise = values[:known:2] + 2 * off * curve[:known:2]
    scale += math.log(max(1 - 6 * off, 1e-300))
    polygon = Polygon(coarse, curve[::2], sag, leap, rise, spare, first, offset, scale)
    candidates = [lowered_edges(polygon, grid), lowered_points(polygon, grid, tilt * float(losses[0]) - scale)]
    return Bracket((upper, max(candidates, key=lambda found: found.log_total)), *rest)


class Polygon(NamedTuple):
    """The polygon above H, tilted and scaled by exp(-scale), and how far H may lie below it.

    `masses` and `values` at its points; `sag` and `leap` under its edges (see `sags`); `rise` is H - (1 - u)
    where l < 0, `spare` what the first point may have too much of P.
    """

    masses: FloatArray
    values: FloatArray
    sag: FloatArray
    leap: FloatArray
    rise: FloatArray
    spare: float
    first: int
    offset: float
    scale: float

    def nothing(self) -> Masses:
        """The measure 0."""
        return Masses(np.ones(1), self.first, self.offset, NOTHING)


def second_differences(values: FloatArray, lines: FloatArray, half: float, tilt: float, unit: float) -> FloatArray:
    """Tilted masses of the polygon through H: u_k times the change of slope, never below 0.

    `values` are H where l >= 0 and H - (1 - u) where l < 0, `lines` is 1 - u up to the first l >= 0; a line has no
    second difference, so each point uses whichever it has and only at the seam one is turned into the other.
    """
    seam = max(lines.size - 1, 0)
    grow, ahead, behind = math.exp(half * tilt), math.expm1(half), -math.expm1(-half)

    def interior(v: FloatArray) -> FloatArray:
        return np.asarray((v[2:] / grow - v[1:-1]) / ahead - (v[1:-1] - v[:-2] * grow) / behind)

    masses = np.empty_like(values)
    if seam > 0:
        left, right = values[: seam + 1].copy(), values[seam - 1 :].copy()
        left[seam] -= lines[seam]
        right[0] += lines[seam - 1]
        masses[1:seam], masses[seam:-1] = interior(left), interior(right)
        # below the grid the polygon runs to H(0) = 1
        masses[0] = (left[1] / grow - left[0]) / ahead - left[0]
    else:
        masses[1:-1] = interior(values)
        masses[0] = (values[1] / grow - values[0]) / ahead + unit - values[0]
    masses[-1] = (values[-2] * grow - values[-1]) / behind
    return np.maximum(masses, 0.0)


def sags(fine: FloatArray, curve: FloatArray, half: float, tilt: float, error: float) -> tuple[FloatArray, FloatArray]:
    """By how much H can lie under each edge of the coarse polygon, and under its right end if the left end is on H.

    Both are tilted as the edge's left end. The second is the distance to the edge before, extended.

    A convex function lies above the edges next to a cell, extended into it. The fine polygon's edges bound it
    so in both halves of a coarse cell; the largest gap is at a corner. `error` is the relative distance of the fine
    polygon from H at its points; a line through two of them is off by 2 + 2 e^step errors one cell further.
    """
    up = math.exp(half * (1 + tilt))
    left, middle, right = fine[:-1:2], fine[1::2] / up, fine[2::2] / up**2
    near, far = math.expm1(half), math.exp(half) * math.expm1(half)
    deep = middle * near * far / (near + far)
    with np.errstate(invalid="ignore", divide="ignore"):
        first = middle / (left + middle) * (deep + left * near)
        second = middle / (right + middle) * (deep + right * far)
    peak = np.where(middle > 0, np.maximum(deep, np.maximum(first, second)), 0.0)
    before = np.concatenate([curve[:1], curve[:-3:2] * math.exp(2 * half * tilt)])
    leap, noise = (left + deep / near) * (near + far), (4 + 2 * math.exp(2 * half)) * error * before
    return np.concatenate([peak * (1 + 1e-14) + noise, curve[-1:]]), leap * (1 + 1e-14) + noise


def lowered_edges(polygon: Polygon, grid: Grid) -> Masses:
    """The measure under the event: edges lowered by their sag, and losses rounded down to a shifted grid.

    Two lowered edges meet at p/q = u_j + (sag_j - sag_{j-1})/q_j; the line to the left of all is 1 - u. Rounding
    a loss down at fixed P-mass lowers its curve. The shift is the one that loses least.
    """
    (step, tilt), coarse, sag, first = grid, polygon.masses, polygon.sag, polygon.first
    q = coarse.copy()
    p = (coarse + sag) * (1 - 4 * ROUNDING)
    p[0] -= polygon.spare
    p[1:] -= sag[:-1] * (math.exp(tilt * step) * (1 + 4 * ROUNDING))
    q[0] += polygon.rise[0] if polygon.rise.size else math.inf
    place = np.arange(0.0, coarse.size)
    size = merge_disordered(p, q, place, step, tilt)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.minimum(np.log(p[:size] / q[:size]), (coarse.size - 1 - place[:size]) * step)
    moved -= 8 * ROUNDING * (50 + coarse.size)  # ratios are rounded once for each merging
    # what is left of the grid may be dropped: that lowers the curve too
    good = moved > -step * (place[:size] + 1)
    p, moved, place = p[:size][good], moved[good], place[:size][good]
    if p.size == 0:
        return polygon.nothing()
    shift = best_shift(moved, p, step)
    index = np.floor((moved + shift) / step)
    weights = p * np.exp(np.minimum(tilt * (index * step - shift), 700.0))
    base = int((index := index + place).min())
    weights = np.bincount((index - base).astype(int), weights).astype(float)
    return normalised(weights, first + base, polygon.offset - shift, polygon.scale)


def lowered_points(polygon: Polygon, grid: Grid, log_unit: float) -> Masses:
    """The measure under the event: the polygon through H - d at the grid points, d no less than the sag on either side.

    Wherever d is more than half of H the rest of the mass stays at the last point before. Clipping masses at 0
    raises the curve; scaling by the least ratio at the points, measured on the masses' own curve, undoes it.
    """
    (step, tilt), coarse, curve, sag, rise = grid, polygon.masses, polygon.values, polygon.sag, polygon.rise
    grow, ahead, behind = math.exp(step * tilt), math.expm1(step), -math.expm1(-step)
    d = np.maximum(np.append(sag[:-1], 0.0), np.append(0.0, sag[:-1] * grow))
    # up to the first point, and wherever H - d would go below it, keep to 1 - u; the edge that leaves it needs room
    if rise.size == 0:
        return polygon.nothing()
    leaving = 1 + int(np.flatnonzero(d[: rise.size] > rise).max(initial=0))
    d[:leaving] = rise[:leaving]
    d[leaving] = max(d[leaving], polygon.leap[leaving - 1] * grow)
    high = np.flatnonzero(d > curve / 2)
    size = int(high[0]) if high.size else curve.size
    if size < 3:
        return polygon.nothing()
    d, p, goal = d[:size], coarse[:size].copy(), (curve - np.pad(d, (0, curve.size - d.size)))[:size]
    p[1:-1] -= (d[2:] / grow - d[1:-1]) / ahead - (d[1:-1] - d[:-2] * grow) / behind
    p[0] -= (d[1] / grow - d[0]) / ahead - d[0]
    p[-1] = (goal[-2] * grow - goal[-1]) / behind + goal[-1]
    cut_corners(p, step, tilt)
    p = np.maximum(p, 0.0)
    own, rounding = np.empty_like(p), 8 * ROUNDING * (1000 + size)
    polygon_values(p, 0.0, step, tilt, own)
    # the first outcome may have what the others leave of 1, but they may not have more
    with np.errstate(divide="ignore"):
        log_others = float(np.logaddexp.reduce(np.log(p[1:]) - tilt * step * np.arange(1, size))) - log_unit
    if log_others > 700:
        return polygon.nothing()
    others = math.exp(log_others)
    least = float(np.min(goal[own > 1e-290] / own[own > 1e-290], initial=1.0))
    ratio = min(least, 1 / max(others, 1.0)) * (1 - rounding)
    p[0] = math.exp(log_unit) * max(1 / ratio * (1 - rounding) - others * (1 + rounding), 0.0)
    return normalised(p, polygon.first, polygon.offset, polygon.scale + math.log(ratio))


def best_shift(moved: FloatArray, weights: FloatArray, step: float) -> float:
    """The shift s of the grid that minimises sum weights * ((moved + s) mod step); one of -moved."""
    rest = np.mod(moved, step)
    order = np.argsort(rest)
    cost = step * np.append(0.0, np.cumsum(weights[order])[:-1]) - rest[order] * weights.sum()
    return -float(rest[order[np.argmin(cost)]])


def normalised(weights: FloatArray, first: int, offset: float, scale: float) -> Masses:
    """Masses from tilted ones that are scaled by exp(-scale)."""
    total = float(weights.sum())
    shares, log_total = (weights / total, scale + math.log(total)) if total > 0 else (np.ones(1), NOTHING)
    return Masses(shares, first, offset, log_total)
