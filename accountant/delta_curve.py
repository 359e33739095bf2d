"""Privacy curves: delta at many epsilons of a run, between certified ends."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from accountant.advice import allow_with_advice, along_rungs
from accountant.errors import ProfileUnavailable, ToleranceUnreachable, real
from accountant.events.composition import Composition
from accountant.events.curve import as_reals
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import PATIENCE, allow_work, check_patience
from accountant.price import as_composition, choose_route
from accountant.renyi.conversion import Conversion
from accountant.renyi.route import POOL, renyi_delta
from accountant.tight.route import TightRun

__all__ = ["Curve", "curve"]


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
    has wider intervals than were asked at some points the curve has these, and the Rényi bound where it is smaller.
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

    def kept(width: float) -> None:
        try:
            bounds.append(certified(width))
        except ToleranceUnreachable as error:  # some points may be as narrow as was asked
            known = error.curve or ([error.found] if error.found is not None else None)
            bounds.extend([] if known is None else [np.array(known).reshape(-1, 2)])
            raise

    bounds, done = list[FloatArray](), False
    if route != "renyi":
        with allow_with_advice(seconds, rehearsed, width, POOL):
            if route == "tight":
                bounds.append(certified(width))
                done = True
            else:
                with suppress(ProfileUnavailable):
                    done = along_rungs(kept, width)
        if done:
            lower, upper = bounds[-1].T
            return Curve(np.array(points), upper, lower, "tight")
    with allow_work(seconds, POOL):
        upper = np.array([renyi_delta(composition, epsilon, rule).delta for epsilon in points])
    if not bounds:
        return Curve(np.array(points), upper, np.zeros_like(upper), "renyi")
    upper = np.minimum(upper, np.min([each[:, 1] for each in bounds], axis=0))
    lower = np.max([each[:, 0] for each in bounds], axis=0)
    return Curve(np.array(points), upper, np.minimum(lower, upper), "tight")
