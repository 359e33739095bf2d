"""DpEvents of dp_accounting as runs of this accountant.

A run stands for the pairs of distributions that a `DpEvent` has under a neighbouring relation. ADD_OR_REMOVE_ONE is
`Adjacency.ADD_REMOVE`, REPLACE_ONE is `Adjacency.REPLACE`. Under REPLACE_SPECIAL one record is exchanged for a special
one that adds nothing (Kairouz et al. 2021, Def. 1.1): for sums with noise, sampled or not, that is the pair of
ADD_REMOVE, which such runs have for their adjacency.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from accountant.adjacency import Adjacency
from accountant.errors import AccountantError, ParameterError, integer, real, shorten
from accountant.events import (
    ApproximateDP,
    ClippedSum,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    KaryRandomizedResponse,
    Laplace,
    MixtureOfGaussians,
    PermuteAndFlip,
    RandomizedResponse,
    TruncatedPoissonGaussian,
    ZeroConcentratedDP,
)
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.fixed_size import FixedSizeSampled
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.subsampling import can_be_sampled
from accountant.events.tries import NegativeBinomial, Poisson
from accountant.events.truncated_poisson import price_of_parts
from accountant.events.with_replacement import SampledWithReplacement
from accountant.interop.special_response import ResponseOrNoise
from accountant.numerics.exact import SPARE, root_down, root_up, round_down
from accountant.selection import Selection

__all__ = ["Found", "Refused", "adjacency_of", "epsilon_of_response", "gaussian_square", "translate"]

LARGEST_SCALE = Fraction(10) ** 50
"""Of noise that has a price."""

ADDS = ("ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL")
REPLACES = ("REPLACE_ONE", "REPLACE_SPECIAL")


class Found(NamedTuple):
    """What an event costs: a run, or, if `exposed`, more than any run of finite cost."""

    run: Composition
    exposed: bool = False


class Refused(Exception):
    """An event that has no price here: which one, and why."""

    def __init__(self, event: Any, message: str) -> None:
        super().__init__(message)
        self.event, self.message = event, message


NOTHING = Found(Composition())
EXPOSED = Found(Composition(), exposed=True)


def adjacency_of(relation: Any) -> Adjacency:
    """The adjacency of the runs that stand for events under a `NeighboringRelation`."""
    return Adjacency.REPLACE if relation.name == "REPLACE_ONE" else Adjacency.ADD_REMOVE


def translate(event: Any, relation: Any) -> Found:
    """What a `DpEvent` costs under a `NeighboringRelation`.

    Raises
    ------
    Refused
        The event, or an event inside it, has no price here.
    ParameterError
        A number in it is out of range.
    """
    kind = type(event).__name__
    if kind not in TRANSLATIONS:
        raise Refused(event, "Unsupported event.")
    return TRANSLATIONS[kind](event, relation)


def _repeat(event: Any, relation: Any) -> Found:
    found = translate(event.event, relation)
    count = integer("count", event.count, 0, 10**30)
    return Found(count * found.run, found.exposed and count > 0)


def _compose(event: Any, relation: Any) -> Found:
    parts = [translate(each, relation) for each in _require_list(event, event.events)]
    return Found(Composition(pair for part in parts for pair in part.run), any(part.exposed for part in parts))


def _gaussian(event: Any, relation: Any) -> Found:
    # of values of norm 1 at most: without one record the sum moves by 1, with another in its place by 2
    sigma = real("Noise multiplier", event.noise_multiplier, 0.0, 1e50)
    if sigma == 0.0:
        return EXPOSED
    replaces = relation.name == "REPLACE_ONE"
    return Found(1 * (ClippedSum(sigma, adjacency=Adjacency.REPLACE) if replaces else Gaussian(sigma)))


def _laplace(event: Any, relation: Any) -> Found:
    _require(event, relation, ADDS)
    scale = real("Noise multiplier", event.noise_multiplier, 0.0, 1e50)
    return EXPOSED if scale == 0.0 else Found(1 * Laplace(scale))


def _discrete_laplace(event: Any, relation: Any) -> Found:
    # one integer that moves by the L1 distance costs the most: several have its losses with less probability
    _require(event, relation, ADDS)
    rate = real("Noise parameter", event.noise_parameter, 0.0, 9.99e49)
    if rate == 0.0:
        return EXPOSED
    scale = round_down(min(1 / Fraction(rate), LARGEST_SCALE))  # less noise costs more
    return Found(1 * DiscreteLaplace(scale, sensitivity=event.sensitivity))


def _randomized_response(event: Any, relation: Any) -> Found:
    _require(event, relation, REPLACES)
    noise = real("Noise parameter", event.noise_parameter, 0.0, 1.0)
    buckets = integer("Number of buckets", event.num_buckets, 1, 10**9)
    if buckets == 1 or noise == 1.0:
        return NOTHING
    if noise == 0.0:
        return EXPOSED
    if relation.name == "REPLACE_SPECIAL":
        return Found(1 * ResponseOrNoise(noise, buckets))
    epsilon = epsilon_of_response(noise, buckets)
    if buckets == 2:
        return Found(1 * RandomizedResponse(epsilon, adjacency=Adjacency.REPLACE))
    return Found(1 * KaryRandomizedResponse(epsilon, buckets))


def epsilon_of_response(noise: float, buckets: int) -> float:
    """The truth has 1 - noise + noise/buckets, every other bucket noise/buckets; rounded up."""
    more = buckets * (1 - noise) / noise
    epsilon = math.log1p(more) if more < math.inf else math.log(buckets) - math.log(noise)  # 1 - noise is 1
    return epsilon * SPARE if noise < 1.0 else 0.0


def _zero_concentrated(event: Any, relation: Any) -> Found:
    return Found(1 * ZeroConcentratedDP(event.rho, xi=event.xi, adjacency=adjacency_of(relation)))


def _epsilon_delta(event: Any, relation: Any) -> Found:
    if real("delta", event.delta, 0.0, 1.0) == 1.0:
        return EXPOSED
    return Found(1 * ApproximateDP(event.epsilon, event.delta, adjacency_of(relation)))


def _exponential_mechanism(event: Any, relation: Any) -> Found:
    return Found(1 * ExponentialMechanism(event.epsilon, adjacency_of(relation)))


def _permute_and_flip(event: Any, relation: Any) -> Found:
    return Found(1 * PermuteAndFlip(event.epsilon, adjacency_of(relation)))


def _mixture_of_gaussians(event: Any, relation: Any) -> Found:
    _require(event, relation, ADDS)
    sigma = real("Standard deviation", event.standard_deviation, 0.0, 1e50)
    columns = [list(_require_list(event, each)) for each in (event.sensitivities, event.sampling_probs)]
    if len(columns[0]) != len(columns[1]):
        raise Refused(event, f"{len(columns[0])} sensitivities with {len(columns[1])} probabilities.")
    pairs = list(zip(*columns, strict=True))
    if pairs and all(length == 0.0 for length, _ in pairs):
        return NOTHING
    if sigma == 0.0:
        return EXPOSED
    kept = [pair for pair in pairs if pair[1] != 0.0]
    lengths, shares = (tuple(pair[part] for pair in kept) for part in (0, 1))
    return Found(1 * MixtureOfGaussians(sigma, lengths, shares))


def _tree(event: Any, relation: Any) -> Found:
    """Kairouz et al. 2021, App. D: a record is part of one leaf, and of the nodes above it, of one of the trees."""
    _require(event, relation, ("REPLACE_SPECIAL",))
    sigma = real("noise_multiplier must be non-negative:", event.noise_multiplier, 0.0, 1e50)
    counts = event.step_counts if isinstance(event.step_counts, list | tuple) else [event.step_counts]
    steps = [integer("steps must be non-negative:", count, 0, 10**18) for count in counts]
    if max(steps, default=0) == 0:
        raise ParameterError(f"step_counts = {shorten(event.step_counts)}; accepted: a number of steps, or several")
    return EXPOSED if sigma == 0.0 else Found(1 * Gaussian(sigma, root_up(Fraction(max(steps).bit_length()))))


def _poisson(event: Any, relation: Any) -> Found:
    rate = real("Sampling rate", event.sampling_probability, 0.0, 1.0)
    inner = translate(event.event, relation)
    if rate == 0.0 or (inner.run.releases == 0 and not inner.exposed):
        return NOTHING
    if inner.exposed:
        return EXPOSED
    if rate == 1.0:
        return inner
    together = _joint(inner.run)
    if together is None or not can_be_sampled(together):
        raise Refused(event, f"Subevent of `PoissonSampledDpEvent` has no price when sampled: {event.event}.")
    if relation.name == "REPLACE_SPECIAL" and together.unsampled.additive_noise is None:
        raise Refused(event, "Under `REPLACE_SPECIAL` only sums with noise have a price when sampled.")
    return Found(1 * PoissonSubsampled(together, rate))


def _cut_sample(event: Any, relation: Any) -> Found:
    sigma = real("Noise multiplier", event.noise_multiplier, 0.0, 1e40)
    rate = real("Sampling rate", event.sampling_probability, 0.0, 1.0)
    records = integer("Dataset size", event.dataset_size, 0, 10**12)
    largest = integer("Truncated batch size", event.truncated_batch_size, 0, 10**12)
    if 0 in (rate, records, largest):
        return NOTHING
    if sigma == 0.0:
        return EXPOSED
    release = TruncatedPoissonGaussian(sigma, rate, records, largest, adjacency=adjacency_of(relation))
    if relation.name != "REPLACE_SPECIAL":
        return Found(1 * release)
    # a record that adds nothing still takes its place in a full batch, where two vectors other than 0 may stand
    return Found(1 * price_of_parts(release, Adjacency.ADD_REMOVE, Adjacency.REPLACE))


def _joint(run: Composition) -> Event | None:
    """One event that releases on one sample all that the run releases; None where there is none."""
    events = list(run)
    if run.releases == 1:
        return events[0][0]
    summands = [event._summand() for event, _ in events]
    if all(each is not None and each.key == "Gaussian" for each in summands):
        square = sum((count * gaussian_square(event) for event, count in events), Fraction(0))
        if run.adjacency is Adjacency.ADD_REMOVE:
            return Gaussian(root_down(1 / square))
        clipped = all(can_be_sampled(event) for event, _ in events)
        return ClippedSum(root_down(4 / square), adjacency=Adjacency.REPLACE) if clipped else None
    event, count = events[0]
    if len(events) == 1 and event._coordinate_field is not None:
        return event._with_coordinates(count * event._coordinates)
    return None


def gaussian_square(event: Event) -> Fraction:
    """The square of the distance of the two distributions of Gaussian noise, in standard deviations."""
    if isinstance(event, Gaussian):
        return (Fraction(event.sensitivity) / Fraction(event.sigma)) ** 2
    if isinstance(event, ClippedSum):
        moved = 2 if event.adjacency is Adjacency.REPLACE else 1
        return (moved * Fraction(event.clip) / Fraction(event.sigma)) ** 2
    if isinstance(event, GaussianDP):
        return Fraction(event.mu) ** 2
    summand = event._summand()
    assert summand is not None
    return Fraction(summand.size * SPARE)


def _require_list(event: Any, values: Any) -> Any:
    """The values, which can be read again: an event is looked at before it is composed."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise Refused(event, f"Parts of a `{type(event).__name__}` must be a list, not {shorten(values)}.")
    if isinstance(values, Iterator):
        raise Refused(event, f"Parts of a `{type(event).__name__}` must be a list: an iterator is read only once.")
    return values


def _fixed_size(event: Any, relation: Any) -> Found:
    _require(event, relation, ("REPLACE_ONE",))
    repeated = type(event).__name__ == "SampledWithReplacementDpEvent"
    records = integer("Size of the source dataset", event.source_dataset_size, 1, 10**12)
    batch = integer("Sample size", event.sample_size, 0, 10**12 if repeated else records)
    inner = translate(event.event, relation)
    if batch == 0 or (inner.run.releases == 0 and not inner.exposed):
        return NOTHING
    if inner.exposed:
        return EXPOSED
    if inner.run.releases > 1:
        how = "with" if repeated else "without"
        raise Refused(event, f"Samples {how} replacement have a price for a single release only.")
    kind = SampledWithReplacement if repeated else FixedSizeSampled
    try:
        return Found(1 * kind(next(iter(inner.run.entries)), batch, records))
    except AccountantError as error:
        raise Refused(event, str(error)) from None


def _selection(event: Any, relation: Any) -> Found:
    # dp_accounting: shape infinity is Poisson, all others are negative binomial given at least one try
    mean = real("Mean of number of repetitions", event.mean, 1.0, 1e12)
    shape = real("Shape", event.shape, 0.0, math.inf)
    inner = translate(event.event, relation)
    if inner.exposed or not inner.run.releases:
        return inner
    if shape == math.inf:
        return Found(1 * Selection(inner.run, Poisson(mean)))
    if mean == 1.0:
        return inner
    return Found(1 * Selection(inner.run, NegativeBinomial(mean, real("Shape", shape, 0.0, 1e3))))


def _require(event: Any, relation: Any, accepted: tuple[str, ...]) -> None:
    if relation.name not in accepted:
        names = " or ".join(f"`{name}`" for name in accepted)
        kind = type(event).__name__
        raise Refused(event, f"neighboring_relation must be {names} for `{kind}`. Found {relation}.")


TRANSLATIONS: dict[str, Callable[[Any, Any], Found]] = {
    "NoOpDpEvent": lambda event, relation: NOTHING,
    "NonPrivateDpEvent": lambda event, relation: EXPOSED,
    "SelfComposedDpEvent": _repeat,
    "ComposedDpEvent": _compose,
    "GaussianDpEvent": _gaussian,
    "LaplaceDpEvent": _laplace,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "RandomizedResponseDpEvent": _randomized_response,
    "ZCDpEvent": _zero_concentrated,
    "EpsilonDeltaDpEvent": _epsilon_delta,
    "ExponentialMechanismDpEvent": _exponential_mechanism,
    "PermuteAndFlipDpEvent": _permute_and_flip,
    "MixtureOfGaussiansDpEvent": _mixture_of_gaussians,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "PoissonSampledDpEvent": _poisson,
    "TruncatedSubsampledGaussianDpEvent": _cut_sample,
    "RepeatAndSelectDpEvent": _selection,
    "SampledWithReplacementDpEvent": _fixed_size,
    "SampledWithoutReplacementDpEvent": _fixed_size,
}
"""By the name of the class, so that events of other versions of dp_accounting are known or refused, never mistaken."""
