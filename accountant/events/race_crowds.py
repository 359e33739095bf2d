"""The others in a race for the place of a report (`accountant.events.shuffled_race`): their reports and spare ones.

G is uniform in the d bits in which the two inputs of the changed user differ, and there is a report of both elsewhere.
Where R_j differs from both inputs in m bits, from the first alone in k and from the second alone in i = d - k, rates
G/R_j and values depend on how many of each were flipped. A bit of m more may be shown for user j, and a bit in which
the two inputs differ for everybody, so that only m = b - max(k, i) counts, and of odd d only d = b. The speed of a
clock may depend on k: one theta is then good for those whose inputs are near the first and for those near the second.
Proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.events.race_thetas import IntArray
from accountant.events.shuffled_inputs import Facts
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_binomial_pmf

__all__ = ["Crowd", "Kind", "crowd_of", "families", "kind_of"]


class Kind(NamedTuple):
    """One other user: reports with their probabilities, rates and logs of P0 and P1 over theirs.

    Then the same of spare reports by how many of the d bits agree with the first input: probabilities and rates.
    """

    masses: FloatArray
    rates: FloatArray
    log_first: FloatArray
    log_second: FloatArray
    spares: list[tuple[FloatArray, FloatArray]]


class Crowd(NamedTuple):
    """Users of several kinds: what `Kind` has, one after the other, where each begins, and spare reports.

    Rates are multiplied by speeds, of which every kind has one.
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


def families(facts: Facts) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """Numbers d of bits in which the changed inputs differ, and the kinds (m, k, d - k) of others."""
    bits, length = facts.bits, facts.length
    for d in range(bits, 0, -1):
        if length or d == bits or d % 2 == 0:
            room = length - d if length else bits
            yield d, [(min(bits - max(k, d - k), room), k, d - k) for k in range(d + 1)]


@lru_cache(maxsize=256)
def crowd_of(epsilon: float, numbers: tuple[tuple[int, int, int], ...], slower: float) -> Crowd:
    """Others of all these kinds (m, k, i), with clocks of speeds e^(-k slower)."""
    kinds = [kind_of(epsilon, *each) for each in numbers]
    speeds = [math.exp(-k * slower) for _, k, _ in numbers]
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
    )


def kind_of(epsilon: float, m: int, k: int, i: int) -> Kind:
    """A user whose input differs from both in m bits, from the first alone in k, from the second alone in i.

    Of a, a' and a'' flipped bits the powers of t in P0/R_j and P1/R_j are 2a - m + 2a' - k and 2a - m + 2a'' - i, and
    half their sum, plus d/2, is that in G/R_j: reports for which both are equal are one.
    """
    flipped, log_even = 1.0 / (1.0 + math.exp(epsilon)), (k + i) * math.log(0.5 * (1.0 + math.exp(-epsilon)))
    shared, first, second = (each.ravel() for each in np.indices((m + 1, k + 1, i + 1)))
    masses = probabilities(m, flipped)[shared] * probabilities(k, flipped)[first] * probabilities(i, flipped)[second]
    powers = np.stack([2 * shared - m + 2 * first - k, 2 * shared - m + 2 * second - i], axis=1)
    told, places = np.unique(powers, axis=0, return_inverse=True)
    return Kind(
        np.bincount(places.ravel(), masses).astype(float),
        np.exp(log_even + 0.5 * epsilon * (told.sum(axis=1) + k + i)),
        epsilon * told[:, 0],
        epsilon * told[:, 1],
        [spare_reports(epsilon, (m, k, i), agree) for agree in range(k + i + 1)],
    )


def spare_reports(epsilon: float, numbers: tuple[int, int, int], agree: int) -> tuple[FloatArray, FloatArray]:
    """Probabilities and rates of reports from G of which so many bits agree with the first input.

    The bits of m agree with that input with probability t/(1+t); equal rates are added up.
    """
    m, k, i = numbers
    shared, told = probabilities(m, 1.0 / (1.0 + math.exp(-epsilon))), dict[int, float]()
    for first in range(max(0, agree - i), min(k, agree) + 1):
        share = math.comb(k, first) * math.comb(i, agree - first) * 0.5 ** (k + i)
        for same in range(m + 1):
            power = 2 * same - m + i - agree + 2 * first
            told[power] = told.get(power, 0.0) + share * float(shared[same])
    log_even = (k + i) * math.log(0.5 * (1.0 + math.exp(-epsilon)))
    return np.array(list(told.values())), np.exp(log_even + epsilon * np.array(list(told), dtype=float))


def probabilities(number: int, chance: float) -> FloatArray:
    """Binomial probabilities, which add up to 1."""
    if number == 0:
        return np.ones(1)
    found = np.exp([log_binomial_pmf(float(number), float(count), chance) for count in range(number + 1)])
    return np.asarray(found / found.sum())
