"""Tight accounting of noisy screening, where an adversary may choose another count at every step.

A screening is a family of pairs (P, Q) of two-point distributions, one for each count and neighbour. Its n-fold
composition, for any adaptive choice, is a game (notebooks/mathematics.md, Screening game):

    W_0(u) = max(1 - u, 0),   W_j(u) = max over pairs of E_P[ W_{j-1}(u Q/P) ],   delta(eps) = W_n(e^eps).

W_j is convex and falls in u: linear interpolation in u between grid points is an upper bound, and every test (a
line in u) a lower one. Both are certified, rounding included; `accountant.tight.screening_game` plays the game.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, partial

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import ParameterError, ToleranceUnreachable, count_of, real
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.from_below import costs_nothing
from accountant.numerics.decimals import format_up
from accountant.patience import followed_by, spend
from accountant.tight.cover_kernels import STEP_ROUNDING
from accountant.tight.flat_ends import FlatEnd
from accountant.tight.game_setup import Asked, Setup, family_of, round_down, set_up, work_of
from accountant.tight.game_value import GameValue, PlayedGame, log_renyi_bound
from accountant.tight.hulls import lower_to_hull
from accountant.tight.kinds_above import bound_kinds, values_kept
from accountant.tight.mixed_game import moves_of, play_in_order, play_kinds
from accountant.tight.pairs import INPUT_ERROR, Pairs
from accountant.tight.screening_game import never, play_steps

__all__ = [
    "GameValue",
    "TooManyStates",
    "begun_work",
    "block_values",
    "block_work",
    "is_played",
    "largest_pair",
    "solve_between",
    "solve_capped",
    "solve_game",
    "solve_in_order",
    "solve_near",
]

FEW_KINDS = 4
"""Kinds of one game up to which it is not counted what their curves take: less than 0.04 s."""

BLOCK = 1e7
"""Operations (see `accountant.patience`) that a block takes for each kind, beside its game."""

MAX_WORK = 6e9
"""Grid points times steps that one game may take."""

MAX_POINTS = 2**22
"""Grid points in the windows of one game."""

MAX_POINTS_ABOVE = 2**24
"""The same where there are no tests."""

MAX_MEMORY = 1.5e9
"""Bytes of one game, with what shifts reach beyond its windows (see `accountant.tight.game_setup`)."""

FEW_MOVES = 300
"""Steps of a game of several kinds up to which its tests take next to nothing."""

LESS = 0.5
"""Where most of a window matters nothing is gained by less of it."""

Values = dict[Direction, GameValue]

Width = Callable[[Values], float]


class TooManyStates(ToleranceUnreachable):
    """A game has more states than fit into memory, and has with more kinds in it."""


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
    game = _solve(Asked(run, delta), tolerance)
    return GameValue(game, game, way)


def solve_near(
    run: Composition, delta: float, tolerance: float, width: Width | None = None
) -> tuple[Values, ToleranceUnreachable | None]:
    """As `solve_game` in both directions; with a refusal, as near as grids came.

    Parameters
    ----------
    run, delta, tolerance : Composition, float, float
    width : callable, optional
        What the tolerance is of, instead of the width of epsilon as `solve_game` has it.
    """
    played: list[PlayedGame] = []
    try:
        return _both(_solve(Asked(run, delta), tolerance, played, width)), None
    except ToleranceUnreachable as error:
        if not played:
            raise
        known = [(width(_both(game)) if width else game.between(delta)) for game in played]
        return _both(played[known.index(min(known))]), error


def solve_between(
    run: Composition, delta: float, tolerance: float, width: Width
) -> tuple[Values, ToleranceUnreachable | None]:
    """As `solve_near`; of several kinds one order is played from below as long as that is near enough.

    From above the game takes a tenth of the work that it takes with its tests.
    """
    run = _told(run)
    if len(run.entries) < 2 or moves_of([count for _, count in run]) <= FEW_MOVES:
        return solve_near(run, delta, tolerance, width)
    near = list[Values]()
    try:
        if _play_beside_order(run, delta, tolerance, width, near):
            return near[-1], None
        values, refusal = solve_near(run, delta, tolerance, width)
    except ToleranceUnreachable as error:
        if not near:
            raise
        return min(near, key=width), error
    return min([*near, values], key=width), refusal


def _play_beside_order(run: Composition, delta: float, tolerance: float, width: Width, played: list[Values]) -> bool:
    """Play from above, and in one order from below, on finer and finer grids; `played` gets what these tell.

    Returns whether the last is near enough; else one order, or so fine a grid, does not do.
    """
    _spend_on_pairs(run)
    asked = Asked(run, delta, tests=False)
    setup = set_up(asked)
    ordered = Asked(run, delta, setup.order_at(delta))
    step, slack, widths = setup.first_step(tolerance), tolerance / 5, list[float]()
    while _fits(setup, step) and not _stalls(widths):
        what = _say_game(setup, widths)
        with followed_by(partial(_halved_on, asked, step, slack, widths, tolerance)):
            above, below = (_play_within(each, step, slack, what) for each in (asked, ordered))
        played.append(_between(above, below))
        widths.append(width(played[-1]))
        if widths[-1] <= tolerance:
            return True
        if widths[-1] - width(_both(below)) > tolerance:
            break
        step, slack = step / 2, slack / 3
    return False


def solve_capped(run: Composition, delta: float, cap: float, tolerance: float) -> dict[Direction, FlatEnd] | None:
    """As `solve_near` on one grid, on which nothing is told apart beyond `cap` nats; None where that is no gain.

    `tolerance` is about the share that the grid adds to the variance of every step, losses being cut at `cap`.
    """
    asked = Asked(_told(run), delta, cap=cap)
    if not asked.run.entries or not cap < LESS * float(set_up(asked._replace(cap=math.inf)).reaches(np.ones(1))[0]):
        return None
    setup = set_up(asked)
    step = setup.first_step(tolerance)
    if not _fits(setup, step):
        return None
    game = _play_within(asked, step, tolerance / 5, f"a game of {setup.steps} screenings")
    return {direction: value.with_flat_end() for direction, value in _both(game).items()}


def _both(game: PlayedGame) -> Values:
    return _between(game, game)


def _between(above: PlayedGame, below: PlayedGame) -> Values:
    return {direction: GameValue(above, below, way) for way, direction in enumerate(DIRECTIONS)}


def _told(run: Composition) -> Composition:
    """Without what costs nothing."""
    return Composition((event, count) for event, count in run if not costs_nothing(event))


def _say_game(setup: Setup, widths: list[float]) -> str:
    """What is played, and what is known so far."""
    known = f", known within {format_up(widths[-1], 2)} so far," if widths else ""
    return f"a game of {setup.steps} screenings{known}"


def solve_in_order(run: Composition, order: float, delta: float, tolerance: float) -> tuple[GameValue, GameValue]:
    """Values in both directions of an adversary who plays one kind after the other, the costliest at an order last.

    He is one of those who may choose the kinds as they like: bounds from below are bounds on the whole game, too.
    Those from above are not. They are as near as there is patience for.
    """
    played: list[PlayedGame] = []
    try:
        game = _solve(Asked(run, delta, order), tolerance, played)
    except ToleranceUnreachable:
        if not played:
            raise
        game = played[-1]
    return GameValue(game, game, 0), GameValue(game, game, 1)


def block_values(run: Composition, delta: float, tolerance: float) -> tuple[GameValue, GameValue]:
    """Bounds from above in both directions on a game, on a grid that adds that share to every step's variance."""
    asked, step = _above(run, delta, tolerance)
    spend(BLOCK * len(asked.run.entries), "blocks of screenings", once=(asked, "begun"))
    game = _play_within(asked, step, tolerance / 5, f"a game of {run.releases} screenings")
    return GameValue(game, game, 0), GameValue(game, game, 1)


def block_work(run: Composition, delta: float, tolerance: float) -> tuple[Hashable, float]:
    """What `block_values` plays, and its operations, for `foresee`."""
    asked, step = _above(run, delta, tolerance)
    begun = BLOCK * len(set_up(asked).counts)
    return (asked, round_down(step), tolerance / 5), begun + work_of(asked, round_down(step), tolerance / 5)


def begun_work(run: Composition, delta: float) -> tuple[Hashable, float]:
    """What `block_values` begins with before its game can be counted, and its operations, for `foresee`."""
    return (Asked(run, delta, tests=False), "begun"), BLOCK * len(run.entries)


def _above(run: Composition, delta: float, tolerance: float) -> tuple[Asked, float]:
    """A game without tests, and its grid's step."""
    _spend_on_pairs(run)
    asked = Asked(run, delta, tests=False)
    setup = set_up(asked)
    step = setup.first_step(tolerance)
    if not _is_held(setup, step):
        raise ToleranceUnreachable(f"a game of {run.releases} screenings takes too much memory")
    return asked, step


def largest_pair(event: Event, direction: Direction, order: float) -> Pairs:
    """One pair (with, without) of a screening, of the largest Rényi divergence in that direction at an order above 1.

    Its log-ratios are a little too small: it is dominated by the pair that is meant.
    """
    family = family_of(event).played
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
    return event._choices() is not None or costs_nothing(event)


def _solve(
    asked: Asked, tolerance: float, played: list[PlayedGame] | None = None, width: Width | None = None
) -> PlayedGame:
    """The game of a run, on a grid that is fine enough; `played` gets those on all grids.

    `width` says what the tolerance is of; what dominating pairs may give away then falls with the grid.
    """
    played = [] if played is None else played
    delta = asked.delta
    asked = asked._replace(run=(run := _told(asked.run)))
    _spend_on_pairs(run)
    if float(run.renyi(math.inf)) == 0.0:
        return PlayedGame(1.0, np.zeros((2, 2)), never((2, 2)), 0.0, np.ones(1), np.zeros(1), 0.0)
    if len(run.entries) > FEW_KINDS:  # their curves are known at many orders, which other games of theirs ask for again
        for event, _ in run:
            spend(BLOCK, f"a game of {count_of(len(run.entries), 'kind')} of screening", once=("curve", event))
    setup = set_up(asked)
    steps, scale = setup.steps, setup.deviation * math.sqrt(setup.steps)
    step, slack = setup.first_step(tolerance), tolerance / 5
    widths: list[float] = []
    while _fits(setup, step) and not _stalls(widths):
        what, hint = _say_game(setup, widths), None if widths else tolerance
        with followed_by(partial(_halved_on, asked, step, slack, widths, tolerance)):
            game = _play_within(asked, step, slack, what, hint)
        played.append(game)
        widths.append(width(_both(game)) if width else max(game.width(way, delta, scale) for way in range(2)))
        if widths[-1] <= tolerance:
            return game
        step, slack = step / 2, slack / 3 if width else slack
    if len(setup.counts) > 1 and not widths and not _is_held(setup, step):
        raise TooManyStates(
            f"{steps} screenings of {len(setup.counts)} kinds have a game of {setup.states:.2g} states, more than fit "
            "into memory; accepted: a larger tolerance, fewer kinds, or method = 'renyi' or 'auto'"
        )
    raise ToleranceUnreachable(
        f"tolerance = {tolerance:g} takes too fine a grid for {steps} screenings; "
        "accepted: a larger tolerance, fewer screenings, or method = 'renyi' or 'auto'"
    )


def _fits(setup: Setup, step: float) -> bool:
    """Whether a game on that grid may be played: it is neither too long nor too large."""
    return setup.moves * setup.reach_of_all / step <= MAX_WORK and _is_held(setup, step)


def _is_held(setup: Setup, step: float) -> bool:
    """Whether it has room in memory."""
    held, most = (setup.states, MAX_POINTS) if setup.tests else (values_kept(setup.counts), MAX_POINTS_ABOVE)
    return held * setup.reach_of_all / step <= most and setup.memory(step) <= MAX_MEMORY


def _halved_on(asked: Asked, step: float, slack: float, widths: list[float], tolerance: float) -> float:
    """Operations of what follows the next grid, if widths halve with the step."""
    halvings = math.ceil(math.log2(widths[-1] / tolerance)) if widths else 1
    return work_of(asked, round_down(step), slack) * (2.0 ** max(halvings, 1) - 2.0)


def _play_within(asked: Asked, step: float, slack: float, what: str, tolerance: float | None = None) -> PlayedGame:
    """The game on a grid of about that step, if there is patience for it."""
    step = round_down(step)
    spend(work_of(asked, step, slack), what, tolerance, once=(asked, step, slack))
    return _play(asked, step, slack)


def _spend_on_pairs(run: Composition) -> None:
    """Count the work of all pairs, for each kind."""
    for event, _ in run:
        event._choices()


def _stalls(widths: list[float]) -> bool:
    """Whether five halvings of the grid did not help."""
    return len(widths) > 5 and widths[-1] > 0.8 * widths[-6]


@lru_cache(maxsize=16)
def _play(asked: Asked, step: float, slack: float) -> PlayedGame:
    """The game on one grid."""
    setup = set_up(asked)
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
    upper = lower_to_hull(upper, step)
    return PlayedGame(step, upper, tests, (setup.steps + 1) * STEP_ROUNDING, setup.b, setup.renyi, setup.end)
