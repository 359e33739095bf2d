"""How games on clocks are cut: each of its own fineness, so that together they lose least for their work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from accountant.tight.clock_game import Cut, Sized
from accountant.tight.clock_references import Clock, Kind

__all__ = ["Choice", "Games", "Plan", "choices_of", "plans_of", "use_rest"]

GRID_SHARES = 0.3, 0.1, 0.03, 0.01, 0.003
"""Shares of the tolerance that the grids of games on clocks may add to the variance of every step."""

APART_LOSS, APART_LIKELY = 0.7, 2.5
"""Steps of its costliest screening that a game, or a kind that has none, costs by being apart from others, about, and
how many times that was found at times. Games that are chosen by more steps are no nearer, as what they lose by trading
kinds is foreseen too small by as much."""

WEIGHTS = 10.0 ** np.linspace(3.0, -4.0, 85)
"""Of all work that there is patience for, against what games lose, by which it is shared among them."""


class Plan(NamedTuple):
    """Games, each of its own fineness: how each is cut, what all take, and the divergence that is lost, about.

    `gap` is what is lost by kinds that have none and are several blocks each.
    """

    sized: list[Sized]
    cuts: list[Cut]
    alone: list[Kind]
    gap: float

    @property
    def work(self) -> float:
        return sum(cut.work for cut in self.cuts)

    @property
    def apart(self) -> float:
        """What is lost by several games; one by itself loses nothing for being a block."""
        steps = [each.costliest for each in self.sized] + [kind.cost for kind in self.alone]
        return APART_LOSS * (sum(steps) - max(steps))

    @property
    def lost(self) -> float:
        return self.apart + self.gap + sum(cut.lost for cut in self.cuts)

    @property
    def likely(self) -> float:
        """Rather more than that: what was found on random runs is 0.7 to 2 times as much."""
        return APART_LIKELY * self.apart + self.gap + sum(cut.likely for cut in self.cuts)


Games = tuple[list[Clock], list[Kind]]
"""Clocks, and kinds that have none."""

Choice = tuple[Sized, Cut]
"""A game of some fineness, and how it is cut."""


def use_rest(plan: Plan, choices: list[list[Choice]], most: float) -> Plan:
    """The same with what is left of that work: the game that gains most by it is played more nearly, then others."""
    picked = list(zip(plan.sized, plan.cuts, strict=True))
    while picked:
        rest, gains = most - sum(cut.work for _, cut in picked), list[tuple[float, int, Choice]]()
        for i, each in enumerate(choices):
            held = [choice for choice in each if choice[1].work <= picked[i][1].work + rest]
            best = min(held, key=lambda choice: choice[1].lost, default=picked[i])
            gains.append((picked[i][1].lost - best[1].lost, i, best))
        gained, i, best = max(gains, key=lambda gain: gain[0])
        if not gained > 0.0:
            break
        picked[i] = best
    return plan._replace(sized=[sized for sized, _ in picked], cuts=[cut for _, cut in picked])


def choices_of(sized: Sized, tolerance: float) -> list[Choice]:
    """Grids and numbers of strides of a game."""
    shares = [share * tolerance for share in GRID_SHARES]
    return [(sized, cut) for stride in sized.strides() for cut in sized.cuts(stride, shares)]


def plans_of(choices: list[list[Choice]], alone: list[Kind], gap: float, most: float) -> Iterator[Plan]:
    """Games that lose less and less, up to that work: where it gains most it is taken first."""
    lost, work = ([np.array([getattr(cut, name) for _, cut in each]) for each in choices] for name in ("lost", "work"))
    first = sum(float(np.max(each)) for each in lost) / most
    for weight in WEIGHTS:
        picked = [
            each[int(np.argmin(gone + weight * first * taken))]
            for each, gone, taken in zip(choices, lost, work, strict=True)
        ]
        plan = Plan([sized for sized, _ in picked], [cut for _, cut in picked], alone, gap)
        if plan.work > most and weight < WEIGHTS[0]:
            return
        yield plan
