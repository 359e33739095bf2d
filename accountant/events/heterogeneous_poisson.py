"""Poisson samples in which records have rates of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, SubsamplingError, integer, shorten
from accountant.events.answers import AdditiveNoise
from accountant.events.event import Event
from accountant.events.gaussian import Gaussian
from accountant.events.laplace import Laplace
from accountant.events.parameters import numbers_of
from accountant.events.priced import PricedAsAnother
from accountant.events.registry import register
from accountant.events.subsampled import PoissonSubsampled

__all__ = ["HeterogeneousPoisson"]

MOST_GROUPS = 100_000


@register("heterogeneous-poisson")
@dataclass(frozen=True)
class HeterogeneousPoisson(PricedAsAnother):
    """An event run on a Poisson sample to which every record comes at the rate of its group, independently.

    The guarantee for everybody is that of the largest rate; a record of group i pays what `of_group` says, and
    `epsilons_by_group` prices whole runs so (the mixture of Balle, Barthe & Gaboardi 2018 for each record; proof:
    notebooks/mathematics.md, Rates per record). Rates are public, and
    chosen without looking at the records; under replace adjacency a record is replaced by one of the same group.

    Parameters
    ----------
    event : Event
        As for `PoissonSubsampled`, and not sampled itself.
    rates : sequence of float
        The rate of each group of records; 1 to 100 000 numbers, each 0 or in [1e-15, 1]. Two may be equal, so that
        group i is the same records in several events.

    Raises
    ------
    ParameterError
        `event` is not an event, or a rate is out of range.
    SubsamplingError
        The event is sampled, or cannot be (see `PoissonSubsampled`).
    """

    _never_sampled: ClassVar[str] = "has drawn its own sample; accepted: it alone, at rates of its own"

    event: Event
    rates: tuple[float, ...]
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)
    _largest: PoissonSubsampled = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rates", numbers_of("rates", self.rates, 1.0, MOST_GROUPS, least=1e-15))
        if not isinstance(self.event, Event):
            raise ParameterError(f"event = {shorten(self.event)}; accepted: an event such as Gaussian(sigma)")
        if self.event.unsampled is not self.event and not self.event._never_sampled:
            raise SubsamplingError(
                f"event = {shorten(self.event)} is sampled; accepted: the event within, at all rates"
            )
        object.__setattr__(self, "_largest", PoissonSubsampled(self.event, max(self.rates)))
        object.__setattr__(self, "adjacency", self.event.adjacency)

    @classmethod
    def examples(cls) -> tuple[HeterogeneousPoisson, ...]:
        return cls(Gaussian(1.0), (0.001, 0.02)), cls(Laplace(2.0), (0.5, 0.1, 0.0))

    def of_group(self, group: int) -> PoissonSubsampled:
        """What a record of a group, numbered from 0, pays.

        Raises
        ------
        ParameterError
            There is no such group.
        """
        return PoissonSubsampled(self.event, self.rates[integer("group", group, 0, len(self.rates) - 1)])

    def by_group(self) -> tuple[Event, ...]:
        """What a record of each group pays."""
        sampled = {rate: PoissonSubsampled(self.event, rate) for rate in set(self.rates)}
        return tuple(sampled[rate] for rate in self.rates)

    @property
    def sampling_rate(self) -> float:
        return self._largest.rate

    @property
    def unsampled(self) -> Event:
        return self.event

    @property
    def additive_noise(self) -> AdditiveNoise | None:
        return self.event.additive_noise

    def caveats(self) -> tuple[str, ...]:
        low, high = min(self.rates), max(self.rates)
        return (
            *self.event.caveats(),
            f"every record joins by itself at the public rate of its group, {low:g} to {high:g}, and who joined stays "
            "secret",
        )

    @property
    def _amplified(self) -> bool:
        return False

    @property
    def _has_surrogates(self) -> bool:  # type: ignore[override]
        return self._price()._has_surrogates

    def _price(self) -> Event:
        return self._largest
