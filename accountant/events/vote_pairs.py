"""Distributions of the label that a noisy vote releases: at the votes that were cast, and at those of every neighbour.

A neighbour's votes: one changed voter takes one from a count that has some, adds one to another, or both. Counts that
are equal are told apart by their number only. Rounding goes up above and down below: probabilities carry a relative
error, and one above 1/2 is what the others leave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.finite_curves import finite_curve
from accountant.numerics.kernel import FloatArray
from accountant.numerics.noisy_max_chances import fill_gaussian_moves, gaussian_log_chance, laplace_log_chance
from accountant.patience import remember, spend

__all__ = ["WHAT", "Pairs", "pairs_of"]

IntegerArray = NDArray[np.int64]

ERROR = 4e-14
"""Relative error of a probability, and of its logarithm where that is large."""

TYPICAL = 8.0
"""Order at which the costliest neighbour is chosen for the bound from below."""

SMALLEST = 1e-300
"""Losses are not told from it below."""

NUMBERS = 1 << 16
"""Numbers held at once."""

OPERATIONS = {"gaussian": 20.0, "laplace": 5.0}
"""Of a factor of the integrand at one point."""

WHAT = "the neighbours of the votes that were cast"


class Pairs(NamedTuple):
    """Pairs of distributions, first (P, Q) of each neighbour, then (Q, P): arrays of shape (2, neighbours, outcomes).

    Logs of the first distribution's probabilities, -inf where there is no outcome, losses, and how wrong both may be.
    """

    log_masses: FloatArray
    losses: FloatArray
    mass_errors: FloatArray
    loss_errors: FloatArray

    def log_heights(self, epsilons: FloatArray, sign: int) -> FloatArray:
        """Logs of sum (P - e^epsilon Q)_+, of shape (2, neighbours, epsilons), rounded up (1) or down (-1)."""
        log_masses, losses = self.log_masses + sign * self.mass_errors, self.losses + sign * self.loss_errors
        heights = np.empty((*losses.shape[:2], epsilons.size))
        block = max(NUMBERS // losses.size, 1)
        with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
            for start in range(0, epsilons.size, block):
                points = epsilons[start : start + block]
                gains = np.log(-np.expm1(np.minimum(points - losses[..., None], 0.0)))
                heights[:, :, start : start + block] = np.logaddexp.reduce(log_masses[..., None] + gains, axis=2)
        seen = np.isfinite(heights)
        heights[seen] += sign * ERROR * (1.0 + np.abs(heights[seen]))
        return np.minimum(heights, 0.0)

    def curve(self, neighbour: int, orders: FloatArray) -> FloatArray:
        """The larger of D_a(P || Q) and D_a(Q || P) of a neighbour, at infinity a loss that is certain."""
        some = np.isfinite(self.log_masses[0, neighbour])
        log_p, log_q = self.log_masses[:, neighbour, some]
        losses = self.losses[0, neighbour, some]
        curve = np.full_like(orders, np.max(np.abs(losses) - self.loss_errors[0, neighbour, some]))
        finite = np.isfinite(orders)
        found = np.empty(int(finite.sum()))
        finite_curve(orders[finite], log_q, log_p, losses, found)
        curve[finite] = found
        return np.maximum(curve, 0.0)

    def costliest(self, order: float = TYPICAL) -> int:
        """The neighbour with about the largest D_a(P || Q) at an order a, at most 100."""
        order = min(max(order, 1.01), 100.0)
        losses, log_q = self.losses[0], self.log_masses[1]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            # E_Q of e^{a l} - 1 - a (e^l - 1)
            small = np.abs(losses) < 1e-3
            square = np.log(order * (order - 1.0) / 2.0) + 2.0 * np.log(np.abs(losses))
            exact = np.log(np.expm1(order * losses) - order * np.expm1(losses))
            logs = np.where(small, square, np.where(order * losses > 400.0, order * losses, exact))
            return int(np.argmax(np.logaddexp.reduce(log_q + logs, axis=1)))

    def largest_losses(self) -> FloatArray:
        """No loss of P over Q, or of Q over P, is larger."""
        largest: FloatArray = np.max(self.losses + self.loss_errors, axis=(1, 2))
        return np.maximum(largest, SMALLEST)


@remember(WHAT, 4096)
def pairs_of(noise: str, scale: float, votes: tuple[float, ...]) -> Pairs:
    """The pairs of all neighbours; equal counts are outcomes together."""
    values, numbers = kinds_of(votes)
    moves = np.array(list(moves_of(values, numbers)))
    spend(work(noise, scale, values.size, len(moves), float(len(votes))), WHAT)
    logs = np.full((len(moves), values.size + 2), -math.inf)
    if noise == "gaussian" and scale >= 1.0:
        fill_gaussian_moves(values, numbers, scale, moves.astype(float), logs)
    else:
        fill_moves(noise, scale, values, numbers, moves, logs)
    # of no move (the first), and of all others; labels of a value, then what lost and what gained a vote
    lost, gained = moves[1:].T
    places = np.arange(values.size)
    left = numbers - (places == lost[:, None]) - (places == gained[:, None])
    left = np.column_stack([left, lost >= 0, gained >= 0]).astype(float)
    after, after_errors = with_errors(logs[1:], left)
    own, own_errors = (part[0] for part in with_errors(logs[:1, :-2], numbers[None]))
    before, before_errors = (
        np.column_stack([np.broadcast_to(part, (lost.size, places.size)), part[lost], part[gained]])
        for part in (own, own_errors)
    )
    some = left > 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        losses = np.where(some, before - after, 0.0)
        errors = np.where(some, before_errors + after_errors + 4e-16 * np.abs(losses), 0.0)
        masses = [np.where(some, part + np.log(left), -math.inf) for part in (before, after)]
    mass_errors = [np.where(some, part, 0.0) for part in (before_errors, after_errors)]
    return Pairs(np.stack(masses), np.stack([losses, -losses]), np.stack(mass_errors), np.stack([errors, errors]))


def kinds_of(votes: tuple[float, ...]) -> tuple[FloatArray, FloatArray]:
    """Different counts, and how many labels have each."""
    values, numbers = np.unique(votes, return_counts=True)
    return values.astype(float), numbers.astype(float)


def foreseen_size(votes: tuple[float, ...]) -> tuple[int, int]:
    """Neighbours and outcomes of the pairs, counted without making them."""
    values, numbers = kinds_of(votes)
    moves = (1 + int((values > 0.0).sum())) * (1 + values.size) - int(((values > 0.0) & (numbers == 1.0)).sum())
    return moves - 1, values.size + 2


def work(noise: str, scale: float, kinds: int, moves: int, counts: float) -> float:
    """Operations that the probabilities take."""
    if noise == "gaussian" and scale >= 1.0:
        points = 38.0 * math.sqrt(counts)
        return points * kinds * (9.0 * kinds * OPERATIONS[noise] + 2.0 * 20.0 * moves)
    points = 31.0 * math.sqrt(counts) + 40.0 if noise == "gaussian" else 4000.0 * max(1.0, counts / 8.0)
    return moves * (kinds + 2) * ((kinds + 2) * points * OPERATIONS[noise] + 2e4)


def moves_of(values: FloatArray, numbers: FloatArray) -> Iterator[tuple[int, int]]:
    """Which count loses a vote, and which wins one, by places among the values, -1 being none: first no move."""
    for lost in range(-1, values.size):
        if lost < 0 or values[lost] > 0.0:
            for gained in range(-1, values.size):
                if lost != gained or lost < 0 or numbers[lost] > 1.0:
                    yield lost, gained


def fill_moves(
    noise: str, scale: float, values: FloatArray, numbers: FloatArray, moves: IntegerArray, logs: FloatArray
) -> None:
    """Fill what `fill_gaussian_moves` does, each probability by itself."""
    chance = gaussian_log_chance if noise == "gaussian" else laplace_log_chance
    for row, (lost, gained) in enumerate(moves.tolist()):
        left, after = np.append(numbers, [0.0, 0.0]), np.append(values, [0.0, 0.0])
        for place, column, step in ((lost, -2, -1.0), (gained, -1, 1.0)):
            if place >= 0:
                left[place] -= 1.0
                left[column], after[column] = 1.0, values[place] + step
        for column in np.flatnonzero(left).tolist():
            others = left.copy()
            others[column] -= 1.0
            some = others > 0.0
            logs[row, column] = chance((after[column] - after[some]) / scale, others[some])


def with_errors(logs: FloatArray, left: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logs of probabilities in rows, that above 1/2 as 1 less all others, and how wrong they may be."""
    errors = ERROR * (1.0 + np.abs(logs))
    rows, top = np.arange(len(logs)), np.where(left > 0.0, logs, -math.inf).argmax(axis=1)
    with np.errstate(under="ignore", invalid="ignore"):
        others = np.where(left > 0.0, left * np.exp(logs), 0.0)
        others[rows, top] = 0.0
        total, wrong = others.sum(axis=1), np.where(others > 0.0, others * errors, 0.0).sum(axis=1)
    alone = (left[rows, top] == 1.0) & (total < 0.5)
    logs, rows, top = logs.copy(), rows[alone], top[alone]
    logs[rows, top] = np.log1p(-total[alone])
    errors[rows, top] = 2.0 * wrong[alone] + 4e-16 * total[alone]
    return logs, errors
