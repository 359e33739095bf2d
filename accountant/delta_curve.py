"""Privacy curves: delta at many epsilons of a run, between certified ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from accountant.advice import USUAL, allow_with_advice
from accountant.curve_points import KnownCurve
from accountant.errors import DataDependentError, NoGuarantee, ParameterError, ToleranceUnreachable, real, shorten
from accountant.events.composition import Composition
from accountant.events.curve import as_reals
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import LEAST
from accountant.patience import PATIENCE, allow_work, check_patience
from accountant.price import as_composition, choose_route
from accountant.renyi.conversion import Conversion
from accountant.renyi.route import pool_of, renyi_deltas_at
from accountant.tight.curve_pairs import noise_below
from accountant.tight.route import TightRun

__all__ = ["Curve", "DataDependentCurve", "curve", "known_deltas"]


class Curve(NamedTuple):
    """Delta as a function of epsilon, between certified ends.

    Attributes
    ----------
    epsilons, upper, lower : array of shape (n,)
        `lower` is 0 on the Rényi route, which gives no lower end; by "auto" that of the Gaussian noise that releases
        known by a curve alone may be.
    method : str
        "renyi" or "tight".
    data_dependent : bool
        Whether it depends on private data; then it is a `DataDependentCurve`.
    """

    epsilons: FloatArray
    upper: FloatArray
    lower: FloatArray
    method: str

    @property
    def widths(self) -> FloatArray:
        """How wide each interval is, relative to its upper end: more than the tolerance where no price is so near."""
        return (self.upper - self.lower) / np.maximum(self.upper, LEAST)

    @property
    def data_dependent(self) -> bool:
        return False


class DataDependentCurve(Curve):
    """A curve that depends on private data: it prints so, and can be neither pickled nor copied."""

    @property
    def data_dependent(self) -> bool:
        return True

    def __reduce__(self) -> Any:
        raise DataDependentError(
            "this curve depends on private data, so publishing it leaks; accepted: a run whose cost does not"
        )


def curve(
    run: Event | Composition,
    epsilons: ArrayLike,
    *,
    method: str | None = None,
    conversion: Conversion | None = None,
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Curve:
    """Delta at every one of a 1-D array of epsilons in [0, 1e300], or at one; `patience` is for all of them.

    Otherwise as `delta`, but that all are by one route: "auto" takes the Rényi route only where the tight one has no
    price at all. Where that has wider intervals than were asked at some points the curve has these (`Curve.widths`),
    and the Rényi bound where it is smaller. Neither end rises with epsilon.
    Of many points not all are asked: between those that are delta is known by its convexity in e^epsilon, as nearly as
    was asked. Deltas below 1e-12 may be known as widely as one of that size.
    """
    composition, (route, rule) = as_composition(run), choose_route(method, conversion)
    kind = DataDependentCurve if composition.data_dependent else Curve
    points = _points_of(epsilons)
    width = real("tolerance", tolerance, 1e-6, 1.0)
    seconds = check_patience(patience)

    def rehearsed(width: float) -> None:
        KnownCurve(composition, points).ask(width)

    def bound(epsilons: FloatArray) -> Iterator[FloatArray]:
        return renyi_deltas_at(composition, epsilons, rule)

    known = KnownCurve(composition, points)
    if route != "renyi":
        with allow_with_advice(seconds, rehearsed, width, pool_of(seconds)):
            if route == "tight":
                known.ask(width)
                done = True
            else:
                done = known.along(width)
        if known.certified:
            if not done:
                with allow_work(seconds, pool_of(seconds)):
                    known.lower_by(bound)
            bounds = known.at_all()
            return kind(np.array(points), bounds[:, 1], bounds[:, 0], "tight")
    with allow_work(seconds, pool_of(seconds)):
        if route == "renyi":
            upper = np.concatenate([np.zeros(0), *bound(np.array(points))])
            return kind(np.array(points), upper, np.zeros_like(upper), "renyi")
        known.lower_by(bound, len(points))
        upper, lower = known.at_all()[:, 1], _noise_below(composition, points)
    return kind(np.array(points), upper, np.minimum(lower, upper), "renyi")


def _noise_below(run: Composition, points: list[float]) -> FloatArray:
    """Lower ends of what costs no more than a run that is known by curves alone; 0 of any other."""
    if (noise := noise_below(run)) is not None:
        with suppress(ToleranceUnreachable):  # no patience is left
            return np.array([each.lower for each in TightRun(noise, USUAL).deltas(points)])
    return np.zeros(len(points))


def _points_of(epsilons: ArrayLike) -> list[float]:
    """Epsilons as a list; a number is an array of one."""
    given = as_reals("epsilon", epsilons, "[0, 1e300]")
    if given.ndim > 1:
        raise ParameterError(
            f"epsilons = {shorten(epsilons)}, of {given.ndim} dimensions; accepted: a number, or a 1-D array of them, "
            "in [0, 1e300]"
        )
    return [real("epsilon", epsilon, 0.0, 1e300) for epsilon in given.ravel().tolist()]


def known_deltas(run: Composition, points: list[float], tolerance: float = 0.01) -> FloatArray | None:
    """Upper bounds on delta that the tight route has at these epsilons, within the patience of whoever asks.

    None where it has none.
    """
    known = KnownCurve(run, points)
    with suppress(NoGuarantee, ToleranceUnreachable):
        known.along(tolerance)
    return known.at_all()[:, 1] if known.certified else None
