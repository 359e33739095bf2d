"""Reverse k-NN in the central model over records in partitions: their exact counts are added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.federation.messages import ClientCounts, Kind, Message, digest_of
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.server import Server
from mechanisms.federation.simulation import Federation
from mechanisms.federation.trust_models import RoundRelease
from mechanisms.noise.source import Randomness
from mechanisms.shards import Shard, ShardedRecords

__all__ = ["ShardedFederation"]


class ShardedFederation(Federation):
    """A server, and one client whose records are in partitions; its messages are those of a client in memory.

    Parameters
    ----------
    release : RoundRelease
        Of the central model.
    records : ShardedRecords
    source : Randomness
    """

    def __init__(self, release: RoundRelease, records: ShardedRecords, source: Randomness) -> None:
        self.clients = [_ShardedClient(records)]
        self.server = Server(release.model, release.event, source)
        self.shuffler = None
        self.bytes_per_client = 0.0


class _ShardedClient:
    """Answers setups with the counts of all partitions."""

    def __init__(self, records: ShardedRecords) -> None:
        self._records = records

    def answer(self, message: bytes) -> bytes:
        """The answer to a setup of the central model."""
        opened = Message.unpack(message)
        setup = RoundSetup.unpack(opened)
        counts = self._records.ask("votes", _count, setup, _add)
        payload = ClientCounts(counts, len(self._records)).pack()
        return Message(Kind.COUNTS, opened.round, opened.session, 1, payload, digest_of(message)).pack()


def _count(shard: Shard, setup: RoundSetup) -> NDArray[np.int64]:
    """Votes of a partition for each query and class."""
    return setup.count(shard.features, shard.labels[:, None])


def _add(parts: Sequence[Any]) -> NDArray[np.int64]:
    total: NDArray[np.int64] = np.sum(parts, axis=0)
    return total
