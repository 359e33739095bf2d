"""Several kinds of screening in one run: the adversary also chooses which kind comes next.

With n_1, n_2, ... screenings left of the kinds, and T_k the step of one of kind k,

    W_0(u) = max(1 - u, 0),   W_n(u) = max over the kinds k with n_k > 0 of (T_k W_{n - e_k})(u),

by the counts n = (n_1, n_2, ...) up to those of the run (notebooks/mathematics.md, Several kinds of screening). It
takes about as many steps as the product of the counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.kernel import FloatArray
from accountant.tight.cover_kernels import PACE, STEP_ROUNDING, Lattice
from accountant.tight.game_kernels import TEST, extend_left, play_step, take_better
from accountant.tight.pairs import Family
from accountant.tight.screening_game import Windows, gather, make_lattice, never

__all__ = ["moves_of", "play_in_order", "play_kinds", "states_kept"]


def moves_of(counts: Sequence[int]) -> float:
    """Steps that the game takes: from every state, one of each kind that is left."""
    states = math.prod(count + 1.0 for count in counts)
    return sum(states * (count / (count + 1.0)) for count in counts)


def states_kept(counts: Sequence[int]) -> float:
    """States whose values are held at once."""
    return math.prod(count + 1.0 for count in counts[1:]) + 1.0


def play_kinds(
    families: Sequence[Family], windows: Windows, step: float, slack: float
) -> tuple[FloatArray, NDArray[np.void]]:
    """Upper values and tests of the whole game, by direction and grid point; see `play_steps`.

    `windows` have one axis for each family, and an entry for each number of its screenings that is left.
    """
    trees, last = [gather(family, slack) for family in families], int(windows.reach.flat[-1])
    limit = max(tree.stretches.limit(step, last) for tree in trees)
    lattice = make_lattice(limit, last, step)
    players = [tree.player(step, limit, last) for tree in trees]
    slope_error = (sum(windows.reach.shape) + 1) * STEP_ROUNDING
    values, spare = dict[tuple[int, ...], Value](), list[Value]()
    for tick, state in enumerate(itertools.product(*(range(size) for size in windows.reach.shape))):
        known, value = int(windows.reach[state]), None
        for k in np.flatnonzero(state).tolist():
            before, trial = values[(*state[:k], state[k] - 1, *state[k + 1 :])], Value.blank(lattice, last, spare)
            reach = int(windows.reach[(*state[:k], state[k] - 1, *state[k + 1 :])])
            turn = tick, float(sum(state)), PACE
            play_step(*before, *trial, players[k], lattice, reach, known, turn, slope_error, slack)
            if value is not None:
                take_better(*value.inside(lattice, known), *trial.inside(lattice, known))
                spare.append(trial)
            value = value or trial
        value = value or Value.nothing(lattice, last)
        value.extend(lattice, known, int(windows.ends[state]), last)
        values[state] = value
        if state[0] > 0:
            spare.append(values.pop((state[0] - 1, *state[1:])))  # no other state follows it
    upper, tests = values[tuple(size - 1 for size in windows.reach.shape)].inside(lattice, last)
    return upper.copy(), tests.copy()


def play_in_order(
    steps: Sequence[Family], windows: Windows, step: float, slack: float
) -> tuple[FloatArray, NDArray[np.void]]:
    """The same where the adversary keeps to one order: the last step comes first; `windows` by what is left."""
    families, last = {id(family): family for family in steps}, int(windows.reach[-1])
    trees = {kind: gather(family, slack) for kind, family in families.items()}
    limit = max(tree.stretches.limit(step, last) for tree in trees.values())
    lattice = make_lattice(limit, last, step)
    players = {kind: tree.player(step, limit, last) for kind, tree in trees.items()}
    slope_error = (len(steps) + 1) * STEP_ROUNDING
    value, spare = Value.nothing(lattice, last), list[Value]()
    reach = 0
    rows = zip((None, *steps), windows.reach.tolist(), windows.ends.tolist(), strict=True)
    for tick, (family, known, end) in enumerate(rows):
        if family is not None:
            before, value, player = value, Value.blank(lattice, last, spare), players[id(family)]
            play_step(*before, *value, player, lattice, reach, known, (tick, float(tick), 1.0), slope_error, slack)
            spare.append(before)
        value.extend(lattice, known, end, last)
        reach = known
    upper, tests = value.inside(lattice, last)
    return upper.copy(), tests.copy()


class Value(NamedTuple):
    """Bounds on the value of what is left: upper ends and tests, by direction and grid point."""

    upper: FloatArray
    tests: NDArray[np.void]

    @classmethod
    def blank(cls, lattice: Lattice, last: int, spare: list[Value]) -> Value:
        """Room for one, in the place of one that is spare if there is any."""
        shape = 2, lattice.size(last)
        return spare.pop() if spare else cls(np.empty(shape), np.empty(shape, TEST))

    @classmethod
    def nothing(cls, lattice: Lattice, last: int) -> Value:
        """Of no step, in V = W - max(1 - u, 0)."""
        value = cls.blank(lattice, last, [])
        value.upper[:] = 0.0
        value.inside(lattice, last).tests[:] = never(())
        return value

    def inside(self, lattice: Lattice, last: int) -> Value:
        """At the grid points from x = 0 up to `last`."""
        held = slice(lattice.base, lattice.base + last + 1)
        return Value(self.upper[:, held], self.tests[:, held])

    def extend(self, lattice: Lattice, known: int, end: int, last: int) -> None:
        """Go on to both sides of the window up to `known`; from `end` on there is nothing to win."""
        self.inside(lattice, known).upper[:, end:] = 0.0
        for direction in range(2):
            extend_left(*self, lattice, known, last, direction)
