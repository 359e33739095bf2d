"""The server of reverse k-NN. Clients, server and shuffler are separate objects that exchange bytes.

Three trust models:

* central: clients send exact counts, and the server adds noise to their sum. As counts can be summed, `add_up` can
  stand in for secure aggregation, after which the server sees nothing but the sum.
* local: each client randomizes the report of every record, and trusts nobody.
* shuffle: reports have less noise of their own; a shuffler passes them on without their senders.

In the local and shuffle models one record is one user: a client with several records sends one report for each, so
that their number is not hidden. Neighbouring data sets differ in one record (REPLACE), and the number of records is
public. In the central model the event may have ADD_REMOVE adjacency; then results give no number of records or clients.

No party relies on prices that another one states. Clients and the shuffler price every round by themselves and refuse
what would exceed their own targets; a server opens no round that costs more than the event that it charges. Every
answer holds a digest of the whole setup, and a party that opened another setup refuses it. Whether a party answers or
refuses depends on its options and on what was spent before, not on records.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.exclusive import exclusive
from mechanisms.federation.client import MODELS, Client
from mechanisms.federation.messages import (
    LARGEST_PAYLOAD,
    ClientCounts,
    DuplicateMessage,
    Kind,
    Message,
    Reports,
    SummedCounts,
    UnsuitableMessage,
    WrongRound,
    digest_of,
)
from mechanisms.federation.protocols import (
    LocalProtocol,
    Protocol,
    as_one_event,
    covers_counts,
    noise_variance,
    protocol_of,
    report_in_crowd,
)
from mechanisms.federation.receiver import Receiver
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.shuffler import Shuffler
from mechanisms.noise.source import Randomness, as_randomness, check_noise, noise_of

__all__ = ["MODELS", "Client", "ReleasedCounts", "Server", "Shuffler", "add_up"]


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """Unbiased estimates of how many records voted for each query with each label.

    Attributes
    ----------
    counts, variance : array of shape (s, c)
        The estimates, and the variance of the noise in each.
    records, clients : int or None
        How many took part. None under ADD_REMOVE, where the number of records is private; in the shuffle model the
        number of clients is hidden, and `clients` is 0.
    """

    counts: NDArray[np.float64]
    variance: NDArray[np.float64]
    records: int | None
    clients: int | None


class Server(Receiver):
    """Opens rounds, adds up what arrives, and releases counts.

    Parameters
    ----------
    model : {"central", "local", "shuffle"}
    event : accountant.Event or accountant.Composition
        What a round costs. In the central model the server draws its noise: Laplace, Gaussian, or their discrete
        versions. In the other models it is the event of the protocol (shuffled in the shuffle model), or a REPLACE
        `accountant.PureDP` of at least that epsilon. Setups that cost more are refused.
    rng : Generator, int, Randomness or None
        None draws from system entropy.
    limit : int
        Most bytes of a payload.

    Attributes
    ----------
    spent_ : accountant.Composition
        The price of all rounds so far, charged before their noise is drawn.

    Raises
    ------
    accountant.ParameterError
        A value is not as described.
    """

    def __init__(self, model: str, event: Any, rng: Any = None, limit: int = LARGEST_PAYLOAD) -> None:
        super().__init__(limit)
        if model not in MODELS:
            raise ac.ParameterError(f"model = {model!r}; accepted: {', '.join(MODELS)}")
        if not isinstance(event, ac.Event | ac.Composition) or (model == "central" and not covers_counts(event, 0)):
            accepted = "Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian" if model == "central" else "an event"
            raise ac.ParameterError(f"event = {event!r} in the {model} model; accepted: {accepted}")
        self._model = model
        self._event: Any = event
        self.accepted = {  # type: ignore[misc]  # set per instance, as it depends on the model
            "central": (Kind.COUNTS, Kind.SUMMED_COUNTS),
            "local": (Kind.REPORTS,),
            "shuffle": (Kind.SHUFFLED,),
        }[model]
        self._source: Randomness | None = as_randomness(rng) if model == "central" else None
        if self._source is not None:
            check_noise(self.event, self._source)
            self._variance = noise_variance(event)
        self.session = secrets.token_bytes(16)
        self.spent_ = ac.Composition()

    @property
    def model(self) -> str:
        """Fixed when the server was made."""
        return self._model

    @property
    def event(self) -> Any:
        """What a round costs; fixed when the server was made."""
        return self._event

    @exclusive
    def open(self, setup: RoundSetup) -> bytes:
        """Begin the next round, and return the message for all clients.

        Raises
        ------
        accountant.ParameterError
            The setup belongs to another model or costs more than the event, or a round is open.
        """
        if self._open:
            raise ac.ParameterError(f"open was called and round {self.round} is open; accepted: close it first")
        if setup.protocol not in MODELS[self._model]:
            accepted = ", ".join(MODELS[self._model])
            raise ac.ParameterError(f"protocol = {setup.protocol!r} in the {self._model} model; accepted: {accepted}")
        protocol = None if setup.protocol == "counts" else protocol_of(setup)
        self._refuse_underpriced(setup, protocol)
        message = setup.pack(self.round + 1, self.session)
        self._protocol, self._digest = protocol, digest_of(message)
        self._setup, self._open = setup, True
        self.round += 1
        self._sum = np.zeros(setup.shape, np.int64)
        self._begin()
        return message

    def _refuse_underpriced(self, setup: RoundSetup, protocol: Protocol | None) -> None:
        """Refuse a setup that costs more than the event, which is what is charged."""
        if protocol is None:
            covered, asked = (
                covers_counts(self._event, setup.size.nonzeros),
                f"{setup.size.nonzeros} counts of each record",
            )
        else:
            covered, asked = self._covers(protocol), f"reports that cost {protocol.event!r}"
        if not covered:
            raise ac.ParameterError(f"a setup for {asked}; accepted: what event = {self._event!r} pays for")

    def _covers(self, protocol: Protocol) -> bool:
        event = self._event
        if event == protocol.event:
            return True
        if not isinstance(protocol, LocalProtocol):
            return False
        if isinstance(event, ac.Shuffled):
            # without what is known of all inputs it costs no less
            known = report_in_crowd(protocol.randomizer), as_one_event(protocol.event)
            return self._model == "shuffle" and any(event == ac.Shuffled(each, event.n) for each in known)
        # the number of reports is visible, so that they have no ADD_REMOVE guarantee
        pure = isinstance(event, ac.PureDP) and event.adjacency == ac.Adjacency.REPLACE
        return pure and bool(event.epsilon >= ac.epsilon(1 * protocol.event, 0.0, method="renyi").epsilon)

    @exclusive
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
            raise DuplicateMessage(f"the reports of round {self.round} were received; accepted: one message of them")
        reports = Reports.unpack(received.payload)
        self._protocol.check(reports)
        if received.kind == Kind.SHUFFLED and reports.records < self._crowd():
            raise UnsuitableMessage(f"reports of {reports.records} records; accepted: at least {self._crowd()}")
        self._bodies.append(reports.body)
        self._records += reports.records
        if received.kind == Kind.REPORTS:
            self._heard.add(received.client)

    def _crowd(self) -> int:
        """Number of records whose reports must come together; for fewer the event would not be their price."""
        assert self._protocol is not None
        return self._event.n if isinstance(self._event, ac.Shuffled) else self._protocol.participants

    def _add_counts(self, received: Message) -> None:
        assert self._setup is not None
        summed = received.kind == Kind.SUMMED_COUNTS
        table: ClientCounts | SummedCounts
        table = SummedCounts.unpack(received.payload) if summed else ClientCounts.unpack(received.payload)
        names = table.clients.tolist() if isinstance(table, SummedCounts) else [received.client]
        if table.counts.shape != self._setup.shape:
            raise UnsuitableMessage(f"counts of shape {table.counts.shape}; accepted: {self._setup.shape}")
        expected = table.records * self._setup.size.nonzeros
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

    @exclusive
    def close(self) -> ReleasedCounts:
        """End the round: charge the event, then return estimates of all counts.

        Raises
        ------
        accountant.ParameterError
            No round is open.
        """
        setup = self._require_open()
        self.spent_, self._open = self.spent_ + self._event, False
        if self._protocol is None:
            assert self._source is not None
            noise = noise_of(self._event, self._source, setup.size.domain).reshape(setup.shape)
            variance = np.full(setup.shape, self._variance)
            hidden = self._event.adjacency == ac.Adjacency.ADD_REMOVE
            public = (None, None) if hidden else (self._records, len(self._heard))
            return ReleasedCounts(self._sum + noise, variance, *public)
        reports = Reports(b"".join(self._bodies), self._protocol.report_bytes, self._records)
        counts, variance = (part.reshape(setup.shape) for part in self._protocol.estimate(reports))
        return ReleasedCounts(counts, variance, self._records, len(self._heard))


def add_up(messages: Iterable[bytes], limit: int = LARGEST_PAYLOAD) -> bytes:
    """The sum of clients' counts in one round, as the message that secure aggregation would give to the server.

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
        if received.digest != first.digest:
            raise UnsuitableMessage(f"an answer to another setup of round {first.round}; accepted: to the same one")
        if received.client in names:
            raise DuplicateMessage(f"client {received.client} is among them already; accepted: once")
        if table.counts.shape != total.counts.shape:
            raise UnsuitableMessage(f"counts of shape {table.counts.shape}; accepted: {total.counts.shape}")
        names.append(received.client)
        total = ClientCounts(total.counts + table.counts, total.records + table.records)
    if first is None or total is None:
        raise UnsuitableMessage("no counts to add up; accepted: those of at least one client")
    summed = SummedCounts(total.counts, total.records, np.array(sorted(names), np.uint64))
    return Message(Kind.SUMMED_COUNTS, first.round, first.session, 0, summed.pack(), first.digest).pack()
