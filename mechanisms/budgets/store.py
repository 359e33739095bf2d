"""Budgets of records that survive crashes: a charge is on disk before the answer that it pays for is released."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import accountant as ac
from mechanisms.arrays import Floats, Integers
from mechanisms.budgets.backends import Backend, Execute, RunDiffers, SQLiteBackend, StoreError, open_backend
from mechanisms.budgets.ledger import Ledger, LedgerAddress
from mechanisms.budgets.snapshot import Snapshot
from mechanisms.budgets.store_format import COLUMNS
from mechanisms.budgets.stored_runs import StoredRuns
from mechanisms.exclusive import Exclusive
from mechanisms.validation import check_count

__all__ = ["RunDiffers", "Store", "StoreError", "open_store"]

MOST_UNITS = 2**62
"""Largest total of a record."""

TURN, PAUSE = 3.0, 0.11
"""Seconds for which a process holds a store before it leaves it to others, and for how long: SQLite's own wait looks
whether a file is free every tenth of a second."""


def open_store(where: str | Path) -> Store:
    """The budgets at a path, at "sqlite:///path" or at "postgresql://user:password@host/database".

    A new store is created if there is none; a PostgreSQL database must exist.

    Raises
    ------
    StoreError
        The file or database is no store, is damaged or was replaced by an older copy, cannot be reached or written, or
        another process holds it for too long.
    MissingExtra
        PostgreSQL needs SQLAlchemy and psycopg.
    """
    backend = open_backend(where)
    try:
        store = Store(backend)
        with store.batch():
            return store
    except BaseException:
        backend.close()
        raise


COPIED = 16
"""Rows that are copied at a time: one may hold the names of a whole partition."""


class Store(Exclusive):
    """Units that records have spent, shared by any number of processes; made by `open_store`.

    Processes charge one at a time; each holds all totals in memory, 8 bytes a record, and reads what others wrote
    before it decides. Identifiers stay in the database; they are never forgotten, and their positions never change.
    Threads take turns; every process opens the store for itself. After an error the store can be used again.

    A copy of the file, taken at any time, shows no less than was spent when the copying began, or is refused as
    damaged; a copy by `copy_to` is never refused. A process that goes on with a copy does not know what is spent in the
    original afterwards. A file that was replaced by an older copy is noticed by the number in `<file>.generation`,
    unless that was replaced as well, as with a whole directory or machine. PostgreSQL has no such number.

    For the operator alone: which record pays for which answer depends on private data.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._process: int | None = os.getpid()
        self._thread: int | None = None
        self._run: Execute | None = None
        self._held = 0.0
        self._snapshot = Snapshot(backend)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        if self._process == os.getpid():
            with self._turn("close"):
                self._backend.close()
        self._process = None

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One transaction for many charges: no other process charges meanwhile, and all are committed at the end.

        Release no answer before the end. After an exception nothing was charged, unless the commit itself failed: then
        the charges may or may not be there.

        Raises
        ------
        StoreError
            The store is closed or belongs to another process, is damaged, or was replaced by an older copy.
        """
        if self._process != os.getpid():
            raise StoreError(
                f"{self._backend.name}: closed, or opened by another process; accepted: open_store in this one"
            )
        if self._thread == threading.get_ident() and self._run is not None:
            yield
            return
        with self._turn("batch"):
            self._give_way()
            self._thread = threading.get_ident()
            try:
                with self._backend.transaction() as self._run:
                    begun = time.monotonic()
                    self._snapshot.read(self._run)
                    yield
                    self._snapshot.write(self._run)
                self._held += time.monotonic() - begun
                self._snapshot.confirm()
            except BaseException:
                self._snapshot = Snapshot(self._backend)  # to be read again before the next use
                raise
            finally:
                self._run = self._thread = None

    def _give_way(self) -> None:
        """Leave the store to others after a turn; before a transaction, as an interrupt then loses nothing."""
        if self._held > TURN:
            time.sleep(PAUSE)
            self._held = 0.0

    @contextmanager
    def _open(self) -> Iterator[Execute]:
        """A batch; yields a function that runs statements."""
        with self.batch():
            assert self._run is not None
            yield self._run

    def ledger(self) -> LedgerAddress:
        """Where workers reach this store, to charge the records of their partitions; it may hold a password."""
        return LedgerAddress(self._backend.address, Ledger.identify(self.key()))

    # --- settings --------------------------------------------------------------------------------------

    def settle(self, settings: Mapping[str, object]) -> None:
        """Fix the settings, which say what the units mean; the first call decides for ever.

        Raises
        ------
        StoreError
            The store was settled with other settings.
        """
        try:
            now = json.loads(json.dumps(settings, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ac.ParameterError(
                f"settings = {ac.shorten(settings)} ({error}); accepted: what JSON can hold"
            ) from None
        with self._open() as run:
            before = self._snapshot.settings(run)
            if before is None:
                return self._snapshot.settle(run, now)
        differ = [key for key in sorted({*before, *now}) if before.get(key, ...) != now.get(key, ...)]
        if differ:
            held = ", ".join(f"{key} = {ac.shorten(before[key])}" if key in before else f"no {key}" for key in differ)
            accepted = "the same settings, or another store"
            raise StoreError(f"{self._backend.name}: settled with {held}; accepted: {accepted}")
        return None

    def settings(self) -> dict[str, Any] | None:
        """The settings; None before `settle`."""
        with self._open() as run:
            return self._snapshot.settings(run)

    def key(self) -> bytes:
        """32 random bytes, made with the store: the key of digests that identify records."""
        with self.batch():
            return self._snapshot.head.key

    # --- charges ---------------------------------------------------------------------------------------

    def positions(self, ids: Sequence[object]) -> Integers:
        """Positions of records; new records get positions, which never change, and have spent nothing.

        It reads 8 bytes of every record of the store: many in one call are found as quickly as one.

        Raises
        ------
        ParameterError
            An identifier is not text.
        StoreError
            Called inside a batch: if it failed, new positions would be lost.
        """
        names = [each for each in ids if isinstance(each, str)]
        if len(names) != len(ids):
            bad = next(each for each in ids if not isinstance(each, str))
            raise ac.ParameterError(f"ids hold {ac.shorten(bad)}; accepted: text")
        if self._thread == threading.get_ident():
            raise StoreError(f"{self._backend.name}: positions inside a batch; accepted: before it")
        with self._open() as run:
            distinct = list(dict.fromkeys(names))
            positions = self._snapshot.enter(run, distinct)
        if len(distinct) < len(names):
            index = {each: i for i, each in enumerate(distinct)}
            positions = positions[[index[each] for each in names]]
        return positions

    def names(self, positions: ArrayLike) -> list[str]:
        """Identifiers of the records at those positions.

        Raises
        ------
        ParameterError
            There is no such position.
        """
        with self._open() as run:
            return self._snapshot.names(run).at(self._check_positions(positions))

    def spent(self, positions: ArrayLike) -> Integers:
        """Units that the records at those positions have spent.

        Raises
        ------
        ParameterError
            There is no such position.
        """
        with self.batch():
            return self._snapshot.totals[self._check_positions(positions)]

    def charge(self, positions: ArrayLike, units: ArrayLike, cap: int) -> NDArray[np.bool_]:
        """Charge each record whose total stays within the cap, and return which; the others are not charged.

        The charges are on disk when this returns, or at the end of the batch.

        Raises
        ------
        ParameterError
            A position does not exist or appears twice, or units or the cap are not integers in [0, 2^62]; nothing is
            charged.
        """
        more = np.asarray(units)
        if not (more.size == 0 or (more.dtype.kind in "iu" and more.min() >= 0 and more.max() <= MOST_UNITS)):
            raise ac.ParameterError(f"units = {ac.shorten(units)}; accepted: integers in [0, 2^62]")
        if not 0 <= cap <= MOST_UNITS:
            raise ac.ParameterError(f"cap = {ac.shorten(cap)}; accepted: [0, 2^62]")
        with self.batch():
            where = self._check_positions(positions)
            if more.shape != where.shape:
                raise ac.ParameterError(f"{where.size} positions with {more.size} units; accepted: as many of both")
            if (np.diff(where) <= 0).any() and len(np.unique(where)) < len(where):
                raise ac.ParameterError(f"positions = {ac.shorten(positions)}; accepted: each record once in a call")
            more = more.astype(np.int64)
            granted: NDArray[np.bool_] = self._snapshot.totals[where] <= cap - more  # a sum could overflow
            self._snapshot.add(where[granted], more[granted])
        return granted

    def _check_positions(self, positions: ArrayLike) -> Integers:
        where, size = np.asarray(positions), self._snapshot.head.records
        if where.size == 0:
            return np.empty(0, np.int64)
        if where.ndim != 1 or where.dtype.kind not in "iu" or where.min() < 0 or where.max() >= size:
            raise ac.ParameterError(
                f"positions = {ac.shorten(positions)}; accepted: a list of integers in [0, {size - 1}]"
            )
        return where.astype(np.int64)

    # --- answers ---------------------------------------------------------------------------------------

    def begin(self, run: str, header: Mapping[str, object], size: int) -> None:
        """Begin a run of `size` queries, or go on with it.

        Raises
        ------
        RunDiffers
            The run was begun with another header or size; a StoreError.
        """
        check_count("size", size, 0, 2**31)
        with self._open() as execute:
            StoredRuns(self._backend.name, self._snapshot, execute).begin(run, dict(header), size)

    def runs(self, ending: str) -> list[str]:
        """Names of the runs that end so, which is to be ASCII letters, digits and spaces."""
        with self._open() as execute:
            return StoredRuns(self._backend.name, self._snapshot, execute).names(ending)

    def answers(self, run: str, first: int, stop: int) -> tuple[Integers, Floats]:
        """Labels and counts of the queries from `first` to before `stop` of a run; label -1 where there is none yet.

        Raises
        ------
        StoreError
            There is no such run, or it has fewer queries.
        """
        with self._open() as execute:
            return StoredRuns(self._backend.name, self._snapshot, execute).answers(run, first, stop)

    def answer(self, run: str, first: int, labels: Integers, counts: Floats) -> None:
        """Keep answers of a run, from query `first` on; in a batch they are committed together with their charges.

        Raises
        ------
        StoreError
            There is no such run, or it has fewer queries.
        """
        with self._open() as execute:
            StoredRuns(self._backend.name, self._snapshot, execute).put(run, first, labels, counts)

    # --- copies ----------------------------------------------------------------------------------------

    def copy_to(self, path: str | Path) -> None:
        """Copy the store into a new file; other processes may use the store meanwhile.

        Neither of the two knows what is spent in the other one afterwards: go on with one of them only.

        Raises
        ------
        StoreError
            The file holds a store already, or cannot be written.
        """
        if self._thread == threading.get_ident():
            raise StoreError(f"{self._backend.name}: copied inside a batch; accepted: before or after it")
        with self._open() as run:
            backend = SQLiteBackend(Path(path))
            try:
                with backend.transaction() as put:
                    if list(put("SELECT 1 FROM knn_head")):
                        raise StoreError(f"{backend.name}: holds a store; accepted: a new file")
                    self._snapshot.write(run)
                    for table in COLUMNS:
                        _copy_table(run, put, table)
            finally:
                backend.close()


def _copy_table(run: Execute, put: Execute, table: str) -> None:
    """Copy the rows of a table, some at a time where it has a key."""
    names = [each.split()[0] for each in COLUMNS[table].split(", ")]
    select, values = f"SELECT {', '.join(names)} FROM {table}", ", ".join(f":{name}" for name in names)
    key = names[0] if "PRIMARY KEY" in COLUMNS[table] else None
    some = f"ORDER BY {key} LIMIT {COPIED}"
    rows = list(run(select if key is None else f"{select} {some}"))
    while rows:
        for row in rows:
            put(f"INSERT INTO {table} VALUES ({values})", **dict(zip(names, row, strict=True)))
        if key is None:
            return
        rows = list(run(f"{select} WHERE {key} > :last {some}", last=rows[-1][0]))
