"""Budgets of records that survive any crash: what a record spent is on disk before the answer that it paid for."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from operator import index
from pathlib import Path
from typing import Any, Protocol

import accountant as ac
from mechanisms.validation import needed, shown

__all__ = ["Store", "StoreError", "open_store"]

WAIT = 10
"""Seconds that a process waits for its turn."""

_ACCEPTED = "a path, sqlite:///path or postgresql://user:password@host/database"

_MARK = 0x6B6E6E62
"""SQLite's application id of a store, and PostgreSQL's lock: other databases are left alone."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS knn_settings (settings TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS knn_charges (seq INTEGER PRIMARY KEY, size INTEGER NOT NULL, totals TEXT NOT NULL)",
)
"""A row of charges holds new totals of some records; `size` says how many, with those of the rows before it."""

_LONG = 8
"""Totals in the log for every record: from there on one row of all of them takes the log's place."""

Run = Callable[..., Iterable[Any]]
"""Runs a statement with named values."""


class StoreError(ac.AccountantError, ValueError):
    """A store that cannot be used; the message names the store and what would be accepted."""


def open_store(where: str | Path) -> Store:
    """The budgets at a path, at "sqlite:///path" or at "postgresql://user:password@host/database".

    What is not there yet is made, except PostgreSQL's database, which must exist.

    Raises
    ------
    StoreError
        There is something else, it cannot be reached or written, or another process holds it for too long.
    MissingExtra
        PostgreSQL needs SQLAlchemy and psycopg.
    """
    scheme, mark, rest = str(where).partition("://")
    if not mark:
        return Store(_SQLite(Path(where)))
    if scheme == "sqlite" and len(rest) > 1 and rest[0] == "/":
        return Store(_SQLite(Path(rest[1:])))
    if scheme in ("postgresql", "postgresql+psycopg"):
        return Store(_PostgreSQL(str(where)))
    raise StoreError(f"a store at {scheme}://...; accepted: {_ACCEPTED}")


class Store:
    """Units that records have spent, shared by any number of processes; made by `open_store`.

    A log of totals that all processes append to, one at a time; each keeps the totals in memory and reads what the
    others wrote before it decides. Identifiers are never forgotten. Use a store in one thread of the process that
    opened it; one that failed can be used again.
    """

    def __init__(self, base: _Base) -> None:
        self._base = base
        self._process: int | None = os.getpid()
        self._run: Run | None = None
        self._forget()

    def _forget(self) -> None:
        """Read all again before the next use."""
        self._totals: dict[str, int] = {}
        self._new: dict[str, int] = {}
        self._seq = self._size = 0

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        if self._process == os.getpid():
            self._base.close()
        self._process = None

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One transaction around many charges: no other process charges meanwhile, all are committed at the end.

        Let no answer out before the end. After an exception nothing inside was charged, unless the commit itself
        failed, which can leave the charges there.
        """
        if self._run is not None:
            yield
            return
        if self._process != os.getpid():
            raise StoreError(
                f"{self._base.name}: closed, or opened by another process; accepted: open_store in this one"
            )
        try:
            with self._base.transaction() as self._run:
                self._read(self._run)
                yield
                self._write(self._run)
            self._new = {}
        except BaseException:
            self._forget()
            raise
        finally:
            self._run = None

    def _read(self, run: Run) -> None:
        """Totals that other processes wrote."""
        rows = run("SELECT seq, size, totals FROM knn_charges WHERE seq > :seq ORDER BY seq", seq=self._seq)
        for self._seq, self._size, totals in rows:
            self._totals.update(json.loads(totals))

    def _write(self, run: Run) -> None:
        """Append the new totals; where the log is long, put all totals in its place."""
        if not self._new:
            return
        self._seq += 1
        self._size += len(self._new)
        if self._size > _LONG * len(self._totals):
            self._new, self._size = self._totals, 0
            run("DELETE FROM knn_charges")
        values = {"seq": self._seq, "size": self._size, "totals": json.dumps(self._new)}
        run("INSERT INTO knn_charges VALUES (:seq, :size, :totals)", **values)

    def settle(self, settings: Mapping[str, object]) -> None:
        """Fix what the units mean, for ever: the first call decides.

        Raises
        ------
        StoreError
            The store was settled with other settings.
        """
        try:
            now = json.loads(json.dumps(settings, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ac.ParameterError(f"settings = {shown(settings)} ({error}); accepted: what JSON can hold") from None
        with self.batch():
            assert self._run is not None
            found = list(self._run("SELECT settings FROM knn_settings"))
            if not found:
                self._run("INSERT INTO knn_settings VALUES (:settings)", settings=json.dumps(now))
                return
        before = json.loads(found[0][0])
        differ = [key for key in sorted({*before, *now}) if before.get(key, ...) != now.get(key, ...)]
        if differ:
            held = ", ".join(f"{key} = {shown(before[key])}" if key in before else f"no {key}" for key in differ)
            raise StoreError(f"{self._base.name}: settled with {held}; accepted: the same settings, or another store")

    def spent(self, ids: Sequence[str]) -> list[int]:
        """Units that each record spent; 0 where a record is not known."""
        with self.batch():
            return [self._totals.get(each, 0) for each in ids]

    def charge(self, ids: Sequence[str], units: Sequence[int], cap: int) -> list[bool]:
        """Charge each record whose total stays within the cap, and say which; the others are left as they are.

        Committed to disk when this returns, or at the end of the batch that it is part of.

        Raises
        ------
        ParameterError
            An identifier appears twice or is not text, or units are negative; nothing is charged.
        """
        charges = _checked(ids, units)
        with self.batch():
            before = self._totals
            totals = {each: before.get(each, 0) + more for each, more in charges.items()}
            granted = [total <= cap for total in totals.values()]
            new = {each: totals[each] for each, grant in zip(totals, granted, strict=True) if grant}
            self._totals.update(new)
            self._new.update(new)
        return granted


def _checked(ids: Sequence[str], units: Sequence[int]) -> dict[str, int]:
    """Units by identifier, in order."""
    if len(ids) != len(units):
        raise ac.ParameterError(f"{len(ids)} ids with {len(units)} units; accepted: as many of both")
    if not all(map(isinstance, ids, repeat(str))):
        bad = next(each for each in ids if not isinstance(each, str))
        raise ac.ParameterError(f"ids hold {shown(bad)}; accepted: text")
    try:
        charges = dict(zip(ids, map(index, units), strict=True))
    except TypeError:
        raise ac.ParameterError(f"units = {shown(units)}; accepted: integers of at least 0") from None
    if len(charges) != len(ids):
        ((twice, _),) = Counter(ids).most_common(1)
        raise ac.ParameterError(f"ids hold {shown(twice)} more than once; accepted: each record once in a call")
    if min(charges.values(), default=0) < 0:
        raise ac.ParameterError(f"units hold {min(charges.values())}; accepted: integers of at least 0")
    return charges


class _Base(Protocol):
    """A database: one transaction at a time among all processes, on disk when it ends."""

    name: str

    def transaction(self) -> Any: ...

    def close(self) -> None: ...


def _refused(name: str, error: object) -> StoreError:
    """What a database said, on one line."""
    text = " ".join(str(error).split())
    if "locked" in text or "lock timeout" in text:
        return StoreError(f"{name}: another process held it for {WAIT} seconds; accepted: try again")
    return StoreError(f"{name}: {text}; accepted: a store, or a new one at {_ACCEPTED}")


class _SQLite:
    """A file: write-ahead log, synchronised at each commit."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        with self._clear():
            # autocommit: transactions begin and end where they are written
            # absolute, since ":memory:" would not be a file
            self._database = sqlite3.connect(path.absolute(), timeout=WAIT, isolation_level=None)
        try:
            with self.transaction() as run:
                self._refuse_others()
                for table in (f"PRAGMA application_id = {_MARK}", *_TABLES):
                    run(table)
            with self._clear():
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = FULL")
        except StoreError:
            self._database.close()
            raise

    def _refuse_others(self) -> None:
        ((mark,),) = self._database.execute("PRAGMA application_id")
        ((tables,),) = self._database.execute("SELECT count(*) FROM sqlite_master")
        if tables and mark != _MARK:
            raise StoreError(f"{self.name}: a database of something else; accepted: a store, or a new file")

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        with self._clear(), self._database:  # which ends the transaction
            self._database.execute("BEGIN IMMEDIATE")
            yield lambda sql, **values: self._database.execute(sql, values)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _clear(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _refused(self.name, error) from None


class _PostgreSQL:
    """A database of a server, through SQLAlchemy; the commit waits for the server's disk."""

    def __init__(self, where: str) -> None:
        self._sql = needed("sqlalchemy", "postgres")
        needed("psycopg", "postgres")
        try:
            url = self._sql.make_url(where).set(drivername="postgresql+psycopg")
        except (self._sql.exc.ArgumentError, ValueError):  # whose messages may show a password
            raise StoreError(f"not an address of PostgreSQL; accepted: {_ACCEPTED}") from None
        self.name = url.render_as_string()
        self._engine = self._sql.create_engine(url, isolation_level="READ COMMITTED")
        try:
            with self.transaction() as run:
                for table in _TABLES:
                    run(table.replace("INTEGER", "BIGINT"))
        except StoreError:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        begin = (
            f"SET LOCAL lock_timeout = '{WAIT}s'; SET LOCAL synchronous_commit = on; "
            f"SELECT pg_advisory_xact_lock({_MARK})"
        )
        try:
            with self._engine.begin() as connection:
                connection.exec_driver_sql(begin)
                yield lambda sql, **values: connection.execute(self._sql.text(sql), values)
        except self._sql.exc.SQLAlchemyError as error:
            raise _refused(self.name, getattr(error, "orig", None) or error) from None

    def close(self) -> None:
        self._engine.dispose()
