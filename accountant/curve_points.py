"""What the tight route certifies of a run's privacy curve while patience lasts, and, by convexity, between the points
that it was asked."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from accountant.advice import along_rungs
from accountant.errors import NoGuarantee, OutOfPatience, ProfileUnavailable, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.numerics.convexity import bound_between
from accountant.numerics.kernel import FloatArray
from accountant.patience import allow_work, count_done, fits, share_patience, spend
from accountant.renyi.route import renyi_delta
from accountant.tight.answers import CURVE_LEAST
from accountant.tight.kept_losses import keep_losses
from accountant.tight.route import TightRun

__all__ = ["KnownCurve"]

Places = NDArray[np.intp]
Ask = Callable[[Sequence[float]], Sequence[tuple[float, float]]]

FIRST = 0.25
"""Share of the patience for each point at its best; the rest is for one game that all share, where that is refused."""

LOOSER = 1.5
"""Multiple of the width of points around it up to which one is not asked of a game that all share."""

TOGETHER = 0.9
"""Share of the patience for games that all points share, before any is asked at its best."""

AGAIN = 0.5
"""Share of the patience that is left after it in which many points are asked again, at either of two tolerances."""

SHARED = 8
"""The largest share of what is left then that one of many points may take is one in so many."""

WIDE, AT_HAND = 0.1, 24
"""Points that are wider are made narrower by epsilons at deltas; each says something of so many points."""

WIDER = 0.1, 1.0
"""Tolerances of that game, beside the one that was asked."""

FEW = 2
"""Points up to which no game is shared."""

MANY, SHARE = 16, 1e-3
"""Points up to which each is asked; of more so many at a time, or such a share of them, as after that all are looked
at."""

SOME = 65
"""Of many points those that share a game, or at which bounds that are known otherwise are asked."""

LINES, CORNER = 500.0, 1e4
"""Operations (see `accountant.patience`) of what convexity says of a point, and of one that is known."""

TRY, MOST_KINDS = 1e6, 64
"""The same of a question that is refused, for every kind of release up to so many."""

PLENTY = 5.0
"""Multiple of what all points take for which there is to be patience where all are asked, and not as few as will do."""


class KnownCurve:
    """Bounds on delta at many epsilons, which only ever become narrower.

    Parameters
    ----------
    run : Composition
    epsilons : sequence of float
        In any order.

    Attributes
    ----------
    points : array of shape (n,)
        The same, each once, rising.
    bounds : array of shape (n, 2)
    certified : bool
        Whether any answer was had.
    """

    def __init__(self, run: Composition, epsilons: Sequence[float]) -> None:
        self.run = run
        self.points, self._places = np.unique(np.array(epsilons, dtype=float), return_inverse=True)
        self.bounds, self.certified = np.tile([0.0, 1.0], (self.points.size, 1)), False
        self._known = np.zeros(self.points.size, dtype=bool)
        self._beside: list[tuple[float, float, float]] = []

    def at_all(self) -> FloatArray:
        """The bounds in the order in which the epsilons were given."""
        return self.bounds[self._places]

    @keep_losses()
    def along(self, width: float) -> bool:
        """Ask at finer and finer tolerances down to one; whether all points are known as nearly as that."""
        with suppress(ProfileUnavailable):
            apart = self.points.size > 1 and TightRun(self.run, width).may_share
            if apart and self.points.size > FEW and self._ask_shared(width):
                return True
            with share_patience(FIRST if apart and self.points.size > FEW else 1.0):
                done = along_rungs(self.ask, width)
            if not done and apart:
                if self.points.size > FEW:
                    self._ask_otherwise(width)
                self._ask_alone(width)
            return done
        return False

    def _ask_shared(self, width: float) -> bool:
        """By games that all points share, from the least work to the nearest; whether all are as near as that."""
        nearest, asked = None, np.zeros(self.points.size, dtype=bool)
        with share_patience(TOGETHER), suppress(ToleranceUnreachable):
            for ask in TightRun(self.run, width).shared(self.points.tolist()):
                nearest, places = ask, _in_halves(_spread(self.points.size, SOME))
                asked[:] = False
                while places and self._ask_by(ask, places, asked):
                    places = self._widest(width, asked | self._as_near(asked))
                if not self._wide(width).size:
                    break
        with share_patience(TOGETHER), suppress(ToleranceUnreachable):
            while nearest and (places := self._widest(width, asked)) and self._ask_by(nearest, places, asked):
                pass
        return not self._wide(width).size

    def _ask_by(self, ask: Ask, places: Sequence[int], asked: NDArray[np.bool_]) -> bool:
        """Ask some points; whether there was patience for all of them."""
        found = ask([float(self.points[place]) for place in places])
        self._keep(places, found)
        answered = [place for place, each in zip(places, found, strict=True) if tuple(each) != (0.0, 1.0)]
        asked[answered] = True
        return len(answered) == len(places)

    def _ask_otherwise(self, width: float) -> None:
        """By one game that all share, by epsilons at deltas, and as before, and at a larger tolerance."""
        for each in (width, *WIDER):
            if 2 * self._wide(each).size >= self.points.size:
                with suppress(ToleranceUnreachable):
                    self._ask(TightRun(self.run, each), _spread(self.points.size, SOME), together=True)
        with share_patience(AGAIN):
            self._ask_epsilons(width)
        for each in (width, 10 * width):
            with share_patience(AGAIN), suppress(ToleranceUnreachable):
                self.ask(min(each, 1.0))

    @keep_losses()
    def ask(self, width: float) -> None:
        """Ask as many points as are needed for all to be as near.

        Raises
        ------
        ToleranceUnreachable
            Some are not; what is certified is kept.
        ProfileUnavailable
            As by `TightRun`.
        """
        route, places = TightRun(self.run, width), range(self.points.size)
        if self.points.size <= MANY or route.at_once:
            self._ask(route, places)
            return
        asked, refusal = np.zeros(self.points.size, dtype=bool), None
        first = np.intersect1d(_spread(self.points.size, MANY), self._wide(width)).tolist()
        some = _in_halves(first) or self._widest(width, asked)
        while some:
            with allow_work(math.inf) as work:
                before = work.spent
                try:
                    self._ask(route, some)
                except ToleranceUnreachable as error:
                    if np.isin(some, self._wide(width)).all():
                        raise
                    refusal = refusal or error
                taken = work.spent - before
            asked[some] = True
            rest = np.flatnonzero(~asked)
            all_of_them = refusal is None and fits(PLENTY * taken * rest.size / len(some))
            some = rest.tolist() if all_of_them else self._widest(width, asked)
        if refusal is not None and self._wide(width).size:
            raise refusal

    def lower_by(self, bound: Callable[[FloatArray], Iterable[FloatArray]], most: int = SOME) -> None:
        """Bounds from above that are known otherwise, at so many points at most, and while patience lasts.

        Raises
        ------
        OutOfPatience
            It does not last for one, and nothing else is certified.
        """
        places, found = _in_halves(_spread(self.points.size, most)), list[tuple[float, float]]()
        try:
            for some in bound(self.points[places]):
                found += [(0.0, upper) for upper in some.tolist()]
        except OutOfPatience:
            if not (found or self.certified):
                raise
        self._keep(places[: len(found)], found)

    def _wide(self, width: float) -> Places:
        """Places of the points that are not known as nearly."""
        lower, upper = self.bounds.T
        return np.flatnonzero(upper - lower > width * np.maximum(upper, CURVE_LEAST))

    def _as_near(self, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Points that are known about as nearly as those around them that were asked: no answer would be nearer."""
        lower, upper = self.bounds.T
        widths, places = (upper - lower) / np.maximum(upper, CURVE_LEAST), np.flatnonzero(asked)
        return np.asarray(widths <= LOOSER * np.interp(np.arange(asked.size), places, widths[places]))

    def _widest(self, width: float, asked: NDArray[np.bool_]) -> list[int]:
        """Of the points that are too wide and were not asked, the middle of each row of them, the widest first."""
        wide = self._wide(width)
        wide = wide[~asked[wide]]
        ends = np.append(np.flatnonzero(np.diff(wide) > 1) + 1, wide.size)  # of rows, among those
        starts = np.append(0, ends[:-1])
        middles = wide[(starts + ends) // 2] if wide.size else wide
        lower, upper = self.bounds[middles].T
        most = max(MANY, int(SHARE * self.points.size))
        found: list[int] = middles[np.argsort(lower / upper, kind="stable")[:most]].tolist()
        return found

    def _ask_alone(self, width: float) -> None:
        """Wide points, each by itself, the widest first; few of them may all take the same share of what is left."""
        asked = np.zeros(self.points.size, dtype=bool)
        for number in range(MANY):
            if not (places := self._widest(width, asked)) or not self._may_try():
                return
            asked[places[0]] = True
            left = min(int(np.sum(~asked[self._wide(width)])) + 1, MANY - number, SHARED)
            with share_patience(1 / left):
                along_rungs(partial(self._ask_one, places[0]), width)

    def _ask_epsilons(self, width: float) -> None:
        """Epsilons at some deltas, which are nearer than deltas at some epsilons, and what that says of wide points."""
        route, asked = TightRun(self.run, width), np.zeros(self.points.size, dtype=bool)
        for _ in range(MANY):
            if not (places := self._widest(WIDE, asked)) or not self._may_try():
                return
            lower, upper = self.bounds[places[0]].tolist()
            if not lower > 0.0:
                with suppress(OutOfPatience):
                    upper = min(upper, renyi_delta(self.run, float(self.points[places[0]]), "improved").delta)
            asked[places[0]] = True
            delta = math.sqrt(max(lower, 0.01 * upper) * upper)
            if not CURVE_LEAST <= delta < 1.0:
                continue
            try:
                found = route.epsilon(delta)
            except (ToleranceUnreachable, NoGuarantee):
                continue
            self._beside.append((found.epsilon, 0.0, delta))
            if found.lower:  # that no epsilon is below 0 says nothing of delta
                self._beside.append((found.lower, delta, 1.0))
            wide = self._wide(width)
            near = wide[_spread(wide.size, AT_HAND)].tolist()
            self._keep(near, route.deltas_at_hand([float(self.points[place]) for place in near]))

    def _may_try(self) -> bool:
        """Count what a question takes that may be refused; whether there is patience for that."""
        with suppress(OutOfPatience):
            spend(TRY * min(len(self.run.entries), MOST_KINDS), "a question that is refused")
            return True
        return False

    def _ask_one(self, place: int, width: float) -> None:
        self._ask(TightRun(self.run, width), [place])

    def _ask(self, route: TightRun, places: Sequence[int], together: bool = False) -> None:
        try:
            self._keep(places, route.deltas([float(self.points[place]) for place in places], together))
        except ToleranceUnreachable as error:  # some points may be as narrow as was asked
            if (known := error.known_at(len(places))) is not None:
                self._keep(places, known)
            raise

    def _keep(self, places: Sequence[int], found: Sequence[tuple[float, float]]) -> None:
        """All bounds that were ever certified hold, and what follows from them at all points."""
        at = np.array(places, dtype=int)
        lower, upper = np.array(found).reshape(-1, 2).T
        upper = np.minimum(self.bounds[at, 1], upper)
        lower = np.minimum(np.maximum(self.bounds[at, 0], lower), upper)
        self.bounds[at], self.certified = np.column_stack([lower, upper]), True
        self._known[at] = True
        self._draw_lines()

    def _draw_lines(self) -> None:
        """What convexity says of all points."""
        count_done(LINES * self.points.size + CORNER * (np.count_nonzero(self._known) + len(self._beside)))
        epsilons, lower, upper = np.array(self._beside).reshape(-1, 3).T
        epsilons = np.concatenate([self.points, epsilons])
        order = np.argsort(epsilons, kind="stable")
        lower, upper = (np.concatenate(each)[order] for each in zip(self.bounds.T, (lower, upper), strict=True))
        known = np.concatenate([self._known, np.ones(len(self._beside), dtype=bool)])[order]
        found = np.empty((order.size, 2))
        found[order] = np.column_stack(bound_between(epsilons[order], lower, upper, known))
        self.bounds = found[: self.points.size]


def _spread(size: int, number: int) -> list[int]:
    """So many places among the first `size`, or all, both ends among them."""
    places: list[int] = np.unique(np.linspace(0, size - 1, min(number, size)).round().astype(int)).tolist()
    return places


def _in_halves(places: list[int]) -> list[int]:
    """The ends, the middle, the middles of what is left of it and so on: where patience ends, they are all over."""
    found, parts = places[:1] + places[1:][-1:], deque([(1, len(places) - 1)])
    while parts:
        start, end = parts.popleft()
        if start < end:
            middle = (start + end) // 2
            found.append(places[middle])
            parts += [(start, middle), (middle + 1, end)]
    return found
