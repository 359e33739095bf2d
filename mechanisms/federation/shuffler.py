"""The shuffler of reverse k-NN: it passes clients' reports on to the server without their senders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.exclusive import exclusive
from mechanisms.federation.client import MODELS
from mechanisms.federation.ledger import as_ledger
from mechanisms.federation.messages import LARGEST_PAYLOAD, Kind, Message, Reports, UnsuitableMessage, digest_of
from mechanisms.federation.protocols import protocol_of
from mechanisms.federation.receiver import Receiver
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.targets import RECEIVED, Charge, Target
from mechanisms.validation import check_count

__all__ = ["Shuffler"]


class Shuffler(Receiver):
    """Collects reports and passes them on without their senders, in sorted order.

    Sorted reports reveal no more than reports in random order: both orders depend only on the set of reports. The
    shuffler trusts neither the server nor what clients state. It prices every round by itself for a crowd of `least`
    users, refuses rounds that would bring the total above its own target, opens every round once, and takes only
    answers to the setup that it opened.

    Parameters
    ----------
    least : int
        Fewest users whose reports are passed on; a smaller crowd would hide less than the price assumes. A client
        counts as one user, unless `enrolled` lists it with more.
    max_epsilon, delta : float
        Upper bound for the cost of all rounds together to a record; delta > 0.
    enrolled : mapping from int to int, optional
        The shuffler's own list of clients, with the number of users of each. Other clients are refused, and so are
        reports of more records than the client has users.
    limit : int
        Most bytes of a payload.
    ledger : str, Path, Ledger or MemoryLedger
        Remembers which rounds were opened and what they cost. Must be given: a path, so that no restart forgets, or a
        `MemoryLedger`.
    patience : float
        Seconds of work that the price of a setup may take, as for `accountant.epsilon`; a setup that needs more is
        refused.
    """

    def __init__(
        self,
        least: int,
        max_epsilon: float,
        delta: float,
        enrolled: Mapping[int, int] | None = None,
        limit: int = LARGEST_PAYLOAD,
        ledger: Any = None,
        *,
        patience: float = RECEIVED,
    ) -> None:
        super().__init__(limit)
        self._least = check_count("least", least, 1)
        self._target = Target(max_epsilon, delta, patience)
        if self._target.delta == 0:
            raise ac.ParameterError("delta = 0 for a shuffler; accepted: above 0")
        self._enrolled = None if enrolled is None else _check_enrolled(enrolled)
        self._ledger = as_ledger(ledger)
        self._users = 0

    @property
    def least(self) -> int:
        """Fewest users that reports must come from."""
        return self._least

    @property
    def spent_(self) -> ac.Composition:
        """What all opened rounds cost a record; a round is charged when it is opened."""
        return self._ledger.spent()

    @exclusive
    def open(self, setup: bytes) -> None:
        """Begin the round of a server's setup; a round that is still open is given up.

        Raises
        ------
        MessageError
            Not a setup for a shuffler, of a round that was opened before, for a crowd larger than `least`, or at a cost
            above the target. Nothing has changed.
        """
        message = Message.unpack(setup, self.limit)
        opened = RoundSetup.unpack(message)
        if opened.protocol not in MODELS["shuffle"]:
            accepted = ", ".join(MODELS["shuffle"])
            raise UnsuitableMessage(f"protocol {opened.protocol} for a shuffler; accepted: {accepted}")
        charge, protocol = Charge.of(opened, self._least), protocol_of(opened)
        self._target.check(1 * charge.event)
        self._ledger.charge(message.session, message.round, charge, self._target)
        self._setup, self._protocol, self._digest = opened, protocol, digest_of(setup)
        self.session, self.round, self._open = message.session, message.round, True
        self._begin()
        self._users = 0

    @exclusive
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
        users = 1
        if self._enrolled is not None:
            users = self._enrolled.get(received.client, 0)
            if not users:
                raise UnsuitableMessage(f"a message from client {received.client}; accepted: those that are enrolled")
            if reports.records > users:
                found = f"{reports.records} records of client {received.client}"
                raise UnsuitableMessage(f"{found}; accepted: at most {users}, as it is enrolled for")
        self._heard.add(received.client)
        self._bodies.append(reports.body)
        self._records += reports.records
        self._users += min(users, reports.records)

    @exclusive
    def close(self) -> bytes:
        """All reports in one message for the server.

        Raises
        ------
        accountant.ParameterError
            There are fewer users than `least`, or no round is open.
        """
        self._require_open()
        if self._users < self._least:
            raise ac.ParameterError(f"reports of {self._users} users; accepted: at least {self._least}")
        self._open = False
        size = self._protocol.report_bytes
        ordered = np.sort(np.frombuffer(b"".join(self._bodies), f"V{size}"))
        payload = Reports(ordered.tobytes(), size, self._records).pack()
        return Message(Kind.SHUFFLED, self.round, self.session, 0, payload, self._digest).pack()


def _check_enrolled(enrolled: Mapping[int, int]) -> dict[int, int]:
    """The number of users of each client, checked."""
    return {
        check_count("enrolled client", client, 1, 2**64 - 1): check_count(f"users of client {client}", users, 1)
        for client, users in enrolled.items()
    }
