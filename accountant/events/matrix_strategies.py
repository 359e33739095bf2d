"""Strategies of matrix mechanisms: Toeplitz matrices with few bands or few buffers, and the binary tree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from accountant.errors import ParameterError, integer, real, shorten
from accountant.numerics.kernel import FloatArray

__all__ = [
    "MOST_COLUMNS",
    "MOST_STEPS",
    "Strategy",
    "as_strategy",
    "buffered_strategy",
    "square_root_strategy",
    "tree_strategy",
]

Strategy = tuple[float, ...] | tuple[tuple[float, ...], ...]
"""The first column of a lower triangular Toeplitz matrix, zeros at its end left out; or the rows of any matrix."""

MOST_STEPS = 1_000_000
"""Steps of a Toeplitz matrix."""

MOST_COLUMNS = 4096
"""Columns of any other matrix; it has at most twice as many rows."""


def as_strategy(values: object) -> Strategy:
    """The strategy that is given, in tuples of finite numbers."""
    accepted = f"1 to {MOST_STEPS} numbers of a Toeplitz matrix's first column, or the rows of a matrix, not all 0"
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Iterable) or not (kept := tuple(values)):
        raise ParameterError(f"strategy = {shorten(values)}; accepted: {accepted}")
    if not any(isinstance(value, Iterable) for value in kept):
        column = _numbers(kept)
        last = max((i + 1 for i, value in enumerate(column) if value), default=0)
        if not 1 <= last <= MOST_STEPS:
            raise ParameterError(f"strategy = {shorten(kept)}; accepted: {accepted}")
        return column[:last]
    if isinstance(kept[0], str) or not all(isinstance(row, Sequence | np.ndarray) for row in kept):
        raise ParameterError(f"strategy = {shorten(kept)}; accepted: {accepted}")
    rows = tuple(_numbers(row) for row in kept)
    columns = len(rows[0])
    if any(len(row) != columns for row in rows) or not any(map(any, rows)):
        raise ParameterError(f"strategy = {shorten(kept)}; accepted: {accepted}; rows of one length")
    if columns > MOST_COLUMNS or len(rows) > 2 * MOST_COLUMNS:
        raise ParameterError(
            f"strategy = a matrix of {len(rows)} rows and {columns} columns; accepted: at most {2 * MOST_COLUMNS} and "
            f"{MOST_COLUMNS}, or a Toeplitz matrix's first column"
        )
    return rows


def _numbers(values: Iterable[object]) -> tuple[float, ...]:
    kept = tuple(values)
    if all(type(value) is float for value in kept) and bool((np.abs(np.array(kept)) <= 1e50).all()):
        return kept  # type: ignore[return-value]
    return tuple(real("strategy", value, -1e50, 1e50) for value in kept)


def square_root_strategy(bands: int, decay: float = 1.0, momentum: float = 0.0) -> tuple[float, ...]:
    """First coefficients of the square root of the workload of SGD: a strategy with few bands (BandMF, BSR).

    The workload of a training with weight decay d and momentum m is the Toeplitz matrix with the generating function
    ``1 / ((1 - d x) (1 - m x))``, that of prefix sums for d = 1 and m = 0. Its square root has the coefficients
    ``c_j = sum over i of r_i m^i r_{j-i} d^{j-i}``, r_i = C(2i, i) / 4^i, which do not rise (Kalinin & Lampert 2024,
    Thm 1). With all bands and d = 1, m = 0, it is the factorization of Fichtenberger, Henzinger & Upadhyay 2023.

    Parameters
    ----------
    bands : int
        Coefficients that are kept; [1, 1e6].
    decay, momentum : float
        In [0, 1], the momentum below 1.

    Returns
    -------
    tuple of float
        A `strategy` of `MatrixMechanism`.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """
    bands = integer("bands", bands, 1, MOST_STEPS)
    decay, momentum = real("decay", decay, 0.0, 1.0), real("momentum", momentum, 0.0, 1.0, open_high=True)
    steps = np.arange(1.0, bands)
    roots = np.cumprod(np.concatenate([[1.0], (2 * steps - 1) / (2 * steps)]))
    ages = np.arange(float(bands))
    with np.errstate(under="ignore"):
        coefficients = roots * decay**ages
        if momentum > 0.0:
            kept = roots * momentum**ages
            kept = kept[: int(np.flatnonzero(kept > 1e-40)[-1]) + 1]
            coefficients = np.convolve(coefficients, kept)[:bands]
    return tuple(coefficients.tolist())


def buffered_strategy(decays: Sequence[float], scales: Sequence[float], steps: int) -> tuple[float, ...]:
    """Coefficients of a buffered linear Toeplitz matrix (BLT): ``c_0 = 1``, ``c_j = sum over i of w_i t_i^{j-1}``.

    With as many buffers as pairs of a decay t_i and a scale w_i, noise is made from so many vectors of the model's size
    (Dvijotham et al. 2024).

    Parameters
    ----------
    decays : sequence of float
        t_i in [0, 1].
    scales : sequence of float
        w_i in [-1e50, 1e50], as many.
    steps : int
        Coefficients; [1, 1e6].

    Returns
    -------
    tuple of float
        A `strategy` of `MatrixMechanism`.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """
    steps = integer("steps", steps, 1, MOST_STEPS)
    buffers = [real("decays", each, 0.0, 1.0) for each in decays]
    weights = [real("scales", each, -1e50, 1e50) for each in scales]
    if len(buffers) != len(weights):
        raise ParameterError(f"{len(buffers)} decays, {len(weights)} scales; accepted: as many of both")
    coefficients = np.zeros(steps)
    coefficients[0] = 1.0
    ages = np.arange(float(steps - 1))
    with np.errstate(under="ignore"):
        for decay, scale in zip(buffers, weights, strict=True):
            coefficients[1:] += scale * decay**ages
    return tuple(coefficients.tolist())


def tree_strategy(steps: int) -> tuple[tuple[float, ...], ...]:
    """Rows of the binary tree: sums over the complete dyadic intervals of `steps` steps (Chan, Shi & Song 2011).

    Parameters
    ----------
    steps : int
        [1, 4096].

    Returns
    -------
    tuple of tuple of float
        A `strategy` of `MatrixMechanism`. With one participation it costs what `TreeAggregation` does.

    Raises
    ------
    ParameterError
        `steps` is not a number or out of range.
    """
    steps = integer("steps", steps, 1, MOST_COLUMNS)
    places: FloatArray = np.arange(float(steps))
    return tuple(
        tuple(((places >= start) & (places < start + length)).astype(float).tolist())
        for length in (2**level for level in range(math.floor(math.log2(steps)) + 1))
        for start in range(0, steps - length + 1, length)
    )
