"""The contents of a store in the memory of one process, kept up to date with its rows."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import Any

import numpy as np

from mechanisms.arrays import Integers
from mechanisms.budgets.backends import Backend, Execute, StoreError, report_damage
from mechanisms.budgets.names import Names, mark_names
from mechanisms.budgets.page import find_head, insert_totals, update_totals
from mechanisms.budgets.store_format import (
    TOTALS_PER_ROW,
    Head,
    digest,
    mix_digests,
    pack_stamp,
    replay_totals,
    unpack_totals,
)
from mechanisms.neighbours.records import grow

__all__ = ["Snapshot"]

UNSETTLED = bytes(16)

MOST_ROWS = 4096
"""Rows of totals that are read by one statement."""


class Snapshot:
    """Totals and the head of a store after the last transaction; names stay in the database.

    Attributes
    ----------
    totals : int64 array
        Units spent, by position; longer than the number of names.
    head : Head
        With the changes of the open transaction.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.totals: Integers = np.empty(0, np.int64)
        self.head = Head(-1, 0, 0, UNSETTLED, bytes(16), b"")
        self._written: Head | None = None
        self._digests: list[bytes] = []
        self._blocks: set[int] = set()

    # --- reading ---------------------------------------------------------------------------------------

    def read(self, run: Execute) -> None:
        """Read what other processes wrote since; the first time everything, and check that nothing is missing.

        Raises
        ------
        StoreError
            Rows are missing or damaged, or the store is older than at the last reading.
        """
        seen = self._written
        if seen is None and self._backend.has(run, "knn_charges"):
            _convert(Snapshot(self._backend), run)
        head = self.read_head(run)
        if seen is not None and (head.stamp < seen.stamp or head.key != seen.key):
            raise StoreError(
                f"{self._backend.name}: older than when it was last read: it was replaced by an older copy, which "
                "lacks what was spent since; accepted: the latest one"
            )
        self.head = self._written = head
        if seen is None or seen.stamp < head.stamp:
            self._read_names(run, seen)
            self._read_totals(run, b"" if seen is None else pack_stamp(seen.stamp))
        if seen is None:
            self._check_settings(run)
            self._check_mix(run)

    def read_head(self, run: Execute) -> Head:
        """The head of the store; a new store gets one."""
        head = find_head(run, self._backend.name)
        if head is not None:
            return head
        if any(list(run(f"SELECT 1 FROM {table} LIMIT 1")) for table in ("knn_names", "knn_totals")):
            raise self.damage("the head")
        head = Head(0, 0, 0, UNSETTLED, bytes(16), secrets.token_bytes(32))
        run("INSERT INTO knn_head VALUES (:head)", head=head.pack())
        return head

    def names(self, run: Execute) -> Names:
        """The names of the store."""
        return Names(run, self.head.key, self.damage)

    def _read_names(self, run: Execute, seen: Head | None) -> None:
        before, known = (0, 0) if seen is None else (seen.rows, seen.records)
        rows, count = self.names(run).check(before)
        if before + rows < self.head.rows or known + count < self.head.records:
            raise self.damage("names")
        self.head = replace(self.head, rows=before + rows, records=known + count)

    def _read_totals(self, run: Execute, seen: bytes) -> None:
        columns, last = "block, stamp, totals, digest", self.head.stamp
        ((end,),) = run("SELECT coalesce(max(block), -1) + 1 FROM knn_totals")
        between = "WHERE stamp > :seen AND block >= :low AND block < :high ORDER BY block"
        for low in range(0, end, MOST_ROWS):
            rows = run(f"SELECT {columns} FROM knn_totals {between}", seen=seen, low=low, high=low + MOST_ROWS)
            for block, stamp, totals, check in rows:
                text, written = bytes(totals), int.from_bytes(stamp, "big")
                if bytes(check) != digest(block, written, text) or block > len(self._digests):
                    raise self.damage("totals")
                if block == len(self._digests):
                    self._grow()
                self._digests[block] = bytes(check)
                self.totals[block * TOTALS_PER_ROW : (block + 1) * TOTALS_PER_ROW] = unpack_totals(text)
                last = max(last, written)
        self.head = replace(self.head, stamp=last)
        assert self._written is not None
        if len(self._digests) * TOTALS_PER_ROW < self._written.records:
            raise self.damage("totals")
        self._make_room(run)

    def _check_settings(self, run: Execute) -> None:
        text = self._settings(run)
        if self.head.settings not in (UNSETTLED, digest(text)):
            raise self.damage("the settings")
        self.head = replace(self.head, settings=UNSETTLED if text is None else digest(text))

    def _check_mix(self, run: Execute) -> None:
        """Compare all checksums; after a difference answers and open batches are dropped, and totals kept.

        In a copy that was taken during writes, totals are of different moments, but no less than what was spent when
        the copying began. Answers there could lack their charges, and batches give back what was never charged.
        """
        runs = list(run("SELECT number, name, header, digest FROM knn_runs"))
        answers = list(run("SELECT place, answers, digest FROM knn_answers"))
        whole = all(bytes(row[-1]) == digest(row[0], *row[1:-1]) for row in runs)
        whole &= all(bytes(check) == digest(place, bytes(text)) for place, text, check in answers)
        batches = list(run("SELECT batch, run, digest FROM knn_batches"))
        paid = list(run("SELECT place, answer, charges, digest FROM knn_paid"))
        whole &= all(bytes(check) == digest(*row) for *row, check in batches)
        whole &= all(bytes(check) == digest(place, *map(bytes, rest)) for place, *rest, check in paid)
        rows = (*runs, *answers, *batches, *paid)
        found = mix_digests(*self._digests, *(bytes(row[-1]) for row in rows))
        if whole and found == self.head.mix:
            return
        for table in ("knn_runs", "knn_answers", "knn_batches", "knn_paid"):
            run(f"DELETE FROM {table}")
        self.head = replace(self.head, mix=mix_digests(*self._digests))

    def damage(self, what: str) -> StoreError:
        """The error for rows that are missing or changed."""
        return report_damage(self._backend.name, what)

    # --- writing ---------------------------------------------------------------------------------------

    def write(self, run: Execute) -> None:
        """Write rows that have changed, and the head."""
        if self.head == self._written and not self._blocks:
            return
        stamp = self.head.stamp + 1
        old = [self._digests[block] for block in self._blocks]
        for block in sorted(self._blocks):
            totals = self.totals[block * TOTALS_PER_ROW : (block + 1) * TOTALS_PER_ROW]
            self._digests[block] = update_totals(run, block, stamp, totals)
        mix = mix_digests(self.head.mix, *old, *(self._digests[block] for block in self._blocks))
        self.head = replace(self.head, stamp=stamp, mix=mix)
        run("UPDATE knn_head SET head = :head", head=self.head.pack())

    def confirm(self) -> None:
        """Take what was written as the state of the store, once the transaction is committed."""
        self._written = self.head
        self._blocks.clear()

    def add(self, where: Integers, units: Integers) -> None:
        """Add units to the totals of records at distinct positions."""
        self.totals[where] += units
        self._blocks.update(np.unique(where // TOTALS_PER_ROW).tolist())

    def enter(self, run: Execute, names: list[str]) -> Integers:
        """Positions of distinct names; new ones get the next."""
        positions, self.head = self.names(run).place(names, mark_names(names, self.head.key), self.head)
        self._make_room(run)
        return positions

    def _make_room(self, run: Execute) -> None:
        """Add rows of totals until there is one total for every name."""
        while len(self._digests) * TOTALS_PER_ROW < self.head.records:
            self._grow()
            self._digests[-1] = insert_totals(run, len(self._digests) - 1, self.head.stamp + 1)
            self.mix(self._digests[-1])

    def _grow(self) -> None:
        self._digests.append(b"")
        self.totals = grow(self.totals, len(self._digests) * TOTALS_PER_ROW)

    # --- settings --------------------------------------------------------------------------------------

    def _settings(self, run: Execute) -> str | None:
        rows = [text for (text,) in run("SELECT settings FROM knn_settings")]
        if len(rows) > 1:
            raise self.damage("the settings")
        return rows[0] if rows else None

    def settings(self, run: Execute) -> dict[str, Any] | None:
        """The settings, which say what the units mean; None before they are fixed."""
        text = self._settings(run)
        return None if text is None else json.loads(text)

    def settle(self, run: Execute, settings: dict[str, Any]) -> None:
        """Fix the settings."""
        text = json.dumps(settings)
        run("INSERT INTO knn_settings VALUES (:settings)", settings=text)
        self.head = replace(self.head, settings=digest(text))

    def mix(self, *digests: bytes) -> None:
        """Add digests of new rows to the checksum of all rows, or remove those of rows that go."""
        self.head = replace(self.head, mix=mix_digests(self.head.mix, *digests))


def _convert(snapshot: Snapshot, run: Execute) -> None:
    """Convert the tables of the first version, which are then dropped."""
    names = [name for _, text in run("SELECT seq, names FROM knn_records ORDER BY seq") for name in json.loads(text)]
    totals = replay_totals(len(names), run("SELECT seq, positions, totals FROM knn_charges ORDER BY seq"))
    if totals is None or len(set(names)) < len(names):
        raise snapshot.damage("names")
    settings = snapshot.settings(run)
    snapshot.head = snapshot.read_head(run)
    if settings is not None:  # the first version made no identifiers itself
        run("DELETE FROM knn_settings")
        snapshot.settle(run, {**settings, "identifiers": "given"})
    for table in ("knn_charges", "knn_records"):
        run(f"DROP TABLE {table}")
    snapshot.enter(run, names)
    snapshot.add(np.arange(len(names)), totals)
    snapshot.write(run)
