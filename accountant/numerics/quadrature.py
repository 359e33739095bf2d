"""Integrals by Gauss-Legendre rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from accountant.numerics.kernel import FloatArray

__all__ = ["gauss_legendre", "log_integral"]


@lru_cache
def gauss_legendre(n: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the n-point Gauss-Legendre rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1) / 2, weights / 2


def log_integral(log_f: Callable[[FloatArray], FloatArray], edges: FloatArray, tolerance: float = 1e-14) -> float:
    """log of the integral of exp(log_f) over the panels between `edges`, by adaptive Gauss-Legendre.

    Every panel is compared with its two halves; those that matter and disagree are split again. Works in
    logs throughout, so the integrand may be far beyond the floating-point range.
    """
    left, right = np.asarray(edges[:-1], dtype=float), np.asarray(edges[1:], dtype=float)
    nodes, weights = gauss_legendre(16)

    def panels(a: FloatArray, b: FloatArray) -> FloatArray:
        x = a[:, None] + (b - a)[:, None] * nodes
        values = log_f(x.ravel()).reshape(x.shape)
        top = np.max(values, axis=1, initial=-math.inf)
        safe = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            mass: FloatArray = safe + np.log(np.exp(values - safe[:, None]) @ weights) + np.log(b - a)
        return mass

    coarse = panels(left, right)
    done: list[FloatArray] = []
    for _ in range(200):
        middle = (left + right) / 2
        fine = np.concatenate([panels(left, middle), panels(middle, right)])
        halves = np.logaddexp(fine[: len(left)], fine[len(left) :])
        known = np.concatenate([*done, halves])
        total = float(np.logaddexp.reduce(known)) if len(known) else -math.inf
        if total == -math.inf or total == math.inf:
            return total
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(np.exp(np.minimum(coarse - total, 700.0)) - np.exp(halves - total))
        open_panels = (gap > tolerance) & (right - left > 4e-16 * np.maximum(np.abs(left), np.abs(right)))
        done.append(halves[~open_panels])
        if not open_panels.any():
            return total
        keep = np.concatenate([open_panels, open_panels])
        left, right = (
            np.concatenate([left[open_panels], middle[open_panels]]),
            np.concatenate([middle[open_panels], right[open_panels]]),
        )
        coarse = fine[keep]
    return total
