"""What a game of screenings that was played to its end answers: bounds on its value, on delta and on epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accountant.errors import ParameterError, real, shorten
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval, exponentiate
from accountant.renyi.conversion import epsilon_from_renyi
from accountant.tight.cover_kernels import STEP_ROUNDING
from accountant.tight.flat_ends import FlatEnd
from accountant.tight.pairs import shares

__all__ = ["GameValue", "PlayedGame", "log_renyi_bound"]


@dataclass(frozen=True)
class GameValue:
    """Certified bounds on W_n(u), the largest P(S) - u Q(S) after n adaptively chosen steps; made by `solve_game`."""

    _above: PlayedGame
    _below: PlayedGame
    _way: int

    def log_upper(self, x: ArrayLike) -> FloatArray:
        """Upper bound on log W_n(e^x), at any reals x."""
        return np.minimum(_outward(self._log_value(self._above.log_upper, x), 1), 0.0)

    def log_lower(self, x: ArrayLike) -> FloatArray:
        """Lower bound on log W_n(e^x), at any reals x; -inf where no better one is known."""
        return _outward(self._log_value(self._below.log_lower, x), -1)

    def with_flat_end(self) -> FlatEnd:
        """The same, known to be flat where its grid ends."""
        end, step = self.window()
        value, slope = (float(self._below.tests[self._way, -1][name]) for name in ("value", "slope"))
        top = value + slope * (1 + self._below.slope_error)
        below, above = max(value * (1 - STEP_ROUNDING) - 1e-300, 0.0), float(self._above.upper[self._way, -1])
        return FlatEnd(self, above * (1 + STEP_ROUNDING) + 1e-300, below, top * (1 + STEP_ROUNDING), end - step * 1e-9)

    def delta(self, epsilon: float) -> Interval:
        """Bounds on delta at any real epsilon."""
        return self.deltas(np.array([real("epsilon", epsilon, -1e300, 1e300)]))[0]

    def deltas(self, epsilons: FloatArray) -> list[Interval]:
        """The same at many."""
        ends = zip(self.log_lower(epsilons).tolist(), self.log_upper(epsilons).tolist(), strict=True)
        return [_delta_between(*logs) for logs in ends]

    def epsilon(self, delta: float) -> Interval:
        """Bounds on the smallest epsilon >= 0 at a delta in [1e-250, 1)."""
        delta = real("delta", delta, 1e-250, 1.0, open_high=True)
        return Interval(self._below.least_epsilon(self._way, delta), self._above.greatest_epsilon(self._way, delta))

    def window(self) -> tuple[float, float]:
        """How far the grid of the upper bound reaches, and its step."""
        return (self._above.upper.shape[1] - 1) * self._above.step, self._above.step

    def _log_value(self, log_excess: Callable[[int, FloatArray], FloatArray], x: ArrayLike) -> FloatArray:
        points = np.asarray(x, dtype=float)
        if np.isnan(points).any():
            raise ParameterError(f"x = {shorten(x)}; accepted: real numbers")
        size, value = np.abs(points).ravel(), np.empty(points.size)
        right = points.ravel() >= 0
        value[right] = log_excess(self._way, size[right])
        # W(u) = 1 - u + u W_reversed(1/u)
        left = size[~right]
        value[~right] = np.logaddexp(np.log(-np.expm1(-left)), -left + log_excess(1 - self._way, left))
        return value.reshape(points.shape)


def _outward(value: FloatArray, sign: int) -> FloatArray:
    """A logarithm moved by more than its rounding."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(value), value + sign * STEP_ROUNDING * (1 + np.abs(value)), value)


def _delta_between(log_lower: float, log_upper: float) -> Interval:
    if log_upper == -math.inf:  # nothing was played
        return Interval(0.0, 0.0)
    found = exponentiate(log_lower, log_upper)
    return Interval(found.lower * (1 - STEP_ROUNDING), min(found.upper * (1 + STEP_ROUNDING), 1.0))


@dataclass(frozen=True, eq=False)
class PlayedGame:
    """A game played to its end: bounds on V_n at the grid points x = 0, step, 2 step, ..., for both directions.

    Axes of `upper` (values) and `tests` (records, see `extend_tests`) are (direction, grid point); `b` and `renyi` are
    a Rényi bound at orders 1 + b; beyond `end` there is nothing.
    """

    step: float
    upper: FloatArray
    tests: NDArray[np.void]
    slope_error: float
    b: FloatArray
    renyi: FloatArray
    end: float

    @cached_property
    def _lines(self) -> tuple[NDArray[np.intp], FloatArray]:
        return _lowest_lines(self.b, self.renyi)

    def log_upper(self, way: int, x: FloatArray) -> FloatArray:
        """Upper bound on log V_n at x >= 0: interpolation linear in u, and Rényi beyond the grid."""
        values = self.upper[way]
        last = values.size - 1
        with np.errstate(over="ignore"):
            cell = np.minimum(x / self.step, last - 1).astype(int)
        cell -= (x < cell * self.step) & (cell > 0)  # the quotient was rounded up
        above, below = np.clip((x - cell * self.step, (cell + 1) * self.step - x), 0.0, self.step)
        low, high = shares(above, below, self.step)
        # 1e-300 is above all that underflowed
        log_value = np.log(low * values[cell] + high * values[cell + 1] + 1e-300)
        beyond = x > last * self.step
        if beyond.any():
            far = log_renyi_bound(self.b, self.renyi, np.minimum(x[beyond], self.end), self._lines)
            log_value[beyond] = np.minimum(far, math.log(values[last] + 1e-300))
        return np.where(x < self.end, log_value, -math.inf)

    def log_lower(self, way: int, x: FloatArray) -> FloatArray:
        """Lower bound on log V_n at x >= 0: the tests of the two grid points around it."""
        value, slope = self.tests[way]["value"], self.tests[way]["slope"]
        best = np.zeros(x.shape)
        with np.errstate(over="ignore"):  # beyond the last
            cell = np.minimum(x / self.step, value.size - 1).astype(int)
        for k in (cell, np.minimum(cell + 1, value.size - 1)):
            bend = np.expm1(np.minimum(x - k * self.step, 600.0))
            change = -slope[k] * bend
            sure = value[k] * (1 - STEP_ROUNDING) + change - self.slope_error * np.abs(change) - 1e-300 * np.abs(bend)
            best = np.maximum(best, np.where(x - k * self.step < 600.0, sure, 0.0))
        with np.errstate(divide="ignore"):
            return np.where((best > 1e-290) & (x < self.end), np.log(best), -math.inf)

    def greatest_epsilon(self, way: int, delta: float) -> float:
        values, target = self.upper[way], delta * (1 - STEP_ROUNDING) - 1e-300
        if values[0] <= target:
            return 0.0
        renyi = epsilon_from_renyi("improved", self.b, self.renyi, math.log(delta) - STEP_ROUNDING * 1e3)
        best = min(float(np.min(renyi)) * (1 + 1e-12), self.end)
        below = np.flatnonzero(values <= target)
        if below.size:
            i = int(below[0])
            share = (values[i - 1] - target) / (values[i - 1] - values[i])
            inside = self.step + math.log(share + (1 - share) * math.exp(-self.step))
            best = min(best, (i - 1) * self.step + max(inside, 0.0))
        return best * (1 + STEP_ROUNDING)

    def least_epsilon(self, way: int, delta: float) -> float:
        """Largest point at which a test still exceeds delta."""
        value, slope = self.tests[way]["value"], self.tests[way]["slope"]
        some = value > 1e-290
        gap = value[some] * (1 - STEP_ROUNDING) - delta * (1 + STEP_ROUNDING)
        rise = gap / ((slope[some] + 1e-300) * np.where(gap > 0, 1 + self.slope_error, 1 - self.slope_error))
        with np.errstate(divide="ignore"):
            roots = np.flatnonzero(some) * self.step + np.log1p(np.maximum(rise, -1.0))
        return float(np.max(roots, initial=0.0)) * (1 - STEP_ROUNDING)

    def between(self, delta: float) -> float:
        """Width of the interval of the larger of both directions' epsilons."""
        ways = range(len(self.upper))
        highest = max(self.greatest_epsilon(way, delta) for way in ways)
        return highest - max(self.least_epsilon(way, delta) for way in ways)

    def width(self, way: int, delta: float, scale: float) -> float:
        """Width of the interval of epsilon, relative to epsilon or to a scale if that is larger."""
        high = self.greatest_epsilon(way, delta)
        return (high - self.least_epsilon(way, delta)) / max(high, scale)


def log_renyi_bound(
    b: FloatArray, renyi: FloatArray, x: FloatArray, lines: tuple[NDArray[np.intp], FloatArray] | None = None
) -> FloatArray:
    """Log of the least delta at epsilon = x that a Rényi bound at orders 1 + b implies; `lines`: `_lowest_lines`."""
    # Canonne, Kamath & Steinke 2020, Prop. 12: a line in x for every order, each of which is a bound
    kept, starts = lines or _lowest_lines(b, renyi)
    order = kept[np.maximum(np.searchsorted(starts, x) - 1, 0)]
    beta = b[order]
    best = beta * (renyi[order] - x * (1 - STEP_ROUNDING) - np.log1p(1 / beta)) - np.log1p(beta)
    return np.asarray(best * (1 - STEP_ROUNDING) + 2e3 * STEP_ROUNDING)


def _lowest_lines(b: FloatArray, renyi: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Orders whose lines are the lowest somewhere, up to rounding, and from which x on each is; `b` rises."""
    heights = b * (renyi - np.log1p(1 / b)) - np.log1p(b)
    kept: list[int] = []
    starts: list[float] = []
    for i in np.flatnonzero(np.isfinite(heights)).tolist():
        start = -math.inf
        while kept:
            start = (heights[i] - heights[kept[-1]]) / (b[i] - b[kept[-1]])
            if start > starts[-1]:
                break
            kept.pop()
            starts.pop()
            start = -math.inf
        kept.append(i)
        starts.append(start)
    return np.array(kept or [0]), np.array(starts or [-math.inf])
