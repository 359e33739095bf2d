"""The part that server and shuffler share: they receive messages in one open round, one from each client."""

from __future__ import annotations

from typing import ClassVar

import accountant as ac
from mechanisms.exclusive import Exclusive
from mechanisms.federation.messages import (
    DuplicateMessage,
    Kind,
    LateMessage,
    Message,
    UnsuitableMessage,
    WrongRound,
)
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.validation import check_count

__all__ = ["Receiver"]


class Receiver(Exclusive):
    """Receives messages in one open round, one from each client."""

    accepted: ClassVar[tuple[Kind, ...]] = (Kind.REPORTS,)

    def __init__(self, limit: int) -> None:
        self._claim()  # belongs to this process from the start: a forked child would use the same session
        self.limit = check_count("limit", limit, 1)
        self.session = bytes(16)
        self.round, self._open = 0, False
        self._setup: RoundSetup | None = None
        self._digest = bytes(32)
        self._begin()

    def _begin(self) -> None:
        """Forget all messages of the round before."""
        self._heard: set[int] = set()
        self._bodies: list[bytes] = []
        self._records = 0

    def _unpack(self, message: object) -> Message:
        """Decode a message for the open round, from a client that has not answered yet."""
        received = Message.unpack(message, self.limit)
        if received.session != self.session or received.round > self.round:
            raise WrongRound(f"a message for another session, or for round {received.round}; accepted: {self.round}")
        if received.round < self.round or not self._open:
            now = f"round {self.round}" if self._open else "none, no round is open"
            raise LateMessage(f"a message for round {received.round}, which is over; accepted: {now}")
        if received.kind not in self.accepted:
            accepted = " or ".join(kind.name for kind in self.accepted)
            raise UnsuitableMessage(f"a message of kind {received.kind.name}; accepted: {accepted}")
        if received.digest != self._digest:
            raise UnsuitableMessage(f"an answer to another setup of round {self.round}; accepted: to the one opened")
        if received.kind in (Kind.COUNTS, Kind.REPORTS):
            if received.client == 0:
                raise UnsuitableMessage("a message from client 0; accepted: identifiers from 1")
            if received.client in self._heard:
                raise DuplicateMessage(f"client {received.client} was heard in round {self.round}; accepted: once")
        elif received.client:
            # otherwise a client could vote in the name of others, whose own messages would then be refused
            found = f"a message of kind {received.kind.name} from client {received.client}"
            raise UnsuitableMessage(f"{found}; accepted: from no client, that is 0")
        return received

    def _require_open(self) -> RoundSetup:
        """The setup of the open round; refused if there is none."""
        if not self._open or self._setup is None:
            raise ac.ParameterError("close was called and no round is open; accepted: open, receive, close")
        return self._setup
