"""Tables with named columns: which column is the label, which identify records, and which are features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets.dataset import DataError, Dataset, learn_names, number_labels

__all__ = ["LABEL", "Columns", "check_columns", "choose_features", "match_columns", "read_words", "to_dataset"]

_Array = NDArray[Any]

LABEL = "label"
"""Name of the column of labels, unless another is given."""

CLASSES_HINT = " (labels by name need a list of the classes)"

FILL_HINT = " (public means can stand for it: --impute-public, if not with --workers or --public -, or Columns(fill=))"


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are for; names are public.

    Attributes
    ----------
    label : str
        Column of labels; it is never a feature.
    ids : str or None
        Column that identifies records; it is never a feature.
    features : sequence of str or None
        The features, in this order; None takes every other column of numbers.
    exclude : sequence of str
        Columns that are not used, if they exist.
    classes : sequence of str or None
        Names of the classes, which number the labels.
    learn_classes : bool
        Number labels that are no whole numbers by their own names, in sorted order.
    fill : mapping, "own" or None
        What stands for a missing feature: a number by column, or the mean of what is there. None refuses.
    """

    label: str = LABEL
    ids: str | None = None
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    classes: Sequence[str] | None = None
    learn_classes: bool = False
    fill: Mapping[str, float] | Literal["own"] | None = None

    @property
    def text_labels(self) -> bool:
        """Whether labels are read as text."""
        return self.classes is not None or self.learn_classes


def check_columns(names: Sequence[str], columns: Columns) -> list[str]:
    """Names of possible features, in order; a column that is asked for and not there, or there twice, is refused.

    Raises
    ------
    ValueError
    """
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} columns {name!r}")
    others = (columns.label, columns.ids, *columns.exclude)
    both = [name for name in columns.features or () if name in others]
    if both:
        raise ValueError(f"column {both[0]!r} is a feature and is label, identifier or excluded, too")
    for name in (*(columns.features or ()), *(() if columns.ids is None else (columns.ids,))):
        if name not in names:
            raise ValueError(f"no column {name!r} among {ac.shorten(list(names))}")
    if columns.features is not None:
        return list(columns.features)
    return [name for name in names if name not in others]


def to_dataset(source: str | Path, table: Any, columns: Columns, index: Sequence[str] = ()) -> Dataset:
    """The data set in an Arrow table; `index` are columns that are never features.

    Raises
    ------
    ValueError
        The message does not name the source; `name_errors` adds it.
    """
    for field in table.schema:
        if hasattr(field.type, "extension_name") or b"ARROW:extension:name" in (field.metadata or {}):
            raise ValueError(f"column {field.name!r} has a type of its own, {field.type}")
    names = table.column_names
    chosen, ignored = choose_features(table.schema, columns, index)
    if chosen == ["features"]:
        features, known, ignored = _read_numbers(table, "features", columns.label), None, ()
    else:
        features = np.column_stack([_fill(table, name, columns) for name in chosen])
        known = tuple(chosen)
    labels: Any = None
    if columns.label in names:
        text = columns.text_labels
        labels = read_words(table, columns.label) if text else _read_numbers(table, columns.label, columns.label)
    ids = None if columns.ids is None else read_words(table, columns.ids).tolist()
    class_names = None
    if labels is not None and columns.classes is not None:
        labels = number_labels(source, labels, columns.classes)
    elif labels is not None and columns.learn_classes:
        labels, class_names = learn_names(source, labels)
    return Dataset(str(source), features, labels, ids=ids, columns=known, ignored=ignored, class_names=class_names)


def choose_features(schema: Any, columns: Columns, index: Sequence[str] = ()) -> tuple[list[str], tuple[str, ...]]:
    """Names of the features in an Arrow schema, and of the columns that are not used; parameters as for `to_dataset`.

    Raises
    ------
    ValueError
    """
    names = schema.names
    if "features" in names and columns.features is None:
        columns = replace(columns, features=("features",))
    chosen, left = check_columns(names, columns), []
    if columns.features is None:
        left = [name for name in chosen if name in index or not _is_numeric(schema.field(name).type)]
        chosen = [name for name in chosen if name not in left]
        if not chosen:
            raise ValueError(f"no column of numbers beside {columns.label!r} among {ac.shorten(names)}")
    used = {*chosen, *left, columns.label, columns.ids}
    return chosen, tuple(name for name in names if name in left or name not in used)


def match_columns(first: Dataset, other: Dataset) -> Dataset:
    """`other` with its features in the order of `first`, matched by name; as it is, if one of them has no names.

    Raises
    ------
    DataError
        A column is in one of them alone. The message says names of columns, which are public, and nothing else.
    """
    if first.columns is None or other.columns is None:
        return other
    for here, there in ((first, other), (other, first)):
        assert here.columns is not None
        assert there.columns is not None
        lone = [name for name in here.columns if name not in there.columns]
        if lone:
            which = f"column {lone[0]!r} is" if len(lone) == 1 else f"columns {ac.shorten(lone)} are"
            hint = " (it has that column, without numbers)" if lone[0] in there.ignored else ""
            accepted = "the same features in all tables; name them, or exclude what is no feature"
            raise DataError(f"{here.name}: {which} not a feature of {there.name}{hint}; accepted: {accepted}")
    order = [other.columns.index(name) for name in first.columns]
    return replace(other, features=other.features[:, order], columns=first.columns)


def _fill(table: Any, name: str, columns: Columns) -> _Array:
    """A column of numbers; missing ones are refused, or replaced by a public number."""
    values = _read_numbers(table, name, columns.label)
    if values.ndim != 1:
        raise ValueError(f"column {name!r} holds lists, not numbers")
    missing = table.column(name).is_null(nan_is_null=True).to_numpy()
    if not missing.any():
        return values
    row = int(np.argmax(missing))
    if columns.fill is None:
        raise ValueError(f"record {row} has no value in column {name!r}{FILL_HINT}")
    if columns.fill == "own":
        if missing.all():
            raise ValueError(f"column {name!r} holds no value at all")
        number = float(values[~missing].astype(float).mean())
    elif name in columns.fill:
        number = columns.fill[name]
    else:
        raise ValueError(f"record {row} has no value in column {name!r}, which has no public mean")
    return np.where(missing, number, values.astype(float))


def _read_numbers(table: Any, name: str, label: str) -> _Array:
    """A column of numbers, shape (n,), or of lists of numbers of equal length, shape (n, length)."""
    values, shape = table.column(name).combine_chunks(), (table.num_rows,)
    if hasattr(values.type, "value_field"):
        compute = import_module("pyarrow.compute")
        lengths = compute.unique(compute.list_value_length(values)).to_pylist()
        if len(lengths) != 1 or None in lengths:
            raise ValueError(f"column {name!r} holds lists of lengths {sorted(map(str, lengths))[:4]}, not of one")
        values, shape = compute.list_flatten(values), (table.num_rows, *lengths)
    if not _is_numeric(values.type):
        raise ValueError(f"column {name!r} holds {values.type}, not numbers{CLASSES_HINT if name == label else ''}")
    if name == label and values.null_count:
        raise ValueError(f"record {int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))} has no label")
    return cast(_Array, values.to_numpy(zero_copy_only=False).reshape(shape))


def read_words(table: Any, name: str) -> _Array:
    """A column of text, whole numbers or booleans, dictionaries decoded."""
    types, values = import_module("pyarrow").types, table.column(name).combine_chunks()
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if not (any(is_text(kind) for is_text in texts) or _is_numeric(kind)):
        raise ValueError(f"column {name!r} holds {kind}, not text or whole numbers")
    return np.array(values.to_pylist(), dtype=object)


def _is_numeric(kind: Any) -> bool:
    types = import_module("pyarrow").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
