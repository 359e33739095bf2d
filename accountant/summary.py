"""A price in words: assumptions, and shares of the releases in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import NoGuarantee
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee
from accountant.plan import RELEASE_KEYS, Plan
from accountant.renyi.route import renyi_epsilon

__all__ = ["assumptions", "cautions", "parameters_in_words", "shares", "shares_of", "value_in_words"]

_PROTECTED = {
    Adjacency.ADD_REMOVE: "whether any one record is in the private data (add-remove adjacency)",
    Adjacency.REPLACE: "the content of any one record, but not its presence (replace adjacency)",
}


def shares(plan: Plan, price: Guarantee) -> list[float]:
    """Each release's share of a plan's cost, as `shares_of`."""
    return shares_of([release.composition for release in plan.releases], price)


def shares_of(parts: Sequence[Composition], price: Guarantee) -> list[float]:
    """Each part's share of the Rényi curve at the order that set the price; they add up to 1, or to 0 if all is free.

    Where that curve is infinite, the shares at order 2 are taken; parts with curves infinite there too share alike.
    """
    order = price.order
    if order is None and 0 < price.delta < 1:  # the tight route uses no order
        with suppress(NoGuarantee):  # the curve is infinite at every order
            order = renyi_epsilon(sum(parts, Composition()), price.delta, "improved").order
    order = math.inf if order is None else order
    costs = np.array([float(part.renyi(order)) for part in parts])
    if not np.isfinite(costs).all():
        costs = np.array([float(part.renyi(2.0)) for part in parts])
    if not np.isfinite(costs).all():
        costs = np.isinf(costs).astype(float)  # beside them all others are nothing
    total = math.fsum(costs)
    return [cost / total if total > 0 else 0.0 for cost in costs.tolist()]


def parameters_in_words(line: Mapping[str, Any]) -> str:
    """The parameters of a release from its line in a plan, such as ``sigma 85, threshold 210``."""
    parameters = {key: value for key, value in line.items() if key not in RELEASE_KEYS}
    return _join(parameters)


def _join(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value_in_words(value)}" for key, value in parameters.items())


def value_in_words(value: Any) -> str:
    """A parameter: a number, a table such as that of an event within, or a list of these."""
    if isinstance(value, list | tuple) and any(isinstance(each, Mapping | list | tuple) for each in value):
        return f"({' + '.join(map(value_in_words, value))})"
    if not isinstance(value, Mapping):
        return str(value)
    times = f"{value['count']} x " if value.get("count", 1) != 1 else ""
    kind = f"{value['event']}: " if "event" in value else ""
    return f"({times}{kind}{_join({key: each for key, each in value.items() if key not in ('event', 'count')})})"


def assumptions(plan: Plan) -> list[str]:
    """Sentences: what is protected, how records are sampled, and what must be true for the price to hold."""
    run = plan.composition
    protected = _PROTECTED[run.adjacency] if run.adjacency else "everything; nothing is released"
    lines = [f"Protects: {protected}."]
    sampled = {
        release.name: release.event.sampling_rate
        for release in plan.releases
        if release.event.unsampled is not release.event
    }
    if sampled:
        rates = ", ".join(f"{name} at rate {rate:g}" for name, rate in sampled.items())
        lines.append(f"Sampling: {rates}; every record joins each release independently, and who joined stays secret.")
    unsampled = [release.name for release in plan.releases if release.name not in sampled]
    if unsampled and sampled:
        lines.append(f"Not sampled: {', '.join(unsampled)}.")
    assumed = ["the noise has the stated distribution", "sensitivities hold for every possible neighbour"]
    assumed.append("counts are upper limits fixed before the run")
    for release in plan.releases:
        assumed += [f"in {release.name} {caveat}" for caveat in release.event.caveats()]
    lines.append(f"Assumes: {'; '.join(assumed)}.")
    return [*lines, *cautions(run)]


def cautions(run: Composition) -> list[str]:
    """What stands below every table of costs that depend on private data; nothing of other runs."""
    caution = "Caution: this cost was computed from private votes and is private itself. Do not publish it."
    return [caution] if run.data_dependent else []
