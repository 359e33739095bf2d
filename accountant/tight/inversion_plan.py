"""Where Fourier inversion is done: a tilt, a period and frequencies, by the Rényi route and bounds on transforms.

The notation is that of `accountant.tight.inversion`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import count_of
from accountant.events.answers import SAMPLED_GAUSSIAN
from accountant.events.composition import Composition
from accountant.events.gaussian import GaussianLike
from accountant.events.subsampled_gaussian import subsampled_gaussian_curves
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import fits, spend
from accountant.renyi.order_search import STEPS
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.tight.directed_run import DEEPEST, Question
from accountant.tight.inversion_falls import RATIO, fall_of_run
from accountant.tight.inversion_kernels import Line
from accountant.tight.inversion_work import expect_work
from accountant.tight.loss_moments import log_peak

__all__ = ["Guess", "Plan", "Way", "next_guess", "plan_for", "plan_inversion", "rows_of"]

SHARE, SHARE_OF_DELTA = 0.02, 1e-4
"""Share of the tolerance that each kind of error is planned to take, and of delta that it takes at most."""

LEAST_AIM = 1e-9
"""Errors relative to delta below which rounding counts."""

MARGIN = 1e-10
"""More than the relative error of Rényi curves."""

SMALLEST, LARGEST = 1e-3, 1e4
"""Tilts that are used."""

MOST_FREQUENCIES = 1e5

FIRST, FALLS, ENOUGH = 0.1, 64, 200.0
"""The lowest frequency at which M is bounded, as a share of the tilt; the number of frequencies; and how far."""

TILTS = 0.35, 0.5, 0.7, 0.85, 1.0, 1.04, 1.1, 1.25, 1.5, 2.0, 3.0
"""Tilts among which two are chosen, as shares of the best for the Rényi route."""

PLANNED, MOST_PLANNING = len(TILTS) + 2, 0.4
"""Orders of all curves that a plan asks for beside those of a price; the share of the patience that both may take."""

LOOKED_AT, LONGER = 1024, 40
"""Rows by which tilts and a period are chosen; times that this is made a fifth longer where they misjudge all rows."""

SPARE, CHERNOFF = 5.0, 3.0
"""Nats by which a tilt may miss the saddle point, and by which Chernoff's bound there is too large, about."""

LESS_SPARE, MORE_SPARE, BETTER = 1.0, 12.0, 0.95
"""The same nats once a price is known about; by how many more they are where none is; and which epsilon is better."""


class Rows(NamedTuple):
    """Sampled Gaussians as rows (mu, rate, count), and half the sum of mu^2 of those that are not sampled.

    `order_work` are operations of an order of all their curves, where that takes long.
    """

    sampled: FloatArray
    slope: float
    order_work: float


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
    return Rows(np.array(rows).reshape(-1, 3), slope, run._curve_work())


class Plan(NamedTuple):
    """Where to invert: a tilt t near the saddle point, the period T, and what is known at once.

    `rows` are (mu, rate, count, log E e^{(1+t) L} from above) of sampled Gaussians, `slope` half the sum of mu^2 of
    those that are not sampled; `higher` is a larger tilt and a bound on log M there. `aim` is the error that is planned
    for, relative to delta; `excess` the log of about what Chernoff's bound at t is too large by.
    """

    rows: FloatArray
    slope: float
    tilt: float
    period: float
    higher: tuple[float, float]
    guess: Guess
    aim: float
    excess: float
    order_work: float

    @property
    def given(self) -> Rows:
        """The composition that the plan is for."""
        return Rows(self.rows[:, :3], self.slope, self.order_work)

    @property
    def work(self) -> float:
        """Operations of another such plan."""
        return PLANNED * self.order_work

    def log_wrapped(self, epsilon: float) -> float:
        """Log of a bound on what the rule adds: of sum_m e^{-m t T} delta(eps - m T) + e^{m t T} delta(eps + m T)."""
        t, period = self.tilt, self.period
        below = -t * period - math.log(-math.expm1(-t * period))
        tilt, log_moment = self.higher
        gap = (tilt - t) * period
        above = log_moment + log_peak(tilt) - tilt * epsilon - gap - math.log(-math.expm1(-gap))
        return float(np.logaddexp(below, above)) + 1e-12

    def way(self, direction: Direction) -> Way | None:
        """How M of a direction is to be known; None if that is slow."""
        alpha, turn = (1 + self.tilt, 1.0) if direction == DIRECTIONS[0] else (-self.tilt, -1.0)
        step, first = 2 * math.pi / self.period, FIRST * self.tilt
        falls, squares = np.empty(FALLS), np.empty(len(self.rows))
        fall_of_run(self.rows, self.slope, alpha, first, ENOUGH, falls, squares)
        places = first * RATIO ** np.arange(FALLS)
        allowed = math.log(self.aim) + log_peak(self.tilt) - self.excess
        enough = np.flatnonzero((-falls - np.log(math.pi * places) <= allowed) & (places < MOST_FREQUENCIES * step))
        if not enough.size:
            return None
        at = int(enough[0])
        line = Line(alpha, turn, step, math.ceil(places[at] / step))
        log_least = allowed - math.log(line.last * step)
        order = np.argsort(-squares, kind="stable")  # the rows that fall most come first
        rows = self.rows[order]
        expected = expect_work(rows, self.slope, line, log_least)
        return Way(rows, line, log_least, -float(falls[at]), expected)


class Way(NamedTuple):
    """How M of a direction is to be known.

    `rows` are those of the plan in an order that is good for it, `line` the orders at which M may be asked, `log_least`
    says which |c_k| are left out (see `transform_run`), `log_beyond` bounds log |M/M(t)| beyond the line, and `work` is
    about what it takes.
    """

    rows: FloatArray
    line: Line
    log_least: float
    log_beyond: float
    work: float


class Guess(NamedTuple):
    """What a plan is made for: a tilt near the best, the price about, and nats that Chernoff's bound may exceed it by.

    `start` is an epsilon or the log of a delta that is known to be no less than the one that is asked.
    """

    tilt: float
    epsilon: float
    log_delta: float
    start: float
    spare: float


def first_guess(run: Composition, question: Question) -> Guess | None:
    """What the Rényi route says: its improved conversion is Chernoff's bound. None where that is of no use."""
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
    return Guess(found.order - 1, epsilon, log_delta, start, CHERNOFF)


def next_guess(guess: Guess, question: Question, found: Interval) -> Guess:
    """After an inversion that came out too wide: by a better price, if there is one, else as if it was far lower."""
    if question.delta is not None and found.upper < BETTER * guess.start:
        return guess._replace(epsilon=found.upper, start=found.upper, spare=LESS_SPARE)
    if question.delta is None and 0.0 < found.upper < math.exp(guess.start - LESS_SPARE):
        log_delta = math.log(found.upper)
        return guess._replace(log_delta=log_delta, start=log_delta, spare=LESS_SPARE)
    lower = guess._replace(spare=guess.spare + MORE_SPARE)
    if question.delta is not None:
        return lower._replace(epsilon=guess.epsilon / 2)
    return lower._replace(log_delta=guess.log_delta - MORE_SPARE / 2)


def plan_inversion(run: Composition, question: Question) -> Plan | None:
    """A plan by the Rényi route; None if there is none, or if it alone takes too much of the patience that is left."""
    rows = rows_of(run)
    if rows is None or not fits((STEPS + PLANNED) * rows.order_work / MOST_PLANNING):
        return None
    guess = first_guess(run, question)
    return None if guess is None else plan_for(rows, guess, question)


def plan_for(rows: Rows, guess: Guess, question: Question) -> Plan | None:
    """A plan with which the price can be told if the guess is about right."""
    room = question.tolerance * (min(guess.start * guess.tilt, 1.0) if question.delta is not None else 1.0)
    aim = min(SHARE * room, SHARE_OF_DELTA)
    if aim < LEAST_AIM:
        return None
    if rows.order_work > 0.0:
        spend(PLANNED * rows.order_work, f"a tilt for {count_of(len(rows.sampled), 'characteristic function')}")
    chosen = choose_tilts(rows, guess, math.log(aim))
    if chosen is None:
        return None
    (tilt, higher), period, excess = chosen
    logs, moments = moments_of(rows, np.array([tilt, higher]))
    known = np.column_stack([rows.sampled, logs[:, 0]])
    plan = Plan(known, rows.slope, tilt, period, (higher, float(moments[1])), guess, aim, excess, rows.order_work)
    for _ in range(LONGER):  # where some rows misjudged all
        if plan.log_wrapped(guess.epsilon) <= guess.log_delta + math.log(aim):
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


def choose_tilts(rows: Rows, guess: Guess, log_aim: float) -> tuple[tuple[float, float], float, float] | None:
    """A tilt and a larger one for which the period is the shortest, and it; and what Chernoff's bound is too large by.

    Of the two sums in `Plan.log_wrapped` the first asks for a large tilt, the second for room above it, which there is
    little of where tails are heavy.
    """
    stride = 1 + len(rows.sampled) // LOOKED_AT
    tilts = 1 + guess.tilt * np.array(TILTS) - 1  # so that 1 + t is exact
    log_delta = guess.log_delta
    some = rows._replace(sampled=rows.sampled[::stride] * [1.0, 1.0, float(stride)])
    moments = moments_of(some, tilts)[1]
    peaks = np.array([log_peak(tilt) for tilt in tilts.tolist()])
    chernoff = moments + peaks - tilts * guess.epsilon
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = tilts[None, :] - tilts[:, None]
        above = np.where(gaps > 0, (np.maximum(chernoff[None, :] - log_delta, 0.0) - log_aim + 2.0) / gaps, math.inf)
    below = (2.0 - log_delta - log_aim) / tilts
    periods = np.maximum(above, below[:, None])
    excess = chernoff - log_delta
    periods[~((excess <= SPARE + excess.min())[:, None] & (periods < math.inf))] = math.inf
    i, j = divmod(int(periods.argmin()), len(TILTS))
    shortest = float(periods[i, j])
    if not shortest < math.inf:
        return None
    return (float(tilts[i]), float(tilts[j])), shortest, float(excess[i]) + guess.spare
