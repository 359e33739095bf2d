"""Worst numbers of others' words by boxes: against all of them, and what is left where few boxes are divided."""

import itertools

import numpy as np
import pytest

from accountant.events.word_boxes import Search, order_words, worst_numbers
from accountant.events.word_laws import Laws, reports_of_words, steps_of


def laws_of(epsilon, bits, users):
    return Laws(reports_of_words(epsilon, bits), users, lambda operations: None)


def of_all(epsilon, bits, users, points):
    """The largest of all data, each by itself."""
    laws, steps, words = laws_of(epsilon, bits, users), steps_of(points), 2**bits
    most = np.zeros(points.size)
    for others in itertools.combinations_with_replacement(range(words), users - 1):
        numbers = tuple(others.count(word) for word in range(words))
        for ones in range(1, bits + 1):
            most = np.maximum(most, laws.excesses(numbers, ones, steps))
    return most


@pytest.mark.each_run(3)
@pytest.mark.parametrize(
    ("bits", "users", "epsilon"),
    [
        (2, 10, 0.2),
        (2, 14, 2.0),
        (2, 22, 0.8),
        (3, 4, 0.5),
        (3, 5, 2.0),
        (4, 3, 1.0),
    ],
)
def test_boxes_find_the_worst_of_all_data(bits, users, epsilon):
    points = np.linspace(0.0, 0.98 * bits * epsilon, 12)
    found = worst_numbers(laws_of(epsilon, bits, users), points, (0.0, 1e-12), np.inf)
    exact = of_all(epsilon, bits, users, points)
    assert np.exp(found.above) == pytest.approx(exact, rel=1e-10)
    assert np.exp(found.below) == pytest.approx(exact, rel=1e-10)
    laws = laws_of(epsilon, bits, users)
    for place, (ones, numbers) in enumerate(found.data):
        assert sum(numbers) == users - 1
        reached = float(laws.excesses(numbers, ones, steps_of(points[place : place + 1]))[0])
        assert reached == pytest.approx(exact[place], rel=1e-10)


@pytest.mark.parametrize(("bits", "users"), [(2, 12), (3, 5)])
def test_what_few_boxes_leave_is_above(bits, users):
    """However few are divided, and how near they have to be, it is a bound; the more, the smaller it is."""
    points = np.linspace(0.0, 0.95 * bits, 9)
    exact, before = np.log(of_all(1.0, bits, users, points)), np.full(points.size, np.inf)
    for most in (0.0, 3e6, 1e7, 3e7, np.inf):
        found = worst_numbers(laws_of(1.0, bits, users), points, (0.0, 1e-12), most)
        assert np.all(found.above >= exact - 1e-11)
        assert np.all(found.above <= before + 1e-12)
        assert np.all(found.below <= exact + 1e-11)
        before = found.above
    rough = worst_numbers(laws_of(1.0, bits, users), points, (0.1, 0.1), np.inf)
    assert np.all(rough.above >= exact - 1e-11)
    assert rough.above[0] <= exact[0] + 0.1


@pytest.mark.parametrize(("bits", "ones"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2)])
def test_some_data_that_cost_the_same_go_first(bits, ones):
    """Exchanges of bits that leave both words: of all data that they make some are in this order, and cost as much."""
    words, rng = range(2**bits), np.random.default_rng(bits + ones)
    images = []
    for inner in itertools.permutations(range(ones)):
        for outer in itertools.permutations(range(ones, bits)):
            to = (*inner, *outer)
            images.append([sum(((word >> i) & 1) << to[i] for i in range(bits)) for word in words])
            assert (images[-1][0], images[-1][2**ones - 1]) == (0, 2**ones - 1)
    for _ in range(50):
        numbers = rng.integers(0, 4, size=2**bits)
        assert any(all(numbers[moved[a]] >= numbers[moved[b]] for a, b in order_words(bits, ones)) for moved in images)
    laws, steps = laws_of(0.8, bits, 5), steps_of(np.array([0.1, 0.3, 0.6]))
    few = rng.multinomial(4, np.full(2**bits, 0.5**bits))
    costs = np.array([laws.excesses(tuple(few[moved].tolist()), ones, steps) for moved in images])
    assert costs == pytest.approx(np.tile(costs[0], (len(images), 1)), rel=1e-11)


@pytest.mark.parametrize(("bits", "users"), [(2, 9), (3, 4)])
def test_every_second_word_has_its_worst_data(bits, users):
    """By itself, too: words that differ in fewer bits cost less, and would hide what is left out of them."""
    points = np.linspace(0.0, 0.9, 7)
    for ones in range(1, bits + 1):
        laws, exact = laws_of(1.0, bits, users), np.zeros(points.size)
        for others in itertools.combinations_with_replacement(range(2**bits), users - 1):
            numbers = tuple(others.count(word) for word in range(2**bits))
            exact = np.maximum(exact, laws.excesses(numbers, ones, steps_of(points)))
        search = Search(laws_of(1.0, bits, users), points, (0.0, 1e-12))
        search.begin(range(ones, ones + 1))
        while search.boxes:
            search.divide()
        assert np.exp(search.worst().above) == pytest.approx(exact, rel=1e-10)
