"""What a noisy maximum of two candidates tells: a bound from below on what one of any number costs.

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
from accountant.events.randomized_response import PureDP
from accountant.numerics.kernel import FloatArray

__all__ = ["BestLead", "Contest", "reached_by_two"]

HALVINGS = 60
"""Steps of the search for the best lead."""

FAR = 600.0
"""Scales of noise up to which leads are looked at."""

ROUNDING = 1e-13
"""More than the rounding of what is added and subtracted, relative to its sizes."""

LARGEST = 1e6
"""Largest loss of a bit."""


class Contest(NamedTuple):
    """Two candidates, of which the one with the larger noisy score wins.

    A lead is the difference of their scores, in scales of the noise; between neighbours it changes by `apart`. With
    Laplace noise the other's may have a scale of `other`, as a threshold's has.
    """

    noise: str
    apart: float
    other: float = 1.0

    def log_wins(self, lead: FloatArray) -> FloatArray:
        """Log of the probability that the one who leads wins: symmetric about 1/2."""
        size = np.abs(lead)
        with np.errstate(under="ignore"):
            log_loses = -size + self._log_share(size)
            return np.where(lead < 0, log_loses, np.log1p(-np.exp(log_loses)))

    def _log_share(self, size: FloatArray) -> FloatArray | float:
        """Log of the probability that the one who leads loses, over e^-lead."""
        if self.noise != "laplace":
            return -math.log(2.0)
        if self.other == 1.0:
            return np.log((2 + size) / 4)
        r = self.other
        with np.errstate(over="ignore"):
            return np.log((1 - r * r * np.exp(size * (1 - 1 / r))) / (2 * (1 - r * r)))

    def excess(self, lead: FloatArray) -> FloatArray:
        """By how much that probability is above 1/2."""
        size = np.abs(lead)
        with np.errstate(under="ignore"):
            if self.noise == "laplace" and self.other != 1.0:
                r = self.other
                half = (r * r * np.expm1(-size / r) - np.expm1(-size)) / (2 * (1 - r * r))
            elif self.noise == "laplace":
                half = -np.expm1(-size) / 2 - size * np.exp(-size) / 4
            else:
                half = -np.expm1(-size) / 2
        return np.asarray(np.copysign(half, lead))

    def best_lead(self, epsilons: FloatArray) -> FloatArray:
        """About where P(lead) - e^epsilon P(lead - apart) is largest, P the probability to win."""
        a = self.apart
        left = np.maximum(a - epsilons, 0.0)
        if self.noise != "laplace":
            return left / 2
        if self.other != 1.0:
            return self._searched_lead(epsilons)
        # the density is (1 + |x|) e^-|x|/4: the ratio of its values at x and x - a falls, and at x < 0 is known
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            beyond = a / np.expm1(left) - 1.0
        low, high = np.zeros_like(left), np.full_like(left, a / 2)
        for _ in range(HALVINGS):
            x = (low + high) / 2
            above = np.log1p(x) - x - np.log1p(a - x) + (a - x) > epsilons
            low, high = np.where(above, x, low), np.where(above, high, x)
        return np.where(beyond > 0, -np.minimum(beyond, 1e15), low)

    def _searched_lead(self, epsilons: FloatArray) -> FloatArray:
        """The same where the scales differ: the ratio of densities falls, and a lead far out is as good as any."""
        r, a = self.other, self.apart

        def log_density(x: FloatArray) -> FloatArray:
            # of the wider scale, times what the narrower one takes away
            size, wide = np.abs(x), max(r, 1.0)
            lacking = np.exp(-size * abs(1 - 1 / r)) * (r if r < 1.0 else 1 / r)
            return np.asarray(-size / wide + np.log1p(-lacking))

        low, high = np.full_like(epsilons, -FAR * max(r, 1.0)), np.full_like(epsilons, a / 2)
        for _ in range(HALVINGS):
            x = (low + high) / 2
            above = log_density(x) - log_density(x - a) > epsilons
            low, high = np.where(above, x, low), np.where(above, high, x)
        return low

    def log_reached(self, epsilons: FloatArray) -> FloatArray:
        """Log of the largest P(lead) - e^epsilon P(lead - apart), or less, at epsilons >= 0."""
        return self._log_at(epsilons, self.best_lead(epsilons))

    def _log_at(self, epsilons: FloatArray, lead: FloatArray) -> FloatArray:
        """The same at a lead, as a ratio of probabilities or as their difference."""
        trails = self.apart - lead
        one, other = self.log_wins(lead), self.log_wins(-trails)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            sizes = np.abs(one) + np.abs(other) + epsilons + np.abs(lead) * ROUNDING + 1e-290
            fall = one - other - epsilons - ROUNDING * sizes
            ratio = np.where(fall > 0, one + np.log(-np.expm1(-np.maximum(fall, 0.0))), -math.inf)
            gains, cost = (self.excess(lead), self.excess(trails)), np.expm1(epsilons) * np.exp(other)
            gap = gains[0] + gains[1] - cost - ROUNDING * (np.abs(gains[0]) + np.abs(gains[1]) + cost)
            difference = np.log(np.where(gap > 0, gap, 0.0))
        found = np.fmax(ratio, difference)  # numbers that left the range of floats tell nothing
        found = np.where(np.isnan(found), -math.inf, found)
        return np.asarray(np.minimum(found, 0.0))

    def bit(self) -> float:
        """The loss of either outcome, where the leads are apart/2 and -apart/2: randomized response."""
        half = np.array([self.apart / 2])
        share = 2 * float(self.excess(half)[0])
        known = 2 * math.atanh(share) if share < 0.9 else float((self.log_wins(half) - self.log_wins(-half))[0])
        loss = min(known * (1 - 1e-13), LARGEST)
        return loss if loss >= 1e-50 else 0.0


@dataclass(frozen=True)
class BestLead(Event):
    """A single noisy maximum of two candidates, whose scores an attacker chooses for each epsilon."""

    contest: Contest
    above: Event
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.above._curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = self.contest.log_reached(epsilons)
        return both, both


@lru_cache(maxsize=256)
def reached_by_two(contest: Contest, above: Event, times: int) -> Event:
    """What two candidates tell: of a single release, with the best lead; of one of several, with a fair one."""
    return BestLead(contest, above, above.adjacency) if times == 0 else PureDP(contest.bit(), above.adjacency)
