"""Gaussian noise on truncated Poisson samples, in cells: how many others the batch has room for.

See notebooks/mathematics.md, Truncated Poisson samples.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from accountant.adjacency import Adjacency, Direction
from accountant.events.clipped_sum import sampled_replacement_log_profile
from accountant.events.event import Event
from accountant.events.gaussian import gaussian_log_profile
from accountant.numerics.binomial_tails import log_binomial_tails
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_binomial_pmf

__all__ = ["ERROR", "Cell", "Crowd", "SplitBatch", "SwappedInPlace"]

HALVINGS = 30
"""Steps of the search for the best share; any share is a bound."""

SECTIONS = 60
"""Steps of the search by golden sections."""

LARGEST_RATIO = 1e250
"""How much likelier a full batch may be than one with room for just one more."""

LEAST = -1e4
"""Log of a probability that is added where there is none, so that shares of it are numbers."""

SHARE_CALL, SWAPPED_CALL = 4e6, 1.3e6
"""Operations (see `accountant.patience`) of a call of a profile: where shares are sought by halves, and otherwise."""

ERROR = 1e-11
"""More than the relative rounding of a probability."""


class Cell(NamedTuple):
    """Q = N(0, 1) and P = (1 - lack) N(0, 1) + moved N(distance, 1), which need not weigh 1, both times e^log_mass."""

    log_mass: float
    lack: FloatArray | float
    moved: FloatArray | float
    distance: float

    def log_inner(self, epsilons: FloatArray) -> FloatArray:
        """H_e(P||Q) is `moved` times that of N(distance, 1) and N(0, 1) at this."""
        with np.errstate(divide="ignore", over="ignore"):
            few = np.log(np.expm1(np.minimum(epsilons, 40.0)) + self.lack)
            return np.asarray(np.where(epsilons > 40.0, epsilons, few) - np.log(self.moved))

    def log_kept(self, epsilons: FloatArray) -> FloatArray:
        """Log of 1 - (1 - lack) e^e, which times another H is H_e(Q||P); -inf where P is everywhere more."""
        with np.errstate(divide="ignore", over="ignore"):
            gone = np.expm1(np.minimum(epsilons, 700.0)) * (1 - self.lack)
            return np.asarray(np.log(np.maximum(self.lack - gone, 0.0)))

    def log_profile(self, epsilons: FloatArray, forward: bool) -> FloatArray:
        """Log of H_e(P||Q), or of H_e(Q||P), at epsilons >= 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if forward:
                logs = np.log(self.moved) + gaussian_log_profile_at(self.distance, self.log_inner(epsilons))
            else:
                kept = self.log_kept(epsilons)
                place = np.where(kept > -math.inf, epsilons + np.log(self.moved) - kept, 0.0)
                logs = kept + gaussian_log_profile_at(self.distance, place)
        return np.asarray(np.where(np.isnan(logs), -math.inf, logs) + self.log_mass)

    def end(self, epsilons: FloatArray, forward: bool) -> FloatArray:
        """Where the test that decides between P and Q begins, as the place of the moved half of P."""
        mu = self.distance
        with np.errstate(divide="ignore", invalid="ignore"):
            if forward:
                return np.asarray(self.log_inner(epsilons) / mu - mu / 2)
            return np.asarray(-mu / 2 - (epsilons + np.log(self.moved) - self.log_kept(epsilons)) / mu)


def gaussian_log_profile_at(mu: float, epsilons: FloatArray) -> FloatArray:
    """That of Gaussian noise at any real, H_-e = 1 - e^-e + e^-e H_e, or at -inf or inf."""
    size = np.abs(epsilons)
    logs = gaussian_log_profile(mu, np.minimum(size, 1e300))
    with np.errstate(divide="ignore", under="ignore"):
        turned = np.logaddexp(np.log(-np.expm1(-size)), logs - size)
        return np.asarray(np.where(epsilons < 0, turned, logs))


class Crowd(NamedTuple):
    """How often the others leave room for two, for one, and for none; how often the individual joins, and then is kept.

    `log_swapped` is of the probability that the individual takes another's place.
    """

    log_roomy: float
    log_last: float
    log_full: float
    rate: float
    full_rate: float
    log_swapped: float

    @classmethod
    def of(cls, rate: float, records: int, largest: int, log_full: float, full_rate: float) -> Crowd:
        others, log_swapped = records - 1, log_full + math.log(full_rate)
        if rate == 1.0:
            return cls(-math.inf, -math.inf, log_full, rate, full_rate, log_swapped)
        log_last = log_binomial_pmf(float(others), float(largest - 1), rate)
        log_roomy, _ = log_binomial_tails(others, largest - 1, rate)
        return cls(log_roomy, log_last, log_full, rate, full_rate, log_swapped)

    @property
    def rarely_last(self) -> bool:
        """Whether room for just one is too rare to matter."""
        return not (self.log_last > -600.0 and self.log_swapped - self.log_last < math.log(LARGEST_RATIO))


@dataclass(frozen=True)
class Coupled(Event):
    """A truncated Poisson sample, bounded by the best of many couplings of its swaps.

    `whole` is the same by one coupling, `least` what some data reach.
    """

    _profile_error = ERROR
    between_bounds: ClassVar[bool] = True

    crowd: Crowd
    distance: float
    whole: Event
    least: Event
    adjacency: Adjacency

    @property
    def _amplified(self) -> bool:
        return False

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.whole._curve(orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.whole._curve_work()

    @abstractmethod
    def _profile_work(self) -> float: ...

    @abstractmethod
    def _call_work(self) -> float: ...

    def _profile_knots(self) -> Sequence[float]:
        return self.whole._profile_knots()

    def _certain(self, times: int = 1) -> Event:
        return self.least

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(BestOfCouplings(self, self.adjacency), 1)]


@dataclass(frozen=True)
class SplitBatch(Coupled):
    """A truncated Poisson sample under add-remove adjacency, bounded by the best of many couplings.

    Where the individual takes another's place, the sample is compared with a full one for a share of the probability,
    and for the rest with one that has room for just one more, which that other is not in.
    """

    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _profile_work(self) -> float:
        return 8.0 * self.whole._profile_work()

    def _call_work(self) -> float:
        return SHARE_CALL

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        remove, add = (self._best(epsilons, forward) for forward in (True, False))
        return remove, add

    def _cells(self, share: FloatArray) -> tuple[Cell, Cell]:
        """Room for just one more, and none, if a share is compared with full batches."""
        crowd, mu = self.crowd, self.distance
        swapped = math.exp(crowd.log_swapped - crowd.log_last)
        last = Cell(crowd.log_last, crowd.rate, crowd.rate + (1 - share) * swapped, mu)
        return last, Cell(crowd.log_full, crowd.full_rate, share * crowd.full_rate, 2 * mu)

    def _best(self, epsilons: FloatArray, forward: bool) -> FloatArray:
        """H is convex in the share, and least where the two tests begin at the same place of the moved halves."""
        low, high = np.zeros_like(epsilons), np.ones_like(epsilons)
        for _ in range(HALVINGS):
            share = (low + high) / 2
            last, full = (cell.end(epsilons, forward) for cell in self._cells(share))
            low, high = np.where(last < full, share, low), np.where(last < full, high, share)
        crowd = self.crowd
        logs = Cell(crowd.log_roomy, crowd.rate, crowd.rate, self.distance).log_profile(epsilons, forward)
        for cell in self._cells(np.where(low == 0.0, 0.0, np.where(high == 1.0, 1.0, low))):
            logs = np.logaddexp(logs, cell.log_profile(epsilons, forward))
        return np.minimum(logs, 0.0)


@dataclass(frozen=True)
class SwappedInPlace(Coupled):
    """The same where the individual's record is in its place on both data sets, with another vector, or with 0.

    `nearer` is as `whole`, with full batches that are compared as samples of a fixed size; `alone` is of both vectors.
    """

    nearer: Event
    alone: Event

    def _curve(self, orders: FloatArray) -> FloatArray:
        """No more than that of both vectors, which the same samples have in the same place."""
        return np.minimum(self.nearer._curve(orders), self.alone._curve(orders))

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.nearer._curve_work()

    def _profile_work(self) -> float:
        return 2.0 * self.whole._profile_work() + 1000.0

    def _call_work(self) -> float:
        return SWAPPED_CALL

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """H is convex in the share and e^e together: linear in e^e between best shares, it is as good as convex."""
        remove, add = (
            self._log_sum(best_shares(self, epsilons, forward), epsilons, forward) for forward in (True, False)
        )
        return remove, add

    def _log_sum(self, share: FloatArray, epsilons: FloatArray, forward: bool) -> FloatArray:
        """Log of H if a share of the swaps is compared with full batches."""
        crowd, u = self.crowd, self.distance
        with np.errstate(divide="ignore"):
            log_moved = np.log1p(-share) + crowd.log_swapped
        log_last = np.logaddexp(max(crowd.log_last, LEAST), log_moved)
        moved, rest = np.exp(log_moved - log_last), 1 - (1 - share) * crowd.full_rate
        last = crowd.rate + (1 - crowd.rate) * moved
        swapped = self._log_swapped(share * crowd.full_rate / rest, epsilons, forward)
        logs = crowd.log_full + np.log(rest) + np.where(share > 0.0, swapped, -math.inf)
        for log_mass, rate in ((crowd.log_roomy, crowd.rate), (log_last, last)):
            if self.adjacency is Adjacency.REPLACE:
                own = sampled_replacement_log_profile(u, rate, epsilons)
            else:
                own = Cell(0.0, rate, rate, u).log_profile(epsilons, forward)
            logs = np.logaddexp(logs, log_mass + own)
        return np.asarray(np.minimum(logs, 0.0))

    def _log_swapped(self, rate: FloatArray, epsilons: FloatArray, forward: bool) -> FloatArray:
        """A full batch, in which either vector takes another's place: as in a sample of a fixed size."""
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = Cell(0.0, rate, rate, 2 * self.distance), Cell(0.0, rate, rate, self.distance)
            if self.adjacency is Adjacency.REPLACE:
                return one.log_profile(epsilons, forward=True)
            own = other.log_profile(epsilons, forward=True)
            if not forward:
                return own
            log_beta = np.minimum(epsilons - one.log_inner(epsilons), 0.0)
            apart = np.log(-np.expm1(log_beta)) + one.log_profile(epsilons, forward=True)
            return np.asarray(np.logaddexp(apart, log_beta + own))


@dataclass(frozen=True)
class BestOfCouplings(Event):
    """The profile of the best couplings, as that of a release."""

    _profile_error = ERROR

    split: Coupled
    adjacency: Adjacency

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.split._curve(orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.split._curve_work()

    def _profile_work(self) -> float:
        return self.split._profile_work()

    def _call_work(self) -> float:
        return self.split._call_work()

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.split._log_profile(epsilons)

    def _profile_knots(self) -> Sequence[float]:
        return self.split._profile_knots()


def best_shares(event: SwappedInPlace, epsilons: FloatArray, forward: bool) -> FloatArray:
    """Near the best share at each epsilon."""
    points, shares = shares_at_points(event, forward)
    at = np.clip(np.searchsorted(points, epsilons, side="right"), 1, points.size - 1)
    low, high = points[at - 1], points[at]
    # e^e, from the lower point on, in terms of the cell's; beyond the last point as there
    place = np.expm1(np.minimum(epsilons, high) - low) / np.expm1(high - low)
    return np.asarray(shares[at - 1] * (1 - place) + shares[at] * place)


@lru_cache(maxsize=256)
def shares_at_points(event: SwappedInPlace, forward: bool) -> tuple[FloatArray, FloatArray]:
    """Points, and the best shares there, by golden sections."""
    small, large = np.geomspace(1e-6, 0.1, 40), 1.25 ** np.arange(12.0, 29.0)
    points = np.concatenate([[0.0], small, np.linspace(0.1, 12.0, 150)[1:], large])
    low, high, part = np.zeros_like(points), np.ones_like(points), (math.sqrt(5.0) - 1) / 2
    for _ in range(SECTIONS):
        left, right = high - part * (high - low), low + part * (high - low)
        sinks = event._log_sum(left, points, forward) > event._log_sum(right, points, forward)
        low, high = np.where(sinks, left, low), np.where(sinks, high, right)
    return points, (low + high) / 2
