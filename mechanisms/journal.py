"""Durable record of a labelling run: every charge is on disk before the draw that it pays for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import accountant as ac

__all__ = ["Journal", "JournalError", "Part"]

_MARK = 0x6B6E6E6A
"""SQLite's application id of a journal: other databases are left alone."""

_TABLES = f"""
PRAGMA application_id = {_MARK};
CREATE TABLE IF NOT EXISTS parts (part TEXT PRIMARY KEY, header TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS charges (part TEXT, query INTEGER, release TEXT, PRIMARY KEY (part, query, release));
CREATE TABLE IF NOT EXISTS answers (part TEXT, query INTEGER, answer TEXT, state TEXT, PRIMARY KEY (part, query));
"""


class JournalError(ac.AccountantError, ValueError):
    """A journal that cannot be used; the message names the file and what would be accepted."""


class Journal:
    """A file that lets an interrupted run go on, and that never shows less than was spent.

    An SQLite database that one process holds at a time; each charge is committed and synchronised to disk before
    its draw. What it holds was paid for and is as safe to publish as the labels, except in seeded experiments, whose
    generator's state it keeps.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    JournalError
        The file is not a journal, cannot be written, or another process holds it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._parts = 0
        self.about: dict[str, Any] = {}
        with self._clear():
            # autocommit: transactions begin and end where they are written
            # absolute, since ":memory:" would not be a file
            self._database = sqlite3.connect(self.path.absolute(), timeout=0, isolation_level=None)
            try:
                self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._refuse_others()
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = FULL")
                self._database.executescript("BEGIN IMMEDIATE;" + _TABLES + "COMMIT;")
            except (sqlite3.Error, JournalError):
                self._database.close()
                raise

    def _refuse_others(self) -> None:
        ((mark,),) = self._database.execute("PRAGMA application_id")
        ((tables,),) = self._database.execute("SELECT count(*) FROM sqlite_master")
        if tables and mark != _MARK:
            raise JournalError(f"{self.path}: a database of something else; accepted: a journal, or a new file")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def part(self, header: dict[str, Any]) -> Part:
        """The next run of this process: a new one, or the one that the journal holds in its place.

        `about`, what a caller says of all runs together, is part of every header.

        Raises
        ------
        JournalError
            The journal holds a run with another header in its place.
        """
        name, text = f"run {self._parts}", json.dumps({**self.about, **header}, sort_keys=True, default=_plain)
        with self._clear():
            self._database.execute("INSERT OR IGNORE INTO parts VALUES (?, ?)", (name, text))
            ((found,),) = self._database.execute("SELECT header FROM parts WHERE part = ?", (name,))
        before, now = json.loads(found), json.loads(text)
        differ = ", ".join(key for key in now if before.get(key) != now[key])
        if differ:
            raise JournalError(f"{self.path}: holds a run with other {differ}; accepted: the same run, or another file")
        self._parts += 1
        return Part(self, name)

    @contextmanager
    def _clear(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise JournalError(f"{self.path}: another process holds it; accepted: one process at a time") from None
            raise JournalError(f"{self.path}: {error}; accepted: a journal, or a new file") from None


class Part:
    """What one labelling run was charged, and what it answered; in memory alone if there is no journal.

    Attributes
    ----------
    charges : set of (int, str)
        Query and release of every charge so far.
    answers : dict
        From a query to (answer, state of the generator after it); the answer is None where screening refused it.
    """

    def __init__(self, journal: Journal | None = None, name: str = "") -> None:
        self._journal, self._name = journal, name
        self.charges: set[tuple[int, str]] = set()
        self.answers: dict[int, tuple[Any, Any]] = {}
        if journal is not None:
            with journal._clear():
                find = journal._database.execute
                self.charges.update(find("SELECT query, release FROM charges WHERE part = ?", (name,)))
                for query, *texts in find("SELECT query, answer, state FROM answers WHERE part = ?", (name,)):
                    answer, state = map(json.loads, texts)
                    self.answers[query] = answer, state
        self.charged_queries = {query for query, _ in self.charges}

    def charge(self, query: int, release: str) -> bool:
        """Record a charge, on disk before this returns; False if it was there already."""
        if (query, release) in self.charges:
            return False
        self._insert("charges", query, release)
        self.charges.add((query, release))
        return True

    def answer(self, query: int, answer: Any, state: Any) -> None:
        """Record what came of a query."""
        if self._journal is not None:
            self._insert("answers", query, json.dumps(answer, default=_plain), json.dumps(state, default=_plain))

    def _insert(self, table: str, *row: Any) -> None:
        if self._journal is not None:
            with self._journal._clear():
                marks = ", ".join("?" * (len(row) + 1))
                self._journal._database.execute(f"INSERT INTO {table} VALUES ({marks})", (self._name, *row))


def _plain(value: Any) -> Any:
    """numpy's arrays and numbers as JSON has them."""
    return value.tolist()
