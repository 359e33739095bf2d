"""The tight route: certified intervals for epsilon and delta, without a detour over Rényi orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from accountant.errors import NoGuarantee, ProfileUnavailable, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee
from accountant.numerics.roots import Interval
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.tight.closed_forms import (
    ACCURACY,
    PLACES,
    by_coordinate,
    closed_form,
    given_finite,
    inverse_profile,
)
from accountant.tight.loss_composition import Terminals, composed_delta, composed_epsilon
from accountant.tight.screening_families import DIRECTIONS, Tail, family_tail, is_screening

__all__ = ["single_release_epsilon", "tight_delta", "tight_deltas", "tight_epsilon"]

INFINITE_ERROR = 1e-11
"""Bound on the relative error of the probability of an infinite loss, and of what it leaves."""

FAMILY_SHARE = 0.5
"""Share of the tolerance that screenings get where other events are composed with them."""


def tight_epsilon(run: Composition, delta: float, tolerance: float) -> Guarantee:
    """Certified bounds on the smallest epsilon at a delta.

    Raises
    ------
    ProfileUnavailable
        An event is known by a Rényi bound only.
    ToleranceUnreachable
        The interval cannot be made narrow enough.
    NoGuarantee
        No epsilon is enough at that delta.
    """
    run = by_coordinate(run)
    known, whole = closed_form(run), delta
    if known is None:
        run, log_finite = given_finite(run)
        delta = _left(delta, log_finite)
    _refuse_without_profile(run)
    if delta == 0.0:
        found, source = _pure(run), "pure-DP limit"
    elif known is not None:
        found, source = inverse_profile(known.log_profile, math.log(delta)), known.source
    else:
        families, others = _sorted(run)
        if not others:
            tails = [_tail(families, direction, delta, tolerance) for direction in DIRECTIONS]
            each = [tail.epsilon(delta) for tail in tails]
            found = Interval(max(one.lower for one in each), max(one.upper for one in each))
        else:
            terminals = _terminals(families, delta, tolerance)
            found = composed_epsilon(others, delta, tolerance, terminals)
        source = _source(families, others)
    found = Interval(found.lower, min(found.upper, float(run.renyi(math.inf))))
    if len(screenings := _sorted(run)[0]) > 1:
        # the union of several kinds can be looser than their Rényi curves
        found = Interval(found.lower, min(found.upper, renyi_epsilon(run, delta, "improved").epsilon))
        if found.upper - found.lower > tolerance * found.upper:
            raise ToleranceUnreachable(
                f"{len(screenings)} kinds of screening in one run are certified to [{found.lower:.4g}, "
                f"{found.upper:.4g}] only; accepted: a tolerance of {1 - found.lower / found.upper:.2g} or more"
            )
    if found.upper == math.inf:
        raise NoGuarantee(f"no epsilon is enough at delta = {whole:g}: a loss may be infinite with more probability")
    return _guarantee(run, found.upper, whole, found.lower, source)


def tight_delta(run: Composition, epsilon: float, tolerance: float) -> Guarantee:
    """Certified bounds on delta at an epsilon; errors as for `tight_epsilon`."""
    (found,), source = tight_deltas(run, [epsilon], tolerance)
    return _guarantee(run, epsilon, found.upper, found.lower, source)


def tight_deltas(run: Composition, epsilons: Sequence[float], tolerance: float) -> tuple[list[Interval], str]:
    """Certified bounds on delta at each epsilon, and what they were computed by.

    All epsilons share one game of screenings, made for the smallest delta among them.
    """
    run, log_finite = by_coordinate(run), 0.0
    if (known := closed_form(run)) is None:
        run, log_finite = given_finite(run)
    _refuse_without_profile(run)
    end = float(run.renyi(math.inf))
    if known is not None:
        points = np.asarray(epsilons, dtype=float)
        lows, highs = (known.log_profile(points * moved).tolist() for moved in (1 + PLACES, 1 - PLACES))
        ends = zip(lows, highs, strict=True)
        found = [Interval(math.exp(low - ACCURACY), _never_zero(math.exp(high + ACCURACY))) for low, high in ends]
        source = known.source
    else:
        screenings, others = _sorted(run)
        finite = [epsilon for epsilon in epsilons if epsilon < end]
        guess = min((renyi_delta(run, epsilon, "improved").delta / 10 for epsilon in finite), default=0.5)
        guess = min(max(guess, 1e-250), 0.5)
        if not others:
            tails = [_tail(screenings, direction, guess, tolerance) for direction in DIRECTIONS]
            pairs = [[tail.delta(epsilon) for tail in tails] for epsilon in epsilons]
            found = [Interval(max(a.lower, b.lower), max(a.upper, b.upper)) for a, b in pairs]
        else:
            terminals = _terminals(screenings, guess, tolerance)
            found = [
                composed_delta(others, epsilon, tolerance, terminals) if epsilon < end else Interval(0.0, 0.0)
                for epsilon in epsilons
            ]
        source = _source(screenings, others)
    pure = Interval(0.0, 0.0)
    found = [pure if epsilon >= end else one for epsilon, one in zip(epsilons, found, strict=True)]
    if log_finite < 0.0:
        lost, kept = -math.expm1(log_finite), math.exp(log_finite)
        below, above = lost * (1 - INFINITE_ERROR), lost * (1 + INFINITE_ERROR)
        found = [Interval(below + kept * one.lower, min(above + kept * one.upper, 1.0)) for one in found]
    return found, source


def _left(delta: float, log_finite: float) -> float:
    """The delta that is left to finite losses: d' where delta = d + (1 - d) d', d the probability of an infinite one.

    Raises
    ------
    NoGuarantee
        There is none.
    """
    if log_finite == 0.0:
        return delta
    left = math.log1p(-delta) - log_finite * (1 + INFINITE_ERROR)
    if not left < 0.0:
        lost = -math.expm1(log_finite)
        raise NoGuarantee(f"delta = {delta:g}; accepted: above {lost:.6g}, the probability of an infinite loss")
    return -math.expm1(left) * (1 - INFINITE_ERROR)


def _never_zero(delta: float) -> float:
    """An underflow to 0 would claim pure DP."""
    return min(max(delta, 5e-324), 1.0)


def _source(screenings: list[tuple[Event, int]], others: list[tuple[Event, int]]) -> str:
    if not others:
        return "dynamic programme"
    return "privacy-loss distribution" + (" before a dynamic programme" if screenings else "")


def single_release_epsilon(run: Composition, delta: float) -> float:
    """A lower bound on epsilon, from the costliest of the run's releases alone; 0 where none has a profile."""
    best = 0.0
    for event in run.entries:
        known = None if event.family else closed_form(1 * event)
        if known is not None:
            best = max(best, inverse_profile(known.log_profile, math.log(delta)).lower)
    return best


def _guarantee(run: Composition, epsilon: float, delta: float, lower: float, source: str) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        adjacency=run.adjacency,
        method="tight",
        conversion=None,
        order=None,
        lower=lower,
        source=source,
        data_dependent=run.data_dependent,
    )


def _refuse_without_profile(run: Composition) -> None:
    for event in run.entries:
        try:
            event._log_profile(np.zeros(1))
        except ProfileUnavailable as error:
            shared = event.unsampled is not event and event.unsampled._coordinates > 1
            why = " (all coordinates share one sample, and are not as many sampled releases)" if shared else ""
            raise ProfileUnavailable(f"{error}{why}; accepted: method = 'renyi' or 'auto'") from None
        if event.family and not is_screening(event) and run.releases > 1:
            raise ProfileUnavailable(
                f"{event!r} is a family of pairs of laws, which only screenings are composed as; "
                "accepted: method = 'renyi' or 'auto'"
            )


def _sorted(run: Composition) -> tuple[list[tuple[Event, int]], list[tuple[Event, int]]]:
    """Families of pairs, and events with a single dominating pair."""
    entries = list(run)
    return [entry for entry in entries if entry[0].family], [entry for entry in entries if not entry[0].family]


def _tail(screenings: list[tuple[Event, int]], direction: str, delta: float, tolerance: float) -> Tail:
    return family_tail(screenings, direction, delta=delta, tolerance=tolerance)  # type: ignore[arg-type]


def _terminals(screenings: list[tuple[Event, int]], delta: float, tolerance: float) -> Terminals | None:
    """What screenings leave of delta after all other events: families last bounds every interleaving."""
    if not screenings:
        return None
    return {direction: _tail(screenings, direction, delta, FAMILY_SHARE * tolerance) for direction in DIRECTIONS}


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
