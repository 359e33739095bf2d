"""Pairs of distributions on finitely many outcomes: curve and profile as sums of non-negative terms."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.numerics.finite_curves import finite_curve
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_mixture, log_mixture_ratio

__all__ = ["FinitePair"]


class FinitePair(NamedTuple):
    """P and Q, by the logarithms of their probabilities and the losses log P/Q, all finite.

    The losses are given too: they are what logarithms of probabilities that are all but equal would cancel to.
    """

    log_p: FloatArray
    log_q: FloatArray
    losses: FloatArray

    def curve(self, orders: FloatArray) -> FloatArray:
        """The larger of D_a(P||Q) and D_a(Q||P)."""
        end = float(np.max(np.abs(self.losses)))
        values = np.full_like(orders, end)
        finite = np.isfinite(orders)
        found = np.empty(int(finite.sum()))
        finite_curve(orders[finite], self.log_q, self.log_p, self.losses, found)
        values[finite] = np.minimum(found, end)
        return values

    def log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logs of sum (P - e^e Q)_+ and of sum (Q - e^e P)_+ at epsilons >= 0."""
        remove = self._log_sums(self.log_p, self.losses, epsilons)
        return remove, self._log_sums(self.log_q, -self.losses, epsilons)

    def sampled(self, rate: float) -> FinitePair:
        """(1-g) Q + g P against Q."""
        log_p = log_mixture(rate, self.log_q, self.log_p)
        return FinitePair(log_p, self.log_q, log_mixture_ratio(rate, self.losses))

    @staticmethod
    def _log_sums(log_masses: FloatArray, losses: FloatArray, epsilons: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", under="ignore"):
            gains = np.log(-np.expm1(np.minimum(epsilons[:, None] - losses, 0.0)))
            sums: FloatArray = np.logaddexp.reduce(log_masses + gains, axis=1, initial=-math.inf)
            return np.minimum(sums, 0.0)
