"""Private records, queries and labels as users have them: arrays, or data frames, and labels by name.

Columns of frames are matched by name; names of classes are public, and results give them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.datasets import Columns, DataError, frame
from mechanisms.datasets.dataset import number_labels
from mechanisms.validation import check_features, check_labels, check_public, check_queries

__all__ = ["Vocabulary", "check_classes", "is_frame", "number_text", "read_labels", "read_public", "read_records"]


@dataclass(frozen=True)
class Vocabulary:
    """Public names: of the features, if records came as a frame, and of the classes, if labels have names."""

    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None

    def read_queries(self, queries: object, width: int, name: str = "queries") -> Singles:
        """Queries as single-precision features, columns of a frame in the order of the records'.

        Raises
        ------
        accountant.ParameterError
        """
        return check_queries(self._arrange(queries, name), width, name)

    def read_points(self, public: object, width: int) -> Singles:
        """Public points, with as many columns as the private records.

        Raises
        ------
        accountant.ParameterError
        """
        return check_public(self._arrange(public, "public"), np.empty((0, width), np.float32))

    def spell(self, labels: Integers) -> Any:
        """Labels as they were given: names, and "" for -1; or numbers as they are."""
        return labels if self.classes is None else np.array([*self.classes, ""])[labels]

    def _arrange(self, table: object, name: str) -> object:
        if not is_frame(table):
            return table
        if len(table) == 0:  # type: ignore[arg-type]
            return ()
        values, columns = _read_frame(table, name)
        if self.columns is None:
            return values
        lone = [column for column in self.columns if column not in columns]
        more = [column for column in columns if column not in self.columns]
        if lone or more:
            found = f"no column {lone[0]!r}" if lone else f"a column {more[0]!r}"
            accepted = f"the columns of the private records, {ac.shorten(list(self.columns))}"
            raise ac.ParameterError(f"{name}: {found}; accepted: {accepted}")
        return values[:, [columns.index(column) for column in self.columns]]


def read_records(X: object, classes: Sequence[str] | None = None, name: str = "X") -> tuple[Singles, Vocabulary]:
    """Private records as single-precision features, and their public names.

    Parameters
    ----------
    X : array of shape (n, d), or a data frame of pandas, polars or pyarrow with d columns of numbers
    classes : sequence of str, optional
        Public names of the classes.
    name : str
        For messages.

    Raises
    ------
    accountant.ParameterError
        A value is not a number, a column holds something else, or names of classes repeat.
    """
    names = check_classes(classes)
    if not is_frame(X):
        return check_features(X, name), Vocabulary(None, names)
    values, columns = _read_frame(X, name)
    return check_features(values, name), Vocabulary(columns, names)


def read_public(public: object, records: Singles, names: Vocabulary) -> Singles:
    """Public points, like queries, with as many columns as the private records."""
    return names.read_points(public, records.shape[1])


def read_labels(
    y: object, n: int, n_classes: int | None, classes: tuple[str, ...] | None = None
) -> tuple[Integers, int]:
    """Labels as numbers, one for each record, and how many classes there are; as `check_labels`, or by name.

    Raises
    ------
    accountant.ParameterError
        A label is none of `classes`, or labels are text and `classes` is missing.
    """
    if classes is not None and n_classes not in (None, len(classes)):
        raise ac.ParameterError(f"n_classes = {n_classes!r}; accepted: {len(classes)}, as classes has, or None")
    return check_labels(number_text(y, n, classes), n, n_classes if classes is None else len(classes))


def number_text(y: object, n: int, classes: tuple[str, ...] | None) -> NDArray[Any]:
    """Positions of labels among `classes`; labels that are numbers as they are, if `classes` is None.

    Raises
    ------
    accountant.ParameterError
        As for `read_labels`.
    """
    labels = np.asarray(y)
    if classes is None:
        if labels.dtype.kind in "OUST" and labels.size:
            raise ac.ParameterError("y holds text; accepted: integers 0..c-1, or text and classes = [...], all names")
        return labels
    if labels.shape != (n,):
        raise ac.ParameterError(f"y has shape {labels.shape}; accepted: ({n},), one label for each record")
    try:
        return number_labels("y", labels, classes)
    except DataError as error:
        raise ac.ParameterError(str(error)) from None


def check_classes(classes: object) -> tuple[str, ...] | None:
    """Names of the classes: two or more, all different; numbers count as their text."""
    if classes is None:
        return None
    accepted = "a list of two or more different names, such as ['cat', 'dog']"
    if isinstance(classes, str | bytes) or not hasattr(classes, "__len__"):
        raise ac.ParameterError(f"classes = {ac.shorten(classes)}; accepted: {accepted}")
    given = list(np.asarray(classes, dtype=object).tolist()) if hasattr(classes, "dtype") else list(classes)  # type: ignore[call-overload]
    names = tuple(name if isinstance(name, str) else str(name) for name in given)
    plain = all(isinstance(name, str | int | np.integer) and not isinstance(name, bool) for name in given)
    if len(names) < 2 or len(set(names)) < len(names) or "" in names or not plain:
        raise ac.ParameterError(f"classes = {ac.shorten(list(given))}; accepted: {accepted}")
    return names


def is_frame(table: object) -> bool:
    """Whether it is a table with named columns: of pandas, polars, pyarrow, or another with an Arrow stream."""
    streamed = hasattr(table, "__arrow_c_stream__") and hasattr(table, "columns")
    return streamed or (hasattr(table, "columns") and hasattr(table, "iloc"))


def _read_frame(table: Any, name: str) -> tuple[Any, tuple[str, ...]]:
    """All columns of a frame, which must hold numbers; the index of a pandas frame is none of them."""
    try:
        found = frame(table, name, columns=Columns(label="", features=tuple(map(str, _columns(table)))))
    except DataError as error:
        raise ac.ParameterError(str(error)) from None
    assert found.columns is not None
    return found.features, found.columns


def _columns(table: Any) -> list[Any]:
    named = table.columns
    return list(getattr(table, "column_names", named))
