"""How a run without a closed form is priced: kinds of screening as blocks where that is enough, else by their game."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Literal

from accountant.adjacency import Direction
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.from_below import costs_nothing
from accountant.numerics.roots import LEAST, Interval
from accountant.patience import foresee, share_patience
from accountant.renyi.route import best_orders_at, renyi_epsilon
from accountant.tight.answers import CURVE_LEAST, Answers, Game, LossDistribution, answer_all, least_of, sort_events
from accountant.tight.block_rates import (
    BEYOND,
    BLOCK_SHARE,
    CLOCKS_LOSE,
    FAR_OFF,
    FEW_MOVES,
    FEWER,
    MANY_KINDS,
    MIDDLE,
    NEARER,
    OF_BLOCKS,
    PLD,
    SideOf,
    aim_at,
    rates_of_blocks,
)
from accountant.tight.both_sides import BothSides, join_refusals, relative_width
from accountant.tight.clock_blocks import COARSEST, set_clock_run
from accountant.tight.clock_order import play_in_clock_order
from accountant.tight.clock_pairs import use_same_pairs
from accountant.tight.kept_losses import deltas_at_hand
from accountant.tight.kind_blocks import GROUP_MOVES, MANY, Kind, all_blocks, cut_kinds, cuts_for_rates, in_groups
from accountant.tight.loss_composition import Entries, planning_work
from accountant.tight.many_kinds import gather_many
from accountant.tight.mixed_game import moves_of
from accountant.tight.near_kinds import gather_near
from accountant.tight.screening_blocks import Aim, ScreeningBlock, near_order
from accountant.tight.screening_families import TooManyStates
from accountant.tight.searched import refuses_early
from accountant.tight.setting import Setting
from accountant.tight.shared_games import coarser, share_games
from accountant.tight.trade_off import TradeOff
from accountant.tight.vote_answers import VoteAnswers, votes_in
from accountant.tight.vote_blocks import votes_as_blocks

__all__ = ["SOME_KINDS", "answers_of"]

SOME_KINDS = 3
"""Kinds from which on games on clocks are tried first for an epsilon where some have many screenings (of two those that
count both are sooner done), as they are for a delta, and for an epsilon of one kind that is to be nearer than usual."""

GROUPED_KINDS = 24
"""Kinds up to which groups of them are tried after these."""

NEAR_SHARE = 0.5
"""Share of what is left of patience that kinds may take which are near, as one."""

CLOCKS_SHARE = 0.4
"""The same of games on clocks of few kinds, of which many points are composed."""

MANY_POINTS = 16
"""Points up to which grids of these are as fine as of a single one."""

VOTE_SHARE = 0.3
"""Share of the tolerance that the grid of a block of votes may add, where screenings come last."""

APART = 100.0
"""Ratio of neighbouring deltas for which blocks are made where many deltas are asked."""

SHARED_SHARE = 0.3
"""Share of the tolerance for which blocks are made that many deltas share: they are few, and their games short."""

ONCE_MORE, LESS_ROOM, LESS_LOST = 4.0, 0.6, 0.7
"""Multiple of the tolerance up to which games on clocks that are too wide are played once more, and share of the room
that they may lose then, over that multiple; it is to be less than that share of what they lost."""

Ask = Callable[[Answers | BothSides], Interval]

Asked = Literal["epsilon", "delta", "deltas"]
"""One price, or one of several deltas, for which blocks of one kind are made once."""


class Blocks:
    """Very many screenings, or several kinds of them: composed as blocks where that is enough.

    Kinds whose blocks are not near enough are played, after all that is composed; where that takes too long groups are
    blocks, and one order of the kinds is below (notebooks/mathematics.md, Several kinds of screening).
    """

    families: Entries = ()
    clocks: OutOfPatience | None = None
    """The refusal of games on clocks that would do, and that are begun first."""

    def __init__(self, families: Entries, setting: Setting) -> None:
        self.families, self.setting = families, setting
        self.plain = setting.answers(families)
        self.source, self.apart, self.lost = self.plain.source, list[tuple[Event, int]](), math.inf
        self._last: Game | LossDistribution | BothSides | None = None
        self.moves = moves_of([count for _, count in families])

    def epsilon(self, delta: float) -> Interval:
        guess = renyi_epsilon(self.setting.run, delta, "improved")
        room = BLOCK_SHARE * self.setting.tolerance * guess.epsilon
        return self._ask(guess.order, delta, room, lambda answers: answers.epsilon(delta), "epsilon")

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        smallest, least = self.setting.smallest_delta(epsilons), max(self.setting.least, least_of(epsilons))
        orders = dict(zip(epsilons, best_orders_at(self.setting.run, epsilons).orders.tolist(), strict=True))

        def answer(epsilon: float) -> Interval:
            order = near_order(orders[epsilon]) if len(epsilons) > 2 else orders[epsilon]
            room = BLOCK_SHARE * self.setting.tolerance / (order - 1) if order is not None and order > 1 else 0.0
            asked: Asked = "delta" if len(epsilons) == 1 else "deltas"
            return self._ask(order, smallest, room, partial(_one_delta, epsilon, least), asked)

        return answer_all(epsilons, answer)

    def shared(self, epsilons: Sequence[float]) -> Iterator[BothSides]:
        """Answers by games that all of these share, each nearer than the ones before, while patience lasts."""
        delta, middle = self.setting.smallest_delta(epsilons), sorted(epsilons)[len(epsilons) // 2]
        (order,) = best_orders_at(self.setting.run, [middle]).orders.tolist()
        if order is None or not 1.0 < order < math.inf or (len(self.families) > 1 and self.moves <= FEW_MOVES):
            return
        room = BLOCK_SHARE * self.setting.tolerance / (order - 1)
        aim = aim_at(order, delta, room, self.setting.tolerance)
        finer = aim._replace(tolerance=SHARED_SHARE * self.setting.tolerance)
        if (many := len(self.families) >= MANY_KINDS) or max(count for _, count in self.families) >= MANY:
            with suppress(ToleranceUnreachable):
                with share_patience(1.0 if many else CLOCKS_SHARE):
                    answers = self._clock_answers(aim, delta)
                if answers is not None:
                    yield answers if many or len(epsilons) <= MANY_POINTS else coarser(answers)
        yield from share_games(self.families, aim, cuts_for_rates(self.families, finer), delta, self.setting.both_sides)

    def deltas_at_hand(self, epsilons: Sequence[float]) -> list[Interval]:
        """What is known of deltas without composing anything, from how the last epsilon was priced."""
        if isinstance(self._last, BothSides):
            return self._last.deltas_at_hand(epsilons)
        if isinstance(self._last, LossDistribution):
            return deltas_at_hand(self._last.deltas, epsilons)
        return [Interval(0.0, 1.0)] * len(epsilons)

    def trade_off(self, direction: Direction) -> TradeOff:
        """Of blocks, unless there is patience for a game that is nearer; of few screenings by the game."""
        side_of, self.source = self._for_rates
        return side_of(direction)

    @cached_property
    def _for_rates(self) -> tuple[SideOf, str]:
        return rates_of_blocks(self.families, self.setting, self.plain, answers_of_families)

    def _ask(self, order: float | None, delta: float, room: float, ask: Ask, asked: Asked) -> Interval:
        """The answer by one way, or what several that are too wide have in common."""
        try:
            return self._ask_by_ways(order, delta, room, ask, asked)
        except ToleranceUnreachable as error:
            if error.found is None or relative_width(error) > self.setting.tolerance:
                raise
            return Interval(*error.found)

    def _ask_by_ways(self, order: float | None, delta: float, room: float, ask: Ask, asked: Asked) -> Interval:
        """The answer with as few kinds played as may do; more of them where they do not, fewer if it takes too long."""
        several = len(self.families) > 1
        if order is None or not 1.0 < order < math.inf or (several and self.moves <= FEW_MOVES):
            return ask(self.plain)
        refusals = list[ToleranceUnreachable]()
        aim = aim_at(order, delta, room, self.setting.tolerance)._replace(between=asked == "epsilon")
        if several:
            try:
                if (known := self._ask_near(order, room, ask)) is not None:
                    return known
            except ToleranceUnreachable as error:
                refusals.append(error)
        many, self.clocks = len(self.families) >= MANY_KINDS, None
        long = max(count for _, count in self.families) >= MANY
        some = {
            "epsilon": long and (len(self.families) >= SOME_KINDS if several else self.setting.tolerance < COARSEST),
            "delta": several or long,
            "deltas": several,
        }
        if many or some[asked]:
            # of a delta nothing else is nearer
            anyway = many or (asked == "delta" and len(self.families) >= SOME_KINDS)
            early = asked == "delta" and several and refuses_early() and not self.setting.least
            aim = aim._replace(wanted=room / BLOCK_SHARE if early else math.inf)
            try:
                if (known := self._ask_clocks(aim, delta, ask, math.inf if anyway else CLOCKS_LOSE * room)) is not None:
                    return known
            except ToleranceUnreachable as error:
                if error.foreseen:
                    with suppress(ToleranceUnreachable):
                        return ask(self.plain)
                    raise
                refusals.append(error)
                self.clocks = error if isinstance(error, OutOfPatience) and not many else None
                far = error.found is not None and relative_width(error) > FAR_OFF * self.setting.tolerance
                far = far and asked == "delta" and len(self.families) > SOME_KINDS
                if far or (len(self.families) > GROUPED_KINDS and not self.apart):
                    raise self._refusal(error, refusals) from None
        return self._ask_blocks(aim, ask, refusals)

    def _ask_blocks(self, aim: Aim, ask: Ask, refusals: list[ToleranceUnreachable]) -> Interval:
        """The same where kinds are blocks of their own, those that are known worst being played, or groups of kinds."""
        several, room = len(self.families) > 1, aim.room
        try:
            kinds = cut_kinds(self.families, aim._replace(room=room / len(self.families)))
        except ToleranceUnreachable as error:
            if several and (found := self._ask_few_clocks(aim, ask, refusals)) is not None:
                return found
            raise self._refusal(error, [*refusals, error]) from None
        if not kinds:
            try:
                return ask(self.plain)
            except ToleranceUnreachable as error:
                raise self._refusal(error, [*refusals, error]) if refusals else error from None
        fewest = next((k for k in range(len(kinds)) if sum(cut.gap for _, cut in kinds[k:]) <= room), len(kinds))
        if several and kinds[0][1].gap > room:  # what blocks certify, before patience ends with a game
            try:
                return self._ask_beside_pairs(all_blocks([cut for _, cut in kinds]), aim.order, ask)
            except ToleranceUnreachable as error:
                refusals.append(error)
        for played in range(fewest, len(kinds) + 1):
            try:
                return self._play(kinds, played, ask)
            except ToleranceUnreachable as error:
                refusals.append(error)
                if isinstance(error, OutOfPatience | TooManyStates):
                    break
        first = refusals[-1]
        if several:
            both = self._ask_both_sides(kinds, aim, ask, refusals)
            if isinstance(both, Interval):
                return both
            first = both if both is not None and not isinstance(first, OutOfPatience) else first
        raise self._refusal(first, refusals)

    def _ask_near(self, order: float, room: float, ask: Ask) -> Interval | None:
        """The answer with kinds that are all but the same taken as one; None where there are none."""
        near, kinds = gather_near(self.families, order, room), len(self.families)
        if len(near) == kinds or (kinds >= MANY_KINDS and len(near) > FEWER * kinds):
            return None
        answers = answers_of_families(near, self.setting)
        try:
            with share_patience(NEAR_SHARE):
                return ask(answers)
        finally:
            self.source = answers.source
            self._last = answers._last if isinstance(answers, Blocks) else answers

    def _refusal(self, first: ToleranceUnreachable, refusals: Sequence[ToleranceUnreachable]) -> ToleranceUnreachable:
        """What to say of all of them."""
        refusal = join_refusals(first, refusals, self.clocks, len(self.families) > 1)
        if refusal.found is not None:
            self.source = OF_BLOCKS
        return refusal

    def _ask_both_sides(
        self, kinds: Sequence[Kind], aim: Aim, ask: Ask, refusals: list[ToleranceUnreachable]
    ) -> Interval | OutOfPatience | None:
        """The answer by groups of kinds from above, and by one order of all from below; or what would have done."""
        best = math.inf
        late: OutOfPatience | None = None
        for moves in GROUP_MOVES:
            try:
                return self._ask_with(in_groups(kinds, aim, *moves), aim.order, ask)
            except ToleranceUnreachable as error:
                refusals.append(error)
                if isinstance(error, OutOfPatience):
                    if best == math.inf:
                        late = error
                        break
                    return error if best <= NEARER * self.setting.tolerance else None
                best = min(best, relative_width(error))
            if moves == GROUP_MOVES[0] and (found := self._ask_few_clocks(aim, ask, refusals)) is not None:
                return found
        if best == math.inf:
            try:
                return self._ask_with(all_blocks([cut for _, cut in kinds]), aim.order, ask)
            except ToleranceUnreachable as error:
                refusals.append(error)
        return late if min(map(relative_width, refusals)) <= NEARER * self.setting.tolerance else None

    def _ask_few_clocks(self, aim: Aim, ask: Ask, refusals: list[ToleranceUnreachable]) -> Interval | None:
        """The answer by games on clocks, of fewer kinds than those of which it is asked first."""
        if len(self.families) >= MANY_KINDS:
            return None
        try:
            return self._ask_clocks(aim, math.exp(aim.log_lost + BEYOND), ask)
        except ToleranceUnreachable as error:
            refusals.append(error)
            return None

    def _ask_with(self, blocks: Entries, order: float, ask: Ask) -> Interval:
        """The answer by these blocks from above, whose games are begun if there is patience for all of them."""
        run, what = self.setting, f"games of {len(blocks)} groups of screenings"
        games = [block.work() for block, _ in blocks if isinstance(block, ScreeningBlock)]
        foresee([(None, planning_work([*run.singles, *blocks])), *games], what)
        return self._ask_of(run.both_sides(self.families, blocks, order), ask)

    def _ask_beside_pairs(self, blocks: Entries, order: float, ask: Ask) -> Interval:
        """The answer by these blocks from above, and by one pair of each kind from below: that takes little work."""
        unseen = use_same_pairs(self.families, order)
        return self._ask_of(self.setting.both_sides(self.families, blocks, order, None, unseen), ask)

    def _ask_of(self, answers: BothSides, ask: Ask) -> Interval:
        found = ask(answers)
        self.source, self._last = answers.source, answers
        return found

    def _ask_clocks(self, aim: Aim, delta: float, ask: Ask, most_lost: float = math.inf) -> Interval | None:
        """The answer by games on clocks from above, one order of all kinds from below; None of no such kinds.

        Where it is a little too wide, they are played once more, and nearer: what they lose is foreseen only about.
        """
        if (answers := self._clock_answers(aim, delta, most_lost)) is None:
            return None
        try:
            return self._ask_of(answers, ask)
        except ToleranceUnreachable as error:
            wide = relative_width(error) / self.setting.tolerance
            if isinstance(error, OutOfPatience) or not 1.0 < wide < ONCE_MORE:
                raise
            try:
                finer = aim._replace(room=aim.room * LESS_ROOM / wide, wanted=math.inf)
                if (near := self._clock_answers(finer, delta, LESS_LOST * self.lost, answers)) is not None:
                    return self._ask_of(near, ask)
            except ToleranceUnreachable as again:
                raise min(error, again, key=relative_width) from None
            raise

    def _clock_answers(
        self, aim: Aim, delta: float, most_lost: float = math.inf, known: BothSides | None = None
    ) -> BothSides | None:
        """Games on clocks from above; `known` has what is below already."""
        clocks = set_clock_run(self.families, aim, math.log(delta), most_lost)
        if clocks is None:
            return None
        self.apart, self.lost = list(clocks.alone), clocks.about
        below, unseen = (None, None) if known is None else (known.below, known.unseen)
        if known is None:
            clocks.foresee(len(self.families))
            below = play_in_clock_order(clocks.order) if clocks.in_order else None
            unseen = None if below else clocks.same_pairs(self.families, aim.order)
        blocks, lost = clocks.play()
        return replace(self.setting.both_sides(self.families, blocks, aim.order, below, unseen), lost=lost)

    def _play(self, kinds: Sequence[Kind], played: int, ask: Ask) -> Interval:
        """The answer with so many kinds played, and the others composed as blocks."""
        blocks = all_blocks([cut for _, cut in kinds[played:]])
        answers = self.setting.answers([kind for kind, _ in kinds[:played]], blocks)
        found = ask(answers)
        composed, self._last = played < len(kinds), answers
        self.source = answers.source.replace(PLD, OF_BLOCKS) if composed else answers.source
        return found


def answers_of_families(families: Entries, setting: Setting) -> Blocks | Game | LossDistribution:
    """How these screenings are priced, beside all else of a run."""
    if len(families) > 1 or (families and families[0][1] >= MANY):
        return Blocks(families, setting)
    return setting.answers(families)


def _one_delta(epsilon: float, least: float, answers: Answers | BothSides) -> Interval:
    (found,) = (replace(answers, least=least) if isinstance(answers, Game) else answers).deltas([epsilon])
    return found


def answers_of(run: Composition, end: float, tolerance: float, least: float = 0.0) -> Answers:
    """How to price a run that has no closed form; deltas below `least` may be as wide as that one's tolerance."""
    families, singles = sort_events(run)
    if families:
        families, singles = ([each for each in kinds if not costs_nothing(each[0])] for kinds in (families, singles))

    def smallest_delta(epsilons: Sequence[float]) -> float:
        """Where a game that serves all epsilons is to be tight; a tenth of the Rényi bound was found to do."""
        largest = max((epsilon for epsilon in epsilons if epsilon < end), default=None)
        guess = 0.5 if largest is None else float(best_orders_at(run, [largest]).values[0]) / 10
        if len(epsilons) > 2:  # so that games serve those that are asked later
            guess = max(math.pow(APART, math.floor(math.log(max(guess, LEAST)) / math.log(APART))), CURVE_LEAST)
        return min(max(guess, 1e-250), 0.5)

    if families:
        singles = votes_as_blocks(singles, VOTE_SHARE * tolerance)
        families = gather_many(families, lambda: renyi_epsilon(run, MIDDLE, "improved").order)
    answers = answers_of_families(families, Setting(singles, run, end, smallest_delta, tolerance, least))
    votes = votes_in(singles)
    if votes and isinstance(answers, LossDistribution) and not families:
        return VoteAnswers(votes, answers)
    return answers
