"""Privacy curves: delta at many epsilons of a run, between certified ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from accountant.advice import allow_with_advice, along_rungs
from accountant.errors import NoGuarantee, ProfileUnavailable, ToleranceUnreachable, real
from accountant.events.composition import Composition
from accountant.events.curve import as_reals
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import LEAST
from accountant.patience import PATIENCE, allow_work, check_patience, share_patience
from accountant.price import as_composition, choose_route
from accountant.renyi.conversion import Conversion
from accountant.renyi.route import POOL, renyi_delta
from accountant.tight.answers import CURVE_LEAST
from accountant.tight.route import TightRun

__all__ = ["Curve", "curve", "known_deltas"]

FIRST = 0.25
"""Share of the patience for each point at its best; the rest is for one game that all share, where that is refused."""

WIDER = 0.1, 1.0
"""Tolerances of that game, beside the one that was asked."""

FEW = 2
"""Points up to which no game is shared."""

MANY = 16
"""Points up to which each is asked by itself."""


class Curve(NamedTuple):
    """Delta as a function of epsilon, between certified ends.

    Attributes
    ----------
    epsilons, upper, lower : array of shape (n,)
        `lower` is 0 on the Rényi route, which gives no lower end.
    method : str
        "renyi" or "tight".
    """

    epsilons: FloatArray
    upper: FloatArray
    lower: FloatArray
    method: str

    @property
    def widths(self) -> FloatArray:
        """How wide each interval is, relative to its upper end: more than the tolerance where no price is so near."""
        return (self.upper - self.lower) / np.maximum(self.upper, LEAST)


def curve(
    run: Event | Composition,
    epsilons: ArrayLike,
    *,
    method: str | None = None,
    conversion: Conversion | None = None,
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Curve:
    """Delta at every one of a 1-D array of epsilons in [0, 1e300], all by one route; `patience` is for all of them.

    Otherwise as `delta`, but that "auto" takes the Rényi route only where the tight one has no price at all. Where that
    has wider intervals than were asked at some points the curve has these (`Curve.widths`), and the Rényi bound where
    it is smaller.
    Games of screenings know deltas below 1e-12 as widely as one of that size.
    """
    composition, (route, rule) = as_composition(run), choose_route(method, conversion)
    given = as_reals("epsilon", epsilons, "[0, 1e300]").ravel().tolist()
    points = [real("epsilon", epsilon, 0.0, 1e300) for epsilon in given]
    width = real("tolerance", tolerance, 1e-6, 1.0)
    seconds = check_patience(patience)

    def certified(width: float) -> FloatArray:
        return np.array(TightRun(composition, width).deltas(points)).reshape(-1, 2)

    def rehearsed(width: float) -> None:
        certified(width)

    bounds: FloatArray | None = None
    if route != "renyi":
        with allow_with_advice(seconds, rehearsed, width, POOL):
            if route == "tight":
                bounds, done = certified(width), True
            else:
                bounds, done = _WhatIsKnown(composition, points).along(width)
        if bounds is not None and done:
            return Curve(np.array(points), bounds[:, 1], bounds[:, 0], "tight")
    with allow_work(seconds, POOL):
        upper = np.array([renyi_delta(composition, epsilon, rule).delta for epsilon in points])
    if bounds is None:
        return Curve(np.array(points), upper, np.zeros_like(upper), "renyi")
    upper = np.minimum(upper, bounds[:, 1])
    return Curve(np.array(points), upper, np.minimum(bounds[:, 0], upper), "tight")


def known_deltas(run: Composition, points: list[float], tolerance: float = 0.01) -> FloatArray | None:
    """Upper bounds on delta that the tight route has at these epsilons, within the patience of whoever asks.

    None where it has none.
    """
    with suppress(NoGuarantee, ToleranceUnreachable):
        bounds, _ = _WhatIsKnown(run, points).along(tolerance)
        return None if bounds is None else bounds[:, 1]
    return None


class _WhatIsKnown:
    """What the tight route certifies of a curve, at all points and then at each by itself, while patience lasts."""

    def __init__(self, run: Composition, points: list[float]) -> None:
        self.run, self.points = run, points
        self.bounds, self.certified = np.tile([0.0, 1.0], (len(points), 1)), False

    def along(self, width: float) -> tuple[FloatArray | None, bool]:
        """The bounds, None where nothing is certified; and whether all are as near as was asked."""
        with suppress(ProfileUnavailable):
            apart = len(self.points) > FEW and TightRun(self.run, width).may_share
            with share_patience(FIRST if apart else 1.0):
                done = along_rungs(self.ask_all, width)
            if not done and apart and 2 * len(wide := self._wide(width)) < len(self.points):
                self._ask_alone(wide, width)
            elif not done and apart:
                for each in (width, *WIDER):
                    with suppress(ToleranceUnreachable):
                        self._ask(list(range(len(self.points))), each, together=True)
                self._ask_alone(self._wide(width), width)
            return (self.bounds if self.certified else None), done
        return None, False

    def ask_all(self, width: float) -> None:
        """All points; ToleranceUnreachable where some are not known as nearly."""
        self._ask(list(range(len(self.points))), width)

    def _wide(self, width: float) -> list[int]:
        """Places of the points that are not known as nearly."""
        lower, upper = self.bounds.T
        places: list[int] = np.flatnonzero(upper - lower > width * np.maximum(upper, CURVE_LEAST)).tolist()
        return places

    def _ask_alone(self, places: list[int], width: float) -> None:
        """Each of these by itself, if they are not too many, all with the same share of the patience that is left."""
        for number, place in enumerate(places if len(places) <= MANY else ()):
            with share_patience(1 / (len(places) - number)):
                along_rungs(partial(self._ask, [place]), width)

    def _ask(self, places: list[int], width: float, together: bool = False) -> None:
        try:
            self._keep(places, TightRun(self.run, width).deltas([self.points[place] for place in places], together))
        except ToleranceUnreachable as error:  # some points may be as narrow as was asked
            known = error.curve or ([error.found] if error.found is not None else None)
            if known is not None and len(known) == len(places):
                self._keep(places, known)
            raise

    def _keep(self, places: list[int], found: Sequence[tuple[float, float]]) -> None:
        """All bounds that were ever certified hold."""
        lower, upper = np.array(found).reshape(-1, 2).T
        upper = np.minimum(self.bounds[places, 1], upper)
        lower = np.minimum(np.maximum(self.bounds[places, 0], lower), upper)
        self.bounds[places], self.certified = np.column_stack([lower, upper]), True
