"""A store of budgets as partitions of records use it: charged by workers, once for each batch of queries."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mechanisms.arrays import Floats, Integers
from mechanisms.budgets.backends import StoreError, open_backend
from mechanisms.budgets.names import mark_names
from mechanisms.budgets.owners import has_ended, this_process
from mechanisms.budgets.page import Page, read_head
from mechanisms.budgets.store_format import digest, pack_totals
from mechanisms.budgets.stored_runs import StoredRuns

__all__ = ["Ledger", "LedgerAddress", "close_ledgers", "reach_ledger"]

WAIT = 600
"""Seconds that a worker waits for others, which charge one after another in SQLite."""

Charge = Callable[[Integers], tuple[Integers, bytes]]
"""From the units that records have spent to those that they are charged, and the answer that this pays for."""


@dataclass(frozen=True)
class LedgerAddress:
    """Where a store is, and which: a worker must not charge another file of the same name.

    Attributes
    ----------
    where : str
        Not shown: it may hold a password, and engines log what their tasks are given.
    identity : str
        `Ledger.identify` of the store's key.
    """

    where: str = field(repr=False)
    identity: str


_open: dict[tuple[int, LedgerAddress], Ledger] = {}
_opening = threading.Lock()


def reach_ledger(address: LedgerAddress) -> Ledger:
    """The ledger at an address, opened once in each process.

    Raises
    ------
    StoreError
        This process does not reach it, or finds another store there.
    """
    with _opening:
        place = os.getpid(), address
        if place not in _open:
            _open[place] = Ledger(address)
            atexit.register(close_ledgers)
        return _open[place]


def close_ledgers() -> None:
    """Close what this process has opened."""
    with _opening:
        for process, address in list(_open):
            ledger = _open.pop((process, address))
            if process == os.getpid():
                ledger.close()


class Ledger:
    """Charges and answers of a store, without its names and totals in memory; several processes charge at once.

    Charges belong to a batch: some queries of a run, answered together. A part of the records (a partition) is charged
    once for a batch, in the transaction that keeps what it answers; asked again, it gives the same answer and pays
    nothing. The batch ends with the transaction that keeps its answers. Before, it may be cancelled: its charges are
    given back, as nothing that depends on them was released. Whatever was killed, a record has paid once for a query
    that was answered, and for one whose batch is still open; and not at all for one whose batch was cancelled.

    Raises
    ------
    StoreError
        This process does not reach the store, or finds another one there.
    """

    def __init__(self, address: LedgerAddress) -> None:
        path = Path(address.where)
        if "://" not in address.where and not path.exists():  # to open it would create it
            accepted = "a store that workers reach at the same address: a file on one machine, or PostgreSQL"
            raise StoreError(f"{path}: not there for a worker; accepted: {accepted}")
        self._address, self._lock = address, threading.Lock()
        self._backend = open_backend(address.where, WAIT)
        self._key: bytes | None = None

    @staticmethod
    def identify(key: bytes) -> str:
        """A name of a store, from its key."""
        return hashlib.sha256(b"ledger" + key).hexdigest()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._backend.close()

    # --- records ---------------------------------------------------------------------------------------

    def positions(self, names: list[str], add: bool = True) -> Integers:
        """Positions of records by distinct identifiers; new ones are added, having spent nothing, or get -1."""
        if self._key is None:
            with self._transaction(beside=True):
                pass
        assert self._key is not None
        marks = mark_names(names, self._key)
        with self._transaction(beside=not add) as page:
            return page.place(names, marks, add)

    def spent(self, positions: Integers) -> Integers:
        """Units that the records at these positions have spent."""
        with self._transaction(beside=True) as page:
            return page.read(positions)

    # --- charges ---------------------------------------------------------------------------------------

    def begin_batch(self, run: str) -> str:
        """Begin a batch of queries; batches that nobody will answer any more are cancelled.

        These are the ones that an earlier process left open, of the same run, or of a run without a name if that
        process was on this machine and has ended. The row of a batch is removed in the transaction that keeps its
        answers, before one of them is released: what is still there has released nothing.
        """
        name, text = uuid.uuid4().hex, json.dumps(run) if run else json.dumps([this_process()])
        with self._transaction() as page:
            for left, other in list(page.run("SELECT batch, run FROM knn_batches")):
                if (run and other == text) or _is_left(other):
                    page.cancel(left)
            check = digest(name, text)
            page.run("INSERT INTO knn_batches VALUES (:batch, :run, :digest)", batch=name, run=text, digest=check)
            page.mix(check)
        return name

    def cancel_batch(self, batch: str) -> None:
        """Give back what a batch has charged; afterwards nobody is charged for it."""
        with self._transaction() as page:
            page.cancel(batch)

    def pay(self, batch: str, part: int, positions: Integers, charge: Charge) -> bytes | None:
        """Charge some records for a batch, once; a part that has paid gives the answer of that time.

        Returns None, and charges nothing, if the batch has ended or was cancelled.
        """
        place = f"{batch} {part}"
        with self._transaction(beside=True, lock=True) as page:
            self._backend.claim(page.run, place)
            if not list(page.run("SELECT 1 FROM knn_batches WHERE batch = :batch", batch=batch)):
                return None
            found = list(page.run("SELECT answer FROM knn_paid WHERE place = :place", place=place))
            if found:
                return bytes(found[0][0])
            units, answer = charge(page.read(positions))
            some = np.flatnonzero(units)
            page.add(positions[some], units[some])
            charges = pack_totals(np.concatenate([positions[some], units[some]]))
            check = digest(place, answer, charges)
            insert = "INSERT INTO knn_paid VALUES (:place, :batch, :answer, :charges, :digest)"
            page.run(insert, place=place, batch=batch, answer=answer, charges=charges, digest=check)
            page.mix(check)
        return answer

    def end_batch(self, batch: str, run: str, first: int, labels: Integers, counts: Floats) -> None:
        """Keep the answers of a batch, from query `first` on, if the run has a name; the charges are final.

        Raises
        ------
        StoreError
            The batch was cancelled by another process that goes on with the run: the answers must not be released.
        """
        with self._transaction() as page:
            if not list(page.run("SELECT 1 FROM knn_batches WHERE batch = :batch", batch=batch)):
                raise StoreError(f"{self._backend.name}: {TAKEN}")
            page.forget(batch)
            if run:
                StoredRuns(self._backend.name, page, page.run).put(run, first, labels, counts)

    # --- answers ---------------------------------------------------------------------------------------

    def begin(self, run: str, header: Mapping[str, object], size: int) -> None:
        """As `Store.begin`."""
        with self._transaction() as page:
            StoredRuns(self._backend.name, page, page.run).begin(run, dict(header), size)

    def answers(self, run: str, first: int, stop: int) -> tuple[Integers, Floats]:
        """As `Store.answers`."""
        with self._transaction() as page:
            return StoredRuns(self._backend.name, page, page.run).answers(run, first, stop)

    @contextmanager
    def _transaction(self, beside: bool = False, lock: bool = False) -> Iterator[Page]:
        """A transaction, beside others of this kind if the database can; `lock` locks rows that it reads."""
        many = self._backend.many
        with nullcontext() if many else self._lock, self._backend.transaction(beside) as run:
            head = read_head(run, self._backend.name)
            if self.identify(head.key) != self._address.identity:
                raise StoreError(f"{self._backend.name}: not the store of this run; accepted: the same for all workers")
            self._key = head.key
            page = Page(self._backend.name, run, head, " FOR UPDATE" if many and lock else "")
            yield page
            page.write()


def _is_left(run: str) -> bool:
    """Whether the run of a batch has no name, and its process has ended."""
    whose = json.loads(run)
    return isinstance(whose, list) and has_ended(whose[0])


TAKEN = "another process goes on with this run; accepted: one process for each run"
