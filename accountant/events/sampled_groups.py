"""Several records of one individual in a Poisson sample, and chains of approximate DP: pairs that price `Group`.

Each of k records joins with probability g, so that a binomial number j of them does. Where the pair (P_j, Q) of j
records has a ratio that rises along the same line for all j, sum_j b_j P_j against Q dominates all mixtures of pairs
that these dominate (proof: notebooks/mathematics.md, Groups).
"""

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
from accountant.events.mixture_of_gaussians import mixture_curve, mixture_log_profile
from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import INTEGRAL
from accountant.numerics.special import log_binomial_pmf

__all__ = ["ChainOfApproximateDP", "SampledGaussianGroup", "SampledGeometricGroup"]

SAMPLED_RECORDS = 1000
"""Most records of one individual in a Poisson sample."""

CHAIN = 10_000
"""Longest chain of approximately private neighbours."""


def binomial_logs(size: int, rate: float) -> FloatArray:
    """Logs of the probabilities that so many of the records join."""
    if size > SAMPLED_RECORDS:
        raise ParameterError(
            f"size = {size} records in a Poisson sample; accepted: [1, {SAMPLED_RECORDS}] where they are sampled"
        )
    return np.array([log_binomial_pmf(float(size), float(j), rate) for j in range(size + 1)])


@dataclass(frozen=True)
class SampledGaussianGroup(Event):
    """sum_j b_j N(j mu, 1) against N(0, 1), b binomial of `size` records at a rate in (0, 1)."""

    mu: float
    rate: float
    size: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        binomial_logs(self.size, self.rate)

    def _mixture(self) -> tuple[FloatArray, FloatArray]:
        return binomial_logs(self.size, self.rate), self.mu * np.arange(self.size + 1.0)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return mixture_curve(*self._mixture(), orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return INTEGRAL * (1 + 0.3 * self.size)  # the distributions are far apart, and the integral goes as far

    def _profile_work(self) -> float:
        return 1500.0 * (self.size + 1)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return mixture_log_profile(*self._mixture(), epsilons)


@dataclass(frozen=True)
class SampledGeometricGroup(Event):
    """sum_j b_j G(x - j s) against G(x), G integer noise whose log-probability falls by t with every integer.

    Up to 0 and from k s on, k records at most, the ratio is constant; between, every integer is an outcome. With s = 1
    it is the chain of k t-DP neighbours.
    """

    t: float
    step: int
    rate: float
    size: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step * self.size > 100 * SAMPLED_RECORDS:
            raise ParameterError(
                f"{self.size} records that each move an integer by {self.step}, in a Poisson sample; accepted: at most "
                f"{100 * SAMPLED_RECORDS} together"
            )
        binomial_logs(self.size, self.rate)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return geometric_pair(self.t, self.step, self.rate, self.size).curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return geometric_pair(self.t, self.step, self.rate, self.size).log_profile(epsilons)

    def _profile_knots(self) -> Sequence[float]:
        return _knots(geometric_pair(self.t, self.step, self.rate, self.size))


@lru_cache(maxsize=16)
def geometric_pair(t: float, step: int, rate: float, size: int) -> FinitePair:
    x = np.arange(step * size + 1.0)
    log_p = np.full_like(x, -math.log1p(math.exp(-t)))
    log_p[1:-1] += math.log(-math.expm1(-t))
    log_q = log_p - x * t
    log_b = binomial_logs(size, rate)
    shifts = step * np.arange(size + 1.0)
    losses = np.empty_like(x)
    for part in np.array_split(np.arange(x.size), math.ceil(x.size * log_b.size / 1e6)):
        moved = t * (x[part, None] - np.abs(x[part, None] - shifts))  # |x| - |x - j s| for 0 <= x
        change = np.exp(log_b + np.minimum(moved, 700.0)) - np.exp(log_b)
        small = np.abs(moved) < 1.0
        change = np.where(small, np.exp(log_b) * np.expm1(np.where(small, moved, 0.0)), change)
        total = change.sum(axis=1)
        near = np.abs(total) < 0.5
        far = np.logaddexp.reduce(log_b + moved, axis=1)
        losses[part] = np.where(near, np.log1p(np.where(near, total, 0.0)), far)
        # |x| - |x - j s| cancels in log Q + loss
        log_p[part] += np.logaddexp.reduce(log_b - t * np.abs(x[part, None] - shifts), axis=1)
    return FinitePair(log_p, log_q, losses)


@dataclass(frozen=True)
class ChainOfApproximateDP(Event):
    """The ends of a chain of `size` steps, each (epsilon, delta)-DP: the trade-off function composed with itself.

    With T(a) = min(1, delta + e^eps a, 1 - e^-eps (1 - delta - a)) the largest true-positive rate of one step, that of
    k steps is T(T(...)) (Dong, Roth & Su 2022, Thm 2.14): a polygon of slopes e^(k eps), e^((k-2) eps), ..., e^(-k eps)
    whose corners T maps to each other. T^k(0) is told for certain.
    """

    epsilon: float
    delta: float
    size: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size > CHAIN:
            raise ParameterError(f"size = {self.size} of an approximately private release; accepted: [1, {CHAIN}]")
        chain_pair(self.epsilon, self.delta, self.size)  # refuses a chain whose ends nothing hides

    def _curve(self, orders: FloatArray) -> FloatArray:
        return np.full_like(orders, math.inf)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        pair, lost, log_finite = chain_pair(self.epsilon, self.delta, self.size)
        with np.errstate(divide="ignore"):
            both = np.logaddexp(math.log(lost), log_finite + pair.log_profile(epsilons)[0])
        return both, both

    def _profile_knots(self) -> Sequence[float]:
        return _knots(chain_pair(self.epsilon, self.delta, self.size)[0])

    def _given_finite(self) -> GivenFinite:
        log_finite = chain_pair(self.epsilon, self.delta, self.size)[2]
        return GivenFinite((FiniteChain(self.epsilon, self.delta, self.size, self.adjacency),), 1, log_finite)


@dataclass(frozen=True)
class FiniteChain(Event):
    """The same given that the loss is finite."""

    epsilon: float
    delta: float
    size: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _curve(self, orders: FloatArray) -> FloatArray:
        return chain_pair(self.epsilon, self.delta, self.size)[0].curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = chain_pair(self.epsilon, self.delta, self.size)[0].log_profile(epsilons)[0]
        return both, both  # the pair is its own mirror image

    def _profile_knots(self) -> Sequence[float]:
        return _knots(chain_pair(self.epsilon, self.delta, self.size)[0])


@lru_cache(maxsize=64)
def chain_pair(epsilon: float, delta: float, size: int) -> tuple[FinitePair, float, float]:
    """The pair given that the loss is finite, the probability that it is not, and the log-probability that it is.

    Corners of T^k: c_0 = (1 - delta)/(1 + e^eps), where T's slope changes, and what T maps to it in one step, in two
    and so on. Below the corner c_(k-1) the slope is e^(k eps), from there to c_(k-2) it is e^((k-2) eps), and so on;
    where c_j <= 0 the polygon starts with a smaller slope. It reaches 1 at 1 - T^k(0), as T is symmetric. Corners may
    cancel: they are computed to 60 digits.
    """
    with localcontext() as context:
        context.prec = 60
        factor, d = Decimal(epsilon).exp(), Decimal(delta)
        corner = (1 - d) / (1 + factor)
        corners: list[Decimal] = []
        while len(corners) < size and corner > 0:
            corners.append(corner)
            corner = (corner - d) / factor
        lost, kept = Decimal(0), Decimal(1)  # each by itself: either may be tiny
        for steps in range(size):
            lost = min(d + factor * lost, (factor - 1 + d + lost) / factor, Decimal(1))
            kept = max(1 - d - factor * (1 - kept), (kept - d) / factor)
            if kept <= 0:
                raise ParameterError(
                    f"size = {size}: nothing hides the ends of a chain of ({epsilon:g}, {delta:g})-DP; accepted: [1, "
                    f"{steps}]"
                )
        ends = [Decimal(0), *(min(each, kept) for each in reversed(corners)), kept]
        masses = [(high - low) / kept for low, high in pairwise(ends)]
        losses = [(2 * (len(corners) - number) - size) * epsilon for number in range(len(masses))]
        log_finite = math.log1p(-float(lost)) if lost < 0.5 else _log(kept)
        pair = [(_log(mass, loss), _log(mass), loss) for mass, loss in zip(masses, losses, strict=True) if mass > 0]
    log_p, log_q, kept_losses = (np.array(each) for each in zip(*pair, strict=True))
    return FinitePair(log_p, log_q, kept_losses), float(lost), log_finite


def _log(number: Decimal, loss: float = 0.0) -> float:
    """log(number e^loss)."""
    with localcontext() as context:
        context.prec = 25
        return float((+number).ln() + Decimal(loss))


def _knots(pair: FinitePair) -> list[float]:
    return sorted({abs(float(loss)) for loss in pair.losses} - {0.0})
