"""What the sum of a truncated Poisson sample tells of how full the batch is, if all others' vectors are alike.

See notebooks/mathematics.md, Prices from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.clipped_sum import sampled_replacement_log_profile
from accountant.events.event import Event
from accountant.events.truncated_cells import ERROR, Cell, Crowd
from accountant.numerics.binomial_tails import log_binomial_tails
from accountant.numerics.kernel import FloatArray
from accountant.numerics.mills import INTEGRATED
from accountant.numerics.scipy_special import ndtr
from accountant.numerics.special import log_binomial_pmf
from accountant.patience import spend

__all__ = ["TOLD", "BatchSeen", "Truncation", "batch_seen", "usual_sum"]

WIDEST = 100.0
"""Noise, in clips, up to which an attacker reads the size of the batch."""

READ = 7.0
"""Standard deviations of the noise around a full batch that are told apart."""

ANGLES = (math.pi / 2, 1.8, 2.0, 2.2, 2.5, math.pi)
"""Between the individual's vector and all others'."""

SIDES = (math.pi / 2, 2.0, 2.5)
"""The same where the vectors of both data sets stand on opposite sides of all others'."""

DEVIATIONS = 4.3
"""Standard deviations that are seldom exceeded, by which readings are compared."""

TOLD: FloatArray = np.concatenate([[0.0], np.geomspace(1e-4, 40.0, 400)])
"""Epsilons at which a profile tells mean and deviation of its losses."""

SMALLEST = 1e-290
"""Probability of a sum that is looked at."""

FAR = 45.0
"""Standard deviations beyond which noise does not reach."""

CALL, SHORT, LONG = 2e5, 2500.0, 300.0
"""Operations (see `accountant.patience`) of a cell's profile in both directions: of a call, and of a value where
differences of Mills' ratio are integrated, and where they are not."""


class Opposite(NamedTuple):
    """(1 - rate) N(0, 1) + rate N(+-distance, 1), which stand for the two data sets, times e^log_mass."""

    log_mass: float
    rate: float
    distance: float

    def log_profile(self, epsilons: FloatArray, forward: bool) -> FloatArray:
        """Log of H_e at epsilons >= 0, the same in both directions."""
        logs = sampled_replacement_log_profile(self.distance, self.rate, epsilons)
        return np.asarray(logs + self.log_mass)


Reading = tuple[Cell | Opposite, ...]
"""What may be read of the batch, and what that tells."""


@dataclass(frozen=True)
class BatchSeen(Event):
    """All other vectors are the same, at an angle to the individual's: the sum tells about how many there are.

    A cell is what an attacker reads along them, a range of sums; across stands the individual's vector. Under REPLACE
    the vector in its place is one more of the same, or stands at the same angle on the other side. Of several
    readings, one for each angle, the best is taken at each epsilon: that is for a release by itself.
    """

    _profile_error = ERROR

    readings: tuple[Reading, ...]
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
        lengths = (cell.distance for cells in self.readings for cell in cells)
        return math.fsum(SHORT if 0.0 < length <= INTEGRATED else LONG for length in lengths)

    def _call_work(self) -> float:
        return CALL * sum(len(cells) for cells in self.readings)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        remove, add = (
            np.max([log_sum_of(cells, epsilons, forward) for cells in self.readings], axis=0)
            for forward in (True, False)
        )
        return remove, add

    def best(self, times: int) -> BatchSeen:
        """The reading that costs most if as many normal losses of the same mean and variance do: one for all."""
        work = TOLD.size * self._profile_work() + self._call_work()
        spend(work, f"{len(self.readings)} readings of a full batch", once=(BatchSeen, self, times))
        return _best_of(self, times)


@lru_cache(maxsize=64)
def _best_of(seen: BatchSeen, times: int) -> BatchSeen:
    """A price asks for it at every tolerance."""
    return BatchSeen((max(seen.readings, key=lambda cells: told(cells, times)),), seen.above, seen.adjacency)


def told(cells: Reading, times: int) -> float:
    """Mean and DEVIATIONS of the sum of so many losses, in the worse direction."""
    one, other = (np.exp(log_sum_of(cells, TOLD, forward)) for forward in (True, False))
    return usual_sum(one, other, times)


def usual_sum(one: FloatArray, other: FloatArray, times: int) -> float:
    """The same of a profile in both directions, at the epsilons TOLD.

    D_1(P||Q) is the integral of H_e(P||Q) + e^-e H_e(Q||P) over e >= 0, and the mean square of the loss that of
    2 (1 + e) H_e(P||Q) + 2 (1 - e) e^-e H_e(Q||P).
    """
    fall, found = np.exp(-TOLD), 0.0
    for first, second in ((one, other), (other, one)):
        mean = float(np.trapezoid(first + fall * second, TOLD))
        square = 2 * float(np.trapezoid((1 + TOLD) * first + (1 - TOLD) * fall * second, TOLD))
        found = max(found, times * mean + DEVIATIONS * math.sqrt(times * max(square - mean**2, 0.0)))
    return found


def log_sum_of(cells: Reading, epsilons: FloatArray, forward: bool) -> FloatArray:
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
def batch_seen(crowd: Crowd, cut: Truncation, above: Event, adjacency: Adjacency) -> BatchSeen | None:
    """What is read of such data, at several angles; None where there is too much noise to read a number."""
    if cut.noise > WIDEST:
        return None
    if adjacency is Adjacency.REPLACE:
        sides: tuple[Reading, ...] = tuple(reading(crowd, cut, angle, "opposite") for angle in SIDES)
        alike = tuple(reading(crowd, cut, angle, "alike") for angle in ANGLES)
        return BatchSeen((*sides, *alike), above, adjacency)
    return BatchSeen(tuple(reading(crowd, cut, angle) for angle in ANGLES), above, adjacency)


def reading(
    crowd: Crowd, cut: Truncation, angle: float, instead: Literal["nothing", "alike", "opposite"] = "nothing"
) -> Reading:
    """Cells of sums along the others' vectors, and what is there instead of the individual's."""
    noise, largest = cut.noise, cut.largest
    step = noise / 2 if noise > 0.25 else 1.0
    many = math.ceil((2 * READ * noise + 4) / step)
    edges: FloatArray = largest - 0.5 + step * (np.arange(float(many)) - many // 2)
    first = max(0, math.floor(float(edges[0]) - FAR * noise) - 2)
    k: FloatArray = np.arange(float(first), largest + 1.0)
    room = np.exp([log_binomial_pmf(cut.records - 1.0, each, crowd.rate) for each in k[:-1].tolist()])
    full, swapped = math.exp(crowd.log_full), math.exp(crowd.log_full) * crowd.full_rate
    # by the number of others: batches without the individual, and with it
    gone, kept = np.append((1 - crowd.rate) * room, full - swapped), np.append(crowd.rate * room, 0.0)
    kept[-2] += swapped
    still, moved = (read(edges, k + shift, noise) for shift in (0.0, math.cos(angle)))
    left, joined = gone @ still, kept @ moved
    if instead == "nothing":
        replaced = np.append(crowd.rate * room, swapped) @ still
    else:
        replaced = kept @ read(edges, k + 1.0, noise) if instead == "alike" else joined
    if first > 0:  # fewer others are read as fewer
        below = math.exp(log_binomial_tails(cut.records - 1, first, crowd.rate)[0])
        left[0] += (1 - crowd.rate) * below
        joined[0] += crowd.rate * below
        if instead != "opposite":
            replaced[0] += crowd.rate * below
    across = max(math.sin(angle), 0.0) / noise if angle < math.pi else 0.0
    cells: list[Cell | Opposite] = []
    for rest, lack, own in zip(left.tolist(), replaced.tolist(), joined.tolist(), strict=True):
        mass = rest + lack
        if mass > SMALLEST and instead == "opposite":
            if own > 0.0:
                cells.append(Opposite(math.log(mass), min(own / mass, 1 - 1e-16), across))
        elif mass > SMALLEST:
            cells.append(Cell(math.log(mass), lack / mass, own / mass, across))
    return tuple(cells)


def read(edges: FloatArray, places: FloatArray, noise: float) -> FloatArray:
    """Probability that a number at each place is read in each range between edges, the outer ones unlimited."""
    z = (np.concatenate([[-math.inf], edges, [math.inf]]) - places[:, None]) / noise
    low, high = z[:, :-1], z[:, 1:]
    return np.asarray(np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))
