"""Several Gaussian releases on samples of a fixed size: the adversary chooses the triple of each step as he goes.

With F the step of all triples (`accountant.events.drawn_triples`), W_0(u) = (1 - u)_+ and W_n = F W_{n-1}, both kept at
u = e^(i step): a measure above a profile has its losses there, so that what is kept bounds W_n at all of these points,
and between two of them the chord does. A block of steps has the pair whose profile is W_n, and blocks are composed like
other releases (notebooks/mathematics.md, Runs of samples of a fixed size).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from accountant.adjacency import DIRECTIONS, Adjacency
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.drawn_triples import FARTHEST
from accountant.events.event import Event
from accountant.events.repeated_triples import UNUSUAL, cover_triples, usual_draws
from accountant.numerics.kernel import FloatArray
from accountant.numerics.lattice_powers import norm, transform_error
from accountant.numerics.roots import Interval
from accountant.patience import fits, remember, share_patience, spend
from accountant.tight.loss_grid import Grid, bracket, loss_range
from accountant.tight.polygon import ULP, Masses, polygon_values
from accountant.tight.trade_off import Rates, TradeOff

__all__ = ["DrawnBlock", "DrawnTradeOff", "join_drawn", "play_triples", "shares_between", "with_blocks"]

Entries: TypeAlias = Sequence[tuple[Event, int]]

LONGEST, LONGEST_REPEATED = 512, 256
"""Steps of a block, at most; of samples with replacement, whose losses reach farther."""

LEAST_DELTA = 1e-7
"""Delta below which blocks are no use, for what transforms round."""

SHARE = 0.6
"""Of the patience, which a game may take: the lower end is asked afterwards."""

FINE, FINE_STEPS = 0.1, 100
"""Step of the grid, as a share of the deviation of a release's loss, of so many steps; it grows like their root, as a
longer block gains more than a finer grid."""

MOST_CELLS = 2**12
"""Of a grid in each direction."""

REACHED, LIKELY = -30.0, -12.0
"""Logs of the delta that a grid reaches to, and of one near which most are asked."""

TRANSFORM, CELL, LOOKS = 1.0, 4.0, 600.0
"""Operations (see `accountant.patience`): of a transform by point and doubling, and of what else a step does; LOOKS are
the values of a curve that say how far it reaches."""

ORDERS = 1 + np.geomspace(1e-3, 1e3, 49)
"""Rényi orders that say how far losses reach."""


ComplexArray: TypeAlias = NDArray[np.complex128]
Curve: TypeAlias = tuple[FloatArray, FloatArray]


class Step(NamedTuple):
    """A measure above a curve: its transform, its mass, its own curve less (1 - u)_+, and what it has at infinity."""

    transform: ComplexArray
    whole: float
    own: FloatArray
    infinite: float


@dataclass(frozen=True)
class DrawnBlock(Event):
    """Some releases of one kind, as the pair that dominates all of them together."""

    sampled: Event
    steps: int
    played: int
    adjacency: Adjacency = Adjacency.REPLACE

    _profile_error = 1e-11

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.steps * self.sampled._curve(orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.sampled._curve_work(rate)

    def _profile_work(self) -> float:
        return 100.0

    @property
    def _largest_finite_loss(self) -> float:  # type: ignore[override]
        return float(self._played()[0][-2])

    def _played(self) -> Curve:
        return play_triples(self.sampled, self.played)[self.played - self.steps]

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        places, values = self._played()
        after = np.clip(np.searchsorted(places, epsilons, side="right"), 1, places.size - 1)
        low, high = places[after - 1], places[after]
        share = shares_between(np.minimum(epsilons - low, high - low), high - low)
        both = np.log((1 - share) * values[after - 1] + share * values[after])
        return both, both


def join_drawn(entries: Entries, delta: float) -> list[tuple[Event, int]] | None:
    """The releases with blocks in the place of those that are played; None where there are none."""
    if not delta >= LEAST_DELTA:
        return None
    found: list[tuple[Event, int]] = []
    for event, count in entries:
        found += _blocks(event, count) or [(event, count)]
    return found if any(isinstance(event, DrawnBlock) for event, _ in found) else None


def with_blocks(entries: Entries, delta: float, ask: Callable[[Entries], Interval], found: Interval) -> Interval:
    """An upper end, or that of blocks where it is smaller; `delta` is about the one that is asked."""
    if (joined := join_drawn(entries, delta)) is not None:
        with suppress(OutOfPatience, ToleranceUnreachable), share_patience(SHARE):
            return Interval(0.0, min(found.upper, ask(joined).upper))
    return found


@dataclass(frozen=True, eq=False)
class DrawnTradeOff(TradeOff):
    """What can be told at most, of releases one by one and of blocks: above, T is the smaller of both."""

    alone: TradeOff
    blocks: TradeOff

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        lower, upper = self.alone.rates(fprs, known)
        with suppress(OutOfPatience, ToleranceUnreachable), share_patience(SHARE):
            upper = np.minimum(upper, self.blocks.rates(fprs, known)[1])
        return np.minimum(lower, upper), upper

    def segments(self, floor: float, ceiling: float) -> Rates:
        middle = np.array([math.sqrt(floor * ceiling)])
        with suppress(OutOfPatience, ToleranceUnreachable), share_patience(SHARE):
            if self.blocks.rates(middle)[1][0] < self.alone.rates(middle)[1][0]:
                return self.blocks.segments(floor, ceiling)
        return self.alone.segments(floor, ceiling)

    def profile(self, epsilon: float) -> Interval:
        found = self.alone.profile(epsilon)
        with suppress(OutOfPatience, ToleranceUnreachable), share_patience(SHARE):
            upper = min(found.upper, self.blocks.profile(epsilon).upper)
            return Interval(min(found.lower, upper), upper)
        return found

    def at_zero(self) -> Interval:
        return self.alone.at_zero()


def _blocks(event: Event, count: int) -> list[tuple[Event, int]] | None:
    """Blocks of about one length, of one game."""
    triple = event._triple()
    if triple is None or count < 2 or not 0.0 < triple.rate < 1.0 or not 0.0 < triple.mu <= FARTHEST:
        return None
    blocks = -(-count // (LONGEST if triple.repeats is None else LONGEST_REPEATED))
    length, longer = divmod(count, blocks)
    if not longer:
        return [(DrawnBlock(event, length, length), blocks)]
    return [
        (DrawnBlock(event, length, length + 1), blocks - longer),
        (DrawnBlock(event, length + 1, length + 1), longer),
    ]


@remember("a game of triples", 64)
def play_triples(sampled: Event, steps: int) -> tuple[Curve, Curve]:
    """Losses from 0 on and the profile there at most, of so many steps and of one less."""
    from scipy.fft import irfft, next_fast_len, rfft

    triple = sampled._triple()
    assert triple is not None
    of_losses = sampled if triple.repeats is None else usual_draws(triple.mu, triple.repeats, steps)
    lost = REACHED - 5.0 if triple.repeats is None else UNUSUAL - math.log(steps)
    step, last = _grid(of_losses, steps)
    what, shapes = f"a game of {steps} samples", cover_triples(triple, steps)
    if not fits(least := _work(2 * len(shapes), steps, 2 * last)):
        spend(least, what)  # refused, before curves are computed for nothing
    measures = [each for shape in shapes for each in _measures(shape, step, last, lost)]
    pad = max(max(-found.first, found.first + found.weights.size) for found, _ in measures)
    size = int(next_fast_len(2 * (last + pad) + 1, real=True))
    spend(_work(len(measures), steps, size), what)
    made = [_step(*each, step, last, pad, size) for each in measures]
    before = excess = np.zeros(2 * last + 1)
    inside = (np.arange(2 * last + 1) + 2 * pad) % size
    for _ in range(steps):
        # W - (1 - u)_+ rises up to u = 1 and falls from there on: beyond the grid it is at most what it is at the end
        known = np.pad(excess, pad, mode="edge")
        ahead, rounding = rfft(known, size), 3 * transform_error(size) * norm(known)
        best = np.zeros_like(excess)
        for each in made:
            moved = irfft(ahead * each.transform, size)[inside]
            best = np.maximum(best, moved + each.own + (each.infinite + each.whole * rounding))
        before, excess = excess, np.minimum(best * (1 + 16 * ULP) + 16 * ULP, 1.0)
    places = step * np.arange(last + 1.0)
    return _hull(places, excess[last:]), _hull(places, before[last:])


def _work(measures: int, steps: int, size: int) -> float:
    return measures * steps * (TRANSFORM * math.log2(size) + CELL) * size


def _grid(of_losses: Event, steps: int) -> tuple[float, int]:
    """Step and number of points for what loses about as much; any are a bound."""
    curve = of_losses._curve(ORDERS)
    reach = float(np.nanmin(steps * curve - REACHED / (ORDERS - 1)))
    # the deviation under a tilt that matters: the loss's second moment, from its curve
    order = int(np.nanargmin(steps * curve - LIKELY / (ORDERS - 1)))
    deviation = math.sqrt(2 * float(curve[order]) / float(ORDERS[order]))
    fine = FINE * math.sqrt(max(steps / FINE_STEPS, 1.0))
    last = min(math.ceil(reach / (fine * deviation)), MOST_CELLS)
    return reach / last, last


def _measures(shape: Event, step: float, last: int, lost: float) -> list[tuple[Masses, float]]:
    """Measures above the curves of both directions at whole multiples of the step, and what they have at infinity.

    Losses are looked for up to where e^lost is left.
    """
    found = []
    for direction in DIRECTIONS:
        low, high = loss_range(shape, direction, 0.0, lost, lost)
        reach = Interval(max(low, -2 * last * step), min(high, 2 * last * step))
        spend((2 * (reach.upper - reach.lower) / step + LOOKS) * shape._profile_work(), "curves of triples")
        above = bracket(shape, direction, reach, 0.0, Grid(step, 0.0), both=False)
        found.append((above.measures[0], math.exp(above.log_infinite)))
    return found


def _step(found: Masses, infinite: float, step: float, last: int, pad: int, size: int) -> Step:
    """What the measure does to a value on the grid."""
    from scipy.fft import rfft

    whole, far = math.exp(found.log_total), max(pad, last)
    masses = np.zeros(2 * far + 1)
    masses[found.first + far : found.first + far + found.weights.size] = found.weights * whole
    own, losses = np.empty_like(masses), step * np.arange(-last, last + 1.0)
    polygon_values(masses, 0.0, step, 0.0, own)
    # a sum of positive terms; of u < 1 it is next to 1 - u
    least = -np.expm1(np.minimum(losses, 0.0)) * (1 - 4 * ULP)
    more = own[far - last : far + last + 1] * (1 + 16 * far * ULP) - least
    return Step(rfft(masses[far - pad : far + pad + 1], size), whole, more, infinite)


def shares_between(parts: FloatArray, wholes: FloatArray) -> FloatArray:
    """(e^part - 1)/(e^whole - 1), 0 <= part <= whole, which may be far beyond what exponentials reach."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(parts - wholes) * (np.expm1(-parts) / np.expm1(-wholes)))


def _hull(places: FloatArray, values: FloatArray) -> Curve:
    """The largest convex function of u = e^place below the values; a profile that is below them is below it."""
    kept: list[int] = []
    for new in range(places.size):
        while len(kept) > 1:
            first, middle = kept[-2], kept[-1]
            share = float(shares_between(places[middle] - places[first], places[new] - places[first]))
            if values[middle] < (1 - share) * values[first] + share * values[new]:
                break
            kept.pop()
        kept.append(new)
    # from the lowest on the profile falls no more
    found = values[kept]
    end = int(np.argmin(found)) + 1
    return np.append(places[kept][:end], places[kept][end - 1] + 700.0), np.append(found[:end], found[end - 1])
