"""Ways to certify prices: a known profile, a game of screenings, or composed distributions of losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from accountant.adjacency import Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.two_candidates import aim_at
from accountant.events.votes_seen import OneNeighbour
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import share_patience
from accountant.renyi.many_epsilons import deltas_at_many
from accountant.renyi.route import renyi_epsilon
from accountant.tight.cover_kernels import STEP_ROUNDING
from accountant.tight.drawn_game import LEAST_DELTA as LEAST_PLAYED
from accountant.tight.drawn_game import DrawnTradeOff, join_drawn, least_delta, least_epsilon, with_blocks
from accountant.tight.games_last import (
    FAMILY_SHARES,
    LEAST_DELTA,
    BetweenBounds,
    end_early,
    meet,
    raise_lower_end,
    with_games,
)
from accountant.tight.loss_caps import LossCap
from accountant.tight.loss_composition import (
    Entries,
    Remainders,
    bound_delta,
    bound_delta_above,
    bound_epsilon,
)
from accountant.tight.loss_trade_off import LossTradeOff
from accountant.tight.mixed_trade_off import MixedTradeOff
from accountant.tight.screening_families import GameValue, solve_between, solve_game
from accountant.tight.trade_off import BetweenTradeOffs, ProfileTradeOff, TradeOff

__all__ = [
    "Answers",
    "Game",
    "LossDistribution",
    "answer_all",
    "between_bounds",
    "certain_of",
    "least_of",
    "sort_events",
    "trade_off_of",
]

AIM = 1e-8
"""The delta for which games of screenings are solved whose true-positive rates are asked; others are near as well."""

LEAST_RATE = 1e-14
"""Where families follow other events, the profile is looked at up to the epsilon at this delta."""


QUICK = 0.25
"""Share of the patience in which a game on one grid is to be near enough before games that end early are tried."""

CURVE_LEAST = 1e-12
"""Where many deltas are asked at once, those below are known by game as widely as one of that size."""


class Answers(Protocol):
    """One way to certify a run's prices at 0 < delta < 1 and at epsilons >= 0."""

    @property
    def source(self) -> str:
        """What the prices are computed by."""

    def epsilon(self, delta: float) -> Interval:
        """Bounds on the smallest epsilon at a delta."""

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        """Bounds on delta at each epsilon."""

    def trade_off(self, direction: Direction) -> TradeOff:
        """Bounds on the true-positive rates of one direction."""


@dataclass(frozen=True)
class Game:
    """All events are families of pairs: the adversary plays."""

    families: Entries
    end: float
    smallest_delta: Callable[[Sequence[float]], float]
    tolerance: float
    least: float = 0.0
    source: str = "dynamic programme"

    def epsilon(self, delta: float) -> Interval:
        run = Composition(self.families)
        # as near as other routes come where epsilon is next to nothing
        least = 0.01 * math.sqrt(2 * float(run.renyi(2.0)))
        (found,) = self._known(delta, least, lambda value: [value.epsilon(max(delta, LEAST_DELTA))], priced=True)
        if delta >= LEAST_DELTA:
            return found
        known = renyi_epsilon(run, delta, "improved").epsilon
        if known - found.lower > self.tolerance * known:
            refusal = ToleranceUnreachable(f"delta = {delta:g}; accepted: at least {LEAST_DELTA:g}")
            refusal.found, refusal.wide = (found.lower, known), ""
            raise refusal
        return Interval(found.lower, known)

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        smallest, least = self.smallest_delta(epsilons), max(self.least, least_of(epsilons))
        inside = [epsilon for epsilon in epsilons if epsilon < self.end]
        ask = partial(_deltas_of, epsilons=inside)

        def fill(inner: Iterable[Interval]) -> list[Interval]:
            known = iter(inner)
            return [next(known) if epsilon < self.end else Interval(0.0, 0.0) for epsilon in epsilons]

        try:
            return fill(self._known(smallest, least, ask))
        except ToleranceUnreachable as error:
            if error.curve is not None:
                error.curve = list(fill(Interval(*each) for each in error.curve))
            raise

    def trade_off(self, direction: Direction) -> TradeOff:
        return trade_off_of((), self.families, direction, self.tolerance)

    def _known(
        self, delta: float, least: float, ask: Callable[[GameValue], list[Interval]], priced: bool = False
    ) -> list[Interval]:
        """Answers, of the direction that decides each, on a grid on which all are narrow.

        That is relative to the upper end, or to `least` if that is larger. `priced`: they are epsilons.
        """
        run, smallest, scale = Composition(self.families), max(delta, LEAST_DELTA), least

        def answers(values: Mapping[Direction, GameValue]) -> list[Interval]:
            return [_worse(both) for both in zip(*(ask(value) for value in values.values()), strict=True)]

        def wide(found: list[Interval]) -> float:
            return max(((each.upper - each.lower) / max(each.upper, scale, 1e-300) for each in found), default=0.0)

        def width(values: Mapping[Direction, GameValue]) -> float:
            return wide(answers(values))

        found: list[Interval] = []
        if priced:
            values = self._begun(run, smallest, width)
            found = answers(values)
            # rare large losses make the deviation large, and say nothing of how near a price can be
            scale = min(least, 0.01 * _deviation_at(max(value.delta(0.0).lower for value in values.values())))
            if wide(found) > self.tolerance:
                found = end_early(run, smallest, self.tolerance, found, answers, wide)
            if wide(found) <= self.tolerance:
                return found
        values, refusal = solve_between(run, smallest, self.tolerance, width)
        last = answers(values)
        found = [meet(*each) for each in zip(found, last, strict=True)] if found else last
        if refusal is not None and wide(found) > self.tolerance:
            if len(found) == 1:
                refusal.found, refusal.wide = found[0], ""
            refusal.curve = list(found)
            raise refusal
        return found

    def _begun(
        self, run: Composition, delta: float, width: Callable[[Mapping[Direction, GameValue]], float]
    ) -> Mapping[Direction, GameValue]:
        """Values of a game, as near as a part of the patience makes them; what is counted here is not counted again."""
        try:
            with share_patience(QUICK):
                return solve_between(run, delta, self.tolerance, width)[0]
        except ToleranceUnreachable:
            return solve_between(run, delta, self.tolerance, width)[0]


@dataclass(frozen=True)
class LossDistribution:
    """Events with a single dominating pair are convolved; families of pairs come last (see `solve_game`)."""

    families: Entries
    singles: Entries
    run: Composition
    end: float
    smallest_delta: Callable[[Sequence[float]], float]
    tolerance: float
    least: float = 0.0

    @property
    def source(self) -> str:
        return "privacy-loss distribution" + (" before a dynamic programme" if self.families else "")

    def epsilon(self, delta: float) -> Interval:
        certain, cap = certain_of(self.singles, delta), LossCap(self.singles, delta)
        if certain is None:
            ask = partial(bound_epsilon, self.singles, delta, self.tolerance)
            return with_games(self.families, delta, self.tolerance, ask, cap)

        bounded = between_bounds(self.singles)

        def above(tolerance: float, remainders: Remainders | None) -> Interval:
            found = bound_epsilon(self.singles, delta, tolerance, remainders, above=bounded)
            found = with_blocks(
                self.singles, delta, lambda each: bound_epsilon(each, delta, tolerance, remainders, above=True), found
            )
            # neither is the sharper
            known = renyi_epsilon(self.sharpened(), delta, "improved").epsilon if bounded else math.inf
            return Interval(0.0, min(found.upper, known))

        below = _best_of(_neighbours(certain, delta), lambda each, *how: bound_epsilon(each, delta, *how))
        found = BetweenBounds(above, below, self.tolerance).answer(self.families, delta, cap)
        return raise_lower_end(found, 0.0 if self.families else least_epsilon(self.singles, delta))

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        certain, smallest = certain_of(self.singles), self.smallest_delta(epsilons) if self.families else 0.0
        bounded, wide = certain is not None and between_bounds(self.singles), set[float]()
        if certain is not None and len(epsilons) == 1:
            certain = certain_of(self.singles, epsilon=epsilons[0])
        renyi = dict(zip(epsilons, deltas_at_many(self.sharpened(), epsilons), strict=True)) if bounded else {}

        def answer(epsilon: float) -> Interval:
            if epsilon >= self.end:
                return Interval(0.0, 0.0)
            cap = LossCap(self.singles, epsilon=epsilon)
            if certain is None:
                ask = partial(bound_delta, self.singles, epsilon, self.tolerance, least=self.least)
                return with_games(self.families, smallest, self.tolerance, ask, cap, wide)

            def above(tolerance: float, remainders: Remainders | None) -> Interval:
                ask = partial(bound_delta_above, epsilon=epsilon, tolerance=tolerance, remainders=remainders)
                if not bounded:
                    found = bound_delta(self.singles, epsilon, tolerance, remainders, least=self.least)
                    return with_blocks(self.singles, found.upper, ask, found)
                found = Interval(0.0, min(ask(self.singles).upper, renyi[epsilon]))
                return with_blocks(self.singles, found.upper, ask, found)

            some = _neighbours(certain, epsilon=epsilon)
            below = _best_of(some, lambda each, *how: bound_delta(each, epsilon, *how))
            found = BetweenBounds(above, below, self.tolerance).answer(self.families, smallest, cap)
            return raise_lower_end(found, 0.0 if self.families else least_delta(self.singles, epsilon, found.upper))

        return answer_all(epsilons, answer)

    def sharpened(self) -> Composition:
        """The run with the smallest curves that are known."""
        return Composition((event._sharpened() or event, count) for event, count in self.run)

    def trade_off(self, direction: Direction) -> TradeOff:
        return trade_off_of(self.singles, self.families, direction, self.tolerance)


def least_of(epsilons: Sequence[float]) -> float:
    """Below which delta a width is no longer relative to it: of many, some are far below all that matters."""
    return CURVE_LEAST if len(epsilons) > 1 else LEAST_DELTA


def answer_all(epsilons: Sequence[float], answer: Callable[[float], Interval]) -> list[Interval]:
    """Answers at each point; if some are refused, the first refusal with what is known of all."""
    if len(epsilons) == 1:
        return [answer(epsilons[0])]
    found: list[Interval] = []
    refusals: list[ToleranceUnreachable] = []
    for epsilon in epsilons:
        try:
            found.append(answer(epsilon))
        except ToleranceUnreachable as error:
            refusals.append(error)
            found.append(Interval(0.0, 1.0) if error.found is None else Interval(*error.found))
    if refusals:
        first = refusals[0]
        first.curve = None if all(each == (0.0, 1.0) for each in found) else list(found)
        raise first
    return found


def certain_of(singles: Entries, delta: float | None = None, epsilon: float | None = None) -> Entries | None:
    """The same with events that are known to cost no more, where some are known by a bound from above only."""
    entries = aim_at([(event._certain(count), count) for event, count in singles], delta, epsilon)
    same = all(event is other for (event, _), (other, _) in zip(entries, singles, strict=True))
    return None if same else entries


def _neighbours(certain: Entries, delta: float | None = None, epsilon: float | None = None) -> Sequence[Entries]:
    """The same, and with those neighbours of votes by which one of them alone costs most there, or tells most."""
    found = [list(certain)]
    for at in ((delta, epsilon), (None, 0.0)):
        aimed = [(event.aim(*at) if isinstance(event, OneNeighbour) else event, count) for event, count in certain]
        found += [aimed] if aimed not in found else []
    return found


def _best_of(choices: Sequence[Entries], ask: Callable[..., Interval]) -> Callable[..., Interval]:
    """The larger lower end of what may be asked from below; the first is asked anyhow."""

    def below(tolerance: float, remainders: Remainders | None) -> Interval:
        found = ask(choices[0], tolerance, remainders)
        for each in choices[1:]:
            with suppress(ToleranceUnreachable):
                other = ask(each, tolerance, remainders)
                found = Interval(max(found.lower, other.lower), max(found.upper, other.upper))
        return found

    return below


def between_bounds(singles: Entries) -> bool:
    """Whether grids know bounds of some from above only; other bounds they know from both sides."""
    return any(event.between_bounds and event._certain(count) is not event for event, count in singles)


def trade_off_of(singles: Entries, families: Entries, direction: Direction, tolerance: float) -> TradeOff:
    """Bounds on the true-positive rates of events with a single dominating pair, and of families that come last."""
    above, certain = pair_trade_off(singles, families, direction, tolerance), certain_of(singles)
    if certain is None:
        return above
    if (joined := join_drawn(singles, LEAST_PLAYED)) is not None:
        above = DrawnTradeOff(above, pair_trade_off(joined, families, direction, tolerance))
    return BetweenTradeOffs(above, pair_trade_off(certain, families, direction, tolerance))


def pair_trade_off(singles: Entries, families: Entries, direction: Direction, tolerance: float) -> TradeOff:
    """The same of the pairs that stand for the events from above."""
    if not families:
        return LossTradeOff(singles, direction, tolerance)
    if singles:
        share = max(FAMILY_SHARES[0] * tolerance, 1e-6)
        game = solve_game(families, direction, delta=AIM, tolerance=share)
        reach = renyi_epsilon(Composition([*singles, *families]), LEAST_RATE, "improved").epsilon
        return MixedTradeOff(singles, direction, tolerance, game, reach)
    value = solve_game(families, direction, delta=AIM, tolerance=tolerance)

    def log_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return value.log_lower(x) - STEP_ROUNDING, np.minimum(value.log_upper(x) + STEP_ROUNDING, 0.0)

    return ProfileTradeOff(log_bounds, lines=2001)


def _deltas_of(value: GameValue, epsilons: Sequence[float]) -> list[Interval]:
    return value.deltas(np.asarray(epsilons, dtype=float))


def _deviation_at(delta: float) -> float:
    """No more than the deviation of a Gaussian loss that has that delta at epsilon 0."""
    return math.sqrt(2 * math.pi) * delta


def _worse(directions: Sequence[Interval]) -> Interval:
    """Bounds on the larger of two prices."""
    return Interval(max(each.lower for each in directions), max(each.upper for each in directions))


def sort_events(run: Composition) -> tuple[Entries, Entries]:
    """Families of pairs, and events with a single dominating pair."""
    entries = list(run)
    return [entry for entry in entries if entry[0].family], [entry for entry in entries if not entry[0].family]
