"""Budgets of records that survive any crash: what a record spent is on disk before the answer that it paid for."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

import accountant as ac
from mechanisms.validation import needed, shown

__all__ = ["Store", "StoreError", "open_store"]

WAIT = 10
"""Seconds that a process waits for its turn."""

_ACCEPTED = "a path, sqlite:///path or postgresql://user:password@host/database"

_MARK = 0x6B6E6E63
"""SQLite's application id of a store, and PostgreSQL's lock: other databases are left alone."""

MOST = 2**62
"""Units up to which totals go."""

Integers = NDArray[np.int64]

_TABLES = (
    "CREATE TABLE IF NOT EXISTS knn_settings (settings TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS knn_records (seq INTEGER PRIMARY KEY, names TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS knn_charges "
    "(seq INTEGER PRIMARY KEY, size INTEGER NOT NULL, positions BLOB NOT NULL, totals BLOB NOT NULL)",
)
"""A record's position is its place among all names. A row of charges holds new totals of some positions, as
little-endian integers of 64 bits; `size` says how many, with those of the rows before it."""

_BYTES = np.dtype("<i8")

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
    others wrote before it decides. Identifiers are never forgotten; `positions` tells where each is, for good. Use a
    store in one thread of the process that opened it; one that failed can be used again.
    """

    def __init__(self, base: _Base) -> None:
        self._base = base
        self._process: int | None = os.getpid()
        self._run: Run | None = None
        self._forget()

    def _forget(self) -> None:
        """Read all again before the next use."""
        self._where: dict[str, int] = {}
        self._totals: Integers = np.empty(0, np.int64)
        self._changed = np.empty(0, bool)
        self._names_seq = self._seq = self._size = 0

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
            self._changed[:] = False
        except BaseException:
            self._forget()
            raise
        finally:
            self._run = None

    def _execute(self, sql: str, **values: Any) -> Iterable[Any]:
        """A statement of the transaction that is open."""
        assert self._run is not None
        return self._run(sql, **values)

    def _read(self, run: Run) -> None:
        """Names and totals that other processes wrote."""
        names = run("SELECT seq, names FROM knn_records WHERE seq > :seq ORDER BY seq", seq=self._names_seq)
        for self._names_seq, new in names:
            self._enter(json.loads(new))
        columns = "seq, size, positions, totals"
        rows = run(f"SELECT {columns} FROM knn_charges WHERE seq > :seq ORDER BY seq", seq=self._seq)
        for self._seq, self._size, positions, totals in rows:
            self._totals[np.frombuffer(positions, _BYTES)] = np.frombuffer(totals, _BYTES)

    def _enter(self, names: Sequence[str]) -> None:
        """New names, at the positions that follow."""
        size = len(self._where)
        self._where.update(zip(names, range(size, size + len(names)), strict=True))
        self._totals = np.concatenate([self._totals, np.zeros(len(names), np.int64)])
        self._changed = np.concatenate([self._changed, np.zeros(len(names), bool)])

    def _write(self, run: Run) -> None:
        """Append the new totals; where the log is long, put all totals in its place."""
        positions = np.flatnonzero(self._changed)
        if not len(positions):
            return
        self._seq += 1
        self._size += len(positions)
        if self._size > _LONG * len(self._totals):
            positions, self._size = np.arange(len(self._totals)), 0
            run("DELETE FROM knn_charges")
        run(
            "INSERT INTO knn_charges VALUES (:seq, :size, :positions, :totals)",
            seq=self._seq,
            size=self._size,
            positions=positions.astype(_BYTES).tobytes(),
            totals=self._totals[positions].astype(_BYTES).tobytes(),
        )

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
            found = list(self._execute("SELECT settings FROM knn_settings"))
            if not found:
                self._execute("INSERT INTO knn_settings VALUES (:settings)", settings=json.dumps(now))
                return
        before = json.loads(found[0][0])
        differ = [key for key in sorted({*before, *now}) if before.get(key, ...) != now.get(key, ...)]
        if differ:
            held = ", ".join(f"{key} = {shown(before[key])}" if key in before else f"no {key}" for key in differ)
            raise StoreError(f"{self._base.name}: settled with {held}; accepted: the same settings, or another store")

    def positions(self, ids: Sequence[object]) -> Integers:
        """Where each record is; new ones get a position here, for good, and have spent nothing.

        Raises
        ------
        ParameterError
            An identifier is not text.
        StoreError
            Inside a batch, whose failure would take new positions back.
        """
        names = [each for each in ids if isinstance(each, str)]
        if len(names) != len(ids):
            bad = next(each for each in ids if not isinstance(each, str))
            raise ac.ParameterError(f"ids hold {shown(bad)}; accepted: text")
        if self._run is not None:
            raise StoreError(f"{self._base.name}: positions inside a batch; accepted: before it")
        with self.batch():
            new = list(dict.fromkeys(each for each in names if each not in self._where))
            if new:
                self._names_seq += 1
                names_row = {"seq": self._names_seq, "names": json.dumps(new)}
                self._execute("INSERT INTO knn_records VALUES (:seq, :names)", **names_row)
                self._enter(new)
            return np.array([self._where[each] for each in names], np.int64)

    def spent(self, positions: ArrayLike) -> Integers:
        """Units that the records at those positions have spent.

        Raises
        ------
        ParameterError
            There is no such position.
        """
        with self.batch():
            return self._totals[self._checked(positions)]

    def charge(self, positions: ArrayLike, units: ArrayLike, cap: int) -> NDArray[np.bool_]:
        """Charge each record whose total stays within the cap, and say which; the others are left as they are.

        Committed to disk when this returns, or at the end of the batch that it is part of.

        Raises
        ------
        ParameterError
            A position does not exist or appears twice, or units or the cap are not integers in [0, 2^62]; nothing is
            charged.
        """
        more = np.asarray(units)
        if not (more.size == 0 or (more.dtype.kind in "iu" and more.min() >= 0 and more.max() <= MOST)):
            raise ac.ParameterError(f"units = {shown(units)}; accepted: integers in [0, 2^62]")
        if not 0 <= cap <= MOST:
            raise ac.ParameterError(f"cap = {shown(cap)}; accepted: [0, 2^62]")
        with self.batch():
            where = self._checked(positions)
            if more.shape != where.shape:
                raise ac.ParameterError(f"{where.size} positions with {more.size} units; accepted: as many of both")
            if (np.diff(where) <= 0).any() and len(np.unique(where)) < len(where):
                raise ac.ParameterError(f"positions = {shown(positions)}; accepted: each record once in a call")
            more = more.astype(np.int64)
            granted: NDArray[np.bool_] = self._totals[where] <= cap - more  # a sum could overflow
            self._totals[where[granted]] += more[granted]
            self._changed[where[granted]] = True
        return granted

    def _checked(self, positions: ArrayLike) -> Integers:
        where = np.asarray(positions)
        if where.size == 0:
            return np.empty(0, np.int64)
        if where.ndim != 1 or where.dtype.kind not in "iu" or where.min() < 0 or where.max() >= len(self._totals):
            raise ac.ParameterError(
                f"positions = {shown(positions)}; accepted: a list of integers in [0, {len(self._totals) - 1}]"
            )
        return where.astype(np.int64)


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
                self._to_write_ahead()
                self._database.execute("PRAGMA synchronous = FULL")
        except StoreError:
            self._database.close()
            raise

    def _to_write_ahead(self) -> None:
        """For good; where others are about to do the same, SQLite refuses at once and does not wait."""
        until = time.monotonic() + WAIT
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)

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
                    run(table.replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA"))
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
