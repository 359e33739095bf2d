"""Runs that "auto" prices: few outcomes, losses that are infinite on one side, and releases known by a bound alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement

import mpmath as mp

import accountant as ac
from tests.soak.exact import FewOutcomes, Pair, gaussian_delta, single_pair

MOST_OUTCOMES = 3000
"""Of a run whose price is computed exactly."""


def pair_of(event: ac.Event) -> Pair:
    """(P, Q) over the outcomes of one release, from its definition."""
    plain, rate = event.unsampled, mp.mpf(event.sampling_rate)
    if isinstance(plain, FewOutcomes):
        return single_pair(event)[0]
    lost, odds = mp.mpf(plain.delta), mp.exp(mp.mpf(plain.epsilon))
    likely, other = (1 - lost) * odds / (1 + odds), (1 - lost) / (1 + odds)
    told = [(lost, mp.mpf(0)), (mp.mpf(0), lost), (likely, other), (other, likely)]
    return [((1 - rate) * q + rate * p, q) for p, q in told]


def compose_pairs(run: ac.Composition) -> Pair | None:
    """(P, Q) of a whole run, which must not have too many outcomes."""
    whole: Pair = [(mp.mpf(1), mp.mpf(1))]
    for event, count in run:
        each = []
        for kept in combinations_with_replacement(pair_of(event), count):
            ways = mp.factorial(count) / mp.fprod(mp.factorial(kept.count(one)) for one in set(kept))
            each.append((ways * mp.fprod(p for p, _ in kept), mp.fprod(q for _, q in kept) * ways))
        if len(whole) * len(each) > MOST_OUTCOMES:
            return None
        whole = [(a * p, b * q) for a, b in whole for p, q in each]
    return whole


def delta_of_pair(pair: Pair, epsilon: float) -> mp.mpf:
    """The worse direction."""
    u = mp.exp(mp.mpf(epsilon))
    return max(mp.fsum(max(a - u * b, 0) for a, b in laws) for laws in (pair, [(q, p) for p, q in pair]))


def draw_told(dice: random.Random) -> ac.Event:
    """With some probability it tells everything; sampled or not."""
    event = ac.ApproximateDP(10 ** dice.uniform(-2, 0.5), 10 ** dice.uniform(-5, -1))
    return ac.PoissonSubsampled(event, dice.choice((0.5, 10 ** dice.uniform(-2, 0)))) if dice.random() < 0.8 else event


def draw_bounded(dice: random.Random) -> tuple[ac.Event, mp.mpf]:
    """A release of which a bound from above is all that is known, and the square of a mu that it may well have."""
    rho = 10 ** dice.uniform(-5, -1)
    event: ac.Event = ac.ZeroConcentratedDP(rho)
    if dice.random() < 0.1:
        return ac.PoissonSubsampled(event, 10 ** dice.uniform(-2, 0)), mp.mpf(0)
    if dice.random() < 0.2:
        return ac.LNMax(10 ** dice.uniform(0, 2)), mp.mpf(0)
    return event, 2 * mp.mpf(rho)


def at_least(pair: Pair, square: mp.mpf, epsilon: float) -> mp.mpf:
    """Delta is no less: what the releases cost that are known exactly, or Gaussian noise that the others may be."""
    return max(delta_of_pair(pair, epsilon), gaussian_delta(square, mp.mpf(epsilon)))


Drawn = tuple[ac.Composition, Callable[[float], mp.mpf], bool, float]


def draw_beside_bounds(dice: random.Random, draw_outcomes: Callable[[random.Random], ac.Event]) -> Drawn:
    """A run, its delta at an epsilon, whether that is exact or a bound from below, and what is lost for certain."""
    pair = None
    while pair is None:
        draws = dice.choice(([draw_told], [draw_told], [draw_told, draw_outcomes], [draw_outcomes]))
        known = ac.Composition((draw(dice), dice.randint(1, 3)) for draw in draws)
        pair = compose_pairs(known)
    lost = sum(count * getattr(event.unsampled, "delta", 0.0) * event.sampling_rate for event, count in known)
    if dice.random() < 0.2:
        return known, partial(delta_of_pair, pair), True, lost
    bounded, square = draw_bounded(dice)
    count = dice.randint(1, 5)
    return known + count * bounded, partial(at_least, pair, count * square), False, lost
