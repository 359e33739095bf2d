"""Runs whose privacy profile is known in closed form, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from accountant.errors import ProfileUnavailable
from accountant.events.composition import Composition
from accountant.events.discrete_gaussian import DiscreteGaussian, discrete_gaussian_log_profile
from accountant.events.discrete_laplace import DiscreteLaplace
from accountant.events.event import Event
from accountant.events.gaussian import GaussianLike, gaussian_log_profile
from accountant.events.laplace import PROFILE_COORDINATES, Laplace
from accountant.events.randomized_response import (
    PROFILE_BITS,
    RandomizedResponse,
    bernoulli_log_profile,
    bernoulli_parameters,
)
from accountant.events.shuffled_counts import ShuffledCounts
from accountant.events.subsampled import PoissonSubsampled
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval, bisect_by_arrays

__all__ = [
    "ACCURACY",
    "PLACES",
    "ClosedForm",
    "by_coordinate",
    "closed_form",
    "given_finite",
    "inverse_profile",
    "of_coordinates",
]

ACCURACY = 5e-11
"""Bound on the relative error of computed profiles at epsilons moved by PLACES; 1.2e-12 was found."""

COORDINATES: dict[type, str] = {
    Laplace: "coordinates",
    RandomizedResponse: "bits",
    DiscreteLaplace: "coordinates",
    DiscreteGaussian: "coordinates",
}
"""Releases of independent noise on every coordinate: m coordinates are m composed releases of one."""

PIECES = 4096
"""Releases into which many coordinates are taken apart; each has more of them if they are more."""

PLACES = 2.0**-48
"""Bound on what rounding does to a profile's epsilon, relatively: most of it near an end, or for a large mu."""


class ClosedForm(NamedTuple):
    """Log of the worse direction's profile at epsilons >= 0, and where it comes from."""

    log_profile: Callable[[FloatArray], FloatArray]
    source: str


def closed_form(run: Composition) -> ClosedForm | None:
    """The run's profile, if it is one release, or all Gaussian, or pure randomized response of one epsilon."""
    entries = [(_plain(event), count) for event, count in run]
    if entries and all(isinstance(event, GaussianLike) for event, _ in entries):
        # Dong, Roth & Su 2022, Cor. 3.3: mu-GDP composes to the root of the sum of squares
        mu = math.sqrt(
            math.fsum(count * event._mu() ** 2 for event, count in entries if isinstance(event, GaussianLike))
        )
        return ClosedForm(lambda points: gaussian_log_profile(mu, points), f"Gaussian with mu = {mu:.6g}")
    bits = [_bits(event) for event, _ in entries]
    if entries and all(pair is not None and pair[0] == (bits[0] or pair)[0] for pair in bits):
        flipped = sum(pair[1] * count for pair, (_, count) in zip(bits, entries, strict=True) if pair is not None)
        if flipped <= PROFILE_BITS:
            # Kairouz, Oh & Viswanath 2015, Thm 3.4: the binomial sum over the bits that were flipped
            one = bits[0][0] if bits[0] is not None else 0.0
            return ClosedForm(lambda points: bernoulli_log_profile(one, flipped, points), f"binomial of {flipped} bits")
    if (discrete := _discrete_gaussian(entries)) is not None:
        return discrete
    if run.releases == 1:
        ((event, _),) = entries
        if has_profile(event):
            return ClosedForm(lambda points: np.maximum(*event._log_profile(points)), "profile of one release")
    return None


def _bits(event: Event) -> tuple[float, int] | None:
    """Epsilon and bits of what is randomized response, or has its losses."""
    if isinstance(event, DiscreteLaplace) and event.sensitivity == 1:
        return event._rate(), event.coordinates
    return bernoulli_parameters(event)


def _discrete_gaussian(entries: Sequence[tuple[Event, int]]) -> ClosedForm | None:
    """All coordinates of all releases, if their noise is the same and its sum has a known law."""
    kinds = {(e.sigma, e.sensitivity) if isinstance(e, DiscreteGaussian) else None for e, _ in entries}
    if len(kinds) != 1 or (kind := kinds.pop()) is None:
        return None
    many = sum(count * event.coordinates for event, count in entries if isinstance(event, DiscreteGaussian))
    try:
        discrete_gaussian_log_profile(*kind, many, np.zeros(1))
    except ProfileUnavailable:
        return None
    return ClosedForm(lambda points: discrete_gaussian_log_profile(*kind, many, points), f"{many} discrete Gaussians")


def has_profile(event: Event) -> bool:
    try:
        event._log_profile(np.zeros(1))
    except ProfileUnavailable:
        return False
    return True


def of_coordinates(event: Event) -> int:
    """Of how many coordinates with independent noise a release consists."""
    name = COORDINATES.get(type(event))
    return int(getattr(event, name)) if name else 1


def by_coordinate(run: Composition) -> Composition:
    """The same run; releases of many coordinates that have no profile of their own are as many of fewer coordinates."""
    entries: list[tuple[Event, int]] = []
    for event, count in run:
        plain: Any = _plain(event)
        total = count * of_coordinates(plain)
        block = min(-(-total // PIECES), _largest_block(plain))
        if total == count or total > 16 * PIECES * block or has_profile(plain):
            entries.append((event, count))
            continue
        name = COORDINATES[type(plain)]
        entries.append((replace(plain, **{name: block}), total // block))
        entries += [(replace(plain, **{name: total % block}), 1)] if total % block else []
    return Composition(entries)


def given_finite(run: Composition) -> tuple[Composition, float]:
    """The run given that no loss of a shuffled count is infinite, and the log-probability 1 - d of that.

    With as many rising as falling counts both of its laws have d where the other has nothing, and the rest of their
    ratio is that of the conditional laws: H(u) = d + (1 - d) H'(u).
    """
    entries: list[tuple[Event, int]] = []
    log_finite = 0.0
    for event, count in run:
        plain = _plain(event)
        if not isinstance(plain, ShuffledCounts):
            entries.append((event, count))
            continue
        each = count * plain.nonzeros
        entries += [(part, each) for part in plain._given_finite()]
        log_finite += each * plain._log_finite()
    return Composition(entries), log_finite


def _largest_block(event: Event) -> int:
    """Coordinates up to which a profile is computed in a moment."""
    if isinstance(event, Laplace):
        return PROFILE_COORDINATES
    return PIECES if _bits(event) is not None else 1


def _plain(event: Event) -> Event:
    """A release that is sampled at rate 1 is the release itself."""
    return event.event if isinstance(event, PoissonSubsampled) and event.rate == 1.0 else event


def inverse_profile(log_profile: Callable[[FloatArray], FloatArray], log_delta: float) -> Interval:
    """Epsilons between which the profile passes delta, computed values being right to ACCURACY and PLACES."""
    lower = bisect_by_arrays(lambda points: log_profile(points) > log_delta + ACCURACY).lower
    upper = bisect_by_arrays(lambda points: log_profile(points) > log_delta - ACCURACY).upper
    return Interval(lower * (1 - PLACES), upper * (1 + PLACES))
