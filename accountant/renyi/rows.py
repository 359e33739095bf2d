"""Curves as rows of numbers, which a compiled search for the best order can price."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from accountant.events.answers import BITS, LAPLACE, LINEAR, SAMPLED_GAUSSIAN, SCREENING, Row
from accountant.events.event import Event
from accountant.events.gaussian import subsampled_gaussian_log_mean
from accountant.events.laplace import laplace_divergence
from accountant.events.randomized_response import bernoulli_divergence
from accountant.events.screening_search import Pair, likely_pair, log_mean_of, pair_at, screening_limit, worst_pair
from accountant.events.subsampled_moments import Derivatives, moments, terms
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import divergence_from_log_mean, log1p_and_excess, log_mixture_ratio_at

__all__ = ["NUDGE", "Place", "curve_limit", "pure_curve", "row_at", "scaled_cumulant", "table_of"]

NUDGE = 1e-8
"""Step in log b of the differences that stand in for derivatives where these would overflow."""


class Place(NamedTuple):
    """Where the worst pair of a screening was last, as `WorstPair` says it; `sign` 0: it is not known yet."""

    votes: float
    sign: float


def _rows_of(events: Iterable[Event]) -> Iterator[Row]:
    for event in events:
        row = event._row()
        if row is None:
            return
        yield row


def table_of(events: Iterable[Event]) -> FloatArray:
    """One row for every event, which `row_at` reads, up to the first whose curve is of no compiled kind."""
    # one row at a time, as the garbage collector would go through a list of a million of them again and again
    return np.fromiter(chain.from_iterable(_rows_of(events)), float).reshape(-1, len(Row._fields))


@Kernel
def row_at(table: FloatArray, i: int) -> Row:
    """Row number i."""
    each = table[i]
    return Row(each[0], each[1], each[2], each[3], each[4], each[5], each[6], each[7])


@Kernel
def curve_limit(row: Row) -> float:
    """The curve at order infinity."""
    if row.kind == SCREENING:
        return screening_limit(row.sigma, row.threshold, row.low, row.high, row.rate)
    if row.kind in (LAPLACE, BITS):
        return row.high * row.mu
    return math.inf if row.slope > 0.0 or row.mu > 0.0 else 0.0


@Kernel
def scaled_cumulant(row: Row, b: float, certified: bool, place: Place) -> tuple[Derivatives, Place]:
    """K = b D, b times the curve at order 1 + b; a guarantee is built on its value K/b. And where the worst pair is.

    The derivatives only guide the search for an order, and so does the value of a screening unless it is `certified`:
    it is then that of some pair of counts. `place` only saves time.
    """
    if row.kind == LINEAR:
        slope = row.slope
        return Derivatives(slope * (1.0 + b), slope * b * b, 2.0 * slope * b * b), place
    if row.kind == SAMPLED_GAUSSIAN:
        return sampled_gaussian_cumulant(b, row.mu, row.rate), place
    if row.kind in (LAPLACE, BITS):
        return pure_cumulant(b, row), place
    if certified:
        worst = worst_pair(b, row.sigma, row.threshold, row.low, row.high, row.rate, place.votes, place.sign)
    else:
        worst = likely_pair(b, row.sigma, row.threshold, row.low, row.high, row.rate, place.votes, place.sign)
    pair = pair_at(worst.votes, row.sigma, worst.sign * row.threshold, row.rate)
    guide = pair_cumulant(b, pair, row.rate)
    curve = divergence_from_log_mean(b, worst.log_mean)
    return Derivatives(curve, guide.first, guide.second), Place(worst.votes, worst.sign)


@Kernel
def from_moments(b: float, inner: Derivatives) -> Derivatives:
    """Of K = log(1 + G), from those of G."""
    whole = 1.0 + b * inner.value
    cumulant, excess = log1p_and_excess(b * inner.value)
    first = (inner.first - excess) / whole
    return Derivatives(cumulant / b, first, inner.second / whole - (first + cumulant) ** 2)


@Kernel
def from_differences(b: float, below: float, at: float, above: float) -> Derivatives:
    """Of K, from K/b at b e^-NUDGE, b and b e^NUDGE; nan for the second derivative, which would be noise."""
    low, middle, high = b * math.exp(-NUDGE) * below, b * at, b * math.exp(NUDGE) * above
    slope = (high - low) / (2.0 * NUDGE)
    return Derivatives(at, slope - middle, math.nan)


@Kernel
def sampled_gaussian_cumulant(b: float, mu: float, rate: float) -> Derivatives:
    """As `scaled_cumulant`, of N(mu, 1) against N(0, 1) sampled at a rate below 1."""
    inner = moments(b, mu, rate)
    if inner.value > 0.0:
        found = from_moments(b, inner)
    else:
        below, above = b * math.exp(-NUDGE), b * math.exp(NUDGE)
        found = from_differences(
            b,
            divergence_from_log_mean(below, subsampled_gaussian_log_mean(below, mu, rate)),
            divergence_from_log_mean(b, subsampled_gaussian_log_mean(b, mu, rate)),
            divergence_from_log_mean(above, subsampled_gaussian_log_mean(above, mu, rate)),
        )
    # a mixture is never further from N(0,1) than its component
    return Derivatives(min(found.value, 0.5 * (1.0 + b) * mu * mu), found.first, found.second)


@Kernel
def pure_curve(row: Row, b: float) -> float:
    """The curve of a row of Laplace noise or of bits at order 1 + b."""
    order = 1.0 + b
    return row.high * (
        laplace_divergence(order, row.mu) if row.kind == LAPLACE else bernoulli_divergence(order, row.mu)
    )


@Kernel
def pure_cumulant(b: float, row: Row) -> Derivatives:
    """As `scaled_cumulant`, of Laplace noise or bits.

    With t = mu, a = 1 + b and r = e^{-(a+b) t} one coordinate has K = b t + log N - log(a + b), N = a + b r, and a bit
    K = b t + log(1 + r) - log(1 + e^-t). Where b t is small that cancels.
    """
    t, many = row.mu, row.high
    if not t > 0.0:
        return Derivatives(0.0, 0.0, 0.0)
    if b * t > 1.0:
        twice = 1.0 + 2.0 * b
        r = math.exp(-twice * t)
        if row.kind == BITS:
            first = math.log1p(math.exp(-t)) - math.log1p(r) - 2.0 * b * t * r / (1.0 + r)
            second = (2.0 * b * t / (1.0 + r)) ** 2 * r
        else:
            whole = 1.0 + b + b * r
            rise = (1.0 + r - 2.0 * b * t * r) / whole
            bend = 4.0 * t * r * (b * t - 1.0) / whole
            first = b * (rise - 2.0 / twice) - math.log(whole / twice)
            second = b * b * (bend - rise * rise + 4.0 / twice**2)
        return Derivatives(pure_curve(row, b), many * first, many * second)
    below, above = b * math.exp(-NUDGE), b * math.exp(NUDGE)
    return from_differences(b, pure_curve(row, below), pure_curve(row, b), pure_curve(row, above))


@Kernel
def pair_cumulant(b: float, pair: Pair, rate: float) -> Derivatives:
    """As `scaled_cumulant`, of one Bernoulli pair."""
    up, down = pair.up, log_mixture_ratio_at(rate, pair.down)
    if up < 30.0 and b * up < 300.0 and down > -30.0 and b * down > -300.0 and b >= 1e-10:
        p, q = math.exp(pair.log_pass), math.exp(pair.log_fail)
        at_pass, at_fail = terms(b, math.expm1(up)), terms(b, math.expm1(down))
        p_back, q_back = p * math.exp(up), q * math.exp(down)
        pass_back, fail_back = terms(b, math.expm1(-up)), terms(b, math.expm1(-down))
        forward = p * at_pass.value + q * at_fail.value
        if rate < 1.0 and p_back * pass_back.value + q_back * fail_back.value > forward:
            p, q, at_pass, at_fail = p_back, q_back, pass_back, fail_back
        inner = Derivatives(
            p * at_pass.value + q * at_fail.value,
            p * at_pass.first + q * at_fail.first,
            p * at_pass.second + q * at_fail.second,
        )
        return from_moments(b, inner)
    below, above = b * math.exp(-NUDGE), b * math.exp(NUDGE)
    return from_differences(
        b,
        divergence_from_log_mean(below, log_mean_of(below, pair, rate)),
        divergence_from_log_mean(b, log_mean_of(b, pair, rate)),
        divergence_from_log_mean(above, log_mean_of(above, pair, rate)),
    )
