"""True-positive rates of very many screenings, or of several kinds: which games or blocks they are taken from."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ToleranceUnreachable
from accountant.patience import share_patience
from accountant.renyi.route import renyi_epsilon
from accountant.tight.answers import AIM, Answers, Game, LossDistribution
from accountant.tight.kind_blocks import MANY, all_blocks, cuts_for_rates
from accountant.tight.kind_rates import between_sides, sides_by_clocks
from accountant.tight.loss_composition import Entries
from accountant.tight.mixed_game import moves_of
from accountant.tight.near_kinds import gather_near
from accountant.tight.screening_blocks import Aim
from accountant.tight.setting import Setting
from accountant.tight.shared_games import play_below
from accountant.tight.trade_off import TradeOff

__all__ = [
    "BEYOND", "BLOCK_SHARE", "CLOCKS_LOSE", "FAR_OFF", "FEWER", "FEW_MOVES", "MANY_KINDS", "MIDDLE", "NEARER",
    "OF_BLOCKS", "PLD", "SideOf", "aim_at", "rates_of_blocks",
]  # fmt: skip

BLOCK_SHARE = 0.5
"""Share of the tolerance that blocks of screenings may lose."""

BEYOND = 12.0
"""Nats by which the delta for which blocks are made is below the one that is asked."""

MANY_KINDS = 8
"""Kinds from which on games on clocks are tried first, else after the first groups of kinds."""

CLOCKS_LOSE = 1.5
"""Share of the room that they may lose, about, where there are fewer kinds and some have many screenings: else those
kinds are blocks."""

FAR_OFF = 2.0
"""Multiple of the tolerance from which on a delta by games on clocks is left as it is: nothing else comes near."""

FEWER = 0.8
"""How many of many kinds may be left where kinds that are near are one."""

FEW_MOVES = 100
"""Steps of a game of several kinds that is played without asking whether blocks would do."""

SOME_MOVES = 4000
"""Steps of a game of several kinds whose true-positive rates are taken from it, and not from blocks."""

PLAYED_SHARE = 0.5
"""Share of what is left of patience that the game of a single kind may take."""

LARGEST_WIDTH = 0.5
"""Of an interval for a true-positive rate, that grids are made for."""

MIDDLE = 1e-5
"""The delta at whose Rényi order kinds are gathered, and clocks run where rates are asked: games are of all rates."""

NEARER = 1.6
"""By how much the intervals of larger groups may be narrower, about."""

PLD = "privacy-loss distribution"
OF_BLOCKS = f"{PLD} of blocks of screenings"

SideOf = Callable[[Direction], TradeOff]


def aim_at(order: float, delta: float, room: float, tolerance: float) -> Aim:
    return Aim(order, math.log(delta) - BEYOND, room, tolerance)


def rates_of_blocks(
    families: Entries,
    setting: Setting,
    plain: Game | LossDistribution,
    answers_of: Callable[[Entries, Setting], Answers],
) -> tuple[SideOf, str]:
    """What gives the rates of a direction, and its source.

    Blocks, unless there is patience for a game that is nearer; of few screenings the game, which is `plain`. Kinds that
    are taken as one have their rates from `answers_of`.
    """
    guess, several = renyi_epsilon(setting.run, AIM, "improved"), len(families) > 1
    order = guess.order
    if order is None or not 1.0 < order < math.inf:
        return plain.trade_off, plain.source
    if several and moves_of([count for _, count in families]) <= SOME_MOVES:
        return plain.trade_off, plain.source
    # of two runs log T at a rate differs about as divergences at its best order do, times 1 - 1/order
    flatter, enough = 1 - 1 / order, BLOCK_SHARE * setting.tolerance
    aim = aim_at(order, AIM, enough * min(1 / flatter, guess.epsilon), setting.tolerance)
    if several and (found := rates_of_kinds(families, setting, aim, answers_of)) is not None:
        return found
    cuts = cuts_for_rates(families, aim)
    gap = sum(cut.gap for cut in cuts)
    if not several and gap > enough * guess.epsilon and (sides := sides_of_game(plain)):
        return sides.__getitem__, plain.source
    # no grid brings the bounds nearer than blocks are
    apart = gap * max(flatter, 0.5 / float(setting.run.renyi(order)))
    near = replace(setting, tolerance=min(max(setting.tolerance, 2 * apart), LARGEST_WIDTH))
    blocks = all_blocks(cuts)
    if several and gap > aim.room and (games := play_below(families, aim, AIM)) is not None:
        return between_sides(families, near, blocks, games, None).__getitem__, OF_BLOCKS
    return near.answers([], blocks).trade_off, OF_BLOCKS


def rates_of_kinds(
    families: Entries, setting: Setting, aim: Aim, answers_of: Callable[[Entries, Setting], Answers]
) -> tuple[SideOf, str] | None:
    """The same of kinds that are near, taken as one, or by games on clocks; None where neither is to be had."""
    near, kinds = gather_near(families, aim.order, aim.room), len(families)
    with suppress(ToleranceUnreachable):
        if len(near) < kinds and (kinds < MANY_KINDS or len(near) <= FEWER * kinds):
            answers = answers_of(near, setting)
            return {way: answers.trade_off(way) for way in DIRECTIONS}.__getitem__, answers.source
        longest = max(count for _, count in families)
        most_lost = math.inf if kinds >= MANY_KINDS or longest < MANY else CLOCKS_LOSE * aim.room
        order = renyi_epsilon(setting.run, MIDDLE, "improved").order or aim.order
        sides = sides_by_clocks(families, setting, aim._replace(order=order), math.log(AIM), most_lost)
        return None if sides is None else (sides.__getitem__, OF_BLOCKS)
    return None


def sides_of_game(plain: Game | LossDistribution) -> dict[Direction, TradeOff]:
    """Both directions of the game, if there is patience for it."""
    try:
        with share_patience(PLAYED_SHARE):
            sides = {direction: plain.trade_off(direction) for direction in DIRECTIONS}
            for side in sides.values():
                side.at_zero()
    except ToleranceUnreachable:
        return {}
    return sides
