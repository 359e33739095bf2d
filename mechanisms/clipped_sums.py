"""Sums of the clipped gradients of records, exact in any order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from mechanisms.arrays import Floats

__all__ = ["GRADIENT_GRAIN", "add_clipped", "row_lengths"]

GRADIENT_GRAIN = 2.0**-30
"""Gradients, in units of the clip, are multiples of it, as exact noise on a lattice needs."""


def add_clipped(layers: Sequence[tuple[Floats, Floats]], clip: float) -> list[Floats]:
    """Sums over records of the outer products of each layer's rows, all layers of a record scaled by one factor.

    In units of `clip`, multiples of GRADIENT_GRAIN; what a record adds to all sums is at most 1 in L2 norm.
    """
    # computed norms are right to 1e-12 for all widths that fit into memory (Higham 2002, section 3.1)
    inside = 1 - 1e-12
    lengths = [row_lengths(left) for left, _ in layers]
    norms = reduce(np.hypot, (length * row_lengths(right) for length, (_, right) in zip(lengths, layers, strict=True)))
    factor = np.minimum(1 / np.maximum(norms, 1e-300), 1 / clip)
    sums = []
    for length, (left, right) in zip(lengths, layers, strict=True):
        rows = _round_down(left * (inside / length)[:, None])
        sums.append(rows.T @ _round_down(right * (inside * length * factor)[:, None]) * GRADIENT_GRAIN)
    return sums


def row_lengths(rows: Floats) -> Floats:
    """L2 norms of rows, each by itself."""
    found: Floats = np.sqrt(np.sum(rows * rows, axis=1))
    return found


def _round_down(values: Floats) -> Floats:
    """Values in units of sqrt(GRADIENT_GRAIN), rounded towards zero to whole numbers."""
    return np.trunc(values / math.sqrt(GRADIENT_GRAIN))
