"""Inputs of all users of a round from which shuffled reports are known exactly: the others' are all the same.

Reports of a changed user and of the others are told by classes of outcomes, of which only the probabilities count. Any
function of the reports tells no more than they do (notebooks/mathematics.md, Prices from below).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from accountant.events.collision import Collision
from accountant.events.event import Event
from accountant.events.randomized_response import RandomizedResponse
from accountant.events.shuffled_inputs import Facts
from accountant.numerics.kernel import FloatArray

__all__ = ["FEW_USERS", "ULP", "Attack", "attacks_on", "flips_of", "kinds_that_may_be", "worst_bits"]

MOST_BITS = 64
"""Bits that inputs of an attack differ in, at most: others are the same."""

PARTS = 4
"""Into so many parts the bits are divided in which the others' input may differ from the first and from the second."""

FEW_USERS = 64
"""Users of a single bit up to which all inputs of the others are looked at: of more, nearly the worst are all alike."""

ULP = 2.0**-53
"""Relative error of one operation."""


class Attack(NamedTuple):
    """Probabilities of classes of reports: of the first and second input of the changed user, and of the others' one.

    All are exact but for a relative error of `accuracy`. Where `is_line` the best score is the same at every epsilon.
    """

    first: FloatArray
    second: FloatArray
    others: FloatArray
    accuracy: float
    is_line: bool


def attacks_on(local: Event) -> list[Attack]:
    """What may be the worst inputs of a round of this randomizer; of any pure-DP one, that of three values or two."""
    if isinstance(local, RandomizedResponse):
        return [bits_of(local.epsilon, kind) for kind in kinds_that_may_be(Facts(local.bits, local.ones, local.length))]
    if isinstance(local, Collision):
        return buckets_of(local.epsilon, local.nonzeros, local.buckets)
    end = float(local._largest_loss())
    return [*buckets_of(end, 1, 3), *buckets_of(end, 1, 2)]


def kinds_that_may_be(facts: Facts) -> list[tuple[int, int, int]]:
    """Bits in which the others' input differs from both, from the first alone, and from the second alone.

    Some words of which any two differ in no more bits than may be, with no more ones, in reports as long as they are.
    """
    bits = min(facts.bits, MOST_BITS)
    found = set[tuple[int, int, int]]()
    for part in range(PARTS + 1):
        i = round(bits * part / PARTS)
        for m in range(min(i, bits - i), -1, -1):
            if may_be((m, bits - i, i), facts):
                found.add((m, bits - i, i))
                break
    if bits % 2 and bits > 1:
        half = bits // 2
        if may_be((half + 1, half, half), facts):
            found.add((half + 1, half, half))
    return sorted(found)


def may_be(kind: tuple[int, int, int], facts: Facts) -> bool:
    """Whether there are three words that differ so, of that length and of so many ones at most."""
    if facts.length and sum(kind) > facts.length:
        return False
    return not facts.ones or any(max(ones) <= facts.ones for ones in numbers_of_ones(kind))


def numbers_of_ones(kind: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """Ones of the others' word, of the first and of the second: bits are set in one of the three, or in the others."""
    m, k, i = kind
    for a, b, c in itertools.product(range(m, -1, -1), range(k, -1, -1), range(i, -1, -1)):
        yield a + k - b + i - c, m - a + b + i - c, m - a + k - b + c


def bits_of(epsilon: float, kind: tuple[int, int, int]) -> Attack:
    """Classes are how many bits are flipped of the three sorts, as the others see it; of equal ratios they are one."""
    same = [flips_of(epsilon, number) for number in kind]
    away = [each[::-1] for each in same]
    m, k, i = kind
    a, b, c = np.indices((m + 1, k + 1, i + 1)).reshape(3, -1)
    places = np.unique((a + b) * (m + i + 1) + a + c, return_inverse=True)[1]
    laws = joint(away[0], away[1], same[2]), joint(away[0], same[1], away[2]), joint(*same)
    first, second, others = (np.bincount(places, law).astype(float) for law in laws)
    return Attack(
        first,
        second,
        others,
        (8.0 * sum(kind) + m + 33.0) * ULP,
        m == 0 and 0 in (k, i),
    )


def worst_bits(epsilon: float, users: int, points: tuple[float, ...]) -> list[tuple[FloatArray, FloatArray]]:
    """Laws of the sum of all bits, the changed user's being 0 and 1, beside others' that cost most at some epsilons.

    All terms are positive: relative errors are below 40 users ULP.
    """
    kept, flipped = flips_of(epsilon, 1).tolist()
    laws = np.zeros((users, 2, users + 1))
    for ones in range(users):
        others = np.convolve(flips_of(epsilon, users - 1 - ones), flips_of(epsilon, ones)[::-1])
        laws[ones, 0] = kept * np.append(others, 0.0) + flipped * np.append(0.0, others)
        laws[ones, 1] = flipped * np.append(others, 0.0) + kept * np.append(0.0, others)
    both = np.concatenate([laws, laws[:, ::-1]])
    several = [np.maximum(both[:, 0] - math.exp(point) * both[:, 1], 0.0).sum(axis=1) for point in points]
    return [(both[row, 0], both[row, 1]) for row in sorted({int(each.argmax()) for each in several})]


def flips_of(epsilon: float, number: int) -> FloatArray:
    """Probabilities of how many of so many bits are flipped: C(m, l) q^l (1 - q)^(m - l), by m multiplications."""
    t = math.exp(-epsilon)
    flipped, kept = t / (1.0 + t), 1.0 / (1.0 + t)
    powers = np.cumprod(np.append(1.0, np.full(number, flipped))), np.cumprod(np.append(1.0, np.full(number, kept)))
    chosen = np.array([float(math.comb(number, l)) for l in range(number + 1)])  # noqa: E741
    return np.asarray(chosen * powers[0] * powers[1][::-1])


def joint(*parts: FloatArray) -> FloatArray:
    """Probabilities of independent numbers together."""
    one, two, three = parts
    return np.asarray((one[:, None, None] * two[None, :, None] * three[None, None, :]).ravel())


def buckets_of(epsilon: float, c: int, l: int) -> list[Attack]:  # noqa: E741
    """Inputs that hit c of l buckets each, as few in common as can be; others hit what neither does, or one does."""
    both = max(0, 2 * c - l)
    neither, alone = l - 2 * c + both, c - both
    free = min(c, neither)
    shared = min(c - free, both)
    left = c - free - shared
    even = min(alone, c // 2)
    ways = {(0, both, alone, 0), (0, both, 0, alone), (free, shared, left - left // 2, left // 2)}
    if both >= c - 2 * even:
        ways.add((0, c - 2 * even, even, even))
    # each class: which of the three inputs hit it, and how many buckets it has
    found = []
    for apart, common, first, second in sorted(ways):
        sizes = {
            (1, 1, 1): common,
            (1, 1, 0): both - common,
            (1, 0, 1): first,
            (1, 0, 0): alone - first,
            (0, 1, 1): second,
            (0, 1, 0): alone - second,
            (0, 0, 1): apart,
            (0, 0, 0): neither - apart,
        }
        hits = np.array([hit for hit, size in sizes.items() if size], dtype=float)
        number = np.array([float(size) for size in sizes.values() if size])
        t = math.exp(-epsilon)
        one, two, three = (number[:, None] * np.where(hits > 0, 1.0, t) / (c + (l - c) * t)).T
        found.append(Attack(one, two, three, 16.0 * ULP, apart == 0 and 0 in (first, second)))
    return found
