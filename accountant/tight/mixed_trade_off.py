"""Certified trade-off functions of runs in which a game of screenings comes after composed events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accountant.adjacency import Direction
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import fits, spend
from accountant.tight.fourier import Remainder
from accountant.tight.loss_composition import DirectedRun, Entries, Question, plan, representative
from accountant.tight.loss_trade_off import spend_on_plan
from accountant.tight.trade_off import ROUNDING, LogBounds, ProfileTradeOff, Rates, TradeOff

__all__ = ["MixedTradeOff"]

SIGNS = -1, 1
"""From below and from above."""

HALVINGS, DEEPEST_LOG = 4, -32.0
"""How often epsilons are put between those at which a profile is known, and the least log of it for which they are."""

BEFORE_GAME, ASKED = 100.0, 3.5e5
"""Operations (see `accountant.patience`) of a value of a profile where a game comes last, from above or below: by point
of a composed measure, and beside its points."""

SPARE = 1.5
"""How much more work values in the other direction may be: so much is left for them."""


class MixedTradeOff(TradeOff):
    """T where families of pairs come after the events of a `LossTradeOff`: their profile is the remainder.

    The profile is bounded at epsilons up to `reach`, by a few measures of different tilts, and carried to all others
    by its convexity; at more of them where its corners ask for it. How near both bounds are is not chosen by the
    tolerance alone: a few times that of the game.
    """

    def __init__(
        self, entries: Entries, direction: Direction, tolerance: float, remainder: Remainder, reach: float
    ) -> None:
        self.entries, self.direction, self.tolerance, self.remainder = list(entries), direction, tolerance, remainder
        self.run = representative(self.entries)
        self.reach = reach

    @cached_property
    def bounds(self) -> ProfileTradeOff:
        """The same, from values at single epsilons: more of them where bounds in between are too far apart."""
        runs = [self._solve(centre * self.reach) for centre in (0.0, 0.15, 0.35, 0.7)]
        places = self.reach * np.concatenate([np.linspace(-0.7, 0.0, 24, endpoint=False), np.linspace(0.0, 1.0, 73)])
        every = np.ones((len(SIGNS), len(runs), places.size), dtype=bool)
        other = SPARE * work_of(every, runs)  # the other direction may come after
        x, (low, high), best = places, *bounds_at(places, runs, every)
        for _ in range(HALVINGS):
            between = (x[1:] + x[:-1]) / 2
            least, most = bounds_between(x, low, high)(between)
            with np.errstate(invalid="ignore"):
                wide = (most - least > self.tolerance / 2) & (most > DEEPEST_LOG)
            # a measure is good for a range of epsilons: those are asked that are best at either neighbour
            sides = (each[:, None, wide] == np.arange(len(runs))[:, None] for each in (best[:, 1:], best[:, :-1]))
            asked = np.logical_or(*sides)
            if not wide.any() or not fits(work_of(asked, runs) + other):
                break
            more, which = bounds_at(between[wide], runs, asked)
            order = np.argsort(x := np.append(x, between[wide]))
            x, best = x[order], np.append(best, which, axis=1)[:, order]
            low, high = (np.append(old, new)[order] for old, new in zip((low, high), more, strict=True))
        return ProfileTradeOff(bounds_between(x, low, high), lines=2001)

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        return self.bounds.rates(fprs)

    def segments(self, floor: float, ceiling: float) -> Rates:
        return self.bounds.segments(floor, ceiling)

    def profile(self, epsilon: float) -> Interval:
        return self._solve(epsilon).found

    def at_zero(self) -> Interval:
        return Interval(0.0, float(self.rates(np.array([1e-300]))[1][0]))

    def _solve(self, epsilon: float) -> DirectedRun:
        question = Question(None, epsilon, self.tolerance)
        spend_on_plan(self.run)
        run = plan(self.entries, self.run, question, self.direction, self.remainder)
        run.solve(question)
        return run


def bounds_at(
    places: FloatArray, runs: Sequence[DirectedRun], asked: NDArray[np.bool_]
) -> tuple[tuple[FloatArray, FloatArray], NDArray[np.intp]]:
    """Bounds on the log of a profile at some epsilons, by the best of measures of different tilts; and which that was.

    Of every sign and measure `asked` says at which places it is asked. Any measure is valid everywhere.
    """
    spend(work_of(asked, runs), f"{places.size} values of a profile before a game")
    found = np.full(asked.shape, -math.inf)
    for s, sign in enumerate(SIGNS):
        for r, run in enumerate(runs):
            for i in np.flatnonzero(asked[s, r]).tolist():
                found[s, r, i] = -sign * run.bound(float(places[i]), sign)
    low, high = found.max(axis=1)
    return (low - ROUNDING, np.minimum(ROUNDING - high, 0.0)), found.argmax(axis=1)


def work_of(asked: NDArray[np.bool_], runs: Sequence[DirectedRun]) -> float:
    """Operations of `bounds_at`."""
    values = np.count_nonzero(asked, axis=2)
    each = [[BEFORE_GAME * run.measures[sign < 0].losses.size + ASKED for run in runs] for sign in SIGNS]
    return float(np.sum(values * each))


def bounds_between(x: FloatArray, low: FloatArray, high: FloatArray) -> LogBounds:
    """Bounds on the log of a profile at any log u from those at rising x, by its convexity and fall, and H >= 1 - u.

    Above: chords, the first one from H(0) = 1. Below: the chords of the two points before or after, continued, and
    what H is at the next point.
    """
    with np.errstate(over="ignore", under="ignore"):  # up to a point at infinity H is what it is at the one before
        u, lows, highs = np.append(0.0, np.exp(x)), np.append(1.0, np.exp(low)), np.append(1.0, np.exp(high))

    def continued(near: NDArray[np.intp], far: NDArray[np.intp], at: FloatArray) -> FloatArray:
        inside = (far >= 0) & (far < u.size)
        near, far = (np.clip(each, 0, u.size - 1) for each in (near, far))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = lows[near] + (lows[near] - highs[far]) * ((at - u[near]) / (u[near] - u[far]))
        return np.where(inside & np.isfinite(found), found, 0.0)

    def log_bounds(places: FloatArray) -> tuple[FloatArray, FloatArray]:
        at = np.exp(np.minimum(places, 709.0))
        right = np.searchsorted(u, at)
        left, last = np.maximum(right - 1, 0), right >= u.size
        right = np.minimum(right, u.size - 1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = np.where(last, 1.0, np.clip((at - u[left]) / (u[right] - u[left]), 0.0, 1.0))
        above = (1 - share) * highs[left] + share * highs[right]
        below = np.maximum(continued(left, left - 1, at), continued(right, right + 1, at))
        below = np.where(last, 0.0, np.maximum(below, lows[right]))
        with np.errstate(divide="ignore"):
            below = np.log(np.maximum(np.maximum(below, 1 - at), 0.0)) - ROUNDING
            return np.minimum(below, 0.0), np.minimum(np.log(above) + ROUNDING, 0.0)

    return log_bounds
