"""Parameters of events: their ranges, stated once in the annotation of a field, and what follows from them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from inspect import get_annotations
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from accountant.errors import ParameterError, integer, real, shorten

__all__ = [
    "TABLE_KEYS",
    "EpsilonOfNoise",
    "NoiseScale",
    "Parameter",
    "Range",
    "Scale",
    "check_parameters",
    "importable_name",
    "numbers_of",
    "parameters_of",
    "refuse_table_keys",
]

TABLE_KEYS = ("name", "event", "count", "sampling_rate", "group_size")
"""What a plan's table of a release has beside the parameters of its event."""


@dataclass(frozen=True)
class Range:
    """The accepted values of a number: ``sigma: Annotated[float, Range(0.1, 1e3, noise=True)]``.

    Attributes
    ----------
    low, high : float
        Both are accepted.
    zero : bool
        Whether 0 is accepted too, below `low`.
    noise : bool
        Whether this parameter sets the noise: the one that reports offer to move. At most one of an event.
    usual : (float, float), optional
        Values that people use; random events of the tests are drawn from here.
    """

    low: float
    high: float
    zero: bool = False
    noise: bool = False
    usual: tuple[float, float] | None = None


NoiseScale = Annotated[float, Range(1e-50, 1e50, noise=True, usual=(0.05, 1e4))]
"""Scale of noise: its square, times any count, stays far inside the floating-point range."""

Scale = Annotated[float, Range(1e-50, 1e50)]
"""Sensitivity, in the units of the noise."""

EpsilonOfNoise = Annotated[float, Range(0.0, 1e6, noise=True, usual=(1e-6, 20.0))]
"""Pure-DP parameter, in nats."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an event, which is a key in plans.

    Attributes
    ----------
    name : str
    default : object or None
        None where it must be given.
    type : str
        "float", "int", or how its class declares it.
    range : Range or None
        Accepted values, where the class states them.
    """

    name: str
    default: object | None
    type: str
    range: Range | None = None

    @property
    def key(self) -> str:
        """Its name in plans, where ``event`` names the class: an event within is ``of``."""
        return "of" if self.name == "event" else self.name

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return self.type == "int"

    @property
    def number(self) -> bool:
        """Whether it is a number, so that it can be varied."""
        return self.type in ("float", "int")

    @property
    def noise(self) -> bool:
        """Whether it sets the noise."""
        return self.range is not None and self.range.noise

    @property
    def usual(self) -> tuple[float, float] | None:
        """Values that people use, where its class states them."""
        return self.range.usual if self.range is not None else None

    def __str__(self) -> str:
        """As lists show it: ``sigma``, or ``sensitivity=1`` where there is a default."""
        if self.default is None:
            return self.key
        return f"{self.key}={self.default:g}" if self.number else f"{self.key}={self.default}"


@lru_cache(maxsize=256)
def parameters_of(kind: Any) -> tuple[Parameter, ...]:
    """The parameters of an event class, in order, without adjacency (a plan states that once).

    A subclass that declares a field again keeps its range unless it states another.

    Raises
    ------
    ParameterError
        An annotation states a range, but names what only a type checker can resolve.
    """
    declared: dict[str, str] = {}
    ranges: dict[str, Range] = {}
    arguments = [field for field in fields(kind) if field.init and field.name != "adjacency"]
    for owner in reversed(kind.__mro__):
        own = get_annotations(owner)
        for name in (field.name for field in arguments if field.name in own):
            plain, *notes = _resolve(owner, name, own[name])
            declared[name] = plain.__name__ if isinstance(plain, type) else str(plain)
            ranges.update((name, note) for note in notes if isinstance(note, Range))
    return tuple(
        Parameter(
            field.name,
            None if field.default is MISSING else field.default,
            declared[field.name],
            ranges.get(field.name),
        )
        for field in arguments
    )


def importable_name(kind: type) -> str | None:
    """MODULE:NAME of a class that another program can import."""
    reachable = kind.__module__ != "__main__" and "<" not in kind.__qualname__
    return f"{kind.__module__}:{kind.__qualname__}" if reachable else None


def refuse_table_keys(kind: Any) -> None:
    """Raise ParameterError where a parameter has the name of another key of plans, which would be read as both."""
    for each in parameters_of(kind):
        if each.key in TABLE_KEYS:
            raise ParameterError(
                f"{kind.__qualname__} has a parameter {each.name!r}; accepted: other names than {', '.join(TABLE_KEYS)}"
            )


def _resolve(owner: type, name: str, written: Any) -> tuple[Any, ...]:
    """The type that an annotation of a class means, and what `Annotated` adds to it."""
    alone = SimpleNamespace(__annotations__={name: written})
    module = getattr(sys.modules.get(owner.__module__), "__dict__", {})
    try:
        hint = get_type_hints(alone, module, dict(vars(owner)), include_extras=True)[name]
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        if isinstance(written, str) and not {"Annotated", "Range"} & set(re.findall(r"\w+", written)):
            return (written,)
        raise ParameterError(
            f"{owner.__qualname__}.{name}: its range cannot be read ({error}); accepted: names of the module"
        ) from None
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


class _Check(NamedTuple):
    """What `check_parameters` needs of a parameter, with its limits as numbers of its own type."""

    name: str
    type: type[float] | type[int]
    low: float
    high: float
    zero: bool

    def __call__(self, value: object) -> float:
        if self.type is int:
            return integer(self.name, value, int(self.low), int(self.high))
        if not self.zero:
            return real(self.name, value, self.low, self.high)
        number = real(self.name, value, 0.0, self.high)
        if 0.0 < number < self.low:
            limits = f"0, or [{self.low:g}, {self.high:g}]"
            raise ParameterError(f"{self.name} = {number:g} is out of range; accepted: {limits}")
        return number


@lru_cache(maxsize=256)
def _checks(kind: Any) -> tuple[_Check, ...]:
    return tuple(
        _Check(each.name, int if each.whole else float, each.range.low, each.range.high, each.range.zero)
        for each in parameters_of(kind)
        if each.range is not None
    )


def check_parameters(event: Any) -> None:
    """Turn the parameters of an event that have a range into floats and ints.

    Raises
    ------
    ParameterError
        One of them is not a number or out of its range.
    """
    for check in _checks(type(event)):  # type: ignore[arg-type]  # classes can be hashed
        value = getattr(event, check.name)
        if type(value) is not check.type or not check.low <= value <= check.high:
            object.__setattr__(event, check.name, check(value))


def numbers_of(name: str, values: object, high: float, most: int, *, least: float = 1e-50) -> tuple[float, ...]:
    """The numbers of an iterable parameter: 1 to `most`, each 0 or in [least, high].

    Raises
    ------
    ParameterError
    """
    limits = f"accepted: 1 to {most} numbers, each 0 or in [{least:g}, {high:g}]"
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ParameterError(f"{name} = {shorten(values)}; {limits}")
    numbers = tuple(real(name, value, 0.0, high) for value in values)
    if not 1 <= len(numbers) <= most or any(0 < value < least for value in numbers):
        raise ParameterError(f"{name} = {shorten(numbers)}; {limits}")
    return numbers
