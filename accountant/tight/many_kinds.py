"""Hundreds of kinds of screening, as no more kinds than there is patience for: those that are nearest are one kind.

From above a step of a group may be one of any of its kinds, from below it shows pairs that each of them dominates
(notebooks/mathematics.md, Near kinds of screening). So the price is certified however far apart they are.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property

import numpy as np

from accountant.errors import ToleranceUnreachable
from accountant.events.answers import Choices
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import OPERATIONS_PER_SECOND, grant, has_limit, remember, spend
from accountant.tight.clock_references import Reference, curve_of
from accountant.tight.cover_kernels import IntArray
from accountant.tight.game_setup import FEW_PAIRS, family_of
from accountant.tight.near_kinds import NearScreenings
from accountant.tight.pairs import Pairs

__all__ = ["gather_many"]

MOST_SHARE, SHARE, KIND = 0.4, 0.12, 5e6
"""Share of the patience that may go into making kinds ready, that of groups where it is more, and the operations (see
`accountant.patience`) of each."""

LEAST_KINDS = 24
"""Kinds that are left however little patience there is."""

PLACED, PLACED_PAIR = 5e4, 100.0
"""Operations of finding where a kind stands, and of each of its pairs; and of joining it with others."""

FARTHER = 4.0
"""Times the order less 1: a second order at which kinds that are near cost about the same."""

SKEW, TAIL = 0.1, 0.3
"""How much a difference in the skew of the costliest pair counts, and in the log of the cost at the second order,
beside one in the log of the cost."""

CURVE_PAIRS, CURVE_PAIR = 256, 60.0
"""Pairs of which the curve of a group is taken, and the same of an order of it, for each of them."""

LEAST = 1e-300

BEYOND, CANCELLED = 1e-9, 1e-14
"""More than a Rényi mean of pairs errs by, relative and, for its logarithm, absolute."""

LEAST_ORDER = 1e-3
"""Orders less 1 below it are taken as it: a curve rises."""

Entries = Sequence[tuple[Event, int]]


class ManyScreenings(NearScreenings):
    """The same of so many kinds that their curve is taken from the pairs that dominate all of them.

    It is no less than that of any of them (notebooks/mathematics.md, Near kinds of screening).
    """

    def _curve(self, orders: FloatArray) -> FloatArray:
        above, finite = self._blocks, np.isfinite(orders)
        b = np.maximum(orders[finite] - 1, LEAST_ORDER)
        curve = np.full_like(orders, float(np.max(np.maximum(*above))) * (1 + BEYOND))
        curve[finite] = np.minimum(curve[finite], curve_of(Reference(1, above), b) * (1 + BEYOND) + CANCELLED / b)
        return curve

    @cached_property
    def _blocks(self) -> Pairs:
        """The longest log-ratios of neighbours, where pairs are many: they dominate all of these."""
        first = np.unique(np.linspace(0, self.choices.up.size, CURVE_PAIRS, endpoint=False, dtype=np.int64))
        return Pairs(np.maximum.reduceat(self.choices.up, first), np.maximum.reduceat(self.choices.down, first))

    def _curve_work(self, rate: float = 1.0) -> float:
        return CURVE_PAIR * self._blocks.up.size

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return super()._log_profile(epsilons)

    def _choices(self, rate: float = 1.0) -> Choices | None:
        return super()._choices(rate)


def gather_many(families: Entries, find_order: Callable[[], float | None]) -> Entries:
    """The same screenings; where kinds are more than there is patience for, those that are nearest are one.

    The order that is found is that of the price, about: kinds are near that have about the same divergence there.
    """
    if len(families) <= LEAST_KINDS or not has_limit():
        return families
    kinds = grant(gather_many, 1.0) * OPERATIONS_PER_SECOND / KIND  # that all of it would make ready
    if len(families) <= MOST_SHARE * kinds:
        return families
    order = find_order()
    if order is None or not 1.0 < order < math.inf:
        return families
    most = max(int(SHARE * kinds), LEAST_KINDS)
    with suppress(ToleranceUnreachable):  # patience is too short for that, too
        return gather_into(tuple(families), order, most)
    return families


@remember("kinds of screening", 4)
def gather_into(families: tuple[tuple[Event, int], ...], order: float, most: int) -> Entries:
    """So many kinds at most, beside those that have very many pairs."""
    known = [family_of(event).above for event, _ in families]
    spend(
        sum(2 * (PLACED + PLACED_PAIR * min(each.up.size, FEW_PAIRS)) for each in known),
        f"{len(families)} kinds of screening",
    )
    places, costs = np.empty((len(known), 3)), np.zeros(len(known))
    apart = np.array([each.up.size > FEW_PAIRS for each in known])
    for i, pairs in enumerate(known):
        if not apart[i]:
            costs[i], places[i] = _place(pairs, order)
            apart[i] = not (np.isfinite(places[i]).all() and math.isfinite(costs[i]))
    lost = costs * np.array([float(count) for _, count in families])
    found = [families[i] for i in np.flatnonzero(apart)]
    for group in _nearest(places, lost, np.flatnonzero(~apart), most):
        if group.size == 1:
            found.append(families[group[0]])
            continue
        # of a group, by falling cost
        inside = [families[i] for i in sorted(group.tolist(), key=lambda i: costs[i], reverse=True)]
        kind = ManyScreenings([event for event, _ in inside])
        kind.choices  # noqa: B018  # its pairs are made, and counted, here
        found.append((kind, sum(count for _, count in inside)))
    return found


def _place(pairs: Pairs, order: float) -> tuple[float, FloatArray]:
    """What a kind costs, and where it stands: logs of that and of a higher order's cost, skew of the costliest pair."""
    p, rest, q, keep = (np.log(np.maximum(each, LEAST)) for each in pairs.masses())
    costs = []
    for b in (order - 1, FARTHER * (order - 1)):
        both = np.maximum(
            np.logaddexp(p + b * pairs.up, rest - b * pairs.down), np.logaddexp(q - b * pairs.up, keep + b * pairs.down)
        )
        costs.append((both, max(float(np.max(both)) / b, LEAST)))
    worst = int(np.argmax(costs[0][0]))
    skew = math.log(max(float(pairs.up[worst]), LEAST)) - math.log(max(float(pairs.down[worst]), LEAST))
    return costs[0][1], np.array([math.log(costs[0][1]), TAIL * math.log(costs[1][1]), SKEW * skew])


def _nearest(places: FloatArray, lost: FloatArray, kinds: IntArray, most: int) -> list[IntArray]:
    """Groups of kinds; the one that loses most by being one is halved until there are so many."""

    def ranked(group: IntArray) -> tuple[float, int, IntArray]:
        return -float(np.sum(lost[group]) * np.max(np.ptp(places[group], axis=0))), int(group[0]), group

    if kinds.size == 0:
        return []
    groups = [ranked(kinds)]
    while len(groups) < most and groups[0][0] < 0.0:
        group = heapq.heappop(groups)[-1]
        axis = int(np.argmax(np.ptp(places[group], axis=0)))
        along = places[group, axis]
        # both halves hold some, however the middle is rounded
        low = along <= min((np.min(along) + np.max(along)) / 2, np.nextafter(np.max(along), -np.inf))
        for half in (group[low], group[~low]):
            heapq.heappush(groups, ranked(half))
    return [group for _, _, group in groups]
