"""Samples of a fixed size, drawn with replacement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np

from accountant.adjacency import Adjacency, Direction
from accountant.errors import ParameterError, SubsamplingError, shorten
from accountant.events.answers import AdditiveNoise, Triple
from accountant.events.drawn_gaussians import DrawnGaussians, log_height_of_few, log_heights, mean_curve
from accountant.events.drawn_parts import (
    Draws,
    call_work,
    group_of,
    log_heights_of,
    mean_divergence,
    mean_work,
    parts_of,
)
from accountant.events.event import Event
from accountant.events.fixed_size import DrawnGroup, refuse_other_records
from accountant.events.from_below import costs_less
from accountant.events.gaussian import Gaussian, GaussianLike
from accountant.events.mixture_of_gaussians import MixtureOfGaussians, mixture_log_profile
from accountant.events.numbers_of_draws import draws_by_size, repeats_of
from accountant.events.parameters import Range
from accountant.events.priced import PricedAsAnother
from accountant.events.registry import register
from accountant.events.subsampled_gaussian import subsampled_gaussian_work
from accountant.numerics.kernel import FloatArray
from accountant.numerics.mills import INTEGRATED
from accountant.numerics.scipy_special import logsumexp
from accountant.numerics.special import log_mixture_ratio

__all__ = ["SampledWithReplacement"]

MOST_DRAWS = 1000
"""Largest mean number of draws of one record."""

SEEN = -70.0
"""Log of the probability above which a number of draws is looked at from below."""

FAR, NEAREST = 1e3, 1e-50
"""Standard deviations beyond which shifts are not told apart from below, and below which they are none there."""

APART, OFTEN, ALMOST = (1, 2, 4), 0.3, 0.99
"""Numbers of draws up to which the replaced record's are told apart; how much of the probability they must have, and
with how much no more are asked for."""

CALL_OVERLAID = 2.5e6
"""Operations (see `accountant.patience`) of a call of the profile of all parts with Gaussian noise."""

ROUNDING = 1e-11
"""More than the relative rounding of a probability."""


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
        return mean_work(self)

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
        return call_work(self._parts())

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        gaussian = isinstance(self.event, GaussianLike)
        if gaussian:
            heights = log_heights(self._gaussians(), epsilons)
        else:
            heights = log_heights_of(self._parts(), self.rate, epsilons)
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
