"""What a report's page needs to price other values by itself: parameters, their ranges, and tables of curves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee
from accountant.numerics.kernel import FloatArray
from accountant.plan import EVENTS, Plan, Release, parameters_of
from accountant.renyi.conversion import Conversion

__all__ = ["embedded", "script"]

COMPUTED = (
    "gaussian",
    "gnmax",
    "noisy-screening",
    "laplace",
    "lnmax",
    "randomized-response",
    "pure-dp",
    "zero-concentrated-dp",
    "gaussian-dp",
)
"""Events whose curves the page computes."""

SAMPLED = ("gaussian", "gnmax", "gaussian-dp", "noisy-screening", "randomized-response", "pure-dp")
"""Those that it also computes under Poisson subsampling."""

SAMPLED_BITS, SAMPLED_EPSILON = 32, 500.0
"""Bits and epsilon of randomized response up to which plain binomial sums are accurate, so that it may be sampled."""

SCREENED = 2000
"""Counts of a screening among which the page finds the worst pair quickly, however flat the maximum."""

MAX_COUNT = 1e15
FILES = ("numerics.js", "events.js", "prices.js", "page.js")


def script() -> str:
    """The page's script, all of it."""
    folder = resources.files("accountant.report.page")
    return "\n".join(folder.joinpath(name).read_text("utf-8") for name in FILES)


def embedded(plan: Plan, delta: float, conversion: str, rules: Mapping[Conversion, Guarantee]) -> str:
    """The plan as JSON that is safe between script tags."""
    orders = None
    if not all(_computed(plan, number) for number in range(len(plan.releases))):
        orders = table_orders(plan.composition, delta, rules)
    data = {
        "delta": _control("delta", "delta", delta, (5e-324, 1 - 1e-16), (1e-12, 1e-2), zero=False),
        "conversion": conversion,
        "epsilons": {rule: price.epsilon for rule, price in rules.items()},
        "orders": None if orders is None else orders.tolist(),
        "releases": [_release(plan, number, orders) for number in range(len(plan.releases))],
    }
    text = json.dumps(_plain(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table_orders(run: Composition, delta: float, rules: Mapping[Conversion, Guarantee]) -> FloatArray:
    """Orders of tables: those that set the plan's prices, 2, and a grid three decades to either side."""
    own = [price.order for price in rules.values() if price.order is not None and math.isfinite(price.order)]
    # where a price is the pure-DP limit, other counts may not be: look for an order of the curve itself
    centre = own[0] - 1 if own else renyi_best(run, delta)
    grid = 1 + centre * np.geomspace(1e-3, 1e3, 181)
    return np.unique(np.concatenate([grid[(grid > 1) & (grid < 1e12)], own, [2.0]]))


def renyi_best(run: Composition, delta: float) -> float:
    """A distance from order 1 at which the curve of a run without a best one is worth knowing."""
    log_delta = math.log(delta) if delta > 0 else -10.0
    grid = np.geomspace(1e-3, 1e6, 37)
    with np.errstate(invalid="ignore"):
        costs = run.renyi(1 + grid) - log_delta / grid
    return float(grid[int(np.argmin(costs))])


def _computed(plan: Plan, number: int) -> bool:
    """Whether the page computes the curve of a release, and does not look it up."""
    release, name = plan.releases[number], _event_name(plan, number)
    event, rate = _inner(release)
    if name not in COMPUTED:
        return False
    if getattr(event, "max_votes", 0) - getattr(event, "min_votes", 0) > SCREENED:
        return False
    bounded = getattr(event, "bits", 1) <= SAMPLED_BITS and getattr(event, "epsilon", 0.0) <= SAMPLED_EPSILON
    return rate == 1.0 or (name in SAMPLED and bounded)


def _event_name(plan: Plan, number: int) -> str:
    return str(plan.tables["release"][number]["event"])


def _inner(release: Release) -> tuple[Any, float]:
    return release.event.unsampled, release.event.sampling_rate


def _release(plan: Plan, number: int, orders: FloatArray | None) -> dict[str, Any]:
    release, name = plan.releases[number], _event_name(plan, number)
    event, rate = _inner(release)
    count = float(release.count)
    controls = [_control("count", "count", count, (0.0, MAX_COUNT), _around(count, 20.0, 1.0, MAX_COUNT), whole=True)]
    described = {"name": release.name, "event": name, "controls": controls, "values": {}}
    if not _computed(plan, number):
        assert orders is not None
        return {**described, "table": release.event.renyi([*orders.tolist(), math.inf]).tolist()}
    values = {parameter.name: getattr(event, parameter.name) for parameter in parameters_of(EVENTS[name])}
    (noise,) = (parameter for parameter in parameters_of(EVENTS[name]) if parameter.noise)
    assert noise.range is not None
    key, accepted = noise.name, (noise.range.low, noise.range.high)
    few_bits = getattr(event, "bits", 1) <= SAMPLED_BITS
    may_sample = name in SAMPLED and event.adjacency is Adjacency.ADD_REMOVE and few_bits
    if rate == 1.0 and getattr(event, "min_votes", 0) > 0:
        may_sample = False  # what is always cast when nobody is left out may not be in a sample
    if may_sample and key == "epsilon":
        accepted = (accepted[0], max(SAMPLED_EPSILON, float(values[key])))
        may_sample = values[key] <= SAMPLED_EPSILON
    controls.append(_control(key, key, float(values[key]), accepted, _around(float(values[key]), 10.0, *accepted)))
    if may_sample:
        controls.append(_control("sampling_rate", "sampling rate", rate, (1e-15, 1.0), _around(rate, 20.0, 1e-15, 1.0)))
    return {**described, "values": {**values, "sampling_rate": rate}}


def _around(value: float, factor: float, low: float, high: float) -> tuple[float, float]:
    """The stretch of a slider: so many times less to so many times more."""
    centre = value if value > 0 else 1.0
    return max(centre / factor, low), min(centre * factor, high)


def _control(
    key: str,
    label: str,
    value: float,
    accepted: tuple[float, float],
    stretch: tuple[float, float],
    *,
    whole: bool = False,
    zero: bool = True,
) -> dict[str, Any]:
    """A number that may be moved: its range, the stretch of its slider, and whether 0 is accepted beside the range."""
    return {
        "key": key,
        "label": label,
        "value": value,
        "low": accepted[0],
        "high": accepted[1],
        "from": stretch[0],
        "to": stretch[1],
        "whole": whole,
        "zero": zero and (key in ("sampling_rate", "mu") or accepted[0] == 0.0),
    }


def _plain(item: Any) -> Any:
    """JSON has no infinity; the page reads "inf" as one."""
    if isinstance(item, float) and not math.isfinite(item):
        return "inf" if item > 0 else "-inf"
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items()}
    return [_plain(value) for value in item] if isinstance(item, list | tuple) else item
