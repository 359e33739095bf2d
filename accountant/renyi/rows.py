"""Events as rows of numbers, which a compiled search for the best order can price.

A row is (kind, parameters..., guess, side): kind LINEAR (slope), SAMPLED_GAUSSIAN (mu, rate) or
SCREENING (sigma, threshold, lowest and highest count, rate, then where the worst pair was last).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from accountant.events.event import Event
from accountant.events.gaussian import (
    Gaussian,
    GaussianDP,
    GaussianLike,
    ZeroConcentratedDP,
    subsampled_gaussian_log_mean,
)
from accountant.events.noisy_max import GNMax
from accountant.events.screening import DataDependentScreening, NoisyScreening
from accountant.events.screening_search import likely_pair, log_mean_of, pair_at, screening_limit, worst_pair
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.subsampled_moments import moments, terms
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import divergence_from_log_mean, log1p_and_excess, log_mixture_ratio_at

__all__ = ["curve_limit", "rows_of", "scaled_cumulant"]

LINEAR, SAMPLED_GAUSSIAN, SCREENING = 0.0, 1.0, 2.0
WIDTH = 8
NUDGE = 1e-8
"""Step in log b of the differences that stand in for derivatives where these would overflow."""


def _gaussian_row(event: GaussianLike, rate: float) -> tuple[float, ...]:
    mu = event._mu()
    if rate == 1.0 or mu == 0.0:
        return LINEAR, mu * mu / 2
    return SAMPLED_GAUSSIAN, mu, rate


def _concentrated_row(event: ZeroConcentratedDP, rate: float) -> tuple[float, ...] | None:
    return (LINEAR, event.rho) if rate == 1.0 else None


def _screening_row(event: NoisyScreening | DataDependentScreening, rate: float) -> tuple[float, ...]:
    low, high = event._counts()
    return SCREENING, event.sigma, event.threshold, low, high, rate, event.threshold, 0.0


# exact classes: a subclass may have a curve of its own
_ROWS: dict[type[Event], Callable[..., tuple[float, ...] | None]] = {
    Gaussian: _gaussian_row,
    GaussianDP: _gaussian_row,
    GNMax: _gaussian_row,
    ZeroConcentratedDP: _concentrated_row,
    NoisyScreening: _screening_row,
    DataDependentScreening: _screening_row,
}
_REST = tuple((0.0,) * (WIDTH - n) for n in range(WIDTH + 1))


def rows_of(events: Sequence[Event]) -> list[tuple[float, ...]] | None:
    """One row of WIDTH numbers for every event, or None if some event cannot be put that way."""
    rows = []
    for event in events:
        rate = 1.0
        if type(event) is PoissonSubsampled:
            rate, event = event.rate, event.event
        write = _ROWS.get(type(event))
        row = None if write is None else (LINEAR, 0.0) if rate == 0.0 else write(event, rate)
        if row is None:
            return None
        rows.append(row + _REST[len(row)])
    return rows


@Kernel
def curve_limit(row: FloatArray) -> float:
    """The curve at order infinity."""
    if row[0] == SCREENING:
        return screening_limit(row[1], row[2], row[3], row[4], row[5])
    return math.inf if row[1] > 0.0 else 0.0


@Kernel
def scaled_cumulant(row: FloatArray, b: float, certified: bool) -> tuple[float, float, float]:
    """(K/b, b K' - K, b^2 K'') at order 1 + b, where K = b D is b times the curve; K/b is what a guarantee is built on.

    The other two only guide the search for an order, and so does the first unless it is `certified`: of a screening it
    is then that of some pair of counts. Notes in the row which pair that was.
    """
    if row[0] == LINEAR:
        return row[1] * (1.0 + b), row[1] * b * b, 2.0 * row[1] * b * b
    if row[0] == SAMPLED_GAUSSIAN:
        return sampled_gaussian_cumulant(b, row[1], row[2])
    if certified:
        log_mean, row[6], row[7] = worst_pair(b, row[1], row[2], row[3], row[4], row[5], row[6], row[7])
    else:
        log_mean, row[6], row[7] = likely_pair(b, row[1], row[2], row[3], row[4], row[5], row[6], row[7])
    pair = pair_at(row[6], row[1], row[7] * row[2], row[5])
    curve = divergence_from_log_mean(b, log_mean)
    guide = pair_cumulant(b, pair, row[5])
    return curve, guide[1], guide[2]


@Kernel
def from_moments(b: float, mean: float, second: float, third: float) -> tuple[float, float, float]:
    """(K/b, b K' - K, b^2 K'') of K = log(1 + G) from G/b, b G' - G and b^2 G''."""
    whole = 1.0 + b * mean
    cumulant, excess = log1p_and_excess(b * mean)
    first = (second - excess) / whole
    return cumulant / b, first, third / whole - (first + cumulant) ** 2


@Kernel
def from_differences(b: float, below: float, at: float, above: float) -> tuple[float, float, float]:
    """The same from the curve at b e^-NUDGE, b and b e^NUDGE; nan for the second derivative, which would be noise."""
    low, middle, high = b * math.exp(-NUDGE) * below, b * at, b * math.exp(NUDGE) * above
    slope = (high - low) / (2.0 * NUDGE)
    return at, slope - middle, math.nan


@Kernel
def sampled_gaussian_cumulant(b: float, mu: float, rate: float) -> tuple[float, float, float]:
    """As `scaled_cumulant`."""
    mean, second, third = moments(b, mu, rate)
    if mean > 0.0:
        curve, first, bent = from_moments(b, mean, second, third)
    else:
        below, above = b * math.exp(-NUDGE), b * math.exp(NUDGE)
        curve, first, bent = from_differences(
            b,
            divergence_from_log_mean(below, subsampled_gaussian_log_mean(below, mu, rate)),
            divergence_from_log_mean(b, subsampled_gaussian_log_mean(b, mu, rate)),
            divergence_from_log_mean(above, subsampled_gaussian_log_mean(above, mu, rate)),
        )
    # a mixture is never further from N(0,1) than its component
    return min(curve, 0.5 * (1.0 + b) * mu * mu), first, bent


@Kernel
def pair_cumulant(b: float, pair: tuple[float, float, float, float], rate: float) -> tuple[float, float, float]:
    """As `scaled_cumulant`, of one Bernoulli pair."""
    up, down = pair[2], log_mixture_ratio_at(rate, pair[3])
    if up < 30.0 and b * up < 300.0 and down > -30.0 and b * down > -300.0 and b >= 1e-10:
        at_pass, at_fail = terms(b, math.expm1(up)), terms(b, math.expm1(down))
        p, q = math.exp(pair[0]), math.exp(pair[1])
        forward = p * at_pass[0] + q * at_fail[0]
        p_back, q_back = p * math.exp(up), q * math.exp(down)
        pass_back, fail_back = terms(b, math.expm1(-up)), terms(b, math.expm1(-down))
        if rate < 1.0 and p_back * pass_back[0] + q_back * fail_back[0] > forward:
            p, q, at_pass, at_fail = p_back, q_back, pass_back, fail_back
        return from_moments(
            b,
            p * at_pass[0] + q * at_fail[0],
            p * at_pass[1] + q * at_fail[1],
            p * at_pass[2] + q * at_fail[2],
        )
    below, above = b * math.exp(-NUDGE), b * math.exp(NUDGE)
    return from_differences(
        b,
        divergence_from_log_mean(below, log_mean_of(below, pair, rate)),
        divergence_from_log_mean(b, log_mean_of(b, pair, rate)),
        divergence_from_log_mean(above, log_mean_of(above, pair, rate)),
    )
