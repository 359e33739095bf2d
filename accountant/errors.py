"""Named errors. Every message shows the offending value and the accepted range."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator
from operator import index
from typing import SupportsIndex, cast

from accountant.numerics.decimals import format_down, format_up

__all__ = [
    "AccountantError",
    "AdjacencyMismatch",
    "CalibrationError",
    "DataDependentError",
    "DeltaWarning",
    "EventError",
    "FilterError",
    "MissingExtra",
    "NoGuarantee",
    "OutOfPatience",
    "ParameterError",
    "PlanError",
    "ProfileUnavailable",
    "SubsamplingError",
    "ToleranceUnreachable",
]

OTHER_ROUTES = "; accepted: method = 'renyi' or 'auto'"
"""What the end of a refusal of the tight route advises."""

NOT_RENYI = "; accepted: method = 'tight' or 'auto'"
"""What the end of a refusal of the Rényi route advises."""

AS_KNOWN = "; method = 'auto' gives one about as near as what is certified"
"""What a refusal advises that knows more than the price that it names."""

NEARER = 0.5
"""Share of a tolerance below which an interval is said to be nearer than that."""

WRITTEN = 200
"""Characters of a value that are looked at for a message: more than it shows, for white space is joined."""


class AccountantError(Exception):
    """Any error that this package raises on purpose."""


class ParameterError(AccountantError, ValueError):
    """A parameter lies outside the range in which results are right."""


class AdjacencyMismatch(AccountantError, ValueError):
    """Events of different neighbouring relations were composed."""


class ProfileUnavailable(AccountantError, NotImplementedError):
    """The event is known by a Rényi bound only; it has no privacy profile."""


class SubsamplingError(AccountantError, ValueError):
    """Poisson subsampling does not amplify this event."""


class DataDependentError(AccountantError):
    """A cost that depends on private data was about to be used as a public guarantee."""


class EventError(ArithmeticError):
    """The code of an event returned what is no curve or no profile: a mistake in its class, not in its parameters."""


class ToleranceUnreachable(AccountantError, ValueError):
    """A certified interval cannot be made as narrow as was asked.

    Attributes
    ----------
    found : pair of float, or None
        A wider interval (lower, upper) that is certified.
    source : str
        What it was computed by.
    wide : str
        The tolerance that accepts it, where that is known.
    curve : list of pairs of float, or None
        The same as `found` for each of several points, some of which are as narrow as was asked.
    foreseen : bool
        Whether it was known before anything was computed, and the message says what tolerance would do.
    """

    found: tuple[float, float] | None = None
    source = ""
    wide: str | None = None
    curve: list[tuple[float, float]] | None = None
    foreseen = False

    def known_at(self, count: int) -> list[tuple[float, float]] | None:
        """What is certified at each of so many points that were asked; None where nothing is."""
        known = self.curve or ([self.found] if self.found is not None else None)
        return known if known is not None and len(known) == count else None

    def __str__(self) -> str:
        said = super().__str__()
        if self.found is None or self.wide is None:
            return said
        lower, upper = self.found
        known = f"{said}; certified so far: [{format_down(lower)}, {format_up(upper)}]"
        if self.wide and upper - lower < NEARER * float(self.wide) * upper:
            share = format_up(100 * (upper - lower) / upper, 2)
            return f"{known}, {share} % wide, and at tolerance = {self.wide} there is a price{AS_KNOWN}"
        if self.wide:
            return f"{known}, which tolerance = {self.wide} accepts"
        return known if "accepted: " in said else known + OTHER_ROUTES


class OutOfPatience(ToleranceUnreachable):
    """A price would take longer than was allowed; found before the work was done, by counting it.

    Attributes
    ----------
    seconds : float
        How long it would take, with what is known to follow.
    whole : bool
        Whether that is all of the price, about.
    """

    whole = False

    def __init__(self, message: str, seconds: float = math.inf) -> None:
        super().__init__(message)
        self.seconds = seconds


class NoGuarantee(AccountantError, ValueError):
    """No finite epsilon exists for the asked delta."""


class CalibrationError(AccountantError, ValueError):
    """No parameter in the searched range meets the target."""


class PlanError(AccountantError, ValueError):
    """A plan is not valid; the message says what would be."""


class FilterError(AccountantError, ValueError):
    """A file of a filter or an odometer cannot be used; the message names it and what would be."""


class MissingExtra(AccountantError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""


class DeltaWarning(UserWarning):
    """A delta that is not below 1 over the number of records: a mechanism may have it that publishes a record."""


def caution_of_delta(delta: float, records: int) -> str:
    """A sentence where delta is not below 1 over a number of records, which must be public; else empty."""
    if delta * records < 1:
        return ""
    return (
        f"delta = {delta:g} is not below 1/{records}; even a mechanism that publishes one record at random has such a "
        "delta"
    )


def shorten(value: object) -> str:
    """`value` as it was written, on one line of at most 60 characters."""
    written = ""
    try:
        for piece in _pieces(value):
            written += piece
            if len(written) > WRITTEN:
                break
    except ValueError:  # an int with more digits than Python prints
        return "a very large number"
    text = " ".join(line.strip() for line in written.splitlines())
    return text if len(text) <= 60 else f"{text[:57]}..."


def count_of(number: int, noun: str) -> str:
    """A number of things, in words for a message."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _pieces(value: object) -> Iterator[str]:
    """The representation piece by piece: a file may hold a list whose whole representation fills the memory."""
    if isinstance(value, dict) and type(value).__repr__ is dict.__repr__:
        yield "{"
        for number, (key, each) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _pieces(key)
            yield ": "
            yield from _pieces(each)
        yield "}"
    elif isinstance(value, list | tuple) and type(value).__repr__ in (list.__repr__, tuple.__repr__):
        yield "[" if isinstance(value, list) else "("
        for number, each in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(each)
        yield "]" if isinstance(value, list) else ",)" if len(value) == 1 else ")"
    else:
        yield repr(value)


def real(
    name: str, value: object, low: float, high: float, *, open_low: bool = False, open_high: bool = False
) -> float:
    """Return `value` as a float, or raise ParameterError naming the accepted interval."""
    if type(value) is float and low < value < high:
        return value
    accepted = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ParameterError(f"{name} = {shorten(value)} is not a real number; accepted: {accepted}")
    try:
        number = float(value)
    except OverflowError:
        raise ParameterError(f"{name} = {shorten(value)} is out of range; accepted: {accepted}") from None
    below = number <= low if open_low else number < low
    above = number >= high if open_high else number > high
    if math.isnan(number) or below or above:
        raise ParameterError(f"{name} = {repr(number).removesuffix('.0')} is out of range; accepted: {accepted}")
    return number


def is_one_of(value: object, accepted: Iterable[str]) -> bool:
    """Whether a value is one of the accepted words; an array, which compares as an array, is none."""
    return isinstance(value, str) and value in accepted


def integer(name: str, value: object, low: int, high: int) -> int:
    """Return `value` as an int (an integral float such as 1e4 is one), or raise ParameterError."""
    if type(value) is int and low <= value <= high:
        return value
    accepted = f"an integer in [{low}, {high:.6g}]"
    try:
        if isinstance(value, bool):
            raise TypeError
        whole = isinstance(value, numbers.Real) and float(value).is_integer()
        number = int(value) if whole else index(cast(SupportsIndex, value))  # type: ignore[call-overload]
    except (TypeError, OverflowError):
        raise ParameterError(f"{name} = {shorten(value)}; accepted: {accepted}") from None
    if not low <= number <= high:
        raise ParameterError(f"{name} = {shorten(number)} is out of range; accepted: {accepted}")
    return number
