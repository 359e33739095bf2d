"""The tight route: certified intervals for epsilon and delta, without a detour over Rényi orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.errors import NoGuarantee, ProfileUnavailable, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.from_below import FromBelow, costs_nothing
from accountant.guarantee import Guarantee, interval_of
from accountant.numerics.exact import round_down, round_up
from accountant.numerics.roots import LEAST, Interval
from accountant.patience import fits
from accountant.tight.answers import Answers, sort_events
from accountant.tight.block_answers import Blocks, answers_of
from accountant.tight.both_sides import BothSides
from accountant.tight.bounded_answers import BoundedAnswers, lower_of, run_below, say_between_bounds
from accountant.tight.closed_forms import (
    ClosedForm,
    by_coordinate,
    closed_form,
    given_finite,
    inverse_profile,
)
from accountant.tight.curve_pairs import KnownByCurve, gather_curves, lacks_profile
from accountant.tight.few_losses import answers_of_few
from accountant.tight.infinite_losses import OneSided, bounds_on_lost, left_of
from accountant.tight.kept_losses import keep_losses
from accountant.tight.known_profile import KnownProfile, from_closed_form
from accountant.tight.left_out import beside_left_out, leave_out
from accountant.tight.screening_families import is_played
from accountant.tight.trade_off import SureTradeOff, TradeOff
from accountant.tight.vote_answers import foresee_votes

__all__ = ["TightRun", "certify", "single_release_epsilon"]


SMALL = 1e-12
"""Deltas below which an epsilon may be as good as the pure-DP limit."""

EXP_ERROR = 2.0**-51
"""More than the relative error of an exponential."""


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
        All events that cost anything are known by a Rényi bound only; beside others they are priced from above.
    """

    def __init__(self, run: Composition, tolerance: float) -> None:
        run = self._whole = gather_curves(by_coordinate(run))
        foresee_votes(run)
        known, (finite, log_finite, self._lost) = closed_form(run), given_finite(run)
        self._slow = closed_form(run, slow=True) if known is None else None
        if known is None or self._lost:
            run, known = finite, closed_form(finite) if log_finite[0] == log_finite[1] < 0.0 else None
        else:
            log_finite = 0.0, 0.0
        _refuse_without_profile(run)
        self.run, self.tolerance, self._end = run, tolerance, run._largest_loss()
        self._log_finite, self._exact = log_finite[0], False
        self._answers = self._choose(known, log_finite)

    def _choose(self, known: ClosedForm | None, log_finite: tuple[float, float]) -> Answers:
        """How to answer; where infinite losses differ by direction the answers count them themselves."""
        if known is not None:
            return self._from_known(known)
        if log_finite[0] == log_finite[1]:
            lost = bounds_on_lost(log_finite[0])[0] if log_finite[0] < 0.0 else 0.0
            least = lost / max(math.exp(log_finite[0]), 1e-300)
            on_grids = partial(answers_of, self.run, self._end, self.tolerance, least)
            return answers_of_few(self.run, self.tolerance, on_grids) or on_grids()
        families, singles = sort_events(self.run)
        families = [each for each in families if not costs_nothing(each[0])]
        self._log_finite, self._end = 0.0, math.inf
        return OneSided(singles, log_finite, self.tolerance, families)

    def _from_known(self, known: ClosedForm) -> Answers:
        """By a profile, or from above by one where some releases may cost less."""
        answers, below, tests = (
            from_closed_form(known, self.run),
            run_below(self.run),
            run_below(self.run, as_tests=True),
        )
        if tests is None:
            return answers
        made = None if below is None else self._make_below
        return BoundedAnswers(answers, made, partial(TightRun, tests, self.tolerance), known.alone is not None)

    def _make_below(self, epsilon: float | None) -> TightRun:
        """The run that costs no more, chosen for an epsilon if delta is asked at one."""
        return TightRun(run_below(self.run, epsilon=epsilon) or self.run, self.tolerance)

    def epsilon(self, delta: float) -> Guarantee:
        """Certified bounds on the smallest epsilon at a delta in [0, 1).

        Raises
        ------
        ToleranceUnreachable
            The interval cannot be made narrow enough.
        NoGuarantee
            No epsilon is enough at that delta.
        """
        left = left_of(delta, self._log_finite, self._lost)
        # of losses that are infinite in one direction the run here holds the finite ones alone
        near = None if isinstance(self._answers, OneSided) else self._limit(left)
        if near is not None:
            found, source = near, "pure-DP limit"
        else:
            found, source = self._ask(left), self.source
        found = Interval(found.lower, min(found.upper, self._end))
        if found.upper == math.inf:
            raise NoGuarantee(
                f"no epsilon is enough at delta = {delta:g}: a loss may be infinite with more probability; accepted: a "
                "larger delta"
            )
        return certify(self.run, found, delta, self._with_reason(source, found))

    def _limit(self, left: float) -> Interval | None:
        """The pure-DP limit, if it is the price."""
        if left == 0.0:
            return _pure(self.run)
        if isinstance(self._answers, BoundedAnswers) and self._answers.alone:
            return None
        found, below = _near_limit(self.run, left, self.tolerance), run_below(self.run, delta=left)
        if found is None or below is None:
            return found
        return Interval(lower_of(lambda: TightRun(below, self.tolerance).epsilon(left).lower or 0.0), found.upper)

    def _ask(self, left: float) -> Interval:
        kept = leave_out(self.run, left)
        if not kept:
            return Interval(0.0, 0.0)
        if len(kept) < len(self.run.entries):
            rest, known = TightRun(Composition(kept), self.tolerance), {event for event, _ in kept}
            if all(event in known or costs_nothing(event) for event in self.run.entries):
                return interval_of(rest.epsilon(left))
            return beside_left_out(rest.run, left, lambda delta: interval_of(rest.epsilon(delta)))
        try:
            return self._answers.epsilon(left)
        except ToleranceUnreachable as error:
            if error.found is not None:
                lower, upper = error.found
                error.found, error.source = (lower, min(upper, self._end)), self.source
            raise

    def delta(self, epsilon: float) -> Guarantee:
        """Certified bounds on delta at an epsilon; errors as for `epsilon`."""
        (found,) = self.deltas([epsilon])
        return certify(self.run, Interval(found.lower, epsilon), found.upper, self._with_reason(self.source, found))

    @property
    def may_share(self) -> bool:
        """Whether deltas are each asked at its best, and could share one game of screenings instead."""
        return isinstance(self._answers, Blocks)

    def deltas_at_hand(self, epsilons: Sequence[float]) -> list[Interval]:
        """What is known of deltas without composing anything, from how the last epsilon was priced."""
        if self._log_finite != 0.0 or self._slow is not None or not isinstance(self._answers, Blocks):
            return [Interval(0.0, 1.0)] * len(epsilons)
        return self._of_all(epsilons, self._answers.deltas_at_hand(epsilons))

    def shared(self, epsilons: Sequence[float]) -> Iterator[Callable[[Sequence[float]], list[Interval]]]:
        """Ways to ask deltas by games that all of these epsilons share, each nearer than the ones before.

        What is as near as patience allows may be wider than was asked: it is no refusal.
        """
        if self._slow is not None or not isinstance(self._answers, Blocks):
            return
        if len(leave_out(self.run, LEAST)) < len(self.run.entries):
            return
        for answers in self._answers.shared(epsilons):
            yield partial(self._by_shared, answers)

    def _by_shared(self, answers: BothSides, epsilons: Sequence[float]) -> list[Interval]:
        try:
            found = answers.deltas(epsilons)
        except ToleranceUnreachable as error:
            if (known := error.known_at(len(epsilons))) is None:
                raise
            found = [Interval(*each) for each in known]
        return self._of_all(epsilons, found)

    @property
    def at_once(self) -> bool:
        """Whether many deltas are values of one profile."""
        return isinstance(self._answers, KnownProfile)

    @keep_losses()
    def deltas(self, epsilons: Sequence[float], together: bool = False) -> list[Interval]:
        """Certified bounds on delta at each epsilon; if `together`, all of them share one game of screenings."""
        if self._slow is not None and fits(2 * len(epsilons) * self._slow.work):
            self._exact = True
            return self._from_known(self._slow).deltas(epsilons)
        try:
            found = self._finite_deltas(epsilons, together)
        except ToleranceUnreachable as error:
            wide = error.curve if len(epsilons) > 1 else None
            if error.found is not None and len(epsilons) == 1:
                error.found, error.source = self._with_lost(Interval(*error.found)), self.source
            else:
                error.found = None
            if wide is not None:
                error.curve = list(self._of_all(epsilons, [Interval(*each) for each in wide]))
            raise
        return self._of_all(epsilons, found)

    def _of_all(self, epsilons: Sequence[float], finite: Sequence[Interval]) -> list[Interval]:
        """Deltas with infinite losses, from those of the finite ones; none of these is above the largest."""
        found = [
            Interval(0.0, 0.0) if epsilon >= self._end else one for epsilon, one in zip(epsilons, finite, strict=True)
        ]
        return [self._with_lost(one) for one in found]

    def _finite_deltas(self, epsilons: Sequence[float], together: bool) -> list[Interval]:
        """The same, of finite losses; what is left out of the run adds less than the least float."""
        kept = leave_out(self.run, LEAST)
        if len(kept) == len(self.run.entries):
            answers = self._answers.plain if together and isinstance(self._answers, Blocks) else self._answers
            return answers.deltas(epsilons)
        if not kept:
            return [Interval(0.0, LEAST)] * len(epsilons)
        try:
            rest = TightRun(Composition(kept), self.tolerance).deltas(epsilons, together)
        except ToleranceUnreachable as error:
            if error.found is not None:
                error.found = _next(Interval(*error.found))
            if error.curve is not None:
                error.curve = [_next(Interval(*each)) for each in error.curve]
            raise
        return [_next(one) for one in rest]

    def _with_lost(self, finite: Interval) -> Interval:
        """Delta with the probability of infinite losses, from that of the finite ones."""
        if self._log_finite == 0.0:
            return finite
        below, above = map(Fraction, bounds_on_lost(self._log_finite, self._lost))
        least, most = (Fraction(math.exp(self._log_finite) * share) for share in (1 - EXP_ERROR, 1 + EXP_ERROR))
        lower, upper = below + least * Fraction(finite.lower), above + most * Fraction(finite.upper)
        return Interval(round_down(lower), min(round_up(upper), 1.0))

    @property
    def source(self) -> str:
        """What the numbers are computed by."""
        own = "profile of one release" if self._exact else self._answers.source
        return "; ".join([own, *(str(event) for event in self.run.entries if isinstance(event, KnownByCurve))])

    @property
    def mu(self) -> float | None:
        """The mu of a run whose pair is N(mu, 1) against N(0, 1); None for any other."""
        return self._answers.known.mu if isinstance(self._answers, KnownProfile) else None

    @property
    def mu_above(self) -> float | None:
        """The mu of such a pair that is above the run; None where none is known."""
        above = self._answers.above if isinstance(self._answers, BoundedAnswers) else self._answers
        return above.known.mu if isinstance(above, KnownProfile) else None

    def trade_off(self, direction: Direction) -> TradeOff:
        """Bounds on the true-positive rates of one direction."""
        found = self._answers.trade_off(direction)
        if self._log_finite == 0.0:
            return found
        return SureTradeOff(found, bounds_on_lost(self._log_finite))

    def _with_reason(self, source: str, found: Interval) -> str:
        """The source, and which events are the reason where the interval is wider than the tolerance."""
        if found.upper - found.lower <= self.tolerance * found.upper:
            return source
        said = say_between_bounds(self._whole)
        return f"{source}; {said}" if said else source


def _next(found: Interval) -> Interval:
    """With the least float more."""
    return Interval(found.lower, math.nextafter(found.upper, 1.0))


def certify(run: Composition, epsilon: Interval, delta: float, source: str) -> Guarantee:
    """The guarantee of a certified interval."""
    return Guarantee(
        epsilon=epsilon.upper,
        delta=delta,
        adjacency=run.adjacency,
        method="tight",
        conversion=None,
        order=None,
        lower=epsilon.lower,
        source=source,
        data_dependent=run.data_dependent,
    )


def single_release_epsilon(run: Composition, delta: float) -> float:
    """A lower bound on epsilon, from the costliest of the run's releases alone; 0 where none has a profile."""
    best = 0.0
    for event in run.entries:
        known = None if event.family else closed_form(run_below(1 * event) or 1 * event)
        if known is not None:
            best = max(best, inverse_profile(known, math.log(delta)).lower)
    return best


def _refuse_without_profile(run: Composition) -> None:
    for event in run.entries:
        if (error := lacks_profile(event)) is not None:
            shared = event.unsampled is not event and event.unsampled._coordinates > 1
            why = " (all coordinates share one sample, and are not as many sampled releases)" if shared else ""
            said = str(error).partition("; accepted: ")[0]
            raise ProfileUnavailable(f"{said}{why}; accepted: method = 'renyi' or 'auto'")
        if event.family and run.releases > 1 and not is_played(event):
            raise ProfileUnavailable(
                f"{event!r} is a family of pairs of distributions with more than two outcomes; "
                "accepted: method = 'renyi' or 'auto'"
            )


def _pure(run: Composition) -> Interval:
    """The pure-DP limit; from below, the sum over events that all come close to it in one direction."""
    upper = run._largest_loss()
    if upper == math.inf:
        raise NoGuarantee("delta = 0 and this run is not pure DP: its epsilon is infinite; accepted: delta in (0, 1)")
    reached = [run.total(partial(_nearly_largest, direction)) for direction in range(len(DIRECTIONS))]
    return Interval(max(reached), upper)


def _near_limit(run: Composition, delta: float, tolerance: float) -> Interval | None:
    """The pure-DP limit, where a delta is so small that losses near it alone are more; None where they are not.

    All releases together lose more than the sum of l with probability a, the product of P(L > l) >= H(e^l), and
    delta(eps) >= a (1 - e^(eps - sum)).
    """
    upper = run._largest_loss()
    if not (0.0 < upper < math.inf and 0.0 < delta < SMALL) or any(event.between_bounds for event in run.entries):
        return None
    for share in (1e-9, tolerance / 8, tolerance / 2):
        places = {event: float(event.renyi(math.inf)) * (1 - share) for event in run.entries}
        logs = {event: event._log_profile(np.array([place])) for event, place in places.items()}
        reach = run.total(places.__getitem__) * (1 - 1e-12)
        for way in range(len(DIRECTIONS)):
            log_a = run.total(lambda event, way=way, logs=logs: float(logs[event][way][0]) - 1e-11)  # type: ignore[misc]
            if (short := math.log(delta) - log_a * (1 + 1e-14)) < 0.0:
                lower = reach + math.log(-math.expm1(short)) - 1e-11
                if upper - lower <= tolerance * upper:
                    return Interval(lower, upper)
    return None


def _nearly_largest(direction: int, event: Event) -> float:
    """Just below the largest loss of an event, if the loss comes so near in that direction; else 0."""
    near = float((certain := event._certain(0)).renyi(math.inf)) * (1 - 1e-9)
    if isinstance(certain, FromBelow):
        return near if certain.limit_reached else 0.0
    return near if float(certain._log_profile(np.array([near]))[direction][0]) > -math.inf else 0.0
