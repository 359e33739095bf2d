"""Tables of Rényi curves for a report's page: of events that the page does not compute, for other noise and rates."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from accountant.errors import AccountantError
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.parameters import Parameter
from accountant.events.subsampled import PoissonSubsampled
from accountant.guarantee import Guarantee
from accountant.numerics.kernel import FloatArray
from accountant.plots.worst_pairs import has_pairs
from accountant.renyi.conversion import Conversion

__all__ = ["CurveTable", "choose_orders", "choose_stops", "cost_of", "make_table"]

NOISE_STOPS, SLOW_NOISE_STOPS, RATE_STOPS = 25, 9, 9
NOISE_FACTOR, RATE_FACTOR = 10.0, 5.0
"""Values of a noise parameter and of a sampling rate in a table: their number, and how far the first and last are."""

MOST = 2000
"""Largest number of curves in all tables of a page; if more would be needed, tables have present values only."""

SLOW = 30
"""Curves that a curve counts for, if it is an integral over a privacy profile."""


class CurveTable(NamedTuple):
    """Curves for all combinations of stops of some parameters, the last parameter moving fastest.

    Attributes
    ----------
    stops : mapping
        From the name of a parameter to its values.
    curves : array of shape (combinations, orders)
    """

    stops: Mapping[str, Sequence[float]]
    curves: FloatArray

    def as_dict(self) -> dict[str, Any]:
        """For JSON: curves as 32-bit numbers in base64, rounded up."""
        parameters = [{"key": key, "stops": list(values)} for key, values in self.stops.items()]
        return {"parameters": parameters, "curves": base64.b64encode(round_up(self.curves).tobytes()).decode()}


def round_up(values: FloatArray) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The least 32-bit numbers that are not below the values."""
    with np.errstate(over="ignore", under="ignore"):
        found = np.asarray(values).astype("<f4")
        below = found.astype(float) < values
        found[below] = np.nextafter(found[below], np.float32(math.inf))
    return found


def choose_orders(run: Composition, delta: float, rules: Mapping[Conversion, Guarantee]) -> FloatArray:
    """Orders of tables: those that set the plan's prices, 2, and a grid three decades to either side."""
    own = [price.order for price in rules.values() if price.order is not None and math.isfinite(price.order)]
    # where a price is the pure-DP limit, it has no order; other counts may have one
    centre = own[0] - 1 if own else _best_distance(run, delta)
    grid = 1 + centre * np.geomspace(1e-3, 1e3, 181)
    return np.unique(np.concatenate([grid[(grid > 1) & (grid < 1e12)], own, [2.0]]))


def _best_distance(run: Composition, delta: float) -> float:
    """The best order less 1 on a coarse grid, for a run whose price is its pure-DP limit."""
    log_delta = math.log(delta) if delta > 0 else -10.0
    grid = np.geomspace(1e-3, 1e6, 37)
    with np.errstate(invalid="ignore"):
        costs = run.renyi(1 + grid) - log_delta / grid
    return float(grid[int(np.argmin(costs))])


def choose_stops(event: Event, noise: Parameter | None, may_sample: bool) -> dict[str, list[float]]:
    """Values of the noise parameter and of the sampling rate for which a table has curves.

    A curve that is an integral over a privacy profile takes long: of those there are few.
    """
    stops: dict[str, list[float]] = {}
    slow = _is_slow(event)
    if noise is not None and noise.range is not None and event.sampling_rate > 0.0:
        value = float(getattr(event.unsampled, noise.name))
        number = SLOW_NOISE_STOPS if slow else NOISE_STOPS
        points = _spread(value, NOISE_FACTOR, (noise.range.low, noise.range.high), number)
        if noise.whole:
            points = sorted({float(round(point)) for point in points})
        stops[noise.name] = [point for point in points if _at(event, noise.name, point, event.sampling_rate)]
    if may_sample and has_pairs(event):
        stops["sampling_rate"] = _spread(event.sampling_rate, RATE_FACTOR, (1e-15, 1.0), RATE_STOPS)
    return {key: points for key, points in stops.items() if len(points) > 1}


def cost_of(event: Event, stops: Mapping[str, Sequence[float]]) -> int:
    """Curves of a table, each counted by the time that it takes."""
    return math.prod(map(len, stops.values())) * (SLOW if _is_slow(event) else 1)


def make_table(
    event: Event, noise: Parameter | None, stops: Mapping[str, Sequence[float]], orders: FloatArray
) -> CurveTable:
    """The table of an event at these orders and at order infinity."""
    points = [*orders.tolist(), math.inf]
    curves = []
    for value in stops.get(noise.name, [None]) if noise is not None else [None]:
        for rate in stops.get("sampling_rate", [event.sampling_rate]):
            other = event if noise is None or value is None else _at(event, noise.name, value, rate)
            assert other is not None
            curves.append(other.renyi(points))
    return CurveTable(stops, np.array(curves))


def _is_slow(event: Event) -> bool:
    return 0.0 < event.sampling_rate < 1.0 and not has_pairs(event)


def _at(event: Event, name: str, value: float, rate: float) -> Event | None:
    """The event with another noise and sampling rate; None if it has no such form."""
    with suppress(AccountantError):
        inner: Any = event.unsampled
        kind = type(getattr(inner, name))
        other: Event = replace(inner, **{name: kind(value)})
        return PoissonSubsampled(other, rate) if rate < 1.0 else other
    return None


def _spread(value: float, factor: float, limits: tuple[float, float], number: int) -> list[float]:
    """Numbers of four digits at equal ratios from value/factor to value*factor inside the limits, and the value."""
    centre = value if value > 0 else 1.0
    low, high = max(centre / factor, limits[0]), min(centre * factor, limits[1])
    grid = [float(f"{point:.4g}") for point in np.geomspace(low, high, number).tolist()]
    return sorted({min(max(point, limits[0]), limits[1]) for point in grid} | {value})
