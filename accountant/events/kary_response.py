"""Randomized response with more than two answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import Lattice
from accountant.events.event import Event
from accountant.events.few_losses import BothOutcomes, few_of_lattice
from accountant.events.finite_pairs import FinitePair
from accountant.events.parameters import EpsilonOfNoise, Range
from accountant.events.randomized_response import few_bits
from accountant.events.registry import register
from accountant.numerics.kernel import FloatArray

__all__ = ["KaryRandomizedResponse"]


@register("kary-randomized-response")
@dataclass(frozen=True)
class KaryRandomizedResponse(Event):
    """k-ary randomized response: the true one of k answers with e^epsilon times the probability of any other.

    (Kairouz, Bonawitz & Ramage 2016.) Two inputs have the losses epsilon, -epsilon and, for the k - 2 answers that are
    wrong for both, 0: with p the probability of the truth and q that of any other answer, the curve is
    ``log(p^a q^(1-a) + q^a p^(1-a) + (k-2) q)/(a-1)``, the profile ``q (e^epsilon - e^e)_+``. Under add-remove
    adjacency the other input is any fixed answer, and Poisson sampling amplifies.

    Parameters
    ----------
    epsilon : float
        Pure-DP parameter in nats; [0, 1e6].
    categories : int
        Number of answers k; [2, 1e12].
    adjacency : Adjacency
        By default replace: a record's answer changes.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    epsilon: EpsilonOfNoise
    categories: Annotated[int, Range(2, 1e12, usual=(2, 100))]
    adjacency: Adjacency = Adjacency.REPLACE

    @classmethod
    def examples(cls) -> tuple[KaryRandomizedResponse, ...]:
        return (cls(1.0, 5),)

    def _largest_loss(self) -> Fraction:
        return Fraction(self.epsilon)

    def _pair(self) -> FinitePair:
        log_truth = -math.log1p((self.categories - 1) * math.exp(-self.epsilon))
        log_other = log_truth - self.epsilon
        log_p, log_q, losses = [log_truth, log_other], [log_other, log_truth], [self.epsilon, -self.epsilon]
        if self.categories > 2:
            for logs in (log_p, log_q):
                logs.append(log_other + math.log(self.categories - 2))
            losses.append(0.0)
        return FinitePair(np.array(log_p), np.array(log_q), np.array(losses))

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._pair().curve(orders)

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        return np.minimum(self._pair().sampled(rate).curve(orders), self._curve(orders))

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = self._pair().log_profile(epsilons)[0]
        return both, both

    def _few_losses(self, times: int, rate: float = 1.0) -> BothOutcomes | None:
        if self.categories == 2:
            return few_bits(self.epsilon, times, rate)
        return few_of_lattice(Lattice(self._pair().log_p[[1, 2, 0]], self.epsilon), times, rate)

    def _profile_knots(self) -> Sequence[float]:
        return (self.epsilon,)
