"""The others in a race for the place of a report (`accountant.events.shuffled_race`) where more is known of all inputs.

Sets of at most c entries: G is the report of the set without entries, from which every input differs in c bits or
fewer. A bit more may be shown for everybody, so that all have c entries: the changed user's inputs have o in common,
and another's has some of these, some of each alone, and the rest in neither.

Words of which any two differ in at most two bits. With their parity as a bit more any two of them differ in just two
bits. They are then sets of one entry, or four words of three bits, but for bits that are exchanged, flipped, or always
the same. For the four words G is the mean of their reports.

Proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.events.race_crowds import Crowd, Kind
from accountant.events.race_thetas import IntArray
from accountant.events.shuffled_inputs import Facts
from accountant.numerics.kernel import FloatArray

__all__ = ["MOST_ENTRIES", "Words", "crowd_of_words", "log_own_words", "words_of"]

MOST_ENTRIES = 2
"""Entries of sets for which a race has a G of their own: kinds of more are too many for the usual patience."""


class Words(NamedTuple):
    """Inputs of the changed user, those of others, and those of whose reports G is the mean, as binary numbers."""

    length: int
    first: int
    second: int
    others: tuple[int, ...]
    common: tuple[int, ...]

    @property
    def bits(self) -> int:
        """How many bits the inputs of the changed user differ in."""
        return (self.first ^ self.second).bit_count()


class Reports(NamedTuple):
    """All words as reports: distances from inputs, logs of G, and which of them the changed user's own tell apart."""

    first: IntArray
    second: IntArray
    others: list[IntArray]
    log_common: FloatArray
    places: IntArray


@lru_cache(maxsize=64)
def words_of(facts: Facts) -> tuple[Words, ...]:
    """What inputs may be, those that cost most first; none where nothing helps."""
    bits, ones, length = facts
    if 0 < ones <= MOST_ENTRIES and 2 * ones <= bits:
        return tuple(sets_of(ones, shared) for shared in range(ones))
    return (sets_of(1, 0), four_words()) if bits == 2 and not length else ()


def four_words() -> Words:
    """Words of three bits with an odd number of ones; both that are neither of the changed user's are alike."""
    return Words(3, 0b100, 0b010, (0b100, 0b010, 0b001), (0b100, 0b010, 0b001, 0b111))


def sets_of(entries: int, shared: int) -> Words:
    """Sets of so many entries, of which the changed user's inputs share some."""
    own = entries - shared
    length = shared + 2 * own + entries
    # bits from the lowest: those shared, those of the first alone, of the second alone, of neither
    ends = np.cumsum([0, shared, own, own, entries]).tolist()

    def some(part: int, number: int) -> int:
        return ((1 << number) - 1) << int(ends[part])

    others = tuple(
        some(0, both) | some(1, first) | some(2, second) | some(3, entries - both - first - second)
        for both in range(shared + 1)
        for first in range(own + 1)
        for second in range(own + 1)
        if both + first + second <= entries
    )
    return Words(length, some(0, shared) | some(1, own), some(0, shared) | some(2, own), others, (0,))


@lru_cache(maxsize=256)
def reports_of(epsilon: float, family: Words, narrow: float) -> Reports:
    """With G as the mean of e^(-epsilon distance), bits in which the changed inputs differ being 1 + `narrow` each."""
    words = np.arange(1 << family.length)
    differ = family.first ^ family.second
    near = [counts(words ^ each) + narrow / epsilon * counts((words ^ each) & differ) for each in family.common]
    log_common = np.logaddexp.reduce(-epsilon * np.array(near), axis=0)
    log_common -= np.logaddexp.reduce(log_common)
    first, second = counts(words ^ family.first), counts(words ^ family.second)
    told = np.stack([first, second, ranks(log_common)], axis=1)
    places = np.unique(told, axis=0, return_inverse=True)[1].ravel()
    return Reports(first, second, [counts(words ^ each) for each in family.others], log_common, places)


def counts(words: IntArray) -> IntArray:
    """Numbers of ones."""
    return np.array([word.bit_count() for word in words.tolist()])


def ranks(logs: FloatArray) -> IntArray:
    """Numbers that are the same where logs are but for rounding."""
    order = np.argsort(logs, kind="stable")
    rises = np.diff(logs[order], prepend=logs[order[0]]) > 1e-9
    found = np.empty(logs.size, dtype=np.int64)
    found[order] = np.cumsum(rises)
    return found


def log_own_words(epsilon: float, family: Words, narrow: float) -> tuple[FloatArray, FloatArray]:
    """Logs of P0/G and P1/G, by what the changed user's own reports tell apart."""
    first, second, _, log_common, places = reports_of(epsilon, family, narrow)
    one = np.unique(places, return_index=True)[1]
    log_unflipped = -family.length * math.log1p(math.exp(-epsilon)) - log_common[one]
    return log_unflipped - epsilon * first[one], log_unflipped - epsilon * second[one]


@lru_cache(maxsize=256)
def crowd_of_words(epsilon: float, family: Words, slower: float, narrow: float) -> Crowd:
    """Others with these inputs, and clocks of speeds e^(-k slower), k bits differing from the first input alone."""
    differ = family.first ^ family.second
    speeds = [math.exp(-((word ^ family.first) & differ).bit_count() * slower) for word in family.others]
    reports = reports_of(epsilon, family, narrow)
    kinds = [kind_of_word(epsilon, family.length, reports, away) for away in reports.others]
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


def kind_of_word(epsilon: float, length: int, reports: Reports, away: IntArray) -> Kind:
    """One other user, whose reports are at these distances from the input: those that are alike are one."""
    first, second, _, log_common, places = reports
    log_report = -length * math.log1p(math.exp(-epsilon)) - epsilon * away
    log_rates = log_common - log_report
    of_rate = ranks(log_rates)
    told = np.stack([away - first, away - second, of_rate], axis=1)
    _, one, of = np.unique(told, axis=0, return_index=True, return_inverse=True)
    masses = np.bincount(of.ravel(), np.exp(log_report)).astype(float)
    spares = list[tuple[FloatArray, FloatArray]]()
    for place in range(int(places.max()) + 1):
        here = np.flatnonzero(places == place)
        _, each, which = np.unique(of_rate[here], return_index=True, return_inverse=True)
        weights = np.bincount(which.ravel(), np.exp(log_common[here])).astype(float)
        spares.append((weights, np.exp(log_rates[here][each])))
    both = [epsilon * (away - other)[one].astype(float) for other in (first, second)]
    return Kind(masses / masses.sum(), np.exp(log_rates[one]), both[0], both[1], spares)
