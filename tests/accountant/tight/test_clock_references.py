"""References of kinds of screening that are hardly any."""

import math

import numpy as np
import pytest

import accountant as ac
from accountant.tight.clock_references import Kind, cost_of, make_references
from accountant.tight.screening_game import Pairs


def test_kinds_of_one_pair_of_the_same_skew_have_references():
    """There was no place between the first skew and the last."""
    kinds = []
    for size in (0.125, 0.25, 0.5):
        pairs = Pairs(np.array([1.25 * size]), np.array([size]))
        cost = cost_of(pairs, 5.0)
        form = math.log(float(pairs.variation()[0]) ** 2 / cost)
        kinds.append(Kind(ac.NoisyScreening(2.0, 1.0, 2), 10, pairs, pairs, 0.0, cost, form))
    references = make_references(kinds, [4, 8, 16, 32, 64], kinds[0].cost / 4, 5.0, 1.0)
    assert [each.pairs.up.size for each in references] == [1] * 5
    costs = [cost_of(each.pairs, 5.0) / each.ticks for each in references]
    assert costs == pytest.approx([kinds[0].cost / 4] * 5, rel=2e-3)
