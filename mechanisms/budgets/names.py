"""Identifiers in a store, found without holding them all: by short marks, and then by what they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.arrays import Integers
from mechanisms.budgets.backends import Execute
from mechanisms.budgets.store_format import Head, digest

__all__ = ["Marks", "Names", "mark_names"]

Marks = NDArray[np.uint64]

READ_BYTES = 1 << 23
"""Bytes of identifiers or marks that are read by one statement, about."""

SIEVE_BITS = 22
"""First bits of marks by which most of those that are not looked for are left out."""


@dataclass(frozen=True)
class Names:
    """The identifiers of a store, within an open transaction; a position is an index among all of them.

    Beside every row of identifiers there is one of marks, 8 bytes of a keyed digest of each. What has the mark of an
    identifier that is looked for is compared with it, so that equal marks of two identifiers only cost time.

    Parameters
    ----------
    run : Execute
    key : bytes
        The store's key: without it nobody can make identifiers of equal marks.
    damage : callable
        From what is damaged to an error.
    """

    run: Execute
    key: bytes
    damage: Callable[[str], Exception]

    # --- reading ---------------------------------------------------------------------------------------

    def check(self, seen: int) -> tuple[int, int]:
        """Check the rows after row `seen`, and make marks that are missing; returns how many rows and identifiers."""
        rows, count = 0, 0
        for seq, text, check in self._rows("knn_names", "names, digest", seen):
            rows += 1
            if seq != seen + rows or bytes(check) != digest(seq, text):
                raise self.damage("names")
            held = list(self.run("SELECT names, digest, marks FROM knn_marks WHERE seq = :seq", seq=seq))
            if len(held) == 1 and bytes(held[0][0]) == bytes(check) and _is_whole(seq, *map(bytes, held[0])):
                count += len(held[0][2]) // 8
                continue
            self.run("DELETE FROM knn_marks WHERE seq = :seq", seq=seq)  # of an earlier program, or a torn copy
            names = json.loads(text)
            self._put_marks(seq, bytes(check), mark_names(names, self.key))
            count += len(names)
        return rows, count

    def find(self, wanted: list[str], marks: Marks, rows: int) -> Integers:
        """Positions of identifiers, -1 for those that are not in the store.

        Parameters
        ----------
        wanted : list of str
            All different.
        marks : array
            Of these, in order.
        rows : int
            Number of rows of identifiers.
        """
        positions = np.full(len(wanted), -1, np.int64)
        ordered = np.sort(marks)
        sieve = np.zeros(1 << SIEVE_BITS, bool)
        sieve[ordered >> np.uint64(64 - SIEVE_BITS)] = True
        start = read = 0
        index: dict[str, int] = {}
        for seq, check, row_digest, held in self._rows("knn_marks", "names, digest, marks", 0):
            read += 1
            if seq != read or not _is_whole(seq, bytes(check), bytes(row_digest), bytes(held)):
                raise self.damage("names")
            row = np.frombuffer(bytes(held), "<u8")
            likely = np.flatnonzero(sieve[row >> np.uint64(64 - SIEVE_BITS)])
            places = np.minimum(np.searchsorted(ordered, row[likely]), max(len(ordered) - 1, 0))
            likely = likely[ordered[places] == row[likely]]
            if len(likely):
                names = self._read(seq, bytes(check))
                if names == wanted:  # as a partition was entered
                    positions[:] = start + np.arange(len(names))
                    likely = likely[:0]
                elif not index:
                    index = dict(zip(wanted, range(len(wanted)), strict=True))
                for place in likely.tolist():
                    found = index.get(names[place])
                    if found is not None:
                        positions[found] = start + place
            start += len(row)
        if read != rows:
            raise self.damage("names")
        return positions

    def at(self, positions: Integers) -> list[str]:
        """The identifiers at positions."""
        found = np.empty(len(positions), object)
        start = 0
        for seq, text, check in self._rows("knn_names", "names, digest", 0):
            if bytes(check) != digest(seq, text):
                raise self.damage("names")
            names = json.loads(text)
            here = np.flatnonzero((positions >= start) & (positions < start + len(names)))
            for place in here.tolist():
                found[place] = names[positions[place] - start]
            start += len(names)
        return list(found)

    def _read(self, seq: int, check: bytes) -> list[str]:
        """The identifiers of one row."""
        rows = list(self.run("SELECT names FROM knn_names WHERE seq = :seq", seq=seq))
        if len(rows) != 1 or check != digest(seq, rows[0][0]):
            raise self.damage("names")
        names: list[str] = json.loads(rows[0][0])
        return names

    def _rows(self, table: str, columns: str, seen: int) -> Iterator[Any]:
        """Rows after row `seen`, in order, some at a time."""
        length = columns.split(", ")[0 if table == "knn_names" else -1]
        while True:
            sizes = list(
                self.run(
                    f"SELECT seq, length({length}) FROM {table} WHERE seq > :seen ORDER BY seq LIMIT 1000", seen=seen
                )
            )
            if not sizes:
                return
            bounds = np.cumsum([size for _, size in sizes])
            last = sizes[max(int(np.searchsorted(bounds, READ_BYTES)), 1) - 1][0]
            between = "WHERE seq > :seen AND seq <= :last ORDER BY seq"
            yield from self.run(f"SELECT seq, {columns} FROM {table} {between}", seen=seen, last=last)
            seen = last

    # --- writing ---------------------------------------------------------------------------------------

    def place(self, names: list[str], marks: Marks, head: Head, add: bool = True) -> tuple[Integers, Head]:
        """Positions of distinct identifiers, and the head after new ones were added.

        Those that are not in the store get the next positions, in their order; or -1, if they must not be added.
        """
        positions = self.find(names, marks, head.rows)
        new = np.flatnonzero(positions < 0)
        if not add or not len(new):
            return positions, head
        self.add(head.rows + 1, [names[i] for i in new.tolist()], marks[new])
        positions[new] = head.records + np.arange(len(new))
        return positions, replace(head, rows=head.rows + 1, records=head.records + len(new))

    def add(self, seq: int, names: Sequence[str], marks: Marks) -> None:
        """Add a row of new identifiers, which get the next positions."""
        text = json.dumps(names)
        check = digest(seq, text)
        self.run("INSERT INTO knn_names VALUES (:seq, :names, :digest)", seq=seq, names=text, digest=check)
        self._put_marks(seq, check, marks)

    def _put_marks(self, seq: int, check: bytes, marks: Marks) -> None:
        held = marks.astype("<u8").tobytes()
        insert = "INSERT INTO knn_marks VALUES (:seq, :names, :digest, :marks)"
        self.run(insert, seq=seq, names=check, digest=digest(seq, check, held), marks=held)


def mark_names(names: Sequence[str], key: bytes) -> Marks:
    """The marks of identifiers."""
    made = hashlib.blake2b(key=key, digest_size=8)
    found = bytearray()
    for name in names:
        each = made.copy()
        each.update(name.encode("utf-8", "surrogatepass"))
        found += each.digest()
    return np.frombuffer(bytes(found), "<u8").astype(np.uint64)


def _is_whole(seq: int, check: bytes, row_digest: bytes, marks: bytes) -> bool:
    return row_digest == digest(seq, check, marks)
