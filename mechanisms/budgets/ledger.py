"""A store of budgets as partitions of records use it: charged by workers, once for each batch of queries."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mechanisms.arrays import Floats, Integers
from mechanisms.budgets.backends import Execute, StoreError, open_backend
from mechanisms.budgets.store_format import (
    TOTALS_PER_ROW,
    Head,
    digest,
    mix_digests,
    pack_stamp,
    pack_totals,
    unpack_totals,
)
from mechanisms.budgets.stored_runs import StoredRuns

__all__ = ["Ledger", "LedgerAddress", "close_ledgers", "reach_ledger"]

MOST_ROWS = 256
"""Most rows of totals that are read by one statement."""

WAIT = 600
"""Seconds that a worker waits for others, which charge one after another."""

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
    that was answered, and for one whose batch was left open; and not at all for one whose batch was cancelled.

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

    @staticmethod
    def identify(key: bytes) -> str:
        """A name of a store, from its key."""
        return hashlib.sha256(b"ledger" + key).hexdigest()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._backend.close()

    # --- charges ---------------------------------------------------------------------------------------

    def spent(self, positions: Integers) -> Integers:
        """Units that the records at these positions have spent."""
        with self._transaction() as page:
            return page.read(positions)

    def begin_batch(self, run: str) -> str:
        """Begin a batch of queries; if the run has a name, one that an earlier process left open is cancelled."""
        name, text = uuid.uuid4().hex, json.dumps(run)
        with self._transaction() as page:
            if run:
                for (left,) in list(page.run("SELECT batch FROM knn_batches WHERE run = :run", run=text)):
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
        with self._transaction() as page:
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
    def _transaction(self) -> Iterator[_Page]:
        with self._lock, self._backend.transaction() as run:
            rows = [bytes(row) for (row,) in run("SELECT head FROM knn_head")]
            head = Head.unpack(rows[0]) if len(rows) == 1 else None
            if head is None or self.identify(head.key) != self._address.identity:
                raise StoreError(f"{self._backend.name}: not the store of this run; accepted: the same for all workers")
            page = _Page(self._backend.name, run, head)
            yield page
            page.write()


TAKEN = "another process goes on with this run; accepted: one process for each run"


class _Page:
    """Some rows of totals, within an open transaction."""

    def __init__(self, name: str, run: Execute, head: Head) -> None:
        self.run = run
        self._name, self._head, self._written = name, head, head
        self._totals: dict[int, Integers] = {}
        self._digests: dict[int, bytes] = {}
        self._changed: set[int] = set()

    def mix(self, *digests: bytes) -> None:
        """Add digests of new rows to the checksum of all rows, or remove those of rows that go."""
        self._head = replace(self._head, mix=mix_digests(self._head.mix, *digests))

    def read(self, positions: Integers) -> Integers:
        """Units that records have spent."""
        groups = _by_row(positions)
        self._load(np.array([block for block, _ in groups if block not in self._totals], np.int64))
        spent = np.empty(len(positions), np.int64)
        for block, some in groups:
            spent[some] = self._totals[block][positions[some] % TOTALS_PER_ROW]
        return spent

    def _load(self, blocks: Integers) -> None:
        """Read rows, those that follow one another together."""
        for some in np.split(blocks, np.flatnonzero(np.diff(blocks) != 1) + 1):
            for start in range(0, len(some), MOST_ROWS):
                low, high = int(some[start]), int(some[min(start + MOST_ROWS, len(some)) - 1])
                between = "WHERE block >= :low AND block <= :high"
                rows = self.run(f"SELECT block, stamp, totals, digest FROM knn_totals {between}", low=low, high=high)
                for block, stamp, totals, check in rows:
                    text = bytes(totals)
                    if bytes(check) != digest(block, int.from_bytes(stamp, "big"), text):
                        raise self._damage()
                    self._totals[block], self._digests[block] = unpack_totals(text), bytes(check)
        if not all(block in self._totals for block in blocks.tolist()):
            raise self._damage()

    def _damage(self) -> StoreError:
        return StoreError(f"{self._name}: damaged: totals are not what was written; accepted: a store")

    def add(self, positions: Integers, units: Integers) -> None:
        """Add units to the totals of distinct records that were read."""
        for block, some in _by_row(positions):
            self._totals[block][positions[some] % TOTALS_PER_ROW] += units[some]
            self._changed.add(block)

    def cancel(self, batch: str) -> None:
        """Give back the charges of a batch, and forget it."""
        for (charges,) in list(self.run("SELECT charges FROM knn_paid WHERE batch = :batch", batch=batch)):
            positions, units = unpack_totals(bytes(charges)).reshape(2, -1)
            self.read(positions)
            self.add(positions, -units)
        self.forget(batch)

    def forget(self, batch: str) -> None:
        """Remove the rows of a batch."""
        for table in ("knn_paid", "knn_batches"):
            self.mix(*(bytes(each) for (each,) in self.run(f"SELECT digest FROM {table} WHERE batch = :b", b=batch)))
            self.run(f"DELETE FROM {table} WHERE batch = :b", b=batch)

    def write(self) -> None:
        """Write rows that have changed, and the head."""
        if self._head == self._written and not self._changed:
            return
        stamp = self._head.stamp + 1
        for block in sorted(self._changed):
            text = pack_totals(self._totals[block])
            check = digest(block, stamp, text)
            self.run(
                "UPDATE knn_totals SET stamp = :stamp, totals = :totals, digest = :digest WHERE block = :block",
                stamp=pack_stamp(stamp),
                totals=text,
                digest=check,
                block=block,
            )
            self.mix(self._digests[block], check)
        self.run("UPDATE knn_head SET head = :head", head=replace(self._head, stamp=stamp).pack())


def _by_row(positions: Integers) -> list[tuple[int, Integers]]:
    """Rows of totals, in order, and the indices of the positions that they hold."""
    if not len(positions):
        return []
    blocks = positions // TOTALS_PER_ROW
    order = np.argsort(blocks, kind="stable")
    here, starts = np.unique(blocks[order], return_index=True)
    return list(zip(here.tolist(), np.split(order, starts[1:]), strict=True))
