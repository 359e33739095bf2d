"""PATE baselines: the label with the largest noisy count, with Gaussian (GNMAX) or Laplace (LNMAX) noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, real
from accountant.events.answers import AdditiveNoise
from accountant.events.curve import StandardForm
from accountant.events.event import Event
from accountant.events.gaussian import GaussianLike
from accountant.events.laplace import Laplace
from accountant.events.parameters import NoiseScale, Range
from accountant.events.registry import register
from accountant.events.votes_seen import SeenVotes
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import log_ndtr

__all__ = ["DataDependentGNMax", "DataDependentLNMax", "GNMax", "LNMax"]


SMALLEST = 5e-324
"""The smallest positive float."""

VoteNoise = Annotated[float, Range(1e-6, 1e12, noise=True)]
"""Scale of noise on the votes that were cast."""


@register("gnmax")
@dataclass(frozen=True)
class GNMax(GaussianLike):
    """GNMAX: arg max of votes plus N(0, sigma^2) on every count, whatever the votes are.

    One changed voter moves two counts by one each, so the L2-sensitivity is sqrt(2) and the curve
    ``a / sigma**2`` (Papernot et al. 2018, Prop. 8). Profile, and Poisson subsampling, as for the Gaussian
    mechanism: what is priced is the release of all noisy counts, of which the arg max is a post-processing, and both
    ends of a certified interval are theirs.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in votes; [1e-50, 1e50].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        `sigma` is not a number or out of range.
    """

    sigma: NoiseScale
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _standard_form(self) -> StandardForm:
        return StandardForm("gaussian", math.sqrt(2.0), inverse=True)

    @classmethod
    def examples(cls) -> tuple[GNMax, ...]:
        return (cls(40.0),)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("gaussian", self.sigma)

    def _mu(self) -> float:
        return math.sqrt(2.0) / self.sigma


@register("lnmax")
@dataclass(frozen=True)
class LNMax(Event):
    """LNMAX: arg max of votes plus Laplace noise on every count, whatever the votes are.

    One changed voter moves two counts by one each: the curve is that of two Laplace coordinates, which is
    nowhere above the ``2/scale``-DP bound of Papernot et al. 2017 (section 3.1). What is priced is the release of all
    noisy counts, of which the arg max is a post-processing, and both ends of a certified interval are theirs.

    Parameters
    ----------
    scale : float
        Scale of the noise (1/gamma in the paper), in votes; [1e-50, 1e50].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        `scale` is not a number or out of range.
    """

    scale: NoiseScale
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _standard_form(self) -> StandardForm:
        return StandardForm("laplace", 1.0, inverse=True, copies=2)

    _counts: Laplace = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_counts", Laplace(self.scale, coordinates=2))

    @classmethod
    def examples(cls) -> tuple[LNMax, ...]:
        return (cls(20.0),)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("laplace", self.scale)

    def _group(self, size: int) -> Event:
        # what is added to counts, and what is taken from them, costs most if it is all one count's
        return Laplace(self.scale, size, 2, self.adjacency)

    def _largest_loss(self) -> Fraction:
        return self._counts._largest_loss()

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._counts._curve(orders)

    def _profile_work(self) -> float:
        return self._counts._profile_work() + 2000.0

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._counts._log_profile(epsilons)

    def _profile_knots(self) -> Iterable[float]:  # type: ignore[override]
        return self._counts._profile_knots()


def _checked_votes(votes: object) -> tuple[float, ...]:
    """Votes per class as a tuple of at least two non-negative numbers."""
    accepted = "at least two vote counts, each in [0, 1e12]"
    if isinstance(votes, str) or not isinstance(votes, Iterable):
        raise ParameterError(f"votes = {votes!r}; accepted: {accepted}")
    counts = tuple(real("votes", vote, 0.0, 1e12) for vote in votes)
    if len(counts) < 2:
        raise ParameterError(f"votes = {counts!r}; accepted: {accepted}")
    return counts


def _margins(votes: tuple[float, ...]) -> FloatArray:
    """Winner's count less every other's."""
    ordered = np.sort(np.array(votes))[::-1]
    margins: FloatArray = ordered[0] - ordered[1:]
    return margins


@register("data-dependent-gnmax")
@dataclass(frozen=True)
class DataDependentGNMax(SeenVotes):
    """GNMAX priced at the votes that were cast. The cost is itself private.

    Papernot et al. 2018, Thm 6 with Props 7 and 10: with ``q = sum_{i != i*} erfc((n_i* - n_i)/(2 sigma))/2``
    an upper bound on the probability that the winner loses, ``mu2 = sigma sqrt(log 1/q)``, ``mu1 = mu2 + 1``
    and ``eps_i = mu_i/sigma^2``,

        eps(a) = 1/(a-1) log( (1-q) A^(a-1) + q B^(a-1) ),
        A = (1-q)/(1 - (q e^eps2)^((mu2-1)/mu2)),  B = e^eps1 / q^(1/(mu1-1)),

    wherever the theorem's conditions hold, and never above the data-independent ``a / sigma**2``. A bound at
    these votes; the curve need not be convex where the conditions cease to hold. The profile is exact: the
    largest of all neighbours (`accountant.events.votes_seen`), far below what the curve says.

    Curve and profile compare the votes that were cast with those of a neighbour, in this order, as the paper does.
    The reverse order may cost more: it is that of the neighbour's votes.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in votes; [1e-6, 1e12].
    votes : iterable of float
        Votes per class.
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    sigma: VoteNoise
    votes: tuple[float, ...]
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "votes", _checked_votes(self.votes))

    @classmethod
    def examples(cls) -> tuple[DataDependentGNMax, ...]:
        return (cls(40.0, (200.0, 40.0, 10.0, 0.0)),)

    def _noise(self) -> tuple[str, float]:
        return "gaussian", self.sigma

    @property
    def log_q(self) -> float:
        """Log of the bound on the probability that another class wins (Papernot et al. 2018, Prop. 7)."""
        # erfc(x/(2 sigma))/2 = Phi(-x/(sigma sqrt 2))
        return min(0.0, float(np.logaddexp.reduce(log_ndtr(-_margins(self.votes) / (self.sigma * math.sqrt(2))))))

    def _curve(self, orders: FloatArray) -> FloatArray:
        variance = self.sigma**2
        independent = orders / variance
        log_q = self.log_q
        mu2 = self.sigma * math.sqrt(-log_q)
        if mu2 <= 1.0:
            return independent
        mu1 = mu2 + 1.0
        eps1, eps2 = mu1 / variance, mu2 / variance
        # Thm 6's condition on q, and q e^eps2 < 1 so that A is defined
        limit = (mu2 - 1) * eps2 - mu2 * (math.log1p(1 / (mu1 - 1)) + math.log1p(1 / (mu2 - 1)))
        if not (log_q <= limit and -log_q > eps2):
            return independent
        # A - 1 = (e^y - q)/(1 - e^y) with e^y = (q e^eps2)^((mu2-1)/mu2) = q exp((2 mu2 - 1)/sigma^2)
        y = (log_q + eps2) * (1 - 1 / mu2)
        log_a = math.log1p(math.exp(y) * -math.expm1((1 - 2 * mu2) / variance) / -math.expm1(y))
        log_b = eps1 - log_q / (mu1 - 1)
        dependent = _two_point_curve(log_q, log_a, log_b, orders)
        return np.where(orders <= mu1, np.minimum(dependent, independent), independent)


@register("data-dependent-lnmax")
@dataclass(frozen=True)
class DataDependentLNMax(SeenVotes):
    """LNMAX priced at the votes that were cast. The cost is itself private.

    Papernot et al. 2017, Thms 2 and 3 and Lemma 4: with ``gamma = 1/scale``, ``l = a - 1`` and
    ``q = sum_{i != i*} (2 + gamma d_i)/(4 exp(gamma d_i))``, ``d_i = n_i* - n_i``, a bound on the probability
    that the winner loses,

        l eps(a) = log( (1-q) ((1-q)/(1 - e^{2 gamma} q))^l + q e^{2 gamma l} )   if q < 1/(1 + e^{2 gamma}),

    and never above the data-independent curve of `LNMax`. The profile is exact, and the order of neighbours is that
    of the votes that were cast first, as for `DataDependentGNMax`.

    Parameters
    ----------
    scale : float
        Scale of the noise (1/gamma), in votes; [1e-6, 1e12].
    votes : iterable of float
        Votes per class.
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    scale: VoteNoise
    votes: tuple[float, ...]
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "votes", _checked_votes(self.votes))

    @classmethod
    def examples(cls) -> tuple[DataDependentLNMax, ...]:
        return (cls(20.0, (200.0, 40.0, 10.0, 0.0)),)

    def _noise(self) -> tuple[str, float]:
        return "laplace", self.scale

    @property
    def log_q(self) -> float:
        """Log of the bound on the probability that another class wins (Papernot et al. 2017, Lemma 4)."""
        gaps = _margins(self.votes) / self.scale
        return min(0.0, float(np.logaddexp.reduce(np.log((2 + gaps) / 4) - gaps)))

    def _curve(self, orders: FloatArray) -> FloatArray:
        independent = LNMax(self.scale)._curve(orders)
        log_q, two_gamma = self.log_q, 2 / self.scale
        if log_q >= -np.logaddexp(0.0, two_gamma):
            return independent
        # (1-q)/(1 - e^{2 gamma} q) = 1 + q (e^{2 gamma} - 1)/(1 - e^{2 gamma} q)
        gain = -math.expm1(-two_gamma) * math.exp(log_q + two_gamma)
        log_a = math.log1p(gain / -math.expm1(log_q + two_gamma))
        return np.minimum(_two_point_curve(log_q, log_a, two_gamma, orders), independent)


def _two_point_curve(log_q: float, log_a: float, log_b: float, orders: FloatArray) -> FloatArray:
    """log( (1-q) A^(a-1) + q B^(a-1) )/(a-1) as log1p of a sum of non-negative terms; A, B >= 1."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        b = orders - 1
        log_kept = np.log(-math.expm1(log_q)) if log_q < 0 else -math.inf
        small = np.maximum(log_a, log_b) * b < 1.0
        # q alone may underflow where q B^(a-1) does not
        second = log_q + b * log_b + np.log(-np.expm1(-b * log_b))
        excess = math.exp(log_kept) * np.expm1(b * log_a) + np.exp(second)
        sums = np.logaddexp(log_kept + b * log_a, log_q + b * log_b)
        curve = np.where(small | (excess < 1.0), np.log1p(excess) / b, sums / b)
        kl = math.exp(log_kept) * log_a + math.exp(log_q) * log_b
        curve = np.where(orders == 1, kl, curve)
        # what is below the range of floats is rounded up, not to 0
        return np.where(np.isinf(orders), max(log_a, log_b), np.maximum(curve, SMALLEST if log_q > -math.inf else 0.0))
