"""How much shuffling hides one report of any epsilon0-DP randomizer: a bound that knows what others' reports are, too.

P0 and P1 are the report of the user whose input changes, R that of another one, p = e^epsilon0. Slots
(`accountant.events.shuffled_bits`) with G = P0, which is at most p R: with J geometric, of P(J = j) = (1 - 1/p)^j/p,
and independent Y_i = (P0 - u P1)/R_i at R_i's report,

    H(u) <= E_J 1/(n - J) E (Y_1 + ... + Y_(n-J))_+ + P(J >= n) D(u).

R psi((P0 - u P1)/R) is convex and homogeneous in all three densities, of which any two have a ratio of p at most. So
the mean is the largest where they are 1 or p everywhere: rays that are mixed so that all three distributions have a
mass of 1. The mean is linear in the mixture, which may be one of at most three rays. That of (p, 1, 1), (1, p, 1) and
(1, 1, p) is response with three values, which data reach; the general bound (`accountant.events.blanket`) does not know
that R has no more mass than 1. Proofs: notebooks/mathematics.md, Shuffled reports.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.events.randomized_response import log_one_report
from accountant.events.shuffled_bits import SLACK, groups, slots_of
from accountant.events.shuffled_sums import log_chords, place_nodes
from accountant.numerics.kernel import FloatArray
from accountant.numerics.scipy_special import erfcx
from accountant.patience import spend

__all__ = ["log_any_delta", "mixtures"]

FEWEST = 20.0
"""Users, times e^-epsilon0, from which the bound is computed: in smaller crowds slots give most users away."""

LEAST_EPSILON, MOST_EPSILON = 1e-6, 8.0
"""Local epsilons for which it is computed: with larger ones the general bound is as good."""

COARSE, FINE = np.geomspace(0.03, 100.0, 48), np.geomspace(0.86, 1.16, 9)
"""Thetas that are tried, in units of one over the sum's deviation at first, then of the best of these."""

LARGEST = 600.0
"""Largest theta times Y."""

LEAST_SHARE = 1e-25
"""A probability of numbers of slots that matters for their theta."""

ROUNDING = 4e-15
"""Of the local epsilon: what points may be off by; and relatively what probabilities and sums of few terms may."""

SUMS = 2.5e6
"""Operations (see `accountant.patience`) of the sums of one group of slots."""

WHAT = "bounds on shuffled reports"


class Mixtures(NamedTuple):
    """Rays of all mixtures, in rows: P0/R and P1/R, and R's probabilities, 0 where there are fewer rays than three."""

    first: FloatArray
    second: FloatArray
    masses: FloatArray


@lru_cache(maxsize=32)
def mixtures(epsilon: float) -> Mixtures:
    """All vertices of the mixtures of rays, with probabilities in rationals before they are rounded."""
    p = Fraction(math.exp(epsilon) * (1.0 + ROUNDING))
    rays = [tuple(p if each else Fraction(1) for each in ray) for ray in itertools.product((0, 1), repeat=3)][1:-1]
    found = dict[tuple[tuple[int, Fraction], ...], None]()
    for some in itertools.combinations(range(6), 3):
        shares = solve_three([rays[k] for k in some])
        if shares is not None and min(shares) >= 0:
            found[tuple((k, share) for k, share in zip(some, shares, strict=True) if share)] = None
    first, second, masses = np.ones((3, len(found), 3))
    masses[:] = 0.0
    for row, mixture in enumerate(found):
        for place, (k, share) in enumerate(mixture):
            x, y, r = rays[k]
            first[row, place], second[row, place], masses[row, place] = float(x / r), float(y / r), float(share * r)
    return Mixtures(first, second, masses)


def solve_three(rays: list[tuple[Fraction, ...]]) -> tuple[Fraction, ...] | None:
    """Shares of three rays whose sum is (1, 1, 1), by Cramer's rule; None where they are not independent."""

    def determinant(a: tuple[Fraction, ...], b: tuple[Fraction, ...], c: tuple[Fraction, ...]) -> Fraction:
        return (
            a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])
        )

    one = (Fraction(1),) * 3
    whole = determinant(*rays)
    if whole == 0:
        return None
    return tuple(determinant(*[one if k == place else rays[k] for k in range(3)]) / whole for place in range(3))


def log_any_delta(epsilon: float, users: int, point: float) -> float:
    """Log of an upper bound on H(e^point), point >= 0; infinite where it is not computed."""
    if not (LEAST_EPSILON <= epsilon <= MOST_EPSILON and users * math.exp(-epsilon) >= FEWEST and point < epsilon):
        return math.inf
    hidden = slots_of(-epsilon, users)
    known = log_one_report(epsilon, 1, point)
    kinds = mixtures(epsilon)
    # no value is less than it is
    values = kinds.first - math.exp(point - ROUNDING * epsilon) * kinds.second
    logs = known + np.log(hidden.fewest)
    for some in groups(hidden):
        some = slice(some.start, some.start + int(np.sum(hidden.fewest[some] >= 2.0)))  # fewest come last
        if some.stop > some.start:
            spend(SUMS, WHAT)
            logs[some] = np.fmin(logs[some], log_sums(values, kinds.masses, hidden.fewest[some]))
    with np.errstate(divide="ignore"):
        none = known + float(np.log(hidden.none))
    return float(np.logaddexp.reduce(np.append(logs + np.log(hidden.masses / hidden.fewest), none))) + SLACK


def log_sums(values: FloatArray, masses: FloatArray, slots: FloatArray) -> FloatArray:
    """Logs of bounds on E (Y_1 + ... + Y_M)_+ for numbers M >= 2 of slots, all with a theta that is good for the first.

    As in `accountant.events.shuffled_sums`, of each kind alone: with tilted probabilities q |phi(theta + i w)|^2 is
    phi(theta)^2 (1 - 4 sum q_k q_l sin^2(w (y_k - y_l)/2)), and chords between nodes d apart have V d^2/4 added.
    """
    most = float(slots[0])
    deviation = math.sqrt(most * float(np.max(np.sum(masses * values**2, axis=1))))
    theta = best_theta(values, masses, most, COARSE / deviation)
    theta = best_theta(values, masses, most, FINE * theta)
    log_means, tilted, variances = tilt(values, masses, np.array([theta]))
    log_means, tilted, variances = log_means[0], tilted[0], variances[0]
    nodes, _ = place_nodes(1.0 / math.sqrt(most * float(variances.max())))
    less = np.zeros((len(values), nodes.size))
    for k, l in itertools.combinations(range(3), 2):  # noqa: E741
        weights = 4.0 * (1.0 - ROUNDING) * tilted[:, k] * tilted[:, l]
        apart = np.where(weights > 0.0, values[:, k] - values[:, l], 0.0)
        less -= weights[:, None] * np.sin(0.5 * apart[:, None] * nodes) ** 2
    both = np.stack([less[:, :-1], less[:, 1:]]) + (1.0 + 1e-11) * variances[:, None] * np.diff(nodes) ** 2 / 4.0
    both = np.where(np.min(both, axis=0) > 0.0, 0.0, both)  # no chord is cut off at one end only: f is not convex
    with np.errstate(divide="ignore"):
        starts, ends = 0.5 * np.log1p(np.maximum(both, -1.0))
    # by Hoelder's inequality slots of several kinds are below those of the worst kind
    logs = [
        log_chords(theta, nodes, np.exp(slots[:, None] * start), np.exp(slots[:, None] * end)) + slots * log_mean
        for start, end, log_mean in zip(starts, ends, log_means.tolist(), strict=True)
    ]
    return np.asarray(np.max(logs, axis=0))


def best_theta(values: FloatArray, masses: FloatArray, slots: float, thetas: FloatArray) -> float:
    """That with the least bound if the sum were normal when tilted; any theta is valid."""
    thetas = thetas[thetas * float(np.abs(values).max()) < LARGEST]
    log_means, _, variances = tilt(values, masses, thetas)
    deviations = np.sqrt(slots * variances)
    bounds = slots * log_means + np.log(erfcx(thetas[:, None] * deviations / math.sqrt(2.0)) / thetas[:, None])
    return float(thetas[np.argmin(np.max(bounds, axis=1))])


def tilt(values: FloatArray, masses: FloatArray, thetas: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of all thetas, in the first dimension: log E e^(theta Y), probabilities tilted, and the variance."""
    exponents = thetas[:, None, None] * values
    less = np.sum(masses * np.expm1(exponents), axis=2)
    with np.errstate(divide="ignore"):
        log_means = np.where(less > -0.5, np.log1p(less), np.log(np.sum(masses * np.exp(exponents), axis=2)))
    tilted = masses * np.exp(exponents - log_means[:, :, None])
    variances = np.zeros_like(log_means)
    for k, l in itertools.combinations(range(3), 2):  # noqa: E741
        variances += tilted[:, :, k] * tilted[:, :, l] * (values[:, k] - values[:, l]) ** 2
    return log_means, tilted, variances
