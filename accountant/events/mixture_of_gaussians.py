"""Gaussian noise on a sum whose sensitivity is itself random, as that of several records in a Poisson sample."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, ProfileUnavailable, shorten
from accountant.events.event import Event
from accountant.events.parameters import NoiseScale, numbers_of
from accountant.events.registry import register
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.mills import log_mills_gaps
from accountant.numerics.quadrature import INTEGRAL, log_integral_where_large
from accountant.numerics.special import divergence_from_log_mean, log_mean_excess

__all__ = ["MixtureOfGaussians", "mixture_curve", "mixture_log_profile", "thin"]

COMPONENTS = 1000
"""Most components of a mixture."""

FARTHEST = 1e4
"""Standard deviations up to which a profile is computed: beyond, where two components cross is no float."""

WIDEST_SEARCH = 2.0**13
"""Largest half-width, in panels, of the range that a curve is integrated over."""

ROUNDED = 1e-6
"""Relative error that an integral may have where its integrand rounds by as much."""


@register("mixture-of-gaussians")
@dataclass(frozen=True)
class MixtureOfGaussians(Event):
    """A sum plus N(0, sigma^2) on every entry, to which one individual adds a vector of random length.

    With probability p_i it has L2 norm at most s_i, whatever its direction. The pair

        sum p_i N(s_i, sigma^2)  against  N(0, sigma^2)

    dominates in both directions (proof: notebooks/mathematics.md, Mixtures of Gaussians; for vectors of matrix
    mechanisms Choquette-Choo et al. 2024), and curve and profile are those of the pair. A Poisson sample of it is
    another such mixture. Poisson-subsampled Gaussian noise is the mixture of 0 and its sensitivity.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise; [1e-50, 1e50].
    sensitivities : iterable of float
        s_i, in the units of sigma; each 0 or in [1e-50, 1e50], at most 1000 of them.
    probabilities : iterable of float
        p_i, as many, each in (0, 1]; they are divided by their sum, which must be 1 up to 1e-9.
    adjacency : Adjacency
        Add-remove: under replacement other pairs dominate.

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range, or the adjacency is replace.
    """

    sigma: NoiseScale
    sensitivities: tuple[float, ...]
    probabilities: tuple[float, ...]
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = numbers_of("sensitivities", self.sensitivities, 1e50, COMPONENTS)
        shares = numbers_of("probabilities", self.probabilities, 1.0, COMPONENTS)
        if len(lengths) != len(shares):
            raise ParameterError(
                f"{len(lengths)} sensitivities, {len(shares)} probabilities; accepted: as many of both"
            )
        if not all(shares) or abs(math.fsum(shares) - 1) > 1e-9:
            raise ParameterError(
                f"probabilities = {shorten(shares)}; accepted: numbers above 0 of sum 1, not {math.fsum(shares)!r}"
            )
        if self.adjacency is Adjacency.REPLACE:
            raise ParameterError("adjacency = replace; accepted: add-remove, for which alone the pair dominates")
        object.__setattr__(self, "sensitivities", lengths)
        object.__setattr__(self, "probabilities", shares)

    @classmethod
    def examples(cls) -> tuple[MixtureOfGaussians, ...]:
        return (cls(2.0, (0.0, 1.0, 2.0), (0.6, 0.3, 0.1)),)

    def _mixture(self) -> tuple[FloatArray, FloatArray]:
        """Logs of the probabilities, and the sensitivities in standard deviations."""
        shares = np.array(self.probabilities)
        return np.log(shares / math.fsum(shares)), np.array(self.sensitivities) / self.sigma

    def _curve(self, orders: FloatArray) -> FloatArray:
        return mixture_curve(*self._mixture(), orders)

    def _curve_work(self, rate: float = 1.0) -> float:
        return INTEGRAL * (1 + 0.05 * len(self.probabilities))

    def _profile_work(self) -> float:
        return 1500.0 * len(self.probabilities)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return mixture_log_profile(*self._mixture(), epsilons)

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        return mixture_curve(*thin(*self._mixture(), rate), orders)

    def _subsampled_log_profile(self, rate: float, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        return mixture_log_profile(*thin(*self._mixture(), rate), epsilons)


def thin(log_p: FloatArray, s: FloatArray, rate: float) -> tuple[FloatArray, FloatArray]:
    """The mixture that is met with probability `rate` only, N(0, 1) otherwise."""
    return np.append(log_p + math.log(rate), math.log1p(-rate)), np.append(s, 0.0)


# --- the ratio of the densities ----------------------------------------------------------------------------


@Kernel
def ratio_at(log_p: FloatArray, s: FloatArray, y: float) -> tuple[float, float, float]:
    """P/Q less 1, its logarithm, and the derivative of that, at y; P/Q is sum p_i e^{z_i}, z_i = s_i y - s_i^2/2."""
    top = -math.inf
    for i in range(s.size):
        top = max(top, log_p[i] + s[i] * (y - 0.5 * s[i]))
    total = 0.0
    slope = 0.0
    excess = 0.0
    for i in range(s.size):
        z = s[i] * (y - 0.5 * s[i])
        share = math.exp(log_p[i] + z - top)
        total += share
        slope += share * s[i]
        if z < 600.0:
            excess += math.exp(log_p[i]) * math.expm1(z)
        else:
            excess += math.exp(min(log_p[i] + z, 700.0))
    loss = top + math.log(total)
    if abs(excess) < 0.5:
        loss = math.log1p(excess)
    return excess, loss, slope / total


@Kernel
def fill_places(log_p: FloatArray, s: FloatArray, losses: FloatArray, places: FloatArray) -> None:
    """Where log P/Q has each of the losses, which it takes once: by Newton's method from the right, as it is convex.

    -inf where the loss is at most that of a component of length 0, below which the ratio does not fall.
    """
    positive = 0.0
    zero = 0.0
    for i in range(s.size):
        if s[i] > 0.0:
            positive += math.exp(log_p[i])
        else:
            zero += math.exp(log_p[i])
    for k in range(losses.size):
        loss = losses[k]
        # what is left to the components of positive length
        log_left = loss
        if zero > 0.0 and loss < 40.0:
            left = positive + math.expm1(loss)
            if left <= 0.0:
                places[k] = -math.inf
                continue
            log_left = math.log(left)
        y = math.inf
        for i in range(s.size):
            if s[i] > 0.0:
                y = min(y, (loss - log_p[i]) / s[i] + 0.5 * s[i])
        returns = 0
        for _ in range(500):
            step = newton_step(log_p, s, y, loss, log_left)
            if not step > 1e-16 * abs(y):
                if step >= -1e-15 * abs(y) or returns == 20:
                    y -= min(max(step, -1e-15 * abs(y)), 0.0)
                    break
                returns += 1  # rounding of a y far away led past the place; from the left a step leads past it, too
            y -= step
        places[k] = y


@Kernel
def newton_step(log_p: FloatArray, s: FloatArray, y: float, loss: float, log_left: float) -> float:
    """How far y is to the right of the place sought, to first order.

    By P/Q - 1 where it is small, else by the logarithm of what the components of positive length have.
    """
    top = -math.inf
    for i in range(s.size):
        if s[i] > 0.0:
            top = max(top, log_p[i] + s[i] * (y - 0.5 * s[i]))
    total = 0.0
    slope = 0.0
    excess = 0.0
    rise = 0.0
    for i in range(s.size):
        if s[i] > 0.0:
            z = s[i] * (y - 0.5 * s[i])
            share = math.exp(log_p[i] + z - top)
            total += share
            slope += share * s[i]
            if z < 10.0:
                excess += math.exp(log_p[i]) * math.expm1(z)
                rise += math.exp(log_p[i] + z) * s[i]
            else:
                excess = math.inf
    if abs(excess) < 0.1 and abs(loss) < 0.1:
        gap = excess - math.expm1(loss)
        return gap / rise if rise > 0.0 else 0.0
    return (top + math.log(total) - log_left) * total / slope


# --- profile and curve -------------------------------------------------------------------------------------


def mixture_log_profile(log_p: FloatArray, s: FloatArray, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logs of H_e(P||Q) and H_e(Q||P), P = sum p_i N(s_i, 1), Q = N(0, 1), at e >= 0.

    log P/Q rises in y. At the place t where it is e, H_e(P||Q) = sum p_i [Phi(s_i - t) - e^{s_i t - s_i^2/2} Phi(-t)];
    where it is -e, H_e(Q||P) = e^e sum p_i [e^{s_i t - s_i^2/2} Phi(t) - Phi(t - s_i)]. With Mills' ratio R = Phi/phi
    the terms are phi(t - s_i) (R(s_i - t) - R(-t)) and phi(t - s_i) (R(t) - R(t - s_i)), all positive.
    """
    if float(np.max(s)) > FARTHEST:
        raise ProfileUnavailable(
            f"a mixture of Gaussians {float(np.max(s)):g} standard deviations apart has no computed profile; accepted: "
            f"[0, {FARTHEST:g}]"
        )
    if not (s > 0.0).any():
        nothing = np.full_like(epsilons, -math.inf)
        return nothing, nothing
    places = np.empty(2 * epsilons.size)
    fill_places(log_p, s, np.concatenate([epsilons, -epsilons]), places)
    up, down = places[: epsilons.size], places[epsilons.size :]
    reached = np.isfinite(down)
    add = np.full_like(epsilons, -math.inf)
    lengths, log_shares = s[s > 0.0], log_p[s > 0.0][:, None]
    column = lengths[:, None]
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        own = log_mills_gaps(lengths, column - up, column * up - column * column / 2)
        remove = np.logaddexp.reduce(log_shares + own, axis=0)
        t = down[reached]
        inner = column * t - column * column / 2
        gaps = log_mills_gaps(lengths, np.broadcast_to(t, inner.shape), -inner)
        add[reached] = np.logaddexp.reduce(log_shares + epsilons[reached] + inner + gaps, axis=0)
    return np.minimum(remove, 0.0), np.minimum(add, 0.0)


@Kernel
def fill_log_terms(
    b: float, log_p: FloatArray, s: FloatArray, forward: bool, points: FloatArray, logs: FloatArray
) -> None:
    """Log of the density of Q times phi_a(log P/Q)/b, a = 1 + b; or of P times phi_a(log Q/P)/b."""
    for i in range(points.size):
        y = points[i]
        _, loss, _ = ratio_at(log_p, s, y)
        logs[i] = -0.5 * y * y - 0.9189385332046727
        logs[i] += log_mean_excess(b, loss) if forward else loss + log_mean_excess(b, -loss)


def mixture_curve(log_p: FloatArray, s: FloatArray, orders: FloatArray) -> FloatArray:
    """The larger of D_a(P||Q) and D_a(Q||P), of the same pair, at orders in [1, inf].

    Integrated over |y| <= (a + 2) s + 23, s the largest length: beyond, the logarithm of the integrand has a slope of
    at least 20 towards 0 (proof: notebooks/mathematics.md, Mixtures of Gaussians). Where that is too far, and
    everywhere as an upper limit, stand Minkowski's inequality, D_a(P||Q) <= a/(a-1) log sum p_i e^{(a-1) s_i^2/2}, and
    Jensen's, D_a(Q||P) <= log(sum p_i e^{a (a-1) s_i^2/2})/(a-1).
    """
    longest = float(np.max(s))
    curve = np.full_like(orders, math.inf if longest > 0.0 else 0.0)
    if longest == 0.0:
        return curve
    shares = np.exp(log_p)
    for i in np.flatnonzero(np.isfinite(orders)).tolist():
        b = float(orders[i]) - 1.0
        halves = s * s / 2
        jensen = _log_of_mean(shares, log_p, (1 + b) * b * halves) / b if b > 0.0 else float(shares @ halves)
        minkowski = (1 + b) / b * _log_of_mean(shares, log_p, b * halves) if b > 0.0 else jensen
        forward = _one_direction(b, log_p, s, True, minkowski)
        # Q against P: P has at least p_j N(s_j, 1)
        backward = min(jensen, float(np.min(orders[i] * halves - log_p)))
        if backward > forward:
            backward = _one_direction(b, log_p, s, False, backward)
        curve[i] = max(forward, backward)
    return curve


def _log_of_mean(shares: FloatArray, log_p: FloatArray, exponents: FloatArray) -> float:
    """log sum p_i e^{x_i}, x_i >= 0."""
    if float(np.max(exponents)) < 1.0:
        return math.log1p(float(shares @ np.expm1(exponents)))
    return float(np.logaddexp.reduce(log_p + exponents))


def _one_direction(b: float, log_p: FloatArray, s: FloatArray, forward: bool, most: float) -> float:
    """D_a of one direction, or `most` where the integral goes too far."""
    longest = float(np.max(s))
    half = (b + 3.0) * longest + 23.0
    # towards P peaks are about as wide as the normal density; the other way they fall by at most `half` per unit
    width = 8.0 if forward else min(8.0, 60.0 / half)
    if half > WIDEST_SEARCH * width:
        return most

    def log_terms(points: FloatArray) -> FloatArray:
        logs = np.empty_like(points)
        fill_log_terms(b, log_p, s, forward, points, logs)
        return logs

    panels = math.ceil(2 * half / width)
    # log P/Q rounds by some 2^-53 s^2 where the integrand is large, by which panels and their halves differ in any case
    rounding = min(2.0**-52 * (1.0 + b) * longest**2, ROUNDED)
    log_mean = log_integral_where_large(log_terms, np.linspace(-half, half, panels + 1), max(rounding, 1e-14))
    return min(divergence_from_log_mean(b, log_mean), most)
