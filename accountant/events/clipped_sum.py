"""Sums of clipped vectors with Gaussian noise, as in DP-SGD: priced under both adjacencies, sampled or not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.answers import AdditiveNoise, Row
from accountant.events.gaussian import GaussianLike
from accountant.events.parameters import NoiseScale, Scale
from accountant.events.registry import register
from accountant.events.subsampled_gaussian import subsampled_gaussian_curve
from accountant.numerics.decimals import format_down
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.mills import log_mills_gap
from accountant.numerics.quadrature import INTEGRAL, log_integral
from accountant.numerics.special import divergence_from_log_mean, log_mean_excess, log_mixture_ratio_at

__all__ = ["ClippedSum"]

WIDEST_SEARCH = 2**12
"""Largest length of the range that a curve is integrated over; beyond, it is bounded by other curves."""


@register("clipped-sum")
@dataclass(frozen=True)
class ClippedSum(GaussianLike):
    """Sum of vectors, one of every record and each of L2 norm at most `clip`, plus N(0, sigma^2) on every entry.

    The norm says more than a sensitivity: without one record the sum moves by `clip` at most (ADD_REMOVE), with
    another vector in its place by 2 `clip` (REPLACE). Not sampled it is Gaussian noise of that sensitivity. Poisson-
    sampled under REPLACE at rate q, with u = clip/sigma, its dominating pair is

        (1-q) N(0, 1) + q N(u, 1)   against   (1-q) N(0, 1) + q N(-u, 1),

    and curve and profile are those of this pair (proof: notebooks/mathematics.md, Replacement in a Poisson sample). A
    bound on the distance of two sums alone, such as the sensitivity of `Gaussian`, does not imply that pair.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in the units of the vectors; [1e-50, 1e50].
    clip : float
        Largest L2 norm of a record's vector, the clipping norm of DP-SGD; [1e-50, 1e50]. With the default 1, `sigma`
        is the noise multiplier.
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is not a number or out of range.
    """

    sigma: NoiseScale
    clip: Scale = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    @classmethod
    def examples(cls) -> tuple[ClippedSum, ...]:
        return cls(1.1), cls(3.0, 2.0, Adjacency.REPLACE)

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise("gaussian", self.sigma)

    def caveats(self) -> tuple[str, ...]:
        return (f"every record's vector is clipped to norm {format_down(self.clip)} before it is added",)

    def _mu(self) -> float:
        return (2.0 if self._replaces else 1.0) * self.clip / self.sigma

    @property
    def _replaces(self) -> bool:
        return self.adjacency is Adjacency.REPLACE

    @property
    def _amplified(self) -> bool:
        return True

    @property
    def _profile_error(self) -> float:  # type: ignore[override]  # of a sample, far out: at most 6e-13 was seen
        return 1e-12 if self._replaces else super()._profile_error

    def _row(self, rate: float = 1.0) -> Row | None:  # type: ignore[override]  # no kernel knows the pair
        return None if self._replaces and rate < 1.0 else super()._row(rate)

    def _curve_work(self, rate: float = 1.0) -> float:
        if not self._replaces:
            return super()._curve_work(rate)
        return 1.5 * INTEGRAL if 0.0 < rate < 1.0 else 0.0

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        if not self._replaces:
            return super()._subsampled_curve(rate, orders)
        return sampled_replacement_curve(self.clip / self.sigma, rate, orders)

    def _subsampled_log_profile(self, rate: float, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        if not self._replaces:
            return super()._subsampled_log_profile(rate, epsilons)
        both = sampled_replacement_log_profile(self.clip / self.sigma, rate, epsilons)
        return both, both


def sampled_replacement_log_profile(u: float, rate: float | FloatArray, epsilons: FloatArray) -> FloatArray:
    """log H_e(P||Q) at epsilons e >= 0, P and Q being (1-q) N(0, 1) + q N(+-u, 1), for 0 < q < 1.

    log P/Q rises in x and is e at t with u t = e/2 + asinh((1-q)/q e^{u^2/2} sinh(e/2)). As P - e^e Q vanishes there,
    it may be taken off the integrand: H = q Int_t^inf phi(x-u) - e^{ut-u^2/2} phi(x) + e^e (e^{-ut-u^2/2} phi(x) -
    phi(x+u)) dx, two positive terms, each with the Mills ratio R = Phi/phi phi(z) (R(z) - R(z-u)) times a factor.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        half = epsilons / 2
        log_sinh = half + np.log(-np.expm1(-epsilons)) - math.log(2.0)
        log_size = np.log1p(-rate) - np.log(rate) + u * u / 2 + log_sinh
        shift = np.where(log_size > 300.0, log_size + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_size, 300.0))))
        place = half + shift  # u t
        t = place / u
        moved = log_mills_gap(u, u - t, place - u * u / 2)
        swapped = log_mills_gap(u, -t, u * u / 2 + place) + (half - shift - u * u / 2)
        return np.asarray(np.minimum(np.log(rate) + np.logaddexp(moved, swapped), 0.0))


@Kernel
def fill_log_terms(b: float, rate: float, u: float, points: FloatArray, logs: FloatArray) -> None:
    """Log of the density of Q times phi_a(log P/Q)/b, a = 1 + b, but for the constant of the normal density."""
    for i in range(points.size):
        y = points[i]
        own = log_mixture_ratio_at(rate, u * y - 0.5 * u * u)
        other = log_mixture_ratio_at(rate, -u * y - 0.5 * u * u)
        logs[i] = -0.5 * y * y + other + log_mean_excess(b, own - other)


def sampled_replacement_curve(u: float, rate: float, orders: FloatArray) -> FloatArray:
    """D_a of the same pair, the same in both directions, at finite real orders a >= 1.

    The mean of phi_a under Q is integrated over [-3u - 22, (2a+2) u + 22]: beyond, the logarithm of the integrand
    has a slope of at least 20 towards 0 (proof: notebooks/mathematics.md, Replacement in a Poisson sample). Where that
    is too far, and everywhere as an upper limit, stand 2 a u^2, the curve without sampling, and, as Q is at least
    (1-q) N(0, 1), the curve of P against N(0, 1) plus log 1/(1-q).
    """
    plain = 2.0 * u * u * orders
    low, high = -3.0 * u - 22.0, 2.0 * (orders + 1.0) * u + 22.0
    near = high - low <= WIDEST_SEARCH
    curve = plain.copy()
    if not near.all():
        curve[~near] = subsampled_gaussian_curve(u, rate, orders[~near]) - math.log1p(-rate)
    for i in np.flatnonzero(near).tolist():
        b = float(orders[i]) - 1.0
        log_mean = _integrate(b, rate, u, np.arange(math.floor(low), math.ceil(high[i]) + 1.0))
        curve[i] = divergence_from_log_mean(b, log_mean - 0.5 * math.log(2 * math.pi))
    return np.minimum(curve, plain)


def _integrate(b: float, rate: float, u: float, edges: FloatArray) -> float:
    """Log of the integral of `fill_log_terms`, over the panels between the edges that are not negligible."""

    def log_terms(points: FloatArray) -> FloatArray:
        logs = np.empty_like(points)
        fill_log_terms(b, rate, u, points, logs)
        return logs

    seen = log_terms(np.concatenate([edges, (edges[:-1] + edges[1:]) / 2]))
    ends, middles = seen[: edges.size], seen[edges.size :]
    matters = np.maximum(np.maximum(ends[:-1], ends[1:]), middles) > np.max(seen) - 80.0
    first, last = (int(place) for place in np.flatnonzero(matters)[[0, -1]])
    kept = np.flatnonzero(matters)
    if kept.size == last - first + 1:
        return log_integral(log_terms, edges[first : last + 2])
    breaks = np.flatnonzero(np.diff(kept) > 1) + 1
    pieces = [log_integral(log_terms, edges[part[0] : part[-1] + 2]) for part in np.split(kept, breaks)]
    return float(np.logaddexp.reduce(pieces))
