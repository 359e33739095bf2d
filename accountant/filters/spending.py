"""What releases are charged in filters and odometers, and the running sums of these charges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import DataDependentError, ParameterError, shorten
from accountant.events.answers import LINEAR, GivenFinite
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.exact import FEW, SPARE, round_up, sum_up
from accountant.numerics.kernel import FloatArray

__all__ = ["Charge", "Charges", "Released", "Spent", "is_nothing"]

UP = 1 + 2.0**-52
"""Times every sum: more than an addition and a multiplication round away."""

MEMORY = 65536
"""Events whose curves are remembered, each 10 to 40 numbers."""


class Charge(NamedTuple):
    """What one release, or several together, cost.

    Attributes
    ----------
    curve : array of shape (k,)
        The Rényi curve at the orders, given that no release failed.
    pure, pure_rest : float
        Its limit at order infinity, rounded up, in two parts.
    square : float
        mu^2 where the release is mu-GDP by itself; inf of any other.
    failure : float
        Probability with which its loss is infinite.
    """

    curve: FloatArray
    pure: float
    pure_rest: float
    square: float
    failure: float


class Spent(NamedTuple):
    """Running sums of charges, rounded up; `pure` to twice the precision of a float, in two parts."""

    curve: FloatArray
    pure: float
    pure_rest: float
    square: float
    failure: float

    @classmethod
    def nothing(cls, orders: int) -> Spent:
        """Before the first release."""
        return cls(np.zeros(orders), 0.0, 0.0, 0.0, 0.0)

    def plus(self, charge: Charge, count: int, curve: FloatArray) -> Spent:
        """After `count` more releases, which bring the curves to `curve`."""
        pure, rest = self.pure, self.pure_rest
        if charge.pure < math.inf and pure < math.inf:
            for part in _product(charge.pure, count):  # what the sum of two floats rounds away is a float
                whole = pure + part
                shift = whole - pure
                rest = _plus_up(rest, (pure - (whole - shift)) + (part - shift))
                pure = whole
            more = charge.pure_rest * count
            rest = _plus_up(rest, more + abs(more) * 2.0**-50)
        else:
            pure, rest = math.inf, 0.0
        square = (self.square + charge.square * (count * UP)) * UP
        return Spent(curve, pure, rest, square, (self.failure + charge.failure * (count * UP)) * UP)

    @property
    def pure_epsilon(self) -> float:
        """The sum of the pure-DP limits, to the nearest float."""
        return self.pure + self.pure_rest if self.pure < math.inf else math.inf

    @property
    def pure_epsilon_above(self) -> float:
        """The same, rounded up."""
        return round_up(Fraction(self.pure) + Fraction(self.pure_rest)) if self.pure < math.inf else math.inf


def _plus_up(one: float, other: float) -> float:
    """At least the sum of two floats: itself where a float holds it."""
    whole = one + other
    shift = whole - one
    less = (one - (whole - shift)) + (other - shift) > 0.0  # what was rounded away is a float
    return math.nextafter(whole, math.inf) if less else whole


def _product(value: float, count: int) -> tuple[float, ...]:
    """Floats whose exact sum is value * count, as far as count has 106 bits."""
    if count == 1 or value == 0.0:
        return (value,)
    return tuple(high * part for high in _halves(value) for part in _pieces(count))


def _halves(value: float) -> tuple[float, float]:
    """Two floats of at most 27 bits that add up to a value below 1e290."""
    if value > 1e290:
        return value, 0.0
    spread = 134217729.0 * value
    high = spread - (spread - value)
    return high, value - high


def _pieces(count: int) -> Iterable[float]:
    """Floats of at most 26 bits that add up to the count."""
    shift = 0
    while count >> shift:
        yield math.ldexp(float((count >> shift) & 0x3FFFFFF), shift)
        shift += 26


class Released(NamedTuple):
    """Running sums, the adjacency of all releases, and whether the first of them was mu-GDP; None before it."""

    spent: Spent
    adjacency: Adjacency | None
    gaussian: bool | None


class Charges:
    """Charges of events at fixed orders; those of equal events are computed once.

    Parameters
    ----------
    orders : array of shape (k,)
    """

    def __init__(self, orders: FloatArray) -> None:
        self._orders = orders
        self._seen: dict[Event, Charge] = {}

    def of(self, release: Event | Composition) -> Charge:
        """The charge of an event, or of all releases of a composition together.

        Raises
        ------
        ParameterError
            It is neither.
        DataDependentError
            Its cost depends on private data: so would what is released next.
        """
        if isinstance(release, Event):
            return self._of_event(release)
        if not isinstance(release, Composition):
            raise ParameterError(f"release = {shorten(release)}; accepted: an event, or a composition of events")
        _refuse_data_dependent(release)
        entries = list(release.entries.items())
        plain = [(event, count) for event, count in entries if _given_finite(event) is None]
        total = Composition(plain).renyi(self._orders) if plain else np.zeros(self._orders.size)
        curve = total * (1 + len(plain) * 2.0**-52)  # a sum of many has more roundings: one for each
        limits: list[tuple[Fraction | float, int]] = [(event._largest_loss(), count) for event, count in plain]
        failure = 0.0
        for event, count in entries:
            if _given_finite(event) is not None:
                part = self._of_event(event)
                curve = (curve + count * part.curve) * UP**2
                limits += [(part.pure, count), (Fraction(part.pure_rest), count)]
                failure = (failure + count * part.failure) * UP**2
        square = math.fsum(count * _square(event) for event, count in entries) * UP**4
        return Charge(curve, *_sum_up(limits), square, failure)

    def _of_event(self, event: Event) -> Charge:
        row = event._row()
        if row is not None and row.kind == LINEAR and not event.data_dependent:
            pure = math.inf if row.slope > 0.0 else 0.0
            return Charge(row.slope * self._orders, pure, 0.0, _square(event), 0.0)
        found = self._seen.get(event)
        if found is None:
            _refuse_data_dependent(event)
            if len(self._seen) >= MEMORY:
                self._seen.clear()
            found = self._seen[event] = self._compute(event)
        return found

    def _compute(self, event: Event) -> Charge:
        given = _given_finite(event)
        if given is None:
            return Charge(event.renyi(self._orders), *_sum_up([(event._largest_loss(), 1)]), _square(event), 0.0)
        curve = sum((part.renyi(self._orders) for part in given.parts), np.zeros(self._orders.size))
        own = given.log_probability
        other = own if given.log_reverse is None else given.log_reverse
        # where P has d and Q has d' alone, the mean of e^{(a-1) L} over the rest has a factor (1-d)^a (1-d')^{1-a}
        share = 1 + 1 / (self._orders - 1)
        curve = curve + np.maximum(np.maximum(share * own - other, share * other - own), 0.0)
        limits: list[tuple[Fraction | float, int]] = [(part._largest_loss(), given.times) for part in given.parts]
        limits.append((abs(own - other) * SPARE, given.times))
        failure = -math.expm1(min(own, other)) * UP
        return Charge(given.times * curve, *_sum_up(limits), math.inf, given.times * failure)


def is_nothing(release: Event | Composition, times: int) -> bool:
    """Whether nothing is released at all."""
    return times == 0 or (isinstance(release, Composition) and not release.entries)


def _sum_up(limits: list[tuple[Fraction | float, int]]) -> tuple[float, float]:
    """At least the sum of largest losses times counts, in two floats, of which one is rounded if they are few."""
    if len(limits) > FEW or any(number == math.inf for number, _ in limits):
        return sum_up(limits), 0.0
    total = sum((Fraction(number) * count for number, count in limits), Fraction(0))
    nearest = total.numerator / total.denominator  # correctly rounded
    return nearest, round_up(total - Fraction(nearest))


def _given_finite(event: Event) -> GivenFinite | None:
    """A release that is sampled at rate 1 is the release itself."""
    return (event.unsampled if event.sampling_rate == 1.0 else event)._given_finite()


def _square(event: Event) -> float:
    """mu^2 of an event that is as private as N(mu, 1) against N(0, 1); inf of any other."""
    if event.data_dependent:
        return math.inf
    summand = event._summand()
    return summand.size if summand is not None and summand.key == "Gaussian" else math.inf


def _refuse_data_dependent(release: Event | Composition) -> None:
    if release.data_dependent:
        raise DataDependentError(
            f"{shorten(release)} has a cost that depends on private data, and whether it fits would show it; accepted: "
            "events whose cost is public"
        )
