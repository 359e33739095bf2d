"""The others in a race for the place of a report (`accountant.events.shuffled_race`): their reports and spare ones.

Where R_j differs from both inputs of the changed user in m bits, from the first alone in k and from the second alone in
i = d - k, rates G/R_j and values depend on how many of each were flipped. G depends, in the d bits in which the two
inputs differ, on how many agree with the first: words near the middle may be more likely than others. Elsewhere there
is a report of both inputs. A bit of m more may then be shown for user j, and a bit in which the two inputs differ for
everybody, so that only m = b - max(k, i) counts, and of odd d only d = b. In reports of known length G may also be even
elsewhere, where all m count. The speed of a clock may depend on k: one theta is then good for those whose inputs are
near the first and for those near the second. Proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.events.race_thetas import IntArray
from accountant.events.shuffled_inputs import Facts
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_binomial_pmf

__all__ = [
    "Crowd",
    "Family",
    "Kind",
    "count_reports",
    "crowd_from",
    "crowd_of",
    "families",
    "kind_of",
    "log_own",
    "log_words",
    "with_even_rest",
]


SMALL = 16
"""Bits in which inputs differ up to which many crowds are kept: of 64 each has 130 000 reports."""


class Family(NamedTuple):
    """Inputs of the changed user that differ in so many bits, kinds (m, k, i) of others, and further bits with even G.

    Either none or all other bits of a report are even.
    """

    bits: int
    numbers: tuple[tuple[int, int, int], ...]
    even: int = 0


class Kind(NamedTuple):
    """One other user: reports with their probabilities, rates and logs of P0 and P1 over theirs.

    Then the same of spare reports by what they have in common with both inputs: probabilities and rates. Numbers of the
    d bits that agree with the first input come one after the other, and, where G is even in others, for each of them
    how many of these agree.
    """

    masses: FloatArray
    rates: FloatArray
    log_first: FloatArray
    log_second: FloatArray
    spares: list[tuple[FloatArray, FloatArray]]


class Crowd(NamedTuple):
    """Users of several kinds: what `Kind` has, one after the other, where each begins, and spare reports.

    Rates are multiplied by speeds, of which every kind has one. Where a spare report is one of these, terms of that
    kind are divided by the exponential of `spare_lacks`: it is less likely from that kind's own G.
    """

    masses: FloatArray
    rates: FloatArray
    speeds: FloatArray
    log_first: FloatArray
    log_second: FloatArray
    starts: IntArray
    spare_masses: FloatArray
    spare_rates: FloatArray
    spare_starts: IntArray
    spare_lacks: FloatArray


@lru_cache(maxsize=64)
def families(facts: Facts) -> tuple[Family, ...]:
    """All that count, by falling numbers of bits in which the changed inputs differ."""
    bits, length = facts.bits, facts.length
    found = []
    for d in range(bits, 0, -1):
        if length or d == bits or d % 2 == 0:
            room = length - d if length else bits
            found.append(Family(d, tuple((min(bits - max(k, d - k), room), k, d - k) for k in range(d + 1))))
    return tuple(found)


def with_even_rest(facts: Facts, family: Family) -> Family:
    """The same changed inputs in reports of known length, with a G that is even in all bits: all m count."""
    numbers = [(m, k, i) for most, k, i in family.numbers for m in range(most + 1)]
    return Family(family.bits, tuple(numbers), facts.length - family.bits)


def crowd_of(epsilon: float, family: Family, slower: float, narrow: float) -> Crowd:
    """Others of all kinds of a family, with clocks of speeds e^(-k slower), and G as narrow as `log_words` says."""
    return (small_crowd if family.bits <= SMALL else large_crowd)(epsilon, family, slower, narrow)


def make_crowd(epsilon: float, family: Family, slower: float, narrow: float) -> Crowd:
    """The same, made anew."""
    kinds = [kind_of(epsilon, each, family.even, narrow) for each in family.numbers]
    speeds = [math.exp(-k * slower) for _, k, _ in family.numbers]
    return crowd_from(kinds, speeds, [np.zeros(masses.size) for each in kinds for masses, _ in each.spares])


small_crowd, large_crowd = lru_cache(maxsize=256)(make_crowd), lru_cache(maxsize=16)(make_crowd)


def count_reports(family: Family) -> int:
    """How many reports all kinds have, and as many spare ones, where G is even in no other bits.

    Of both that is (k + 1)(i + 1) + m (d + 1): spare ones that agree in a bits with the first input have powers one
    after the other, one for each number of the k bits among these, and m more.
    """
    return sum((k + 1) * (i + 1) + m * (k + i + 1) for m, k, i in family.numbers)


def crowd_from(kinds: list[Kind], speeds: list[float], lacks: list[FloatArray]) -> Crowd:
    """All kinds together; with `spare_lacks` of every kind, by what spare reports have in common with both inputs."""
    spares = [
        (masses, speed * rates) for each, speed in zip(kinds, speeds, strict=True) for masses, rates in each.spares
    ]
    return Crowd(
        np.concatenate([each.masses for each in kinds]),
        np.concatenate([speed * each.rates for each, speed in zip(kinds, speeds, strict=True)]),
        np.repeat(speeds, [each.masses.size for each in kinds]),
        np.concatenate([each.log_first for each in kinds]),
        np.concatenate([each.log_second for each in kinds]),
        np.cumsum([0, *(each.masses.size for each in kinds)]),
        np.concatenate([masses for masses, _ in spares]),
        np.concatenate([rates for _, rates in spares]),
        np.cumsum([0, *(masses.size for masses, _ in spares)]),
        np.concatenate(lacks),
    )


@lru_cache(maxsize=256)
def log_words(bits: int, narrow: float) -> FloatArray:
    """Logs of G of one word of d bits by how many agree with the first input: less narrow |agree - d/2|, and even at 0.

    All words together have a probability of one.
    """
    agree = np.arange(bits + 1.0)
    logs = -narrow * np.abs(agree - 0.5 * bits)
    return np.asarray(logs - np.logaddexp.reduce(logs + np.log([math.comb(bits, some) for some in range(bits + 1)])))


def log_own(epsilon: float, family: Family, narrow: float) -> tuple[FloatArray, FloatArray]:
    """Logs of P0/G and P1/G by what a report has in common with both inputs, in the order of spare reports."""
    agree, same = np.arange(family.bits + 1.0)[:, None], np.arange(family.even + 1.0)
    log_kept = math.log1p(math.exp(-epsilon))
    log_even = family.even * (math.log(2.0) - log_kept) - (family.even - same) * epsilon
    log_even = log_even - log_words(family.bits, narrow)[:, None] - family.bits * log_kept
    return (log_even - (family.bits - agree) * epsilon).ravel(), (log_even - agree * epsilon).ravel()


def kind_of(epsilon: float, numbers: tuple[int, int, int], even: int, narrow: float) -> Kind:
    """A user whose input differs from both in m bits, from the first alone in k, from the second alone in i.

    Of a, a' and a'' flipped bits the powers of t in P0/R_j and P1/R_j are 2a - m + 2a' - k and 2a - m + 2a'' - i, and
    that in G/R_j a' + a'', but for what `log_words` has, and 2a - m, or all flipped elsewhere where G is even: reports
    for which all are equal are one.
    """
    m, k, i = numbers
    flipped, n = 1.0 / (1.0 + math.exp(epsilon)), max(even - m, 0)
    both, first, second, none = (each.ravel() for each in np.indices((m + 1, k + 1, i + 1, n + 1)))
    masses = probabilities(m, flipped)[both] * probabilities(k, flipped)[first] * probabilities(i, flipped)[second]
    masses = masses * probabilities(n, flipped)[none]
    elsewhere = both + none if even else 2 * both - m
    powers = [2 * both - m + 2 * first - k, 2 * both - m + 2 * second - i, elsewhere + first + second]
    told, places = np.unique(np.stack(powers, axis=1), axis=0, return_inverse=True)
    logs, rests = log_words(k + i, narrow) + log_unflipped(epsilon, k + i, even), spare_rests(epsilon, m, even)
    return Kind(
        np.bincount(places.ravel(), masses).astype(float),
        np.exp(logs[(told[:, 0] - told[:, 1] + k + i) // 2] + epsilon * told[:, 2]),
        epsilon * told[:, 0],
        epsilon * told[:, 1],
        [
            spare_reports(epsilon, numbers, float(log_word), agree, some)
            for agree, log_word in enumerate(log_words(k + i, narrow))
            for some in rests
        ],
    )


def log_unflipped(epsilon: float, bits: int, even: int) -> float:
    """Log of G/R_j where no bit is flipped, but for G of the d bits in which the changed inputs differ."""
    log_kept = math.log1p(math.exp(-epsilon))
    return bits * log_kept + even * (log_kept - math.log(2.0))


class Rest(NamedTuple):
    """Of spare reports in the bits in which the changed inputs agree: powers of t in G/R_j, and their probabilities."""

    even: int
    powers: IntArray
    masses: FloatArray


def spare_rests(epsilon: float, m: int, even: int) -> list[Rest]:
    """By how many of these bits agree with both inputs, if G is even in them; else it is a report of both.

    Where l of the m bits in which user j differs from both agree with these inputs, they are flipped for user j.
    """
    if not even:
        likely = probabilities(m, 1.0 / (1.0 + math.exp(-epsilon)))
        return [Rest(0, 2 * np.arange(m + 1) - m, likely)]
    found = []
    for same in range(even + 1):
        both = np.arange(max(0, same - even + m), min(m, same) + 1)
        ways = [math.comb(m, l) * math.comb(even - m, same - l) for l in both.tolist()]  # noqa: E741
        found.append(Rest(even, 2 * both + even - m - same, np.array(ways) * 0.5**even))
    return found


def spare_reports(
    epsilon: float, numbers: tuple[int, int, int], log_word: float, agree: int, rest: Rest
) -> tuple[FloatArray, FloatArray]:
    """Probabilities and rates of reports from G of which so many bits agree with the first input, and this is the rest.

    Equal rates are added up.
    """
    _, k, i = numbers
    first = np.arange(max(0, agree - i), min(k, agree) + 1)
    ways = [math.comb(k, some) * math.comb(i, agree - some) for some in first.tolist()]
    powers = (2 * first[:, None] + rest.powers).ravel()
    low, masses = int(powers.min()), np.outer(np.array(ways, dtype=float), rest.masses * math.exp(log_word)).ravel()
    told = np.flatnonzero(np.bincount(powers - low))
    logs = log_word + log_unflipped(epsilon, k + i, rest.even)
    likely = np.bincount(powers - low, masses)[told]
    return np.asarray(likely, dtype=np.float64), np.exp(logs + epsilon * (told + low + i - agree))


def probabilities(number: int, chance: float) -> FloatArray:
    """Binomial probabilities, which add up to 1."""
    if number == 0:
        return np.ones(1)
    found = np.exp([log_binomial_pmf(float(number), float(count), chance) for count in range(number + 1)])
    return np.asarray(found / found.sum())
