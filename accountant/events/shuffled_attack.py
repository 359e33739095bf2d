"""What a round of shuffled reports tells at least: all other users have the same input, as one of the two that differ.

The observer counts the reports in a set S. With probabilities p and q of S under the two inputs, the count C is
binomial (n, q) if the changed user has the input of the others, and else has the likelihood ratio

    X(C) = (C p/q + (n - C) (1 - p)/(1 - q))/n,

which rises (notebooks/mathematics.md, Prices from below).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Adjacency, Direction
from accountant.events.discrete_pair import DiscretePair
from accountant.events.event import Event
from accountant.events.from_below import FromBelow, pair_from_below
from accountant.events.randomized_response import RandomizedResponse
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import log_binomial_pmf
from accountant.patience import spend

__all__ = ["SameInputs"]

BITS = 64
"""Bits of a report of which all are looked at; of more, one is."""

CELLS = 2**15
"""Counts that are told apart; more are put together."""

REACH = 38.0
"""Standard deviations of the count up to which it is looked at."""

SHRUNK = 1 - 1e-10
"""More than the relative rounding of a probability of a count."""

ROUNDING = 1e-11
"""More than that of a likelihood ratio, and of what the tight route makes of it."""

VALUE = 150.0
"""Operations (see `accountant.patience`) of a probability of a count."""


class Told(NamedTuple):
    """Probabilities of a set of reports under the two inputs, of its complement, and p - q."""

    p: float
    q: float
    p_not: float
    q_not: float
    apart: float


@dataclass(frozen=True)
class SameInputs(FromBelow):
    """A round of n users of whom n - 1 have the same input."""

    local: RandomizedResponse
    users: int
    above: Event
    adjacency: Adjacency = field(default=Adjacency.REPLACE, init=False, repr=False)
    limit_reached = True  # all reports are what the changed user's first input makes likeliest

    def _curve(self, orders: FloatArray) -> FloatArray:
        return self.above._curve(orders)

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> list[tuple[Event, int]]:
        return [(counted_pair(told(self.local), self.users, direction), 1)]


def told(local: RandomizedResponse) -> Told:
    """The set of reports that tells most of the two inputs, for many users."""
    return told_by_bits(local.epsilon, local.bits if local.bits <= BITS else 1)


def told_by_bits(epsilon: float, bits: int) -> Told:
    """Whether at least so many of the bits that differ are those of the first input, for the best such number."""
    true = 1 / (1 + math.exp(-epsilon))
    log_true, log_false = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    masses = [math.comb(bits, j) * math.exp(j * log_true + (bits - j) * log_false) for j in range(bits + 1)]
    found = []
    for least in range(bits // 2 + 1, bits + 1):
        p, p_not = math.fsum(masses[least:]), math.fsum(masses[:least])
        q, q_not = math.fsum(masses[: bits - least + 1]), math.fsum(masses[bits - least + 1 :])
        apart = math.fsum(-masses[j] * math.expm1(-(2 * j - bits) * epsilon) for j in range(least, bits + 1))
        found.append(Told(p, q, p_not, q_not, apart))
    if bits == 1:
        return Told(true, 1 - true if epsilon < 1 else math.exp(log_false), math.exp(log_false), true, found[0].apart)
    return max(found, key=lambda each: each.apart**2 / (each.q * each.q_not))


@Kernel
def fill_log_pmf(n: float, q: float, counts: FloatArray, logs: FloatArray) -> None:
    for i in range(counts.size):
        logs[i] = log_binomial_pmf(n, counts[i], q)


@lru_cache(maxsize=32)
def counted_pair(seen: Told, users: int, direction: Direction) -> DiscretePair:
    """The pair of the count, from below: counts that are put together count as often as the rarest of them.

    From the input that differs to that of the others, and back: each is as large as with both exchanged.
    """
    mean, deviation = users * seen.q, math.sqrt(users * seen.q * seen.q_not)
    first = max(math.floor(mean - REACH * deviation - REACH), 0)
    last = min(math.ceil(mean + REACH * deviation + REACH**2), users)
    width = -(-(last - first + 1) // CELLS)
    starts = first + width * np.arange((last - first + 1) // width, dtype=float)
    ends = starts + (width - 1)
    spend(2 * VALUE * starts.size, f"{starts.size} counts of shuffled reports", once=(counted_pair, seen, users))
    ratios, logs = [], []
    for counts in (starts, ends):
        # 1 + (p - q)/(q (1 - q)) (C/n - q), as a sum of terms above 0
        ratios.append((counts * (seen.p / seen.q) + (users - counts) * (seen.p_not / seen.q_not)) / users)
        logs.append(np.empty_like(counts))
        fill_log_pmf(float(users), seen.q, counts, logs[-1])
    with np.errstate(under="ignore"):
        masses = width * np.exp(np.minimum(*logs)) * SHRUNK
    kept = masses * np.minimum(ratios[0], 1.0) > 1e-280
    masses, low, high = masses[kept], ratios[0][kept], ratios[1][kept]
    if direction == DIRECTIONS[0]:
        return pair_from_below(masses * low, masses, ROUNDING, direction)
    return pair_from_below(masses, masses * high, ROUNDING, direction)
