"""Sums of independent likelihood ratios, bracketed in convex order on a grid of logarithms.

Let X = dP/dQ under Q, so that E X = 1. Both directions of the privacy profile are expectations of convex functions,
H_e(P||Q) = E(X - e^e)_+ and H_e(Q||P) = E(1 - e^e X)_+, and so they are of a sum of independent such ratios. Hence

* above: moving each mass to the two neighbouring grid points so that its mean stays the same makes every
  such expectation larger (a mean-preserving spread);
* below: moving all masses of a cell to their mean makes every one smaller (Jensen's inequality).

Both orders survive sums of independent variables, as x -> f(x + y) is convex for every y. What lies outside of a grid
goes to its ends, on the safe side for the direction in which the distribution is used. On a grid x_i = e^(o + h i)
the place of x_i + x_j depends on i - j alone, but for a shift by the larger index, so that adding two distributions
takes one product and one sum for each pair of points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from accountant.errors import ToleranceUnreachable
from accountant.numerics.kernel import FloatArray
from accountant.patience import has_limit, spend
from accountant.samplers.likelihood_kernels import (
    IntArray,
    convolve_contractions,
    convolve_few_contractions,
    convolve_few_spreads,
    convolve_spreads,
    reach_of_sum,
)
from accountant.tight.polygon import ULP

__all__ = [
    "ADDITION",
    "LAG",
    "Contraction",
    "Ratios",
    "Spread",
    "Sum",
    "add_contractions",
    "add_spreads",
    "too_many_products",
]

FEW = 64
"""How much longer a product takes where masses are few."""

SPREADING, CONTRACTING, LAG, PAIR, ADDITION = 0.5, 1.1, 100.0, 30.0, 2e5
"""Operations of a product from above and from below, where all are taken, and beside those of each distance between
points; of a pair of masses above 0; and of what else is done for each addition."""

MOST_PRODUCTS = 2e9
"""Products of one addition: some seconds."""

LIFT = 2.0**498
"""Both masses are multiplied by it while products are added up: those that underflow take fifty times as long as
others. The mean of the sum of a million ratios, times its square, is still a float."""

TINY = 1e-300
"""More than any product that underflows."""


Sum = TypeVar("Sum", "Spread", "Contraction")


class Ratios(NamedTuple):
    """Masses of Q at places X > 0, `zero` of them at 0, on one side of a likelihood ratio in convex order.

    E(X - u)_+ is on that side only with `lost` added, which is negative below; so is `zero` if more was cut off.
    Rounding: as in a `Spread`.
    """

    masses: FloatArray
    places: FloatArray
    zero: float
    lost: float
    error: float
    moved: float


def few(a: FloatArray, b: FloatArray, operations: float) -> tuple[IntArray, IntArray] | None:
    """Indices of masses above 0, if they are so few that going through them is faster; else None.

    The work is counted: so many operations for a product of all.

    Raises
    ------
    ToleranceUnreachable
        Both ways take too long: longer than there is patience, or, where no patience limits them, some seconds.
    """
    some_a, some_b = np.flatnonzero(a), np.flatnonzero(b)
    pairs, products = some_a.size * some_b.size, a.size * b.size
    if min(FEW * pairs, products) > MOST_PRODUCTS and not has_limit():
        raise too_many_products(products)
    sparse = FEW * pairs < products
    each = PAIR * pairs if sparse else operations * products
    spend(each + ADDITION + LAG * (a.size + b.size), "a sum of likelihood ratios")
    return (some_a, some_b) if sparse else None


def too_many_products(products: float) -> ToleranceUnreachable:
    """The refusal of an addition that takes so many."""
    return ToleranceUnreachable(
        f"a sum of likelihood ratios takes {products:.2g} products; accepted: at most {MOST_PRODUCTS:.2g}, hence a "
        "larger tolerance or fewer steps"
    )


@dataclass(frozen=True)
class Spread:
    """Masses of Q at x_i = exp(offset + step * (first + i)), `zero` of them at 0; larger in convex order than a sum.

    `lost` is what the sum's mean has beyond the last point: E(X - u)_+ may be larger by as much. Rounding: `error` is
    relative to masses, `moved` to places.
    """

    masses: FloatArray
    first: int
    offset: float
    step: float
    zero: float = 0.0
    lost: float = 0.0
    error: float = 0.0
    moved: float = 0.0

    @property
    def places(self) -> FloatArray:
        return np.asarray(np.exp(self.offset + self.step * (self.first + np.arange(self.masses.size))))

    def part(self, begin: int, end: int) -> Spread:
        """Some of the masses alone."""
        return replace(self, masses=self.masses[begin:end], first=self.first + begin, zero=0.0, lost=0.0)

    def refine(self, times: int) -> Spread:
        """The same on a grid with `times` as many points."""
        masses = np.zeros(times * (self.masses.size - 1) + 1)
        masses[::times] = self.masses
        return replace(self, masses=masses, first=times * self.first, step=self.step / times)

    def trim(self, below: float, beyond: float) -> Spread:
        """Without masses of at most `below` at the low end and an excess of `beyond` over the last point."""
        places, masses = self.places, self.masses
        start = min(int(np.searchsorted(np.cumsum(masses), below)), masses.size - 1)
        tails = np.append(np.cumsum((masses * places)[::-1])[::-1], 0.0)
        stop = min(max(int(np.flatnonzero(tails <= beyond)[0]), start + 1), masses.size)
        share = places[:start] / places[start]
        excess = float(np.sum(masses[stop:] * (places[stop:] - places[stop - 1])))
        kept = masses[start:stop].copy()
        kept[0] += float(np.sum(masses[:start] * share))
        kept[-1] += float(np.sum(masses[stop:]))
        zero = self.zero + float(np.sum(masses[:start] * (1 - share)))
        return replace(
            self,
            masses=kept,
            first=self.first + start,
            zero=zero,
            lost=self.lost + excess,
            error=self.error + ULP * masses.size,
        )


@dataclass(frozen=True)
class Contraction:
    """Masses of Q at `places`, about one for each cell of a grid, `zero` of them at 0; smaller in convex order.

    Masses add up to at most 1. Cell i begins at exp(offset + step * (first + i)). Rounding: as in a `Spread`.
    """

    masses: FloatArray
    places: FloatArray
    first: int
    offset: float
    step: float
    zero: float = 0.0
    error: float = 0.0
    moved: float = 0.0

    def part(self, begin: int, end: int) -> Contraction:
        """Some of the masses alone."""
        masses, places = self.masses[begin:end], self.places[begin:end]
        return replace(self, masses=masses, places=places, first=self.first + begin, zero=0.0)

    def refine(self, times: int) -> Contraction:
        """The same with cells of which there are `times` as many."""
        with np.errstate(divide="ignore"):
            cells = np.floor((np.log(self.places) - self.offset) / (self.step / times))
        start = times * self.first
        size = times * self.masses.size
        within = np.clip(
            cells - start, times * np.arange(self.masses.size), times * np.arange(1, self.masses.size + 1) - 1
        )
        index = within.astype(int)
        masses = np.zeros(size)
        places = np.exp(self.offset + self.step / times * (start + np.arange(size) + 0.5))
        masses[index], places[index] = self.masses, self.places
        return replace(self, masses=masses, places=places, first=start, step=self.step / times)

    def trim(self, below: float, beyond: float) -> Contraction:
        """One cell for masses of at most `below` at the low end, one for moments of at most `beyond` at the other."""
        moments = self.masses * self.places
        start = min(int(np.searchsorted(np.cumsum(self.masses), below)), self.masses.size - 1)
        tails = np.append(np.cumsum(moments[::-1])[::-1], 0.0)
        stop = min(max(int(np.flatnonzero(tails <= beyond)[0]), start + 1), self.masses.size)
        kept, means = self.masses[start:stop].copy(), moments[start:stop].copy()
        for place, dropped in ((0, slice(0, start)), (-1, slice(stop, None))):
            kept[place] += float(np.sum(self.masses[dropped]))
            means[place] += float(np.sum(moments[dropped]))
        places = np.where(kept > 1e-290, means / np.maximum(kept, 1e-300), self.places[start:stop])
        rounding = ULP * self.masses.size
        return replace(
            self,
            masses=kept,
            places=places,
            first=self.first + start,
            error=self.error + rounding,
            moved=self.moved + 2 * rounding,
        )


def _arrange(a: Sum, b: Sum) -> tuple[Sum, Sum, int, int, int]:
    """Both on one grid, the one that begins first before the other; where and how many points the sum has at least.

    The place of a sum is log(1 + e^-d)/step points after the larger of two that are d/step points apart.
    """
    if a.step != b.step:
        fine = min(a.step, b.step)
        a, b = (each.refine(round(each.step / fine)) for each in (a, b))
    if b.first < a.first:
        a, b = b, a
    apart, step = b.first - a.first, a.step
    if apart > 2**53:
        raise ToleranceUnreachable(f"likelihood ratios are {apart:.2g} steps of a grid apart; accepted: at most 9e15")
    span, nearest = max(a.masses.size, b.masses.size + apart), max(apart - a.masses.size + 1, 0)
    low, high = (reach_of_sum(lag * step) / step for lag in (span, nearest))
    least = apart + math.floor(low)
    return a, b, apart, least, span + math.ceil(high) - least + 2


def add_spreads(one: Spread, other: Spread) -> Spread:
    """The distribution of the sum of two independent variables, above in convex order."""
    a, b, apart, least, size = _arrange(one, other)
    twice = one is other
    some, step = few(a.masses, b.masses, SPREADING / (1 + twice)), a.step
    low, high = np.zeros(size), np.zeros(size)
    if some is None:
        convolve_spreads(a.masses * LIFT, b.masses * LIFT, apart, least, step, twice, low, high)
        low, high = low / LIFT**2, high / LIFT**2
    else:
        convolve_few_spreads(a.masses, b.masses, apart, least, step, *some, low, high)
    masses, zero = low, a.zero * b.zero + size * TINY
    masses[1:] += high[:-1]
    for each, begin, chance in ((a, 0, b.zero), (b, apart, a.zero)):
        # what stands before the first point is split between it and 0
        share = np.exp(np.minimum(step * (begin + np.arange(each.masses.size) - least), 0.0))
        np.add.at(masses, np.maximum(begin + np.arange(share.size) - least, 0), chance * each.masses * share)
        zero += chance * float(np.sum(each.masses * (1 - share)))
    used = 1 + int(np.flatnonzero(masses).max())
    # what underflows is lost, at the largest place
    lost = a.lost + b.lost + size * TINY * math.exp(a.offset + step * (a.first + least + size))
    error, moved = a.error + b.error + ULP * (size + 8), max(a.moved, b.moved) + 16 * ULP
    return Spread(masses[:used], a.first + least, a.offset, step, zero, lost, error, moved)


def add_contractions(one: Contraction, other: Contraction) -> Contraction:
    """The distribution of the sum of two independent variables, below in convex order."""
    a, b, apart, least, size = _arrange(one, other)
    twice = one is other
    some, step = few(a.masses, b.masses, CONTRACTING / (1 + twice)), a.step
    edges = np.exp(a.offset + step * (a.first + least + np.arange(size + 1.0)))
    masses, moments, later_masses, later_moments = (np.zeros(size) for _ in range(4))
    if some is None:
        # from below a mean may be far above 1
        mean = float(np.sum(a.masses * a.places) + np.sum(b.masses * b.places))
        lift = LIFT * 2.0 ** -math.ceil(0.5 * math.log2(max(mean, 1.0)))
        convolve_contractions(
            a.masses * lift, a.places, b.masses * lift, b.places, apart, least, step, twice, edges,
            masses, moments, later_masses, later_moments,
        )  # fmt: skip
        masses, moments, later_masses, later_moments = (
            each / lift**2 for each in (masses, moments, later_masses, later_moments)
        )
    else:
        convolve_few_contractions(
            a.masses, a.places, b.masses, b.places, apart, least, step, *some, edges, masses, moments
        )
    masses[1:] += later_masses[:-1]
    moments[1:] += later_moments[:-1]
    for each, begin, chance in ((a, 0, b.zero), (b, apart, a.zero)):
        # what stands before the first cell joins it
        cells = np.maximum(begin + np.arange(each.masses.size) - least, 0)
        np.add.at(masses, cells, chance * each.masses)
        np.add.at(moments, cells, chance * each.masses * each.places)
    used = 1 + int(np.flatnonzero(masses).max())
    masses, moments = masses[:used], moments[:used]
    good = masses > 1e-290
    places = np.where(good, moments / np.where(good, masses, 1.0), np.sqrt(edges[:used] * edges[1 : used + 1]))
    rounding = ULP * (size + 8)
    error, moved = a.error + b.error + rounding, max(a.moved, b.moved) + 2 * rounding
    masses = np.where(good, masses, 0.0)
    return Contraction(masses, places, a.first + least, a.offset, step, a.zero * b.zero, error, moved)
