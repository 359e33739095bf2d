"""How far a record that takes part in several steps can move what a matrix mechanism releases.

Of a strategy C, and unit vectors u_i that a record contributes to the steps i of a pattern, the squared distance is
``sum over i, j of G_ij <u_i, u_j>`` with G = C^T C: at most the sum of the |G_ij|, which is reached if signs s_i exist
with s_i s_j G_ij >= 0 (Choquette-Choo et al. 2023, Eq. 5). Here it is bounded over all patterns of a participation.
Proofs: notebooks/mathematics.md, Matrix mechanisms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from accountant.events.matrix_strategies import Strategy
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval

__all__ = ["Participation", "columns_of", "sensitivity_of"]

ULP = 2.0**-52

WRITTEN_OUT = 256
"""Steps up to which a Toeplitz matrix is looked at like any other, too, where its own bounds differ."""


@dataclass(frozen=True)
class Participation:
    """At most `times` steps of `steps`, `separation` apart: exactly so many steps if `fixed`, else at least."""

    steps: int
    times: int
    separation: int
    fixed: bool

    @property
    def possible(self) -> int:
        """How often it can be, given the number of steps."""
        return min(self.times, -(-self.steps // self.separation))


def sensitivity_of(strategy: Strategy, participation: Participation) -> Interval:
    """Bounds on the largest distance of what is released on neighbours whose contributions have norm at most 1."""
    if isinstance(strategy[0], tuple):
        return _matrix_sensitivity(np.array(strategy), participation)
    return _toeplitz_sensitivity(np.array(strategy)[: participation.steps], participation)


def columns_of(strategy: Strategy) -> Interval:
    """Smallest and largest norm of a column, of a Toeplitz matrix with any number of steps; rounded outwards."""
    columns = np.array(strategy).reshape(len(strategy), -1)
    scale = float(np.max(np.abs(columns)))
    squares = (columns / scale) ** 2
    if squares.shape[1] == 1:
        norm = scale * math.sqrt(math.fsum(squares.ravel().tolist()))
        return Interval(norm / (1 + 8 * ULP), norm * (1 + 8 * ULP))
    norms = scale * np.sqrt(squares.sum(axis=0))
    rounding = 1 + (8 + columns.shape[0]) * ULP
    return Interval(float(norms.min()) / rounding, float(norms.max()) * rounding)


# --- Toeplitz matrices -----------------------------------------------------------------------------------------


def _toeplitz_sensitivity(column: FloatArray, participation: Participation) -> Interval:
    """The pattern 0, b, 2b, ... is the worst if the coefficients are >= 0 and do not rise, and in two more cases.

    G_ij of i < j sums c_s c_{s+j-i} over s < n - j: it falls with j, and, if the c do not rise, with j - i (Kalinin &
    Lampert 2024, Thm 2). Of fixed gaps j - i it is enough that the c are >= 0. Columns of at most b coefficients do not
    overlap. In any other case the c are replaced by coefficients that are no smaller and do not rise; of few steps
    what holds for any matrix counts where it is nearer.
    """
    sizes, times = np.abs(column), participation.possible
    apart = times == 1 or column.size <= participation.separation
    if not (apart or participation.fixed):
        sizes = np.maximum.accumulate(sizes[::-1])[::-1]
    upper = _norm_of_pattern(sizes, participation)
    signs = np.where(np.arange(column.size) % 2, -1.0, 1.0)
    aligned = any(bool((sign * column >= 0).all()) for sign in (1.0, -1.0, signs, -signs))
    if apart or (aligned and bool((sizes == np.abs(column)).all())):
        return upper
    once = replace(participation, times=1)
    tried = [(column, participation), (column * signs, participation), (column, once)]
    lower = max(_norm_of_pattern(*each).lower for each in tried)
    known = Interval(min(lower, upper.lower), upper.upper)
    if participation.steps > WRITTEN_OUT:
        return known
    other = _matrix_sensitivity(_written_out(column, participation.steps), participation)
    return Interval(max(known.lower, other.lower), min(known.upper, other.upper))


def _written_out(column: FloatArray, steps: int) -> FloatArray:
    """The matrix of the coefficients."""
    matrix = np.zeros((steps, steps))
    for first in range(steps):
        part = column[: steps - first]
        matrix[first : first + part.size, first] = part
    return matrix


def _norm_of_pattern(column: FloatArray, participation: Participation) -> Interval:
    """Norm of the sum of the columns 0, b, 2b, ..., cut off at n rows."""
    total, size = (_sum_of_pattern(each, participation) for each in (column, np.abs(column)))
    scale = float(np.max(size))
    if scale == 0.0:
        return Interval(0.0, 0.0)
    norm, whole = (scale * math.sqrt(math.fsum(((each / scale) ** 2).tolist())) for each in (total, size))
    slack = (16 + 2 * participation.possible.bit_length()) * ULP * whole
    return Interval(max(norm - slack, 0.0), norm + slack)


def _sum_of_pattern(column: FloatArray, participation: Participation) -> FloatArray:
    """The sum itself, by doubling: of k columns it takes 2 log2 k additions, each of which rounds once."""
    rows, separation, left = participation.steps, participation.separation, participation.possible
    run, total = np.zeros(rows), np.zeros(rows)
    run[: column.size] = column
    length = placed = 0
    while left:
        length = 2 * length if length else separation
        if left & 1:
            total[placed:] += run[: rows - placed]
            placed += length
        left >>= 1
        if left:
            run[length:] += run[: rows - length].copy()
    return total


# --- any matrix ------------------------------------------------------------------------------------------------


def _matrix_sensitivity(matrix: FloatArray, participation: Participation) -> Interval:
    scale = float(np.max(np.abs(matrix)))
    matrix = matrix / scale
    gram = matrix.T @ matrix
    # each entry's rounding is at most n ulp/2 of the same sum of absolute values
    sizes = np.abs(gram) + (matrix.shape[0] + 8) * ULP * (np.abs(matrix).T @ np.abs(matrix))
    worst = _worst_periodic if participation.fixed else _worst_separated
    total, pattern = worst(sizes, participation)
    part = gram[np.ix_(pattern, pattern)]
    lower = max(float(signs @ part @ signs) for signs in (np.ones(len(pattern)), np.where(part[0] < 0, -1.0, 1.0)))
    rounding = 1 + (16 + 4 * len(pattern)) * ULP
    upper = scale * math.sqrt(total) * rounding
    lower = max(lower, float(np.max(np.diag(gram))))
    slack = float(np.sum(sizes[np.ix_(pattern, pattern)] - np.abs(part)))
    return Interval(min(scale * math.sqrt(max(lower - slack, 0.0)) / rounding, upper), upper)


def _worst_periodic(sizes: FloatArray, participation: Participation) -> tuple[float, list[int]]:
    """The largest sum of entries over a pattern i, i+b, i+2b, ...: all are tried."""
    steps, separation = participation.steps, participation.separation
    found = (0.0, [0])
    for first in range(max(steps - (participation.possible - 1) * separation, separation)):
        pattern = list(range(first, steps, separation))[: participation.possible]
        found = max(found, (float(sizes[np.ix_(pattern, pattern)].sum()), pattern))
    return found


def _worst_separated(sizes: FloatArray, participation: Participation) -> tuple[float, list[int]]:
    """At least the largest sum of entries over a pattern with gaps of at least b, and a pattern with about that sum.

    Of a step i, the sum of its row over any pattern with it is at most v_i; the sum of v_i over a pattern is largest
    where a dynamic programme finds it (Choquette-Choo et al. 2023, Algorithm 4). It is exact where the entries b and
    more off the diagonal vanish.
    """
    steps, separation, times = participation.steps, participation.separation, participation.possible
    places = np.arange(steps)
    others = np.where(np.abs(places[:, None] - places) >= separation, sizes, 0.0)
    rows = np.diag(sizes) + (_best_sums(others, separation, times - 1)[-1][:, 0] if times > 1 else 0.0)
    tables = _best_sums(rows[None, :], separation, times)
    pattern: list[int] = []
    place = 0
    for left in range(times, 0, -1):
        after = tables[left - 1][0] if left > 1 else np.zeros(steps + separation)
        # the first step from which taking one is as good as anything
        while place < steps and rows[place] + after[place + separation] < tables[left][0, place]:
            place += 1
        if place >= steps:
            break
        pattern.append(place)
        place += separation
    return float(tables[times][0, 0]), pattern


def _best_sums(values: FloatArray, separation: int, times: int) -> list[FloatArray]:
    """The largest sums of 0, 1, ... entries of a row, at least `separation` apart, from j on; of many rows the last."""
    rows, steps = values.shape
    best = np.zeros((rows, steps + separation))
    found = [best]
    for _ in range(times):
        best = np.zeros_like(best)
        best[:, :steps] = values + found[-1][:, separation:]
        best = np.maximum.accumulate(best[:, ::-1], axis=1)[:, ::-1]
        found = [*found, best] if rows == 1 else [best]
    return found
