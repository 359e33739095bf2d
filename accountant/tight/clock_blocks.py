"""Very many kinds of screening: strides of a game on a clock from above, one order of the kinds from below.

Kinds that are alike share one game (`accountant.tight.clock_references`); strides of all games are composed like other
releases (notebooks/mathematics.md, Many kinds of screening). From below each kind plays its own pairs, the costliest
kind last; where steps are too many for that, one pair of each kind all the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from accountant.errors import OutOfPatience, ToleranceUnreachable, count_of
from accountant.events.event import Event
from accountant.numerics.decimals import format_up_short
from accountant.patience import OPERATIONS_PER_SECOND, fits, foresee, is_kept, keep, spend
from accountant.tight.clock_game import (
    ClockSetup,
    Sized,
    play_on_clock,
    set_clock,
    size_clock,
)
from accountant.tight.clock_grids import fit_to_grid, fit_work
from accountant.tight.clock_ladders import OWN_FINENESS, SPREADS, Spread, find_clocks, own_clocks
from accountant.tight.clock_laws import law_work
from accountant.tight.clock_order import Ordered, set_order
from accountant.tight.clock_pairs import MOST_STEPS, ClockPair, SamePairs, same_work
from accountant.tight.clock_plans import Choice, Games, Plan, choices_of, plans_of, use_rest
from accountant.tight.clock_references import Clock, Kind, find_kinds
from accountant.tight.clock_tuning import tune_clocks
from accountant.tight.kind_blocks import CUT_SHARE, MANY
from accountant.tight.screening_blocks import (
    Aim,
    Cut,
    ScreeningBlock,
    cut_in_several,
)

__all__ = ["COARSEST", "ClockRun", "set_clock_run"]

Entries = Sequence[tuple[Event, int]]

Found = tuple[list[Sized], list[Kind]]
"""Games of kinds, and kinds that have none."""

MOST_WORK = 1e10, 7e9, 5e9, 3.9e9, 3.2e9, 2.6e9, 2.1e9, 1.6e9, 1.2e9, 1e9, 8e8, 6e8, 4e8
"""Operations (see `accountant.patience`) of all games on clocks, about; the next where patience is less."""

SPARE, EACH, COMPOSED, LEAST_ROOT = 2e8, 1.5e7, 5e4, 300.0
"""The same that is left for laws and for composing, and for each kind; and for composing pairs that are played all the
time, by kind and by the root of all screenings, which counts as so many at least."""

LONE_SHARE, LONE_ROOM = 0.2, 0.2
"""Share of the work of all games up to which a kind that has none is one block, and of the room that shorter ones may
lose."""

FINENESS = 1.0, 1.6, 2.5, 4.0
"""By how much closer references are than they are at least."""

TUNED, TUNED_SPREADS, MOST_TUNED = (6.0, 9.0, 13.0, 20.0, 30.0), (SPREADS[0], SPREADS[2]), 24
"""Ticks of the costliest kind where kinds have references of their own, which of them share such a game, and how
many kinds there are at most."""

LEAST_APART = 0.1
"""Share of what is lost that this is at least where wider spreads of kinds are tried."""

ENOUGH = 0.6
"""Share of the room that games on clocks may lose, about."""

SURE, LIKELY, AT_MOST = 1.25, 1.75, 2.5
"""How many times what is wanted games lose, about, and are likely to lose, that are refused before they are played; and
how many times the latter they lose at most. On random runs they lost 0.9 to 4 times the one, 0.7 to 2 the other."""

FAR = 15.0
"""Nats below delta of what all screenings may add by pairs that are left out."""

ORDER_SHARES = 0.03, 0.1, 0.3, 1.0, 3.0, 10.0
"""The same of the game of one order, of which less is lost; the next where it takes too long."""

COARSEST = 0.01
"""The tolerance for which games are played where a larger one is asked: one of delta is far less in epsilon."""

PLAIN_SHARE, COARSE_SHARE = 0.3, 1.0
"""Of these, the one that is near enough but where epsilon is next to nothing, and the one beyond which pairs that are
played all the time may be as near."""

FINEST_ORDER, FINE_ORDER, IN_ORDER = 2e8, 1.3e9, 4e9
"""Operations of a game of one order up to which a finer grid than that is taken, up to which no coarser one is, and up
to which it is played at all."""

KIND, REFERRED, PAIR, PAIR_REFERRED, SIZED, TUNING = 4e6, 2.5e6, 3e3, 2e3, 3e6, 4e6
"""Operations that a kind takes, whatever its game, and that finer references take, beside the search for these; and
both for each of its pairs; of sizing a game; and what references of a kind's own take."""

FINER_SHARE = 0.1
"""Share of the work of all games up to which these are tried."""

MOST_LAW = 1e9
"""Operations of the law of ticks from which on kinds have so many screenings that blocks of each are near enough."""

BEGUN = "kinds of screening"


class ClockRun(NamedTuple):
    """Screenings of many kinds made ready: games on clocks, kinds that are blocks of their own, an order of all.

    `lost` is what pairs that are left out of the games may add to delta, `about` the divergence that games lose, about.
    """

    like: Event
    setups: list[ClockSetup]
    alone: Entries
    order: Ordered
    in_order: bool
    lost: float
    about: float

    @property
    def work(self) -> float:
        """Operations of the games."""
        return sum(setup.work for setup in self.setups) + self.below_work

    @property
    def below_work(self) -> float:
        """Operations of what is below."""
        return self.order.work if self.in_order else _same_work(self.order)

    def foresee(self, kinds: int) -> None:
        """Refuse the games of so many kinds before any of them is played."""
        foresee([(None, self.work)], _say_games(kinds))

    def same_pairs(self, families: Entries, order: float) -> SamePairs:
        """What is below where one order takes too long."""
        spend(self.below_work, BEGUN)
        return SamePairs(families, order)

    def play(self) -> tuple[list[tuple[Event, int]], float]:
        """Pairs that together are above all screenings, but for what may be added to delta."""
        found, lost = list(self.alone), self.lost
        for setup in self.setups:
            spend(setup.work, BEGUN)
            games, added = play_on_clock(setup)
            found += [(ClockPair(self.like, game), many) for game, many in games]
            lost += added
        return found, lost * (1 + 1e-9)


def _say_games(kinds: int) -> str:
    """What is refused."""
    return f"games on clocks of {count_of(kinds, 'kind')} of screening"


def set_clock_run(families: Entries, aim: Aim, log_delta: float, most_lost: float = math.inf) -> ClockRun | None:
    """Games of kinds that are alike, or of one; None where none has any, or screenings are too many for one.

    So it is where the games lose more of the divergence than `most_lost`, about.

    Raises
    ------
    OutOfPatience
        With more patience they would not.
    ToleranceUnreachable
        They lose far more than is `wanted`; with `OutOfPatience` they would not with more patience, about.
    """
    if (steps := sum(count for _, count in families)) > MOST_STEPS:
        return None
    finder = _Finder(families, aim.order, log_delta)
    kinds, first = finder.kinds, finder.find(find_clocks, FINENESS[0], SPREADS[0])
    if not first[0]:
        return None
    ordered, in_order = _order([each.clock for each in first[0]], first[1], aim, log_delta)
    below = EACH * len(kinds) + (
        ordered.work if in_order else _same_work(ordered) + COMPOSED * len(kinds) * max(math.sqrt(steps), LEAST_ROOT)
    )
    search = _Search(finder, aim, below)
    plan = _plan(search, kinds, first)
    if plan.lost > most_lost:
        if (enough := search.enough(most_lost)) < math.inf:
            foresee([(None, below + SPARE + enough)], _say_games(len(families)))
        return None
    if plan.lost > SURE * aim.wanted or plan.likely > LIKELY * aim.wanted:
        raise _foreseen(len(families), plan, aim, below + SPARE + search.enough(aim.wanted / AT_MOST, "likely"))
    law = sum(law_work(each.clock, log_delta) for each in plan.sized)
    if law > MOST_LAW:
        return None
    spend(law, BEGUN)
    setups = _set_up(plan, below)
    blocks = [block for kind in plan.alone for block in search.blocks_of(kind).blocks]
    lost = sum(each.clock.lost for each in plan.sized)
    return ClockRun(families[0][0], setups, blocks, ordered, in_order, lost, plan.lost)


def _set_up(plan: Plan, below: float) -> list[ClockSetup]:
    """The games with references that fit their grids, where there is patience for these beside what is below."""
    games = list(zip(plan.sized, plan.cuts, strict=True))
    beside, planned = below + SPARE, sum(cut.played for cut in plan.cuts)
    if fits(beside + planned + sum(fit_work(sized.clock) for sized in plan.sized)):
        fitted = [set_clock(*fit_to_grid(*each)) for each in games]
        work = sum(each.work for each in fitted)
        if work <= planned or fits(beside + work):
            return fitted
    return [set_clock(*each) for each in games]


def _foreseen(kinds: int, plan: Plan, aim: Aim, work: float) -> ToleranceUnreachable:
    """The refusal of games that are foreseen to be too wide, where so much work would do."""
    share = aim.tolerance / aim.wanted
    least, most = min(share * plan.lost, 1.0), float(format_up_short(min(share * AT_MOST * plan.likely, 1.0)))
    seconds, accepted = work / OPERATIONS_PER_SECOND, [f"tolerance = {most:g} or more", "method = 'renyi' or 'auto'"]
    said = f"{_say_games(kinds)} are foreseen to be {format_up_short(100 * least)} to {100 * most:g} % wide; accepted: "
    if work < math.inf:
        accepted.insert(0, f"patience = {format_up_short(seconds)} at least")
    said += f"{', '.join(accepted[:-1])}, or {accepted[-1]}"
    refusal = ToleranceUnreachable(said) if work == math.inf else OutOfPatience(said, seconds)
    refusal.foreseen = True
    return refusal


def _order(clocks: Sequence[Clock], alone: Sequence[Kind], aim: Aim, log_delta: float) -> tuple[Ordered, bool]:
    """The game of one order on the finest grid that does not take too long, and whether it is worth its work."""
    for share in ORDER_SHARES:
        ordered = set_order(clocks, alone, aim.order, log_delta, share * min(aim.tolerance, COARSEST))
        if ordered.work <= (FINE_ORDER if share >= PLAIN_SHARE else FINEST_ORDER):
            break
    near = share <= COARSE_SHARE and ordered.work <= FINE_ORDER
    return ordered, near or ordered.work <= min(_same_work(ordered), IN_ORDER)


def _same_work(ordered: Ordered) -> float:
    return same_work(len(ordered.kinds), ordered.steps)


class _Finder:
    """Kinds of a run, and games of them, which the same price looks for again at coarser tolerances."""

    def __init__(self, families: Entries, order: float, log_delta: float) -> None:
        self.families, self.order, self.log_delta = tuple(families), order, log_delta
        self.run = keep(("clocks", self.families, order, log_delta), object)  # thousands of kinds are hashed once
        spend(KIND * len(families), BEGUN, once=self.key("kinds"))
        self.kinds = keep(self.key("kinds"), self._find_kinds)
        spend(PAIR * _pairs_of(self.kinds), BEGUN, once=self.key("pairs"))

    def key(self, *what: Hashable) -> Hashable:
        """What stands for something that is found."""
        return self.run, *what

    def find(self, make: Callable[..., Games], *how: Hashable) -> Found:
        """Games by some way, sized."""
        return keep(self.key(make, *how), partial(self._size, make, *how))

    def _find_kinds(self) -> list[Kind]:
        steps = sum(count for _, count in self.families)
        least = math.exp(max(self.log_delta - math.log(steps) - FAR, -690.0))
        return find_kinds(self.families, self.order, least)

    def _size(self, make: Callable[..., Games], *how: Hashable) -> Found:
        clocks, alone = make(self.kinds, self.order, *how)
        return [size_clock(clock, self.order, self.log_delta) for clock in clocks], alone


def _plan(search: _Search, kinds: Sequence[Kind], first: Found) -> Plan:
    """Games that lose little with least work, or the least with the most work that there is patience for."""
    best, wide, taken = search.plan(first), SPREADS[0], first
    for spread in SPREADS[1:]:
        if search.does(best) or best.apart <= LEAST_APART * best.lost:
            break
        if len(kinds) == 1 or (games := search.refer(FINENESS[0], spread)) is None:
            break
        plan = search.plan(games)
        if search.is_better(plan, best):
            best, wide, taken = plan, spread, games
        elif plan.lost > best.lost:
            break
    if not search.does(best) and len(kinds) > 1 and (own := search.part()) is not None:
        plan = search.plan(own)
        if search.is_better(plan, best):
            best, taken = plan, own
    for spread in TUNED_SPREADS:
        for ticks in TUNED:
            if search.does(best) or (games := search.tune(ticks, spread)) is None:
                break
            plan = search.plan(games)
            if search.is_better(plan, best):
                best, taken = plan, games
    for fineness in FINENESS[1:]:
        if search.does(best) or len(kinds) == 1 or (games := search.refer(fineness, wide)) is None:
            break
        plan = search.plan(games)
        if search.is_better(plan, best):
            best, taken = plan, games
    return best if best.work <= search.most_beside(best.alone) else search.plan(taken)


class _Search:
    """The search for games that lose least, with what is left of patience beside what is below."""

    def __init__(self, finder: _Finder, aim: Aim, below: float) -> None:
        self.finder, self.aim, self.below = finder, aim, below
        self.known: dict[frozenset[frozenset[int]], dict[frozenset[int], list[Choice]]] = {}
        self.seen: dict[frozenset[frozenset[int]], tuple[list[list[Choice]], list[Kind], float]] = {}
        self.lone: dict[int, Cut] = {}

    @property
    def most(self) -> float:
        return _most_work(self.below)

    def most_beside(self, alone: Sequence[Kind]) -> float:
        """The same beside the blocks of kinds that share no game."""
        blocks = [block for kind in alone for block, _ in self.blocks_of(kind).blocks]
        games = dict(block.work() for block in blocks if isinstance(block, ScreeningBlock))
        return _most_work(self.below + math.fsum(games.values()))

    def blocks_of(self, kind: Kind) -> Cut:
        """Such a kind as one block, or, where that takes long, as shorter ones."""
        if id(kind) not in self.lone:
            block, shorter = self.aim.block((kind.event, kind.times)), None
            if kind.times >= MANY and block.work()[1] > LONE_SHARE * self.most:
                near = self.aim._replace(room=LONE_ROOM * self.aim.room)
                with suppress(OutOfPatience):
                    shorter = cut_in_several(kind.event, kind.times, near, CUT_SHARE)
            self.lone[id(kind)] = shorter or Cut([(block, 1)], 0.0)
        return self.lone[id(kind)]

    def does(self, plan: Plan) -> bool:
        """Whether that is near enough."""
        return plan.lost <= ENOUGH * self.aim.room

    def enough(self, lost: float, about: str = "lost") -> float:
        """Most work with which games that were looked at lose no more, about; inf where none are as near."""
        plans = [plans_of(*each, MOST_WORK[0]) for each in self.seen.values()]
        least = min(next((plan.work for plan in some if getattr(plan, about) <= lost), math.inf) for some in plans)
        return next((each for each in reversed(MOST_WORK) if each >= least), math.inf)

    def is_better(self, plan: Plan, known: Plan) -> bool:
        """Whether it loses less and there is patience for it; where there is for neither, whether it is less work."""
        if plan.work > self.most_beside(plan.alone):
            return plan.work < known.work and known.work > self.most_beside(known.alone)
        return plan.lost < known.lost or known.work > self.most_beside(known.alone)

    def refer(self, fineness: float, spread: Spread) -> Found | None:
        """Games of that fineness and spread; None where there is no patience for more of them.

        What they take is taken from the games that are played, not from what is below.
        """
        each = REFERRED * (2 if fineness >= OWN_FINENESS else 1)
        return self._look(each, PAIR_REFERRED, find_clocks, fineness, spread)

    def part(self) -> Found | None:
        """A game of each kind by itself; None where there is no patience for sizing so many."""
        return self._look(SIZED, 0.0, own_clocks)

    def tune(self, ticks: float, spread: Spread) -> Found | None:
        """Games of kinds with references of their own; None of one, or where there is no patience for them."""
        few = 1 < len(self.finder.kinds) <= MOST_TUNED
        return self._look(TUNING, PAIR_REFERRED, tune_clocks, ticks, spread) if few else None

    def _look(self, each: float, pair: float, make: Callable[..., Games], *how: Hashable) -> Found | None:
        """Games that take so many operations for each kind and pair, if there is patience for looking further."""
        kinds, made = self.finder.kinds, self.finder.key(make, *how)
        operations = each * len(kinds) + pair * _pairs_of(kinds)
        if not is_kept(made):
            if operations > FINER_SHARE * self.most or not fits(operations):
                return None
            spend(operations, BEGUN, once=made)
        return self.finder.find(make, *how)

    def plan(self, found: Found) -> Plan:
        """How they are cut; each of the same games has the fineness by which it gains most."""
        (games, alone), tolerance = found, min(self.aim.tolerance, COARSEST)
        held = [frozenset(id(kind) for kind in sized.clock.kinds) for sized in games]
        key = frozenset(held)
        known = self.known.setdefault(key, {each: [] for each in held})
        for sized, each in zip(games, held, strict=True):
            known[each] += choices_of(sized, tolerance)
        choices, plans, most = [known[each] for each in held], list[Plan](), self.most_beside(alone)
        gap = math.fsum(self.blocks_of(kind).gap for kind in alone)
        self.seen[key] = choices, alone, gap
        for plan in plans_of(choices, alone, gap, most):
            plans.append(plan)
            if self.does(plan):
                return plan
        return use_rest(plans[-1], choices, most)


def _pairs_of(kinds: Sequence[Kind]) -> int:
    return sum(kind.above.up.size for kind in kinds)


def _most_work(below: float) -> float:
    """Of all games on clocks, beside so much for what is below."""
    return next((each for each in MOST_WORK if fits(each + below + SPARE)), MOST_WORK[-1])
