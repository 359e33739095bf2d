"""The tight route: certified intervals for epsilon and delta, without a detour over Rényi orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.errors import NoGuarantee, ProfileUnavailable, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.tight.closed_forms import (
    ACCURACY,
    PLACES,
    ClosedForm,
    by_coordinate,
    closed_form,
    given_finite,
    inverse_profile,
)
from accountant.tight.infinite_losses import OneSided, bounds_on_lost, left_of
from accountant.tight.loss_composition import Entries, Remainders, bound_delta, bound_epsilon
from accountant.tight.loss_trade_off import LossTradeOff, MixedTradeOff
from accountant.tight.screening_families import GameValue, is_screening, solve_game
from accountant.tight.screening_game import STEP_ROUNDING
from accountant.tight.trade_off import ProfileTradeOff, SureTradeOff, TradeOff, both_signs

__all__ = ["TightRun", "single_release_epsilon"]

AIM = 1e-8
"""The delta for which games of screenings are solved whose true-positive rates are asked; others are near as well."""

LEAST_RATE = 1e-14
"""Where families follow other events, the profile is looked at up to the epsilon at this delta."""

FAMILY_SHARE = 0.5
"""Share of the tolerance that screenings get where other events are composed with them."""


class Answers(Protocol):
    """One way to certify a run's prices at 0 < delta < 1 and at epsilons >= 0."""

    @property
    def source(self) -> str:
        """What the prices are computed by."""

    def epsilon(self, delta: float) -> Interval:
        """Bounds on the smallest epsilon at a delta."""

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        """Bounds on delta at each epsilon."""

    def trade_off(self, direction: Direction) -> TradeOff:
        """Bounds on the true-positive rates of one direction."""


class TightRun:
    """A composition that is made ready once for the tight route, and then answers for epsilons and for deltas.

    Parameters
    ----------
    run : Composition
    tolerance : float
        Largest width of the certified intervals, relative to their upper ends.

    Raises
    ------
    ProfileUnavailable
        An event is known by a Rényi bound only.
    """

    def __init__(self, run: Composition, tolerance: float) -> None:
        run = by_coordinate(run)
        known, log_finite = closed_form(run), (0.0, 0.0)
        if known is None:
            run, log_finite = given_finite(run)
            known = closed_form(run) if log_finite[0] == log_finite[1] < 0.0 else None
        _refuse_without_profile(run)
        self.run, self.tolerance, self._end = run, tolerance, float(run.renyi(math.inf))
        self._log_finite = log_finite[0]
        self._answers = self._choose(known, log_finite)

    def _choose(self, known: ClosedForm | None, log_finite: tuple[float, float]) -> Answers:
        """How to answer; where infinite losses differ by direction the answers count them themselves."""
        if known is not None:
            return _from_closed_form(known, self.run)
        if log_finite[0] == log_finite[1]:
            return _answers_of(self.run, self._end, self.tolerance)
        families, singles = _sort(self.run)
        if families:
            raise ProfileUnavailable(
                f"{families[0][0]!r} beside releases whose loss is infinite in one direction only; accepted: method = "
                "'renyi' or 'auto', or the two in runs of their own"
            )
        self._log_finite, self._end = 0.0, math.inf
        return OneSided(singles, log_finite, self.tolerance)

    def epsilon(self, delta: float) -> Guarantee:
        """Certified bounds on the smallest epsilon at a delta in [0, 1).

        Raises
        ------
        ToleranceUnreachable
            The interval cannot be made narrow enough.
        NoGuarantee
            No epsilon is enough at that delta.
        """
        left = left_of(delta, self._log_finite)
        if left == 0.0 and not isinstance(self._answers, OneSided):
            found, source = _pure(self.run), "pure-DP limit"
        else:
            found, source = self._answers.epsilon(left), self._answers.source
        found = Interval(found.lower, min(found.upper, self._end))
        if len(families := _sort(self.run)[0]) > 1:
            # the union of several kinds can be looser than their Rényi curves
            found = Interval(found.lower, min(found.upper, renyi_epsilon(self.run, left, "improved").epsilon))
            if found.upper - found.lower > self.tolerance * found.upper:
                raise ToleranceUnreachable(
                    f"{len(families)} kinds of screening in one run are certified to [{found.lower:.4g}, "
                    f"{found.upper:.4g}] only; accepted: a tolerance of {1 - found.lower / found.upper:.2g} or more"
                )
        if found.upper == math.inf:
            raise NoGuarantee(
                f"no epsilon is enough at delta = {delta:g}: a loss may be infinite with more probability"
            )
        return self._guarantee(found.upper, delta, found.lower, source)

    def delta(self, epsilon: float) -> Guarantee:
        """Certified bounds on delta at an epsilon; errors as for `epsilon`."""
        (found,) = self.deltas([epsilon])
        return self._guarantee(epsilon, found.upper, found.lower, self._answers.source)

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        """Certified bounds on delta at each epsilon; all of them share one game of screenings."""
        found = self._answers.deltas(epsilons)
        found = [
            Interval(0.0, 0.0) if epsilon >= self._end else one for epsilon, one in zip(epsilons, found, strict=True)
        ]
        if self._log_finite < 0.0:
            (below, above), kept = bounds_on_lost(self._log_finite), math.exp(self._log_finite)
            found = [Interval(below + kept * one.lower, min(above + kept * one.upper, 1.0)) for one in found]
        return found

    @property
    def source(self) -> str:
        """What the numbers are computed by."""
        return self._answers.source

    @property
    def mu(self) -> float | None:
        """The mu of a run whose pair is N(mu, 1) against N(0, 1); None for any other."""
        return self._answers.mu if isinstance(self._answers, _ClosedForm) else None

    def trade_off(self, direction: Direction) -> TradeOff:
        """Bounds on the true-positive rates of one direction."""
        found = self._answers.trade_off(direction)
        if self._log_finite == 0.0:
            return found
        return SureTradeOff(found, bounds_on_lost(self._log_finite))

    def _guarantee(self, epsilon: float, delta: float, lower: float, source: str) -> Guarantee:
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            adjacency=self.run.adjacency,
            method="tight",
            conversion=None,
            order=None,
            lower=lower,
            source=source,
            data_dependent=self.run.data_dependent,
        )


# --- three ways to answer --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ClosedForm:
    """The profile of the whole run, or its logarithm, is known."""

    log_profile: Callable[[FloatArray], FloatArray]
    source: str
    directed: Callable[[FloatArray], tuple[FloatArray, FloatArray]] | None = None
    mu: float | None = None

    def epsilon(self, delta: float) -> Interval:
        return inverse_profile(self.log_profile, math.log(delta))

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        points = np.asarray(epsilons, dtype=float)
        lows, highs = (self.log_profile(points * moved).tolist() for moved in (1 + PLACES, 1 - PLACES))
        ends = zip(lows, highs, strict=True)
        return [Interval(math.exp(low - ACCURACY), _never_zero(math.exp(high + ACCURACY))) for low, high in ends]

    def trade_off(self, direction: Direction) -> TradeOff:
        forward = DIRECTIONS.index(direction)

        def log_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            size, ends = np.abs(x), []
            for sign in (1.0, -1.0):
                points = size * (1 + sign * PLACES)
                both = self.directed(points) if self.directed is not None else (self.log_profile(points),) * 2
                logs = (np.minimum(each - sign * ACCURACY, 0.0) for each in (both[forward], both[1 - forward]))
                ends.append(both_signs(x, *logs))
            return ends[0], ends[1]

        return ProfileTradeOff(log_bounds)


@dataclass(frozen=True)
class _Game:
    """All events are families of pairs: the adversary plays."""

    families: Entries
    smallest_delta: Callable[[Sequence[float]], float]
    tolerance: float
    source: str = "dynamic programme"

    def epsilon(self, delta: float) -> Interval:
        return _worse([value.epsilon(delta) for value in self._values(delta)])

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        values = self._values(self.smallest_delta(epsilons))
        return [_worse([value.delta(epsilon) for value in values]) for epsilon in epsilons]

    def trade_off(self, direction: Direction) -> TradeOff:
        value = solve_game(self.families, direction, delta=AIM, tolerance=self.tolerance)

        def log_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            return value.log_lower(x) - STEP_ROUNDING, np.minimum(value.log_upper(x) + STEP_ROUNDING, 0.0)

        return ProfileTradeOff(log_bounds, lines=2001)

    def _values(self, delta: float) -> list[GameValue]:
        return [solve_game(self.families, direction, delta=delta, tolerance=self.tolerance) for direction in DIRECTIONS]


@dataclass(frozen=True)
class _LossDistribution:
    """Events with a single dominating pair are convolved; families of pairs come last (see `solve_game`)."""

    families: Entries
    singles: Entries
    run: Composition
    end: float
    smallest_delta: Callable[[Sequence[float]], float]
    tolerance: float

    @property
    def source(self) -> str:
        return "privacy-loss distribution" + (" before a dynamic programme" if self.families else "")

    def epsilon(self, delta: float) -> Interval:
        remainders = self._remainders(delta)
        found, certain = bound_epsilon(self.singles, delta, self.tolerance, remainders), self._certain()
        if certain is None:
            return found
        return Interval(bound_epsilon(certain, delta, self.tolerance, remainders).lower, found.upper)

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        remainders = self._remainders(self.smallest_delta(epsilons)) if self.families else None
        certain, answers = self._certain(), []
        for epsilon in epsilons:
            if epsilon >= self.end:
                answers.append(Interval(0.0, 0.0))
                continue
            found = bound_delta(self.singles, epsilon, self.tolerance, remainders)
            if certain is not None:
                found = Interval(bound_delta(certain, epsilon, self.tolerance, remainders).lower, found.upper)
            answers.append(found)
        return answers

    def _certain(self) -> Entries | None:
        """The same with events that are known to cost no more, where some are known by a bound from above only."""
        entries = [(event._certain(), count) for event, count in self.singles]
        same = all(event is other for (event, _), (other, _) in zip(entries, self.singles, strict=True))
        return None if same else entries

    def trade_off(self, direction: Direction) -> TradeOff:
        if self._certain() is not None:
            raise ProfileUnavailable("attack risks of several of many steps, drawn at random; accepted: selected = 1")
        if not self.families:
            return LossTradeOff(self.singles, direction, self.tolerance)
        share = FAMILY_SHARE * self.tolerance
        game = solve_game(self.families, direction, delta=AIM, tolerance=share)
        reach = renyi_epsilon(self.run, LEAST_RATE, "improved").epsilon
        return MixedTradeOff(self.singles, direction, self.tolerance, game, reach)

    def _remainders(self, delta: float) -> Remainders | None:
        """What screenings leave of delta after all other events: families last bounds every interleaving."""
        if not self.families:
            return None
        share = FAMILY_SHARE * self.tolerance
        return {
            direction: solve_game(self.families, direction, delta=delta, tolerance=share) for direction in DIRECTIONS
        }


def _answers_of(run: Composition, end: float, tolerance: float) -> Answers:
    """How to price a run that has no closed form."""
    families, singles = _sort(run)

    def smallest_delta(epsilons: Sequence[float]) -> float:
        """Where a game that serves all epsilons is to be tight; a tenth of the Rényi bound was found to do."""
        finite = [epsilon for epsilon in epsilons if epsilon < end]
        guess = min((renyi_delta(run, epsilon, "improved").delta / 10 for epsilon in finite), default=0.5)
        return min(max(guess, 1e-250), 0.5)

    if singles:
        return _LossDistribution(families, singles, run, end, smallest_delta, tolerance)
    return _Game(families, smallest_delta, tolerance)


def _from_closed_form(known: ClosedForm, run: Composition) -> Answers:
    """A known profile; whoever replaces a record may do so in both directions, and meets the larger profile."""
    both = known.directed if run.adjacency is Adjacency.ADD_REMOVE else None
    return _ClosedForm(known.log_profile, known.source, both, known.mu)


def _worse(directions: Sequence[Interval]) -> Interval:
    """Bounds on the larger of two prices."""
    return Interval(max(each.lower for each in directions), max(each.upper for each in directions))


def _never_zero(delta: float) -> float:
    """An underflow to 0 would claim pure DP."""
    return min(max(delta, 5e-324), 1.0)


def single_release_epsilon(run: Composition, delta: float) -> float:
    """A lower bound on epsilon, from the costliest of the run's releases alone; 0 where none has a profile."""
    best = 0.0
    for event in run.entries:
        known = None if event.family else closed_form(1 * event)
        if known is not None:
            best = max(best, inverse_profile(known.log_profile, math.log(delta)).lower)
    return best


def _refuse_without_profile(run: Composition) -> None:
    for event in run.entries:
        if event.between_bounds:
            if type(event)._surrogates is Event._surrogates:
                raise ProfileUnavailable(f"{event!r} has bounds from above only; accepted: method = 'renyi' or 'auto'")
            continue
        try:
            event._log_profile(np.zeros(1))
        except ProfileUnavailable as error:
            shared = event.unsampled is not event and event.unsampled._coordinates > 1
            why = " (all coordinates share one sample, and are not as many sampled releases)" if shared else ""
            raise ProfileUnavailable(f"{error}{why}; accepted: method = 'renyi' or 'auto'") from None
        if event.family and not is_screening(event) and run.releases > 1:
            raise ProfileUnavailable(
                f"{event!r} is a family of pairs of distributions; only screenings are composed as such; "
                "accepted: method = 'renyi' or 'auto'"
            )


def _sort(run: Composition) -> tuple[Entries, Entries]:
    """Families of pairs, and events with a single dominating pair."""
    entries = list(run)
    return [entry for entry in entries if entry[0].family], [entry for entry in entries if not entry[0].family]


def _pure(run: Composition) -> Interval:
    """The pure-DP limit; from below, the sum over events that all come close to it in one direction."""
    upper = float(run.renyi(math.inf))
    if upper == math.inf:
        raise NoGuarantee("delta = 0 and this run is not pure DP: its epsilon is infinite; accepted: delta in (0, 1)")
    reached = [run.total(partial(_nearly_largest, direction)) for direction in range(len(DIRECTIONS))]
    return Interval(max(reached), upper)


def _nearly_largest(direction: int, event: Event) -> float:
    """Just below the largest loss of an event, if the loss comes so near in that direction; else 0."""
    near = float(event.renyi(math.inf)) * (1 - 1e-9)
    return near if float(event._log_profile(np.array([near]))[direction][0]) > -math.inf else 0.0
