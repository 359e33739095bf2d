"""How a run with several votes at the votes that were cast is priced: as many as there is time for are a game.

After all other releases an adversary plays the game of these votes. Those for which it would take too long are
composed: from above the pair that dominates all neighbours, or that of a block of votes, from below one neighbour in
each.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.votes_seen import OneNeighbour, SeenVotes
from accountant.numerics.roots import Interval
from accountant.patience import fits, foresee
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.tight.answers import LossDistribution, answer_all
from accountant.tight.game_value import GameValue
from accountant.tight.games_last import LEAST_DELTA, raise_lower_end
from accountant.tight.loss_composition import (
    Entries,
    Remainders,
    RemainderTooWide,
    bound_delta,
    bound_delta_above,
    bound_epsilon,
)
from accountant.tight.trade_off import TradeOff
from accountant.tight.vote_blocks import blocks_of, cut_votes
from accountant.tight.vote_caps import cap_delta, cap_delta_beside, cap_epsilon, cap_epsilon_beside
from accountant.tight.vote_game import VoteKinds, solve_in_order, solve_votes, work_of

__all__ = ["VoteAnswers", "foresee_votes", "votes_in"]

SHARES = 0.5, 0.1, 0.02
"""Shares of the tolerance that the game gets where other events are composed with it, until one is small enough."""

ALONE = 0.8, 0.2, 0.05, 0.0125
"""The same where nothing else is composed with it."""

PLAYED = 1e9
"""Operations that a game may take where other events are composed with it."""

MOST_KINDS = 64
"""More different votes than that are composed."""

MOST_PLAYED = 15
"""No game of more different votes takes so few operations: it has 2^15 states and more."""

MOSTLY = 0.5
"""Share of the variance of all votes from which on those are played that a game may have."""

MOST_OUTCOMES = 20_000
"""Neighbours times outcomes of a vote from which on its game would take too long."""

Price = Callable[[Entries, Remainders | None, bool], Interval]
"""Bounds by what is composed, and by what comes after it; or the upper one only."""


class Split(NamedTuple):
    """The votes whose game is played last, the others, and what stands from below for these, and for those played."""

    played: VoteKinds
    others: Entries
    below: Entries
    instead: Entries


def votes_in(singles: Entries) -> VoteKinds:
    """Those of which a game may be nearer than what is composed."""
    return tuple((event, count) for event, count in singles if isinstance(event, SeenVotes))


def foresee_votes(run: Composition) -> None:
    """Refuse at once a run with votes of which all pairs together take too long."""
    votes = [event._foreseen() for event in run.entries if isinstance(event, SeenVotes)]
    # polygons are made of those that are composed
    polygons = sorted((polygon for _, polygon in votes), key=lambda piece: piece[1])[: max(len(votes) - MOST_PLAYED, 0)]
    pieces = [*(pairs for pairs, _ in votes), *polygons]
    foresee(pieces, f"the neighbours of {len(votes)} different votes that were cast")


@dataclass
class VoteAnswers:
    """Certified prices of a run of votes that were cast, and of other events that have a single dominating pair."""

    votes: VoteKinds
    plain: LossDistribution

    source: str = field(default="dynamic programme", init=False)

    def epsilon(self, delta: float) -> Interval:
        """Bounds on the smallest epsilon at a delta."""
        price = partial(_price_epsilon, tolerance=self.plain.tolerance)

        def cap(found: Interval) -> Interval:
            if len(self.votes) == len(self.plain.singles):
                return cap_epsilon(self.votes, delta)
            return cap_epsilon_beside(self.votes, delta, *self._beside(price))

        return self._within(partial(self._epsilon, delta), cap)

    def _epsilon(self, delta: float) -> Interval:
        guess = renyi_epsilon(self.plain.sharpened(), delta, "improved")
        asked = _Asked(
            max(delta, LEAST_DELTA),
            guess.order,
            partial(_price_epsilon, delta, self.plain.tolerance),
            lambda value: value.epsilon(max(delta, LEAST_DELTA)),
        )
        most = guess.epsilon
        if delta < LEAST_DELTA or (found := self._play(asked)) is None:
            return self._compose_all(asked, most, lambda: self.plain.epsilon(delta))
        return self._at_least(asked, Interval(found.lower, min(found.upper, most)))

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        """Bounds on delta at each epsilon."""
        return answer_all(epsilons, lambda each: Interval(0.0, 0.0) if each >= self.plain.end else self._delta(each))

    def _delta(self, epsilon: float) -> Interval:
        price = partial(_price_delta, tolerance=self.plain.tolerance, least=self.plain.least)

        def cap(found: Interval) -> Interval:
            if len(self.votes) == len(self.plain.singles):
                return cap_delta(self.votes, epsilon)
            return cap_delta_beside(self.votes, epsilon, found.upper, *self._beside(price))

        return self._within(partial(self._delta_of_all, epsilon), cap)

    def _beside(self, price: Callable[..., Interval]) -> tuple[Callable[[float], float], Callable[[float], float]]:
        """What all other releases cost at most and at least, as functions of what is asked."""
        others = [(event, count) for event, count in self.plain.singles if not isinstance(event, SeenVotes)]
        certain = [(event._certain(count), count) for event, count in others]

        def ask(entries: Entries, above: bool, asked: float) -> Interval:
            try:
                return price(asked, entries=entries, remainders=None, above=above)
            except ToleranceUnreachable as error:
                return Interval(0.0, math.inf) if error.found is None else Interval(*error.found)

        return lambda asked: ask(others, True, asked).upper, lambda asked: ask(certain, False, asked).lower

    def _within(self, ask: Callable[[], Interval], cap: Callable[[Interval], Interval]) -> Interval:
        """The answer; where that is wide, within what votes one by one say."""
        refusal: ToleranceUnreachable | None = None
        try:
            found = ask()
        except ToleranceUnreachable as error:
            if error.found is None:
                raise
            found, refusal = Interval(*error.found), error
        if self._wide(found):
            known = cap(found)
            lower, upper = max(found.lower, known.lower), min(found.upper, known.upper)
            if (lower, upper) != found:
                self.source = "votes one by one"
            found = Interval(min(lower, upper), upper)
        if refusal is not None and self._wide(found):
            refusal.found = found
            raise refusal
        return found

    def _wide(self, found: Interval) -> bool:
        return not found.upper - found.lower <= self.plain.tolerance * found.upper

    def _delta_of_all(self, epsilon: float) -> Interval:
        guess = renyi_delta(self.plain.sharpened(), epsilon, "improved")
        asked = _Asked(
            min(max(guess.delta / 10, LEAST_DELTA), 0.5),
            guess.order,
            partial(_price_delta, epsilon, self.plain.tolerance, self.plain.least),
            lambda value: value.delta(epsilon),
        )
        most = guess.delta
        if (found := self._play(asked)) is None:
            return self._compose_all(asked, most, lambda: self.plain.deltas([epsilon])[0])
        return self._at_least(asked, Interval(found.lower, min(found.upper, most)))

    def _compose_all(self, asked: _Asked, most: float, compose: Callable[[], Interval]) -> Interval:
        """Bounds where no game is: the pairs that dominate each vote, and the votes in one order.

        One neighbour in each vote is looked at only where that order is not known nearly enough: it costs no more.
        """
        self.source = self.plain.source
        attack = self._in_order(asked)
        if not attack.upper - attack.lower <= min(self.plain.tolerance * attack.upper, sys.float_info.max):
            found = compose()
            return raise_lower_end(found, attack.lower)
        try:
            most = min(asked.price(self.plain.singles, None, True).upper, most)
        except ToleranceUnreachable:
            self.source = "Rényi curve"
        return Interval(min(attack.lower, most), most)

    def _at_least(self, asked: _Asked, known: Interval) -> Interval:
        """A better lower end, where there is patience."""
        if not self._wide(known):
            return known
        return raise_lower_end(known, self._in_order(asked).lower)

    def _in_order(self, asked: _Asked) -> Interval:
        """What the votes in one order cost, their neighbours chosen as labels come, where there is patience for that.

        Other releases come before them; what these cost by themselves would only be less.
        """
        nothing = Interval(0.0, math.inf)
        if len(self.votes) < 2:
            return nothing
        try:
            value = solve_in_order(self.votes, asked.delta, ALONE[0] * self.plain.tolerance)
            if value is None:
                return nothing
            others = [(event._certain(k), k) for event, k in self.plain.singles if not isinstance(event, SeenVotes)]
            return asked.price(others, dict.fromkeys(DIRECTIONS, value), False) if others else asked.alone(value)
        except ToleranceUnreachable as error:
            return nothing if error.found is None else Interval(*error.found)

    def trade_off(self, direction: Direction) -> TradeOff:
        """Refused, as of all that is known between bounds."""
        return self.plain.trade_off(direction)

    def _play(self, asked: _Asked) -> Interval | None:
        """The answer with as many votes played last as there is time for; None if none of it is found."""
        if len(self.votes) > MOST_KINDS or max(map(_size, self.votes)) > MOST_OUTCOMES:
            return None
        others = [(event, count) for event, count in self.plain.singles if not isinstance(event, SeenVotes)]
        best: Interval | None = None
        for share in SHARES if others else ALONE:
            tolerance = share * self.plain.tolerance
            try:
                split = _split(self.votes, asked, tolerance, math.inf if not others else PLAYED)
                if split is None:
                    return best
                composed = "" if not others and not split.others else f"{self.plain.source} before a "
                self.source = f"{composed}dynamic programme"
                value = solve_votes(split.played, asked.delta, tolerance, PLAYED)
                if not others and not split.others:
                    found = best or Interval(0.0, math.inf)
                    low, high = asked.alone(value)
                    best = Interval(max(found.lower, low), min(found.upper, high))
                    if best.upper - best.lower <= self.plain.tolerance * best.upper:
                        return best
                    continue
                return _compose(others, split, dict.fromkeys(DIRECTIONS, value), asked.price)
            except RemainderTooWide as error:
                best = best if error.found is None else Interval(*error.found)
            except ToleranceUnreachable as error:
                return best if error.found is None else Interval(*error.found)
        return best


class _Asked(NamedTuple):
    """A question: near which delta, at about which Rényi order, and how it is asked of what is composed and alone."""

    delta: float
    order: float | None
    price: Price
    alone: Callable[[GameValue], Interval]


def _price_epsilon(
    delta: float, tolerance: float, entries: Entries, remainders: Remainders | None, above: bool
) -> Interval:
    return bound_epsilon(entries, delta, tolerance, remainders, above=above)


def _price_delta(
    epsilon: float, tolerance: float, least: float, entries: Entries, remainders: Remainders | None, above: bool
) -> Interval:
    if above:
        return bound_delta_above(entries, epsilon, tolerance, remainders)
    return bound_delta(entries, epsilon, tolerance, remainders, least=least)


def _compose(others: Entries, split: Split, remainders: Remainders, price: Price) -> Interval:
    """Bounds with the game after all else."""
    certain = [(event._certain(count), count) for event, count in others]
    exact = all(event is other for (event, _), (other, _) in zip(certain, others, strict=True))
    if exact and not split.others:
        return price(others, remainders, False)
    upper = price([*others, *split.others], remainders, True).upper
    best = 0.0
    # where most votes are composed, what a grid loses of the game may be more than what it gains
    for below, after in ((split.below, remainders), ([*split.below, *split.instead], None)):
        try:
            best = max(best, price([*certain, *below], after, False).lower)
        except ToleranceUnreachable as error:
            best = max(best, 0.0 if error.found is None else error.found[0])
    return Interval(best, upper)


def _size(kind: tuple[SeenVotes, int]) -> int:
    """Neighbours times outcomes."""
    return int(kind[0]._pairs().losses[0].size)


def _spread(kind: tuple[SeenVotes, int]) -> float:
    """About the variance of what is lost."""
    event, count = kind
    pairs = event._pairs()
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        return count * float(np.nanmax(np.nansum(np.exp(pairs.log_masses[0]) * pairs.losses[0] ** 2, axis=1)))


def _split(votes: VoteKinds, asked: _Asked, tolerance: float, most: float) -> Split | None:
    """The costliest votes are played, as many kinds as a game of so many operations may have; None if those are few."""

    def feasible(kinds: VoteKinds, most: float) -> bool:
        work = work_of(kinds, asked.delta, tolerance)
        return work <= most and fits(work)

    played: VoteKinds = ()
    left = sorted(votes, key=_spread, reverse=True)
    while left and feasible((*played, left[0]), PLAYED if played else most):
        played, left = (*played, left[0]), left[1:]
    known, rest = work_of(played, asked.delta, tolerance) if played else 0.0, 0.0
    others: list[tuple[Event, int]] = []
    below: list[tuple[SeenVotes, int]] = []
    for event, count in left:
        lengths, known = cut_votes(event, count, asked.delta, tolerance, known, most)
        if lengths is None:
            others.append((event, count))
            rest += _spread((event, count))
        elif not played:
            played, lengths = ((event, lengths[0]),), lengths[1:]
        others += blocks_of(event, lengths or [], tolerance, asked.delta)
        below.append((event, count if lengths is None else sum(lengths)))
    if not played or rest > (1 - MOSTLY) * sum(map(_spread, votes)):
        return None
    order = asked.order if asked.order is not None else math.inf
    same = [
        [(OneNeighbour(event, event._pairs().costliest(order)), k) for event, k in each] for each in (below, played)
    ]
    return Split(played, others, *same)
