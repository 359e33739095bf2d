"""How rounds of counts are released in each trust model, calibrated so that all of them keep one guarantee."""

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
from mechanisms.federation.protocols import as_one_event, central_event
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.targets import ROUTE, Target, route_of, total_price
from mechanisms.labelling import least_noise
from mechanisms.local_reports import CollisionReports, LocalRandomizer, RandomizedBits, local_randomizer
from mechanisms.local_reports.noise_shares import shares_for

__all__ = ["NOISES", "RANDOMIZERS", "RoundRelease", "release_for"]

NOISES = ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian")
RANDOMIZERS = ("collision", "randomized-response", "separation", "best", "shares")

PASSES = 4
"""Most times that a randomizer is chosen anew for the epsilon that the last choice allowed."""

STEP = 1.001
"""Ratio of local epsilons that are told apart in search of the largest that shuffling allows."""


@dataclass(frozen=True, eq=False)
class RoundRelease:
    """What every round does, and what it costs.

    Attributes
    ----------
    model, protocol : str
    parameters : tuple of float
        Of the protocol, as clients get them.
    event : accountant.Event or accountant.Composition
        The price of one round.
    rounds : int
    n_classes, n_neighbors, n_labels : int
    least : int
        Fewest records whose reports a shuffler passes on; 1 in the other models, which need no crowd.
    target : Target
        The guarantee asked for, which clients and shuffler hold every round against.
    noise : float
        Scale of the noise on a count in the central model and of shares; else epsilon of one report.
    """

    model: str
    protocol: str
    parameters: tuple[float, ...]
    event: Any
    rounds: int
    n_classes: int
    n_neighbors: int
    n_labels: int
    least: int
    target: Target
    noise: float

    @property
    def records_public(self) -> bool:
        """Whether the guarantee takes the number of records for public, and results tell it: but for ADD_REMOVE."""
        return bool(self.event.adjacency != ac.Adjacency.ADD_REMOVE)

    def setup(self, queries: NDArray[np.float32], prices: NDArray[np.float64] | None = None) -> RoundSetup:
        """What a round with these queries asks of clients."""
        return RoundSetup(
            queries, self.n_classes, self.n_neighbors, self.n_labels, prices, self.protocol, self.parameters
        )

    def guarantee(self, delta: float, conversion: ac.Conversion = "improved") -> ac.Guarantee:
        """Of all rounds together; errors as for `accountant.epsilon`."""
        run = _repeated(self.event, self.rounds)
        return ac.epsilon(run, delta, conversion=conversion, **route_of(run))


@lru_cache(maxsize=64)
def release_for(
    *,
    model: str,
    noise: str,
    randomizer: str,
    epsilon: float,
    delta: float,
    rounds: int,
    records: int,
    shape: tuple[int, int],
    n_neighbors: int,
    n_labels: int,
    dropout: float,
    adjacency: ac.Adjacency = ac.Adjacency.REPLACE,
) -> RoundRelease:
    """The release of a model with the least noise that keeps (epsilon, delta) over all rounds; see `ReverseKNN`."""
    common: dict[str, Any] = {
        "model": model,
        "rounds": rounds,
        "n_classes": shape[1],
        "n_neighbors": n_neighbors,
        "n_labels": n_labels,
        "least": max(math.ceil((1 - dropout) * records), 1) if model == "shuffle" else 1,
        "target": Target(epsilon, delta),
    }
    if model == "central":
        return _central(noise, adjacency, epsilon, delta, common)
    if adjacency != ac.Adjacency.REPLACE:
        raise ac.ParameterError(
            f"adjacency = {adjacency} in the {model} model; accepted: replace, every report is seen"
        )
    make = partial(local_randomizer, queries=shape[0], classes=shape[1], neighbours=n_neighbors, label_ones=n_labels)
    if randomizer != "shares":
        make(randomizer, epsilon=1.0)  # refuses other names, and says why
    if model == "local":
        if randomizer == "shares":
            raise ac.ParameterError(
                "randomizer = 'shares' in the local model; accepted: those of one report, or shuffle"
            )
        return _local(randomizer, make, epsilon, delta, common)
    if delta == 0:
        raise ac.ParameterError("delta = 0 in the shuffle model; accepted: above 0")
    if randomizer == "shares":
        return _shares(shape[0] * shape[1], n_neighbors * n_labels, epsilon, delta, common)
    return _shuffled(randomizer, make, epsilon, delta, common)


def _central(noise: str, adjacency: ac.Adjacency, epsilon: float, delta: float, common: dict[str, Any]) -> RoundRelease:
    """Noise on counts, some of which move by 1."""
    if delta == 0 and "gaussian" in noise:
        raise ac.ParameterError(f"delta = 0 with noise = {noise!r}; accepted: above 0, or noise = 'laplace'")
    changed = 2 if adjacency == ac.Adjacency.REPLACE else 1
    moved, rounds = changed * common["n_neighbors"] * common["n_labels"], common["rounds"]
    pure = rounds * moved / epsilon
    event = partial(central_event, noise, moved=moved, adjacency=adjacency)

    def plan(scale: float) -> ac.Composition:
        return _repeated(event(scale), rounds)

    # pure DP adds up: the scale is known, but for a rounding
    scales = (pure, math.nextafter(pure, math.inf), pure * (1 + 1e-12)) if delta == 0 else ()
    for scale in scales:
        if ac.epsilon(plan(scale), 0.0).epsilon <= epsilon:
            break
    else:
        scale = least_noise(plan, epsilon, delta, max(math.sqrt(moved) / epsilon, 1e-2), **ROUTE)
    return RoundRelease(protocol="counts", parameters=(), event=event(scale), noise=scale, **common)


def _local(
    name: str, make: Callable[..., LocalRandomizer], epsilon: float, delta: float, common: dict[str, Any]
) -> RoundRelease:
    """Reports that are private by themselves, over all rounds."""
    rounds = common["rounds"]

    def plan(local: float) -> ac.Composition:
        return _repeated(make(name, epsilon=local).event, rounds)

    share = epsilon / rounds
    while delta == 0 and total_price(plan(share), 0.0) > Fraction(epsilon):
        share *= 1 - 2**-52  # epsilon / rounds is rounded, and clients add up exactly
    if delta > 0:
        # more than pure DP would allow: many small steps add up to less than their sum
        larger = ac.calibrate(plan, epsilon, delta, bounds=(share / 2, 500.0), start=share, **ROUTE)
        if larger > share or total_price(plan(share), delta) > Fraction(epsilon):
            share = larger
    return _reports(make(name, epsilon=share), share, common)


def _shuffled(
    name: str, make: Callable[..., LocalRandomizer], epsilon: float, delta: float, common: dict[str, Any]
) -> RoundRelease:
    """Reports of which each hides in the crowd of all others."""
    rounds, users = common["rounds"], common["least"]
    # a little below what any report may have when rounds simply add up, which meets the target
    start = local = 0.97 * ac.local_epsilon_for(epsilon / rounds, users, delta / rounds)
    for _ in range(PASSES):
        # kind and buckets are chosen for one epsilon and then held: where they change, the price leaps
        like = make(name, epsilon=local)
        held = _made_like(like, make)

        def plan(step: float, held: Callable[[float], LocalRandomizer] = held) -> ac.Composition:
            return _repeated(ac.Shuffled(as_one_event(held(start * STEP**step).event), users), rounds)

        local = start * STEP ** ac.calibrate(plan, epsilon, delta, bounds=(1, 2000), start=20.0, integer=True, **ROUTE)
        release = _reports(held(local), local, common)
        if _reports(make(name, epsilon=local), local, common).parameters == release.parameters:
            break
    return replace(release, event=ac.Shuffled(as_one_event(release.event), users))


def _made_like(like: LocalRandomizer, make: Callable[..., LocalRandomizer]) -> Callable[[float], LocalRandomizer]:
    """Randomizers of one kind, and of one number of buckets, at any epsilon."""
    if isinstance(like, CollisionReports):
        return lambda epsilon: CollisionReports(like.domain, like.nonzeros, epsilon, like.buckets)
    name = "randomized-response" if isinstance(like, RandomizedBits) else "separation"
    return lambda epsilon: make(name, epsilon=epsilon)


def _repeated(event: Any, rounds: int) -> ac.Composition:
    run: ac.Composition = rounds * event
    return run


def _shares(domain: int, nonzeros: int, epsilon: float, delta: float, common: dict[str, Any]) -> RoundRelease:
    """Noise in shares, in as many messages as it takes."""
    shares = shares_for(domain, nonzeros, common["least"], epsilon, delta, rounds=common["rounds"])
    flood = shares.flood
    assert flood is not None  # a shuffler sees messages
    return RoundRelease(
        protocol="shares",
        parameters=(shares.scale, float(shares.participants), flood.shape, flood.ratio),
        event=shares.event,
        noise=shares.scale,
        **common,
    )


def _reports(randomizer: LocalRandomizer, epsilon: float, common: dict[str, Any]) -> RoundRelease:
    parameters: tuple[float, ...]
    if isinstance(randomizer, RandomizedBits):
        name, parameters = "randomized-response", (epsilon,)
    elif isinstance(randomizer, CollisionReports):
        name, parameters = "collision", (epsilon, float(randomizer.buckets or 0))
    else:
        name, parameters = "separation", (epsilon,)
    return RoundRelease(protocol=name, parameters=parameters, event=randomizer.event, noise=epsilon, **common)
