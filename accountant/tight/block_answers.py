"""How a run without a closed form is priced: kinds of screening as blocks where that is enough, else by their game."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from accountant.adjacency import Direction
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.roots import Interval
from accountant.patience import followed_by, foresee, spend
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.tight.answers import AIM, Answers, Game, LossDistribution, answer_all, least_of, sort_events
from accountant.tight.both_sides import BothSides
from accountant.tight.clock_blocks import IN_ORDER, set_clock_run
from accountant.tight.clock_order import play_in_clock_order
from accountant.tight.loss_composition import Entries, planning_work
from accountant.tight.mixed_game import moves_of
from accountant.tight.screening_blocks import Aim, Cut, ScreeningBlock, cut_in_one, cut_in_several
from accountant.tight.screening_families import TooManyStates
from accountant.tight.trade_off import TradeOff
from accountant.tight.vote_answers import VoteAnswers, votes_in
from accountant.tight.vote_blocks import votes_as_blocks

__all__ = ["answers_of"]

BLOCK_SHARE = 0.5
"""Share of the tolerance that blocks of screenings may lose."""

BEYOND = 12.0
"""Nats by which the delta for which blocks are made is below the one that is asked."""

MANY = 512
"""Screenings of one kind from which on shorter blocks than all of them are tried."""

MANY_KINDS = 8
"""Kinds from which on games on clocks are tried first."""

GROUPED_KINDS = 24
"""Kinds up to which groups of them are tried after these."""

FEW_MOVES = 100
"""Steps of a game of several kinds that is played without asking whether blocks would do."""

SOME_MOVES = 5000
"""Steps of a game of several kinds whose true-positive rates are taken from it, and not from blocks."""

GROUP_MOVES = (4000, 4000), (60_000, 4000), (60_000, 60_000)
"""Steps of a game of several kinds whose screenings become one block, of the costliest group and of any other; each
next one is tried where the one before was not enough."""

COMPOSED = 1e7
"""Operations (see `accountant.patience`) that a kind of many takes once it is a block, about: those of all grids."""

VOTE_SHARE = 0.3
"""Share of the tolerance that the grid of a block of votes may add, where screenings come last."""

AFTER_BLOCKS = 10.0
"""What is played and composed after all blocks takes, as a multiple of these: 1 to 50 were found."""

NEARER = 1.6
"""By how much the intervals of larger groups may be narrower, about."""

PLD = "privacy-loss distribution"

Ask = Callable[[Game | LossDistribution | BothSides], Interval]


@dataclass(frozen=True)
class Setting:
    """What a run is priced with, however its screenings are treated."""

    singles: Entries
    run: Composition
    end: float
    smallest_delta: Callable[[Sequence[float]], float]
    tolerance: float
    least: float

    def answers(self, families: Entries, blocks: Entries = ()) -> Game | LossDistribution:
        """All but `families`, which are played, are composed."""
        singles = [*self.singles, *blocks]
        if not singles:
            return Game(families, self.end, self.smallest_delta, self.tolerance, self.least)
        return LossDistribution(families, singles, self.run, self.end, self.smallest_delta, self.tolerance, self.least)


Kind = tuple[tuple[Event, int], Cut]
"""All screenings of one kind, and the same as blocks."""


class Blocks:
    """Very many screenings, or several kinds of them: composed as blocks where that is enough.

    Kinds whose blocks are not known nearly enough are played, after all that is composed; where that takes too long
    groups of kinds are blocks, and one order of the kinds is below (notebooks/mathematics.md, Several kinds of
    screening).
    """

    def __init__(self, families: Entries, setting: Setting) -> None:
        self.families, self.setting = families, setting
        self.plain = setting.answers(families)
        self.source, self.apart = self.plain.source, list[tuple[Event, int]]()
        self.moves = moves_of([count for _, count in families])

    def epsilon(self, delta: float) -> Interval:
        guess = renyi_epsilon(self.setting.run, delta, "improved")
        room = BLOCK_SHARE * self.setting.tolerance * guess.epsilon
        return self._ask(guess.order, delta, room, lambda answers: answers.epsilon(delta))

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        smallest, least = self.setting.smallest_delta(epsilons), max(self.setting.least, least_of(epsilons))

        def answer(epsilon: float) -> Interval:
            order = renyi_delta(self.setting.run, epsilon, "improved").order
            room = BLOCK_SHARE * self.setting.tolerance / (order - 1) if order is not None and order > 1 else 0.0
            return self._ask(order, smallest, room, partial(_one_delta, epsilon, least))

        return answer_all(epsilons, answer)

    def trade_off(self, direction: Direction) -> TradeOff:
        """Of one kind, or not too many screenings, by the game; else of blocks, however near they are."""
        order = renyi_epsilon(self.setting.run, AIM, "improved").order
        if len(self.families) == 1 or self.moves <= SOME_MOVES or order is None or order == math.inf:
            return self.plain.trade_off(direction)
        cuts = [cut for _, cut in self._cuts(order, AIM, 0.0)]
        # no grid brings the bounds nearer than blocks are
        near = min(max(self.setting.tolerance, 2 * (order - 1) * sum(cut.gap for cut in cuts)), 0.2)
        self.source = f"{PLD} of blocks of screenings"
        return replace(self.setting, tolerance=near).answers([], all_blocks(cuts)).trade_off(direction)

    def _ask(self, order: float | None, delta: float, room: float, ask: Ask) -> Interval:
        """The answer with as few kinds played as may do; more of them where they do not, fewer if it takes too long."""
        several = len(self.families) > 1
        if order is None or not 1.0 < order < math.inf or (several and self.moves <= FEW_MOVES):
            return ask(self.plain)
        refusals: list[ToleranceUnreachable] = []
        if len(self.families) >= MANY_KINDS:
            try:
                if (known := self._ask_clocks(self._aim(order, delta, room), delta, ask)) is not None:
                    return known
            except ToleranceUnreachable as error:
                refusals.append(error)
                if len(self.families) > GROUPED_KINDS and not self.apart:
                    raise self._refusal(error, refusals) from None
        try:
            kinds = self._cuts(order, delta, room)
        except ToleranceUnreachable as error:
            raise self._refusal(error, [*refusals, error]) from None
        if not kinds:
            return ask(self.plain)
        gaps = [cut.gap for _, cut in kinds]
        fewest = next((k for k in range(len(kinds)) if sum(gaps[k:]) <= room), len(kinds))
        for played in range(fewest, len(kinds) + 1):
            try:
                return self._play(kinds, played, ask)
            except ToleranceUnreachable as error:
                refusals.append(error)
                if isinstance(error, OutOfPatience | TooManyStates):
                    break
        first = refusals[-1]
        if several:
            found = self._ask_both_sides(kinds, self._aim(order, delta, room), ask, refusals)
            if isinstance(found, Interval):
                return found
            first = found if found is not None and not isinstance(first, OutOfPatience) else first
        raise self._refusal(first, refusals)

    def _refusal(self, first: ToleranceUnreachable, refusals: Sequence[ToleranceUnreachable]) -> ToleranceUnreachable:
        """What to say: why it cannot be had, and the nearest of what was certified."""
        known = [each for each in refusals if each.found is not None]
        nearest = min(known, key=_relative_width, default=refusals[-1])
        said = first.args[0] if first is nearest else f"{first.args[0]}; otherwise: {nearest.args[0]}"
        refusal = OutOfPatience(said, first.seconds) if isinstance(first, OutOfPatience) else ToleranceUnreachable(said)
        if nearest.found is not None:
            refusal.found, refusal.wide = nearest.found, nearest.wide
            self.source = f"{PLD} of blocks of screenings"
        return refusal

    def _ask_both_sides(
        self, kinds: Sequence[Kind], aim: Aim, ask: Ask, refusals: list[ToleranceUnreachable]
    ) -> Interval | OutOfPatience | None:
        """The answer by groups of kinds from above, and by one order of all from below; or what would have done."""
        best = math.inf
        for moves in GROUP_MOVES:
            try:
                return self._ask_with(in_groups(kinds, aim, *moves), aim.order, ask)
            except ToleranceUnreachable as error:
                refusals.append(error)
                if isinstance(error, OutOfPatience):
                    if best == math.inf:
                        break
                    return error if best <= NEARER * self.setting.tolerance else None
                best = min(best, _relative_width(error))
        if best == math.inf:
            try:
                return self._ask_with(all_blocks([cut for _, cut in kinds]), aim.order, ask)
            except ToleranceUnreachable as error:
                refusals.append(error)
        return None

    def _ask_with(self, blocks: Entries, order: float, ask: Ask) -> Interval:
        """The answer by these blocks from above, whose games are begun if there is patience for all of them."""
        run = self.setting
        games = [block.work() for block, _ in blocks if isinstance(block, ScreeningBlock)]
        foresee(
            [(None, planning_work([*run.singles, *blocks])), *games], f"games of {len(blocks)} groups of screenings"
        )
        answers = BothSides(
            self.families, run.singles, blocks, order, run.smallest_delta, run.tolerance, least=run.least
        )
        found = ask(answers)
        self.source = answers.source
        return found

    def _ask_clocks(self, aim: Aim, delta: float, ask: Ask) -> Interval | None:
        """The answer by games on clocks from above, and by one order of all kinds from below; None of no such kinds."""
        clocks = set_clock_run(self.families, aim, math.log(delta))
        if clocks is None:
            return None
        run, below, self.apart = self.setting, None, list(clocks.alone)
        foresee([(None, clocks.work)], f"games of {len(self.families)} kinds of screening")
        if clocks.order.work <= IN_ORDER:
            below = play_in_clock_order(clocks.order)
        answers = BothSides(
            self.families,
            run.singles,
            clocks.blocks(),
            aim.order,
            run.smallest_delta,
            run.tolerance,
            least=run.least,
            below=below,
            unseen=None if below else clocks.same_pairs(self.families, aim.order),
        )
        found = ask(answers)
        self.source = answers.source
        return found

    def _play(self, kinds: Sequence[Kind], played: int, ask: Ask) -> Interval:
        """The answer with so many kinds played, and the others composed as blocks."""
        blocks = all_blocks([cut for _, cut in kinds[played:]])
        answers = self.setting.answers([kind for kind, _ in kinds[:played]], blocks)
        found = ask(answers)
        composed = played < len(kinds)
        self.source = answers.source.replace(PLD, f"{PLD} of blocks of screenings") if composed else answers.source
        return found

    def _aim(self, order: float, delta: float, room: float) -> Aim:
        return Aim(order, math.log(delta) - BEYOND, room, self.setting.tolerance)

    def _cuts(self, order: float, delta: float, room: float) -> list[Kind]:
        """Each kind as blocks, those that are known worst first; none of a single kind where one game does as well."""
        found, aim = [], self._aim(order, delta, room / len(self.families))
        if len(self.families) > 1:
            blocks = [aim.block((event, count)) for event, count in self.families if count < MANY]
            _foresee_blocks(blocks, len(self.families))
        for event, count in self.families:
            cut = cut_in_several(event, count, aim) if count >= MANY else None
            if cut is None and len(self.families) > 1:
                cut = cut_in_one(event, count, aim)
            if cut is not None:
                found.append(((event, count), cut))
        return sorted(found, key=lambda each: each[1].gap, reverse=True)


def _foresee_blocks(blocks: Sequence[ScreeningBlock], kinds: int) -> None:
    """Refuse the games of all blocks before the first is played: once each is begun it is known what it takes."""
    what, composed = f"blocks of {kinds} kinds of screening", COMPOSED * kinds
    foresee([*(block.begun() for block in blocks), (None, composed)], what)
    if len(blocks) <= GROUPED_KINDS:
        games = []
        for block in blocks:
            made, operations = block.begun()
            spend(operations, what, once=made)
            game, work = block.work()
            games.append((game, work - operations))
        total = sum(work for _, work in games)
        with followed_by(lambda: AFTER_BLOCKS * total):
            foresee([*games, (None, composed)], what)


def all_blocks(cuts: Sequence[Cut]) -> Entries:
    return [block for cut in cuts for block in cut.blocks]


def in_groups(kinds: Sequence[Kind], aim: Aim, first: float, others: float) -> Entries:
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


def _relative_width(refusal: ToleranceUnreachable) -> float:
    """Of the interval that a refusal knows."""
    low, high = refusal.found or (0.0, math.inf)
    return (high - low) / high if high < math.inf else 1.0


def _one_delta(epsilon: float, least: float, answers: Game | LossDistribution | BothSides) -> Interval:
    (found,) = (replace(answers, least=least) if isinstance(answers, Game) else answers).deltas([epsilon])
    return found


def answers_of(run: Composition, end: float, tolerance: float, least: float = 0.0) -> Answers:
    """How to price a run that has no closed form; deltas below `least` may be as wide as that one's tolerance."""
    families, singles = sort_events(run)
    if families:
        families, singles = ([each for each in kinds if each[0]._largest_loss() > 0.0] for kinds in (families, singles))

    def smallest_delta(epsilons: Sequence[float]) -> float:
        """Where a game that serves all epsilons is to be tight; a tenth of the Rényi bound was found to do."""
        guess = min((renyi_delta(run, e, "improved").delta / 10 for e in epsilons if e < end), default=0.5)
        return min(max(guess, 1e-250), 0.5)

    if families:
        singles = votes_as_blocks(singles, VOTE_SHARE * tolerance)
    setting = Setting(singles, run, end, smallest_delta, tolerance, least)
    if len(families) > 1 or (families and families[0][1] >= MANY):
        return Blocks(families, setting)
    answers = setting.answers(families)
    votes = votes_in(singles)
    if votes and isinstance(answers, LossDistribution) and not families:
        return VoteAnswers(votes, answers)
    return answers
