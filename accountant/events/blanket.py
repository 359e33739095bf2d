"""How much shuffling hides one user's local report among those of n - 1 others: a dominating pair.

Let R be an epsilon0-DP local randomizer that all n users run, p = e^epsilon0, and P0, P1 the distributions of the
report of the one user whose input changes. Let g be a measure with g <= R(x) for every input x, of total mass below 1.
Every other user draws from g with that mass and else from the rest of its own distribution; who drew what, and what the
rest gave, can be told the observer, which only helps it. What is left is a multiset of z ~ g that hides the one report,
and (Balle, Bell, Gascon & Nissim 2019, Lemma 5.3)

    H(u) <= 1/n E (Y_1 + ... + Y_n)_+,   Y iid: (P0 - u P1)/g at z with probability g(z), else 0.

The right side grows if Y is replaced by a distribution above it in convex order. `Blanket` is such a one, with three
values besides 0, hence the pair: the user reports (+, -, 0) with probabilities (p alpha, alpha, w) or
(alpha, p alpha, w), the others with (r, r, s) and else something known. H(u) is decreasing in what the others have in
g.

* Any epsilon0-DP randomizer. g = max(P0, P1)/p. For convex phi with phi(0) = 0 the function
  F(x, y) = max(x, y)/p phi(p (x - u y)/max(x, y)) is homogeneous and convex on each side of x = y, so it lies below its
  chords between the rays (p, 1), (1, 1), (1, p); and F(1, 1) <= (F(p, 1) + F(1, p))/(p + 1) for 1 <= u <= p, which
  needs checking for phi = (k - y)_+, k <= 0, only, where both sides are piecewise linear in k. Hence Y is below the
  distribution with alpha = r = beta/(p-1), w = 1 - alpha (p+1), s = w/p, for any beta at least the total variation of
  P0 and P1, in particular (beta = (p-1)/(p+1)) the one with alpha = r = 1/(p+1), w = 0.
* Collision. g = 1/Omega on all l buckets. An input that hits m < c buckets has the mean distribution of those that hit
  c - m more, at random: by Jensen m = c is the worst. With o buckets hit by both inputs against o - 1, one value p - u
  and one 1 - pu take the place of p (1 - u) and 1 - u, whose sum is the same and which lie between: o = max(0, 2c - l)
  is the worst. So alpha = r = min(c, l-c)/Omega; s = |l - 2c|/Omega with w = s if l >= 2c, else w = p s.

These are the parameters of the variation-ratio reduction (Wang et al. 2023). That paper lets a user who reports 0 hide
among all who are not + or -, whatever their own distributions; the steps above do not give that, and for two users and
4-ary randomized response with p = 10 it is below the exact delta. As n grows the two agree.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.errors import ParameterError, real, shorten
from accountant.events.collision import Collision
from accountant.events.event import Event
from accountant.events.randomized_response import PureDP, RandomizedResponse, bernoulli_log_profile
from accountant.numerics.exact import round_up
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.roots import bisect_whole
from accountant.numerics.scipy_special import betainc, betaincc
from accountant.numerics.special import deviance, log_binomial_pmf, logaddexp
from accountant.patience import spend

__all__ = ["FLOORS", "NO_GAIN", "USERS", "Blanket", "blanket", "clones", "local_epsilon", "log_shuffled_delta"]

USERS = 10**12
"""Most users accepted."""

NO_GAIN = 500.0
"""Local epsilon beyond which shuffling up to 1e12 reports gains nothing that is worth computing."""

TERMS = 128
"""Most terms of a sum over a tail."""

SLACK = 1e-8
"""Relative error allowed to a sum; 2e-10 was found."""

LOG_2 = math.log(2)

CELLS = 200_000
"""Cells that are summed, about; fewer for results below e^-35."""

COARSE = 3e-3
"""Distance of nodes for the 0s, relative to where they would weigh as much as all of + and -."""

CELL, TERM, LONG_CELL = 45.0, 6.0, 525.0
"""Operations (see `accountant.patience`) that a cell takes: once, for the root of its count, and at most."""

FLOORS = (-60.0, -150.0, -350.0, -740.0)
"""Logs of the tails that are cut off, and added: the first that is far below the result is used."""


class Blanket(NamedTuple):
    """The changed user reports (+, -, 0) with (p alpha, alpha, w) or (alpha, p alpha, w), the others with (r, r, s).

    `scale` is alpha/r, `neutral` s, `rest` 1 - 2r - s, `weight` w r/(s alpha p).
    """

    epsilon: float
    r: float
    scale: float = 1.0
    neutral: float = 0.0
    rest: float = 1.0
    weight: float = 0.0


def local_epsilon(local: object) -> float:
    """Epsilon of the local randomizer between any two inputs, rounded up, or ParameterError."""
    if isinstance(local, RandomizedResponse):
        return round_up(Fraction(local.epsilon) * local.bits)
    if isinstance(local, Collision | PureDP):
        return local.epsilon
    if isinstance(local, Event):
        accepted = "an epsilon, RandomizedResponse, Collision (of 1 nonzero: k-ary randomized response) or PureDP"
        raise ParameterError(f"local = {shorten(local)}; accepted: {accepted}")
    return real("local", local, 0.0, 1e6)


def clones(epsilon: float) -> Blanket:
    """Feldman, McMillan & Talwar 2021, Thm 3.1: g = (P0 + P1)/(2p)."""
    t = math.exp(-epsilon)
    return Blanket(epsilon, t / 2, 2 / (1 + t), rest=1 - t)


def blanket(local: float | Event) -> Blanket:
    """The variation-ratio pair of a local randomizer (see above)."""
    epsilon = local_epsilon(local)
    t = math.exp(-epsilon)
    most = math.tanh(epsilon / 2)
    if isinstance(local, Collision):
        c, l = local.nonzeros, local.buckets  # noqa: E741
        omega = c + (l - c) * t  # times e^epsilon
        s, rest = abs(l - 2 * c) * t / omega, (c if l >= 2 * c else l - c + (2 * c - l)) * (1 - t) / omega
        return Blanket(epsilon, min(c, l - c) * t / omega, 1.0, s, rest, t if l >= 2 * c else 1.0)
    if isinstance(local, RandomizedResponse) and local.bits > 1:
        # inputs that differ in fewer bits have smaller variation and ratio
        beta = math.exp(float(bernoulli_log_profile(local.epsilon, local.bits, np.zeros(1))[0])) * (1 + 1e-12)
        if beta < most:
            r = beta * t / -math.expm1(-epsilon)
            s = (1 - beta / most) * t
            return Blanket(epsilon, r, 1.0, s, 1 - 2 * r - s, 1.0)
    return Blanket(epsilon, t / (1 + t), rest=most)


@Kernel
def log_pmfs(n: FloatArray, k: FloatArray, p: float, result: FloatArray) -> None:
    """Fill `result` with log-probabilities of binomial counts."""
    for i in range(k.size):
        result[i] = log_binomial_pmf(n[i], k[i], p)


@Kernel
def chernoff(n: float, k: float, p: float) -> float:
    """log of Chernoff's bound on the binomial tail from k away from the mean."""
    return -deviance(k, n * p) - deviance(n - k, n * (1.0 - p)) if 0.0 < k < n else -math.inf


def log_shortfall(n: FloatArray, p: float, q: float, x: FloatArray) -> FloatArray:
    """log E (x - k)_+ of k ~ Bin(n, p), q = 1 - p, for x <= n p or a little more.

    A sum from the last integer j below x downwards where it ends soon; else
    (x - n p) P(k <= j) + (n - j) p P(k = j); far in the tail, where P(k <= j) underflows, the geometric series above
    the sum.
    """
    result = np.empty_like(x)
    fill_short_sums(n, p, q, x, result)
    long = np.flatnonzero(np.isnan(result))
    if not long.size:
        return result
    n, x = n[long], x[long]
    j = np.minimum(np.ceil(x) - 1, n)
    log_mass = np.empty_like(x)
    log_pmfs(n, j, p, log_mass)
    # of the smaller one of both chances: the other one is rounded by far more of it
    inside = np.maximum(n - j, 0.5)
    cumulative = np.where(j < n, betaincc(j + 1, inside, p) if p < q else betainc(inside, j + 1, q), 1.0)
    far = cumulative < 1e-280
    near = ~far
    value = np.empty_like(x)
    with np.errstate(invalid="ignore", divide="ignore", under="ignore"):  # the caller refuses what is not a number
        ratio = j[far] * q / ((n[far] - j[far] + 1) * p)
        value[far] = log_mass[far] + np.log((x[far] - j[far]) / (1 - ratio) + ratio / (1 - ratio) ** 2)
        at_j = (n[near] - j[near]) * p * np.exp(log_mass[near])
        value[near] = np.log((x[near] - n[near] * p) * cumulative[near] + at_j)
    result[long] = value
    return result


@Kernel
def fill_short_sums(n: FloatArray, p: float, q: float, x: FloatArray, result: FloatArray) -> None:
    """Fill `result` with log E (x - k)_+, a sum over k <= j in units of P(k = j); nan where it has more than TERMS.

    The masses fall at least as fast as a geometric series from where their ratio is below 1: it bounds what is left.
    """
    odds = q / p
    for i in range(x.size):
        if not x[i] > 0.0:
            result[i] = -math.inf
            continue
        last = min(math.ceil(x[i]) - 1.0, n[i])
        j, above, mass, total = last, x[i] - last, 1.0, 0.0
        result[i] = math.nan
        for _ in range(TERMS):
            total += above * mass
            ratio = j * odds / (n[i] - j + 1.0)
            if above * mass <= 1e-12 * total and ratio < 1.0:
                left = mass * ratio / (1.0 - ratio) * (above + 1.0 / (1.0 - ratio))
                if left <= 1e-10 * total:
                    result[i] = log_binomial_pmf(n[i], last, p) + math.log(total + left)
                    break
            above, mass, j = above + 1.0, mass * ratio, j - 1.0


@Kernel
def fill_block_sums(first: FloatArray, last: FloatArray, n: float, p: float, result: FloatArray) -> None:
    """Fill `result` with logs of P(first <= k <= last), k binomial.

    Each mass is the one before times a ratio, for so few counts in a row that its rounding stays below 2e-12.
    """
    odds = p / (1.0 - p)
    for i in range(first.size):
        start = first[i]
        result[i] = -math.inf
        while start <= last[i]:
            end = min(start + 4096.0, last[i] + 1.0)
            total, mass, k = 0.0, 1.0, start
            while k < end:
                total += mass
                mass *= (n - k) * odds / (k + 1.0)
                k += 1.0
            result[i] = logaddexp(result[i], log_binomial_pmf(n, start, p) + math.log(total))
            start = end


class Counts(NamedTuple):
    """Cells: how many stand at + and - (a block from `first` to `last`), how many at 0, and the log-weight.

    A block's smallest count gives the drift and its largest the spread: E(x + d_N)_+ grows with N for a symmetric
    walk d. The value is convex and falling in the number of 0s, so interpolation between nodes is from above.
    `log_cut` bounds what cells that are left out are worth.
    """

    first: FloatArray
    last: FloatArray
    zeros: FloatArray
    log_weights: FloatArray
    log_cut: float


def edge(n: float, p: float, log_tail: float, upper: bool) -> float:
    """The count from which (to which) on Chernoff's bound is below log_tail; n + 1 (-1) if there is none."""
    inside, outside = (math.floor(n * p), math.floor(n) + 1) if upper else (math.ceil(n * p), -1)

    def beyond(count: int) -> bool:
        return 0 < count < n and chernoff(n, float(count), p) < log_tail

    return float(bisect_whole(beyond, inside, outside)[1])


@lru_cache(maxsize=32)
def counts(pair: Blanket, users: int, log_tail: float) -> Counts:
    """Cells that hold all but about exp(log_tail), as seen beside the changed user."""
    n, q = float(users), 2 * pair.r
    low = max(edge(n - 1, q, log_tail, False) + 2, 1.0)
    high = min(edge(n - 1, q, log_tail, True), n)
    width = max(1, int(2e-6 * low))
    first = np.arange(low, high + 1, width)
    last = np.minimum(first + width - 1, high)
    log_mass = np.empty_like(first)
    if width == 1:
        log_pmfs(np.full_like(first, n), first, q, log_mass)
    else:
        fill_block_sums(first, last, n, q, log_mass)
    if pair.neutral == 0.0:
        return Counts(first, last, np.zeros_like(first), log_mass, log_tail + LOG_2)
    zeros, log_share = neutrals(pair, users, first, last, log_tail)
    log_weights = log_mass[:, None] + log_share
    # with N at + and - the positive part is at most 2 N/(n q)
    log_most = math.log(2 * high / (n * q))
    kept = log_weights > log_tail - 12 - max(log_most, 0.0)
    left_out = log_sum(log_weights[~kept]) + log_most
    rows, columns = np.nonzero(kept)
    with np.errstate(invalid="ignore"):  # weights that cancelled are not numbers: `grid_pair` passes such results over
        cut = float(np.logaddexp(log_tail + LOG_2, left_out))
    return Counts(first[rows], last[rows], zeros[columns], log_weights[kept], cut)


def neutrals(
    pair: Blanket, users: int, first: FloatArray, last: FloatArray, log_tail: float
) -> tuple[FloatArray, FloatArray]:
    """Nodes for the number of 0s, the same for every block, and their log-weights beside each block's largest count.

    Nodes that are `step` apart add at most (step/2)^2 to the variance of the 0s, next to nothing beside that of N.
    """
    n, total = float(users), pair.neutral + pair.rest
    share, other = pair.neutral / total, pair.rest / total
    spread = math.sqrt((n - first[0]) * share * other) + 1
    most = CELLS if log_tail == FLOORS[0] else CELLS / 10
    reach = math.sqrt(-2 * log_tail) + 1
    span = (last[-1] - first[0]) * share + (reach + 4) * spread
    step = float(math.ceil(max(1.0, COARSE * 2 * pair.r * n / pair.weight, span * first.size / most)))
    bottom = max((n - last[-1]) * share - reach * spread, step) // step * step
    zeros = np.append(0.0, np.arange(bottom, (n - first[0]) * share + 4 * spread + step, step))
    size, node = np.meshgrid(n - last, zeros, indexing="ij")
    below = np.exp(log_shortfall(size.ravel(), share, other, node.ravel())).reshape(size.shape)
    # slopes of E(x - zeros)_+ are probabilities of being below; beyond the last node its own value is enough
    slopes = np.minimum(np.diff(below, axis=1) / np.diff(zeros), 1.0)
    end = np.zeros((first.size, 1))
    weights = np.diff(np.concatenate([end, slopes, end + 1.0], axis=1), axis=1)
    with np.errstate(divide="ignore"):
        return zeros, np.log(np.maximum(weights, 0.0))


def log_sum(logs: FloatArray) -> float:
    """log of the sum of exponentials; nan if there is one."""
    top = float(np.max(logs, initial=-math.inf))
    return top + math.log(float(np.sum(np.exp(logs - top)))) if top > -math.inf else top


def log_shuffled_delta(pair: Blanket, users: int, epsilon: float) -> float:
    """log of an upper bound on H(e^epsilon), epsilon >= 0, for the pair beside users - 1 others."""
    end = pair.epsilon
    if epsilon >= end:
        return -math.inf
    v = math.exp(-epsilon)
    gain, slope = -v * math.expm1(epsilon - end), -math.expm1(-end) * (1 + v)
    log_scale = math.log(pair.scale) + math.log(slope / users) + end + epsilon
    result = 0.0
    for log_tail in FLOORS:
        first, last, zeros, log_weights, log_cut = counts(pair, users, log_tail)
        spend(float(np.minimum(CELL + TERM * np.sqrt(last), LONG_CELL).sum()), "a bound on shuffled reports")
        # (p - u) a - (p u - 1) b - w r/(s alpha) (u - 1) c is positive for fewer than this many b = N - a
        fewer = (first * gain - pair.weight * -math.expm1(-epsilon) * zeros) / slope + (last - first) / 2
        terms = log_shortfall(last, 0.5, 0.5, np.minimum(fewer, last / 2)) + log_weights
        with np.errstate(invalid="ignore"):
            result = float(np.logaddexp(log_scale + log_sum(terms) + SLACK, log_cut))
        if result > log_tail + 25:
            break
    # alone it is epsilon0-DP: (1 - u/p)/(1 + 1/p), Kairouz, Oh & Viswanath 2015; what cancelled is no number, no bound
    alone = math.log(-math.expm1(epsilon - end)) - math.log1p(math.exp(-end)) + 1e-14
    return result if result < alone else alone
