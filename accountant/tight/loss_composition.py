"""Tight accounting of events with a privacy profile: certified bounds on delta(epsilon) and epsilon(delta).

Each event is bracketed by two measures on a grid of losses (`accountant.tight.loss_grid`); a composition's
measure is their convolution, computed by one Fourier transform for each distinct event. All masses are
tilted by e^{tilt l} near the saddle point of what is asked, so that errors are relative to the answer:

    delta(eps) = M sum_l F(l) e^{-tilt l} W(eps - l),   W(x) = (1 - e^x)_+ or what other events leave,

with F the tilted probabilities of the composed loss. What wraps around the Fourier window is bounded by Chernoff's
bound on the same masses, rounding by the norm of the transform's error; both are added on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import NoGuarantee, ParameterError, ToleranceUnreachable, real, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval, find_crossing
from accountant.tight.fourier import WINDOW_NATS, ComposedLoss, HockeyStick, LossSum, Remainder
from accountant.tight.loss_grid import Bracket, aligned_step, bracket, largest_atom, loss_range
from accountant.tight.polygon import ULP, Grid

__all__ = [
    "DirectedRun",
    "Entries",
    "Question",
    "Remainder",
    "Remainders",
    "bound_delta",
    "bound_epsilon",
    "plan",
    "refine",
    "representative",
]

MAX_POINTS = 2**23

SPARE = 5.0
"""Nats by which a tilt may miss the saddle point: errors grow by as much, relative to the answer."""


Entries = Sequence[tuple[Event, int]]
Remainders = Mapping[Direction, Remainder]


class Question(NamedTuple):
    """What is asked, epsilon at a delta or delta at an epsilon; and how wide the answer may be."""

    delta: float | None
    epsilon: float
    tolerance: float

    def satisfied(self, answer: Interval, spread: float) -> bool:
        """Whether the interval is narrow enough: relative to delta, or to epsilon or a hundredth of `spread`."""
        least = 1e-300 / self.tolerance if self.delta is None else 0.01 * spread
        return answer.upper - answer.lower <= self.tolerance * max(answer.upper, least)


@dataclass
class DirectedRun:
    """One direction of a run: its grid, composed measures (one above, if `both` one below), and the answer so far."""

    entries: Entries
    direction: Direction
    remainder: Remainder
    grid: Grid
    spread: float
    log_delta: float
    measures: list[ComposedLoss] = field(default_factory=list)
    log_infinite: float = -math.inf
    both: bool = True
    found: Interval = field(default_factory=lambda: Interval(0.0, math.inf))

    def bound(self, epsilon: float, sign: int) -> float:
        """Log of delta(epsilon), from above (sign 1) or below (sign -1)."""
        if sign < 0:
            return self.measures[1].log_delta(epsilon, self.remainder, -1) if self.both else -math.inf
        finite = self.measures[0].log_delta(epsilon, self.remainder, 1)
        return min(0.0, float(np.logaddexp(finite, self.log_infinite)))

    def compose(self) -> None:
        """Compose on the present grid, in a window that holds all but e^-WINDOW_NATS."""
        sigmas = self.spread / self.grid.step
        wanted = max(min(26 * sigmas + 4096, float(MAX_POINTS)), 16 * sigmas)
        points = self._compose(wanted)
        while (needed := max(measure.needed for measure in self.measures)) > points:
            points = self._compose(1.1 * needed)
        self.spread = needed * self.grid.step / (2 * math.sqrt(2 * WINDOW_NATS))

    def solve(self, question: Question) -> None:
        """Compose on the present grid and answer the question."""
        self.compose()
        if question.delta is not None:
            found = self._epsilon(math.log(question.delta), 0.02 * question.tolerance)
            self.found = Interval(max(found.lower, self.found.lower), min(found.upper, self.found.upper))
            return
        low, high = (self.bound(question.epsilon, sign) for sign in (-1, 1))
        # exp turns the rounding of a logarithm into a relative error
        low, high = (log + sign * 4 * ULP * (1 + abs(log)) for log, sign in ((max(low, -1e4), -1), (high, 1)))
        self.found = Interval(math.exp(low), min(1.0, math.exp(high) + 5e-324))

    def _compose(self, wanted: float) -> int:
        """Compose in a window of at least so many points; returns how many it has."""
        from scipy.fft import next_fast_len

        if not wanted <= MAX_POINTS:
            raise unreachable(f"the {self.direction} direction", wanted, self.grid.step)
        points = 2 * int(next_fast_len(math.ceil(wanted / 2), real=True))
        sums = [LossSum(self.grid, points, self.spread) for _ in range(1 + self.both)]
        self.log_infinite, log_whole = -math.inf, 0.0
        log_count = math.log(max(sum(count for _, count in self.entries), 1))
        for event, count in self.entries:
            ends = self.log_delta - log_count - 16, -log_count - 25
            for piece, many, signs in self._pieces(event, count, ends[0]):
                found = self._bracket(piece, ends, -1 in signs)
                for sign, total, masses in zip((1, -1), sums, found.measures, strict=False):
                    if sign in signs:
                        total.add(masses, many)
                if 1 in signs:
                    self.log_infinite = float(np.logaddexp(self.log_infinite, found.log_infinite + math.log(many)))
                    log_whole += many * found.log_whole
        self.log_infinite += log_whole  # the others' masses come to more than 1
        self.measures = [total.compose() for total in sums]
        return points

    def _pieces(self, event: Event, count: int, log_lost: float) -> list[tuple[Event, int, tuple[int, ...]]]:
        """What stands for `count` of an event, how often, and on which sides: above (1), below (-1) or both."""
        sides = (1, -1)[: 1 + self.both]
        pieces: list[tuple[Event, int, tuple[int, ...]]] = []
        for sign in sides:
            found = event._surrogates(self.direction, self.grid.step, log_lost, sign)
            if found is None:
                return [(event, count, sides)]
            pieces += [(piece, many * count, (sign,)) for piece, many in found]
        return pieces

    def _bracket(self, event: Event, ends: tuple[float, float], both: bool) -> Bracket:
        """Measures of one event on the present grid."""
        reach = loss_range(event, self.direction, self.grid.tilt, *ends)
        cells = (reach.upper - reach.lower) / self.grid.step
        if cells > MAX_POINTS:
            raise unreachable(repr(event), cells, self.grid.step)
        offset = largest_atom(event, self.direction, self.grid.step)
        return bracket(event, self.direction, reach, offset, self.grid, both)

    def _epsilon(self, target: float, fine: float) -> Interval:
        """Bounds on the epsilon at which log delta is `target`, each found to a share `fine` of it."""

        def above(e: float) -> float:
            return self.bound(e, 1) - target * (1 + 4e-16)

        def below(e: float) -> float:
            return self.bound(e, -1) - target * (1 - 4e-16)

        top = max(float(self.measures[0].losses[-1]), 0.0) + self.grid.step
        while top < 1e300 and above(top) > 0 and not isinstance(self.remainder, HockeyStick):
            top *= 2
        upper = find_crossing(above, 0.0, top, fine).upper
        if not 0 < upper < math.inf:
            return Interval(0.0, upper)
        # far below the saddle point the errors swallow the lower bound: look for it from above
        gap = fine * upper
        while gap < upper and below(upper - gap) <= 0:
            gap *= 2
        return Interval(find_crossing(below, max(upper - gap, 0.0), upper, fine).lower, upper)


def unreachable(what: str, points: float, step: float) -> ToleranceUnreachable:
    size = f"{points:.3g} points at a step of {step:.3g}; accepted: at most {MAX_POINTS}"
    return ToleranceUnreachable(f"{what} takes a grid of {size}, hence a larger tolerance or fewer releases")


def bound_epsilon(
    entries: Entries,
    delta: float,
    tolerance: float,
    remainders: Remainders | None = None,
    directions: Sequence[Direction] = DIRECTIONS,
) -> Interval:
    """An interval that holds epsilon(delta) of a composition, rounding included; its upper end is a guarantee.

    Parameters
    ----------
    entries : sequence of (Event, int)
        Events with a single dominating pair, and how often each happens.
    delta : float
        (0, 1).
    tolerance : float
        Largest width, relative to epsilon (or to a hundredth of the loss's standard deviation, if that is more).
    remainders : mapping from direction to Remainder, optional
        What remains of delta after these events, if others come last.
    directions : sequence of Direction
        Those that count.

    Raises
    ------
    ParameterError
        A value is out of range, or an event is a family of pairs.
    ProfileUnavailable
        An event is known by a Rényi bound only.
    ToleranceUnreachable
        The width takes too large a grid.
    """
    question = Question(real("delta", delta, 0.0, 1.0, open_low=True, open_high=True), 0.0, tolerance)
    return settle(entries, question, remainders, directions)


def bound_delta(
    entries: Entries,
    epsilon: float,
    tolerance: float,
    remainders: Remainders | None = None,
    directions: Sequence[Direction] = DIRECTIONS,
) -> Interval:
    """Certified bounds on delta(epsilon) of a composition; as `bound_epsilon`, the width relative to delta."""
    return settle(entries, Question(None, real("epsilon", epsilon, 0.0, 1e300), tolerance), remainders, directions)


def settle(
    entries: Entries, question: Question, remainders: Remainders | None, directions: Sequence[Direction]
) -> Interval:
    """Choose directions, tilts and steps, and solve."""
    real("tolerance", question.tolerance, 1e-6, 1.0)
    whole = Composition((event, count) for event, count in Composition(entries) if float(event.renyi(math.inf)) > 0)
    for event in whole.entries:
        if event.family:
            raise ParameterError(f"{event!r} is a family of pairs; accepted: events with a single dominating pair")
    pure = whole.total(lambda event: float(event._curve(np.array([math.inf]))[0]))
    if remainders is None and pure <= question.epsilon:
        return Interval(0.0, 0.0)
    if remainders is None:
        remainders = dict.fromkeys(DIRECTIONS, HockeyStick())
        profiles = {event: _at_zero(event) for event in whole.entries}
        distance = whole.total(lambda event: math.exp(max(*profiles[event])[0]))
        if question.delta is not None and distance * (1 + 1e-9) <= question.delta:
            return Interval(0.0, 0.0)  # total variation is subadditive
        if all(remove is add for remove, add in profiles.values()):
            directions = directions[:1]  # the same pairs, with P and Q exchanged
    kinds = list(whole)
    runs = [plan(kinds, representative(kinds), question, d, remainders[d]) for d in directions]
    for run in runs:
        run.found = Interval(0.0, pure * (1 + 1e-12) if isinstance(run.remainder, HockeyStick) else math.inf)
    return refine(runs, question)


def _at_zero(event: Event) -> tuple[FloatArray, FloatArray]:
    """Logs of the total variation distance in both directions; 0 where only bounds on it are known."""
    return (np.zeros(1), np.zeros(1)) if event.between_bounds else event._log_profile(np.zeros(1))


def plan(
    kinds: Entries, run: Composition, question: Question, direction: Direction, remainder: Remainder
) -> DirectedRun:
    """A tilt and a step at which the first attempt should do.

    For every tilt t > 0, with K(t) = t D_{1+t},  log delta(eps) <= K(t) + sup_x (t x + log W(x)) - t eps;
    the best t is the saddle point. A cell of density f adds to delta's curve between f step^2/12 and less than
    3 f step^2/16 below, that is to log delta about count t (1 + t) step^2/4.
    """
    x = np.concatenate([-(2.0 ** np.arange(12, -40, -0.25)), 2.0 ** np.arange(-40, 12, 0.25)])
    log_w = remainder.log_upper(x)

    def bound(tilts: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            reach = np.max(np.where(log_w > -math.inf, tilts[:, None] * x + log_w, -math.inf), axis=1)
        logs = tilts * run.renyi(1 + tilts) + reach
        if question.delta is None:
            return np.asarray(logs - tilts * question.epsilon)
        return np.asarray((logs - math.log(question.delta)) / tilts)

    tilts = 2.0 ** np.arange(-40.0, 42.0, 4.0)
    for width, rung in ((4.0, 0.5), (0.5, 0.0625), (0.0, 1.0)):
        values = bound(tilts)
        best = float(np.nanmin(values))
        # where several do about as well the smallest keeps numbers small
        tilt = float(tilts[np.flatnonzero(values <= best + 1e-4 * abs(best))[0]])
        tilts = tilt * 2.0 ** np.arange(-width, width + rung / 2, rung)
    log_delta = math.log(question.delta) if question.delta is not None else max(min(best, 0.0), -800.0) - 20
    pure = float(run.renyi(math.inf))
    if 0 < pure < math.inf:
        tilt = min(tilt, 4 * (2 - log_delta) / pure)  # beyond, only the largest loss is left
    # where heavy tails set in the spread leaps up: a smaller tilt that gives away a few nats is then easier
    tilts = tilt * 2.0 ** np.arange(0.0, -2.1, -0.125)
    excess = (bound(tilts) - best) * (tilts if question.delta is not None else 1.0)
    spreads = deviations(run, tilts)
    easier = np.flatnonzero((excess <= SPARE) & (spreads <= spreads[0] / 4))
    chosen = int(easier[0]) if easier.size else 0
    tilt, spread = float(tilts[chosen]), float(spreads[chosen])
    total = float(sum(count for _, count in kinds)) or 1.0
    room = question.tolerance * (max(best, 0.01 * spread) if question.delta is not None else 1 / tilt)
    step = max(0.75 * math.sqrt(room / (0.27 * total * (1 + tilt))), 0.4 * room / total)
    points = 16 * spread / step
    if points > 4 * MAX_POINTS:
        raise unreachable(f"the {direction} direction", points, step)
    step = aligned_step(kinds, direction, min(max(step, 16 * spread / MAX_POINTS), 12 / (1 + tilt)), tilt)
    return DirectedRun(kinds, direction, remainder, Grid(step, tilt), max(spread, step), log_delta)


def deviations(run: Composition, tilts: FloatArray) -> FloatArray:
    """Standard deviations of the composed loss under tilts t: roots of the second derivative of t D_{1+t}."""
    low, middle, high = (run.renyi(1 + share * tilts) * share * tilts for share in (0.9, 1.0, 1.1))
    return np.asarray(np.sqrt(np.maximum(low - 2 * middle + high, 0.0)) / (0.1 * tilts))


def refine(runs: list[DirectedRun], question: Question) -> Interval:
    """Solve every direction, then again and finer the one that decides; the first is the likely one."""
    for run in runs[1:]:
        run.both = False
    for run in runs:
        run.solve(question)
    for left in range(12, -1, -1):
        answer = Interval(max(run.found.lower for run in runs), max(run.found.upper for run in runs))
        worst = max(runs, key=lambda run: run.found.upper)
        if question.satisfied(answer, worst.spread):
            return answer
        if left and worst.both:
            ratio = question.tolerance * answer.upper / (answer.upper - answer.lower)
            step = worst.grid.step * min(max(0.8 * math.sqrt(ratio), 0.25), 0.9)
            worst.grid = Grid(aligned_step(worst.entries, worst.direction, step, worst.grid.tilt), worst.grid.tilt)
        worst.both = True
        worst.solve(question)
    raise ToleranceUnreachable(f"{answer} after 12 refinements; accepted: a larger tolerance")


def representative(kinds: Entries) -> Composition:
    """The 128 costliest kinds of events, counted so often that they stand for all: enough to guess a tilt from."""
    costs = [count * float(event._curve(np.array([2.0]))[0]) for event, count in kinds]
    most = np.argsort(costs)[::-1][:128].tolist()
    if kinds and costs[most[0]] == math.inf:
        raise NoGuarantee(
            f"{shorten(kinds[most[0]][0])} may have an infinite loss, and does not say how often; accepted in a run: "
            "ApproximateDP, and events with a finite Rényi curve"
        )
    scale = sum(costs) / max(sum(costs[i] for i in most), 1e-300)
    return Composition((kinds[i][0], round(kinds[i][1] * scale)) for i in most)
