"""How much shuffling hides one word of randomized bits among few users, all words being inputs: by enumeration.

Shuffled reports are told by how many there are of every word. The probabilities of these numbers are computed for all
inputs, of which only the numbers count, too. The changed user's may be taken for 0...0 and 0...01...1 with d ones, as
flipping a bit of all inputs flips it in all reports, and bits may be exchanged: H(u) is the largest sum of the positive
parts of P0 - u P1, for any d and inputs of the others.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from accountant.events.race_thetas import IntArray
from accountant.events.shuffled_inputs import Facts
from accountant.numerics.kernel import FloatArray, Kernel
from accountant.patience import spend

__all__ = ["log_words_delta", "may_enumerate", "work_of_words", "worst_words"]

MOST_BITS = 4
"""Bits of a word, at most."""

MOST_CELLS = 7_000_000
"""Probabilities that are kept, at most: of all numbers of reports for all inputs."""

SLACK = 1e-13
"""Relative, of probabilities."""

MADE, LOOKED_AT = 4.0, 1.5
"""Operations (see `accountant.patience`) of a term of a probability, and of a positive part."""

WHAT = "bounds on shuffled bits"


def may_enumerate(facts: Facts, users: int) -> bool:
    """Whether all words may be inputs, or those of few ones, and there are few enough of them and of users."""
    if not 1 < facts.bits == facts.length <= MOST_BITS or not 1 < users < MOST_CELLS:
        return False
    return math.comb(users + 2**facts.bits - 1, users) ** 2 <= MOST_CELLS


def work_of_words(facts: Facts, users: int) -> float:
    """About how many operations all probabilities take, which are not counted there: once for all points."""
    words = 1 << facts.bits
    return MADE * sum(words * math.comb(j + words - 1, j) ** 2 for j in range(1, users + 1))


def log_words_delta(epsilon: float, facts: Facts, users: int, point: float) -> float:
    """Log of H(e^point), point >= 0, of one changed report beside users - 1 others with any inputs, rounded up."""
    words = 1 << facts.bits
    laws, with_word = laws_of_reports(epsilon, facts.bits, users), numbers_with(words, users)
    spend(LOOKED_AT * facts.bits * with_word.shape[0] * laws.shape[0], WHAT)
    most = 0.0
    for d in range(1, facts.bits + 1):
        most = max(most, largest_divergence(math.exp(point), laws, with_word[:, 0], with_word[:, 2**d - 1])[0])
    return math.log(max(most, 5e-324))


def worst_words(
    epsilon: float, facts: Facts, users: int, points: tuple[float, ...]
) -> list[tuple[FloatArray, FloatArray]]:
    """Laws of reports of the changed user's two inputs and the others' that cost most at some epsilons."""
    laws, with_word = laws_of_reports(epsilon, facts.bits, users), numbers_with(1 << facts.bits, users)
    found = dict[tuple[int, int], None]()
    for point in points:
        spend(LOOKED_AT * facts.bits * with_word.shape[0] * laws.shape[0], WHAT)
        several = []
        for d in range(1, facts.bits + 1):
            most, row = largest_divergence(math.exp(point), laws, with_word[:, 0], with_word[:, 2**d - 1])
            several.append((most, int(with_word[int(row), 0]), int(with_word[int(row), 2**d - 1])))
        found[max(several)[1:]] = None
    return [(laws[first], laws[second]) for first, second in found]


@Kernel
def largest_divergence(u: float, laws: FloatArray, first: IntArray, second: IntArray) -> tuple[float, int]:
    """The largest sum of positive parts of a law of `first` less u times that of `second`, rounded up; and whose."""
    most, worst = 0.0, 0
    for row in range(first.size):
        p, q, total = laws[first[row]], laws[second[row]], 0.0
        for state in range(p.size):
            total += max(p[state] * (1.0 + SLACK) - u * q[state] * (1.0 - SLACK), 0.0)
        if total > most:
            most, worst = total, row
    return most * (1.0 + SLACK), worst


@lru_cache(maxsize=2)
def laws_of_reports(epsilon: float, bits: int, users: int) -> FloatArray:
    """Probabilities of the numbers of reports, in columns, by numbers of inputs; see `work_of_words`."""
    words = np.arange(2**bits)
    distances = np.array([[(x ^ z).bit_count() for z in words.tolist()] for x in words.tolist()])
    report = np.exp(-epsilon * distances - bits * math.log1p(math.exp(-epsilon)))
    laws = np.ones((1, 1))
    for many in range(1, users + 1):
        after = numbers_with(words.size, many)
        # inputs are reached from those without one of their words
        found = np.zeros((1 + int(after.max()),) * 2)
        row, word = np.full(found.shape[0], -1), np.full(found.shape[0], -1)
        for each in words.tolist():
            row[after[:, each]], word[after[:, each]] = np.arange(after.shape[0]), each
        for each in words.tolist():
            found[:, after[:, each]] += report[word, each][:, None] * laws[row]
        laws = found
    return laws


@lru_cache(maxsize=64)
def numbers_with(words: int, users: int) -> IntArray:
    """Numbers of so many users' words are counted in order: of users - 1, in rows, which they are with a word more."""
    places = {each: place for place, each in enumerate(combinations_with_replacement(range(words), users))}
    fewer = combinations_with_replacement(range(words), users - 1)
    return np.array([[places[tuple(sorted((*each, word)))] for word in range(words)] for each in fewer])
