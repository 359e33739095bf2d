"""What noisy comparisons of many scores cost: the noisy maximum, and the sparse vector technique."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, shorten
from accountant.events.event import Event
from accountant.events.exponential_mechanism import ExponentialMechanism, PermuteAndFlip
from accountant.events.parameters import NoiseScale, Range, Scale
from accountant.events.priced import PricedAsAnother
from accountant.events.randomized_response import PureDP
from accountant.events.registry import register
from accountant.events.zero_concentrated import ZeroConcentratedDP
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_binomial_pmf

__all__ = ["ReportNoisyMax", "SparseVector"]

HUGE = 1e100
"""Slopes beyond are not squared."""


def _check_choice(name: str, value: object, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise ParameterError(f"{name} = {shorten(value)}; accepted: {', '.join(map(repr, accepted))}")


def _check_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ParameterError(f"{name} = {shorten(value)}; accepted: true or false")


@register("report-noisy-max")
@dataclass(frozen=True)
class ReportNoisyMax(PricedAsAnother):
    """Report-noisy-max: which of any number of scores is largest after noise of its own is added to each.

    With s the sensitivity of the scores and b the scale of the noise, epsilon is ``2 s/b``, or ``s/b`` if `monotone`:

    * "laplace": epsilon-DP (Dwork & Roth 2014, Claim 3.9, for monotone scores; else proof: notebooks/mathematics.md,
      Noisy comparisons). Where only two scores change, as with votes, `LNMax` is cheaper.
    * "gumbel": the exponential mechanism, whose probabilities it has, priced by its bounded range.
    * "exponential": `PermuteAndFlip` (Ding et al. 2021).

    Parameters
    ----------
    scale : float
        Scale b of the noise; [1e-50, 1e50].
    noise : {"laplace", "gumbel", "exponential"}
    sensitivity : float
        How far any score moves between neighbouring inputs; [1e-50, 1e50].
    monotone : bool
        Whether between neighbouring inputs no score falls where another rises, as for counts of records under
        add-remove adjacency.
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is out of range, or ``2 s/b`` is above 1e6.
    """

    scale: NoiseScale
    noise: Literal["laplace", "gumbel", "exponential"] = "laplace"
    sensitivity: Scale = 1.0
    monotone: bool = False
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("noise", self.noise, ("laplace", "gumbel", "exponential"))
        _check_switch("monotone", self.monotone)
        self._price()

    @classmethod
    def examples(cls) -> tuple[ReportNoisyMax, ...]:
        return cls(4.0), cls(4.0, "gumbel")

    def _price(self) -> Event:
        epsilon = (1.0 if self.monotone else 2.0) * self.sensitivity / self.scale
        if self.noise == "gumbel":
            return ExponentialMechanism(epsilon, self.adjacency)
        return (
            PermuteAndFlip(epsilon, self.adjacency) if self.noise == "exponential" else PureDP(epsilon, self.adjacency)
        )


@register("sparse-vector")
@dataclass(frozen=True)
class SparseVector(PricedAsAnother):
    """Sparse vector technique (AboveThreshold): which of a stream of queries first exceed a noisy threshold.

    The noise on the threshold is drawn once; every query gets noise of its own, and after `tops` answers "above" the
    stream ends. With s the sensitivity and Laplace noise on the queries, answers "below" are free, and with
    ``kappa = 2 * tops * s/query_scale``, or half of that if `monotone`:

    * Laplace noise on the threshold: pure DP at ``s/threshold_scale + kappa`` (Lyu, Su & Li 2017).
    * Gaussian noise on it: Rényi curve ``a s^2/(2 threshold_scale^2) + kappa`` (proof: notebooks/mathematics.md, Noisy
      comparisons; Zhu & Wang 2020 for other noise). It has no privacy profile.

    With Gaussian noise on the queries the price depends on how long the stream may be, too. With K = `queries`,
    m = 2 s, or s if `monotone`, and R(a) = ``a s^2/(2 threshold_scale^2)``, or ``s/threshold_scale`` if the noise on
    the threshold is Laplace, the curve is the largest, times a - 1 convex, that is at most both

        R(a) + a tops m^2/(2 query_scale^2) + log(C(K, 0) + ... + C(K, tops))/(a - 1)

    and ``a K s^2/(2 query_scale^2)``, the curve of all noisy queries (proof: notebooks/mathematics.md, Noisy
    comparisons). It has no privacy profile.

    Nothing but "above" and "below" is released; a noisy value of a query is a release of its own, with fresh noise.

    Parameters
    ----------
    threshold_scale : float
        Scale of Laplace, or standard deviation of Gaussian, noise on the threshold; [1e-50, 1e50].
    query_scale : float
        Scale of the Laplace, or standard deviation of the Gaussian, noise on every query; [1e-50, 1e50].
    tops : int
        Answers "above" after which the stream ends; [1, 1e9].
    sensitivity : float
        How far any query moves between neighbouring inputs; [1e-50, 1e50].
    monotone : bool
        Whether between neighbouring inputs no query falls where another rises.
    threshold_noise, query_noise : {"laplace", "gaussian"}
    queries : int
        Queries after which the stream ends at the latest; [1, 1e12], or 0 for any number, with Laplace noise on them.
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is out of range, the pure-DP parameter is above 1e6, or Gaussian noise on queries whose number has
        no limit.
    """

    threshold_scale: NoiseScale
    query_scale: Annotated[float, Range(1e-50, 1e50, usual=(0.5, 1e4))]
    tops: Annotated[int, Range(1, 1e9)] = 1
    sensitivity: Scale = 1.0
    monotone: bool = False
    threshold_noise: Literal["laplace", "gaussian"] = "laplace"
    query_noise: Literal["laplace", "gaussian"] = "laplace"
    queries: Annotated[int, Range(0, 1e12)] = 0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("threshold_noise", self.threshold_noise, ("laplace", "gaussian"))
        _check_choice("query_noise", self.query_noise, ("laplace", "gaussian"))
        _check_switch("monotone", self.monotone)
        if self.query_noise == "gaussian" and self.queries == 0:
            raise ParameterError(
                "queries = 0 with Gaussian noise on the queries; accepted: the most queries that the stream has, on "
                "which the price depends"
            )
        self._price()

    @classmethod
    def examples(cls) -> tuple[SparseVector, ...]:
        return cls(10.0, 20.0), cls(20.0, 40.0, 2, 1.0, False, "gaussian", "gaussian", 100)

    def _price(self) -> Event:
        if self.query_noise == "gaussian":
            return GaussianComparisons(
                self.threshold_scale,
                self.query_scale,
                self.tops,
                self.sensitivity,
                (1.0 if self.monotone else 2.0) * self.sensitivity,
                self.threshold_noise,
                self.queries,
                self.adjacency,
            )
        shift = self.sensitivity / self.threshold_scale
        kappa = (1.0 if self.monotone else 2.0) * self.tops * self.sensitivity / self.query_scale
        if self.threshold_noise == "gaussian":
            return ZeroConcentratedDP(shift * shift / 2, kappa, self.adjacency)
        return PureDP(shift + kappa, self.adjacency)


@dataclass(frozen=True)
class GaussianComparisons(Event):
    """What a `SparseVector` with Gaussian noise on at most `queries` queries costs; an "above" moves by `moved`."""

    threshold_scale: float
    query_scale: float
    tops: int
    sensitivity: float
    moved: float
    threshold_noise: str
    queries: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _curve(self, orders: FloatArray) -> FloatArray:
        shift = self.sensitivity / self.threshold_scale
        gaussian = self.threshold_noise == "gaussian"
        slope = self.tops * (self.moved / self.query_scale) ** 2 / 2 + (shift * shift / 2 if gaussian else 0.0)
        every = self.queries * (self.sensitivity / self.query_scale) ** 2 / 2
        with np.errstate(over="ignore", invalid="ignore"):
            return least_of_lines(every, slope, 0.0 if gaussian else shift, self.log_answers, orders)

    @property
    def log_answers(self) -> float:
        return log_sequences(self.queries, self.tops)


def least_of_lines(every: float, slope: float, constant: float, extra: float, orders: FloatArray) -> FloatArray:
    """The best bound on D_a, a >= 1, that is convex times a - 1 and known to be at most either of two.

    These are E a and A a + C + L/(a - 1). G = (a - 1) D_a is convex and at most f_2 = E a (a - 1) and
    f_1 = (a - 1) (A a + C) + L, so below the line that touches both, too, between the places where it does:
    T = E (2 a_2 - 1) = A (2 a_1 - 1) + C and A a_1^2 - E a_2^2 = L - C. Where a_2 would be below 1, it goes through
    (1, 0).
    """
    if slope >= every:
        return every * orders
    start = slope + constant + 2.0 * math.sqrt(slope * extra)
    if start <= every or every > HUGE:
        touch, line = 1.0 + math.sqrt(extra / slope), np.full_like(orders, start)
        left = 1.0
    else:
        half, free = constant / (2 * slope), ((slope - constant) ** 2 / slope - every) / 4 - extra + constant
        square = (1 / slope - 1 / every) / 4
        tangent = (half + math.sqrt(half * half - 4 * square * free)) / (2 * square)
        left, touch = (tangent / every + 1.0) / 2, ((tangent - constant) / slope + 1.0) / 2
        line = (every * left * (left - 1.0) + tangent * (orders - left)) / np.maximum(orders - 1.0, left - 1.0)
    beyond = np.maximum(orders, touch)
    far = slope * beyond + constant + extra / (beyond - 1.0)
    return np.where(orders <= left, np.minimum(every * orders, far), np.where(orders < touch, line, far))


def log_sequences(queries: int, tops: int) -> float:
    """At least log(C(K, 0) + ... + C(K, c)): the binomials fall from C(K, c) on at least by c/(K - c + 1) each."""
    every = queries * math.log(2.0)
    if 2 * tops >= queries:
        return every
    n, k = float(queries), float(tops)
    share = k / n
    log_choose = log_binomial_pmf(n, k, share) - k * math.log(share) - (n - k) * math.log1p(-share)
    return min(every, log_choose + math.log((n - k + 1.0) / (n - 2.0 * k + 1.0)) + 1e-12 * every)
