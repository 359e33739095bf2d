"""Answers where families of pairs come last: their games are played as nearly as it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.numerics.roots import Interval
from accountant.tight.loss_caps import LossCap
from accountant.tight.loss_composition import Entries, Remainders, RemainderTooWide
from accountant.tight.screening_families import GameValue, solve_capped, solve_near

__all__ = [
    "FAMILY_SHARES",
    "LEAST_DELTA",
    "BetweenBounds",
    "end_early",
    "join_ends",
    "lower_end",
    "meet",
    "raise_lower_end",
    "with_games",
]

LEAST_DELTA = 1e-250
"""The smallest delta for which they are solved; what they say of smaller ones holds as well."""

FAMILY_SHARES = 0.5, 0.1, 0.02, 0.004
"""Shares of the tolerance that screenings get where other events are composed with them, until one is small enough."""

CAPPED_SHARES = 0.5, 0.02, 8e-4, 3e-5, 1e-6
"""The same of games that end early; a step is a fifth of the one before."""

SIDE_SHARES = 1.0, 0.5, 0.25, 0.1
"""Shares of the tolerance that the grids of either side may take, the first time, and when they are asked again."""

FINEST = 1e-6
"""The finest tolerance of grids."""

NARROWER = 0.8
"""By how much an interval is to be narrower, that another is tried."""

Side = Callable[[float, Remainders | None], Interval]

FURTHER = 3.0
"""By how much more losses are told apart where a game ended too early."""

ENDS = 3
"""Ends of games that are tried, each further than the one before."""


def with_games(
    families: Entries,
    delta: float,
    tolerance: float,
    ask: Callable[[Remainders | None], Interval],
    cap: LossCap,
    wide: set[float] | None = None,
) -> Interval:
    """An answer that may need what families leave of delta after all other events, solved as narrowly as it takes.

    Families last bounds every interleaving (notebooks/mathematics.md, Order of families). Where their losses are so
    large that no grid is near enough, those are tried that end where it no longer matters how large losses are. `wide`
    are shares of the tolerance that were too large for other points: the smallest is tried again.
    """
    if not families:
        return ask(None)

    run, delta = Composition(families), max(delta, LEAST_DELTA)
    known: ToleranceUnreachable | None = None
    before, width, wide = math.inf, None, set() if wide is None else wide
    for share in [each for each in FAMILY_SHARES if each not in wide] or FAMILY_SHARES[-1:]:
        near, refusal = solve_near(run, delta, max(share * tolerance, FINEST), width)
        if width is None and known is not None and known.found is not None and _step_of(near) == before:
            # beside a deviation of rare large losses every grid is near; so is epsilon = 0
            asked = (cap.epsilon, known.found[1]) if cap.delta is None else (known.found[1], cap.delta)
            width = partial(_gap, *asked)
            near, refusal = solve_near(run, delta, max(share * tolerance, FINEST), width)
        before = _step_of(near)
        try:
            return ask(near)
        except RemainderTooWide as error:
            wide.add(share)
            known = _plain(error)
            if isinstance(refusal, OutOfPatience):  # finer grids take too long as well
                refusal.found, refusal.wide = error.found, error.wide
                known = refusal
                break
    assert known is not None
    end, shares = cap.first(), list(CAPPED_SHARES)
    while shares and (values := solve_capped(run, delta, end, shares[0] * tolerance)) is not None:
        try:
            return ask(values)
        except ToleranceUnreachable as error:
            if error.found is None or isinstance(error, OutOfPatience):
                break
            known = _nearer(known, error)
            if cap.end(error.found[1]) > end:
                end *= FURTHER
            else:
                shares.pop(0)
    raise known


def _step_of(values: Mapping[Direction, GameValue]) -> float:
    """Of the grid."""
    return next(iter(values.values())).window()[1]


def _gap(epsilon: float, delta: float, values: Mapping[Direction, GameValue]) -> float:
    """Share of delta by which bounds on what remains differ at epsilon."""
    found = [value.delta(epsilon) for value in values.values()]
    return max(each.upper - each.lower for each in found) / max(delta, LEAST_DELTA)


def end_early(
    run: Composition,
    delta: float,
    tolerance: float,
    known: list[Interval],
    ask: Callable[[Mapping[Direction, GameValue]], list[Interval]],
    wide: Callable[[list[Interval]], float],
) -> list[Interval]:
    """What is known of a game's prices, made narrower by games that end not far beyond the largest of them.

    Rare losses that are far larger than the price want a grid that holds them, and is too coarse for the price. Each
    game bounds the same from both sides, wherever it ends (notebooks/mathematics.md, Losses far beyond the price).
    """
    end = max(each.upper for each in known)
    for _ in range(ENDS):
        end, before = FURTHER * end, math.inf
        for share in CAPPED_SHARES:
            try:
                values = solve_capped(run, delta, end, share * tolerance)
            except OutOfPatience:
                return known
            if values is None:
                return known
            found = ask(
                {way: value.remainder for way, value in values.items() if isinstance(value.remainder, GameValue)}
            )
            known = [meet(*each) for each in zip(known, found, strict=True)]
            if wide(known) <= tolerance:
                return known
            if not wide(found) < NARROWER * before:
                break
            before = wide(found)
    return known


def meet(one: Interval, two: Interval) -> Interval:
    """What two intervals say of the same."""
    return Interval(max(one.lower, two.lower), min(one.upper, two.upper))


def _nearer(one: ToleranceUnreachable, other: ToleranceUnreachable) -> ToleranceUnreachable:
    """The refusal that knows more."""
    widths = [math.inf if each.found is None else each.found[1] - each.found[0] for each in (one, other)]
    return one if widths[0] <= widths[1] else _plain(other)


def _plain(error: ToleranceUnreachable) -> ToleranceUnreachable:
    """The same without its kind."""
    refusal = ToleranceUnreachable(error.args[0])
    refusal.found, refusal.wide = error.found, error.wide
    return refusal


def raise_lower_end(found: Interval, least: float) -> Interval:
    """The same, of which so much is known from below in another way."""
    return Interval(min(max(found.lower, least), found.upper), found.upper)


def join_ends(above: Callable[[], Interval], below: Callable[[], float], known: float = math.inf) -> Interval:
    """The upper end of one run, or the one that is known, and the lower end of another; so does a refusal of the first.

    Its own lower end is that of the run that stands above, which no data need reach.
    """
    refusal, low = None, 0.0
    try:
        high = min(above().upper, known)
    except ToleranceUnreachable as error:
        refusal, high = error, min(error.found[1] if error.found is not None else math.inf, known)
    if refusal is None or (high < math.inf and not isinstance(refusal, OutOfPatience)):
        low = below()
    found = Interval(min(low, high), high)
    if refusal is None:
        return found
    if high < math.inf:
        refusal.found, refusal.wide, refusal.curve = found, "", None
    raise refusal


def lower_end(
    bound: Callable[..., Interval],
    certain: Entries,
    point: float,
    tolerance: float,
    remainders: Remainders | None,
    directions: Sequence[Direction] = DIRECTIONS,
) -> float:
    """What an attack reaches; what is known of it, or 0, which it always does, where rounding is more than that."""
    try:
        return bound(certain, point, tolerance, remainders, directions).lower
    except ToleranceUnreachable as error:
        return 0.0 if error.found is None else error.found[0]


class BetweenBounds:
    """Asks for both ends where some releases are known by bounds from above and from below.

    Bounds on these may be far apart: an interval is refused only while finer games and grids make it narrower.

    Parameters
    ----------
    above, below : callable
        Bounds by the tolerance and by what comes after, of which the upper end counts, or the lower one.
    tolerance : float
    """

    def __init__(self, above: Side, below: Side, tolerance: float) -> None:
        self.above, self.below, self.tolerance = above, below, tolerance
        self.known, self.asked = Interval(0.0, math.inf), 0

    def __call__(self, remainders: Remainders | None) -> Interval:
        """What is known with that; RemainderTooWide if something nearer may be to be had."""
        before, share = self.known, SIDE_SHARES[min(self.asked, len(SIDE_SHARES) - 1)]
        self.asked += 1
        tolerance, finer = max(share * self.tolerance, FINEST), False

        def below() -> float:
            nonlocal finer
            try:
                return max(self.below(tolerance, remainders).lower, before.lower)
            except ToleranceUnreachable as error:
                finer = isinstance(error, RemainderTooWide)
                return max(0.0 if error.found is None else error.found[0], before.lower)

        found = join_ends(lambda: self.above(tolerance, remainders), below, before.upper)
        self.known, width = found, found.upper - found.lower
        finer = finer or width < NARROWER * (before.upper - before.lower)
        if remainders is not None and finer and width > self.tolerance * found.upper:
            refusal = RemainderTooWide("both sides are known no nearer")
            refusal.found, refusal.wide = self.known, ""
            raise refusal
        return self.known

    def answer(self, families: Entries, delta: float, cap: LossCap) -> Interval:
        """Bounds with the games of all families, as near as these come."""
        try:
            return with_games(families, delta, self.tolerance, self, cap)
        except ToleranceUnreachable:
            if not self.known.upper < math.inf:
                raise
            return self.known
