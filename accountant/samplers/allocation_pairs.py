"""The pair of random allocation, bracketed: likelihood ratios of t steps, averaged.

One record takes part in one of t steps, drawn at random. Let (P, Q) dominate a step with it against a step without it.
Then the mean over i of Q^(i-1) x P x Q^(t-i), against Q^t, dominates all t steps, adaptively chosen ones too, and its
likelihood ratio under Q^t is the mean of t independent ones (proof: notebooks/mathematics.md, Random allocation).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.discrete_pair import DiscretePair, Outcomes
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import fits, has_limit, remember, spend, tally_work
from accountant.samplers.lattice_sums import sum_on_lattice
from accountant.samplers.likelihoods import (
    ADDITION,
    CONTRACTING,
    LAG,
    MOST_PRODUCTS,
    Contraction,
    Ratios,
    Spread,
    Sum,
    add_contractions,
    add_spreads,
    too_many_products,
)
from accountant.tight.directed_run import CELL, LOOKS
from accountant.tight.loss_grid import aligned_step, bracket, largest_atom, loss_range
from accountant.tight.polygon import ULP, Grid, Masses

__all__ = ["LARGEST_STEP", "bracket_step", "lower_pair", "pair_below", "require_finite", "sum_above", "upper_pair"]

LARGEST_STEP = 0.125
"""Coarsest grid of one step's losses, in nats."""

NEAR, LEAST_STEP = 3.0, 0.02
"""That grid is at most so many times as coarse as that of the sum, where a single large ratio decides; but no finer."""

LARGEST_LOSS = 300.0
"""Losses of one step beyond which a grid does not go."""

LARGEST_EXCESS = 10.0
"""Log of how much more than asked for may lie beyond those."""

FINEST = 2.0**-53
"""Finest grid of one step's losses: ratios nearer to 1 are no floats."""

MARGIN = 3.0
"""Nats by which what one addition cuts off is less than what all may."""


FINER = 1.4
"""Grid of sums, relative to that on which losses are composed, times the root of the number of additions."""

REMEMBERED = 8
"""Pairs of each side that are remembered: up to 100 MB each, usually a hundredth of it."""

LIGHT = 0.1
"""Variance of a mean of ratios up to which their sum is tried on a lattice: beyond, additions are faster."""

LATTICE, LOSSES = 0.3, 0.2
"""Steps of that lattice, and of the losses that move to it, relative to the grid in units of the ratio's deviation."""

COARSEST = 0.5
"""Largest step of a lattice: the mean is 1."""

REHEARSED = 4e6
"""Operations, about, of the products on coarser grids that tell how many finer ones take."""

BLOCKS = 100
"""Masses of one step that are enough for that."""

SURE = 1.2
"""A rehearsal may say so many times too much: work is refused by it only beyond that."""

LEEWAY = 8.0
"""Log of how much more than asked for a lattice's sum may be off: still little of delta."""


def other(direction: Direction) -> Direction:
    return DIRECTIONS[1 - DIRECTIONS.index(direction)]


@remember("the losses of one step", 16)
def bracket_step(event: Event, direction: Direction, step: float, log_lost: float) -> tuple[Spread, Contraction]:
    """The likelihood ratio of one step under Q, from above and from below for that direction.

    Measures of H(P||Q) have E(X - u)_+ on their side for every u >= 0, those of H(Q||P) E(1 - u X)_+. For sums of
    positive variables nothing else is needed, if below neither P nor Q has more than 1.
    """
    if not step >= FINEST:
        raise ToleranceUnreachable(
            f"random allocation of {event!r} takes a grid of {step:.3g} nats; accepted: at least {FINEST:.3g}, "
            'or method="renyi"'
        )
    value = event._profile_work()
    spend(2 * LOOKS * value, "how far the losses of one step reach")
    top = min(loss_range(event, direction, 0.0, log_lost, log_lost).upper, LARGEST_LOSS)
    bottom = min(loss_range(event, other(direction), 0.0, log_lost, log_lost).upper, LARGEST_LOSS)
    step = aligned_step([(event, 1)], direction, step, 0.0)
    cells = (top + bottom) / step + 2
    spend(2 * cells * (value + CELL), f"the losses of one step in {cells:.0f} cells")
    offset = largest_atom(event, direction, step)
    # of two measures below the one with the larger second moment is taken
    found = bracket(event, direction, Interval(-bottom, top), offset, Grid(step, 1.0))
    mirrored = direction == DIRECTIONS[1]
    masses, index, start, error = _ratios(found.measures[0], step, mirrored, True)
    if not float(masses.sum()) < 2.0:  # the profile at 0 is below the rounding of 1
        raise ToleranceUnreachable(f"losses of {event!r} are too small for a grid; accepted: method='renyi'")
    infinite = math.exp(found.log_infinite)
    zero = infinite if mirrored else max(1 - float(masses.sum()), 0.0)
    upper = Spread(masses, index, start, step, zero, 0.0 if mirrored else infinite, error, 4 * ULP)
    masses, index, start, error = _ratios(found.measures[1], step, mirrored, False)
    places = np.exp(start + step * (index + np.arange(masses.size)))
    zero = 0.0 if mirrored else max(1 - float(masses.sum()) * (1 + error), 0.0)
    return upper, Contraction(masses, places, index, start, step, zero, error, 4 * ULP)


def _ratios(measure: Masses, step: float, mirrored: bool, above: bool) -> tuple[FloatArray, int, float, float]:
    """Masses of Q by rising X = dP/dQ, index of the first, offset of log X, and relative rounding.

    A measure may have more than 1 of the second distribution, at its lowest losses, where it rounds to the safe side.
    There the first's mass, which is tiny, is dropped from a measure below that direction; above it moves up to loss 0,
    which raises every hockey stick. E(1 - u X)_+ from below does not mind a mean above 1.
    """
    losses = measure.offset + step * (measure.first + np.arange(measure.weights.size))
    error = 8 * ULP * (2 + float(np.max(np.abs(losses))) + abs(measure.log_total))
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(measure.weights) + measure.log_total - losses
        first, second = np.exp(logs), np.exp(logs - losses)
    later = np.append(np.cumsum(second[::-1])[::-1][1:], 0.0)
    share = np.clip(1 - 1e-12 - later, 0.0, second) / np.maximum(second, 1e-300) if above or not mirrored else 1.0
    out = float(np.sum(first * (1 - share)))
    first, second = first * share, second * share
    if above:
        place = int(np.argmin(np.abs(losses)))
        first[place] += out
        second[place] += out * math.exp(-losses[place])
    if mirrored:  # losses are log dQ/dP
        return first[::-1].copy(), -(measure.first + first.size - 1), -measure.offset, error
    return second, measure.first, measure.offset, error


def add_copies(
    one: Sum, count: int, step: Callable[[int], float], log_lost: float, add: Callable[[Sum, Sum], Sum]
) -> Sum:
    """The sum of `count` independent copies, by doubling; `step(m)` is wanted of the grid of m of them.

    Raises
    ------
    ToleranceUnreachable
        It takes too long, which is found out before it is begun.
    """
    span = one.masses.size * one.step + math.log(count)
    most = 2.0 * math.log2(2 * count) * CONTRACTING * (span / min(one.step, step(count))) ** 2
    # of few masses that stay as few coarser grids do not tell how many sums have
    few = isinstance(one, Contraction) and 2 * int(np.count_nonzero(one.masses)) < one.masses.size
    if most > 4 * REHEARSED and not few and not fits(most):
        rehearse(one, count, step, log_lost, add, math.sqrt(most / REHEARSED)).require_patience()
    return _double(one, count, step, log_lost, add)


def rehearse(
    one: Sum,
    count: int,
    step: Callable[[int], float],
    log_lost: float,
    add: Callable[[Sum, Sum], Sum],
    coarser: float,
) -> Rehearsal:
    """The same on coarser grids, at first on much coarser ones, then on about as fine ones as there is time for."""
    while True:
        rehearsal = Rehearsal(one.step, step, add, coarser)
        _double(rehearsal.coarsen(one), count, rehearsal.step, log_lost, rehearsal.add)
        finer = max(coarser * math.sqrt(rehearsal.taken / REHEARSED), 1.0)
        if finer > 0.7 * coarser:
            return rehearsal
        coarser = max(finer, coarser / 8)


class Rehearsal:
    """The same sum on coarser grids, whose work is scaled to that on the grids that are wanted."""

    def __init__(
        self, first: float, wanted: Callable[[int], float], add: Callable[[Any, Any], Any], coarser: float
    ) -> None:
        self.finest, self.wanted, self.of_two, self.coarser = first, wanted, add, coarser
        self.work = self.products = self.taken = 0.0

    def coarsen(self, one: Sum) -> Sum:
        """About the same with fewer masses: blocks of them."""
        times = int(min(self.coarser, one.masses.size / BLOCKS))
        if times < 2:
            return one
        starts = np.flatnonzero(np.append(True, np.diff((one.first + np.arange(one.masses.size)) // times)))
        found = replace(
            one, masses=np.add.reduceat(one.masses, starts), first=one.first // times, step=one.step * times
        )
        return found if isinstance(found, Spread) else replace(found, places=one.places[starts])

    def step(self, size: int) -> float:
        while self.finest > 1.4 * self.wanted(size):
            self.finest /= 2
        return self.coarser * self.wanted(size)

    def add(self, a: Sum, b: Sum) -> Sum:
        with tally_work() as tally:
            found: Sum = self.of_two(a, b)
        step = min(a.step, b.step)
        finer, beside = step / self.finest, LAG * sum(each.masses.size * each.step / step for each in (a, b))
        products = max(tally[0] - beside - ADDITION, 0.0)  # sizes are known but for a few points
        self.taken += products
        self.work += finer**2 * products + finer * beside + ADDITION
        self.products = max(self.products, finer**2 * a.masses.size * b.masses.size)
        return found

    def require_patience(self) -> None:
        """Refuse what would be refused on the way."""
        if self.products > SURE * MOST_PRODUCTS and not has_limit():
            raise too_many_products(self.products)
        if not fits(self.work / SURE):
            spend(self.work, "sums of likelihood ratios")


def _double(one: Sum, count: int, step: Callable[[int], float], log_lost: float, add: Callable[[Sum, Sum], Sum]) -> Sum:
    beyond = math.exp(log_lost - MARGIN) + 1e-300
    power, size, result, added = one, 1, None, 0
    while True:
        if count // size % 2:
            added += size
            result = power if result is None else add(result, power).trim(beyond * added / count, beyond * added)
        if 2 * size > count:
            assert result is not None
            return result
        power, size = add(power, power).trim(2 * beyond * size / count, 2 * beyond * size), 2 * size
        while power.step > 1.4 * step(size):
            power = power.refine(2)


def pair_above(total: Ratios, steps: int, direction: Direction) -> Outcomes:
    """The mean of `steps` ratios as a pair of which the larger distribution has mass 1, and the other at least 1.

    Then E(X - u)_+ = 1 - u + E(u - X)_+ up to what raises the bound of that direction.
    """
    remove = direction == DIRECTIONS[0]
    masses, places, lost = total.masses, total.places / steps, total.lost / steps
    moved = total.moved + 8 * ULP * (2 + float(np.max(np.abs(np.log(places)))) + math.log(steps))
    error = total.error + moved + ULP * (masses.size + 8)
    moments, whole = lost + float(np.sum(masses * places)), total.zero + float(masses.sum())
    excess = max(moments if remove else whole, 1.0) * (1 + 1e-15)
    masses = masses / excess
    return Outcomes(
        masses,
        places,
        zero=max(1 - float(masses.sum()), 0.0) + error if remove else total.zero,
        lost=lost if remove else max(1 - float(np.sum(masses * places)), 0.0) + error,
        accuracy=(excess - 1) + 2 * total.error + ULP * (8 * masses.size + 64),
        moved=moved,
    )


def sum_above(
    event: Event, steps: int, direction: Direction, step: float, log_lost: float, first: float = LARGEST_STEP
) -> Spread:
    """The sum of the ratios of `steps` steps, from above, on a grid of about `step` for the loss; `first` for one's."""
    one = bracket_step(event, direction, min(first, step * math.sqrt(steps), LARGEST_STEP), log_lost)[0]
    return add_copies(one, steps, lambda size: step * math.sqrt(steps / size), log_lost, add_spreads)


@remember("sums of likelihood ratios", REMEMBERED)
def upper_pair(event: Event, steps: int, direction: Direction, step: float, log_lost: float) -> DiscretePair:
    """A pair above that of one of `steps` steps, on a grid of about `step` for the loss."""
    total = _sum_on_lattice(event, steps, direction, step, log_lost, 1)
    if total is None:
        step = _finer(steps, step)
        found = sum_above(event, steps, direction, step, log_lost, _first_step(step))
        total = Ratios(found.masses, found.places, found.zero, found.lost, found.error, found.moved)
    return DiscretePair(pair_above(total, steps, direction))


def _sum_on_lattice(
    event: Event, steps: int, direction: Direction, step: float, log_lost: float, sign: int
) -> Ratios | None:
    """The sum of the ratios on a lattice, if they are many and its range is not too long."""
    variance = math.expm1(min(float(event._curve(np.array([2.0]))[0]), 50.0))
    if variance > LIGHT * steps:
        return None
    width, removed = step * math.sqrt(steps), direction == DIRECTIONS[0]
    one = bracket_step(event, direction, min(LOSSES * width, LARGEST_STEP), log_lost)[0 if sign > 0 else 1]
    return sum_on_lattice(one, steps, min(LATTICE * width, COARSEST), log_lost + LEEWAY, removed)


def require_finite(pair: DiscretePair, direction: Direction, log_lost: float) -> None:
    """Raise ToleranceUnreachable if much more than exp(log_lost) of the losses lies beyond the grid."""
    infinite = pair.infinite_mass(direction)
    if infinite > math.exp(log_lost + LARGEST_EXCESS) + 1e-290:
        raise ToleranceUnreachable(
            f"random allocation: losses of one step are above {LARGEST_LOSS:g} nats with probability {infinite:.2g}; "
            'accepted: at most that, or method="renyi"'
        )


@remember("sums of likelihood ratios", REMEMBERED)
def lower_pair(event: Event, steps: int, direction: Direction, step: float, log_lost: float) -> DiscretePair:
    """A pair below that of one of `steps` steps, on a grid of about `step` for the loss."""
    total = _sum_on_lattice(event, steps, direction, step, log_lost, -1)
    if total is None:
        step = _finer(steps, step)
        first = min(_first_step(step), step * math.sqrt(steps), LARGEST_STEP)
        one = bracket_step(event, direction, first, log_lost)[1]
        if not one.masses.any():
            raise ToleranceUnreachable(f"losses of {event!r} are so small that nothing is known of them from below")
        found = add_copies(one, steps, lambda size: step * math.sqrt(steps / size), log_lost, add_contractions)
        total = Ratios(found.masses, found.places, found.zero, 0.0, found.error, found.moved)
    return pair_below(total._replace(places=total.places / steps, lost=total.lost / steps), direction)


def pair_below(mean: Ratios, direction: Direction) -> DiscretePair:
    """A pair from below: of the other direction only what is certain counts.

    With E(v - X)_+ bounded from below E(X - u)_+ is at least that of the masses, plus 1 - their mean, which may be
    above 1, less u times what they lack of 1; with E(X - u)_+ bounded E(v - X)_+ is at least theirs less what their
    mean lacks.
    """
    order = np.argsort(mean.places, kind="stable")
    masses, places = mean.masses[order], mean.places[order]
    accuracy = 2 * mean.error + ULP * (8 * masses.size + 64)
    moved = mean.moved + 8 * ULP * (2 + float(np.max(np.abs(np.log(places[masses > 0])))))
    whole, moments = mean.zero + float(masses.sum()), float(np.sum(masses * places))
    mirrored = direction == DIRECTIONS[1]
    lack = max(1 - (whole if mirrored else moments + mean.lost), 0.0) + accuracy + moved
    lost = 1 - moments * (1 + accuracy) if mirrored else mean.lost
    return DiscretePair(Outcomes(masses, places, mean.zero, lost, accuracy, -moved), lack, mirrored)


def _finer(steps: int, step: float) -> float:
    """The grid of sums by additions, each of which costs as much as the grid itself."""
    return step * FINER / math.sqrt(1 + math.log2(steps))


def _first_step(step: float) -> float:
    """The coarsest grid of one step's losses for a grid of sums: beside a single large ratio all others are near 1."""
    return max(NEAR * step, LEAST_STEP)
