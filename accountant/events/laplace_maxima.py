"""The pair of distributions that dominates the maximum of scores with Laplace noise.

Whatever the scores, the chance p of a set of candidates changes at a rate of at most g(p) as these scores rise against
all others, and the release tells no more than a value tells whose noise has the distribution function with the slope g
(proof: notebooks/mathematics.md, Noisy maxima of Laplace noise). g is taken as the least of some of its tangents, so
that the logarithm of that density is made of straight lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import Outcomes
from accountant.events.event import Event
from accountant.events.finite_pairs import FinitePair
from accountant.events.laplace import Laplace
from accountant.events.parameters import EpsilonOfNoise
from accountant.numerics.exact import times_up
from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import gauss_legendre

__all__ = ["LARGEST_SHIFT", "LaplaceMaximum"]

LARGEST_SHIFT = 32.0
"""Largest losses up to which the pair is made."""

HALVINGS = 12
"""Pieces of the steepest distribution function of a maximum, below its median."""

TANGENTS, FARTHEST = 24, 1.75
"""Tangents of g, and how far apart two variables are at the first one: farther out their slope is nearly 1."""

ROUNDING = 1e-12
"""What is added to a tangent: more than what sums of positive numbers round."""

NODES, WEIGHTS = gauss_legendre(16)
"""Of integrals over the unit interval."""

SHARES, COARSEST = 128.0, 1 / 16
"""A cell of places has losses that differ by the largest one over this, at most, and by no more than that."""


class Steepest(NamedTuple):
    """The density G(F) of a distribution function F that rises as fast as that of a maximum can: e^-x/2 at x >= 0.

    Between `ends`, which fall from 0, it is exponential with the slopes 0, 1, 2, ...; `values` are those there.
    """

    ends: FloatArray
    values: FloatArray

    def density(self, x: FloatArray) -> FloatArray:
        logs = np.interp(x, self.ends[::-1], np.log(self.values[::-1]), left=-math.inf)
        return np.exp(np.where(x > 0.0, -math.log(2.0) - x, logs))

    def slope(self, x: FloatArray) -> FloatArray:
        """Of the density's logarithm."""
        pieces = self.ends.size - 1 - np.searchsorted(self.ends[::-1], x, side="right")
        return np.where(x > 0.0, -1.0, np.clip(pieces, 0.0, None))

    def upper_tail(self, x: FloatArray) -> FloatArray:
        """Probability of more than x."""
        k = np.clip(self.slope(x), 0.0, None)
        value = self.density(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.where(k > 0.0, (value - 0.5 ** (k + 1.0)) / k, (1.0 + x) / 2)
        return np.where(x > 0.0, value, np.where(x < self.ends[-1], 1.0, 1.0 - below))


def steepest() -> Steepest:
    """G is linear between F = 2^-k and 2^-(k + 1), where it is k 2^-k and (k + 1) 2^-(k + 1); the last goes to 0."""
    k = np.arange(1.0, HALVINGS + 1.0)
    values = np.append(k * 0.5**k, 0.5**HALVINGS)
    falls = np.log(values[:-1] / values[1:])
    lengths = np.where(k > 1.0, falls / np.maximum(k - 1.0, 1.0), 0.5)
    return Steepest(np.append(0.0, -np.cumsum(lengths)), values)


class Tangent(NamedTuple):
    """g(p) <= start + slope p."""

    start: float
    slope: float


def tangents() -> list[Tangent]:
    """Of g up to p = 1/2, from slope 1 to slope 0: at differences of two variables with the steepest density."""
    one = steepest()
    found = [Tangent(0.0, 1.0)]
    for t in np.linspace(FARTHEST, 0.0, TANGENTS).tolist():
        cuts = np.unique(np.concatenate([one.ends, one.ends[one.ends - t >= one.ends[-1]] - t]))
        cuts = cuts[cuts >= one.ends[-1]]
        widths = np.diff(cuts)
        x = (cuts[:-1, None] + widths[:, None] * NODES).ravel()
        masses = one.density(x) * (widths[:, None] * WEIGHTS).ravel()
        beyond = math.exp(-t) / 8  # of x > 0, where both densities are exponential
        value = float(masses @ one.density(x + t)) + beyond
        chance = float(masses @ one.upper_tail(x + t)) + beyond
        rise = beyond - float(masses @ (one.density(x + t) * one.slope(x + t)))
        slope = rise / value if t > 0.0 else 0.0
        found.append(Tangent(value - slope * chance + ROUNDING, slope))
    return found


class Density(NamedTuple):
    """A symmetric density whose logarithm is linear, with one more of `slopes`, between `places` and beyond them."""

    places: FloatArray
    logs: FloatArray
    slopes: FloatArray

    def log_density(self, x: FloatArray) -> FloatArray:
        beyond = np.maximum(np.abs(x) - self.places[-1], 0.0)
        return np.asarray(np.interp(x, self.places, self.logs) - beyond)


@lru_cache(maxsize=1)
def dominating_density() -> Density:
    """The density that is the least of the tangents at its distribution function."""
    lines = tangents()
    starts, slopes = (np.array(each) for each in zip(*lines, strict=True))
    meet = np.diff(starts) / -np.diff(slopes)
    values = slopes[1:] * meet + starts[1:]
    inner = np.log(values[1:] / values[:-1]) / slopes[1:-1]
    half = (0.5 - float(meet[-1])) / float(values[-1])
    left = -half - np.append(np.cumsum(inner[::-1])[::-1], 0.0)
    logs = np.log(values)
    return Density(
        np.append(left, -left[::-1]), np.append(logs, logs[::-1]), np.concatenate([slopes[:-1], [0.0], -slopes[-2::-1]])
    )


class Cells(NamedTuple):
    """Cells of places, in rising order, with the losses at their ends, in falling order."""

    starts: FloatArray
    widths: FloatArray
    losses: FloatArray


def cells_of(density: Density, shift: float) -> Cells:
    """Between all places where a slope changes, of the density or the one that is moved, and so many more."""
    count = density.places.size
    places = np.concatenate([density.places, density.places + shift])
    order = np.argsort(places, kind="stable")
    widths = np.diff(places[order])
    widths[np.diff(order) == count] = shift  # from a place to where it is moved: exactly, however small
    moved = np.cumsum(order >= count)[:-1]
    here = np.arange(1, 2 * count) - moved
    falls = widths * (density.slopes[moved] - density.slopes[here])
    parts = np.maximum(np.ceil(falls / min(shift / SHARES, COARSEST)), 1.0)
    which = np.repeat(np.arange(parts.size), parts.astype(int))
    nth = np.arange(which.size) - (np.cumsum(parts) - parts)[which]
    fine = (widths / parts)[which]
    losses = shift - np.append(0.0, np.cumsum((falls / parts)[which]))
    return Cells(places[order][:-1][which] + nth * fine, fine, losses)


@lru_cache(maxsize=256)
def dominating_pair(shift: float) -> FinitePair:
    """The density against itself moved by `shift`, in cells, each of which is split between the losses at its ends."""
    density = dominating_density()
    cells = cells_of(density, shift)
    x = cells.starts[:, None] + cells.widths[:, None] * NODES
    masses = np.exp(density.log_density(x)) * cells.widths[:, None] * WEIGHTS
    falls = -np.diff(cells.losses)[:, None]
    with np.errstate(invalid="ignore"):
        share = np.where(falls > 0.0, np.expm1(falls * (NODES - 1.0)) / np.expm1(-falls), 1.0)
    likely = np.exp(density.logs[0])
    p = np.concatenate([[likely], np.zeros(cells.widths.size - 1), [likely * math.exp(-shift)]])
    p[:-1] += (masses * share).sum(axis=1)
    p[1:] += (masses * (1.0 - share)).sum(axis=1)
    firsts = np.flatnonzero(np.append(True, np.diff(cells.losses) < 0.0))
    log_p, losses = np.log(np.add.reduceat(p, firsts)), cells.losses[firsts]
    return FinitePair(log_p, log_p - losses, losses)


@lru_cache(maxsize=256)
def corners(shift: float) -> tuple[FloatArray, FloatArray]:
    """Losses of at least 0, rising, and the profile there: in e^epsilon it is linear between them."""
    pair = dominating_pair(shift)
    losses = np.unique(np.append(0.0, pair.losses[pair.losses > 0.0]))
    return losses, np.exp(pair.log_profile(losses)[0])


@dataclass(frozen=True)
class LaplaceMaximum(Event):
    """Which of any scores is largest, with Laplace noise on each; they move against each other by `epsilon` scales."""

    epsilon: EpsilonOfNoise
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _pair(self) -> FinitePair:
        return dominating_pair(self.epsilon)

    def _largest_loss(self) -> Fraction:
        return Fraction(self.epsilon)

    def _group(self, size: int) -> Event:
        moved = times_up(size, self.epsilon)
        if moved > LARGEST_SHIFT:
            return Laplace(1.0, moved, adjacency=self.adjacency)
        return LaplaceMaximum(moved, self.adjacency)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._pair().curve(orders)

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        return np.minimum(self._pair().sampled(rate).curve(orders), self._curve(orders))

    def _curve_work(self, rate: float = 1.0) -> float:
        return 100.0 * self._pair().losses.size * (1.0 if rate == 1.0 else 2.0)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        losses, values = corners(self.epsilon)
        points = np.minimum(epsilons, losses[-1])
        left = np.clip(np.searchsorted(losses, points, side="right") - 1, 0, losses.size - 2)
        start, end = losses[left], losses[left + 1]
        share = np.expm1(points - start) / np.expm1(end - start)
        with np.errstate(divide="ignore"):
            both = np.log((1.0 - share) * values[left] + share * values[left + 1])
        return both, both

    def _outcomes(self) -> Outcomes:
        pair = self._pair()
        return Outcomes(pair.losses[::-1].copy(), pair.log_p[::-1].copy())

    def _profile_knots(self) -> Sequence[float]:
        return (self.epsilon,)
