"""Several kinds of screening as blocks: of each kind by itself, or of groups of kinds that share a game."""

from __future__ import annotations

from collections.abc import Sequence

from accountant.errors import OutOfPatience
from accountant.events.event import Event
from accountant.patience import followed_by, share_patience
from accountant.tight.mixed_game import moves_of
from accountant.tight.screening_blocks import Aim, Cut, cut_in_one, cut_in_several, foresee_blocks, unsized_work

__all__ = ["GROUP_MOVES", "MANY", "Kind", "all_blocks", "cut_kinds", "cuts_for_rates", "in_groups"]

MANY = 512
"""Screenings of one kind from which on shorter blocks than all of them are tried."""

GROUP_MOVES = (4000, 4000), (60_000, 4000), (60_000, 60_000)
"""Steps of a game of several kinds whose screenings become one block, of the costliest group and of any other; each
next one is tried where the one before was not enough."""

CUT_SHARE = 0.4
"""Share of what is left of patience, where true-positive rates are asked or one block takes too long, of longer blocks
than the shortest."""

ONE_SHARE = 0.7
"""The same of one block of many screenings: they are to be composed with all others."""

Kind = tuple[tuple[Event, int], Cut]
"""All screenings of one kind, and the same as blocks."""


def cut_kinds(families: Sequence[tuple[Event, int]], aim: Aim) -> list[Kind]:
    """Each kind as blocks, those that are known worst first; none of a single kind where one game does as well."""
    found = []
    if len(families) > 1:
        foresee_blocks([aim.block(each) for each in families if each[1] < MANY], len(families))
    for event, count in families:
        cut = cut_in_several(event, count, aim) if count >= MANY else None
        if cut is None and len(families) > 1:
            with followed_by(lambda: unsized_work(count for _, count in families)):
                cut = _cut_in_one_or_nearest(event, count, aim)
        if cut is not None:
            found.append(((event, count), cut))
    return sorted(found, key=lambda each: each[1].gap, reverse=True)


def _cut_in_one_or_nearest(event: Event, count: int, aim: Aim) -> Cut:
    """One block; where that takes too long the nearest of shorter ones, though not as near as is asked."""
    if count < MANY:
        return cut_in_one(event, count, aim)
    try:
        with share_patience(ONE_SHARE):
            return cut_in_one(event, count, aim)
    except OutOfPatience:
        if (nearest := cut_in_several(event, count, aim, CUT_SHARE)) is None:
            raise
        return nearest


def cuts_for_rates(families: Sequence[tuple[Event, int]], aim: Aim) -> list[Cut]:
    """Each kind as blocks, as near as there is patience for."""
    kinds = len(families)
    each = aim._replace(room=aim.room / kinds)
    if kinds > 1:
        foresee_blocks([each.block(kind) for kind in families if kind[1] < MANY], kinds)
    return [
        cut_in_several(event, count, each, CUT_SHARE / kinds) or cut_in_one(event, count, each)
        for event, count in families
    ]


def all_blocks(cuts: Sequence[Cut]) -> list[tuple[Event, int]]:
    return [block for cut in cuts for block in cut.blocks]


def in_groups(kinds: Sequence[Kind], aim: Aim, first: float, others: float) -> list[tuple[Event, int]]:
    """Blocks of several kinds, each of a game of so many steps at most; kinds that are several blocks stay."""
    groups: list[list[tuple[Event, int]]] = []
    blocks: list[tuple[Event, int]] = []
    for kind, cut in kinds:
        room = first if len(groups) == 1 else others
        if len(cut.blocks) > 1 or cut.blocks[0][1] > 1:
            blocks += cut.blocks
        elif groups and moves_of([count for _, count in (*groups[-1], kind)]) <= room:
            groups[-1].append(kind)
        else:
            groups.append([kind])
    # the largest game last: where patience does not last for it, all others are counted in what it would take
    return [*blocks, *((aim.block(*group), 1) for group in reversed(groups))]
