"""Prices: epsilon and delta of an event or a composition, by the chosen route."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from accountant.errors import (
    NoGuarantee,
    OutOfPatience,
    ParameterError,
    ProfileUnavailable,
    ToleranceUnreachable,
    real,
    shorten,
)
from accountant.events.composition import Composition
from accountant.events.curve import as_reals
from accountant.events.event import Event
from accountant.events.priced import PricedAlone
from accountant.guarantee import Guarantee
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import PATIENCE, allow_work, check_patience, look_wider, round_up
from accountant.renyi.conversion import Conversion, check_conversion
from accountant.renyi.route import POOL, renyi_delta, renyi_epsilon
from accountant.tight.closed_forms import closed_form
from accountant.tight.route import TightRun, certify, single_release_epsilon

__all__ = [
    "ROUTES",
    "Curve",
    "as_composition",
    "choose_route",
    "curve",
    "delta",
    "epsilon",
    "sharper_epsilon",
    "try_tight",
]

ROUTES = ("renyi", "tight", "auto")

CHEAP_EVENTS = 16
"""Distinct events of which `auto` asks each for a lower bound of its own, where the tight route has no price."""


def choose_route(method: object, conversion: object) -> tuple[str, Conversion]:
    """The route and the conversion that are meant: "auto" unless a conversion is named, which only "renyi" has.

    Raises
    ------
    ParameterError
        One of the two is unknown.
    """
    rule: Conversion = "improved" if conversion is None else check_conversion(conversion)
    if method is None:
        return ("auto" if conversion is None else "renyi"), rule
    if isinstance(method, str) and method in ROUTES:
        return str(method), rule
    raise ParameterError(f"method = {shorten(method)}; accepted: {', '.join(ROUTES)}")


def epsilon(
    run: Event | Composition,
    delta: float,
    *,
    method: str | None = None,
    conversion: Conversion | None = None,
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Guarantee:
    """Epsilon at a given delta: an upper bound, with a certified lower end beside it where that is to be had.

    Parameters
    ----------
    run : Event or Composition
    delta : float
        In [0, 1); 0 asks for pure DP.
    method : {"auto", "tight", "renyi"}, optional
        "tight": the exact price up to `tolerance`, between certified ends; events need a privacy profile. "renyi": the
        best real order of the Rényi curve, within microseconds for most events, from above only. "auto": tight; Rényi
        where the tight route has no price within `tolerance` and `patience`, unless the wider interval that it did
        find ends below; and where the Rényi price is the smaller one, that with the lower end of the tight price. The
        guarantee says which. By default "auto", or "renyi" where a
        `conversion` is given. Of a single `Selection` both are the smaller of this and of its shifted profile.
    conversion : {"improved", "classic", "optimal"}, optional
        The Rényi route's alone, by default "improved": Canonne, Kamath & Steinke 2020, Prop. 12; "classic": Mironov
        2017, Prop. 3; "optimal": the smallest epsilon that a Rényi bound at one order implies (Asoodeh et al. 2021),
        never above improved.
    tolerance : float
        Largest width of the certified interval, relative to its upper end; [1e-6, 1]. The tight route's alone.
    patience : float
        Seconds that a price may take; (0, inf]. Its work is counted before it is done, as what an idle core
        does in a second (`accountant.patience.OPERATIONS_PER_SECOND`), not timed: a price that is refused is
        refused on every machine, at once, with the patience or the tolerance that would do. "auto" then gives the
        Rényi price. In memory its grids take up to 2 GB.

    Returns
    -------
    Guarantee

    Raises
    ------
    ParameterError
        A value is out of range, or a name is unknown.
    NoGuarantee
        delta = 0 and no pure-DP limit exists, or neither route can price the run.
    ProfileUnavailable, ToleranceUnreachable
        The tight route cannot price an event, or not narrowly enough; the latter with "auto" too, where the Rényi curve
        is infinite.
    OutOfPatience
        The same, where it would take longer than `patience`; a ToleranceUnreachable.
    """
    composition, (route, rule) = as_composition(run), choose_route(method, conversion)
    point, width = real("delta", delta, 0.0, 1.0, open_high=True), real("tolerance", tolerance, 1e-6, 1.0)
    seconds = check_patience(patience)
    alone = None if route == "tight" else _price_alone(composition, point)
    try:
        with allow_work(seconds, tolerance=width):
            if route == "renyi":
                found = renyi_epsilon(composition, point, rule)
            else:
                found = _certified_epsilon(composition, point, route, rule, width)
    except (NoGuarantee, ProfileUnavailable):  # the curve is infinite
        if alone is None:
            raise
        return alone
    return found if alone is None or found.epsilon <= alone.epsilon else alone


class _Wider(NamedTuple):
    interval: Interval
    source: str


def _tight(
    run: Composition,
    width: float,
    ask: Callable[[TightRun], Guarantee],
    upper: Callable[[Guarantee], float],
    quick: bool = False,
) -> Guarantee:
    """By the tight route; a refusal names no tolerance but one that was asked, with what was found there.

    If `quick` none is looked for where something is certified already.
    """
    known: list[_Wider] = []

    def answer(tolerance: float) -> Guarantee:
        try:
            found = ask(TightRun(run, tolerance))
        except ToleranceUnreachable as refusal:
            if refusal.found is not None:
                known.append(_Wider(Interval(*refusal.found), refusal.source))
            raise
        known.append(_Wider(Interval(found.lower or 0.0, upper(found)), found.source or ""))
        return found

    try:
        return answer(width)
    except ToleranceUnreachable as error:
        hopeful = not known if quick else known or isinstance(error, OutOfPatience)
        looked = look_wider(answer, error) if hopeful else None
        error.wide = (error.wide and "") if looked is None else round_up(looked[0])
        if known:
            least = min(known, key=lambda each: each.interval.upper)
            error.found = max(each.interval.lower for each in known), least.interval.upper
            error.source = least.source
            error.wide = error.wide or ""
        raise


def _price_alone(run: Composition, delta: float) -> Guarantee | None:
    """What a single release knows of its price beside its curve."""
    (only, *others) = run.entries or (None,)
    if isinstance(only, PricedAlone) and run.releases == 1 and not others:
        with suppress(NoGuarantee, ToleranceUnreachable):  # then the curve is the only bound
            return only._alone(delta)
    return None


def _certified_epsilon(
    composition: Composition, point: float, method: str, rule: Conversion, width: float
) -> Guarantee:
    """By the tight route, or, where `method` is "auto", by whichever says the least."""
    if method == "tight":
        return _tight(composition, width, lambda run: run.epsilon(point), lambda found: found.epsilon)
    try:
        return sharper_epsilon(composition, point, rule, width)
    except (ProfileUnavailable, ToleranceUnreachable) as error:
        known = _wider(error)
        wide = None if known is None else certify(composition, known.interval, point, known.source)
        try:
            found = renyi_epsilon(composition, point, rule)
        except OutOfPatience:
            if wide is not None:
                return wide
            raise
        except NoGuarantee as none:  # the curve is infinite
            if wide is not None:
                return wide
            if point == 0.0:
                raise none from None
            if isinstance(error, ProfileUnavailable):
                neither = f"the Rényi curve is infinite at every order, and {_reason(error)}"
                raise NoGuarantee(f"{neither}; accepted: runs that one of both routes can price") from None
            raise error from None
    lower = 0.0 if wide is None else wide.lower or 0.0
    if wide is not None and wide.epsilon < found.epsilon:
        found = wide
    if 0 < len(composition) <= CHEAP_EVENTS and point > 0.0:
        with suppress(ToleranceUnreachable):  # no patience is left
            alone = single_release_epsilon(composition, point)
            lower = max(lower, alone if found.epsilon - alone <= width * found.epsilon else 0.0)
    return replace(found, lower=lower) if lower > 0.0 else found


def _wider(refusal: Exception) -> _Wider | None:
    """What a refusal of the tight route has certified, although less narrowly than was asked."""
    if not isinstance(refusal, ToleranceUnreachable) or refusal.found is None or refusal.found[1] == math.inf:
        return None
    return _Wider(Interval(*refusal.found), refusal.source)


def sharper_epsilon(composition: Composition, point: float, rule: Conversion, width: float) -> Guarantee:
    """The tight price; where the Rényi price is smaller, that with the certified lower end.

    Raises
    ------
    ProfileUnavailable, ToleranceUnreachable
        There is no tight price.
    """
    try:
        tight = _tight(composition, width, lambda run: run.epsilon(point), lambda found: found.epsilon, quick=True)
    except NoGuarantee as error:  # delta may be below what its tails hold
        with suppress(NoGuarantee):
            return renyi_epsilon(composition, point, rule)
        raise error from None
    known = closed_form(composition)
    if known is not None and tight.source == known.source:  # what is near a pure-DP limit is no exact price
        return tight
    with suppress(NoGuarantee, OutOfPatience):  # the curve is infinite, or takes too long
        renyi = renyi_epsilon(composition, point, rule)
        if renyi.epsilon < tight.epsilon:
            return replace(renyi, lower=min(tight.lower or 0.0, renyi.epsilon))
    return tight


def try_tight(
    run: Event | Composition, delta: float, tolerance: float = 0.01, patience: float = PATIENCE
) -> Guarantee | str:
    """The certified interval of epsilon, or why there is none."""
    try:
        return epsilon(run, delta, method="tight", tolerance=tolerance, patience=patience)
    except (ProfileUnavailable, ToleranceUnreachable, NoGuarantee) as error:
        return _reason(error)


def _reason(error: Exception) -> str:
    """Why there is no tight price, without the advice to take another route, which was done."""
    return str(error).removesuffix("; accepted: method = 'renyi' or 'auto'")


def delta(
    run: Event | Composition,
    epsilon: float,
    *,
    method: str | None = None,
    conversion: Conversion | None = None,
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Guarantee:
    """Delta at a given epsilon in [0, 1e300]; parameters, result and errors otherwise as for `epsilon`."""
    composition, (route, rule) = as_composition(run), choose_route(method, conversion)
    point, width = real("epsilon", epsilon, 0.0, 1e300), real("tolerance", tolerance, 1e-6, 1.0)
    seconds = check_patience(patience)
    with allow_work(seconds, tolerance=width):
        if route == "renyi":
            return renyi_delta(composition, point, rule)
        try:
            quick = route == "auto"
            tight = _tight(composition, width, lambda run: run.delta(point), lambda found: found.delta, quick)
        except (ProfileUnavailable, ToleranceUnreachable) as error:
            if route == "tight":
                raise
            if (known := _wider(error)) is None:
                return renyi_delta(composition, point, rule)
            tight = certify(composition, Interval(known.interval.lower, point), known.interval.upper, known.source)
        if route == "tight" or closed_form(composition) is not None:
            return tight
        with suppress(OutOfPatience):
            renyi = renyi_delta(composition, point, rule)
            if renyi.delta < tight.delta:
                return replace(renyi, lower=min(tight.lower or 0.0, renyi.delta))
    return tight


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
    points = [
        real("epsilon", epsilon, 0.0, 1e300) for epsilon in as_reals("epsilon", epsilons, "[0, 1e300]").ravel().tolist()
    ]
    width = real("tolerance", tolerance, 1e-6, 1.0)
    seconds, known = check_patience(patience), None
    if route != "renyi":
        try:
            with allow_work(seconds, POOL, width):
                bounds = np.array(TightRun(composition, width).deltas(points)).reshape(-1, 2)
            return Curve(np.array(points), bounds[:, 1], bounds[:, 0], "tight")
        except (ProfileUnavailable, ToleranceUnreachable) as error:
            if route == "tight":
                raise
            if isinstance(error, ToleranceUnreachable):
                known = error.curve or ([error.found] if error.found is not None else None)
    with allow_work(seconds, POOL):
        upper = np.array([renyi_delta(composition, epsilon, rule).delta for epsilon in points])
    if known is None:
        return Curve(np.array(points), upper, np.zeros_like(upper), "renyi")
    lower, wide = np.array(known).T
    upper = np.minimum(upper, wide)
    return Curve(np.array(points), upper, np.minimum(lower, upper), "tight")


def as_composition(run: object) -> Composition:
    """A run as a composition, or ParameterError."""
    if isinstance(run, Composition):
        return run
    if isinstance(run, Event):
        return 1 * run
    raise ParameterError(f"run = {run!r}; accepted: an event, or a composition such as 100 * Gaussian(20.0)")
