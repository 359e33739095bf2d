"""The tables of a store of budgets, and the checksums by which missing or changed rows are noticed.

Totals only grow and are overwritten in place, in rows of fixed length. A copy of the file that was taken during writes,
with some pages older and some newer, therefore shows for every record no less than it had spent when the copying
began. Rows that such a copy lacks are noticed by the head: it holds the number of names and a checksum of the others.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechanisms.arrays import Floats, Integers

__all__ = ["ANSWERS_PER_ROW", "COLUMNS", "TABLES", "TOTALS_PER_ROW", "Head"]

TOTALS_PER_ROW = 500
"""A row then fills a page of SQLite."""

ANSWERS_PER_ROW = 250
"""Likewise."""

COLUMNS = {
    "knn_settings": "settings TEXT NOT NULL",
    "knn_head": "head BLOB NOT NULL",
    "knn_names": "seq INTEGER PRIMARY KEY, names TEXT NOT NULL, digest BLOB NOT NULL",
    "knn_marks": "seq INTEGER PRIMARY KEY, names BLOB NOT NULL, digest BLOB NOT NULL, marks BLOB NOT NULL",
    "knn_totals": "block INTEGER PRIMARY KEY, stamp BLOB NOT NULL, totals BLOB NOT NULL, digest BLOB NOT NULL",
    "knn_runs": "number INTEGER PRIMARY KEY, name TEXT NOT NULL, header TEXT NOT NULL, digest BLOB NOT NULL",
    "knn_answers": "place INTEGER PRIMARY KEY, answers BLOB NOT NULL, digest BLOB NOT NULL",
    "knn_batches": "batch TEXT PRIMARY KEY, run TEXT NOT NULL, digest BLOB NOT NULL",
    "knn_paid": "place TEXT PRIMARY KEY, batch TEXT NOT NULL, answer BLOB NOT NULL, charges BLOB NOT NULL, "
    "digest BLOB NOT NULL",
}
"""Names, settings and headers of runs are JSON. A record's position is its index among all names. Beside every row of
names is one of their marks (`mechanisms.budgets.names`), with the digest of the names. Totals are 64-bit
little-endian integers; that of a record is in row `position // TOTALS_PER_ROW`. `stamp` is the number of the
transaction that wrote the row, big-endian so that SQL can compare it: it finds the rows that other processes wrote.
Answers of a run are in the rows from `number << 32` on, all of which but the last are full. Batches are those that have
no answers yet, of records in partitions; `run` is the name of their run, or a list of the process if it has none (""
of earlier programs); `charges` are positions, and then the units that each was charged for the
batch."""

TABLES = tuple(f"CREATE TABLE IF NOT EXISTS {table} ({columns})" for table, columns in COLUMNS.items())

_BYTES = np.dtype("<i8")
_ANSWER = np.dtype([("label", "<i8"), ("count", "<f8")])
_HEAD = struct.Struct(">QQQ16s16s32s")


def digest(*parts: object) -> bytes:
    """A checksum of 16 bytes over numbers, texts or bytes."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        piece = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        made.update(len(piece).to_bytes(8, "big") + piece)
    return made.digest()


@dataclass(frozen=True)
class Head:
    """The state of a store after its last transaction.

    Attributes
    ----------
    stamp : int
        Number of that transaction.
    rows, records : int
        Number of rows of names, and of names.
    settings : bytes
        Digest of the settings; zeros before they are settled.
    mix : bytes
        Exclusive or of the digests of all rows of totals, runs and answers.
    key : bytes
        32 bytes, the key of digests that identify records.
    """

    stamp: int
    rows: int
    records: int
    settings: bytes
    mix: bytes
    key: bytes

    def pack(self) -> bytes:
        """The head as bytes, with a checksum."""
        text = _HEAD.pack(self.stamp, self.rows, self.records, self.settings, self.mix, self.key)
        return text + digest(text)

    @classmethod
    def unpack(cls, packed: bytes) -> Head | None:
        """Undo `pack`; None if the checksum is wrong."""
        text = packed[: _HEAD.size]
        return cls(*_HEAD.unpack(text)) if len(text) == _HEAD.size and packed[_HEAD.size :] == digest(text) else None


def pack_stamp(stamp: int) -> bytes:
    """A number as bytes that compare like it."""
    return stamp.to_bytes(8, "big")


def mix_digests(*digests: bytes) -> bytes:
    """Exclusive or of digests; a digest that is given twice cancels out."""
    total = 0
    for each in digests:
        total ^= int.from_bytes(each, "big")
    return total.to_bytes(16, "big")


def pack_totals(totals: Integers) -> bytes:
    """The totals of a row as bytes."""
    return totals.astype(_BYTES).tobytes()


def unpack_totals(packed: bytes) -> Integers:
    """Undo `pack_totals`."""
    return np.frombuffer(packed, _BYTES).astype(np.int64)


def pack_answers(labels: Integers, counts: Floats) -> bytes:
    """The answers of a row as bytes."""
    row = np.empty(len(labels), _ANSWER)
    row["label"], row["count"] = labels, counts
    return row.tobytes()


def unpack_answers(packed: bytes) -> tuple[Integers, Floats]:
    """Undo `pack_answers`: labels, -1 where there is none yet, and counts."""
    row = np.frombuffer(packed, _ANSWER)
    return row["label"].astype(np.int64), row["count"].astype(np.float64)


def replay_totals(size: int, rows: Any) -> Integers | None:
    """Totals from the log of the first version: rows (seq, positions, totals). None if a position is too large."""
    totals = np.zeros(size, np.int64)
    for _, positions, values in rows:
        where = np.frombuffer(positions, _BYTES)
        if len(where) and where.max() >= size:
            return None
        totals[where] = np.frombuffer(values, _BYTES)
    return totals
