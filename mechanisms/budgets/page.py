"""Some rows of a store within an open transaction, as a `mechanisms.budgets.ledger.Ledger` changes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mechanisms.arrays import Integers
from mechanisms.budgets.backends import Execute, StoreError, report_damage
from mechanisms.budgets.names import Marks, Names
from mechanisms.budgets.store_format import (
    TOTALS_PER_ROW,
    Head,
    digest,
    mix_digests,
    pack_stamp,
    pack_totals,
    unpack_totals,
)

__all__ = ["Page", "find_head", "insert_totals", "read_head", "update_totals"]

MOST_ROWS = 256
"""Most rows of totals that are read by one statement."""


class Page:
    """Rows of totals that are read, changed and written together, and the head.

    Several transactions may charge at once (`mechanisms.budgets.backends.Backend`): then each locks its rows of totals
    in the order of their numbers, and the head last, for a moment. Whoever reads all rows that changed since some stamp
    is alone; so it does no harm that these transactions give the same stamp.

    Parameters
    ----------
    name : str
        Of the store.
    run : Execute
    head : Head
        As it is when the transaction begins.
    lock : str
        What a statement that selects rows to change them ends with, if others may change them, too.
    """

    def __init__(self, name: str, run: Execute, head: Head, lock: str = "") -> None:
        self.run, self._lock = run, lock
        self._name, self._head, self._written = name, head, head
        self._mix = bytes(16)
        self._totals: dict[int, Integers] = {}
        self._digests: dict[int, bytes] = {}
        self._changed: set[int] = set()

    def mix(self, *digests: bytes) -> None:
        """Add digests of new rows to the checksum of all rows, or remove those of rows that go."""
        self._mix = mix_digests(self._mix, *digests)

    # --- names -----------------------------------------------------------------------------------------

    def place(self, names: list[str], marks: Marks, add: bool) -> Integers:
        """Positions of distinct identifiers; new ones are added, or get -1."""
        known = Names(self.run, self._head.key, self._damage)
        positions, self._head = known.place(names, marks, self._head, add)
        ((block,),) = self.run("SELECT coalesce(max(block), -1) + 1 FROM knn_totals")
        for new in range(block, -(-self._head.records // TOTALS_PER_ROW)):
            self.mix(insert_totals(self.run, new, self._head.stamp + 1))
        return positions

    # --- totals ----------------------------------------------------------------------------------------

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
                between = f"WHERE block >= :low AND block <= :high ORDER BY block{self._lock}"
                rows = self.run(f"SELECT block, stamp, totals, digest FROM knn_totals {between}", low=low, high=high)
                for block, stamp, totals, check in rows:
                    text = bytes(totals)
                    if bytes(check) != digest(block, int.from_bytes(stamp, "big"), text):
                        raise self._damage("totals")
                    self._totals[block], self._digests[block] = unpack_totals(text), bytes(check)
        if not all(block in self._totals for block in blocks.tolist()):
            raise self._damage("totals")

    def _damage(self, what: str) -> StoreError:
        return report_damage(self._name, what)

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
        if self._head == self._written and not self._changed and not any(self._mix):
            return
        stamp = self._head.stamp + 1
        for block in sorted(self._changed):
            check = update_totals(self.run, block, stamp, self._totals[block])
            self.mix(self._digests[block], check)
        head = self._head
        if self._lock:
            head = read_head(self.run, self._name, self._lock)
        head = replace(head, stamp=max(stamp, head.stamp), mix=mix_digests(head.mix, self._mix))
        self.run("UPDATE knn_head SET head = :head", head=head.pack())


def read_head(run: Execute, name: str, lock: str = "") -> Head:
    """The head of a store that exists."""
    head = find_head(run, name, lock)
    if head is None:
        raise report_damage(name, "the head")
    return head


def find_head(run: Execute, name: str, lock: str = "") -> Head | None:
    """The head of a store; None if it has none."""
    rows = [bytes(row) for (row,) in run(f"SELECT head FROM knn_head{lock}")]
    head = Head.unpack(rows[0]) if len(rows) == 1 else None
    if rows and head is None:
        raise report_damage(name, "the head")
    return head


def insert_totals(run: Execute, block: int, stamp: int) -> bytes:
    """Insert a row of totals that are all 0; returns its digest."""
    text = bytes(8 * TOTALS_PER_ROW)
    check = digest(block, stamp, text)
    run(
        "INSERT INTO knn_totals VALUES (:block, :stamp, :totals, :digest)",
        block=block,
        stamp=pack_stamp(stamp),
        totals=text,
        digest=check,
    )
    return check


def update_totals(run: Execute, block: int, stamp: int, totals: Integers) -> bytes:
    """Write a row of totals; returns its digest."""
    text = pack_totals(totals)
    check = digest(block, stamp, text)
    run(
        "UPDATE knn_totals SET stamp = :stamp, totals = :totals, digest = :digest WHERE block = :block",
        stamp=pack_stamp(stamp),
        totals=text,
        digest=check,
        block=block,
    )
    return check


def _by_row(positions: Integers) -> list[tuple[int, Integers]]:
    """Rows of totals, in order, and the indices of the positions that they hold."""
    if not len(positions):
        return []
    blocks = positions // TOTALS_PER_ROW
    order = np.argsort(blocks, kind="stable")
    here, starts = np.unique(blocks[order], return_index=True)
    return list(zip(here.tolist(), np.split(order, starts[1:]), strict=True))
