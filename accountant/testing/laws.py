"""The laws of privacy accounting, as checks of one event."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency
from accountant.errors import AdjacencyMismatch, ProfileUnavailable, shorten
from accountant.events.event import Event
from accountant.events.randomized_response import PureDP
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.subsampling import can_be_sampled, integrate_profile
from accountant.testing.strategies import epsilons_of, hypothesis, log_uniform, orders

__all__ = ["FORM", "LAWS", "Law", "LawBroken", "laws_for"]

ROUNDING = 1e-9
"""Relative slack that every law leaves to floating point."""


class LawBroken(AssertionError):
    """A law does not hold.

    Attributes
    ----------
    law : str
        Its name.
    where : str
        The order, epsilon or rate at which it broke.
    excess : float
        By how much, in the units of the quantity compared.
    """

    def __init__(self, law: str, where: str, excess: float, detail: str) -> None:
        super().__init__(f"{law}: broken at {where} by {excess:.3g} ({detail})")
        self.law, self.where, self.excess = law, where, excess


@dataclass(frozen=True)
class Law:
    """A property of events.

    Attributes
    ----------
    name : str
    applies : callable
        Whether an event is subject to it.
    check : callable
        ``check(event, draw)`` raises LawBroken; `draw` draws from a Hypothesis strategy.
    sweep : callable, optional
        ``sweep(event, orders)`` raises LawBroken too; it is run once, on a fine grid of orders.
    """

    name: str
    applies: Callable[[Event], bool]
    check: Callable[[Event, Callable[[Any], Any]], None]
    sweep: Callable[[Event, list[float]], None] | None = None


def _at(event: Event, order: float) -> float:
    return float(event.renyi(order))


def _at_most(law: str, where: str, low: float, high: float, detail: str, slack: float = ROUNDING) -> None:
    """Raise LawBroken unless low <= high up to relative slack; nan is never at most anything."""
    if not low <= high + slack * abs(high):
        raise LawBroken(law, where, low - high, detail.format(low=low, high=high))


def _ladder(draw: Callable[[Any], Any], high: float) -> list[float]:
    """Orders between two drawn ones, evenly spaced in log(order - 1)."""
    ends = sorted([draw(orders(high)), draw(orders(high))])
    low, top = (math.log(order - 1) for order in ends)
    rungs = {1 + math.exp(low + (top - low) * i / 9) for i in range(10)}
    return sorted(rungs)


def _apart(first: float, second: float) -> float:
    """Their distance; equal infinities are not apart."""
    return 0.0 if first == second else abs(first - second)


def _one_number_for_every_order(event: Event, draw: Callable[[Any], Any]) -> None:
    law, ladder = "one number for every order", [1.0, *_ladder(draw, 1e12), math.inf]
    values = np.asarray(event._curve(np.array(ladder)))
    if values.shape != (len(ladder),):
        where = f"{len(ladder)} orders"
        raise LawBroken(law, where, math.inf, f"_curve returned an array of shape {values.shape}")
    for order, value in zip(ladder, values.tolist(), strict=True):
        if math.isnan(value):
            raise LawBroken(law, f"order {order!r}", math.nan, "the curve is not a number")


def _two_arrays(event: Event, draw: Callable[[Any], Any]) -> None:
    epsilons = np.array([0.0, *sorted(draw(hypothesis().strategies.floats(0.0, 5.0)) for _ in range(2))])
    logs: Any = event._log_profile(epsilons)
    law, where = "two arrays for a profile", f"epsilons {epsilons.tolist()}"
    accepted = f"accepted: a pair (remove, add) of logarithms, each of shape {epsilons.shape}"
    if not isinstance(logs, tuple | list) or len(logs) != 2:
        what = f"one array of shape {logs.shape}" if isinstance(logs, np.ndarray) else shorten(logs)
        raise LawBroken(law, where, math.inf, f"_log_profile returned {what}; {accepted}")
    for name, half in zip(DIRECTIONS, logs, strict=True):
        if np.shape(half) != epsilons.shape:
            raise LawBroken(law, where, math.inf, f"{name} has shape {np.shape(half)}; {accepted}")
        if np.isnan(half).any():
            raise LawBroken(law, where, math.nan, f"{name} is not a number")


def _non_negative(event: Event, draw: Callable[[Any], Any]) -> None:
    ladder = _ladder(draw, 1e12)
    for order, value in zip(ladder, event.renyi(ladder).tolist(), strict=True):
        _at_most("non-negative", f"order {order!r}", 0.0, value, "the curve is {high!r}")


def _non_decreasing(event: Event, draw: Callable[[Any], Any]) -> None:
    _rises(event, _ladder(draw, 1e6))


@lru_cache(maxsize=256)
def _curve_at(event: Event, ladder: tuple[float, ...]) -> list[float]:
    """The curve; kept, since two laws look at it on the same fine grid."""
    values: list[float] = event.renyi(ladder).tolist()
    return values


def _rises(event: Event, ladder: list[float]) -> None:
    for (low, at_low), (high, at_high) in pairwise(zip(ladder, _curve_at(event, tuple(ladder)), strict=True)):
        detail = f"{{low!r}} at order {low!r}, {{high!r}} at order {high!r}"
        _at_most("non-decreasing in order", f"order {high!r}", at_low, at_high, detail)


def _convex(event: Event, draw: Callable[[Any], Any]) -> None:
    _bends_upwards(event, _ladder(draw, 1e4))


def _bends_upwards(event: Event, ladder: list[float]) -> None:
    values = [(order - 1) * curve for order, curve in zip(ladder, _curve_at(event, tuple(ladder)), strict=True)]
    for i in range(1, len(ladder) - 1):
        left, middle, right = ladder[i - 1 : i + 2]
        if values[i + 1] == math.inf:
            return
        share = (right - middle) / (right - left)
        chord = share * values[i - 1] + (1 - share) * values[i + 1]
        detail = f"{{low!r}} above the chord {{high!r}} between orders {left!r} and {right!r}"
        _at_most("(a-1) times the curve is convex", f"order {middle!r}", values[i], chord, detail)


def _limit_at_one(event: Event, draw: Callable[[Any], Any]) -> None:
    limit, order = _at(event, 1.0), draw(orders())
    _at_most("limit at order 1", f"order {order!r}", limit, _at(event, order), "limit {low!r} above {high!r}")
    near = _at(event, 1 + 1e-12)
    _at_most("limit at order 1", "order 1 + 1e-12", near, limit, "{low!r} has not come down to {high!r}", slack=1e-4)


def _limit_at_infinity(event: Event, draw: Callable[[Any], Any]) -> None:
    limit, order = _at(event, math.inf), draw(orders(1e12))
    value = _at(event, order)
    _at_most("limit at order inf", f"order {order!r}", value, limit, "{low!r} above the limit {high!r}")
    if limit < math.inf:
        far = _at(event, 1e15)
        _at_most("limit at order inf", "order 1e15", limit, far, "{high!r} has not come up to {low!r}", slack=1e-2)


def _subsampling_amplifies(event: Event, draw: Callable[[Any], Any]) -> None:
    rate, order = draw(log_uniform(1e-6, 1.0)), draw(orders(1e4))
    sampled = _at(PoissonSubsampled(event, rate), order)
    detail = "{low!r} sampled, {high!r} not"
    _at_most("subsampled <= unsubsampled", f"order {order!r}, rate {rate!r}", sampled, _at(event, order), detail)


def _rate_limits(event: Event, draw: Callable[[Any], Any]) -> None:
    order = draw(orders(1e4))
    free = _at(PoissonSubsampled(event, 0.0), order)
    _at_most("rate 0 is free", f"order {order!r}", abs(free), 0.0, "the curve is {low!r}")
    whole, own = _at(PoissonSubsampled(event, 1.0), order), _at(event, order)
    detail = f"{whole!r} at rate 1, {own!r} alone"
    _at_most("rate 1 is the event", f"order {order!r}", _apart(whole, own), ROUNDING * own, detail)


def _below_ceiling(event: Event, draw: Callable[[Any], Any]) -> None:
    order = draw(orders())
    ceiling = event.unsampled._ceiling()
    assert ceiling is not None
    if event.sampling_rate < 1.0:
        ceiling = PoissonSubsampled(ceiling, event.sampling_rate)
    detail = f"{{low!r}}, but {ceiling!r} costs {{high!r}}"
    _at_most("screening <= Gaussian", f"order {order!r}", _at(event, order), _at(ceiling, order), detail)


def _additive(event: Event, draw: Callable[[Any], Any]) -> None:
    st = hypothesis().strategies
    order, m, n = draw(orders()), draw(st.integers(1, 10**6)), draw(st.integers(1, 10**6))
    whole, parts = float((m * event + n * event).renyi(order)), (m + n) * _at(event, order)
    detail = f"{m} and {n} copies cost {whole!r}, the sum is {parts!r}"
    _at_most("additivity", f"order {order!r}", _apart(whole, parts), ROUNDING * parts, detail)


def _adjacency_kept(event: Event, draw: Callable[[Any], Any]) -> None:
    law = "adjacency never mixed"
    other = next(member for member in Adjacency if member is not event.adjacency)
    if (2 * event).adjacency is not event.adjacency:
        raise LawBroken(law, "2 copies", 1, f"a composition of {event.adjacency} claims {(2 * event).adjacency}")
    try:
        event + PureDP(1.0, adjacency=other)
    except AdjacencyMismatch:
        return
    raise LawBroken(law, f"adding an event under {other}", 1, "no AdjacencyMismatch was raised")


def _profile_shape(event: Event, draw: Callable[[Any], Any]) -> None:
    st = hypothesis().strategies
    law = "profile convex and decreasing"
    low, high = sorted([draw(epsilons_of(event)), draw(epsilons_of(event))])
    share = draw(st.floats(0.0, 1.0))
    # convexity is in u = e^epsilon, where the profile is E_P[(1 - u Q/P)_+]
    left, right = math.exp(low), math.exp(high)
    middle = math.log(share * left + (1 - share) * right)
    middle = min(max(middle, low), high)
    points = event.profile([low, middle, high])
    share = (right - math.exp(middle)) / (right - left) if right > left else 1.0
    for name, values in (("remove", points.remove), ("add", points.add)):
        a, b, c = values.tolist()
        where, slack = f"epsilon {middle!r} ({name})", 1e-12
        _at_most(law, where, b, a + slack, "rises from {high!r} to {low!r}")
        _at_most(law, where, c, b + slack, "rises from {high!r} to {low!r}")
        _at_most(law, where, b, share * a + (1 - share) * c + slack, "{low!r} above the chord {high!r}")
        _at_most(law, where, max(-math.expm1(middle), 0.0), b + slack, "{high!r} below its least value {low!r}")
        _at_most(law, where, b, 1.0, "{low!r} above 1")


def _profile_duality(event: Event, draw: Callable[[Any], Any]) -> None:
    epsilon = abs(draw(epsilons_of(event)))
    here, mirrored = event.profile(epsilon), event.profile(-epsilon)
    for name, half, dual in (("remove", here.add, mirrored.remove), ("add", here.remove, mirrored.add)):
        expected = -math.expm1(-epsilon) + math.exp(-epsilon) * float(half)
        detail = f"{float(dual)!r}, but the other direction implies {expected!r}"
        _at_most("profile duality", f"epsilon {-epsilon!r} ({name})", abs(float(dual) - expected), 1e-12, detail)


def _integral(event: Event, draw: Callable[[Any], Any]) -> None:
    order = draw(orders(200.0))
    curve, integral = _at(event, order), float(integrate_profile(event, order, tolerance=1e-9))
    law, where = "curve recovered from the profile", f"order {order!r}"
    most, said = integral, "the curve is {low!r}, the integral over the profile {high!r}"
    if 0.0 < event.sampling_rate < 1.0 and event.unsampled._chords and order > 1:
        most, said = max(_chord(event, order), integral), "the curve is {low!r}, the chord between integrals {high!r}"
    _at_most(law, where, curve, most, said, slack=1e-6)
    if not event.family:
        detail = "the integral over the profile is {low!r}, the curve {high!r}"
        _at_most(law, where, integral, curve, detail, slack=1e-6)


def _chord(event: Event, order: float) -> float:
    """What the integrals over the profile at the whole orders beside it say of this one; (a-1) curve is convex."""
    low = math.floor(order)
    ends = [(n - 1) * float(integrate_profile(event, n, tolerance=1e-9)) for n in (low, low + 1)]
    return (ends[0] + (order - low) * (ends[1] - ends[0])) / (order - 1)


def _always(event: Event) -> bool:
    return True


def _has_profile(event: Event) -> bool:
    try:
        event._log_profile(np.ones(1))
    except ProfileUnavailable:
        return False
    except Exception:
        return True  # it claims one: the laws will say what is wrong with it
    return True


def _has_exact_profile(event: Event) -> bool:
    return not event.between_bounds and _has_profile(event)


def _has_ceiling(event: Event) -> bool:
    return event.unsampled._ceiling() is not None


FORM: tuple[Law, ...] = (
    Law("one number for every order", _always, _one_number_for_every_order),
    Law("two arrays for a profile", _has_profile, _two_arrays),
)
"""Where one of these is broken, others cannot be told."""

LAWS: tuple[Law, ...] = (
    *FORM,
    Law("non-negative", _always, _non_negative),
    Law("non-decreasing in order", _always, _non_decreasing, _rises),
    # a data-dependent bound is a smaller of two curves, which need not be convex
    Law("(a-1) times the curve is convex", lambda event: not event.data_dependent, _convex, _bends_upwards),
    Law("limit at order 1", _always, _limit_at_one),
    Law("limit at order inf", _always, _limit_at_infinity),
    Law("subsampled <= unsubsampled", can_be_sampled, _subsampling_amplifies),
    Law("rate 0 and rate 1", can_be_sampled, _rate_limits),
    Law("screening <= Gaussian", _has_ceiling, _below_ceiling),
    Law("additivity", _always, _additive),
    Law("adjacency never mixed", _always, _adjacency_kept),
    Law("profile convex and decreasing", _has_profile, _profile_shape),
    Law("profile duality", _has_exact_profile, _profile_duality),
    Law("curve recovered from the profile", _has_exact_profile, _integral),
)


def laws_for(event: Event) -> tuple[Law, ...]:
    """The laws to which an event is subject."""
    return tuple(law for law in LAWS if law.applies(event))
