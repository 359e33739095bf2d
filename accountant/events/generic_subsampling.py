"""Poisson subsampling of an event of which only the Rényi curve is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.roots import minimise
from accountant.numerics.special import divergence_from_log_mean, log_binomial_pmf, log_mixture_ratio_at, logaddexp
from accountant.patience import count_done

if TYPE_CHECKING:
    from accountant.events.event import Event

__all__ = ["generic_subsampled_curve"]

GENERIC_ORDERS = 1_000_000
"""Integer orders up to which the generic subsampling bound is summed; beyond, it goes on from the last sum."""

TERM, GROWTH = 5.0, 300.0
"""Operations (see `accountant.patience`) of a term of a sum, and of what all sums up to an order need of another."""

NEGLIGIBLE = 60.0
"""Logarithm by which a term must be smaller than the largest to be left out of a sum of GENERIC_ORDERS terms."""


@Kernel
def log_binomial_excess(n: int, log_growth: FloatArray, x_log_x: FloatArray, rate: float) -> float:
    """log sum_{j=2}^n C(n,j) g^j (1-g)^(n-j) e^{log_growth[j]}; `x_log_x` holds j log j.

    C(n,j) g^j (1-g)^(n-j) is e^{-n KL(j/n || g)} times the probability of j at rate j/n, where it is the likeliest of
    n + 1 counts: at least 1/(n+1). Terms that this shows to be below e^-NEGLIGIBLE of the largest are left out:
    together they are below any rounding.
    """
    odds, none = math.log(rate) - math.log1p(-rate), n * math.log1p(-rate) + x_log_x[n]
    largest = -math.inf
    for j in range(2, n + 1):
        largest = max(largest, none + j * odds - x_log_x[j] - x_log_x[n - j] + log_growth[j])
    floor = largest - math.log(n + 1.0) - NEGLIGIBLE
    total = -math.inf
    for j in range(2, n + 1):
        if none + j * odds - x_log_x[j] - x_log_x[n - j] + log_growth[j] >= floor:
            total = logaddexp(total, log_binomial_pmf(float(n), float(j), rate) + log_growth[j])
    return total


def generic_subsampled_curve(event: Event, rate: float, orders: FloatArray) -> FloatArray:
    """Upper bound on the Rényi curve of a Poisson-subsampled event from its own curve alone, at finite orders.

    Integer orders (Steinke 2022, "Composition of Differential Privacy & Privacy Amplification by
    Subsampling", Thm 29):  exp((a-1) eps'(a)) - 1 = sum_{j=2}^a C(a,j) g^j (1-g)^(a-j) expm1((j-1) eps(j)).
    Real orders: (a-1) eps'(a) is convex, so it lies below the lower convex hull of all that lies above it: of the
    sums at integers, the event's own curve (of which a subsampled curve is never an excess) and the line whose slope is
    the largest loss (notebooks/mathematics.md, Poisson subsampling of a Rényi
    curve).
    """
    low = [min(int(order), GENERIC_ORDERS) for order in orders.tolist()]
    sums = _sums(event, rate, low)
    found = []
    for order, n, own in zip(orders.tolist(), low, event._curve(orders).tolist(), strict=True):
        if order == n:
            # at order 1 the slope of the hull where it begins
            bound = sums.whole[n] / (order - 1.0) if n > 1 else sums.whole[2]
        elif n == GENERIC_ORDERS:
            bound = _beyond(event, rate, sums.whole[n], order) / (order - 1.0)
        else:
            bound = _between(event, sums, n, order) / (order - 1.0)
        found.append(min(own, bound))
    return np.array(found)


class _Sums(NamedTuple):
    """(n-1) times the bound at integers n, and (n-1) times the event's own curve at all integers up to one more."""

    whole: dict[int, float]
    own: FloatArray


def _sums(event: Event, rate: float, low: list[int]) -> _Sums:
    """At the given integers and, below GENERIC_ORDERS, the next ones."""
    if min(low, default=GENERIC_ORDERS) == GENERIC_ORDERS:
        if low:
            _count(event, [GENERIC_ORDERS], once=(_last_sum, event, rate))
        return _Sums({GENERIC_ORDERS: _last_sum(event, rate)} if low else {}, np.zeros(0))
    integers = sorted({*low, *(min(n + 1, GENERIC_ORDERS) for n in low)})
    _count(event, integers)
    return _sum_up(event, rate, integers)


def _count(event: Event, integers: list[int], once: Hashable = None) -> None:
    """Count the work of sums; what they have in common once in a price, however it is kept."""
    size = _size(integers)
    count_done(GROWTH * size, once=(_growth, event, size))
    count_done(TERM * sum(integers), once=once)


def _size(integers: list[int]) -> int:
    return 1 << (integers[-1] + 1).bit_length()


def _sum_up(event: Event, rate: float, integers: list[int]) -> _Sums:
    (kappa, log_growth), x_log_x = _growth(event, _size(integers)), _j_log_j(_size(integers))
    whole = {1: 0.0}
    for n in integers[integers[0] == 1 :]:
        whole[n] = divergence_from_log_mean(1.0, log_binomial_excess(n, log_growth, x_log_x, rate))
    return _Sums(whole, kappa)


@lru_cache(maxsize=16)
def _last_sum(event: Event, rate: float) -> float:
    return _sum_up(event, rate, [GENERIC_ORDERS]).whole[GENERIC_ORDERS]


@lru_cache(maxsize=2)  # up to 17 MB each
def _growth(event: Event, size: int) -> tuple[FloatArray, FloatArray]:
    """Of integers j below `size`: k = (j-1) times the event's own curve, and log(e^k - 1)."""
    j = np.arange(float(size))
    kappa = np.zeros_like(j)
    kappa[2:] = (j[2:] - 1) * event._curve(j[2:])
    with np.errstate(divide="ignore", over="ignore"):
        log_growth = np.where(kappa > 30, kappa + np.log1p(-np.exp(-kappa)), np.log(np.expm1(np.minimum(kappa, 31))))
    return kappa, log_growth


@lru_cache(maxsize=1)
def _j_log_j(size: int) -> FloatArray:
    j = np.arange(float(size))
    return np.asarray(j * np.log(np.maximum(j, 1.0)))


def _between(event: Event, sums: _Sums, n: int, order: float) -> float:
    """The hull at an order between n and n + 1: the chord, or where the own curve dips below it, tangents and itself.

    The curve being convex, it lies above the lines through its values at the integers next to both sides. Where these
    do not come below the chord nothing is searched.
    """
    left, right = sums.whole[n], sums.whole[n + 1]
    share = order - n
    if right == math.inf:
        return math.inf
    chord = (1 - share) * left + share * right
    k = sums.own
    rise = k[n] - k[n - 1] if n > 1 else float(event._curve(np.ones(1))[0])
    fall = k[n + 2] - k[n + 1]
    # where the two lines meet, as a share of the interval
    kink = (k[n + 1] - fall - k[n]) / (rise - fall) if rise < fall < math.inf else 1.0
    kink = min(max(kink, 0.0), 1.0)
    if k[n] + rise * kink >= (1 - kink) * left + kink * right:
        return chord
    start, end = _tangents(event, n, left, right)
    if share <= start.share:
        chord = min(chord, left + (start.height - left) * share / start.share)
    if share >= end.share:
        chord = min(chord, right - (right - end.height) * (1 - share) / (1 - end.share))
    return chord


class _Touch(NamedTuple):
    """Where a line touches (a-1) times the own curve: the share of the way from n to n + 1, and the height there."""

    share: float
    height: float


@lru_cache(maxsize=4096)
def _tangents(event: Event, n: int, left: float, right: float) -> tuple[_Touch, _Touch]:
    """From the bounds at n and at n + 1 to the own curve between them; any point on it gives a valid chord."""

    def height(share: float) -> float:
        return (n - 1 + share) * float(event._curve(np.array([n + share]))[0])

    def first(share: float) -> float:
        return (height(share) - left) / share

    def last(share: float) -> float:
        return (height(share) - right) / (1.0 - share)

    start = 0.0 if n == 1 else _least(first, 0.0, 1.0)  # at order 1 both begin at 0
    end = _least(last, 0.0, 1.0)
    return _Touch(start, height(start)), _Touch(end, height(end))


def _beyond(event: Event, rate: float, last: float, order: float) -> float:
    """The hull beyond the last sum, above which the slope is at most the largest loss of the sample."""
    end = float(event._curve(np.array([math.inf]))[0])
    steepest = log_mixture_ratio_at(rate, end) if end < math.inf else math.inf
    far = order - GENERIC_ORDERS
    bound = last + steepest * far if steepest < math.inf else math.inf
    touch, leave = _touches_beyond(event, last, steepest)
    if far <= touch.share:
        bound = min(bound, last + (touch.height - last) * far / touch.share)
    if far >= leave.share and steepest < math.inf:
        bound = min(bound, leave.height + steepest * (far - leave.share))
    return bound


@lru_cache(maxsize=16)
def _touches_beyond(event: Event, last: float, steepest: float) -> tuple[_Touch, _Touch]:
    """Where a tangent from the last sum touches the own curve, and where that has the steepest slope; from there on."""

    def height(share: float) -> float:
        return (GENERIC_ORDERS - 1 + share) * float(event._curve(np.array([GENERIC_ORDERS + share]))[0])

    def slope(x: float) -> float:
        return (height(math.exp(x)) - last) / math.exp(x)

    def above(x: float) -> float:
        return height(math.exp(x)) - steepest * math.exp(x)

    touch = math.exp(_least(slope, -5.0, 35.0))
    leave = math.exp(_least(above, -5.0, 35.0)) if steepest < math.inf else math.inf
    ends = (_Touch(each, height(each) if each < math.inf else math.inf) for each in (touch, leave))
    return next(ends), next(ends)


def _least(f: Callable[[float], float], low: float, high: float) -> float:
    """Where f was found to be least, strictly between the ends."""
    seen: dict[float, float] = {}

    def at(x: float) -> float:
        seen[x] = value = f(x)
        return value

    minimise(at, low, high, 1e-9)
    return min(seen, key=seen.__getitem__)
