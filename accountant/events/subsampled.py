"""Poisson subsampling of any event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np

from accountant.adjacency import Adjacency, Direction
from accountant.errors import ParameterError, real
from accountant.events.answers import SAMPLED_GAUSSIAN, AdditiveNoise, Choices, GivenFinite, Row, linear_row
from accountant.events.event import Event
from accountant.events.few_losses import BothOutcomes
from accountant.events.from_below import costs_less
from accountant.events.joint_pairs import JointSketch, joint_pair
from accountant.events.randomized_response import PureDP
from accountant.events.subsampled_gaussian import subsampled_gaussian_curves
from accountant.events.subsampling import refuse_subsampling
from accountant.numerics.exact import SPARE, round_up
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_mixture_ratio

__all__ = ["PoissonSubsampled"]


@dataclass(frozen=True)
class PoissonSubsampled(Event):
    """An event run on a Poisson sample: every record takes part independently with probability `rate`.

    Gaussian noise and noisy screening are exact for every real order (see there). Any other event gets the
    sharper of the generic bound from its curve (Steinke 2022, Thm 29) and the exact integral over its
    privacy profile (notebooks/mathematics.md, Rényi curve of a profile). Rate 0 is free; rate 1 is the event
    itself. A sample of a sample is a sample at the product of the rates.

    Parameters
    ----------
    event : Event
        Any data-independent event under add-remove adjacency; under replace adjacency a `ClippedSum`.
    rate : float
        Sampling probability; 0, or [1e-15, 1].

    Raises
    ------
    ParameterError
        `event` is not an event, or `rate` is not a number or out of range.
    SubsamplingError
        The event's adjacency is REPLACE and it does not say what one record adds, or its curve depends on the data.
    """

    event: Event
    rate: float
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = real("rate", self.rate, 0.0, 1.0)
        if not isinstance(self.event, Event):
            raise ParameterError(f"event = {self.event!r}; accepted: an event such as Gaussian(sigma)")
        object.__setattr__(self, "adjacency", self.event.adjacency)
        refuse_subsampling(self.event)
        if isinstance(self.event, PoissonSubsampled):
            rate *= self.event.rate
            object.__setattr__(self, "event", self.event.event)
        if 0.0 < rate < 1e-15:
            raise ParameterError(f"rate = {rate:g} is out of range; accepted: 0, or [1e-15, 1]")
        object.__setattr__(self, "rate", rate)

    @property
    def sampling_rate(self) -> float:
        return self.rate

    @property
    def unsampled(self) -> Event:
        return self.event

    @property
    def additive_noise(self) -> AdditiveNoise | None:
        return self.event.additive_noise

    def _choices(self, rate: float = 1.0) -> Choices | None:
        return self.event._choices(rate * self.rate) if self.rate > 0.0 else None

    def _row(self, rate: float = 1.0) -> Row | None:
        return self.event._row(rate * self.rate) if self.rate > 0.0 else linear_row(0.0)

    def _given_finite(self) -> GivenFinite | None:
        return self.event._subsampled_given_finite(self.rate) if 0.0 < self.rate < 1.0 else None

    def _few_losses(self, times: int, rate: float = 1.0) -> BothOutcomes | None:
        return self.event._few_losses(times, rate * self.rate) if rate * self.rate > 0.0 else None

    def _largest_loss(self) -> Fraction | float:
        if self.rate in (0.0, 1.0):
            return self.event._largest_loss() if self.rate else 0.0
        own = self.event._largest_loss()
        if own == math.inf:
            return math.inf
        if not isinstance(own, Fraction):
            return super()._largest_loss()
        # of a loss that is a rational number only a few operations are rounded; the curve's is of rounded parameters
        mixed = float(log_mixture_ratio(self.rate, np.array([round_up(own)]))[0])
        return max(mixed, float(self.renyi(math.inf))) * SPARE

    def caveats(self) -> tuple[str, ...]:
        return self.event.caveats()

    def to_table(self, *, own: bool = False) -> dict[str, Any]:
        return {**self.event.to_table(own=own), "sampling_rate": self.rate}

    def _certain(self, times: int = 1) -> Event:
        """A sample of what costs no more, if that is a single pair."""
        if self.rate == 1.0:
            own = self.event._certain(times)
            return self if own is self.event else own
        if self.rate == 0.0 or self.event.between_bounds or not costs_less(self.event):
            return self
        least = self.event._certain(max(times, 1))
        rare = self.rate * least.sampling_rate < 1e-15
        return PureDP(0.0, self.adjacency) if rare or least.between_bounds else PoissonSubsampled(least, self.rate)

    @property
    def family(self) -> bool:  # type: ignore[override]  # as the event underneath
        return self.event.family

    @property
    def _profile_error(self) -> float:  # type: ignore[override]  # as the event underneath
        return self.event._profile_error

    @property
    def between_bounds(self) -> bool:  # type: ignore[override]  # as the event underneath, or many coordinates
        return self.event.between_bounds or self._by_sum

    @property
    def _by_sum(self) -> bool:
        """Whether many coordinates share the sample, and no profile of them is known."""
        return 0.0 < self.rate < 1.0 and self.event._summed

    @property
    def _has_surrogates(self) -> bool:  # type: ignore[override]
        return self._by_sum or (self.rate == 1.0 and self.event._has_surrogates)

    def _sketch(self) -> Event:
        return JointSketch(self.event, self.rate) if self._summable else self

    @property
    def _summable(self) -> bool:
        return 0.0 < self.rate < 1.0 and self.event._lattice(1.0, 1) is not None

    def _surrogates(
        self, direction: Direction, step: float, log_lost: float, sign: int
    ) -> list[tuple[Event, int]] | None:
        if self.rate == 1.0:
            return self.event._surrogates(direction, step, log_lost, sign)
        if not self._summable:
            return None
        return [(joint_pair(self.event, self.rate, step, log_lost, sign), 1)]

    @classmethod
    def _gathered(cls, events: Sequence[Self]) -> tuple[list[Self], FloatArray]:
        # Gaussian-like events, which are many in practice, go through one call; the rest one by one
        return list(events), np.array([event._plain_parameters() for event in events])

    @classmethod
    def _curves(cls, gathered: tuple[list[Self], FloatArray], orders: FloatArray) -> FloatArray:
        events, rows = gathered
        curves = np.empty((len(events), orders.size))
        plain = (rows[:, 0] > 0) & bool(np.isfinite(orders).all())
        if plain.any():
            together = np.empty((int(plain.sum()), orders.size))
            subsampled_gaussian_curves(rows[plain], orders, together)
            curves[plain] = together
        for i in np.flatnonzero(~plain).tolist():
            curves[i] = events[i]._curve(orders)
        return curves

    def _plain_parameters(self) -> tuple[float, float]:
        """(mu, rate) of a sampled Gaussian-like event, (0, 0) for any other."""
        row = self.event._row(self.rate) if 0.0 < self.rate < 1.0 else None
        return (row.mu, row.rate) if row is not None and row.kind == SAMPLED_GAUSSIAN else (0.0, 0.0)

    def _curve(self, orders: FloatArray) -> FloatArray:
        if self.rate == 0.0:
            return np.zeros_like(orders)
        if self.rate == 1.0:
            return self.event._curve(orders)
        finite = np.isfinite(orders)
        curve = np.empty_like(orders)
        curve[finite] = self.event._subsampled_curve(self.rate, orders[finite])
        if not finite.all():
            # the largest log-ratio of the mixture to the other law
            end = self.event._curve(np.array([math.inf]))
            curve[~finite] = log_mixture_ratio(self.rate, end)[0] if end[0] < math.inf else math.inf
        return curve

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.rate == 0.0:
            nothing = np.full_like(epsilons, -math.inf)
            return nothing, nothing
        if self.rate == 1.0:
            return self.event._log_profile(epsilons)
        return self.event._subsampled_log_profile(self.rate, epsilons)

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.event._curve_work(rate * self.rate)

    def _profile_work(self) -> float:
        # two values of the event's own, unless it knows its sampled profile
        return (0.0 if self._by_sum else 2 * self.event._profile_work()) + 100.0

    def _call_work(self) -> float:
        return 0.0 if self._by_sum else 2 * self.event._call_work()

    def _profile_knots(self) -> tuple[float, ...]:
        knots = np.asarray(self.event._profile_knots(), dtype=float)
        if self.rate in (0.0, 1.0) or knots.size == 0:
            return tuple(knots)
        both = np.concatenate([log_mixture_ratio(self.rate, knots), -log_mixture_ratio(self.rate, -knots)])
        end = self.event._curve(np.array([math.inf]))
        return (*both.tolist(), *(-log_mixture_ratio(self.rate, -end)).tolist())
