"""Gaussian noise on a Poisson sample that is cut down to a largest batch, and releases that a public coin chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import AdditiveNoise
from accountant.events.clipped_sum import ClippedSum
from accountant.events.event import Event
from accountant.events.fixed_size import DrawnGroup
from accountant.events.parameters import Range
from accountant.events.priced import PricedAsAnother
from accountant.events.randomized_response import PureDP
from accountant.events.registry import register
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.truncated_cells import Crowd, SplitBatch, SwappedInPlace
from accountant.events.truncated_readings import Truncation, batch_seen
from accountant.numerics.binomial_tails import log_binomial_tails
from accountant.numerics.decimals import format_down
from accountant.numerics.kernel import FloatArray

__all__ = ["EitherRelease", "TruncatedPoissonGaussian", "price_of_parts", "truncation_odds"]

RECORDS = 10**12
"""Most records of a data set."""

CURVE = 4e4
"""Operations (see `accountant.patience`) of an order of a mixture's curve, beside those of both parts."""

Noise = Annotated[float, Range(1e-40, 1e40, noise=True, usual=(0.3, 100.0))]
Clip = Annotated[float, Range(1e-40, 1e40)]


@dataclass(frozen=True)
class EitherRelease(Event):
    """One of two releases, the second with probability e^log_second, and word of which it was.

    The word has the same distribution on all data. So ``H = (1 - s) H_1 + s H_2`` in both directions, and
    ``e^((a-1) D) = (1 - s) e^((a-1) D_1) + s e^((a-1) D_2)``. Without the word it costs no more;
    then `least` is an event that costs no more than what is priced so.
    """

    first: Event
    second: Event
    log_first: float
    log_second: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    least: Event | None = None

    @property
    def _amplified(self) -> bool:
        return False

    def _curve(self, orders: FloatArray) -> FloatArray:
        curves = self.first._curve(orders), self.second._curve(orders)
        shares = math.exp(self.log_first), math.exp(self.log_second)
        b = orders - 1.0
        finite = np.isfinite(orders)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            powers = [np.where(finite, b * curve, 0.0) for curve in curves]
            change = shares[0] * np.expm1(powers[0]) + shares[1] * np.expm1(powers[1])
            large = np.logaddexp(self.log_first + powers[0], self.log_second + powers[1])
            mixed = np.where(change < 1.0, np.log1p(np.minimum(change, 1.0)), large) / np.where(b > 0.0, b, 1.0)
            mixed = np.where(b > 0.0, mixed, shares[0] * curves[0] + shares[1] * curves[1])
        worst = np.maximum(*curves)
        return np.where(finite, np.minimum(mixed, worst), worst)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        one, other = self.first._log_profile(epsilons), self.second._log_profile(epsilons)
        remove, add = (np.logaddexp(self.log_first + a, self.log_second + b) for a, b in zip(one, other, strict=True))
        return np.minimum(remove, 0.0), np.minimum(add, 0.0)

    def _certain(self, times: int = 1) -> Event:
        return self if self.least is None else self.least

    def _curve_work(self, rate: float = 1.0) -> float:
        return CURVE + self.first._curve_work() + self.second._curve_work()

    def _profile_work(self) -> float:
        return self.first._profile_work() + self.second._profile_work()

    def _call_work(self) -> float:
        return self.first._call_work() + self.second._call_work()

    def _profile_knots(self) -> Sequence[float]:
        return (*self.first._profile_knots(), *self.second._profile_knots())


@register("truncated-poisson-gaussian")
@dataclass(frozen=True)
class TruncatedPoissonGaussian(PricedAsAnother):
    """Sum of clipped vectors of a Poisson sample that is cut down to at most `largest_batch` records, plus noise.

    Every record joins with probability q; of more than B records B are kept, any of them with equal chance. Each adds a
    vector of norm at most `clip`, and every entry gets N(0, sigma^2). With n records, the individual's among them, and
    ``s = P(Bin(n - 1, q) >= B)`` the probability that the others fill the batch, the release costs no more than

    * with probability 1 - s the sampled sum, `ClippedSum` at rate q,
    * with probability s that of vectors of norm 2 `clip` at rate ``B/n P(Bin(n, q) > B)/s``,

    and word of which it was: where the batch is full, the individual takes another record's place (Ganesh 2025). That
    is the Rényi curve. The profile is smaller: for a share of the swaps, the best at each epsilon, the batch is
    compared with one that has room for just one more, and under replacement a full batch is as a sample of a fixed size
    (proof: notebooks/mathematics.md, Truncated Poisson samples). The
    price neither rises nor falls with n alone, so n has to be public, and right: under add-remove adjacency n is the
    number with the individual, n - 1 the one without. The lower end of a price is that of data on which all other
    vectors are alike, or are 0 (notebooks/mathematics.md, Prices from below); where the batch is full for certain the
    price is reached if all others are opposite to the individual's.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in the units of the vectors; [1e-40, 1e40].
    rate : float
        Probability q with which a record joins; [1e-12, 1].
    population : int
        n; [1, 1e12].
    largest_batch : int
        B; [1, 1e12].
    clip : float
        Largest L2 norm of a record's vector; [1e-40, 1e40].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    data_dependent: ClassVar[bool] = False

    sigma: Noise
    rate: Annotated[float, Range(1e-12, 1.0, usual=(1e-3, 0.3))]
    population: Annotated[int, Range(1, RECORDS, usual=(10, 10_000))]
    largest_batch: Annotated[int, Range(1, RECORDS, usual=(5, 200))]
    clip: Clip = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    @classmethod
    def examples(cls) -> tuple[TruncatedPoissonGaussian, ...]:
        return cls(1.1, 0.1, 1000, 110), cls(2.0, 0.5, 30, 12, 1.0, Adjacency.REPLACE)

    @property
    def _records(self) -> int:  # type: ignore[override]
        return self.population

    @property
    def _amplified(self) -> bool:
        # of a sample of the records the batch keeps more: what is proven is for that number of them
        return self.population <= self.largest_batch and super()._amplified

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("gaussian", self.sigma)

    def caveats(self) -> tuple[str, ...]:
        return (
            f"every record's vector is clipped to norm {format_down(self.clip)} before it is added",
            f"the data set that holds the individual has {self.population} records, which is public",
            f"every record joins at rate {format_down(self.rate)} by itself, and who joined stays secret",
        )

    def _price(self) -> Event:
        return price_of_parts(self, self.adjacency, self.adjacency)

    def _certain(self, times: int = 1) -> Event:
        price = self._price()
        # never cut down; or always full, of vectors opposite to the individual's
        if price.unsampled is not price:
            return self
        if isinstance(price, DrawnGroup):
            return price._certain(times)
        seen = None
        if isinstance(price, SplitBatch | SwappedInPlace):
            cut = Truncation(self.population, self.largest_batch, self.sigma / self.clip)
            seen = batch_seen(price.crowd, cut, price, self.adjacency)
        if seen is None:
            return least_of_parts(self, self.adjacency)
        return seen if times == 0 else seen.best(times)

    def _ceiling(self) -> Event:
        return ClippedSum(self.sigma, 2 * self.clip, self.adjacency)


def least_of_parts(event: TruncatedPoissonGaussian, own: Adjacency) -> Event:
    """What it costs if all other vectors are 0: a sample that the individual is in as often as in the batch."""
    log_room, log_full, full_rate = truncation_odds(event.rate, event.population, event.largest_batch)
    kept = event.rate if log_full == -math.inf else math.exp(log_room) * event.rate + math.exp(log_full) * full_rate
    if kept < 1e-15:
        return PureDP(0.0, own)
    alone = ClippedSum(event.sigma, event.clip, own)
    return PoissonSubsampled(alone, min(kept * (1.0 if log_full == -math.inf else 1 - 1e-12), 1.0))


def price_of_parts(event: TruncatedPoissonGaussian, own: Adjacency, crowded: Adjacency) -> Event:
    """The two releases, where the batch has room for the individual and where it has none, and how often each."""
    alone = ClippedSum(event.sigma, event.clip, own)
    room = PoissonSubsampled(alone, event.rate)
    log_room, log_full, rate = truncation_odds(event.rate, event.population, event.largest_batch)
    if log_full == -math.inf:
        return room
    full: Event = PoissonSubsampled(ClippedSum(event.sigma, 2 * event.clip, crowded), rate)
    drawn = full
    if own is Adjacency.REPLACE:  # a batch out of all others, in which either vector takes another's place
        drawn = DrawnGroup(alone, 1, 1, rate)
    if log_room == -math.inf and crowded is own:
        return drawn
    least = least_of_parts(event, own)
    whole, nearer = (EitherRelease(room, each, log_room, log_full, own, least) for each in (full, drawn))
    crowd = Crowd.of(event.rate, event.population, event.largest_batch, log_full, rate)
    if crowd.rarely_last and crowded is own:
        return nearer
    if crowded is Adjacency.ADD_REMOVE:
        return SplitBatch(crowd, event.clip / event.sigma, whole, least)
    return SwappedInPlace(crowd, event.clip / event.sigma, whole, least, own, nearer, alone)


def truncation_odds(rate: float, records: int, largest: int) -> tuple[float, float, float]:
    """Logs of the probabilities that the others leave room and that they fill the batch, and then its rate."""
    others = records - 1
    if others < largest:
        return 0.0, -math.inf, rate
    if rate == 1.0:
        return -math.inf, 0.0, largest / records
    log_room, log_full = log_binomial_tails(others, largest, rate)
    # that the individual joins a batch which it fills beyond: sum over k >= B of P(k others) q B/(k + 1)
    log_kept = math.log(largest / records) + log_binomial_tails(records, largest + 1, rate)[1]
    share = largest / (largest + 1.0)
    return log_room, log_full, min(rate * share, math.exp(log_kept - log_full))
