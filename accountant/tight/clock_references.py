"""Kinds of screening as mixtures of a few reference families, each of which takes a whole number of ticks.

Between two references, a larger and a smaller one, most kinds lie below a mixture: F_k W <= s G W + (1 - s) G' W for
every convex falling W. The profile of a two-point pair is a tent over u, and to compare tents is to compare W
(notebooks/mathematics.md, Many kinds of screening). So a run of many kinds is bounded by a game of the references
alone, `accountant.tight.clock_game`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import count_done
from accountant.tight.game_setup import family_of
from accountant.tight.pairs import INPUT_ERROR, Pairs, shares

__all__ = [
    "LARGEST",
    "LEAST_COST",
    "NEAR",
    "Clock",
    "Kind",
    "Reference",
    "cost_of",
    "curve_of",
    "find_kinds",
    "fit_pairs",
    "make_references",
    "share_of",
]

SKEW, WIDER = 0.04, 0.02
"""How far apart in skew two pairs of a reference are: so much, or that share of their skew."""

LEAST_COST = 1e-200
"""Kinds that cost less are left out."""

LARGEST = 200.0
"""Log-ratios beyond which kinds are left out."""

FEW_PLACES = 128
"""Places up to which they are closer for finer references: the search for the best of many pairs takes longer."""

TRIALS, TRIAL = 12, 3e5
"""How often a reference is made larger or smaller, and the operations (see `accountant.patience`) of each time."""

FARTHEST = 5.0
"""Log of how far off it may be before: more is rounding of kinds that cost next to nothing."""

NEAR = 1e-3
"""Relative: how near the divergence of a reference is to its ticks'."""

SURE = 1e-11
"""Relative: more than tents err by."""


class Kind(NamedTuple):
    """Screenings of one kind: pairs by rising skew log(up/down), and pairs that occur.

    Each of all pairs is dominated by one that is `above`, or tells neighbours apart with a probability of `lost` at
    most, which is what a screening of it may add to delta. `cost` is the largest Rényi divergence at the order of the
    price, `form` the log of the square of the largest total variation distance over that: kinds without a count near
    the threshold have a small one.
    """

    event: Event
    times: int
    above: Pairs
    played: Pairs
    lost: float
    cost: float
    form: float


class Reference(NamedTuple):
    """A family that takes so many ticks, by rising skew."""

    ticks: int
    pairs: Pairs


class Clock(NamedTuple):
    """Kinds that share one game: each is a mixture of a larger and a smaller reference, or nothing, by `rungs`.

    These say where in the list of nothing and all `references` the smaller one and the larger one are; `shares` are
    those of the larger one.
    """

    kinds: list[Kind]
    references: list[Reference]
    rungs: list[tuple[int, int]]
    shares: list[float]

    @property
    def ticks(self) -> list[int]:
        """Of nothing, and of each reference."""
        return [0, *(each.ticks for each in self.references)]

    @property
    def longest(self) -> int:
        """Ticks of the longest reference."""
        return max(each.ticks for each in self.references)

    @property
    def lost(self) -> float:
        """What pairs that are left out may add to delta."""
        return sum(kind.times * kind.lost for kind in self.kinds) * (1 + 1e-9)

    @property
    def most(self) -> int:
        """Ticks that all screenings take at most."""
        return sum(kind.times * self.ticks[high] for kind, (_, high) in zip(self.kinds, self.rungs, strict=True))

    def mean(self) -> float:
        """Ticks that all screenings take, in the mean."""
        times, (low, high), share = self._numbers()
        return float(times @ (low + share * (high - low)))

    def spread(self) -> float:
        """Their standard deviation."""
        times, (low, high), share = self._numbers()
        return math.sqrt(float(times @ (share * (1 - share) * (high - low) ** 2)))

    def log_means(self, rates: FloatArray) -> FloatArray:
        """Log of the mean of e^(rate T), of the ticks T that all screenings take."""
        times, (low, high), share = self._numbers()
        apart = np.multiply.outer(rates, high - low)
        return np.asarray((np.log1p(share * np.expm1(apart)) + np.multiply.outer(rates, low)) @ times)

    def _numbers(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of each kind: its screenings, the ticks of the smaller and the larger reference, and the latter's share."""
        times = np.array([kind.times for kind in self.kinds], dtype=float)
        return times, np.array(self.ticks, dtype=float)[np.array(self.rungs).T], np.array(self.shares)


def curve_of(reference: Reference, b: FloatArray, step: float = 0.0) -> FloatArray:
    """About the Rényi divergence of a reference at orders 1 + b, in the worse direction; of its steps on a grid."""
    pairs = reference.pairs
    p, rest, q, keep = pairs.masses()
    ways = (pairs, p, rest), (Pairs(pairs.down, pairs.up), keep, q)
    both = np.maximum(*(_log_moments(*way, b, step) for way in ways))
    return np.asarray(np.max(both, axis=1) / b)


def _log_moments(pairs: Pairs, p: FloatArray, rest: FloatArray, b: FloatArray, step: float) -> FloatArray:
    """Log of the mean of e^(b times the loss), which is `up` with probability p, for each b and pair."""
    outcomes = [(p, pairs.up), (rest, -pairs.down)]
    if step > 0.0:  # on a grid of that step the outcomes next to each, as values are interpolated in u
        below, above = (step * np.floor(each / step) for each in pairs)
        near, far = shares(step - (pairs.up - below), pairs.up - below, step)
        here, ahead = shares(pairs.down - above, step - (pairs.down - above), step)
        outcomes = [(p * near, below + step), (p * far, below), (rest * here, -above), (rest * ahead, -above - step)]
    terms = [np.log(np.maximum(mass, 1e-300)) + np.multiply.outer(b, loss) for mass, loss in outcomes]
    return reduce(np.logaddexp, terms)


def cost_of(pairs: Pairs, order: float, step: float = 0.0) -> float:
    """The largest Rényi divergence of pairs, in either direction, about; of their steps on a grid."""
    return float(curve_of(Reference(1, pairs), np.array([order - 1]), step)[0])


def find_kinds(families: Sequence[tuple[Event, int]], order: float, least: float) -> list[Kind]:
    """All kinds; log-ratios below `least` are raised to it, as in `game_setup.family_of`, and then left out."""
    kinds: list[Kind] = []
    for event, count in families:
        family = family_of(event, least)
        above, played = (Pairs(pairs.up[::-1], pairs.down[::-1]) for pairs in (family.above, family.played))
        # a total variation distance is no more than the smaller log-ratio
        kept = np.min(above, axis=0) > least
        raised = Pairs(*(np.asarray(above)[:, kept] * (1 + INPUT_ERROR)))
        lost = 0.0 if kept.all() else least * (1 + 2 * INPUT_ERROR)
        cost = max(cost_of(raised, order), LEAST_COST) if kept.any() else 0.0
        form = math.log(float(np.max(raised.variation())) ** 2 / cost) if cost > 0.0 else -math.inf
        kinds.append(Kind(event, count, raised, played, lost, cost, form))
    return kinds


def make_references(
    group: Sequence[Kind], ladder: Sequence[int], tick: float, order: float, fineness: float
) -> list[Reference]:
    """Families whose divergence is `tick` for each of their ticks, of the form that kinds of about that size have."""
    logs = [np.log(np.stack(kind.above)) for kind in group]
    skews = [up - down for up, down in logs]
    low, high = min(float(each[0]) for each in skews), max(float(each[-1]) for each in skews)
    nodes = _near(_nodes(low, high, fineness), skews)
    if nodes.size > FEW_PLACES:
        nodes = _near(_nodes(low, high, 1.0), skews)
    forms = np.full((len(group), nodes.size), -np.inf)
    for form, kind, skew in zip(forms, group, skews, strict=True):
        form[:] = np.interp(nodes, skew, np.log(kind.above.variation()))
        # up to the next place on either side
        first, last = np.searchsorted(nodes, skew[0], "right") - 1, np.searchsorted(nodes, skew[-1])
        form[: max(first, 0)] = form[last + 1 :] = -np.inf
    costs = np.array([kind.cost for kind in group])
    forms -= 0.5 * np.log(costs)[:, None]
    found = []
    for i, ticks in enumerate(ladder):
        lower, upper = ladder[max(i - 1, 0)] * tick, ladder[min(i + 1, len(ladder) - 1)] * tick
        near = (costs >= 0.98 * lower) & (costs <= 1.02 * upper)
        if not near.any():
            near = np.arange(costs.size) == np.argmin(np.abs(np.log(costs / (ticks * tick))))
        form = np.max(forms[near], axis=0)
        inside = np.isfinite(form)
        pairs = fit_pairs(partial(_make_pairs, nodes[inside], form[inside]), ticks * tick, order)
        if pairs is None:
            return []
        found.append(Reference(ticks, pairs))
    return found


def fit_pairs(
    make: Callable[[float], Pairs], cost: float, order: float, near: float = NEAR / 10, step: float = 0.0
) -> Pairs | None:
    """Pairs of about that divergence, on a grid of that step if there is one, made by size; None if not found."""
    size = cost
    for _ in range(TRIALS):
        pairs = make(size)
        off = cost / max(cost_of(pairs, order, step), LEAST_COST)
        if abs(off - 1) <= near:
            break
        if abs(math.log(off)) > FARTHEST:
            return None
        size *= off
    return pairs if abs(off - 1) <= NEAR else None


def _nodes(low: float, high: float, fineness: float) -> FloatArray:
    """Skews at which references have their pairs."""
    places = [0.0]
    while places[-1] < max(-low, high):
        places.append(places[-1] + max(SKEW, WIDER * places[-1]) / fineness)
    right = np.array(places)
    nodes = np.concatenate([-right[:0:-1], right])
    inside = nodes[(nodes > low) & (nodes < high)]
    return np.unique(np.concatenate([[low], inside, [high]]))


def _near(nodes: FloatArray, skews: Sequence[FloatArray]) -> FloatArray:
    """Of these, those next to some pair of a kind: between them kinds of few pairs have none."""
    kept = np.zeros(nodes.size, dtype=bool)
    for skew in skews:
        left = np.clip(np.searchsorted(nodes, skew, "right") - 1, 0, max(nodes.size - 2, 0))
        kept[left] = kept[np.minimum(left + 1, nodes.size - 1)] = True
    return nodes[kept]


def _make_pairs(skews: FloatArray, form: FloatArray, size: float) -> Pairs:
    """Pairs of that form and size, counted."""
    count_done(TRIAL)
    return _pairs_of(skews, form + 0.5 * math.log(size))


def _pairs_of(skews: FloatArray, log_variation: FloatArray) -> Pairs:
    """Pairs of these skews and total variation distances, about."""
    middle, wanted = log_variation.copy() + 0.5 * np.abs(skews), log_variation
    for _ in range(60):
        pairs = Pairs(np.exp(middle + skews / 2), np.exp(middle - skews / 2))
        off = wanted - np.log(pairs.variation())
        middle += np.clip(off, -1.0, 1.0)
        if np.max(np.abs(off)) < 1e-9:
            break
    return pairs


def share_of(kind: Pairs, high: Pairs, low: Pairs | None) -> float:
    """The least share of `high`, with `low` or nothing for the rest, in a mixture above all pairs; inf for none.

    For each pair a mixture of the two pairs of either reference that are next to it in skew. All tents but that of
    the pair are convex right of u = 1 and left of it, so that they are compared where they bend.
    """
    skew = np.log(kind.up / kind.down)
    terms: list[tuple[FloatArray, Pairs]] = []
    for reference in (high, low):
        if reference is None:
            continue
        terms += _next_in_skew(reference, skew)
    most = kind.variation()
    tents = [(share, pairs, pairs.variation()) for share, pairs in terms]
    x = np.stack([np.zeros(skew.size), *(each for _, pairs in terms for each in (pairs.up, -pairs.down))])
    wanted = _tent(kind, most, x) * (1 + SURE) + SURE * 1e-2 * most
    above = [share * _tent(pairs, peak, x) * (1 - SURE) for share, pairs, peak in tents]
    larger, smaller = above[0] + above[1], sum(above[2:], np.zeros(x.shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(larger > smaller, (wanted - smaller) / (larger - smaller), np.inf)
    outside = (x >= kind.up) | (x <= -kind.down)
    needed = np.where(outside | (wanted <= np.minimum(smaller, larger)), 0.0, least)
    share = max(float(np.max(needed)), 0.0) * (1 + SURE)
    return share if share <= 1.0 else math.inf


def _next_in_skew(reference: Pairs, skew: FloatArray) -> list[tuple[FloatArray, Pairs]]:
    """Pairs of a reference on either side of each skew, and their shares."""
    known = np.log(reference.up / reference.down)
    i = np.clip(np.searchsorted(known, skew) - 1, 0, max(known.size - 2, 0))
    j = np.minimum(i + 1, known.size - 1)
    apart = np.maximum(known[j] - known[i], 1e-300)
    right = np.clip((skew - known[i]) / apart, 0.0, 1.0)
    pairs = Pairs(reference.up[i], reference.down[i]), Pairs(reference.up[j], reference.down[j])
    return [(1 - right, pairs[0]), (right, pairs[1])]


def _tent(pairs: Pairs, peak: FloatArray, x: FloatArray) -> FloatArray:
    """The profile H(u) - (1 - u)_+ of pairs at u = e^x."""
    with np.errstate(over="ignore"):
        right = peak * (1 - np.expm1(np.minimum(x, LARGEST)) / np.expm1(pairs.up))
    left = peak * (1 - np.expm1(np.minimum(x, 0.0)) / np.expm1(-pairs.down))
    return np.asarray(np.maximum(np.where(x >= 0.0, right, left), 0.0))
