"""Differences of Mills' ratio, of which profiles of Gaussian noise are made."""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import gauss_legendre
from accountant.numerics.scipy_special import log_ndtr
from accountant.numerics.special import mills_ratio

__all__ = ["INTEGRATED", "log_mills_gap", "log_mills_gaps"]

INTEGRATED = 0.5
"""Distance up to which a difference of Mills' ratio is integrated, which takes longer."""


CELLS = 2**16
"""Values that are computed at once: where they are integrated each takes 16 numbers."""


def log_mills_gaps(mus: FloatArray, x: FloatArray, losses: FloatArray) -> FloatArray:
    """`log_mills_gap` for each mu, with a row of places and of losses each: few calls for many rows of few places."""
    found, rows = np.empty_like(x), max(CELLS // max(x.shape[1], 1), 1)
    for wide in (True, False):
        which = np.flatnonzero((mus > INTEGRATED) == wide)
        for first in range(0, which.size, rows):
            some = which[first : first + rows]
            sizes = np.repeat(mus[some], x.shape[1])
            own = (_gap if wide else _integrated_gap)(sizes, x[some].ravel(), losses[some].ravel())
            found[some] = own.reshape(some.size, -1)
    return found


def log_mills_gap(mu: float, x: FloatArray, losses: FloatArray) -> FloatArray:
    """log of phi(x) (R(x) - R(x - mu)), with R = Phi/phi the Mills ratio and `losses` = mu (mu/2 - x).

    The difference is integrated from R'(z) = 1 + z R(z) where it would cancel. phi(x) R(x - mu) is e^losses times
    Phi(x - mu), which far out in the tail is taken from R: both logarithms may be huge.
    """
    mus = np.full_like(x, mu)
    return _gap(mus, x, losses) if mu > INTEGRATED else _integrated_gap(mus, x, losses)


def _gap(mu: FloatArray, x: FloatArray, losses: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_density, inside = _log_density(x), np.clip(x, -1e8, 30.0)
        gap: FloatArray = log_density + np.log(mills_ratio(inside) - mills_ratio(inside - mu))
        right = x > 5.0
        if right.any():
            z, size, density, loss = x[right], mu[right], log_density[right], losses[right]
            tail = np.where(z < size - 5.0, density + np.log(mills_ratio(z - size)), loss + log_ndtr(z - size))
            gap[right] = log_ndtr(z) + np.log1p(-np.exp(np.minimum(tail - log_ndtr(z), 0.0)))
        return gap


def _integrated_gap(mu: FloatArray, x: FloatArray, losses: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        nodes, weights = gauss_legendre(16)
        z = np.maximum(x, -1e150)[:, None] - mu[:, None] * nodes
        return np.asarray(_log_density(x) + np.log(_mills_slope(z) @ weights * mu))


def _log_density(x: FloatArray) -> FloatArray:
    """Beyond 1e150 standard deviations the square overflows to -inf, and so does the logarithm sought."""
    return np.asarray(-x * x / 2 - 0.5 * math.log(2 * math.pi))


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
