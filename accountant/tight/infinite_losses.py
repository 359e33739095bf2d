"""Losses that are infinite with some probability, in each direction with one of its own.

Where P has d and Q has d' where the other has nothing, and H' is the profile of what is left of both, conditional,

    H(u) = d + (1 - d) H'(u (1 - d')/(1 - d)),   T(a) = d + (1 - d) T'(a/(1 - d')),

as a test gains nothing where Q alone has mass. H' and T' are those of families of pairs, too, if some come last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import NoGuarantee, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.numerics.decimals import format_up
from accountant.numerics.exact import round_down, round_up
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.renyi.route import renyi_delta
from accountant.tight.answers import answer_all, between_bounds, certain_of, trade_off_of
from accountant.tight.games_last import join_ends, lower_end, with_games
from accountant.tight.loss_caps import LossCap
from accountant.tight.loss_composition import Entries, Remainders, bound_delta, bound_delta_above, bound_epsilon
from accountant.tight.trade_off import ROUNDING, Rates, TradeOff

__all__ = ["INFINITE_ERROR", "OneSided", "bounds_on_lost", "left_of"]

INFINITE_ERROR = 1e-11
"""Bound on the relative error of the probability of an infinite loss, and of what it leaves."""


def left_of(delta: float, log_finite: float, exact: Fraction | None = None) -> float:
    """The delta that is left to finite losses: d' where delta = d + (1 - d) d', d the probability of an infinite one.

    `exact` is d where it is known.

    Raises
    ------
    NoGuarantee
        There is none.
    """
    if log_finite == 0.0:
        return delta
    if exact is not None:
        left = round_down((Fraction(delta) - exact) / (1 - exact))
    else:
        rest = math.log1p(-delta) - log_finite * (1 + INFINITE_ERROR)
        left = -math.expm1(rest) * (1 - INFINITE_ERROR) if rest < 0.0 else -1.0
    if left < 0.0:
        lost = -math.expm1(log_finite)
        raise NoGuarantee(f"delta = {delta:g}; accepted: above {format_up(lost)}, the probability of an infinite loss")
    return left


def bounds_on_lost(log_finite: float, exact: Fraction | None = None) -> tuple[float, float]:
    """Bounds on the probability of an infinite loss; `exact` is itself, where it is known."""
    if exact is not None:
        return round_down(exact), round_up(exact)
    lost = -math.expm1(log_finite)
    return lost * (1 - INFINITE_ERROR), lost * (1 + INFINITE_ERROR)


HALVINGS = 40
"""Of the range in which an epsilon next to 0 lies."""

Refusal = ToleranceUnreachable | None


def _find_known(ask: Callable[[], Interval]) -> tuple[Interval, Refusal]:
    """What is asked, or the wider interval that a refusal knows, and that refusal."""
    try:
        return ask(), None
    except ToleranceUnreachable as error:
        if error.found is None:
            raise
        return Interval(*error.found), error


def _unless_refused(answer: Interval, *refusals: Refusal) -> Interval:
    """The answer; if a part of it is wider than was asked it is what the refusal knows, and not that part."""
    for refusal in refusals:
        if refusal is not None:
            refusal.found = answer
            raise refusal
    return answer


def _worse(one: tuple[Interval, Refusal], other: tuple[Interval, Refusal]) -> Interval:
    """Bounds on the larger of both directions' prices."""
    ends = (max(one[0][i], other[0][i]) for i in range(2))
    return _unless_refused(Interval(*ends), one[1], other[1])


@dataclass(frozen=True)
class OneSided:
    """Prices of a run by those of its losses that are finite; `log_finite` has their log-probability by direction.

    Families come last: where P has d and Q has d' where the other has nothing, they leave W(0) = 1 of d, so that
    delta = d + (1 - d) E'[W(u (1 - d')/(1 - d) e^-L)] with their value W in the place of the hockey stick.
    """

    finite: Entries
    log_finite: tuple[float, float]
    tolerance: float
    families: Entries = ()

    @property
    def source(self) -> str:
        return "privacy-loss distribution of the finite losses" + (
            " before a dynamic programme" if self.families else ""
        )

    def epsilon(self, delta: float) -> Interval:
        left = [left_of(delta, log) for log in self.log_finite]
        found = [_find_known(partial(self._epsilon, *each)) for each in zip(DIRECTIONS, left, strict=True)]
        least = max(interval.lower for interval, _ in found)
        for place, (interval, refusal) in enumerate(found):
            if interval.lower == 0.0 and interval.upper > least:
                found[place] = self._near_0(DIRECTIONS[place], delta, interval), refusal
        return _worse(*found)

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        return answer_all(
            epsilons,
            lambda epsilon: _worse(*(_find_known(partial(self.delta, each, epsilon)) for each in DIRECTIONS)),
        )

    def trade_off(self, direction: Direction) -> TradeOff:
        own, other = self._logs(direction)
        inner = trade_off_of(self.finite, self.families, direction, self.tolerance)
        return OneSidedTradeOff(
            inner, bounds_on_lost(own), bounds_on_lost(other), lambda epsilon: self.delta(direction, epsilon)
        )

    def delta(self, direction: Direction, epsilon: float) -> Interval:
        """Bounds on delta of one direction."""
        own, other = self._logs(direction)
        slack = self._slack()
        (lost, more), kept = bounds_on_lost(own), math.exp(own)
        if kept == 0.0:
            return Interval(lost * (1 - ROUNDING), 1.0)
        (low, *first), (high, *second) = (
            _find_known(partial(self._finite, direction, epsilon + other - own + sign * slack, lost / kept))
            for sign in (1, -1)
        )
        ends = (lost + kept * low.lower) * (1 - ROUNDING), min((more + kept * high.upper) * (1 + ROUNDING), 1.0)
        return _unless_refused(Interval(*ends), *first, *second)

    def _logs(self, direction: Direction) -> tuple[float, float]:
        forward, backward = self.log_finite
        return (forward, backward) if direction == DIRECTIONS[0] else (backward, forward)

    def _slack(self) -> float:
        """What rounding may do to the difference of the two logarithms."""
        return INFINITE_ERROR * -sum(self.log_finite)

    def _finite(self, direction: Direction, epsilon: float, least: float) -> Interval:
        """Bounds on the profile of the finite losses at any real epsilon: 1 - e^x + e^x H_{-x}(Q||P) where x < 0.

        What is below `least` need not be known well.
        """
        if epsilon >= 0.0:
            return self._bound(direction, epsilon, least)
        (other,) = (each for each in DIRECTIONS if each != direction)
        floor, scale = -math.expm1(epsilon), math.exp(epsilon)
        if scale == 0.0:
            return Interval(floor, 1.0)
        found, refusal = _find_known(partial(self._bound, other, -epsilon, (floor + least) / scale))
        return _unless_refused(Interval(floor + scale * found.lower, min(floor + scale * found.upper, 1.0)), refusal)

    def _bound(self, direction: Direction, epsilon: float, least: float) -> Interval:
        """The same at an epsilon >= 0."""

        certain, ways = certain_of(self.finite), (direction,)

        def ask(remainders: Remainders | None) -> Interval:
            if certain is None:
                return bound_delta(self.finite, epsilon, self.tolerance, remainders, ways, least)
            bound = bound_delta_above if between_bounds(self.finite) else bound_delta
            return join_ends(
                lambda: bound(self.finite, epsilon, self.tolerance, remainders, ways),
                lambda: lower_end(bound_delta, certain, epsilon, self.tolerance, remainders, ways),
            )

        aim = 0.5
        if self.families:
            guess = renyi_delta(Composition([*self.finite, *self.families]), epsilon, "improved").delta
            aim = min(max(guess / 10, least * self.tolerance, 1e-250), 0.5)
        return with_games(self.families, aim, self.tolerance, ask, LossCap(self.finite, epsilon=epsilon))

    def _near_0(self, direction: Direction, delta: float, known: Interval) -> Interval:
        """The same where finite losses alone would have an epsilon below 0, by how much is not known: halved."""
        own, other = self._logs(direction)
        low, high = known
        if high > own - other + 2 * self._slack():
            return known
        trial = 0.0
        for _ in range(HALVINGS):
            if not high - low > self.tolerance * high:
                break
            found, _ = _find_known(partial(self.delta, direction, trial))
            if found.upper <= delta:
                high = trial
            elif found.lower > delta:
                low = trial
            else:
                break
            trial = (low + high) / 2
        return Interval(low, high)

    def _epsilon(self, direction: Direction, left: float) -> Interval:
        own, other = self._logs(direction)
        slack = self._slack()

        certain, ways = certain_of(self.finite, left), (direction,)

        def ask(remainders: Remainders | None) -> Interval:
            bounded = certain is not None and between_bounds(self.finite)
            above = partial(bound_epsilon, self.finite, left, self.tolerance, remainders, ways, above=bounded)
            if certain is None:
                return above()
            return join_ends(above, lambda: lower_end(bound_epsilon, certain, left, self.tolerance, remainders, ways))

        found, refusal = _find_known(
            partial(with_games, self.families, max(left, 1e-250), self.tolerance, ask, LossCap(self.finite, left))
        )
        lower = max(found.lower - (other - own) - slack, 0.0) if found.lower > 0.0 else 0.0
        return _unless_refused(Interval(lower, max(found.upper - (other - own) + slack, 0.0)), refusal)


@dataclass(frozen=True, eq=False)
class OneSidedTradeOff(TradeOff):
    """T(a) = d + (1 - d) T'(a/(1 - d')); `lost` are bounds on d, `other` on d', `delta` bounds the profile."""

    finite: TradeOff
    lost: tuple[float, float]
    other: tuple[float, float]
    delta: Callable[[float], Interval]

    def rates(self, fprs: FloatArray, known: FloatArray | float = 0.0) -> Rates:
        low, high = self.lost
        some = fprs < 1 - self.other[1]
        lower, upper = np.minimum(np.maximum(fprs, low), 1.0), np.ones_like(fprs)
        if some.any():
            least, most = (self.finite.rates(fprs[some] / (1 - end))[i] for i, end in enumerate(self.other))
            lower[some] = np.maximum(lower[some], (low + (1 - low) * least) * (1 - ROUNDING))
            upper[some] = np.minimum((high + (1 - high) * most) * (1 + ROUNDING), 1.0)
        return lower, upper

    def segments(self, floor: float, ceiling: float) -> Rates:
        high, kept = self.lost[1], 1 - self.other[1]
        if ceiling >= kept:
            return np.array([floor, ceiling]), np.ones(2)
        places, rates = self.finite.segments(floor / kept, ceiling / kept)
        return places * kept, np.minimum((high + (1 - high) * rates) * (1 + ROUNDING), 1.0)

    def profile(self, epsilon: float) -> Interval:
        return self.delta(epsilon)

    def at_zero(self) -> Interval:
        low, high = self.lost
        found = self.finite.at_zero()
        return Interval((low + (1 - low) * found.lower) * (1 - ROUNDING), min(high + (1 - high) * found.upper, 1.0))
