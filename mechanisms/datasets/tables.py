"""Readers of tables: numpy archives, Parquet, CSV, and OpenML by name.

A table may have a column of identifiers, which is never a feature, and labels by name, which a list of classes numbers.
"""

from __future__ import annotations

import csv as text_rows
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets.dataset import DataError, Dataset, name_errors, number_labels
from mechanisms.datasets.formats import of_images, pick
from mechanisms.validation import INSTALL, require

__all__ = ["csv", "npz", "openml", "parquet"]

_Array = NDArray[Any]

LABEL = "label"
"""Name of the column of labels."""

CLASSES_HINT = " (labels by name need a list of the classes)"


def npz(
    path: str | Path, *, ids: str | None = None, leave_out: str | None = None, classes: Sequence[str] | None = None
) -> Dataset:
    """A numpy archive with an array ``features`` and, if labelled, ``labels``; features of 3 or 4 axes are images.

    Images of bytes are scaled to [0, 1]; other numbers are not changed. Parameters as for `load`; `ids` names
    another array, of text or whole numbers.
    """
    del leave_out  # other arrays are never features
    with (
        name_errors(path, "a .npz file, nothing pickled, of the array features, and labels"),
        open(path, "rb") as stream,
    ):
        archive = np.load(stream, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array, not an archive")
        (features,) = pick(archive, "features")
        labels = archive.get("labels")
        named = None if ids is None else _npz_ids(pick(archive, ids)[0], ids)
    if labels is not None and classes is not None:
        labels = number_labels(path, labels, classes)
    if features.ndim in (3, 4):
        return of_images(path, [(features, labels)], "images", ids=named)
    return Dataset(str(path), features, labels, ids=named)


def _npz_ids(values: _Array, name: str) -> Any:
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise ValueError(f"array {name!r} holds {values.dtype} values of shape {values.shape}, not identifiers")
    return values.tolist()


def parquet(
    path: str | Path, *, ids: str | None = None, leave_out: str | None = None, classes: Sequence[str] | None = None
) -> Dataset:
    """A Parquet file with a column of lists ``features`` or columns of numbers, and, if labelled, a column ``label``.

    Without ``features`` every other column of numbers or booleans is a feature, in the order of the file; columns of
    other types, such as text or dates, and pandas' index are left out. A list of 0/1 as label means several labels.
    Parameters as for `load`.
    """
    reader, expected = require("pyarrow.parquet"), "a .parquet file with a column label, and features"
    if int(import_module("pyarrow").__version__.split(".")[0]) < 15:  # CVE-2023-47248: older ones unpickle
        raise ac.MissingExtra(f"pyarrow is older than 15; accepted: {INSTALL.format('mechanisms')}")
    with name_errors(path, expected), open(path, "rb") as stream:
        table = reader.ParquetFile(stream, page_checksum_verification=True).read()
        for field in table.schema:
            if hasattr(field.type, "extension_name") or b"ARROW:extension:name" in (field.metadata or {}):
                raise ValueError(f"column {field.name!r} has a type of its own, {field.type}")
        names = table.column_names
        if "features" in names:
            features = _column(table, "features")
        else:
            index = (table.schema.pandas_metadata or {}).get("index_columns", [])
            others = [name for name in names if name not in (LABEL, ids, leave_out, *index)]
            chosen = [name for name in others if _is_numeric(table.field(name).type)]
            if not chosen:
                raise ValueError(f"no column of numbers beside 'label' among {names}")
            features = np.column_stack([_column(table, name) for name in chosen])
        read = _column if classes is None else _words
        labels = read(table, LABEL) if LABEL in names else None
        named = None if ids is None else _words(table, ids).tolist()
    if labels is not None and classes is not None:
        labels = number_labels(path, labels, classes)
    return Dataset(str(path), features, labels, ids=named)


def csv(
    path: str | Path, *, ids: str | None = None, leave_out: str | None = None, classes: Sequence[str] | None = None
) -> Dataset:
    """A text table with a header, separated by commas (``.csv``) or tabs (``.tsv``), in UTF-8.

    If labelled, it has a column ``label``; every other column is a feature and holds numbers. Anything else is refused
    with its name: no column and no row is left out silently. Parameters as for `load`.
    """
    reader = require("pyarrow.csv")
    separator = "\t" if Path(path).suffix.lower() == ".tsv" else ","
    with name_errors(path, "a table with a header, of a column label and columns of numbers"):
        names = _header(path, separator)
        words = {name for name in (ids, leave_out, LABEL if classes is not None else None) if name is not None}
        if ids is not None and ids not in names:
            raise ValueError(f"no column {ids!r} among {names}")
        arrow = import_module("pyarrow")
        kinds = {name: arrow.string() if name in words else arrow.float64() for name in names}
        try:
            table = reader.read_csv(
                path,
                # with one thread, errors name the row
                reader.ReadOptions(use_threads=False),
                reader.ParseOptions(delimiter=separator, newlines_in_values=True, ignore_empty_lines=False),
                reader.ConvertOptions(column_types=kinds, check_utf8=True),
            )
        except arrow.ArrowInvalid as error:
            raise ValueError(_reword(str(error), names)) from None
        chosen = [name for name in names if name not in (LABEL, ids, leave_out)]
        if not chosen:
            raise ValueError(f"no column of numbers beside 'label' among {names}")
        _refuse_missing(table)
        features = np.column_stack([table.column(name).to_numpy() for name in chosen])
        labels = table.column(LABEL).to_numpy() if LABEL in names else None
        named = None if ids is None else table.column(ids).to_pylist()
    if labels is not None and classes is not None:
        labels = number_labels(path, labels, classes)
    return Dataset(str(path), features, labels, ids=named)


def _header(path: str | Path, separator: str) -> list[str]:
    """Names of the columns; a first row of numbers is refused."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        names = next(text_rows.reader(stream, delimiter=separator), [])
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} columns {name!r}")
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


def _reword(text: str, names: list[str]) -> str:
    """An error of pyarrow about a value, with the name of the column."""
    found = re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to \w+: invalid value '(.*)'", text)
    if found is None:
        return text
    column, row, value = found.groups()
    where = "" if row is None else f"record {int(row) - 2}: "
    hint = CLASSES_HINT if names[int(column)] == LABEL else ""
    return f"{where}column {names[int(column)]!r} holds {ac.shorten(value)}, not a number{hint}"


def _refuse_missing(table: Any) -> None:
    for name in table.column_names:
        if table.column(name).null_count:
            row = int(np.argmax(table.column(name).is_null().to_numpy()))
            raise ValueError(f"record {row} has no value in column {name!r}")


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


def _column(table: Any, name: str) -> _Array:
    """A column of numbers, shape (n,), or of lists of numbers of equal length, shape (n, length)."""
    if table.column_names.count(name) != 1:
        raise ValueError(f"{table.column_names.count(name)} columns {name!r} among {table.column_names}")
    values, shape = table.column(name).combine_chunks(), (table.num_rows,)
    if hasattr(values.type, "value_field"):
        compute = import_module("pyarrow.compute")
        lengths = compute.unique(compute.list_value_length(values)).to_pylist()
        if len(lengths) != 1 or None in lengths:
            raise ValueError(f"column {name!r} holds lists of lengths {sorted(map(str, lengths))[:4]}, not of one")
        values, shape = compute.list_flatten(values), (table.num_rows, *lengths)
    if not _is_numeric(values.type):
        raise ValueError(f"column {name!r} holds {values.type}, not numbers{CLASSES_HINT if name == LABEL else ''}")
    return cast(_Array, values.to_numpy(zero_copy_only=False).reshape(shape))


def _words(table: Any, name: str) -> _Array:
    """A column of text or whole numbers."""
    if table.column_names.count(name) != 1:
        raise ValueError(f"{table.column_names.count(name)} columns {name!r} among {table.column_names}")
    types, values = import_module("pyarrow").types, table.column(name).combine_chunks()
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if not (types.is_string(kind) or types.is_large_string(kind) or _is_numeric(kind)):
        raise ValueError(f"column {name!r} holds {kind}, not text or whole numbers")
    return np.array(values.to_pylist(), dtype=object)


def _is_numeric(kind: Any) -> bool:
    types = import_module("pyarrow").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
