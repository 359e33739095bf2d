"""Gaussian noise on samples of a fixed size, where the record, its replacement and whoever is drawn instead differ.

With g the share of records in a sample, A = (1-g) R + g P and B = (1-g) R + g Q for normal P, Q, R of which any two are
at most mu apart. The worst are isosceles: P is mu from Q and R, which are some b apart, or Q is mu from P and R. As b
grows H(A||B) falls and H(B||A) rises (notebooks/mathematics.md, Runs of samples of a fixed size).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from accountant.adjacency import Adjacency
from accountant.events.event import Event
from accountant.events.gaussian import gaussian_log_profile
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import log_ndtr, ndtr
from accountant.numerics.special import log_mixture_ratio

__all__ = ["FARTHEST", "DrawnTriples", "log_height_of_triple", "nodes_of"]

END = 9.0
"""Standard deviations beyond which the integrand is left out."""

SPARE = 1e-14
"""More than the rule and its rounding err by."""

FARTHEST = 8.0
"""Largest mu for which steps are not too small."""

VALUE = 50.0
"""Operations (see `accountant.patience`) of a node."""


@dataclass(frozen=True)
class DrawnTriples(Event):
    """All triples whose P is `mu` from Q and R, where these are between `near` and `far` times mu apart.

    Forward the profile is that of the nearest Q and R, backward that of the farthest.
    """

    mu: float
    rate: float
    near: float
    far: float
    adjacency: ClassVar[Adjacency] = Adjacency.ADD_REMOVE  # type: ignore[misc]  # both directions differ

    def _curve(self, orders: FloatArray) -> FloatArray:
        """The largest loss; no other order is asked for."""
        return np.where(np.isinf(orders), math.inf, math.nan)

    def _profile_work(self) -> float:
        counts = (nodes_of(*lengths)[2].size for lengths in self._lengths() if lengths[2] > 0.0)
        return 500.0 + VALUE * sum(counts)

    def _lengths(self) -> tuple[tuple[float, float, float], ...]:
        """Of P from Q, of P from R and of Q from R, forward; and the same with P and Q exchanged, backward."""
        mu = self.mu
        return (mu, mu, self.near * mu), (mu, self.far * mu, mu)

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        forward, backward = (log_height_of_triple(*lengths, self.rate, epsilons) for lengths in self._lengths())
        return forward, backward


def log_height_of_triple(mu: float, own: float, base: float, rate: float, epsilons: FloatArray) -> FloatArray:
    """Log of H(A||B) at epsilons >= 0 at most, where P is mu from Q and `own` from R, which is `base` from Q.

    H(A||B) = g sup P - e^e Q - (1 - g) (e^t - 1) R with e^e = 1 + g (e^t - 1). Let v run along the line through Q and R
    from the point next to P, which is w from it: across, what is best for each v is a half-line.
    """
    inner = log_mixture_ratio(1 / rate, epsilons)
    most: FloatArray = math.log(rate) + gaussian_log_profile(mu, inner)
    if base == 0.0:
        return most
    place, w, nodes = nodes_of(mu, own, base)
    q, r, v = -place, base - place, nodes[:, None]
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        log_r = math.log1p(-rate) + inner + np.log(-np.expm1(-inner))
        logs = np.logaddexp(epsilons + q * v - q * q / 2, log_r + r * v - r * r / 2)
        end = w / 2 - logs / w
        height = ndtr(end) - np.exp(logs + log_ndtr(end - w))
        whole = np.sum(height * np.exp(-(v**2) / 2), axis=0) * ((nodes[1] - nodes[0]) / math.sqrt(2 * math.pi))
        found: FloatArray = math.log(rate) + np.log(np.maximum(whole, 0.0) + SPARE)
    return np.minimum(found, most)


def nodes_of(mu: float, own: float, base: float) -> tuple[float, float, FloatArray]:
    """How far Q is from the point next to P, and that from P; and the nodes of the trapezoidal rule.

    The integrand has no singularity within pi/base of the real line, and grows like exp((1 + s^2) d^2/2) at a distance
    d, with s the largest slope of the half-lines' ends: so the rule errs by exp((1 + s^2) d^2/2 - 2 pi d/step) for
    every d up to there, about, which is below e^-35 for some.
    """
    place = (mu * mu + base * base - own * own) / (2 * base)
    w = math.sqrt(max(mu * mu - place * place, 0.0))
    slope = max(abs(place), abs(base - place)) / w
    step = min(0.7 / math.hypot(1.0, slope), 0.5 / base, 0.5)
    many = math.ceil(END / step)
    return place, w, step * np.arange(-many, many + 1.0)
