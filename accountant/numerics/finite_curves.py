"""Rényi divergences of two distributions on finitely many outcomes."""

from __future__ import annotations

import math

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import divergence_from_log_mean, log_mean_term, logaddexp

__all__ = ["finite_curve"]


@Kernel
def finite_curve(
    orders: FloatArray, log_q: FloatArray, log_p: FloatArray, ratio: FloatArray, curve: FloatArray
) -> None:
    """Fill `curve` with the larger of D_a(P||Q) and D_a(Q||P) at finite orders, from log Q, log P and log P/Q."""
    for i in range(orders.size):
        b = orders[i] - 1.0
        forward = -math.inf
        backward = -math.inf
        for j in range(log_q.size):
            forward = logaddexp(forward, log_mean_term(b, log_p[j], log_q[j], ratio[j]))
            backward = logaddexp(backward, log_mean_term(b, log_q[j], log_p[j], -ratio[j]))
        curve[i] = divergence_from_log_mean(b, max(forward, backward))
