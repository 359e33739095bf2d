"""Differences of Mills' ratio, of which profiles of Gaussian noise are made."""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import gauss_legendre
from accountant.numerics.scipy_special import log_ndtr
from accountant.numerics.special import mills_ratio

__all__ = ["INTEGRATED", "log_mills_gap"]

INTEGRATED = 0.5
"""Distance up to which a difference of Mills' ratio is integrated, which takes longer."""


def log_mills_gap(mu: float, x: FloatArray, losses: FloatArray) -> FloatArray:
    """log of phi(x) (R(x) - R(x - mu)), with R = Phi/phi the Mills ratio and `losses` = mu (mu/2 - x).

    The difference is integrated from R'(z) = 1 + z R(z) where it would cancel. phi(x) R(x - mu) is e^losses times
    Phi(x - mu), which far out in the tail is taken from R: both logarithms may be huge.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_density = -x * x / 2 - 0.5 * math.log(2 * math.pi)
        # beyond 1e150 standard deviations the square overflows to -inf, and so does the logarithm sought
        if mu > INTEGRATED:
            inside = np.clip(x, -1e8, 30.0)
            gap: FloatArray = log_density + np.log(mills_ratio(inside) - mills_ratio(inside - mu))
            right = x > 5.0
            if right.any():
                z, density, loss = x[right], log_density[right], losses[right]
                tail = np.where(z < mu - 5.0, density + np.log(mills_ratio(z - mu)), loss + log_ndtr(z - mu))
                gap[right] = log_ndtr(z) + np.log1p(-np.exp(np.minimum(tail - log_ndtr(z), 0.0)))
            return gap
        nodes, weights = gauss_legendre(16)
        z = np.maximum(x[:, None], -1e150) - mu * nodes
        return log_density + np.log(_mills_slope(z) @ weights * mu)


def _mills_slope(z: FloatArray) -> FloatArray:
    """1 + z R(z), the derivative of the Mills ratio; far to the left by its asymptotic series."""
    slope: FloatArray = 1 + z * mills_ratio(np.maximum(z, -20.0))
    left = z < -20.0
    if left.any():
        far = 1.0 / (z[left] * z[left])  # a power takes a hundred times as long
        series = np.ones_like(far)
        for odd in range(17, 1, -2):  # 1 - odd far series; the term left out is 3e-15 of the sum at 20
            series *= far
            series *= -odd
            series += 1.0
        slope[left] = far * series
    return slope
