"""OpenDP: its measurements and privacy profiles as events, and runs as profiles and maps for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np

from accountant.adjacency import Adjacency, as_adjacency
from accountant.errors import ParameterError, real, shorten
from accountant.events import ApproximateDP, ProfilePoints, PureDP, ZeroConcentratedDP
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.parameters import numbers_of
from accountant.events.profile_points import MOST, POINTS
from accountant.interop.loss_distributions import profile_above
from accountant.interop.peers import import_peer, price_epsilon, refuse_secret
from accountant.numerics.exact import SPARE

dp = import_peer("opendp.prelude", "opendp")

SMALL = 1e-12
"""The delta up to which a profile is read."""

READINGS = 128
"""Points at which a profile is read."""

CERTAIN = 0.999999
"""The largest delta that an event takes; points with more say next to nothing."""

REPLACES = ("ChangeOneDistance", "ChangeOneIdDistance", "HammingDistance")
"""Metrics that count records which are replaced."""

COUNTS = ("SymmetricDistance", "SymmetricIdDistance", "InsertDeleteDistance")
"""Metrics that count records which are added or removed; one that is replaced is both."""

FAR = 8.0
"""Two records cost at most twice, in rho four times, as much as one, if each comes or goes alone; and room to round."""

__all__ = ["to_event", "to_map", "to_privacy_profile"]


def to_event(
    source: Any,
    d_in: Any = None,
    *,
    delta: float | None = None,
    epsilons: Iterable[float] | None = None,
    adjacency: Adjacency | str | None = None,
) -> Event:
    """An event that costs what a measurement's map says of inputs at a distance, or what a privacy profile says.

    Which inputs are neighbours the input metric says where it counts records. Those of change-one and Hamming distances
    are replaced. In symmetric and insert-delete distances they are added or removed at distance 1; under "replace", and
    wherever the input domain has a fixed size, one is replaced at distance 2. Where only the map tells that the number
    of records is fixed, by a cost of two that is out of proportion to that of one, the adjacency must be given.

    Parameters
    ----------
    source : opendp Measurement or PrivacyProfile
        Of a measurement the output measure is max-divergence, zero-concentrated divergence, either of them approximate,
        or smoothed max-divergence.
    d_in : object, optional
        Distance of neighbouring inputs, in the measurement's input metric; of no use to a profile. Default: the least
        that neighbours have in a metric that counts records, 1 in others.
    delta : float, optional
        In (0, 1): where a profile (that of smoothed max-divergence, too) is read, and nowhere else.
    epsilons : iterable of float, optional
        In [0, 700], at most 1000: where a profile is read instead. By default 128 of them, from 0 to where delta is
        1e-12 or the profile ends.
    adjacency : Adjacency or str, optional
        The neighbouring relation for which inputs are at most that far apart. Default: that of a metric which counts
        records; "add-remove" of others, such as those of sensitivities, and of profiles, which have no metric.

    Returns
    -------
    PureDP, ApproximateDP, ZeroConcentratedDP or ProfilePoints
        At what the map or the profile returns, which OpenDP has rounded up.

    Raises
    ------
    ParameterError
        It is neither, its output measure is another one, its metric contradicts the adjacency, neighbours are further
        apart than `d_in`, its map or profile fails or is not finite, or it is to be read at delta and at epsilons.
    """
    if not isinstance(source, dp.Measurement):
        return _read_profile(source, delta, epsilons, as_adjacency(adjacency or Adjacency.ADD_REMOVE))
    distance, relation = _neighbours(source, d_in, adjacency)
    cost = _ask(f"the map of a measurement at d_in = {shorten(distance)}", lambda: source.map(distance))
    measure, lost = str(source.output_measure), 0.0
    if measure.startswith("Approximate("):
        cost, lost = cost
        measure = measure.removeprefix("Approximate(").removesuffix(")")
    if measure == "SmoothedMaxDivergence":
        return _read_profile(cost, delta, epsilons, relation)
    if measure == "MaxDivergence":
        return ApproximateDP(cost, lost, relation) if lost > 0.0 else PureDP(cost, relation)
    if measure == "ZeroConcentratedDivergence" and lost == 0.0:
        return ZeroConcentratedDP(cost, adjacency=relation)
    raise ParameterError(
        f"output measure {source.output_measure} with delta = {lost:g}; accepted: MaxDivergence, approximate or not, "
        "ZeroConcentratedDivergence, approximate with delta 0, and SmoothedMaxDivergence"
    )


def _neighbours(source: Any, d_in: Any, adjacency: Adjacency | str | None) -> tuple[Any, Adjacency]:
    """How far apart neighbouring inputs of a measurement are, and by which relation they are neighbours."""
    asked = None if adjacency is None else as_adjacency(adjacency)
    metric = str(source.input_metric.type)
    if any(name in metric for name in REPLACES):
        relation, least = Adjacency.REPLACE, 1
    elif any(name in metric for name in COUNTS):
        # of a fixed number no record comes or goes: a map may say that inputs at distance 1 cost nothing
        replaced = asked is Adjacency.REPLACE or _has_fixed_size(source.input_domain)
        if asked is None and not replaced:
            _check_proportion(source)
        relation, least = (Adjacency.REPLACE, 2) if replaced else (Adjacency.ADD_REMOVE, 1)
    else:
        return 1 if d_in is None else d_in, asked or Adjacency.ADD_REMOVE
    if asked not in (None, relation):
        raise ParameterError(
            f"adjacency = {asked} for inputs in {source.input_domain} with {metric}; accepted: {relation}, or None"
        )
    distance = least if d_in is None else d_in
    counted = distance
    if isinstance(distance, list):  # bounds of a frame: how many of all its records differ
        counted = next((each.per_group for each in distance if getattr(each, "by", None) == []), distance)
    if least > 1 or isinstance(counted, Real):
        real(f"d_in in {metric} under {relation} adjacency", counted, least, math.inf)
    return distance, relation


def _has_fixed_size(domain: Any) -> bool:
    """Whether a domain says how many records its inputs have."""
    if hasattr(domain, "get_margin"):  # a frame
        return bool(domain.get_margin([]).invariant == "lengths")
    described = getattr(domain, "descriptor", None)
    holder = described if type(described).__name__ == "NPArray2Domain" else domain
    return getattr(holder, "size", None) is not None


def _check_proportion(source: Any) -> None:
    """Refuse a map by which one record costs next to nothing beside two: it may be that none can come or go alone."""
    try:
        costs = source.map(1), source.map(2)
        (one, delta), (two, deltas) = map(_sizes, costs)
    except (dp.OpenDPException, TypeError, ValueError, OverflowError):
        return  # a map without a number at one of them says nothing about the other
    if two > FAR * one or (deltas > delta == 0.0):
        raise ParameterError(
            f"adjacency = None for inputs in {source.input_domain}, of which the map says {shorten(costs[0])} at "
            f"distance 1 and {shorten(costs[1])} at 2, as where their number is fixed; accepted: replace, or "
            "add-remove if it is not"
        )


def _sizes(cost: Any) -> tuple[float, float]:
    """What `FAR` holds for, of a profile the distance in total variation; and the delta beside it."""
    found, delta = cost if isinstance(cost, tuple) else (cost, 0.0)
    return float(found.delta(0.0) if isinstance(found, dp.PrivacyProfile) else found), float(delta)


def _ask(what: str, answer: Callable[[], Any]) -> Any:
    """An answer of OpenDP, whose errors take several lines."""
    try:
        return answer()
    except (dp.OpenDPException, TypeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:100]
        raise ParameterError(f"{what} fails: {reason}; accepted: where it has a value") from None


def _read_profile(profile: Any, delta: float | None, epsilons: Iterable[float] | None, relation: Adjacency) -> Event:
    if not isinstance(profile, dp.PrivacyProfile):
        raise ParameterError(f"source = {shorten(profile)}; accepted: a Measurement or PrivacyProfile of OpenDP")
    if delta is not None:
        if epsilons is not None:
            raise ParameterError("a privacy profile with delta and epsilons; accepted: either")
        point = real("delta", delta, 0.0, 1.0, open_low=True, open_high=True)
        return ApproximateDP(_epsilon_at(profile, point), point, relation)
    if epsilons is None:
        end = min(_ask(f"a privacy profile at delta = {SMALL:g}", lambda: float(profile.epsilon(SMALL))), MOST)
        places = np.linspace(0.0, end, READINGS).tolist()
    else:
        places = list(numbers_of("epsilons", epsilons, MOST, POINTS))
    read = [(epsilon, _delta_at(profile, epsilon)) for epsilon in places]
    points = [(epsilon, max(delta, 1e-300) if delta > 0.0 else 0.0) for epsilon, delta in read if delta <= CERTAIN]
    if not points:
        raise ParameterError(f"a privacy profile with delta above {CERTAIN} at all epsilons; accepted: less at some")
    return ProfilePoints(tuple(each for each, _ in points), tuple(each for _, each in points), relation)


def _epsilon_at(profile: Any, delta: float) -> float:
    """Where a profile reaches a delta."""
    epsilon: float = _ask(f"a privacy profile at delta = {delta:g}", lambda: float(profile.epsilon(delta)))
    if not 0.0 <= epsilon < math.inf:
        raise ParameterError(
            f"a privacy profile whose epsilon is {epsilon:g} at delta = {delta:g}; accepted: a delta that it reaches"
        )
    return epsilon


def _delta_at(profile: Any, epsilon: float) -> float:
    """A profile's delta at an epsilon, however much above 1; none is below 0."""
    delta: float = _ask(f"a privacy profile at epsilon = {epsilon:g}", lambda: float(profile.delta(epsilon)))
    if not delta >= 0.0:
        raise ParameterError(f"a privacy profile whose delta is {delta:g} at epsilon = {epsilon:g}; accepted: [0, 1]")
    return delta


def to_privacy_profile(run: Event | Composition, *, tolerance: float = 1e-4) -> Any:
    """A run as an OpenDP `PrivacyProfile`: `delta(epsilon)` is a certified upper bound, in both directions.

    It holds for inputs that are neighbours under the run's adjacency, which a profile does not tell.

    At a negative epsilon it is ``1 - e^epsilon + e^epsilon delta(-epsilon)``.

    OpenDP wants its features to be accepted first: ``dp.enable_features("contrib", "honest-but-curious")``.

    Parameters
    ----------
    run : Event or Composition
    tolerance : float
        As for `accountant.interop.dp_accounting.to_privacy_loss_distribution`, whose bounds these are.

    Raises
    ------
    ParameterError
        Losses of the run exceed 690.
    DataDependentError
        The run's cost is itself a function of private data.
    """
    delta = profile_above(1 * run if isinstance(run, Event) else run, real("tolerance", tolerance, 1e-6, 1.0))

    def above(epsilon: float) -> float:
        size = abs(float(epsilon))
        if epsilon >= 0:
            return delta(size)
        # 1 - e^-size + e^-size delta(size), see notebooks/mathematics.md, Two views of an event
        return min((delta(size) * math.exp(-size) - math.expm1(-size)) * SPARE, 1.0)

    return dp.new_privacy_profile(above)


def to_map(
    run: Event | Composition, delta: float, d_in: Any = 1, *, tolerance: float | None = None
) -> Callable[[Any], tuple[float, float]]:
    """The privacy map of `make_user_measurement` for a mechanism that makes the run's releases.

    Its output measure is ``dp.approximate(dp.max_divergence())``.

    Parameters
    ----------
    run : Event or Composition
    delta : float
        In [0, 1).
    d_in : object
        Distance up to which inputs count as neighbours in the run; the map refuses larger ones. It does not see the
        metric, which must fit the run's adjacency: under "add-remove" 1 in the symmetric distance; under "replace" 1 in
        the change-one distance, or 2 in the symmetric one of a domain of fixed size.
    tolerance : float, optional
        As of `accountant.interop.dp_accounting.Accountant`.

    Raises
    ------
    ParameterError
        A value is out of range.
    DataDependentError
        The run's cost is itself a function of private data.
    """
    whole = 1 * run if isinstance(run, Event) else run
    refuse_secret(whole)
    epsilon = price_epsilon(whole, real("delta", delta, 0.0, 1.0, open_high=True), tolerance)

    def price(distance: Any) -> tuple[float, float]:
        try:
            covered = distance <= d_in
        except TypeError:
            covered = False
        if not covered:
            raise ParameterError(f"d_in = {shorten(distance)}; accepted: at most {d_in}, for which the run was priced")
        return (epsilon, delta) if distance > 0 else (0.0, 0.0)

    return price
