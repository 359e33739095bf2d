"""The polygon through a privacy profile at grid points, as masses, and the measures that lie below the profile.

All values are tilted and scaled; see `accountant.tight.loss_grid`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = [
    "NOTHING",
    "ULP",
    "Grid",
    "Masses",
    "Polygon",
    "lower_edges",
    "lower_points",
    "normalise",
    "polygon_values",
    "sags",
    "second_differences",
]

ULP = 2.0**-52
"""Relative distance of neighbouring doubles: twice what one rounding errs by."""

NOTHING = -1e12
"""Log of 0 that stays finite when it is multiplied by a count."""


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


@Kernel
def polygon_values(masses: FloatArray, infinite: float, step: float, tilt: float, curve: FloatArray) -> float:
    """Fill `curve` with the tilted values of the masses' own curve at every point, a sum of positive terms; gives V_0.

    With V_k = sum_{i>k} p_i u_k/u_i:  V_k = (p_{k+1} + V_{k+1}) u_k/u_{k+1},  C_k = C_{k+1} + (u_{k+1}/u_k - 1) V_k.
    """
    tail = 0.0
    curve[-1] = infinite
    for k in range(masses.size - 2, -1, -1):
        tail = math.exp(-step * (1.0 + tilt)) * (masses[k + 1] + tail)
        curve[k] = curve[k + 1] * math.exp(-step * tilt) + math.expm1(step) * tail
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


def second_differences(values: FloatArray, lines: FloatArray, half_step: float, tilt: float, unit: float) -> FloatArray:
    """Tilted masses of the polygon through H: u_k times the change of slope, never below 0.

    `values` are H where l >= 0 and H - (1 - u) where l < 0, `lines` is 1 - u up to the first l >= 0; a line has no
    second difference, so each point uses whichever it has and only at the seam one is turned into the other.
    """
    seam = max(lines.size - 1, 0)
    grow, ahead, behind = math.exp(half_step * tilt), math.expm1(half_step), -math.expm1(-half_step)

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


def sags(
    fine: FloatArray, curve: FloatArray, half_step: float, tilt: float, error: float
) -> tuple[FloatArray, FloatArray]:
    """By how much H can lie under each edge of the coarse polygon, and under its right end if the left end is on H.

    Both are tilted as the edge's left end. The second is the distance to the edge before, extended.

    A convex function lies above the edges next to a cell, extended into it. The fine polygon's edges bound it
    so in both halves of a coarse cell; the largest gap is at a corner. `error` is the relative distance of the fine
    polygon from H at its points; a line through two of them is off by 2 + 2 e^step errors one cell further.
    """
    up = math.exp(half_step * (1 + tilt))
    left, middle, right = fine[:-1:2], fine[1::2] / up, fine[2::2] / up**2
    near, far = math.expm1(half_step), math.exp(half_step) * math.expm1(half_step)
    deep = middle * near * far / (near + far)
    with np.errstate(invalid="ignore", divide="ignore"):
        first = middle / (left + middle) * (deep + left * near)
        second = middle / (right + middle) * (deep + right * far)
    peak = np.where(middle > 0, np.maximum(deep, np.maximum(first, second)), 0.0)
    before = np.concatenate([curve[:1], curve[:-3:2] * math.exp(2 * half_step * tilt)])
    leap, noise = (left + deep / near) * (near + far), (4 + 2 * math.exp(2 * half_step)) * error * before
    return np.concatenate([peak * (1 + 1e-14) + noise, curve[-1:]]), leap * (1 + 1e-14) + noise


def lower_edges(polygon: Polygon, grid: Grid) -> Masses:
    """The measure under the event: edges lowered by their sag, and losses rounded down to a shifted grid.

    Two lowered edges meet at p/q = u_j + (sag_j - sag_{j-1})/q_j; the line to the left of all is 1 - u. Rounding
    a loss down at fixed P-mass lowers its curve. The shift is the one that loses least.
    """
    (step, tilt), coarse, sag, first = grid, polygon.masses, polygon.sag, polygon.first
    q = coarse.copy()
    p = (coarse + sag) * (1 - 4 * ULP)
    p[0] -= polygon.spare
    p[1:] -= sag[:-1] * (math.exp(tilt * step) * (1 + 4 * ULP))
    q[0] += polygon.rise[0] if polygon.rise.size else math.inf
    place = np.arange(0.0, coarse.size)
    size = merge_disordered(p, q, place, step, tilt)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.minimum(np.log(p[:size] / q[:size]), (coarse.size - 1 - place[:size]) * step)
    moved -= 8 * ULP * (50 + coarse.size)  # ratios are rounded once for each merging
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
    return normalise(weights, first + base, polygon.offset - shift, polygon.scale)


def lower_points(polygon: Polygon, grid: Grid, log_unit: float) -> Masses:
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
    if not np.isfinite(p).all():  # differences over a tiny step may be too large
        return polygon.nothing()
    p = np.maximum(p, 0.0)
    own, rounding = np.empty_like(p), 8 * ULP * (1000 + size)
    polygon_values(p, 0.0, step, tilt, own)
    # the first outcome may have what the others leave of 1, but they may not have more
    with np.errstate(divide="ignore"):
        log_others = float(np.logaddexp.reduce(np.log(p[1:]) - tilt * step * np.arange(1, size))) - log_unit
    if max(log_others, log_unit) > 700:
        return polygon.nothing()
    others = math.exp(log_others)
    least = float(np.min(goal[own > 1e-290] / own[own > 1e-290], initial=1.0))
    ratio = min(least, 1 / max(others, 1.0)) * (1 - rounding)
    p[0] = math.exp(log_unit) * max(1 / ratio * (1 - rounding) - others * (1 + rounding), 0.0)
    return normalise(p, polygon.first, polygon.offset, polygon.scale + math.log(ratio))


def best_shift(moved: FloatArray, weights: FloatArray, step: float) -> float:
    """The shift s of the grid that minimises sum weights * ((moved + s) mod step); one of -moved."""
    rest = np.mod(moved, step)
    order = np.argsort(rest)
    cost = step * np.append(0.0, np.cumsum(weights[order])[:-1]) - rest[order] * weights.sum()
    return -float(rest[order[np.argmin(cost)]])


def normalise(weights: FloatArray, first: int, offset: float, scale: float) -> Masses:
    """Masses from tilted ones that are scaled by exp(-scale)."""
    total = float(weights.sum())
    shares, log_total = (weights / total, scale + math.log(total)) if total > 0 else (np.ones(1), NOTHING)
    return Masses(shares, first, offset, log_total)
