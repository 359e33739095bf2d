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
        They are not in one dimension, one is masked, or they have no common type that holds all of them.
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
    if array.ndim == 1 and array.dtype.kind in "fcUS" and not isinstance(column, np.ndarray):
        for given, kept in zip(column, values, strict=True):
            if given != kept and given == given:  # a nan is none of these
                raise ParameterError(
                    f"{name} = {shorten(given)} becomes {shorten(kept)} beside the others; accepted: values that an "
                    "array can hold together, such as integers up to 2**53"
                )
    return values
