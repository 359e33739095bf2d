"""Kinds of screening as mixtures of a few reference families, each of which takes a whole number of ticks.

Between two references, a larger and a smaller one, most kinds lie below a mixture: F_k W <= s G W + (1 - s) G' W for
every convex falling W. The profile of a two-point pair is a tent over u, and to compare tents is to compare W
(notebooks/mathematics.md, Many kinds of screening). So a run of many kinds is bounded by a game of the references
alone, `accountant.tight.clock_game`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.tight.game_setup import family_of
from accountant.tight.screening_game import INPUT_ERROR, Pairs

__all__ = ["Clock", "Kind", "Reference", "cost_of", "curve_of", "find_clocks", "find_kinds", "share_of"]

LADDERS = (
    (1.4, (4, 5, 6)),
    (2.1, (3, 4, 5, 6)),
    (3.0, (2, 3, 4, 5, 6)),
    (4.2, (2, 3, 4, 5, 6, 8)),
    (8.2, (2, 3, 4, 6, 8, 12, 16)),
)
"""Ticks of references by the ratio of the largest and the smallest divergence among kinds."""

WIDEST = 8.2, 3.0, 1.4
"""The largest such ratio in one game, and those that are tried where that does not hold the largest kind."""

SKEW, WIDER = 0.04, 0.02
"""How far apart in skew two pairs of a reference are: so much, or that share of their skew."""

ALIKE = 1.0
"""How far apart in form kinds of one game are."""

LOOSE = 0.06
"""By how much of itself a mixture may cost more than its kind; others get a game of their own."""

SPARES = 1.002, 1.006, 1.02
"""By how much the largest reference is larger than the largest kind, until that is below it."""

LEAST_COST = 1e-200
"""Kinds that cost less are left out."""

LARGEST = 200.0
"""Log-ratios beyond which kinds are left out."""

NEAR = 1e-3
"""Relative: how near the divergence of a reference is to its ticks'."""

SURE = 1e-11
"""Relative: more than tents err by."""


class Kind(NamedTuple):
    """Screenings of one kind: pairs by rising skew log(up/down), that dominate all of them, and pairs that occur.

    `cost` is the largest Rényi divergence at the order of the price, `form` the log of the square of the largest total
    variation distance over that: kinds without a count near the threshold have a small one.
    """

    event: Event
    times: int
    above: Pairs
    played: Pairs
    cost: float
    form: float


class Reference(NamedTuple):
    """A family that takes so many ticks, by rising skew."""

    ticks: int
    pairs: Pairs


class Clock(NamedTuple):
    """Kinds that share one game: each is a mixture of a reference, `rungs`, with the share `shares`, and the one below.

    Below the smallest reference nothing happens.
    """

    kinds: list[Kind]
    references: list[Reference]
    rungs: list[int]
    shares: list[float]

    def moments(self) -> tuple[float, float]:
        """Mean and variance of the ticks that all screenings take."""
        ticks = [0, *(each.ticks for each in self.references)]
        mean = variance = 0.0
        for kind, rung, share in zip(self.kinds, self.rungs, self.shares, strict=True):
            apart = ticks[rung + 1] - ticks[rung]
            mean += kind.times * (ticks[rung] + share * apart)
            variance += kind.times * share * (1 - share) * apart**2
        return mean, variance


def curve_of(reference: Reference, b: FloatArray) -> FloatArray:
    """About the Rényi divergence of a reference at orders 1 + b, in the worse direction."""
    p, rest, q, keep = (np.log(np.maximum(each, 1e-300)) for each in reference.pairs.masses())
    up, down = (np.multiply.outer(b, each) for each in reference.pairs)
    both = np.maximum(np.logaddexp(p + up, rest - down), np.logaddexp(q - up, keep + down))
    return np.asarray(np.max(both, axis=1) / b)


def cost_of(pairs: Pairs, order: float) -> float:
    """The largest Rényi divergence of pairs, in either direction, about."""
    return float(curve_of(Reference(1, pairs), np.array([order - 1]))[0])


def find_kinds(families: Sequence[tuple[Event, int]], order: float, least: float) -> list[Kind]:
    """Kinds that cost anything; log-ratios below `least` are raised to it, as in `game_setup.family_of`."""
    kinds: list[Kind] = []
    for event, count in families:
        family = family_of(event, least)
        above, played = (Pairs(pairs.up[::-1], pairs.down[::-1]) for pairs in (family.above, family.played))
        raised = Pairs(*(np.asarray(above) * (1 + INPUT_ERROR)))
        cost = max(cost_of(raised, order), LEAST_COST)
        form = math.log(float(np.max(raised.variation())) ** 2 / cost)
        kinds.append(Kind(event, count, raised, played, cost, form))
    return kinds


def find_clocks(kinds: Sequence[Kind], order: float) -> tuple[list[Clock], list[Kind]]:
    """Games of kinds that are alike, and kinds that are like no other."""
    classes: list[list[Kind]] = []
    alone = [kind for kind in kinds if not (np.max(kind.above) < LARGEST and kind.cost > LEAST_COST)]
    apart = {id(kind) for kind in alone}
    alike = [kind for kind in kinds if id(kind) not in apart]
    for kind in sorted(alike, key=lambda each: each.form, reverse=True):
        if not classes or kind.form < classes[-1][0].form - ALIKE:
            classes.append([])
        classes[-1].append(kind)
    clocks: list[Clock] = []
    for each in classes:
        left = sorted(each, key=lambda kind: kind.cost, reverse=True)
        while left:
            for widest in WIDEST:
                group = [kind for kind in left if kind.cost * widest >= left[0].cost]
                clock, rest = _make_clock(group, order)
                if clock is not None and clock.kinds[0] is left[0]:
                    clocks.append(clock)
                    left = sorted([*rest, *left[len(group) :]], key=lambda kind: kind.cost, reverse=True)
                    break
            else:
                alone.append(left.pop(0))
    return clocks, alone


def _make_clock(group: list[Kind], order: float) -> tuple[Clock | None, list[Kind]]:
    """A game of all kinds that its references hold, and the others."""
    if len(group) == 1:
        return None, group
    ratio = group[0].cost / group[-1].cost
    ladder = next(ticks for widest, ticks in LADDERS if ratio <= widest)
    for spare in SPARES:
        tick = spare * group[0].cost / ladder[-1]
        references = _make_references(group, ladder, tick, order)
        if not references:
            return None, group
        if share_of(group[0].above, *(each.pairs for each in references[:-3:-1])) <= 1.0:
            break
    clock, rest = Clock([], references, [], []), []
    pairs = [None, *(each.pairs for each in references)]
    ticks = [0, *(each.ticks for each in references)]
    for kind in group:
        rung = next(i for i, each in enumerate(references) if each.ticks * tick * (1 + 1e-9) >= kind.cost)
        for i in range(rung, min(rung + 2, len(references))):
            share = share_of(kind.above, references[i].pairs, pairs[i])
            taken = (ticks[i] + share * (ticks[i + 1] - ticks[i])) * tick
            if taken <= kind.cost * (1 + LOOSE):
                clock.kinds.append(kind)
                clock.rungs.append(i)
                clock.shares.append(share)
                break
        else:
            rest.append(kind)
    return (clock, rest) if clock.kinds else (None, rest)


def _make_references(group: Sequence[Kind], ladder: Sequence[int], tick: float, order: float) -> list[Reference]:
    """Families whose divergence is `tick` for each of their ticks, of the form that kinds of about that size have."""
    logs = [np.log(np.stack(kind.above)) for kind in group]
    skews = [up - down for up, down in logs]
    low, high = min(float(each[0]) for each in skews), max(float(each[-1]) for each in skews)
    nodes = _nodes(low, high)
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
        size = ticks * tick
        for _ in range(4):
            pairs = _pairs_of(nodes[inside], form[inside] + 0.5 * math.log(size))
            off = ticks * tick / cost_of(pairs, order)
            size *= off
        if abs(off - 1) > NEAR:
            return []
        found.append(Reference(ticks, pairs))
    return found


def _nodes(low: float, high: float) -> FloatArray:
    """Skews at which references have their pairs."""
    places = [0.0]
    while places[-1] < max(-low, high):
        places.append(places[-1] + max(SKEW, WIDER * places[-1]))
    right = np.array(places)
    nodes = np.concatenate([-right[:0:-1], right])
    inside = nodes[(nodes > low) & (nodes < high)]
    return np.concatenate([[low], inside, [high]])


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
    places = [np.zeros(skew.size), *(each for _, pairs in terms for each in (pairs.up, -pairs.down))]
    needed = np.zeros(skew.size)
    for x in places:
        wanted = _tent(kind, most, x) * (1 + SURE) + SURE * 1e-2 * most
        above = [share * _tent(pairs, peak, x) * (1 - SURE) for share, pairs, peak in tents]
        larger, smaller = above[0] + above[1], sum(above[2:], np.zeros(skew.size))
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.where(larger > smaller, (wanted - smaller) / (larger - smaller), np.inf)
        outside = (x >= kind.up) | (x <= -kind.down)
        needed = np.maximum(needed, np.where(outside | (wanted <= np.minimum(smaller, larger)), 0.0, least))
    share = float(np.max(needed)) * (1 + SURE)
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
