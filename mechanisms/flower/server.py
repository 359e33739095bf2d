"""The server side: it opens rounds, receives the answers of clients, and writes labels with their price."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message as Envelope
from flwr.app import MessageType
from flwr.serverapp import ServerApp
from numpy.typing import NDArray

import accountant as ac
from mechanisms.cli.data import SEED_WARNING
from mechanisms.cli.results_file import check_results_path, write_results
from mechanisms.datasets import load
from mechanisms.federation.messages import Message, MessageError, UnsuitableMessage
from mechanisms.federation.reverse_rounds import ReverseLabelling
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.server import ReleasedCounts, Server
from mechanisms.flower.options import RunOptions
from mechanisms.flower.parcels import unwrap, wrap
from mechanisms.noise.source import as_randomness
from mechanisms.validation import check_count

__all__ = ["FederationError", "FlowerRounds", "app", "label", "main", "open_spent"]

log = logging.getLogger("flwr")

POLL = 0.2
"""Seconds between two questions for the connected nodes."""


class FederationError(ac.AccountantError, RuntimeError):
    """Too few clients connected or answered; the open round has released nothing."""


class FlowerRounds:
    """Rounds over Flower's grid.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    server : Server
    options : RunOptions
    spent : accountant.Odometer, optional
        Is told what a round costs before it ends: on disk, it remembers the rounds of a run that was killed.

    Attributes
    ----------
    sent : int
        Bytes of all accepted answers.
    answers : list of int
        Number of clients that answered, for each round.
    records : list of int or None
        Number of their records, for each round; None if it is private.
    """

    def __init__(self, grid: Any, server: Server, options: RunOptions, spent: ac.Odometer | None = None) -> None:
        self.grid, self.server, self.options, self.spent = grid, server, options, spent
        self.sent = 0
        self.answers: list[int] = []
        self.records: list[int | None] = []

    def run(self, setup: RoundSetup) -> ReleasedCounts:
        """One round with all clients that are connected.

        Raises
        ------
        FederationError
            Too few of them answer in time.
        """
        nodes = self._wait_for_nodes()
        opening, timeout = self.server.open(setup), self.options.timeout
        asked = [Envelope(wrap(opening), node, MessageType.QUERY, ttl=timeout) for node in nodes]
        heard = 0
        for reply in self.grid.send_and_receive(asked, timeout=timeout):
            heard += self._take(reply)
        if heard < self.options.min_clients:
            accepted = f"at least min-clients = {self.options.min_clients}"
            raise FederationError(
                f"{heard} of {len(nodes)} clients answered within {timeout:g} s; accepted: {accepted}"
            )
        if self.spent is not None:
            self.spent.spend(self.server.event)
        counts = self.server.close()
        self.answers.append(heard)
        self.records.append(counts.records)
        log.info("round %d: %d clients, %s records", self.server.round, heard, counts.records)
        return counts

    def _wait_for_nodes(self) -> list[int]:
        """All connected nodes, once there are enough."""
        least, until = self.options.min_clients, time.monotonic() + self.options.wait
        while len(nodes := sorted(self.grid.get_node_ids())) < least:
            if time.monotonic() > until:
                found = f"{len(nodes)} clients after {self.options.wait:g} s"
                raise FederationError(f"{found}; accepted: at least min-clients = {least}")
            time.sleep(POLL)
        return nodes

    def _take(self, reply: Any) -> bool:
        """Pass an answer to the server; False if it was refused, which changes nothing."""
        node = reply.metadata.src_node_id
        try:
            if reply.has_error():
                raise UnsuitableMessage(f"Flower's error {reply.error.code}; accepted: an answer")
            body = unwrap(reply.content)
            client = Message.unpack(body, self.server.limit).client
            if client != node:
                raise UnsuitableMessage(f"a message from client {client}; accepted: {node}, who sends it")
            self.server.receive(body)
        except MessageError as error:
            log.warning("not taken from client %d: %s", node, error)
            return False
        self.sent += len(body)
        return True


def label(grid: Any, points: NDArray[np.float32], options: RunOptions) -> tuple[ReverseLabelling, FlowerRounds]:
    """Label public points by the votes of all clients, round after round, as `ReverseKNN.label` does in one process.

    In the central model, where the server pays, every round is charged in `options.spent_path` before its noise is
    drawn, and stays there.

    Raises
    ------
    FederationError
        Too few clients answered. Earlier rounds have been released.
    accountant.ParameterError
        An option is out of range; nothing was sent.
    accountant.FilterError
        What was spent cannot be kept; nothing was sent.
    """
    knn = options.mechanism()
    check_count("queries", options.queries, 1, len(points))
    # the number of records, here 1, matters in the shuffle model only
    release = knn.planned(1, options.classes)
    # raises before anything is sent if the run has no price
    release.guarantee(options.delta)
    server = Server(release.model, release.event, as_randomness(knn.rng))
    with open_spent(options, server) as spent:
        rounds = FlowerRounds(grid, server, options, spent)
        labelling = knn.course(release).run(points, lambda _, setup: rounds.run(setup))
    bytes_per_client = rounds.sent / sum(rounds.answers) * release.rounds
    labelling = replace(
        labelling,
        labels=labelling.labels.argmax(axis=1),
        composition=rounds.server.spent_,
        bytes_per_client=bytes_per_client,
    )
    return labelling, rounds


@contextmanager
def open_spent(options: RunOptions, server: Server) -> Iterator[ac.Odometer | None]:
    """What the server has spent, with runs to the same file before; None where clients pay, who keep ledgers."""
    if server.model != "central":
        yield None
        return
    path = options.spent_path
    with closing(ac.Odometer(path=path)) as spent:
        if spent.adjacency not in (None, server.event.adjacency):
            raise ac.ParameterError(
                f"out = {options.out!r}: {path.name} holds rounds under {spent.adjacency} adjacency, and these are "
                f"under {server.event.adjacency}; accepted: another path"
            )
        if before := sum(count for _, count in spent.run):
            log.warning("%s: rounds released before, which stay charged: %d", path, before)
        yield spent


def main(grid: Any, context: Any) -> None:
    """Run the app; the results are written at the end, each file at once."""
    options = RunOptions.of(context.run_config)
    out = Path(options.out)
    check_results_path(out)
    if options.seed >= 0:
        log.warning(SEED_WARNING)
    if out.exists():
        log.warning("%s holds the release of another run; this run is paid for in addition, and replaces the file", out)
    public = load(options.public, labelled=False)
    labelling, rounds = label(grid, public.features, options)
    summary = summarise_run(labelling, rounds, options)
    columns = {"label": labelling.labels, "answered": labelling.answered, "soft": labelling.soft}
    write_results(out, columns, summary)
    ac.files.write_json(out.with_suffix(".json"), summary, name="out")
    log.info("%d labels in %s; %s", len(labelling.labels), out, labelling.guarantee(options.delta))


def summarise_run(labelling: ReverseLabelling, rounds: FlowerRounds, options: RunOptions) -> dict[str, Any]:
    """What was released and what it cost, as JSON can hold it: an infinite order is text."""
    price, release = labelling.guarantee(options.delta), labelling.release
    assert release is not None
    return {
        "mechanism": "reverse-knn",
        "model": release.model,
        "protocol": release.protocol,
        "epsilon": price.epsilon,
        "delta": price.delta,
        "adjacency": str(price.adjacency),
        "method": price.method,
        "conversion": price.conversion,
        "order": str(price.order) if price.order == math.inf else price.order,
        "noise": release.noise,
        "spent": [{"event": repr(event), "count": count} for event, count in labelling.composition],
        "clients": rounds.answers,
        "records": rounds.records,
        "bytes_per_client": labelling.bytes_per_client,
        "seeded": options.seed >= 0,
        # whoever has the seed takes the noise away
        "options": {name: value for name, value in asdict(options).items() if name != "seed"},
    }


app = ServerApp()
app.main()(main)
