"""Releases of which only a Rényi curve is known, beside others: one pair that dominates all that have such a curve.

A run has a part Z of such releases and a rest. However Z is interleaved with the rest, by itself it has a Rényi
divergence of at most the sum of the curves, in both directions, hence a profile below what every order says (Canonne,
Kamath & Steinke 2020, Prop. 12). The pair that dominates points of these is composed with the rest (notebooks/
mathematics.md, Releases known by a curve).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from accountant.adjacency import Adjacency, Direction
from accountant.errors import ProfileUnavailable, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.finite_pairs import FinitePair
from accountant.events.from_below import costs_nothing
from accountant.events.gaussian import GaussianLike
from accountant.events.profile_points import pair_of_points
from accountant.events.sticks import Sticks, both_sticks
from accountant.numerics.kernel import FloatArray
from accountant.patience import remember, spend
from accountant.renyi.conversion import epsilon_from_renyi

__all__ = ["KnownByCurve", "gather_curves", "lacks_profile", "noise_below"]

ORDERS = 1 + np.geomspace(1e-6, 1e9, 1000)
"""Rényi orders, each of which gives a bound at every delta."""

POINTS = 256
"""Points of the profile."""

PAIR = 6e7
"""Operations (see `accountant.patience`) of a pair, beside those of its curve."""

SPARE = 1 + 1e-12
"""Above what rounding does to a point's epsilon."""

LEAST, MOST = 1e-290, 0.99
"""Deltas of the points."""

LARGEST = 690.0
"""Epsilons of points end before e^epsilon overflows."""


@dataclass(frozen=True)
class Nothing(Event):
    """A release that is the same for all neighbours."""

    adjacency: Adjacency

    def _curve(self, orders: FloatArray) -> FloatArray:
        return np.zeros_like(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        nothing = np.full_like(epsilons, -math.inf)
        return nothing, nothing


@dataclass(frozen=True)
class KnownByCurve(Event):
    """All releases of a run that have a Rényi curve and no profile, as one event.

    Parameters
    ----------
    releases : tuple of (Event, int)
    """

    between_bounds: ClassVar[bool] = True

    releases: tuple[tuple[Event, int], ...]
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", self.releases[0][0].adjacency)

    def __str__(self) -> str:
        names = sorted({type(event.unsampled).__name__ for event, _ in self.releases})
        return f"{' and '.join(names)} by Rényi curve"

    @property
    def data_dependent(self) -> bool:  # type: ignore[override]  # as one of the releases
        return any(event.data_dependent for event, _ in self.releases)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return Composition(self.releases).renyi(orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return math.fsum(event._curve_work() for event, _ in self.releases)

    def _certain(self, times: int = 1) -> Event:
        """The Gaussian noise that some of the releases may be; nothing for the others."""
        certain = [(each._certain(), n) for each, n in self.releases]
        noise = [(each, n) for each, n in certain if isinstance(each, GaussianLike)]
        mu = math.sqrt(math.fsum(n * each._mu() ** 2 for each, n in noise)) * (1 - 1e-15)
        return noise[0][0]._with_mu(mu) if mu > 0.0 else Nothing(self.adjacency)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(CurvePair(self, log_lost), 1)]


class CurvePair(Event):
    """The pair that dominates what the curve says of deltas down to exp(log_lost); it is its own mirror image."""

    pair: FinitePair
    sticks: Sticks
    lost: float
    _profile_error = 1e-11

    def __init__(self, known: KnownByCurve, log_lost: float) -> None:
        pair, lost = _pair(known, log_lost)
        order = np.argsort(pair.losses)
        self.__dict__.update(
            adjacency=known.adjacency,
            pair=pair,
            sticks=both_sticks(pair.losses[order], pair.log_p[order])[0],
            lost=lost,
            _largest_finite_loss=float(np.max(np.abs(pair.losses))),
        )

    def __repr__(self) -> str:
        return f"<pair above a curve, {self.pair.losses.size} outcomes>"

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        end = math.inf if self.lost > 0.0 else self._largest_finite_loss
        return np.where(np.isinf(orders), end, math.nan)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = np.minimum(self.sticks.log_value(epsilons), 0.0)
        if self.lost > 0.0:
            both = np.logaddexp(math.log(self.lost), math.log1p(-self.lost) + both)
        return both, both


@remember("a pair above a Rényi curve", 16)
def _pair(known: KnownByCurve, log_lost: float) -> tuple[FinitePair, float]:
    """The pair given that the loss is finite, and the probability that it is not."""
    spend(PAIR + ORDERS.size * known._curve_work(), "a pair above a Rényi curve")
    curve = known._curve(ORDERS)
    usable = np.isfinite(curve)
    if not usable.any():
        raise ProfileUnavailable(f"{known!r} has no finite Rényi curve; accepted: method = 'renyi' or 'auto'")
    divergence, limit = known._curve(np.array([1.0, math.inf])).tolist()
    distance = math.sqrt(divergence / 2) * SPARE  # Pinsker's inequality
    least = max(math.exp(max(log_lost - 1.0, -700.0)), LEAST)
    if distance <= least:
        return FinitePair(np.zeros(1), np.zeros(1), np.zeros(1)), least
    deltas, epsilons = np.geomspace(min(distance, MOST), least, POINTS), np.zeros(POINTS)
    for i, delta in enumerate(deltas.tolist()):
        if delta < distance:
            found = epsilon_from_renyi("improved", ORDERS[usable] - 1, curve[usable], math.log(delta))
            epsilons[i] = min(float(np.min(found)), limit) * SPARE
    kept = (epsilons <= LARGEST) & ((epsilons == 0.0) | (epsilons >= 1e-50))
    if not kept.any():
        raise ToleranceUnreachable(
            f"what is known by a curve costs more than {LARGEST:g} by itself; accepted: method = 'renyi' or 'auto'"
        )
    points = tuple(epsilons[kept].tolist()), tuple(deltas[kept].tolist())
    return pair_of_points(*points), min(points[1])


def lacks_profile(event: Event) -> ProfileUnavailable | None:
    """Why the tight route knows an event by its curve only; None where it knows more."""
    if isinstance(event.unsampled, GaussianLike):
        return None
    if event.between_bounds:
        if not event._has_surrogates:
            return ProfileUnavailable(f"{event!r} has bounds from above only; accepted: its curve, renyi(orders)")
        return None
    if event._price_alone() is not None:
        return None
    try:
        event._log_profile(np.zeros(1))
    except ProfileUnavailable as error:
        return error
    return None


def noise_below(run: Composition) -> Composition | None:
    """Gaussian noise that costs no more than the run: what its releases may be, of those that may be Gaussian noise.

    None where none may be. (notebooks/mathematics.md, Releases known by a curve)
    """
    noise = KnownByCurve(tuple(run))._certain() if len(run) else None
    return 1 * noise if isinstance(noise, GaussianLike) else None


def gather_curves(run: Composition) -> Composition:
    """The run with all that is known by a curve as one event; itself where that is nothing, or all that costs.

    Releases with infinite losses are known by what they are otherwise.
    """
    known: list[tuple[Event, int]] = []
    rest: list[tuple[Event, int]] = []
    for event, count in run:
        gathered = event._given_finite() is None and lacks_profile(event) is not None
        (known if gathered else rest).append((event, count))
    if not known or not any(not costs_nothing(event) for event, _ in rest):
        return run
    known = [(event, count) for event, count in known if not costs_nothing(event)]
    return Composition([*rest, (KnownByCurve(tuple(known)), 1)] if known else rest)
