"""Where the value of a calibration is searched: from a start on, or near a guess."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from accountant.calibration import FINE, Bounds, solve, solve_near
from accountant.errors import AccountantError

__all__ = ["Cost", "Search"]

Cost = Callable[[float], float]
"""What a value of the parameter costs."""

ROUNDING = 1e-9
"""By how much a cost may move in the wrong direction, relatively."""


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
        return solve(lambda x: cost(x) - goal, bounds, self.start, **how)

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
