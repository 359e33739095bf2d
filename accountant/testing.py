"""Laws that every event must keep, for your events as much as for the built-in ones.

``check_event(event)`` holds an event against all of them with inputs drawn by Hypothesis, and says which law
broke, where, and by how much. `events()` and `compositions()` are strategies for tests of your own. Needs
Hypothesis: ``pip install 'knn-accountant[testing]'``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from accountant.adjacency import Adjacency
from accountant.errors import AdjacencyMismatch, MissingExtra, ProfileUnavailable
from accountant.events.collision import Collision
from accountant.events.composition import Composition
from accountant.events.event import Event, renyi_from_profile
from accountant.events.gaussian import Gaussian, GaussianDP, ZeroConcentratedDP
from accountant.events.laplace import Laplace
from accountant.events.noisy_max import DataDependentGNMax, DataDependentLNMax, GNMax, LNMax
from accountant.events.randomized_response import PureDP, RandomizedResponse
from accountant.events.screening import DataDependentScreening, NoisyScreening
from accountant.events.subsampled import PoissonSubsampled

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "LAWS",
    "Law",
    "LawBroken",
    "broken_laws",
    "check_event",
    "compositions",
    "epsilons_of",
    "events",
    "example_events",
    "laws_for",
    "orders",
]

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
    """

    name: str
    applies: Callable[[Event], bool]
    check: Callable[[Event, Callable[[Any], Any]], None]


# --- strategies ----------------------------------------------------------------------------------------


def _hypothesis() -> Any:
    try:
        import hypothesis
    except ImportError:
        raise MissingExtra("Hypothesis is not installed; accepted: pip install 'knn-accountant[testing]'") from None
    return hypothesis


def _log_uniform(low: float, high: float) -> SearchStrategy[float]:
    st = _hypothesis().strategies
    strategy: SearchStrategy[float] = st.floats(math.log10(low), math.log10(high)).map(lambda x: 10.0**x)
    return strategy


def orders(high: float = 1e6) -> SearchStrategy[float]:
    """Orders in (1, high], log-uniform in their distance from 1."""
    return _log_uniform(1e-6, high - 1).map(lambda b: 1 + b)


def epsilons_of(event: Event) -> SearchStrategy[float]:
    """Epsilons, negative ones too, where an event's profile is not all but constant."""
    st = _hypothesis().strategies
    mean, end = (float(value) for value in event.renyi([1.0, math.inf]))
    scale = min(end, mean + 12 * math.sqrt(2 * mean), 500.0)
    strategy: SearchStrategy[float] = st.floats(-1.0, 1.0).map(lambda x: scale * x)
    return strategy


def events(adjacency: Adjacency | None = None) -> SearchStrategy[Event]:
    """Built-in data-independent events, sampled or not, over the parameter ranges that people use."""
    st = _hypothesis().strategies
    rates = st.one_of(st.sampled_from([0.0, 1.0]), _log_uniform(1e-8, 1.0))
    scales = _log_uniform(0.05, 1e4)
    epsilons = _log_uniform(1e-6, 20.0)
    central = st.one_of(
        st.builds(Gaussian, scales),
        st.builds(Laplace, scales, coordinates=st.integers(1, 6)),
        st.builds(RandomizedResponse, epsilons, st.integers(1, 8)),
        st.builds(
            lambda sigma, threshold, size, low: NoisyScreening(sigma, threshold, low + size, low),
            scales,
            st.floats(-50.0, 150.0),
            st.integers(1, 60),
            st.integers(0, 20),
        ),
        st.builds(GNMax, scales),
        st.builds(LNMax, scales),
        st.builds(PureDP, epsilons),
        st.builds(ZeroConcentratedDP, _log_uniform(1e-8, 10.0)),
        st.builds(GaussianDP, _log_uniform(1e-4, 10.0)),
    )
    sampled = st.builds(PoissonSubsampled, central, rates)
    local = st.builds(
        lambda epsilon, c, extra: Collision(epsilon, c, c + extra), epsilons, st.integers(1, 4), st.integers(1, 40)
    )
    choice = {None: st.one_of(central, sampled, local), Adjacency.ADD_REMOVE: st.one_of(central, sampled)}
    strategy: SearchStrategy[Event] = choice.get(adjacency, local)
    return strategy


def compositions() -> SearchStrategy[Composition]:
    """Compositions of one to four add-remove events."""
    st = _hypothesis().strategies
    entry = st.tuples(events(Adjacency.ADD_REMOVE), st.integers(1, 10**6))
    strategy: SearchStrategy[Composition] = st.lists(entry, min_size=1, max_size=4).map(Composition)
    return strategy


def example_events() -> list[Event]:
    """One event of every built-in kind, sampled where that makes sense: what ``accountant verify`` checks."""
    central: list[Event] = [
        Gaussian(20.0),
        Laplace(2.0),
        Laplace(3.0, coordinates=3),
        RandomizedResponse(1.0, bits=2),
        NoisyScreening(85.0, 210.0, 300),
        NoisyScreening(2.0, 30.0, 50, min_votes=25),
        GNMax(40.0),
        LNMax(20.0),
        PureDP(0.5),
        ZeroConcentratedDP(0.1),
        GaussianDP(0.5),
    ]
    return [
        *central,
        *(PoissonSubsampled(event, 0.1) for event in central),
        Collision(1.0, 2, 8),
        Gaussian(5.0, adjacency=Adjacency.REPLACE),
        DataDependentScreening(85.0, 210.0, 40),
        DataDependentGNMax(40.0, (200.0, 40.0, 10.0, 0.0)),
        DataDependentLNMax(20.0, (200.0, 40.0, 10.0, 0.0)),
    ]


# --- the laws ------------------------------------------------------------------------------------------


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


def _non_negative(event: Event, draw: Callable[[Any], Any]) -> None:
    ladder = _ladder(draw, 1e12)
    for order, value in zip(ladder, event.renyi(ladder).tolist(), strict=True):
        _at_most("non-negative", f"order {order!r}", 0.0, value, "the curve is {high!r}")


def _non_decreasing(event: Event, draw: Callable[[Any], Any]) -> None:
    ladder = _ladder(draw, 1e6)
    for (low, at_low), (high, at_high) in pairwise(zip(ladder, event.renyi(ladder).tolist(), strict=True)):
        detail = f"{{low!r}} at order {low!r}, {{high!r}} at order {high!r}"
        _at_most("non-decreasing in order", f"order {high!r}", at_low, at_high, detail)


def _convex(event: Event, draw: Callable[[Any], Any]) -> None:
    ladder = _ladder(draw, 1e4)
    values = [(order - 1) * curve for order, curve in zip(ladder, event.renyi(ladder).tolist(), strict=True)]
    for i in range(1, len(ladder) - 1):
        left, middle, right = ladder[i - 1 : i + 2]
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
    rate, order = draw(_log_uniform(1e-6, 1.0)), draw(orders(1e4))
    sampled = _at(PoissonSubsampled(event, rate), order)
    detail = "{low!r} sampled, {high!r} not"
    _at_most("subsampled <= unsubsampled", f"order {order!r}, rate {rate!r}", sampled, _at(event, order), detail)


def _rate_limits(event: Event, draw: Callable[[Any], Any]) -> None:
    order = draw(orders(1e4))
    free = _at(PoissonSubsampled(event, 0.0), order)
    _at_most("rate 0 is free", f"order {order!r}", abs(free), 0.0, "the curve is {low!r}")
    whole, own = _at(PoissonSubsampled(event, 1.0), order), _at(event, order)
    detail = f"{whole!r} at rate 1, {own!r} alone"
    _at_most("rate 1 is the event", f"order {order!r}", abs(whole - own), ROUNDING * own, detail)


def _below_gaussian(event: Event, draw: Callable[[Any], Any]) -> None:
    order = draw(orders())
    rate, inner = (event.rate, event.event) if isinstance(event, PoissonSubsampled) else (1.0, event)
    gaussian: Event = Gaussian(inner.sigma)  # type: ignore[attr-defined]
    if rate < 1.0:
        gaussian = PoissonSubsampled(gaussian, rate)
    detail = "screening {low!r}, Gaussian {high!r}"
    _at_most("screening <= Gaussian", f"order {order!r}", _at(event, order), _at(gaussian, order), detail)


def _additive(event: Event, draw: Callable[[Any], Any]) -> None:
    st = _hypothesis().strategies
    order, m, n = draw(orders()), draw(st.integers(1, 10**6)), draw(st.integers(1, 10**6))
    whole, parts = float((m * event + n * event).renyi(order)), (m + n) * _at(event, order)
    detail = f"{m} and {n} copies cost {whole!r}, the sum is {parts!r}"
    _at_most("additivity", f"order {order!r}", abs(whole - parts), ROUNDING * parts, detail)


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
    st = _hypothesis().strategies
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
    curve, integral = _at(event, order), float(renyi_from_profile(event, order, tolerance=1e-9))
    law, where = "curve recovered from the profile", f"order {order!r}"
    _at_most(law, where, curve, integral, "the curve is {low!r}, the integral over the profile {high!r}", slack=1e-6)
    if not event.family:
        detail = "the integral over the profile is {low!r}, the curve {high!r}"
        _at_most(law, where, integral, curve, detail, slack=1e-6)


def _always(event: Event) -> bool:
    return True


def _has_profile(event: Event) -> bool:
    try:
        event.profile(1.0)
    except ProfileUnavailable:
        return False
    except Exception:
        return True  # it claims one: the laws will say what is wrong with it
    return True


def _can_be_sampled(event: Event) -> bool:
    return event.adjacency is Adjacency.ADD_REMOVE and not event.data_dependent


def _is_screening(event: Event) -> bool:
    inner = event.event if isinstance(event, PoissonSubsampled) else event
    return isinstance(inner, NoisyScreening | DataDependentScreening)


LAWS: tuple[Law, ...] = (
    Law("non-negative", _always, _non_negative),
    Law("non-decreasing in order", _always, _non_decreasing),
    # a data-dependent bound is a smaller of two curves, which need not be convex
    Law("(a-1) times the curve is convex", lambda event: not event.data_dependent, _convex),
    Law("limit at order 1", _always, _limit_at_one),
    Law("limit at order inf", _always, _limit_at_infinity),
    Law("subsampled <= unsubsampled", _can_be_sampled, _subsampling_amplifies),
    Law("rate 0 and rate 1", _can_be_sampled, _rate_limits),
    Law("screening <= Gaussian", _is_screening, _below_gaussian),
    Law("additivity", _always, _additive),
    Law("adjacency never mixed", _always, _adjacency_kept),
    Law("profile convex and decreasing", _has_profile, _profile_shape),
    Law("profile duality", _has_profile, _profile_duality),
    Law("curve recovered from the profile", _has_profile, _integral),
)


def laws_for(event: Event) -> tuple[Law, ...]:
    """The laws to which an event is subject."""
    return tuple(law for law in LAWS if law.applies(event))


def broken_laws(event: Event, *, max_examples: int = 50, laws: Sequence[Law] | None = None) -> list[LawBroken]:
    """Hold `event` against the laws and return one LawBroken for each that it breaks.

    Parameters
    ----------
    event : Event
    max_examples : int
        Random inputs per law; the same ones every time.
    laws : sequence of Law, optional
        Instead of all that apply.

    Raises
    ------
    MissingExtra
        Hypothesis is not installed.
    """
    hypothesis = _hypothesis()
    settings = hypothesis.settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    broken = []

    def hold(law: Law) -> None:
        def check(data: Any) -> None:
            law.check(event, data.draw)

        settings(hypothesis.given(hypothesis.strategies.data())(check))()

    for law in laws_for(event) if laws is None else laws:
        try:
            hold(law)
        except LawBroken as failure:
            broken.append(failure)
        except Exception as error:
            broken.append(LawBroken(law.name, "evaluation", math.inf, f"it raised {error!r}"))
    return broken


def check_event(event: Event, *, max_examples: int = 50) -> None:
    """Hold an event against every law that applies to it.

    Parameters
    ----------
    event : Event
        Built in, or your own: a frozen dataclass derived from `accountant.Event`.
    max_examples : int
        Random inputs per law; the same ones every time.

    Raises
    ------
    LawBroken
        A law does not hold; the message says which, at which order, epsilon or rate, and by how much.
    MissingExtra
        Hypothesis is not installed.
    """
    failures = broken_laws(event, max_examples=max_examples)
    if failures:
        first = failures[0]
        if len(failures) > 1:
            first.add_note(f"also broken: {'; '.join(str(failure) for failure in failures[1:])}")
        raise first
