"""Prices: epsilon and delta of an event or a composition, by the chosen route."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import NamedTuple

from accountant.advice import USUAL, allow_with_advice, at_coarser, by_rungs
from accountant.errors import (
    AS_KNOWN,
    OTHER_ROUTES,
    AccountantError,
    NoGuarantee,
    OutOfPatience,
    ParameterError,
    ProfileUnavailable,
    ToleranceUnreachable,
    real,
    shorten,
)
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.priced import PricedAlone
from accountant.guarantee import BETWEEN_BOUNDS, Guarantee, interval_of
from accountant.numerics.roots import Interval
from accountant.patience import PATIENCE, allow_work, check_patience, share_patience
from accountant.renyi.conversion import Conversion, check_conversion
from accountant.renyi.route import renyi_delta, renyi_epsilon
from accountant.tight.block_answers import SOME_KINDS
from accountant.tight.bounded_answers import say_between_bounds
from accountant.tight.closed_forms import closed_form
from accountant.tight.curve_pairs import noise_below
from accountant.tight.route import TightRun, certify, single_release_epsilon
from accountant.tight.searched import refuse_early

__all__ = [
    "ROUTES",
    "as_composition",
    "choose_route",
    "delta",
    "epsilon",
    "sharper_epsilon",
    "try_tight",
]

ROUTES = ("renyi", "tight", "auto")

CHEAP_EVENTS = 16
"""Distinct events of which `auto` asks each for a lower bound of its own, where the tight route has no price."""

FINE_SHARE = 0.6
"""Share of the patience that `auto` has for a delta of SOME_KINDS of screening at most, but more than one, at the
tolerance that is asked; the rest is for coarser ones, which know nothing nearer of more kinds."""


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
        "tight": between certified ends, which the computation holds within `tolerance` of each other; events need a
        privacy profile. "renyi": the best real order of the Rényi curve, within microseconds for most events, from
        above only. "auto": tight; where the tight route has no price within `tolerance` and `patience`, what it
        certifies less narrowly, at coarser tolerances too, or the Rényi price, whichever is smaller; and where the
        Rényi price is the smaller one, that with the lower end of the tight price. So a tolerance finer than
        0.01 costs no more than 0.01 does. The guarantee says which. By default "auto", or "renyi" where a
        `conversion` is given. Of a single `Selection` both are the smaller of this and of its shifted profile.
    conversion : {"improved", "classic", "optimal"}, optional
        The Rényi route's alone, by default "improved": Canonne, Kamath & Steinke 2020, Prop. 12; "classic": Mironov
        2017, Prop. 3; "optimal": the smallest epsilon that a Rényi bound at one order implies (Asoodeh et al. 2021),
        never above improved. Beside "tight" it has no effect.
    tolerance : float
        Width that the computation may add to the certified interval, relative to its upper end (or to a hundredth of
        the privacy loss's standard deviation, where that is more; for noisy screenings rare large losses do not count
        in it); [1e-6, 1]. The tight route's alone. Where all events
        are known exactly that is the interval's width. Some are known between two bounds only, however finely they are
        computed (`PermuteAndFlip`, `RandomAllocation`, `ReportNoisyMax`, `SampledWithReplacement`, `ShuffledEpoch`,
        `SparseVector`, `TruncatedPoissonGaussian`, `Selection` beside others): their interval may be wider, and then
        `Guarantee.source` names them.
    patience : float
        Seconds that a price may take; (0, inf]. Its work is counted before it is done, as what an idle core
        does in a second (`accountant.patience.OPERATIONS_PER_SECOND`), not timed: a price that is refused is
        refused on every machine, before the work that is too much. The refusal names a patience that would do, as far
        as that is known from the same price at coarser tolerances ("at least" where it is not), and a tolerance at
        which there is a price, where one was found; the search takes a third of a second, or a quarter of the
        patience where nothing is found sooner. What is left of it is what "auto" has for coarser prices. In memory its
        grids take up to 2 GB.

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
    alone: Guarantee | None = None

    def certified(width: float) -> Interval:
        return interval_of(TightRun(composition, width).epsilon(point))

    try:
        quick = route == "renyi"
        with allow_work(seconds, None, width) if quick else allow_with_advice(seconds, certified, width):
            if route != "tight":
                alone = _price_alone(composition, point)
            if route == "renyi":
                found = renyi_epsilon(composition, point, rule)
            else:
                found = _certified_epsilon(composition, point, route, rule, width)
    except (NoGuarantee, ProfileUnavailable, ToleranceUnreachable):  # the curve is infinite, or takes too long
        if alone is None:
            raise
        return alone
    return found if alone is None or found.epsilon <= alone.epsilon else alone


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
        return TightRun(composition, width).epsilon(point)
    try:
        return sharper_epsilon(composition, point, rule, width, rungs=True)
    except (ProfileUnavailable, ToleranceUnreachable) as refusal:
        error = refusal
    none: AccountantError | None = None
    found: Guarantee | None = None
    try:
        found = renyi_epsilon(composition, point, rule)
    except (NoGuarantee, OutOfPatience) as refusal:  # the curve is infinite, or takes too long
        none = refusal
    wide = _coarser_epsilon(composition, point, error, found, width)
    if wide is None and found is None:
        if isinstance(none, OutOfPatience) and isinstance(error, OutOfPatience):
            raise min(error, none, key=lambda each: each.seconds) from None
        if none is not None and (isinstance(none, OutOfPatience) or point == 0.0):
            raise none from None
        if isinstance(error, ProfileUnavailable):
            neither = f"the Rényi curve is infinite at every order, and {_reason(error)}"
            raise NoGuarantee(f"{neither}; accepted: runs that one of both routes can price") from None
        raise error
    below = wide or _price_noise_below(composition, error, lambda noise: noise.epsilon(point))
    lower = 0.0 if below is None else below.lower or 0.0
    named = found if found is None or below is None else _with_lower_end(found, below, width)
    best = min((each for each in (wide, named) if each is not None), key=lambda each: each.epsilon)
    if found is not None and 0 < len(composition) <= CHEAP_EVENTS and point > 0.0:
        with suppress(ToleranceUnreachable):  # no patience is left
            alone = single_release_epsilon(composition, point)
            lower = max(lower, alone if best.epsilon - alone <= width * best.epsilon else 0.0)
    return replace(best, lower=min(lower, best.epsilon)) if lower > 0.0 else best


def _coarser_epsilon(
    composition: Composition, point: float, error: Exception, found: Guarantee | None, width: float
) -> Guarantee | None:
    """What the tight route certifies less narrowly than was asked: on the way to its refusal, or at coarser tolerances.

    These are not asked where the Rényi price `found` is known to be as near as that.
    """
    known = _wider(error)
    bounds = [] if known is None else [certify(composition, known.interval, point, known.source)]
    lower = max((each.lower or 0.0 for each in bounds), default=0.0)
    if isinstance(error, ToleranceUnreachable) and (found is None or found.epsilon - lower > width * found.epsilon):
        bounds += at_coarser(lambda coarse: TightRun(composition, coarse).epsilon(point), width)
    if not bounds:
        return None
    best = min(bounds, key=lambda each: each.epsilon)
    return replace(best, lower=min(max(each.lower or 0.0 for each in bounds), best.epsilon))


def _price_noise_below(
    composition: Composition, error: Exception, ask: Callable[[TightRun], Guarantee]
) -> Guarantee | None:
    """Where a run is known by curves alone: the price of what costs no more, with the reason; None of nothing."""
    noise = noise_below(composition) if isinstance(error, ProfileUnavailable) else None
    if noise is None:
        return None
    try:
        return replace(ask(TightRun(noise, USUAL)), source=say_between_bounds(composition))
    except ToleranceUnreachable:  # no patience is left
        return None


class _Wider(NamedTuple):
    interval: Interval
    source: str


def _wider(refusal: Exception) -> _Wider | None:
    """What a refusal of the tight route has certified, although less narrowly than was asked."""
    if not isinstance(refusal, ToleranceUnreachable) or refusal.found is None or refusal.found[1] == math.inf:
        return None
    return _Wider(Interval(*refusal.found), refusal.source)


def sharper_epsilon(
    composition: Composition, point: float, rule: Conversion, width: float, *, rungs: bool = False
) -> Guarantee:
    """The tight price; where the Rényi price is smaller, that with the certified lower end. `rungs`: see `by_rungs`.

    Raises
    ------
    ProfileUnavailable, ToleranceUnreachable
        There is no tight price.
    """

    def certified(width: float) -> Guarantee:
        return TightRun(composition, width).epsilon(point)

    try:
        tight = by_rungs(certified, width) if rungs else certified(width)
    except NoGuarantee as error:  # delta may be below what its tails hold
        with suppress(NoGuarantee):
            return renyi_epsilon(composition, point, rule)
        raise error from None
    known = closed_form(composition)
    # what is near a pure-DP limit is no exact price
    if known is not None and (tight.source or "").partition("; ")[0] == known.source:
        return tight
    with suppress(NoGuarantee, OutOfPatience):  # the curve is infinite, or takes too long
        renyi = renyi_epsilon(composition, point, rule)
        if renyi.epsilon < tight.epsilon:
            return _with_lower_end(renyi, tight, width)
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
    return str(error).removesuffix(OTHER_ROUTES).removesuffix(AS_KNOWN)


def delta(
    run: Event | Composition,
    epsilon: float,
    *,
    method: str | None = None,
    conversion: Conversion | None = None,
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Guarantee:
    """Delta at a given epsilon in [0, 1e300]; parameters, result and errors otherwise as for `epsilon`.

    The tolerance is the width of the interval of delta itself, relative to its upper end. Delta moves by as many times
    what epsilon does as its best Rényi order is above 1: an interval of epsilon that is 0.4 % wide may be one of delta
    of 8 % at 1e-6. Runs of many kinds of noisy screening are within 1 % in epsilon, but hardly ever in delta, by the
    usual patience: "auto" then gives the interval that is certified. "tight" refuses with it; where it is foreseen
    to be far wider than was asked, before it is computed, with a tolerance that would do.
    """
    composition, (route, rule) = as_composition(run), choose_route(method, conversion)
    point, width = real("epsilon", epsilon, 0.0, 1e300), real("tolerance", tolerance, 1e-6, 1.0)
    seconds = check_patience(patience)

    def certified(width: float) -> Guarantee:
        return TightRun(composition, width).delta(point)

    def interval(width: float) -> Interval:
        return interval_of(certified(width), "delta")

    with allow_with_advice(seconds, None if route == "renyi" else interval, width):
        if route == "renyi":
            return renyi_delta(composition, point, rule)
        if route == "tight":
            with refuse_early():
                return certified(width)
        try:
            # blocks of a few kinds of screening may take all patience, and coarser ones know a bound
            few = 1 < sum(bool(event.family) for event in composition.entries) <= SOME_KINDS
            with share_patience(FINE_SHARE) if few else nullcontext():
                tight = by_rungs(certified, width, "delta")
        except (ProfileUnavailable, ToleranceUnreachable) as error:
            return _coarser_delta(composition, point, rule, error, width)
        if closed_form(composition) is not None:
            return tight
        with suppress(OutOfPatience):
            return _smaller_delta(renyi_delta(composition, point, rule), tight, width)
    return tight


def _coarser_delta(
    composition: Composition, point: float, rule: Conversion, error: Exception, width: float
) -> Guarantee:
    """The Rényi price, or what the tight route certifies less narrowly than was asked, if that is smaller."""
    known, found = _wider(error), None
    bounds = []
    if known is not None:
        interval = Interval(known.interval.lower, point)
        bounds.append(certify(composition, interval, known.interval.upper, known.source))
    try:
        found = renyi_delta(composition, point, rule)
    except OutOfPatience:
        if not bounds:
            raise
    lower = max((each.lower or 0.0 for each in bounds), default=0.0)
    if isinstance(error, ToleranceUnreachable) and (found is None or found.delta - lower > width * found.delta):
        bounds += at_coarser(lambda coarse: TightRun(composition, coarse).delta(point), width)
    if not bounds:
        assert found is not None
        below = _price_noise_below(composition, error, lambda noise: noise.delta(point))
        return found if below is None else _with_lower_end(found, below, width, "delta")
    best = min(bounds, key=lambda each: each.delta)
    tight = replace(best, lower=min(max(each.lower or 0.0 for each in bounds), best.delta))
    return tight if found is None else _smaller_delta(found, tight, width)


def _smaller_delta(renyi: Guarantee, tight: Guarantee, width: float) -> Guarantee:
    return _with_lower_end(renyi, tight, width, "delta") if renyi.delta < tight.delta else tight


def _with_lower_end(renyi: Guarantee, tight: Guarantee, width: float, asked: str = "epsilon") -> Guarantee:
    """The Rényi price, with the lower end of the tight one; and with its reason, where they are further apart."""
    upper = getattr(renyi, asked)
    lower, reason = min(tight.lower or 0.0, upper), (tight.source or "").rpartition("; ")[2]
    named = reason.endswith(BETWEEN_BOUNDS) and upper - lower > width * upper
    return replace(renyi, lower=lower, source=reason if named else None)


def as_composition(run: object) -> Composition:
    """A run as a composition, or ParameterError."""
    if isinstance(run, Composition):
        return run
    if isinstance(run, Event):
        return 1 * run
    own = "its .run, " if isinstance(getattr(run, "run", None), Composition) else ""  # of a plan or a training
    accepted = f"{own}an event, or a composition such as 100 * Gaussian(20.0)"
    raise ParameterError(f"run = {shorten(run)}; accepted: {accepted}")
