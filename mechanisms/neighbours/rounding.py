"""Rounding errors of inner products in single precision.

Matrix products in single precision find neighbours fast, but their last bits depend on which other rows are in the
matrix. So they decide nothing: they only narrow the choice, by the bound below, and what they leave open is computed in
double precision, row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mechanisms.arrays import Floats, Singles

__all__ = ["UNIT", "product_error", "squared_lengths"]

UNIT = 2.0**-24
"""Unit roundoff of single precision."""

UNDERFLOW = 2.0**-125
"""Loss of one multiplication and one addition to underflow, also on processors that flush subnormal results to zero."""


def product_error(width: int, sizes: Any) -> Any:
    """Bound on the error of inner products in single precision, in any order of summation.

    With d = `width` columns and u = 2^-24 it is ``1.01 (d + 2) (u |x| |q| + 2^-125)`` (Higham 2002, section 3.1).

    Parameters
    ----------
    width : int
        Columns of the two factors.
    sizes : float or array of float
        |x| |q|, product of the lengths of the factors.
    """
    return 1.01 * (width + 2) * (UNIT * sizes + UNDERFLOW)


def squared_lengths(rows: Singles) -> Floats:
    """Squared length of each row, in double precision."""
    lengths: Floats = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return lengths
