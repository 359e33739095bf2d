"""Runs of this accountant as DpEvents of dp_accounting: the other way round from `dp_events`.

Numbers that are rounded are rounded to the costlier side: what `dp_events` makes of an event costs no less.
"""

from __future__ import annotations

import math
from fractions import Fraction
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
from accountant.interop.dp_events import epsilon_of_response, gaussian_square
from accountant.interop.peers import import_peer
from accountant.numerics.exact import root_down, round_down, round_up

COARSEST = 1e-6
"""Share by which an epsilon may grow as its noise is rounded."""

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
        return _gaussian(dp_event, gaussian_square(event), 2 if replaces else 1)
    if isinstance(event, ZeroConcentratedDP):
        return dp_event.ZCDpEvent(event.rho, event.xi)
    if isinstance(event, MixtureOfGaussians):
        return dp_event.MixtureOfGaussiansDpEvent(event.sigma, event.sensitivities, event.probabilities)
    if isinstance(event, TruncatedPoissonGaussian):
        noise = round_down(Fraction(event.sigma) / Fraction(event.clip))
        return dp_event.TruncatedSubsampledGaussianDpEvent(event.population, event.rate, event.largest_batch, noise)
    if isinstance(event, KaryRandomizedResponse) and replaces and event.epsilon < 690.0:
        return _response(dp_event, event.epsilon, event.categories)
    if isinstance(event, Laplace) and not replaces:
        noise = round_down(Fraction(event.scale) / Fraction(event.sensitivity))
        return _repeat(dp_event, dp_event.LaplaceDpEvent(noise), event.coordinates)
    if isinstance(event, DiscreteLaplace) and not replaces:
        single = dp_event.DiscreteLaplaceDpEvent(round_up(1 / Fraction(event.scale)), event.sensitivity)
        return _repeat(dp_event, single, event.coordinates)
    if isinstance(event, RandomizedResponse | PureDP) and replaces and event.epsilon < 690.0:
        return _repeat(dp_event, _response(dp_event, event.epsilon, 2), event._coordinates)
    raise ParameterError(
        f"no DpEvent has the pair of distributions of {shorten(event)}; accepted: Gaussian noise, also on truncated "
        "Poisson samples, zCDP, Laplace noise of either kind and mixtures of Gaussians under add-remove adjacency, "
        "randomized response under replace adjacency"
    )


def _gaussian(dp_event: Any, square: Fraction, moved: int) -> Any:
    """Noise with which what moves so far has at least this square of mu."""
    return dp_event.GaussianDpEvent(root_down(moved**2 / square)) if square else dp_event.NoOpDpEvent()


def _response(dp_event: Any, epsilon: float, buckets: int) -> Any:
    """Randomized response of at least this epsilon."""
    if epsilon == 0.0:
        return dp_event.NoOpDpEvent()
    noise = buckets / (math.expm1(epsilon) + buckets)
    while (found := epsilon_of_response(noise, buckets)) < epsilon:
        noise = math.nextafter(noise, 0.0)
    if found > epsilon * (1 + COARSEST):
        raise ParameterError(
            f"epsilon = {epsilon:g} of a response in {buckets} buckets: its noise is too near to 1 for a float; "
            "accepted: a larger one"
        )
    return dp_event.RandomizedResponseDpEvent(noise, buckets)


def _repeat(dp_event: Any, event: Any, count: int) -> Any:
    return event if count == 1 else dp_event.SelfComposedDpEvent(event, count)
