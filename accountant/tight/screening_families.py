"""Tight accounting of noisy screening, where an adversary may choose another count at every step.

A screening is a family of pairs (P, Q) of two-point distributions, one for each count and neighbour. Its n-fold
composition, for any adaptive choice, is a game (notebooks/mathematics.md, Screening game):

    W_0(u) = max(1 - u, 0),   W_j(u) = max over pairs of E_P[ W_{j-1}(u Q/P) ],   delta(eps) = W_n(e^eps).

W_j is convex and falls in u: linear interpolation in u between grid points is an upper bound, and every test (a
line in u) a lower one. Both are certified, rounding included; `accountant.tight.screening_game` plays the game.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
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
from accountant.tight.screening_game import INPUT_ERROR, STEP_ROUNDING, Pairs, never, play_steps

__all__ = ["GameValue", "block_values", "is_screening", "largest_pair", "solve_game"]

MAX_WORK = 6e9
"""Grid points times steps that one game may take."""

MAX_POINTS = 2**22
"""Grid points that one game may take, of 200 bytes each."""

MOVE = 60.0
"""Operations (see `accountant.patience`) of a step at a grid point, by doubling of the number of pairs."""


def solve_game(
    entries: Iterable[tuple[Event, int]] | Composition,
    direction: Direction,
    *,
    delta: float = 1e-5,
    tolerance: float = 0.01,
) -> GameValue:
    """Certified bounds on W_n of a composition of noisy screenings, for any adaptive choice of counts.

    Use it alone, or as what remains after single-pair events: delta(eps) = E[W_n(eps - L)], L their privacy loss.
    Taking families last bounds every order of the releases (notebooks/mathematics.md, Order of families). A release
    that does not happen is covered, since W_j >= W_(j-1).

    With several kinds of screening the upper bound lets every step be of any kind, which covers all their orders.
    The lower bound plays the costliest kind alone. Both are safe; together they are loose.

    Parameters
    ----------
    entries : Composition, or iterable of (Event, int)
        Events of kinds NoisyScreening, DataDependentScreening, or PoissonSubsampled of the first.
    direction : {"remove", "add"}
        (with || without) the individual, or (without || with).
    delta : float
        Where the bounds are to be tight; [1e-250, 1). At much smaller ones they are still certified, but wider.
    tolerance : float
        Largest width of the interval of epsilon at `delta`, relative to epsilon or to the privacy loss's standard
        deviation, whichever is larger; for one kind of screening. [1e-6, 1].

    Returns
    -------
    GameValue

    Raises
    ------
    ParameterError
        An event is no screening, or a value is out of range.
    ToleranceUnreachable
        The tolerance takes too fine a grid.
    """
    run = entries if isinstance(entries, Composition) else Composition(entries)
    if direction not in DIRECTIONS:
        raise ParameterError(f"direction = {direction!r}; accepted: {', '.join(DIRECTIONS)}")
    delta = real("delta", delta, 1e-250, 1.0, open_high=True)
    tolerance = real("tolerance", tolerance, 1e-6, 1.0)
    way = DIRECTIONS.index(direction)
    together = _solve(run, delta, tolerance)
    if len(run) < 2:
        return GameValue(together, together, way)
    alone = [_solve(count * event, delta, tolerance) for event, count in run]
    return GameValue(together, max(alone, key=lambda game: game.least_epsilon(way, delta)), way)


def block_values(event: Event, steps: int, delta: float, tolerance: float) -> tuple[GameValue, GameValue]:
    """Values in both directions of a game of one kind, on a grid that adds that share to every step's variance."""
    run = steps * event
    _spend_on_pairs(run)
    setup = _set_up(run, delta)
    reach = float(setup.reaches[-1])
    step = min(setup.deviation * math.sqrt(4 * tolerance), reach / 64)
    game = _play_within(run, delta, step, tolerance / 10, f"a game of {steps} screenings")
    return GameValue(game, game, 0), GameValue(game, game, 1)


def largest_pair(event: Event, direction: Direction, order: float) -> Pairs:
    """One pair (with, without) of a screening, of the largest Rényi divergence in that direction at an order above 1.

    Its log-ratios are a little too small: it is dominated by the pair that is meant.
    """
    family = _family(1 * event)
    p, rest, q, keep = family.masses()
    above = order - 1
    with np.errstate(divide="ignore"):
        if direction == DIRECTIONS[0]:
            costs = np.logaddexp(np.log(p) + above * family.up, np.log(rest) - above * family.down)
        else:
            costs = np.logaddexp(np.log(q) - above * family.up, np.log(keep) + above * family.down)
    worst = int(np.argmax(costs))
    return Pairs(family.up[worst] * (1 - INPUT_ERROR), family.down[worst] * (1 - INPUT_ERROR))


def is_screening(event: Event) -> bool:
    """Whether `solve_game` takes it."""
    return event.unsampled._screening() is not None


def _family(run: Composition) -> Pairs:
    """Pairs (with, without) of all kinds, less those that another one dominates, by rising `down`.

    A step's value is a chord of a convex function over [u e^-up, u e^down], so the longer interval dominates.
    """
    parts = []
    for event, _ in run:
        screening, rate = event.unsampled._screening(), event.sampling_rate
        if screening is None:
            raise ParameterError(f"{shorten(event)}; accepted: noisy screenings, also Poisson-subsampled")
        if rate > 0.0:
            pairs = screening.pairs(rate)
            parts.append(np.stack([pairs.ratio_pass, pairs.ratio_fail]))
    ratios = np.concatenate([np.zeros((2, 0)), *parts], axis=1)
    up, down = ratios.max(axis=0), -ratios.min(axis=0)
    order = np.lexsort((up, down))[::-1]
    longest = np.maximum.accumulate(up[order])
    keep = order[np.diff(longest, prepend=-1.0) > 0][::-1]
    return Pairs(up[keep], down[keep])


# --- setting up a game -----------------------------------------------------------------------------------


class _Setup(NamedTuple):
    """What does not depend on the grid: pairs, a Rényi bound at orders 1 + b, and how far losses matter.

    `reaches` are the x beyond which delta is negligible after these `portions` of the steps; beyond `end` is nothing.
    """

    family: Pairs
    steps: int
    deviation: float
    b: FloatArray
    renyi: FloatArray
    portions: FloatArray
    reaches: FloatArray
    end: float


@lru_cache(maxsize=16)
def _set_up(run: Composition, delta: float) -> _Setup:
    family, steps = _family(run), run.releases
    end = float(run.renyi(math.inf)) * (1 + INPUT_ERROR)
    deviation = family.deviation() or end / steps
    orders = 1 + np.geomspace(1e-4, 1e4, 241) / deviation
    orders = np.unique(orders[orders > 1])
    b, renyi = orders - 1, run.renyi(orders) * (1 + 1e-9)
    # Mironov 2017, Prop. 3; this only sizes windows
    floor = math.log(delta) - math.log(steps) - 25.0
    portions = np.linspace(0.0, 1.0, 513) ** 2
    reaches = np.minimum(np.min(portions[:, None] * renyi - floor / b, axis=1), portions * end)
    return _Setup(family, steps, deviation, b, renyi, portions, reaches, end)


def _solve(run: Composition, delta: float, tolerance: float) -> PlayedGame:
    """The game of a run, on a grid that is fine enough."""
    run = Composition((event, count) for event, count in run if event.sampling_rate > 0.0)
    _spend_on_pairs(run)
    if float(run.renyi(math.inf)) == 0.0:
        return PlayedGame(1.0, np.zeros((2, 2)), never((2, 2)), 0.0, np.ones(1), np.zeros(1), 0.0)
    setup = _set_up(run, delta)
    steps, reach, scale = setup.steps, float(setup.reaches[-1]), setup.deviation * math.sqrt(setup.steps)
    # interpolation adds at most step^2/4 to the variance of every step; a start for where losses are rare and large
    step = min(max(setup.deviation * math.sqrt(4 * tolerance), reach / (200 * math.sqrt(steps))), reach / 64)
    widths: list[float] = []
    while steps * reach / step <= MAX_WORK and reach / step <= MAX_POINTS and not _stalls(widths):
        known = f", known within {widths[-1]:.2g} so far," if widths else ""
        what, hint = f"a game of {steps} screenings{known}", None if widths else tolerance
        game = _play_within(run, delta, step, tolerance / 10, what, hint)
        widths.append(max(game.width(way, delta, scale) for way in range(2)))
        if widths[-1] <= tolerance:
            return game
        step /= 2
    known = f"; {min(widths):.2g} can be had" if widths else ""
    raise ToleranceUnreachable(
        f"tolerance = {tolerance:g} takes too fine a grid for {steps} screenings{known}; "
        "accepted: a larger tolerance, fewer screenings, or method = 'renyi' or 'auto'"
    )


def _play_within(
    run: Composition, delta: float, step: float, slack: float, what: str, tolerance: float | None = None
) -> PlayedGame:
    """The game on a grid of about that step, if there is patience for it."""
    setup = _set_up(run, delta)
    step = math.ldexp(int(math.frexp(step)[0] * 2**20), math.frexp(step)[1] - 20)
    window = float(np.mean(np.interp(np.linspace(0.0, 1.0, 4097), setup.portions, setup.reaches))) / step
    move = MOVE * (2 + math.log2(setup.family.up.size))
    spend(move * setup.steps * (window + 8), what, tolerance, once=(run, delta, step, slack))
    return _play(run, delta, step, slack)


def _spend_on_pairs(run: Composition) -> None:
    """Count the work of all pairs, for each kind of screening."""
    for event, _ in run:
        if (screening := event.unsampled._screening()) is not None:
            screening.spend_on_pairs(event.sampling_rate)


def _stalls(widths: list[float]) -> bool:
    """Whether five halvings of the grid did not help."""
    return len(widths) > 5 and widths[-1] > 0.8 * widths[-6]


@lru_cache(maxsize=16)
def _play(run: Composition, delta: float, step: float, slack: float) -> PlayedGame:
    """The game on one grid."""
    family, steps, _, b, renyi, portions, reaches, end = _set_up(run, delta)
    windows = np.ceil(np.interp(np.arange(steps + 1) / steps, portions, reaches) / step).astype(np.int64)
    upper, tests = play_steps(family, windows, step, slack)
    x = step * np.arange(upper.shape[1], dtype=float)
    with np.errstate(over="ignore"):
        upper = np.minimum(upper, np.exp(log_renyi_bound(b, renyi, x)) * (1 + 1e-12))
    return PlayedGame(step, upper, tests, (steps + 1) * STEP_ROUNDING, b, renyi, end)
