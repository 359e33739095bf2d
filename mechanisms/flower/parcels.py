"""Our messages inside Flower's: one record with one field of bytes, or a refusal that says nothing."""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord, RecordDict

from mechanisms.federation.messages import CorruptMessage, UnsuitableMessage

__all__ = ["parcel", "refusal", "unwrapped"]

RECORD, MESSAGE, REFUSED = "reverse-knn", "message", "refused"


def parcel(message: bytes) -> Any:
    """What Flower sends for one of our messages."""
    return RecordDict({RECORD: ConfigRecord({MESSAGE: message})})


def refusal() -> Any:
    """What a client sends that does not answer. Why, its own log says: a reason could tell of its records."""
    return RecordDict({RECORD: ConfigRecord({REFUSED: True})})


def unwrapped(content: Any) -> bytes:
    """Our message in what Flower brought.

    Raises
    ------
    MessageError
        There is none.
    """
    records = dict(content.config_records)
    fields = dict(records.get(RECORD, {}))
    if len(content) != 1 or len(fields) != 1:
        raise CorruptMessage(f"{len(content)} records, {len(fields)} fields of {RECORD}; accepted: one of each")
    if fields.get(REFUSED) is True:
        raise UnsuitableMessage("the client refused; accepted: an answer, and its log says why there is none")
    message = fields.get(MESSAGE)
    if not isinstance(message, bytes):
        raise CorruptMessage(f"{MESSAGE} of type {type(message).__name__}; accepted: bytes")
    return message
