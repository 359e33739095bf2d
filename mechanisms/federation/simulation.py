"""All parties of reverse k-NN in one process: server, clients and shuffler, which exchange bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.federation.client import Client
from mechanisms.federation.ledger import MemoryLedger
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.server import ReleasedCounts, Server, Shuffler
from mechanisms.federation.trust_models import RoundRelease
from mechanisms.noise.source import Randomness

__all__ = ["Federation", "check_holders"]


class Answering(Protocol):
    """What a federation needs of a client."""

    def answer(self, message: bytes) -> bytes:
        """The answer to a server's setup."""
        ...


class Federation:
    """Server, clients and shuffler of a simulation. The targets of clients and shuffler are those of the release.

    They exist during one call of `ReverseKNN.label`, so that their ledgers are in memory; `ReverseKNN` remembers.

    Parameters
    ----------
    release : RoundRelease
    records : float array of shape (n, d)
    y : array of shape (n,) or (n, c)
    holders : int array of shape (n,)
        Who holds each record.
    source : Randomness

    Attributes
    ----------
    bytes_per_client : float
        Bytes that a client has sent so far, on average. In the central model all clients send equally many.
    """

    def __init__(
        self,
        release: RoundRelease,
        records: NDArray[np.float32],
        y: NDArray[Any],
        holders: NDArray[np.int64],
        source: Randomness,
    ) -> None:
        seed = int(source.words(1)[0] >> np.uint64(1)) if source.repeatable and release.model != "central" else None
        held = dict(enumerate(_rows_by_holder(holders), 1))
        options: dict[str, Any] = {"n_classes": release.n_classes, "n_labels": release.n_labels}
        target: dict[str, Any] = {"max_epsilon": release.target.epsilon, "delta": release.target.delta}
        if release.model != "central":
            options |= target
        if release.model == "shuffle":
            options["crowd"] = release.least
        self.clients: list[Answering] = [
            Client(
                records[rows],
                y[rows],
                number,
                release.model,
                rng=seed,
                ids=None if seed is None else rows,
                ledger=MemoryLedger(),
                **options,
            )
            for number, rows in held.items()
        ]
        self.server = Server(release.model, release.event, source)
        self.shuffler: Shuffler | None = None
        if release.model == "shuffle":
            enrolled = {number: len(rows) for number, rows in held.items()}
            self.shuffler = Shuffler(release.least, **target, enrolled=enrolled, ledger=MemoryLedger())
        self.bytes_per_client = 0.0

    def resume(self, answer: list[Any]) -> ReleasedCounts:
        """Take the counts of a round from a journal instead of running it."""
        counts, variance, records, clients, self.bytes_per_client = answer
        self.server.round += 1
        return ReleasedCounts(np.array(counts), np.array(variance), records, clients)

    def run(self, setup: RoundSetup) -> ReleasedCounts:
        """Run one round with all parties."""
        opening = self.server.open(setup)
        collector: Server | Shuffler = self.server
        if self.shuffler is not None:
            self.shuffler.open(opening)
            collector = self.shuffler
        sent = 0
        for client in self.clients:
            answer = client.answer(opening)
            sent += len(answer)
            collector.receive(answer)
        self.bytes_per_client += sent / len(self.clients)
        if self.shuffler is not None:
            self.server.receive(self.shuffler.close())
        return self.server.close()


def _rows_by_holder(holders: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The rows of each holder, by rising identifier."""
    order = np.argsort(holders, kind="stable")
    starts = np.flatnonzero(np.diff(holders[order], prepend=holders[order[0]] - 1))
    yield from np.split(order, starts[1:])


def check_holders(clients: object, n: int) -> NDArray[np.int64]:
    """Who holds each of n records."""
    if clients is None:
        return np.zeros(n, np.int64)
    holders = np.asarray(clients)
    if holders.shape != (n,) or holders.dtype.kind not in "iu":
        raise ac.ParameterError(
            f"clients has shape {holders.shape} and type {holders.dtype}; accepted: integers of shape ({n},)"
        )
    return holders.astype(np.int64)
