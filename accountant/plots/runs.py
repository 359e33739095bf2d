"""Runs as plots are given them: one, or several by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from accountant.errors import ParameterError, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.plots.findings import Run
from accountant.plots.style import mark_private, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["mark_label", "name_runs"]


def name_runs(run: Run | Mapping[str, Run], name: str) -> dict[str, Composition]:
    """The runs by name; a single run gets `name`."""
    runs = dict(run) if isinstance(run, Mapping) else {name: run}
    for each in runs.values():
        if not isinstance(each, Event | Composition):
            raise ParameterError(f"run = {shorten(each)}; accepted: an event, or a composition")
    if not runs:
        raise ParameterError(f"run = {shorten(run)}; accepted: one or more")
    return {name: 1 * each if isinstance(each, Event) else each for name, each in runs.items()}


def mark_label(ax: Axes, name: str, run: Composition, most: int = 36) -> str:
    """The name, shortened; with a star, explained below the axes, if the run's cost is private."""
    if run.data_dependent:
        mark_private(ax)
    return plain(name, most) + (" *" if run.data_dependent else "")
