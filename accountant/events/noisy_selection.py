"""What noisy comparisons of many scores cost: the noisy maximum, and the sparse vector technique."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, is_one_of, shorten
from accountant.events.comparison_attacks import Stream
from accountant.events.comparisons import Comparisons, GaussianComparisons, LaplaceComparisons, attack_on
from accountant.events.event import Event
from accountant.events.exponential_mechanism import ExponentialMechanism, LargestOfLaplace, PermuteAndFlip
from accountant.events.parameters import NoiseScale, Range, Scale
from accountant.events.priced import PricedAsAnother
from accountant.events.randomized_response import PureDP
from accountant.events.registry import register
from accountant.events.two_candidates import BestLead, Contest
from accountant.numerics.exact import quotient_up, round_up

__all__ = ["ReportNoisyMax", "SparseVector"]


def _check_choice(name: str, value: object, accepted: tuple[str, ...]) -> None:
    if not is_one_of(value, accepted):
        raise ParameterError(f"{name} = {shorten(value)}; accepted: {', '.join(map(repr, accepted))}")


def _check_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ParameterError(f"{name} = {shorten(value)}; accepted: true or false")


@register("report-noisy-max")
@dataclass(frozen=True)
class ReportNoisyMax(PricedAsAnother):
    """Report-noisy-max: which of any number of scores is largest after noise of its own is added to each.

    With s the sensitivity of the scores and b the scale of the noise, epsilon is ``2 s/b``, or ``s/b`` if `monotone`:

    * "laplace": epsilon-DP (Dwork & Roth 2014, Claim 3.9, for monotone scores), and up to epsilon = 32 no dearer than a
      value with noise of a certain density, of the same largest loss, which costs about a quarter less than Laplace
      noise in long runs (proof: notebooks/mathematics.md, Noisy maxima of Laplace noise); beyond, than Laplace noise
      itself (Noisy maxima as Laplace noise). Where only two scores change, as with votes, `LNMax` is cheaper.
    * "gumbel": the exponential mechanism, whose probabilities it has, priced by its bounded range.
    * "exponential": `PermuteAndFlip` (Ding et al. 2021).

    The lower end of a price with Laplace or exponential noise is what the maximum of few scores, or of one and a crowd,
    tells (notebooks/mathematics.md, Prices from below).

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
        epsilon = quotient_up(1 if self.monotone else 2, self.sensitivity, self.scale)
        if self.noise == "gumbel":
            return ExponentialMechanism(epsilon, self.adjacency)
        return (PermuteAndFlip if self.noise == "exponential" else LargestOfLaplace)(epsilon, self.adjacency)


@register("sparse-vector")
@dataclass(frozen=True)
class SparseVector(PricedAsAnother):
    """Sparse vector technique (AboveThreshold): which of a stream of queries first exceed a noisy threshold.

    The noise on the threshold is drawn once; every query gets noise of its own, and after `tops` answers "above" the
    stream ends. With s the sensitivity and Laplace noise on the queries, answers "below" are free, and with
    ``kappa = 2 * tops * s/query_scale``, or half of that if `monotone`:

    * Laplace noise on the threshold: pure DP at ``s/threshold_scale + kappa`` (Lyu, Su & Li 2017).
    * Gaussian noise on it: Rényi curve ``a s^2/(2 threshold_scale^2) + kappa`` (proof: notebooks/mathematics.md, Noisy
      comparisons; Zhu & Wang 2020 for other noise).

    With Gaussian noise on the queries the price depends on how long the stream may be, too. With K = `queries`,
    m = 2 s, or s if `monotone`, and R(a) = ``a s^2/(2 threshold_scale^2)``, or ``s/threshold_scale`` if the noise on
    the threshold is Laplace, the curve is the largest, times a - 1 convex, that is at most both

        R(a) + a tops m^2/(2 query_scale^2) + log(C(K, 0) + ... + C(K, tops))/(a - 1)

    and ``a K s^2/(2 query_scale^2)``, the curve of all noisy queries (proof: notebooks/mathematics.md, Noisy
    comparisons).

    Where some noise is Gaussian, the profile, too, is a bound from above: ``E (1 - e^(e - L - M))_+`` in both
    directions, with L the loss of a threshold that moves by s and M, independent of it, kappa; or, for Gaussian noise
    on the queries, the sum of `tops` losses of the largest of K standard normal values that move by m, or the profile
    of all noisy queries, where that is less (same section).

    Whatever the noise, on the tight route the lower end of the price is that of a stream that an attacker may ask; with
    Laplace noise and `queries` = 1 it is exact (notebooks/mathematics.md, Prices from below).

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
        moves = (1 if self.monotone else 2) * self.tops
        if self.threshold_noise == "gaussian":
            shift = quotient_up(1, self.sensitivity, self.threshold_scale)
            kappa = quotient_up(moves, self.sensitivity, self.query_scale)
            return LaplaceComparisons(shift, kappa, self._stream(), self.adjacency)
        scales = 1 / Fraction(self.threshold_scale) + moves / Fraction(self.query_scale)
        return PureDP(round_up(Fraction(self.sensitivity) * scales), self.adjacency)

    def _stream(self) -> Stream:
        """What is asked, in units of the sensitivity."""
        threshold, query = self.threshold_scale / self.sensitivity, self.query_scale / self.sensitivity
        return Stream(self.threshold_noise, threshold, self.query_noise, query, self.tops, self.queries, self.monotone)

    def _certain(self, times: int = 1) -> Event:
        price, stream = self._price(), self._stream()
        if isinstance(price, Comparisons):
            return price._certain(times)
        other = stream.query_scale / stream.threshold_scale
        if stream.queries == 1 and times == 0 and abs(other - 1) > 0.01:  # whether it is above: both scales' noise
            return BestLead(Contest("laplace", 1 / stream.threshold_scale, other), price, self.adjacency)
        return attack_on(stream, price, times)
