"""Probabilities of how many shuffled reports are which word, beside others of whom so many have which word.

Reports are told by their numbers m of words 0, ..., w - 1, of which the first is what the others leave. Those with few
of the others come first: so numbers of more reports go on where those of fewer end, and which place has one report of
a word less is the same for all. An empty place in front has probability 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accountant.events.race_thetas import IntArray
from accountant.numerics.kernel import FloatArray, Kernel

__all__ = ["AHEAD", "Laws", "Numbers", "cells_of", "reports_of_words", "slack_of", "steps_of", "work_of_box"]

PlaceArray = NDArray[np.uint32]

Numbers = tuple[int, ...]
"""Of users with each word."""

MAKE, MAKE_ROWS, LOOK, BESIDE = 1.0, 0.7, 5.0, 3e5
"""Operations (see `accountant.patience`) of a term of a probability, of four words, of what a place tells,
and of what else numbers take."""

CHAIN = 6.0
"""Users by whom numbers differ from the nearest ones that are known, about, and the changed one's two words."""

ONE = 1023 << 10
"""Sign, exponent and ten binary digits of 1."""

UNIT = 2.0**-53
"""Relative error of an operation."""

LEAST = 1e-290
"""More than what underflows, in all."""

CHUNK = 1024
"""Places whose ratios are taken at once."""

AHEAD = 0.1
"""Share of what was done up to now that is counted ahead."""

ROOM = 16_000_000
"""Probabilities that are kept in memory."""

MOST_KEPT = 400
"""Laws that are kept."""


def cells_of(words: int, users: int) -> int:
    """In how many ways so many reports may be of so many words."""
    return math.comb(users + words - 1, words - 1)


def slack_of(words: int, users: int) -> float:
    """What probabilities may be off by, relatively: 25 units of a report's, and one of every product and sum."""
    return (32.0 + 2.0 * words) * users * UNIT


def work_of_box(words: int, users: int) -> float:
    """About how many operations it takes to look at numbers of others of whom nearly all are known."""
    made = CHAIN * words * (MAKE_ROWS if words == 4 else MAKE)
    return (made + LOOK) * cells_of(words, users) + BESIDE


def reports_of_words(epsilon: float, bits: int) -> FloatArray:
    """Probabilities of reports, in columns, of words, in rows."""
    words = np.arange(2**bits)
    distances = np.array([[(x ^ z).bit_count() for z in words.tolist()] for x in words.tolist()])
    odds = math.exp(-epsilon)
    found: FloatArray = np.array([odds**k / (1.0 + odds) ** bits for k in range(bits + 1)])[distances]
    return found


@lru_cache(maxsize=4)
def places_with_one_less(words: int, users: int) -> PlaceArray:
    """For every place and all words but the first: the place with one report of it less, or the empty one.

    With s_i reports of the i-th of k = w - 1 words or a later one, the place is the sum of C(s_i + k - i, k - i + 1).
    """
    many, others = cells_of(words, users), words - 1
    left, sums = np.arange(many), np.zeros((others, many), dtype=np.int64)
    steps = [np.array([math.comb(s + k - 1, k) for s in range(users + 2)]) for k in range(others, 0, -1)]
    for i, step in enumerate(steps):
        sums[i] = np.searchsorted(step, left, side="right") - 1
        left -= step[sums[i]]
    found = np.zeros((many + 1, others), dtype=np.uint32)
    place = np.arange(1, many + 1)
    for i, step in enumerate(steps):
        place = place - step[sums[i]] + step[np.maximum(sums[i] - 1, 0)]
        later = sums[i + 1] if i + 1 < others else 0
        found[1:, i] = np.where(sums[i] > later, place, 0)
    return found


@Kernel
def add_report(law: FloatArray, fewer: PlaceArray, report: FloatArray, found: FloatArray) -> None:
    """The law with one more user, whose report is this."""
    found[0] = 0.0
    for place in range(1, found.size):
        total = report[0] * law[place] if place < law.size else 0.0
        for word in range(fewer.shape[1]):
            total += report[word + 1] * law[fewer[place, word]]
        found[place] = total


@Kernel
def add_report_of_four(law: FloatArray, users: int, report: FloatArray, found: FloatArray) -> None:
    """The same for four words, after which there are so many users: places that only differ in the last are a row."""
    found[0] = 0.0
    for first in range(users + 1):
        before = 1 + (first - 1) * first * (first + 1) // 6
        start = 1 + first * (first + 1) * (first + 2) // 6
        for second in range(first + 1):
            here, upper = start + second * (second + 1) // 2, before + second * (second + 1) // 2
            row = found[here : here + second + 1]
            if first < users:
                same = law[here : here + second + 1]
                for i in range(row.size):
                    row[i] = report[0] * same[i]
            else:
                row[:] = 0.0
            if first > second:
                above = law[upper : upper + second + 1]
                for i in range(row.size):
                    row[i] += report[1] * above[i]
            if second > 0:
                beside, later = law[upper - second : upper], row[1:]
                for i in range(beside.size):
                    row[i] += report[2] * beside[i]
                for i in range(beside.size):
                    later[i] += report[3] * beside[i]


@Kernel
def sort_by_ratio(both: FloatArray, us: FloatArray, starts: IntArray, found: FloatArray) -> None:
    """Sums of p and q, in two rows, where their ratio is above each of `us`, rising.

    `starts` are the last of `us` below p/(q us[0]) by its binary digits up to the tenth, from 1 on.
    """
    found[:] = 0.0
    ratios = np.empty(CHUNK)
    ends = ratios.view(np.int64)
    for begin in range(0, both.shape[1], CHUNK):
        p, q = both[0, begin : begin + CHUNK], both[1, begin : begin + CHUNK]
        for i in range(p.size):
            ratios[i] = p[i] / (us[0] * q[i])
        for i in range(p.size):
            if p[i] > us[0] * q[i]:
                k = starts[min(max((ends[i] >> 42) - ONE, 0), starts.size - 1)]
                while k > 0 and p[i] <= us[k] * q[i]:
                    k -= 1
                while k + 1 < us.size and p[i] > us[k + 1] * q[i]:
                    k += 1
                found[0, k] += p[i]
                found[1, k] += q[i]
    for k in range(us.size - 2, -1, -1):
        found[0, k] += found[0, k + 1]
        found[1, k] += found[1, k + 1]


class Steps(NamedTuple):
    """Values of u, rising, and which of them is the last below others, by the digits of these."""

    us: FloatArray
    starts: IntArray


def steps_of(points: FloatArray) -> Steps:
    """Those at some epsilons, rising."""
    us = np.exp(points)
    last = int((us[-1:] / us[0]).view(np.int64)[0]) >> 42
    edges = (np.arange(ONE, last + 2) << 42).view(np.float64)
    return Steps(us, np.maximum(np.searchsorted(us / us[0], edges) - 1, 0))


def excesses(both: FloatArray, steps: Steps) -> FloatArray:
    """Sums of positive parts of p - u q, rounded up; p and q are rows of `both`."""
    found = np.empty((2, steps.us.size))
    sort_by_ratio(both, steps.us, steps.starts, found)
    # sums of so many terms are off by no more than a unit for each
    lost = (both.shape[1] + steps.us.size) * UNIT
    above: FloatArray = found[0] * (1.0 + 2 * lost) - steps.us * found[1] * (1.0 - 2 * lost)
    return np.maximum(above, 0.0) * (1.0 + 4 * UNIT) + LEAST


class Laws:
    """Laws of others' reports, of which the last are kept.

    Parameters
    ----------
    reports : array
        Probabilities of reports, in columns, of words, in rows.
    users : int
        Of whom one is the changed user.
    count : callable
        Is told how many operations something takes, before.
    """

    def __init__(self, reports: FloatArray, users: int, count: Callable[[float], None]) -> None:
        self.reports, self.users, self._counted = reports, users, count
        self.done = self._paid = 0.0
        self.words = reports.shape[0]
        self._both = np.empty(2 * cells_of(self.words, users) + 2)
        # the first is beside nobody and stays
        self._laws = [np.array([0.0, 1.0])]
        self._numbers = np.zeros((1, self.words), dtype=np.int64)
        self._asked, self._clock = [0], 0

    def law(self, numbers: Numbers) -> FloatArray:
        """The law beside others of whom so many have each word: from the nearest one that is known, of fewer."""
        fewer = (self._numbers <= np.array(numbers)).all(axis=1)
        nearest = int(np.where(fewer, self._numbers.sum(axis=1), -1).argmax())
        self._clock += 1
        self._asked[nearest] = self._clock
        found, less = self._laws[nearest], self._numbers[nearest].copy()
        for word in range(self.words):
            for _ in range(numbers[word] - int(less[word])):
                less[word] += 1
                made = np.empty(cells_of(self.words, int(less.sum())) + 1)
                self._add(found, self.reports[word], int(less.sum()), made)
                found = made
        if found is not self._laws[nearest]:
            self._keep(less, found)
        return found

    def _count(self, operations: float) -> None:
        self.done += operations
        if self.done > self._paid:
            ahead = self.done - self._paid + AHEAD * self.done
            self._paid += ahead
            self._counted(ahead)

    def _add(self, law: FloatArray, report: FloatArray, users: int, found: FloatArray) -> None:
        """The law with one more user, who has this report, beside others with this law."""
        self._count((MAKE_ROWS if self.words == 4 else MAKE) * self.words * found.size)
        if self.words == 4:
            add_report_of_four(law, users, report, found)
        else:
            add_report(law, places_with_one_less(self.words, self.users)[: found.size], report, found)

    def _keep(self, numbers: IntArray, law: FloatArray) -> None:
        """Keep a law, and those that were asked for last."""
        room = ROOM - sum(each.size for each in self._laws) - law.size
        while len(self._laws) > 1 and (room < 0 or len(self._laws) >= MOST_KEPT):
            oldest = 1 + self._asked[1:].index(min(self._asked[1:]))
            room += self._laws.pop(oldest).size
            self._asked.pop(oldest)
            self._numbers = np.delete(self._numbers, oldest, axis=0)
        self._laws.append(law)
        self._asked.append(self._clock)
        self._numbers = np.concatenate([self._numbers, numbers[None]])

    def both(self, numbers: Numbers, ones: int, slack: float) -> FloatArray:
        """Laws of all reports with words 0...0 and 0...01...1 beside these others: larger and smaller by a slack.

        They are overwritten by the next ones.
        """
        users, law = sum(numbers) + 1, self.law(numbers)
        many = cells_of(self.words, users) + 1
        found = self._both[: 2 * many].reshape(2, many)
        self._add(law, self.reports[0] * (1.0 + slack), users, found[0])
        self._add(law, self.reports[2**ones - 1] * (1.0 - slack), users, found[1])
        return found

    def excesses(self, numbers: Numbers, ones: int, steps: Steps) -> FloatArray:
        """H(u) for these words beside these others, rounded up."""
        both = self.both(numbers, ones, slack_of(self.words, sum(numbers) + 1))
        self._count(LOOK * both.shape[1] + BESIDE)
        return excesses(both, steps)
