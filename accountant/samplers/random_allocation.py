"""Every record takes part in k of t steps, drawn at random, once for all steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.errors import ParameterError, ProfileUnavailable, shorten
from accountant.events.answers import AdditiveNoise
from accountant.events.event import Event
from accountant.events.from_below import FromBelow, costs_less
from accountant.events.gaussian import Gaussian
from accountant.events.laplace import Laplace
from accountant.events.parameters import Range
from accountant.events.priced import PricedAsSeveral
from accountant.events.randomized_response import PureDP
from accountant.events.registry import register
from accountant.numerics.kernel import FloatArray
from accountant.samplers.allocation_curve import allocation_curve
from accountant.samplers.allocation_pairs import lower_pair, require_finite, upper_pair
from accountant.samplers.allocation_scores import about_price, best_rate
from accountant.samplers.allocation_subsets import Drawn, subset_pair
from accountant.samplers.pairs_of_steps import pair_of_two

__all__ = ["RandomAllocation"]


@register("random-allocation")
@dataclass(frozen=True)
class RandomAllocation(PricedAsSeveral):
    """Every record takes part in `selected` of `steps` steps, drawn uniformly and kept secret (balls into bins).

    One step is `event`, with the record in it or without it. The pair of one of t steps has the likelihood ratio
    ``(X_1 + ... + X_t) / t``, X_i independent ratios of one step (Feldman & Shenfeld 2025; proof for adaptive steps:
    notebooks/mathematics.md, Random allocation). It is bracketed in convex order, so that prices on the tight route are
    certified from both sides. For k > 1, from above: blocks of steps, as equal as can be, with one or two steps each;
    from below: what the sum of the steps' losses tells. With k = t the steps are priced themselves, as ``t * event``.
    A release is a whole epoch: ``10 * RandomAllocation(...)`` are ten, with fresh draws.

    The Rényi curve is an upper bound: moments of the distribution above, with proven bounds on what its grid leaves
    out. The profile is that of the dominating pair on a grid, a few thousandths above the exact one.

    Parameters
    ----------
    event : Event
        One step, under add-remove adjacency, with a single dominating pair: such as ``Gaussian(sigma)`` for DP-SGD with
        noise multiplier sigma. For one record alone the steps it is not in must not depend on it.
    steps : int
        Steps of an epoch; [1, 1e6].
    selected : int
        Steps in which each record takes part; [1, steps].

    Raises
    ------
    ParameterError
        `event` is not such an event, or a number is out of range.
    """

    event: Event
    steps: Annotated[int, Range(1, 1e6, usual=(1, 1000))]
    selected: Annotated[int, Range(1, 1e6, usual=(1, 1))] = 1
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.event, Event):
            raise ParameterError(f"event = {shorten(self.event)}; accepted: an event such as Gaussian(sigma)")
        if self.selected > self.steps:
            raise ParameterError(f"selected = {self.selected} of {self.steps} steps; accepted: [1, {self.steps}]")
        object.__setattr__(self, "event", _require_single_pair(self.event))

    @classmethod
    def examples(cls) -> tuple[RandomAllocation, ...]:
        return cls(Gaussian(1.0), 100), cls(Laplace(2.0), 10, 3)

    @property
    def additive_noise(self) -> AdditiveNoise | None:
        return self.event.additive_noise

    def caveats(self) -> tuple[str, ...]:
        drawn = f"every record takes part in {self.selected} of {self.steps} steps, drawn at random and kept secret"
        return (*self.event.caveats(), drawn)

    @property
    def between_bounds(self) -> bool:  # type: ignore[override]  # of each event
        return self.steps > self.selected

    def _several(self) -> tuple[Event, int]:
        return (self.event, self.steps) if self.selected == self.steps else (self, 1)

    @property
    def _tells_nothing(self) -> bool:
        return float(self.event._curve(np.array([math.inf]))[0]) == 0.0

    def _blocks(self) -> list[tuple[int, int]]:
        """Lengths of blocks of steps, one step of each of which is drawn, and how many there are of each length.

        If a step tells nothing, so does its mean with others.
        """
        if self._tells_nothing:
            return [(1, self.selected)]
        short, longer = divmod(self.steps, self.selected)
        return [(size, count) for size, count in ((short, self.selected - longer), (short + 1, longer)) if count]

    def _curve(self, orders: FloatArray) -> FloatArray:
        curve = np.zeros_like(orders)
        for size, count in self._blocks():
            curve += count * (self.event._curve(orders) if size == 1 else allocation_curve(self.event, size, orders))
        return curve

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.steps == 1 or self._tells_nothing:
            return self.event._log_profile(epsilons)
        if self.selected > 1:
            raise ProfileUnavailable(
                f"{self!r} is known between two bounds, by no single profile; accepted: its price, or selected = 1"
            )
        found = []
        for index, direction in enumerate(DIRECTIONS):
            pair = upper_pair(self.event, self.steps, direction, self._usual_step(), USUAL_LOST)
            found.append(pair._log_profile(epsilons)[index] + pair._profile_error)
        return np.minimum(found[0], 0.0), np.minimum(found[1], 0.0)

    def _usual_step(self) -> float:
        return 0.05 * math.sqrt(math.expm1(min(float(self.event._curve(np.array([2.0]))[0]), 50.0)) / self.steps)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        make = upper_pair if sign > 0 else lower_pair
        found: list[tuple[Event, int]] = []
        for size, count in self._blocks():
            if size == 1:
                found.append((self.event, count))
                continue
            pair = make(self.event, size, direction, step, log_lost)
            if sign > 0:
                require_finite(pair, direction, log_lost)
            found.append((pair, count))
        if sign < 0 or (pairs := self._pairs_of_steps(direction, step, log_lost)) is None:
            return found
        log_delta = min(log_lost + BEYOND, -1.0)
        return min(found, pairs, key=lambda pieces: about_price(pieces, direction, log_delta))

    def _pairs_of_steps(self, direction: Direction, step: float, log_lost: float) -> list[tuple[Event, int]] | None:
        """From above, often nearer, where there is patience: blocks of which two steps are drawn, or one."""
        if self._tells_nothing or not 1 < self.selected < self.steps:
            return None
        single = self.steps // self.selected if self.selected % 2 else 0
        twos = self.selected // 2
        short, longer = divmod(self.steps - single, twos)
        found: list[tuple[Event, int]] = []
        sizes = [(size, count) for size, count in ((short, twos - longer), (short + 1, longer)) if count]
        for size, count in sizes:
            if size == 2:
                found.append((self.event, 2 * count))
                continue
            pair = pair_of_two(self.event, size, direction, log_lost, MOST / len(sizes))
            if pair is None:
                return None
            found.append((pair, count))
        if single:
            found += RandomAllocation(self.event, single)._surrogates(direction, step, log_lost, 1)
        return found

    def _certain(self, times: int = 1) -> Event:
        if costs_less(self.event):
            return PureDP(0.0, self.adjacency)
        return self if self.selected in (1, self.steps) or self._tells_nothing else SumOfLosses(self, max(times, 1))

    def _sketch(self) -> Event:
        return LeadingMoments(self) if self.steps >= MANY * self.selected else self

    @property
    def _amplified(self) -> bool:
        return False


@dataclass(frozen=True)
class LeadingMoments(Event):
    """About the curve of an epoch: E X^a of a normal log X with the mean's variance, and of one large ratio."""

    epoch: RandomAllocation
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def _curve(self, orders: FloatArray) -> FloatArray:
        own, curve = self.epoch.event._curve(orders), np.zeros_like(orders)
        variance = math.expm1(min(float(self.epoch.event._curve(np.array([2.0]))[0]), 700.0))
        inner = (orders > 1) & (orders < math.inf)
        a = orders[inner]
        for size, count in self.epoch._blocks():
            block = own.copy()
            spread = a * (a - 1) / 2 * math.log1p(variance / size)
            large = (a - 1) * (own[inner] - math.log(size))
            block[inner] = np.minimum(np.logaddexp(spread, large) / (a - 1), own[inner])
            curve += count * block
        return curve


@dataclass(frozen=True)
class SumOfLosses(FromBelow):
    """What the sum of the steps' rounded losses tells of who took part: no more than all steps do."""

    epoch: RandomAllocation
    times: int = 1
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.epoch._curve(orders)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        event, drawn = self.epoch.event, Drawn(self.epoch.steps, self.epoch.selected, 0.0)
        log_delta = min(log_lost + BEYOND + math.log(self.times), -1.0)
        rate = best_rate(event, drawn, direction, log_delta, self.times)
        return [(subset_pair(event, drawn._replace(rate=rate), direction, step, log_lost), 1)]


BEYOND = 16.0
"""Log of how much less than delta, for each release, is left out of a run."""

USUAL_LOST = -60.0
"""Log of what the grid of the profile leaves out."""

MOST = 1.2e9
"""Operations that blocks of which two steps are drawn may take in one direction."""

MANY = 50
"""Steps of a block from which on its leading moments are near enough, and its curve takes much longer."""


def _require_single_pair(event: Event) -> Event:
    """The event, if it is one dominating pair with finite losses that are not too large."""
    what = None
    if event.adjacency is not Adjacency.ADD_REMOVE:
        what = "under replace adjacency, where nothing is proven"
    elif event.family:
        what = "a family of pairs"
    elif event.data_dependent:
        what = "data-dependent"
    elif event.group_size > 1 or isinstance(event, RandomAllocation):
        what = "a whole epoch or a group"
    elif not event._amplified or not math.isfinite(float(event._curve(np.array([64.0]))[0])):
        what = "with losses that may be infinite, or with neighbours that differ in more than one record"
    if what is not None:
        raise ParameterError(
            f"event = {shorten(event)} is {what}; accepted: an event under add-remove adjacency with a single "
            "dominating pair, such as Gaussian(sigma), Laplace(scale) or PureDP(epsilon)"
        )
    event._log_profile(np.zeros(1))  # refuses events that have none
    return event
