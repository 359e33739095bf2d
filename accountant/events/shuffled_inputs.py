"""What inputs of users who flip bits may be: how others differ from a changed one, and what all reports have in common.

Users flip each bit of theirs with odds 1 : t, t = e^epsilon, and any two inputs differ in at most b bits. A share g is
common if every report is at least g times one distribution G. In a set S of words of B bits, with the distance of z
from S, the largest g is (1+t)^(-B) sum over all words z of t^distance. Proofs are in notebooks/mathematics.md, Shuffled
bits:

* t^(-b), G being the report of any input;
* t^(-c) where inputs have at most c ones, G being the report of the word without ones;
* (2/(1+t))^b where inputs differ in at most two bits, or where there are two inputs only, as of one bit;
* (2/(1+t))^B (t^h + t^(B-b-h))/2, h = [(B-b)/2], in reports of B bits: distances of a word and of its complement add up
  to B - b or more;
* in reports of B bits with at most c ones, t^(-c) E t^max(c - K, 0), K binomial of B and t/(1+t).

Where G is the report of an input, the changed user may be taken for one who draws from it, too, and hides among n; else
among the n - 1 others.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_binomial_pmf

__all__ = ["MANY", "Facts", "Kinds", "common_share", "kinds"]

MANY = 16
"""Bits beyond which nodes are dear, and less is tried."""

SHORT = 32
"""Bits up to which short reports have kinds of their own: their number grows with the square of the bits."""

ROUNDING = 1e-13
"""Taken from the logarithm of a share."""


class Facts(NamedTuple):
    """What is known of inputs: in how many bits two differ, most ones of one, bits in all; 0 where it is not known."""

    bits: int
    ones: int = 0
    length: int = 0


class Kinds(NamedTuple):
    """Numbers of bits in which the others' inputs differ: from both (m), from the first (k), from the second (i)."""

    both: FloatArray
    first: FloatArray
    second: FloatArray


@lru_cache(maxsize=64)
def kinds(bits: int, length: int = 0) -> Kinds:
    """The kinds that nothing is above; where reports are known to be short, in up to `SHORT` bits, there are others."""
    if length:
        is_short = length < bits + bits // 2 and bits <= SHORT
        return short_kinds(bits, length) if is_short else kinds(bits)
    second = np.arange(bits + 1.0)
    first = bits - second
    both = np.minimum(first, second)
    if bits % 2 and bits > 1:  # where inputs differ in all but one bit
        half = bits // 2
        both, first, second = np.append(both, half + 1), np.append(first, half), np.append(second, half)
    return Kinds(both, first, second)


def short_kinds(bits: int, length: int) -> Kinds:
    """The same where three inputs have no more than `length` bits to differ in."""
    found = {
        (m, k, i)
        for m in range(bits + 1)
        for k in range(bits + 1 - m)
        for i in range(bits + 1 - max(m, k))
        if m + k + i <= length
    }
    most = [
        (m, k, i)
        for m, k, i in sorted(found)
        if found.isdisjoint([(m + 1, k, i), (m, k + 1, i), (m, k, i + 1), (m - 1, k + 1, i + 1)])
    ]
    return Kinds(*np.array(most, dtype=float).T)


def common_share(epsilon: float, facts: Facts, users: int) -> tuple[float, int]:
    """Log of the largest share that is proven to be common to three users or more; and among how many one hides."""
    own = -epsilon * (min(facts.bits, facts.ones) if facts.ones else facts.bits)
    other = max(others_shares(epsilon, facts, users), default=-math.inf) - ROUNDING
    # about 1/share users are given away
    if math.exp(min(-own, 700.0)) - math.exp(min(-other, 700.0)) > 1.0:
        return other, users - 1
    return own, users


def others_shares(epsilon: float, facts: Facts, users: int) -> list[float]:
    """Logs of the shares whose G may be no input's report."""
    bits, ones, length = facts
    found = []
    if users == 3 or bits <= 2:
        found.append(bits * math.log1p(-math.tanh(epsilon / 2)))
    if length:
        half, odd = divmod(length - bits, 2)
        pair = math.log1p(0.5 * math.expm1(epsilon)) if odd else 0.0
        found.append(length * math.log1p(-math.tanh(epsilon / 2)) + half * epsilon + pair)
    if length and 0 < ones < bits:
        found.append(math.log1p(gain(epsilon, ones, length)) - ones * epsilon)
    return found


def gain(epsilon: float, ones: int, length: int) -> float:
    """E t^max(c - K, 0) - 1, K binomial of the length and t/(1+t)."""
    likely = 1 / (1 + math.exp(-epsilon))
    return math.fsum(
        math.exp(log_binomial_pmf(float(length), float(k), likely)) * math.expm1((ones - k) * epsilon)
        for k in range(min(ones, length + 1))
    )
