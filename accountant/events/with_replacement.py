"""Samples of a fixed size, drawn with replacement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from accountant.adjacency import Adjacency, Direction
from accountant.errors import ParameterError, SubsamplingError, shorten
from accountant.events.answers import AdditiveNoise, Triple
from accountant.events.drawn_gaussians import (
    UNSEEN,
    DrawnGaussians,
    log_expm1_ratio,
    log_height_of_few,
    log_heights,
    mean_curve,
)
from accountant.events.event import Event
from accountant.events.fixed_size import DrawnGroup, refuse_other_records
from accountant.events.from_below import costs_less
from accountant.events.gaussian import Gaussian, GaussianLike
from accountant.events.group import price_of_group
from accountant.events.mixture_of_gaussians import MixtureOfGaussians, mixture_log_profile
from accountant.events.numbers_of_draws import draws_by_size, repeats_of
from accountant.events.parameters import Range
from accountant.events.priced import PricedAsAnother
from accountant.events.randomized_response import RandomizedResponse
from accountant.events.registry import register
from accountant.events.subsampled_gaussian import subsampled_gaussian_work
from accountant.events.subsampling import FIRST_VALUES, SAMPLED_ORDER, integral_work, renyi_from_profile
from accountant.numerics.kernel import FloatArray
from accountant.numerics.mills import INTEGRATED
from accountant.numerics.scipy_special import logsumexp
from accountant.numerics.special import divergence_from_log_mean, log_mixture_ratio

__all__ = ["SampledWithReplacement"]

MOST_DRAWS = 1000
"""Largest mean number of draws of one record."""

RARE, FEW_PARTS, PART = -23.0, 32, 3e5
"""Log of the weight below which a part of a curve need not be exact, where there are more parts than that or noise is
Gaussian; and operations (see `accountant.patience`) of a part of the integral over all of few."""

SEEN = -70.0
"""Log of the probability above which a number of draws is looked at from below."""

FAR, NEAREST = 1e3, 1e-50
"""Standard deviations beyond which shifts are not told apart from below, and below which they are none there."""

APART, OFTEN, ALMOST = (1, 2, 4), 0.3, 0.99
"""Numbers of draws up to which the replaced record's are told apart; how much of the probability they must have, and
with how much no more are asked for."""

CALL, CALL_IN_DECIMALS, CALL_OVERLAID = 2.5e4, 2e5, 2.5e6
"""Operations (see `accountant.patience`) of a call of the profile of a part, of one by decimals, and of that of all
parts with Gaussian noise."""

ROUNDING = 1e-11
"""More than the relative rounding of a probability."""


class Draws(NamedTuple):
    """A group of draws: how it is priced, the log of its probability, given any draw at all, and how exactly."""

    part: DrawnGroup
    log_weight: float


@register("sampled-with-replacement")
@dataclass(frozen=True)
class SampledWithReplacement(Event):
    """An event run on `draws` records drawn independently and uniformly: a record may come several times.

    With n records and m draws, a record is in the sample with probability g = 1 - (1 - 1/n)^m, and k times with
    probability b_k = Binom(m, 1/n)(k). Under REPLACE, with e^{e'} = 1 + g (e^e - 1), the profile at e' is at most
    ``S(e) = sum over k >= 1 of b_k H_k(e)``, H_k that of the event for a group of k, in both directions
    (Balle, Barthe & Gaboardi 2018, Thm 10). For Gaussian noise it is at most ``(1 - B) M(e) + B S(e)``, B = e^{e' - e},
    where M is g times the profile of the mixture of N(k mu, 1) with weights b_k / g against N(0, 1): who compares with
    samples without the record does not know k (proofs: notebooks/mathematics.md, Samples with replacement).

    No release is known that reaches this bound. The lower end of the tight route is that of one which shows the record:
    a sum to which it alone contributes. The Rényi curve is the integral over S; for Gaussian noise it is finite, but
    soon huge, as it covers the case that all draws are the same record: prices are those of the tight route. The upper
    end of several of Gaussian noise is that of a game (same, Runs of samples with replacement).

    Parameters
    ----------
    event : Event
        Under REPLACE: what it costs when one record of the sample is another. For DP-SGD, ``ac.ClippedSum(sigma, clip,
        adjacency="replace")``. Its groups need a price: see `Group`.
    draws : int
        Draws in a sample, m; [1, 1e12].
    population : int
        Records in all, n, which is public; [1, 1e12].

    Raises
    ------
    ParameterError
        A parameter is out of range, `event` is no event, or nothing is proven for it or for its groups.
    SubsamplingError
        `event` is not under REPLACE, or its curve depends on the data.
    """

    between_bounds: ClassVar[bool] = True

    event: Event
    draws: Annotated[int, Range(1, 1e12)]
    population: Annotated[int, Range(1, 1e12)]
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.event, Event):
            raise ParameterError(f"event = {shorten(self.event)}; accepted: an event such as ClippedSum(sigma)")
        if self.event.adjacency is not Adjacency.REPLACE:
            raise SubsamplingError(
                f"{shorten(self.event)} is under {self.event.adjacency} adjacency: with a record more or less, all "
                "samples change, and nothing is proven; accepted: the event under replace adjacency"
            )
        refuse_other_records(self.event, self.draws)
        if self.draws > MOST_DRAWS * self.population and self.population > 1:
            raise ParameterError(
                f"draws = {self.draws} of {self.population} records; accepted: [1, {MOST_DRAWS * self.population}], "
                f"at most {MOST_DRAWS} times the records"
            )
        self._parts()

    @classmethod
    def examples(cls) -> tuple[Event, ...]:
        from accountant.events.clipped_sum import ClippedSum

        return (cls(ClippedSum(4.0, adjacency=Adjacency.REPLACE), 2, 100),)

    @property
    def _records(self) -> int:  # type: ignore[override]
        return self.population

    @property
    def rate(self) -> float:
        """Probability that a record is drawn at all."""
        return 1.0 if self.population == 1 else -math.expm1(self.draws * math.log1p(-1 / self.population))

    @property
    def additive_noise(self) -> AdditiveNoise | None:
        return self.event.additive_noise

    def caveats(self) -> tuple[str, ...]:
        return (
            *self.event.caveats(),
            f"every step draws {self.draws} times one of {self.population} records, all equally likely, in secret",
        )

    @property
    def _amplified(self) -> bool:
        return False

    def _parts(self) -> tuple[Draws, ...]:
        return parts_of(self.event, self.draws, self.population, self.rate)

    def _gaussians(self) -> DrawnGaussians:
        """The groups of draws of Gaussian noise."""
        parts = self._parts()
        distances = tuple(part.event._mu() for part, _ in parts)  # type: ignore[attr-defined]  # of the same kind
        return DrawnGaussians(
            self.rate, tuple(log_weight for _, log_weight in parts), distances, tuple(part.rare for part, _ in parts)
        )

    def _ceiling(self) -> Event | None:
        return group_of(self.event, self.draws)

    def _triple(self) -> Triple | None:
        from accountant.events.clipped_sum import ClippedSum

        noise, repeats = self.event, repeats_of(self.draws, self.population)
        if not isinstance(noise, Gaussian | ClippedSum) or repeats is None:
            return None
        return Triple(noise._mu(), self.rate, isinstance(noise, ClippedSum), repeats)

    def _curve_work(self, rate: float = 1.0) -> float:
        parts = self._parts()
        if isinstance(self.event, GaussianLike):
            # of all parts few are seen at an order
            return 1e5 + 8e3 * len(parts) + 2 * max(map(subsampled_gaussian_work, self._gaussians().distances))
        often = [part for part, _ in parts if not part.rare]
        if len(often) == len(parts):
            return integral_work(self) + PART * len(parts)
        # of each part by itself, more than are remembered
        return len(often) * SAMPLED_ORDER + FIRST_VALUES * math.fsum(part._profile_work() for part in often)

    def _profile_work(self) -> float:
        if isinstance(self.event, GaussianLike):
            # differences of Mills' ratio are integrated where lengths are small
            lengths = [part.event._mu() for part, _ in self._parts()]  # type: ignore[attr-defined]  # of the same kind
            seen = sum(log_weight > SEEN for _, log_weight in self._parts())
            apart = 500.0 * seen * sum(how_many_apart(self.draws, self.population))
            return apart + math.fsum(2000.0 if length <= INTEGRATED else 500.0 for length in lengths)
        if self.event._coordinates == 1:
            return 100.0 * len(self._parts())
        return math.fsum(part._profile_work() for part, _ in self._parts())

    def _call_work(self) -> float:
        if isinstance(self.event, GaussianLike):
            return CALL_OVERLAID
        each = CALL_IN_DECIMALS if isinstance(self.event, RandomizedResponse) else CALL
        return math.fsum(each + part._call_work() for part, _ in self._parts())

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        gaussian = isinstance(self.event, GaussianLike)
        if gaussian:
            heights = log_heights(self._gaussians(), epsilons)
        else:
            heights = np.stack([log_weight + part._log_height(epsilons) for part, log_weight in self._parts()])
        logs = np.logaddexp.reduce(heights, axis=0)
        if gaussian and len(heights) > 1:
            logs = self._overlaid(epsilons, heights, logs)
        both = np.minimum(logs, 0.0)
        return both, both

    def _overlaid(self, epsilons: FloatArray, heights: FloatArray, known: FloatArray) -> FloatArray:
        """The profile where the number of draws is hidden from whoever compares with samples without the record.

        Of g ((1 - B) H_e(P || R) + B H_e(P || Q)) with B = e^{e' - e}, the first H is that of a mixture of Gaussians.
        So is that of P against (1 - B) R + B Q where Q comes from few draws; that it may come from more is left out.
        """
        inner = log_mixture_ratio(1 / self.rate, epsilons)
        near: list[tuple[float, float]] = []
        apart, left_out = np.full_like(epsilons, -math.inf), -math.inf
        for (part, log_weight), height in zip(self._parts(), heights, strict=True):
            length = part.event._mu()  # type: ignore[attr-defined]  # of the same kind
            if log_weight > SEEN and length < FAR:
                near.append((log_weight, length))
            else:
                apart, left_out = np.logaddexp(apart, height), float(np.logaddexp(left_out, log_weight))
        if not near:
            return known
        weights, shifts = np.array(near).T
        whole = float(logsumexp(weights))

        def hidden(at: FloatArray, least: float) -> FloatArray:
            """Log of g H(P || Q_j), where nothing of P is nearer to Q_j than `least`."""
            logs: FloatArray = mixture_log_profile(weights - whole, np.maximum(shifts, least), at)[0]
            return np.asarray(logs + (math.log(self.rate) + whole))

        with np.errstate(divide="ignore"):
            share = np.log1p(-self.rate) + np.log(-np.expm1(-inner))
        mixed = hidden(inner, 0.0)
        found = np.minimum(np.logaddexp(share + np.logaddexp(mixed, apart), epsilons - inner + known), known)
        log_shares = [share, *(epsilons - inner + weight for weight in weights.tolist())]
        for last in how_many_apart(self.draws, self.population):
            few = log_height_of_few(inner, log_shares[: last + 1], shifts, hidden)
            found = np.minimum(found, np.logaddexp(few, math.log(self.rate) + left_out))
        return np.asarray(found)

    def _profile_knots(self) -> tuple[float, ...]:
        return tuple(sorted({knot for part, _ in self._parts() for knot in part._profile_knots()}))

    def _curve(self, orders: FloatArray) -> FloatArray:
        """Of the moments less 1, which are integrals over the profile, the mean over the number of draws."""
        largest = group_of(self.event, self.draws)
        limit = float(largest._curve(np.array([math.inf]))[0])
        end = float(log_mixture_ratio(self.rate, np.array([limit]))[0]) if limit < math.inf else math.inf
        finite = np.isfinite(orders)
        curve = np.where(finite, largest._curve(orders), end)
        if finite.any() and limit > 0.0 and self.rate < 1.0:
            curve[finite] = np.minimum(self._mean_curve(orders[finite]), curve[finite])
        return np.minimum(curve, end)

    def _mean_curve(self, orders: FloatArray) -> FloatArray:
        if isinstance(self.event, GaussianLike):
            return mean_curve(self._gaussians(), orders)
        return np.array([mean_divergence(self, order) for order in orders.tolist()])

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(BoundOnDraws(self), 1)]

    def _certain(self, times: int = 1) -> Event:
        if self.population == 1 and not costs_less(self.event):
            return BoundOnDraws(self)
        gaussian = isinstance(self.event, GaussianLike) and not costs_less(self.event)
        return SumOfDraws(self) if gaussian else DrawnGroup(self.event, 1, 1, self.rate)._certain(max(times, 1))


@lru_cache(maxsize=256)
def how_many_apart(draws: int, population: int) -> tuple[int, ...]:
    """Numbers of draws up to which Q's are told apart, where those are often enough."""
    if population == 1:
        return ()
    logs = [log_probability for _, log_probability in draws_by_size(draws, population)]
    whole = float(logsumexp(logs))
    shares = [0.0, *(math.exp(float(logsumexp(logs[:many])) - whole) for many in APART)]
    pairs = zip(APART, shares, shares[1:], strict=False)
    return tuple(many for many, before, share in pairs if many < len(logs) and share > OFTEN and before < ALMOST)


@dataclass(frozen=True)
class BoundOnDraws(Event):
    """The profile of the sum over the number of draws, as that of a release."""

    _profile_error: ClassVar[float] = 2e-12  # type: ignore[misc]  # probabilities of draws are logarithms

    sampled: SampledWithReplacement
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def _profile_work(self) -> float:
        return self.sampled._profile_work()

    def _call_work(self) -> float:
        return self.sampled._call_work()

    def _curve_work(self, rate: float = 1.0) -> float:
        return self.sampled._curve_work(rate)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.sampled._curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.sampled._log_profile(epsilons)

    def _profile_knots(self) -> tuple[float, ...]:
        return self.sampled._profile_knots()


@dataclass(frozen=True)
class SumOfDraws(PricedAsAnother):
    """Gaussian noise on a sum to which one record alone contributes, each time it is drawn.

    Numbers of draws that are counted as one are here the least of them, and rare ones none: the sum then tells less.
    """

    sampled: SampledWithReplacement
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def _price(self) -> Event:
        mu = self.sampled.event._mu()  # type: ignore[attr-defined]  # of GaussianLike
        parts, least = [], 1
        for size, log_probability in draws_by_size(self.sampled.draws, self.sampled.population):
            if log_probability > SEEN:
                shift = min(mu * least, FAR) if mu * least >= NEAREST else 0.0
                parts.append((shift, math.exp(log_probability) * (1 - ROUNDING)))
            least = size + 1
        shifts, shares = zip((0.0, 1 - math.fsum(share for _, share in parts)), *parts, strict=True)
        return MixtureOfGaussians(1.0, shifts, shares)


@lru_cache(maxsize=4096)
def mean_divergence(sampled: SampledWithReplacement, order: float) -> float:
    """As `mean_curve`, of any event; a price asks for an order repeatedly."""
    parts, orders = sampled._parts(), np.array([order])
    if not any(part.rare for part, _ in parts):
        return float(renyi_from_profile(sampled, orders)[0])
    # what all but the largest terms come to in no sample at all is seldom seen
    own = np.array([float(part.event._curve(orders)[0]) for part, _ in parts])
    most = log_expm1_ratio(np.full_like(own, order - 1.0), own) + np.array([log_weight for _, log_weight in parts])
    falling = np.argsort(-most)
    rest = np.append(np.logaddexp.accumulate(most[falling][::-1])[::-1], -math.inf)
    log_mean = -math.inf
    for place, part in enumerate(falling.tolist()):
        if rest[place] < log_mean + UNSEEN:
            log_mean = float(np.logaddexp(log_mean, rest[place]))
            break
        log_mean = float(np.logaddexp(log_mean, parts[part].part._log_mean(orders)[0] + parts[part].log_weight))
    return divergence_from_log_mean(order - 1.0, log_mean)


def group_of(event: Event, size: int) -> Event:
    """The event that prices `size` copies of a record in the sample."""
    return event if size == 1 else price_of_group(event, size)


@lru_cache(maxsize=256)
def parts_of(event: Event, draws: int, population: int, rate: float) -> tuple[Draws, ...]:
    """Groups of draws with the logs of their weights b_k / g, which add up to 1."""
    if population == 1:
        return (Draws(DrawnGroup(group_of(event, draws), 1, 1), 0.0),)
    found: list[Draws] = []
    sizes = draws_by_size(draws, population)
    exact = len(sizes) <= FEW_PARTS and not isinstance(event, GaussianLike)
    for size, log_probability in sizes:
        log_weight = log_probability - math.log(rate)
        rare = len(found) > 0 and log_weight < RARE and not exact
        found.append(Draws(DrawnGroup(group_of(event, size), 1, 1, rate, rare), log_weight))
    return tuple(found)
