"""A shuffler: who stands between clients and server and forgets who sent what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.exclusive import exclusive
from mechanisms.federation.client import MODELS
from mechanisms.federation.ledger import as_ledger
from mechanisms.federation.messages import LARGEST, Kind, Message, Reports, UnsuitableMessage, digest_of
from mechanisms.federation.protocols import protocol_of
from mechanisms.federation.receiver import Receiver
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.targets import Charge, Target
from mechanisms.validation import check_count

__all__ = ["Shuffler"]


class Shuffler(Receiver):
    """Collects reports and passes them on without their senders, in an order that tells nothing.

    The order is that of the reports themselves: it is a function of which reports there are, as a random one would be.
    It trusts neither the server nor what clients say of themselves: it prices every round by itself for a crowd of
    `least`, opens none that would bring the total above its own target, opens each once, and passes on answers to the
    setup that it opened alone.

    Parameters
    ----------
    least : int
        Fewest users that reports must come from: below, the crowd does not hide as much as was promised, and nothing
        is passed on. A client counts as one user, whatever it says, unless `enrolled` has it speak for more.
    max_epsilon, delta : float
        Most that all rounds together may cost a record; delta > 0.
    enrolled : mapping from int to int, optional
        The shuffler's own register: how many users each client speaks for. Others are then not heard, and none with
        more records than that.
    limit : int
        Most bytes of a payload.
    ledger : str, Path, Ledger or MemoryLedger
        Remembers which rounds were opened and what they cost. Must be given: a path, so that no restart forgets, or a
        `MemoryLedger`.
    """

    def __init__(
        self,
        least: int,
        max_epsilon: float,
        delta: float,
        enrolled: Mapping[int, int] | None = None,
        limit: int = LARGEST,
        ledger: Any = None,
    ) -> None:
        super().__init__(limit)
        self._least = check_count("least", least, 1)
        self._target = Target(max_epsilon, delta)
        if self._target.delta == 0:
            raise ac.ParameterError("delta = 0 for a shuffler; accepted: above 0")
        self._enrolled = None if enrolled is None else _register(enrolled)
        self._ledger = as_ledger(ledger)
        self._users = 0

    @property
    def least(self) -> int:
        """Fewest users that reports must come from."""
        return self._least

    @property
    def spent_(self) -> ac.Composition:
        """What all rounds that were opened cost a record, charged when they are opened."""
        return self._ledger.spent()

    @exclusive
    def open(self, setup: bytes) -> None:
        """Begin the round of a server's setup; one that was open before it is given up.

        Raises
        ------
        MessageError
            Not a setup for a shuffler, one of a round that was opened before, one that counts on a larger crowd than
            `least`, or one that would cost more than the target allows. Nothing has changed.
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
        self._closing()
        if self._users < self._least:
            raise ac.ParameterError(f"reports of {self._users} users; accepted: at least {self._least}")
        self._open = False
        size = self._protocol.report_bytes
        ordered = np.sort(np.frombuffer(b"".join(self._bodies), f"V{size}"))
        payload = Reports(ordered.tobytes(), size, self._records).pack()
        return Message(Kind.SHUFFLED, self.round, self.session, 0, payload, self._digest).pack()


def _register(enrolled: Mapping[int, int]) -> dict[int, int]:
    """Users of each client."""
    return {
        check_count("enrolled client", client, 1, 2**64 - 1): check_count(f"users of client {client}", users, 1)
        for client, users in enrolled.items()
    }
