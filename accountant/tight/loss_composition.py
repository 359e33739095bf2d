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
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import NoGuarantee, OutOfPatience, ParameterError, ToleranceUnreachable, count_of, real, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.decimals import format_up_short
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import fits, foresee, spend
from accountant.tight.asked_once import AskedOnce
from accountant.tight.directed_run import DirectedRun, Entries, Question, Remainders, RemainderTooWide
from accountant.tight.flat_ends import take_apart
from accountant.tight.fourier import HockeyStick, Remainder
from accountant.tight.inversion import prepare_inversion
from accountant.tight.kept_losses import Composed, ComposedOnGrids, ask_kept, keep_for
from accountant.tight.loss_grid import COARSEST, MAX_POINTS, aligned_step, unreachable
from accountant.tight.normal_limit import approach_normal
from accountant.tight.polygon import Grid

__all__ = [
    "CHOICE",
    "PLANNED",
    "DirectedRun",
    "Entries",
    "Question",
    "Remainder",
    "RemainderTooWide",
    "Remainders",
    "bound_delta",
    "bound_delta_above",
    "bound_epsilon",
    "plan",
    "refine",
    "representative",
]

KIND = 1e5
"""Operations (see `accountant.patience`) of what is done once for each different event."""

CHOICE = 3e6
"""The same of the choice of a grid for one direction, beside what curves take."""

PLANNED = 120
"""Orders of a Rényi curve that `plan` asks for."""

SKETCHED, SKETCH_WORK, FEWEST = 128, 6e8, 4
"""Kinds of events that stand for all: so many, or fewer where their curves would take more operations than that."""

LOOKED_AT = np.array([2.0, 64.0])
"""Orders at which curves of all kinds are looked at: for what they cost, and for how heavy their tails are."""

STALL = 10.0
"""A grid so many times finer than that of the last narrower interval is the last that is tried."""

HALVINGS = 4
"""Times that a step is halved where only an upper end is asked for."""

NEAR = 0.7
"""How near releases are of which two stand for those between, over the root of the tolerance."""

SPARE = 5.0
"""Nats by which a tilt may miss the saddle point: errors grow by as much, relative to the answer."""


def bound_epsilon(
    entries: Entries,
    delta: float,
    tolerance: float,
    remainders: Remainders | None = None,
    directions: Sequence[Direction] = DIRECTIONS,
    above: bool = False,
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
    above : bool
        Whether only the upper end is asked for; the lower is 0, and `tolerance` is about how near the upper one comes
        to its limit as steps vanish.

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
    return settle(entries, question, remainders, directions, above)


def bound_delta(
    entries: Entries,
    epsilon: float,
    tolerance: float,
    remainders: Remainders | None = None,
    directions: Sequence[Direction] = DIRECTIONS,
    least: float = 0.0,
) -> Interval:
    """Bounds on delta(epsilon); as `bound_epsilon`, the width relative to delta, or to `least` if that is more."""
    question = Question(None, real("epsilon", epsilon, 0.0, 1e300), tolerance, least)
    return settle(entries, question, remainders, directions)


def bound_delta_above(
    entries: Entries,
    epsilon: float,
    tolerance: float,
    remainders: Remainders | None = None,
    directions: Sequence[Direction] = DIRECTIONS,
) -> Interval:
    """As `bound_delta`, where only the upper end is asked for."""
    question = Question(None, real("epsilon", epsilon, 0.0, 1e300), tolerance)
    return settle(entries, question, remainders, directions, True)


def settle(
    entries: Entries,
    question: Question,
    remainders: Remainders | None,
    directions: Sequence[Direction],
    above: bool = False,
) -> Interval:
    """Solve by Fourier inversion where that is quick; else on grids as long as these are quicker, then by inversion."""
    real("tolerance", question.tolerance, 1e-6, 1.0)
    whole, pure = _that_cost(tuple(entries))
    if remainders is None and pure <= question.epsilon:
        return Interval(0.0, 0.0)
    same = Composed.of(whole, remainders, directions, above)
    if (kept := ask_kept(same, question)) is not None:
        return kept
    if remainders is not None or above:
        return settle_on_grids(whole, question, remainders, directions, above)
    attempt = prepare_inversion(whole, question, directions, same)
    if attempt is not None and attempt.quick and fits(attempt.work):
        if (found := attempt.solve()) is not None:
            return found
        attempt = None
    if (found := approach_normal(whole, question, directions)) is not None:
        return found

    def on_grids() -> Interval:
        return settle_on_grids(whole, question, None, directions)

    return on_grids() if attempt is None else attempt.solve_beside(on_grids)


@lru_cache(maxsize=64)
def _that_cost(entries: tuple[tuple[Event, int], ...]) -> tuple[Composition, float]:
    """Those that cost anything, and their largest loss: many points of a curve ask for them."""
    whole = Composition((event, count) for event, count in entries if event._largest_loss() > 0)
    for event in whole.entries:
        if event.family:
            raise ParameterError(f"{event!r} is a family of pairs; accepted: events with a single dominating pair")
    return whole, whole._largest_loss()


def settle_on_grids(
    whole: Composition,
    question: Question,
    remainders: Remainders | None,
    directions: Sequence[Direction],
    above: bool = False,
) -> Interval:
    """Choose directions, tilts and steps, and solve."""
    same, pure = Composed.of(whole, remainders, directions, above), whole._largest_loss()
    if remainders is None:
        remainders = dict.fromkeys(DIRECTIONS, HockeyStick())
        profiles = {event: _at_zero(event) for event in whole.entries}
        distance = whole.total(lambda event: math.exp(max(*profiles[event])[0]))
        if question.delta is not None and distance * (1 + 1e-9) <= question.delta:
            return Interval(0.0, 0.0)  # total variation is subadditive
        if all(remove is add for remove, add in profiles.values()):
            directions = directions[:1]  # the same pairs, with P and Q exchanged
    kinds = list(whole)
    planned = PLANNED * len({id(remainders[d]) for d in directions})  # of the same remainder all orders are the same
    once = sum(KIND + LOOKED_AT.size * event._curve_work() for event, _ in kinds)
    if len(kinds) <= FEWEST:  # all of them are asked for orders below
        sketched = sum(event._sketch()._curve_work() for event, _ in kinds)
        foresee(
            [(None, once + planned * sketched)], f"a grid chosen by a Rényi curve of {count_of(len(kinds), 'release')}"
        )
    spend(once, count_of(len(kinds), "different release"))
    sketch = representative(kinds, SKETCH_WORK / planned)
    work = planned * sketch._curve_work()
    spend(
        work + CHOICE * len(directions), f"a grid chosen by a Rényi curve of {count_of(len(sketch.entries), 'release')}"
    )
    curve = AskedOnce(sketch)
    runs = [plan(kinds, curve, question, d, remainders[d]) for d in directions]
    for run in runs:
        run.near = NEAR * math.sqrt(question.tolerance)
        run.found = Interval(0.0, pure * (1 + 1e-12) if isinstance(run.remainder, HockeyStick) else math.inf)
    found = lower_upper_end(runs, question) if above else refine(runs, question)
    keep_for(same, question, ComposedOnGrids(runs), found)
    return found


def _at_zero(event: Event) -> tuple[FloatArray, FloatArray]:
    """Logs of the total variation distance in both directions; 0 where only bounds on it are known."""
    bounded = event.between_bounds and event._sharpened() is None
    return (np.zeros(1), np.zeros(1)) if bounded else event._log_profile(np.zeros(1))


LEAST_TILT = 2.0**-40
"""The least that is tried: next to order 1 a curve rounds."""

LEAST_SPREAD = 1e-200
"""For losses whose curve is 0 in floating point."""

FARTHEST = 1e280
"""Epsilons beyond have the tilt of this one: its product with the largest one is a float."""


def plan(
    kinds: Entries, run: Composition | AskedOnce, question: Question, direction: Direction, remainder: Remainder
) -> DirectedRun:
    """A tilt and a step at which the first attempt should do.

    For every tilt t > 0, with K(t) = t D_{1+t},  log delta(eps) <= K(t) + sup_x (t x + log W(x)) - t eps;
    the best t is the saddle point. A cell of density f adds to delta's curve between f step^2/12 and less than
    3 f step^2/16 below, that is to log delta about count t (1 + t) step^2/4.
    """
    x = np.concatenate([-(2.0 ** np.arange(12, -40, -0.25)), 2.0 ** np.arange(-40, 12, 0.25)])
    # where a remainder ends, at its largest loss, its last stretch decides at large tilts
    last = int(np.flatnonzero(remainder.log_upper(x) > -math.inf)[-1])
    x = np.append(x, np.linspace(x[last], x[min(last + 1, x.size - 1)], 65))
    log_w, wanted = take_apart(remainder, x, question.delta)

    def bound(tilts: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            reach = np.max(np.where(log_w > -math.inf, tilts[:, None] * x + log_w, -math.inf), axis=1)
        logs = tilts * run.renyi(1 + tilts) + reach
        if wanted is None:
            return np.asarray(logs - tilts * min(question.epsilon, FARTHEST))
        return np.asarray((logs - math.log(wanted)) / tilts)

    tilts = LEAST_TILT * 2.0 ** np.arange(0.0, 82.0, 4.0)
    for width, rung in ((4.0, 0.5), (0.5, 0.0625), (0.0, 1.0)):
        values = bound(tilts)
        best = float(np.nanmin(values))
        # where several do about as well the smallest keeps numbers small
        tilt = float(tilts[np.flatnonzero(values <= best + 1e-4 * abs(best))[0]])
        tilts = tilt * 2.0 ** np.arange(-width, width + rung / 2, rung)
    log_delta = math.log(question.delta) if question.delta is not None else max(min(best, 0.0), -800.0) - 20
    pure = float(run.renyi(math.inf))
    if 0 < pure < math.inf or any(event.between_bounds for event, _ in kinds):
        # beyond, only the largest loss is left; where that is far off, or the curve is a loose bound, a saddle point is
        # near 2 log(1/delta)/epsilon
        near = max(min(pure, best if question.delta is not None else question.epsilon), LEAST_SPREAD)
        tilt = min(tilt, max(4 * (2 - log_delta) / near, LEAST_TILT))
    # where heavy tails set in the spread leaps up: a smaller tilt that gives away a few nats is then easier
    tilts = tilt * 2.0 ** np.arange(0.0, -2.1, -0.125)
    excess = (bound(tilts) - best) * (tilts if question.delta is not None else 1.0)
    spreads = deviations(run, tilts)
    easier = np.flatnonzero((excess <= SPARE) & (spreads <= spreads[0] / 4))
    chosen = int(easier[0]) if easier.size else 0
    tilt, spread = float(tilts[chosen]), float(spreads[chosen])
    total = float(sum(count for _, count in kinds)) or 1.0
    spread = spread or math.sqrt(2 * float(run.renyi(2.0))) or LEAST_SPREAD  # a guess like any other
    room = question.tolerance * (max(best, 0.01 * spread) if question.delta is not None else 1 / tilt)
    step = max(0.75 * math.sqrt(room / (0.27 * total * (1 + tilt))), 0.4 * room / total)
    points = 16 * spread / step
    if points > 4 * MAX_POINTS:
        raise unreachable(f"the {direction} direction", points, step)
    step = aligned_step(kinds, direction, min(max(step, 16 * spread / MAX_POINTS), COARSEST / (1 + tilt)), tilt)
    return DirectedRun(
        kinds, direction, remainder, Grid(step, tilt), max(spread, step), log_delta, tolerance=question.tolerance
    )


def deviations(run: Composition | AskedOnce, tilts: FloatArray) -> FloatArray:
    """Standard deviations of the composed loss under tilts t: roots of the second derivative of t D_{1+t}."""
    low, middle, high = (run.renyi(1 + share * tilts) * share * tilts for share in (0.9, 1.0, 1.1))
    return np.asarray(np.sqrt(np.maximum(low - 2 * middle + high, 0.0)) / (0.1 * tilts))


def refine(runs: list[DirectedRun], question: Question) -> Interval:
    """Solve every direction, then again and finer the one that decides; the first is the likely one."""
    for run in runs[1:]:
        run.both = False
    for run in runs:
        run.solve(question)
    best, narrowest, best_step = math.inf, math.inf, math.inf
    while True:
        answer = Interval(max(run.found.lower for run in runs), max(run.found.upper for run in runs))
        worst = max(runs, key=lambda run: run.found.upper)
        width = question.width(answer, worst.spread)
        if width <= question.tolerance:
            return answer
        try:
            if worst.both:
                if worst.remainder_decides(question):
                    raise RemainderTooWide("the game of the screenings decides")
                # beside a lower end of 0 the width is 1, relative to an upper end that may still fall
                if width < 0.8 * best or answer.upper - answer.lower < 0.8 * narrowest:
                    best, narrowest, best_step = width, answer.upper - answer.lower, worst.grid.step
                elif worst.grid.step < best_step / STALL:
                    raise ToleranceUnreachable("finer grids do not help")
                step = worst.grid.step * min(max(0.8 * math.sqrt(question.tolerance / width), 0.25), 0.9)
                worst.near *= (step / worst.grid.step) ** 0.25  # nearly always the grid is what is wide
                worst.grid = Grid(aligned_step(worst.entries, worst.direction, step, worst.grid.tilt), worst.grid.tilt)
            worst.both, worst.tolerance = True, None
            worst.solve(question)
        except ToleranceUnreachable as error:
            raise _with_known(error, answer, width) from None


def _with_known(error: ToleranceUnreachable, answer: Interval, width: float) -> ToleranceUnreachable:
    """The refusal, with the interval that is certified although wider than was asked."""
    said = error.args[0]
    refusal = OutOfPatience(said, error.seconds) if isinstance(error, OutOfPatience) else type(error)(said)
    refusal.found, refusal.wide = answer, format_up_short(width) if width < 1.0 else ""
    return refusal


def lower_upper_end(runs: list[DirectedRun], question: Question) -> Interval:
    """Solve every direction from above only, and with half the step as long as the upper end falls much.

    A cell costs about the square of the step: the last halving took away about three quarters of what was too much.
    """
    for run in runs:
        run.both = False
        run.solve(question)
        for _ in range(HALVINGS):
            before = run.found.upper
            run.grid = Grid(run.grid.step / 2, run.grid.tilt)
            try:
                run.solve(question)
            except ToleranceUnreachable:
                break
            if question.width(Interval(run.found.upper, before), run.spread) <= question.tolerance:
                break
    return Interval(0.0, max(run.found.upper for run in runs))


def planning_work(kinds: Entries) -> float:
    """Operations that the choice of a grid takes at most, in both directions, for `foresee`."""
    works = [event._curve_work() for event, _ in kinds]
    sketched = min(
        PLANNED * len(DIRECTIONS) * sum(works),
        max(SKETCH_WORK, FEWEST * PLANNED * len(DIRECTIONS) * max(works, default=0.0)),
    )
    return KIND * len(works) + LOOKED_AT.size * math.fsum(works) + sketched


def representative(kinds: Entries, most_work: float = math.inf) -> Composition:
    """Costly kinds of events, counted so often that they stand for all: enough to guess a tilt from.

    Where an order of all their curves takes more than `most_work` there are fewer, from the costliest down.
    """
    kinds = [(event._sketch(), count) for event, count in kinds]
    found = [count * event._curve(LOOKED_AT) for event, count in kinds]
    costs = [float(each[0]) for each in found]
    most = np.argsort(costs)[::-1][:SKETCHED].tolist()
    work = sum(kinds[i][0]._curve_work() for i in most)
    if work > most_work:
        kept = max(int(len(most) * most_work / work), FEWEST)
        tails = sorted(most, key=lambda i: -float(found[i][1]))[: kept // 2]
        most = list(dict.fromkeys([*most[:: math.ceil(len(most) / (kept - kept // 2))], *tails]))
    if kinds and costs[most[0]] == math.inf:
        raise NoGuarantee(
            f"{shorten(kinds[most[0]][0])} may have an infinite loss, and does not say how often; accepted in a run: "
            "ApproximateDP, and events with a finite Rényi curve"
        )
    scale = sum(costs) / max(sum(costs[i] for i in most), 1e-300)
    return Composition((kinds[i][0], round(kinds[i][1] * scale)) for i in most)
