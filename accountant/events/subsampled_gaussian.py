"""Rényi curve of a Poisson-subsampled Gaussian: an integral by the trapezoidal rule, at any finite order."""

from __future__ import annotations

import math

import numpy as np

from accountant.events.subsampled_moments import curves_by_moments, log_at_branch, log_mean_apart, moments
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.quadrature import WIDEST_STRIP, trapezoid_step
from accountant.numerics.special import (
    divergence_from_log_mean,
    log_mean_excess,
    log_mixture_ratio_at,
    log_relative_excess,
    logaddexp,
)

__all__ = [
    "subsampled_gaussian_curve",
    "subsampled_gaussian_curves",
    "subsampled_gaussian_log_mean",
    "subsampled_gaussian_work",
]

APART = 30.0
"""Distance of two Gaussians from which on curves of their mixtures have closed forms at nearly all orders."""


def subsampled_gaussian_work(mu: float) -> float:
    """Operations (see `accountant.patience`) of an order, if they are many: the step of the integral falls with mu."""
    return min(75.0 * mu**3, 4e5) if 4.0 < mu < APART else 0.0


@Kernel
def log_term(b: float, rate: float, mu: float, y: float) -> float:
    """Log of the integrand: standard normal density times phi_a(u)/b."""
    u = log_mixture_ratio_at(rate, mu * y - 0.5 * mu * mu)
    if u > 40.0:
        # u = mu y - mu^2/2 + log g + ..., and -y^2/2 + mu y - mu^2/2 is a square
        rest = math.log(rate) + math.log1p((1.0 - rate) / rate * math.exp(0.5 * mu * mu - mu * y))
        return -0.5 * (y - mu) ** 2 + rest - 0.9189385332046727 + log_relative_excess(b, u)
    return -0.5 * y * y - 0.9189385332046727 + log_mean_excess(b, u)


@Kernel
def pull(b: float, rate: float, mu: float, y: float) -> float:
    """d/dy log( phi_a(u(y))/b ): the integrand is stationary where this equals y."""
    u = log_mixture_ratio_at(rate, mu * y - 0.5 * mu * mu)
    if u == 0.0:
        return 0.0
    share = 1.0 - (1.0 - rate) * math.exp(-u)  # u'(y)/mu
    t = b * u
    if t > 500.0:
        return (1.0 + b) * mu * share  # phi_a is e^{a u}, but for its last digits
    if t > -500.0:
        slope = math.expm1(t) / b if b > 0.0 else u
        log_derivative = u + math.log(abs(slope) * (1.0 + b))
    else:
        log_derivative = u + math.log((1.0 + b) / b)
    size = mu * share * math.exp(log_derivative - log_mean_excess(b, u))
    return size if u > 0.0 else -size


@Kernel
def walk(
    b: float, rate: float, mu: float, h: float, k: float, step: float, stop: float, total: float, least: float
) -> tuple[float, float]:
    """Add terms at k h, (k+step) h, ... until they stay negligible over a whole unit, or k reaches stop.

    The sum of all is at least e^least. Where whole numbers are no longer told apart the curve is the term itself.
    """
    patience = max(2.0, math.ceil(1.0 / h))
    quiet = 0.0
    while quiet < patience and step * k < step * stop:
        term = log_term(b, rate, mu, k * h)
        quiet = quiet + 1.0 if term < max(total, least) - 42.0 else 0.0
        total = logaddexp(total, term)
        if k + step == k:
            break
        k += step
    return total, k


@Kernel
def trapezoid(b: float, rate: float, mu: float, h: float, low: float, high: float) -> float:
    """log of h times the sum of the integrand over h Z, started from each place where it may peak."""
    total = least = -math.inf
    covered = -math.inf
    for start in (0.0, low, high):
        least = max(least, log_term(b, rate, mu, np.floor(start / h) * h))
    for start in (0.0, low, high):
        k = np.floor(start / h)
        if k >= covered:
            total, _ = walk(b, rate, mu, h, k - 1.0, -1.0, covered - 1.0, total, least)
            total, covered = walk(b, rate, mu, h, k, 1.0, math.inf, total, least)
    return total + math.log(h)


@Kernel
def find_peak(b: float, rate: float, mu: float, bottom: float, top: float) -> float:
    """A place between at which the integrand has a maximum, if it grows at the one and falls at the other."""
    middle = 0.5 * (bottom + top)
    while bottom < middle < top:
        if pull(b, rate, mu, middle) > middle:
            bottom = middle
        else:
            top = middle
        middle = 0.5 * (bottom + top)
    return bottom


@Kernel
def find_peaks(b: float, rate: float, mu: float) -> tuple[float, float]:
    """The outermost maxima to the right of 2 mu, where the integrand grows as u^2; they end at a mu, as e^{a u} does.

    Iterations of `pull` come to them from outside, or leap over one that is then between two steps. Where they are
    slow, two stationary points are next to each other or become one, and the integrand is hardly less at the one than
    at the other: then some maximum beyond it counts.
    """
    a = 1.0 + b
    low, high = 2.0 * mu, a * mu
    if a < 2.0:
        low = find_peak(b, rate, mu, high, low)
        return low, low
    low, low_found = climb(b, rate, mu, low, high)
    high, high_found = climb(b, rate, mu, high, low)
    if not (low_found and high_found):
        low = high = find_peak(b, rate, mu, low, high)
    return low, high


@Kernel
def climb(b: float, rate: float, mu: float, place: float, end: float) -> tuple[float, bool]:
    """The first maximum on the way to an end, or as far as 500 steps come, and whether that is one."""
    sign = 1.0 if end >= place else -1.0
    previous = place
    for _ in range(500):
        pulled = pull(b, rate, mu, place)
        if sign * (pulled - end) > 0.0:
            pulled = end
        ahead = sign * (pulled - place)
        if ahead < -1e-3:
            return find_peak(b, rate, mu, min(previous, place), max(previous, place)), True
        if ahead < 1e-3:
            return place, True
        previous, place = place, pulled
    return place, False


@Kernel
def subsampled_gaussian_log_mean(b: float, mu: float, rate: float) -> float:
    """log E_{y~N(0,1)}[ phi_a(u(y)) ] / b for a = 1 + b.

    Trapezoidal rule on the whole line (Trefethen & Weideman 2014, Thm 5.1): the integrand is analytic in a
    strip of half-width D, beyond which either (1 - g + g e^l)^a branches (at pi/mu) or the step no longer
    gains; on its edge it is at most e^{D^2/2} times its real size, so `trapezoid_step` leaves a relative error
    below e^-44 times the growth of phi_a off the axis. g is the rate, l = mu y - mu^2/2 and u = log(1 - g + g e^l).
    """
    closed = log_mean_apart(b, mu, rate)
    if not math.isnan(closed):
        return closed
    quick = moments(b, mu, rate).value
    return math.log(quick) if quick > 0.0 else integrated_log_mean(b, mu, rate)


@Kernel
def integrated_log_mean(b: float, mu: float, rate: float) -> float:
    """The same where it has no closed form and where moments overflow."""
    low, high = find_peaks(b, rate, mu)
    total = trapezoid(b, rate, mu, trapezoid_step(WIDEST_STRIP), low, high)
    # where the integrand is negligible at its branch points, so are they
    if math.pi / mu < WIDEST_STRIP and log_at_branch(b, rate, mu) > total - 45.0:
        total = trapezoid(b, rate, mu, trapezoid_step(math.pi / mu), low, high)
    return total


def subsampled_gaussian_curves(rows: FloatArray, orders: FloatArray, curves: FloatArray) -> None:
    """Fill `curves` at finite orders >= 1, one row for every (mu, rate), mu > 0 and 0 < rate < 1."""
    if curves_by_moments(rows, orders, curves):
        remaining_curves(rows, orders, curves)


@Kernel
def remaining_curves(rows: FloatArray, orders: FloatArray, curves: FloatArray) -> None:
    """Fill `curves` where they are nan."""
    for i in range(rows.shape[0]):
        mu, rate = rows[i, 0], rows[i, 1]
        for j in range(orders.size):
            if math.isnan(curves[i, j]):
                b = orders[j] - 1.0
                curve = divergence_from_log_mean(b, integrated_log_mean(b, mu, rate))
                curves[i, j] = min(curve, 0.5 * orders[j] * mu * mu)


def subsampled_gaussian_curve(mu: float, rate: float, orders: FloatArray) -> FloatArray:
    """D_a( (1-g) N(0,1) + g N(mu,1) || N(0,1) ) at finite real orders a >= 1, for 0 < g < 1.

    This direction dominates the other (Mironov, Talwar & Zhang 2019, Thm 5).
    """
    curves = np.zeros((1, orders.size))
    if mu > 0.0:
        subsampled_gaussian_curves(np.array([[mu, rate]]), orders, curves)
    row: FloatArray = curves[0]
    return row
