"""Which plot says most about a plan."""

from __future__ import annotations

from accountant.plan import Plan

__all__ = ["choose_kind"]


def choose_kind(plan: Plan, delta: float | None = None) -> str:
    """The kind of plot, as ``accountant plot --kind`` names it, that says most about a plan.

    Shares where several releases are paid for; else, of a release that is repeated, epsilon against the number of
    releases; of a single one, what an attacker can do. Without a delta, in the plan or given, only the Rényi curve
    and the trade-off function say something.
    """
    paid = [release for release in plan.releases if release.count]
    known = plan.delta if delta is None else delta
    if known is None or plan.composition.data_dependent:
        return "order"
    if len(paid) > 1:
        return "shares"
    return "releases" if plan.composition.releases > 1 else "trade-off"
