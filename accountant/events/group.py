"""Groups: what a release costs an individual who holds several of its records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, shorten
from accountant.events.answers import AdditiveNoise
from accountant.events.discrete_laplace import DiscreteLaplace
from accountant.events.event import Event
from accountant.events.from_below import costs_less
from accountant.events.parameters import Range
from accountant.events.priced import PricedAsAnother
from accountant.events.sampled_groups import SampledGaussianGroup, SampledGeometricGroup
from accountant.events.screening_groups import ScreeningGroup
from accountant.numerics.exact import round_down

__all__ = ["Group"]


@dataclass(frozen=True)
class Group(PricedAsAnother):
    """A release as an individual meets it who holds up to `size` of its records: user-level privacy.

    All of these records are added or removed together (ADD_REMOVE), or all replaced (REPLACE). The price is exact for
    what is known of the event:

    * Gaussian noise in any form: mu becomes size * mu (Dong, Roth & Su 2022, Thm 2.14). Laplace and discrete noise:
      every entry moves size times as far (all records move the same entries).
    * Poisson-sampled Gaussian noise: each record is drawn by itself, so the sensitivity is that of a binomial number of
      records, a `MixtureOfGaussians` (Schuchardt et al. 2024; proof: notebooks/mathematics.md, Groups).
    * Randomized response: size times as many bits. Exponential mechanism: size times the range of losses.
    * Pure and approximate DP: the trade-off function of the dominating pair composed with itself (Dong, Roth & Su 2022,
      Thm 2.14). For epsilon-DP that is discrete Laplace noise of scale 1/epsilon that moves by `size`, also Poisson-
      sampled: cheaper than (size * epsilon)-DP, whose pair no chain of epsilon-DP neighbours reaches.
    * zCDP: size^2 rho (Bun & Steinke 2016, Prop. 1.9).
    * Noisy screening, sampled or not: the count moves by at most as many votes as records join, and no further than
      its limits (proof: notebooks/mathematics.md, Groups).

    Of events that are themselves priced by a bound the lower end of a price is what one of the records costs at least.
    Any other event is refused: nothing is proven. Groups of sampled records come after sampling:
    ``ac.Group(ac.PoissonSubsampled(event, rate), size)``.

    Parameters
    ----------
    event : Event
    size : int
        Records of one individual; [1, 1e6], for Poisson samples of Gaussian noise at most 1000.

    Raises
    ------
    ParameterError
        `event` is not an event, has no proven price for a group, or `size` is out of range.
    """

    event: Event
    size: Annotated[int, Range(1, 1e6)]
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)
    _priced: Event = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.event, Event):
            raise ParameterError(f"event = {shorten(self.event)}; accepted: an event such as Gaussian(sigma)")
        if isinstance(self.event, Group):
            raise ParameterError(f"event = {shorten(self.event)}; accepted: one Group, of the product of the sizes")
        object.__setattr__(self, "adjacency", self.event.adjacency)
        object.__setattr__(self, "_priced", self.event if self.size == 1 else price_of_group(self.event, self.size))

    @property
    def group_size(self) -> int:
        return self.size

    @property
    def _records(self) -> int | None:  # type: ignore[override]  # as the event underneath
        return self.event._records

    @property
    def data_dependent(self) -> bool:  # type: ignore[override]  # as the event underneath
        return self._priced.data_dependent

    @property
    def additive_noise(self) -> AdditiveNoise | None:
        return self.event.additive_noise

    def caveats(self) -> tuple[str, ...]:
        rate = self.event.sampling_rate
        drawn = (f"every record joins at rate {rate:g} by itself, and who joined stays secret",) if rate < 1.0 else ()
        return (*self.event.caveats(), f"nobody holds more than {self.size} records", *drawn)

    def to_table(self, *, own: bool = False) -> dict[str, Any]:
        return {**self.event.to_table(own=own), "group_size": self.size}

    def _price(self) -> Event:
        return self._priced

    def _certain(self, times: int = 1) -> Event:
        # what one of the records costs, where that is known by a bound
        bounded = self.size > 1 and costs_less(self.event) and not costs_less(self._priced)
        return self.event._certain(times) if bounded else super()._certain(times)

    @property
    def _amplified(self) -> bool:
        return False


def price_of_group(event: Event, size: int) -> Event:
    """The event that prices `size` > 1 records; ParameterError where nothing is proven."""
    plain, rate = event.unsampled, event.sampling_rate
    if rate == 0.0 or float(plain._curve(np.array([math.inf]))[0]) == 0.0:
        return event
    priced = group_of_all(plain, size) if rate == 1.0 else sampled_group(plain, rate, size)
    if priced is None:
        raise ParameterError(
            f"{shorten(event)} has no proven price for a group; accepted: Gaussian, Laplace and discrete noise, "
            "randomized response, exponential mechanism, noisy screening, pure and approximate DP, zCDP, and Poisson-"
            "sampled Gaussian noise, noisy screening, discrete Laplace noise or pure DP under add-remove adjacency"
        )
    return priced


def group_of_all(event: Event, size: int) -> Event | None:
    if event._screening() is not None:
        return screening_group(event, 1.0, size)
    line = None if isinstance(event, DiscreteLaplace) else event._line()
    if line is not None and line.family == "geometric":
        scale = round_down(1 / Fraction(line.fall))
        return DiscreteLaplace(scale, size * int(line.step), adjacency=event.adjacency)
    return event._group(size)


def screening_group(event: Event, rate: float, size: int) -> Event | None:
    """Of a screening whose price looks at all counts; one count that was seen says nothing of others."""
    screening = None if event.data_dependent else event._screening()
    return None if screening is None else ScreeningGroup(*screening, size, rate, event.adjacency)


def sampled_group(event: Event, rate: float, size: int) -> Event | None:
    if event._screening() is not None:
        return screening_group(event, rate, size)
    line = event._line()
    if line is None or event.adjacency is not Adjacency.ADD_REMOVE:
        return None
    if line.family == "gaussian":
        return SampledGaussianGroup(line.step, rate, size)
    return SampledGeometricGroup(line.fall, int(line.step), rate, size)
