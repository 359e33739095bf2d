"""Where the value of a calibration is searched: from a start on, or near a guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from accountant.calibration import FINE, Bounds, solve, solve_near
from accountant.errors import AccountantError, CalibrationError
from accountant.numerics.decimals import format_down, format_up
from accountant.patience import PATIENCE, allow_work, foresee

__all__ = ["Bracket", "Cost", "Search", "most_economical"]

Cost = Callable[[float], float]
"""What a value of the parameter costs."""

ROUNDING = 1e-9
"""By how much a cost may move in the wrong direction, relatively."""

SAFE, UNSURE, BENT = 0.05, 0.3, 0.5
"""Share of the way to where a line meets the target by which the last price stays on the side that meets it, and where
it is told by prices at other tolerances; and where two prices are near, which are more nearly on a line, that share of
how far they are apart."""


@dataclass(frozen=True)
class Search:
    """Where values are searched.

    Attributes
    ----------
    bounds : (float, float)
    start : float
    integer : bool
    accepts : callable
        Whether a value is in range at all.
    """

    bounds: tuple[float, float]
    start: float
    integer: bool
    accepts: Callable[[float], bool]

    def anywhere(self, cost: Cost, goal: float, *, slack: float = ROUNDING, fine: float = FINE, **more: int) -> float:
        """From the start on."""
        how: Any = {"integer": self.integer, "slack": slack, "fine": max(FINE, fine)}
        bounds = Bounds(*self.bounds, self.accepts, **more)
        costs: dict[float, float] = {}

        def excess(x: float) -> float:
            costs[x] = cost(x)
            return costs[x] - goal

        try:
            return solve(excess, bounds, self.start, **how)
        except CalibrationError as error:
            least, most = min(costs.values(), default=0.0), max(costs.values(), default=0.0)
            if goal < least < math.inf:
                accepted = f"a larger one, such as {format_up(least)}"
                raise CalibrationError(f"{error}: target = {goal:g}; accepted: {accepted}") from None
            if not least < most or most - goal != least - goal:
                raise
            # beside such a target no difference between them is seen
            raise CalibrationError(
                f"target = {goal:g}, which all values from {min(costs):g} to {max(costs):g} meet; accepted: "
                f"[{format_up(least)}, {format_down(most)}]"
            ) from None

    def near(
        self, cost: Cost, goal: float, guess: tuple[float, int], *, width: float, fine: float | None = None
    ) -> float:
        """From a guess on, by few prices."""
        how: Any = {"integer": self.integer, "slack": width, "fine": fine or max(FINE, width / 1000)}
        return solve_near(lambda x: cost(x) / goal, self.bounds, guess, **how)

    def rises(self, cost: Cost, found: float) -> int | None:
        """Whether the cost rises (1) or falls (-1) around a value; None if that cannot be told."""
        for beside in (2 * found, found / 2):
            x = float(round(beside)) if self.integer else beside
            if self.bounds[0] <= x <= self.bounds[1] and x != found:
                with suppress(AccountantError):
                    change = (cost(x) - cost(found)) * (x - found)
                    return (1 if change > 0 else -1) if change else None
        return None


@dataclass
class Bracket:
    """What the prices of a search say where patience ends: some is kept for a last one, just where the target is met.

    Attributes
    ----------
    goal : float
    rises : int
        Whether the cost rises with the value (1) or falls (-1).
    integer : bool
    met : list of float
        Values that meet the target.
    """

    goal: float
    rises: int
    integer: bool
    met: list[float] = field(default_factory=list)
    prices: dict[float, dict[float, float]] = field(default_factory=dict)  # by tolerance and value
    dearest: dict[float, float] = field(default_factory=dict)  # operations of a price, by tolerance

    def ask(self, cost: Callable[[float, float], float], x: float, width: float, later: int = 1) -> float:
        """The cost of a value at a tolerance; where a last price is due and no patience is left for it, none."""
        if later and self.safe_side(width) is not None:
            foresee([(None, (1.0 + later) * self.dearest.get(width, 0.0))], "prices of a calibration")
        with allow_work(PATIENCE) as work:
            before = work.spent
            found = self.prices.setdefault(width, {})[x] = cost(x, width)
            self.dearest[width] = max(self.dearest.get(width, 0.0), work.spent - before)
        if found <= self.goal:
            self.met.append(x)
        return found

    def safe_side(self, width: float) -> float | None:
        """Just on the safe side of where a line in logarithms between a value that meets the target and one that does
        not is at the target; None where no two are known, or nothing is between them.
        """
        own = self._between(self.prices.get(width, {}), SAFE, BENT)
        return self._between(self._about(width), UNSURE, math.inf) if own is None else own

    def _between(self, prices: dict[float, float], safe: float, bent: float) -> float | None:
        """The same of some prices; on the safe side by that share, or by less where they are near each other."""
        known = {x: price for x, price in prices.items() if 0.0 < price < math.inf}
        hits, misses = ([x for x, price in known.items() if (price <= self.goal) == met] for met in (True, False))
        if not hits or not misses:
            return None
        hit, miss = (max(hits), min(misses)) if self.rises > 0 else (min(hits), max(misses))
        if (miss - hit) * self.rises <= 0.0:
            return None
        apart = math.log(known[miss] / known[hit])
        share = math.log(self.goal / known[hit]) / apart
        x = hit * (miss / hit) ** ((1.0 - min(safe, bent * apart)) * share)
        if self.integer:
            x = float(math.floor(x) if self.rises > 0 else math.ceil(x))
        return x if x not in (hit, miss) else None

    def _about(self, width: float) -> dict[float, float]:
        """Prices at a tolerance, and those at others as a value that has both says that they would be."""
        own = self.prices.get(width, {})
        known: dict[float, float] = {}
        for others in self.prices.values():
            if both := [x for x in own if others.get(x, 0.0) > 0.0]:
                ratio = own[both[-1]] / others[both[-1]]
                known.update((x, ratio * price) for x, price in others.items())
        return known | own


def most_economical(found: Mapping[float, float], goal: float, apart: float = math.inf) -> float | None:
    """Of values and what they cost, the one next to the first that costs more than a goal; None if all do, or none.

    None, too, where these two are more than `apart` times each other.
    """
    met, missed = ([x for x, cost in found.items() if (cost <= goal) == kept] for kept in (True, False))
    if not met or not missed:
        return None
    if min(met) > max(missed):
        best, next_to = min(met), max(missed)
    elif max(met) < min(missed):
        best, next_to = max(met), min(missed)
    else:
        return None
    return best if max(best, next_to) <= apart * min(best, next_to) else None
