"""One ``[[release]]`` of a plan: what its keys mean, and the event that it states."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from fractions import Fraction
from functools import reduce
from importlib import import_module
from math import ceil
from typing import Any, NamedTuple, TypeVar

from accountant.adjacency import Adjacency, as_adjacency
from accountant.errors import AccountantError, ParameterError, PlanError, integer, real, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.group import Group
from accountant.events.parameters import TABLE_KEYS, Parameter, parameters_of
from accountant.events.registry import event_kinds
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.tries import tries_from_table

__all__ = [
    "EVENTS",
    "EVENT_KEYS",
    "PLAN_KEYS",
    "RELEASE_KEYS",
    "STAND_INS",
    "SYNONYMS",
    "TRAINING_KEYS",
    "UNITS",
    "adjacency_of",
    "event_of",
    "kind_of",
    "locate_errors",
    "parse_float",
    "plain_line",
    "refuse_unknown",
    "steps_of",
    "suggest",
    "unit_of_noise",
]

EVENTS = event_kinds()
"""Event classes by their names in plans."""

T = TypeVar("T")

PLAN_KEYS = ("description", "delta", "adjacency", "release")
RELEASE_KEYS = TABLE_KEYS
EVENT_KEYS = tuple(key for key in TABLE_KEYS if key not in ("name", "count"))
"""What a table of an event has beside its parameters."""
TRAINING_KEYS = ("records", "batch", "epochs")
"""Keys that stand for a sampling rate and a count; `plain_line` replaces them."""
NOISE_MULTIPLIER = "noise_multiplier"
STAND_INS = (*TRAINING_KEYS, NOISE_MULTIPLIER)
"""Keys that stand for others."""
SYNONYMS = {"count": ("epochs",), "sampling_rate": TRAINING_KEYS, "sigma": (NOISE_MULTIPLIER,)}
"""Numbers of a release, with the keys that state the same and cannot stand beside them."""
UNITS = ("clip", "sensitivity")
"""Parameters in whose units a noise multiplier states sigma."""

MAX_DEPTH = 8
"""Tables within tables: events that are parameters of events."""


def kind_of(where: str, name: object, *, own: bool = True) -> type[Event]:
    """The event class of a name in plans; if `own`, also of MODULE:NAME, which is imported.

    A module is looked for where Python finds modules, and in the current directory; not beside the plan.
    """
    if isinstance(name, str) and name in EVENTS:
        return EVENTS[name]
    if isinstance(name, str) and own and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", name):
        return _import_kind(where, name)
    more = ", or MODULE:NAME for a class of your own" if own else ""
    raise PlanError(
        f"{where}: unknown event {shorten(name)}{suggest(str(name), EVENTS)}; accepted: {', '.join(EVENTS)}{more}"
    )


def _import_kind(where: str, name: str) -> type[Event]:
    """The event class MODULE:NAME."""
    module, _, path = name.partition(":")
    here = os.getcwd()
    if not {"", here} & set(sys.path):
        sys.path.append(here)  # at the end, and to stay: workers of a sweep import the module too
    try:
        found: Any = reduce(getattr, path.split("."), import_module(module))
    except (Exception, SystemExit) as error:  # the user's own module may fail in any way
        raise PlanError(
            f"{where}: event {name!r}: {type(error).__name__}: {' '.join(str(error).split())}; accepted: MODULE:NAME "
            "of a module that Python finds, installed or in the current directory"
        ) from None
    if not (isinstance(found, type) and issubclass(found, Event) and hasattr(found, "__dataclass_fields__")):
        raise PlanError(
            f"{where}: event {name!r} is {shorten(found)}; accepted: a class derived from accountant.Event that is a "
            "frozen dataclass"
        )
    return found


def event_of(
    where: str,
    line: Mapping[str, Any],
    adjacency: Adjacency | None,
    keys: Sequence[str],
    *,
    own: bool = True,
    depth: int = 0,
) -> Event:
    """The event of a table with the event's parameters and some of `keys`; a parameter may be an event's table.

    Only if `own`, an event may be of a class of one's own, MODULE:NAME.
    """
    if depth > MAX_DEPTH:
        raise PlanError(f"{where}: tables within tables; accepted: at most {MAX_DEPTH} deep")
    if "event" not in line:
        raise PlanError(f"{where}: event is missing{suggest_in(line, ['event'])}; accepted: {', '.join(EVENTS)}")
    name = line["event"]
    kind = kind_of(where, name, own=own)
    parameters = parameters_of(kind)
    refuse_unknown(where, line, [*keys, *(parameter.key for parameter in parameters)])
    missing = [p.key for p in parameters if p.default is None and p.key not in line]
    if missing:
        raise PlanError(f"{where}: {', '.join(missing)} missing; {name} needs {_needs(parameters)}")
    nested = _Nested(adjacency, own, depth)
    arguments = {p.name: nested.read(f"{where}: {p.key}", p, line[p.key]) for p in parameters if p.key in line}
    if adjacency and "adjacency" in {field.name for field in fields(kind) if field.init}:  # type: ignore[arg-type]
        arguments["adjacency"] = adjacency

    def build() -> Event:
        event: Event = kind(**arguments)
        if "sampling_rate" in line:
            event = PoissonSubsampled(event, real("sampling_rate", line["sampling_rate"], 0.0, 1.0))
        if "group_size" in line:
            event = Group(event, line["group_size"])
        if adjacency and event.adjacency is not adjacency:
            raise PlanError(
                f"adjacency = {adjacency}, and {name} is defined under {event.adjacency}; accepted: "
                f'adjacency = "{event.adjacency}" for the plan'
            )
        return event

    return locate_errors(where, build)


class _Nested(NamedTuple):
    """Where tables within the table of an event stand, and the adjacency that they have if they state none."""

    adjacency: Adjacency | None
    own: bool
    depth: int

    def read(self, where: str, parameter: Parameter, value: Any) -> Any:
        """A parameter of an event as a table states it.

        It may be a table of its own: of an event, or of a number of tries. As `of`, a list of tables is a composition,
        and a list of such lists are several.
        """
        if parameter.type == "Tries":
            return locate_errors(where, lambda: tries_from_table(value))
        if isinstance(value, Mapping):
            return self.event(where, value, EVENT_KEYS)[0]
        if parameter.key != "of" or not isinstance(value, Sequence) or isinstance(value, str) or not value:
            return value
        if all(isinstance(each, Mapping) for each in value):
            return self.composition(where, value)
        if all(isinstance(each, Sequence) and not isinstance(each, str) for each in value):
            return tuple(self.composition(f"{where} {number}", each) for number, each in enumerate(value, 1))
        return value

    def composition(self, where: str, tables: Sequence[Any]) -> Composition:
        """The composition of a list of tables, each of an event and perhaps a count."""
        entries = []
        for number, table in enumerate(tables, 1):
            if not isinstance(table, Mapping):
                raise PlanError(f"{where}: {shorten(table)}; accepted: tables of events")
            entries.append(self.event(f"{where} {number}", table, [*EVENT_KEYS, "count"]))
        return locate_errors(where, lambda: Composition(entries))

    def event(self, where: str, table: Mapping[str, Any], keys: Sequence[str]) -> tuple[Event, Any]:
        """The event of a table, and its count."""
        inner = {key: each for key, each in table.items() if key != "adjacency"}
        stated = adjacency_of(where, table.get("adjacency")) or self.adjacency
        line = plain_line(where, inner, stated, own=self.own)
        return event_of(where, line, stated, keys, own=self.own, depth=self.depth + 1), line.get("count", 1)


def adjacency_of(where: str, value: object) -> Adjacency | None:
    """The adjacency that a table states; None where it does not."""
    return None if value is None else locate_errors(where, lambda: as_adjacency(value))


# --- keys that stand for others ------------------------------------------------------------------------


def plain_line(where: str, line: Mapping[str, Any], adjacency: Adjacency | None, *, own: bool = True) -> dict[str, Any]:
    """A line of a plan in which `sigma`, `sampling_rate` and `count` are numbers, however the plan stated them.

    ``sampling_rate = "256/60000"``; ``records``, ``batch`` and, for the count, ``epochs``; ``noise_multiplier``: sigma
    over the clipping norm, or over the sensitivity. `own` as for `event_of`. Where records and batch are parameters of
    the event itself, they stay, and epochs alone stand for the count.

    Raises
    ------
    PlanError
        Two keys state the same number, or a value is out of range.
    """
    plain = dict(line)
    if isinstance(plain.get("sampling_rate"), str):
        plain["sampling_rate"] = locate_errors(where, lambda: _ratio(plain["sampling_rate"]))
    keys = [each.key for each in parameters_of(kind_of(where, line["event"], own=own))] if "event" in line else []
    stand_ins = [key for key in TRAINING_KEYS if key not in keys]
    if any(key in line for key in stand_ins):
        training = {key: line[key] for key in TRAINING_KEYS if key in line}
        stated = locate_errors(where, lambda: _training(line, training))
        plain = {key: value for key, value in plain.items() if key not in stand_ins}
        plain |= {key: value for key, value in stated.items() if key == "count" or "records" not in keys}
    if NOISE_MULTIPLIER in line and "event" in line:
        multiplier, unit = plain.pop(NOISE_MULTIPLIER), unit_of_noise(where, line, own=own)
        plain["sigma"] = locate_errors(where, lambda: _sigma(line, multiplier, unit, adjacency))
    return plain


def _ratio(text: str) -> float:
    """The sampling rate that a text such as "256/60000" states."""
    found = re.fullmatch(r"\s*([0-9][0-9_.eE+-]*)\s*/\s*([0-9][0-9_.eE+-]*)\s*", text)
    try:
        above, below = (Fraction(part.replace("_", "")) for part in found.groups()) if found else (None, None)
    except ValueError:
        above = below = None
    if above is None or not below or above > below:
        raise ParameterError(f'sampling_rate = {shorten(text)}; accepted: a number in [0, 1], or "BATCH/RECORDS"')
    return float(above / below)


def _training(line: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling rate and count of a line that states records, batch and perhaps epochs."""
    for key, missing in (("records", "batch"), ("batch", "records"), ("epochs", "records")):
        if key in training and missing not in training:
            raise PlanError(f"{key} without {missing}; accepted: records, batch and, for the count, epochs")
    doubles = [key for key in ("sampling_rate", *(["count"] if "epochs" in training else [])) if key in line]
    if doubles:
        raise PlanError(f"{doubles[0]} beside {', '.join(training)}; accepted: one of them")
    records = integer("records", training["records"], 1, 10**15)
    batch = integer("batch", training["batch"], 1, records)
    steps = {"count": steps_of(records, batch, training["epochs"])} if "epochs" in training else {}
    return {"sampling_rate": batch / records, **steps}


def steps_of(records: int, batch: int, epochs: object) -> int:
    """Steps of a training: epochs * records / batch, rounded up."""
    return ceil(Fraction(real("epochs", epochs, 0.0, 1e9, open_low=True)) * records / batch)


def unit_of_noise(where: str, line: Mapping[str, Any], *, own: bool = True) -> str | None:
    """The parameter of a line's event in whose units a noise multiplier states sigma; None if there is none."""
    names = {parameter.name for parameter in parameters_of(kind_of(where, line.get("event"), own=own))}
    return next((unit for unit in UNITS if {unit, "sigma"} <= names), None)


def _sigma(line: Mapping[str, Any], multiplier: object, unit: str | None, adjacency: Adjacency | None) -> float:
    """What a noise multiplier makes of sigma."""
    if unit is None or "sigma" in line:
        beside = "beside sigma; accepted: one of them" if unit else f"for {line.get('event')}; accepted: its parameters"
        raise PlanError(f"{NOISE_MULTIPLIER} {beside}")
    if unit != UNITS[0] and adjacency is Adjacency.REPLACE:
        raise PlanError(
            f"{NOISE_MULTIPLIER} for {line['event']} under replace adjacency: sigma over the clipping norm, or over "
            'the distance of neighbours? accepted: sigma and sensitivity, or event = "clipped-sum" with its clip'
        )
    sigma = real(NOISE_MULTIPLIER, multiplier, 1e-50, 1e50) * real(unit, line.get(unit, 1.0), 1e-50, 1e50)
    return sigma


def parse_float(text: str) -> float:
    """A TOML float; one that is written as not 0 but too small for a double is an error, not 0."""
    number = float(text)
    if number == 0 and set(text.lower().partition("e")[0]) & set("123456789"):
        raise PlanError(f"{text} is too small for a floating-point number; accepted: 0, or at least 5e-324 in size")
    return number


def locate_errors(where: str, build: Callable[[], T]) -> T:
    """Run `build`, and say where it went wrong if it did."""
    try:
        return build()
    except AccountantError as error:
        raise PlanError(f"{where}: {error}") from None


def refuse_unknown(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    known = list(known)
    for key in table:
        if key not in known:
            above = "; it belongs at the top, before the first [[release]]" if key in PLAN_KEYS else suggest(key, known)
            raise PlanError(f"{where}: unknown key {key!r}{above}; accepted: {', '.join(known)}")


def suggest(word: str, known: Iterable[str]) -> str:
    within = [name for name in known if len(word) > 2 and word in name]
    close = within[:1] or get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def suggest_in(table: Mapping[str, Any], known: list[str]) -> str:
    for key in table:
        close = get_close_matches(key, known, n=1)
        if close:
            return f" (is {key!r} meant to be {close[0]!r}?)"
    return ""


def _needs(parameters: tuple[Parameter, ...]) -> str:
    return ", ".join(p.key if p.default is None else f"{p.key} (default {p.default})" for p in parameters)
