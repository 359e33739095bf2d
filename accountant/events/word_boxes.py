"""How much a report hides among others of whom so many have which word: the worst numbers, by ever smaller boxes.

Who is told some of the others' reports by name sees no less, so that data with at least so many of each word cost no
more than data with just so many. All numbers of others are divided into boxes, of which the one whose least numbers
cost most is divided further, until none costs much more than numbers of all others that were looked at: these are an
attack. Everything is known at many epsilons at once.

Proofs: notebooks/mathematics.md, Shuffled bits.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from accountant.events.word_laws import Laws, Numbers, steps_of
from accountant.numerics.kernel import FloatArray

__all__ = ["Worst", "worst_numbers"]

MOST_FALL = 100.0
"""Of the log of the profile in a unit of epsilon, at most, for what is near."""

FAR, FADING = -28.0, 5.0
"""Log of the profile below which it matters less, and by how much it falls until what is near is e times as much."""


class Worst(NamedTuple):
    """Logs of the profile from above, and from below, with the ones of the second word and numbers that reach it."""

    above: FloatArray
    below: FloatArray
    data: list[tuple[int, Numbers]]


class Box(NamedTuple):
    """Numbers of others with each word, at least and at most; ones of the changed user's second word."""

    ones: int
    least: Numbers
    most: Numbers


class Search:
    """All boxes that may cost most.

    Parameters
    ----------
    laws : Laws
    points : array
        Epsilons.
    near : tuple of float
        By what share of epsilon, or of the profile, a box may cost more than the worst that is known, for it not to be
        divided.
    """

    def __init__(self, laws: Laws, points: FloatArray, near: tuple[float, float]) -> None:
        self.laws, self.points, self.near = laws, points, near
        self.steps = steps_of(points)
        self.enough = np.full(points.size, near[1])
        self.others = laws.users - 1
        self.bits = laws.words.bit_length() - 1
        self.below = np.full(points.size, -np.inf)
        self.data: list[tuple[int, Numbers]] = [(1, (0,) * laws.words)] * points.size
        self.boxes: list[tuple[float, int, Box, FloatArray]] = []
        self.left = np.full(points.size, -np.inf)
        self._made = 0

    def begin(self, several: range) -> None:
        """Boxes of all numbers, after numbers where all others have one word; for second words of so many ones."""
        words = self.laws.words
        for ones in several:
            for word in range(words):
                numbers = tuple(self.others * (each == word) for each in range(words))
                if may_be(self.bits, ones, numbers, numbers):
                    self._reach(ones, numbers, self._cost(ones, numbers))
        if self.points.size > 1:
            falls = np.minimum(-np.gradient(self.below, self.points), MOST_FALL)
            self.enough = np.maximum(self.enough, self.near[0] * falls * self.points)
            self.enough *= np.exp(np.maximum(FAR - self.below, 0.0) / FADING)
        for ones in several:
            self.add(Box(ones, (0,) * words, (self.others,) * words), np.full(self.points.size, np.inf))

    def divide(self) -> None:
        """Divide the box that costs most."""
        _, _, box, cost = heapq.heappop(self.boxes)
        if self._excess(cost) > 1.0:
            for half in halves(box):
                self.add(half, cost)
        else:
            self.left = np.maximum(self.left, cost)

    def add(self, box: Box, before: FloatArray) -> None:
        """A part of a box that costs no more than `before`, if there are numbers in it."""
        tight = tighten(box, self.others)
        if tight is None or not may_be(self.bits, *tight):
            return
        cost = np.minimum(before, self._cost(tight.ones, tight.least))
        if tight.least == tight.most:
            self._reach(tight.ones, tight.least, cost)
            return
        self._made += 1
        heapq.heappush(self.boxes, (-self._excess(cost), self._made, tight, cost))

    def worst(self) -> Worst:
        """What is known by now."""
        above = np.maximum(self.left, self.below)
        for *_, cost in self.boxes:
            above = np.maximum(above, cost)
        return Worst(above, self.below, self.data)

    def _cost(self, ones: int, numbers: Numbers) -> FloatArray:
        cost: FloatArray = np.log(self.laws.excesses(numbers, ones, self.steps))
        return cost

    def _reach(self, ones: int, numbers: Numbers, cost: FloatArray) -> None:
        for place in np.flatnonzero(cost > self.below).tolist():
            self.data[place] = (ones, numbers)
        self.below = np.maximum(self.below, cost)

    def _excess(self, cost: FloatArray) -> float:
        return float(np.max((cost - self.below) / self.enough))


def worst_numbers(laws: Laws, points: FloatArray, near: tuple[float, float], most: float) -> Worst:
    """Divide boxes until none is worth it, or about so many operations are done."""
    search = Search(laws, points, near)
    search.begin(range(search.bits, 0, -1))
    while search.boxes and laws.done < most:
        search.divide()
    return search.worst()


def may_be(bits: int, ones: int, least: Numbers, most: Numbers) -> bool:
    """Whether there may be numbers in a box that go first among those that are like them."""
    return all(most[word] >= least[other] for word, other in order_words(bits, ones))


def order_words(bits: int, ones: int) -> Iterator[tuple[int, int]]:
    """Words of which the first has no fewer users than the second, in some of all data that cost the same.

    Bits in which both words of the changed user differ may be exchanged, and bits in which they do not. Flips of a bit
    would change both words.
    """
    yield from ((1 << bit, 2 << bit) for bit in range(bits - 1) if bit != ones - 1)


def tighten(box: Box, others: int) -> Box | None:
    """The same numbers, all of which add up to those of the others; None where none do."""
    at_least, at_most = sum(box.least), sum(box.most)
    if not at_least <= others <= at_most:
        return None
    least = tuple(max(low, others - at_most + high) for low, high in zip(box.least, box.most, strict=True))
    spare = others - sum(least)
    return Box(box.ones, least, tuple(min(high, low + spare) for low, high in zip(least, box.most, strict=True)))


def halves(box: Box) -> Iterator[Box]:
    """The fewest, and the other numbers of a word of which most is open."""
    word = max(range(len(box.least)), key=lambda each: box.most[each] - box.least[each])
    middle = box.least[word] + (box.most[word] - box.least[word]) // 4
    yield box._replace(most=(*box.most[:word], middle, *box.most[word + 1 :]))
    yield box._replace(least=(*box.least[:word], middle + 1, *box.least[word + 1 :]))
