"""Releases that all but never tell neighbours apart are left out (notebooks/mathematics.md, Votes of neighbours)."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from accountant.errors import NoGuarantee, OutOfPatience, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.roots import Interval
from accountant.renyi.route import renyi_epsilon

__all__ = ["beside_left_out", "leave_out"]

NEGLIGIBLE = 40.0
"""Log of how much smaller than delta what is left out of a run is."""

BESIDE = 2.0**-52
"""Share of the way to half of delta that an upper end goes: delta falls by half of it, more than is left out."""

NEXT_TO_NOTHING = 1e-9
"""What that may add to an upper end, relative to it: else the rest is asked at a smaller delta."""


def leave_out(run: Composition, delta: float) -> list[tuple[Event, int]]:
    """The run without releases that together tell neighbours apart with a probability far below the spacing of deltas.

    Without a release delta(epsilon) is smaller, by no more than its total variation distance, the largest of all pairs
    where there are several.
    """
    entries = list(run)
    exact = {event for event in run.entries if event.family or event._sharpened() is not None}
    if not delta > 0.0 or not exact:
        return entries
    least = math.log(delta) - NEGLIGIBLE - math.log(len(entries))

    def matters(event: Event, count: int) -> bool:
        return event not in exact or float(event._log_profile(np.zeros(1))[0][0]) + math.log(count) > least

    return [(event, count) for event, count in entries if matters(event, count)]


def beside_left_out(rest: Composition, delta: float, ask: Callable[[float], Interval]) -> Interval:
    """Bounds on epsilon of a run of which `rest` is left, from what `ask` says of that at a delta.

    What is left out takes less than the distance to the next smaller delta. A profile is convex in u = e^epsilon: at
    that delta it is no further than the line to where it is half as large, so that nothing is asked twice.
    """
    try:
        found = ask(delta)
    except ToleranceUnreachable as error:
        if error.found is not None:
            lower, upper = error.found
            error.found = (lower, _beyond(rest, delta, upper))
        raise
    upper = _beyond(rest, delta, found.upper)
    if upper > found.upper * (1 + NEXT_TO_NOTHING) + NEXT_TO_NOTHING**2:
        with suppress(ToleranceUnreachable):
            upper = min(upper, ask(math.nextafter(delta, 0.0)).upper)
    return Interval(found.lower, upper)


def _beyond(rest: Composition, delta: float, upper: float) -> float:
    """No less than epsilon at a delta that is smaller by half of `BESIDE`, if it is `upper` at most at that delta."""
    try:
        half = renyi_epsilon(rest, delta / 2, "improved").epsilon
    except (NoGuarantee, OutOfPatience):
        return math.inf
    if half <= upper:  # which is enough at half of delta
        return upper
    return math.nextafter(upper + _log1p_of(BESIDE, half - upper), math.inf)


def _log1p_of(share: float, apart: float) -> float:
    """log(1 + share (e^apart - 1)), no less."""
    most = share * math.expm1(apart) if apart < 700.0 else math.inf
    return math.log1p(most) * (1 + 1e-12) if most < math.inf else apart
