"""The client side: it reads its own records, answers within its own limits, and remembers what it has spent."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from flwr.app import Message as Envelope
from flwr.clientapp import ClientApp

import accountant as ac
from mechanisms.datasets import load
from mechanisms.federation.client import Client
from mechanisms.federation.ledger import Ledger
from mechanisms.flower.options import NodeOptions
from mechanisms.flower.parcels import make_refusal, unwrap, wrap

__all__ = ["answer", "app", "open_client", "respond"]

log = logging.getLogger("flwr")


def open_client(options: NodeOptions, node: int) -> Client:
    """The client of a node; reads its records.

    Whether a file can be read depends on its records: check it before the node is connected
    (``python -m mechanisms.flower check``), as a refusal is seen by the server.

    Raises
    ------
    accountant.AccountantError
        The options or the records are not as described.
    """
    data = load(options.records)
    seeded = options.seed >= 0
    target: dict[str, Any] = {}
    if options.model == "local":
        target = {"max_epsilon": options.max_epsilon, "delta": options.delta}
    return Client(
        data.features,
        data.labels,
        node,
        options.model,
        rng=options.seed if seeded else None,
        ids=options.first_record + np.arange(len(data)) if seeded else None,
        n_classes=options.classes or None,
        ledger=Ledger(options.ledger_path),
        **target,
    )


def answer(opening: bytes, options: NodeOptions, node: int) -> bytes:
    """The answer to a server's setup, charged to the ledger before it is drawn.

    Raises
    ------
    accountant.AccountantError
        The setup or the options do not allow an answer, or the file of records cannot be read. Nothing is sent.
    """
    return open_client(options, node).answer(opening)


def respond(message: Any, context: Any) -> Any:
    """Answer one of Flower's messages."""
    try:
        options = NodeOptions.of(context.node_config)
        reply = answer(unwrap(message.content), options, context.node_id)
    except ac.AccountantError as error:
        log.error("refused: %s", error)
    # an exception that leaves here is sent to the server by Flower, and its text could show records
    except Exception:
        log.exception("refused")
    else:
        if options.seed >= 0:
            log.warning("drawn from a seed: for experiments, not for a release")
        log.info("answered with %d bytes", len(reply))
        return Envelope(wrap(reply), reply_to=message)
    return Envelope(make_refusal(), reply_to=message)


app = ClientApp()
app.query()(respond)
