"""What a report's page needs to price other values by itself: its script, and the plan with controls and curves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

from accountant.adjacency import Adjacency
from accountant.events.curve import StandardForm
from accountant.events.event import Event
from accountant.events.parameters import Parameter, parameters_of
from accountant.guarantee import Guarantee
from accountant.numerics.kernel import FloatArray
from accountant.plan import Plan, Release
from accountant.renyi.conversion import Conversion
from accountant.report.tables import MOST, choose_orders, choose_stops, cost_of, make_table

__all__ = ["plan_json", "script"]

SAMPLED_BITS, SAMPLED_EPSILON = 32, 500.0
"""Bits and epsilon of randomized response up to which the page's binomial sums are accurate under sampling."""

MAX_COUNT = 1e15
FILES = (
    "engine/numerics.js",
    "engine/curves.js",
    "engine/tables.js",
    "engine/prices.js",
    "format.js",
    "draw.js",
    "plots.js",
    "page.js",
)


def script() -> str:
    """The page's script, all of it."""
    folder = resources.files("accountant.report.page")
    return "\n".join(folder.joinpath(name).read_text("utf-8") for name in FILES)


def plan_json(plan: Plan, delta: float, conversion: str, rules: Mapping[Conversion, Guarantee]) -> str:
    """The plan as JSON that is safe between script tags; `rules`: its prices by conversion."""
    releases = [_price_in_page(release) for release in plan.releases]
    orders = None
    if any(each.form is None for each in releases):
        orders = choose_orders(plan.composition, delta, rules)
        if sum(each.cost for each in releases) > MOST:
            releases = [each if each.form else each._replace(stops={}) for each in releases]
    whole = Control("delta", "delta", delta, (5e-324, 1 - 1e-16), (1e-12, 1e-2))
    data = {
        "delta": whole.as_dict(),
        "conversion": conversion,
        "epsilons": {rule: price.epsilon for rule, price in rules.items()},
        "orders": None if orders is None else orders.tolist(),
        "releases": [each.as_dict(orders) for each in releases],
    }
    text = json.dumps(_replace_infinities(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --- how the page prices a release -----------------------------------------------------------------------


@dataclass(frozen=True)
class Control:
    """A number that may be moved in the page.

    Attributes
    ----------
    key, label : str
    value : float
        In the plan.
    accepted : (float, float)
    slider : (float, float)
        Ends of its slider.
    whole, zero : bool
        Whether only whole numbers are accepted, and 0 beside the range.
    stops : sequence of float, optional
        The only values that are accepted.
    """

    key: str
    label: str
    value: float
    accepted: tuple[float, float]
    slider: tuple[float, float]
    whole: bool = False
    zero: bool = False
    stops: list[float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON, as page.js reads it."""
        low, high = self.accepted
        numbers = {"value": self.value, "low": low, "high": high, "from": self.slider[0], "to": self.slider[1]}
        return {"key": self.key, "label": self.label, **numbers, "whole": self.whole, "zero": self.zero} | (
            {} if self.stops is None else {"stops": self.stops}
        )


class _PricedInPage(NamedTuple):
    """How the page prices a release: from the standard form of its curve, or from a table with these stops."""

    release: Release
    noise: Parameter | None
    form: StandardForm | None
    may_sample: bool
    stops: Mapping[str, list[float]]

    @property
    def cost(self) -> int:
        return 0 if self.form else cost_of(self.release.event, self.stops)

    def as_dict(self, orders: FloatArray | None) -> dict[str, Any]:
        """For JSON, as page.js reads it."""
        event, count = self.release.event, float(self.release.count)
        controls = [
            Control("count", "count", count, (0.0, MAX_COUNT), _around(count, 20.0, (1.0, MAX_COUNT)), True, True)
        ]
        described = {"name": self.release.name, "event": event.unsampled.plan_name, "rate": event.sampling_rate}
        if self.form is not None:
            controls += self._controls()
            found: dict[str, Any] = {"form": {**self.form._asdict(), "noise": self.noise and self.noise.name}}
        else:
            assert orders is not None
            controls += [
                Control(key, key.replace("_", " "), _value(event, key), (stops[0], stops[-1]), (1.0, 1.0), stops=stops)
                for key, stops in self.stops.items()
            ]
            found = {"table": make_table(event, self.noise, self.stops, orders).as_dict()}
        return {**described, "controls": [control.as_dict() for control in controls], **found}

    def _controls(self) -> list[Control]:
        """Noise and sampling rate of a release whose curve the page computes."""
        noise, rate = self.noise, self.release.event.sampling_rate
        assert noise is not None
        assert noise.range is not None
        value = _value(self.release.event, noise.name)
        low, high = noise.range.low, noise.range.high
        if self.may_sample and self.form and self.form.family == "pure":
            high = max(SAMPLED_EPSILON, value)
        zero = noise.range.zero or low == 0.0
        around = _around(value, 10.0, (low, high))
        found = [Control(noise.name, noise.name, value, (low, high), around, noise.whole, zero)]
        if self.may_sample:
            around = _around(rate, 20.0, (1e-15, 1.0))
            found.append(Control("sampling_rate", "sampling rate", rate, (1e-15, 1.0), around, zero=True))
        return found


def _price_in_page(release: Release) -> _PricedInPage:
    event = release.event
    noise = next((parameter for parameter in parameters_of(type(event.unsampled)) if parameter.noise), None)
    # what has to be true when all records take part need not be true of a sample
    may_sample = event.adjacency is Adjacency.ADD_REMOVE and not (event.sampling_rate == 1.0 and event.caveats())
    form = None if noise is None or noise.range is None else event.unsampled._standard_form()
    if form is not None:
        value = _value(event, noise.name) if noise else 0.0
        accurate = form.family == "gaussian" or (
            form.family == "pure" and form.copies <= SAMPLED_BITS and value <= SAMPLED_EPSILON
        )
        may_sample = may_sample and accurate
        if event.sampling_rate == 1.0 or may_sample:
            return _PricedInPage(release, noise, form, may_sample, {})
    return _PricedInPage(release, noise, None, may_sample, choose_stops(event, noise, may_sample))


def _value(event: Event, key: str) -> float:
    return event.sampling_rate if key == "sampling_rate" else float(getattr(event.unsampled, key))


def _around(value: float, factor: float, limits: tuple[float, float]) -> tuple[float, float]:
    """The ends of a slider: from value/factor to value*factor, inside the limits."""
    centre = value if value > 0 else 1.0
    return max(centre / factor, limits[0]), min(centre * factor, limits[1])


def _replace_infinities(item: Any) -> Any:
    """JSON has no infinity; the page reads "inf" as one."""
    if isinstance(item, float) and not math.isfinite(item):
        return "inf" if item > 0 else "-inf"
    if isinstance(item, dict):
        return {key: _replace_infinities(value) for key, value in item.items()}
    return [_replace_infinities(value) for value in item] if isinstance(item, list | tuple) else item
