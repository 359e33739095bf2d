"""Prices of a run whose profile is known, or whose one release is priced by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.errors import OutOfPatience
from accountant.events.composition import Composition
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval, exponentiate
from accountant.patience import spend
from accountant.renyi.route import renyi_deltas_at, renyi_epsilon
from accountant.tight.closed_forms import ACCURACY, PLACES, ClosedForm, inverse_profile
from accountant.tight.trade_off import ProfileTradeOff, TradeOff, both_signs

__all__ = ["KnownProfile", "from_closed_form"]


@dataclass(frozen=True)
class KnownProfile:
    """The profile of the whole run, or its logarithm, is known; of a run between two bounds from above.

    The Rényi bound of such a run, `bounded`, may be the sharper one.
    """

    known: ClosedForm
    bounded: Composition | None = None

    @property
    def source(self) -> str:
        return self.known.source

    def epsilon(self, delta: float) -> Interval:
        if self.known.alone is not None:
            return Interval(0.0, self.known.alone.epsilon(math.log(delta)))
        found = inverse_profile(self.known, math.log(delta))
        if self.bounded is not None:
            with suppress(OutOfPatience):
                known = renyi_epsilon(self.bounded, delta, "improved").epsilon
                return Interval(found.lower, min(found.upper, known))
        return found

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        if self.known.alone is not None and len(epsilons) == 1:
            return [Interval(0.0, self.known.alone.delta(epsilons[0]))]
        points = np.asarray(epsilons, dtype=float)
        spend(self._work(points), f"{2 * points.size} values of a profile")
        lows, highs = self.known.log_least(points * (1 + PLACES)), self.known.log_profile(points * (1 - PLACES))
        ends = zip(lows.tolist(), highs.tolist(), strict=True)
        found = [exponentiate(low - ACCURACY, high + ACCURACY) for low, high in ends]
        if self.bounded is not None:
            with suppress(OutOfPatience):
                known = np.concatenate([*renyi_deltas_at(self.bounded, points, "improved")]).tolist()
                return [Interval(each.lower, min(each.upper, other)) for each, other in zip(found, known, strict=True)]
        return found

    def trade_off(self, direction: Direction) -> TradeOff:
        forward = DIRECTIONS.index(direction)

        def log_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            spend(self._work(x), f"{2 * x.size} values of a profile")
            size, ends = np.abs(x), []
            for sign in (1.0, -1.0):
                points = size * (1 + sign * PLACES)
                both = self._both(points)
                logs = (np.minimum(each - sign * ACCURACY, 0.0) for each in (both[forward], both[1 - forward]))
                ends.append(both_signs(x, *logs))
            return ends[0], ends[1]

        return ProfileTradeOff(log_bounds)

    def _work(self, points: FloatArray) -> float:
        """Operations of values from below and from above."""
        return 2 * (points.size * self.known.work + self.known.call)

    def _both(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.known.directed is not None:
            return self.known.directed(points)
        return (self.known.log_profile(points),) * 2


def from_closed_form(known: ClosedForm, run: Composition) -> KnownProfile:
    """A known profile; whoever replaces a record may do so in both directions, and meets the larger profile."""
    bounded = run if any(event.between_bounds for event in run.entries) else None
    return KnownProfile(known if run.adjacency is Adjacency.ADD_REMOVE else known._replace(directed=None), bounded)
