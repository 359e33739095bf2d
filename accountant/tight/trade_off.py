"""Certified trade-off functions: the largest true-positive rate of any test of one neighbour against the other.

A test that accepts with probability at most a under Q accepts with at most T(a) under P, and with H the privacy
profile, H(u) = sup_S P(S) - u Q(S), for every u >= 0

    T(a) = inf_u  G(u),   G(u) = H(u) + u a        (Dong, Roth & Su 2022, Prop. 6).

Any u and any upper bound on H(u) give an upper bound on T(a). A lower bound needs the infimum over all u. H is convex
in u, hence so is G, and that carries what is known at single points to all others (proof: notebooks/mathematics.md,
Attack risk): with points u1 < u2 < u3 and lo <= G <= hi there,

    G(u) >= lo2 - (hi1 - lo2) (u3 - u2) / (u2 - u1)    for u2 <= u <= u3, if hi1 >= lo2,

likewise from the right, and where lo(u1) >= hi(u2) <= lo(u3) the infimum lies between u1 and u3.

A measure on a grid of losses has a polygon for H, with corners at the losses: there its own minimum is at a corner.

Of a family of pairs H is the largest of the pairs' profiles. It is the profile of an adversary who may draw the pair at
random, with the draw public (minimax theorem: G is linear in the draw and convex in u); T is then the best of such
adversaries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accountant.errors import ToleranceUnreachable
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.tight.hulls import HULL_ROUNDING, hull_of

__all__ = [
    "LINES",
    "ROUNDING",
    "BetweenTradeOffs",
    "LogBounds",
    "ProfileTradeOff",
    "Rates",
    "SureTradeOff",
    "TradeOff",
    "both_signs",
    "cut_lines",
    "envelope",
    "profile_of",
    "supporting_lines",
]

Rates = tuple[FloatArray, FloatArray]
"""Lower and upper bounds on true-positive rates."""

LogBounds = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Bounds on log H(e^x), below and above, at any reals x."""

LEAST = -40.0
"""Smallest log u that is looked at: below it H(u) >= 1 - u is 1 but for half a rounding."""

ZOOM = 17
"""Points between which a minimum is looked for, again and again."""

FIRST = 65
"""Points of the first look, at all u that matter."""

LINES = 20001
"""Lines of which a polygon above T is made, at most."""

DEEPEST = -700.0
"""Least log of an upper bound on a profile that is told from smaller ones where these are lowered to their hull."""

ROUNDING = 1e-12
"""More than relative rounding errors of G where |log u| <= 750."""


class TradeOff:
    """Certified true-positive rates of one direction; every kind of run has its own.

    T is concave; so is the minimum of lines that lies above it.
    """

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        """Bounds on T at a 1-D array of rates in (0, 1); wide ones where the upper one is at most `known`."""
        raise NotImplementedError

    def segments(self, floor: float, ceiling: float) -> Rates:
        """Both ends (a, t) of straight segments that together lie above T over [floor, ceiling]."""
        raise NotImplementedError

    def profile(self, epsilon: float) -> Interval:
        """Bounds on H(e^epsilon), epsilon >= 0."""
        raise NotImplementedError

    def at_zero(self) -> Interval:
        """Bounds on T(0), the probability of an infinite loss under P; losses above 1e300 count as infinite."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class SureTradeOff(TradeOff):
    """A run with losses that are infinite with probability d, the rest conditional: T(a) = d + (1-d) T'(a / (1-d)).

    `lost` are bounds on d. H(u) = d + (1 - d) H'(u), so the infimum over u is that of H' at a / (1 - d).
    """

    finite: TradeOff
    lost: tuple[float, float]

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        low, high = self.lost
        some = fprs < 1 - high
        # who cannot lose where the loss is infinite, and guesses elsewhere
        lower, upper = np.minimum((low + fprs) * (1 - ROUNDING), 1.0), np.ones_like(fprs)
        if some.any():
            least, most = (self.finite.rates(fprs[some] / (1 - end))[i] for i, end in enumerate(self.lost))
            lower[some] = np.maximum(lower[some], (low + (1 - low) * least) * (1 - ROUNDING))
            upper[some] = np.minimum((high + (1 - high) * most) * (1 + ROUNDING), 1.0)
        return lower, upper

    def segments(self, floor: float, ceiling: float) -> Rates:
        high = self.lost[1]
        if ceiling >= 1 - high:
            return np.array([floor, ceiling]), np.ones(2)
        places, rates = self.finite.segments(floor / (1 - high), ceiling / (1 - high))
        return places * (1 - high), np.minimum((high + (1 - high) * rates) * (1 + ROUNDING), 1.0)

    def profile(self, epsilon: float) -> Interval:
        return self._add_lost(self.finite.profile(epsilon))

    def at_zero(self) -> Interval:
        return self._add_lost(self.finite.at_zero())

    def _add_lost(self, finite: Interval) -> Interval:
        low, high = self.lost
        return Interval(
            (low + (1 - low) * finite.lower) * (1 - ROUNDING),
            min((high + (1 - high) * finite.upper) * (1 + ROUNDING), 1.0),
        )


@dataclass(frozen=True, eq=False)
class BetweenTradeOffs(TradeOff):
    """A run that is known between two others: T is at most that of one, and at least that of the other."""

    above: TradeOff
    below: TradeOff

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        upper, lower = self.above.rates(fprs, known)[1], fprs
        with suppress(ToleranceUnreachable):  # guessing is an attack, too
            lower = np.maximum(self.below.rates(fprs, known)[0], lower)
        return np.minimum(lower, upper), upper

    def segments(self, floor: float, ceiling: float) -> Rates:
        return self.above.segments(floor, ceiling)

    def profile(self, epsilon: float) -> Interval:
        upper, lower = profile_of(self.above, epsilon).upper, 0.0
        with suppress(ToleranceUnreachable):
            lower = profile_of(self.below, epsilon).lower
        return Interval(min(lower, upper), upper)

    def at_zero(self) -> Interval:
        return Interval(self.below.at_zero().lower, self.above.at_zero().upper)


def profile_of(side: TradeOff, epsilon: float) -> Interval:
    """Its profile, or what a refusal knows of it."""
    try:
        return side.profile(epsilon)
    except ToleranceUnreachable as error:
        if error.found is None:
            raise
        return Interval(*error.found)


# --- a profile that is known everywhere -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ProfileTradeOff(TradeOff):
    """T from certified bounds on a profile, at any u."""

    log_bounds: LogBounds
    fine: float = 1e-14
    lines: int = LINES

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        return self._search(fprs)[:2]

    def segments(self, floor: float, ceiling: float) -> Rates:
        places = self._search(np.array([floor, ceiling]))[2]
        x, step = np.linspace(float(places.min()), float(places.max()), self.lines, retstep=True)
        low, high = self.log_bounds(x)
        if np.isneginf(low).all() and step > 0.0:
            # bounds from above need not be convex in u as H is, which is below their hull
            high = np.log(hull_of(np.exp(np.maximum(high, DEEPEST)), float(step))) + HULL_ROUNDING
        return cut_lines(x, high, floor, ceiling)

    def profile(self, epsilon: float) -> Interval:
        low, high = (float(np.exp(end[0])) for end in self.log_bounds(np.array([epsilon])))
        return Interval(low * (1 - ROUNDING), min(high * (1 + ROUNDING), 1.0))

    def at_zero(self) -> Interval:
        return self.profile(1e300)

    def _search(self, fprs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bounds on T, and the log u at which the upper one was found."""
        if np.isneginf(self.log_bounds(np.zeros(1))[0]).all():
            return fprs, *self._search_above(fprs)
        log_fprs = np.log(fprs)
        left, right = np.full_like(fprs, LEAST), np.maximum(-log_fprs, LEAST + 1)
        lower, upper, place = fprs.copy(), np.ones_like(fprs), left.copy()
        for level in range(20):
            x = left[:, None] + (right - left)[:, None] * np.linspace(0.0, 1.0, ZOOM if level else FIRST)
            low, high = (each.reshape(x.shape) for each in self.log_bounds(x.ravel()))
            lines = x + log_fprs[:, None]
            bounds = low
            if level == 0:
                lower = np.maximum(lower, between(x, low, fprs) * (1 - ROUNDING))
            low, high = np.logaddexp(low, lines) - ROUNDING, np.logaddexp(high, lines) + ROUNDING
            best = np.argmin(high, axis=1)
            found = np.exp(pick(high, best)) * (1 + ROUNDING)
            place = np.where(found < upper, pick(x, best), place)
            upper = np.minimum(upper, found)
            first, last = enclose(low, pick(high, best), best)
            found = by_convexity(x, bounds, low, high, log_fprs, (first, best, last))
            lower, width = np.maximum(lower, found * (1 - ROUNDING)), right - left
            left, right = pick(x, np.maximum(first, 0)), pick(x, np.minimum(last, x.shape[1] - 1))
            done = (level > 2) & (right - left > 0.9 * width)
            if np.all(
                done | (right - left <= self.fine * np.maximum(np.abs(left), 1.0)) | (upper - lower <= 4e-9 * upper)
            ):
                break
        return np.minimum(lower, upper), upper, place

    def _search_above(self, fprs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The upper bound and its log u where nothing is known from below: the least of both signs of log u.

        A bound on H from above that is not convex has a minimum on either side.
        """
        upper, place, log_fprs = np.ones_like(fprs), np.full_like(fprs, LEAST), np.log(fprs)
        for ends in ((LEAST, 0.0), (0.0, math.inf)):
            left, right = np.full_like(fprs, ends[0]), np.minimum(np.maximum(-log_fprs, 1.0), ends[1])
            size = FIRST
            while np.any(right - left > self.fine * np.maximum(np.abs(left), 1.0)):
                x = left[:, None] + (right - left)[:, None] * np.linspace(0.0, 1.0, size)
                high = self.log_bounds(x.ravel())[1].reshape(x.shape)
                high = np.logaddexp(high, x + log_fprs[:, None]) + ROUNDING
                best = np.argmin(high, axis=1)
                found = np.exp(pick(high, best)) * (1 + ROUNDING)
                place, upper = np.where(found < upper, pick(x, best), place), np.minimum(upper, found)
                left, right = pick(x, np.maximum(best - 1, 0)), pick(x, np.minimum(best + 1, size - 1))
                size = ZOOM
        return upper, place


def both_signs(x: FloatArray, forward: FloatArray, backward: FloatArray) -> FloatArray:
    """log H_x(P||Q) at any reals x, from both directions' logs at |x|: 1 - e^x + e^x H_{-x}(Q||P) where x < 0."""
    with np.errstate(divide="ignore", under="ignore"):
        size = np.abs(x)
        return np.where(x >= 0, forward, np.logaddexp(np.log(-np.expm1(-size)), backward - size))


def pick(values: FloatArray, columns: NDArray[np.intp]) -> FloatArray:
    """One value of each row."""
    return np.asarray(np.take_along_axis(values, columns[:, None], 1)[:, 0])


def between(x: FloatArray, low: FloatArray, fprs: FloatArray) -> FloatArray:
    """Lower bounds on inf_u G from H alone, in each row: G >= H(u_(j+1)) + u_j a between two points, and 1 - u + u a.

    x are logs of u, `low` bounds log H from below. Before the first point G is at least H there, and beyond the last
    one, where u a = 1, at least 1.
    """
    with np.errstate(over="ignore", under="ignore"):
        u, rates = np.exp(np.minimum(x, 709.0)), fprs[:, None]
        inside = np.maximum(np.exp(low[:, 1:]) + np.exp(x[:, :-1] + np.log(rates)), 1 - u[:, 1:] * (1 - rates))
        return np.asarray(np.minimum(np.min(inside, axis=1), np.exp(low[:, 0])))


def enclose(low: FloatArray, least: FloatArray, best: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Per row the nearest columns on either side of the best one where G is certainly no less; -1 and the size if none.

    The infimum lies between them: G is convex.
    """
    columns, size = np.arange(low.shape[1]), low.shape[1]
    above = low >= least[:, None]
    first = np.max(np.where(above & (columns < best[:, None]), columns, -1), axis=1)
    return first, np.min(np.where(above & (columns > best[:, None]), columns, size), axis=1)


def by_convexity(
    x: FloatArray,
    values: FloatArray,
    low: FloatArray,
    high: FloatArray,
    log_fprs: FloatArray,
    around: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]],
) -> FloatArray:
    """Lower bounds on inf_u G from the points in each row; 0 where they certify nothing.

    x are logs of u, `values` bounds log H from below there, `low` and `high` bound log G; `around` are the columns
    from `enclose`, with the best one between. Between two neighbours G is at least what H is at the right one plus u a
    at the left one, and at least what the chord of the two points before, or of the two after, says.
    """
    first, best, last = around
    columns, size, scale = np.arange(x.shape[1]), x.shape[1], pick(high, best)[:, None]
    with np.errstate(all="ignore"):
        least, most, level = (np.exp(np.minimum(y - scale, 700.0)) for y in (low, high, values))
        u, lines = np.expm1(x - pick(x, best)[:, None]), np.exp(x + (log_fprs[:, None] - scale))
        widths = np.diff(u, axis=1)
        bounds = level[:, 1:] + lines[:, :-1]
        rise = np.maximum(most[:, :-2] - least[:, 1:-1], 0.0) * (widths[:, 1:] / widths[:, :-1])
        bounds[:, 1:] = np.fmax(bounds[:, 1:], least[:, 1:-1] - rise)
        rise = np.maximum(most[:, 2:] - least[:, 1:-1], 0.0) * (widths[:, :-1] / widths[:, 1:])
        bounds[:, :-1] = np.fmax(bounds[:, :-1], least[:, 1:-1] - rise)
        inside = (columns[:-1] >= first[:, None]) & (columns[:-1] < last[:, None])
        found = np.min(np.where(inside, bounds, 1.0), axis=1) * (1 - ROUNDING) * np.exp(scale[:, 0])
    return np.where((first >= 0) & (last < size) & (found > 0.0), found, 0.0)


# --- lines above ------------------------------------------------------------------------------------------


def cut_lines(x: FloatArray, log_values: FloatArray, floor: float, ceiling: float) -> Rates:
    """Ends of segments over [floor, ceiling], each of one of the lines H(u_k) + u_k a >= T(a).

    x = log u_k rises. Neighbouring lines meet at (H_k - H_(k+1)) / (u_(k+1) - u_k); any meetings give a bound, those
    that rounding disorders a poorer one.
    """
    values = np.minimum(log_values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        drop = values[:-1] + np.log(-np.expm1(np.minimum(values[1:] - values[:-1], 0.0)))
        meetings = np.exp(drop - x[1:] - np.log(-np.expm1(x[:-1] - x[1:])))
    meetings = np.clip(np.nan_to_num(meetings, nan=floor, posinf=ceiling), floor, ceiling)
    falling = np.minimum.accumulate(meetings)  # with rising u
    ends = np.stack([np.append(falling, floor), np.insert(falling, 0, ceiling)])
    with np.errstate(under="ignore"):
        rates = np.exp(np.logaddexp(values, x + np.log(ends)) + ROUNDING)
    kept = ends[1] > ends[0]
    kept[0] |= not kept.any()
    return ends[:, kept].ravel(), np.minimum(rates[:, kept], 1.0).ravel()


# --- lines below, for plots -------------------------------------------------------------------------------

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
