"""What a plot of prices shows, in words: its title. Upper bounds are rounded up, lower bounds down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.guarantee import Guarantee, format_down, format_up

__all__ = [
    "METHODS",
    "Line",
    "Maker",
    "PricedLine",
    "Run",
    "price_by_parameter",
    "price_in_words",
    "price_of_releases",
]

Run: TypeAlias = Event | Composition
Maker: TypeAlias = Callable[[float], Run]

METHODS = {
    "classic": "Rényi, classic conversion",
    "improved": "Rényi, improved conversion",
    "optimal": "Rényi, optimal conversion",
    "tight": "tight",
}
"""Methods by which lines of epsilon are drawn: conversions of the Rényi route, and intervals of the tight route."""


class Line(NamedTuple):
    """One line of a plot of epsilon.

    Attributes
    ----------
    label : str
        Name of the line; empty: the method's name.
    run : Event, Composition or callable
        The run that is priced: see `epsilon_against_releases`.
    method : str
        One of `METHODS`.
    """

    label: str
    run: Run | Maker
    method: str = "improved"


class PricedLine(NamedTuple):
    """A line and the prices at its points."""

    line: Line
    points: list[float]
    prices: list[Guarantee]


def price_in_words(price: Guarantee) -> str:
    """An upper bound, or the certified interval: ``3.956 to 3.974``."""
    upper = format_up(price.epsilon)
    if price.lower is None:
        return upper
    lower = format_down(price.lower)
    return upper if lower == upper else f"{lower} to {upper}"


def price_of_releases(priced: Sequence[PricedLine]) -> str:
    """What all releases cost, by the line that says the least; beside a certified interval the next bound."""
    last = max(each.points[-1] for each in priced)
    ends = [each for each in priced if each.points[-1] == last]
    best = min(ends, key=lambda each: each.prices[-1].epsilon)
    price, what = best.prices[-1], f"{last:,.0f} release{'s' if last > 1 else ''}"
    if best.line.label:
        how = ", certified" if best.line.method == "tight" else ""
        return f"{what} cost least as {best.line.label}: epsilon {price_in_words(price)}{how}"
    if best.line.method != "tight":
        return f"Epsilon of {what} is at most {format_up(price.epsilon)}"
    others = [each.prices[-1].epsilon for each in ends if each.line.method != "tight"]
    beside = f"; Rényi bound: {format_up(min(others))}" if others else ""
    return f"Epsilon of {what}, certified: {price_in_words(price)}{beside}"


def price_by_parameter(priced: Sequence[PricedLine], name: str) -> str:
    """How far epsilon goes over the range of a parameter, by the line that says the least."""
    best = min(priced, key=lambda each: each.prices[-1].epsilon)
    first, last = best.prices[0].epsilon, best.prices[-1].epsilon
    start, end = format_up(first), format_up(last)
    if len(best.points) == 1 or start == end:
        return f"Epsilon at {name} = {best.points[-1]:g} is at most {end}"
    verb = "falls" if last < first else "rises"
    return f"Epsilon {verb} from {start} to {end} as {name} goes from {best.points[0]:g} to {best.points[-1]:g}"
