"""Randomized response, and pure DP, which it dominates."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Self

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, ProfileUnavailable
from accountant.events.answers import (
    LARGEST_ROW,
    ClosedForm,
    GroupLine,
    Lattice,
    Outcomes,
    Row,
    Summand,
    bits_row,
)
from accountant.events.curve import StandardForm
from accountant.events.event import BatchedEvent, Event
from accountant.events.few_losses import MOST_FEW, BothOutcomes
from accountant.events.parameters import EpsilonOfNoise, Range
from accountant.events.registry import register
from accountant.events.subsampling import SAMPLED_ORDER
from accountant.numerics.finite_curves import finite_curve
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import (
    deviance,
    divergence_from_log_mean,
    log_mean_term,
    log_mixture,
    log_mixture_ratio,
    logaddexp,
    stirling_error,
)

__all__ = ["PureDP", "RandomizedResponse"]

PROFILE_BITS = 100_000
"""Bits up to which the profile, a finite sum over them, is computed."""

BELOW, ROUNDED = 1 - 2.0**-51, 1e-12
"""Less than what rounding makes of a point beside a loss, relative, and more than that of the profile's logarithm."""

QUICK_BITS = 4096
"""Bits up to which it is computed in a moment."""


FEW_BITS = 512
"""Bits up to which it is computed as often as samples need it."""


class BernoulliLike(BatchedEvent):
    """Events whose dominating pair is m bits, true with odds e^eps, against m false ones."""

    epsilon: float

    @abstractmethod
    def _bits(self) -> int: ...

    def _summand(self) -> Summand:
        return bernoulli_summand(self.epsilon, self._bits())

    def _largest_loss(self) -> Fraction:
        return self._bits() * Fraction(self.epsilon)

    def _row(self, rate: float = 1.0) -> Row | None:
        return bits_row(self.epsilon, self._bits()) if rate == 1.0 and self.epsilon <= LARGEST_ROW else None

    def _few_losses(self, times: int, rate: float = 1.0) -> BothOutcomes | None:
        return few_bits(self.epsilon, times * self._bits(), rate) if rate == 1.0 or self._bits() == 1 else None

    @property
    def _block(self) -> int:
        return QUICK_BITS

    def _lattice(self, added: float, sign: int) -> Lattice | None:
        return bit_lattice(self.epsilon) if self._bits() > FEW_BITS else None

    @property
    def _summed(self) -> bool:  # type: ignore[override]
        return self._bits() > PROFILE_BITS

    @classmethod
    def _gathered(cls, events: Sequence[Self]) -> FloatArray:
        return np.array([(event.epsilon, float(event._bits())) for event in events])

    @classmethod
    def _curves(cls, gathered: FloatArray, orders: FloatArray) -> FloatArray:
        curves = np.empty((len(gathered), orders.size))
        bernoulli_curves(gathered, orders, curves)
        return curves

    def _curve_work(self, rate: float = 1.0) -> float:
        return sampled_bits_work(self._bits()) if 0.0 < rate < 1.0 else 0.0

    def _profile_work(self) -> float:
        return bernoulli_work(self._bits())

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = bernoulli_log_profile(self.epsilon, self._bits(), epsilons)
        return both, both

    def _profile_knots(self) -> Sequence[float]:
        m = self._bits()
        return [self.epsilon * (m - 2 * i) for i in range(m // 2 + 1)]

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        if self._bits() > PROFILE_BITS:
            return super()._subsampled_curve(rate, orders)
        return np.minimum(sampled_bits_curve(self.epsilon, self._bits(), rate, orders), self._curve(orders))


class PureLike(BernoulliLike):
    """Events of which nothing but their pure-DP parameter is known: one bit."""

    def _line(self) -> GroupLine:
        return GroupLine("geometric", 1, self.epsilon)


@register("randomized-response")
@dataclass(frozen=True)
class RandomizedResponse(BernoulliLike):
    """Randomized response: every bit is told truly with probability ``exp(epsilon)/(1 + exp(epsilon))``.

    Rényi curve: `bits` times the divergence of that Bernoulli distribution from its complement (Mironov 2017,
    Prop. 5); pure DP at ``bits * epsilon``; profile: the binomial sum over the bits that were flipped.

    Parameters
    ----------
    epsilon : float
        Pure-DP parameter of one bit, in nats; [0, 1e6].
    bits : int
        Bits that differ between neighbouring inputs; [1, 1e12], for the profile at most 1e5 (the tight route composes
        more of them). In `Shuffled` the inputs of any two users differ in at most so many: the reports of users whose
        inputs are farther apart hide less. Where every word of B bits is an input this is B, however few bits of it
        neighbours differ in.
    adjacency : Adjacency
    ones : int
        Most ones that an input has, for `Shuffled` only: two inputs of so many ones differ in at most twice as many
        bits, and a crowd hides a report better that is never far from one without ones; [bits/2, 1e12], or 0 where
        that is not known.
    length : int
        Bits of a whole report, at most, for `Shuffled` only; [bits, 1e12], or 0 where that is not known. A `length`
        above `bits` says that no two users' inputs differ in more than `bits` of these all the same.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    epsilon: EpsilonOfNoise
    bits: Annotated[int, Range(1, 1e12, usual=(1, 8))] = 1
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    ones: Annotated[int, Range(0, 1e12, usual=(0, 0))] = field(default=0, kw_only=True)
    length: Annotated[int, Range(0, 1e12, usual=(0, 0))] = field(default=0, kw_only=True)
    _coordinate_field: ClassVar[str | None] = "bits"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ones and 2 * self.ones < self.bits:
            least = -(-self.bits // 2)
            raise ParameterError(
                f"ones = {self.ones}, and inputs that differ in {self.bits} bits; accepted: at least {least}, or 0 "
                "where it is not known"
            )
        if self.length and self.length < self.bits:
            raise ParameterError(
                f"length = {self.length}, and inputs that differ in {self.bits} bits; accepted: at least {self.bits}, "
                "or 0 where it is not known"
            )

    def _standard_form(self) -> StandardForm:
        return StandardForm("pure", 1.0, inverse=False, copies=self.bits)

    def _with_coordinates(self, count: int) -> Event:
        return replace(self, bits=count, ones=0, length=0)

    @classmethod
    def examples(cls) -> tuple[RandomizedResponse, ...]:
        return (cls(1.0, bits=2),)

    def _bits(self) -> int:
        return self.bits

    def _group(self, size: int) -> Event:
        return RandomizedResponse(self.epsilon, size * self.bits, self.adjacency)


@register("pure-dp")
@dataclass(frozen=True)
class PureDP(PureLike):
    """Any epsilon-DP release: priced as randomized response, which dominates all of them.

    Kairouz, Oh & Viswanath 2015, Thm 3.4 (every epsilon-DP pair is a post-processing of randomized
    response); the curve is never above ``a * epsilon**2 / 2`` (Bun & Steinke 2016, Prop. 3.3).

    Parameters
    ----------
    epsilon : float
        Pure-DP parameter in nats; [0, 1e6].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        `epsilon` is not a number or out of range.
    """

    epsilon: EpsilonOfNoise
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _standard_form(self) -> StandardForm:
        return StandardForm("pure", 1.0, inverse=False)

    @classmethod
    def examples(cls) -> tuple[PureDP, ...]:
        return (cls(0.5),)

    def _bits(self) -> int:
        return 1


def bernoulli_summand(epsilon: float, bits: int) -> Summand:
    """Bits of randomized response at one epsilon (Kairouz, Oh & Viswanath 2015, Thm 3.4: the sum over flipped bits)."""

    def closed_form(size: float) -> ClosedForm | None:
        flipped = int(size)
        if flipped > PROFILE_BITS:
            return None
        source = f"binomial of {flipped} bits"
        work = bernoulli_work(flipped)
        return ClosedForm(lambda points: bernoulli_log_profile(epsilon, flipped, points), source, work=work)

    return Summand(("bits", epsilon), bits, closed_form)


def bit_lattice(epsilon: float) -> Lattice:
    """Losses of one bit: -epsilon and epsilon."""
    log_likely = -math.log1p(math.exp(-epsilon))
    return Lattice(np.array([log_likely - epsilon, log_likely]), 2 * epsilon)


def few_bits(epsilon: float, bits: int, rate: float) -> BothOutcomes | None:
    """All losses of so many bits, each Poisson-sampled at a rate in (0, 1], in both directions, where they are few."""
    if bits >= MOST_FEW or (rate < 1.0 and epsilon > LARGE):
        return None
    k = np.arange(bits + 1.0)
    if rate == 1.0:
        return (Outcomes((2 * k - bits) * epsilon, _log_masses(epsilon, bits, k)),) * 2
    up, down = log_mixture_ratio(rate, np.array([epsilon, -epsilon])).tolist()
    forward, backward = (_log_masses(epsilon, bits, k, each) for each in (rate, 0.0))
    losses = k * up + (bits - k) * down
    return Outcomes(losses, forward), Outcomes(-losses, backward)


@Kernel
def bernoulli_divergence(a: float, epsilon: float) -> float:
    """D_a of Bernoulli(e^eps/(1+e^eps)) from its complement, 1 <= a <= inf (Mironov 2017, Prop. 5)."""
    if a == math.inf or epsilon == 0.0:
        return epsilon
    b = a - 1.0
    log_likely = -math.log1p(math.exp(-epsilon))
    log_other = log_likely - epsilon
    forward = log_mean_term(b, log_likely, log_other, epsilon)
    log_mean = logaddexp(forward, log_mean_term(b, log_other, log_likely, -epsilon))
    return min(divergence_from_log_mean(b, log_mean), epsilon)


@Kernel
def bernoulli_curves(rows: FloatArray, orders: FloatArray, curves: FloatArray) -> None:
    """Fill `curves`, one row for every (epsilon, bits)."""
    for i in range(rows.shape[0]):
        for j in range(orders.size):
            curves[i, j] = rows[i, 1] * bernoulli_divergence(orders[j], rows[i, 0])


def _log_masses(epsilon: float, bits: int, k: FloatArray, rate: float = 1.0) -> FloatArray:
    """Log-probability that k of the bits are told truly, each if it is sampled; else it is a false one.

    Loader's expansion (2000) about the mean. Far from it the logarithm moves by thousands of times the mean's own
    rounding: both means are taken to 40 digits, and what a float of them lacks is added to first order.
    """
    log_mass = np.empty_like(k)
    with localcontext() as context:
        context.prec = 40
        odds, share = Decimal(min(epsilon, LARGE)).exp(), Decimal(rate)
        means = [bits * (part * odds + 1 - part) / (1 + odds) for part in (share, 1 - share)]
        lacking = [float(mean - Decimal(float(mean))) for mean in means]
    fill_log_masses(float(bits), k, np.array([float(mean) for mean in means]), np.array(lacking), log_mass)
    if epsilon > LARGE:
        log_mass -= (bits - k) * (epsilon - LARGE)
    return log_mass


LARGE = 600.0
"""An epsilon beyond which a true bit has probability 1, and any number of false ones e^-epsilon for each."""


@Kernel
def fill_log_masses(n: float, k: FloatArray, means: FloatArray, lacking: FloatArray, result: FloatArray) -> None:
    """Fill `result` with log( C(n,k) p^k q^(n-k) ), p + q = 1; `means` are n p and n q but for what is `lacking`."""
    for i in range(k.size):
        x = k[i]
        y = n - x
        if x == 0.0 or y == 0.0:
            result[i] = -n * math.log1p(means[0] / means[1] if x == 0.0 else means[1] / means[0])
            continue
        spread = 0.5 * (math.log(n / y) - math.log(2.0 * math.pi * x))
        error = stirling_error(n) - stirling_error(x) - stirling_error(y)
        moved = lacking[0] * (x / means[0] - 1.0) + lacking[1] * (y / means[1] - 1.0)
        result[i] = spread + error - deviance(x, means[0]) - deviance(y, means[1]) + moved


def sampled_bits_curve(epsilon: float, bits: int, rate: float, orders: FloatArray) -> FloatArray:
    """The Rényi curve of Poisson-sampled bits: what the integral over the profile would give, as a sum."""
    k = np.arange(bits + 1, dtype=float)
    log_q = _log_masses(epsilon, bits, bits - k)
    log_p = log_mixture(rate, log_q, log_q[::-1])
    curve = np.empty_like(orders)
    finite_curve(orders, log_q, log_p, log_mixture_ratio(rate, (2 * k - bits) * epsilon), curve)
    return curve


def sampled_bits_work(bits: int) -> float:
    """Operations that an order of a sampled curve takes, by that sum or by a generic bound."""
    return 200.0 * bits if bits <= PROFILE_BITS else SAMPLED_ORDER


def bernoulli_log_profile(epsilon: float, bits: int, points: FloatArray) -> FloatArray:
    """Log of sum_k C(m,k) p^k q^(m-k) (1 - e^{e - (2k-m) eps})_+ at e >= 0, p = e^eps/(1+e^eps), q = 1-p."""
    if bits > PROFILE_BITS:
        raise ProfileUnavailable(
            f"randomized response with bits = {bits} has no computed profile; accepted: [1, {PROFILE_BITS}], or its "
            "curve, renyi(orders)"
        )
    k = np.arange(bits // 2, bits + 1, dtype=float)
    log_mass = _log_masses(epsilon, bits, k) if bits > QUICK_BITS else upper_masses(epsilon, bits)
    loss = (2 * k - bits) * epsilon
    with np.errstate(divide="ignore"):
        chunks = np.array_split(points, math.ceil(points.size * k.size / 1e6)) if points.size else [points]
        gains = (np.log(-np.expm1(np.minimum(part[:, None] - loss, 0.0))) for part in chunks)
        return np.concatenate([_log_sums(log_mass + gain) for gain in gains])


@lru_cache(maxsize=2048)
def upper_masses(epsilon: float, bits: int) -> FloatArray:
    """Log-probabilities that at least half of few bits are told truly: a curve asks for them at every order."""
    return _log_masses(epsilon, bits, np.arange(bits // 2, bits + 1, dtype=float))


def log_one_report(epsilon: float, bits: int, point: float) -> float:
    """Log of that profile at one point, no less: next to a loss, which is rounded, rounding is much of it."""
    return float(bernoulli_log_profile(epsilon, bits, np.array([BELOW * point]))[0]) + ROUNDED


def bernoulli_work(bits: int) -> float:
    """Operations that a value of that profile takes."""
    return 1000.0 + 15.0 * bits


def _log_sums(logs: FloatArray) -> FloatArray:
    """Log of the sum of exponentials, by rows: adding logarithms one by one would round at every step."""
    top = np.max(logs, axis=1)
    top = np.where(top > -math.inf, top, 0.0)
    sums: FloatArray = np.log(np.sum(np.exp(logs - top[:, None]), axis=1))
    return np.asarray(top + sums)
