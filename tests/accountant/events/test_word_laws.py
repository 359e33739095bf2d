"""Laws of numbers of reports against products in rationals, and sums of positive parts against their definition."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from accountant.events.word_laws import (
    Laws,
    cells_of,
    excesses,
    places_with_one_less,
    reports_of_words,
    slack_of,
    steps_of,
)


def counted(bits, numbers, odds):
    """Probabilities of numbers of reports of all words, by products."""
    words = range(2**bits)
    law = {(0,) * len(words): Fraction(1)}
    for word in [each for each in words for _ in range(numbers[each])]:
        after = {}
        for cell, mass in law.items():
            for z in words:
                key = tuple(many + (z == each) for each, many in enumerate(cell))
                share = odds ** (word ^ z).bit_count() / (1 + odds) ** bits
                after[key] = after.get(key, 0) + mass * share
        law = after
    return law


@pytest.mark.parametrize(
    "numbers", [(3, 0, 2, 1), (0, 0, 0, 5), (2, 2, 2, 2), (1, 0, 0, 0, 0, 1, 0, 1), (0, 2, 0, 0, 0, 0, 0, 0)]
)
def test_laws_in_rationals(numbers):
    """In the order in which few reports of other words than the first come first; from any laws that are kept."""
    bits, users = len(numbers).bit_length() - 1, sum(numbers)
    laws = Laws(reports_of_words(math.log(2.0), bits), users + 2, lambda operations: None)
    laws.law((1,) + (0,) * (len(numbers) - 1))
    laws.law(tuple(many + (word == 0) for word, many in enumerate(numbers)))
    law, exact = laws.law(numbers), counted(bits, numbers, Fraction(1, 2))
    assert law.size == cells_of(len(numbers), users) + 1
    assert law[0] == 0.0
    fewer = places_with_one_less(len(numbers), users + 2)
    for cell, mass in exact.items():
        place = place_of(cell[1:])
        assert abs(law[place] - float(mass)) <= slack_of(len(numbers), users) * float(mass)
        for word in range(1, len(numbers)):
            less = [many - (each == word) for each, many in enumerate(cell)]
            assert fewer[place, word - 1] == (place_of(less[1:]) if min(less) >= 0 else 0)


def place_of(cell):
    sums = [sum(cell[i:]) for i in range(len(cell))]
    return 1 + sum(math.comb(s + len(cell) - 1 - i, len(cell) - i) for i, s in enumerate(sums))


def test_places_are_all_there_are():
    cells = [cell for cell in itertools.product(range(5), repeat=3) if sum(cell) <= 4]
    assert sorted(map(place_of, cells)) == list(range(1, cells_of(4, 4) + 1))


@pytest.mark.parametrize("points", [np.array([0.0]), np.linspace(0.0, 3.0, 40), np.array([0.1, 0.2, 1.9, 4.0])])
def test_positive_parts_by_their_definition(points):
    """Never less than the exact sum of these numbers, and more by rounding alone; without q, or p, and in a ratio."""
    rng = np.random.default_rng(points.size)
    both = np.exp(rng.normal(-9.0, 1.5, size=(2, 3000)))
    both[1, 5], both[0, 7], both[:, 9] = 0.0, 0.0, 0.0
    both[0, 20:40] = np.exp(points[-1]) * both[1, 20:40]
    found = excesses(both, steps_of(points))
    for u, value in zip(np.exp(points).tolist(), found.tolist(), strict=True):
        exact = sum(max(Fraction(p) - Fraction(u) * Fraction(q), Fraction(0)) for p, q in both.T.tolist())
        assert float(exact) <= value <= float(exact) * (1 + 1e-9) + 1e-10


def test_laws_with_a_slack_are_above_and_below():
    laws = Laws(reports_of_words(0.7, 2), 12, lambda operations: None)
    plain = laws.both((5, 1, 3, 2), 2, 0.0).copy()
    wide = laws.both((5, 1, 3, 2), 2, 1e-3)
    assert wide[0] == pytest.approx(plain[0] * (1 + 1e-3), rel=1e-12)
    assert wide[1] == pytest.approx(plain[1] * (1 - 1e-3), rel=1e-12)


def test_what_is_done_is_counted_before():
    told = []
    laws = Laws(reports_of_words(1.0, 2), 30, told.append)
    for word in range(4):
        laws.excesses(tuple(29 * (word == each) for each in range(4)), 2, steps_of(np.array([0.5])))
        assert sum(told) >= laws.done
    assert sum(told) <= 1.2 * laws.done
    assert len(told) < 60
