"""Prices of runs in which groups of records are sampled at rates of their own."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from accountant.errors import ParameterError, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee
from accountant.price import epsilon

__all__ = ["epsilons_by_group", "run_of_group"]


@runtime_checkable
class Grouped(Protocol):
    """An event for which records pay by their group."""

    def by_group(self) -> tuple[Event, ...]: ...


def _parts(event: Event) -> tuple[Event, ...]:
    return event.by_group() if isinstance(event, Grouped) else ()


def run_of_group(run: Event | Composition, group: int) -> Composition:
    """What the records of a group, numbered from 0, pay: each `HeterogeneousPoisson` at the group's rate.

    Raises
    ------
    ParameterError
        There is no such group, `run` has no event with groups, or its events have different numbers of them.
    """
    whole, groups = _groups_of(run)
    if not 0 <= group < groups:
        raise ParameterError(f"group = {shorten(group)} is out of range; accepted: [0, {groups - 1}]")
    return _of_group(whole, {event: _parts(event) for event in whole.entries}, group)


def _of_group(whole: Composition, parts: dict[Event, tuple[Event, ...]], group: int) -> Composition:
    return Composition((parts[event][group] if parts[event] else event, count) for event, count in whole)


def epsilons_by_group(run: Event | Composition, delta: float, **options: Any) -> tuple[Guarantee, ...]:
    """Epsilon at a given delta for the records of each group of the `HeterogeneousPoisson` events of a run.

    Each holds for neighbours that differ in one record of that group, whatever the rates of the others are. Events
    without groups cost every group the same.

    Parameters
    ----------
    run : Event or Composition
        With at least one `HeterogeneousPoisson`; all of them have the same groups, in the same order.
    delta : float
        In [0, 1).
    **options
        `method`, `conversion`, `tolerance` and `patience`, as for `epsilon`.

    Returns
    -------
    tuple of Guarantee
        One for each group.

    Raises
    ------
    ParameterError
        As for `run_of_group`, and as for `epsilon`, whose other errors are raised too.
    """
    whole, groups = _groups_of(run)
    parts = {event: _parts(event) for event in whole.entries}
    prices: dict[Composition, Guarantee] = {}
    found = []
    for group in range(groups):
        part = _of_group(whole, parts, group)
        if part not in prices:
            prices[part] = epsilon(part, delta, **options)
        found.append(prices[part])
    return tuple(found)


def _groups_of(run: object) -> tuple[Composition, int]:
    """The run as a composition in which all events with groups have the same number of them, and that number."""
    whole = 1 * run if isinstance(run, Event) else run
    if not isinstance(whole, Composition):
        raise ParameterError(f"run = {shorten(run)}; accepted: an event or a composition")
    sizes = {len(_parts(event)) for event in whole.entries} - {0}
    if len(sizes) != 1:
        found = f"events of {' and '.join(map(str, sorted(sizes)))} groups" if sizes else "no event with groups"
        raise ParameterError(f"run with {found}; accepted: HeterogeneousPoisson events with the same groups")
    return whole, sizes.pop()
