"""What a sweep has priced so far, in an SQLite file, so that an interrupted sweep goes on where it was."""

from __future__ import annotations

import math
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from accountant.database import Database, FileKind, remove_database
from accountant.errors import PlanError
from accountant.numerics.kernel import FloatArray
from accountant.sweep import BLOCK

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
        self.path, self.fingerprint = path, fingerprint
        self.size, self.blocks = size, math.ceil(size / BLOCK)
        self.done: dict[int, FloatArray] = {}

    def __enter__(self) -> SweepJournal:
        self._refuse_earlier()
        self._database = Database(self.path, SWEEP, alone=True)
        try:
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
        remove_database(self.path)

    def add(self, index: int, block: FloatArray) -> None:
        """Commit a block."""
        numbers = np.ascontiguousarray(block, dtype="<f8").tobytes()
        with self._database.transaction() as run:
            # a block that failed its checksum is replaced
            run("REPLACE INTO blocks VALUES (?, ?, ?)", (index, zlib.crc32(numbers, index), numbers))
        self.done[index] = block

    def table(self) -> FloatArray:
        """All rows, in the order of the grid."""
        return np.concatenate([self.done[i] for i in range(self.blocks)])

    def _resume(self) -> None:
        """Read the blocks of this sweep, or begin it in a new file."""
        about = (self.fingerprint, self.size)
        with self._database.transaction() as run:
            found = list(run("SELECT fingerprint, settings FROM sweep"))
            if not found:
                run("INSERT INTO sweep VALUES (?, ?)", about)
            elif found != [about]:
                raise self._database.refuse(
                    "begun with another plan, grid or options; accepted: the same, or remove it"
                )
            for index, checksum, numbers in run("SELECT place, checksum, numbers FROM blocks"):
                rows = min(BLOCK, self.size - index * BLOCK)
                if 0 <= index < self.blocks and len(numbers) == 24 * rows and zlib.crc32(numbers, index) == checksum:
                    self.done[index] = np.frombuffer(numbers, dtype="<f8").reshape(-1, 3)

    def _refuse_earlier(self) -> None:
        with suppress(OSError), open(self.path, "rb") as file:  # `Database` names what is wrong with other files
            if file.read(len(EARLIER)) == EARLIER:
                raise PlanError(f"{self.path}: begun by an earlier version; accepted: remove it to begin anew")
