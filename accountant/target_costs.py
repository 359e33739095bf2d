"""What the values of a calibration cost, by either route."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee
from accountant.price import as_composition, sharper_epsilon
from accountant.price import epsilon as price
from accountant.renyi.conversion import Conversion
from accountant.tight.drawn_game import has_games
from accountant.value_search import Cost

__all__ = ["Costs", "Risks"]

CLOSED = 1e-9
"""How wide an interval is, at most and relatively, where a price is known but for rounding."""


@dataclass(frozen=True)
class Costs:
    """Epsilon at a delta, by either route, of what a value makes."""

    make: Callable[[float], Event | Composition]
    point: float
    rule: Conversion
    width: float
    known: dict[float, float] = field(default_factory=dict, init=False)  # by the Rényi route
    closed: set[float] = field(default_factory=set, init=False)  # values whose price is known but for rounding
    played: set[bool] = field(default_factory=set, init=False)  # whether runs have games

    def renyi(self, x: float) -> float:
        if x not in self.known:
            self.known[x] = price(self._run(x), self.point, method="renyi", conversion=self.rule).epsilon
        return self.known[x]

    def tight(self, x: float, width: float | None = None) -> float:
        return self._upper(x, price(self._run(x), self.point, method="tight", tolerance=width or self.width))

    def sharper(self, x: float, width: float) -> float:
        """The smaller of both; refused where there is no tight price."""
        return self._upper(x, sharper_epsilon(self._run(x), self.point, self.rule, width))

    def _run(self, x: float) -> Composition:
        run = as_composition(self.make(x))
        self.played.add(has_games(list(run)))
        return run

    def _upper(self, x: float, found: Guarantee) -> float:
        """The upper end of a price."""
        if found.lower is not None and found.epsilon - found.lower <= CLOSED * found.epsilon:
            self.closed.add(x)
        return found.epsilon

    def nearest(self, goal: float) -> tuple[float, int] | None:
        """Of what is known by the Rényi route, the value nearest to a goal, and whether costs rise with the value."""
        points = sorted(x for x, cost in self.known.items() if 0.0 < cost < math.inf)
        change = self.known[points[-1]] - self.known[points[0]] if points else 0.0
        if change == 0.0 or not goal > 0.0:
            return None
        return min(points, key=lambda x: abs(math.log(self.known[x] / goal))), 1 if change > 0.0 else -1

    def are_above(self, goal: float, cost: Cost) -> bool:
        """Whether all costs are above a goal: what costs least by the Rényi route, of what is known, does so by any.

        Where that route says the same of all, nothing is known of what costs least.
        """
        if not self.known or not min(self.known.values()) < max(self.known.values()):
            return False
        return cost(min(self.known, key=self.known.__getitem__)) > goal


@dataclass(frozen=True)
class Risks(Costs):
    """The upper end of a risk instead."""

    risk: Callable[[Composition, dict[str, Any]], float]

    def renyi(self, x: float) -> float:
        if x not in self.known:
            self.known[x] = self.risk(self._run(x), {"method": "renyi"})
        return self.known[x]

    def tight(self, x: float, width: float | None = None) -> float:
        return self.risk(self._run(x), {"method": "tight", "tolerance": width or self.width})

    def sharper(self, x: float, width: float) -> float:
        return self.tight(x, width)
