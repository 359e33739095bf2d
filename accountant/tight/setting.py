"""What a run with screenings is priced with, however these are treated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accountant.adjacency import Direction
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.tight.answers import Game, LossDistribution
from accountant.tight.both_sides import BothSides
from accountant.tight.loss_composition import Entries
from accountant.tight.screening_families import GameValue

__all__ = ["Setting"]


@dataclass(frozen=True)
class Setting:
    """What a run is priced with, however its screenings are treated."""

    singles: Entries
    run: Composition
    end: float
    smallest_delta: Callable[[Sequence[float]], float]
    tolerance: float
    least: float

    def answers(self, families: Entries, blocks: Entries = ()) -> Game | LossDistribution:
        """All but `families`, which are played, are composed."""
        singles = [*self.singles, *blocks]
        if not singles:
            return Game(families, self.end, self.smallest_delta, self.tolerance, self.least)
        return LossDistribution(families, singles, self.run, self.end, self.smallest_delta, self.tolerance, self.least)

    def both_sides(
        self,
        families: Entries,
        blocks: Entries,
        order: float,
        below: dict[Direction, GameValue] | None = None,
        unseen: Event | None = None,
    ) -> BothSides:
        """`blocks` are composed from above; from below one order of the `families` is played, or what is known."""
        smallest, tolerance = self.smallest_delta, self.tolerance
        return BothSides(families, self.singles, blocks, order, smallest, tolerance, self.least, below, unseen)
