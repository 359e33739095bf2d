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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import OutOfPatience, ToleranceUnreachable, count_of
from accountant.events.composition import Composition
from accountant.numerics.roots import Interval, exponentiate
from accountant.patience import OPERATIONS_PER_SECOND, allow_work, count_done, fits, spend
from accountant.tight.directed_run import Question
from accountant.tight.inversion_kernels import invert_at, scale_spectrum, transform_run
from accountant.tight.inversion_plan import Plan, Way, next_guess, plan_for, plan_inversion
from accountant.tight.kept_losses import Composed, keep_for
from accountant.tight.polygon import ULP

__all__ = ["Attempt", "Inversion", "prepare_inversion"]

FALL_WORK, POINT_WORK = 3e4, 50.0
"""Operations (see `accountant.patience`) of a row's bound beyond, and of one frequency where an epsilon is asked."""

SOLVING = 100
"""Steps after which an epsilon is as near as it comes."""

LONGEST = 2.5
"""Times as much work as is expected, after which inversion is given up."""

ATTEMPTS, FARTHEST = 4, 8.0
"""Inversions for one price, each planned by what came out of the one before; times the work of the first one."""

MOST_WORK, MOST_ROW_WORK = 3e7, 3e6
"""Operations up to which inversion is tried, in all or for each row: beyond, a grid is likely to be quicker."""

UNKNOWN = 100.0
"""An error of log M with which nothing is known."""


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
    way : Way

    Attributes
    ----------
    known : bool
        Whether M is; if not there is nothing else.
    line : Line
        Where it is.
    spread : float
        Rough standard deviation of the tilted loss.
    """

    def __init__(self, plan: Plan, way: Way) -> None:
        self.plan, line, self.step = plan, way.line, way.line.step
        total = np.empty((3, line.last + 1))
        spectrum = transform_run(way.rows, plan.slope, line, way.log_least, LONGEST * way.work, total)
        count_done(max(spectrum.work - way.work, 0.0))
        self.known, last = spectrum.known, spectrum.last
        self.total, self.line = np.ascontiguousarray(total[:, : last + 1]), line._replace(last=last)
        self.log_scale, first_error = float(self.total[0, 0]), float(self.total[2, 0])
        self.known = self.known and first_error < UNKNOWN
        if not self.known:
            return
        end = line.last * self.step
        dip = self.log_scale - float(self.total[0, 1])
        self.spread = math.sqrt(max(2 * dip, 0.0)) / self.step
        self.whole, wrong = scale_spectrum(plan.tilt, self.step, self.total)
        # h/pi sum_{k > K} |c_k| <= h/pi sum rho/(k h)^2 <= rho/(pi K h); both are relative to M(t), which errs itself
        beyond = math.exp(way.log_beyond) / (math.pi * end) + self.step / math.pi * spectrum.left_out
        self.error = self.step / math.pi * wrong + 1.01 * math.exp(first_error) * beyond

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
        """Bounds on the epsilon at a delta that is no more than `start`."""
        x, fall = self._solve(log_delta, start)
        upper, gap = x, 1e-13 * x
        while self.at(upper).log_upper > log_delta:
            upper, gap = upper + gap, 2 * gap
            if not 0.0 < gap <= start:
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

    def _solve(self, log_delta: float, start: float) -> tuple[float, float]:
        """About where the upper bound is that delta, and by how much its log falls there.

        Newton's method, with halving where it leads out of what is known or the value is no more than its error: far
        above the answer that is all that there is.
        """
        lowest, highest, x, fall, step = 0.0, start, start, self.plan.tilt, math.inf
        for _ in range(SOLVING):
            found = self.at(x)
            high = found.log_upper - log_delta
            moved = math.nan
            if found.value > 2 * found.error:
                fall = max(self.plan.tilt - found.slope / found.value, 1e-300)
                moved = max(x + high / fall, 0.0)
                if x == 0.0 and high <= 0.0:
                    break
                if high > 0.0:
                    lowest = x
                else:
                    highest = x
            else:
                highest = x
            if not (lowest <= moved <= highest and abs(moved - x) <= 0.5 * step):
                moved = 0.5 * (lowest + highest)
            step = abs(moved - x)
            if step <= 1e-13 * x:
                break
            x = moved
        return x, fall


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


class Attempt(NamedTuple):
    """An inversion that can be tried: how M is to be known in each direction, and about what that takes.

    `same` is what its composed losses are kept by (see `accountant.tight.kept_losses`), if they are.
    """

    question: Question
    directions: Sequence[Direction]
    plan: Plan
    ways: list[Way]
    work: float
    same: Composed | None

    @property
    def quick(self) -> bool:
        """Whether a grid is not likely to be quicker."""
        return self.work < max(MOST_WORK, MOST_ROW_WORK * len(self.plan.rows))

    @property
    def preparing(self) -> float:
        """Operations that say how M is to be known."""
        return work_of_ways(self.plan, self.directions)

    def solve(self) -> Interval | None:
        """Bounds on what is asked, as narrow as that; None where it takes a grid of losses."""
        attempt = self
        for _ in range(ATTEMPTS):
            found = attempt.try_out()
            if found is None:
                return None
            answer, spread = found
            if self.question.width(answer, spread) <= self.question.tolerance:
                return answer
            if not fits(self.plan.work + self.preparing):
                return None
            other = attempt.again(answer)
            if other is None or not fits(other.work) or other.work > FARTHEST * self.work:
                return None
            attempt = other
        return None

    def again(self, found: Interval) -> Attempt | None:
        """Another one, planned by what was found; None if there is none."""
        guess = next_guess(self.plan.guess, self.question, found)
        plan = plan_for(self.plan.given, guess, self.question)
        return None if plan is None else prepare(plan, self.question, self.directions, self.same)

    def try_out(self) -> tuple[Interval, float] | None:
        """Bounds on what is asked, and the rough standard deviation of the loss; None where M is not known."""
        question = self.question
        spend(self.work, count_of(len(self.plan.rows), "characteristic function"), question.tolerance)
        first, *others = (Inversion(self.plan, way) for way in self.ways)
        if not all(each.known for each in (first, *others)):
            return None
        if question.delta is None:
            inverted = InvertedLosses([first, *others])
            answer = inverted.answer(question.epsilon)
            if self.same is not None:
                keep_for(self.same, question, inverted, answer)
        else:
            log_delta = math.log(question.delta)
            start = self.plan.guess.start
            answer = first.epsilon(log_delta, start)
            for other in others:
                # nearly always the first direction costs more
                if answer.upper == math.inf or other.at(answer.upper).log_upper > log_delta:
                    found = other.epsilon(log_delta, start)
                    answer = Interval(max(answer.lower, found.lower), max(answer.upper, found.upper))
        return answer, first.spread

    def solve_beside(self, on_grids: Callable[[], Interval]) -> Interval:
        """Grids as long as they take no more than one inversion is expected to, then inversions, then grids again."""
        found = None
        if fits(2 * self.work):
            try:
                with _for_seconds(self.work / OPERATIONS_PER_SECOND):
                    return on_grids()
            except ToleranceUnreachable:
                found = self.solve()
            return on_grids() if found is None else found
        try:
            return on_grids()
        except ToleranceUnreachable as refusal:
            try:
                found = self.solve()
            except OutOfPatience as error:
                if isinstance(refusal, OutOfPatience) and refusal.seconds <= error.seconds:
                    raise refusal from None
                error.found, error.wide = refusal.found, refusal.wide
                raise error from None
            if found is None:
                raise
            return found


def prepare_inversion(
    run: Composition,
    question: Question,
    directions: Sequence[Direction] = DIRECTIONS,
    same: Composed | None = None,
) -> Attempt | None:
    """How a run is to be inverted; None if it cannot be."""
    plan = plan_inversion(run, question)
    return None if plan is None else prepare(plan, question, directions, same)


def work_of_ways(plan: Plan, directions: Sequence[Direction]) -> float:
    """Operations of bounds on transforms, by which it is said how M is to be known."""
    return FALL_WORK * len(plan.rows) * len(directions)


def prepare(plan: Plan, question: Question, directions: Sequence[Direction], same: Composed | None) -> Attempt | None:
    """How the directions of a plan are to be known; None if that takes too many frequencies."""
    spend(work_of_ways(plan, directions), count_of(len(plan.rows), "characteristic function"))
    ways = [each for direction in directions if (each := plan.way(direction)) is not None]
    if len(ways) < len(directions):
        return None
    work = sum(way.work + POINT_WORK * way.line.last for way in ways)
    return Attempt(question, directions, plan, ways, work, same) if work < math.inf else None


@contextmanager
def _for_seconds(seconds: float) -> Iterator[None]:
    """While the block runs it may take no more than so many seconds of work."""
    with allow_work(math.inf) as allowance:
        whole = allowance.seconds
        allowance.seconds = min(whole, allowance.taken + seconds)
        try:
            yield
        finally:
            allowance.seconds = whole
