"""Many deltas of a run with several kinds of screening, or very many screenings, by games that all of them share.

Each delta by itself asks for a game that is near where it is. What a block's game gives from above, and one order of
the kinds from below, holds at every epsilon, and so does what is composed of it (notebooks/mathematics.md, Many points
of a curve).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.patience import foresee, share_patience
from accountant.tight.both_sides import NEAR, BothSides
from accountant.tight.clock_pairs import use_same_pairs
from accountant.tight.games_last import LEAST_DELTA
from accountant.tight.kind_blocks import GROUP_MOVES, Kind, all_blocks, in_groups
from accountant.tight.loss_composition import Entries
from accountant.tight.screening_blocks import Aim, Cut, ScreeningBlock
from accountant.tight.screening_families import GameValue, solve_in_order

__all__ = ["coarser", "play_below", "share_games"]

BELOW = 0.2
"""Share of what is left of patience for the game of one order, which is the same for all blocks."""

COARSER = 3.0
"""Multiple of the tolerance that grids are made for: games are wider."""

ORDER_SHARE = 0.05
"""Share of the tolerance that its grid may take."""


def share_games(
    families: Entries, aim: Aim, cuts: Sequence[Cut], delta: float, both_sides: Callable[..., BothSides]
) -> Iterator[BothSides]:
    """Answers by each kind as blocks of its own, then by groups of kinds, while patience lasts.

    Parameters
    ----------
    families : sequence of (Event, int)
    aim : Aim
    cuts : sequence of Cut
        Each kind as blocks.
    delta : float
        The smallest that is to be near.
    both_sides : callable
        Makes the answers of blocks, and of what is below.
    """
    below = play_below(families, aim, delta)
    unseen = use_same_pairs(families, aim.order) if below is None else None

    def made(blocks: Entries) -> BothSides:
        return coarser(both_sides(families, blocks, aim.order, below, unseen))

    blocks = all_blocks(cuts)
    yield made(blocks)
    kinds: list[Kind] = sorted(zip(families, cuts, strict=True), key=lambda each: each[1].gap, reverse=True)
    for moves in GROUP_MOVES if len(kinds) > 1 else ():
        groups = in_groups(kinds, aim, *moves)
        if len(groups) < len(blocks):
            blocks = groups
            games = [block.work() for block, _ in blocks if isinstance(block, ScreeningBlock)]
            foresee(games, f"games of {len(blocks)} groups of screenings")
            yield made(blocks)


def coarser(answers: BothSides) -> BothSides:
    """The same on coarser grids: games are wider."""
    return replace(answers, tolerance=min(COARSER * answers.tolerance, 1.0))


def play_below(families: Entries, aim: Aim, delta: float) -> dict[Direction, GameValue] | None:
    """What an adversary gets who keeps to one order, in both directions; None where that takes too long."""
    with suppress(ToleranceUnreachable), share_patience(BELOW):
        games = solve_in_order(
            Composition(families), aim.order, max(delta, LEAST_DELTA), max(ORDER_SHARE * aim.tolerance, NEAR)
        )
        return dict(zip(DIRECTIONS, games, strict=True))
    return None
