"""What the sum of a truncated Poisson sample tells of how full the batch is, if all others' vectors are alike.

See notebooks/mathematics.md, Prices from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.event import Event
from accountant.events.truncated_cells import ERROR, Cell, Crowd
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import betaincc, ndtr
from accountant.numerics.special import log_binomial_pmf

__all__ = ["BatchSeen", "Truncation", "batch_seen"]

WIDEST = 100.0
"""Noise, in clips, up to which an attacker reads the size of the batch."""

READ = 7.0
"""Standard deviations of the noise around a full batch that are told apart."""

ANGLES = (math.pi / 2, 2.0, 2.5, 3.0, math.pi)
"""Between the individual's vector and all others'."""

SMALLEST = 1e-290
"""Probability of a sum that is looked at."""

FAR = 45.0
"""Standard deviations beyond which noise does not reach."""


@dataclass(frozen=True)
class BatchSeen(Event):
    """All other vectors are the same, at an angle to the individual's: the sum tells about how many there are.

    A cell is what an attacker reads along them, a range of sums; across stands the individual's vector. Of several
    readings, one for each angle, the best is taken at each epsilon: that is for a release by itself.
    """

    _profile_error = ERROR

    readings: tuple[tuple[Cell, ...], ...]
    above: Event
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    @property
    def _amplified(self) -> bool:
        return False

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.above._curve(orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.above._curve_work()

    def _profile_work(self) -> float:
        return 250.0 * sum(len(cells) for cells in self.readings)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        remove, add = (
            np.max([log_sum_of(cells, epsilons, forward) for cells in self.readings], axis=0)
            for forward in (True, False)
        )
        return remove, add

    def best(self) -> BatchSeen:
        """The reading that tells most on average, of both directions: for one of several releases."""
        points = np.linspace(0.0, 40.0, 401)

        def told(cells: tuple[Cell, ...]) -> float:
            # D_1(P||Q) is the integral of H_e(P||Q) + e^-e H_e(Q||P) over e >= 0
            one, other = (np.exp(log_sum_of(cells, points, forward)) for forward in (True, False))
            return float(np.sum((one + other) * (1 + np.exp(-points))))

        return BatchSeen((max(self.readings, key=told),), self.above)


def log_sum_of(cells: tuple[Cell, ...], epsilons: FloatArray, forward: bool) -> FloatArray:
    """Log of the profile of cells of which it is told which it is."""
    logs = np.full_like(epsilons, -math.inf)
    for cell in cells:
        logs = np.logaddexp(logs, cell.log_profile(epsilons, forward))
    return np.minimum(logs, 0.0)


class Truncation(NamedTuple):
    """Records of the larger data set, largest batch, and noise in clips."""

    records: int
    largest: int
    noise: float


@lru_cache(maxsize=64)
def batch_seen(crowd: Crowd, cut: Truncation, above: Event) -> BatchSeen | None:
    """What is read of such data, at several angles; None where there is too much noise to read a number."""
    return BatchSeen(tuple(reading(crowd, cut, angle) for angle in ANGLES), above) if cut.noise <= WIDEST else None


def reading(crowd: Crowd, cut: Truncation, angle: float) -> tuple[Cell, ...]:
    """Cells of sums along the others' vectors."""
    noise, largest = cut.noise, cut.largest
    step = noise / 2 if noise > 0.25 else 1.0
    many = math.ceil((2 * READ * noise + 4) / step)
    edges: FloatArray = largest - 0.5 + step * (np.arange(float(many)) - many // 2)
    first = max(0, math.floor(float(edges[0]) - FAR * noise) - 2)
    k: FloatArray = np.arange(float(first), largest + 1.0)
    room = np.exp([log_binomial_pmf(cut.records - 1.0, each, crowd.rate) for each in k[:-1].tolist()])
    full, swapped = math.exp(crowd.log_full), math.exp(crowd.log_full) * crowd.full_rate
    # by the number of others: Q, what P lacks of it, and what P has with the individual
    masses = np.append(room, full), np.append(crowd.rate * room, swapped), np.append(crowd.rate * room, 0.0)
    masses[2][-2] += swapped
    still, moved = (read(edges, k + shift, noise) for shift in (0.0, math.cos(angle)))
    seen = [each @ shares for each, shares in zip(masses, (still, still, moved), strict=True)]
    if first > 0:  # fewer others are read as fewer
        below = float(betaincc(float(first), cut.records - 1.0 - first + 1.0, crowd.rate))
        for each, share in zip(seen, (1.0, crowd.rate, crowd.rate), strict=True):
            each[0] += below * share
    across = max(math.sin(angle), 0.0) / noise if angle < math.pi else 0.0
    return tuple(
        Cell(math.log(mass), lack / mass, joined / mass, across)
        for mass, lack, joined in zip(*(each.tolist() for each in seen), strict=True)
        if mass > SMALLEST
    )


def read(edges: FloatArray, places: FloatArray, noise: float) -> FloatArray:
    """Probability that a number at each place is read in each range between edges, the outer ones unlimited."""
    z = (np.concatenate([[-math.inf], edges, [math.inf]]) - places[:, None]) / noise
    low, high = z[:, :-1], z[:, 1:]
    return np.asarray(np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))
