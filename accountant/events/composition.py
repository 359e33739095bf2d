"""Compositions: which events happened how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from accountant.adjacency import Adjacency
from accountant.errors import AdjacencyMismatch, ParameterError, ProfileUnavailable, integer, real, shorten
from accountant.events.curve import Profile, evaluate_curve
from accountant.events.event import Event
from accountant.numerics.exact import sum_up
from accountant.numerics.kernel import FloatArray

__all__ = ["MAX_COUNT", "Composition"]

MAX_COUNT = int(1e30)
CHUNK = 4096


class Composition:
    """Events and how often each happened; equal events are grouped. Immutable.

    Built by ``n * event``, ``a + b``, ``sum(events)``, or from (event, count) pairs. Covers adaptive runs in
    which every possible history stays under these counts (notebooks/mathematics.md, Composition).

    Parameters
    ----------
    entries : iterable of (Event, int), or mapping from Event to int
        Counts are integers >= 0 (1e4 is one).

    Raises
    ------
    ParameterError
        A count is not a non-negative integer, or something is not an event.
    AdjacencyMismatch
        Two events have different adjacency.
    """

    __slots__ = ("_adjacency", "_entries", "_gathered", "_largest", "_parts")

    def __init__(self, entries: Iterable[tuple[Event, object]] | Mapping[Event, object] = ()) -> None:
        grouped: dict[Event, int] = {}
        for event, count in _pairs(entries):
            if not isinstance(event, Event):
                raise ParameterError(f"{shorten(event)} is not an event; accepted: an event such as Gaussian(sigma)")
            times = integer("count", count, 0, MAX_COUNT)
            if times:
                grouped[event] = grouped.get(event, 0) + times
        self._entries: dict[Event, int] | None = grouped
        self._parts: tuple[Composition, ...] = ()
        self._gathered: list[tuple[type[Event], Any, FloatArray]] | None = None
        self._largest: float | None = None
        self._adjacency: Adjacency | None = None
        for event in grouped:
            self._adjacency = _common(self._adjacency, event.adjacency)

    @classmethod
    def _of(cls, event: Event, count: object) -> Composition:
        """So many copies of one event."""
        times = integer("count", count, 0, MAX_COUNT)
        single = cls.__new__(cls)
        single._parts, single._gathered, single._largest = (), None, None
        single._adjacency = event.adjacency if times else None
        single._entries = {event: times} if times else {}
        return single

    @classmethod
    def _sum(cls, parts: tuple[Composition, ...]) -> Composition:
        """A sum that is grouped when first read, so that a + b + c + ... costs as much as its length."""
        whole = cls.__new__(cls)
        adjacency = None
        for part in parts:
            adjacency = _common(adjacency, part._adjacency)
        whole._adjacency, whole._parts, whole._entries, whole._gathered, whole._largest = (
            adjacency,
            parts,
            None,
            None,
            None,
        )
        return whole

    @property
    def entries(self) -> Mapping[Event, int]:
        """Counts by event, in the order in which events first appear."""
        return MappingProxyType(self._grouped())

    def _grouped(self) -> dict[Event, int]:
        if self._entries is None:
            grouped: dict[Event, int] = {}
            waiting = [self]
            while waiting:
                part = waiting.pop()
                # parts first: another thread that groups them writes the entries before it lets the parts go
                parts, entries = part._parts, part._entries
                if entries is None:
                    waiting.extend(reversed(parts))
                else:
                    for event, count in entries.items():
                        grouped[event] = grouped.get(event, 0) + count
            self._entries, self._parts = grouped, ()
        return self._entries

    def __reduce__(self) -> tuple[type[Composition], tuple[list[tuple[Event, int]]]]:
        """Copies and pickles hold the entries: sums of sums would be copied level by level."""
        return type(self), (list(self._grouped().items()),)

    @property
    def adjacency(self) -> Adjacency | None:
        """The neighbouring relation that all events share; None when there are none."""
        return self._adjacency

    @property
    def data_dependent(self) -> bool:
        """Whether any event's cost depends on private data."""
        return any(event.data_dependent for event in self._grouped())

    def _curve_work(self) -> float:
        """Operations of an order of the curve, where it takes long."""
        return math.fsum(event._curve_work() for event in self._grouped())

    @property
    def releases(self) -> int:
        """Number of releases, each counted as often as it happened."""
        return sum(self._grouped().values())

    def total(self, value: Callable[[Event], float]) -> float:
        """The sum of a number over all releases: its value for each event times how often that happened.

        Integers add up exactly, other numbers with one rounding beside that of every product.
        """
        terms = [count * value(event) for event, count in self._grouped().items()]
        return sum(terms) if all(isinstance(term, int) for term in terms) else math.fsum(terms)

    def to_toml(self, delta: float | None = None) -> str:
        """The run as a plan in TOML; ``ac.load_plan(path).run`` is equal to it, to the last bit of every number.

        Parameters
        ----------
        delta : float, optional
            In [0, 1); written as the plan's delta.

        Raises
        ------
        ParameterError
            The run is empty, or an event's class is neither registered nor one that can be imported.

        Examples
        --------
        >>> run = 1000 * ac.PoissonSubsampled(ac.Gaussian(1.1), 0.01)
        >>> ac.files.write_text("spent.toml", run.to_toml(delta=1e-5))
        >>> ac.load_plan("spent.toml").run == run
        True
        >>> more = ac.load_plan("spent.toml").run + 500 * ac.PoissonSubsampled(ac.Gaussian(1.3), 0.01)
        """
        from accountant.events.plan_text import plan_text, tables_of_run

        stated = {} if delta is None else {"delta": real("delta", delta, 0.0, 1.0, open_high=True)}
        return plan_text({**stated, **tables_of_run(self)})

    def renyi(self, orders: ArrayLike) -> FloatArray:
        """Rényi curve of the composition: the sum of its events' (Mironov 2017, Prop. 1).

        Parameters and errors as for `Event.renyi`.
        """
        return evaluate_curve(self, orders)

    def profile(self, epsilons: ArrayLike) -> Profile:
        """Privacy profile of a single release; profiles of several do not add.

        Raises
        ------
        ProfileUnavailable
            The composition holds more than one release, or one without a profile.
        """
        if self.releases != 1:
            raise ProfileUnavailable(
                f"a composition of {self.releases} releases has no profile in closed form: profiles do not add; "
                "accepted: its prices, or a single release"
            )
        return next(iter(self._grouped())).profile(epsilons)

    def _curve(self, orders: FloatArray) -> FloatArray:
        total = np.zeros_like(orders)
        for kind, gathered, counts in self._chunks():
            total += counts @ kind._curves(gathered, orders)
        return total

    def _largest_loss(self) -> float:
        """The least float, or nearly so, that is not below the limit of the curve at order inf."""
        if self._largest is None:
            self._largest = sum_up((event._largest_loss(), count) for event, count in self._grouped().items())
        return self._largest

    def _chunks(self) -> list[tuple[type[Event], Any, FloatArray]]:
        """Events by class, in pieces that fit the cache: what their curves need, and their counts."""
        if self._gathered is None:
            by_class: dict[type[Event], list[tuple[Event, int]]] = {}
            for event, count in self._grouped().items():
                by_class.setdefault(_batch_of(type(event)), []).append((event, count))
            self._gathered = [
                (kind, kind._gathered([event for event, _ in chunk]), np.array([float(count) for _, count in chunk]))
                for kind, members in by_class.items()
                for chunk in (members[start : start + CHUNK] for start in range(0, len(members), CHUNK))
            ]
        return self._gathered

    def __add__(self, other: object) -> Composition:
        if isinstance(other, Event):
            other = 1 * other
        if not isinstance(other, Composition):
            return NotImplemented
        return Composition._sum((self, other))

    def __radd__(self, other: object) -> Composition:
        if isinstance(other, Event):
            return (1 * other) + self
        if isinstance(other, int) and other == 0:  # sum() starts from 0
            return self
        return NotImplemented

    def __mul__(self, count: object) -> Composition:
        times = integer("count", count, 0, MAX_COUNT)
        return Composition((event, times * each) for event, each in self._grouped().items())

    __rmul__ = __mul__
    __array_ufunc__ = None  # numpy scalars on the left defer to __rmul__

    def __iter__(self) -> Iterator[tuple[Event, int]]:
        return iter(self._grouped().items())

    def __len__(self) -> int:
        return len(self._grouped())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composition) and self._grouped() == other._grouped()

    def __hash__(self) -> int:
        return hash(frozenset(self._grouped().items()))

    def __repr__(self) -> str:
        return " + ".join(f"{count} * {event!r}" for event, count in self._grouped().items()) or "Composition()"


@lru_cache(maxsize=256)
def _batch_of(kind: type[Event]) -> type[Event]:
    """The class that evaluates its curves together: Event, one by one, where `_curve` is newer than `_curves`."""
    newest = next(base for base in kind.__mro__ if {"_curve", "_curves"} & vars(base).keys())
    return kind if "_curves" in vars(newest) else Event


def _pairs(entries: object) -> Iterator[tuple[object, object]]:
    """(event, count) pairs, or ParameterError for whatever is not one."""
    if isinstance(entries, Mapping):
        entries = entries.items()
    try:
        pairs = iter(entries)  # type: ignore[call-overload]  # whatever it is
    except TypeError:
        raise ParameterError(f"entries = {shorten(entries)}; accepted: (event, count) pairs, or a mapping") from None
    for entry in pairs:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise ParameterError(f"entry {shorten(entry)}; accepted: a pair (event, count)")
        yield entry[0], entry[1]


def _common(first: Adjacency | None, second: Adjacency | None) -> Adjacency | None:
    if first is not None and second is not None and first is not second:
        raise AdjacencyMismatch(f"cannot compose {first} with {second}: their guarantees protect different things")
    return first if second is None else second
