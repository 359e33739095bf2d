"""What a noisy maximum of few candidates, or of one and a crowd, tells: a bound from below on what any other costs.

See notebooks/mathematics.md, Prices from below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import Outcomes
from accountant.events.comparison_attacks import AttackedStream
from accountant.events.event import Event
from accountant.events.finite_pairs import FinitePair
from accountant.events.priced import PricedAsAnother
from accountant.events.randomized_response import PureDP
from accountant.events.shuffled_below import BestAttack
from accountant.events.team_contests import best_teams, log_beats_crowd, team_bits
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import log_ndtr, ndtri

__all__ = ["BestLead", "Contest", "aim_at", "reached_by_two"]

HALVINGS = 60
"""Steps of the search for the best lead."""

FAR = 600.0
"""Scales of noise up to which leads are looked at."""

ROUNDING = 1e-13
"""More than the rounding of what is added and subtracted, relative to its sizes."""

CROWD_PLACES = np.linspace(-1.0, 4.5, 23)
"""Places of the largest of a crowd that are looked at."""

AIMS = 1e-6, 1e-2
"""Deltas that contests in a run are chosen for, where it is not known which is asked."""

LEAST_AIM = 1e-100
"""Deltas below are taken for it."""

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
        r, slower = self.other, size * (1 - 1 / self.other)
        if r > 1.0:  # e^slower may be in no float
            return slower + np.log((r * r - np.exp(-slower)) / (2 * (r * r - 1)))
        return np.log((1 - r * r * np.exp(slower)) / (2 * (1 - r * r)))

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
        others = self._log_beside_a_crowd(epsilons), self._log_of_bit(epsilons), self._log_of_teams(epsilons)
        return np.asarray(np.maximum.reduce([two, *others]))

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
        places = CROWD_PLACES.tolist()
        return log_largest([(log_beats_crowd(x), log_beats_crowd(x + self.apart)) for x in places], epsilons)

    def _log_of_teams(self, epsilons: FloatArray) -> FloatArray:
        """The same of few against few, at the best of some leads."""
        if not LEAST_APART < self.apart < MOST_APART:
            return np.full_like(epsilons, -math.inf)
        return log_largest(best_teams(self.apart), epsilons)

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


def log_largest(chances: Sequence[tuple[float, float]], epsilons: FloatArray) -> FloatArray:
    """Log of the largest p - e^epsilon q, or less, of pairs of log p and log q."""
    found = np.full_like(epsilons, -math.inf)
    for one, other in chances:
        fall = one - other - epsilons - ROUNDING * (abs(one) + abs(other) + epsilons)
        with np.errstate(divide="ignore"):
            found = np.maximum(found, one + np.log(-np.expm1(-np.maximum(fall, 0.0))))
    return found


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


def both_ways(chances: FloatArray, ask: Callable[[FloatArray, FloatArray], FloatArray]) -> FloatArray:
    """The larger answer of both directions, from logs of masses and losses; each bit has a row, log p and log q."""
    rest = np.log(-np.expm1(chances))
    losses = np.stack([chances[:, 0] - chances[:, 1], rest[:, 0] - rest[:, 1]], axis=1)
    forward, backward = np.stack([chances[:, 0], rest[:, 0]], axis=1), np.stack([chances[:, 1], rest[:, 1]], axis=1)
    return np.asarray(np.maximum(ask(forward, losses), ask(backward, -losses)))


def moments_of_sum(logs: FloatArray, losses: FloatArray, times: int) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of the loss of so many of the same bit."""
    shares = np.exp(logs)
    means = np.sum(shares * losses, axis=1)
    return times * means, math.sqrt(times) * np.sqrt(np.sum(shares * (losses - means[:, None]) ** 2, axis=1))


def losses_of_sum(logs: FloatArray, losses: FloatArray, times: int) -> tuple[FloatArray, FloatArray]:
    """Masses and losses of all numbers of wins."""
    wins = np.arange(times + 1.0)
    log_counts = np.array([math.lgamma(times + 1) - math.lgamma(k + 1) - math.lgamma(times - k + 1) for k in wins])
    masses = np.exp(log_counts + wins * logs[:, :1] + (times - wins) * logs[:, 1:])
    return masses, wins * losses[:, :1] + (times - wins) * losses[:, 1:]


def told(masses: FloatArray, sums: FloatArray, epsilons: FloatArray) -> FloatArray:
    """The hockey stick of each row at its epsilon."""
    return np.asarray(np.sum(masses * -np.expm1(np.minimum(epsilons[:, None] - sums, 0.0)), axis=1))


def costs_from(logs: FloatArray, losses: FloatArray, times: int, delta: float) -> FloatArray:
    """About what so many of the same bit cost: by the sum over all numbers of wins, or about as of a normal sum."""
    if times > FEW_TIMES:
        means, spreads = moments_of_sum(logs, losses, times)
        return np.asarray(np.minimum(means - ndtri(delta) * spreads, times * np.max(losses, axis=1)))
    masses, sums = losses_of_sum(logs, losses, times)
    low, high = np.zeros(len(logs)), np.max(sums, axis=1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = told(masses, sums, middle) > delta
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return low


def told_from(logs: FloatArray, losses: FloatArray, times: int, epsilon: float) -> FloatArray:
    """About the log of the delta of so many of the same bit at an epsilon, in the same ways."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if times <= FEW_TIMES:
            return np.asarray(np.log(told(*losses_of_sum(logs, losses, times), np.full(len(logs), epsilon))))
        means, spreads = moments_of_sum(logs, losses, times)
        places = (means - epsilon) / spreads
        first, second = log_ndtr(places), epsilon - means + spreads**2 / 2 + log_ndtr(places - spreads)
        found = first + np.log(-np.expm1(np.minimum(second - first, 0.0)))
        return np.asarray(
            np.where(epsilon < times * np.max(losses, axis=1), np.nan_to_num(found, nan=-math.inf), -math.inf)
        )


@lru_cache(maxsize=1024)
def best_bit(
    contest: Contest, adjacency: Adjacency, times: int, delta: float | None = None, epsilon: float | None = None
) -> Event:
    """The contest that costs most, so many times, at a delta, an epsilon or all aims; any of them is a bound."""
    fair = PureDP(contest.bit(), adjacency)
    if not LEAST_APART < contest.apart < MOST_APART or contest.noise == "gaussian" or contest.other != 1.0:
        return fair
    leads = contest.apart / 2 - np.concatenate([[0.0], np.geomspace(0.05, 6.0, 24) * max(contest.apart / 2, 1.0)])
    chances = list(zip(contest.log_wins(leads).tolist(), contest.log_wins(leads - contest.apart).tolist(), strict=True))
    if contest.noise == "laplace":
        chances += [(log_beats_crowd(x), log_beats_crowd(x + contest.apart)) for x in CROWD_PLACES.tolist()]
        chances += team_bits(contest.apart, tuple((leads[1::2] - contest.apart / 2).tolist()))
    even = -math.log1p(math.exp(-fair.epsilon))
    # a bit that differs less tells less: more than any rounding
    bits = np.array([*((one, other + 1e-12 * (1 - other)) for one, other in chances), (even, even - fair.epsilon)])
    bits = bits[np.all(bits < 0.0, axis=1)]  # others are certain, as far as floats tell
    if not bits.size or float(bits[-1, 0]) != even:
        return fair
    if epsilon is not None:
        costs = both_ways(bits, partial(told_from, times=times, epsilon=epsilon))
    else:
        aims = AIMS if delta is None else (delta,)
        costs = np.prod([both_ways(bits, partial(costs_from, times=times, delta=aim)) for aim in aims], axis=0)
    best = int(np.argmax(costs))
    better = best < len(bits) - 1 and costs[best] > costs[-1]
    return WonOrLost(float(bits[best, 0]), float(bits[best, 1]), adjacency) if better else fair


@dataclass(frozen=True)
class BestContest(PricedAsAnother):
    """One of so many noisy maxima with the same contest: with that for all deltas, if it is not told for which."""

    contest: Contest
    times: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _price(self) -> Event:
        return best_bit(self.contest, self.adjacency, self.times)

    def _outcomes(self) -> Outcomes | None:
        return self._price()._outcomes()

    def at(self, delta: float, times: int) -> Event:
        """What costs most at a delta, where so many contests are in a run."""
        return best_bit(self.contest, self.adjacency, times, max(delta, LEAST_AIM))

    def at_epsilon(self, epsilon: float, times: int) -> Event:
        """What tells most at an epsilon, where so many contests are the run."""
        return best_bit(self.contest, self.adjacency, times, epsilon=epsilon)


def aim_at(
    entries: Sequence[tuple[Event, int]], delta: float | None, epsilon: float | None = None
) -> list[tuple[Event, int]]:
    """What is known from below of a run, as it is chosen for a delta, or else for an epsilon, if it is asked at one."""
    releases = sum(count for _, count in entries)
    times = sum(count for event, count in entries if isinstance(event, BestContest))

    def aim(event: Event) -> Event:
        if delta is not None:
            return event.at(delta, times) if isinstance(event, BestContest) else event
        if epsilon is None:
            return event
        if isinstance(event, AttackedStream | BestAttack) and releases == 1:
            return event.at_epsilon(epsilon)
        # what is beside them is not known here
        return event.at_epsilon(epsilon, times) if isinstance(event, BestContest) and times == releases else event

    return [(aim(event), count) for event, count in entries]


def reached_by_two(contest: Contest, above: Event, times: int) -> Event:
    """What two candidates tell: of a single release, with the best lead; of one of several, with one for all."""
    chosen = BestLead(contest, above, above.adjacency), BestContest(contest, times, above.adjacency)
    return chosen[0] if times == 0 else chosen[1]
