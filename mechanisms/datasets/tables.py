"""Readers of tables: numpy files, Parquet, Arrow, CSV, data frames, and OpenML by name.

A table may have a column of identifiers, which is never a feature, and labels by name, which a list of classes numbers.
"""

from __future__ import annotations

import csv as text_rows
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets.columns import CLASSES_HINT, FILL_HINT, LABEL, Columns, check_columns, read_words, to_dataset
from mechanisms.datasets.dataset import DataError, Dataset, learn_names, name_errors, number_labels
from mechanisms.datasets.formats import of_images, pick
from mechanisms.datasets.parts import parse_source
from mechanisms.validation import INSTALL, require

__all__ = ["arrow", "csv", "frame", "npy", "npz", "openml", "parquet", "read_column", "read_names"]

_Array = NDArray[Any]


def npz(
    path: str | Path,
    *,
    ids: str | None = None,
    leave_out: str | None = None,
    classes: Sequence[str] | None = None,
    columns: Columns | None = None,
) -> Dataset:
    """A numpy archive with an array ``features`` and, if labelled, ``labels``; features of 3 or 4 axes are images.

    Images of bytes are scaled to [0, 1]; other numbers are not changed. Parameters as for `load`; `ids` and the label
    name other arrays.
    """
    columns = columns or Columns(ids=ids, classes=classes, exclude=_as_tuple(leave_out))  # other arrays are no features
    with (
        name_errors(path, "a .npz file, nothing pickled, of the array features, and labels"),
        open(path, "rb") as stream,
    ):
        archive = np.load(stream, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array, not an archive")
        (features,) = pick(archive, "features")
        labels = archive.get("labels" if columns.label == LABEL else columns.label)
        named = None if columns.ids is None else _npz_ids(pick(archive, columns.ids)[0], columns.ids)
    return _of_arrays(path, features, labels, columns, named)


def npy(path: str | Path, labels: str | Path | None = None, *, columns: Columns | None = None) -> Dataset:
    """Features in a ``.npy`` file, and labels in another; parameters as for `load`."""
    arrays: list[Any] = []
    for each in (path, labels):
        if each is not None:
            with name_errors(each, "a .npy file, nothing pickled"), open(each, "rb") as stream:
                array = np.load(stream, allow_pickle=False)
                if not isinstance(array, np.ndarray):
                    raise ValueError("an archive, not one array")
                arrays.append(array)
    if columns is not None and columns.ids is not None:
        raise DataError(f"{path}: has no column {columns.ids!r}; accepted: identifiers in tables or .npz files")
    return _of_arrays(path, arrays[0], arrays[1] if labels is not None else None, columns or Columns(), None)


def _of_arrays(path: str | Path, features: _Array, labels: Any, columns: Columns, ids: Any) -> Dataset:
    if columns.features is not None or columns.fill is not None:
        raise DataError(f"{path}: its features have no names; accepted: a table to choose or to fill columns of")
    class_names = None
    if labels is not None and columns.classes is not None:
        labels = number_labels(path, labels, columns.classes)
    elif labels is not None and columns.learn_classes:
        labels, class_names = learn_names(path, labels)
    if features.ndim in (3, 4):
        return replace(of_images(path, [(features, labels)], "images", ids=ids), class_names=class_names)
    return Dataset(str(path), features, labels, ids=ids, class_names=class_names)


def _npz_ids(values: _Array, name: str) -> Any:
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise ValueError(f"array {name!r} holds {values.dtype} values of shape {values.shape}, not identifiers")
    return values.tolist()


def parquet(
    path: str | Path,
    *,
    ids: str | None = None,
    leave_out: str | None = None,
    classes: Sequence[str] | None = None,
    columns: Columns | None = None,
) -> Dataset:
    """A Parquet file with a column of lists ``features`` or columns of numbers, and, if labelled, a column ``label``.

    Without ``features`` every other column of numbers or booleans is a feature, in the order of the file; columns of
    other types, such as text or dates, and pandas' index are left out, and listed in `Dataset.ignored`. A list of 0/1
    as label means several labels. Labels of any kind, also categories, are numbered by `classes`. Parameters as for
    `load`.
    """
    columns = columns or Columns(ids=ids, classes=classes, exclude=_as_tuple(leave_out))
    require("pyarrow.parquet")
    _refuse_old_pyarrow()
    with name_errors(path, "a .parquet file with a column label, and features"):
        return _of_table(path, _read_parquet(path), columns)


def arrow(path: str | Path, *, columns: Columns | None = None) -> Dataset:
    """An Arrow file or stream, or a Feather file; columns as for `parquet`, parameters as for `load`."""
    require("pyarrow.ipc")
    _refuse_old_pyarrow()
    with name_errors(path, "an Arrow or Feather file with a column label, and features"):
        return _of_table(path, _read_arrow(path), columns or Columns())


def frame(table: Any, name: str = "frame", *, columns: Columns | None = None) -> Dataset:
    """A data frame of pandas or polars, a table of pyarrow, or any other that gives an Arrow stream.

    Parameters
    ----------
    table : object
        With a method ``__arrow_c_stream__`` (the Arrow PyCapsule interface), or a pandas frame.
    name : str
        For messages.
    columns : Columns, optional
        What the columns are for.

    Raises
    ------
    DataError
        As for `load`.
    """
    pyarrow = require("pyarrow")
    with name_errors(name, "a frame with columns of numbers, and a column of labels"):
        given = hasattr(table, "__arrow_c_stream__")
        found = pyarrow.table(table) if given else pyarrow.Table.from_pandas(table)
        return _of_table(name, found, columns or Columns())


def read_column(path: str | Path, name: str) -> _Array | None:
    """A column of identifiers as text, which may repeat; None if the file has no such column."""
    whole = parse_source(path)
    values = _read_whole_column(whole.base, name)
    return values if values is None else values[whole.start : whole.stop]


def _read_whole_column(path: str | Path, name: str) -> _Array | None:
    ending = Path(path).suffix.lower()
    with name_errors(path, f"a table with a column {name!r} of text or whole numbers"):
        if ending in (".csv", ".tsv"):
            with open(path, encoding="utf-8-sig", newline="") as stream:
                rows = text_rows.DictReader(stream, delimiter="\t" if ending == ".tsv" else ",")
                return np.array([row[name] for row in rows]) if name in (rows.fieldnames or ()) else None
        if ending == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return np.array(list(map(str, _npz_ids(archive[name], name)))) if name in archive else None
        if ending not in (".parquet", ".arrow", ".feather"):
            return None
        table = _read_parquet(path) if ending == ".parquet" else _read_arrow(path)
        return np.array(list(map(str, read_words(table, name)))) if name in table.column_names else None


def read_names(path: str | Path) -> list[str] | None:
    """Names of the columns of a table; None of a source that is no table with named columns.

    Raises
    ------
    DataError
        The file cannot be read.
    """
    path = parse_source(path).base
    ending = Path(path).suffix.lower()
    with name_errors(path, "a table with named columns"):
        if ending in (".csv", ".tsv"):
            return _header(path, "\t" if ending == ".tsv" else ",")
        if ending == ".parquet":
            with open(path, "rb") as stream:
                return list(require("pyarrow.parquet").ParquetFile(stream).schema_arrow.names)
        return list(_read_arrow(path).column_names) if ending in (".arrow", ".feather") else None


def _read_parquet(path: str | Path) -> Any:
    with open(path, "rb") as stream:
        return require("pyarrow.parquet").ParquetFile(stream, page_checksum_verification=True).read()


def _read_arrow(path: str | Path) -> Any:
    ipc, raw = require("pyarrow.ipc"), Path(path).read_bytes()
    if raw.startswith(b"FEA1"):
        return require("pyarrow.feather").read_table(str(path), memory_map=False)
    return (ipc.open_file if raw.startswith(b"ARROW1") else ipc.open_stream)(raw).read_all()


def _of_table(source: str | Path, table: Any, columns: Columns) -> Dataset:
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return to_dataset(source, table, columns, [name for name in index if isinstance(name, str)])


def _as_tuple(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _refuse_old_pyarrow() -> None:
    if int(import_module("pyarrow").__version__.split(".")[0]) < 15:  # CVE-2023-47248: older ones unpickle
        raise ac.MissingExtra(f"pyarrow is older than 15; accepted: {INSTALL.format('mechanisms')}")


def csv(
    path: str | Path,
    *,
    ids: str | None = None,
    leave_out: str | None = None,
    classes: Sequence[str] | None = None,
    columns: Columns | None = None,
) -> Dataset:
    """A text table with a header, separated by commas (``.csv``) or tabs (``.tsv``), in UTF-8.

    If labelled, it has a column ``label``; every other column is a feature and holds numbers. Anything else is refused
    with its name: no column and no row is left out silently. Parameters as for `load`.
    """
    columns = columns or Columns(ids=ids, classes=classes, exclude=_as_tuple(leave_out))
    reader = require("pyarrow.csv")
    separator = "\t" if Path(path).suffix.lower() == ".tsv" else ","
    with name_errors(path, "a table with a header, of a column label and columns of numbers"):
        names = _header(path, separator)
        chosen = check_columns(names, columns)
        if not chosen:
            raise ValueError(f"no column of numbers beside {columns.label!r} among {names}")
        pyarrow = import_module("pyarrow")
        kinds = {name: pyarrow.float64() if name in chosen else pyarrow.string() for name in names}
        if columns.label in names and not columns.text_labels:
            kinds[columns.label] = pyarrow.float64()
        try:
            table = reader.read_csv(
                path,
                # with one thread, errors name the row
                reader.ReadOptions(use_threads=False),
                reader.ParseOptions(delimiter=separator, newlines_in_values=True, ignore_empty_lines=False),
                reader.ConvertOptions(column_types=kinds, check_utf8=True),
            )
        except pyarrow.ArrowInvalid as error:
            raise ValueError(_reword(str(error), names, columns.label)) from None
        found = replace(columns, features=chosen)
        if columns.fill is None:
            _refuse_missing(table, chosen)
        return to_dataset(path, table, found)


def _header(path: str | Path, separator: str) -> list[str]:
    """Names of the columns; a first row of numbers is refused."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        names = next(text_rows.reader(stream, delimiter=separator), [])
    # without a header the first record would be lost; rows that mix text and numbers fail later as values
    if names and all(_is_number(name) for name in names):
        found = f"the first row holds the number {ac.shorten(names[0])}"
        raise DataError(f"{path}: {found}; accepted: a header, names of columns")
    if not names or "" in names:
        raise DataError(f"{path}: the first row is {ac.shorten(names)}; accepted: a header, names of columns")
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _reword(text: str, names: list[str], label: str) -> str:
    """An error of pyarrow about a value, with the name of the column."""
    found = re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to \w+: invalid value '(.*)'", text)
    if found is None:
        return text
    column, row, value = found.groups()
    where = "" if row is None else f"record {int(row) - 2}: "
    other = " (if it is no feature, exclude it, or name it as label or identifiers)"
    hint = CLASSES_HINT if names[int(column)] == label else other
    return f"{where}column {names[int(column)]!r} holds {ac.shorten(value)}, not a number{hint}"


def _refuse_missing(table: Any, features: list[str]) -> None:
    for name in table.column_names:
        if table.column(name).null_count:
            row = int(np.argmax(table.column(name).is_null().to_numpy()))
            raise ValueError(f"record {row} has no value in column {name!r}{FILL_HINT if name in features else ''}")


def openml(name: str, *, classes: Sequence[str] | None = None) -> Dataset:
    """A data set of numeric features from openml.org, by name or number, cached by scikit-learn.

    `classes` numbers named classes, as for `load`. Without it they are numbered in the order of their names, or of
    their values if all names are numbers.
    """
    fetch = require("sklearn.datasets").fetch_openml
    source = f"openml:{name}"
    key = {"data_id": int(name)} if name.isdecimal() else {"name": name}
    with (
        name_errors(source, "a data set of openml.org with numeric features, and a network"),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings(
            "ignore", "A network error occurred", UserWarning
        )  # the error of the last attempt is raised
        bunch = fetch(**key, as_frame=False, parser="liac-arff", n_retries=1)
        nominal = [column for column in bunch.feature_names if column in (bunch.categories or {})]
        if nominal:
            raise ValueError(f"feature {nominal[0]!r} holds names, not numbers")
        labels = np.asarray(bunch.target)
        if labels.dtype.kind == "O" and None in labels.ravel().tolist():
            raise ValueError("some targets are missing")
        if classes is not None:
            labels = number_labels(source, labels, classes)
        elif labels.dtype.kind == "O":
            with suppress(ValueError):
                labels = labels.astype(np.float64)
            labels = np.unique(labels, return_inverse=True)[1]
    return Dataset(source, bunch.data, labels)
