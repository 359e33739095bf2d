"""Screenings of several kinds from both sides: as blocks from above, in one order of the kinds from below.

Blocks bound every interleaving from above. From below stands an adversary who plays one kind after the other, the
costliest last, and any pair at every step: his game takes as many steps as there are screenings (notebooks/
mathematics.md, Several kinds of screening).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.decimals import format_up_short
from accountant.numerics.roots import Interval
from accountant.renyi.many_epsilons import deltas_at_many
from accountant.renyi.route import renyi_epsilon
from accountant.tight.answers import answer_all, certain_of
from accountant.tight.flat_ends import take_lower
from accountant.tight.games_last import LEAST_DELTA, lower_end
from accountant.tight.kept_losses import compose_nothing, deltas_at_hand
from accountant.tight.loss_composition import (
    Entries,
    Remainders,
    bound_delta,
    bound_delta_above,
    bound_epsilon,
)
from accountant.tight.screening_families import GameValue, solve_in_order

__all__ = ["BothSides", "join_refusals", "relative_width"]

SIDE_SHARE = 0.05
"""Share of the tolerance that the grids of either side may take."""

NEAR = 1e-4
"""The game of one order need not be known nearer: it is further from that of all orders."""


OTHER_WAYS = 2.0
"""What a price is said to take where several ways were begun, and none far enough, as a multiple of the next piece."""


@dataclass(frozen=True)
class BothSides:
    """Prices of `singles` and of screenings, of which `blocks` are above all interleavings.

    `order` is the Rényi order by which the costliest kind is told. `below` are bounds from below on what all screenings
    leave, if others are known than those of one order; `unseen` is an event that stands below all of them instead.
    `lost` is what screenings may add to delta beside their blocks.
    """

    families: Entries
    singles: Entries
    blocks: Entries
    order: float
    smallest_delta: Callable[[Sequence[float]], float]
    tolerance: float
    least: float = 0.0
    below: dict[Direction, GameValue] | None = None
    unseen: Event | None = None
    lost: float = 0.0
    source: str = "privacy-loss distribution of blocks of screenings"
    _played: dict[Direction, GameValue] = field(default_factory=dict, init=False, repr=False, compare=False)

    def epsilon(self, delta: float) -> Interval:
        """Bounds on the smallest epsilon at a delta."""
        run = Composition([*self.singles, *self.families])
        upper = renyi_epsilon(run, delta, "improved").epsilon
        if (left := math.nextafter(delta - self.lost, 0.0) if self.lost else delta) > 0.0:
            upper = min(upper, bound_epsilon([*self.singles, *self.blocks], left, self._share, above=True).upper)
        games = self._games(delta)
        if self.singles or self.unseen:
            lower = self._lower_end(bound_epsilon, delta, games)
        else:
            lower = max(game.epsilon(max(delta, LEAST_DELTA)).lower for game in games.values())
        return self._checked(Interval(lower, upper), 0.01 * math.sqrt(2 * float(run.renyi(2.0))))

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        """Bounds on delta at each epsilon."""
        games, run = self._games(self.smallest_delta(epsilons)), Composition([*self.singles, *self.families])
        renyi = dict(zip(epsilons, deltas_at_many(run, epsilons), strict=True))
        refused = list[OutOfPatience]()

        def answer(epsilon: float) -> Interval:
            if refused:  # what is composed is nearly the same at every point: none is tried after one that was refused
                raise refused[0]
            try:
                return self._delta(epsilon, games, renyi[epsilon])
            except OutOfPatience as error:
                if error.found is None:
                    refused.append(error)
                raise

        return answer_all(epsilons, answer)

    def deltas_at_hand(self, epsilons: Sequence[float]) -> list[Interval]:
        """What is known of deltas without composing anything, from how an epsilon was priced."""

        def above(points: Sequence[float]) -> list[Interval]:
            return [self._delta_above(epsilon) for epsilon in points]

        games, found = self.below or self._played, []
        for epsilon in epsilons:
            upper = deltas_at_hand(above, [epsilon])[0].upper
            with compose_nothing():
                lower = self._least_delta(epsilon, games)
            found.append(Interval(min(lower, upper), upper))
        return found

    def _delta(self, epsilon: float, games: dict[Direction, GameValue], renyi: float) -> Interval:
        upper = min(self._delta_above(epsilon).upper, renyi)
        return self._checked(Interval(self._least_delta(epsilon, games), upper), self.least)

    def _least_delta(self, epsilon: float, games: dict[Direction, GameValue]) -> float:
        """What is certified from below."""
        if not (games or self.unseen):  # nothing was played
            return 0.0
        if self.singles or self.unseen:
            return self._lower_end(bound_delta, epsilon, games)
        return max(game.delta(epsilon).lower for game in games.values())

    def _delta_above(self, epsilon: float) -> Interval:
        """Of the blocks, and what is beside them."""
        try:
            found = bound_delta_above([*self.singles, *self.blocks], epsilon, self._share)
        except ToleranceUnreachable as error:
            if error.found is not None:
                error.found = 0.0, min(error.found[1] + self.lost, 1.0)
            raise
        return Interval(0.0, min(found.upper + self.lost, 1.0))

    @property
    def _share(self) -> float:
        return max(SIDE_SHARE * self.tolerance, 1e-6)

    def _games(self, delta: float) -> dict[Direction, GameValue]:
        """What the adversary of one order gets of the screenings."""
        if self.below is not None or self.unseen is not None:
            return self.below or {}
        games = solve_in_order(Composition(self.families), self.order, max(delta, LEAST_DELTA), max(self._share, NEAR))
        self._played.update(zip(DIRECTIONS, games, strict=True))
        return self._played

    def _lower_end(self, bound: Callable[..., Interval], point: float, games: Remainders) -> float:
        """What he gets after all other releases, priced by what they cost at least."""
        certain = certain_of(self.singles) or self.singles
        if self.unseen is not None:
            return lower_end(bound, [*certain, (self.unseen, 1)], point, 4 * self._share, None)
        below = {way: take_lower(game) for way, game in games.items()}  # from above it is not asked, and may be wide
        return lower_end(bound, certain, point, 4 * self._share, below)

    def _checked(self, found: Interval, least: float) -> Interval:
        """The interval, unless it is wider than was asked."""
        width = (found.upper - found.lower) / max(found.upper, least, 1e-300)
        if width <= self.tolerance:
            return found
        refusal = ToleranceUnreachable("blocks of several kinds of screening are known no nearer")
        refusal.found, refusal.wide = found, format_up_short(width) if width < 1.0 else ""
        raise refusal


def relative_width(refusal: ToleranceUnreachable) -> float:
    """Of the interval that a refusal knows."""
    low, high = refusal.found or (0.0, math.inf)
    return (high - low) / high if high < math.inf else 1.0


def join_refusals(
    first: ToleranceUnreachable, refusals: Sequence[ToleranceUnreachable], clocks: OutOfPatience | None, several: bool
) -> ToleranceUnreachable:
    """What to say of all ways that were refused: why the price cannot be had, and what they have in common.

    `clocks` is the refusal of games that would do, and that are begun before all others; `several`: of many kinds.
    """
    known = [each for each in refusals if each.found is not None]
    nearest, first = min(known, key=relative_width, default=refusals[-1]), clocks or first
    said = first.args[0] if first is nearest else f"{first.args[0]}; otherwise: {nearest.args[0]}"
    refusal = ToleranceUnreachable(said)
    if isinstance(first, OutOfPatience):
        # other ways that were refused may be begun before one does, but where there is patience for games on clocks
        begun = [clocks] if clocks else [first, *(each for each in refusals if isinstance(each, OutOfPatience))]
        seconds = max(each.seconds for each in begun)
        refusal = OutOfPatience(said, seconds if known or clocks or not several else OTHER_WAYS * seconds)
        refusal.whole = clocks is not None
    if nearest.found is not None:
        # each is certified, and so is what all have in common
        lows, highs = zip(*(each.found for each in known if each.found is not None), strict=True)
        refusal.found, refusal.wide = (min(max(lows), min(highs)), min(highs)), nearest.wide
    return refusal
