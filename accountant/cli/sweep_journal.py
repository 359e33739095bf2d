"""What a sweep has priced so far, in an SQLite file, so that an interrupted sweep goes on where it was."""

from __future__ import annotations

import zlib
from bisect import insort
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from accountant.database import Database, FileKind, remove_database
from accountant.errors import PlanError
from accountant.numerics.kernel import FloatArray

__all__ = ["SweepJournal"]

SWEEP = FileKind(
    "the file of an interrupted sweep",
    0x6B6E6E73,
    (
        "CREATE TABLE IF NOT EXISTS sweep (fingerprint TEXT NOT NULL, settings INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS blocks "
        "(place INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, numbers BLOB NOT NULL)",
    ),
    PlanError,
    refuse_older=False,  # of an older copy, more blocks are priced again
)

EARLIER = b'{"sweep": 1'
"""Begin of the files of versions before SQLite was used."""

ROW = 24
"""Bytes of a setting's three numbers."""

CHUNK = 1 << 17
"""Rows that are read back at a time."""


class SweepJournal:
    """The blocks of one sweep, each committed with a checksum once it is priced; a context manager.

    Parameters
    ----------
    path : Path
    fingerprint : str
        Tells the sweep from others: its plan, grid and options.
    size : int
        Number of settings.

    Attributes
    ----------
    done : int
        Settings that are priced and kept.
    failed : int
        Those of them that could not be priced.
    """

    def __init__(self, path: Path, fingerprint: str, size: int) -> None:
        self.path, self.fingerprint, self.size = path, fingerprint, size
        self.done = self.failed = 0
        self._blocks: list[tuple[int, int]] = []  # (start, end), in order

    def __enter__(self) -> SweepJournal:
        self._refuse_earlier()
        new = not self.path.exists()
        self._database = Database(self.path, SWEEP, alone=True)
        try:
            self._resume()
        except BaseException:
            self._database.close()
            if new:  # on a full disk: it holds nothing
                self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        if not self.done:
            self.remove()

    def remove(self) -> None:
        """Remove the file, and what SQLite may have left beside it."""
        remove_database(self.path)

    def add(self, start: int, block: FloatArray) -> None:
        """Commit the rows from `start` on."""
        numbers = np.ascontiguousarray(block, dtype="<f8").tobytes()
        with self._database.transaction() as run:
            run("INSERT INTO blocks VALUES (?, ?, ?)", (start, zlib.crc32(numbers, start), numbers))
        self._count(start, block)

    def missing(self) -> Iterator[tuple[int, int]]:
        """The gaps, as (start, end)."""
        at = 0
        for start, end in [*self._blocks, (self.size, self.size)]:
            if at < start:
                yield at, start
            at = end

    def chunks(self) -> Iterator[tuple[int, FloatArray]]:
        """All rows in the order of the grid, some of them at a time, each time with the first one's place."""
        waiting: list[FloatArray] = []
        begin = rows = 0
        with self._database.transaction() as run:
            for _, numbers in run("SELECT place, numbers FROM blocks ORDER BY place"):
                waiting.append(_rows(numbers))
                rows += len(waiting[-1])
                if rows >= CHUNK:
                    yield begin, np.concatenate(waiting)
                    begin, rows, waiting = begin + rows, 0, []
        if waiting:
            yield begin, np.concatenate(waiting)

    def _count(self, start: int, block: FloatArray) -> None:
        insort(self._blocks, (start, start + len(block)))
        self.done += len(block)
        self.failed += int(np.isnan(block[:, 0]).sum())

    def _resume(self) -> None:
        """Find the blocks of this sweep, or begin it in a new file."""
        about = (self.fingerprint, self.size)
        with self._database.transaction() as run:
            found = list(run("SELECT fingerprint, settings FROM sweep"))
            if not found:
                run("INSERT INTO sweep VALUES (?, ?)", about)
            elif found != [about]:
                raise self._database.refuse(
                    "begun with another plan, grid or options; accepted: the same, or remove it"
                )
            broken, at = [], 0
            for start, checksum, numbers in run("SELECT place, checksum, numbers FROM blocks ORDER BY place"):
                whole = len(numbers) % ROW == 0 and at <= start and start + len(numbers) // ROW <= self.size
                if whole and zlib.crc32(numbers, start) == checksum:
                    self._count(start, _rows(numbers))
                    at = start + len(numbers) // ROW
                else:
                    broken.append((start,))
            for place in broken:  # they are priced again
                run("DELETE FROM blocks WHERE place = ?", place)

    def _refuse_earlier(self) -> None:
        with suppress(OSError), open(self.path, "rb") as file:  # `Database` names what is wrong with other files
            if file.read(len(EARLIER)) == EARLIER:
                raise PlanError(f"{self.path}: begun by an earlier version; accepted: remove it to begin anew")


def _rows(numbers: bytes) -> FloatArray:
    return np.frombuffer(numbers, dtype="<f8").reshape(-1, 3)
