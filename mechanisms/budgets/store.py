"""Budgets of records that survive any crash: what a record spent is on disk before the answer that it paid for."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import accountant as ac
from mechanisms.budgets.backends import Backend, Execute, SQLiteBackend, StoreError, open_backend
from mechanisms.budgets.snapshot import Snapshot
from mechanisms.budgets.store_format import COLUMNS, Floats, Integers
from mechanisms.budgets.stored_runs import StoredRuns
from mechanisms.exclusive import Exclusive
from mechanisms.validation import check_count, shorten

__all__ = ["Store", "StoreError", "open_store"]

MOST = 2**62
"""Units up to which totals go."""


def open_store(where: str | Path) -> Store:
    """The budgets at a path, at "sqlite:///path" or at "postgresql://user:password@host/database".

    What is not there yet is made, except PostgreSQL's database, which must exist.

    Raises
    ------
    StoreError
        There is something else, it is damaged or older than what was there before, it cannot be reached or written,
        or another process holds it for too long.
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


class Store(Exclusive):
    """Units that records have spent, shared by any number of processes; made by `open_store`.

    Totals that all processes add to, one at a time; each keeps them in memory and reads what the others wrote before
    it decides. Identifiers are never forgotten; `positions` tells where each is, for good. Threads take turns, other
    processes open it for themselves; a store that failed can be used again.

    A copy of the file that is taken at any time shows no less than was spent when the copying began, or is refused as
    damaged; `copy_to` makes one that is never refused. Whoever goes on with a copy forgets what is spent in the
    original from then on: a file that was put back is noticed by the number in `<file>.generation`, unless that was
    put back as well, as with a whole directory or machine; for PostgreSQL nothing notices it.

    For the operator's eyes only: who pays for which answers depends on private data.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._process: int | None = os.getpid()
        self._thread: int | None = None
        self._run: Execute | None = None
        self._snapshot = Snapshot(backend)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        if self._process == os.getpid():
            with self._turn("close"):
                self._backend.close()
        self._process = None

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One transaction around many charges: no other process charges meanwhile, all are committed at the end.

        Let no answer out before the end. After an exception nothing inside was charged, unless the commit itself
        failed, which can leave the charges there.

        Raises
        ------
        StoreError
            The store is closed, or belongs to another process; it is damaged or was put back from a copy.
        """
        if self._process != os.getpid():
            raise StoreError(
                f"{self._backend.name}: closed, or opened by another process; accepted: open_store in this one"
            )
        if self._thread == threading.get_ident() and self._run is not None:
            yield
            return
        with self._turn("batch"):
            self._thread = threading.get_ident()
            try:
                with self._backend.transaction() as self._run:
                    self._snapshot.read(self._run)
                    yield
                    self._snapshot.write(self._run)
                self._snapshot.committed()
            except BaseException:
                self._snapshot = Snapshot(self._backend)  # to be read again before the next use
                raise
            finally:
                self._run = self._thread = None

    @contextmanager
    def _open(self) -> Iterator[Execute]:
        """What runs statements in a batch."""
        with self.batch():
            assert self._run is not None
            yield self._run

    # --- settings --------------------------------------------------------------------------------------

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
            raise ac.ParameterError(f"settings = {shorten(settings)} ({error}); accepted: what JSON can hold") from None
        with self._open() as run:
            before = self._snapshot.settings(run)
            if before is None:
                return self._snapshot.settle(run, now)
        differ = [key for key in sorted({*before, *now}) if before.get(key, ...) != now.get(key, ...)]
        if differ:
            held = ", ".join(f"{key} = {shorten(before[key])}" if key in before else f"no {key}" for key in differ)
            accepted = "the same settings, or another store"
            raise StoreError(f"{self._backend.name}: settled with {held}; accepted: {accepted}")
        return None

    def settings(self) -> dict[str, Any] | None:
        """What was settled; None before that."""
        with self._open() as run:
            return self._snapshot.settings(run)

    def key(self) -> bytes:
        """32 random bytes, made with the store: for digests that identify records, and tell nothing without it."""
        with self.batch():
            return self._snapshot.head.key

    # --- charges ---------------------------------------------------------------------------------------

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
            raise ac.ParameterError(f"ids hold {shorten(bad)}; accepted: text")
        if self._thread == threading.get_ident():
            raise StoreError(f"{self._backend.name}: positions inside a batch; accepted: before it")
        with self._open() as run:
            where = self._snapshot.where
            self._snapshot.enter(run, list(dict.fromkeys(each for each in names if each not in where)))
            return np.array([where[each] for each in names], np.int64)

    def spent(self, positions: ArrayLike) -> Integers:
        """Units that the records at those positions have spent.

        Raises
        ------
        ParameterError
            There is no such position.
        """
        with self.batch():
            return self._snapshot.totals[self._checked(positions)]

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
            raise ac.ParameterError(f"units = {shorten(units)}; accepted: integers in [0, 2^62]")
        if not 0 <= cap <= MOST:
            raise ac.ParameterError(f"cap = {shorten(cap)}; accepted: [0, 2^62]")
        with self.batch():
            where = self._checked(positions)
            if more.shape != where.shape:
                raise ac.ParameterError(f"{where.size} positions with {more.size} units; accepted: as many of both")
            if (np.diff(where) <= 0).any() and len(np.unique(where)) < len(where):
                raise ac.ParameterError(f"positions = {shorten(positions)}; accepted: each record once in a call")
            more = more.astype(np.int64)
            granted: NDArray[np.bool_] = self._snapshot.totals[where] <= cap - more  # a sum could overflow
            self._snapshot.add(where[granted], more[granted])
        return granted

    def _checked(self, positions: ArrayLike) -> Integers:
        where, size = np.asarray(positions), len(self._snapshot.where)
        if where.size == 0:
            return np.empty(0, np.int64)
        if where.ndim != 1 or where.dtype.kind not in "iu" or where.min() < 0 or where.max() >= size:
            raise ac.ParameterError(
                f"positions = {shorten(positions)}; accepted: a list of integers in [0, {size - 1}]"
            )
        return where.astype(np.int64)

    # --- answers ---------------------------------------------------------------------------------------

    def begin(self, run: str, header: Mapping[str, object], size: int) -> None:
        """Begin a run of so many queries, or go on with it.

        Raises
        ------
        StoreError
            The run was begun with another header or size.
        """
        check_count("size", size, 0, 2**31)
        with self._open() as execute:
            StoredRuns(self._backend.name, self._snapshot, execute).begin(run, dict(header), size)

    def answers(self, run: str, first: int, stop: int) -> tuple[Integers, Floats]:
        """Labels of the queries from `first` to before `stop` of a run, -1 where there is none yet, and their counts.

        Raises
        ------
        StoreError
            There is no such run, or it has fewer queries.
        """
        with self._open() as execute:
            return StoredRuns(self._backend.name, self._snapshot, execute).answers(run, first, stop)

    def answer(self, run: str, first: int, labels: Integers, counts: Floats) -> None:
        """Keep answers of a run, from query `first` on; in a batch they are there if what they cost is, and not else.

        Raises
        ------
        StoreError
            There is no such run, or it has fewer queries.
        """
        with self._open() as execute:
            StoredRuns(self._backend.name, self._snapshot, execute).put(run, first, labels, counts)

    # --- copies ----------------------------------------------------------------------------------------

    def copy_to(self, path: str | Path) -> None:
        """All of it, as it is now, in a new file; other processes may go on meanwhile.

        The copy does not know what is spent here from now on: use one of the two.

        Raises
        ------
        StoreError
            There is a store already, or the file cannot be written.
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
                    for table, columns in COLUMNS.items():
                        names = [each.split()[0] for each in columns.split(", ")]
                        places = ", ".join(f":{name}" for name in names)
                        for row in run(f"SELECT {', '.join(names)} FROM {table}"):
                            put(f"INSERT INTO {table} VALUES ({places})", **dict(zip(names, row, strict=True)))
            finally:
                backend.close()
