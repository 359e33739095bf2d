"""How large losses of screenings still matter beside other releases, so that a game may end there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accountant.events.composition import Composition
from accountant.renyi.route import renyi_epsilon
from accountant.tight.loss_composition import Entries

__all__ = ["LossCap"]

FALL_NATS = 12.0
"""Log of how much smaller than delta is what screenings are not told of the other releases' losses."""

SHARE = 1e-3
"""Share of delta at which the other releases' price is a first guess."""

LEAST = 1e-250
"""The smallest delta that counts."""


@dataclass(frozen=True)
class LossCap:
    """Where games that come after `singles` may end, if epsilon is asked at `delta`, or a delta at `epsilon`.

    After a loss L of the other releases a screening's value is wanted at epsilon - L. What is beyond the end is
    bounded by what is there: a poor end costs nearness only.
    """

    singles: Entries
    delta: float | None = None
    epsilon: float = 0.0

    def first(self) -> float:
        """A guess."""
        if self.delta is None:
            return self.end(1.0)
        least = max(SHARE * self.delta, LEAST)
        return self.end(renyi_epsilon(Composition(self.singles), least, "improved").epsilon)

    def end(self, price: float) -> float:
        """What is enough where the price is not above that."""
        return self.epsilon + self._fall(price) if self.delta is None else price + self._fall(self.delta)

    def _fall(self, delta: float) -> float:
        """By how much the others' loss may be below 0, but for a chance far below delta."""
        # with a the order and b = a - 1, P(L < -c) <= E_Q[(Q/P)^b] e^-ac <= e^(b R(a) - ac)
        orders = 1 + np.geomspace(1e-6, 1e6, 121)
        curve = Composition(self.singles).renyi(orders)
        lost = math.log(max(delta, LEAST)) - FALL_NATS
        return float(np.nanmin(((orders - 1) * curve - lost) / orders))
