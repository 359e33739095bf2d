"""Messages of the federation inside Flower's: one record with one field of bytes, or a refusal without a reason."""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord, RecordDict

from mechanisms.federation.messages import CorruptMessage, UnsuitableMessage

__all__ = ["make_refusal", "unwrap", "wrap"]

RECORD, MESSAGE, REFUSED = "reverse-knn", "message", "refused"


def wrap(message: bytes) -> Any:
    """Flower's content for a message."""
    return RecordDict({RECORD: ConfigRecord({MESSAGE: message})})


def make_refusal() -> Any:
    """Flower's content for a refusal. The reason goes to the client's own log, as it could reveal its records."""
    return RecordDict({RECORD: ConfigRecord({REFUSED: True})})


def unwrap(content: Any) -> bytes:
    """The message in Flower's content.

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
        raise UnsuitableMessage("the client refused; accepted: an answer (the reason is in the client's log)")
    message = fields.get(MESSAGE)
    if not isinstance(message, bytes):
        raise CorruptMessage(f"{MESSAGE} of type {type(message).__name__}; accepted: bytes")
    return message
