"""How the rounds of each trust model release counts, calibrated so that all rounds together keep one guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.federation.protocols import central_event, report_in_crowd
from mechanisms.federation.round_setup import RoundSetup, RoundSize
from mechanisms.federation.targets import DEFAULT_ROUTE, Target, choose_route, total_price
from mechanisms.labelling import least_noise
from mechanisms.local_reports import CollisionReports, LocalRandomizer, RandomizedBits, local_randomizer
from mechanisms.local_reports.noise_shares import shares_for

__all__ = ["NOISES", "RANDOMIZERS", "ReleaseRequest", "RoundRelease", "TrustModel", "calibrate_release"]

NOISES = ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian")
RANDOMIZERS = ("collision", "randomized-response", "separation", "best", "shares")

MOST_CHOICES = 4
"""How often a randomizer is chosen anew for the epsilon that the last choice allowed."""

EPSILON_RATIO = 1.001
"""Ratio of neighbouring local epsilons in the search for the largest one that shuffling allows."""


@dataclass(frozen=True)
class TrustModel:
    """Whom clients trust, and which noise or randomizer protects their records.

    Parameters
    ----------
    name : {"central", "local", "shuffle"}
    noise : str
        Of the central model: one of `NOISES`.
    randomizer : str
        Of the other models: one of `RANDOMIZERS`.
    dropout : float
        Share of records whose reports may be missing in the shuffle model.
    adjacency : accountant.Adjacency
    """

    name: str
    noise: str = "laplace"
    randomizer: str = "collision"
    dropout: float = 0.0
    adjacency: ac.Adjacency = ac.Adjacency.REPLACE


@dataclass(frozen=True)
class ReleaseRequest:
    """What a release has to achieve; see `ReverseKNN`.

    Parameters
    ----------
    trust : TrustModel
    target : Target
        The guarantee for all rounds together.
    size : RoundSize
    rounds : int
    records : int
        Public number of private records; it matters in the shuffle model only.
    """

    trust: TrustModel
    target: Target
    size: RoundSize
    rounds: int
    records: int

    @property
    def least(self) -> int:
        """Fewest records whose reports a shuffler passes on; 1 in the other models, which need no crowd."""
        if self.trust.name != "shuffle":
            return 1
        return max(math.ceil((1 - self.trust.dropout) * self.records), 1)


@dataclass(frozen=True, eq=False)
class RoundRelease:
    """What every round does, and what it costs.

    Attributes
    ----------
    request : ReleaseRequest
    protocol : str
    parameters : tuple of float
        Of the protocol, as clients receive them.
    event : accountant.Event or accountant.Composition
        The price of one round.
    noise : float
        Scale of the noise on a count in the central model, and of noise shares; else the epsilon of one report.
    model : str
    rounds, n_classes, n_neighbors, n_labels, least : int
    target : Target
        The guarantee asked for; clients and shuffler check every round against it.
    """

    request: ReleaseRequest
    protocol: str
    parameters: tuple[float, ...]
    event: Any
    noise: float

    @property
    def model(self) -> str:
        return self.request.trust.name

    @property
    def rounds(self) -> int:
        return self.request.rounds

    @property
    def n_classes(self) -> int:
        return self.request.size.classes

    @property
    def n_neighbors(self) -> int:
        return self.request.size.neighbors

    @property
    def n_labels(self) -> int:
        return self.request.size.labels

    @property
    def least(self) -> int:
        return self.request.least

    @property
    def target(self) -> Target:
        return self.request.target

    @property
    def records_public(self) -> bool:
        """Whether results tell the number of records, which the guarantee takes as public; not under ADD_REMOVE."""
        return bool(self.event.adjacency != ac.Adjacency.ADD_REMOVE)

    def setup(self, queries: NDArray[np.float32], prices: NDArray[np.float64] | None = None) -> RoundSetup:
        """What a round with these queries asks of clients."""
        votes = self.n_classes, self.n_neighbors, self.n_labels
        return RoundSetup(queries, *votes, prices, self.protocol, self.parameters)

    def guarantee(self, delta: float, conversion: ac.Conversion = "improved") -> ac.Guarantee:
        """Of all rounds together; errors as for `accountant.epsilon`."""
        run = _repeat(self.event, self.rounds)
        return ac.epsilon(run, delta, conversion=conversion, **choose_route(run))


@lru_cache(maxsize=64)
def calibrate_release(request: ReleaseRequest) -> RoundRelease:
    """The release with the least noise that keeps the target over all rounds.

    Raises
    ------
    accountant.ParameterError
        The trust model does not go with the target, or a name is not known.
    accountant.CalibrationError
        No noise is enough.
    """
    trust = request.trust
    if trust.name == "central":
        return _central(request)
    if trust.adjacency != ac.Adjacency.REPLACE:
        raise ac.ParameterError(
            f"adjacency = {trust.adjacency} in the {trust.name} model; accepted: replace, every report is seen"
        )
    if trust.randomizer != "shares":
        _make_randomizer(request, trust.randomizer, 1.0)  # refuses other names, and says why
    if trust.name == "local":
        if trust.randomizer == "shares":
            raise ac.ParameterError(
                "randomizer = 'shares' in the local model; accepted: those of one report, or shuffle"
            )
        return _local(request)
    if request.target.delta == 0:
        raise ac.ParameterError("delta = 0 in the shuffle model; accepted: above 0")
    return _shares(request) if trust.randomizer == "shares" else _shuffle(request)


def _central(request: ReleaseRequest) -> RoundRelease:
    """Noise on counts; a neighbouring data set changes some of them by 1."""
    trust, epsilon, delta = request.trust, request.target.epsilon, request.target.delta
    if delta == 0 and "gaussian" in trust.noise:
        raise ac.ParameterError(f"delta = 0 with noise = {trust.noise!r}; accepted: above 0, or noise = 'laplace'")
    changed = 2 if trust.adjacency == ac.Adjacency.REPLACE else 1
    moved = changed * request.size.nonzeros
    pure = request.rounds * moved / epsilon
    event = partial(central_event, trust.noise, moved=moved, adjacency=trust.adjacency)

    def plan(scale: float) -> ac.Composition:
        return _repeat(event(scale), request.rounds)

    # epsilons of pure DP add up, which gives the scale but for its rounding
    scales = (pure, math.nextafter(pure, math.inf), pure * (1 + 1e-12)) if delta == 0 else ()
    for scale in scales:
        if ac.epsilon(plan(scale), 0.0, method="renyi").epsilon <= epsilon:
            break
    else:
        scale = least_noise(plan, epsilon, delta, max(math.sqrt(moved) / epsilon, 1e-2), **DEFAULT_ROUTE)
    return RoundRelease(request, protocol="counts", parameters=(), event=event(scale), noise=scale)


def _local(request: ReleaseRequest) -> RoundRelease:
    """Reports that are private by themselves, over all rounds."""
    epsilon, delta = request.target.epsilon, request.target.delta
    make = partial(_make_randomizer, request, request.trust.randomizer)

    def plan(local: float) -> ac.Composition:
        return _repeat(make(local).event, request.rounds)

    share = epsilon / request.rounds
    while delta == 0 and total_price(plan(share), 0.0) > Fraction(epsilon):
        share *= 1 - 2**-52  # epsilon / rounds was rounded up, and clients add their epsilons exactly
    if delta > 0:
        # several rounds cost less than the sum of their epsilons, so that each may have more than an equal share
        larger = ac.calibrate(plan, epsilon, delta, bounds=(share / 2, 500.0), start=share, **DEFAULT_ROUTE)
        if larger > share or total_price(plan(share), delta) > Fraction(epsilon):
            share = larger
    return _reports(request, make(share), share)


def _shuffle(request: ReleaseRequest) -> RoundRelease:
    """Reports that hide each other: each needs less noise of its own."""
    epsilon, delta, rounds, users = request.target.epsilon, request.target.delta, request.rounds, request.least
    make = partial(_make_randomizer, request, request.trust.randomizer)
    # 3 % below the local epsilon at which rounds with equal shares meet the target
    start = local = 0.97 * ac.local_epsilon_for(epsilon / rounds, users, delta / rounds)
    step = 20
    for _ in range(MOST_CHOICES):
        # kind and number of buckets are chosen for one epsilon and then fixed: the price jumps where they change
        remake = _fix_kind(request, make(local))

        def plan(step: float, remake: Callable[[float], LocalRandomizer] = remake) -> ac.Composition:
            report = report_in_crowd(remake(start * EPSILON_RATIO**step))
            return _repeat(ac.Shuffled(report, users), rounds)

        # from where the last search has ended: randomizers hardly differ
        step = int(ac.calibrate(plan, epsilon, delta, bounds=(1, 2000), start=step, integer=True, **DEFAULT_ROUTE))
        local = start * EPSILON_RATIO**step
        release = _reports(request, remake(local), local)
        if _reports(request, make(local), local).parameters == release.parameters:
            break
    return replace(release, event=ac.Shuffled(report_in_crowd(remake(local)), users))


def _make_randomizer(request: ReleaseRequest, name: str, epsilon: float) -> LocalRandomizer:
    size = request.size
    votes = {"neighbours": size.neighbors, "label_ones": size.labels}
    return local_randomizer(name, queries=size.queries, classes=size.classes, epsilon=epsilon, **votes)


def _fix_kind(request: ReleaseRequest, like: LocalRandomizer) -> Callable[[float], LocalRandomizer]:
    """Randomizers at any epsilon, of the same kind and number of buckets as the one given."""
    if isinstance(like, CollisionReports):
        return lambda epsilon: CollisionReports(like.domain, like.nonzeros, epsilon, like.buckets)
    name = "randomized-response" if isinstance(like, RandomizedBits) else "separation"
    return partial(_make_randomizer, request, name)


def _shares(request: ReleaseRequest) -> RoundRelease:
    """Noise in shares: any number of messages for each record, whose noise adds up."""
    size, target = request.size, request.target
    shares = shares_for(size.domain, size.nonzeros, request.least, target.epsilon, target.delta, rounds=request.rounds)
    flood = shares.flood
    assert flood is not None  # shares that are shuffled always have one
    parameters = shares.scale, float(shares.participants), flood.shape, flood.ratio
    return RoundRelease(request, "shares", parameters, shares.event, shares.scale)


def _reports(request: ReleaseRequest, randomizer: LocalRandomizer, epsilon: float) -> RoundRelease:
    parameters: tuple[float, ...] = (epsilon,)
    if isinstance(randomizer, RandomizedBits):
        name = "randomized-response"
    elif isinstance(randomizer, CollisionReports):
        name, parameters = "collision", (epsilon, float(randomizer.buckets or 0))
    else:
        name = "separation"
    return RoundRelease(request, name, parameters, randomizer.event, epsilon)


def _repeat(event: Any, rounds: int) -> ac.Composition:
    run: ac.Composition = rounds * event
    return run
