"""What a price means, in words and shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee
from accountant.plan import Plan
from accountant.renyi.route import renyi_epsilon

__all__ = ["assumptions", "shares", "shares_of"]

_PROTECTED = {
    Adjacency.ADD_REMOVE: "whether any one record is in the private data at all (add-remove adjacency)",
    Adjacency.REPLACE: "what any one record says, though not that it is there (replace adjacency)",
}


def shares(plan: Plan, price: Guarantee) -> list[float]:
    """Each release's share of what a plan costs, as `shares_of`."""
    return shares_of([release.composition for release in plan.releases], price)


def shares_of(parts: Sequence[Composition], price: Guarantee) -> list[float]:
    """Each part's share of the Rényi curve at the order that set the price; they add up to 1 (0 if all is free).

    At an infinite order of an unbounded run (delta asked at an unreachable epsilon) order 2 stands in.
    """
    order = price.order
    if order is None and 0 < price.delta < 1:  # the tight route has none
        order = renyi_epsilon(sum(parts, Composition()), price.delta, "improved").order
    order = math.inf if order is None else order
    costs = np.array([float(part.renyi(order)) for part in parts])
    if not np.isfinite(costs).all():
        costs = np.array([float(part.renyi(2.0)) for part in parts])
    total = math.fsum(costs)
    return [cost / total if total > 0 else 0.0 for cost in costs.tolist()]


def assumptions(plan: Plan) -> list[str]:
    """Plain sentences: what is protected, how the data are sampled, and what has to be true for the price to hold."""
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
        lines.append(
            f"Sampling: {rates}; every record joins each release independently, afresh, and who joined stays secret."
        )
    unsampled = [release.name for release in plan.releases if release.name not in sampled]
    if unsampled and sampled:
        lines.append(f"Not sampled: {', '.join(unsampled)}.")
    assumed = ["the noise drawn is the noise stated", "sensitivities hold for every possible neighbour"]
    assumed.append("counts are upper limits fixed before the run")
    for release in plan.releases:
        assumed += [f"in {release.name} {caveat}" for caveat in release.event.caveats()]
    lines.append(f"Assumes: {'; '.join(assumed)}.")
    if run.data_dependent:
        lines.append("Caution: this cost was computed from private votes. It is private itself: do not publish it.")
    return lines
