"""Kinds of screening that are all but the same, as one kind between two.

From above a step of that kind may be one of any of them; from below it shows pairs that a step of each of them
dominates (notebooks/mathematics.md, Near kinds of screening).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from accountant.events.answers import Choices
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import fits, spend
from accountant.tight.clock_references import Reference, curve_of
from accountant.tight.game_setup import FEW_PAIRS, drop_dominated, family_of
from accountant.tight.pairs import Family, Pairs

__all__ = ["NearScreenings", "gather_near"]

Entries = Sequence[tuple[Event, int]]

SHARE = 0.2
"""Share of what blocks may lose that kinds which are taken as one may differ by."""

COST, KIND = 1.5e5, 1.5e6
"""Operations (see `accountant.patience`) of what a kind costs, and of one that may be near others, about."""

FEWER = 0.5
"""Share of the kinds that are left where near ones are taken as one, or little is gained by it."""

MOST_GROUPS = 8
"""Groups that a kind is compared with."""

LEAST = 1e-300
"""Log-ratios below it have no skew."""


class NearScreenings(Event):
    """A screening of any of several kinds; where it is played from below, pairs that each kind's own dominate."""

    family: ClassVar[bool] = True

    kinds: tuple[Event, ...]

    def __init__(self, kinds: Sequence[Event]) -> None:
        self.__dict__.update(adjacency=kinds[0].adjacency, kinds=tuple(kinds))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NearScreenings) and self.kinds == other.kinds

    def __hash__(self) -> int:
        return hash((NearScreenings, self.kinds))

    def __repr__(self) -> str:
        return f"<any of {len(self.kinds)} near kinds of screening>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        return np.asarray(np.max([event._curve(orders) for event in self.kinds], axis=0))

    def _curve_work(self, rate: float = 1.0) -> float:
        return sum(event._curve_work(rate) for event in self.kinds)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = [event._log_profile(epsilons) for event in self.kinds]
        remove, add = (np.max([each[way] for each in both], axis=0) for way in range(2))
        return remove, add

    def _choices(self, rate: float = 1.0) -> Choices | None:
        assert rate == 1.0
        return self.choices

    @cached_property
    def choices(self) -> Choices:
        """All pairs of all kinds but dominated ones; next below each the shorter log-ratios of those of its skew."""
        families = [family_of(event) for event in self.kinds]
        above = drop_dominated(Pairs(*np.concatenate([family.above for family in families], axis=1)))
        played = Pairs(*np.min([_of_skew(family, _skew(above)) for family in families], axis=0))
        return Choices(above.up, above.down, (played.up, played.down))

    def gap(self, order: float) -> float:
        """By how much the divergence of a step from above exceeds that from below at an order, about."""
        family, b = family_of(self), np.array([order - 1])
        return float(curve_of(Reference(1, family.above), b)[0] - curve_of(Reference(1, family.played), b)[0])


def _skew(pairs: Pairs) -> FloatArray:
    return np.log(np.maximum(pairs.up, LEAST)) - np.log(np.maximum(pairs.down, LEAST))


def _of_skew(family: Family, wanted: FloatArray) -> Pairs:
    """Pairs that are played, next below those of about these skews; skews fall along a family."""
    known = _skew(family.above)[::-1]
    right = np.clip(np.searchsorted(known, wanted), 0, known.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = known.size - 1 - np.where(np.abs(known[left] - wanted) < np.abs(known[right] - wanted), left, right)
    return Pairs(family.played.up[nearest], family.played.down[nearest])


def gather_near(families: Entries, order: float, room: float) -> list[tuple[Event, int]]:
    """The same screenings, with kinds that are near taken as one: all together that costs little of the room.

    `room` is by how much bounds on epsilon may differ, about as much as divergences at that order do.
    """
    if not fits((COST + KIND) * len(families)):
        return list(families)
    spend(COST * len(families), "kinds of screening")
    each = SHARE * room / sum(count for _, count in families)
    costs = {event: float(event.renyi(order)) for event, _ in families}
    ranked = sorted(families, key=lambda kind: costs[kind[0]], reverse=True)
    if _apart([costs[event] for event, _ in ranked], each) > FEWER * len(families):
        return list(families)
    spend(KIND * len(families), "kinds of screening")
    groups: list[list[tuple[Event, int]]] = []
    for kind in ranked:
        for group in groups[: -MOST_GROUPS - 1 : -1]:
            first = group[0][0]
            if costs[first] - costs[kind[0]] <= each and _gap([first, kind[0]], order) <= each:
                group.append(kind)
                break
        else:
            groups.append([kind])
    found: list[tuple[Event, int]] = []
    for group in groups:
        events = [event for event, _ in group]
        if len(group) > 1 and _gap(events, order) <= each:
            found.append((NearScreenings(events), sum(count for _, count in group)))
        else:
            found += group
    return found if len(found) <= FEWER * len(families) else list(families)


def _apart(costs: Sequence[float], each: float) -> int:
    """Groups of falling costs that differ by no more."""
    first, groups = math.inf, 0
    for cost in costs:
        if first - cost > each:
            first, groups = cost, groups + 1
    return groups


def _gap(events: Sequence[Event], order: float) -> float:
    """Of a step of any of these; infinite where they have many pairs."""
    if sum(family_of(event).above.up.size for event in events) > FEW_PAIRS:
        return math.inf
    return NearScreenings(events).gap(order)
