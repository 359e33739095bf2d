"""Poisson subsampling of events in general: which there are, and their curve as an integral over the profile."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from accountant.adjacency import Adjacency
from accountant.errors import ProfileUnavailable, SubsamplingError, shorten
from accountant.events.curve import check_orders
from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import INTEGRAL, log_integral
from accountant.numerics.special import divergence_from_log_mean, log_mixture_ratio, log_mixture_share

if TYPE_CHECKING:
    from accountant.events.event import Event

__all__ = [
    "FIRST_VALUES",
    "SAMPLED_ORDER",
    "can_be_sampled",
    "integral_work",
    "integrate_profile",
    "refuse_subsampling",
    "renyi_from_profile",
]


SAMPLED_ORDER = 2 * INTEGRAL
"""Operations (see `accountant.patience`) of an order of a sampled curve: of an integral in both directions, or of its
share of the sums of a generic bound."""

GRADES = 50
"""Panels of which each is half of the one before, towards an end; more where the first is wider than 1."""

PANEL, FIRST_VALUES = 48.0, 48.0 * 2 * GRADES
"""Values of a profile for each panel of the first integral over it, and for those of a profile without knots."""

KNOT, ORDERS = 3500.0, 100.0
"""Operations for each knot at an order; orders, about, at which values that are remembered serve a price."""

COARSEST = 1e-3
"""Relative error that an integral may have where its integrand rounds by as much."""


def renyi_from_profile(event: Event, orders: ArrayLike, rate: float = 1.0, tolerance: float = 1e-14) -> FloatArray:
    """Rényi curve of the Poisson-subsampled event, integrated exactly over its privacy profile.

    exp((a-1) D_a(P||Q)) = 1 + a(a-1) Int_0^inf [ e^{(a-1)e} H_e(P||Q) + e^{-ae} H_e(Q||P) ] de, applied to the
    subsampled profile and brought back to the event's own epsilon by substitution, which leaves only
    non-negative terms: with x = e^e - 1 and y = e^-e - 1,

        forward   a g^2 Int (1+gx)^(a-2)  e^e H_e(P||Q) + (1+gy)^(a-2)  e^-2e H_e(Q||P) de
        backward  a g^2 Int (1+gx)^-(a+1) e^e H_e(P||Q) + (1+gy)^-(a+1) e^-2e H_e(Q||P) de

    each equal to (exp((a-1) D) - 1)/(a-1); the curve is the worse of the two directions.

    Raises
    ------
    ProfileUnavailable
        The event has no profile, or is a family of pairs: the largest of their profiles is not smooth where the worst
        pair changes, nobody says where that is, and the integral may fall short of the curve.
    """
    if event.family:
        raise ProfileUnavailable(
            f"{event!r} is a family of pairs of distributions, whose curve is no integral over the largest of their "
            "profiles; accepted: its own curve, renyi(orders)"
        )
    return integrate_profile(event, orders, rate, tolerance)


def integral_work(event: Event, further: float = 0.0) -> float:
    """Operations (see `accountant.patience`) that an order takes on average of those that a price asks for.

    `further`: values at an order beside those that serve many, as a share of them.
    """
    knots = len(tuple(event._profile_knots()))
    values = (1.0 + further) * (FIRST_VALUES + PANEL * knots) / ORDERS
    return SAMPLED_ORDER + KNOT * knots + values * event._profile_work()


def integrate_profile(event: Event, orders: ArrayLike, rate: float = 1.0, tolerance: float = 1e-14) -> FloatArray:
    """As `renyi_from_profile`, also of families, whose result may be off where the worst pair changes."""
    points = check_orders(orders)
    event._log_profile(np.zeros(1))  # where there is no profile, this says so
    end = float(event._curve(np.array([math.inf]))[0])
    curve = np.empty(points.size)
    for i, order in enumerate(points.ravel().tolist()):
        if order == math.inf:
            curve[i] = float(log_mixture_ratio(rate, np.array([end]))[0]) if end < math.inf else end
            continue
        directions = [_log_profile_mean(event, order, rate, end, forward, tolerance) for forward in (True, False)]
        curve[i] = max(divergence_from_log_mean(order - 1.0, log_mean) for log_mean in directions)
    return curve.reshape(points.shape)


def _log_profile_mean(event: Event, order: float, rate: float, end: float, forward: bool, tolerance: float) -> float:
    if end == 0.0:
        return -math.inf
    profile = _remembered_profile(event)

    def log_integrand(e: FloatArray) -> FloatArray:
        remove, add = profile(e)
        # the sampled losses x of e and y of -e; e - x and y + e are no differences, which would be rounded near order 1
        x, y = log_mixture_ratio(rate, e), log_mixture_ratio(rate, -e)
        with np.errstate(invalid="ignore"):
            if forward:
                up = (order - 1) * x - log_mixture_share(rate, e) + remove
                down = (order - 2) * y - 2 * e + add
            else:
                up = e - (order + 1) * x + remove
                down = (1 - order) * y - 2 * log_mixture_share(rate, -e) + add
        return np.logaddexp(np.where(remove > -math.inf, up, -math.inf), np.where(add > -math.inf, down, -math.inf))

    if end < math.inf:
        edges, top = _graded_edges(event, end), end
    else:
        knots = np.asarray(event._profile_knots(), dtype=float)
        top = _effective_end(log_integrand, np.maximum(knots - 1 / order, knots / 2))
        if top == math.inf:
            return math.inf
        edges = np.unique(np.concatenate([[0.0], top * 0.5 ** np.arange(60, -1, -1.0), knots[knots < top]]))
    # large powers round by more than that; of the curve it is a share of some e-16
    rounding = 2.0**-50 * (order - 1.0) * float(log_mixture_ratio(rate, np.array([top]))[0])
    tolerance = max(tolerance, min(rounding, COARSEST))
    return math.log(order) + 2 * math.log(rate) + log_integral(log_integrand, edges, tolerance)


@lru_cache(maxsize=16)
def _graded_edges(event: Event, end: float) -> FloatArray:
    """Panels between the knots, graded towards both ends: the mass may sit within 1/order of either.

    Towards 0 that may be far below the spacing of numbers at the first knot, and halving would take as many rounds.
    """
    knots = np.unique([0.0, *(k for k in event._profile_knots() if 0 < k < end), end])
    first, last = (knots[1] - knots[0]), (knots[-1] - knots[-2])
    shares = 0.5 ** np.arange(1, GRADES + max(math.frexp(first)[1], 0))
    return np.unique(np.concatenate([knots, knots[0] + first * shares, knots[-1] - last * shares[: GRADES - 1]]))


@lru_cache(maxsize=16)
def _remembered_profile(event: Event) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
    """The event's profile, remembered where it was asked for: the panels are mostly the same at every order."""
    seen: dict[bytes, tuple[FloatArray, FloatArray]] = {}

    def profile(e: FloatArray) -> tuple[FloatArray, FloatArray]:
        key = e.tobytes()
        if key not in seen:
            if len(seen) >= 64:
                seen.clear()
            seen[key] = event._log_profile(e)
        return seen[key]

    return profile


def _effective_end(log_integrand: Any, peaks: FloatArray) -> float:
    """An epsilon beyond which the integrand is below e^-60 of its largest value, or inf if none shows."""
    e = np.union1d(2.0 ** np.arange(-40, 40.25, 0.25), peaks)
    values = log_integrand(e) + np.log(e)
    last = int(np.flatnonzero(values >= np.max(values) - 60)[-1])
    return float(e[last + 1]) if last + 1 < e.size else math.inf


def can_be_sampled(event: Event) -> bool:
    """Whether Poisson subsampling amplifies it."""
    return event._amplified and not event.data_dependent


def refuse_subsampling(event: Event) -> None:
    """Raise SubsamplingError where Poisson subsampling does not amplify."""
    if event.group_size > 1:
        raise SubsamplingError(
            f"{event!r} comes after sampling; accepted: ac.Group(ac.PoissonSubsampled(event, rate), size)"
        )
    if event._never_sampled is not None:
        raise SubsamplingError(f"{shorten(event)} {event._never_sampled}")
    if not event._amplified and event.adjacency is Adjacency.ADD_REMOVE:
        raise SubsamplingError(
            f"{event!r} draws its sample itself, from a number of records that is known; accepted: it alone, at a rate "
            "of its own"
        )
    if event.between_bounds and not event._amplified:
        raise SubsamplingError(
            f"Poisson subsampling of {event!r} has no price: it has drawn its own sample; accepted: the event within"
        )
    if not event._amplified:
        raise SubsamplingError(
            f"Poisson subsampling of {event!r} has no price: a distance between neighbours does not bound what one "
            "record adds to the sample; accepted: add-remove adjacency, or ClippedSum (in plans clipped-sum), which "
            "does, as ac.dp_sgd and 'accountant dp-sgd' do under replace adjacency"
        )
    if event.data_dependent:
        # Zhu et al. 2020, App. F: the amplification argument fixes the neighbours, a data-dependent curve does not
        raise SubsamplingError(f"subsampling does not amplify data-dependent curves; {event!r} is one")
