"""The worst pair of counts of a noisy screening at one order, found and certified without looking at every count.

A count t passes with probability Phi(x), x = (t - threshold)/sigma; a pair is (x, x + h), h = 1/sigma, sampled at a
rate g. Pairs whose individual moves the count down are those of the mirrored screening (-t against -threshold).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import (
    divergence_from_log_mean,
    log_mean_excess,
    log_mean_term,
    log_mixture_ratio_at,
    log_phi,
    log_phi_steps,
    logaddexp,
)

__all__ = [
    "Pair",
    "likely_pair",
    "log_mean_of",
    "pair_at",
    "screening_curve",
    "screening_limit",
    "worst_pair",
]


class Pair(NamedTuple):
    """A pair (x, x + h): logs of Phi(x) and Phi(-x), and of their ratios at x + h to x, `up` > 0 and `down` < 0.

    `log_moved` is the log of P(pass), Phi(x + h) unless sampled; `log_pass` + `up` where that does not cancel.
    """

    log_pass: float
    log_fail: float
    up: float
    down: float
    log_moved: float


class Block(NamedTuple):
    """Counts from `left` to `right` that are still to be searched, with the pairs at both ends."""

    left: float
    right: float
    start: Pair
    end: Pair


class WorstPair(NamedTuple):
    """The pair of counts with the largest log mean.

    `sign` is 1 where the individual moves the count up. It is -1 where it moves the count down: then the pair is that
    of the mirrored screening, and `votes` is minus the count.
    """

    log_mean: float
    votes: float
    sign: float


FAR = 30.0
"""A log-ratio from which on the log of P(pass) is computed by itself."""

SLACK = 1e-13
"""Part of a log mean that counts as rounding."""


@Kernel
def size(b: float, u: float, backward: bool) -> float:
    """log phi_a(u)/b, or of e^u phi_a(-u)/b for the pair taken backwards; u = log P/Q of the pair taken forwards."""
    return u + log_mean_excess(b, -u) if backward else log_mean_excess(b, u)


@Kernel
def pair_at(t: float, sigma: float, threshold: float, rate: float) -> Pair:
    """For Q at count t and P at t + 1; `up` as sampled, `down` as it is without sampling."""
    log_pass, log_fail, up, down = log_phi_steps((t - threshold) / sigma, 1.0 / sigma)
    ratio = log_mixture_ratio_at(rate, up)
    log_moved = log_pass + ratio
    if up > FAR:
        log_moved = math.log(rate) + log_phi((t + 1.0 - threshold) / sigma)
        if rate < 1.0:
            log_moved = logaddexp(log_moved, math.log1p(-rate) + log_pass)
    return Pair(log_pass, log_fail, ratio, down, log_moved)


@Kernel
def log_mean_of(b: float, pair: Pair, rate: float) -> float:
    """log E_Q[phi_a/b] of a pair, or log E_P with P and Q exchanged if that is larger."""
    down = log_mixture_ratio_at(rate, pair.down)
    forward = logaddexp(log_mean_term(b, pair.log_moved, pair.log_pass, pair.up), pair.log_fail + size(b, down, False))
    if rate == 1.0:
        return forward  # the mirrored screening holds the pair backwards
    return max(forward, logaddexp(pair.log_moved + log_mean_excess(b, -pair.up), pair.log_fail + size(b, down, True)))


@Kernel
def bound_between(
    b: float,
    low: float,
    high: float,
    at_low: Pair,
    at_high: Pair,
    middle: float,
    log_pass: float,
    log_fail: float,
    rate: float,
    backward: bool,
) -> float:
    """At least the log mean of every pair whose count is in [low, high], from its ends and Phi at a count between.

    For either outcome the log of its term is log Phi(+-x) + s(u) with s = `size`. log Phi is concave. The log-ratio
    of passing is convex in x (the integral over [x, x+h] of the hazard phi/Phi, which is convex: Sampford 1953), and
    stays so after m(w) = log(1 - g + g e^w), which is convex and increasing; so it lies below its chord. The log-ratio
    of failing is minus a convex function, which lies above its chord; m keeps the order. s is increasing and concave in
    |u| for u of one sign: forwards phi_a(u) is the integral from 0 to |u| of a (e^{a r} - e^r) or of
    a (e^{-r} - e^{-a r}), backwards of b (e^r - e^{-b r}) or of b (e^{b r} - e^{-r}). All of these are log-concave, and
    so are such integrals (Prékopa 1973).
    The failing ratio in absolute value, -m(-w), is concave and increasing in w. Hence each term's log is at most
    log Phi + s(chord), a concave function of x, and that is at most the line through its values at one end and in
    the middle, drawn on beyond the middle. The sum of exponentials of lines is convex: largest at an end.
    """
    share = (middle - low) / (high - low)
    forth, back = (1.0 - share) / share, share / (1.0 - share)
    passed = log_pass + size(b, at_low.up + share * (at_high.up - at_low.up), backward)
    failed = log_fail + size(
        b, log_mixture_ratio_at(rate, at_low.down + share * (at_high.down - at_low.down)), backward
    )
    return max(
        logaddexp(passed, failed),
        logaddexp(
            beyond(passed, at_low.log_pass + size(b, at_low.up, backward), forth),
            beyond(failed, at_low.log_fail + size(b, log_mixture_ratio_at(rate, at_low.down), backward), forth),
        ),
        logaddexp(
            beyond(passed, at_high.log_pass + size(b, at_high.up, backward), back),
            beyond(failed, at_high.log_fail + size(b, log_mixture_ratio_at(rate, at_high.down), backward), back),
        ),
    )


@Kernel
def beyond(middle: float, end: float, factor: float) -> float:
    """Value on the line from `end` through `middle`, `factor` times as far again."""
    return middle + factor * (middle - end) if middle > -math.inf else middle


@Kernel
def worst_of_sign(
    b: float, sigma: float, threshold: float, low: float, high: float, rate: float, worst: float, best: float
) -> tuple[float, float]:
    """(log mean, count): `worst` and `best` unless some pair (t, t+1), low <= t < high, exceeds it; branch and bound.

    A block that could exceed the worst pair by no more than rounding raises it to its bound instead of being searched.
    """
    seen = worst  # the worst pair looked at, or the bound on the other sign: slack does not add up over blocks
    last = high - 1.0
    first = min(max(math.floor(best), low), last)
    start, end = pair_at(low, sigma, threshold, rate), pair_at(last, sigma, threshold, rate)
    for t, pair in ((low, start), (last, end)):
        value = log_mean_of(b, pair, rate)
        if value > seen:
            seen, best = value, t
    blocks = [Block(low, last, start, end)]
    while blocks:
        left, right, start, end = blocks.pop()
        if right - left < 5.5:  # as cheap to look at as to bound
            t = left + 1.0
            while t < right:
                value = log_mean_of(b, pair_at(t, sigma, threshold, rate), rate)
                if value > seen:
                    seen, best = value, t
                t += 1.0
            continue
        split = first if left < first < right else math.floor(0.5 * (left + right))
        if left == first or right == first:  # most of a block next to the worst pair is far from it
            near = max(math.floor(0.125 * (right - left)), 3.0)
            split = left + near if left == first else right - near
        pair = pair_at(split, sigma, threshold, rate)
        value = log_mean_of(b, pair, rate)
        if value > seen:
            seen, best = value, split
        bound = bound_between(b, left, right, start, end, split, pair.log_pass, pair.log_fail, rate, False)
        if rate < 1.0 and bound <= seen + SLACK:
            backward = bound_between(b, left, right, start, end, split, pair.log_pass, pair.log_fail, rate, True)
            bound = max(bound, backward)
        if bound <= seen + SLACK:
            worst = max(worst, bound)
        else:
            blocks.append(Block(left, split, start, pair))
            blocks.append(Block(split, right, pair, end))
    return max(worst, seen), best


@Kernel
def climb(
    b: float, sigma: float, threshold: float, low: float, high: float, rate: float, guess: float
) -> tuple[float, float]:
    """(log mean, count) of a pair that is worse than both its neighbours, uphill from `guess`. No bound on others."""
    t = min(max(math.floor(guess), low), high - 1.0)
    value = log_mean_of(b, pair_at(t, sigma, threshold, rate), rate)
    step, sign = 1.0, -1.0
    turned = False
    while True:
        following = min(max(t + sign * step, low), high - 1.0)
        there = log_mean_of(b, pair_at(following, sigma, threshold, rate), rate) if following != t else -math.inf
        if there > value:
            t, value, turned = following, there, False
            step *= 2.0
        elif step > 1.0:
            step = max(1.0, math.floor(0.25 * step))
        elif not turned:
            sign, turned = -sign, True
        else:
            return value, t


@Kernel
def likely_pair(
    b: float, sigma: float, threshold: float, low: float, high: float, rate: float, guess: float, guess_sign: float
) -> WorstPair:
    """As `worst_pair`, for one sign alone and not certified, to guide a search; `guess_sign` 0: of the worse sign."""
    best, count, sign = -math.inf, guess, 1.0
    for each in (1.0, -1.0):
        if guess_sign * each >= 0.0:
            bottom, top = (low, high) if each > 0.0 else (-high, -low)
            begin = guess if guess_sign != 0.0 else each * guess
            value, t = climb(b, sigma, each * threshold, bottom, top, rate, begin)
            if value > best:
                best, count, sign = value, t, each
    return WorstPair(best, count, sign)


@Kernel
def worst_pair(
    b: float, sigma: float, threshold: float, low: float, high: float, rate: float, guess: float, guess_sign: float
) -> WorstPair:
    """The worst pair of either sign.

    `guess` and `guess_sign`, where the worst pair may lie, only save time.
    """
    worst, best = -math.inf, guess
    sign = guess_sign
    for each in (guess_sign, -guess_sign):
        bottom, top = (low, high) if each > 0.0 else (-high, -low)
        value, count = worst_of_sign(b, sigma, each * threshold, bottom, top, rate, worst, each * guess_sign * guess)
        if value > worst:
            worst, best, sign = value, count, each
    return WorstPair(worst, best, sign)


@Kernel
def screening_limit(sigma: float, threshold: float, low: float, high: float, rate: float) -> float:
    """Largest log-ratio of any pair. log Phi being concave, log-ratios are monotone in the count: an end has it."""
    worst = 0.0
    for sign in (1.0, -1.0):
        bottom, top = (low, high) if sign > 0.0 else (-high, -low)
        for t in (bottom, top - 1.0):
            pair = pair_at(t, sigma, sign * threshold, rate)
            worst = max(worst, pair.up, -log_mixture_ratio_at(rate, pair.down))
    return worst


@Kernel
def screening_curve(
    sigma: float, threshold: float, low: float, high: float, rate: float, orders: FloatArray, curve: FloatArray
) -> None:
    """Fill `curve` with the largest Bernoulli divergence over all pairs, both directions, at orders in [1, inf]."""
    guess, sign = threshold, 1.0
    for i in range(orders.size):
        if orders[i] == math.inf:
            curve[i] = screening_limit(sigma, threshold, low, high, rate)
            continue
        b = orders[i] - 1.0
        log_mean, guess, sign = worst_pair(b, sigma, threshold, low, high, rate, guess, sign)
        curve[i] = divergence_from_log_mean(b, log_mean)
