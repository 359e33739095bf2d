"""Values of a parameter that a sweep takes, exactly as they were given."""

from __future__ import annotations

from typing import Any

import numpy as np

from accountant.errors import ParameterError, shorten

__all__ = ["count_values", "read_axis"]


def count_values(column: Any) -> int:
    """How many values a column has; 1 of a single one."""
    if isinstance(column, str | bytes):
        return 1
    try:
        return len(column)
    except TypeError:
        return 1


def read_axis(name: str, column: Any) -> list[Any]:
    """Values of one parameter as plain Python values, none of them changed.

    Raises
    ------
    ParameterError
        They are not in one dimension, one is masked or missing, or they have no common type that holds all of them.
    """
    if np.ma.is_masked(column) or (isinstance(column, list | tuple) and any(map(np.ma.is_masked, column))):
        raise ParameterError(f"{name} = {shorten(column)} has masked values; accepted: values that are there")
    try:
        array = np.asarray(column)
        flat = array.ndim <= 1
    except ValueError:  # lists of several lengths
        flat = False
    if not flat:
        raise ParameterError(f"{name} = {shorten(column)}; accepted: a list of values, in one dimension")
    values: list[Any] = np.atleast_1d(array).tolist()
    originals = [_plain(each) for each in column] if array.ndim == 1 and not isinstance(column, np.ndarray) else values
    if any(map(_is_missing, originals)):
        raise ParameterError(f"{name} = {shorten(column)} has missing values; accepted: values that are there")
    if originals is not values:
        rounded = array.dtype.kind in "fcUS"
        for given, kept in zip(originals, values, strict=True):
            changed = rounded and given != kept and given == given  # a nan is none of these
            if changed or (isinstance(given, bool) and not isinstance(kept, bool)):
                raise ParameterError(
                    f"{name} = {shorten(given)} becomes {shorten(kept)} beside the others; accepted: values that an "
                    "array can hold together, such as integers up to 2**53"
                )
    return values


def _plain(value: Any) -> Any:
    """A scalar of NumPy, which would be rounded before it is compared with a float, or of pyarrow, as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    return value.as_py() if hasattr(value, "as_py") else value


def _is_missing(value: Any) -> bool:
    """Whether a value is that of pandas of which nobody knows whether it equals itself."""
    try:
        bool(value == value)
    except (TypeError, ValueError) as error:
        return isinstance(error, TypeError)
    return False
