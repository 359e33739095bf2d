"""Hypothesis strategies for events and compositions. Needs Hypothesis, which is imported when one is built."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from accountant.adjacency import Adjacency
from accountant.errors import MissingExtra, ParameterError
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.parameters import Parameter, parameters_of
from accountant.events.registry import event_kinds
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.subsampling import can_be_sampled

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["compositions", "epsilons_of", "events", "hypothesis", "log_uniform", "orders"]


def hypothesis() -> Any:
    try:
        import hypothesis as library
    except ImportError:
        raise MissingExtra("Hypothesis is not installed; accepted: pip install 'knn-accountant[testing]'") from None
    return library


def log_uniform(low: float, high: float) -> SearchStrategy[float]:
    st = hypothesis().strategies
    strategy: SearchStrategy[float] = st.floats(math.log10(low), math.log10(high)).map(lambda x: 10.0**x)
    return strategy


def orders(high: float = 1e6) -> SearchStrategy[float]:
    """Orders in (1, high], log-uniform in their distance from 1."""
    return log_uniform(1e-6, high - 1).map(lambda b: 1 + b)


def epsilons_of(event: Event) -> SearchStrategy[float]:
    """Epsilons, negative ones too, where an event's profile is not all but constant."""
    st = hypothesis().strategies
    mean, end = (float(value) for value in event.renyi([1.0, math.inf]))
    scale = min(end, mean + 12 * math.sqrt(2 * mean), 500.0)
    strategy: SearchStrategy[float] = st.floats(-1.0, 1.0).map(lambda x: scale * x)
    return strategy


def events(adjacency: Adjacency | None = None) -> SearchStrategy[Event]:
    """Registered data-independent events, sampled or not, over the parameter ranges that people use."""
    st = hypothesis().strategies
    rates = st.one_of(st.sampled_from([0.0, 1.0]), log_uniform(1e-8, 1.0))
    central: list[SearchStrategy[Event]] = []
    local: list[SearchStrategy[Event]] = []
    for kind in event_kinds().values():
        examples = [event for event in kind.examples() if not event.data_dependent]
        if examples and all(each.usual or each.default is not None for each in parameters_of(kind)):
            (central if can_be_sampled(examples[0]) else local).append(events_of(kind))
    sampled = st.builds(PoissonSubsampled, st.one_of(central), rates)
    choice = {None: [*central, sampled, *local], Adjacency.ADD_REMOVE: [*central, sampled]}
    strategy: SearchStrategy[Event] = st.one_of(choice.get(adjacency, local))
    return strategy


def events_of(kind: type[Event]) -> SearchStrategy[Event]:
    """Events of one class whose parameters are in the ranges that people use, defaults where none is stated."""
    library = hypothesis()
    usual = {each.name: numbers_of(each) for each in parameters_of(kind) if each.usual}

    def make(**parameters: float) -> Event:
        try:
            return kind(**parameters)
        except ParameterError:  # some do not go together
            library.reject()
            raise

    strategy: SearchStrategy[Event] = library.strategies.builds(make, **usual)
    return strategy


def numbers_of(parameter: Parameter) -> SearchStrategy[float]:
    """Values of a parameter that people use, log-uniform where they are positive reals."""
    st = hypothesis().strategies
    assert parameter.usual is not None
    low, high = parameter.usual
    if parameter.whole:
        return cast("SearchStrategy[float]", st.integers(int(low), int(high)))
    return log_uniform(low, high) if low > 0 else cast("SearchStrategy[float]", st.floats(low, high))


def compositions() -> SearchStrategy[Composition]:
    """Compositions of one to four add-remove events."""
    st = hypothesis().strategies
    entry = st.tuples(events(Adjacency.ADD_REMOVE), st.integers(1, 10**6))
    strategy: SearchStrategy[Composition] = st.lists(entry, min_size=1, max_size=4).map(Composition)
    return strategy
