"""Every record takes part in one step of an epoch, in a random order: between no amplification and an attack."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.errors import ParameterError, SubsamplingError, shorten
from accountant.events.answers import AdditiveNoise
from accountant.events.clipped_sum import ClippedSum
from accountant.events.discrete_pair import DiscretePair
from accountant.events.event import Event
from accountant.events.from_below import FromBelow, costs_less
from accountant.events.gaussian import Gaussian, GaussianLike
from accountant.events.parameters import Range
from accountant.events.randomized_response import PureDP
from accountant.events.registry import register
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import log_ndtr, ndtri_exp
from accountant.samplers.allocation_pairs import pair_below
from accountant.samplers.likelihoods import Ratios

__all__ = ["LargestStep", "ShuffledEpoch"]

CELLS = 4000
"""Cells of the largest step's result."""

REACH = 30.0
"""Standard deviations up to which there are cells."""

LEAST = 1e-280
"""Probability of a cell from which on it is told apart."""

ROUNDING = 1e-11
"""Relative rounding of the probability of a cell, and of ratios."""


@register("shuffled-epoch")
@dataclass(frozen=True)
class ShuffledEpoch(Event):
    """Every record takes part in exactly one of `steps` steps; records are shuffled, and batches cut from their order.

    From above, one epoch costs what one step costs to a record that is in it for certain: given the order, all other
    steps are the same for both neighbours. Nothing smaller is proven for sums with Gaussian noise. From below, the
    tight route prices an attack: all other records pull the sums the other way, and the attacker looks at the largest
    sum, mu = sensitivity / sigma apart (Chua et al. 2024). Its interval therefore shows what is not known, and does
    not shrink with the tolerance. Poisson samples may cost much less than both ends.

    The number of records is public. Under add-remove adjacency the neighbour has a record that contributes nothing
    in its place: a record that is really taken out would move others to other batches.

    Parameters
    ----------
    event : Event
        One step with Gaussian noise, such as ``ac.ClippedSum(sigma, adjacency="replace")``.
    steps : int
        Steps of an epoch; [1, 1e9].

    Raises
    ------
    ParameterError
        `steps` is out of range, or `event` is no event.
    SubsamplingError
        `event` has other noise.
    """

    between_bounds: ClassVar[bool] = True

    event: Event
    steps: Annotated[int, Range(1, 1e9, usual=(2, 10000))]
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.event, Event):
            raise ParameterError(f"event = {shorten(self.event)}; accepted: an event such as Gaussian(sigma)")
        if not isinstance(self.event, GaussianLike):
            raise SubsamplingError(
                f"{shorten(self.event)} in shuffled epochs; accepted: sums with Gaussian noise, such as "
                "Gaussian(sigma) or ClippedSum(sigma), for which bounds from both sides are known"
            )
        object.__setattr__(self, "adjacency", self.event.adjacency)
        super().__post_init__()

    @classmethod
    def examples(cls) -> tuple[Event, ...]:
        return cls(Gaussian(1.0), 100), cls(ClippedSum(2.0, adjacency=Adjacency.REPLACE), 1000)

    @property
    def additive_noise(self) -> AdditiveNoise | None:
        return self.event.additive_noise

    def caveats(self) -> tuple[str, ...]:
        order = f"every record is in one of {self.steps} steps, in a random order; no amplification by it is proven"
        return (*self.event.caveats(), order)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.event._curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.event._log_profile(epsilons)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(self.event, 1)]

    def _certain(self, times: int = 1) -> Event:
        if costs_less(self.event):
            return self.event._certain(max(times, 1)) if self.steps == 1 else PureDP(0.0, self.adjacency)
        return self.event if self.steps == 1 else LargestStep(self)

    @property
    def _amplified(self) -> bool:
        return False


@dataclass(frozen=True)
class LargestStep(FromBelow):
    """What the largest of an epoch's sums tells, if all other records pull the sums the other way."""

    epoch: ShuffledEpoch
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", self.epoch.adjacency)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.epoch._curve(orders)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        event = self.epoch.event
        assert isinstance(event, GaussianLike)
        mu = event._mu()
        # under replacement the record's place is taken by one that pulls with the others
        apart = (2 * mu, mu) if self.epoch.adjacency is Adjacency.ADD_REMOVE else (mu, 0.0)
        return [(largest_step_pair(*apart, self.epoch.steps, direction), 1)]


@lru_cache(maxsize=64)
def largest_step_pair(with_record: float, without: float, steps: int, direction: Direction) -> DiscretePair:
    """The pair of the largest of `steps` standard normals of which one is shifted: by `with_record`, and by `without`.

    Its distribution function is Phi(x - shift) Phi(x)^(steps - 1); what is known of it are the probabilities of cells.
    Cells that are out of the other distribution's reach are one with the next that is not. P is above Q, so that the
    upper of them are no less likely under P, and the lower under Q.
    """
    low = float(ndtri_exp(-45.0 / (steps - 1)))
    edges = np.linspace(low, with_record + REACH, CELLS)
    masses = []
    for shift in (with_record, without):
        logs = log_ndtr(edges - shift) + (steps - 1) * log_ndtr(edges)
        logs = np.concatenate([[-math.inf], logs, [0.0]])
        masses.append(np.exp(logs[1:]) * -np.expm1(logs[:-1] - logs[1:]))
    if direction == DIRECTIONS[0]:
        p, q = _join_last(*masses)
    else:
        q, p = (joined[::-1] for joined in _join_last(masses[1][::-1], masses[0][::-1]))
    good = (p > LEAST) & (q > LEAST)
    p, q = p[good], q[good]
    zero = max(1 - float(q.sum()), 0.0) if direction == DIRECTIONS[0] else 0.0
    return pair_below(Ratios(q, p / q, zero, 0.0, ROUNDING, ROUNDING), direction)


def _join_last(likelier: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same probabilities where the last cells are one, with more than the least under `other`."""
    last = int(np.flatnonzero(np.cumsum(other[::-1])[::-1] > LEAST)[-1])
    return np.append(likelier[:last], likelier[last:].sum()), np.append(other[:last], other[last:].sum())
