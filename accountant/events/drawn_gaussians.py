"""Rényi curve of Gaussian noise on records drawn for a sample: moments are means over the numbers of draws.

Given that a record is in the sample, which it is with probability g, it was drawn k times with probability w_k. The
moment is that of the mixtures (1-g) N(0, 1) + g N(k mu, 1) against N(0, 1), plus a (a-1) times the integral over t > 0
of e^{-at} (g H - H'), with H the mean over k of the profiles of N(k mu, 1), which are assumed in both directions, and
H' that of N(0, 1) against the mixtures. H and H' are the same at every order: they are computed once, at the nodes of
Gauss-Legendre rules on panels that grow with t and shrink towards the largest loss of H'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.events.gaussian import gaussian_log_profile, gaussian_log_profiles
from accountant.events.subsampled_gaussian import subsampled_gaussian_curve
from accountant.numerics.kernel import FloatArray
from accountant.numerics.quadrature import gauss_legendre
from accountant.numerics.scipy_special import logsumexp
from accountant.numerics.special import divergence_from_log_mean, log_mixture_ratio
from accountant.patience import spend

__all__ = ["UNSEEN", "DrawnGaussians", "log_expm1_ratio", "log_height_of_few", "log_heights", "mean_curve"]

NODES = 16
"""Nodes of a panel."""

NEAREST, FARTHEST = 1e-19, 60.0
"""Losses between which panels grow; the first is one panel, and beyond the profile counts as at the last."""

UNSEEN = -45.0
"""Log of the share of a sum that no float holds."""

PLACE = 1e-15
"""Above what the place of a profile errs by, relative to 1 and to it."""

VALUE = 300.0
"""Operations (see `accountant.patience`) of a value of a profile."""


class DrawnGaussians(NamedTuple):
    """The chance g of any draw, and by number of draws log w_k, k mu, and whether the smaller direction counts as 1."""

    rate: float
    log_weights: tuple[float, ...]
    distances: tuple[float, ...]
    rare: tuple[bool, ...]


def log_heights(drawn: DrawnGaussians, epsilons: FloatArray) -> FloatArray:
    """Logs of g w_k H_e, H the profile of k mu at the e of which `epsilons` are what is left of it, by rows."""
    inner = log_mixture_ratio(1 / drawn.rate, epsilons) if drawn.rate < 1.0 else epsilons
    heights = gaussian_log_profiles(np.array(drawn.distances), inner)
    return np.asarray(np.array(drawn.log_weights)[:, None] + (math.log(drawn.rate) + heights))


def mean_curve(drawn: DrawnGaussians, orders: FloatArray) -> FloatArray:
    """The divergences of the mean of the moments at finite orders."""
    b, weights = orders - 1.0, np.array(drawn.log_weights)[:, None]
    # without a sample: what all but the largest terms come to is seldom seen
    most = weights + log_expm1_ratio(b, np.outer(np.square(drawn.distances) / 2, orders))
    terms = most.copy()
    for row in np.flatnonzero((most > np.max(most, axis=0) + UNSEEN).any(axis=1)).tolist():
        curve = subsampled_gaussian_curve(drawn.distances[row], drawn.rate, orders)
        terms[row] = drawn.log_weights[row] + log_expm1_ratio(b, curve)
        if drawn.rare[row]:
            counted = np.logaddexp(terms[row], drawn.log_weights[row] + math.log(drawn.rate))
            terms[row] = np.minimum(counted, most[row])
    with np.errstate(divide="ignore"):
        more = np.log(orders * reverse_excess(drawn, orders))
    log_means = np.minimum(np.logaddexp(logsumexp(terms, axis=0), more), logsumexp(most, axis=0))
    return np.array([divergence_from_log_mean(*each) for each in zip(b.tolist(), log_means.tolist(), strict=True)])


def log_expm1_ratio(b: FloatArray, curve: FloatArray) -> FloatArray:
    """log of (e^{b c} - 1)/b, which is log c at b = 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        x = b * curve
        small = np.log(curve) + np.log(np.where(x > 0.0, np.expm1(np.minimum(x, 1.0)) / np.where(x > 0.0, x, 1.0), 1.0))
        large = x + np.log(-np.expm1(-x)) - np.log(b)
    return np.where(x < 1.0, small, large)


def reverse_excess(drawn: DrawnGaussians, orders: FloatArray) -> FloatArray:
    """Integrals over t > 0 of e^{-at} (g H - H') over all groups that are not rare, rounded up."""
    places, assumed, real, last = excess_table(drawn)
    found = np.empty_like(orders)
    for i, order in enumerate(orders.tolist()):
        with np.errstate(under="ignore"):
            fall = np.exp(-order * places)
        more = float(np.dot(fall, assumed)) * (1 + 1e-12) - float(np.dot(fall, real)) * (1 - 1e-12)
        found[i] = max(more, 0.0) + last * math.exp(-min(FARTHEST * order, 700.0)) / order
    return found


@lru_cache(maxsize=64)
def excess_table(drawn: DrawnGaussians) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Losses, g H and H' there times the weights of the rule, and g H at the last loss, beyond which it is no more."""
    rate, lost = drawn.rate, -math.log1p(-drawn.rate)
    growing = np.geomspace(NEAREST, FARTHEST, 2 * math.ceil(math.log2(FARTHEST / NEAREST)) + 1)
    edges = np.unique(np.concatenate([[0.0], growing, np.minimum(lost * (1 - 0.5 ** np.arange(1.0, 54.0)), FARTHEST)]))
    nodes, weights = gauss_legendre(NODES)
    widths = np.diff(edges)
    places = (edges[:-1, None] + widths[:, None] * nodes).ravel()
    shares = (widths[:, None] * weights).ravel()
    inner = log_mixture_ratio(1 / rate, places)
    # as in `Event._subsampled_log_profile`
    gone = (1 - rate) / rate * np.expm1(places)
    reached = np.flatnonzero((gone < 1.0) & (places < lost))
    kept = 1.0 - gone[reached]
    reverse = places[reached] - np.log(kept)
    assumed, real, last = np.zeros(places.size), np.zeros(places.size), 0.0
    end = log_mixture_ratio(1 / rate, np.array([FARTHEST]))
    groups = [each for each in zip(drawn.log_weights, drawn.distances, drawn.rare, strict=True) if not each[2]]
    spend(VALUE * 2 * places.size * len(groups), f"the profiles of {len(groups)} numbers of draws", once=drawn)
    for log_weight, distance, _ in groups:
        weight = math.exp(log_weight)
        with np.errstate(under="ignore"):
            assumed += weight * rate * np.exp(gaussian_log_profile(distance, inner))
            real[reached] += weight * rate * kept * np.exp(gaussian_log_profile(distance, reverse))
            last += weight * rate * float(np.exp(gaussian_log_profile(distance, end))[0]) * (1 + 1e-12)
    return places, assumed * shares, real * shares, last


def log_height_of_few(
    inner: FloatArray,
    log_shares: list[FloatArray],
    shifts: FloatArray,
    hidden: Callable[[FloatArray, float], FloatArray],
) -> FloatArray:
    """Log of g H_e(P || (1 - B) R + B Q) at e = `inner`, from the shares of R and of Q_1, Q_2, ... alone.

    Where C is a share v of a distribution, H_e(P || C + the rest) <= H_{e + log v}(P || C/v).
    """
    log_kept = np.logaddexp.reduce(log_shares)
    at = inner + log_kept - PLACE * (1.0 + inner)
    logs = np.full_like(inner, -math.inf)
    for drawn, log_share in enumerate(log_shares[1:], 1):
        both = np.logaddexp(log_share, log_shares[0]) if drawn == 1 else log_share  # R is no nearer than Q_1 may be
        logs = np.logaddexp(logs, both - log_kept + hidden(np.maximum(at, 0.0), float(shifts[drawn - 1])))
    return np.where(at >= 0.0, logs, math.inf)
