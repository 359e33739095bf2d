"""Exact prices: finite runs in rationals, adaptive games by their recursion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product

import mpmath as mp
import numpy as np

import accountant as ac
from accountant.events.answers import Outcomes
from accountant.events.finite_pairs import FinitePair

STATES = 3000
"""Most different losses of a run whose price is computed exactly."""


@dataclass(frozen=True)
class FewOutcomes(ac.Event):
    """P against Q on a few outcomes, by whole weights; the tight route is `told` them, or knows the profile alone."""

    p: tuple[int, ...] = (1,)
    q: tuple[int, ...] = (1,)
    adjacency: ac.Adjacency = field(default=ac.Adjacency.ADD_REMOVE)
    told: bool = False

    def probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        return [Fraction(each, sum(self.p)) for each in self.p], [Fraction(each, sum(self.q)) for each in self.q]

    def _pair(self) -> FinitePair:
        return _logs(self)

    def _curve(self, orders):
        return self._pair().curve(orders)

    def _subsampled_curve(self, rate, orders):
        return self._pair().sampled(rate).curve(orders)

    def _log_profile(self, epsilons):
        return self._pair().log_profile(epsilons)

    def _outcomes(self):
        rising = np.argsort(self._pair().losses, kind="stable")
        return Outcomes(self._pair().losses[rising], self._pair().log_p[rising]) if self.told else None

    def _profile_knots(self):
        return tuple(abs(each) for each in self._pair().losses.tolist() if each)


@lru_cache(maxsize=4096)
def _log(number: Fraction) -> float:
    with mp.workdps(40):
        return float(mp.log(mp.mpf(number.numerator) / number.denominator))


@lru_cache(maxsize=64)
def _logs(event: FewOutcomes) -> FinitePair:
    p, q = event.probabilities()
    logs = [[_log(each) for each in part] for part in (p, q, [a / b for a, b in zip(p, q, strict=True)])]
    return FinitePair(*(np.array(part) for part in logs))


@lru_cache(maxsize=64)
def outcomes(event: ac.Event) -> dict[Fraction, Fraction]:
    """Q's mass by P/Q, of an event of few outcomes, sampled or not."""
    p, q = event.unsampled.probabilities()
    rate, masses = Fraction(event.sampling_rate), dict[Fraction, Fraction]()
    for a, b in zip(p, q, strict=True):
        ratio = 1 - rate + rate * a / b
        masses[ratio] = masses.get(ratio, Fraction(0)) + b
    return masses


def compose(run: ac.Composition) -> dict[Fraction, Fraction] | None:
    """Q's mass by P/Q of a whole run; None where there are too many."""
    whole = {Fraction(1): Fraction(1)}
    for event, count in run:
        each = outcomes(event)
        for _ in range(count):
            following = dict[Fraction, Fraction]()
            for ratio, mass in whole.items():
                for factor, share in each.items():
                    key = ratio * factor
                    following[key] = following.get(key, Fraction(0)) + mass * share
            whole = following
            if len(whole) > STATES:
                return None
    return whole


def delta_of(masses: dict[Fraction, Fraction]) -> Callable[[float], mp.mpf]:
    """The larger of both directions' profiles, at an epsilon that is a float."""
    pairs = [(_mpf(ratio), _mpf(mass)) for ratio, mass in masses.items()]

    def delta(epsilon: float) -> mp.mpf:
        u = mp.exp(mp.mpf(epsilon))
        remove = mp.fsum(mass * (ratio - u) for ratio, mass in pairs if ratio > u)
        add = mp.fsum(mass * (1 - u * ratio) for ratio, mass in pairs if u * ratio < 1)
        return max(remove, add)

    return delta


def renyi_of(masses: dict[Fraction, Fraction], order: float) -> mp.mpf:
    """The larger of both directions' divergences, at an order above 1."""
    pairs, a = [(_mpf(ratio), _mpf(mass)) for ratio, mass in masses.items()], mp.mpf(order)
    forward = mp.fsum(mass * ratio**a for ratio, mass in pairs)
    backward = mp.fsum(mass * ratio ** (1 - a) for ratio, mass in pairs)
    return mp.log(max(forward, backward)) / (a - 1)


def _mpf(number: Fraction) -> mp.mpf:
    return mp.mpf(number.numerator) / number.denominator


# --- games --------------------------------------------------------------------------------------------------

Pair = list[tuple[mp.mpf, mp.mpf]]
Chain = list[tuple[int, int]]


def screening_pairs(event: ac.Event) -> list[Pair]:
    """(P, Q) of every count and neighbour, over the two outcomes, from their definition."""
    plain, rate = event.unsampled, mp.mpf(event.sampling_rate)

    def chances(t: int) -> tuple[mp.mpf, mp.mpf]:
        x = (t - mp.mpf(plain.threshold)) / mp.mpf(plain.sigma)
        return mp.ncdf(x), mp.ncdf(-x)

    steps = [(t, t + 1) for t in range(plain.min_votes, plain.max_votes)]
    pairs = []
    for t, other in [*steps, *((b, a) for a, b in steps)]:
        without, moved = chances(t), chances(other)
        pairs.append([((1 - rate) * a + rate * b, a) for a, b in zip(without, moved, strict=True)])
    return pairs


def single_pair(event: ac.Event) -> list[Pair]:
    return [[(_mpf(ratio * mass), _mpf(mass)) for ratio, mass in outcomes(event).items()]]


def _pairs(event: ac.Event) -> list[Pair]:
    return single_pair(event) if isinstance(event.unsampled, FewOutcomes) else screening_pairs(event)


BITS = 300
"""Places after the point of the masses of chains, which are whole numbers."""


def play(run: ac.Composition, epsilon: float) -> mp.mpf:
    """What an adversary wins who picks, after every outcome, the next release and its pair; the worse direction."""
    u, chain = mp.exp(mp.mpf(epsilon)), game_chain(run)
    remove = sum(p - int(u * q) for q, p in chain if p > u * q)
    add = sum(q - int(u * p) for q, p in chain if q > u * p)
    return mp.ldexp(max(remove, add), -BITS)


@lru_cache(maxsize=64)
def game_chain(run: ac.Composition) -> Chain:
    """The best an adversary can do: (Q(S), P(S)) of all his strategies and tests lie below a concave chain."""
    with mp.workdps(120):
        return chain_of([_pairs(event) for event in run.entries], tuple(run.entries.values()))


def chain_of(kinds: list[list[Pair]], counts: tuple[int, ...]) -> Chain:
    """The same of so many releases of each kind, by its pairs, at the working precision.

    Of one pair followed by what a chain says, the points are sums of those after either outcome, scaled; the edges of
    the sum of two chains are theirs by falling slope. Of a choice the points lie below the hull of all chains.
    """
    places = [[[(_places(p), _places(q)) for p, q in pair] for pair in pairs] for pairs in kinds]
    values: dict[tuple[int, ...], Chain] = {}
    for state in product(*(range(count + 1) for count in counts)):
        chains = [] if any(state) else [[(1 << BITS, 1 << BITS)]]
        for i in (i for i, count in enumerate(state) if count):
            rest = values[(*state[:i], state[i] - 1, *state[i + 1 :])]
            for pair in places[i]:
                chains.append([((b * q) >> BITS, (a * p) >> BITS) for a, b in pair for q, p in rest])
        values[state] = hull(chains)
    return values[counts]


def _places(mass: mp.mpf) -> int:
    return int(mp.ldexp(mass, BITS))


def hull(chains: list[Chain]) -> Chain:
    """Edges of the least concave chain above several, all from (0, 0), by falling slope."""
    points = {(0, 0)}
    for chain in chains:
        x, y = 0, 0
        for q, p in sorted(chain, key=lambda edge: (edge[1] << 100) // (edge[0] or 1), reverse=True):
            x, y = x + q, y + p
            points.add((x, y))
    kept: list[tuple[int, int]] = []
    for x, y in sorted(points):
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
                break
            kept.pop()
        kept.append((x, y))
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(kept)]


def value_by_recursion(kinds: list[list[Pair]], left: tuple[int, ...], u: mp.mpf) -> mp.mpf:
    """W(u) = the most, over releases that are left and their pairs, of sum P(o) W'(u Q(o)/P(o)); at the end 1 - u."""
    if not any(left):
        return max(1 - u, mp.mpf(0))
    best = mp.mpf(0)
    for i, count in enumerate(left):
        if count:
            rest = (*left[:i], count - 1, *left[i + 1 :])
            for pair in kinds[i]:
                best = max(best, mp.fsum(p * value_by_recursion(kinds, rest, u * q / p) for p, q in pair if p > 0))
    return best


def gaussian_delta(square: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    """Of N(mu, 1) against N(0, 1), mu the root of `square` (Balle & Wang 2018, Thm 8)."""
    if square == 0:
        return mp.mpf(0)
    mu = mp.sqrt(square)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def sampled_delta(profile: Callable[[mp.mpf], mp.mpf], rate: float, epsilon: float) -> mp.mpf:
    """The worse direction of a sample of a pair that is its own mirror image (Balle, Barthe & Gaboardi 2018)."""
    g, e = mp.mpf(rate), mp.mpf(epsilon)
    remove = g * profile(mp.log1p(mp.expm1(e) / g))
    lost = (1 - g) * mp.expm1(e) / g
    if lost >= 1:
        return remove
    kept = 1 - lost
    return max(remove, g * kept * profile(e - mp.log(kept)))
