"""A guarantee, with everything that is needed to state it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from accountant.adjacency import Adjacency
from accountant.errors import DataDependentError

__all__ = ["Guarantee", "format_down", "format_up"]


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta)-DP guarantee and how it was found.

    Attributes
    ----------
    epsilon, delta : float
        Both upper bounds.
    adjacency : Adjacency or None
        The neighbouring relation it holds for; None for an empty composition, which holds for all.
    method : str
        Route that was taken: "renyi" or "tight".
    conversion : str or None
        How the Rényi bound became epsilon: "improved", "classic" or "optimal"; None on the tight route.
    order : float or None
        The Rényi order used; inf when the pure-DP limit was the smallest; None on the tight route.
    order_at_edge : bool
        Whether that order lay at an end of the searched range, so that a better one may exist.
    lower : float or None
        Certified lower end of what was asked for, epsilon or delta, where the method gives one: the truth lies
        between it and the upper bound.
    source : str or None
        What a tight number was computed by: a closed form, a privacy-loss distribution, a dynamic programme.
    data_dependent : bool
        Whether the number is itself a function of private data. Such a guarantee prints so; `as_dict`, pickling
        and ``--json`` refuse it.
    odometer : bool
        Whether the run's releases were counted afterwards instead of being limited before: then this is a
        reading of what was spent, not a guarantee that was fixed in advance.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency | None
    method: str
    conversion: str | None
    order: float | None
    order_at_edge: bool = False
    lower: float | None = None
    source: str | None = None
    data_dependent: bool = False
    odometer: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON.

        Raises
        ------
        DataDependentError
            The guarantee depends on private data.
        """
        self._refuse_export()
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["adjacency"] = str(self.adjacency) if self.adjacency else None
        return values

    def __reduce__(self) -> Any:
        self._refuse_export()
        return super().__reduce__()

    def _refuse_export(self) -> None:
        if self.data_dependent:
            raise DataDependentError(
                "this epsilon depends on private data, so publishing it leaks; "
                "export a data-independent guarantee, or release this one through smooth sensitivity"
            )

    def __str__(self) -> str:
        text = (
            f"({format_up(self.epsilon)}, {format_up(self.delta)})-DP under {self.adjacency or 'any'} adjacency "
            f"({self.method}, {self._how()})"
        )
        text += " [odometer reading: not fixed before the run]" if self.odometer else ""
        return text + (" [depends on private data: do not publish]" if self.data_dependent else "")

    def _how(self) -> str:
        if self.order is None:
            return f"{self.source}, certified from below at {format_down(self.lower or 0.0)}"
        order = "the pure-DP limit" if math.isinf(self.order) else f"order {_order(self.order)}"
        edge = ", at the edge of the searched range" if self.order_at_edge else ""
        return f"{self.conversion} conversion, {order}{edge}"


def _order(order: float) -> str:
    """An order, so that one next to 1 is told from 1."""
    return f"{order:.6g}" if order - 1 >= 1e-4 else f"1 + {order - 1:.3g}"


def format_up(value: float, digits: int = 6) -> str:
    """`value` to so many significant digits, rounded away from zero so that it stays an upper bound."""
    from decimal import ROUND_CEILING

    return _round(value, digits, ROUND_CEILING)


def format_down(value: float, digits: int = 6) -> str:
    """`value` to so many significant digits, rounded towards zero so that it stays a lower bound."""
    from decimal import ROUND_FLOOR

    return _round(value, digits, ROUND_FLOOR)


def _round(value: float, digits: int, direction: str) -> str:
    from decimal import Decimal

    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exact = Decimal(value)
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    # a value that differs from a short decimal only by floating-point noise is that decimal
    short = Decimal(repr(value))
    chosen = (short if len(short.as_tuple().digits) <= digits else exact).quantize(unit, direction)
    return f"{float(chosen):.{digits}g}"
