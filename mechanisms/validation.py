"""Checks of arguments, made before any budget is spent; a failure is one line with the value and what is accepted."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Integers, Singles

__all__ = [
    "check_count",
    "check_features",
    "check_fitted",
    "check_labels",
    "check_positive",
    "check_public",
    "check_queries",
    "check_rate",
    "check_real",
    "few_threads",
    "name_as",
    "nominal_count",
    "require",
]

INSTALL = "pip install 'knn-accountant[{}]'"

LARGEST_FEATURE = 1e15
"""Largest absolute value of a feature; products of two such values still fit into single precision."""


def check_features(X: object, name: str = "X") -> Singles:
    """A finite matrix of floats with at least one column, in single precision, in row order and aligned."""
    try:
        with np.errstate(over="ignore"):
            features = np.require(np.ascontiguousarray(X, dtype=np.float32), requirements=["C", "ALIGNED"])
    except (TypeError, ValueError) as error:
        raise ac.ParameterError(f"{name} is not a matrix of numbers ({error}); accepted: shape (n, d)") from None
    if features.ndim != 2 or features.shape[1] == 0:
        raise ac.ParameterError(f"{name} has shape {features.shape}; accepted: (n, d) with d >= 1")
    # a comparison with nan is false; only a matrix that is refused is compared number by number, which takes memory
    if features.size and not (features.min() >= -LARGEST_FEATURE and features.max() <= LARGEST_FEATURE):
        row, column = divmod(int(np.argmin(np.abs(features) <= LARGEST_FEATURE)), features.shape[1])
        value = float(features[row, column])
        if math.isinf(value):  # beyond single precision, perhaps; what became nan may have been None
            value = float(np.asarray(X)[row, column])
        wrong = f"{name}[{row}, {column}] = {value:g} is out of range"
        raise ac.ParameterError(f"{wrong}; accepted: numbers in [-1e+15, 1e+15]")
    return features


def check_public(public: object, records: Singles) -> Singles:
    """Public points, like features, with as many columns as the private records."""
    points = check_features(public, "public")
    if points.shape[1] != records.shape[1]:
        raise ac.ParameterError(f"public has {points.shape[1]} columns; accepted: {records.shape[1]}, as X")
    return points


def check_queries(queries: object, width: int, name: str = "queries") -> Singles:
    """Like features, with the columns that the mechanism was fitted with; no queries at all are accepted."""
    if np.size(queries if isinstance(queries, np.ndarray) else np.asarray(queries, dtype=object)) == 0:
        return np.empty((0, width), np.float32)
    features = check_features(queries, name)
    if features.shape[1] != width:
        raise ac.ParameterError(f"{name}: {features.shape[1]} columns; accepted: {width}, as the private records")
    return features


def check_labels(y: object, n: int, n_classes: int | None) -> tuple[Integers, int]:
    """Integer labels in 0..c-1, one for each record, and c.

    c is `n_classes`; None takes it from the largest label, which is private.
    """
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ac.ParameterError(f"y has shape {labels.shape}; accepted: ({n},), one label for each record")
    if n == 0:
        raise ac.ParameterError("there are no private records; accepted: at least one")
    if labels.dtype.kind not in "iu" and not (labels.dtype.kind == "f" and np.all(labels == np.floor(labels))):
        raise ac.ParameterError(f"y holds {labels.dtype} values; accepted: integers 0..c-1")
    classes = int(labels.max()) + 1 if n_classes is None else check_count("n_classes", n_classes, 1)
    if labels.min() < 0 or labels.max() >= classes:
        bad, last = labels[(labels < 0) | (labels >= classes)][0], "c-1" if n_classes is None else classes - 1
        raise ac.ParameterError(f"y holds the label {bad}; accepted: 0..{last}")
    return labels.astype(np.int64), max(classes, 1)


def check_count(name: str, value: object, low: int, high: int = 10**12) -> int:
    """An integer in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise ac.ParameterError(f"{name} = {value!r}; accepted: an integer in [{low}, {high}]")
    return int(value)


def check_real(name: str, value: object, accepted: str, inside: Callable[[Any], bool]) -> float:
    """A real number for which `inside` is true; `accepted` says in words which these are."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not inside(value):
        raise ac.ParameterError(f"{name} = {ac.shorten(value)}; accepted: {accepted}")
    return float(value)


def check_positive(name: str, value: object) -> float:
    """A finite number above 0."""
    return check_real(name, value, "a finite number above 0", lambda number: 0 < number <= sys.float_info.max)


def check_rate(value: object) -> float:
    """A sampling rate."""
    return check_real("sampling_rate", value, "(0, 1]", lambda rate: 0 < rate <= 1)


@contextmanager
def name_as(own: str, given: str) -> Iterator[None]:
    """A block whose refusals of an event's parameter name it as the mechanism's user knows it."""
    try:
        yield
    except ac.ParameterError as error:
        name, equals, rest = str(error).partition(" = ")
        raise ac.ParameterError(f"{given if name == own else name}{equals}{rest}") from None


def nominal_count(n: int) -> int:
    """`n` rounded to two significant digits, to stand for a number of records that may be private.

    Defaults of noise and votes that depend on the size of the data use this number. It still reveals n to within 5 %.
    """
    return round(float(f"{n:.1e}"))


def check_fitted(fitted: bool, use: str) -> None:
    """Refuse a use, such as "label(queries)", before `fit`."""
    if not fitted:
        name, _, _ = use.partition("(")
        raise ac.ParameterError(f"{name} was called before fit; accepted: fit(X, y).{use}")


def require(module: str, extra: str = "mechanisms") -> Any:
    """Import an optional package when it is first used.

    Raises
    ------
    accountant.MissingExtra
        It is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise ac.MissingExtra(f"{module} is not installed; accepted: {INSTALL.format(extra)}") from None


def few_threads(values: int) -> AbstractContextManager[Any]:
    """Linear algebra in one thread if there are few values, for which starting threads takes longer than the work."""
    if values > 10**7:
        return nullcontext()
    limited: AbstractContextManager[Any] = require("threadpoolctl").threadpool_limits(1)
    return limited
