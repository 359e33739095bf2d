"""Gaussian noise beside releases of few losses: the exact sum over all of these of the profile of the Gaussian noise.

    delta(eps) = sum_i p_i H(eps - l_i),   H(x) = sup_S P(S) - e^x Q(S) of N(mu,1) against N(0,1), at any real x,

where all releases but those of Gaussian noise lose l_i together with probability p_i (notebooks/mathematics.md,
Closed forms). Without Gaussian noise H(x) = (1 - e^x)_+. What rounds is covered from both sides: masses and profiles by
a share of delta, losses and their differences by a distance on epsilon.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

import numpy as np

from accountant.adjacency import Direction
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.events.answers import Outcomes
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.few_losses import MOST_FEW, BothOutcomes
from accountant.events.gaussian import gaussian_log_profile
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import LOGARITHM, Interval, exponentiate, narrow
from accountant.patience import fits, spend
from accountant.tight.answers import Answers
from accountant.tight.closed_forms import ACCURACY, PLACES
from accountant.tight.games_last import meet
from accountant.tight.trade_off import TradeOff, both_signs

__all__ = ["FewLosses", "answers_of_few"]

QUICK = 1024
"""Losses up to which their sum is asked before grids are."""

TERM = 600.0
"""Operations (see `accountant.patience`) of a term; 30 to 500 were found."""

VALUES = 80
"""Values of the sum that it takes to invert it: 25 to 60 were found."""

CHUNK = 2**16
"""Terms that are computed at once."""

NOTHING = 1e-300
"""A width that is narrow, however small what is asked: of deltas as small as that nothing more is known."""

FINE = 1e-13
"""How near, relatively, the ends of a search come."""


class FewLosses:
    """Prices by that sum, and by grids where it is not narrow enough, or dearer.

    Parameters
    ----------
    mu : float
        Of all Gaussian noise together; 0 where there is none.
    sides : list of Outcomes
        Losses of all other releases: the same for both directions, or one for each.
    kinds : int
        Of how many different releases they are.
    tolerance : float
    make_others : callable
        How the run is priced otherwise.

    Attributes
    ----------
    source : str
    """

    def __init__(
        self, mu: float, sides: Sequence[Outcomes], kinds: int, tolerance: float, make_others: Callable[[], Answers]
    ) -> None:
        self.mu, self.sides, self.tolerance, self._make_others = mu, sides, tolerance, make_others
        # each probability is a product of one of each kind, and multiplies a value of the profile
        self.error = ACCURACY * (kinds + 1)
        self.reach = max(float(np.max(np.abs(side.losses))) for side in sides)
        self.size = sum(side.losses.size for side in sides)
        beside = f" beside Gaussian noise with mu = {mu:.6g}" if mu else ""
        self.own = self.source = f"sum over {self.sides[0].losses.size} losses{beside}"

    @cached_property
    def _others(self) -> Answers:
        return self._make_others()

    def epsilon(self, delta: float) -> Interval:
        return self._nearest(VALUES, lambda: [self._invert(math.log(delta))], lambda others: [others.epsilon(delta)])[0]

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        points = np.asarray(epsilons, dtype=float)

        def sums() -> list[Interval]:
            ends = zip(*(self._log_bound(points, sign).tolist() for sign in (-1, 1)), strict=True)
            return [exponentiate(low, high) for low, high in ends]

        return self._nearest(2 * points.size, sums, lambda others: others.deltas(epsilons))

    def trade_off(self, direction: Direction) -> TradeOff:
        self.source = self._others.source
        return self._others.trade_off(direction)

    def _nearest(
        self, values: int, ask: Callable[[], list[Interval]], ask_others: Callable[[Answers], list[Interval]]
    ) -> list[Interval]:
        """Answers by the sum, if it is quick; by grids, where it is not, or not narrow enough; by both at last."""
        self.source, work = self.own, values * self.size * TERM
        found: list[Interval] | None = None
        if self.size <= QUICK and fits(work):
            found = self._sum_up(work, ask)
            if self._is_narrow(found):
                return found
        try:
            answers = ask_others(self._others)
            self.source = self._others.source
            return answers if found is None else [meet(*each) for each in zip(found, answers, strict=True)]
        except ToleranceUnreachable as error:
            if found is None and fits(work):
                found = self._sum_up(work, ask)
            if found is None:
                self.source = self._others.source
                raise
            if self._is_narrow(found):
                return found
            known = error.curve or [error.found or (0.0, math.inf)] * len(found)
            both = [meet(one, Interval(*other)) for one, other in zip(found, known, strict=True)]
            said = error.args[0]
            refusal = OutOfPatience(said, error.seconds) if isinstance(error, OutOfPatience) else type(error)(said)
            refusal.found, refusal.wide, refusal.curve = both[0], error.wide or "", list(both)
            raise refusal from None

    def _sum_up(self, work: float, ask: Callable[[], list[Interval]]) -> list[Interval]:
        spend(work, f"a sum over {self.size} losses")
        return ask()

    def _is_narrow(self, found: Sequence[Interval]) -> bool:
        return all(each.upper - each.lower <= max(self.tolerance * each.upper, NOTHING) for each in found)

    def _log_bound(self, points: FloatArray, sign: int) -> FloatArray:
        """Bounds on log delta at epsilons >= 0, from below (sign -1) or above (1)."""
        moved = points - sign * PLACES * (points + self.reach)
        logs = np.max([self._log_sums(side, moved) for side in self.sides], axis=0)
        return np.asarray(np.minimum(logs + sign * self.error, 0.0))

    def _log_sums(self, side: Outcomes, points: FloatArray) -> FloatArray:
        """Logs of the sums, at any reals."""
        parts = np.array_split(points, max(math.ceil(points.size * side.losses.size / CHUNK), 1))
        return np.concatenate([self._log_sum(side, part) for part in parts if part.size] or [points])

    def _log_sum(self, side: Outcomes, points: FloatArray) -> FloatArray:
        gaps = points[:, None] - side.losses
        with np.errstate(divide="ignore", under="ignore"):
            forward = np.full_like(gaps, -math.inf)
            if self.mu > 0.0:
                forward = gaussian_log_profile(self.mu, np.abs(gaps).ravel()).reshape(gaps.shape)
            logs = side.log_p + both_signs(gaps, forward, forward)
            top = np.max(logs, axis=1)
            top = np.where(top > -math.inf, top, 0.0)
            return np.asarray(top + np.log(np.sum(np.exp(logs - top[:, None]), axis=1)))

    def _invert(self, log_delta: float) -> Interval:
        """Epsilons between which delta is passed."""

        def excess(sign: int) -> Callable[[float], float]:
            return lambda x: float(self._log_bound(np.array([x]), sign)[0]) - log_delta

        above, below = excess(1), excess(-1)
        if not above(0.0) > 0.0:
            return Interval(0.0, 0.0)
        least, low, high = max(4 * PLACES * self.reach, 1e-290), 1.0, 1.0
        while above(high) > 0.0:
            low, high = high, 4 * high
        while low == high or not above(low) > 0.0:
            if low <= least:
                return Interval(0.0, high)
            low, high = max(low / 16, least), min(low, high)
        upper = narrow(above, (low, high), LOGARITHM, fine=FINE)[1]
        gap = FINE
        while not below(upper * (1 - gap)) > 0.0:
            gap *= 16
            if gap >= 1.0 or upper * (1 - gap) <= least:
                return Interval(0.0, upper)
        if gap == FINE:
            return Interval(upper * (1 - gap), upper)
        return Interval(narrow(below, (upper * (1 - gap), upper), LOGARITHM, fine=gap / 64)[0], upper)


def answers_of_few(run: Composition, tolerance: float, make_others: Callable[[], Answers]) -> FewLosses | None:
    """Answers of a run of Gaussian noise and of releases of few losses; None of any other."""
    squares, released = list[float](), defaultdict[Hashable, list[tuple[Event, int]]](list)
    for event, count in run:
        plain = event.unsampled if event.sampling_rate == 1.0 else event
        if event.sampling_rate == 0.0:
            continue
        if plain.family or plain.between_bounds or plain._certain() is not plain:
            return None
        summand = plain._summand()
        if summand is not None and summand.key == "Gaussian":
            squares.append(count * summand.size)
        else:
            released[plain if summand is None else summand.key].append((plain, count))
    both: BothOutcomes | None = None
    for entries in released.values():
        kind = _losses_of(entries)
        both = kind if both is None else _compose(both, kind)
        if both is None:
            return None
    if both is None:
        return None
    sides = both[:1] if both[0] is both[1] else both
    return FewLosses(math.sqrt(math.fsum(squares)), sides, len(released), tolerance, make_others)


def _losses_of(entries: Sequence[tuple[Event, int]]) -> BothOutcomes | None:
    """Those of releases whose losses add up to those of as many coordinates of the first."""
    (event, count), *others = entries
    if others:
        count = sum(each._coordinates * times for each, times in entries)
        event = event if event._coordinates == 1 else event._with_coordinates(1)
    return event._few_losses(count)


def _compose(one: BothOutcomes, other: BothOutcomes | None) -> BothOutcomes | None:
    """Sums of losses, products of probabilities; None where they are too many."""
    if other is None or one[0].losses.size * other[0].losses.size > MOST_FEW:
        return None
    if one[0] is one[1] and other[0] is other[1]:
        return (_add(one[0], other[0]),) * 2
    return _add(one[0], other[0]), _add(one[1], other[1])


def _add(one: Outcomes, other: Outcomes) -> Outcomes:
    losses, log_p = (np.add.outer(a, b).ravel() for a, b in zip(one, other, strict=True))
    return Outcomes(losses, log_p)
