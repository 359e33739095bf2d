"""Composed losses that were made for one epsilon of a privacy curve, kept while others are asked.

What a composed loss says of delta is certified at every epsilon. It is as narrow as was asked within several standard
deviations of the one it was made for; wherever it is not, the loss is composed anew (notebooks/mathematics.md, Many
points of a curve).
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from accountant.adjacency import Direction
from accountant.errors import ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.numerics.roots import Interval
from accountant.patience import spend
from accountant.tight.directed_run import DirectedRun, Question, Remainders
from accountant.tight.fourier import HockeyStick, Remainder
from accountant.variables import set_while

__all__ = [
    "Composed",
    "ComposedLosses",
    "ComposedOnGrids",
    "ask_kept",
    "compose_nothing",
    "deltas_at_hand",
    "keep_for",
    "keep_losses",
]

ONE_ANSWER, BY_GAME = (5e4, 12.0), (3e5, 120.0)
"""Operations (see `accountant.patience`) of what is asked once of a composed measure, and by point; and where a game
comes last."""

EACH = 4e3
"""Operations of finding what was composed, by kind of release."""

NARROW, WIDER = 0.25, 1.5
"""An answer that is as narrow as this share of the tolerance does, or as this multiple of the one that was composed."""

APART = 0.5
"""Share of the tolerance by which an upper end may be further than the one that was composed for its own epsilon."""

ASKED = "a question to a composed loss"

MOST_POINTS = 2**23
"""Points of all losses that are kept, together."""


class ComposedLosses(Protocol):
    """All directions of a composition."""

    @property
    def points(self) -> int:
        """Numbers that are kept."""

    def answer(self, epsilon: float) -> Interval:
        """Bounds on delta at an epsilon."""

    def answer_work(self) -> float:
        """Operations of that."""


class Composed(NamedTuple):
    """What losses that are composed for one epsilon are found by at others.

    `above`: from above only, and how near that is nobody knows.
    """

    run: Composition
    remainders: tuple[tuple[Direction, Remainder], ...]
    directions: tuple[Direction, ...]
    above: bool

    @classmethod
    def of(
        cls, run: Composition, remainders: Remainders | None, directions: Sequence[Direction], above: bool
    ) -> Composed:
        last = () if remainders is None else tuple(remainders.items())
        return cls(run, last, tuple(directions), above)


@dataclass(frozen=True)
class ComposedOnGrids:
    """Directions of a run, each on its grid."""

    runs: list[DirectedRun]

    @property
    def points(self) -> int:
        return 2 * sum(measure.losses.size for run in self.runs for measure in run.measures)

    def answer(self, epsilon: float) -> Interval:
        found = [run.delta_bounds(epsilon) for run in self.runs]
        return Interval(max(each.lower for each in found), max(each.upper for each in found))

    def answer_work(self) -> float:
        return sum(
            ONE_ANSWER[0] + ONE_ANSWER[1] * measure.losses.size
            if isinstance(run.remainder, HockeyStick)
            else BY_GAME[0] + BY_GAME[1] * measure.losses.size
            for run in self.runs
            for measure in run.measures
        )


class _Kept(NamedTuple):
    """What was composed for an epsilon, how wide its answer there is, and upper ends that it was asked at others."""

    epsilon: float
    width: float
    losses: ComposedLosses
    reaches: dict[float, float]

    def reach(self, epsilon: float, work: float) -> float:
        """The upper end at an epsilon for which others were composed, which is asked again and again."""
        if epsilon not in self.reaches:
            spend(self.losses.answer_work() + work, ASKED)
            self.reaches[epsilon] = self.losses.answer(epsilon).upper
        return self.reaches[epsilon]


_kept: ContextVar[dict[Composed, list[_Kept]] | None] = ContextVar("kept", default=None)

_only: ContextVar[bool] = ContextVar("only", default=False)


@contextmanager
def keep_losses() -> Iterator[None]:
    """While the block runs composed losses are kept; within another such block that one keeps them.

    A run that is priced on the way, as a try of a selection is, composes its losses also within `compose_nothing`.
    """
    with set_while((_kept, {} if _kept.get() is None else _kept.get()), (_only, False)):
        yield


@contextmanager
def compose_nothing() -> Iterator[None]:
    """While the block runs what is kept answers, however widely, and nothing else does."""
    with set_while((_only, True)):
        yield


def deltas_at_hand(ask: Callable[[Sequence[float]], list[Interval]], epsilons: Sequence[float]) -> list[Interval]:
    """What is known of deltas without composing anything: at worst that they are probabilities."""
    with compose_nothing():
        try:
            return ask(epsilons)
        except ToleranceUnreachable as error:
            known = error.known_at(len(epsilons))
            return [Interval(0.0, 1.0)] * len(epsilons) if known is None else [Interval(*each) for each in known]


def keep_for(run: Composed, question: Question, losses: ComposedLosses, found: Interval) -> None:
    """Keep what was composed for a question and answered it, if there is room."""
    kept = _kept.get()
    if kept is None:
        return
    points = sum(each.losses.points for same in kept.values() for each in same)
    if points + losses.points > MOST_POINTS:
        return
    at, width = (question.epsilon, question.width(found, 0.0)) if question.delta is None else (found.upper, 0.0)
    insort(kept.setdefault(run, []), _Kept(at, width, losses, {}), key=lambda each: each.epsilon)


def ask_kept(run: Composed, question: Question) -> Interval | None:
    """An answer by what was composed for the next epsilon on either side, if it is narrow enough."""
    kept = _kept.get()
    if kept is None or question.delta is not None:
        return None
    same = kept.get(run, [])
    place = bisect(same, question.epsilon, key=lambda each: each.epsilon)
    around = same[max(place - 1, 0) : place + 1]
    if run.above and not _only.get():
        return _ask_from_above(around, question, EACH * len(run.run.entries))
    best = None
    for one in sorted(around, key=lambda each: abs(each.epsilon - question.epsilon)):
        spend(one.losses.answer_work() + EACH * len(run.run.entries), ASKED)
        found = one.losses.answer(question.epsilon)
        if run.above:  # nothing is known from below
            found = Interval(0.0, found.upper)
        near = min(max(WIDER * one.width, NARROW * question.tolerance), question.tolerance)
        if question.width(found, 0.0) <= near:
            return found
        best = found if best is None else Interval(max(best.lower, found.lower), min(best.upper, found.upper))
    if _only.get():
        refusal = ToleranceUnreachable("nothing that was composed is near enough")
        refusal.found = best
        raise refusal
    return None


def _ask_from_above(around: Sequence[_Kept], question: Question, work: float) -> Interval | None:
    """An upper end between two epsilons for which losses were composed, if one of them is near at the other, too.

    How near it is nobody knows, but it becomes less near with the distance: what reaches the other's own upper end does
    so in between.
    """
    same = [one for one in around if one.epsilon == question.epsilon]
    if same:
        around = same * 2
    if len(around) < 2:
        return None
    for one, other in (around, reversed(around)):
        own, found = (each.reach(other.epsilon, work) for each in (other, one))
        if found - own <= APART * question.tolerance * max(own, question.least):
            spend(one.losses.answer_work() + work, ASKED)
            return Interval(0.0, one.losses.answer(question.epsilon).upper)
    return None
