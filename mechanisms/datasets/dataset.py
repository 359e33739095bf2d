"""The data set of labelled records, checked on construction, and its random parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac

__all__ = [
    "MAX_CLASSES",
    "DataError",
    "Dataset",
    "Split",
    "check_labels_in",
    "learn_names",
    "name_errors",
    "number_labels",
    "private_public_test_split",
]

MAX_CLASSES = 2**15
"""Most classes: larger labels are probably a mistake, such as a column of identifiers."""


class DataError(ac.AccountantError, ValueError):
    """Data that cannot be used; the message says the source and what is accepted."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled records, checked on construction.

    Parameters
    ----------
    name : str
        Source of the records; error messages begin with it.
    features : array, shape (n, d)
        Finite numbers, kept in single precision. Pixels of images lie in [0, 1].
    labels : array, shape (n,) or (n, c), or None
        Classes 0, 1, ..., or 0/1 for each of c >= 2 labels of which a record may have several; None if unlabelled.
    images : tuple of int, optional
        Shape of one record as an image: (height, width) or (height, width, channels).
    ids : sequence of str or int, shape (n,), optional
        Identifier of each record, for budgets that outlast a run; kept as text. All different, none empty.
    classes : int or None
        Number of classes if the format fixes it, so that it is public: 10 for digits, MNIST, CIFAR-10 and SVHN. None if
        only the labels show it.
    columns : tuple of str or None
        Names of the features, if the source names them.
    ignored : tuple of str
        Columns of the source that are not used.
    class_names : tuple of str or None
        Names of the classes, if they were learnt from the labels.
    """

    name: str
    features: NDArray[np.float32]
    labels: NDArray[np.int64] | None
    images: tuple[int, ...] | None = None
    ids: tuple[str, ...] | None = None
    classes: int | None = None
    columns: tuple[str, ...] | None = None
    ignored: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        given = features = np.asarray(self.features)
        if features.dtype.kind not in "biuf" or features.ndim != 2 or 0 in features.shape:
            found = f"{features.dtype} values of shape {features.shape}"
            raise DataError(f"{self.name}: features hold {found}; accepted: numbers of shape (n, d), n and d >= 1")
        with np.errstate(over="ignore", invalid="ignore"):
            features = np.ascontiguousarray(features, dtype=np.float32)
        if not np.isfinite([features.min(), features.max()]).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            where = f"feature {column} of record {row} is {given[row, column]}"
            raise DataError(f"{self.name}: {where}; accepted: finite numbers in single precision, up to 3.4e+38")
        if self.images is not None and math.prod(self.images) != features.shape[1]:
            width = features.shape[1]
            raise DataError(f"{self.name}: images of shape {self.images}; accepted: shapes of {width} numbers")
        object.__setattr__(self, "features", features)
        if self.labels is not None:
            labels = np.asarray(self.labels)
            several = labels.ndim == 2 and labels.shape[1] > 1
            shape = (len(features), *labels.shape[1:]) if several else (len(features),)
            labels = check_labels_in(self.name, labels, shape, 0, 1 if several else MAX_CLASSES - 1)
            object.__setattr__(self, "labels", labels)
        if self.ids is not None:
            object.__setattr__(self, "ids", _check_ids(self.name, self.ids, len(features)))

    def __len__(self) -> int:
        return len(self.features)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    def take(self, rows: NDArray[np.int64]) -> Dataset:
        """The records at these positions, in this order."""
        labels = None if self.labels is None else self.labels[rows]
        ids = None if self.ids is None else tuple(self.ids[row] for row in np.arange(len(self))[rows])
        return replace(self, features=self.features[rows], labels=labels, ids=ids)


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint parts of one data set."""

    private: Dataset
    public: Dataset
    test: Dataset


def private_public_test_split(
    dataset: Dataset, sizes: tuple[int, int, int], rng: np.random.Generator | int | None = None
) -> Split:
    """Shuffle the records and cut three disjoint parts.

    Parameters
    ----------
    dataset : Dataset
    sizes : tuple of three int
        Numbers of private, public and test records, each at least 1; what remains is left out.
    rng : Generator, int or None
        The same seed gives the same parts; None draws a fresh one.
    """
    whole = [isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0 for size in sizes]
    if len(whole) != 3 or not all(whole) or sum(map(int, sizes)) > len(dataset):
        accepted = f"three whole numbers >= 1 that sum to at most {len(dataset)}"
        raise DataError(f"{dataset.name}: sizes = {sizes!r}; accepted: {accepted}")
    order = np.random.default_rng(rng).permutation(len(dataset))
    private, public, test, _ = np.split(order, np.cumsum([int(size) for size in sizes]))
    return Split(dataset.take(private), dataset.take(public), dataset.take(test))


def check_labels_in(source: str | Path, labels: NDArray[Any], shape: tuple[int, ...], low: int, high: int) -> Any:
    """Labels as integers, refused unless all are in low..high."""
    if labels.shape != shape or labels.dtype.kind not in "biuf":
        found = f"{labels.dtype} values of shape {labels.shape}"
        raise DataError(f"{source}: labels hold {found}; accepted: whole numbers of shape {shape}, one for each record")
    whole = labels == np.floor(labels) if labels.dtype.kind == "f" else True
    wrong = ~((labels >= low) & (labels <= high) & whole)
    if wrong.any():
        first = np.argwhere(wrong)[0]
        raise DataError(f"{source}: record {first[0]} has label {labels[tuple(first)]}; accepted: {low}..{high}")
    return labels.astype(np.int64)


def number_labels(source: str | Path, labels: NDArray[Any], classes: Sequence[str]) -> NDArray[np.int64]:
    """Position in `classes` of every label, compared as text: the number 3 matches "3"."""
    if labels.ndim != 1:
        found = f"labels of shape {labels.shape}"
        raise DataError(f"{source}: {found}; accepted: one label for each record, if classes have names")
    position = {name: number for number, name in enumerate(classes)}
    values = labels.tolist()
    numbers = [next((position[text] for text in _texts(value) if text in position), -1) for value in values]
    if -1 in numbers:
        row, names = numbers.index(-1), ", ".join(classes)
        names = names if len(names) <= 100 else f"one of {len(classes)} classes"
        raise DataError(f"{source}: record {row} has label {ac.shorten(values[row])}; accepted: {names}")
    return np.array(numbers, np.int64)


def learn_names(source: str | Path, labels: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Whole numbers from 0 on as they are, and None; other labels as numbers, and their names in sorted order.

    The names are then released.
    """
    texts = [_text(value) for value in labels.tolist()] if labels.ndim == 1 else []
    if labels.ndim != 1 or all(text is not None and text.isascii() and text.isdecimal() for text in texts):
        return (labels if labels.ndim != 1 else np.array([int(text or 0) for text in texts])), None
    names = tuple(sorted({text for text in texts if text}))
    if len(names) > MAX_CLASSES:
        raise DataError(f"{source}: {len(names)} different labels; accepted: at most {MAX_CLASSES}")
    return number_labels(source, labels, names), names


def _texts(value: object) -> tuple[str, ...]:
    """What may stand for a label in a list of classes."""
    if isinstance(value, bool):
        return str(value), str(value).lower(), str(int(value))
    text = _text(value)
    return () if not text else (text,)


def _text(value: object) -> str | None:
    """A label or an identifier as text; None if it is missing or a number that is not whole."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return None


def _check_ids(source: str, given: Sequence[object], n: int) -> tuple[str, ...]:
    values = np.asarray(given, dtype=object)
    if values.shape != (n,):
        raise DataError(f"{source}: identifiers of shape {values.shape}; accepted: shape ({n},), one for each record")
    ids: dict[str, int] = {}
    for row, value in enumerate(values.tolist()):
        plain = value.item() if isinstance(value, np.generic) else value
        text = None if isinstance(plain, float | bool) else _text(plain)
        if not text:
            raise DataError(
                f"{source}: record {row} has identifier {ac.shorten(plain)}; accepted: text or whole numbers"
            )
        if text in ids:
            both = f"records {ids[text]} and {row} have the same identifier {ac.shorten(text)}"
            raise DataError(f"{source}: {both}; accepted: all different")
        ids[text] = row
    return tuple(ids)


@contextmanager
def name_errors(source: str | Path, accepted: str) -> Iterator[None]:
    """Turn any error that a decoder raises on damaged input into one line that names the source."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = " ".join(text.split()) or type(error).__name__
        reason = reason if len(reason) <= 160 else f"{reason[:157]}..."
        raise DataError(f"{source}: {reason}; accepted: {accepted}") from None
