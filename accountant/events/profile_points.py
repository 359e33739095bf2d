"""Several points of a privacy profile as an event: the pair that dominates every release which keeps all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import pairwise

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError
from accountant.events.answers import GivenFinite
from accountant.events.event import Event
from accountant.events.finite_pairs import FinitePair
from accountant.events.parameters import numbers_of
from accountant.events.registry import register
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_mixture, log_mixture_ratio

__all__ = ["ProfilePoints"]

POINTS = 1000
"""Most points of a profile."""

MOST = 700.0
"""Largest epsilon of a point."""

Corner = tuple[Decimal, Decimal, Decimal]
"""A place u, the height of the hull there, and log u."""


@register("profile-points")
@dataclass(frozen=True)
class ProfilePoints(Event):
    """Any release of which several (epsilon, delta) are known, priced by the pair that dominates all of them.

    A hockey-stick divergence ``H(u) = sup_S P(S) - u Q(S)`` is convex, falls, and is ``1 - u + u H'(1/u)`` with H' that
    of the other direction (Zhu, Dong & Wang 2022, Lemma 18). So in both directions it lies below the convex hull of
    (0, 1), (1/u_i, 1 - (1 - d_i)/u_i), (u_i, d_i) and the line at the least d_i, with u_i = e^epsilon_i: the curve of a
    pair with finitely many outcomes. One point is `ApproximateDP`; points that others imply change nothing.
    The Rényi curve is infinite at every order unless the least delta is 0; compositions, Poisson-sampled ones too, have
    a price on the tight route.

    Parameters
    ----------
    epsilons : iterable of float
        In nats; each 0 or in [1e-50, 700], at most 1000 of them.
    deltas : iterable of float
        As many; each 0 or in [1e-300, 0.999999].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        epsilons = numbers_of("epsilons", self.epsilons, MOST, POINTS)
        deltas = numbers_of("deltas", self.deltas, 0.999999, POINTS, least=1e-300)
        if len(epsilons) != len(deltas):
            raise ParameterError(f"{len(epsilons)} epsilons, {len(deltas)} deltas; accepted: as many of both")
        object.__setattr__(self, "epsilons", epsilons)
        object.__setattr__(self, "deltas", deltas)

    @classmethod
    def examples(cls) -> tuple[ProfilePoints, ...]:
        return (cls((0.5, 1.0), (1e-4, 1e-6)),)

    @property
    def _lost(self) -> float:
        return min(self.deltas)

    def _finite_part(self, rate: float = 1.0) -> FinitePart:
        return FinitePart(self.epsilons, self.deltas, rate, self.adjacency)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return np.full_like(orders, math.inf) if self._lost > 0.0 else self._finite_part()._curve(orders)

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        return np.full_like(orders, math.inf) if self._lost > 0.0 else self._finite_part(rate)._curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = self._finite_part()._log_profile(epsilons)[0]
        if self._lost > 0.0:
            both = np.logaddexp(math.log(self._lost), math.log1p(-self._lost) + both)
        return both, both  # the pair is its own mirror image

    def _profile_knots(self) -> Sequence[float]:
        return self._finite_part()._profile_knots()

    def _given_finite(self) -> GivenFinite | None:
        if self._lost == 0.0:
            return None
        return GivenFinite((self._finite_part(),), 1, math.log1p(-self._lost), lost=self._lost)

    def _subsampled_given_finite(self, rate: float) -> GivenFinite | None:
        """Only the mixture can be told for certain: it has rate * delta where the other distribution has nothing."""
        if self._lost == 0.0:
            return None
        return GivenFinite((self._finite_part(rate),), 1, math.log1p(-rate * self._lost), 0.0)


@dataclass(frozen=True)
class FinitePart(Event):
    """A release that is known by points of its profile, sampled at a rate, given that its loss is finite."""

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    rate: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _pair(self) -> FinitePair:
        pair, lost = pair_of_points(self.epsilons, self.deltas), min(self.deltas)
        if self.rate == 1.0:
            return pair
        if lost == 0.0:
            return pair.sampled(self.rate)
        # Q has `lost` where P has nothing, the mixture (1 - rate) of that; P has `lost` where Q has nothing
        kept, told, finite = math.log1p(-lost), math.log(lost), math.log1p(-self.rate * lost)
        log_q = np.append(told, kept + pair.log_q)
        mixed = log_mixture(self.rate, kept + pair.log_q, kept + pair.log_p)
        log_p = np.append(told + math.log1p(-self.rate), mixed) - finite
        losses = np.append(math.log1p(-self.rate), log_mixture_ratio(self.rate, pair.losses)) - finite
        return FinitePair(log_p, log_q, losses)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._pair().curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._pair().log_profile(epsilons)

    def _profile_knots(self) -> Sequence[float]:
        return sorted({abs(float(loss)) for loss in self._pair().losses} - {0.0})


@lru_cache(maxsize=64)
def pair_of_points(epsilons: tuple[float, ...], deltas: tuple[float, ...]) -> FinitePair:
    """The pair, given that the loss is finite: at a corner u of the hull Q has what its slope changes by, P u as much.

    Corners all but coincide where points nearly do, and differ from 1 by e^-epsilon delta: all such digits are kept,
    and 60 more.
    """
    with localcontext() as context:
        context.prec = 60 + int(2 * max(epsilons) / math.log(10) - math.log10(min(filter(None, deltas), default=1.0)))
        corners: list[Corner] = [(Decimal(0), Decimal(1), Decimal(0))]
        points = [(Decimal(e).exp(), Decimal(d), Decimal(e)) for e, d in sorted(zip(epsilons, deltas, strict=True))]
        for u, delta, epsilon in reversed(points):
            _add_corner(corners, (1 / u, 1 - (1 - delta) / u, -epsilon))
        for corner in points:
            _add_corner(corners, corner)
        least = Decimal(min(deltas))
        while corners[-1][1] > least:  # only for points that others imply: the hull ends at the least delta
            corners.pop()
        while len(corners) > 2 and corners[-2][1] <= least:
            corners.pop()
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(corners)] + [Decimal(0)]
        masses = [(after - before) / (1 - least) for before, after in pairwise(slopes)]
        context.prec = 40
        kept = [((+mass).ln(), loss) for mass, (_, _, loss) in zip(masses, corners[1:], strict=True) if mass > 0]
    outcomes = [(float(log_q + loss), float(log_q), float(loss)) for log_q, loss in kept]
    return FinitePair(*(np.array(each) for each in zip(*outcomes, strict=True)))


def _add_corner(corners: list[Corner], corner: Corner) -> None:
    """The next step of a lower convex hull from left to right (Andrew's monotone chain)."""
    if corner[0] == corners[-1][0]:
        if corner[1] >= corners[-1][1]:
            return
        corners.pop()
    while len(corners) > 1:
        (x, y, _), (before, above, _) = corners[-1], corners[-2]
        if (y - above) * (corner[0] - before) < (corner[1] - above) * (x - before):
            break
        corners.pop()
    corners.append(corner)
