"""Similarities of Ind-KNN: kernels in [0, 1], computed for each record by itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.neighbours.rounding import product_error
from mechanisms.validation import check_positive, check_real

__all__ = ["Cosine", "RadialBasis", "Similarity", "compile_strictly", "dots", "products", "similarity_of", "squares"]

LENGTH_ERROR = 1e-6
"""Bound on the relative error of the length of a direction, a row divided by its length in single precision."""


# --- loops over rows ---------------------------------------------------------------------------------
# The result for a row must not depend on the other rows. BLAS does not promise that, these loops do.


@cache
def compile_loop(loop: Callable[..., None]) -> Any:
    """A loop compiled by numba and cached on disk; sums are in the same order for all rows, the compiler's choice."""
    return ac.compile_function(loop, nogil=True, fastmath={"reassoc", "contract"})


@cache
def compile_strictly(loop: Callable[..., None]) -> Any:
    """A loop compiled by numba and cached on disk; every operation is rounded, in the order in which it is written."""
    return ac.compile_function(loop, nogil=True)


def _dots(rows: Singles, which: Integers, query: Floats, out: Floats) -> None:
    for i in range(which.size):
        row = rows[which[i]]
        total = 0.0
        for j in range(query.size):
            total += np.float64(row[j]) * query[j]
        out[i] = total


def _products(rows: Floats, weights: Floats, out: Floats) -> None:
    for i in range(rows.shape[0]):
        for k in range(weights.shape[1]):
            out[i, k] = 0.0
        for j in range(rows.shape[1]):
            value = rows[i, j]
            for k in range(weights.shape[1]):
                out[i, k] += value * weights[j, k]


def _radial(rows: Singles, which: Integers, query: Floats, width: float, out: Floats) -> None:
    for i in range(which.size):
        row = rows[which[i]]
        total = 0.0
        for j in range(query.size):
            gap = np.float64(row[j]) - query[j]
            total += gap * gap
        out[i] = math.exp(-total / width / width)


def _squares(rows: Singles, out: Floats) -> None:
    for i in range(rows.shape[0]):
        row = rows[i]
        total = 0.0
        for j in range(row.size):
            total += np.float64(row[j]) * np.float64(row[j])
        out[i] = total


def _directions(rows: Singles, squares: Floats, out: Singles) -> None:
    for i in range(rows.shape[0]):
        row, length = rows[i], math.sqrt(squares[i]) or 1.0
        for j in range(row.size):
            out[i, j] = row[j] / length


def squares(rows: Singles) -> Floats:
    """Squared length of each row, in double precision."""
    out = np.empty(len(rows))
    compile_loop(_squares)(rows, out)
    return out


def dots(rows: Singles, which: Integers, query: Singles) -> Floats:
    """Inner products of the rows at positions `which` with the query, in double precision."""
    out = np.empty(len(which))
    compile_loop(_dots)(rows, which, query.astype(float), out)
    return out


def products(rows: Floats, weights: Floats) -> Floats:
    """Every row times a matrix, (n, d) times (d, c)."""
    out = np.empty((len(rows), weights.shape[1]))
    compile_strictly(_products)(np.ascontiguousarray(rows), np.ascontiguousarray(weights), out)
    return out


# --- kernels -----------------------------------------------------------------------------------------


class Similarity(ABC):
    """A kernel in [0, 1], and the least value at which a record is selected.

    Parameters
    ----------
    threshold : float
        In [0, 1].
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = check_real("threshold", threshold, "[0, 1]", lambda value: 0 <= value <= 1)

    @abstractmethod
    def prepare(self, features: Singles) -> Singles:
        """Features in the form that `values` takes: a copy."""

    @abstractmethod
    def least_product(self, query: Singles, squares: Floats) -> Any:
        """Inner product in single precision below which a record of that squared length is certainly not selected."""

    @abstractmethod
    def values(self, rows: Singles, which: Integers, query: Singles) -> Floats:
        """Kernel of the rows at positions `which` with the query, in double precision."""


class Cosine(Similarity):
    """Inner product of directions. A zero vector has no direction: its kernel is 0."""

    def prepare(self, features: Singles) -> Singles:
        out = np.empty_like(features)
        compile_loop(_directions)(features, squares(features), out)
        return out

    def least_product(self, query: Singles, squares: Floats) -> float:
        return self.threshold - float(product_error(len(query), 1.0 + LENGTH_ERROR))

    def values(self, rows: Singles, which: Integers, query: Singles) -> Floats:
        return dots(rows, which, query)


class RadialBasis(Similarity):
    """``exp(-|x - q|^2 / nu^2)`` for a record x, a query q and the bandwidth nu."""

    def __init__(self, threshold: float, bandwidth: float) -> None:
        super().__init__(threshold)
        self.bandwidth = check_positive("bandwidth", bandwidth)
        # largest distance at which a record is selected, up to rounding in double precision
        self.radius = self.bandwidth * math.sqrt(-math.log(threshold)) if threshold > 0 else math.inf

    def prepare(self, features: Singles) -> Singles:
        return features.copy()

    def least_product(self, query: Singles, squares: Floats) -> Floats:
        # x.q = (|x|^2 + |q|^2 - |x - q|^2) / 2; factors of 1e-9 cover rounding in double precision
        square = float(np.dot(query.astype(float), query.astype(float)))
        both = squares + square
        reach = self.radius * self.radius * (1 + 1e-9) + 1e-9 * self.bandwidth * self.bandwidth
        least: Floats = (both * (1 - 1e-9) - reach) / 2 - product_error(len(query), np.sqrt(squares * square))
        return least

    def values(self, rows: Singles, which: Integers, query: Singles) -> Floats:
        out = np.empty(len(which))
        compile_loop(_radial)(rows, which, query.astype(float), self.bandwidth, out)
        return out


def similarity_of(kernel: object, threshold: float, bandwidth: float) -> Similarity:
    """The kernel of that name, "cosine" or "rbf".

    Raises
    ------
    accountant.ParameterError
        There is no kernel of that name, or a value is out of range.
    """
    if kernel == "cosine":
        return Cosine(threshold)
    if kernel == "rbf":
        return RadialBasis(threshold, bandwidth)
    raise ac.ParameterError(f"kernel = {ac.shorten(kernel)}; accepted: cosine, rbf")
