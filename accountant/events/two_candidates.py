"""What a noisy maximum of few candidates, or of one and a crowd, tells: a bound from below on what any other costs.

See notebooks/mathematics.md, Prices from below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import Outcomes
from accountant.events.event import Event
from accountant.events.finite_pairs import FinitePair
from accountant.events.randomized_response import PureDP
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import exp1

__all__ = ["BestLead", "Contest", "reached_by_two"]

HALVINGS = 60
"""Steps of the search for the best lead."""

FAR = 600.0
"""Scales of noise up to which leads are looked at."""

ROUNDING = 1e-13
"""More than the rounding of what is added and subtracted, relative to its sizes."""

CROWD_PLACES = np.linspace(-1.0, 4.5, 23)
"""Places of the largest of a crowd that are looked at."""

CROWDED = 4.0
"""Place from which on e^-e^place is below the rounding of a probability."""

AIMS = (1e-6, 4.75), (1e-2, 2.33)
"""Deltas that contests in a run are chosen for, and their quantiles of the normal distribution."""

FEW_TIMES = 200
"""Releases up to which all outcomes are looked at to choose one."""

LEAST_APART, MOST_APART = 1e-3, 300.0
"""Differences of leads for which uneven contests are looked at."""

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
        two = self._log_at(epsilons, self.best_lead(epsilons))
        if not self._equal_laplace:
            return two
        return np.maximum(np.maximum(two, self._log_beside_a_crowd(epsilons)), self._log_of_bit(epsilons))

    @property
    def _equal_laplace(self) -> bool:
        return self.noise == "laplace" and self.other == 1.0

    def _log_of_bit(self, epsilons: FloatArray) -> FloatArray:
        """The same of the bit of two against two: (e^b - e^epsilon)/(e^b + 1), b its loss."""
        loss = self.bit()
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(-np.expm1(np.minimum(epsilons - loss, 0.0))) - math.log1p(math.exp(-loss)))

    def _log_beside_a_crowd(self, epsilons: FloatArray) -> FloatArray:
        """The same of one candidate against very many, at the best of some places of the largest of these."""
        found = np.full_like(epsilons, -math.inf)
        for place in CROWD_PLACES.tolist():
            one, other = log_beats_crowd(place), log_beats_crowd(place + self.apart)
            fall = one - other - epsilons - ROUNDING * (abs(one) + abs(other) + epsilons)
            with np.errstate(divide="ignore"):
                found = np.maximum(found, one + np.log(-np.expm1(-np.maximum(fall, 0.0))))
        return found

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
        """The loss of either outcome, where the leads are apart/2 and -apart/2: randomized response.

        With Laplace noise two candidates stand on either side: of four that are equal but for the lead they tell more.
        """
        half = self.apart / 2
        if self._equal_laplace:
            rest, c = -math.expm1(-half), math.exp(-half)
            share = 2 * (rest / 6 + rest * rest / 3 + c * c * half / 8)
            log_loses = math.log(5 / 6 - c * (1 / 3 + half / 8)) - half
            log_odds = math.log1p(-math.exp(log_loses)) - log_loses
        else:
            place = np.array([half])
            share = 2 * float(self.excess(place)[0])
            log_odds = float((self.log_wins(place) - self.log_wins(-place))[0])
        loss = min((2 * math.atanh(share) if share < 0.9 else log_odds) * (1 - 1e-13), LARGEST)
        return loss if loss >= 1e-50 else 0.0


def log_beats_crowd(place: float) -> float:
    """Log of the probability that one Laplace variable is above `place` plus a standard Gumbel one.

    With r = e^place it is (1 - (1 + r) e^-r)/(2r) + e^-r - r E_1(r)/2.
    """
    if place > CROWDED:
        return -place - math.log(2.0)
    r = math.exp(place)
    return math.log((1 - (1 + r) * math.exp(-r)) / (2 * r) + math.exp(-r) - r * float(exp1(r)) / 2)


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


@dataclass(frozen=True)
class WonOrLost(Event):
    """One bit that is true with probability e^log_p, or e^log_q on the other data set: who won a contest."""

    log_p: float
    log_q: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _pair(self) -> FinitePair:
        log_p, log_q = (np.array([each, math.log(-math.expm1(each))]) for each in (self.log_p, self.log_q))
        return FinitePair(log_p, log_q, log_p - log_q)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._pair().curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._pair().log_profile(epsilons)

    def _outcomes(self) -> Outcomes:
        pair = self._pair()
        return Outcomes(pair.losses[::-1].copy(), pair.log_p[::-1].copy())

    def _profile_knots(self) -> Sequence[float]:
        return sorted(np.abs(self._pair().losses).tolist())


def cost_of(bit: WonOrLost, times: int) -> float:
    """About what so many of the same bit cost, in the direction that costs more: the product at all aims."""
    pair = bit._pair()
    forward, backward = (pair.log_p, pair.losses), (pair.log_q, -pair.losses)
    return math.prod(max(cost_from(*each, times, *aim) for each in (forward, backward)) for aim in AIMS)


def cost_from(logs: FloatArray, losses: FloatArray, times: int, delta: float, spreads: float) -> float:
    """The same of one direction: by the sum over all numbers of wins, or about as of a normal sum of losses."""
    shares = np.exp(logs)
    if times > FEW_TIMES:
        mean = float(shares @ losses)
        spread = math.sqrt(float(shares @ (losses - mean) ** 2))
        return min(times * mean + spreads * math.sqrt(times) * spread, times * float(np.max(losses)))
    wins = np.arange(times + 1.0)
    log_counts = np.array([math.lgamma(times + 1) - math.lgamma(k + 1) - math.lgamma(times - k + 1) for k in wins])
    masses = np.exp(log_counts + wins * logs[0] + (times - wins) * logs[1])
    sums = wins * losses[0] + (times - wins) * losses[1]
    low, high = 0.0, float(np.max(sums))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        told = float(masses @ -np.expm1(np.minimum(middle - sums, 0.0)))
        low, high = (middle, high) if told > delta else (low, middle)
    return low


@lru_cache(maxsize=1024)
def best_bit(contest: Contest, adjacency: Adjacency, times: int) -> Event:
    """The contest that costs most, so many times; any of them is a bound."""
    fair = PureDP(contest.bit(), adjacency)
    if not LEAST_APART < contest.apart < MOST_APART or contest.noise == "gaussian" or contest.other != 1.0:
        return fair
    leads = contest.apart / 2 - np.concatenate([[0.0], np.geomspace(0.05, 6.0, 24) * max(contest.apart / 2, 1.0)])
    chances = list(zip(contest.log_wins(leads).tolist(), contest.log_wins(leads - contest.apart).tolist(), strict=True))
    if contest.noise == "laplace":
        chances += [(log_beats_crowd(x), log_beats_crowd(x + contest.apart)) for x in CROWD_PLACES.tolist()]
    # a bit that differs less tells less: more than any rounding
    bits = [WonOrLost(one, other + 1e-12 * (1 - other), adjacency) for one, other in chances]
    best = max(bits, key=lambda bit: cost_of(bit, times))
    even = -math.log1p(math.exp(-fair.epsilon))
    return best if cost_of(best, times) > cost_of(WonOrLost(even, even - fair.epsilon), times) else fair


def reached_by_two(contest: Contest, above: Event, times: int) -> Event:
    """What two candidates tell: of a single release, with the best lead; of one of several, with one for all."""
    return BestLead(contest, above, above.adjacency) if times == 0 else best_bit(contest, above.adjacency, times)
