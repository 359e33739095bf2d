"""The game of Gaussian releases on samples of a fixed size, on a grid: values from above, and from below.

With F the step of all triples (`accountant.events.drawn_triples`), W_0(u) = (1 - u)_+ and W_n = F W_{n-1}. Whoever
exchanges both data sets plays the same game, so W(u) = 1 - u + u W(1/u), and V = W - (1 - u)_+ is kept at
u = e^(i step), i >= 0. A measure above a profile has its losses on the grid: what is kept bounds W_n at all of its
points, and between two of them the chord does. From below one pair that data reach is played, or the same with both
data sets exchanged, by measures below its profile (notebooks/mathematics.md, Runs of samples of a fixed size).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from accountant.adjacency import DIRECTIONS, Direction
from accountant.events.answers import Outcomes
from accountant.events.event import Event
from accountant.events.repeated_triples import UNUSUAL, cover_triples, usual_draws
from accountant.numerics.kernel import FloatArray
from accountant.numerics.lattice_powers import norm, transform_error
from accountant.numerics.roots import Interval
from accountant.patience import fits, remember, spend
from accountant.tight.contraction import contract
from accountant.tight.loss_grid import Bracket, Grid, bracket, loss_range
from accountant.tight.polygon import ULP, Masses, polygon_values

__all__ = [
    "LIKELY",
    "ORDERS",
    "Values",
    "curve_of",
    "game_work",
    "grid_of",
    "play_above",
    "play_below",
    "repeat_losses",
]

MOST_CELLS = 2**12
"""Of a grid."""

REACHED, LIKELY = -30.0, -12.0
"""Logs of the delta that a grid reaches to, and of one near which most are asked."""

TRANSFORM, CELL, LOOKS = 0.8, 2.0, 600.0
"""Operations (see `accountant.patience`): of a transform by point and doubling, and of what else a step does; LOOKS are
the values of a curve that say how far it reaches."""

FINER, ROUNDS = 16, 1024
"""Below a curve losses are so many times nearer to each other, before they are merged until they are on the grid; and
how many rounds there are at least in which one pair is played."""

FEWEST = 7
"""Curves that are above all triples, at least about."""

ORDERS = 1 + np.geomspace(1e-3, 1e3, 49)
"""Rényi orders that say how far losses reach."""

ComplexArray: TypeAlias = NDArray[np.complex128]


class Values(NamedTuple):
    """V with some numbers of steps left, at x = 0, step, 2 step, ..."""

    step: float
    at: dict[int, FloatArray]


class Moves(NamedTuple):
    """Measures: their transforms and masses, what they add to V at each point of the grid, and what is at infinity.

    `size` is that of a transform, and `pad` how far losses reach.
    """

    step: float
    last: int
    pad: int
    size: int
    transforms: ComplexArray
    wholes: FloatArray
    own: FloatArray
    shifted: float

    def values_around(self, values: FloatArray, beyond: float) -> FloatArray:
        """V from `pad` points left of x = 0 to as many right of the last, with a value beyond that one."""
        left = np.full(self.pad, beyond)
        many = min(self.pad, self.last)
        left[:many] = values[1 : many + 1]
        left *= np.exp(-self.step * np.arange(1.0, self.pad + 1))
        return np.concatenate([left[::-1], values, np.full(self.pad, beyond)])

    def moved(self, known: FloatArray) -> FloatArray:
        """The mean of V moved by each measure's losses, at the points of the grid; rows are measures."""
        from scipy.fft import irfft, rfft

        found = irfft(rfft(known, self.size) * self.transforms, self.size, axis=-1)
        return np.asarray(found[:, 2 * self.pad : 2 * self.pad + self.last + 1])

    def rounding(self, known: FloatArray) -> FloatArray:
        """More than that errs by: three transforms by no more than shares of 2-norms (Higham 2002, Thm 24.2)."""
        return np.asarray(3 * transform_error(self.size) * norm(known) * self.wholes)


@remember("a game of triples", 64)
def play_above(sampled: Event, steps: int, kept: tuple[int, ...], fine: float) -> Values:
    """Upper bounds with each of those numbers of steps left, on a grid of that fineness for so many steps."""
    triple = sampled._triple()
    assert triple is not None
    step, last = grid_of(sampled, steps, fine)
    what = f"a game of {steps} samples"
    if not fits(least := game_work(2 * FEWEST, steps, 2 * last)):
        spend(least, what)  # refused, before curves are sought for nothing
    shapes = cover_triples(triple, steps)
    lost = REACHED - 5.0 if triple.repeats is None else UNUSUAL - math.log(steps)
    work = _work_of(shapes, steps, step, last, lost)
    if not fits(work):
        spend(work, what)  # or computed
    curves = [each for shape in shapes for each in _measures(shape, step, last, lost)]
    moves = _moves([(each.measures[0], math.exp(each.log_infinite)) for each in curves], step, last, 1)
    spend(game_work(len(moves.wholes), steps, moves.size), what)
    values, found = np.zeros(last + 1), dict[int, FloatArray]()
    for j in range(1, steps + 1):
        # V falls from x = 0 on: beyond the grid it is at most what it is at the end
        known = moves.values_around(values, float(values[-1])) * (1 + 4 * ULP)
        best = np.max(moves.moved(known) + moves.own + moves.rounding(known)[:, None], axis=0)
        # what rises at the end is rounding
        values = np.minimum.accumulate(np.minimum(best * (1 + 16 * ULP) + 16 * ULP, 1.0))
        if j in kept:
            found[j] = values
    return Values(step, found)


@remember("a game of one pair and its reverse", 16)
def play_below(pair: Event, sampled: Event, steps: int, fine: float) -> Values:
    """Lower bounds with so many steps left: whoever plays takes the pair or its reverse, for some steps in a row."""
    many = max(steps // ROUNDS, 1)
    rounds, (step, last) = steps // many, grid_of(sampled, steps, fine * math.sqrt(many))
    what = f"a game of {steps} samples from below"
    if not fits(least := game_work(2, rounds, last) + _repeat_work(last)):
        spend(least, what)
    moves = _moves([(each, 0.0) for each in _measures_below(pair, many, step, last)], step, last, -1)
    spend(game_work(2, rounds, moves.size) + _repeat_work(last), what)
    values = np.zeros(last + 1)
    for _ in range(rounds):
        known = moves.values_around(values, 0.0) * (1 - 4 * ULP)
        best = np.max(moves.moved(known) - moves.rounding(known)[:, None] + moves.own, axis=0)
        # a round that does not take place leaves W as it is
        values = np.maximum(values, best * (1 - 16 * ULP) - 16 * ULP - moves.shifted)
    return Values(step, {steps: values})


def _repeat_work(last: int) -> float:
    """Operations of what is played in a row."""
    size = 8.0 * FINER * last
    return 40 * size * math.log2(max(size, 2.0))


def _measures_below(pair: Event, many: int, step: float, last: int) -> list[Masses]:
    """Measures below so many of a pair in a row, and of its reverse, at multiples of the step less `offset`.

    They are composed where losses are nearer to each other, and then merged until these are on the grid.
    """
    found, finer, reach = [], step / FINER, 2 * FINER * last
    for curve in _measures(pair, finer, FINER * last, REACHED - 5.0, both=True):
        masses = repeat_losses(curve.measures[1], many, reach)
        some = masses > 0.0
        places = np.asarray(many * curve.measures[1].offset + finer * (np.flatnonzero(some) - float(reach)))
        outcomes = Outcomes(places, np.log(masses[some]))
        found.append(contract(outcomes, 4 * ULP, Interval(-math.inf, math.inf), 0.0, Grid(step, 0.0)))
    return found


def game_work(measures: int, steps: int, size: int) -> float:
    return measures * steps * (TRANSFORM * math.log2(max(size, 2)) + CELL) * size


@lru_cache(maxsize=64)
def curve_of(sampled: Event) -> FloatArray:
    """The Rényi curve at `ORDERS`, which is asked for again and again."""
    return sampled._curve(ORDERS)


def grid_of(sampled: Event, steps: int, fine: float) -> tuple[float, int]:
    """Step and number of points, by the tilted deviation of a release's loss of which a step is that share, about.

    Any are a bound.
    """
    triple = sampled._triple()
    assert triple is not None
    of_losses = sampled if triple.repeats is None else usual_draws(triple.mu, triple.repeats, steps)
    curve = curve_of(of_losses)
    reach = float(np.nanmin(steps * curve - REACHED / (ORDERS - 1)))
    # the deviation under a tilt that matters: the loss's second moment, from its curve
    order = int(np.nanargmin(steps * curve - LIKELY / (ORDERS - 1)))
    deviation = math.sqrt(2 * float(curve[order]) / float(ORDERS[order]))
    last = min(math.ceil(reach / (fine * deviation)), MOST_CELLS)
    return reach / last, last


def _reach_of(pair: Event, direction: Direction, step: float, last: int, lost: float) -> Interval:
    """Losses beyond which e^lost is left, but no farther than the grid has points."""
    low, high = loss_range(pair, direction, 0.0, lost, lost)
    return Interval(max(low, -2 * last * step), min(high, 2 * last * step))


def _work_of(shapes: Sequence[Event], steps: int, step: float, last: int, lost: float) -> float:
    """Operations of the game and of its measures, if all reach as far as the first, about."""
    low, high = _reach_of(shapes[0], DIRECTIONS[0], step, last, lost)
    curves = 2 * (2 * (high - low) / step + LOOKS) * sum(shape._profile_work() for shape in shapes)
    return curves + game_work(2 * len(shapes), steps, round(1.1 * (last + 2 * max(-low, high) / step)))


def _measures(pair: Event, step: float, last: int, lost: float, both: bool = False) -> list[Bracket]:
    """Measures above, or on both sides of, the curves of both directions, at multiples of the step.

    Losses are looked for up to where e^lost is left.
    """
    found = []
    for direction in DIRECTIONS:
        reach = _reach_of(pair, direction, step, last, lost)
        spend((2 * (reach.upper - reach.lower) / step + LOOKS) * pair._profile_work(), "curves of triples")
        found.append(bracket(pair, direction, reach, 0.0, Grid(step, 0.0), both))
    return found


def repeat_losses(below: Masses, many: int, reach: int) -> FloatArray:
    """Masses below those of the sum of so many losses of a measure from below, at -reach, ..., reach grid points.

    Each loss has the measure's offset beside.
    """
    from scipy.fft import irfft, next_fast_len, rfft

    one = np.zeros(2 * reach + 1)
    first, last = max(below.first, -reach), min(below.first + below.weights.size - 1, reach)
    one[first + reach : last + reach + 1] = below.weights[first - below.first : last - below.first + 1]
    one *= math.exp(below.log_total) * (1 - 4 * ULP)
    size = int(next_fast_len(4 * reach + 1, real=True))

    def compose(first: FloatArray, second: FloatArray) -> FloatArray:
        error = 3 * transform_error(size) * norm(first) * norm(second)
        sums = irfft(rfft(first, size) * rfft(second, size), size)[reach : 3 * reach + 1]
        return np.asarray(np.maximum(sums * (1 - 4 * ULP) - error, 0.0))  # what is beyond is left out

    found = one
    for bit in bin(many)[3:]:  # from the second binary digit on
        found = compose(found, found)
        found = compose(found, one) if bit == "1" else found
    return found


def _moves(measures: Sequence[tuple[Masses, float]], step: float, last: int, side: int) -> Moves:
    """What measures above (1) or below (-1) do to values on the grid."""
    from scipy.fft import next_fast_len, rfft

    pad = max(max(-found.first, found.first + found.weights.size, 1) for found, _ in measures)
    far, size = max(pad, last), int(next_fast_len(last + 1 + 2 * pad, real=True))
    masses, own = np.zeros((len(measures), 2 * far + 1)), np.zeros((len(measures), last + 1))
    wholes = np.array([math.exp(found.log_total) for found, _ in measures])
    for i, (found, infinite) in enumerate(measures):
        masses[i, found.first + far : found.first + far + found.weights.size] = found.weights * wholes[i]
        curve = np.empty(2 * far + 1)
        polygon_values(masses[i], 0.0, step, 0.0, curve)  # a sum of positive terms
        own[i] = curve[far : far + last + 1] * (1 + side * 16 * far * ULP) + infinite
    transforms = np.asarray(rfft(masses[:, far - pad : far + pad + 1], size, axis=-1))
    # losses are the multiples of the step less a rounding, by which W is smaller by no more, as u |W'(u)| <= 1
    shifted = 4 * max(abs(found.offset) for found, _ in measures)
    return Moves(step, last, pad, size, transforms, wholes, own, shifted)
