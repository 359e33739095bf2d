"""Where the partitions of private records come from: dask arrays and data frames, and Parquet files."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.datasets import Columns, DataError, Dataset
from mechanisms.datasets.columns import choose_features, read_words, to_dataset
from mechanisms.datasets.dataset import name_errors
from mechanisms.datasets.parts import split_pattern
from mechanisms.frames import is_frame
from mechanisms.validation import require

__all__ = ["ParquetPiece", "Piece", "file_system", "list_files", "list_pieces", "would_list"]

PIECE_BYTES = 2.0**27
"""Most bytes of features, in single precision, for which Parquet row groups are put together into a partition."""

LEAST_BYTES = 2.0**23
"""Fewest, while there are partitions enough for all workers."""

PARQUET = "*.parquet"
"""Names of the files that are read of a directory."""

SHARE = 2
"""Partitions for each worker, at least, where the data are large enough."""


GOOGLE = ("gs://", "gcs://")

CONTACT_WAIT, READING_WAIT = 5, 60
"""Seconds for which pyarrow tries again what failed there, when files are listed and when they are read.

Its own limit is 15 minutes, without credentials or a network, too.
"""


@dataclass(frozen=True)
class ParquetPiece:
    """Row groups of Parquet files, one after another.

    Attributes
    ----------
    where : str
        Address of the file system, such as "file:///" or "s3://bucket".
    segments : tuple of (str, int)
        Paths of files, and numbers of row groups in them.
    columns : Columns
        What the columns are for.
    sizes : tuple of int
        Number of records of each row group.
    """

    where: str
    segments: tuple[tuple[str, int], ...]
    columns: Columns
    sizes: tuple[int, ...] = ()

    def read(self, ids: bool = True) -> Dataset:
        """The records, with labels, and with identifiers if there are any and they are asked for."""
        columns, known = self.columns, self.columns.ids
        if not ids and known is not None:
            columns = replace(columns, ids=None, exclude=(*columns.exclude, known))
        tables = self._read_tables(None if ids or known is None else lambda column: column != known)
        try:
            return _to_labelled(self.segments[0][0], tables.values(), columns)
        except DataError:
            together = _same_features(tables.values(), columns)
            for name, table in tables.items():  # the first file that cannot be used is named, if it is one file
                if len(table):
                    _to_labelled(name, [table], together)
            raise

    def read_ids(self) -> list[Any]:
        """The identifiers of the records."""
        known = self.columns.ids
        assert known is not None
        tables, accepted = self._read_tables(lambda column: column == known), f"a column {known!r} of text or numbers"
        for name, table in tables.items():
            if len(table) and known not in table.column_names:
                raise DataError(f"{name}: no column {known!r}; accepted: {accepted}")
        with name_errors(self.segments[0][0], accepted):
            ids: list[Any] = read_words(_join(tables.values()), known).tolist()
        return ids

    def _read_tables(self, wanted: Callable[[str], bool] | None) -> dict[str, Any]:
        """Tables by the file and its first row group: of all columns, or of those that are wanted."""
        parquet, (files, _) = require("pyarrow.parquet"), file_system(self.where)
        tables: dict[str, Any] = {}
        for path in dict.fromkeys(path for path, _ in self.segments):
            groups = [group for each, group in self.segments if each == path]
            name = path if groups[0] == 0 else f"{path} from row group {groups[0]}"
            with (
                name_errors(path, "a Parquet file with a column of labels, and features"),
                parquet.ParquetFile(files.open_input_file(path), page_checksum_verification=True) as file,
            ):
                columns = None if wanted is None else list(filter(wanted, file.schema_arrow.names))
                tables[name] = file.read_row_groups(groups, columns)
        return tables


def _join(tables: Iterable[Any]) -> Any:
    """One Arrow table, of which a column that a file lacks has no value there."""
    return require("pyarrow").concat_tables(tables, promote_options="permissive")


def _to_labelled(name: str, tables: Iterable[Any], columns: Columns) -> Dataset:
    """The records of several Arrow tables, with labels."""
    with name_errors(name, "a Parquet file with a column of labels, and features"):
        found = to_dataset(name, _join(tables), columns)
    if found.labels is None:
        raise DataError(f"{name}: no column {columns.label!r}; accepted: a column of labels")
    return found


def _same_features(tables: Iterable[Any], columns: Columns) -> Columns:
    """The features of all tables together, by name: one that lacks some cannot be used."""
    with suppress(ValueError, TypeError):  # of tables that do not go together those of each
        return replace(columns, features=choose_features(_join(tables).schema, columns)[0])
    return columns


@dataclass(frozen=True, eq=False)
class Piece:
    """A partition that has not been read.

    Attributes
    ----------
    source : object
        A `ParquetPiece`, or what Dask makes the features of.
    labels, ids : object
        What Dask makes the labels and identifiers of; None with Parquet, which holds them itself.
    name : str
        For messages.
    """

    source: Any
    labels: Any
    ids: Any
    name: str


def list_pieces(X: Any, y: Any, ids: Any, classes: Sequence[str] | None, workers: int) -> list[Piece]:
    """The partitions of private records; the order is that of the records, and of Parquet files by name.

    Raises
    ------
    accountant.ParameterError
        Records, labels and identifiers are not cut alike, or there are no records.
    """
    if isinstance(X, str | Path):
        return _list_parquet(str(X), _check_columns(y, ids, classes), workers)
    rows = _cut(X, None, "X")
    labels = _cut(y, X, "y")
    names = [None] * len(rows) if ids is None else _cut(ids, X, "ids")
    for what, parts in (("y", labels), ("ids", names)):
        if len(parts) != len(rows):
            raise ac.ParameterError(f"{what} has {len(parts)} partitions; accepted: {len(rows)}, as X")
    zipped = zip(rows, labels, names, strict=True)
    return [Piece(*parts, f"partition {i} of X") for i, parts in enumerate(zipped)]


def _cut(table: Any, like: Any, name: str) -> list[Any]:
    """The partitions of a dask collection along its first axis, as what Dask makes them of."""
    if hasattr(table, "chunks") and hasattr(table, "rechunk"):
        whole = {axis: -1 for axis in range(1, table.ndim)}
        rows: Any = getattr(like, "chunks", (None,))[0]
        known = rows is not None and not np.isnan([*rows, *table.chunks[0]]).any()
        if known and sum(rows) != table.shape[0]:
            raise ac.ParameterError(f"{name} has {table.shape[0]} rows; accepted: {sum(rows)}, as X")
        cut = table.rechunk({**whole, **({0: rows} if known else {})})
        return list(cut.to_delayed().ravel())
    if hasattr(table, "to_delayed"):
        return list(table.to_delayed())
    rows = getattr(like, "chunks", (None,))[0]
    if rows is None or np.isnan(rows).any() or is_frame(table):
        raise ac.ParameterError(f"{name} is {type(table).__name__}; accepted: a dask collection cut as X is")
    values = np.asarray(table)
    if len(values) != sum(rows):
        raise ac.ParameterError(f"{name} has {len(values)} rows; accepted: {sum(rows)}, as X")
    return np.split(values, np.cumsum(rows)[:-1])


# --- Parquet -------------------------------------------------------------------------------------------


def _check_columns(y: Any, ids: Any, classes: Sequence[str] | None) -> Columns:
    """What the columns of Parquet files are for."""
    columns = Columns(label=y) if isinstance(y, str) else y
    if not isinstance(columns, Columns):
        raise ac.ParameterError(f"y = {ac.shorten(y)} with Parquet files; accepted: the name of their column of labels")
    if not (ids is None or isinstance(ids, str)):
        accepted = "the name of their column of identifiers, or None"
        raise ac.ParameterError(f"ids = {ac.shorten(ids)} with Parquet files; accepted: {accepted}")
    return replace(columns, ids=ids or columns.ids, classes=classes or columns.classes)


def _list_parquet(where: str, columns: Columns, workers: int) -> list[Piece]:
    """Row groups of all files, put together to partitions of a good size."""
    parquet, groups = require("pyarrow.parquet"), []
    files, _ = file_system(where)
    for path in list_files(where):
        with name_errors(path, "a Parquet file"), parquet.ParquetFile(files.open_input_file(path)) as file:
            found = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
            groups += [((path, i), each.num_rows, each.total_byte_size) for i, each in enumerate(found)]
    most = min(PIECE_BYTES, max(sum(size for *_, size in groups) / (SHARE * workers), LEAST_BYTES))
    pieces: list[list[tuple[tuple[str, int], int]]] = []
    room = 0.0
    for segment, rows, size in groups:
        if not pieces or size > room:
            pieces.append([])
            room = most
        pieces[-1].append((segment, rows))
        room -= size
    base = where if "://" in where else "/"
    made = [
        ParquetPiece(base, segments, columns, rows) for segments, rows in (zip(*each, strict=True) for each in pieces)
    ]
    return [Piece(each, None, None, each.segments[0][0]) for each in made]


def list_files(where: str) -> list[str]:
    """Paths of the Parquet files of a directory, or that match a pattern, by name."""
    files, path = file_system(where, CONTACT_WAIT)
    folder, pattern = split_pattern(path)
    fs = require("pyarrow.fs")
    accepted = "accepted: a directory of .parquet files, a pattern such as data/*.parquet, or one such file"
    if where.startswith(GOOGLE):
        keys = "credentials of Google Cloud, as GOOGLE_APPLICATION_CREDENTIALS names them"
        accepted += f", with {keys}; gs://anonymous@bucket without; retry_limit_seconds=... in the address to wait"
    try:
        if pattern is None and files.get_file_info(path).type == fs.FileType.File:
            return [path]
        inside = files.get_file_info(fs.FileSelector(path if pattern is None else folder))
    except OSError as error:
        said = " ".join(str(error).split()).partition(" error_info=")[0]
        raise DataError(f"{where}: {said}; {accepted}") from None
    found = sorted(each.path for each in inside if each.is_file)
    found = [each for each in found if fnmatch.fnmatchcase(each.rpartition("/")[2], pattern or PARQUET)]
    if not found:
        raise DataError(f"{where}: no Parquet files; {accepted}")
    return found


def would_list(where: str, path: Path) -> bool:
    """Whether `list_files` finds a file on this machine, once it is there: in its place, or by a link to it."""
    if "://" in where and not where.startswith("file://"):
        return False
    place, end = file_system(where)[1], Path(os.path.realpath(path))
    folder, pattern = split_pattern(place)
    folder, pattern = (place, PARQUET) if pattern is None else (folder, pattern)
    for each in (path, end):
        if fnmatch.fnmatchcase(each.name, pattern) and ac.files.same_file(each.parent, folder):
            return True
    with suppress(OSError), os.scandir(folder) as inside:
        links = (each.path for each in inside if each.is_symlink() and fnmatch.fnmatchcase(each.name, pattern))
        return any(os.path.realpath(each) == str(end) for each in links)
    return False


def _limit_wait(where: str, seconds: float) -> str:
    """An address of Google Cloud Storage with a limit to how long what fails is tried again."""
    if not where.startswith(GOOGLE) or "retry_limit_seconds" in where:
        return where
    return f"{where}{'&' if '?' in where else '?'}retry_limit_seconds={seconds:g}"


def file_system(where: str, wait: float = READING_WAIT) -> tuple[Any, str]:
    """The file system of an address, and the path in it; `wait` is for Google Cloud Storage."""
    fs = require("pyarrow.fs")
    if "://" in where:
        try:
            files, path = fs.FileSystem.from_uri(_limit_wait(where, wait))
        except (ValueError, OSError, NotImplementedError) as error:
            raise DataError(f"{where}: {error}; accepted: a path, or an address such as s3://bucket/folder") from None
        return files, path
    return fs.LocalFileSystem(), os.path.abspath(where)
