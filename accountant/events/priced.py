"""Events whose price is that of another event."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from accountant.adjacency import Direction
from accountant.errors import ParameterError
from accountant.events.answers import Choices, GivenFinite, GroupLine, Row, Summand
from accountant.events.event import Event
from accountant.events.few_losses import BothOutcomes
from accountant.numerics.kernel import FloatArray

if TYPE_CHECKING:
    from accountant.guarantee import Guarantee

__all__ = ["PricedAlone", "PricedAsAnother", "PricedAsSeveral"]


class PricedAlone(Event):
    """Events of which a single release may have a smaller price than their curve gives; compositions use the curve."""

    @abstractmethod
    def _alone(self, delta: float) -> Guarantee | None:
        """A guarantee of one release at delta in [0, 1); None where there is none."""


class PricedAsSeveral(Event):
    """Events of which some are, to the last bit of what they tell, several releases of another event."""

    @abstractmethod
    def _several(self) -> tuple[Event, int]:
        """The other event and how often it is released; of others the event itself, once."""


class PricedAsAnother(Event):
    """Events that answer what another event, `_price`, does, to everything that prices ask."""

    @abstractmethod
    def _price(self) -> Event:
        """The other event, under the same adjacency."""

    def _refuse_out_of_range(self, name: str) -> None:
        """Raise ParameterError where the other event cannot be made; `name` is the parameter that is too far out."""
        try:
            self._price()
        except ParameterError as error:
            raise ParameterError(f"{name} = {getattr(self, name):g}: as one release its {error}") from None

    @property
    def family(self) -> bool:  # type: ignore[override]  # as the other event
        return self._price().family

    @property
    def between_bounds(self) -> bool:  # type: ignore[override]  # as the other event
        return self._price().between_bounds

    @property
    def _profile_error(self) -> float:  # type: ignore[override]  # as the other event
        return self._price()._profile_error

    @property
    def _largest_finite_loss(self) -> float:  # type: ignore[override]  # as the other event
        return self._price()._largest_finite_loss

    def _surrogates(
        self, direction: Direction, step: float, log_lost: float, sign: int
    ) -> list[tuple[Event, int]] | None:
        return self._price()._surrogates(direction, step, log_lost, sign)

    def _certain(self, times: int = 1) -> Event:
        other = self._price()
        certain = other._certain(times)
        return self if certain is other else certain

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._price()._curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._price()._log_profile(epsilons)

    def _profile_knots(self) -> Sequence[float]:
        return self._price()._profile_knots()

    def _curve_work(self, rate: float = 1.0) -> float:
        return self._price()._curve_work(rate)

    def _profile_work(self) -> float:
        return self._price()._profile_work()

    def _call_work(self) -> float:
        return self._price()._call_work()

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        return self._price()._subsampled_curve(rate, orders)

    def _subsampled_log_profile(self, rate: float, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._price()._subsampled_log_profile(rate, epsilons)

    def _subsampled_given_finite(self, rate: float) -> GivenFinite | None:
        return self._price()._subsampled_given_finite(rate)

    def _largest_loss(self) -> Fraction | float:
        return self._price()._largest_loss()

    @property
    def _amplified(self) -> bool:
        return self._price()._amplified

    def _choices(self, rate: float = 1.0) -> Choices | None:
        return self._price()._choices(rate)

    def _row(self, rate: float = 1.0) -> Row | None:
        return self._price()._row(rate)

    def _summand(self) -> Summand | None:
        return self._price()._summand()

    def _few_losses(self, times: int, rate: float = 1.0) -> BothOutcomes | None:
        return self._price()._few_losses(times, rate)

    def _given_finite(self) -> GivenFinite | None:
        return self._price()._given_finite()

    def _group(self, size: int) -> Event | None:
        return self._price()._group(size)

    def _line(self) -> GroupLine | None:
        return self._price()._line()

    @property
    def _coordinates(self) -> int:
        return self._price()._coordinates

    def _with_coordinates(self, count: int) -> Event:
        return self._price()._with_coordinates(count)

    @property
    def _block(self) -> int:
        return self._price()._block
