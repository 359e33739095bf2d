"""Several records of one individual in a noisy screening: pairs of counts that lie further apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError
from accountant.events.answers import Choices
from accountant.events.event import Event
from accountant.events.screening_pairs import Pairs, Screening
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.scipy_special import log_ndtr
from accountant.numerics.special import (
    divergence_from_log_mean,
    log_binomial_pmf,
    log_mean_term,
    log_phi,
    log_phi_steps,
    logaddexp,
)
from accountant.patience import spend

__all__ = ["ScreeningGroup"]

PAIR, LOSS, MOMENT = 1500.0, 40.0, 120.0
"""Operations (see `accountant.patience`) of a count: of its pairs, for each number of records that may join; of a value
of the profile; of an order of the curve."""

PLACE = 1e4
"""Operations of a value of the profile where it is found without looking at all counts."""

CELLS = 2 * 10**7
"""Most counts, times records."""


@dataclass(frozen=True)
class ScreeningGroup(Event):
    """A noisy screening as an individual meets it who holds `records` of the records, each drawn at `rate`.

    If j of them join, the count moves by at most j, within its limits: pairs Phi at t against the binomial mixture of
    Phi at t + j, or at t - j, for every count t.
    """

    family: ClassVar[bool] = True

    sigma: float
    threshold: float
    low: int
    high: int
    records: int
    rate: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        cells = (self.high - self.low + 1) * (self.records if self.rate < 1.0 else 1)
        if cells > CELLS:
            raise ParameterError(
                f"{self.records} records of one individual in a screening of {self.high - self.low} votes; accepted: "
                f"counts{' times records' if self.rate < 1.0 else ''} up to {CELLS}"
            )

    def _pairs(self) -> Pairs:
        counts = self.high - self.low
        moves = min(self.records, counts) if self.rate < 1.0 else 1
        spend(PAIR * counts * moves, f"the pairs of {counts} counts", once=(self, "pairs"))
        return group_pairs(Screening(self.sigma, self.threshold, self.low, self.high), self.records, self.rate)

    def _profile_work(self) -> float:
        if self.rate == 1.0:
            return PLACE + 2.0 * LOSS * min(self.records, self.high - self.low)
        return LOSS * (self.high - self.low + 1)

    def _curve_work(self, rate: float = 1.0) -> float:
        return MOMENT * (self.high - self.low + 1)

    def _choices(self, rate: float = 1.0) -> Choices | None:
        return self._pairs().choices() if rate == 1.0 else None

    def _curve(self, orders: FloatArray) -> FloatArray:
        if self.rate == 1.0 and np.isinf(orders).all():
            return np.full_like(orders, self._whole_limit())
        pairs = self._pairs()
        curve = np.empty_like(orders)
        for i, order in enumerate(orders.tolist()):
            if order == math.inf:
                curve[i] = max(0.0, float(np.max(np.abs([pairs.ratio_pass, pairs.ratio_fail]))))
            else:
                curve[i] = divergence_from_log_mean(order - 1.0, worst_log_mean(order - 1.0, *pairs))
        return curve

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.rate == 1.0:
            return self._whole_profile(epsilons)
        pairs = self._pairs()
        return pairs.log_profile(epsilons), pairs.reversed().log_profile(epsilons)

    def _whole_limit(self) -> float:
        """The largest loss where all join: of passing at the lowest count, of failing at the highest that has room."""
        move, limit = min(self.records, self.high - self.low), 0.0
        for count in (self.low, self.high - move):
            _, _, up, down = log_phi_steps((count - self.threshold) / self.sigma, move / self.sigma)
            limit = max(limit, up, -down)
        return limit

    def _whole_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where all records join, at the worst count (notebooks/mathematics.md, Groups and substituted records).

        A count that has no room for all of them moves to the limit: such pairs are looked at one by one.
        """
        move = min(self.records, self.high - self.low)
        first, second = np.full_like(epsilons, -math.inf), np.full_like(epsilons, -math.inf)
        for sign, low, high in ((1.0, self.low, self.high), (-1.0, -self.high, -self.low)):
            fill_whole_profile(self.sigma, sign * self.threshold, low, high, move, epsilons, first, second)
            if move > 1:
                spend(PAIR * move, f"the pairs of {move} counts", once=(self, sign))
                last = end_pairs(self.sigma, sign * self.threshold, high, move)
                first = np.maximum(first, last.log_profile(epsilons))
                second = np.maximum(second, last.reversed().log_profile(epsilons))
        return first, second


@lru_cache(maxsize=8)
def end_pairs(sigma: float, threshold: float, high: int, move: int) -> Pairs:
    """The pairs of the counts from which so many records move the count as far as it goes."""
    return pairs_upwards(sigma, threshold, high - move, high, move, 1.0)


@Kernel
def fill_whole_profile(
    sigma: float,
    threshold: float,
    low: float,
    high: float,
    move: float,
    epsilons: FloatArray,
    forward: FloatArray,
    backward: FloatArray,
) -> None:
    """Raise both to the log of the largest P(S) - e^e Q(S), and Q(S) - e^e P(S), of counts t and t + move, e >= 0.

    Passing gains Phi(y + h) - v Phi(y), y = (t - threshold)/sigma, h = move/sigma, v = e^e; backward failing does, with
    y = -(t + move - threshold)/sigma. The largest is next to y = -e/h - h/2.
    """
    last = high - move
    for i in range(epsilons.size):
        away = sigma * sigma * epsilons[i] / move
        for sign in (1.0, -1.0):
            place = min(max(threshold - sign * away - 0.5 * move, low), last)
            start = max(math.floor(place) - 1.0, low)
            # one more on each side, as the place is rounded
            for step in range(4):
                t = min(start + step, last)
                _, log_fail, up, down = log_phi_steps((t - threshold) / sigma, move / sigma)
                log_p = log_phi((t + move - threshold) / sigma) if sign > 0.0 else log_fail
                gap = (up if sign > 0.0 else -down) - epsilons[i]
                if gap > 0.0:
                    gain = log_p + math.log(-math.expm1(-gap))
                    if sign > 0.0:
                        forward[i] = max(forward[i], gain)
                    else:
                        backward[i] = max(backward[i], gain)


@lru_cache(maxsize=4)
def group_pairs(screening: Screening, records: int, rate: float) -> Pairs:
    """(with the records, without), by rising count, first where they move it up, then where they move it down."""
    sigma, threshold, low, high = screening
    rising = pairs_upwards(sigma, threshold, low, high, records, rate)
    # the mirrored screening: -t against -threshold, where what passes fails
    falling = pairs_upwards(sigma, -threshold, -high, -low, records, rate)
    passed, failed, up, down, moved, stayed = falling
    return rising.and_also(Pairs(failed, passed, down, up, stayed, moved))


def pairs_upwards(sigma: float, threshold: float, low: int, high: int, records: int, rate: float) -> Pairs:
    """Pairs in which the records move the count up, as far as it goes."""
    counts = np.arange(low, high, dtype=float)
    x, room = (counts - threshold) / sigma, high - counts
    shares = binomial_shares(records, min(records, high - low), rate)
    passing, failing = np.full(x.size, -math.inf), np.full(x.size, -math.inf)
    kept = np.full(x.size, records * math.log1p(-rate) if rate < 1.0 else -math.inf)
    up, down = np.empty_like(x), np.empty_like(x)
    moved_pass, moved_fail = kept + log_ndtr(x), kept + log_ndtr(-x)
    for move, share in shares.items():
        there = (counts + np.minimum(move, room) - threshold) / sigma
        moved_pass = np.logaddexp(moved_pass, share + log_ndtr(there))
        moved_fail = np.logaddexp(moved_fail, share + log_ndtr(-there))
        fill_ratios(x, room, float(move), sigma, up, down)
        with np.errstate(over="ignore", divide="ignore", under="ignore"):
            # means of e^u - 1 > 0 and of 1 - e^u > 0, which do not cancel, and of e^u
            near = np.minimum(up, 30.0)
            log_gain = np.where(up > 30.0, up + np.log1p(-np.exp(-up)), np.log(np.expm1(near)))
            passing = np.logaddexp(passing, share + log_gain)
            failing = np.logaddexp(failing, share + np.log(-np.expm1(down)))
            kept = np.logaddexp(kept, share + down)
    ratio_fail = np.where(failing < -0.5, np.log1p(-np.exp(np.minimum(failing, -0.5))), kept)
    return Pairs(log_ndtr(x), log_ndtr(-x), np.logaddexp(0.0, passing), ratio_fail, moved_pass, moved_fail)


@Kernel
def fill_ratios(x: FloatArray, room: FloatArray, move: float, sigma: float, up: FloatArray, down: FloatArray) -> None:
    """Logs of the ratios of Phi and of 1 - Phi at count t + move, at most the highest count, to those at t."""
    for i in range(x.size):
        _, _, up[i], down[i] = log_phi_steps(x[i], min(move, room[i]) / sigma)


def binomial_shares(records: int, furthest: int, rate: float) -> dict[int, float]:
    """Logs of the probabilities that so many join; what would move the count too far moves it to the limit."""
    if rate == 1.0:
        return {furthest: 0.0}
    logs = np.array([log_binomial_pmf(float(records), float(j), rate) for j in range(1, records + 1)])
    shares = dict(enumerate(logs[:furthest].tolist(), 1))
    shares[furthest] = float(np.logaddexp.reduce(logs[furthest - 1 :]))
    return shares


@Kernel
def worst_log_mean(
    b: float,
    log_pass: FloatArray,
    log_fail: FloatArray,
    ratio_pass: FloatArray,
    ratio_fail: FloatArray,
    moved_pass: FloatArray,
    moved_fail: FloatArray,
) -> float:
    """Largest log E_Q[phi_a(log P/Q)/b] of any pair, in either direction, a = 1 + b."""
    worst = -math.inf
    for i in range(log_pass.size):
        passed = log_mean_term(b, moved_pass[i], log_pass[i], ratio_pass[i])
        worst = max(worst, logaddexp(passed, log_mean_term(b, moved_fail[i], log_fail[i], ratio_fail[i])))
        passed = log_mean_term(b, log_pass[i], moved_pass[i], -ratio_pass[i])
        worst = max(worst, logaddexp(passed, log_mean_term(b, log_fail[i], moved_fail[i], -ratio_fail[i])))
    return worst
