"""Samples of a fixed size, drawn without replacement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, ProfileUnavailable, SubsamplingError, shorten
from accountant.events.answers import AdditiveNoise, Triple
from accountant.events.drawn_gaussians import DrawnGaussians, log_expm1_ratio, mean_curve
from accountant.events.event import Event
from accountant.events.from_below import costs_less
from accountant.events.gaussian import Gaussian, GaussianLike
from accountant.events.parameters import Range
from accountant.events.randomized_response import PureDP
from accountant.events.registry import register
from accountant.events.subsampling import integral_work, renyi_from_profile
from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import INTEGRAL
from accountant.numerics.special import log_mixture_ratio

__all__ = ["DrawnGroup", "FixedSizeSampled", "refuse_other_records"]


@register("fixed-size-sampled")
@dataclass(frozen=True)
class FixedSizeSampled(Event):
    """An event run on a sample of `batch` distinct records, every such sample being equally likely.

    Under REPLACE, with g = batch / records and e^{e'} = 1 + g (e^e - 1), the profile at e' is at most g times that of
    the event at e, in both directions (Balle, Barthe & Gaboardi 2018, Thm 9), and no smaller bound holds for all events
    of this profile. The Rényi curve is the integral over that profile, for Gaussian noise and wherever the loss is
    bounded. Proof: notebooks/mathematics.md, Samples of a fixed size. The lower end of the price of several is that of
    data on which all other records are alike, which reach the profile in one direction (same, Prices from below). Of
    several of Gaussian noise both ends are those of a game (same, Runs of samples of a fixed size): from below the
    others contribute what the record or its replacement does, as an adversary sees fit on the way.

    Poisson samples of the same mean size are priced otherwise: this is not `PoissonSubsampled`. In plans `batch` and
    `records` beside ``event = "fixed-size-sampled"`` are these parameters, and mean no Poisson sample.

    Parameters
    ----------
    event : Event
        Under REPLACE: what it costs when one record of the sample is another. For DP-SGD, ``ac.ClippedSum(sigma, clip,
        adjacency="replace")``.
    batch : int
        Records in a sample; [1, records].
    records : int
        Records in all, which is public; [1, 1e12].

    Raises
    ------
    ParameterError
        A parameter is out of range, `event` is no event, or neither Gaussian noise nor of bounded loss with a profile.
    SubsamplingError
        `event` is not under REPLACE, or its curve depends on the data.
    """

    event: Event
    batch: Annotated[int, Range(1, 1e12)]
    records: Annotated[int, Range(1, 1e12)]
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.event, Event):
            raise ParameterError(f"event = {shorten(self.event)}; accepted: an event such as ClippedSum(sigma)")
        if self.batch > self.records:
            raise ParameterError(f"batch = {self.batch}; accepted: [1, {self.records}], the number of records")
        if self.event.adjacency is not Adjacency.REPLACE:
            raise SubsamplingError(
                f"{shorten(self.event)} is under {self.event.adjacency} adjacency: with a record more or less, all "
                "samples of a fixed size change, and nothing is proven; accepted: the event under replace adjacency"
            )
        if self.event.data_dependent or self.event.group_size > 1:
            raise SubsamplingError(f"{shorten(self.event)}; accepted: events for one record, whose cost is public")
        refuse_other_records(self.event, self.batch)
        bounded = float(self.event._curve(np.array([math.inf]))[0]) < math.inf
        single = bounded and not self.event.family and has_profile(self.event)
        if not isinstance(self.event, GaussianLike) and not single:
            raise ParameterError(
                f"{shorten(self.event)} has no proven curve in samples of a fixed size; accepted: Gaussian noise, or "
                "an event with a privacy profile and a bounded loss"
            )

    @classmethod
    def examples(cls) -> tuple[Event, ...]:
        from accountant.events.clipped_sum import ClippedSum
        from accountant.events.laplace import Laplace

        noise = ClippedSum(1.0, adjacency=Adjacency.REPLACE), Laplace(2.0, adjacency=Adjacency.REPLACE)
        return cls(noise[0], 10, 1000), cls(noise[1], 100, 1000)

    @property
    def _records(self) -> int:  # type: ignore[override]
        return self.records

    @property
    def rate(self) -> float:
        """Share of the records in a sample."""
        return self.batch / self.records

    @property
    def additive_noise(self) -> AdditiveNoise | None:
        return self.event.additive_noise

    def caveats(self) -> tuple[str, ...]:
        return (
            *self.event.caveats(),
            f"every step draws {self.batch} of {self.records} records anew, all samples equally likely, in secret",
        )

    def _ceiling(self) -> Event | None:
        return self.event

    def _triple(self) -> Triple | None:
        from accountant.events.clipped_sum import ClippedSum

        noise = self.event  # what is known to be Gaussian noise on vectors of which any two are this far apart
        if not isinstance(noise, Gaussian | ClippedSum):
            return None
        return Triple(noise._mu(), self.rate, isinstance(noise, ClippedSum))

    def _curve_work(self, rate: float = 1.0) -> float:
        if isinstance(self.event, GaussianLike):
            return INTEGRAL if self.rate < 1.0 else 0.0
        return integral_work(self)

    def _profile_work(self) -> float:
        return self.event._profile_work() + 100.0

    def _call_work(self) -> float:
        return self.event._call_work()

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = self._log_height(epsilons)
        return both, both

    def _log_height(self, epsilons: FloatArray) -> FloatArray:
        """log( g H(e) ), H the worse direction of the event's profile."""
        inner = log_mixture_ratio(1 / self.rate, epsilons) if self.rate < 1.0 else epsilons
        height: FloatArray = math.log(self.rate) + np.maximum(*self.event._log_profile(inner))
        return height

    def _certain(self, times: int = 1) -> Event:
        """All other records are alike: alone in a run the profile is reached; else one pair in the same direction."""
        if costs_less(self.event):
            least = self.event._certain(2)
            return PureDP(0.0, self.adjacency) if least.between_bounds else ReplacedInSample(least, self.rate, self)
        return self if times == 0 or self.rate == 1.0 else ReplacedInSample(self.event, self.rate, self)

    def _profile_knots(self) -> tuple[float, ...]:
        knots = np.asarray(self.event._profile_knots(), dtype=float)
        return tuple(log_mixture_ratio(self.rate, knots).tolist()) if knots.size else ()

    def _curve(self, orders: FloatArray) -> FloatArray:
        own = self.event._curve(orders)
        if self.rate == 1.0:
            return own
        limit = float(self.event._curve(np.array([math.inf]))[0])
        end = float(log_mixture_ratio(self.rate, np.array([limit]))[0]) if limit < math.inf else math.inf
        finite = np.isfinite(orders)
        curve = np.where(finite, own, end)
        if finite.any() and limit > 0.0:
            gaussian = isinstance(self.event, GaussianLike)
            found = mean_curve(self._drawn(), orders[finite]) if gaussian else renyi_from_profile(self, orders[finite])
            curve[finite] = np.minimum(found, own[finite])
        return np.minimum(curve, end)

    def _drawn(self) -> DrawnGaussians:
        """For Gaussian noise."""
        mu = self.event._mu()  # type: ignore[attr-defined]  # of GaussianLike
        return DrawnGaussians(self.rate, (0.0,), (mu,), (False,))


@dataclass(frozen=True)
class DrawnGroup(FixedSizeSampled):
    """A group of which the draws are, and which is in the sample with probability `share`.

    Where it is `rare`, the direction of the smaller moment is bounded by a profile of 1, and without Gaussian noise
    both are (`log_mean_of_rare`).
    """

    share: float = 1.0
    rare: bool = False

    @property
    def rate(self) -> float:
        return self.share

    def _drawn(self) -> DrawnGaussians:
        return super()._drawn()._replace(rare=(self.rare,))

    def _log_mean(self, orders: FloatArray) -> FloatArray:
        """log of (e^{bD} - 1)/b, D its curve and b = order - 1."""
        b = orders - 1.0
        if self.rare and not isinstance(self.event, GaussianLike):
            return log_mean_of_rare(self.rate, orders, self.event._curve(orders))
        return log_expm1_ratio(b, self._curve(orders))


@dataclass(frozen=True)
class ReplacedInSample(Event):
    """An event whose record is replaced, if it is drawn, by one that is like all others: a mixture against one half of
    a pair (notebooks/mathematics.md, Prices from below).
    """

    event: Event
    rate: float
    above: Event
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.above._curve(orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.above._curve_work(rate)

    def _profile_work(self) -> float:
        return 2 * self.event._profile_work() + 100.0

    def _call_work(self) -> float:
        return 2 * self.event._call_work()

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.rate == 1.0:
            return self.event._log_profile(epsilons)
        return Event._subsampled_log_profile(self.event, self.rate, epsilons)


def log_mean_of_rare(rate: float, orders: FloatArray, own: FloatArray) -> FloatArray:
    """A bound on the log of (e^{bD} - 1)/b from the curves `own` without a sample.

    The a-norm of 1 - g + g L is at most 1 - g + g e^{b own/a} (Minkowski). The other direction's moment is no larger,
    and at most 1 (notebooks/mathematics.md, Samples with replacement).
    """
    b = orders - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        curve = np.where(b > 0.0, orders * log_mixture_ratio(rate, b * own / orders) / b, rate * own)
    forward = log_expm1_ratio(b, curve)
    return np.asarray(np.logaddexp(forward, np.minimum(forward, math.log(rate))))


def refuse_other_records(event: Event, sample: int) -> None:
    """Raise SubsamplingError where an event is priced for another number of records than a sample has."""
    if event._records not in (None, sample):
        raise SubsamplingError(
            f"{shorten(event)} is priced for {event._records} records, and a sample has {sample}; "
            f"accepted: samples of {event._records}"
        )


def has_profile(event: Event) -> bool:
    """Whether a single pair of distributions is known by its profile."""
    try:
        event.profile(0.0)
    except ProfileUnavailable:
        return False
    return True
