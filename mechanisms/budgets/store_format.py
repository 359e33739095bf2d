"""Rows of a store: what they hold, and what tells that they are as they were written.

Totals only grow, and are overwritten in place, in rows of a fixed length. So a copy of the file that was taken while
others wrote to it, some pages older and some newer, shows for every record no less than it had spent when the copying
began. What such a copy could lack altogether is noticed by the head: how many names there were, and what the rest of
the rows came to.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ANSWERS", "BLOCK", "COLUMNS", "TABLES", "Floats", "Head", "Integers"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

BLOCK = 500
"""Totals in a row, which then fills a page of SQLite."""

ANSWERS = 250
"""Answers in a row, likewise."""

COLUMNS = {
    "knn_settings": "settings TEXT NOT NULL",
    "knn_head": "head BLOB NOT NULL",
    "knn_names": "seq INTEGER PRIMARY KEY, names TEXT NOT NULL, digest BLOB NOT NULL",
    "knn_totals": "block INTEGER PRIMARY KEY, stamp BLOB NOT NULL, totals BLOB NOT NULL, digest BLOB NOT NULL",
    "knn_runs": "number INTEGER PRIMARY KEY, name TEXT NOT NULL, header TEXT NOT NULL, digest BLOB NOT NULL",
    "knn_answers": "place INTEGER PRIMARY KEY, answers BLOB NOT NULL, digest BLOB NOT NULL",
}
"""Names, settings, and headers of runs are JSON. A record's position is its place among all names; its total is in row
`position // BLOCK`, in little-endian integers of 64 bits. `stamp` is the number of the transaction that wrote a row,
big-endian, so that rows that others wrote are found by it. Answers of a run are in the rows from `number << 32` on."""

TABLES = tuple(f"CREATE TABLE IF NOT EXISTS {table} ({columns})" for table, columns in COLUMNS.items())

_BYTES = np.dtype("<i8")
_ANSWER = np.dtype([("label", "<i8"), ("count", "<f8")])
_HEAD = struct.Struct(">QQQ16s16s32s")


def digest(*parts: object) -> bytes:
    """What tells that a row is as it was written: 16 bytes over numbers, text or bytes."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        piece = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        made.update(len(piece).to_bytes(8, "big") + piece)
    return made.digest()


@dataclass(frozen=True)
class Head:
    """What a transaction left.

    Attributes
    ----------
    stamp : int
        Its number.
    rows, records : int
        Rows of names, and names.
    settings : bytes
        Digest of the settings; zeros before they are settled.
    mix : bytes
        Exclusive or of the digests of all rows of totals, runs and answers.
    key : bytes
        For digests that identify records; 32 bytes.
    """

    stamp: int
    rows: int
    records: int
    settings: bytes
    mix: bytes
    key: bytes

    def packed(self) -> bytes:
        """As the store keeps it."""
        text = _HEAD.pack(self.stamp, self.rows, self.records, self.settings, self.mix, self.key)
        return text + digest(text)

    @classmethod
    def of(cls, packed: bytes) -> Head | None:
        """None if it is not as it was written."""
        text = packed[: _HEAD.size]
        return cls(*_HEAD.unpack(text)) if len(text) == _HEAD.size and packed[_HEAD.size :] == digest(text) else None


def stamped(stamp: int) -> bytes:
    """A number that compares as bytes."""
    return stamp.to_bytes(8, "big")


def mixed(*digests: bytes) -> bytes:
    """Exclusive or: a digest that is in it twice is not in it any more."""
    total = 0
    for each in digests:
        total ^= int.from_bytes(each, "big")
    return total.to_bytes(16, "big")


def packed_totals(totals: Integers) -> bytes:
    """One row."""
    return totals.astype(_BYTES).tobytes()


def totals_of(packed: bytes) -> Integers:
    """What `packed_totals` was given."""
    return np.frombuffer(packed, _BYTES).astype(np.int64)


def packed_answers(labels: Integers, counts: Floats) -> bytes:
    """One row."""
    row = np.empty(len(labels), _ANSWER)
    row["label"], row["count"] = labels, counts
    return row.tobytes()


def answers_of(packed: bytes) -> tuple[Integers, Floats]:
    """Labels, -1 where there is none yet, and counts."""
    row = np.frombuffer(packed, _ANSWER)
    return row["label"].astype(np.int64), row["count"].astype(np.float64)


def old_totals(size: int, rows: Any) -> Integers | None:
    """Totals of the first version, from its log: (seq, positions, totals) in order; None if there are too many."""
    totals = np.zeros(size, np.int64)
    for _, positions, values in rows:
        where = np.frombuffer(positions, _BYTES)
        if len(where) and where.max() >= size:
            return None
        totals[where] = np.frombuffer(values, _BYTES)
    return totals
