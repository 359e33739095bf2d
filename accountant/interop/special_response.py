"""Randomized response where a record is exchanged for a special one, of which nothing is reported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.event import Event
from accountant.events.finite_pairs import FinitePair
from accountant.events.parameters import Range
from accountant.numerics.kernel import FloatArray

__all__ = ["ResponseOrNoise"]


@dataclass(frozen=True)
class ResponseOrNoise(Event):
    """An answer of k-ary randomized response, or, without the record, any answer with equal chance.

    With probability `noise` an answer is drawn from all k, otherwise it is the truth. Its distribution is
    ``1 - noise + noise/k`` at the truth and ``noise/k`` elsewhere, against 1/k everywhere: losses
    ``log(k (1 - noise) + noise)`` and ``log noise``.

    Parameters
    ----------
    noise : float
        [1e-300, 1].
    buckets : int
        Number of answers k; [2, 1e12].
    adjacency : Adjacency
        Add-remove: the record is there or not.
    """

    noise: Annotated[float, Range(1e-300, 1.0)]
    buckets: Annotated[int, Range(2, 1e12)]
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def _pair(self) -> FinitePair:
        k = float(self.buckets)
        log_q = np.array([-math.log(k), math.log1p(-1 / k)])
        # k (1 - noise) + noise = 1 + (k - 1) (1 - noise)
        losses = np.array([math.log1p((k - 1) * (1 - self.noise)), math.log(self.noise)])
        return FinitePair(log_q + losses, log_q, losses)

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self._pair().curve(orders)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._pair().log_profile(epsilons)

    def _profile_knots(self) -> Sequence[float]:
        return sorted({abs(float(loss)) for loss in self._pair().losses} - {0.0})
