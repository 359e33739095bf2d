"""Private records in partitions: what every partition answers, put together; the records themselves never come back."""

from __future__ import annotations

import hashlib
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.datasets import DataError
from mechanisms.frames import Vocabulary, check_classes, number_text, read_records
from mechanisms.phases import phase
from mechanisms.shards.engine import compute, count_workers, worker_memory
from mechanisms.shards.pieces import ParquetPiece, Piece, list_pieces
from mechanisms.validation import check_labels, nominal_count

__all__ = [
    "Positions",
    "Shard",
    "ShardSizeWarning",
    "ShardedRecords",
    "Staying",
    "UnreadShard",
    "is_sharded",
    "shard_records",
]

Answer = TypeVar("Answer")

Positions: TypeAlias = int | Integers
"""Of records in a store; of the first alone, if they follow one another."""

FEW = 10_000
"""Records of a partition below which what Dask does for it takes longer than the work."""

SHARE_OF_MEMORY = 8
"""A partition, which is held several times while it is read and compared, must fit so often into a worker's memory."""


class ShardSizeWarning(UserWarning):
    """Partitions are so small that a run takes longer than it must, or so large that workers may run out of memory."""


def is_sharded(X: object) -> bool:
    """Whether records are a dask collection, or the path of Parquet files."""
    return isinstance(X, str | Path) or hasattr(X, "__dask_graph__")


@dataclass(frozen=True, eq=False)
class Shard:
    """The records of one partition, as a worker reads them.

    Attributes
    ----------
    features : array of shape (n, d), float32
    labels : int array of shape (n,), or (n, c) for label sets
    first : int
        Index of the first record among those of all partitions.
    ids : sequence or None
        Identifiers.
    """

    features: Singles
    labels: NDArray[np.int64]
    first: int
    ids: Any = None


@dataclass(frozen=True, eq=False)
class Staying:
    """Identifiers that stay in the partitions, for `ShardedRecords.place_by_ids`."""

    ids: Any


@dataclass(frozen=True, eq=False)
class UnreadShard:
    """A partition that is read only if it must be.

    Attributes
    ----------
    first, size : int
        Index of the first record, and number of records.
    positions : Positions
    read : callable
    """

    first: int
    size: int
    positions: Positions
    read: Callable[[], Shard]


@dataclass(frozen=True)
class _Expected:
    """What a partition must be when it is read again; None where it is not known yet."""

    name: str
    classes: tuple[str, ...] | None
    sets: bool
    n_classes: int | None
    width: int | None = None
    size: int | None = None
    first: int = 0
    positions: Positions = 0
    ids: bool = True
    check: int | None = None


@dataclass(frozen=True)
class _Summary:
    """What is learnt of a partition when it is first read."""

    size: int
    width: int
    n_classes: int
    columns: tuple[str, ...] | None
    digest: bytes
    check: int
    ids: Any


class ShardedRecords:
    """Private records that stay in partitions; made by `shard_records`.

    Attributes
    ----------
    names : Vocabulary
    sizes : int array
        Number of records in each partition.
    width, n_classes : int
    digest : array of bytes
        Of all records and labels in their order: of Parquet files by row groups, so that it does not depend on how
        these are put together to partitions; of others by partitions.
    ids : list
        Identifiers, if they were asked for, and partitions do not keep them.
    """

    def __init__(self, pieces: Sequence[Piece], expected: _Expected) -> None:
        self._pieces = pieces
        wanted = [replace(expected, name=piece.name) for piece in pieces]
        with phase("reading the private records"):
            found = compute("read", _summarise, self._inputs(wanted), None)
        self.sizes: Integers = np.array([each.size for each in found], np.int64)
        if not self.sizes.sum():
            raise ac.ParameterError("there are no private records; accepted: at least one")
        there = [each for each in found if each.size]
        for name in ("width", "columns"):
            values = {getattr(each, name) for each in there}
            if len(values) > 1:
                both = ", ".join(sorted(map(ac.shorten, map(str, values)))[:2])
                raise ac.ParameterError(f"X has partitions of {name} {both}; accepted: the same in all of them")
        self.width, self.n_classes = there[0].width, max(each.n_classes for each in there)
        self.names = Vocabulary(there[0].columns, expected.classes)
        self.digest = np.frombuffer(b"".join(each.digest for each in found), np.uint8)
        self.ids = [name for each in found for name in each.ids or ()]
        starts = np.cumsum(self.sizes) - self.sizes
        self._expected = [
            replace(
                each,
                n_classes=self.n_classes,
                width=self.width,
                size=summary.size,
                first=int(first),
                check=summary.check,
            )
            for each, summary, first in zip(wanted, found, starts, strict=True)
        ]
        self._warn_of_sizes()

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def digest_by_partition(self) -> NDArray[np.uint8]:
        """The digest that journals of earlier versions hold; every partition is read again."""
        found = compute("digest", _Answering(_digest_whole), self._inputs(self._expected), None)
        return np.frombuffer(b"".join(found), np.uint8)

    def ask(
        self, what: str, answer: Callable[[Any, Any], Answer], question: Any, merge: Callable[[Any], Answer]
    ) -> Answer:
        """Answers of all partitions, put together on the workers; partitions without records are not asked.

        Workers that die lose nothing: their partitions are read again, by others. `answer` and `merge` change nothing
        but their results, and give the same in whatever order they are called.

        Parameters
        ----------
        what : str
            Name of the tasks on Dask's dashboard.
        answer : callable
            ``answer(shard, question)``; with the attribute `lazy` it gets an `UnreadShard`.
        question : object
        merge : callable
            From a list of answers to one.

        Raises
        ------
        ShardError
            Workers died again and again, or there is no scheduler any more.
        """
        inputs = [each for each, size in zip(self._inputs(self._expected), self.sizes, strict=True) if size]
        try:
            found: Answer = compute(what, _Answering(answer), inputs, question, merge)
        except DataError as error:
            raise ac.ParameterError(str(error)) from None
        return found

    def place_by_ids(self, place: Callable[[list[Any], int], Integers]) -> list[Positions]:
        """Let every partition place its records in a store, by identifiers that stay there; returns the positions.

        ``place(ids, size)`` gives the positions of a partition, and the same again where a task is repeated.
        """
        pairs = zip(self._pieces, self._expected, strict=True)
        inputs = [(_ids_of(piece), each) for piece, each in pairs if each.size]
        try:
            found = compute("place", _place, inputs, place)
        except DataError as error:
            raise ac.ParameterError(str(error)) from None
        return self._keep(found)

    def place(self, positions: Integers) -> list[Positions]:
        """Tell every partition the positions of its records in a store."""
        ends = np.cumsum(self.sizes)
        return self._keep([positions[end - size : end] for size, end in zip(self.sizes, ends, strict=True) if size])

    def _keep(self, positions: Sequence[Positions]) -> list[Positions]:
        """Positions of each partition that has records; of the first record alone, where they follow one another."""
        kept = [each if isinstance(each, int) else shorten_positions(each) for each in positions]
        left = iter(kept)
        self._expected = [replace(each, positions=next(left)) if each.size else each for each in self._expected]
        return kept

    def _inputs(self, expected: Sequence[_Expected]) -> list[tuple[Any, Any, Any, _Expected]]:
        pairs = zip(self._pieces, expected, strict=True)
        return [(piece.source, piece.labels, piece.ids if each.ids else None, each) for piece, each in pairs]

    def _warn_of_sizes(self) -> None:
        """Warn of partitions of a bad size, with numbers that are rounded: they are private."""
        most, memory = int(self.sizes.max()), worker_memory()
        rows = f"partitions of about {nominal_count(int(np.median(self.sizes)))} records"
        if len(self.sizes) > count_workers() and len(self) < FEW * len(self.sizes):
            said = f"{rows}: Dask's work for each takes longer than the answer; better: {FEW} or more, fewer partitions"
        elif memory is not None and 4.0 * most * self.width * SHARE_OF_MEMORY > memory:
            room = nominal_count(max(int(memory / (4.0 * self.width * SHARE_OF_MEMORY)), 1))
            said = f"a partition of about {nominal_count(most)} records may not fit a worker; better: at most {room}"
        else:
            return
        warnings.warn(said, ShardSizeWarning, stacklevel=5)


class _Answering:
    """Reads a partition, and answers from it."""

    def __init__(self, answer: Callable[[Any, Any], Any]) -> None:
        self._answer = answer

    def __call__(self, source: Any, labels: Any, ids: Any, expected: _Expected, question: Any) -> Any:
        def read() -> Shard:
            shard = _read(source, labels, ids, expected)[0]
            # records are known by their places: in another order others would pay for them, or they be sampled twice
            if _check_of(shard) != expected.check:
                changed = f"{expected.name}: changed since fit"
                raise ac.ParameterError(f"{changed}; accepted: the same records in their order")
            return shard

        if getattr(self._answer, "lazy", False):
            return self._answer(UnreadShard(expected.first, expected.size or 0, expected.positions, read), question)
        return self._answer(read(), question)


def _read(source: Any, labels: Any, ids: Any, expected: _Expected) -> tuple[Shard, tuple[str, ...] | None]:
    """A partition, checked; what is not as when it was first read is refused."""
    if isinstance(source, ParquetPiece):
        found = source.read(expected.ids)
        features, columns = read_records(found.features, None, expected.name)[0], found.columns
        given: Any = found.labels
        ids = found.ids
    else:
        features, names = read_records(source, None, expected.name)
        columns = names.columns
        given = number_text(labels, len(features), expected.classes)
        ids = None if ids is None else np.asarray(ids).tolist()
    for what, now, before in zip(("records", "columns"), features.shape, (expected.size, expected.width), strict=True):
        if before is not None and now != before:
            raise ac.ParameterError(f"{expected.name}: {what} came or went since fit; accepted: the same records")
    if expected.sets:
        given = np.asarray(given)
        if given.ndim != 2 or len(given) != len(features) or not np.isin(given, (0, 1)).all():
            raise ac.ParameterError(f"{expected.name}: labels of shape {given.shape}; accepted: zeros and ones, (n, c)")
        return Shard(features, given.astype(np.int64), expected.first, ids), columns
    if len(features) == 0:
        return Shard(features, np.empty(0, np.int64), expected.first, ids), columns
    numbers, _ = check_labels(given, len(features), expected.n_classes)
    return Shard(features, numbers, expected.first, ids), columns


def _summarise(source: Any, labels: Any, ids: Any, expected: _Expected, question: None) -> _Summary:
    shard, columns = _read(source, labels, ids, expected)
    if expected.sets:
        n_classes = shard.labels.shape[1]
    elif expected.n_classes is None:
        n_classes = int(shard.labels.max(initial=0)) + 1
    else:
        n_classes = expected.n_classes
    ends = np.cumsum(source.sizes[:-1]) if isinstance(source, ParquetPiece) else ()
    groups = zip(np.split(shard.features, ends), np.split(shard.labels, ends), strict=True)
    digest = b"".join(_digest(*each) for each in groups)
    size, width = shard.features.shape
    return _Summary(size, width, n_classes, columns, digest, _check_of(shard), shard.ids)


def _digest(features: Singles, labels: NDArray[np.int64]) -> bytes:
    made = hashlib.sha256(str(features.shape).encode())
    made.update(features.data if len(features) else b"")
    made.update(np.ascontiguousarray(labels).tobytes())
    return made.digest()


def _digest_whole(shard: Shard, question: None) -> bytes:
    return _digest(shard.features, shard.labels)


def _check_of(shard: Shard) -> int:
    """CRC-32 of the records and their labels in their order: against accidents, four times as fast as a digest."""
    found = zlib.crc32(np.ascontiguousarray(shard.labels).tobytes())
    return zlib.crc32(shard.features.data, found) if len(shard.features) else found


def shorten_positions(positions: Integers) -> Positions:
    """The first position, where they follow one another."""
    return int(positions[0]) if (np.diff(positions) == 1).all() else positions


def _ids_of(piece: Piece) -> Any:
    return piece.source if isinstance(piece.source, ParquetPiece) else piece.ids


def _place(source: Any, expected: _Expected, place: Callable[[list[Any], int], Integers]) -> Positions:
    ids = source.read_ids() if isinstance(source, ParquetPiece) else np.asarray(source).tolist()
    return shorten_positions(place(ids, expected.size or 0))


def shard_records(
    X: Any, y: Any, classes: Any, n_classes: int | None, ids: Any = None, sets: bool = False
) -> ShardedRecords:
    """Private records in partitions, each read once and checked.

    Parameters
    ----------
    X : dask array or data frame, or path of Parquet files
    y : dask array or series cut as X is, array with a label for each record, or name of Parquet's column of labels
    classes : sequence of str or None
        Names of the classes.
    n_classes : int or None
        None takes it from the labels.
    ids : like y, Staying or None
    sets : bool
        Whether labels are zeros and ones of shape (n, c).

    Raises
    ------
    accountant.ParameterError
        The data are not as described.
    """
    names = check_classes(classes)
    if names is not None and n_classes not in (None, len(names)):
        raise ac.ParameterError(f"n_classes = {n_classes!r}; accepted: {len(names)}, as classes has, or None")
    try:
        stay = isinstance(ids, Staying)
        pieces = list_pieces(X, y, ids.ids if stay else ids, names, count_workers())
        number = n_classes if names is None else len(names)
        return ShardedRecords(pieces, _Expected("", names, sets, number, ids=not stay))
    except DataError as error:
        raise ac.ParameterError(str(error)) from None
