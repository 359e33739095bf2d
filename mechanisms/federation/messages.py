"""What a server and its clients send each other: one versioned binary frame, and what may stand in it.

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

* counts: s and c (4 bytes each), records counted (8), then the s x c counts by rows (4 each);
* summed counts: s and c (4 each), records (8), clients (8), their identifiers (8 each), the counts (8 each);
* reports and shuffled: number of reports (8), records they come from (8), bytes of each (4), then the reports one
  after the other;
* setup: see `mechanisms.federation.round_setup`.

The digest binds an answer to all that was asked: a server that shows clients one setup and the shuffler another gets
nothing passed on. A checksum detects accidents. Neither keeps anybody out: who may send, and that nobody reads along,
is up to the transport.
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
LARGEST = 2**30
"""Most bytes of a payload, unless a receiver says otherwise."""

NO_DIGEST = bytes(32)
"""Of a message that answers none."""

COUNTS = struct.Struct("<IIQ")
SUMMED = struct.Struct("<IIQQ")
REPORTS = struct.Struct("<QQI")


class MessageError(ac.AccountantError, ValueError):
    """A message was refused; nothing has changed."""


class CorruptMessage(MessageError):
    """The bytes are not a message: cut short, too long, changed on the way, or not what its kind holds."""


class OversizedMessage(MessageError):
    """The payload is longer than the receiver accepts."""


class UnknownVersion(MessageError):
    """Written in another version of the layout."""


class UnsuitableMessage(MessageError):
    """Well formed, but of a kind that does not belong here, or not what was asked for."""


class WrongRound(MessageError):
    """For another session, or for a round that has not begun."""


class LateMessage(MessageError):
    """For a round that is over."""


class DuplicateMessage(MessageError):
    """The client has already been heard in this round."""


class Kind(IntEnum):
    """What a message is."""

    SETUP = 1
    COUNTS = 2
    SUMMED_COUNTS = 3
    REPORTS = 4
    SHUFFLED = 5


@dataclass(frozen=True)
class Message:
    """A frame and its payload.

    Parameters
    ----------
    kind : Kind
    round : int
        From 1.
    session : bytes
        16 bytes.
    client : int
        Below 2^64; 0 where no client is meant.
    payload : bytes
    digest : bytes
        32 bytes: `digest_of` the setup that it answers; zeros for a setup.
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
    def unpack(cls, data: object, limit: int = LARGEST) -> Message:
        """The message that the bytes hold; every other sequence of bytes is refused.

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
    """What an answer to this setup message bears."""
    return sha256(setup).digest()


# --- payloads ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClientCounts:
    """Counts (s, c) of one client, and of how many records."""

    counts: NDArray[np.int64]
    records: int

    def pack(self) -> bytes:
        if self.counts.max(initial=0) >= 2**32:
            raise ac.ParameterError(f"a count of {self.counts.max()}; accepted: below 2^32 for one client")
        return COUNTS.pack(*self.counts.shape, self.records) + self.counts.astype("<u4").tobytes()

    @classmethod
    def unpack(cls, payload: bytes) -> ClientCounts:
        rows, columns, records = _header(COUNTS, payload)
        _exactly(payload, COUNTS.size + 4 * rows * columns)
        counts = np.frombuffer(payload, "<u4", offset=COUNTS.size).reshape(rows, columns)
        return cls(counts.astype(np.int64), records)


@dataclass(frozen=True, eq=False)
class SummedCounts:
    """Counts (s, c) that add up those of several clients, as secure aggregation gives them."""

    counts: NDArray[np.int64]
    records: int
    clients: NDArray[np.uint64]

    def pack(self) -> bytes:
        head = SUMMED.pack(*self.counts.shape, self.records, len(self.clients))
        return head + self.clients.astype("<u8").tobytes() + self.counts.astype("<u8").tobytes()

    @classmethod
    def unpack(cls, payload: bytes) -> SummedCounts:
        rows, columns, records, clients = _header(SUMMED, payload)
        _exactly(payload, SUMMED.size + 8 * clients + 8 * rows * columns)
        names = np.frombuffer(payload, "<u8", clients, SUMMED.size)
        counts = np.frombuffer(payload, "<u8", offset=SUMMED.size + 8 * clients).reshape(rows, columns)
        if (counts >= 2**62).any():
            raise CorruptMessage(f"a count of {counts.max()}; accepted: below 2^62")
        return cls(counts.astype(np.int64), records, names.astype(np.uint64))


@dataclass(frozen=True)
class Reports:
    """Reports of `size` bytes each, one after the other, from so many records."""

    body: bytes
    size: int
    records: int

    def __len__(self) -> int:
        return len(self.body) // self.size

    def pack(self) -> bytes:
        return REPORTS.pack(len(self), self.records, self.size) + self.body

    @classmethod
    def unpack(cls, payload: bytes) -> Reports:
        number, records, size = _header(REPORTS, payload)
        if size == 0:
            raise CorruptMessage("reports of 0 bytes each; accepted: at least 1")
        _exactly(payload, REPORTS.size + number * size)
        return cls(payload[REPORTS.size :], size, records)


def _header(layout: struct.Struct, payload: bytes) -> tuple[int, ...]:
    if len(payload) < layout.size:
        raise CorruptMessage(f"a payload of {len(payload)} bytes; accepted: at least {layout.size}")
    return layout.unpack_from(payload)


def _exactly(payload: bytes, size: int) -> None:
    """Sizes are compared before anything is made of them."""
    if len(payload) != size:
        raise CorruptMessage(f"a payload of {len(payload)} bytes; accepted: {size}, as it says")
