"""What noisy comparisons of many scores cost: the noisy maximum, and the sparse vector technique."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, shorten
from accountant.events.event import Event
from accountant.events.exponential_mechanism import ExponentialMechanism, PermuteAndFlip
from accountant.events.parameters import NoiseScale, Range, Scale
from accountant.events.priced import PricedAsAnother
from accountant.events.randomized_response import PureDP
from accountant.events.registry import register
from accountant.events.zero_concentrated import ZeroConcentratedDP

__all__ = ["ReportNoisyMax", "SparseVector"]


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

    The noise on the threshold is drawn once; every query gets Laplace noise of its own, and after `tops` answers
    "above" the stream ends. Answers "below" are free. With s the sensitivity,
    ``kappa = 2 * tops * s/query_scale``, or half of that if `monotone`:

    * Laplace noise on the threshold: pure DP at ``s/threshold_scale + kappa`` (Lyu, Su & Li 2017).
    * Gaussian noise on it: Rényi curve ``a s^2/(2 threshold_scale^2) + kappa`` (proof: notebooks/mathematics.md, Noisy
      comparisons; Zhu & Wang 2020 for other noise). It has no privacy profile.

    Gaussian noise on the queries has no price here: what is proven depends on how long the stream is. Nothing but
    "above" and "below" is released; a noisy value of a query is a release of its own, with fresh noise.

    Parameters
    ----------
    threshold_scale : float
        Scale of Laplace, or standard deviation of Gaussian, noise on the threshold; [1e-50, 1e50].
    query_scale : float
        Scale of the Laplace noise on every query; [1e-50, 1e50].
    tops : int
        Answers "above" after which the stream ends; [1, 1e9].
    sensitivity : float
        How far any query moves between neighbouring inputs; [1e-50, 1e50].
    monotone : bool
        Whether between neighbouring inputs no query falls where another rises.
    threshold_noise : {"laplace", "gaussian"}
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is out of range, or the pure-DP parameter is above 1e6.
    """

    threshold_scale: NoiseScale
    query_scale: Annotated[float, Range(1e-50, 1e50, usual=(0.5, 1e4))]
    tops: Annotated[int, Range(1, 1e9)] = 1
    sensitivity: Scale = 1.0
    monotone: bool = False
    threshold_noise: Literal["laplace", "gaussian"] = "laplace"
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("threshold_noise", self.threshold_noise, ("laplace", "gaussian"))
        _check_switch("monotone", self.monotone)
        self._price()

    @classmethod
    def examples(cls) -> tuple[SparseVector, ...]:
        return (cls(10.0, 20.0),)

    def _price(self) -> Event:
        shift = self.sensitivity / self.threshold_scale
        kappa = (1.0 if self.monotone else 2.0) * self.tops * self.sensitivity / self.query_scale
        if self.threshold_noise == "gaussian":
            return ZeroConcentratedDP(shift * shift / 2, kappa, self.adjacency)
        return PureDP(shift + kappa, self.adjacency)
