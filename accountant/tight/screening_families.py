"""Tight accounting of noisy screening, where an adversary may choose another count at every step.

A screening is a family of pairs (P, Q) of two-point distributions, one for each count and neighbour. Its n-fold
composition, for any adaptive choice, is a game (notebooks/mathematics.md, Screening game):

    W_0(u) = max(1 - u, 0),   W_j(u) = max over pairs of E_P[ W_{j-1}(u Q/P) ],   delta(eps) = W_n(e^eps).

W_j is convex and falls in u: linear interpolation in u between grid points is an upper bound, and every test (a
line in u) a lower one. Both are certified, rounding included; `accountant.tight.screening_game` plays the game.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ParameterError, ToleranceUnreachable, real, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import spend
from accountant.tight.game_value import GameValue, PlayedGame, log_renyi_bound
from accountant.tight.kinds_above import bound_kinds, values_kept
from accountant.tight.mixed_game import moves_of, play_in_order, play_kinds, states_kept
from accountant.tight.screening_game import INPUT_ERROR, STEP_ROUNDING, Family, Pairs, Windows, never, play_steps

__all__ = ["GameValue", "block_values", "is_played", "largest_pair", "solve_game", "solve_in_order", "solve_near"]

MAX_WORK = 6e9
"""Grid points times steps that one game may take."""

LONGEST_MOVE = 50.0
"""Nats that tests are moved at most where a refused game is used: slopes that underflow are then below 1e-300."""

MAX_POINTS = 2**22
"""Grid points that one game may take, of 200 bytes each."""

MAX_POINTS_ABOVE = 2**24
"""The same where there are no tests: 16 bytes each, and as much again beside the grid."""

PORTIONS = np.linspace(0.0, 1.0, 513) ** 2
"""Portions of the steps at which it is asked how far losses matter."""

FEW_PAIRS = 4096
"""Pairs of a family that are taken as they are."""

MOVE = 60.0
"""Operations (see `accountant.patience`) of a step at a grid point, by doubling of the number of pairs."""

BETWEEN = 2e4
"""Operations of a step beside its grid points, where there are several kinds."""

MOVE_ABOVE = 16.0
"""As MOVE, where there are several kinds and no tests."""

BETWEEN_ABOVE = 2e3
"""As BETWEEN, where there are no tests."""


def solve_game(
    entries: Iterable[tuple[Event, int]] | Composition,
    direction: Direction,
    *,
    delta: float = 1e-5,
    tolerance: float = 0.01,
) -> GameValue:
    """Certified bounds on W_n of a composition of noisy screenings, for any adaptive choice of counts and order.

    Use it alone, or as what remains after single-pair events: delta(eps) = E[W_n(eps - L)], L their privacy loss.
    Taking families last bounds every order of the releases (notebooks/mathematics.md, Order of families). A release
    that does not happen is covered, since W_j >= W_(j-1).

    With several kinds of screening the adversary also chooses, after every outcome, which kind comes next
    (`accountant.tight.mixed_game`).

    Parameters
    ----------
    entries : Composition, or iterable of (Event, int)
        Families of pairs with two outcomes: noisy screenings, exponential mechanisms, samples and groups of them.
    direction : {"remove", "add"}
        (with || without) the individual, or (without || with).
    delta : float
        Where the bounds are to be tight; [1e-250, 1). At much smaller ones they are still certified, but wider.
    tolerance : float
        Largest width of the interval of epsilon at `delta`, relative to epsilon or to the privacy loss's standard
        deviation, whichever is larger; [1e-6, 1].

    Returns
    -------
    GameValue

    Raises
    ------
    ParameterError
        An event is no such family, or a value is out of range.
    ToleranceUnreachable
        The tolerance takes too fine a grid.
    """
    run = entries if isinstance(entries, Composition) else Composition(entries)
    if direction not in DIRECTIONS:
        raise ParameterError(f"direction = {direction!r}; accepted: {', '.join(DIRECTIONS)}")
    delta = real("delta", delta, 1e-250, 1.0, open_high=True)
    tolerance = real("tolerance", tolerance, 1e-6, 1.0)
    way = DIRECTIONS.index(direction)
    game = _solve(_Asked(run, delta), tolerance)
    return GameValue(game, game, way)


def solve_near(
    run: Composition, delta: float, tolerance: float
) -> tuple[dict[Direction, GameValue], ToleranceUnreachable | None]:
    """As `solve_game` in both directions; with a refusal, as near as grids came that are not too coarse."""
    played: list[PlayedGame] = []
    refusal = None
    try:
        game = _solve(_Asked(run, delta), tolerance, played)
    except ToleranceUnreachable as error:
        sound = [each for each in played if each.step * run.releases <= LONGEST_MOVE]
        if not sound:
            raise
        game, refusal = min(sound, key=lambda each: each.between(delta)), error
    return {direction: GameValue(game, game, way) for way, direction in enumerate(DIRECTIONS)}, refusal


def solve_in_order(run: Composition, order: float, delta: float, tolerance: float) -> tuple[GameValue, GameValue]:
    """Values in both directions of an adversary who plays one kind after the other, the costliest at an order last.

    He is one of those who may choose the kinds as they like: bounds from below are bounds on the whole game, too.
    Those from above are not. They are as near as there is patience for.
    """
    played: list[PlayedGame] = []
    try:
        game = _solve(_Asked(run, delta, order), tolerance, played)
    except ToleranceUnreachable:
        if not played:
            raise
        game = played[-1]
    return GameValue(game, game, 0), GameValue(game, game, 1)


def block_values(run: Composition, delta: float, tolerance: float) -> tuple[GameValue, GameValue]:
    """Bounds from above in both directions on a game, on a grid that adds that share to every step's variance."""
    _spend_on_pairs(run)
    asked = _Asked(run, delta, tests=False)
    setup = _set_up(asked)
    step = setup.first_step(tolerance)
    reach = float(setup.reaches(np.ones(1))[0])
    if values_kept(setup.counts) * reach / step > MAX_POINTS_ABOVE:
        raise ToleranceUnreachable(f"a game of {run.releases} screenings takes too much memory")
    game = _play_within(asked, step, tolerance / 5, f"a game of {run.releases} screenings")
    return GameValue(game, game, 0), GameValue(game, game, 1)


def largest_pair(event: Event, direction: Direction, order: float) -> Pairs:
    """One pair (with, without) of a screening, of the largest Rényi divergence in that direction at an order above 1.

    Its log-ratios are a little too small: it is dominated by the pair that is meant.
    """
    family = _family(event).played
    p, rest, q, keep = family.masses()
    above = order - 1
    with np.errstate(divide="ignore"):
        if direction == DIRECTIONS[0]:
            costs = np.logaddexp(np.log(p) + above * family.up, np.log(rest) - above * family.down)
        else:
            costs = np.logaddexp(np.log(q) - above * family.up, np.log(keep) + above * family.down)
    worst = int(np.argmax(costs))
    return Pairs(family.up[worst] * (1 - INPUT_ERROR), family.down[worst] * (1 - INPUT_ERROR))


def is_played(event: Event) -> bool:
    """Whether `solve_game` takes it."""
    return event._choices() is not None or event._largest_loss() == 0.0


def _family(event: Event, least: float = 0.0) -> Family:
    """Pairs (with, without) of a family, less those that another one dominates, by rising `down`.

    A step's value is a chord of a convex function over [u e^-up, u e^down], so the longer interval dominates. Smaller
    log-ratios than `least` are raised to it: no pair's total variation exceeds its smaller log-ratio, so that less
    than `least` is lost (notebooks/mathematics.md, Screening game).
    """
    choices = event._choices()
    if choices is None:
        raise ParameterError(f"{shorten(event)}; accepted: families of pairs with two outcomes, as noisy screenings")
    up, down, played = (
        np.maximum(choices.up, least),
        np.maximum(choices.down, least),
        choices.played or (choices.up, choices.down),
    )
    order = np.lexsort((up, down))[::-1]
    longest = np.maximum.accumulate(up[order])
    keep = order[np.diff(longest, prepend=-1.0) > 0][::-1]
    return Family(Pairs(up[keep], down[keep]), Pairs(played[0][keep], played[1][keep]))


def _few_pairs(event: Event, least: float) -> Family:
    """A family without what is far less than delta, if it has too many pairs and not all of them are that."""
    family = _family(event)
    if family.above.up.size <= FEW_PAIRS or not np.min(family.above, axis=0).max() > least:
        return family
    return _family(event, least)


# --- setting up a game -----------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """A game. `order`: kinds come one after the other, the costliest at that Rényi order last; else as one likes.

    `tests`: whether bounds from below are wanted as well.
    """

    run: Composition
    delta: float
    order: float | None = None
    tests: bool = True


class _Setup(NamedTuple):
    """What does not depend on the grid: pairs and counts of each kind, and a Rényi bound at orders 1 + b.

    `curves` and `ends` are of one screening of each kind, `floor` the log of a delta that is negligible; beyond `end`
    is nothing.
    """

    families: tuple[Family, ...]
    counts: tuple[int, ...]
    deviation: float
    b: FloatArray
    renyi: FloatArray
    curves: FloatArray
    ends: FloatArray
    floor: float
    end: float
    order: float | None
    tests: bool

    @property
    def steps(self) -> int:
        return sum(self.counts)

    @property
    def moves(self) -> float:
        """Steps at a grid point that the game takes."""
        return moves_of(self.counts) if self.order is None else float(self.steps)

    @property
    def states(self) -> float:
        """States whose values are held at once."""
        return states_kept(self.counts) if self.order is None else 2.0

    def kinds(self) -> list[int]:
        """The kind of each screening, of the last one first, where they come one after the other."""
        costs = self.curves[:, int(np.argmin(np.abs(self.b - ((self.order or 1.0) - 1))))]
        last_first = np.argsort(costs, kind="stable")[::-1].tolist()
        return [k for k in last_first for _ in range(self.counts[k])]

    def reaches(self, portions: FloatArray) -> FloatArray:
        """The x beyond which delta is negligible, where such portions of all kinds are left."""
        return self.reach([count * portions for count in self.counts])

    def reach(self, left: Sequence[FloatArray]) -> FloatArray:
        """The same where so many are left of each kind."""
        # Mironov 2017, Prop. 3; this only sizes windows
        best = self.largest(left)
        for b, costs in zip(self.b.tolist(), self.curves.T.tolist(), strict=True):
            cost = sum((many * each for many, each in zip(left, costs, strict=True)), np.zeros(()))
            best = np.minimum(best, cost - self.floor / b)
        return best

    def first_step(self, tolerance: float) -> float:
        """Of a grid that adds about that share to every step's variance, or a start where losses are rare and large."""
        reach = float(self.reaches(np.ones(1))[0])
        # interpolation adds at most step^2/4
        fine = max(self.deviation * math.sqrt(4 * tolerance), reach / (200 * math.sqrt(self.steps)))
        return min(fine, reach / 64)

    def largest(self, left: Sequence[FloatArray]) -> FloatArray:
        """The largest loss where so many are left of each kind."""
        return sum((many * end for many, end in zip(left, self.ends.tolist(), strict=True)), np.zeros(()))

    def windows(self, step: float) -> Windows:
        """For a grid of that step."""
        if self.order is None:
            left = np.ix_(*(np.arange(count + 1.0) for count in self.counts))
        else:
            played = np.array(self.kinds())[:, None] == np.arange(len(self.counts))
            left = tuple(np.cumsum(np.insert(played, 0, False, axis=0), axis=0, dtype=float).T)
        ends = np.ceil(self.largest(left) / step * (1 + INPUT_ERROR))
        if len(self.counts) == 1:
            reach = np.interp(left[0] / self.steps, PORTIONS, self.reaches(PORTIONS))
        else:
            reach = self.reach(left)
        # an end that matters is seen: V is 0 there, and elsewhere above what it is at the edge
        return Windows(*(np.minimum(cells, ends).astype(np.int64) for cells in (np.ceil(reach / step) + 1, ends)))


@lru_cache(maxsize=16)
def _set_up(asked: _Asked) -> _Setup:
    run, delta = asked.run, asked.delta
    # values are held for all counts but the first: let that be the largest
    kinds = sorted(run, key=lambda entry: entry[1], reverse=True)
    counts, steps = tuple(count for _, count in kinds), run.releases
    floor = math.log(delta) - math.log(steps) - 25.0
    families = tuple(_few_pairs(event, math.exp(floor)) for event, _ in kinds)
    end = float(run.renyi(math.inf)) * (1 + INPUT_ERROR)
    square = sum(count * family.above.deviation() ** 2 for family, count in zip(families, counts, strict=True))
    deviation = math.sqrt(square / steps) or end / steps
    orders = 1 + np.geomspace(1e-4, 1e4, 241) / deviation
    orders = np.unique(orders[orders > 1]) if orders[-1] > 1 else np.array([1 + 1e-12])  # for enormous losses
    b = orders - 1
    curves = np.stack([event.renyi(orders) for event, _ in kinds]) * (1 + 1e-9)
    ends = np.array([float(event.renyi(math.inf)) for event, _ in kinds]) * (1 + INPUT_ERROR)
    return _Setup(families, counts, deviation, b, counts @ curves, curves, ends, floor, end, asked.order, asked.tests)


def _solve(asked: _Asked, tolerance: float, played: list[PlayedGame] | None = None) -> PlayedGame:
    """The game of a run, on a grid that is fine enough; `played` gets those on all grids."""
    played = [] if played is None else played
    delta = asked.delta
    run = Composition((event, count) for event, count in asked.run if event._largest_loss() > 0.0)
    asked = asked._replace(run=run)
    _spend_on_pairs(run)
    if float(run.renyi(math.inf)) == 0.0:
        return PlayedGame(1.0, np.zeros((2, 2)), never((2, 2)), 0.0, np.ones(1), np.zeros(1), 0.0)
    setup = _set_up(asked)
    steps, reach, scale = setup.steps, float(setup.reaches(np.ones(1))[0]), setup.deviation * math.sqrt(setup.steps)
    step = setup.first_step(tolerance)
    widths: list[float] = []
    while setup.moves * reach / step <= MAX_WORK and setup.states * reach / step <= MAX_POINTS and not _stalls(widths):
        known = f", known within {widths[-1]:.2g} so far," if widths else ""
        what, hint = f"a game of {steps} screenings{known}", None if widths else tolerance
        played.append(game := _play_within(asked, step, tolerance / 5, what, hint))
        widths.append(max(game.width(way, delta, scale) for way in range(2)))
        if widths[-1] <= tolerance:
            return game
        step /= 2
    if len(setup.counts) > 1 and not widths and setup.states * reach / step > MAX_POINTS:
        raise ToleranceUnreachable(
            f"{steps} screenings of {len(setup.counts)} kinds have a game of {setup.states:.2g} states, more than fit "
            "into memory; accepted: a larger tolerance, fewer kinds, or method = 'renyi' or 'auto'"
        )
    raise ToleranceUnreachable(
        f"tolerance = {tolerance:g} takes too fine a grid for {steps} screenings; "
        "accepted: a larger tolerance, fewer screenings, or method = 'renyi' or 'auto'"
    )


def _play_within(asked: _Asked, step: float, slack: float, what: str, tolerance: float | None = None) -> PlayedGame:
    """The game on a grid of about that step, if there is patience for it."""
    setup = _set_up(asked)
    step = math.ldexp(int(math.frexp(step)[0] * 2**20), math.frexp(step)[1] - 20)
    window = float(np.mean(np.interp(np.linspace(0.0, 1.0, 4097), PORTIONS, setup.reaches(PORTIONS)))) / step
    several = len(setup.counts) > 1
    move, between = (MOVE, BETWEEN) if asked.tests or not several else (MOVE_ABOVE, BETWEEN_ABOVE)
    move *= 2 + math.log2(max(family.above.up.size for family in setup.families))
    spend(setup.moves * (move * (window + 8) + several * between), what, tolerance, once=(asked, step, slack))
    return _play(asked, step, slack)


def _spend_on_pairs(run: Composition) -> None:
    """Count the work of all pairs, for each kind."""
    for event, _ in run:
        event._choices()


def _stalls(widths: list[float]) -> bool:
    """Whether five halvings of the grid did not help."""
    return len(widths) > 5 and widths[-1] > 0.8 * widths[-6]


@lru_cache(maxsize=16)
def _play(asked: _Asked, step: float, slack: float) -> PlayedGame:
    """The game on one grid."""
    setup = _set_up(asked)
    windows = setup.windows(step)
    if len(setup.families) == 1:
        upper, tests = play_steps(setup.families[0], windows, step, slack)
    elif setup.order is not None:
        upper, tests = play_in_order([setup.families[k] for k in setup.kinds()], windows, step, slack)
    elif not setup.tests:
        upper = bound_kinds(setup.families, windows, step, slack)
        tests = never(upper.shape)
    else:
        upper, tests = play_kinds(setup.families, windows, step, slack)
    x = step * np.arange(upper.shape[1], dtype=float)
    with np.errstate(over="ignore"):
        upper = np.minimum(upper, np.exp(log_renyi_bound(setup.b, setup.renyi, x)) * (1 + 1e-12))
    return PlayedGame(step, upper, tests, (setup.steps + 1) * STEP_ROUNDING, setup.b, setup.renyi, setup.end)
