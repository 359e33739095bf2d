"""The others in a race for the place of a report (`accountant.events.shuffled_race`) where more is known of all inputs.

Sets of at most c entries: G is the report of the set without entries, from which every input differs in c bits or
fewer. A bit more may be shown for everybody, so that all have c entries: the changed user's inputs have o in common,
and another's has some of these, some of each alone, and the rest in neither.

Words of which any two differ in at most two bits. With their parity as a bit more any two of them differ in just two
bits. They are then sets of one entry, or four words of three bits, but for bits that are exchanged, flipped, or always
the same. Of the four words the two that are not the changed user's are mirror images of each other: both bits in which
the changed user's differ are flipped. Everybody may be thought to have the one or the other, the exchange being the
same, if images are drawn afterwards. Where the spare report is alike in both bits the observer must not see whether it
was drawn by somebody with the changed user's inputs: these draw it and its image as often.

Proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accountant.events.race_crowds import Crowd, Kind, crowd_from
from accountant.events.race_thetas import IntArray
from accountant.events.shuffled_inputs import Facts
from accountant.numerics.kernel import FloatArray

__all__ = ["MOST_ENTRIES", "Words", "crowd_of_words", "log_own_words", "words_of"]

MOST_ENTRIES = 2
"""Entries of sets for which a race has a G of their own: kinds of more are too many for the usual patience."""


LIFTED = 0.2
"""Log, over epsilon, by which spare reports that have images are more likely for those with the changed user's inputs
than the mean, of logs, of a report and its image: about the best."""

LEAST = 1e-290
"""A probability of spare reports, at least."""


class Words(NamedTuple):
    """Inputs of the changed user and those of others, as binary numbers.

    Where they are mirrored another's may be an image, too: both bits in which the changed user's differ are flipped.
    """

    length: int
    first: int
    second: int
    others: tuple[int, ...]
    mirrored: bool = False

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
    return (sets_of(1, 0)._replace(mirrored=True),) if bits == 2 and not length else ()


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
    return Words(length, some(0, shared) | some(1, own), some(0, shared) | some(2, own), others)


@lru_cache(maxsize=256)
def reports_of(epsilon: float, family: Words, narrow: float) -> Reports:
    """With G as e^(-epsilon ones), bits in which the changed inputs differ being 1 + `narrow` each."""
    words = np.arange(1 << family.length)
    differ = family.first ^ family.second
    log_common = -epsilon * counts(words) - (0.0 if family.mirrored else narrow) * counts(words & differ)
    log_common -= np.logaddexp.reduce(log_common)
    first, second = counts(words ^ family.first), counts(words ^ family.second)
    # every other user may have bits that are in neither input for itself
    seen = words & (family.first | family.second)
    told = np.stack([first[seen], second[seen], ranks(log_common[seen])], axis=1)
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
    """Logs of P0/G and P1/G, by what the changed user's own reports tell apart; what is mirrored is there twice."""
    first, second, _, log_common, places = reports_of(epsilon, family, narrow)
    one = np.unique(places, return_index=True)[1]
    if family.mirrored:
        one = np.append(one, one[(first == second)[one]])
    log_unflipped = -family.length * math.log1p(math.exp(-epsilon)) - log_common[one]
    return log_unflipped - epsilon * first[one], log_unflipped - epsilon * second[one]


@lru_cache(maxsize=256)
def crowd_of_words(epsilon: float, family: Words, others: int, slower: float, narrow: float) -> Crowd:
    """Others with these inputs, and clocks of speeds e^(-k slower), k bits differing from the first input alone.

    Where words are mirrored those with the changed user's inputs have clocks that are e^`narrow` quicker, and
    everything depends on how many others there are.
    """
    differ = family.first ^ family.second
    speeds = [math.exp(-((word ^ family.first) & differ).bit_count() * slower) for word in family.others]
    reports = reports_of(epsilon, family, narrow)
    if not family.mirrored:
        kinds = [kind_of_word(epsilon, family.length, reports, away, reports.log_common) for away in reports.others]
        return crowd_from(kinds, speeds, [np.zeros(masses.size) for each in kinds for masses, _ in each.spares])
    kinds, lacks = [], list[FloatArray]()
    for place, (word, away) in enumerate(zip(family.others, reports.others, strict=True)):
        is_own = word in (family.first, family.second)
        speeds[place] *= math.exp(narrow) if is_own else 1.0
        log_drawn = log_mirrored(epsilon, reports, differ) if is_own else reports.log_common
        kinds.append(kind_of_word(epsilon, family.length, reports, away, log_drawn))
        lacks += add_mirrored(epsilon, reports, kinds[-1].spares, log_drawn, 0 if is_own else others)
    return crowd_from(kinds, speeds, lacks)


def log_mirrored(epsilon: float, reports: Reports, differ: int) -> FloatArray:
    """Logs of what those with the changed user's inputs draw spare reports from: an image is as likely as a report.

    Any multiple may be taken for these.
    """
    images = reports.log_common[np.arange(reports.log_common.size) ^ differ]
    log_means = 0.5 * (reports.log_common + images) + LIFTED * epsilon
    return np.where(reports.first == reports.second, log_means, reports.log_common)


def add_mirrored(
    epsilon: float, reports: Reports, spares: list[tuple[FloatArray, FloatArray]], log_drawn: FloatArray, others: int
) -> list[FloatArray]:
    """Add what is shown where all others, of this kind, have a report that has an image; returns `spare_lacks`.

    Their own terms are left out there. With no number of others, of another kind, nothing is left out.
    """
    one = np.unique(reports.places, return_index=True)[1].tolist()
    lacks = [np.full(spares[z][0].size, (reports.log_common - log_drawn)[word]) for z, word in enumerate(one)]
    log_chance = others * (math.log1p(math.exp(-2.0 * epsilon)) - 2.0 * math.log1p(math.exp(-epsilon)))
    for z, word in enumerate(one):
        if reports.first[word] == reports.second[word]:
            weights, rates = spares[z]
            spares.append((np.maximum(weights * math.exp(log_chance), LEAST), rates))
            lacks.append(np.full(weights.size, math.inf) if others else lacks[z])
    return lacks


def kind_of_word(epsilon: float, length: int, reports: Reports, away: IntArray, log_drawn: FloatArray) -> Kind:
    """One other user, whose reports are at these distances from the input: those that are alike are one.

    `log_drawn` are logs of the user's own G.
    """
    first, second, _, log_common, places = reports
    log_report = -length * math.log1p(math.exp(-epsilon)) - epsilon * away
    log_rates = log_drawn - log_report
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
