"""Plans as TOML text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accountant.errors import ParameterError

if TYPE_CHECKING:
    from accountant.events.composition import Composition

__all__ = ["plan_text", "tables_of_run"]


def plan_text(tables: Mapping[str, Any]) -> str:
    """TOML of a plan's tables; numbers are written so that they are read back as they were."""
    import tomli_w

    return tomli_w.dumps(tables)


def tables_of_run(run: Composition) -> dict[str, Any]:
    """The tables of a plan that makes this run.

    Raises
    ------
    ParameterError
        The run is empty, or an event's class has no name in plans and cannot be imported by its own.
    """
    if run.adjacency is None:
        raise ParameterError("an empty run; accepted: one release or more")
    lines = [{**event.to_table(own=True), "count": count} for event, count in run]
    return {"adjacency": run.adjacency.value, "release": lines}
