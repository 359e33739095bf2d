"""Which kinds of screening share a game on a clock, and the references that stand for them.

Ticks are in proportion to the Rényi divergences of the references at the order of the price. Kinds of one game may be
of several forms, each with references of its own (notebooks/mathematics.md, Many kinds of screening).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from accountant.tight.clock_references import (
    LARGEST,
    LEAST_COST,
    Clock,
    Kind,
    Reference,
    make_references,
    share_of,
)

__all__ = [
    "OWN_FINENESS", "SPREADS", "Rung", "Spread", "clock_of", "find_clocks", "gather_clocks", "ladder_of", "own_clocks",
    "ticks_of", "with_nothing",
]  # fmt: skip

SPACINGS = (2.2, 0.25), (4.5, 0.35), (math.inf, 0.5)
"""How far apart neighbouring references are, by the largest ratio of costs among kinds."""


class Spread(NamedTuple):
    """Which kinds may share a game: the largest ratio of their costs, and how far apart in form they are."""

    widest: float
    alike: float


SPREADS = Spread(8.2, 0.3), Spread(8.2, 1.0), Spread(24.0, 1.0), Spread(80.0, 1.0)
"""Those that are tried: the wider, the fewer games, each of more ticks, and the more may be traded in it."""

LOOSE = 0.06
"""By how much of itself a mixture may cost more than its kind; others get references of their own."""

SPARES = 1.002, 1.006, 1.02
"""By how much the largest reference is larger than the largest kind, until that is below it."""

OWN_FINENESS, OWN_LOOSE = 2.5, 0.003
"""Fineness from which on kinds have references of their own where shared ones cost more than that of themselves."""

MOST_ALONE = 6
"""Kinds of one game that may have references of their own."""

Rung = tuple[Kind, Reference | None, Reference, float]
"""A kind, the smaller and the larger reference of its mixture, and the share of the larger one."""


def ladder_of(ratio: float, fineness: float) -> list[int]:
    """Ticks of references for kinds whose costs have that ratio at most; one more than the largest kind takes."""
    spacing = next(each for widest, each in SPACINGS if ratio <= widest) / fineness
    lowest = max(math.ceil(1 / spacing), 2)
    highest, ticks = math.ceil(lowest * ratio), [lowest]
    while ticks[-1] < highest:
        ticks.append(min(_next_rung(ticks[-1], spacing), highest))
    return [*ticks, _next_rung(highest, spacing)]


def _next_rung(ticks: int, spacing: float) -> int:
    return max(ticks + 1, math.floor(ticks * (1 + spacing)))


def find_clocks(
    kinds: Sequence[Kind], order: float, fineness: float = 1.0, spread: Spread = SPREADS[0]
) -> tuple[list[Clock], list[Kind]]:
    """Games of kinds whose costs are not too far apart, or of one by itself, and kinds that have no clock."""
    return gather_clocks(kinds, spread, lambda group: _make_clock(group, order, fineness))


def gather_clocks(
    kinds: Sequence[Kind], spread: Spread, make: Callable[[list[Kind]], tuple[Clock | None, list[Kind]]]
) -> tuple[list[Clock], list[Kind]]:
    """The same by any way to make the game of a group, which may leave some of it for others."""
    held, alone = _on_clocks(kinds)
    nothing, clocks = [kind for kind in held if kind.cost == 0.0], list[Clock]()
    for each in _classes([kind for kind in held if kind.cost > 0.0], spread.alike):
        left = sorted(each, key=lambda kind: kind.cost, reverse=True)
        while left:
            group = [kind for kind in left if kind.cost * spread.widest >= left[0].cost]
            clock, rest = make(group)
            if clock is None or len(clock.kinds) == 1:
                clocks.append(_own_clock(left.pop(0)))
            else:
                clocks.append(clock)
                left = sorted([*rest, *left[len(group) :]], key=lambda kind: kind.cost, reverse=True)
    return _add_nothing(clocks, nothing, alone)


def own_clocks(kinds: Sequence[Kind], _: float = math.inf) -> tuple[list[Clock], list[Kind]]:
    """The game of each kind by itself, and kinds that have no clock; the order does not matter."""
    held, alone = _on_clocks(kinds)
    clocks = [_own_clock(kind) for kind in held if kind.cost > 0.0]
    return _add_nothing(clocks, [kind for kind in held if kind.cost == 0.0], alone)


def _on_clocks(kinds: Sequence[Kind]) -> tuple[list[Kind], list[Kind]]:
    """Kinds that may have a clock, and others."""
    alone = [
        kind for kind in kinds if kind.above.up.size and not (np.max(kind.above) < LARGEST and kind.cost > LEAST_COST)
    ]
    without = {id(kind) for kind in alone}
    return [kind for kind in kinds if id(kind) not in without], alone


def _add_nothing(clocks: list[Clock], nothing: Sequence[Kind], alone: Sequence[Kind]) -> tuple[list[Clock], list[Kind]]:
    """The same with kinds that cost nothing on some clock."""
    if not clocks:
        return [], [*alone, *nothing]
    clocks[0] = with_nothing(clocks[0], nothing)
    return clocks, list(alone)


def with_nothing(clock: Clock, nothing: Sequence[Kind]) -> Clock:
    """The same clock with kinds that cost nothing."""
    many = len(nothing)
    kinds, rungs, shares = [*clock.kinds, *nothing], [*clock.rungs, *many * [(0, 1)]], [*clock.shares, *many * [0.0]]
    return clock._replace(kinds=kinds, rungs=rungs, shares=shares)


def _own_clock(kind: Kind) -> Clock:
    """The game of a kind by itself, on a clock of one tick for each of its screenings."""
    return Clock([kind], [Reference(1, kind.above)], [(0, 1)], [1.0])


def _classes(kinds: Sequence[Kind], alike: float) -> list[list[Kind]]:
    """Kinds of about the same form."""
    found: list[list[Kind]] = []
    for kind in sorted(kinds, key=lambda each: each.form, reverse=True):
        if not found or kind.form < found[-1][0].form - alike:
            found.append([])
        found[-1].append(kind)
    return found


def _make_clock(group: list[Kind], order: float, fineness: float) -> tuple[Clock | None, list[Kind]]:
    """A game of all kinds of a group that have references, and the others."""
    ladder = ladder_of(group[0].cost / group[-1].cost, fineness)
    tick = _tick_of(group, ladder, order, fineness)
    held, rest = _on_rungs(group, ladder, tick, order, fineness)
    rest.sort(key=lambda kind: kind.times * kind.cost, reverse=True)
    left = rest[MOST_ALONE:]
    for kind in rest[:MOST_ALONE]:
        found, others = _on_rungs([kind], ladder, tick, order, fineness)
        held, left = held + found, left + others
    if fineness >= OWN_FINENESS:
        held = [_own_rungs(each, ladder, tick, order, fineness) for each in held]
    return (clock_of(held), left) if held else (None, left)


def _own_rungs(shared: Rung, ladder: Sequence[int], tick: float, order: float, fineness: float) -> Rung:
    """The same kind as a mixture of references of its own, if that costs less by far."""
    if ticks_of(shared) * tick <= shared[0].cost * (1 + OWN_LOOSE):
        return shared
    own, _ = _on_rungs([shared[0]], ladder, tick, order, fineness)
    return min([shared, *own], key=ticks_of)


def ticks_of(rung: Rung) -> float:
    """Ticks that a kind takes, in the mean."""
    _, low, high, share = rung
    smaller = 0 if low is None else low.ticks
    return smaller + share * (high.ticks - smaller)


def _tick_of(alike: list[Kind], ladder: Sequence[int], order: float, fineness: float) -> float:
    """Divergence of a tick for which the largest kind is below the last reference but one."""
    for spare in SPARES:
        tick = spare * alike[0].cost / ladder[-2]
        if len(alike) == 1:
            break
        references = make_references(alike, ladder[-4:], tick, order, fineness)
        low = references[-3].pairs if len(references) > 2 else None
        if references and share_of(alike[0].above, references[-2].pairs, low) <= 1.0:
            break
    return tick


def _on_rungs(
    kinds: list[Kind], ladder: Sequence[int], tick: float, order: float, fineness: float
) -> tuple[list[Rung], list[Kind]]:
    """Kinds as mixtures of neighbouring references of their form, and those that are none."""
    places = [_rung(kind, ladder, tick) for kind in kinds]
    first, last = max(min(places) - 1, 0), max(places) + 1
    used = ladder[first : last + 1]
    references = make_references(kinds, used, tick, order, fineness)
    if not references:
        return [], kinds
    held, rest = list[Rung](), list[Kind]()
    for kind, place in zip(kinds, places, strict=True):
        for i in range(place - first, min(place - first + 2, len(used))):
            low = references[i - 1] if i > 0 else None
            share = share_of(kind.above, references[i].pairs, None if low is None else low.pairs)
            rung = kind, low, references[i], share
            if ticks_of(rung) * tick <= kind.cost * (1 + LOOSE):
                held.append(rung)
                break
        else:
            rest.append(kind)
    return held, rest


def _rung(kind: Kind, ladder: Sequence[int], tick: float) -> int:
    """The first that is at least as large."""
    return next((i for i, ticks in enumerate(ladder) if ticks * tick * (1 + 1e-9) >= kind.cost), len(ladder) - 1)


def clock_of(held: Sequence[Rung]) -> Clock:
    """With the references that some kind is a mixture of, by rising ticks."""
    used = {id(each): each for _, low, high, _ in held for each in (low, high) if each is not None}
    references = sorted(used.values(), key=lambda each: each.ticks)
    place = {id(each): i for i, each in enumerate(references, 1)}
    rungs = [(0 if low is None else place[id(low)], place[id(high)]) for _, low, high, _ in held]
    return Clock([each[0] for each in held], references, rungs, [each[-1] for each in held])
