"""Certified trade-off functions of composed events, read from measures on a grid of losses."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from accountant.adjacency import Direction
from accountant.errors import OutOfPatience, ToleranceUnreachable, count_of
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import spend
from accountant.tight.fourier import ComposedLoss, HockeyStick
from accountant.tight.loss_composition import (
    CHOICE,
    LOOKED_AT,
    PLANNED,
    SKETCHED,
    DirectedRun,
    Entries,
    Question,
    plan,
    refine,
    representative,
)
from accountant.tight.loss_grid import COARSEST, aligned_step, log_values
from accountant.tight.polygon import ULP, Grid, polygon_values
from accountant.tight.trade_off import LINES, ROUNDING, Rates, TradeOff, cut_lines

__all__ = ["PLACE", "LossTradeOff", "spend_on_plan"]

ATTEMPTS = 10
"""Grids that are tried before what they gave is taken."""

DEEPEST = 1e-30
"""Smallest rate for which a composed measure is tilted."""

STUCK = 0.9
"""Share of a width that is left where a finer grid of the same tilt did not help; then a smaller tilt may."""

NEAR_BY = 1.0
"""Nats between rates of which one tells where grids help the other."""

SATURATED = 0.05
"""Nats of a depth next to that of the largest loss: a tilt that goes so far goes far enough."""

FLATTEST = 64.0
"""How many times smaller than planned a tilt may be."""

SOME_ORDERS = np.array([1.001, 1.1, 2.0])
"""Rényi orders: where the divergence at one of them is finite no loss is infinite."""

TABLE, PLACE = 150.0, 8.0
"""Operations (see `accountant.patience`) by point of a composed measure: of a table, and of a rate that is read from
two tables."""


class Table:
    """Bounds on log H(u) at the corners of a composed measure, from above (sign 1) or below (sign -1)."""

    def __init__(self, measure: ComposedLoss, sign: int, log_infinite: float = -math.inf) -> None:
        tilt, losses, size, step = measure.tilt, measure.losses, measure.losses.size, measure.step
        curve = np.empty(size)
        with np.errstate(under="ignore", over="ignore", divide="ignore", invalid="ignore"):
            polygon_values(measure.probabilities, 0.0, step, tilt, curve)
            # the weights (1 - u e^-l) e^(-tilt (l - l_j)) at l > l_j have at most this norm, and are at most 1
            ahead = np.arange(size - 1, -1, -1.0)
            norms = np.sqrt(np.minimum(ahead, 1 / -np.expm1(-2 * tilt * step) if tilt > 0 else math.inf))
            # every step of the sum rounds a few times; where masses are below 0 they are so by noise alone
            error = measure.noise * norms + 16 * ULP * ahead * (np.abs(curve) + 2 * measure.noise * norms)
            drift = 4 * ULP * (tilt + 1) * float(np.max(np.abs(losses)) + abs(measure.centre)) + 1e-12
            scale = measure.log_total - tilt * losses
            scale = scale + sign * (measure.slack + drift + 4 * ULP * (abs(measure.log_total) + np.abs(tilt * losses)))
            if sign > 0:
                beyond = math.log(measure.above_window) - tilt * (losses[-1] - losses)
                logs = np.logaddexp(np.log(np.maximum(curve + error, 1e-300)), beyond) + scale
                logs = np.logaddexp(logs, log_infinite)
            else:
                wrapped = (measure.above_window + measure.below_window) * (ahead > 0)
                logs = np.log(np.maximum(curve - error - wrapped, 0.0)) + scale
        self.x = losses + sign * measure.shift
        self.sign, self.log_values = sign, np.minimum(logs, 0.0)
        with np.errstate(over="ignore", under="ignore"):
            self.u, self.values = np.exp(np.minimum(self.x, 709.0)), np.exp(self.log_values)

    def best(self, fpr: float) -> int:
        """The corner at which H(u) + u a is least."""
        return int(np.argmin(self.values + fpr * self.u))

    def upper(self, fprs: FloatArray) -> FloatArray:
        """Bounds on inf_u H(u) + u a, of a table from above."""
        at = np.array([self.best(fpr) for fpr in fprs.tolist()], dtype=int)
        with np.errstate(under="ignore"):
            logs = np.logaddexp(self.log_values[at], self.x[at] + np.log(fprs)) + ROUNDING
            return np.asarray(np.exp(np.minimum(logs, 0.0)))

    def lower(self, fprs: FloatArray, uppers: FloatArray) -> FloatArray:
        """Bounds on inf_u H(u) + u a, of a table from below, given bounds from above."""
        return np.array([self._lower(*each) for each in zip(fprs.tolist(), uppers.tolist(), strict=True)])

    def _lower(self, fpr: float, upper: float) -> float:
        """Up to some corner H is at least what it is there, and 1 - u; then all corners that follow are looked at.

        Beyond the last corner H >= 0 is enough. Any corner gives a bound; the last one before which nothing is below
        `upper` gives the best, if what follows is known well.
        """
        before = np.maximum(self.values, 1 - self.u * (1 - fpr))
        enough = np.flatnonzero(before >= upper)
        begin = int(enough[-1]) if enough.size else int(np.argmax(before))
        rest = float(np.min(self.values[begin:] + fpr * self.u[begin:]))
        return max(min(float(before[begin]), rest, fpr * float(self.u[-1])) * (1 - ROUNDING), 0.0)

    def lines(self, floor: float, ceiling: float) -> tuple[FloatArray, FloatArray]:
        """Logs of u, rising, and of H, at no more than LINES of the corners that serve rates from floor to ceiling."""
        first, last = sorted((self.best(ceiling), self.best(floor)))
        chosen = np.unique(np.linspace(first, last, min(last - first + 1, LINES)).astype(int))
        return self.x[chosen], self.log_values[chosen]


class LossTradeOff(TradeOff):
    """T from composed measures of losses, made where they are needed until the bounds are as near as asked.

    Parameters
    ----------
    entries : sequence of (Event, int)
        Events with a single dominating pair each, and how often they happen.
    direction : {"remove", "add"}
    tolerance : float
        Largest width of the intervals, relative to their upper ends.
    """

    def __init__(self, entries: Entries, direction: Direction, tolerance: float) -> None:
        kinds = Composition((event, count) for event, count in entries if float(event.renyi(math.inf)) > 0)
        self.entries, self.direction, self.tolerance = list(kinds), direction, tolerance
        self.tables: list[tuple[Table, Table]] = []
        self.plans: list[DirectedRun] = []
        self.planned: dict[float, DirectedRun] = {}
        self.asked: list[DirectedRun] = []
        self.stuck: list[float] = []
        tilts = 2.0 ** np.arange(-20.0, 20.0, 0.25)
        works = sorted(event._sketch()._curve_work() for event, _ in self.entries)
        spend(
            LOOKED_AT.size * math.fsum(works) + tilts.size * math.fsum(works[-SKETCHED:]),
            f"tilts chosen by a Rényi curve of {count_of(len(self.entries), 'release')}",
        )
        self.run = representative(self.entries)
        cumulants = tilts * self.run.renyi(1 + tilts)
        kept = np.isfinite(cumulants)
        tilts, cumulants = tilts[kept], cumulants[kept]
        # at tilt t the loss has mean K'(t), and log Q(L > K'(t)) is about K(t) - (1 + t) K'(t)
        self.tilts, self.bounded = tilts, any(event.between_bounds for event, _ in self.entries)
        self.means = np.gradient(cumulants, tilts) if tilts.size > 1 else np.zeros(tilts.size)
        self.depths = np.maximum.accumulate((1 + tilts) * self.means - cumulants) if tilts.size else tilts

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        """As for all; below DEEPEST a lower bound by concavity, an upper one by monotony and the largest loss."""
        places = np.maximum(fprs, DEEPEST)
        lower, upper = self._rates(places, known)
        end = float(Composition(self.entries).renyi(math.inf)) * (1 + 1e-12)
        with np.errstate(over="ignore"):
            return lower * (fprs / places), np.minimum(upper, np.exp(np.minimum(np.log(fprs) + end, 0.0)))

    def _rates(self, fprs: FloatArray, known: FloatArray | float) -> Rates:
        """Bounds of the asked width, or, after some attempts, the best that were found: they are certified as well."""
        before, flatter = (-1, math.inf), 1.0
        for attempt in range(ATTEMPTS + 1):
            lower, upper = fprs.copy(), np.ones_like(fprs)
            self._spend(PLACE * fprs.size)
            for above, below in self.tables:
                upper = np.minimum(upper, above.upper(fprs))
                lower = np.maximum(lower, below.lower(fprs, upper))
            lower = np.minimum(lower, upper)
            share = (upper - lower) / (self.tolerance * upper)
            wide = np.flatnonzero((share > 1) & (upper > known) & ~self._is_stuck(fprs))
            if wide.size == 0 or attempt == ATTEMPTS:
                break
            chosen = wide[wide.size // 2]
            stuck = chosen == before[0] and share[chosen] > STUCK * before[1]
            flatter = 4 * flatter if stuck else 1.0 if chosen != before[0] else flatter
            before = chosen, float(share[chosen])
            if self.tables and flatter > FLATTEST:
                self.stuck.append(float(fprs[chosen]))
                break
            try:
                self._look_near(float(fprs[chosen]), float(fprs[wide].min()), before[1], flatter)
            except OutOfPatience:
                if not self.tables:
                    raise
                break
            except ToleranceUnreachable:
                if not self.tables and flatter > FLATTEST:
                    raise
                before = chosen, math.inf
                flatter *= 4
        return lower, upper

    def _is_stuck(self, fprs: FloatArray) -> NDArray[np.bool_]:
        """Where no grid helped near by, as releases are known between bounds that are further apart."""
        if not self.bounded or not self.stuck:
            return np.zeros(fprs.size, dtype=bool)
        return np.asarray(np.min(np.abs(np.log(fprs[:, None] / self.stuck)), axis=1) < NEAR_BY)

    def segments(self, floor: float, ceiling: float) -> Rates:
        cuts = np.geomspace(floor, ceiling, 33)
        self.rates(cuts)
        if not self.tables:  # of a wide tolerance nothing was asked
            self._look_near(floor, floor, 1.0, 1.0)
        places, rates = [], []
        self._spend(PLACE * cuts.size)
        uppers = np.array([above.upper(cuts) for above, _ in self.tables])
        excess = uppers / uppers.min(axis=0)
        for i, (low, high) in enumerate(pairwise(cuts.tolist())):
            table, _ = self.tables[int(np.argmin(excess[:, i] + excess[:, i + 1]))]
            found = cut_lines(*table.lines(low, high), low, high)
            places.append(found[0])
            rates.append(found[1])
        return np.concatenate(places), np.concatenate(rates)

    def profile(self, epsilon: float) -> Interval:
        question = Question(None, epsilon, self.tolerance)
        for run in self.asked[-1:]:  # the grid for one epsilon is often fine enough for the next
            points = sum(each.losses.size for each in run.measures)
            spend(PLACE * points, f"a profile read from {points} values", self.tolerance)
            found = run.delta_bounds(epsilon)
            if question.width(found, run.spread) <= self.tolerance:
                return found
        run = self._plan_at(epsilon)
        try:
            found = refine([run], question)
            self.asked.append(run)
            return found
        except ToleranceUnreachable as error:
            if not self.bounded or error.found is None:
                raise
            return Interval(*error.found)  # no grid brings it nearer than what is known of the releases

    def at_zero(self) -> Interval:
        return Interval(0.0, min(Composition(self.entries).total(self._infinite), 1.0))

    def _spend(self, each: float) -> None:
        """Count what takes so many operations for each point of the tables."""
        points = sum(above.x.size for above, _ in self.tables)
        spend(each * points, f"rates read from {points} values of a profile", self.tolerance)

    def _infinite(self, event: Event) -> float:
        """At least the probability of a loss above 1e300; none has a finite divergence at an order above 1."""
        if np.isfinite(event._curve(SOME_ORDERS)).any():
            return 0.0
        return float(np.exp(log_values(event, self.direction, np.array([1e300]))[0]))

    def _look_near(self, fpr: float, least: float, share: float, flatter: float) -> None:
        """Compose once more: tilted for a rate, on a grid for the least one; finer if one so tilted was too coarse."""
        at, finest = (self._plan(each) for each in (fpr, least))
        if self.bounded and self.tilts.size:  # the plan of a price knows no better tilt than that of the largest loss
            depth = min(-math.log(fpr), float(self.depths[-1]) - SATURATED)
            most = 2 * float(self.tilts[min(int(np.searchsorted(self.depths, depth)), self.tilts.size - 1)])
            flatter *= max(at.grid.tilt / most, 1.0)
        tilt, step = at.grid.tilt / flatter, flatter * min(at.grid.step, finest.grid.step)
        before = [run.grid.step for run in self.plans if 0.8 < run.grid.tilt / tilt < 1.25]
        if before:
            step = min(step, min(before) * min(max(0.8 / math.sqrt(share), 0.1), 0.9))
        step = min(step, COARSEST / (1 + tilt))
        at.grid = Grid(aligned_step(at.entries, self.direction, step, tilt), tilt)
        at.compose()
        spend(TABLE * sum(each.losses.size for each in at.measures), f"profiles on {at.measures[0].losses.size} losses")
        self.plans.append(at)
        above, below = at.measures
        self.tables.append((Table(above, 1, at.log_infinite), Table(below, -1)))

    def _plan(self, fpr: float) -> DirectedRun:
        mean = float(np.interp(-math.log(fpr), self.depths, self.means)) if self.means.size else 0.0
        return self._plan_at(max(mean, 0.0))

    def _plan_at(self, epsilon: float) -> DirectedRun:
        if epsilon not in self.planned:
            spend_on_plan(self.run)
            question = Question(None, epsilon, self.tolerance)
            self.planned[epsilon] = plan(self.entries, self.run, question, self.direction, HockeyStick())
        return replace(self.planned[epsilon])


def spend_on_plan(run: Composition) -> None:
    """Count the choice of a grid."""
    releases = count_of(len(run.entries), "release")
    spend(PLANNED * run._curve_work() + CHOICE, f"a grid chosen by a Rényi curve of {releases}")
