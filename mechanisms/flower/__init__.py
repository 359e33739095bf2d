"""Reverse k-NN as a Flower app: Flower transports the messages of `mechanisms.federation` between server and clients.

`server` and `client` are the two sides, `options` the options of a run and of a node. They need the extra
``federated``; no other module imports Flower.
"""

from pathlib import Path

__all__ = ["APP"]

APP = Path(__file__).parent
"""The app's directory, for ``flwr run``."""
