"""Moments of the Poisson-subsampled Gaussian by plain floating-point sums: value and two derivatives at once.

Covers the orders and noise scales at which nothing overflows, which is where optimal orders lie, and those that have a
closed form; the kernels in `subsampled_gaussian`, which work in logs, cover the rest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.quadrature import WIDEST_STRIP, trapezoid_step
from accountant.numerics.special import divergence_from_log_mean, exp_excess, log1p_and_excess

__all__ = ["Derivatives", "cumulant_apart", "curves_by_moments", "log_at_branch", "log_mean_apart", "moments", "terms"]


class Derivatives(NamedTuple):
    """Value and derivatives of a function G(b) with G(0) = 0, scaled: G/b, b G' - G and b^2 G''."""

    value: float
    first: float
    second: float


@Kernel
def log_at_branch(b: float, rate: float, mu: float) -> float:
    """Log of a bound on the integrand of `subsampled_gaussian_log_mean` where its logarithm branches.

    The branch points stand above and below y*, where the two components cross. There |1 + g x| <= 2 (1-g) and
    |log(1 + g x)| <= 4, and phi_a/b is at most (2 + 2a)/b or, for b < 1/4, e^4.
    """
    crossing = 0.5 * mu + math.log((1.0 - rate) / rate) / mu
    size = 4.0 if b < 0.25 else math.log((4.0 + 2.0 * b) / b)
    return -0.5 * crossing**2 + max(0.0, (1.0 + b) * math.log(2.0 * (1.0 - rate))) + size


@Kernel
def spacing(b: float, mu: float, rate: float) -> float:
    """Step of the trapezoidal rule; see `subsampled_gaussian_log_mean`, whose two cases these are."""
    half_width = min(math.pi / mu, WIDEST_STRIP)
    if half_width < WIDEST_STRIP and b >= 1.0:
        # E[phi_a/b] grows with b: at least its value at order 2, g^2 (e^{mu^2} - 1)
        total = 2.0 * math.log(rate) + math.log(math.expm1(mu * mu))
        if log_at_branch(b, rate, mu) <= total - 45.0:
            half_width = WIDEST_STRIP
    return trapezoid_step(half_width)


@Kernel
def terms(b: float, v: float) -> Derivatives:
    """Of phi_a(u) as a function of b, for u = log(1+v) and a = 1 + b > 1.

    With z = b u they are ((1+v) u - v) + (1+v) (e^z - 1 - z)/b, (1+v) (z^2 + (z-1) (e^z - 1 - z)) and
    (1+v) z^2 e^z: all of second order in u, non-negative, and free of cancellation.
    """
    u, excess = log1p_and_excess(v)
    z = b * u
    growth = exp_excess(z)
    ratio = 1.0 + v
    first = ratio * (z * z + (z - 1.0) * growth)
    return Derivatives(excess + ratio * growth / b, first, ratio * z * z * (1.0 + z + growth))


@Kernel
def moments(b: float, mu: float, rate: float) -> Derivatives:
    """Means of `terms` over y ~ N(0,1), where v = g (e^l - 1) and l = mu y - mu^2/2; nan where one would overflow.

    Sums over h Z, to the left and to the right of u = 0,
    end where what is left out is below 1e-17 of the total. On either side log phi_a is increasing and concave in
    |u|, being the logarithm of an integral from 0 of a log-concave function (a (e^{a s} - e^s), a (e^{-s} - e^{-a s})).
    To the left |u| is concave in y, so the integrand is log-concave: its terms fall at least as fast as the last
    ratio of two. To the right the second derivative of log phi_a(u(y)) is at most r u'', where r = phi_a'/phi_a
    falls in u, and u'' = mu^2 s (1-s), with s the share of g e^l in 1+v, which rises; where r u'' stays below 1 the
    integrand is log-concave from there on. Or else beyond a mu + 2 mu/(1 - e^-l) + 2: r = a + a b (e^u - 1)/phi_a is at
    most a + 2/u, and s/u at most 1/(1 - e^-l), so that the log of the integrand has a slope r mu s - y below -2.
    """
    if b < 1e-10 or rate > 0.99 or mu > 72.0:  # the sum begins at mu/2
        return Derivatives(math.nan, math.nan, math.nan)
    h = spacing(b, mu, rate)
    middle = math.floor(0.5 * mu / h)
    total, first, second = 0.0, 0.0, 0.0
    for direction in (-1.0, 1.0):
        k = middle if direction < 0.0 else middle + 1.0
        previous, settled = 0.0, direction < 0.0  # settled: log-concave from the last point on
        while True:
            y = k * h
            loss = mu * (y - 0.5 * mu)
            if abs(y) > 36.0 or loss > 600.0:
                return Derivatives(math.nan, math.nan, math.nan)
            v = rate * (loss + exp_excess(loss))
            weight = math.exp(-0.5 * y * y)
            each = terms(b, v)
            total += weight * each.value
            first += weight * each.first
            second += weight * each.second
            term = weight * each.value
            if term < 1e-17 * total:
                if settled and term < 0.5 * previous:
                    break
                share = (v + rate) / (1.0 + v)
                widest = 0.25 if share < 0.5 else share * (1.0 - share)
                # r u'' = a (1+v) (e^z - 1) u'' / phi_a, with phi_a/b in `each.value`
                steepest = (1.0 + b) * (1.0 + v) * math.expm1(b * math.log1p(v)) * mu * mu * widest
                falls = (1.0 + b) * mu - 2.0 * mu / math.expm1(-loss) if loss > 0.0 else math.inf
                settled = direction < 0.0 or steepest <= b * each.value or y >= falls + 2.0
            previous = term
            k += direction
        if not total < math.inf:
            return Derivatives(math.nan, math.nan, math.nan)
    scale = h * 0.3989422804014327
    return Derivatives(scale * total, scale * first, scale * second)


@Kernel
def disjoint_log_mean(b: float, mu: float, rate: float) -> float:
    """Log of the mean of phi_a/b where the two components do not overlap.

    Of (1-g)^a + g^a e^{a b mu^2/2} - 1, split by (1-g) + g = 1.
    """
    kept, gained = math.log1p(-rate), math.log(rate) + 0.5 * (1.0 + b) * mu * mu
    if b * gained > 600.0:
        return math.log(rate) + b * gained - math.log(b)
    if b == 0.0:
        return math.log((1.0 - rate) * kept + rate * gained)
    return math.log(((1.0 - rate) * math.expm1(b * kept) + rate * math.expm1(b * gained)) / b)


@Kernel
def log_mean_apart(b: float, mu: float, rate: float) -> float:
    """The same where the components are far enough apart for a closed form, but for less than e^-40 of it; else nan."""
    a = 1.0 + b
    # far beyond the crossing y* of the two mixture components only g e^l counts: E = e^{a b mu^2/2} g^a
    upper = 0.5 * a * b * mu * mu + a * math.log(rate)
    crossing = 0.5 * mu + math.log((1.0 - rate) / rate) / mu
    beyond = a * mu - crossing
    if (
        upper > 45.0
        and beyond > 12.0
        and mu * (beyond - 12.0) > 40.0 + math.log(a)
        and 0.5 * beyond**2 > 0.7 * a + 40.0
    ):
        return upper - math.log(b)
    if (
        crossing > 12.0
        and beyond > 12.0
        and mu * (min(crossing, beyond) - 12.0) > 40.0 + math.log(a)
        and 0.5 * min(crossing, beyond) ** 2 > 0.7 * a + 45.0 - math.log(rate)
    ):
        return disjoint_log_mean(b, mu, rate)
    return math.nan


@Kernel
def cumulant_apart(b: float, mu: float, rate: float) -> Derivatives:
    """Of K = log(1 + G) where `log_mean_apart` has a closed form, else nan; the derivatives only guide a search.

    K = log((1-g) e^{b log(1-g)} + g e^{b (log g + (1+b) mu^2/2)}); where w is the share of the second term and d the
    difference of the derivatives of both logs, b^2 K'' = b^2 (w mu^2 + w (1-w) d^2).
    """
    log_mean = log_mean_apart(b, mu, rate)
    if math.isnan(log_mean):
        return Derivatives(math.nan, math.nan, math.nan)
    value = divergence_from_log_mean(b, log_mean)
    cumulant, kept, chance = b * value, math.log1p(-rate), math.log(rate)
    share = math.exp(min(chance + b * (chance + 0.5 * (1.0 + b) * mu * mu) - cumulant, 0.0))
    steep = chance + (0.5 + b) * mu * mu
    second = b * b * share * (mu * mu + (1.0 - share) * (steep - kept) ** 2)
    if b * (steep - kept) < 1e-3:  # b K' - K would cancel
        return Derivatives(value, 0.5 * second, second)
    return Derivatives(value, b * (kept + share * (steep - kept)) - cumulant, second)


@Kernel
def curves_by_moments(rows: FloatArray, orders: FloatArray, curves: FloatArray) -> bool:
    """Fill `curves` where there is a closed form or moments are floats, else with nan; whether some are nan."""
    remain = False
    for i in range(rows.shape[0]):
        mu, rate = rows[i, 0], rows[i, 1]
        for j in range(orders.size):
            b = orders[j] - 1.0
            log_mean = log_mean_apart(b, mu, rate)
            if math.isnan(log_mean):
                mean = moments(b, mu, rate).value
                if not mean > 0.0:
                    curves[i, j] = math.nan
                    remain = True
                    continue
                log_mean = math.log(mean)
            # a mixture is never further from N(0,1) than its component
            curves[i, j] = min(divergence_from_log_mean(b, log_mean), 0.5 * orders[j] * mu * mu)
    return remain
