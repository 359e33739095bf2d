"""What every event answers: a Rényi curve, a privacy profile, and what Poisson subsampling makes of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, ProfileUnavailable, SubsamplingError, shown
from accountant.numerics.special import (
    FloatArray,
    Kernel,
    divergence_from_log_mean,
    log_binomial_pmf,
    log_integral,
    log_mixture_ratio,
    logaddexp,
)

if TYPE_CHECKING:
    from accountant.events.composition import Composition

__all__ = ["BatchedEvent", "Event", "Profile", "generic_subsampled_curve", "renyi_from_profile"]

GENERIC_ORDERS = 1_000_000
"""Integer orders up to which the generic subsampling bound is summed; beyond, the event's own curve stands."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Privacy profile: hockey-stick divergences H_e(P||Q) = sup_S P(S) - e^e Q(S), one per epsilon.

    Attributes
    ----------
    remove : array
        Upper bound on H_e(with || without), where "with" holds one individual more.
    add : array
        Upper bound on H_e(without || with).

    Under REPLACE the two directions are the same array.
    """

    remove: FloatArray
    add: FloatArray

    @property
    def worst(self) -> FloatArray:
        """The larger direction at every epsilon: delta(epsilon)."""
        return np.maximum(self.remove, self.add)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.worst, dtype=dtype)


class Event(ABC):
    """One randomized release, described by exactly what accounting needs.

    A subclass is a frozen dataclass that answers `_curve`, and `_log_profile` when it has a privacy profile.
    Everything else (composition, Poisson subsampling, prices, laws) follows from these two.

    Attributes
    ----------
    adjacency : Adjacency
        The neighbouring relation for which the curve holds.
    data_dependent : bool
        Whether the curve is itself a function of private data.
    family : bool
        Whether the profile is a supremum over several pairs of laws, so that a Rényi curve integrated
        from it may exceed the event's own.
    """

    adjacency: Adjacency
    data_dependent: ClassVar[bool] = False
    family: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.adjacency, Adjacency):
            raise ParameterError(
                f"adjacency = {self.adjacency!r}; accepted: {' or '.join(str(member) for member in Adjacency)}"
            )

    # --- what a subclass answers -------------------------------------------------------------------

    @abstractmethod
    def _curve(self, orders: FloatArray) -> FloatArray:
        """Rényi curve at a 1-D array of orders in [1, inf]; order 1 is KL, order inf is pure DP."""

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logs of (remove, add) at a 1-D array of epsilons >= 0."""
        raise ProfileUnavailable(f"{type(self).__name__} is known by a Rényi bound only; it has no privacy profile")

    def _profile_knots(self) -> Sequence[float]:
        """Epsilons > 0 at which the profile is not smooth, other than where it ends."""
        return ()

    # --- what may be answered better than by the general rule --------------------------------------

    @classmethod
    def _gathered(cls, events: Sequence[Self]) -> Any:
        """What `_curves` needs of many events, gathered once for all orders."""
        return events

    @classmethod
    def _curves(cls, gathered: Any, orders: FloatArray) -> FloatArray:
        """Curves of many events of this class, one row each."""
        return np.stack([event._curve(orders) for event in gathered])

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        """Rényi curve under Poisson subsampling with 0 < rate < 1, at orders in [1, inf).

        The sharper of the generic bound (Steinke 2022, Thm 29) and the integral over the profile. The integral
        counts only where the privacy loss is bounded: how far an unbounded profile matters cannot be told from
        looking at it in finitely many places.
        """
        own = self._curve(orders)
        exact = np.full_like(own, math.inf)
        if float(self._curve(np.array([math.inf]))[0]) < math.inf:
            with suppress(ProfileUnavailable):
                exact = renyi_from_profile(self, orders, rate)
        if np.isinf(exact).any() or self.family:
            exact = np.minimum(exact, generic_subsampled_curve(self, rate, orders))
        return np.minimum(exact, own)

    def _subsampled_log_profile(self, rate: float, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logs of the profile under Poisson subsampling, for epsilons >= 0 (accounting.md, section 3.4).

        With P' = (1-g) Q + g P:  H_{e'}(P'||Q) = g H_e(P||Q) where e^e' = 1 + g (e^e - 1), and
        H_{e'}(Q||P') = (1 - (1-g) e^e') H_f(Q||P) where e^-e' = 1 + g (e^-f - 1) (Balle, Barthe & Gaboardi 2018).
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inner = log_mixture_ratio(1 / rate, epsilons)
            remove = math.log(rate) + self._log_profile(inner)[0]
            # 1 - (1-g) e^e' = g (1 - (1-g)/g (e^e' - 1)), positive as long as a mixture can lose that much
            lost = (1 - rate) / rate * np.expm1(epsilons)
            reachable = lost < 1
            log_kept = np.log1p(-np.where(reachable, lost, 0.0))
            add = np.full_like(epsilons, -math.inf)
            if reachable.any():
                outer = (epsilons - log_kept)[reachable]
                add[reachable] = math.log(rate) + log_kept[reachable] + self._log_profile(outer)[1]
        return remove, add

    # --- what users call ----------------------------------------------------------------------------

    def renyi(self, orders: ArrayLike) -> FloatArray:
        """Rényi curve: an upper bound on D_a between neighbouring inputs, in both directions, in nats.

        Parameters
        ----------
        orders : array_like
            Rényi orders a in [1, inf]; 1 is the KL divergence, inf the pure-DP epsilon.

        Returns
        -------
        array of the same shape as `orders`

        Raises
        ------
        ParameterError
            An order is nan or below 1.
        """
        return evaluate_curve(self, orders)

    def profile(self, epsilons: ArrayLike) -> Profile:
        """Privacy profile delta(epsilon) for every real epsilon, one array per direction.

        Parameters
        ----------
        epsilons : array_like
            Any reals, negative ones too.

        Returns
        -------
        Profile
            `.remove` and `.add`, arrays of the shape of `epsilons`.

        Raises
        ------
        ProfileUnavailable
            The event is known by a Rényi bound only.
        ParameterError
            An epsilon is nan or infinite.
        """
        points = _reals("epsilon", epsilons)
        flat = points.ravel()
        if not np.isfinite(flat).all():
            raise ParameterError(f"epsilon = {flat[~np.isfinite(flat)][0]} is out of range; accepted: finite reals")
        with np.errstate(under="ignore", divide="ignore", over="ignore"):
            remove, add = (np.exp(half) for half in self._log_profile(np.abs(flat)))
            # H_{-e}(P||Q) = 1 - e^-e + e^-e H_e(Q||P): a sum of non-negative terms
            floor, scale = -np.expm1(-np.abs(flat)), np.exp(-np.abs(flat))
        negative = flat < 0
        first, second = (
            np.minimum(np.where(negative, floor + scale * mirror, half), 1.0).reshape(points.shape)
            for half, mirror in ((remove, add), (add, remove))
        )
        if self.adjacency is Adjacency.REPLACE:
            first = second = np.maximum(first, second)
        return Profile(remove=first, add=second)

    def __mul__(self, count: object) -> Composition:
        from accountant.events.composition import Composition

        return Composition._of(self, count)

    __rmul__ = __mul__

    def __add__(self, other: object) -> Composition:
        from accountant.events.composition import Composition

        if not isinstance(other, Event | Composition):
            return NotImplemented
        return Composition._of(self, 1) + other

    def __radd__(self, other: object) -> Composition:
        if isinstance(other, int) and other == 0:  # sum() starts from 0
            return 1 * self
        return NotImplemented

    __array_ufunc__ = None  # numpy scalars on the left defer to __rmul__


class BatchedEvent(Event):
    """Events whose class evaluates the curves of many at once."""

    def _curve(self, orders: FloatArray) -> FloatArray:
        row: FloatArray = self._curves(self._gathered([self]), orders)[0]
        return row

    @classmethod
    @abstractmethod
    def _gathered(cls, events: Sequence[Self]) -> Any: ...

    @classmethod
    @abstractmethod
    def _curves(cls, gathered: Any, orders: FloatArray) -> FloatArray: ...


def _reals(name: str, values: ArrayLike) -> FloatArray:
    """`values` as an array of floats, or ParameterError."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} = {shown(values)}; accepted: a real number, or an array of them") from None


def checked_orders(orders: ArrayLike) -> FloatArray:
    """Orders as floats, or ParameterError if one is nan or below 1."""
    points = _reals("order", orders)
    bad = points[~(points >= 1)]
    if bad.size:
        raise ParameterError(f"order = {bad.flat[0]:g} is out of range; accepted: [1, inf]")
    return points


def evaluate_curve(thing: Any, orders: ArrayLike) -> FloatArray:
    """Check orders, evaluate `_curve` on a flat array, restore the shape, and refuse nan."""
    points = checked_orders(orders)
    curve: FloatArray = np.asarray(thing._curve(points.ravel()), dtype=float)
    if curve.shape != (points.size,):
        raise ArithmeticError(f"the Rényi curve of {thing!r} has shape {curve.shape} for {points.size} orders")
    if np.isnan(curve).any():
        order = float(points.ravel()[np.isnan(curve)][0])
        raise ArithmeticError(f"the Rényi curve of {thing!r} is not a number at order {order!r}")
    return curve.reshape(points.shape)


def refuse_subsampling(event: Event) -> None:
    """Raise SubsamplingError where Poisson subsampling does not amplify."""
    if event.adjacency is not Adjacency.ADD_REMOVE:
        raise SubsamplingError(
            f"Poisson subsampling is priced under add-remove adjacency; {event!r} has adjacency {event.adjacency}"
        )
    if event.data_dependent:
        # private-knn, App. F: the amplification argument fixes the neighbours, a data-dependent curve does not
        raise SubsamplingError(f"subsampling does not amplify data-dependent curves; {event!r} is one")


# --- Poisson subsampling in general --------------------------------------------------------------------


@Kernel
def log_binomial_excess(n: int, log_growth: FloatArray, rate: float) -> float:
    """log sum_{j=2}^n C(n,j) g^j (1-g)^(n-j) e^{log_growth[j]}."""
    total = -math.inf
    for j in range(2, n + 1):
        total = logaddexp(total, log_binomial_pmf(float(n), float(j), rate) + log_growth[j])
    return total


def generic_subsampled_curve(event: Event, rate: float, orders: FloatArray) -> FloatArray:
    """Upper bound on the Rényi curve of a Poisson-subsampled event from its own curve alone.

    Integer orders (Steinke 2022, "Composition of Differential Privacy & Privacy Amplification by
    Subsampling", Thm 29):  exp((a-1) eps'(a)) - 1 = sum_{j=2}^a C(a,j) g^j (1-g)^(a-j) expm1((j-1) eps(j)).
    Real orders: (a-1) eps'(a) is convex, so its chord between integers lies above it. Orders beyond
    GENERIC_ORDERS keep the event's own curve, of which a subsampled curve is never an excess.
    """
    result = event._curve(orders)
    small = orders <= GENERIC_ORDERS
    if not small.any():
        return result
    floors = np.floor(orders[small]).astype(int)
    integers = np.unique(np.concatenate([floors, floors + 1]))
    j = np.arange(integers[-1] + 1, dtype=float)
    kappa = np.zeros_like(j)
    kappa[2:] = (j[2:] - 1) * event._curve(j[2:])
    with np.errstate(divide="ignore", over="ignore"):
        log_growth = np.where(kappa > 30, kappa + np.log1p(-np.exp(-kappa)), np.log(np.expm1(np.minimum(kappa, 31))))
    cumulant = {1: 0.0}
    for n in integers[integers >= 2].tolist():
        cumulant[n] = divergence_from_log_mean(1.0, log_binomial_excess(n, log_growth, rate))
    fraction = orders[small] - floors
    low = np.array([cumulant[n] for n in floors.tolist()])
    high = np.array([cumulant[n + 1] for n in floors.tolist()])
    with np.errstate(divide="ignore", invalid="ignore"):
        # at an integer the next one does not count, also where it is infinite
        above = np.where(fraction > 0, fraction * high, 0.0)
        chord = ((1 - fraction) * low + above) / (orders[small] - 1)
    result[small] = np.minimum(result[small], np.where(floors == 1, high, chord))
    return result


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
        The event has no profile.
    """
    points = checked_orders(orders)
    event._log_profile(np.zeros(1))  # where there is no profile, this says so
    end = float(event._curve(np.array([math.inf]))[0])
    curve = np.empty(points.size)
    for i, order in enumerate(points.ravel().tolist()):
        if order == math.inf:
            curve[i] = float(log_mixture_ratio(rate, np.array([end]))[0]) if end < math.inf else end
            continue
        directions = [
            _log_profile_mean(event, order, rate, end, power, tolerance) for power in (order - 2, -(order + 1))
        ]
        curve[i] = max(divergence_from_log_mean(order - 1.0, log_mean) for log_mean in directions)
    return curve.reshape(points.shape)


def _log_profile_mean(event: Event, order: float, rate: float, end: float, power: float, tolerance: float) -> float:
    if end == 0.0:
        return -math.inf
    profile = _remembered_profile(event)

    def log_integrand(e: FloatArray) -> FloatArray:
        remove, add = profile(e)
        with np.errstate(invalid="ignore"):
            up = power * log_mixture_ratio(rate, e) + e + remove
            down = power * log_mixture_ratio(rate, -e) - 2 * e + add
        return np.logaddexp(np.where(remove > -math.inf, up, -math.inf), np.where(add > -math.inf, down, -math.inf))

    if end < math.inf:
        edges = _graded_edges(event, end)
    else:
        knots = np.asarray(event._profile_knots(), dtype=float)
        top = _effective_end(log_integrand, np.maximum(knots - 1 / order, knots / 2))
        if top == math.inf:
            return math.inf
        edges = np.unique(np.concatenate([[0.0], top * 0.5 ** np.arange(60, -1, -1.0), knots[knots < top]]))
    return math.log(order) + 2 * math.log(rate) + log_integral(log_integrand, edges, tolerance)


@lru_cache(maxsize=16)
def _graded_edges(event: Event, end: float) -> FloatArray:
    """Panels between the knots, graded towards both ends: the mass may sit within 1/order of either."""
    knots = np.unique([0.0, *(k for k in event._profile_knots() if 0 < k < end), end])
    shares = 0.5 ** np.arange(1, 50)
    first, last = (knots[1] - knots[0]), (knots[-1] - knots[-2])
    return np.unique(np.concatenate([knots, knots[0] + first * shares, knots[-1] - last * shares]))


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
