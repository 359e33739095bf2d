"""Hypothesis strategies for events and compositions. Needs Hypothesis, which is imported when one is built."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accountant.adjacency import Adjacency
from accountant.errors import MissingExtra
from accountant.events.collision import Collision
from accountant.events.composition import Composition
from accountant.events.discrete_gaussian import DiscreteGaussian
from accountant.events.discrete_laplace import DiscreteLaplace
from accountant.events.event import Event
from accountant.events.gaussian import Gaussian, GaussianDP, ZeroConcentratedDP
from accountant.events.laplace import Laplace
from accountant.events.noisy_max import GNMax, LNMax
from accountant.events.randomized_response import PureDP, RandomizedResponse
from accountant.events.screening import NoisyScreening
from accountant.events.subsampled import PoissonSubsampled

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
    """Built-in data-independent events, sampled or not, over the parameter ranges that people use."""
    st = hypothesis().strategies
    rates = st.one_of(st.sampled_from([0.0, 1.0]), log_uniform(1e-8, 1.0))
    scales = log_uniform(0.05, 1e4)
    epsilons = log_uniform(1e-6, 20.0)
    central = st.one_of(
        st.builds(Gaussian, scales),
        st.builds(Laplace, scales, coordinates=st.integers(1, 6)),
        st.builds(RandomizedResponse, epsilons, st.integers(1, 8)),
        st.builds(DiscreteLaplace, scales, st.integers(1, 5)),
        st.builds(DiscreteGaussian, scales, st.integers(1, 5)),
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
        st.builds(ZeroConcentratedDP, log_uniform(1e-8, 10.0)),
        st.builds(GaussianDP, log_uniform(1e-4, 10.0)),
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
    st = hypothesis().strategies
    entry = st.tuples(events(Adjacency.ADD_REMOVE), st.integers(1, 10**6))
    strategy: SearchStrategy[Composition] = st.lists(entry, min_size=1, max_size=4).map(Composition)
    return strategy
