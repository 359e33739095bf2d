"""The setup of a round: everything that clients need to answer it and to price it.

Payload, little-endian:

===== ======================================================================
bytes field
===== ======================================================================
1     protocol: 0 counts, 1 randomized response, 2 collision, 3 separation,
      4 noise shares
1     number p of parameters
2     zero
4     k, queries that a record votes for
4     r, labels of a record
4     c, classes
4     s, queries
4     d, columns
8 p   parameters of the protocol (double precision)
8 s   prices (double precision)
4 s d queries by rows (single precision)
===== ======================================================================
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.federation.messages import CorruptMessage, Kind, Message, UnsuitableMessage
from mechanisms.neighbours.reverse import Connections, votes_of
from mechanisms.validation import check_count

__all__ = ["PROTOCOLS", "RoundSetup", "RoundSize"]

PROTOCOLS = ("counts", "randomized-response", "collision", "separation", "shares")
LAYOUT = struct.Struct("<BBHIIIII")
MOST_ENTRIES = 2**31 - 1
"""Most entries of the table of counts, s times c."""

MOST_QUERIES = 2**20
"""Most queries. For more, a client's memory would depend on how many are near its records, which are private."""

VOTES_AT_ONCE = 2**21
"""Votes that are held at once where only their sums are asked for."""


@dataclass(frozen=True)
class RoundSize:
    """How many counts a round has, and how many of them a record adds to.

    Parameters
    ----------
    queries, classes : int
        s and c.
    neighbors : int
        k, queries that a record votes for; at most s.
    labels : int
        r, labels of a record; at most c.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    queries: int
    classes: int
    neighbors: int = 1
    labels: int = 1

    def __post_init__(self) -> None:
        check_count("queries", self.queries, 1)
        check_count("classes", self.classes, 1)
        check_count("neighbors", self.neighbors, 1, self.queries)
        check_count("labels", self.labels, 1, self.classes)

    @property
    def domain(self) -> int:
        """Entries of the flattened table of counts: s c."""
        return self.queries * self.classes

    @property
    def nonzeros(self) -> int:
        """Entries that a record adds one to: k r."""
        return self.neighbors * self.labels


@dataclass(frozen=True, eq=False)
class RoundSetup:
    """What a round asks of every record.

    Parameters
    ----------
    queries : array of shape (s, d)
        Public points.
    n_classes : int
        c.
    n_neighbors : int
        k.
    n_labels : int
        r, the labels that every record has; 1 in classification.
    prices : array of shape (s,), optional
    protocol : {"counts", "randomized-response", "collision", "separation", "shares"}
    parameters : tuple of float
        Of the protocol: see `mechanisms.federation.protocols`.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    queries: NDArray[np.float32]
    n_classes: int
    n_neighbors: int = 1
    n_labels: int = 1
    prices: NDArray[np.float64] | None = None
    protocol: str = "counts"
    parameters: tuple[float, ...] = field(default=())

    def __post_init__(self) -> None:
        s, c = len(self.connections.queries), self.n_classes
        if not 1 <= self.n_labels <= c:
            raise ac.ParameterError(f"n_labels = {self.n_labels}; accepted: 1..{c}, the classes")
        if s > MOST_QUERIES:
            raise ac.ParameterError(f"{s} queries; accepted: at most {MOST_QUERIES}")
        if s * c > MOST_ENTRIES:
            raise ac.ParameterError(f"{s} queries by {c} classes; accepted: at most {MOST_ENTRIES} counts")
        if self.protocol not in PROTOCOLS:
            raise ac.ParameterError(f"protocol = {self.protocol!r}; accepted: {', '.join(PROTOCOLS)}")

    @cached_property
    def connections(self) -> Connections:
        """Finds the queries that a record votes for."""
        return Connections(self.queries, self.n_neighbors, self.prices)

    @cached_property
    def size(self) -> RoundSize:
        """s, c, k and r."""
        return RoundSize(len(self.queries), self.n_classes, self.n_neighbors, self.n_labels)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the table of counts: queries, classes."""
        return self.size.queries, self.size.classes

    def entries(self, records: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Entries (n, k r) of the flattened table of counts that each record adds one to; labels of shape (n, r)."""
        return votes_of(self.connections.find_nearest(records), labels, self.n_classes)

    def count(self, records: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Votes (s, c) of all records, whose entries are found for some records at a time."""
        counts = np.zeros(self.size.domain, np.int64)
        step = max(VOTES_AT_ONCE // self.size.nonzeros, 1)
        for start in range(0, len(records), step):
            some = slice(start, start + step)
            np.add.at(counts, self.entries(records[some], labels[some]).ravel(), 1)
        return counts.reshape(self.shape)

    def pack(self, round: int, session: bytes) -> bytes:
        """The message that opens a round."""
        numbers = np.array(self.parameters, "<f8")
        s, d = self.connections.queries.shape
        head = LAYOUT.pack(
            PROTOCOLS.index(self.protocol), len(numbers), 0, self.n_neighbors, self.n_labels, self.n_classes, s, d
        )
        prices = self.connections.prices.astype("<f8")
        body = b"".join(part.tobytes() for part in (numbers, prices, self.connections.queries.astype("<f4")))
        return Message(Kind.SETUP, round, session, 0, head + body).pack()

    @classmethod
    def unpack(cls, message: Message) -> RoundSetup:
        """Decode the setup in a message.

        Raises
        ------
        UnsuitableMessage
            The message is of another kind.
        CorruptMessage
            Its payload is no setup.
        """
        if message.kind != Kind.SETUP:
            raise UnsuitableMessage(f"a message of kind {message.kind.name}; accepted: SETUP")
        payload = message.payload
        if len(payload) < LAYOUT.size:
            raise CorruptMessage(f"a setup of {len(payload)} bytes; accepted: at least {LAYOUT.size}")
        code, p, zero, k, r, c, s, d = LAYOUT.unpack_from(payload)
        size = LAYOUT.size + 8 * p + 8 * s + 4 * s * d
        if len(payload) != size:
            raise CorruptMessage(f"a setup of {len(payload)} bytes; accepted: {size}, as it says")
        if code >= len(PROTOCOLS) or zero or not c or not s or not d:
            raise CorruptMessage(f"a setup of protocol {code}, {s} queries, {d} columns, {c} classes")
        parameters = np.frombuffer(payload, "<f8", p, LAYOUT.size)
        prices = np.frombuffer(payload, "<f8", s, LAYOUT.size + 8 * p)
        queries = np.frombuffer(payload, "<f4", offset=LAYOUT.size + 8 * (p + s)).reshape(s, d)
        if not all(map(math.isfinite, parameters)):
            raise CorruptMessage("a setup whose parameters are not all finite")
        try:
            return cls(queries, c, k, r, prices, PROTOCOLS[code], tuple(parameters.tolist()))
        except ac.ParameterError as error:
            raise CorruptMessage(f"an impossible setup: {error}") from None
