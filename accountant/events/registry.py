"""Events by the names that they have in plans."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from accountant.errors import ParameterError, shorten
from accountant.events.event import Event
from accountant.events.parameters import refuse_table_keys

__all__ = ["event_kinds", "forget", "register"]

E = TypeVar("E", bound=type[Event])

_KINDS: dict[str, type[Event]] = {}


def register(name: str) -> Callable[[E], E]:
    """Register an event class under a name of plans: the line above ``@dataclass(frozen=True)``.

    The event then works in plans and in every command. A class of your own is registered as soon as its module is
    imported.

    Parameters
    ----------
    name : str
        Lower-case words and digits, joined by hyphens.

    Raises
    ------
    ParameterError
        The name is of another form, or that of another class, or the class is no dataclass, or has a parameter with
        the name of another key of plans, such as ``count``.
    """

    def add(kind: E) -> E:
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise ParameterError(f"name = {shorten(name)}; accepted: lower-case words and digits, joined by hyphens")
        if not hasattr(kind, "__dataclass_fields__"):
            raise ParameterError(f"{kind!r} is no dataclass; accepted: register above @dataclass(frozen=True)")
        taken = _KINDS.get(name)
        if taken is not None and (taken.__module__, taken.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ParameterError(f"the name {name!r} is that of {taken.__module__}.{taken.__qualname__}")
        refuse_table_keys(kind)
        kind.plan_name = name
        _KINDS[name] = kind
        return kind

    return add


def event_kinds() -> Mapping[str, type[Event]]:
    """Event classes by name, in the order in which they were registered; it shows later ones too."""
    return MappingProxyType(_KINDS)


def forget(name: str) -> None:
    """Undo `register`."""
    _KINDS.pop(name).plan_name = None
