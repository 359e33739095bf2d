"""Runs of this accountant as DpEvents of dp_accounting: the other way round from `dp_events`."""

from __future__ import annotations

import math
from typing import Any

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, shorten
from accountant.events import (
    DiscreteLaplace,
    KaryRandomizedResponse,
    Laplace,
    MixtureOfGaussians,
    PureDP,
    RandomizedResponse,
    TruncatedPoissonGaussian,
    ZeroConcentratedDP,
)
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.interop.peers import import_peer

__all__ = ["describe"]


def describe(run: Composition) -> Any:
    """The `DpEvent` of a run, to be read under the relation that its adjacency is.

    Raises
    ------
    ParameterError
        No DpEvent has the pair of distributions of an event.
    """
    dp_event = import_peer("dp_accounting.dp_event", "dp_accounting")
    parts = [_repeat(dp_event, _describe_one(dp_event, event), count) for event, count in run]
    if not parts:
        return dp_event.NoOpDpEvent()
    return parts[0] if len(parts) == 1 else dp_event.ComposedDpEvent(parts)


def _describe_one(dp_event: Any, event: Event) -> Any:
    inner, rate = event.unsampled, event.sampling_rate
    plain = _describe_plain(dp_event, inner)
    return plain if inner is event else dp_event.PoissonSampledDpEvent(rate, plain)


def _describe_plain(dp_event: Any, event: Event) -> Any:
    replaces = event.adjacency is Adjacency.REPLACE
    summand = event._summand()
    if summand is not None and summand.key == "Gaussian":
        mu = math.sqrt(summand.size)
        return dp_event.GaussianDpEvent((2.0 if replaces else 1.0) / mu) if mu > 0.0 else dp_event.NoOpDpEvent()
    if isinstance(event, ZeroConcentratedDP):
        return dp_event.ZCDpEvent(event.rho, event.xi)
    if isinstance(event, MixtureOfGaussians):
        return dp_event.MixtureOfGaussiansDpEvent(event.sigma, event.sensitivities, event.probabilities)
    if isinstance(event, TruncatedPoissonGaussian):
        noise = event.sigma / event.clip
        return dp_event.TruncatedSubsampledGaussianDpEvent(event.population, event.rate, event.largest_batch, noise)
    if isinstance(event, KaryRandomizedResponse) and replaces and event.epsilon < 690.0:
        noise = event.categories / (math.expm1(event.epsilon) + event.categories)
        return dp_event.RandomizedResponseDpEvent(noise, event.categories)
    if isinstance(event, Laplace) and not replaces:
        return _repeat(dp_event, dp_event.LaplaceDpEvent(1 / event.shift), event.coordinates)
    if isinstance(event, DiscreteLaplace) and not replaces:
        single = dp_event.DiscreteLaplaceDpEvent(1 / event.scale, event.sensitivity)
        return _repeat(dp_event, single, event.coordinates)
    if isinstance(event, RandomizedResponse | PureDP) and replaces and event.epsilon < 690.0:
        single = dp_event.RandomizedResponseDpEvent(2 / (1 + math.exp(event.epsilon)), 2)
        return _repeat(dp_event, single, event._coordinates)
    raise ParameterError(
        f"no DpEvent has the pair of distributions of {shorten(event)}; accepted: Gaussian noise, also on truncated "
        "Poisson samples, zCDP, Laplace noise of either kind and mixtures of Gaussians under add-remove adjacency, "
        "randomized response under replace adjacency"
    )


def _repeat(dp_event: Any, event: Any, count: int) -> Any:
    return event if count == 1 else dp_event.SelfComposedDpEvent(event, count)
