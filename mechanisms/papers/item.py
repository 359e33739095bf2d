"""One table or figure of a paper: what is printed there, and what is computed or run beside it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import accountant as ac

__all__ = ["KINDS", "Figure", "Item", "ItemError", "Row", "parse_item"]

KINDS = ("table", "figure", "illustration", "specification")
"""An illustration shows no numbers; a specification lists settings that the text itself states, nothing measured."""

_PLACEHOLDER = re.compile(r"\{([a-z0-9-]+)\}")

SOURCES = ("private", "public", "test", "data", "votes")
"""Keys of a run, or of a price, that name data."""


class ItemError(ac.AccountantError, ValueError):
    """There is no such item, or its file is not as described."""


@dataclass(frozen=True)
class Figure:
    """What a figure draws: a quantity against a parameter that rows vary.

    Attributes
    ----------
    x, y : str
        The varied parameter, and a quantity.
    log : tuple of str
        Axes with a logarithmic scale: "x", "y".
    """

    x: str
    y: str
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One line of a table, or one point of a line of a figure.

    Attributes
    ----------
    name : str
    printed : mapping
        Numbers that the paper prints, by quantity; text where it prints a bound, such as "<= 50".
    different : mapping
        Why ours differs, by quantity; the key "all" holds for all quantities.
    price, run, small : mapping or None
        What is priced; what is run; what `--small` changes of the run ("none" takes a setting away).
    seeds : int
        Number of runs; the seeds are 0, 1, ...
    only : {"", "small", "full"}
        Whether it is run only with `--small`, or only without.
    series, x : str, float or None
        The line of a figure to which the row belongs, and where its point lies.
    """

    name: str
    printed: Mapping[str, Any] = field(default_factory=dict)
    different: Mapping[str, str] = field(default_factory=dict)
    price: Mapping[str, Any] | None = None
    run: Mapping[str, Any] | None = None
    small: Mapping[str, Any] | None = None
    seeds: int = 1
    only: str = ""
    series: str = ""
    x: float | None = None

    @property
    def prices_votes(self) -> bool:
        """Whether its price is that of votes that were cast, on which it depends."""
        return self.price is not None and self.price.get("kind") == "votes"

    def shrink(self, small: Mapping[str, Any] | None) -> Row:
        """The same row as `--small` runs it: on the item's small data, with what the row itself changes."""
        if self.run is None:
            return self
        kept = {key: value for key, value in self.run.items() if key not in SOURCES}
        merged = {**kept, "seeds": self.seeds, **(small or {}), **(self.small or {})}
        seeds = int(merged.pop("seeds"))
        return replace(self, run={key: value for key, value in merged.items() if value != "none"}, seeds=seeds)


@dataclass(frozen=True)
class Item:
    """A table or figure.

    Attributes
    ----------
    paper, name, title, source : str
        Paper and item as on the command line, a title of our own, and where it stands.
    kind : str
        One of `KINDS`.
    quantities : mapping
        Columns, in order, and what each is, with its unit.
    rows : tuple of Row
        Rows that vary a parameter are written out: one row for each value.
    figure : Figure or None
    small : mapping or None
        What `--small` runs on: ``data`` and ``split``, and what else all rows change.
    note, missing, small_note : str
        What stands under the result; what cannot be run, and why; what `--small` puts in the place of the paper's data.
    seconds : mapping
        How long it takes: ``small``, as measured, of one core; ``full``, a guess.
    """

    paper: str
    name: str
    title: str
    source: str
    kind: str
    quantities: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    figure: Figure | None = None
    small: Mapping[str, Any] | None = None
    note: str = ""
    missing: str = ""
    small_note: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)

    def choose_rows(self, small: bool) -> list[Row]:
        """The rows that are run with `--small`, as it runs them, or without."""
        other = "full" if small else "small"
        return [row.shrink(self.small) if small else row for row in self.rows if row.only != other]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the data that a run in full needs from the user, as in ``--mnist``."""
        found: dict[str, None] = {}
        for row in self.rows:
            for key in SOURCES:
                if isinstance(value := (row.run or {}).get(key), str):
                    found.update(dict.fromkeys(_PLACEHOLDER.findall(value)))
        return tuple(found)

    @property
    def runs(self) -> bool:
        """Whether mechanisms run; else all is priced, or nothing is computed."""
        return any(row.run is not None for row in self.rows)

    @property
    def status(self) -> str:
        """What the list says of it."""
        if self.kind in ("illustration", "specification"):
            return f"nothing to compute: {self.kind}"
        if not self.rows:
            return "not yet"
        said = "runs" if not self.needs else f"runs on {', '.join(self.needs)}"
        said += ", or small" if self.runs and self.needs else ""
        return f"{said}; not all: {self.missing}" if self.missing else said


def parse_item(paper: str, name: str, tables: Mapping[str, Any]) -> Item:
    """The item in the tables of its file.

    Raises
    ------
    ItemError
        A key is unknown or missing, or a row prints a quantity that is not listed.
    """
    where = f"{paper}/{name}.toml"
    given = dict(tables)
    rows, figure = given.pop("row", []), given.pop("figure", None)
    try:
        item = Item(paper=paper, name=name, **given)
        drawn = None if figure is None else Figure(**{**figure, "log": tuple(figure.get("log", ()))})
        every = tuple(each for row in rows for each in _expand(where, dict(row), drawn))
    except TypeError as error:
        raise ItemError(f"{where}: {error}; accepted: {', '.join(each.name for each in fields(Item))}") from None
    if item.kind not in KINDS:
        raise ItemError(f"{where}: kind = {item.kind!r}; accepted: {', '.join(KINDS)}")
    for row in every:
        wrong = [key for key in (*row.printed, *row.different) if key not in (*item.quantities, "all")]
        if wrong:
            accepted = ", ".join(item.quantities)
            raise ItemError(f"{where}, row {row.name!r}: quantity {wrong[0]!r}; accepted: {accepted}")
    return replace(item, rows=every, figure=drawn)


def _expand(where: str, row: dict[str, Any], figure: Figure | None) -> Iterator[Row]:
    """The row, once for each combination of the values that it varies; text for `different` holds for all."""
    vary = row.pop("vary", {})
    if isinstance(row.get("different"), str):
        row["different"] = {"all": row["different"]}
    printed_at = row.pop("printed_at", {})
    if not vary:
        yield Row(**row)
        return
    for values in itertools.product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        changed: dict[str, Any] = {part: {**row[part], **chosen} for part in ("price", "run") if part in row}
        if not changed:
            raise ItemError(f"{where}, row {row['name']!r}: varies {', '.join(vary)}; accepted: of a price or a run")
        point = figure.x if figure is not None and figure.x in chosen else None
        series = _describe(row["name"], {key: value for key, value in chosen.items() if key != point})
        name, at = series, {}
        if point is not None:
            name, at = _describe(series, {point: chosen[point]}), printed_at.get(f"{chosen[point]:g}", {})
        own: dict[str, Any] = {"name": name, "series": series, "x": None if point is None else float(chosen[point])}
        yield Row(**{**row, **changed, **own, "printed": {**row.get("printed", {}), **at}})


def _describe(name: str, chosen: Mapping[str, Any]) -> str:
    """A name, and the values that a row varies."""
    shown = (
        f"{key.replace('_', ' ')} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in chosen.items()
    )
    return ", ".join([name, *shown])
