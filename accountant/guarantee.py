"""A guarantee, with everything that is needed to state it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from html import escape
from typing import Any

from accountant.adjacency import Adjacency, as_adjacency
from accountant.errors import AdjacencyMismatch, DataDependentError, ParameterError, real, shorten
from accountant.numerics.decimals import format_down, format_exact, format_up
from accountant.numerics.roots import Interval

__all__ = ["BETWEEN_BOUNDS", "Guarantee", "format_down", "format_up", "html_table", "interval_of"]

BETWEEN_BOUNDS = "known between two bounds only"
"""How the reason ends for which an interval is wider than the tolerance."""


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
        between it and the upper bound. Some data, or an attacker, cost so much; 0 where none that do are known. Events
        that say so are priced as another release of which theirs is a function, or as their dominating pair (`GNMax`,
        `LNMax`, `Shuffled`): the truth that is meant is then that of this release.
    source : str or None
        What a tight number was computed by: a closed form, a privacy-loss distribution, a dynamic programme; and where
        its interval is wider than the tolerance, which events are known between two bounds only; that alone beside a
        Rényi number with a lower end.
    data_dependent : bool
        Whether the number is itself a function of private data. Such a guarantee prints so; `as_dict`, pickling
        and ``--json`` refuse it.
    odometer : bool
        Whether the run's releases were counted afterwards instead of being limited before: then this is a
        reading of what was spent, not a guarantee that was fixed in advance.

    Guarantees of one adjacency and one delta are ordered by epsilon, ``<`` being the stronger; other pairs are refused,
    as their order would depend on more than these two numbers. `implies` compares any two.
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

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Guarantee:
        """The guarantee of which `as_dict` made plain values, also after JSON.

        Raises
        ------
        ParameterError
            A value is missing, unknown or out of range.
        """
        known = {field.name: field for field in fields(cls)}
        if not isinstance(values, Mapping) or not set(values) <= set(known):
            raise ParameterError(f"guarantee = {shorten(values)}; accepted: a mapping with keys {', '.join(known)}")
        missing = [name for name, field in known.items() if field.default is MISSING and name not in values]
        if missing:
            raise ParameterError(f"guarantee without {', '.join(missing)}; accepted: what Guarantee.as_dict returns")
        read = dict(values)
        for name, high in (("epsilon", math.inf), ("delta", 1.0), ("lower", math.inf), ("order", math.inf)):
            if read.get(name) is not None or name in ("epsilon", "delta"):
                number = float(read[name]) if read[name] == "inf" else read[name]  # as JSON has it
                read[name] = real(name, number, 0.0, high)
        for name in ("order_at_edge", "data_dependent", "odometer"):
            if not isinstance(read.get(name, False), bool):
                raise ParameterError(f"{name} = {shorten(read[name])}; accepted: true or false")
        for name in ("method", "conversion", "source"):
            if not isinstance(read.get(name), str) and (name == "method" or read.get(name) is not None):
                raise ParameterError(f"{name} = {shorten(read[name])}; accepted: text")
        read["adjacency"] = None if read["adjacency"] is None else as_adjacency(read["adjacency"])
        return cls(**read)

    def implies(self, other: Guarantee) -> bool:
        """Whether this guarantee says at least as much as another: no number is larger, and the adjacency is the same.

        P(S) <= e^epsilon Q(S) + delta stays true when epsilon or delta grows, so this holds whatever the routes were.
        False does not mean that the run behind is worse: at another delta it may have another epsilon. What an empty
        composition promises holds under every adjacency. A reading of an odometer implies none but readings, and what
        depends on private data, which holds for these data alone, none but its like.
        """
        if self.adjacency is not None and self.adjacency is not other.adjacency:
            return False
        if (self.odometer and not other.odometer) or (self.data_dependent and not other.data_dependent):
            return False
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def __lt__(self, other: Guarantee) -> bool:
        self._refuse_order(other)
        return self.epsilon < other.epsilon

    def __le__(self, other: Guarantee) -> bool:
        self._refuse_order(other)
        return self.epsilon <= other.epsilon

    def _refuse_order(self, other: object) -> None:
        if not isinstance(other, Guarantee):
            raise TypeError(f"{shorten(other)} beside a guarantee; accepted: another guarantee, or its .epsilon")
        if self.adjacency is not other.adjacency:
            raise AdjacencyMismatch(
                f"{self.adjacency} and {other.adjacency}: guarantees of different adjacency protect different things"
            )
        if self.delta != other.delta or self.odometer is not other.odometer:
            raise ParameterError(
                f"guarantees at delta = {self.delta:g} and {other.delta:g} have no order; accepted: one delta "
                "for both, neither or both read from an odometer; or a.implies(b)"
            )

    def rows(self) -> list[tuple[str, str]]:
        """What it says, as pairs of a name and a text."""
        lower = [("certified from below", format_down(self.lower))] if self.lower is not None else []
        found = [
            ("epsilon", format_up(self.epsilon)),
            *lower,
            ("delta", format_up(self.delta)),
            ("adjacency", str(self.adjacency or "any")),
            ("method", f"{self.method}, {self.source if self.order is None else self._how()}"),
        ]
        return [*found, *(("caution", text) for text in self._cautions())]

    def _repr_html_(self) -> str:
        return html_table(self.rows())

    def __reduce__(self) -> Any:
        self._refuse_export()
        return super().__reduce__()

    def _refuse_export(self) -> None:
        if self.data_dependent:
            raise DataDependentError(
                "this epsilon depends on private data, so publishing it leaks; "
                "accepted: a guarantee that does not depend on the data, such as the price of NoisyScreening or GNMax"
            )

    def __str__(self) -> str:
        text = (
            f"({format_up(self.epsilon)}, {format_up(self.delta)})-DP under {self.adjacency or 'any'} adjacency "
            f"({self.method}, {self._how()})"
        )
        return text + "".join(f" [{caution}]" for caution in self._cautions())

    def __format__(self, spec: str) -> str:
        if spec:
            raise TypeError(f"format = {spec!r} of a guarantee; accepted: none, or that of its .epsilon or .delta")
        return str(self)

    def _cautions(self) -> list[str]:
        odometer = ["odometer reading: not fixed before the run"] if self.odometer else []
        return odometer + (["depends on private data: do not publish"] if self.data_dependent else [])

    def _how(self) -> str:
        below = "" if self.lower is None else f", certified from below at {format_down(self.lower)}"
        if self.order is None:
            return f"{self.source}{below}"
        order = "the pure-DP limit" if math.isinf(self.order) else f"order {_order(self.order)}"
        edge = ", at the edge of the searched range" if self.order_at_edge else ""
        reason = "" if self.source is None else f"; {self.source}"
        return f"{self.conversion} conversion, {order}{edge}{reason}{below}"

    def heading(self, asked: str = "epsilon") -> str:
        """What is quoted, in a line: both upper ends, and by which route; beside it the lower end of what was asked."""
        low = "" if self.lower is None else f"; {asked} is at least {format_down(self.lower)}"
        # what was given is not rounded: the lower end holds there
        ends = {name: format_up if name == asked else format_exact for name in ("epsilon", "delta")}
        text = f"epsilon = {ends['epsilon'](self.epsilon)} at delta = {ends['delta'](self.delta)} ({self.method}{low})"
        return text + "".join(f" [{caution}]" for caution in self._cautions())


def html_table(rows: Iterable[tuple[str, Any]]) -> str:
    """A table of two columns for notebooks, every text escaped."""
    left = 'style="text-align:left"'
    lines = [
        f"<tr><th {left}>{escape(str(name))}</th><td {left}>{escape(str(value))}</td></tr>" for name, value in rows
    ]
    return f"<table>{''.join(lines)}</table>"


def interval_of(price: Guarantee, asked: str = "epsilon") -> Interval:
    """The certified ends of what was asked, epsilon or delta."""
    return Interval(price.lower or 0.0, getattr(price, asked))


def _order(order: float) -> str:
    """An order, so that one next to 1 is told from 1."""
    return f"{order:.6g}" if order - 1 >= 1e-4 else f"1 + {order - 1:.3g}"
