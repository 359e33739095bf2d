"""Runs whose privacy profile is known in closed form, and its inverse."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

import numpy as np

from accountant.errors import ProfileUnavailable
from accountant.events.answers import ClosedForm
from accountant.events.composition import MAX_COUNT, Composition
from accountant.events.event import Event
from accountant.events.from_below import costs_less
from accountant.events.priced import PricedAsSeveral
from accountant.numerics.exact import FEW
from accountant.numerics.roots import Interval, bisect_by_arrays
from accountant.patience import spend

__all__ = [
    "ACCURACY",
    "PLACES",
    "ClosedForm",
    "by_coordinate",
    "closed_form",
    "given_finite",
    "inverse_profile",
]

ACCURACY = 5e-11
"""Bound on the relative error of computed profiles at epsilons moved by PLACES; 1.2e-12 was found."""

SLOW = 2e5
"""Operations of a value of a profile that is too slow to be inverted, where there is another way."""

SLOWER = 1e7
"""The same for events that are priced below as others: beyond integrals, up to sums over all answers of a stream."""

VALUES, CALLS, CALL = {64: 1500, 3: 220}, {64: 30, 3: 90}, 4.3e5
"""Values of a profile that it takes to invert it, by how many are computed at once, and calls; and operations (see
`accountant.patience`) that a call is taken for at least."""

PIECES = 4096
"""Releases into which many coordinates are taken apart; each has more of them if they are more."""

PLACES = 2.0**-48
"""Bound on what rounding does to a profile's epsilon, relatively: most of it near an end, or for a large mu."""


def closed_form(run: Composition, slow: bool = False) -> ClosedForm | None:
    """The run's profile, if the losses of its releases add up to a known distribution, or if it is one release.

    One release whose profile takes long is left out unless `slow`.
    """
    first = next((_plain(event)._summand() for event in run.entries), None)
    if first is not None and all(_size(event, first.key) is not None for event in run.entries):
        found = first.closed_form(run.total(lambda event: _size(event, first.key) or 0))
        if found is not None:
            return found
    if run.releases == 1:
        (event,) = map(_plain, run.entries)
        other_way = event._given_finite() is not None and event._profile_work() > SLOW
        priced_below = costs_less(event) and event._profile_work() <= SLOWER
        known = event._sharpened() or not event.between_bounds or priced_below
        if known and (slow or not other_way) and has_profile(event):
            return ClosedForm(
                lambda points: np.maximum(*event._log_profile(points)),
                "profile of one release",
                event._log_profile,
                work=event._profile_work(),
                below=event._log_profile_from_below,
                call=event._call_work(),
                alone=event._price_alone(),
            )
    return None


def _size(event: Event, key: Hashable) -> float | None:
    """The size of a release as a summand of this key; None if it is none."""
    summand = _plain(event)._summand()
    return summand.size if summand is not None and summand.key == key else None


def has_profile(event: Event) -> bool:
    if event._price_alone() is not None:
        return True
    try:
        event._log_profile(np.zeros(1))
    except ProfileUnavailable:
        return False
    return True


def by_coordinate(run: Composition) -> Composition:
    """The same run; releases of many coordinates that have no profile of their own are as many of fewer coordinates.

    Before that a release that is several of another event is replaced by these.
    """
    run = _taken_apart(run)
    if all(_plain(event)._coordinates == 1 for event in run.entries):
        return run
    entries: list[tuple[Event, int]] = []
    for event, count in run:
        plain = _plain(event)
        total = count * plain._coordinates
        block = min(-(-total // PIECES), plain._block)
        if total == count or total > 16 * PIECES * block or has_profile(plain):
            entries.append((event, count))
            continue
        entries.append((plain._with_coordinates(block), total // block))
        entries += [(plain._with_coordinates(total % block), 1)] if total % block else []
    return Composition(entries)


def _taken_apart(run: Composition) -> Composition:
    if not any(isinstance(event, PricedAsSeveral) for event in run.entries):
        return run
    entries: list[tuple[Event, int]] = []
    for event, count in run:
        one, times = event._several() if isinstance(event, PricedAsSeveral) else (event, 1)
        entries.append((one, count * times) if count * times <= MAX_COUNT else (event, count))
    return Composition(entries)


def given_finite(run: Composition) -> tuple[Composition, tuple[float, float], Fraction | None]:
    """The run given that no loss is infinite, and the log-probabilities 1 - d of that under P and under Q.

    Where P has d and Q has d' where the other has nothing, the rest of their ratio is that of the conditional
    distributions times (1 - d)/(1 - d'): H(u) = d + (1 - d) H'(u (1 - d')/(1 - d)). Last comes d itself, where it is
    known: a rational number, of a few releases.
    """
    if all(_plain(event)._given_finite() is None for event in run.entries):
        return run, (0.0, 0.0), Fraction(0)
    entries: list[tuple[Event, int]] = []
    log_finite, log_reverse = 0.0, 0.0
    finite: Fraction | None = Fraction(1)
    for event, count in run:
        known = _plain(event)._given_finite()
        if known is None:
            entries.append((event, count))
            continue
        each = count * known.times
        entries += [(part, each) for part in known.parts]
        log_finite += each * known.log_probability
        log_reverse += each * (known.log_probability if known.log_reverse is None else known.log_reverse)
        if finite is None or known.lost is None or run.releases > FEW:
            finite = None
        else:
            finite *= (1 - Fraction(known.lost)) ** each
    return Composition(entries), (log_finite, log_reverse), None if finite is None else 1 - finite


def _plain(event: Event) -> Event:
    """A release that is sampled at rate 1 is the release itself."""
    return event.unsampled if event.sampling_rate == 1.0 else event


def inverse_profile(known: ClosedForm, log_delta: float) -> Interval:
    """Epsilons between which the profile passes delta, computed values being right to ACCURACY and PLACES."""
    at_once = min(VALUES, key=lambda many: known.work * VALUES[many] + max(known.call, CALL) * CALLS[many])
    spend(
        known.work * VALUES[at_once] + known.call * CALLS[at_once],
        f"a profile of {known.work:.2g} operations a value, inverted",
    )

    below = bisect_by_arrays(lambda points: known.log_least(points) > log_delta + ACCURACY, at_once)
    above = bisect_by_arrays(lambda points: known.log_profile(points) > log_delta - ACCURACY, at_once)
    return Interval(below.lower * (1 - PLACES), above.upper * (1 + PLACES))
