"""Messages between servers, shufflers and clients: one versioned binary frame, and its payloads.

Layout, version 2; all numbers little-endian and unsigned unless said otherwise.

====== ===== ==================================================================
offset bytes field
====== ===== ==================================================================
0      4     magic, ``RkNN``
4      1     version, 2
5      1     kind: 1 setup, 2 counts, 3 summed counts, 4 reports, 5 shuffled
6      2     zero
8      4     round, from 1
12     16    session, chosen by the server at random
28     8     client; 0 for a message that comes from none
36     8     length of the payload
44     32    SHA-256 of the whole setup message that this one answers; zero for
             a setup
76     4     CRC-32 of all bytes but these four
80     ...   payload
====== ===== ==================================================================

Payloads:

* counts: s and c (4 bytes each), number of records (8), then the s x c counts by rows (4 each);
* summed counts: s and c (4 each), records (8), clients (8), their identifiers (8 each), the counts (8 each);
* reports and shuffled: number of reports (8), number of their records (8), bytes of each report (4), then the reports;
* setup: see `mechanisms.federation.round_setup`.

s is the number of queries, c the number of classes. The digest ties an answer to the whole setup: if a server sends
one setup to clients and another one to the shuffler, the shuffler refuses the answers. The checksum detects accidental
changes. Authentication and encryption are left to the transport.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.validation import check_count

__all__ = [
    "ClientCounts",
    "CorruptMessage",
    "DuplicateMessage",
    "Kind",
    "LateMessage",
    "Message",
    "MessageError",
    "OversizedMessage",
    "Reports",
    "SummedCounts",
    "UnknownVersion",
    "UnsuitableMessage",
    "WrongRound",
    "digest_of",
]

MAGIC = b"RkNN"
VERSION = 2
HEADER = struct.Struct("<4sBBHI16sQQ32sI")
CRC = struct.Struct("<I")
LARGEST_PAYLOAD = 2**30
"""Most bytes of a payload, unless a receiver sets another limit."""

NO_DIGEST = bytes(32)
"""In messages that are no answers."""

COUNTS = struct.Struct("<IIQ")
SUMMED = struct.Struct("<IIQQ")
REPORTS = struct.Struct("<QQI")


class MessageError(ac.AccountantError, ValueError):
    """A message was refused; nothing has changed."""


class CorruptMessage(MessageError):
    """The bytes are no message: too short, too long, changed in transit, or with a payload of another kind."""


class OversizedMessage(MessageError):
    """The payload is longer than the receiver accepts."""


class UnknownVersion(MessageError):
    """The message has another version of the layout."""


class UnsuitableMessage(MessageError):
    """The message is well formed, but of a kind that is not accepted here, or not what was asked for."""


class WrongRound(MessageError):
    """The message is for another session, or for a round that has not begun."""


class LateMessage(MessageError):
    """The message is for a round that is over."""


class DuplicateMessage(MessageError):
    """The client has already answered in this round."""


class Kind(IntEnum):
    """Kinds of messages."""

    SETUP = 1
    COUNTS = 2
    SUMMED_COUNTS = 3
    REPORTS = 4
    SHUFFLED = 5


@dataclass(frozen=True)
class Message:
    """A frame with its payload.

    Parameters
    ----------
    kind : Kind
    round : int
        From 1.
    session : bytes
        16 bytes.
    client : int
        Below 2^64; 0 in a message from no client.
    payload : bytes
    digest : bytes
        32 bytes: `digest_of` the setup message that it answers; zeros in a setup.
    """

    kind: Kind
    round: int
    session: bytes
    client: int
    payload: bytes
    digest: bytes = NO_DIGEST

    def pack(self) -> bytes:
        """The message as bytes.

        Raises
        ------
        accountant.ParameterError
            A field does not fit into the layout.
        """
        check_count("round", self.round, 1, 2**32 - 1)
        check_count("client", self.client, 0, 2**64 - 1)
        for name, size in (("session", 16), ("digest", 32)):
            if len(getattr(self, name)) != size:
                raise ac.ParameterError(f"{name} has {len(getattr(self, name))} bytes; accepted: {size}")
        fields = (self.kind, 0, self.round, self.session, self.client, len(self.payload), self.digest, 0)
        head = HEADER.pack(MAGIC, VERSION, *fields)[: -CRC.size]
        return b"".join((head, CRC.pack(zlib.crc32(self.payload, zlib.crc32(head))), self.payload))

    @classmethod
    def unpack(cls, data: object, limit: int = LARGEST_PAYLOAD) -> Message:
        """Decode a message; every sequence of bytes that is none is refused.

        Raises
        ------
        OversizedMessage, UnknownVersion, CorruptMessage
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise CorruptMessage(f"a message of type {type(data).__name__}; accepted: bytes")
        data = bytes(data) if len(data) <= HEADER.size + limit else data
        if len(data) < HEADER.size:
            raise CorruptMessage(f"a message of {len(data)} bytes; accepted: at least {HEADER.size}")
        magic, version, kind, zero, number, session, client, length, digest, crc = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise CorruptMessage(f"a message that begins with {magic!r}; accepted: {MAGIC!r}")
        if version != VERSION:
            raise UnknownVersion(f"a message of version {version}; accepted: {VERSION}")
        if length > limit or len(data) > HEADER.size + limit:
            largest = max(length, len(data) - HEADER.size)
            raise OversizedMessage(f"a payload of {largest} bytes; accepted: at most {limit}")
        if len(data) != HEADER.size + length:
            raise CorruptMessage(f"a message of {len(data)} bytes; accepted: {HEADER.size + length}, as it says")
        payload = bytes(data[HEADER.size :])
        if zlib.crc32(payload, zlib.crc32(data[: HEADER.size - CRC.size])) != crc:
            raise CorruptMessage("a message whose checksum is wrong; accepted: one that arrived as it was sent")
        if kind not in tuple(Kind) or zero != 0 or number == 0:
            raise CorruptMessage(f"a message of kind {kind}, round {number}; accepted: kinds 1 to 5, rounds from 1")
        if (kind == Kind.SETUP) != (digest == NO_DIGEST):
            raise CorruptMessage("a digest in a setup, or none in an answer; accepted: that of the setup it answers")
        return cls(Kind(kind), number, session, client, payload, digest)


def digest_of(setup: bytes) -> bytes:
    """SHA-256 of a setup message, which every answer to it holds."""
    return sha256(setup).digest()


# --- payloads ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClientCounts:
    """Counts (s, c) of one client, and the number of its records."""

    counts: NDArray[np.int64]
    records: int

    def pack(self) -> bytes:
        if self.counts.max(initial=0) >= 2**32:
            raise ac.ParameterError(f"a count of {self.counts.max()}; accepted: below 2^32 for one client")
        return COUNTS.pack(*self.counts.shape, self.records) + self.counts.astype("<u4").tobytes()

    @staticmethod
    def bytes_of(shape: tuple[int, int]) -> float:
        """Length of counts of that shape."""
        return float(COUNTS.size + 4 * shape[0] * shape[1])

    @classmethod
    def unpack(cls, payload: bytes) -> ClientCounts:
        rows, columns, records = _unpack_header(COUNTS, payload)
        _check_length(payload, COUNTS.size + 4 * rows * columns)
        counts = np.frombuffer(payload, "<u4", offset=COUNTS.size).reshape(rows, columns)
        return cls(counts.astype(np.int64), records)


@dataclass(frozen=True, eq=False)
class SummedCounts:
    """Summed counts (s, c) of several clients, as secure aggregation gives them, and who these are."""

    counts: NDArray[np.int64]
    records: int
    clients: NDArray[np.uint64]

    def pack(self) -> bytes:
        head = SUMMED.pack(*self.counts.shape, self.records, len(self.clients))
        return head + self.clients.astype("<u8").tobytes() + self.counts.astype("<u8").tobytes()

    @classmethod
    def unpack(cls, payload: bytes) -> SummedCounts:
        rows, columns, records, clients = _unpack_header(SUMMED, payload)
        _check_length(payload, SUMMED.size + 8 * clients + 8 * rows * columns)
        names = np.frombuffer(payload, "<u8", clients, SUMMED.size)
        counts = np.frombuffer(payload, "<u8", offset=SUMMED.size + 8 * clients).reshape(rows, columns)
        if (counts >= 2**62).any():
            raise CorruptMessage(f"a count of {counts.max()}; accepted: below 2^62")
        return cls(counts.astype(np.int64), records, names.astype(np.uint64))


@dataclass(frozen=True)
class Reports:
    """Reports of `size` bytes each, concatenated, and the number of records that they come from."""

    body: bytes
    size: int
    records: int

    def __len__(self) -> int:
        return len(self.body) // self.size

    def pack(self) -> bytes:
        return REPORTS.pack(len(self), self.records, self.size) + self.body

    @classmethod
    def unpack(cls, payload: bytes) -> Reports:
        number, records, size = _unpack_header(REPORTS, payload)
        if size == 0:
            raise CorruptMessage("reports of 0 bytes each; accepted: at least 1")
        _check_length(payload, REPORTS.size + number * size)
        return cls(payload[REPORTS.size :], size, records)


def _unpack_header(layout: struct.Struct, payload: bytes) -> tuple[int, ...]:
    if len(payload) < layout.size:
        raise CorruptMessage(f"a payload of {len(payload)} bytes; accepted: at least {layout.size}")
    return layout.unpack_from(payload)


def _check_length(payload: bytes, size: int) -> None:
    """Checked before any array is made, whose size the sender would decide."""
    if len(payload) != size:
        raise CorruptMessage(f"a payload of {len(payload)} bytes; accepted: {size}, as it says")
