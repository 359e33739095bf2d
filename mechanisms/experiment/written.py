"""Compositions in the tables of a plan, as results files keep them, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import accountant as ac

__all__ = ["composition_of", "tables_of"]

NAMES: dict[type[ac.Event], str] = {
    ac.Gaussian: "gaussian",
    ac.Laplace: "laplace",
    ac.DiscreteGaussian: "discrete-gaussian",
    ac.DiscreteLaplace: "discrete-laplace",
    ac.RandomizedResponse: "randomized-response",
    ac.NoisyScreening: "noisy-screening",
    ac.Collision: "collision",
    ac.GNMax: "gnmax",
    ac.LNMax: "lnmax",
    ac.PureDP: "pure-dp",
    ac.ZeroConcentratedDP: "zero-concentrated-dp",
    ac.GaussianDP: "gaussian-dp",
}
"""As plans name them."""

SHUFFLED: dict[type[ac.Event], str] = {ac.Shuffled: "shuffled", ac.ShuffledCounts: "shuffled-counts"}
"""Rounds of the shuffle model, which plans do not hold; `local` of the first may be a table of its own."""


def tables_of(run: ac.Composition) -> list[dict[str, Any]]:
    """A table for each event, with the keys of a plan's [[release]] and the adjacency.

    Raises
    ------
    accountant.ParameterError
        An event of a kind that has no name.
    """
    return [{**_table(event), "count": count} for event, count in run]


def composition_of(tables: Sequence[Mapping[str, Any]]) -> ac.Composition:
    """The composition that `tables_of` wrote.

    Raises
    ------
    accountant.AccountantError
        A table is not one of an event, or a value is out of range.
    """
    return ac.Composition([(_event(table), table.get("count", 1)) for table in tables])


def _table(event: ac.Event) -> dict[str, Any]:
    if isinstance(event, ac.PoissonSubsampled):
        return {**_table(event.event), "sampling_rate": event.rate}
    name = {**NAMES, **SHUFFLED}.get(type(event))
    if name is None:
        raise ac.ParameterError(f"{event!r} cannot be written down; accepted: {', '.join(NAMES.values())}")
    table: dict[str, Any] = {"event": name, "adjacency": event.adjacency.value}
    for field in fields(event):  # type: ignore[arg-type]  # every event is a dataclass
        if field.init and field.name != "adjacency":
            value = getattr(event, field.name)
            table[field.name] = _table(value) if isinstance(value, ac.Event) else value
    return table


def _event(table: Mapping[str, Any]) -> ac.Event:
    if not isinstance(table, Mapping):
        raise ac.PlanError(f"{table!r} is no table; accepted: tables of events")
    given = {key: value for key, value in table.items() if key not in ("count", "adjacency")}
    kinds = {name: kind for kind, name in SHUFFLED.items()}
    name = given.get("event")
    if name in kinds:
        del given["event"]
        if isinstance(given.get("local"), Mapping):
            given["local"] = _event(given["local"])
        try:
            return kinds[name](**given)
        except TypeError as error:
            raise ac.PlanError(f"{name}: {error}; accepted: its parameters alone") from None
    plan = ac.Plan.from_tables("a release", {"adjacency": table.get("adjacency"), "release": [given]})
    return plan.releases[0].event
