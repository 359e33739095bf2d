"""Counts of the multi-message shuffle model: how many anonymous messages say +1 and how many -1, priced exactly.

What a shuffler shows of a count t is ``U = t + Z1 + Z3`` and ``V = Z2 + Z3`` (Ghazi et al. 2020): Z1, Z2 geometric,
``P(z+1) = p P(z)``, ``p = e^(-1/b)``, whose difference is discrete Laplace noise of scale b; Z3, the flood, negative
binomial, ``P3(z) = C(z+r-1, z) (1-x)^r x^z``, pairs of a +1 and a -1 that cancel.

Law of one count. With ``a = U - t`` and ``S(m) = sum_{z<=m} p^(-2z) P3(z)`` the sum over Z3 gives

    P_t(U, V) = (1-p)^2 p^(a+V) S(min(a, V)),

and of t + 1 the same with a - 1. So ``log P_t/P_(t+1)`` depends on less than (U, V):

* V < a: it is -1/b; probability p/(1+p) of t, 1/(1+p) of t + 1.
* V >= a, or Z1 <= Z2: there a = W = min(Z1, Z2) + Z3, and min(Z1, Z2) is geometric of ratio p^2 whichever of the two is
  the larger. With f the distribution of W, t has probability f(a)/(1+p), t + 1 has p f(a-1)/(1+p). The loss is
  ``1/b + log f(a)/f(a-1)``, which at a = 0 is infinite: without a single +1 the count was 0 for certain.

That is randomized response at 1/b that where it tells more also tells W or W + 1. As ``f(a)/f(a-1) = p^2 S(a)/S(a-1)``,

    loss(a) = log1p(g_a) - 1/b,  g_a = p^(-2a) P3(a)/S(a-1),  g_1 = r x/p^2,  g_(a+1) = x/p^2 (a+r)/(a+1) g_a/(1+g_a).

A replaced record moves c counts up and c down: c of these pairs, and c with the roles exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, ProfileUnavailable
from accountant.events.answers import GivenFinite, Outcomes
from accountant.events.event import Event
from accountant.events.parameters import Range
from accountant.events.registry import register
from accountant.events.sticks import Sticks, both_sticks, connect
from accountant.numerics.finite_curves import finite_curve
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.patience import spend

__all__ = ["MovedCount", "ShuffledCounts"]

ATOMS = 2**23
"""Most values of W that are told apart."""

SPREAD = 256
"""Losses of the pair whose Rényi curve stands for a count's: so many by number, and as many by size."""

REMOTE = 40.0
"""Values of W beyond which its probability is below e^-REMOTE times that of 0 count as infinite losses."""

WORK, TERM = 600.0, 150.0
"""Operations for each value of W in what is computed of a count, and for each of those losses at an order."""

LEAST = -740.0
"""Log of the smallest probability that is told from 0."""


@register("shuffled-counts")
@dataclass(frozen=True)
class ShuffledCounts(Event):
    """Counts in shuffled +1 and -1 messages, with discrete Laplace noise and a flood of cancelling pairs.

    A replaced record moves `nonzeros` counts up by 1 and as many others down. Under each count lie the noise and the
    pairs of all users together, whoever contributes how much (see this module for its distribution). Two prices are
    exact:

    * `delta_infinite`, the probability that a loss is infinite. No epsilon takes it away, hence the Rényi curve is
      infinite at every order and only the tight route prices this event (``method="tight"`` or ``"auto"``).
    * given that no loss is infinite, the pair of distributions has finitely many losses but for a tail of W that is
      counted as infinite; it is below e^-40 times the probability above.

    With many pairs the price is that of `DiscreteLaplace` with ``2 * nonzeros`` coordinates, from above.

    Parameters
    ----------
    scale : float
        Scale b of the discrete Laplace noise on a count; [0.01, 1e6].
    shape : float
        Shape r of the negative binomial number of pairs for a count; [0, 1e7]; 0 is no flood.
    ratio : float
        Its ratio x; [1e-12, 1 - 1e-7]. The mean is ``r x/(1-x)``.
    nonzeros : int
        Counts that a replaced record moves up, and as many that it moves down; [1, 1e12]. The profile is computed for
        one; the tight route composes more.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range, or numbers of messages spread over more than 8e6 values.
    """

    scale: Annotated[float, Range(0.01, 1e6, noise=True)]
    shape: Annotated[float, Range(0.0, 1e7)]
    ratio: Annotated[float, Range(1e-12, 1 - 1e-7)]
    nonzeros: Annotated[int, Range(1, 1e12)] = 1
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        last = self._values()
        if last > ATOMS:
            sizes = f"scale = {self.scale:g}, shape = {self.shape:g}, ratio = {self.ratio:g}"
            raise ParameterError(f"{sizes} spread the messages of a count over {last:.3g} values; accepted: {ATOMS}")

    def _sizes(self) -> tuple[float, float, float]:
        return self.scale, self.shape, self.ratio

    def _values(self) -> int:
        """Values of W that are told apart."""
        return cut(*self._sizes())[0]

    def _one_count(self) -> OneCount:
        """What a count that rises tells; the work is counted."""
        sizes = self._sizes()
        spend(WORK * self._values(), "the distribution of a shuffled count", once=(ShuffledCounts, sizes))
        return one_count(*sizes)

    @classmethod
    def examples(cls) -> tuple[ShuffledCounts, ...]:
        return (cls(4.0, 30.0, 0.9),)

    @property
    def delta_infinite(self) -> float:
        """The probability of an infinite loss: that some rising count has no +1 but its own."""
        return float(-np.expm1(self.nonzeros * self._log_finite()))

    def _log_finite(self) -> float:
        """Log of the probability that the loss of a rising and of a falling count is finite."""
        pair = self._one_count()
        # where hardly anything is finite, that is what is summed: 1 less the rest would be rounded, or 0
        kept = math.log1p(-pair.lost) if pair.lost < 0.5 else log_sum(pair.log_p)
        return kept + math.log1p(-pair.lost_after)

    def _given_finite(self) -> GivenFinite:
        parts = MovedCount(*self._sizes(), rises=True), MovedCount(*self._sizes(), rises=False)
        return GivenFinite(parts, self.nonzeros, self._log_finite())

    def _curve(self, orders: FloatArray) -> FloatArray:
        return np.full_like(orders, math.inf)

    def _profile_work(self) -> float:
        return 50.0 * self._values()

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A falling count has loss -l where it has Q-mass q, hence sum_l q_l H(e + l), H of the rising count."""
        if self.nonzeros > 1:
            raise ProfileUnavailable(
                f"ShuffledCounts with nonzeros = {self.nonzeros} has no computed profile; accepted: 1, or its price"
            )
        rising = self._one_count()
        log_lost, both = math.log(-math.expm1(self._log_finite())), np.empty_like(epsilons)
        paired_sums(epsilons, rising.log_p - rising.losses, log_lost, *rising.forward, both)
        return both, both


@dataclass(frozen=True)
class MovedCount(Event):
    """One shuffled count that rises or falls by 1, given that its loss is finite: what `ShuffledCounts` is made of."""

    scale: float
    shape: float
    ratio: float
    rises: bool
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    def _pair(self) -> OneCount:
        return given_finite(self.scale, self.shape, self.ratio)

    def _curve_work(self, rate: float = 1.0) -> float:
        return TERM * 2 * SPREAD

    def _curve(self, orders: FloatArray) -> FloatArray:
        losses, log_p = spread(self.scale, self.shape, self.ratio)
        curve = np.full_like(orders, float(np.max(np.abs(losses))))
        finite, found = np.isfinite(orders), np.empty(int(np.isfinite(orders).sum()))
        finite_curve(orders[finite], log_p - losses, log_p, losses, found)
        curve[finite] = np.minimum(found, curve[finite])
        return curve

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        pair = self._pair()
        forward, backward = pair.forward.log_value(epsilons), pair.backward.log_value(epsilons)
        return (forward, backward) if self.rises else (backward, forward)

    def _outcomes(self) -> Outcomes:
        pair = self._pair()
        found = Outcomes(pair.losses, pair.log_p)
        return found if self.rises else found.reversed()

    def _profile_knots(self) -> Sequence[float]:
        # losses of less probability in either distribution are as good as continuous
        pair = self._pair()
        heavy = np.abs(pair.losses[pair.log_p + np.maximum(-pair.losses, 0.0) > math.log(1e-5)])
        return [float(loss) for loss in np.unique(heavy) if loss > 0]


class OneCount(NamedTuple):
    """Finite losses of a rising count, rising, with logs of their probabilities before it rises.

    `lost` is the probability of an infinite loss before it rises, `lost_after` that of an infinitely negative one after
    it; `forward` and `backward` are what the finite losses add to both directions' divergences.
    """

    losses: FloatArray
    log_p: FloatArray
    lost: float
    lost_after: float
    forward: Sticks
    backward: Sticks


def cut(scale: float, shape: float, ratio: float) -> tuple[int, float]:
    """The value from which on W counts as infinite, and a bound on the log of that probability.

    Chernoff: P(W >= n) <= E e^(s W) e^(-s n), both parts of W having known moments.
    """
    t = 1 / scale
    target = max(math.log(-math.expm1(-t)) + shape * math.log1p(-ratio) - REMOTE, LEAST)
    s = min(2 * t, -math.log(ratio)) * (1 - 2.0 ** -np.arange(0.125, 12, 0.125))
    # log (1 - e^-v) / (1 - e^(s-v)) for ratios e^-v
    log_moments = np.log(math.expm1(-2 * t) / np.expm1(s - 2 * t))
    log_moments += shape * np.log(-(1 - ratio) / np.expm1(s + math.log(ratio)))
    last = float(np.min((log_moments - target) / s))
    return max(math.ceil(min(last, 1e18)), 2), target


@Kernel
def growing_sums(t: float, shape: float, ratio: float, losses: FloatArray, log_f: FloatArray) -> None:
    """Fill the losses of W = 1, 2, ... and log f(W)/f(0), the latter with compensated sums."""
    growth = 0.0
    total = 0.0
    lacking = 0.0
    steep = math.exp(2.0 * t + math.log(ratio))
    for i in range(losses.size):
        growth = steep * (i + shape) / (i + 1.0) * (growth / (1.0 + growth) if i > 0 else 1.0)
        rise = math.log1p(growth)
        losses[i] = rise - t
        for term in (rise, -2.0 * t):
            following = total + term
            lacking += (total - following) + term if abs(total) >= abs(term) else (term - following) + total
            total = following
        log_f[i] = total + lacking


@Kernel
def paired_sums(
    epsilons: FloatArray,
    log_q: FloatArray,
    log_lost: float,
    losses: FloatArray,
    log_h: FloatArray,
    log_slope: FloatArray,
    result: FloatArray,
) -> None:
    """Fill the log of ``lost + sum_j q_j H(e + l_j)``, H of a `Sticks` with the same losses, for every epsilon e."""
    unit = 0.5 * log_lost  # values are between lost and 1
    for i in range(epsilons.size):
        total = math.exp(log_lost - unit)
        after = 0
        for j in range(losses.size):
            point = epsilons[i] + losses[j]
            while after < losses.size and losses[after] <= point:
                after += 1
            if after == losses.size:
                break
            left = losses[max(after - 1, 0)]
            total += math.exp(log_q[j] + log_h[after] - unit)
            part = math.exp(log_q[j] + log_slope[after] + point - left - unit)
            total += math.expm1(losses[after] - point) * part
        result[i] = min(math.log(total) + unit, 0.0)


@lru_cache(maxsize=8)
def one_count(scale: float, shape: float, ratio: float) -> OneCount:
    """The two distributions of a count that rises by 1."""
    t = 1 / scale
    last, log_tail = cut(scale, shape, ratio)
    losses, log_f = np.empty(last - 1), np.empty(last)
    log_f[0] = 0.0
    growing_sums(t, shape, ratio, losses, log_f[1:])
    log_f -= log_sum(log_f)
    log_low = math.log1p(math.exp(-t))
    lost, lost_after = (math.exp(log) for log in (np.logaddexp(log_f[0], log_tail) - log_low, log_tail))
    losses = np.append(-t, losses)
    log_p = np.append(-t, log_f[1:]) - log_low
    order = np.argsort(losses, kind="stable")
    losses, log_p = losses[order], log_p[order]
    return OneCount(losses, log_p, lost, lost_after, *both_sticks(losses, log_p))


@lru_cache(maxsize=8)
def given_finite(scale: float, shape: float, ratio: float) -> OneCount:
    """The same given that the loss is finite, in either distribution: sums are smaller by one factor."""
    pair = one_count(scale, shape, ratio)
    log_finite = log_sum(pair.log_p)
    log_p = pair.log_p - log_finite
    moved = log_sum(log_p - pair.losses) - log_sum(log_p)
    losses = pair.losses + moved
    forward = Sticks(losses, pair.forward.log_h - log_finite, pair.forward.log_slope - log_finite)
    log_after = log_finite + moved
    backward = Sticks(-losses[::-1], pair.backward.log_h - log_after, pair.backward.log_slope - log_after)
    return OneCount(losses, log_p, 0.0, 0.0, forward, backward)


@lru_cache(maxsize=8)
def spread(scale: float, shape: float, ratio: float) -> tuple[FloatArray, FloatArray]:
    """Losses and log-probabilities of a pair with few losses that dominates `given_finite`."""
    pair = given_finite(scale, shape, ratio)
    return connect(pair.losses, pair.log_p, SPREAD)


def log_sum(logs: FloatArray) -> float:
    """Log of the sum of exponentials."""
    top = float(np.max(logs))
    return top + math.log(float(np.sum(np.exp(logs - top)))) if top > -math.inf else top
