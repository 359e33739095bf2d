"""Streams of batches: the indices of the records in every step."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accountant.errors import ParameterError, integer, shorten

__all__ = ["Indices", "Stream", "read_stream"]

Indices = NDArray[np.int64]

MOST_RECORDS = 2**31


class Stream:
    """All batches in one array.

    Parameters
    ----------
    batches : iterable of sequences of int
    records : int, optional
        Number of records; default: one more than the largest index.

    Attributes
    ----------
    indices, steps : int64 arrays
        Index and step of every participation; a record that is twice in a batch stands once.
    sizes : int64 array
        Of the batches, with repeats.
    repeats : int
        Participations beyond the first within a batch.

    Raises
    ------
    ParameterError
        There is no batch, or an index is no whole number in [0, records).
    """

    def __init__(self, batches: Iterable[Any], records: int | None = None) -> None:
        most = MOST_RECORDS if records is None else integer("records", records, 1, MOST_RECORDS)
        if isinstance(batches, str | bytes) or not isinstance(batches, Iterable):
            raise ParameterError(f"stream = {shorten(batches)}; accepted: an iterable of lists of indices")
        parts = [_batch(number, batch, most) for number, batch in enumerate(batches)]
        if not parts:
            raise ParameterError("a stream without a batch; accepted: at least one step")
        self.sizes = np.array([part.size for part in parts], np.int64)
        every = np.concatenate(parts)
        self.counted = records is not None
        self.records = most if self.counted else int(every.max(initial=0)) + 1
        keys = np.unique(np.repeat(np.arange(len(parts)), self.sizes) * self.records + every)
        self.steps, self.indices = keys // self.records, keys % self.records
        self.repeats = int(every.size - keys.size)
        self.length = len(parts)


def _batch(number: int, batch: Any, most: int) -> Indices:
    """The indices of a step."""
    try:
        values = np.asarray(batch if hasattr(batch, "__array__") or isinstance(batch, list | tuple) else list(batch))
    except (TypeError, ValueError):
        values = np.array(None)
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ParameterError(f"step {number} = {shorten(batch)}; accepted: a list of indices, whole numbers from 0")
    if values.min() < 0 or values.max() >= most:
        bad = values[(values < 0) | (values >= most)][0]
        raise ParameterError(f"step {number} has index {bad}; accepted: [0, {most - 1}]")
    return values.astype(np.int64)


def read_stream(path: str | Path) -> Iterator[list[int]]:
    """Batches of a file, or of standard input for ``-``.

    One step a line: indices with spaces or commas between them, or a JSON list; an empty line is an empty batch. Or one
    JSON list of lists.

    Raises
    ------
    ParameterError
        The file cannot be read, or a line is of another form.
    """
    name = "standard input" if str(path) == "-" else str(path)
    try:
        text = sys.stdin.read() if str(path) == "-" else Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise ParameterError(f"{name}: {reason}; accepted: a text file with one step a line") from None
    if text.lstrip().startswith("[") and (whole := _whole(text)) is not None:
        yield from whole
        return
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield json.loads(line) if line.startswith("[") else [int(part) for part in line.replace(",", " ").split()]
        except (ValueError, RecursionError):
            raise ParameterError(
                f"{name}: line {number}: {shorten(line)}; accepted: indices with spaces or commas, or a JSON list"
            ) from None


def _whole(text: str) -> list[list[int]] | None:
    """One JSON list of lists; None of any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(batch, list) for batch in found) else None
