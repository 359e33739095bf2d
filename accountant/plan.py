"""A planned experiment, written down as a TOML file, and the composition that it spends."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from accountant.errors import PlanError, real, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.parameters import Parameter, parameters_of
from accountant.plain_text import is_plain
from accountant.plan_lines import (
    EVENT_KEYS,
    EVENTS,
    PLAN_KEYS,
    RELEASE_KEYS,
    STAND_INS,
    adjacency_of,
    event_of,
    locate_errors,
    parse_float,
    plain_line,
    refuse_unknown,
    suggest,
)
from accountant.plan_numbers import INNER, inner_table, is_whole, numbers_in, plain_key, set_number

__all__ = [
    "EVENTS",
    "PLAN_KEYS",
    "RELEASE_KEYS",
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
    "parse_tables",
    "read_plan_text",
]


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
    tables : mapping
        The plan as parsed TOML, with the numbers that `plain_line` makes of a line's keys.
    written : mapping
        The plan as parsed TOML, with the keys that its author chose.
    """

    name: str
    description: str
    delta: float | None
    releases: tuple[Release, ...]
    tables: Mapping[str, Any]
    written: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @property
    def composition(self) -> Composition:
        """What the whole plan spends."""
        return sum((release.composition for release in self.releases), Composition())

    @property
    def run(self) -> Composition:
        """The same: `ac.load_plan(path).run` is the run that `Composition.to_toml` wrote."""
        return self.composition

    def to_toml(self) -> str:
        """The plan as TOML, with the keys that its author chose; `load_plan` makes the same releases of it."""
        from accountant.events.plan_text import plan_text

        return plan_text(self.written or self.tables)

    @classmethod
    def from_tables(cls, name: str, tables: Mapping[str, Any], *, own: bool = True) -> Plan:
        """Build a plan from parsed TOML; only if `own`, with events of classes of one's own, which are imported.

        Raises
        ------
        PlanError
            A key is unknown or missing, a name is used twice, or a value is out of range; the message is
            one line that says where and what would be accepted.
        """
        refuse_unknown(name, tables, PLAN_KEYS)
        delta = tables.get("delta")
        if delta is not None:
            delta = locate_errors(name, lambda: real("delta", delta, 0.0, 1.0, open_high=True))
        lines = tables.get("release")
        if isinstance(lines, dict):
            raise PlanError(f"{name}: no releases; accepted: [[release]], in double brackets, once for each")
        if not isinstance(lines, list) or not lines or not all(isinstance(line, dict) for line in lines):
            raise PlanError(f"{name}: no releases; accepted: one or more [[release]] tables")
        adjacency = adjacency_of(name, tables.get("adjacency"))
        releases: list[Release] = []
        written = tables
        lines = [
            plain_line(_place(name, number, line), line, adjacency, own=own) for number, line in enumerate(lines, 1)
        ]
        tables = {**tables, "release": lines}
        for number, line in enumerate(lines, 1):
            event = event_of(_place(name, number, line), line, adjacency, RELEASE_KEYS, own=own)
            release = _release(name, number, line, event, {done.name for done in releases})
            if releases and release.event.adjacency is not releases[0].event.adjacency:
                raise PlanError(
                    f"{name}: release {number} ({release.name}) has adjacency {release.event.adjacency}, release 1 "
                    f'{releases[0].event.adjacency}; accepted: one for all, such as adjacency = "replace" for the plan'
                )
            releases.append(release)
        return cls(name, _description(name, tables), delta, tuple(releases), tables, written)

    def with_value(self, targets: str, value: float) -> Plan:
        """The same plan with ``release.key`` (or several, separated by commas) set to `value`.

        Raises
        ------
        PlanError
            There is no such release or key, or the value is out of its range.
        """
        lines = list(self.tables["release"])
        for index, key in self.targets(targets):
            number = int(value) if self.whole(index, key) else value
            lines[index] = set_number(lines[index], key, number, self.tables["release"][index])
        return Plan.from_tables(self.name, {**self.tables, "release": lines})

    def with_text(self, targets: str, value: object) -> Plan:
        """The same plan with ``release.key`` set to a value as a plan may state it, also of keys that stand for others.

        Where the plan states records, batch and epochs, these may be set, and what was not touched stays as written;
        setting `sampling_rate` or `count` there replaces them. Errors as for `with_value`.
        """
        return self.with_numbers((place, value) for place in self.targets(targets, as_written=True))

    def with_numbers(self, values: Iterable[tuple[tuple[int, str], object]]) -> Plan:
        """The same plan with other values at places that `targets` found, `as_written`; errors as for `with_value`."""
        lines = list(self.written["release"])
        for (index, key), value in values:
            lines[index] = set_number(lines[index], key, value, self.tables["release"][index])
        return Plan.from_tables(self.name, {**self.written, "release": lines})

    def value(self, targets: str) -> float | None:
        """The first target's present value, if the plan states one; also of keys that stand for others."""
        index, key = self.targets(targets, as_written=True)[0]
        line = (self.written if key.rpartition(".")[2] in STAND_INS else self.tables)["release"][index]
        table, last = inner_table(line, key)
        found = table.get(last)
        return float(found) if isinstance(found, int | float) else None

    def whole(self, index: int, key: str) -> bool:
        """Whether a key of release number `index` takes whole numbers only."""
        return is_whole(self.name, self.tables["release"][index], key)

    def targets(self, targets: str, *, as_written: bool = False) -> list[tuple[int, str]]:
        """Positions and keys meant by ``release.key[,release.key...]``; a sole release need not be named.

        Keys are those of `tables`, or also those of `written` that stand for others; ``of.key`` is one of the table
        `of` of a release.
        """
        found = []
        names = [release.name for release in self.releases]
        for target in (part.strip() for part in targets.split(",")):
            release, dot, key = target.partition(".")
            if len(names) == 1 and (not dot or (release == INNER and INNER not in names)):
                release, key = names[0], target
            elif not dot and target not in names:
                choices = ", ".join(f"{name}.{target or 'KEY'}" for name in names)
                raise PlanError(f"{self.name}: {target!r} of which release? accepted: NAME.KEY, here {choices}")
            if release not in names:
                hint = suggest(release, names)
                raise PlanError(f"{self.name}: no release {release or target!r}{hint}; accepted: NAME.KEY")
            index = names.index(release)
            line = self.tables["release"][index]
            keys = numbers_in(self.name, line, self.written["release"][index] if as_written else {})
            key = plain_key(self.name, line, key, keys)
            if key not in keys:
                hint = suggest(key, keys)
                raise PlanError(
                    f"{self.name}: {release!r} has no number {key!r} to vary{hint}; accepted: {', '.join(keys)}"
                )
            found.append((index, key))
        return found


def load_plan(source: str | Path, *, own: bool = True) -> Plan:
    """Read a plan from a TOML file, or a built-in one by name.

    Parameters
    ----------
    source : str or Path
    own : bool
        Whether events may be of classes of one's own, MODULE:NAME. These modules are imported, which runs their code.

    Raises
    ------
    PlanError
        There is no such file or plan, it is not TOML (the message gives the line), or it is not a plan.
    """
    return parse_plan(str(source), read_plan_text(source), own=own)


def read_plan_text(source: str | Path) -> str:
    """The text of a plan in a file, or of a built-in one; errors as for `load_plan`."""
    if not isinstance(source, str | PathLike):
        raise PlanError(
            f"source = {shorten(source)}; accepted: the path of a TOML file, or the name of a built-in plan"
        )
    path = Path(source)
    names = builtin_plans()
    if str(source) in names:
        return resources.files("accountant.plans").joinpath(f"{source}.toml").read_text("utf-8")
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise PlanError(
            f"no file {str(source)!r} and no built-in plan of that name{suggest(str(source), names)}; "
            "accepted: a TOML file, or a built-in plan, as 'accountant list' shows them"
        ) from None
    except (OSError, ValueError) as error:
        raise PlanError(f"cannot read {str(source)!r}: {error}; accepted: a UTF-8 text file in TOML") from None


def parse_plan(name: str, text: str, *, own: bool = True) -> Plan:
    """The plan that a TOML text states; errors as for `load_plan`."""
    return Plan.from_tables(name, parse_tables(name, text), own=own)


def parse_tables(name: str, text: str) -> dict[str, Any]:
    """The tables of a plan that a TOML text states, which may be none that a plan can have."""
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{name}: not valid TOML: {error}; accepted: a plan in TOML") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else error
        raise PlanError(f"{name}: not readable as TOML: {reason}; accepted: a plan in TOML") from None


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
        # tables may come from elsewhere: nothing is imported for them
        stated = adjacency_of(where, table.get("adjacency"))
        event = event_of(where, line, stated, EVENT_KEYS, own=False)
        entries.append((event, table.get("count", 1)))
    return locate_errors("tables", lambda: Composition(entries))


def _place(plan: str, number: int, line: Mapping[str, Any]) -> str:
    """Where an error is, for its message."""
    given = line.get("name")
    return f"{plan}: release {number}" + (f" ({given})" if isinstance(given, str) and is_plain(given) else "")


def _description(plan: str, tables: Mapping[str, Any]) -> str:
    text = tables.get("description", "")
    plain = text.replace("\r\n", "\n") if isinstance(text, str) else "\0"
    if not is_plain(plain, lines=True):
        accepted = "text without control characters other than tabs and ends of lines"
        raise PlanError(f"{plan}: description = {shorten(text)}; accepted: {accepted}")
    return plain.strip()


def _release(plan: str, number: int, line: Mapping[str, Any], event: Event, taken: set[str]) -> Release:
    def build() -> Release:
        ((_, count),) = (Composition([(event, line.get("count", 1))]).entries or {event: 0}).items()
        return Release(_name(line, line["event"], taken), event, count)

    return locate_errors(_place(plan, number, line), build)


def _name(line: Mapping[str, Any], event_name: str, taken: set[str]) -> str:
    if "name" in line:
        name = line["name"]
        if not isinstance(name, str) or not is_plain(name) or not name or "." in name or "," in name:
            accepted = "text without dots and commas, on one line, without control characters"
            raise PlanError(f"name = {shorten(name)}; accepted: {accepted}")
        if name in taken:
            raise PlanError(f"the name {name!r} is used twice; accepted: a name of its own for every release")
        return name
    plain = event_name.rpartition(":")[2].rpartition(".")[2]  # of a class of one's own
    number, name = 1, plain
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name
