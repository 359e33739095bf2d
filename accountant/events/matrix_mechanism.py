"""Matrix mechanisms: sums of a whole training with noise that is correlated over its steps (BandMF, BLT, trees)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np

from accountant.adjacency import Adjacency, Direction
from accountant.errors import ParameterError, SubsamplingError, is_one_of, shorten
from accountant.events.answers import AdditiveNoise, Summand
from accountant.events.clipped_sum import ClippedSum
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.events.gaussian import Gaussian, GaussianLike
from accountant.events.matrix_sensitivity import Participation, columns_of, sensitivity_of
from accountant.events.matrix_strategies import MOST_STEPS, Strategy, as_strategy, square_root_strategy
from accountant.events.parameters import NoiseScale, Range, Scale
from accountant.events.priced import PricedAsAnother
from accountant.events.registry import register
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.zero_concentrated import ZeroConcentratedDP
from accountant.numerics.decimals import format_down
from accountant.numerics.roots import Interval

__all__ = ["BandedCycle", "MatrixMechanism"]

NOT_SAMPLED = (
    "is a whole training, and a sample of it is not a sample of each of its steps; accepted: it alone, or for banded "
    "strategies MatrixMechanism(...).cyclic_poisson(groups, rate)"
)

bounds_on_sensitivity = lru_cache(maxsize=64)(sensitivity_of)


EXACT = 1e-11
"""Relative distance of two bounds that are taken for one number."""


class Bracketed(PricedAsAnother):
    """Events that are priced by a distance of which only bounds may be known: as others at its upper end.

    Where the bounds differ, the tight route's lower end is that at the lower one.
    """

    @abstractmethod
    def _distance(self) -> Interval:
        """Bounds on the distance."""

    @abstractmethod
    def _at(self, distance: float) -> Event:
        """The price at a distance."""

    @property
    def between_bounds(self) -> bool:  # type: ignore[override]  # of each event
        lower, upper = self._distance()
        return lower < upper * (1 - EXACT)

    def _price(self) -> Event:
        return self._at(self._distance().upper)

    def _surrogates(
        self, direction: Direction, step: float, log_lost: float, sign: int
    ) -> list[tuple[Event, int]] | None:
        return [(self._price(), 1)] if self.between_bounds else None

    def _certain(self, times: int = 1) -> Event:
        return self._at(self._distance().lower) if self.between_bounds else self

    def _summand(self) -> Summand | None:
        return None if self.between_bounds else super()._summand()

    @property
    def _amplified(self) -> bool:
        return False


@register("matrix-mechanism")
@dataclass(frozen=True)
class MatrixMechanism(Bracketed):
    """Matrix mechanism (DP-FTRL): C x + z is released, x_i the sum of step i, z Gaussian noise, C the `strategy`.

    For a training, C^-1 z is the noise on the sums: correlated over the steps if C is not diagonal. A record adds a
    vector of norm at most `clip` to each of at most `participations` of the `steps` steps, chosen without looking at
    others' data: `separation` steps apart or more, or exactly, as in epochs of so many steps in a fixed order. Sums may
    depend on what was released before. The release is Gaussian noise of ``mu = sensitivity / sigma`` (Denisov et al.
    2022, Thm 2.1; proof: notebooks/mathematics.md, Matrix mechanisms).

    `sensitivity` brackets the largest distance. It is exact for one participation; for strategies of which columns
    `separation` apart do not overlap; for Toeplitz matrices whose coefficients do not rise or change sign; and, with
    exact gaps, for entries >= 0. In any other case the price is that of the upper end, an upper bound, and the lower
    end of the tight route that of the lower one.

    Parameters
    ----------
    sigma : float
        Standard deviation of z, in the units of the vectors; [1e-50, 1e50].
    strategy : sequence of float, or of sequences of float
        First column of a lower triangular Toeplitz matrix, zeros at its end left out (see `square_root_strategy`,
        `buffered_strategy`); or the rows of any matrix, one column for every step (`tree_strategy`).
    steps : int
        [1, 1e6].
    participations : int
        Steps in which a record takes part, at most; [1, 1e6].
    separation : int
        Steps from one participation to the next; [1, 1e6].
    gaps : {"at least", "exactly"}
        Whether `separation` is the least number (min-separation) or the only one (fixed order of epochs).
    clip : float
        Largest L2 norm of a record's vector; [1e-50, 1e50].
    adjacency : Adjacency
        Under add-remove the neighbour has a record that contributes nothing in its place; under replace another one,
        which takes part in the same steps.

    Raises
    ------
    ParameterError
        A parameter is out of range, or a matrix has not one column for every step.
    """

    _never_sampled: ClassVar[str] = NOT_SAMPLED

    sigma: NoiseScale
    strategy: Strategy
    steps: Annotated[int, Range(1, MOST_STEPS)]
    participations: Annotated[int, Range(1, MOST_STEPS)] = 1
    separation: Annotated[int, Range(1, MOST_STEPS)] = 1
    gaps: Literal["at least", "exactly"] = "at least"
    clip: Scale = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "strategy", as_strategy(self.strategy))
        if not is_one_of(self.gaps, ("at least", "exactly")):
            raise ParameterError(f"gaps = {shorten(self.gaps)}; accepted: 'at least', 'exactly'")
        columns = len(self.strategy[0]) if isinstance(self.strategy[0], tuple) else self.steps
        if columns != self.steps:
            raise ParameterError(f"steps = {self.steps}; accepted: {columns}, the columns of the strategy")
        if self.sensitivity.upper == 0.0:
            raise ParameterError(f"strategy = {shorten(self.strategy)}; accepted: one that is not 0 in these steps")
        self._refuse_out_of_range("clip")

    @classmethod
    def examples(cls) -> tuple[MatrixMechanism, ...]:
        return (
            cls(4.0, square_root_strategy(10), 100, 10, 10),
            cls(9.0, (1.0, 0.5, 0.25), 7, 3, 2, "exactly", 2.0, Adjacency.REPLACE),
        )

    @property
    def sensitivity(self) -> Interval:
        """Bounds on the largest distance of C x from that of a neighbour, for vectors of norm at most 1."""
        participation = Participation(self.steps, self.participations, self.separation, self.gaps == "exactly")
        return bounds_on_sensitivity(self.strategy, participation)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("gaussian", self.sigma)

    def caveats(self) -> tuple[str, ...]:
        apart = f", {self.gaps} {self.separation} steps apart" if self.participations > 1 else ""
        times = "once" if self.participations == 1 else f"{self.participations} times"
        lower, upper = self.sensitivity
        loose = (f"the sensitivity is an upper bound, {lower:g} of {upper:g} is reached",)
        return (
            f"every record's vector is clipped to norm {format_down(self.clip)} before it is added",
            f"nobody's record takes part more than {times} in {self.steps} steps{apart}",
            *(loose if self.between_bounds else ()),
        )

    def cyclic_poisson(self, groups: int, rate: float) -> Composition:
        """The same release on cyclic Poisson samples: one `BandedCycle` for every cycle of `groups` steps.

        `participations`, `separation` and `gaps` do not matter: every record takes part by the coins that are drawn.
        Of a Toeplitz matrix the last cycle has the coefficients that the remaining steps leave.

        Raises
        ------
        SubsamplingError
            Columns `groups` steps apart overlap.
        ParameterError
            A number is out of range.
        """
        cycle = BandedCycle(self.sigma, self.strategy, groups, rate, self.clip, self.adjacency)
        cycles = -(-self.steps // cycle.groups)
        if isinstance(self.strategy[0], tuple):
            return cycles * cycle
        rest = self.strategy[: self.steps - (cycles - 1) * cycle.groups]
        return (cycles - 1) * cycle + (1 * replace(cycle, strategy=rest) if any(rest) else Composition([]))

    def _distance(self) -> Interval:
        return self.sensitivity

    def _at(self, distance: float) -> Event:
        moved = (2.0 if self.adjacency is Adjacency.REPLACE else 1.0) * self.clip
        return Gaussian(self.sigma, distance * moved, self.adjacency)

    def _group(self, size: int) -> Event:
        price = self._price()._group(size)
        assert isinstance(price, GaussianLike)
        # of a bound on the distance only the curve is certain
        return ZeroConcentratedDP(price._mu() ** 2 / 2, 0.0, self.adjacency) if self.between_bounds else price


@register("banded-cycle")
@dataclass(frozen=True)
class BandedCycle(Bracketed):
    """One cycle of a banded matrix mechanism on cyclic Poisson samples (Choquette-Choo et al. 2023, Thm 4).

    Records are assigned to `groups` groups once, without looking at their data. Step i draws from group i mod `groups`:
    each of its records joins with probability `rate`. The strategy has at most `groups` bands, so that what two steps
    of one group release does not overlap. Then one cycle is Gaussian noise on a Poisson sample, with vectors of norm
    `clip` times that of the strategy's largest column, and n steps are n / `groups` cycles, rounded up (proof:
    notebooks/mathematics.md, Matrix mechanisms). With more bands than groups nothing is certified here.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise z in C x + z, in the units of the vectors; [1e-50, 1e50].
    strategy : sequence of float, or of sequences of float
        C, as for `MatrixMechanism`.
    groups : int
        Groups of records, steps of a cycle; [1, 1e6].
    rate : float
        Probability with which a record of the group joins; 0, or [1e-15, 1].
    clip : float
        Largest L2 norm of a record's vector; [1e-50, 1e50].
    adjacency : Adjacency

    Raises
    ------
    SubsamplingError
        Columns `groups` steps apart overlap.
    ParameterError
        A parameter is out of range.
    """

    _never_sampled: ClassVar[str] = "has drawn its own samples; accepted: it alone, at a rate of its own"

    sigma: NoiseScale
    strategy: Strategy
    groups: Annotated[int, Range(1, MOST_STEPS)]
    rate: Annotated[float, Range(1e-15, 1.0, zero=True, usual=(1e-3, 1.0))]
    clip: Scale = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "strategy", as_strategy(self.strategy))
        bands = bands_of(self.strategy)
        if bands > self.groups:
            raise SubsamplingError(
                f"groups = {self.groups} with {bands} bands: what two samples of one group release overlaps, and no "
                f"amplification is certified; accepted: at least {bands} groups, or MatrixMechanism without sampling"
            )
        self._refuse_out_of_range("clip")

    @classmethod
    def examples(cls) -> tuple[BandedCycle, ...]:
        return cls(2.0, square_root_strategy(4), 4, 0.05), cls(1.0, (1.0, 0.5), 3, 0.2, 2.0, Adjacency.REPLACE)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("gaussian", self.sigma)

    def caveats(self) -> tuple[str, ...]:
        return (
            f"every record's vector is clipped to norm {format_down(self.clip)} before it is added",
            f"every record is in one of {self.groups} groups, assigned without looking at other records",
            f"a record joins every {self.groups}-th step at rate {format_down(self.rate)} by itself, and who joined "
            "stays secret",
        )

    def _distance(self) -> Interval:
        return columns_of(self.strategy)

    def _at(self, distance: float) -> Event:
        if distance == 0.0:
            return PoissonSubsampled(ClippedSum(self.sigma, self.clip, self.adjacency), 0.0)
        return PoissonSubsampled(ClippedSum(self.sigma, self.clip * distance, self.adjacency), self.rate)

    def _ceiling(self) -> Event:
        return ClippedSum(self.sigma, self.clip * self._distance().upper, self.adjacency)


@lru_cache(maxsize=64)
def bands_of(strategy: Strategy) -> int:
    """The least b such that of columns b or more apart the first one's rows all come before the other's."""
    if not isinstance(strategy[0], tuple):
        nonzero = np.flatnonzero(strategy)
        return int(nonzero[-1] - nonzero[0]) + 1
    matrix = np.array(strategy) != 0
    rows, columns = matrix.shape
    used = matrix.any(axis=0)
    first = np.where(used, matrix.argmax(axis=0), rows)
    last = np.maximum.accumulate(np.where(used, rows - 1 - matrix[::-1].argmax(axis=0), -1))
    following = np.minimum.accumulate(first[::-1])[::-1]
    return next((b for b in range(1, columns) if (last[:-b] < following[b:]).all()), columns)
