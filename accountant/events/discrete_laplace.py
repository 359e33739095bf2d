"""Discrete Laplace noise on counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Self

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ProfileUnavailable
from accountant.events.answers import AdditiveNoise, GroupLine, Lattice, Summand
from accountant.events.event import BatchedEvent, Event
from accountant.events.few_losses import MOST_FEW, BothOutcomes, few_of_lattice
from accountant.events.generic_subsampling import generic_subsampled_curve
from accountant.events.parameters import NoiseScale, Range
from accountant.events.randomized_response import (
    FEW_BITS,
    PROFILE_BITS,
    QUICK_BITS,
    bernoulli_log_profile,
    bernoulli_summand,
    bernoulli_work,
    bit_lattice,
    few_bits,
    sampled_bits_curve,
    sampled_bits_work,
)
from accountant.events.registry import register
from accountant.numerics.finite_curves import finite_curve
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import log_mixture, log_mixture_ratio

__all__ = ["DiscreteLaplace"]


MOST_LOSSES = 2**16
"""Sensitivity up to which all losses of a coordinate are held."""


@register("discrete-laplace")
@dataclass(frozen=True)
class DiscreteLaplace(BatchedEvent):
    """Discrete Laplace mechanism: `coordinates` integers that each move by `sensitivity`, plus integer noise on each.

    Noise x has probability ``tanh(1/(2b)) exp(-|x|/b)`` (Ghosh, Roughgarden & Sundararajan 2012), b = `scale`. With
    ``t = 1/b`` and a shift of s the privacy loss is ``(s - 2i) t``, i = 0, ..., s, and the Rényi curve of a coordinate
    ``1/(a-1) * log( w exp((a-1) s t) + (1-w) exp(-a s t) )``, ``w = sinh(a t) / (2 cosh(t/2) sinh((2a-1) t/2))``:
    two geometric sums. For s = 1 it is that of randomized response at epsilon = t: above continuous Laplace noise's.
    Pure DP at ``coordinates * s * t``. The profile is exact for one coordinate, and for up to 1e5 of sensitivity 1; the
    tight route prices samples of more, up to a sensitivity of 65536.

    Parameters
    ----------
    scale : float
        Scale b of the noise (its variance is ``1/(2 sinh(1/(2b))**2)``, below 2 b**2); [1e-50, 1e50].
    sensitivity : int
        How far each integer moves between neighbouring inputs; [1, 1e12].
    coordinates : int
        How many integers move; [1, 1e12].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    scale: NoiseScale
    sensitivity: Annotated[int, Range(1, 1e12, usual=(1, 5))] = 1
    coordinates: Annotated[int, Range(1, 1e12)] = 1
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    _coordinate_field: ClassVar[str | None] = "coordinates"

    @classmethod
    def examples(cls) -> tuple[DiscreteLaplace, ...]:
        return (cls(2.0, sensitivity=3),)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("laplace", self.scale, discrete=True)

    def _group(self, size: int) -> Event:
        return DiscreteLaplace(self.scale, size * self.sensitivity, self.coordinates, self.adjacency)

    def _line(self) -> GroupLine | None:
        return GroupLine("geometric", self.sensitivity, self._rate()) if self.coordinates == 1 else None

    def _summand(self) -> Summand | None:
        # moved by 1 it has the losses of randomized response at 1/b
        return bernoulli_summand(self._rate(), self.coordinates) if self.sensitivity == 1 else None

    @property
    def _block(self) -> int:
        return QUICK_BITS if self.sensitivity == 1 else 1

    def _lattice(self, added: float, sign: int) -> Lattice | None:
        s, t = self.sensitivity, self._rate()
        if s == 1:
            return bit_lattice(t) if self.coordinates > FEW_BITS else None
        return None if self.coordinates == 1 or s > MOST_LOSSES else self._losses()

    def _losses(self) -> Lattice:
        """Those of one coordinate."""
        s, t = self.sensitivity, self._rate()
        logs = -np.arange(s, -0.5, -1.0) * t - math.log1p(math.exp(-t))
        logs[1:-1] += math.log(-math.expm1(-t))
        return Lattice(logs, 2 * t)

    def _few_losses(self, times: int, rate: float = 1.0) -> BothOutcomes | None:
        if rate < 1.0 and self.coordinates > 1:
            return None
        if self.sensitivity == 1:
            return few_bits(self._rate(), times * self.coordinates, rate)
        fits = self.sensitivity * self.coordinates < MOST_FEW
        return few_of_lattice(self._losses(), times * self.coordinates, rate) if fits else None

    @property
    def _chords(self) -> bool:  # type: ignore[override]
        return self.sensitivity * self.coordinates > PROFILE_BITS or (self.sensitivity > 1 and self.coordinates > 1)

    @property
    def _summed(self) -> bool:  # type: ignore[override]
        most = PROFILE_BITS if self.sensitivity == 1 else 1
        return self.coordinates > most and self.sensitivity <= MOST_LOSSES

    def _largest_loss(self) -> Fraction:
        return self.coordinates * self.sensitivity / Fraction(self.scale)

    def _rate(self) -> float:
        """By how much the log-probability of noise falls with every integer."""
        return 1.0 / self.scale

    @classmethod
    def _gathered(cls, events: Sequence[Self]) -> FloatArray:
        return np.array([(event._rate(), float(event.sensitivity), float(event.coordinates)) for event in events])

    @classmethod
    def _curves(cls, gathered: FloatArray, orders: FloatArray) -> FloatArray:
        curves = np.empty((len(gathered), orders.size))
        discrete_laplace_curves(gathered, orders, curves)
        return curves

    def _curve_work(self, rate: float = 1.0) -> float:
        return sampled_bits_work(self.sensitivity * self.coordinates) if 0.0 < rate < 1.0 else 0.0

    def _profile_work(self) -> float:
        return super()._profile_work() if self.coordinates == 1 else bernoulli_work(self.coordinates)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.coordinates == 1:
            both = discrete_laplace_log_profile(self._rate(), self.sensitivity, epsilons)
        elif self.sensitivity == 1 and self.coordinates <= PROFILE_BITS:
            both = bernoulli_log_profile(self._rate(), self.coordinates, epsilons)
        else:
            raise ProfileUnavailable(
                f"DiscreteLaplace with coordinates = {self.coordinates} of sensitivity {self.sensitivity} has no "
                f"computed profile; accepted: 1, up to {PROFILE_BITS} of sensitivity 1, or its curve, renyi(orders)"
            )
        return both, both

    def _profile_knots(self) -> Sequence[float]:
        # where there are more, all but the ends have next to no mass
        last = self.sensitivity * self.coordinates
        return [self._rate() * (last - 2 * i) for i in range(min(last // 2 + 1, PROFILE_BITS))]

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        own, t, s = self._curve(orders), self._rate(), self.sensitivity
        if self._chords:
            return generic_subsampled_curve(self, rate, orders)
        if s == 1:
            return np.minimum(sampled_bits_curve(t, self.coordinates, rate, orders), own)
        i = np.arange(s + 1.0)
        log_p = -i * t - math.log1p(math.exp(-t))
        log_p[1:-1] += math.log(-math.expm1(-t))
        curve = np.empty_like(orders)
        log_q = log_p[::-1].copy()
        ratio = log_mixture_ratio(rate, (s - 2 * i) * t)
        finite_curve(orders, log_q, log_mixture(rate, log_q, log_p), ratio, curve)
        return np.minimum(curve, own)


@Kernel
def sum_divergence(a: float, t: float, s: float) -> float:
    """D_a of discrete Laplace noise from the same moved by s, 1 <= a <= inf, without cancellation.

    exp(b D) = w e^{bT} + (1-w) e^{-aT},  T = s t,  b = a - 1; w and 1-w are sinh(at) and sinh(bt) over their sum.
    """
    b = a - 1.0
    end = s * t
    if a == math.inf:
        return end
    # at most 1, and e^-2at > 0 only where nothing overflows
    whole = (1.0 + math.exp(-t)) * -math.expm1(-(a + b) * t)
    if b * end > 1.0:
        w = -math.expm1(-2.0 * a * t) / whole
        return min(end + math.log(w + (1.0 - w) * math.exp(-(a + b) * end)) / b, end)
    if a * end < 1.0:
        mean = small_mean(a, t, end)
    else:
        w = -math.expm1(-2.0 * a * t) / whole
        other = math.exp(-t) * (-math.expm1(-2.0 * b * t) / b if b > 0.0 else 2.0 * t) / whole
        mean = w * (math.expm1(b * end) / b if b > 0.0 else end) + other * math.expm1(-a * end)
    return min(math.log1p(b * mean) / b, end) if b > 0.0 else mean


@Kernel
def small_mean(a: float, t: float, end: float) -> float:
    """(exp(b D) - 1)/b for a T < 1, T = `end`, as a sum of positive terms: with S(x) = sinh(x)/x and E(x) = expm1(x)/x,

    a T / (cosh(t/2) S((a+b)t/2)) * ( t^2 [S(at) - S(bt)]/((at)^2 - (bt)^2) E(bT) + S(bt) T [E(bT) - E(-aT)]/((a+b)T) ).
    """
    b = a - 1.0
    x, y = b * end, -a * end
    u, v = (a * t) ** 2, (b * t) ** 2
    h, powers, odd = 1.0, 1.0, 6.0  # of (u^n - v^n)/(u - v), v^(n-1), (2n+1)!
    c, shifts, factorial = 1.0, 1.0, 2.0  # of (x^n - y^n)/(x - y), y^(n-1), (n+1)!
    steep, rise = 1.0 / 6.0, 0.5
    for n in range(2, 20):
        powers *= v
        h = u * h + powers
        odd *= 2.0 * n * (2.0 * n + 1.0)
        steep += h / odd
        shifts *= y
        c = x * c + shifts
        factorial *= n + 1.0
        rise += c / factorial
    growth = math.expm1(x) / x if x > 0.0 else 1.0
    sinc = math.sinh(b * t) / (b * t) if b * t > 0.0 else 1.0
    middle = (a + b) * t / 2.0
    return a * end * middle / (math.cosh(t / 2.0) * math.sinh(middle)) * (t * t * steep * growth + sinc * end * rise)


@Kernel
def discrete_laplace_curves(rows: FloatArray, orders: FloatArray, curves: FloatArray) -> None:
    """Fill `curves`, one row for every (t, sensitivity, coordinates)."""
    for i in range(rows.shape[0]):
        for j in range(orders.size):
            curves[i, j] = rows[i, 2] * sum_divergence(orders[j], rows[i, 0], rows[i, 1])


def discrete_laplace_log_profile(t: float, s: int, epsilons: FloatArray) -> FloatArray:
    """Log of the profile of one coordinate at epsilons >= 0.

    Noise up to j has a loss above e, where d = (s - 2j) t - e is in (0, 2t]. With r = e^-t, its probability
    1 - r^(j+1)/(1+r) less e^e times that of noise up to j - s, r^(s-j)/(1+r), is
    (1 - e^(-jt-d) + r (1 - e^(-jt)))/(1+r).
    """
    with np.errstate(divide="ignore", over="ignore"):
        left = np.maximum(s - epsilons / t, 0.0)  # 0 gives a probability of 0
        j = np.maximum(np.ceil(left / 2) - 1, 0.0)
        below = -np.expm1(-j * t - (left - 2 * j) * t) - math.exp(-t) * np.expm1(-j * t)
        masses: FloatArray = np.log(below) - math.log1p(math.exp(-t))
        return masses
