"""Curves as rows of numbers, which a compiled search for the best order can price."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.events.answers import BITS, LAPLACE, LINEAR, SAMPLED_GAUSSIAN, SCREENING, Row
from accountant.events.event import Event
from accountant.events.laplace import laplace_divergence
from accountant.events.randomized_response import bernoulli_divergence
from accountant.events.screening_search import Pair, likely_pair, log_mean_of, pair_at, screening_limit, worst_pair
from accountant.events.subsampled_gaussian import subsampled_gaussian_log_mean
from accountant.events.subsampled_moments import Derivatives, cumulant_apart, moments, terms
from accountant.numerics.kernel import FloatArray, Interface, Kernel
from accountant.numerics.special import divergence_from_log_mean, log1p_and_excess, log_mixture_ratio_at

__all__ = [
    "NUDGE",
    "Place",
    "addresses",
    "addresses_anywhere",
    "curve_by_address",
    "linear_curve",
    "row_at",
    "table_of",
]

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


class Found(NamedTuple):
    """K = b D at one order, scaled as `Derivatives`, or at b = inf the curve alone; and the new `Place`."""

    value: float
    first: float
    second: float
    votes: float
    sign: float


curve_by_address = Interface(
    Found(0.0, 0.0, 0.0, 0.0, 0.0), Row(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0, False, Place(0.0, 0.0)
)
"""K of a row of one kind but LINEAR: a run compiles the kinds that it holds.

A guarantee is built on K/b, the value. The derivatives only guide the search for an order, and so does the value of a
screening unless it is `certified`: it is then that of some pair of counts. `place` only saves time.
"""


def gaussian_row(row: Row, b: float, certified: bool, place: Place) -> Found:
    """Of N(mu, 1) against N(0, 1) sampled at a rate below 1; nan, also for the votes, where moments would overflow."""
    if b == math.inf:
        return Found(math.inf if row.mu > 0.0 else 0.0, 0.0, 0.0, place.votes, place.sign)
    found = cumulant_apart(b, row.mu, row.rate)
    if math.isnan(found.value):
        inner = moments(b, row.mu, row.rate)
        if not inner.value > 0.0:
            return Found(math.nan, math.nan, math.nan, math.nan, 0.0)
        found = from_moments(b, inner)
    # a mixture is never further from N(0,1) than its component
    value = min(found.value, 0.5 * (1.0 + b) * row.mu * row.mu)
    return Found(value, found.first, found.second, place.votes, place.sign)


def gaussian_row_anywhere(row: Row, b: float, certified: bool, place: Place) -> Found:
    """The same, and at the rare orders where moments would overflow: it takes three times as long to compile."""
    if b == math.inf:
        return Found(math.inf if row.mu > 0.0 else 0.0, 0.0, 0.0, place.votes, place.sign)
    mu, rate = row.mu, row.rate
    found = cumulant_apart(b, mu, rate)
    inner = moments(b, mu, rate) if math.isnan(found.value) else Derivatives(math.nan, math.nan, math.nan)
    if inner.value > 0.0:
        found = from_moments(b, inner)
    elif math.isnan(found.value):
        below, above = b * math.exp(-NUDGE), b * math.exp(NUDGE)
        found = from_differences(
            b,
            divergence_from_log_mean(below, subsampled_gaussian_log_mean(below, mu, rate)),
            divergence_from_log_mean(b, subsampled_gaussian_log_mean(b, mu, rate)),
            divergence_from_log_mean(above, subsampled_gaussian_log_mean(above, mu, rate)),
        )
    value = min(found.value, 0.5 * (1.0 + b) * mu * mu)
    return Found(value, found.first, found.second, place.votes, place.sign)


def pure_row(row: Row, b: float, certified: bool, place: Place) -> Found:
    """Of Laplace noise or bits."""
    if b == math.inf:
        return Found(row.high * row.mu, 0.0, 0.0, place.votes, place.sign)
    each = pure_cumulant(b, row)
    return Found(each.value, each.first, each.second, place.votes, place.sign)


def screening_row(row: Row, b: float, certified: bool, place: Place) -> Found:
    """Of a noisy screening, at its worst or a likely pair of counts."""
    if b == math.inf:
        limit = screening_limit(row.sigma, row.threshold, row.low, row.high, row.rate)
        return Found(limit, 0.0, 0.0, place.votes, place.sign)
    if certified:
        worst = worst_pair(b, row.sigma, row.threshold, row.low, row.high, row.rate, place.votes, place.sign)
    else:
        worst = likely_pair(b, row.sigma, row.threshold, row.low, row.high, row.rate, place.votes, place.sign)
    pair = pair_at(worst.votes, row.sigma, worst.sign * row.threshold, row.rate)
    guide = pair_cumulant(b, pair, row.rate)
    curve = divergence_from_log_mean(b, worst.log_mean)
    return Found(curve, guide.first, guide.second, worst.votes, worst.sign)


@Kernel
def linear_curve(row: Row, b: float) -> Found:
    """As the others, of a row of kind LINEAR."""
    slope = row.slope
    if b == math.inf:
        return Found(math.inf if slope > 0.0 else 0.0, 0.0, 0.0, 0.0, 0.0)
    return Found(slope * (1.0 + b), slope * b * b, 2.0 * slope * b * b, 0.0, 0.0)


CURVES = {SAMPLED_GAUSSIAN: gaussian_row, SCREENING: screening_row, LAPLACE: pure_row, BITS: pure_row}
_addresses = np.zeros(5, np.int64)
_known = {LINEAR}
_address_of = cache(curve_by_address.address_of)


def addresses(table: FloatArray) -> NDArray[np.int64]:
    """By kind of row, where its kernel is; those of the kinds in a table are compiled."""
    kinds = table[:, 0].tolist()
    if not _known.issuperset(kinds):
        for kind in {*kinds} - _known:
            _addresses[int(kind)] = _address_of(CURVES[kind])
            _known.add(kind)
    return _addresses


def addresses_anywhere(table: FloatArray) -> NDArray[np.int64]:
    """The same, from now on with sampled Gaussians at every order."""
    _addresses[int(SAMPLED_GAUSSIAN)] = _address_of(gaussian_row_anywhere)
    _known.add(SAMPLED_GAUSSIAN)
    return addresses(table)


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
def pure_curve(row: Row, b: float) -> float:
    """The curve of a row of Laplace noise or of bits at order 1 + b."""
    order = 1.0 + b
    return row.high * (
        laplace_divergence(order, row.mu) if row.kind == LAPLACE else bernoulli_divergence(order, row.mu)
    )


@Kernel
def pure_cumulant(b: float, row: Row) -> Derivatives:
    """K as `Derivatives`, of Laplace noise or bits.

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
    """K as `Derivatives`, of one Bernoulli pair."""
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
