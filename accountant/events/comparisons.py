"""What answers "above" and "below" a noisy threshold cost, with the pairs of distributions that dominate them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.events.comparison_attacks import AttackedStream, Stream
from accountant.events.discrete_pair import DiscretePair, Outcomes
from accountant.events.event import Event
from accountant.events.gaussian import GaussianDP
from accountant.events.laplace import Laplace
from accountant.events.randomized_response import PureDP
from accountant.events.zero_concentrated import ZeroConcentratedDP
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import log_ndtr, ndtri_exp
from accountant.numerics.special import log_binomial_pmf

__all__ = ["Comparisons", "GaussianComparisons", "LaplaceComparisons", "attack_on"]

HUGE = 1e100
"""Slopes beyond are not squared."""

HUGE_SHIFT = 1e50
"""Standard deviations beyond which the threshold's loss is taken for infinite; below 1e-50 they are rounded up."""

SUM = 2.5e7
"""Operations of a value of a profile that is a sum over all answers, about (see `accountant.patience`)."""

SHARE = 64.0
"""Losses of answers are rounded by the grid's step over this."""

CELLS, USUAL = 2**17, 2**15
"""Losses of answers: at most, and for the profile of a single stream."""

MOST = 500.0
"""Nats beyond which a loss of the answers is taken for infinite."""

NODES = 4097
"""Places between which losses are interpolated."""

LEAST = -60.0
"""Losses below are rounded up: they have probabilities below e^LEAST."""

BELOW = 45.0
"""Log of how seldom the largest value is below those that are told apart: their losses are rounded up."""

FINE = 1e-3
"""Moves up to which a bound on the slope of log Phi is near enough."""

FAR_APART = 1e6
"""Streams whose loss has a deviation beyond, or below its inverse, are not attacked."""

ACCURACY = 1e-11
"""Bound on the relative error of tails of the normal distribution's powers, and of the sums over them."""


@dataclass(frozen=True)
class Comparisons(Event):
    """A stream of answers "above" and "below": bounds from above on its curve and on its profile.

    The profile is at most ``E (1 - e^(e - L - M))_+`` in both directions, with L the loss of the noisy threshold and M,
    independent of it, at least that of the answers "above" (proof: notebooks/mathematics.md, Noisy comparisons). From
    below stands a stream that an attacker may ask.
    """

    between_bounds: ClassVar[bool] = True

    @abstractmethod
    def _threshold(self) -> Event:
        """The noisy threshold, whose pair is the same in both directions."""

    @abstractmethod
    def _answers(self, width: float, log_lost: float, sign: int) -> Outcomes:
        """M of one answer "above" as a pair, rounded up (sign 1) or down (-1) by about `width`; less than exp(log_lost)
        of P is left out."""

    def _all_queries(self) -> Event | None:
        """What all noisy queries cost, where that is less."""
        return None

    def _all_answers(self) -> Outcomes:
        """M of all answers as a pair, rounded up."""
        return self._answers(0.0, -800.0, 1)

    def _copies(self) -> int:
        """Of how many answers "above" M is composed."""
        return 1

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        if (queries := self._all_queries()) is not None:
            return [(queries, 1)]
        pair = DiscretePair(self._answers(step / SHARE, log_lost, sign))
        return [(self._threshold(), 1), (pair if direction == DIRECTIONS[0] else Mirrored(pair), self._copies())]

    @abstractmethod
    def _stream(self) -> Stream:
        """What is asked, in units of the sensitivity."""

    def _certain(self, times: int = 1) -> Event:
        return attack_on(self._stream(), self, times)

    def _profile_work(self) -> float:
        return SUM if (queries := self._all_queries()) is None else queries._profile_work()

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if (queries := self._all_queries()) is not None:
            return queries._log_profile(epsilons)
        masses, places, _, lost, accuracy, _ = self._all_answers()
        answers, points = np.log(places), self._threshold()
        weights = masses * places * (1.0 + accuracy)
        result = np.empty_like(epsilons)
        for i, epsilon in enumerate(epsilons.tolist()):
            left = epsilon - answers
            values = np.empty_like(left)
            with np.errstate(under="ignore"):
                values[left >= 0] = np.exp(points._log_profile(left[left >= 0])[0])
                lower = left[left < 0]  # 1 - u + u H(1/u)
                values[left < 0] = np.exp(lower + points._log_profile(-lower)[0]) - np.expm1(lower)
            result[i] = min(math.fsum((weights * values).tolist()) * (1.0 + accuracy) + lost, 1.0)
        logs = np.log(np.maximum(result, 5e-324))  # an underflow to 0 would claim pure DP
        return logs, logs


def attack_on(stream: Stream, above: Event, times: int) -> Event:
    """An attack on a stream that is priced as `above`, where one is known."""
    if not 1 / FAR_APART < stream.size < FAR_APART:
        return PureDP(0.0, above.adjacency)
    return AttackedStream(stream, above, max(times, 1), above.adjacency)


@dataclass(frozen=True)
class LaplaceComparisons(Comparisons):
    """What a `SparseVector` costs with Laplace noise on queries and Gaussian noise, moved by `shift`, on the threshold.

    Every answer "above" loses at most as much as any other: M is the constant `kappa`.
    """

    shift: float
    kappa: float
    stream: Stream
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _curve(self, orders: FloatArray) -> FloatArray:
        return ZeroConcentratedDP(self.shift * self.shift / 2, self.kappa)._curve(orders)

    def _group(self, size: int) -> Event:
        return ZeroConcentratedDP(self.shift * self.shift / 2, self.kappa, self.adjacency)._group(size)

    def _threshold(self) -> Event:
        return _gaussian(self.shift, self.adjacency)

    def _stream(self) -> Stream:
        return self.stream

    def _answers(self, width: float, log_lost: float, sign: int) -> Outcomes:
        if self.kappa > MOST or self.shift > HUGE_SHIFT:
            return _outcomes(np.zeros(1), np.zeros(1), 1.0, sign)
        return _outcomes(np.array([self.kappa]), np.ones(1), 0.0, sign)


@dataclass(frozen=True)
class GaussianComparisons(Comparisons):
    """What a `SparseVector` with Gaussian noise on at most `queries` queries costs; an "above" moves by `moved`.

    M is the loss of the largest of `queries` standard normal values that move by `moved`, once for every answer
    "above". In the profile of a single stream with several it is `tops` times the largest of 0 and of as many losses.
    """

    threshold_scale: float
    query_scale: float
    tops: int
    sensitivity: float
    moved: float
    threshold_noise: str
    queries: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _curve(self, orders: FloatArray) -> FloatArray:
        shift = self.sensitivity / self.threshold_scale
        gaussian = self.threshold_noise == "gaussian"
        slope = self.tops * (self.moved / self.query_scale) ** 2 / 2 + (shift * shift / 2 if gaussian else 0.0)
        every = self.queries * (self.sensitivity / self.query_scale) ** 2 / 2
        with np.errstate(over="ignore", invalid="ignore"):
            return least_of_lines(every, slope, 0.0 if gaussian else shift, self.log_answers, orders)

    @property
    def log_answers(self) -> float:
        return log_sequences(self.queries, self.tops)

    def _threshold(self) -> Event:
        shift = self.sensitivity / self.threshold_scale
        if self.threshold_noise == "gaussian":
            return _gaussian(shift, self.adjacency)
        return Laplace(self.threshold_scale, self.sensitivity, adjacency=self.adjacency)

    def _stream(self) -> Stream:
        threshold, query = self.threshold_scale / self.sensitivity, self.query_scale / self.sensitivity
        monotone = self.moved == self.sensitivity
        return Stream(self.threshold_noise, threshold, "gaussian", query, self.tops, self.queries, monotone)

    def _copies(self) -> int:
        return min(self.tops, self.queries)

    def _all_queries(self) -> Event | None:
        """N(mu, 1) against N(0, 1), mu the longest move of all queries with the threshold taken off.

        Their noise has covariance sigma^2 I + tau^2: d moves by |d|^2 - (sum d)^2/(K + sigma^2/tau^2), over sigma^2.
        """
        query, count = self.query_scale, float(self.queries)
        free = (query / self.threshold_scale) ** 2 if self.threshold_noise == "gaussian" else math.inf
        if free == math.inf:
            square = count
        elif self.moved > self.sensitivity:
            square = (count * free + count * count - self.queries % 2) / (count + free)
        else:
            middle = min(math.floor((count + free) / 2), count)
            square = max(each * (count - each + free) / (count + free) for each in (middle, min(middle + 1.0, count)))
        mu = self.sensitivity / query * math.sqrt(square) * (1 + 1e-12)
        apart = math.hypot(self.sensitivity / self.threshold_scale, self.moved / query * math.sqrt(self._copies()))
        return GaussianDP(mu, self.adjacency) if mu <= apart and 1 / HUGE_SHIFT < mu < HUGE_SHIFT else None

    def _answers(self, width: float, log_lost: float, sign: int) -> Outcomes:
        return self._rounded(self._loss_of_largest, 1, width, log_lost, sign)

    def _all_answers(self) -> Outcomes:
        return (
            self._answers(0.0, -800.0, 1)
            if self._copies() == 1
            else self._rounded(self._largest_loss_of_any, self.tops, 0.0, -800.0, 1)
        )

    def _largest_loss_of_any(self, places: FloatArray) -> FloatArray:
        mu = self.moved / self.query_scale
        return self.tops * mu * np.maximum(places + mu / 2, 0.0)

    def _loss_of_largest(self, places: FloatArray) -> FloatArray:
        """At least log of the density of the largest of K normal values over that of the same moved down by mu.

        It is mu x + mu^2/2 - (K - 1) log(Phi(x + mu)/Phi(x)), and phi/Phi falls.
        """
        mu = self.moved / self.query_scale
        if mu > FINE:
            low, high = log_ndtr(places), log_ndtr(places + mu)
            rise = (high - low) / mu - 1e-15 * np.abs(low) / mu
        else:
            rise = np.exp(-((places + mu) ** 2) / 2 - log_ndtr(places + mu)) / math.sqrt(2 * math.pi) * (1 - 1e-13)
        losses = mu * (places + mu / 2 - (self.queries - 1.0) * np.maximum(rise, 0.0))
        return np.maximum.accumulate(losses + 1e-14 * np.abs(losses))

    def _rounded(
        self, loss: Callable[[FloatArray], FloatArray], times: int, width: float, log_lost: float, sign: int
    ) -> Outcomes:
        """A rising function of the largest of `queries` normal values, as the loss of a pair."""
        mu, n = self.moved / self.query_scale, float(self.queries)
        scale, start = times * mu, float(ndtri_exp(-BELOW / n))
        high = -float(ndtri_exp(max(log_lost, -5e5) - 1.0 - math.log(n)))
        high = min(max(high, start + 1e-9), MOST / scale - mu / 2)
        if high <= start or self.sensitivity / self.threshold_scale > HUGE_SHIFT:
            return _outcomes(np.zeros(1), np.zeros(1), 1.0, sign)
        edges = np.linspace(start, high, NODES)
        known = np.maximum(loss(edges), LEAST)
        cells = min(max(math.ceil((known[-1] - known[0]) / max(width, 1e-300)), 1), CELLS) if width else USUAL
        edges = np.interp(np.linspace(known[0], known[-1], cells + 1), known, edges)
        logs = n * log_ndtr(edges)
        below, beyond = np.exp(logs), -np.expm1(logs)
        inner = np.where(logs[1:] < -0.7, np.diff(below), -np.diff(beyond))
        masses = np.append(below[0], np.maximum(inner, 0.0))
        losses = np.maximum(loss(edges), LEAST)
        if sign < 0:
            losses = np.append(LEAST - 1.0, losses[:-1])  # the first mass may have any loss that is less
        return _outcomes(losses, masses, float(beyond[-1]), sign)


@dataclass(frozen=True)
class Mirrored(Event):
    """A pair with P and Q exchanged."""

    pair: DiscretePair
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.pair._curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        remove, add = self.pair._log_profile(epsilons)
        return add, remove

    def _profile_knots(self) -> Sequence[float]:
        return self.pair._profile_knots()


def _gaussian(shift: float, adjacency: Adjacency) -> Event:
    """The pair of a threshold that moves by at least `shift` standard deviations, of at most HUGE_SHIFT."""
    return GaussianDP(min(max(shift, 1e-50), HUGE_SHIFT), adjacency)


def _outcomes(losses: FloatArray, probabilities: FloatArray, lost: float, sign: int) -> Outcomes:
    """P's probabilities of losses in rising order, as a pair; Q has the rest where P has nothing."""
    masses = np.maximum(probabilities * np.exp(-losses), 5e-324)
    zero = max(-math.fsum((probabilities * np.expm1(-losses)).tolist()) + lost, 0.0)
    return Outcomes(masses, np.exp(losses), zero, lost, ACCURACY, sign * ACCURACY)


def least_of_lines(every: float, slope: float, constant: float, extra: float, orders: FloatArray) -> FloatArray:
    """The best bound on D_a, a >= 1, that is convex times a - 1 and known to be at most either of two.

    These are E a and A a + C + L/(a - 1). G = (a - 1) D_a is convex and at most f_2 = E a (a - 1) and
    f_1 = (a - 1) (A a + C) + L, so below the line that touches both, too, between the places where it does:
    T = E (2 a_2 - 1) = A (2 a_1 - 1) + C and A a_1^2 - E a_2^2 = L - C. Where a_2 would be below 1, it goes through
    (1, 0).
    """
    if slope >= every:
        return every * orders
    start = slope + constant + 2.0 * math.sqrt(slope * extra)
    if start <= every or every > HUGE:
        touch, line = 1.0 + math.sqrt(extra / slope), np.full_like(orders, start)
        left = 1.0
    else:
        half, free = constant / (2 * slope), ((slope - constant) ** 2 / slope - every) / 4 - extra + constant
        square = (1 / slope - 1 / every) / 4
        tangent = (half + math.sqrt(half * half - 4 * square * free)) / (2 * square)
        left, touch = (tangent / every + 1.0) / 2, ((tangent - constant) / slope + 1.0) / 2
        line = (every * left * (left - 1.0) + tangent * (orders - left)) / np.maximum(orders - 1.0, left - 1.0)
    beyond = np.maximum(orders, touch)
    far = slope * beyond + constant + extra / np.maximum(beyond - 1.0, 0.999 * math.sqrt(extra / slope))
    return np.where(orders <= left, np.minimum(every * orders, far), np.where(orders < touch, line, far))


def log_sequences(queries: int, tops: int) -> float:
    """At least log(C(K, 0) + ... + C(K, c)): the binomials fall from C(K, c) on at least by c/(K - c + 1) each."""
    every = queries * math.log(2.0)
    if 2 * tops >= queries:
        return every
    n, k = float(queries), float(tops)
    share = k / n
    log_choose = log_binomial_pmf(n, k, share) - k * math.log(share) - (n - k) * math.log1p(-share)
    return min(every, log_choose + math.log((n - k + 1.0) / (n - 2.0 * k + 1.0)) + 1e-12 * every)
