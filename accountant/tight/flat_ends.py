"""A remainder that is as good as constant where losses are large: it is split into that constant and the rest.

Rare losses that are far larger than all else leave W(u) at about d for all u that matter, as infinite ones would. On
tilted masses that constant would be most of the rounding (notebooks/mathematics.md, Losses far beyond the price).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from accountant.numerics.kernel import FloatArray
from accountant.tight.fourier import ComposedLoss, Remainder
from accountant.tight.polygon import ULP

__all__ = ["FlatEnd", "Swapped", "split_log_delta", "take_apart", "take_lower"]

LEAST_LEFT = 1e-3
"""Share of delta that is left for losses that are told apart, at least."""


@dataclass(frozen=True)
class Swapped:
    """A remainder that is bounded from above by what bounds another from below."""

    remainder: Remainder

    def log_upper(self, x: FloatArray) -> FloatArray:
        return self.remainder.log_lower(x)

    log_lower = log_upper


@dataclass(frozen=True)
class FlatEnd:
    """What remains, with bounds on it where it is flat.

    Attributes
    ----------
    remainder : Remainder
    above : float
        W(e^x) is at most that from x = `end` on.
    below, top : float
        A test gains `below` at x = `end`, more where u is smaller, but never more than `top`.
    end : float
    """

    remainder: Remainder
    above: float
    below: float
    top: float
    end: float

    def log_upper(self, x: FloatArray) -> FloatArray:
        return self.remainder.log_upper(x)

    def log_lower(self, x: FloatArray) -> FloatArray:
        return self.remainder.log_lower(x)


@dataclass(frozen=True)
class Rest:
    """(W - flat)_+ , which is convex and falls as W does."""

    remainder: Remainder
    flat: float

    def log_upper(self, x: FloatArray) -> FloatArray:
        return self._less(self.remainder.log_upper(x), 1)

    def log_lower(self, x: FloatArray) -> FloatArray:
        return self._less(self.remainder.log_lower(x), -1)

    def _less(self, log_w: FloatArray, sign: int) -> FloatArray:
        with np.errstate(divide="ignore", under="ignore"):
            value = np.exp(log_w)
            return np.log(np.maximum(value * (1 + sign * _rounding(np.maximum(log_w, -1e3))) - self.flat, 0.0))


def _rounding(log_w: FloatArray | float) -> FloatArray | float:
    """Relative: of a logarithm, its exponential, and a difference."""
    return 16 * ULP * (1 - log_w)


def take_apart(remainder: Remainder, x: FloatArray, delta: float | None) -> tuple[FloatArray, float | None]:
    """About log W without what is left wherever the loss is, which says nothing of a tilt, and delta without it."""
    log_w = remainder.log_upper(x)
    if not isinstance(remainder, FlatEnd):
        return log_w, delta
    with np.errstate(divide="ignore"):
        rest = np.log(np.maximum(np.exp(log_w) - remainder.above * (1 + 1e-9), 0.0))
    if not np.any(rest > -math.inf):  # all of it is flat
        return log_w, delta
    return rest, None if delta is None else max(delta - remainder.above, LEAST_LEFT * delta)


def take_lower(remainder: Remainder) -> Remainder:
    """What bounds it from below, in the place of what does from above."""
    if isinstance(remainder, FlatEnd):
        return replace(remainder, remainder=Swapped(remainder.remainder), above=remainder.below)
    return Swapped(remainder)


def split_log_delta(measure: ComposedLoss, epsilon: float, remainder: Remainder, sign: int) -> float:
    """As `ComposedLoss.log_delta`; where the remainder has a flat end, the better of that and of both parts apart."""
    whole = measure.log_delta(epsilon, remainder, sign)
    if not isinstance(remainder, FlatEnd) or (sign < 0 and epsilon > remainder.end):
        return whole
    flat = cut = remainder.above
    if sign < 0:
        flat, cut = remainder.below, remainder.top
    elif cut > 0.0:  # what is flat up to rounding leaves nothing
        flat = cut = cut * (1 + 4 * float(_rounding(math.log(cut))))
    rest = math.exp(measure.log_delta(epsilon, Rest(remainder.remainder, cut), sign))
    total = flat + rest
    if not total > 0.0:
        return whole
    apart = math.log(total) + sign * 8 * ULP * (1 + abs(math.log(total)))
    return min(whole, apart, 0.0) if sign > 0 else max(whole, apart)
