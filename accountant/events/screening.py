"""Noisy screening: one bit that says whether a noisy plurality passes a threshold."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import integer
from accountant.events.answers import AdditiveNoise, Choices, Row, screening_row
from accountant.events.event import Event
from accountant.events.gaussian import Gaussian
from accountant.events.parameters import Range
from accountant.events.registry import register
from accountant.events.screening_pairs import Screening
from accountant.events.screening_profile import fill_profile
from accountant.events.screening_search import screening_curve
from accountant.numerics.kernel import FloatArray

__all__ = ["DataDependentScreening", "NoisyScreening"]

Sigma = Annotated[float, Range(1e-6, 1e12, noise=True, usual=(0.05, 1e4))]
"""Standard deviation, in votes."""

PROFILE = 2500.0
"""Operations (see `accountant.patience`) that a value of a profile takes, in both directions."""

CURVE, CURVE_MANY = 1.1e3, 1.5e4
"""The same of an order of a curve: for each count, and for each doubling of many."""

KNOTS = 500
"""Counts up to which all losses are named where the profile bends; an integral over it may miss what it is not told."""

Threshold = Annotated[float, Range(-1e12, 1e12, usual=(-50.0, 150.0))]


class _OneBit(Event):
    """Events that release one bit, passed with probability Phi((t - threshold)/sigma) at count t."""

    family: ClassVar[bool] = True
    sigma: float

    @abstractmethod
    def _counts(self) -> Screening:
        """Noise, threshold, and the least and the largest count: what all formulas here compute from."""

    def _screening(self) -> Screening | None:
        return self._counts()

    def _choices(self, rate: float = 1.0) -> Choices:
        return self._counts().choices(rate)

    def _row(self, rate: float = 1.0) -> Row:
        return screening_row(self._counts(), rate)

    def _curve_work(self, rate: float = 1.0) -> float:
        counts = self._counts()
        many = counts.high - counts.low + 2
        return min(CURVE * many, CURVE_MANY * math.log2(many))

    def _ceiling(self) -> Gaussian:
        # the bit is a post-processing of the noisy count
        return Gaussian(self.sigma, adjacency=self.adjacency)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return _evaluate(self._counts(), 1.0, orders)

    def _profile_work(self) -> float:
        return PROFILE

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = _log_profile_of(self._counts(), 1.0, False, epsilons)
        return both, both

    def _profile_knots(self) -> list[float]:
        counts = self._counts()
        if counts.high - counts.low > KNOTS:
            return []
        pairs = counts.pairs(1.0)
        losses: list[float] = np.unique(np.abs([pairs.ratio_pass, pairs.ratio_fail])).tolist()
        return losses

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        return _evaluate(self._counts(), rate, orders)

    def _subsampled_log_profile(self, rate: float, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        forward, backward = (_log_profile_of(self._counts(), rate, way, epsilons) for way in (False, True))
        return forward, backward


def _evaluate(screening: Screening, rate: float, orders: FloatArray) -> FloatArray:
    sigma, threshold, low, high = screening
    curve = np.empty_like(orders)
    screening_curve(sigma, threshold, float(low), float(high), rate, orders, curve)
    return curve


def _log_profile_of(screening: Screening, rate: float, backward: bool, epsilons: FloatArray) -> FloatArray:
    sigma, threshold, low, high = screening
    logs = np.empty(epsilons.size)
    fill_profile(sigma, threshold, float(low), float(high), rate, backward, epsilons, logs)
    return logs


@register("noisy-screening")
@dataclass(frozen=True)
class NoisyScreening(_OneBit):
    """Noisy screening: tells only whether ``count + N(0, sigma^2) >= threshold``, count the plurality of votes.

    Rényi curve: the largest Bernoulli divergence
    ``1/(a-1) * log( p^a q^(1-a) + (1-p)^a (1-q)^(1-a) )`` over all feasible neighbouring counts and both
    directions (Zhu et al. 2020, Thm 7, corrected: every feasible pair, the infeasible ``(k, k+1)`` left
    out). Under Poisson subsampling exact for every real order: the worst pair
    ``((1-g) p_t + g p_t', p_t)`` with ``t' = t +- 1``, by joint convexity (notebooks/mathematics.md,
    Noisy screening).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in votes; [1e-6, 1e12].
    threshold : float
        Votes needed to pass; [-1e12, 1e12].
    max_votes : int
        Largest possible count (k neighbours, or the number of teachers); [1, 1e7].
    min_votes : int
        Smallest possible count; [0, max_votes). Above 0 only if that many votes are always cast: under
        Poisson sampling a sample can be smaller than k.
    adjacency : Adjacency
        One record more or less, or one replaced, moves the count by at most one in either case.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    sigma: Sigma
    threshold: Threshold
    max_votes: Annotated[int, Range(1, 1e7, usual=(1, 80))]
    min_votes: Annotated[int, Range(0, 1e7, usual=(0, 20))] = 0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    @classmethod
    def examples(cls) -> tuple[NoisyScreening, ...]:
        return cls(85.0, 210.0, 300), cls(2.0, 30.0, 50, min_votes=25)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("gaussian", self.sigma)

    def caveats(self) -> tuple[str, ...]:
        return (f"at least {self.min_votes} votes always agree",) if self.min_votes > 0 else ()

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("min_votes", self.min_votes, 0, self.max_votes - 1)

    def _counts(self) -> Screening:
        return Screening(self.sigma, self.threshold, self.min_votes, self.max_votes)


@register("data-dependent-screening")
@dataclass(frozen=True)
class DataDependentScreening(_OneBit):
    """Noisy screening priced at the count that was actually seen. The cost is itself private.

    The actual count against one more and one less, both directions (after Zhu et al. 2020, section
    4.3). A guarantee built on it is marked data-dependent, and Poisson subsampling
    does not amplify it. Several are priced as screenings whose counts are one less to one more than the seen
    one: an attacker of certified lower ends may have the pairs in any order.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in votes; [1e-6, 1e12].
    threshold : float
        Votes needed to pass; [-1e12, 1e12].
    plurality : int
        The largest vote count that was seen; [0, 1e12].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    data_dependent: ClassVar[bool] = True

    sigma: Sigma
    threshold: Threshold
    plurality: Annotated[int, Range(0, 1e12)]
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    @classmethod
    def examples(cls) -> tuple[DataDependentScreening, ...]:
        return (cls(85.0, 210.0, 40),)

    def _counts(self) -> Screening:
        return Screening(self.sigma, self.threshold, max(self.plurality - 1, 0), self.plurality + 1)
