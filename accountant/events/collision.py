"""The Collision mechanism of the local model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import integer
from accountant.events.event import Event
from accountant.events.parameters import Range
from accountant.events.registry import register
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import divergence_from_log_mean, log_mean_excess, logaddexp

__all__ = ["Collision"]

PATTERN = 100.0
"""Operations (see `accountant.patience`) of a way in which two inputs hit the buckets, at an order."""


@register("collision")
@dataclass(frozen=True)
class Collision(Event):
    """Collision mechanism: one of `buckets` public hash buckets, those hit by the input being likelier.

    With ``Omega = c exp(eps) + l - c`` a bucket hit by the input has probability ``exp(eps)/Omega``, any
    other ``(Omega - exp(eps) m)/((l-m) Omega)``, m the number of distinct buckets hit (Wang et al. 2022,
    Def. 5, after Wang et al. 2021). The curve is the maximum over all feasible ways in which two inputs hit
    the buckets: m1, m2 of them, o in common. Inputs that hit c buckets each, as few in common as can be, dominate all
    others: the profile is ``min(c, l - c) (exp(eps) - exp(e))/Omega`` (proof: notebooks/mathematics.md,
    Collision). Local model: adjacency is REPLACE.

    Parameters
    ----------
    epsilon : float
        Pure-DP parameter in nats; [0, 500].
    nonzeros : int
        Non-zero entries c of an input; [1, 256].
    buckets : int
        Number l of buckets; [nonzeros + 1, 1e15].

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    epsilon: Annotated[float, Range(0.0, 500.0, noise=True, usual=(1e-6, 20.0))]
    nonzeros: Annotated[int, Range(1, 256, usual=(1, 4))]
    buckets: Annotated[int, Range(2, 1e15, usual=(2, 44))]
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)

    @classmethod
    def examples(cls) -> tuple[Collision, ...]:
        return (cls(1.0, 2, 8),)

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("buckets", self.buckets, self.nonzeros + 1, 10**15)

    def _curve_work(self, rate: float = 1.0) -> float:
        return super()._curve_work(rate) + PATTERN * 2 * self.nonzeros**2

    def _largest_loss(self) -> Fraction:
        return Fraction(self.epsilon)  # of a bucket hit by the first input only, where the second hits c of them

    def _curve(self, orders: FloatArray) -> FloatArray:
        curve = np.zeros_like(orders)
        if self.epsilon > 0.0:
            counts, log_q, log_ratio = _patterns(self.epsilon, self.nonzeros, self.buckets)
            worst_pattern_curve(orders, counts, log_q, log_ratio, curve)
        return curve

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        c, l = self.nonzeros, self.buckets  # noqa: E741
        log_hit = -math.log(c + (l - c) * math.exp(-self.epsilon))  # e^eps / Omega
        with np.errstate(divide="ignore"):
            lost = np.log(-np.expm1(np.minimum(epsilons - self.epsilon, 0.0)))
        both = np.minimum(math.log(min(c, l - c)) + log_hit + lost, 0.0)
        return both, both


@lru_cache(maxsize=16)
def _patterns(epsilon: float, c: int, l: int) -> tuple[FloatArray, FloatArray, FloatArray]:  # noqa: E741
    """Per feasible (m1, m2, o): how many buckets only the first input hits, only the second, neither;
    and for each kind the log-probability under the second input and the log-ratio of first to second.

    Buckets hit by both have ratio 1 and add nothing. All sums are linear in o, so only its two ends are kept.
    """
    m1, m2 = (m.ravel().astype(float) for m in np.meshgrid(np.arange(1, c + 1), np.arange(1, c + 1)))
    m1, m2 = np.concatenate([m1, m1]), np.concatenate([m2, m2])
    half = m1.size // 2
    o = np.minimum(m1, m2)
    o[half:] = np.maximum(0.0, m1 + m2 - l)[half:]
    growth = math.expm1(epsilon)
    log_hit = -math.log(c + (l - c) * math.exp(-epsilon))  # e^eps / Omega

    def excess(m: FloatArray) -> FloatArray:
        """Omega times the probability of an unhit bucket is 1 + excess."""
        return (c - m) / (l - m) * growth

    log_unhit = [log_hit - epsilon + np.log1p(excess(m)) for m in (m1, m2)]
    # hit/unhit - 1 = (l-c)(e^eps - 1)/((c-m) e^eps + l - c), exactly
    hit_over_unhit = [np.log1p((l - c) / (l - m) * growth / (1 + excess(m))) for m in (m1, m2)]
    gap = (m2 - m1) * (l - c) / (l - m1) / (l - m2) * growth / (1 + excess(m2))
    counts = np.stack([m1 - o, m2 - o, l - (m1 + m2 - o)], axis=1)
    log_q = np.stack([log_unhit[1], np.full_like(m1, log_hit), log_unhit[1]], axis=1)
    # gap can round to -1 only where the unhit probabilities are many orders apart: then subtract logs
    with np.errstate(divide="ignore"):
        neither = np.where(gap > -0.5, np.log1p(np.maximum(gap, -0.5)), log_unhit[0] - log_unhit[1])
    log_ratio = np.stack([hit_over_unhit[1], -hit_over_unhit[0], neither], axis=1)
    return counts, log_q, log_ratio


@Kernel
def worst_pattern_curve(
    orders: FloatArray, counts: FloatArray, log_q: FloatArray, log_ratio: FloatArray, curve: FloatArray
) -> None:
    """Fill `curve` with the largest divergence over the patterns, at orders in [1, inf]."""
    for i in range(orders.size):
        a = orders[i]
        worst = -math.inf
        for j in range(counts.shape[0]):
            total = -math.inf
            for kind in range(3):
                if counts[j, kind] > 0.0:
                    if a == math.inf:
                        total = max(total, log_ratio[j, kind], 0.0)
                    else:
                        term = log_mean_excess(a - 1.0, log_ratio[j, kind])
                        total = logaddexp(total, math.log(counts[j, kind]) + log_q[j, kind] + term)
            worst = max(worst, total)
        curve[i] = worst if a == math.inf else divergence_from_log_mean(a - 1.0, worst)
