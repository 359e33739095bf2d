"""A planned experiment, written down as a TOML file, and the composition that it spends."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from accountant.adjacency import Adjacency
from accountant.errors import AccountantError, PlanError, real, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.parameters import Parameter, parameters_of
from accountant.events.registry import event_kinds
from accountant.events.subsampled import PoissonSubsampled

__all__ = [
    "EVENTS",
    "Parameter",
    "Plan",
    "Release",
    "builtin_plans",
    "composition_from_tables",
    "composition_to_tables",
    "load_plan",
    "parameters_of",
    "parse_float",
    "parse_plan",
]

EVENTS = event_kinds()
"""Event classes by their names in plans."""

T = TypeVar("T")

PLAN_KEYS = ("description", "delta", "adjacency", "release")
RELEASE_KEYS = ("name", "event", "count", "sampling_rate")

MAX_DEPTH = 8
"""Tables within tables: events that are parameters of events."""


@dataclass(frozen=True)
class Release:
    """One line of a plan: an event, sampled or not, and how often it happens."""

    name: str
    event: Event
    count: int

    @property
    def composition(self) -> Composition:
        return self.count * self.event


@dataclass(frozen=True)
class Plan:
    """A planned experiment.

    Attributes
    ----------
    name, description : str
    delta : float or None
        None where the plan leaves it to the command line.
    releases : tuple of Release
    """

    name: str
    description: str
    delta: float | None
    releases: tuple[Release, ...]
    tables: Mapping[str, Any]

    @property
    def composition(self) -> Composition:
        """What the whole plan spends."""
        return sum((release.composition for release in self.releases), Composition())

    @classmethod
    def from_tables(cls, name: str, tables: Mapping[str, Any]) -> Plan:
        """Build a plan from parsed TOML.

        Raises
        ------
        PlanError
            A key is unknown or missing, a name is used twice, or a value is out of range; the message is
            one line that says where and what would be accepted.
        """
        _refuse_unknown(name, tables, PLAN_KEYS)
        delta = tables.get("delta")
        if delta is not None:
            delta = _locate_errors(name, lambda: real("delta", delta, 0.0, 1.0, open_high=True))
        lines = tables.get("release")
        if isinstance(lines, dict):
            raise PlanError(f"{name}: no releases; accepted: [[release]], in double brackets, once for each")
        if not isinstance(lines, list) or not lines or not all(isinstance(line, dict) for line in lines):
            raise PlanError(f"{name}: no releases; accepted: one or more [[release]] tables")
        adjacency = _adjacency(name, tables.get("adjacency"))
        releases: list[Release] = []
        for number, line in enumerate(lines, 1):
            release = _release(name, number, line, adjacency, {done.name for done in releases})
            if releases and release.event.adjacency is not releases[0].event.adjacency:
                raise PlanError(
                    f"{name}: release {number} ({release.name}) has adjacency {release.event.adjacency}, release 1 "
                    f'{releases[0].event.adjacency}; accepted: one for all, such as adjacency = "replace" for the plan'
                )
            releases.append(release)
        description = tables.get("description", "")
        if not isinstance(description, str):
            raise PlanError(f"{name}: description = {shorten(description)}; accepted: text")
        return cls(name, description.strip(), delta, tuple(releases), tables)

    def with_value(self, targets: str, value: float) -> Plan:
        """The same plan with ``release.key`` (or several, separated by commas) set to `value`.

        Raises
        ------
        PlanError
            There is no such release or key, or the value is out of its range.
        """
        lines = [dict(line) for line in self.tables["release"]]
        for index, key in self.targets(targets):
            lines[index][key] = int(value) if self.whole(index, key) else value
        return Plan.from_tables(self.name, {**self.tables, "release": lines})

    def value(self, targets: str) -> float | None:
        """The first target's present value, if the plan states one."""
        index, key = self.targets(targets)[0]
        found = self.tables["release"][index].get(key)
        return float(found) if isinstance(found, int | float) else None

    def whole(self, index: int, key: str) -> bool:
        """Whether a key of release number `index` takes whole numbers only."""
        kind = EVENTS[self.tables["release"][index]["event"]]
        return key == "count" or any(p.name == key and p.whole for p in parameters_of(kind))

    def targets(self, targets: str) -> list[tuple[int, str]]:
        """Positions and keys meant by ``release.key[,release.key...]``; a sole release need not be named."""
        found = []
        names = [release.name for release in self.releases]
        for target in (part.strip() for part in targets.split(",")):
            release, dot, key = target.rpartition(".")
            if not dot and len(names) == 1:
                release = names[0]
            elif not dot and target not in names:
                choices = ", ".join(f"{name}.{target or 'KEY'}" for name in names)
                raise PlanError(f"{self.name}: {target!r} of which release? accepted: NAME.KEY, here {choices}")
            if release not in names:
                hint = _hint(release, names)
                raise PlanError(f"{self.name}: no release {release or target!r}{hint}; accepted: NAME.KEY")
            index = names.index(release)
            kind = EVENTS[self.tables["release"][index]["event"]]
            keys = [
                "count",
                "sampling_rate",
                *(parameter.name for parameter in parameters_of(kind) if parameter.number),
            ]
            if key not in keys:
                hint = _hint(key, keys)
                raise PlanError(
                    f"{self.name}: {release!r} has no number {key!r} to vary{hint}; accepted: {', '.join(keys)}"
                )
            found.append((index, key))
        return found


def load_plan(source: str | Path) -> Plan:
    """Read a plan from a TOML file, or a built-in one by name.

    Raises
    ------
    PlanError
        There is no such file or plan, it is not TOML (the message gives the line), or it is not a plan.
    """
    path = Path(source)
    names = builtin_plans()
    if str(source) in names:
        text = resources.files("accountant.plans").joinpath(f"{source}.toml").read_text("utf-8")
    else:
        try:
            text = path.read_text("utf-8-sig")
        except FileNotFoundError:
            raise PlanError(
                f"no file {str(source)!r} and no built-in plan of that name{_hint(str(source), names)}; "
                "'accountant list' shows them"
            ) from None
        except (OSError, ValueError) as error:
            raise PlanError(f"cannot read {str(source)!r}: {error}; accepted: a UTF-8 text file in TOML") from None
    return parse_plan(str(source), text)


def parse_plan(name: str, text: str) -> Plan:
    """The plan that a TOML text states; errors as for `load_plan`."""
    try:
        tables = tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{name}: not valid TOML: {error}") from None
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{name}: not readable as TOML: {error}") from None
    return Plan.from_tables(name, tables)


def builtin_plans() -> tuple[str, ...]:
    """Names of the built-in plans, sorted."""
    files = resources.files("accountant.plans").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def composition_to_tables(run: Composition) -> list[dict[str, Any]]:
    """A composition as tables that JSON and TOML can hold, one for each event.

    A table has the keys of a plan's ``[[release]]`` and the adjacency.

    Raises
    ------
    ParameterError
        The class of an event has no name in plans.
    """
    return [{**event.to_table(), "adjacency": event.adjacency.value, "count": count} for event, count in run]


def composition_from_tables(tables: Iterable[Mapping[str, Any]]) -> Composition:
    """The composition that `composition_to_tables` turned into tables.

    Raises
    ------
    PlanError
        A table is not that of an event, or a value is out of range.
    AdjacencyMismatch
        Two events have different adjacency.
    """
    entries = []
    for number, table in enumerate(tables, 1):
        where = f"table {number}"
        if not isinstance(table, Mapping):
            raise PlanError(f"{where}: {shorten(table)}; accepted: a table of an event")
        line = {key: value for key, value in table.items() if key not in ("adjacency", "count")}
        event = _event(where, line, _adjacency(where, table.get("adjacency")), ("event", "sampling_rate"))
        entries.append((event, table.get("count", 1)))
    return _locate_errors("tables", lambda: Composition(entries))


def _release(plan: str, number: int, line: Mapping[str, Any], adjacency: Adjacency | None, taken: set[str]) -> Release:
    given = line.get("name")
    where = f"{plan}: release {number}" + (f" ({given})" if isinstance(given, str) and given.isprintable() else "")
    event = _event(where, line, adjacency, RELEASE_KEYS)

    def build() -> Release:
        ((_, count),) = (Composition([(event, line.get("count", 1))]).entries or {event: 0}).items()
        return Release(_name(line, line["event"], taken), event, count)

    return _locate_errors(where, build)


def _event(
    where: str, line: Mapping[str, Any], adjacency: Adjacency | None, keys: Sequence[str], depth: int = 0
) -> Event:
    """The event of a table with the event's parameters and some of `keys`; a parameter may be an event's table."""
    if depth > MAX_DEPTH:
        raise PlanError(f"{where}: tables within tables; accepted: at most {MAX_DEPTH} deep")
    if "event" not in line:
        raise PlanError(f"{where}: event is missing{_hint_in(line, ['event'])}; accepted: {', '.join(EVENTS)}")
    name = line["event"]
    if not isinstance(name, str) or name not in EVENTS:
        hint = _hint(str(name), EVENTS)
        raise PlanError(f"{where}: unknown event {shorten(name)}{hint}; accepted: {', '.join(EVENTS)}")
    kind = EVENTS[name]
    parameters = parameters_of(kind)
    _refuse_unknown(where, line, [*keys, *(parameter.name for parameter in parameters)])
    missing = [p.name for p in parameters if p.default is None and p.name not in line]
    if missing:
        raise PlanError(f"{where}: {', '.join(missing)} missing; {name} needs {_needs(parameters)}")
    arguments = {p.name: _argument(f"{where}: {p.name}", line[p.name], depth) for p in parameters if p.name in line}
    if adjacency and "adjacency" in {field.name for field in fields(kind) if field.init}:  # type: ignore[arg-type]
        arguments["adjacency"] = adjacency

    def build() -> Event:
        event: Event = kind(**arguments)
        if "sampling_rate" in line:
            event = PoissonSubsampled(event, real("sampling_rate", line["sampling_rate"], 0.0, 1.0))
        if adjacency and event.adjacency is not adjacency:
            raise PlanError(f"{name} is defined under {event.adjacency} adjacency, the plan says {adjacency}")
        return event

    return _locate_errors(where, build)


def _argument(where: str, value: Any, depth: int) -> Any:
    """A parameter of an event as a table states it: an event of its own where it is a table."""
    if not isinstance(value, Mapping):
        return value
    inner = {key: each for key, each in value.items() if key != "adjacency"}
    return _event(where, inner, _adjacency(where, value.get("adjacency")), ("event",), depth + 1)


def _name(line: Mapping[str, Any], event_name: str, taken: set[str]) -> str:
    if "name" in line:
        name = line["name"]
        if not isinstance(name, str) or not name.isprintable() or not name or "." in name or "," in name:
            raise PlanError(f"name = {shorten(name)}; accepted: text without dots and commas, on one line")
        if name in taken:
            raise PlanError(f"the name {name!r} is used twice; accepted: a name of its own for every release")
        return name
    number, name = 1, event_name
    while name in taken:
        number += 1
        name = f"{event_name}-{number}"
    return name


def _adjacency(where: str, value: object) -> Adjacency | None:
    if value is None:
        return None
    try:
        return Adjacency(value)
    except ValueError:
        accepted = " or ".join(f'"{member}"' for member in Adjacency)
        raise PlanError(f"{where}: adjacency = {shorten(value)}; accepted: {accepted}") from None


def parse_float(text: str) -> float:
    """A TOML float; one that is written as not 0 but too small for a double is an error, not 0."""
    number = float(text)
    if number == 0 and set(text.lower().partition("e")[0]) & set("123456789"):
        raise PlanError(f"{text} is too small for a floating-point number; accepted: 0, or at least 5e-324 in size")
    return number


def _locate_errors(where: str, build: Callable[[], T]) -> T:
    """Run `build`, and say where it went wrong if it did."""
    try:
        return build()
    except AccountantError as error:
        raise PlanError(f"{where}: {error}") from None


def _refuse_unknown(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    known = list(known)
    for key in table:
        if key not in known:
            above = "; it belongs at the top, before the first [[release]]" if key in PLAN_KEYS else _hint(key, known)
            raise PlanError(f"{where}: unknown key {key!r}{above}; accepted: {', '.join(known)}")


def _hint(word: str, known: Iterable[str]) -> str:
    within = [name for name in known if len(word) > 2 and word in name]
    close = within[:1] or get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _hint_in(table: Mapping[str, Any], known: list[str]) -> str:
    for key in table:
        close = get_close_matches(key, known, n=1)
        if close:
            return f" (is {key!r} meant to be {close[0]!r}?)"
    return ""


def _needs(parameters: tuple[Parameter, ...]) -> str:
    return ", ".join(p.name if p.default is None else f"{p.name} (default {p.default})" for p in parameters)
