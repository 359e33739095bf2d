"""The parties of reverse k-NN, and the messages that they exchange."""

from mechanisms.federation.client import Client
from mechanisms.federation.messages import MessageError
from mechanisms.federation.server import MODELS, ReleasedCounts, Server, add_up
from mechanisms.federation.shuffler import Shuffler

__all__ = ["MODELS", "Client", "MessageError", "ReleasedCounts", "Server", "Shuffler", "add_up"]
