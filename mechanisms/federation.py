"""Reverse k-NN's parties as separate objects that exchange bytes: clients, a server, and a shuffler between them.

Who trusts whom:

* central: clients send exact counts to a server that adds noise to their sum. Counts are additive: `add_up`
  stands for secure aggregation, after which the server sees nothing but the sum;
* local: every record's report is privatized on the client, and needs no trust;
* shuffle: reports with less noise of their own, whose senders a shuffler hides in the crowd.

In the local and shuffle models one record is one user: a client with several records sends one report for each, and
how many it holds is not hidden. Neighbours differ in one record (REPLACE); numbers of records are public.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.clients import MODELS, Client
from mechanisms.messages import (
    LARGEST,
    ClientCounts,
    DuplicateMessage,
    Kind,
    LateMessage,
    Message,
    Reports,
    SummedCounts,
    UnsuitableMessage,
    WrongRound,
)
from mechanisms.noise import Randomness, as_randomness, noise_of
from mechanisms.protocols import noise_variance, protocol_of
from mechanisms.setup import Setup
from mechanisms.validation import checked_count

__all__ = ["MODELS", "Client", "Counts", "Server", "Shuffler", "add_up"]


@dataclass(frozen=True, eq=False)
class Counts:
    """Unbiased estimates of how many records voted for each query with each label.

    Attributes
    ----------
    counts, variance : array of shape (s, c)
        The estimates, and the variance of the noise in each.
    records, clients : int
        How many took part; the shuffle model hides the number of clients, which is then 0.
    """

    counts: NDArray[np.float64]
    variance: NDArray[np.float64]
    records: int
    clients: int


class _Receiver:
    """What a server and a shuffler share: one open round, and clients that are heard once in it."""

    accepted: ClassVar[tuple[Kind, ...]] = (Kind.REPORTS,)

    def __init__(self, limit: int) -> None:
        self.limit = checked_count("limit", limit, 1)
        self.session = bytes(16)
        self.round, self._open = 0, False
        self._setup: Setup | None = None
        self._begin()

    def _begin(self) -> None:
        """Nothing has come yet."""
        self._heard: set[int] = set()
        self._bodies: list[bytes] = []
        self._records = 0

    def _unpack(self, message: object) -> Message:
        """A message for the open round, from a client not heard yet."""
        received = Message.unpack(message, self.limit)
        if received.session != self.session or received.round > self.round:
            raise WrongRound(f"a message for another session, or for round {received.round}; accepted: {self.round}")
        if received.round < self.round or not self._open:
            now = f"round {self.round}" if self._open else "none, no round is open"
            raise LateMessage(f"a message for round {received.round}, which is over; accepted: {now}")
        if received.kind not in self.accepted:
            accepted = " or ".join(kind.name for kind in self.accepted)
            raise UnsuitableMessage(f"a message of kind {received.kind.name}; accepted: {accepted}")
        if received.kind in (Kind.COUNTS, Kind.REPORTS):
            if received.client == 0:
                raise UnsuitableMessage("a message from client 0; accepted: identifiers from 1")
            if received.client in self._heard:
                raise DuplicateMessage(f"client {received.client} was heard in round {self.round}; accepted: once")
        return received

    def _closing(self) -> Setup:
        if not self._open or self._setup is None:
            raise ac.ParameterError("close was called and no round is open; accepted: open, receive, close")
        return self._setup


class Shuffler(_Receiver):
    """Collects reports and passes them on without their senders, in an order that tells nothing.

    The order is that of the reports themselves: it is a function of which reports there are, as a random one would be.

    Parameters
    ----------
    least : int
        Fewest records that reports must come from: below, the crowd does not hide as much as was promised, and
        nothing is passed on.
    limit : int
        Most bytes of a payload.
    """

    def __init__(self, least: int, limit: int = LARGEST) -> None:
        super().__init__(limit)
        self.least = checked_count("least", least, 1)

    def open(self, setup: bytes) -> None:
        """Begin the round of a server's setup.

        Raises
        ------
        MessageError
            Not a setup, or one that counts on a larger crowd than `least`.
        """
        message = Message.unpack(setup, self.limit)
        opened = Setup.unpack(message)
        protocol = protocol_of(opened)
        if protocol.participants > self.least:
            raise UnsuitableMessage(f"a setup for {protocol.participants} records; accepted: at most {self.least}")
        self._setup, self._protocol = opened, protocol
        self.session, self.round, self._open = message.session, message.round, True
        self._begin()

    def receive(self, message: object) -> None:
        """Take one client's reports.

        Raises
        ------
        MessageError
            The message is refused; nothing has changed.
        """
        received = self._unpack(message)
        reports = Reports.unpack(received.payload)
        self._protocol.check(reports)
        self._heard.add(received.client)
        self._bodies.append(reports.body)
        self._records += reports.records

    def close(self) -> bytes:
        """All reports in one message for the server.

        Raises
        ------
        accountant.ParameterError
            There are fewer records than `least`, or no round is open.
        """
        self._closing()
        if self._records < self.least:
            raise ac.ParameterError(f"reports of {self._records} records; accepted: at least {self.least}")
        self._open = False
        size = self._protocol.report_bytes
        ordered = np.sort(np.frombuffer(b"".join(self._bodies), f"V{size}"))
        payload = Reports(ordered.tobytes(), size, self._records).pack()
        return Message(Kind.SHUFFLED, self.round, self.session, 0, payload).pack()


class Server(_Receiver):
    """Opens rounds, adds up what arrives, and releases counts.

    Parameters
    ----------
    model : {"central", "local", "shuffle"}
    event : accountant.Event or accountant.Composition
        What a round costs, REPLACE. In the central model its noise is drawn here.
    rng : Generator, int, Randomness or None
        None draws from the system.
    limit : int
        Most bytes of a payload.

    Attributes
    ----------
    spent_ : accountant.Composition
        All that has been released, charged before anything is drawn.
    """

    def __init__(self, model: str, event: Any, rng: Any = None, limit: int = LARGEST) -> None:
        super().__init__(limit)
        if model not in MODELS:
            raise ac.ParameterError(f"model = {model!r}; accepted: {', '.join(MODELS)}")
        self.model, self.event = model, event
        self.accepted = {  # type: ignore[misc]  # of the instance: it depends on the model
            "central": (Kind.COUNTS, Kind.SUMMED_COUNTS),
            "local": (Kind.REPORTS,),
            "shuffle": (Kind.SHUFFLED,),
        }[model]
        self._source: Randomness | None = as_randomness(rng) if model == "central" else None
        self.session = secrets.token_bytes(16)
        self.spent_ = ac.Composition()

    def open(self, setup: Setup) -> bytes:
        """Begin the next round; the message for all clients."""
        if self._open:
            raise ac.ParameterError(f"open was called and round {self.round} is open; accepted: close it first")
        if setup.protocol not in MODELS[self.model]:
            accepted = ", ".join(MODELS[self.model])
            raise ac.ParameterError(f"protocol = {setup.protocol!r} in the {self.model} model; accepted: {accepted}")
        message = setup.pack(self.round + 1, self.session)
        self._protocol = None if setup.protocol == "counts" else protocol_of(setup)
        self._setup, self._open = setup, True
        self.round += 1
        self._sum = np.zeros(setup.shape, np.int64)
        self._begin()
        return message

    def receive(self, message: object) -> None:
        """Take one message.

        Raises
        ------
        MessageError
            The message is refused; nothing has changed.
        """
        received = self._unpack(message)
        if received.kind in (Kind.COUNTS, Kind.SUMMED_COUNTS):
            self._add_counts(received)
            return
        assert self._protocol is not None
        if received.kind == Kind.SHUFFLED and self._bodies:
            raise DuplicateMessage(f"the reports of round {self.round} have come; accepted: one message of them")
        reports = Reports.unpack(received.payload)
        self._protocol.check(reports)
        self._bodies.append(reports.body)
        self._records += reports.records
        if received.kind == Kind.REPORTS:
            self._heard.add(received.client)

    def _add_counts(self, received: Message) -> None:
        assert self._setup is not None
        summed = received.kind == Kind.SUMMED_COUNTS
        table: ClientCounts | SummedCounts
        table = SummedCounts.unpack(received.payload) if summed else ClientCounts.unpack(received.payload)
        names = table.clients.tolist() if isinstance(table, SummedCounts) else [received.client]
        if table.counts.shape != self._setup.shape:
            raise UnsuitableMessage(f"counts of shape {table.counts.shape}; accepted: {self._setup.shape}")
        expected = table.records * self._setup.nonzeros
        if table.records >= 2**40 or sum(table.counts.ravel().tolist()) != expected:
            raise UnsuitableMessage(f"counts that do not sum to {expected}, that of {table.records} records")
        if table.counts.max(initial=0) > table.records:
            raise UnsuitableMessage(f"a count of {table.counts.max()} from {table.records} records")
        if not names or 0 in names or len(set(names)) < len(names):
            raise UnsuitableMessage("summed counts whose clients are none, 0 or named twice")
        again = self._heard.intersection(names)
        if again:
            raise DuplicateMessage(f"client {min(again)} was heard in round {self.round}; accepted: once")
        self._heard.update(names)
        self._sum += table.counts
        self._records += table.records

    def close(self) -> Counts:
        """End the round: estimates of all counts, at the price of the event, charged first."""
        setup = self._closing()
        self.spent_, self._open = self.spent_ + self.event, False
        clients = len(self._heard)
        if self._protocol is None:
            assert self._source is not None
            noise = noise_of(self.event, self._source, setup.domain).reshape(setup.shape)
            variance = np.full(setup.shape, noise_variance(self.event))
            return Counts(self._sum + noise, variance, self._records, clients)
        reports = Reports(b"".join(self._bodies), self._protocol.report_bytes, self._records)
        counts, variance = (part.reshape(setup.shape) for part in self._protocol.estimate(reports))
        return Counts(counts, variance, self._records, clients)


def add_up(messages: Iterable[bytes], limit: int = LARGEST) -> bytes:
    """The sum of clients' counts of one round as one message, as secure aggregation gives it to the server.

    Raises
    ------
    MessageError
        A message is not of the same round, not counts, of another shape, or of a client that is among them already.
    """
    total: ClientCounts | None = None
    first: Message | None = None
    names: list[int] = []
    for message in messages:
        received = Message.unpack(message, limit)
        if received.kind != Kind.COUNTS or received.client == 0:
            raise UnsuitableMessage(f"a message of kind {received.kind.name}; accepted: COUNTS of a client from 1")
        table = ClientCounts.unpack(received.payload)
        if first is None or total is None:
            first, total = received, ClientCounts(np.zeros_like(table.counts), 0)
        if (received.session, received.round) != (first.session, first.round):
            raise WrongRound(f"counts of another session or of round {received.round}; accepted: {first.round}")
        if received.client in names:
            raise DuplicateMessage(f"client {received.client} is among them already; accepted: once")
        if table.counts.shape != total.counts.shape:
            raise UnsuitableMessage(f"counts of shape {table.counts.shape}; accepted: {total.counts.shape}")
        names.append(received.client)
        total = ClientCounts(total.counts + table.counts, total.records + table.records)
    if first is None or total is None:
        raise UnsuitableMessage("no counts to add up; accepted: those of at least one client")
    summed = SummedCounts(total.counts, total.records, np.array(sorted(names), np.uint64))
    return Message(Kind.SUMMED_COUNTS, first.round, first.session, 0, summed.pack()).pack()
