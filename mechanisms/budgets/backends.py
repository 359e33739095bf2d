"""Databases in which budgets are kept: an SQLite file, or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import accountant as ac
from mechanisms.budgets.store_format import TABLES
from mechanisms.validation import require

__all__ = [
    "ADDRESSES",
    "Backend",
    "Execute",
    "RunDiffers",
    "SQLiteBackend",
    "StoreError",
    "has_store",
    "locate_store",
    "open_backend",
    "report_damage",
]

STORE_WAIT = 30
"""Seconds that a process waits for others, which hold a store for a few seconds each."""

ADDRESSES = "a path, sqlite:///path or postgresql://user:password@host/database"

Execute = Callable[..., Iterable[Any]]
"""``execute(sql, **values)`` runs a statement and returns its rows."""


class StoreError(ac.AccountantError, ValueError):
    """A store that cannot be used; the message names the store and what would be accepted."""


class RunDiffers(StoreError):
    """A run of that name was begun with another header or size; the store itself can be used."""


def report_damage(name: str, what: str) -> StoreError:
    """The error for rows of a store that are missing or changed."""
    return StoreError(
        f"{name}: damaged: {what} are not what was written; accepted: a store, copied by Store.copy_to or while nobody "
        "writes to it"
    )


STORE = ac.database.FileKind("a store", 0x6B6E6E63, TABLES, StoreError)
"""Its mark is also the number of PostgreSQL's advisory lock, and the first of the two numbers of claims."""


class Backend(Protocol):
    """A database whose transactions are on disk when they end.

    Attributes
    ----------
    name : str
        For messages.
    address : str
        By which another process opens it; it may hold a password.
    many : bool
        Whether transactions can run at once, among all processes and threads.
    """

    name: str
    address: str
    many: bool

    def transaction(self, beside: bool = False) -> Any:
        """A context manager that yields an `Execute` and commits at the end of its block.

        The transaction is the only one among all processes; or, if the database can, beside others that were begun so.
        These must lock what they change.
        """
        ...

    def claim(self, run: Execute, what: str) -> None:
        """Let no other transaction claim the same until this one ends."""
        ...

    def has(self, run: Execute, table: str) -> bool:
        """Whether the table exists."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


def open_backend(where: str | Path, wait: float | None = None) -> Backend:
    """The database at a path or an address, which waits so many seconds for other processes; None: `STORE_WAIT`.

    Raises
    ------
    StoreError
        It cannot be reached or written, holds something else, or another process holds it for too long.
    """
    place = locate_store(where)
    return SQLiteBackend(place, wait) if isinstance(place, Path) else PostgreSQLBackend(place, wait)


def locate_store(where: str | Path) -> Path | str:
    """The path of an SQLite file, or the address of PostgreSQL; a StoreError of other addresses."""
    scheme, mark, rest = str(where).partition("://")
    if not mark:
        return Path(where)
    if scheme == "sqlite" and len(rest) > 1 and rest[0] == "/":
        return Path(rest[1:])
    if scheme in ("postgresql", "postgresql+psycopg"):
        return str(where)
    raise StoreError(f"a store at {scheme}://...; accepted: {ADDRESSES}")


def has_store(where: str | Path) -> bool:
    """Whether there is a store at a path or an address; nothing is created there.

    Raises
    ------
    StoreError
        It is no address, or a server cannot be reached.
    """
    place = locate_store(where)
    if isinstance(place, Path):
        return place.exists() and place.stat().st_size > 0
    backend = PostgreSQLBackend(place, create=False)
    try:
        with backend.transaction(beside=True) as run:
            return backend.has(run, "knn_head")
    finally:
        backend.close()


class SQLiteBackend:
    """An SQLite file; it is complete by itself after every commit (`accountant.database`)."""

    many = False

    def __init__(self, path: Path, wait: float | None = None) -> None:
        self.name = str(path)
        self._database = ac.database.Database(path, STORE, wait=STORE_WAIT if wait is None else wait)
        self.address = str(path.resolve())

    @contextmanager
    def transaction(self, beside: bool = False) -> Iterator[Execute]:
        with self._database.transaction() as run:
            yield lambda sql, **values: run(sql, values).fetchall()  # an unread row would keep the file locked

    def claim(self, run: Execute, what: str) -> None:
        pass

    def has(self, run: Execute, table: str) -> bool:
        return bool(list(run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :table", table=table)))

    def close(self) -> None:
        self._database.close()


class PostgreSQLBackend:
    """A PostgreSQL database, through SQLAlchemy; a commit waits for the server's disk.

    Unless `create`, its tables are not made where they are missing.
    """

    many = True

    def __init__(self, where: str, wait: float | None = None, *, create: bool = True) -> None:
        self.address, self._wait = where, STORE_WAIT if wait is None else wait
        self._sql = require("sqlalchemy", "postgres")
        require("psycopg", "postgres")
        try:
            url = self._sql.make_url(where).set(drivername="postgresql+psycopg")
        except (self._sql.exc.ArgumentError, ValueError):  # their messages may show a password
            raise StoreError(f"not an address of PostgreSQL; accepted: {ADDRESSES}") from None
        self.name = url.set(query={}).render_as_string()  # the query may hold a password, too
        # the bytes of a database in SQL_ASCII are text to this program alone
        encoding = {"client_encoding": "UTF8"}
        self._engine = self._sql.create_engine(url, isolation_level="READ COMMITTED", connect_args=encoding)
        if create:
            self._create_tables()

    def _create_tables(self) -> None:
        try:
            with self.transaction() as run:
                self._settle_version(run)
                for table in TABLES:
                    run(table.replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA"))
        except StoreError:
            self.close()
            raise

    def _settle_version(self, run: Execute) -> None:
        """Refuse tables of a later version; a database without a version is new, or of version 1."""
        run("CREATE TABLE IF NOT EXISTS knn_version (version BIGINT NOT NULL)")
        for (version,) in run("SELECT version FROM knn_version"):
            if version > STORE.version:
                found = f"{STORE.name} of version {version}, of a later program"
                raise StoreError(
                    f"{self.name}: {found}; accepted: version {STORE.version}, or this database by that program"
                )
            return
        run("INSERT INTO knn_version VALUES (:version)", version=STORE.version)

    @contextmanager
    def transaction(self, beside: bool = False) -> Iterator[Execute]:
        begin = (
            f"SET LOCAL lock_timeout = '{self._wait:g}s'; SET LOCAL synchronous_commit = on; "
            f"SELECT pg_advisory_xact_lock{'_shared' if beside else ''}({STORE.mark})"
        )
        try:
            with self._engine.begin() as connection:
                connection.exec_driver_sql(begin)
                yield lambda sql, **values: connection.execute(self._sql.text(sql), values)
        except self._sql.exc.SQLAlchemyError as error:
            text = " ".join(str(getattr(error, "orig", None) or error).split())
            if "lock timeout" in text:
                text = (
                    f"another process held it for {self._wait:g} seconds; accepted: one process at a time, or try again"
                )
            else:
                text = f"{text}; accepted: a store, or a new one at {ADDRESSES}"
            raise StoreError(f"{self.name}: {text}") from None

    def claim(self, run: Execute, what: str) -> None:
        run(f"SELECT pg_advisory_xact_lock({STORE.mark}, hashtext(:what))", what=what)

    def has(self, run: Execute, table: str) -> bool:
        ((found,),) = run("SELECT to_regclass(:table) IS NOT NULL", table=table)
        return bool(found)

    def close(self) -> None:
        self._engine.dispose()
