"""What a sweep has priced so far, in an SQLite file, so that an interrupted sweep goes on where it was."""

from __future__ import annotations

import math
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from accountant.errors import PlanError
from accountant.numerics.kernel import FloatArray
from accountant.sweep import BLOCK

__all__ = ["SweepJournal"]

MARK = 0x6B6E6E73
"""SQLite's application_id of these files."""

EARLIER = b'{"sweep": 1'
"""Begin of the files of versions before SQLite was used."""

TABLES = (
    "CREATE TABLE sweep (fingerprint TEXT NOT NULL, settings INTEGER NOT NULL)",
    "CREATE TABLE blocks (place INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, numbers BLOB NOT NULL)",
)


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
    done : dict
        Priced blocks by their number.
    """

    def __init__(self, path: Path, fingerprint: str, size: int) -> None:
        self.path, self.name, self.fingerprint = path, repr(str(path)), fingerprint
        self.size, self.blocks = size, math.ceil(size / BLOCK)
        self.done: dict[int, FloatArray] = {}

    def __enter__(self) -> SweepJournal:
        self._refuse_earlier()
        with self._clear():
            self._database = sqlite3.connect(self.path, timeout=0.0, isolation_level=None)
        try:
            with self._clear():
                self._resume()
        except BaseException:
            self._database.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        if not self.done:
            self.remove()

    def remove(self) -> None:
        """Remove the file, and what SQLite may have left beside it."""
        for path in (self.path, Path(f"{self.path}-journal")):
            with suppress(FileNotFoundError):
                os.remove(path)

    def add(self, index: int, block: FloatArray) -> None:
        """Commit a block."""
        numbers = np.ascontiguousarray(block, dtype="<f8").tobytes()
        with self._clear():
            # a block that failed its checksum is replaced
            row = (index, zlib.crc32(numbers, index), numbers)
            self._database.execute("REPLACE INTO blocks VALUES (?, ?, ?)", row)
        self.done[index] = block

    def table(self) -> FloatArray:
        """All rows, in the order of the grid."""
        return np.concatenate([self.done[i] for i in range(self.blocks)])

    def _resume(self) -> None:
        """Take the file for this process alone, and read its blocks."""
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        ((mark,),) = run("PRAGMA application_id")
        ((tables,),) = run("SELECT count(*) FROM sqlite_master")
        if tables and mark != MARK:
            raise PlanError(f"{self.name} is a database of something else; accepted: another --out, or remove it")
        if not tables:
            for statement in (f"PRAGMA application_id = {MARK}", *TABLES):
                run(statement)
            run("INSERT INTO sweep VALUES (?, ?)", (self.fingerprint, self.size))
        if run("SELECT fingerprint, settings FROM sweep").fetchall() != [(self.fingerprint, self.size)]:
            raise PlanError(
                f"{self.name} was begun with another plan, grid or options; accepted: the same, or remove it"
            )
        run("COMMIT")
        for index, checksum, numbers in run("SELECT place, checksum, numbers FROM blocks"):
            rows = min(BLOCK, self.size - index * BLOCK)
            if 0 <= index < self.blocks and len(numbers) == 24 * rows and zlib.crc32(numbers, index) == checksum:
                self.done[index] = np.frombuffer(numbers, dtype="<f8").reshape(-1, 3)

    def _refuse_earlier(self) -> None:
        with suppress(OSError), open(self.path, "rb") as file:  # SQLite names what is wrong with other files
            if file.read(len(EARLIER)) == EARLIER:
                raise PlanError(f"{self.name} was begun by an earlier version; accepted: remove it to begin anew")

    @contextmanager
    def _clear(self) -> Iterator[None]:
        """SQLite's errors as one line."""
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise PlanError(f"{self.name} is being written by another sweep; accepted: wait for it") from None
            if isinstance(error, sqlite3.OperationalError):
                accepted = "a directory to write in, with room"
                raise PlanError(f"cannot write {self.name}: {error}; accepted: {accepted}") from None
            raise PlanError(f"{self.name} is damaged: {error}; accepted: remove it to begin anew") from None
