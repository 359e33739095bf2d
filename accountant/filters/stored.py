"""A file that keeps what a filter or an odometer has spent, so that no crash makes it forget a release."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from accountant.adjacency import as_adjacency
from accountant.database import Database, FileKind, RunStatement
from accountant.errors import FilterError, ParameterError, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.filters.spending import Released, Spent
from accountant.plan import parse_plan

__all__ = ["StoredRun"]


FILTER = FileKind(
    "a filter",
    0x6B6E6E66,
    (
        "CREATE TABLE IF NOT EXISTS about (text TEXT NOT NULL)",
        "CREATE TABLE IF NOT EXISTS spent (text TEXT NOT NULL)",
        "CREATE TABLE IF NOT EXISTS releases (plan TEXT PRIMARY KEY, count TEXT NOT NULL) WITHOUT ROWID",
    ),
    FilterError,
)
"""One row of settings, one of running sums, and one for every distinct event; all change in one transaction."""


class StoredRun:
    """The file of a run.

    Parameters
    ----------
    path : str or Path
    about : dict
        Settings, which must be those that the file was made with.
    wait : float
        Seconds to wait for other processes.
    """

    def __init__(self, path: str | Path, about: dict[str, Any], wait: float) -> None:
        if not isinstance(path, str | PathLike):
            raise ParameterError(f"path = {shorten(path)}; accepted: the path of a file, or None")
        self._database = Database(Path(path), FILTER, wait)
        self._texts: dict[Event, str] = {}
        self._run: RunStatement | None = None
        text = json.dumps(about, sort_keys=True)
        try:
            with self._database.transaction() as run:
                found = list(run("SELECT text FROM about"))
                if not found:
                    run("INSERT INTO about VALUES (:text)", {"text": text})
                elif found != [(text,)]:
                    before = json.loads(found[0][0])
                    differ = ", ".join(key for key in {**before, **about} if before.get(key) != about.get(key))
                    raise self._database.refuse(
                        f"made with other settings ({differ}); accepted: the same settings, or a new file"
                    )
        except BaseException:
            self.close()
            raise

    def reopen(self) -> None:
        """In a forked child: leave the parent's connection alone, and open the same file anew."""
        self._database = self._database.reopen()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[Released | None]:
        """What was spent; None before the first release. What `write` writes is on disk when the block has ended."""
        with self._database.transaction() as run:
            self._run = run
            try:
                found = list(run("SELECT text FROM spent"))
                yield _read(found[0][0]) if found else None
            finally:
                self._run = None

    def find_count(self, event: Event) -> int:
        """How often an event has happened, within a transaction."""
        assert self._run is not None
        found = list(self._run("SELECT count FROM releases WHERE plan = :plan", {"plan": self._text_of(event)}))
        return int(found[0][0]) if found else 0

    def write(self, after: Released, counts: Mapping[Event, int]) -> None:
        """Keep the sums after a release, and how often its events have happened by then, within a transaction."""
        assert self._run is not None
        run = self._run
        for event, count in counts.items():  # which may be larger than the integers of a database
            values = {"plan": self._text_of(event), "count": str(count)}
            run("INSERT OR REPLACE INTO releases VALUES (:plan, :count)", values)
        run("DELETE FROM spent")
        run("INSERT INTO spent VALUES (:text)", {"text": _text(after)})

    def _text_of(self, event: Event) -> str:
        """The name of an event in the file."""
        if event not in self._texts:
            self._texts[event] = Composition([(event, 1)]).to_toml()
        return self._texts[event]

    def releases(self) -> list[tuple[Event, int]]:
        """All releases so far."""
        with self._database.transaction() as run:
            rows = list(run("SELECT plan, count FROM releases"))
        return [
            (event, int(count)) for plan, count in rows for event in parse_plan("a filter's file", plan).run.entries
        ]


def _text(state: Released) -> str:
    """As JSON, which holds floats to the last bit."""
    spent = state.spent._replace(curve=state.spent.curve.tolist())
    assert state.adjacency is not None
    return json.dumps({"spent": spent._asdict(), "adjacency": state.adjacency.value, "gaussian": state.gaussian})


def _read(text: str) -> Released:
    read = json.loads(text)
    spent = {**read["spent"], "curve": np.array(read["spent"]["curve"])}
    return Released(Spent(**spent), as_adjacency(read["adjacency"]), read["gaussian"])
