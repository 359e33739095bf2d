"""Special functions: scalar ones compiled, and the few on arrays that need scipy."""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.quadrature import gauss_legendre
from accountant.numerics.scipy_special import erfcx

__all__ = [
    "divergence_from_log_mean",
    "exp_excess",
    "log1p_and_excess",
    "log_binomial_pmf",
    "log_mean_excess",
    "log_mean_term",
    "log_mixture",
    "log_mixture_ratio",
    "log_mixture_ratio_at",
    "log_ndtr_steps",
    "log_phi",
    "log_phi_steps",
    "log_relative_excess",
    "logaddexp",
    "mills_ratio",
]

NODES, WEIGHTS = gauss_legendre(16)


@Kernel
def logaddexp(x: float, y: float) -> float:
    """log(e^x + e^y), also for infinities."""
    if x < y:
        x, y = y, x
    if y == -math.inf or x == math.inf:
        return x
    return x + math.log1p(math.exp(y - x))


@Kernel
def exp_excess(z: float) -> float:
    """e^z - 1 - z >= 0 to full relative accuracy."""
    if z > 709.782:
        return math.inf
    if abs(z) > 0.4:
        return math.exp(z) - 1.0 - z
    # even and odd terms of Taylor's series: a shorter dependency chain
    s = z * z
    even = 1 / 2 + s * (1 / 24 + s * (1 / 720 + s * (1 / 40320 + s * (1 / 3628800 + s * (1 / 479001600)))))
    odd = 1 / 6 + s * (1 / 120 + s * (1 / 5040 + s * (1 / 362880 + s * (1 / 39916800 + s * (1 / 6227020800)))))
    return s * (even + z * odd)


@Kernel
def log1p_and_excess(v: float) -> tuple[float, float]:
    """log(1+v), and (1+v) log(1+v) - v >= 0, to full relative accuracy for v > -1 that is not next to -1."""
    if abs(v) > 0.1:
        u = math.log(1.0 + v)
        return u, (1.0 + v) * u - v
    # with v = 2s/(1-s): log(1+v) = 2 artanh(s), and the excess is 2 s^2/(1-s) + 2 (1+v) (artanh(s) - s)
    s = v / (2.0 + v)
    q = s * s
    rest = s * q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q * (1 / 13))))))
    return 2.0 * (s + rest), 2.0 * q / (1.0 - s) + 2.0 * (1.0 + v) * rest


@Kernel
def log_relative_excess(b: float, u: float) -> float:
    """log_mean_excess(b, u) - u, for u > 0 that is not small."""
    t = b * u
    if t < 500.0:
        slope = math.expm1(t) / b if b > 0.0 else u
        return math.log(slope + math.expm1(-u))
    return t - math.log(b) + math.log1p((b * math.expm1(-u) - 1.0) * math.exp(-t))


@Kernel
def log_mean_excess(b: float, u: float) -> float:
    """log( phi_a(u) / b ), with a = 1 + b and phi_a(u) = expm1(a u) - a expm1(u) >= 0; b = 0 is the limit.

    For any P, Q with E_Q[P/Q] = 1, exp(b D_a(P||Q)) - 1 = b E_Q[phi_a(log P/Q) / b], a sum of
    non-negative terms. Written as e^u expm1(b u)/b - expm1(u), or as two non-negative parts where that cancels.
    """
    a = 1.0 + b
    if u == 0.0 or (u == -math.inf and b == math.inf):
        return -math.inf
    if abs(u) < 1e-140 and a * abs(u) < 1e-20:
        return math.log(0.5 * a) + 2.0 * math.log(abs(u))  # where u^2 would underflow
    if abs(u) < 0.5 and a * abs(u) < 1.0:
        # phi_a(u)/b = (u e^u - expm1(u)) + e^u (e^{bu} - 1 - bu)/b, both of second order and non-negative
        growth = exp_excess(u)
        lead = u * u + (u - 1.0) * growth
        return math.log(lead + (1.0 + u + growth) * exp_excess(b * u) / b if b > 0.0 else lead)
    if u > 0.0:
        return u + log_relative_excess(b, u)
    slope = math.expm1(b * u) / b if b > 0.0 else u
    if u < -745.0:
        return 0.0  # e^u underflows: phi_a(u)/b = 1 + (e^{a u} - a e^u)/b rounds to 1
    return math.log(math.exp(u) * slope - math.expm1(u))


@Kernel
def log_mean_term(b: float, log_p: float, log_q: float, u: float) -> float:
    """log( q phi_a(u)/b ) of an outcome with u = log p/q: from p where a large u would cancel in log q + u."""
    if u > 1.0:
        return log_p + log_relative_excess(b, u)
    return log_q + log_mean_excess(b, u)


@Kernel
def divergence_from_log_mean(b: float, log_mean: float) -> float:
    """log1p(b J)/b from log J: the Rényi divergence of order 1 + b from J = E_Q[phi_a/b]."""
    if b == 0.0:
        return math.exp(log_mean)
    x = log_mean + math.log(b)
    if x > 40.0:
        return x / b
    return math.log1p(b * math.exp(log_mean)) / b


@Kernel
def stirling_error(n: float) -> float:
    """log(n!) minus Stirling's approximation, by its asymptotic series (Loader 2000) or by log gamma."""
    if n < 16.0:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2.0 * math.pi)
    m = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - (1 / 1188 - 691 / 360360 / m) / m) / m) / m) / m) / n


@Kernel
def deviance(x: float, mean: float) -> float:
    """x log(x/mean) + mean - x without cancellation (Loader 2000)."""
    d = x - mean
    v = d / (x + mean)
    if abs(v) > 0.1:
        return x * math.log(x / mean) - d
    total = d * v
    term = 2.0 * x * v
    square = v * v
    for j in range(1, 40):
        term *= square
        following = total + term / (2 * j + 1)
        if following == total:
            break
        total = following
    return total


@Kernel
def log_binomial_pmf(n: float, k: float, p: float) -> float:
    """log( C(n,k) p^k (1-p)^(n-k) ) by Loader's saddle-point expansion (2000), for 0 < p < 1."""
    if k == 0.0:
        return n * math.log1p(-p)
    if k == n:
        return n * math.log(p)
    spread = 0.5 * (math.log(n / (n - k)) - math.log(2.0 * math.pi * k))
    error = stirling_error(n) - stirling_error(k) - stirling_error(n - k)
    return spread + error - deviance(k, n * p) - deviance(n - k, n * (1.0 - p))


@Kernel
def log_mixture_ratio_at(rate: float, u: float) -> float:
    """log(1 - rate + rate e^u): the log-ratio of the mixture (1-rate) Q + rate P to Q where log P/Q = u."""
    if rate == 1.0:
        return u
    if u > 600.0:
        return u + math.log(rate) + math.log1p((1.0 - rate) / rate * math.exp(-u))
    change = rate * math.expm1(u)
    if change < -0.5:
        return math.log((1.0 - rate) + rate * math.exp(u))
    return math.log1p(change)


@Kernel
def log_mixture_share_at(rate: float, u: float) -> float:
    """log(rate + (1 - rate) e^-u) = log_mixture_ratio_at(rate, u) - u, with all digits where u is large."""
    if rate == 1.0:
        return 0.0
    if u < -600.0:
        return log_mixture_ratio_at(rate, u) - u
    change = (1.0 - rate) * math.expm1(-u)
    return math.log(rate + (1.0 - rate) * math.exp(-u)) if change < -0.5 else math.log1p(change)


@Kernel
def fill_log_mixture_ratios(rate: float, u: FloatArray, ratios: FloatArray) -> None:
    for i in range(u.size):
        ratios[i] = log_mixture_ratio_at(rate, u[i])


@Kernel
def fill_log_mixture_shares(rate: float, u: FloatArray, shares: FloatArray) -> None:
    for i in range(u.size):
        shares[i] = log_mixture_share_at(rate, u[i])


def log_mixture_ratio(rate: float, u: FloatArray) -> FloatArray:
    """`log_mixture_ratio_at` on an array."""
    points = np.array(u, dtype=float)
    if rate != 1.0:
        fill_log_mixture_ratios(rate, points.ravel(), (ratios := np.empty(points.size)))
        points = ratios.reshape(points.shape)
    return points


def log_mixture_share(rate: float, u: FloatArray) -> FloatArray:
    """`log_mixture_share_at` on a flat array."""
    fill_log_mixture_shares(rate, u, (shares := np.empty(u.size)))
    return shares


def log_mixture(rate: float, log_q: FloatArray, log_p: FloatArray) -> FloatArray:
    """log((1-rate) q + rate p), 0 < rate < 1."""
    mixture: FloatArray = np.logaddexp(math.log1p(-rate) + log_q, math.log(rate) + log_p)
    return mixture


def mills_ratio(x: FloatArray) -> FloatArray:
    """Phi(x)/phi(x), increasing in x."""
    result: FloatArray = math.sqrt(math.pi / 2) * erfcx(-np.asarray(x) / math.sqrt(2))
    return result


@Kernel
def log_mills(x: float) -> float:
    """log( Phi(x)/phi(x) )."""
    z = -x / math.sqrt(2.0)
    if z < 5.0:
        return 0.2257913526447274 + z * z + math.log(math.erfc(z))  # log sqrt(pi/2)
    # Laplace's continued fraction for sqrt(pi) e^{z^2} erfc(z); at z >= 5 it has converged after 40 steps
    fraction = z
    for n in range(40, 0, -1):
        fraction = z + 0.5 * n / fraction
    return -0.34657359027997264 - math.log(fraction)  # log sqrt(1/2)


@Kernel
def log_phi(x: float) -> float:
    """log Phi(x)."""
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(x / math.sqrt(2.0)))
    if x > -30.0:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    return log_mills(x) - 0.5 * x * x - 0.9189385332046727


@Kernel
def density_share(left: float, h: float) -> float:
    """Integral of the normal density over [left, left + h], divided by its value at left."""
    middle = left + 0.5 * h
    if h <= 0.2 and h * abs(middle) <= 0.3:
        # Taylor's series about the middle: sum of He_{2n}(m) (h/2)^{2n}/(2n+1)!
        m = middle * middle
        s = 0.25 * h * h
        h4 = m * m - 6 * m + 3
        h6 = m * m * m - 15 * m * m + 45 * m - 15
        h8 = m**4 - 28 * m**3 + 210 * m * m - 420 * m + 105
        h10 = m**5 - 45 * m**4 + 630 * m**3 - 3150 * m * m + 4725 * m - 945
        series = 1 + s * ((m - 1) / 6 + s * (h4 / 120 + s * (h6 / 5040 + s * (h8 / 362880 + s * h10 / 39916800))))
        return math.exp(-0.5 * h * (left + 0.25 * h)) * h * series
    total = 0.0
    for i in range(NODES.size):
        s = h * NODES[i]
        total += WEIGHTS[i] * math.exp(-s * (left + 0.5 * s))
    return h * total


@Kernel
def log_phi_steps(x: float, h: float) -> tuple[float, float, float, float]:
    """log Phi(x), log Phi(-x), log Phi(x+h)/Phi(x) > 0 and log Phi(-x-h)/Phi(-x) < 0, each without cancellation."""
    mirrored = x + 0.5 * h > 0.0
    left = -x - h if mirrored else x  # the middle of [left, left + h] is at or below 0
    if left > -7.0:
        log_left = math.log(0.5 * math.erfc(left / -math.sqrt(2.0)))
        mills = log_left + 0.5 * left * left + 0.9189385332046727
    else:
        log_left, mills = log_phi(left), log_mills(left)
    below = math.exp(log_left)
    log_right = math.log1p(-below)
    if h <= 8.0 and h * abs(left) <= 4.0:
        up = math.log1p(math.exp(-mills) * density_share(left, h))
    else:
        # phi(left+h)/phi(left) is exact; the logs of Mills' ratios are small beside it
        up = -h * (left + 0.5 * h) + log_mills(left + h) - mills if left + h < 5.0 else log_phi(left + h) - log_left
    lost = math.exp(log_left + up if h < 1.0 else log_phi(left + h)) * -math.expm1(-up) / (1.0 - below)
    down = math.log1p(-lost) if lost < 0.5 else log_phi(-left - h) - log_right
    if mirrored and h > 1.0:
        return log_phi(x), log_phi(-x), -down, -up
    if mirrored:
        return log_right + down, log_left + up, -down, -up
    return log_left, log_right, up, down


@Kernel
def fill_log_phi_steps(x: FloatArray, h: float, up: FloatArray, down: FloatArray) -> None:
    for i in range(x.size):
        _, _, up[i], down[i] = log_phi_steps(x[i], h)


def log_ndtr_steps(x: FloatArray, h: float) -> tuple[FloatArray, FloatArray]:
    """log Phi(x+h)/Phi(x) and log Phi(-x-h)/Phi(-x) on a 1-D array, by `log_phi_steps`, for h > 0."""
    up, down = np.empty(x.size), np.empty(x.size)
    fill_log_phi_steps(np.asarray(x, dtype=float), h, up, down)
    return up, down
