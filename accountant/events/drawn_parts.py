"""A record of a sample with replacement by how often it was drawn: the Rényi curve is made of these parts.

Numbers of draws that matter are one integral over the sum of their profiles; the others, which are rare, are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.drawn_gaussians import log_expm1_ratio
from accountant.events.event import Event
from accountant.events.fixed_size import DrawnGroup
from accountant.events.gaussian import GaussianLike
from accountant.events.group import price_of_group
from accountant.events.numbers_of_draws import draws_by_size
from accountant.events.subsampling import integral_work, renyi_from_profile
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import logsumexp
from accountant.numerics.special import divergence_from_log_mean, log_mixture_ratio

if TYPE_CHECKING:
    from accountant.events.with_replacement import SampledWithReplacement

__all__ = ["Draws", "call_work", "group_of", "log_heights_of", "mean_divergence", "mean_work", "parts_of"]

RARE, FEW_PARTS = -23.0, 32
"""Log of the weight below which a part of a curve is bounded, after so many; of Gaussian noise after the first."""

CALL, VALUE = 2.5e4, 100.0
"""Operations (see `accountant.patience`) of a call of the profile of a part, beside its values, and of a value of noise
on one number."""

CALLED, VALUED = 1.25, 1.0
"""Calls of the profiles at an order beside those that serve many, and their values as a share of those of these."""

BOUND = 2e4
"""Operations of the bound on a rare part at an order."""


class Draws(NamedTuple):
    """A group of draws: how it is priced, the log of its probability, given any draw at all, and how exactly."""

    part: DrawnGroup
    log_weight: float


def group_of(event: Event, size: int) -> Event:
    """The event that prices `size` copies of a record in the sample."""
    return event if size == 1 else price_of_group(event, size)


@lru_cache(maxsize=256)
def parts_of(event: Event, draws: int, population: int, rate: float) -> tuple[Draws, ...]:
    """Groups of draws with the logs of their weights b_k / g, which add up to 1."""
    if population == 1:
        return (Draws(DrawnGroup(group_of(event, draws), 1, 1), 0.0),)
    found: list[Draws] = []
    first = 1 if isinstance(event, GaussianLike) else FEW_PARTS
    for size, log_probability in draws_by_size(draws, population):
        log_weight = log_probability - math.log(rate)
        rare = len(found) >= first and log_weight < RARE
        found.append(Draws(DrawnGroup(group_of(event, size), 1, 1, rate, rare), log_weight))
    return tuple(found)


def log_heights_of(parts: Iterable[Draws], rate: float, epsilons: FloatArray) -> FloatArray:
    """Logs of g w_k H_e, H the profile of a part at the e of which `epsilons` are what is left of it, by rows."""
    inner = log_mixture_ratio(1 / rate, epsilons) if rate < 1.0 else epsilons
    heights = [log_weight + np.maximum(*part.event._log_profile(inner)) for part, log_weight in parts]
    return np.asarray(math.log(rate) + np.stack(heights))


def call_work(parts: Iterable[Draws]) -> float:
    """Operations of a call of the profiles of all parts beside their values."""
    return math.fsum(CALL + part._call_work() for part, _ in parts)


@dataclass(frozen=True)
class OftenDrawn(Event):
    """The parts of a sample that are not rare, as one profile."""

    sampled: SampledWithReplacement
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def _parts(self) -> tuple[Draws, ...]:
        return tuple(each for each in self.sampled._parts() if not each.part.rare)

    def _profile_work(self) -> float:
        return math.fsum(VALUE if part.event._coordinates == 1 else part._profile_work() for part, _ in self._parts())

    def _call_work(self) -> float:
        return call_work(self._parts())

    def _curve(self, orders: FloatArray) -> FloatArray:
        """No more than the largest loss."""
        limit = self._parts()[-1].part.event._curve(np.array([math.inf]))
        return np.full_like(orders, log_mixture_ratio(self.sampled.rate, limit)[0])

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        heights = log_heights_of(self._parts(), self.sampled.rate, epsilons)
        both = np.minimum(np.logaddexp.reduce(heights, axis=0), 0.0)
        return both, both

    def _profile_knots(self) -> tuple[float, ...]:
        return tuple(sorted({knot for part, _ in self._parts() for knot in part._profile_knots()}))


def mean_work(sampled: SampledWithReplacement) -> float:
    """Operations of `mean_divergence`."""
    often = OftenDrawn(sampled)
    rare = len(sampled._parts()) - len(often._parts())
    return integral_work(often, VALUED) + CALLED * often._call_work() + BOUND * rare


@lru_cache(maxsize=4096)
def mean_divergence(sampled: SampledWithReplacement, order: float) -> float:
    """As `mean_curve`, of any event; a price asks for an order repeatedly."""
    orders = np.array([order])
    often = renyi_from_profile(OftenDrawn(sampled), orders)
    rare = [each for each in sampled._parts() if each.part.rare]
    if not rare:
        return float(often[0])
    logs = [float(part._log_mean(orders)[0]) + log_weight for part, log_weight in rare]
    log_mean = float(logsumexp(np.append(logs, log_expm1_ratio(orders - 1.0, often))))
    return divergence_from_log_mean(order - 1.0, log_mean)
