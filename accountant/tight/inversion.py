"""Fourier inversion: the price of composed Gaussians, sampled or not, straight from their characteristic functions.

With M(z) = E e^{z L} of the composed loss L and any tilt t > 0

    delta(eps) = e^{-t eps}/(2 pi) int M(z) e^{-i s eps} / (z (z+1)) ds,   z = t + i s,

as (1 - e^{-x})_+ has the Laplace transform 1/(z (z+1)). A trapezoidal rule of step h in s, cut off at |s| = S, is what
is computed. Its errors are bounded: the rule adds sum_{m != 0} e^{m t T} delta(eps + m T), T = 2 pi/h, to the price
(Poisson summation), positive terms that Chernoff's bound limits; what is cut off is limited by a bound on |M| beyond S;
and M itself errs by quadrature and rounding (`accountant.tight.inversion_kernels`). Proofs: notebooks/mathematics.md,
Fourier inversion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.events.answers import SAMPLED_GAUSSIAN
from accountant.events.composition import Composition
from accountant.events.gaussian import GaussianLike
from accountant.events.subsampled_gaussian import subsampled_gaussian_curves
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval, exponentiate
from accountant.patience import count_of, spend
from accountant.renyi.order_search import STEPS
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.tight.directed_run import DEEPEST, Question
from accountant.tight.inversion_kernels import (
    RATIO,
    Line,
    count_nodes,
    fall_of_run,
    invert_at,
    scale_spectrum,
    transform_run,
)
from accountant.tight.kept_losses import Composed, keep_for
from accountant.tight.loss_moments import log_peak
from accountant.tight.polygon import ULP

__all__ = ["Inversion", "invert", "rows_of"]

SHARE, SHARE_OF_DELTA = 0.02, 1e-4
"""Share of the tolerance that each kind of error is planned to take, and of delta that it takes at most."""

LEAST_AIM = 1e-9
"""Errors relative to delta below which rounding counts."""

MARGIN = 1e-10
"""More than the relative error of Rényi curves."""

SMALLEST, LARGEST = 1e-3, 1e4
"""Tilts that are used."""

STEP_WORK, NODE_WORK, FALL_WORK, POINT_WORK = 3.0, 120.0, 3e4, 50.0
"""Operations (see `accountant.patience`) of one point at one frequency, of a point, of a row's bound beyond, and of one
frequency where an epsilon is asked."""

MOST_WORK, MOST_ROW_WORK = 3e7, 3e6
"""Operations up to which inversion is tried, in all or for each row: beyond, a grid is likely to be quicker."""

MOST_FREQUENCIES = 1e5

FIRST, FALLS, ENOUGH = 0.1, 64, 200.0
"""The lowest frequency at which M is bounded, as a share of the tilt; the number of frequencies; and how far."""

TILTS = 0.35, 0.5, 0.7, 0.85, 1.0, 1.04, 1.1, 1.25, 1.5, 2.0, 3.0
"""Tilts among which two are chosen, as shares of the best for the Rényi route."""

LOOKED_AT, LONGER = 1024, 40
"""Rows by which tilts and a period are chosen; times that this is made a fifth longer where they misjudge all rows."""

SPARE, CHERNOFF = 5.0, 3.0
"""Nats by which a tilt may miss the saddle point, and by which Chernoff's bound there is too large, about."""

UNKNOWN = 100.0
"""An error of log M with which nothing is known."""


class Rows(NamedTuple):
    """Sampled Gaussians as rows (mu, rate, count), and half the sum of mu^2 of those that are not sampled."""

    sampled: FloatArray
    slope: float


def rows_of(run: Composition) -> Rows | None:
    """The composition as numbers; None unless every event is Gaussian noise or a Poisson sample of it."""
    rows: list[tuple[float, float, float]] = []
    slope = 0.0
    for event, count in run:
        inner = event.unsampled
        summand = inner._summand()
        if summand is None or summand.key != "Gaussian":
            return None
        if inner is event or event.sampling_rate == 1.0:
            slope += count * summand.size / 2
        elif event.sampling_rate > 0.0:
            # that the pair is (1-g) N(0,1) + g N(mu,1) against N(0,1) its row says
            row = event._row() if isinstance(inner, GaussianLike) else None
            if row is None or row.kind != SAMPLED_GAUSSIAN:
                return None
            rows.append((row.mu, row.rate, float(count)))
    return Rows(np.array(rows).reshape(-1, 3), slope)


class Plan(NamedTuple):
    """Where to invert: a tilt t near the saddle point, the period T, and what is known at once.

    `rows` are (mu, rate, count, log E e^{(1+t) L} from above) of sampled Gaussians, `slope` half the sum of mu^2 of
    those that are not sampled; `higher` is a larger tilt and a bound on log M there. `start` is the epsilon or the log
    of delta that the Rényi route gives, and is above the one that is asked; `aim` the error that is planned for,
    relative to delta; `excess` the log of about what Chernoff's bound at t is too large by.
    """

    rows: FloatArray
    slope: float
    tilt: float
    period: float
    higher: tuple[float, float]
    start: float
    aim: float
    excess: float

    def log_wrapped(self, epsilon: float) -> float:
        """Log of a bound on what the rule adds: of sum_m e^{-m t T} delta(eps - m T) + e^{m t T} delta(eps + m T)."""
        t, period = self.tilt, self.period
        below = -t * period - math.log(-math.expm1(-t * period))
        tilt, log_moment = self.higher
        gap = (tilt - t) * period
        above = log_moment + log_peak(tilt) - tilt * epsilon - gap - math.log(-math.expm1(-gap))
        return float(np.logaddexp(below, above)) + 1e-12

    def line(self, direction: Direction) -> tuple[Line, float] | None:
        """Orders at which M of a direction is to be known, and a bound on log |M/M(t)| beyond; None if that is slow."""
        alpha, turn = (1 + self.tilt, 1.0) if direction == DIRECTIONS[0] else (-self.tilt, -1.0)
        step, first = 2 * math.pi / self.period, FIRST * self.tilt
        falls = np.empty(FALLS)
        fall_of_run(self.rows, self.slope, alpha, first, ENOUGH, falls)
        places = first * RATIO ** np.arange(FALLS)
        left = self.excess - log_peak(self.tilt) - falls - np.log(math.pi * places)
        enough = np.flatnonzero((left <= math.log(self.aim)) & (places < MOST_FREQUENCIES * step))
        if not enough.size:
            return None
        at = int(enough[0])
        return Line(alpha, turn, step, math.ceil(places[at] / step)), -float(falls[at])

    def work(self, line: Line) -> float:
        """Operations that it takes to know M there."""
        each = STEP_WORK * line.last + NODE_WORK
        return count_nodes(self.rows, line) * each + POINT_WORK * line.last


class Inverted(NamedTuple):
    """The rule's value and slope at an epsilon, in units of e^scale, and their errors: `slack` is that of logs."""

    value: float
    slope: float
    error: float
    scale: float
    slack: float

    @property
    def log_upper(self) -> float:
        """Log of an upper bound on delta."""
        high = self.value + self.error
        return min(math.log(high) + self.scale + self.slack, 0.0) if high > 0.0 else math.inf


class Inversion:
    """One direction of a composition at one tilt: bounds on delta at any epsilon >= 0.

    Parameters
    ----------
    plan : Plan
    line : Line
        Where M is to be known.
    log_beyond : float
        A bound on log |M / M(t)| beyond it.

    Attributes
    ----------
    known : bool
        Whether M is; if not there is nothing else.
    spread : float
        Rough standard deviation of the tilted loss.
    """

    def __init__(self, plan: Plan, line: Line, log_beyond: float) -> None:
        self.plan, self.line, self.step = plan, line, line.step
        self.total = np.empty((3, line.last + 1))
        self.known = transform_run(plan.rows, plan.slope, line, self.total)
        self.log_scale, first_error = float(self.total[0, 0]), float(self.total[2, 0])
        self.known = self.known and first_error < UNKNOWN
        if not self.known:
            return
        end = self.line.last * self.step
        dip = self.log_scale - float(self.total[0, 1])
        self.spread = math.sqrt(max(2 * dip, 0.0)) / self.step
        self.whole, wrong = scale_spectrum(plan.tilt, self.step, self.total)
        # h/pi sum_{k > K} |c_k| <= h/pi sum rho/(k h)^2 <= rho/(pi K h)
        self.error = self.step / math.pi * wrong + 1.01 * math.exp(log_beyond + first_error) / (math.pi * end)

    def at(self, epsilon: float) -> Inverted:
        """What the rule gives there."""
        value, slope = invert_at(epsilon, self.step, self.total)
        count, angle = self.line.last, self.line.last * self.step * epsilon
        error = self.error + self.step * self.whole * ULP * (count + 2 * angle + 16)
        tilted = self.plan.tilt * epsilon
        slack = 1e-12 + 16 * ULP * (1 + abs(self.log_scale) + tilted)
        return Inverted(value, slope, error, self.log_scale - tilted, slack)

    def log_bounds(self, epsilon: float) -> Interval:
        """Logs of bounds on delta(epsilon)."""
        found = self.at(epsilon)
        low = found.value - found.error
        if low > 0.0:
            low -= math.exp(min(self.plan.log_wrapped(epsilon) - found.scale + found.slack, 700.0))
        return Interval(math.log(low) + found.scale - found.slack if low > 0.0 else -math.inf, found.log_upper)

    def epsilon(self, log_delta: float, start: float) -> Interval:
        """Bounds on the epsilon at a delta, by Newton's method from `start`, which is above it."""
        x = start
        for _ in range(60):
            found = self.at(x)
            high = found.log_upper - log_delta
            fall = self.plan.tilt - found.slope / found.value if found.value > 0.0 else math.inf
            if not fall > 0.0 or not high < math.inf:
                return Interval(0.0, math.inf)
            moved = max(x + high / fall, 0.0)
            if abs(moved - x) <= 1e-13 * x or (x == 0.0 and high <= 0.0):
                break
            x = moved
        upper, gap = x, 1e-13 * x
        while self.at(upper).log_upper > log_delta:
            upper, gap = upper + gap, 2 * gap
            if gap > start:
                return Interval(0.0, math.inf)
        both = self.log_bounds(upper)
        gap = (both.upper - both.lower) / fall + 1e-13 * upper
        while True:
            lower = upper - gap
            if not lower > 0.0:
                return Interval(0.0, upper)
            if self.log_bounds(lower).lower >= log_delta:
                return Interval(lower, upper)
            gap *= 1.5


@dataclass(frozen=True)
class InvertedLosses:
    """Directions of a run whose characteristic functions are known (see `accountant.tight.kept_losses`)."""

    inversions: list[Inversion]

    @property
    def points(self) -> int:
        return 3 * sum(each.line.last for each in self.inversions)

    def answer(self, epsilon: float) -> Interval:
        logs = [each.log_bounds(epsilon) for each in self.inversions]
        return exponentiate(max(each.lower for each in logs), max(each.upper for each in logs))

    def answer_work(self) -> float:
        return POINT_WORK * sum(each.line.last for each in self.inversions)


def plan_inversion(run: Composition, question: Question) -> Plan | None:
    """A plan near the order that is best for the Rényi route: its improved conversion is Chernoff's bound above."""
    rows = rows_of(run)
    if rows is None:
        return None
    if (slow := run._curve_work()) > 0.0:
        spend((STEPS + len(TILTS)) * slow, count_of(len(rows.sampled), "characteristic function"))
    if question.delta is not None:
        found = renyi_epsilon(run, question.delta, "improved")
        start = epsilon = found.epsilon
        log_delta = math.log(question.delta)
    else:
        found = renyi_delta(run, question.epsilon, "improved")
        start = log_delta = math.log(found.delta)
        epsilon = question.epsilon
    if found.order is None or not SMALLEST < found.order - 1 < LARGEST or log_delta < DEEPEST:
        return None
    best = found.order - 1
    room = question.tolerance * (min(start * best, 1.0) if question.delta is not None else 1.0)
    aim = min(SHARE * room, SHARE_OF_DELTA)
    if aim < LEAST_AIM:
        return None
    chosen = choose_tilts(rows, best, epsilon, log_delta, math.log(aim))
    if chosen is None:
        return None
    (tilt, higher), period, excess = chosen
    logs, moments = moments_of(rows, np.array([tilt, higher]))
    known = np.column_stack([rows.sampled, logs[:, 0]])
    plan = Plan(known, rows.slope, tilt, period, (higher, float(moments[1])), start, aim, excess)
    for _ in range(LONGER):  # where some rows misjudged all
        if plan.log_wrapped(epsilon) <= log_delta + math.log(aim):
            break
        plan = plan._replace(period=1.2 * plan.period)
    return plan


def moments_of(rows: Rows, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on log E e^{(1+t) L} of every row, and of the composition, at every tilt."""
    curves = np.empty((len(rows.sampled), tilts.size))
    subsampled_gaussian_curves(np.ascontiguousarray(rows.sampled[:, :2]), 1 + tilts, curves)
    # it is t D_{1+t}, which is no less in direction "add" (Mironov, Talwar & Zhang 2019, Thm 5)
    logs = tilts * curves * (1 + MARGIN)
    return logs, rows.sampled[:, 2] @ logs + rows.slope * tilts * (1 + tilts) * (1 + MARGIN)


def choose_tilts(
    rows: Rows, best: float, epsilon: float, log_delta: float, log_aim: float
) -> tuple[tuple[float, float], float, float] | None:
    """A tilt and a larger one for which the period is the shortest, and it; and what Chernoff's bound is too large by.

    Of the two sums in `Plan.log_wrapped` the first asks for a large tilt, the second for room above it, which there is
    little of where tails are heavy.
    """
    stride = 1 + len(rows.sampled) // LOOKED_AT
    tilts = best * np.array(TILTS)
    some = Rows(rows.sampled[::stride] * [1.0, 1.0, float(stride)], rows.slope)
    moments = moments_of(some, tilts)[1]
    peaks = np.array([log_peak(tilt) for tilt in tilts.tolist()])
    chernoff = moments + peaks - tilts * epsilon
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = tilts[None, :] - tilts[:, None]
        above = np.where(gaps > 0, (np.maximum(chernoff[None, :] - log_delta, 0.0) - log_aim + 2.0) / gaps, math.inf)
    below = (2.0 - log_delta - log_aim) / tilts
    periods = np.maximum(above, below[:, None])
    excess = chernoff - chernoff[TILTS.index(1.0)]
    periods[~((excess <= SPARE)[:, None] & (periods < math.inf))] = math.inf
    i, j = divmod(int(periods.argmin()), len(TILTS))
    shortest = float(periods[i, j])
    if not shortest < math.inf:
        return None
    return (float(tilts[i]), float(tilts[j])), shortest, float(excess[i]) + CHERNOFF


def invert(
    run: Composition,
    question: Question,
    directions: Sequence[Direction] = DIRECTIONS,
    anyhow: bool = False,
    same: Composed | None = None,
) -> Interval | None:
    """Bounds on what is asked, as narrow as that; None where it takes a grid of losses.

    Where a grid is likely to be quicker that is None as well, unless `anyhow`. `same` is what its composed losses are
    kept by (see `accountant.tight.kept_losses`).
    """
    plan = plan_inversion(run, question)
    if plan is None:
        return None
    spend(FALL_WORK * len(plan.rows) * len(directions), count_of(len(plan.rows), "characteristic function"))
    lines = [each for direction in directions if (each := plan.line(direction)) is not None]
    if len(lines) < len(directions):
        return None
    work = sum(plan.work(line) for line, _ in lines)
    if not work < (math.inf if anyhow else max(MOST_WORK, MOST_ROW_WORK * len(plan.rows))):
        return None
    spend(work, count_of(len(plan.rows), "characteristic function"), question.tolerance)
    first, *others = (Inversion(plan, *each) for each in lines)
    if not all(each.known for each in (first, *others)):
        return None
    if question.delta is None:
        inverted = InvertedLosses([first, *others])
        answer = inverted.answer(question.epsilon)
        if same is not None:
            keep_for(same, question, inverted, answer)
    else:
        log_delta = math.log(question.delta)
        answer = first.epsilon(log_delta, plan.start)
        for other in others:
            # nearly always the first direction costs more
            if answer.upper == math.inf or other.at(answer.upper).log_upper > log_delta:
                found = other.epsilon(log_delta, plan.start)
                answer = Interval(max(answer.lower, found.lower), max(answer.upper, found.upper))
    return answer if question.width(answer, first.spread) <= question.tolerance else None
