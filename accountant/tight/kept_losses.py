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
from accountant.tight.fourier import Remainder

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

ONE_ANSWER = 20.0
"""Operations (see `accountant.patience`) of what is asked once of a composed measure, by point."""

EACH = 4e3
"""Operations of finding what was composed, by kind of release."""

NARROW, WIDER = 0.25, 1.5
"""An answer that is as narrow as this share of the tolerance does, or as this multiple of the one that was composed."""

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
        return ONE_ANSWER * sum(measure.losses.size for run in self.runs for measure in run.measures)


class _Kept(NamedTuple):
    """What was composed for an epsilon, and how wide its answer there is."""

    epsilon: float
    width: float
    losses: ComposedLosses


_kept: ContextVar[dict[Composed, list[_Kept]] | None] = ContextVar("kept", default=None)

_only: ContextVar[bool] = ContextVar("only", default=False)


@contextmanager
def keep_losses() -> Iterator[None]:
    """While the block runs composed losses are kept; within another such block that one keeps them.

    A run that is priced on the way, as a try of a selection is, composes its losses also within `compose_nothing`.
    """
    tokens = _kept.set({} if _kept.get() is None else _kept.get()), _only.set(False)
    try:
        yield
    finally:
        _kept.reset(tokens[0])
        _only.reset(tokens[1])


@contextmanager
def compose_nothing() -> Iterator[None]:
    """While the block runs what is kept answers, however widely, and nothing else does."""
    token = _only.set(True)
    try:
        yield
    finally:
        _only.reset(token)


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
    insort(kept.setdefault(run, []), _Kept(at, width, losses), key=lambda each: each.epsilon)


def ask_kept(run: Composed, question: Question) -> Interval | None:
    """An answer by what was composed for the next epsilon on either side, if it is narrow enough."""
    kept = _kept.get()
    if kept is None or question.delta is not None or (run.above and not _only.get()):
        return None
    same, best = kept.get(run, []), None
    place = bisect(same, question.epsilon, key=lambda each: each.epsilon)
    for one in sorted(same[max(place - 1, 0) : place + 1], key=lambda each: abs(each.epsilon - question.epsilon)):
        spend(one.losses.answer_work() + EACH * len(run.run.entries), "a question to a composed loss")
        found = one.losses.answer(question.epsilon)
        near = min(max(WIDER * one.width, NARROW * question.tolerance), question.tolerance)
        if question.width(found, 0.0) <= near:
            return found
        best = found if best is None else Interval(max(best.lower, found.lower), min(best.upper, found.upper))
    if _only.get():
        refusal = ToleranceUnreachable("nothing that was composed is near enough")
        refusal.found = best
        raise refusal
    return None
