"""Integrals by Gauss-Legendre rules, and the step of the trapezoidal rule on the whole line."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["INTEGRAL", "WIDEST_STRIP", "gauss_legendre", "log_integral", "log_integral_where_large", "trapezoid_step"]

INTEGRAL = 5e5
"""Operations (see `accountant.patience`) of an integral by `log_integral`, where an integrand takes few."""

WIDEST_STRIP = 8.976
"""Half-width D beyond which a wider strip gains next to nothing: D / (44 + D^2/2) is largest at 9.38."""


@Kernel
def trapezoid_step(half_width: float) -> float:
    """Step h = 2 pi D / (44 + D^2/2) of the trapezoidal rule for a normal density times a slowly varying factor.

    If the integrand is analytic in the strip of half-width D and at most e^{D^2/2} times its real size there, the
    relative error is about e^{D^2/2 - 2 pi D/h} = e^-44 (Trefethen & Weideman 2014, Thm 5.1).
    """
    return 2.0 * math.pi * half_width / (44.0 + 0.5 * half_width * half_width)


@lru_cache
def gauss_legendre(n: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the n-point Gauss-Legendre rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1) / 2, weights / 2


def log_integral(log_f: Callable[[FloatArray], FloatArray], edges: FloatArray, tolerance: float = 1e-14) -> float:
    """log of the integral of exp(log_f) over the panels between `edges`, by adaptive Gauss-Legendre.

    Every panel is compared with its two halves; those that matter and disagree are split again. Works in
    logs throughout, so the integrand may be far beyond the floating-point range; by what logarithms of the integral's
    size round, two halves may disagree.
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
        allowed = max(tolerance, min(2.0**-51 * abs(total), 1e-3))
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(np.exp(np.minimum(coarse - total, 700.0)) - np.exp(halves - total))
        open_panels = (gap > allowed) & (right - left > 4e-16 * np.maximum(np.abs(left), np.abs(right)))
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


def log_integral_where_large(
    log_f: Callable[[FloatArray], FloatArray], edges: FloatArray, tolerance: float = 1e-14
) -> float:
    """The same over the panels that are not negligible at their edges and middles, to within 80 nats of the largest."""
    seen = log_f(np.concatenate([edges, (edges[:-1] + edges[1:]) / 2]))
    ends, middles = seen[: edges.size], seen[edges.size :]
    kept = np.flatnonzero(np.maximum(np.maximum(ends[:-1], ends[1:]), middles) > np.max(seen) - 80.0)
    if kept.size == 0:
        return -math.inf
    parts = np.split(kept, np.flatnonzero(np.diff(kept) > 1) + 1)
    return float(np.logaddexp.reduce([log_integral(log_f, edges[part[0] : part[-1] + 2], tolerance) for part in parts]))
