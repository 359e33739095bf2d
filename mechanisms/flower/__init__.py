"""Reverse k-NN as a Flower app: Flower carries the messages of `mechanisms.federation.server` between the parties.

`server` and `client` are the two halves, `options` what a run and a node are told.
They need the extra ``federated``; no other module imports Flower.
"""

from pathlib import Path

__all__ = ["APP"]

APP = Path(__file__).parent
"""The app's directory, for ``flwr run``."""
