"""References of kinds of screening that are hardly any."""

import math

import numpy as np
import pytest

import accountant as ac
from accountant.tight.clock_references import Kind, cost_of, make_references
from accountant.tight.pairs import Pairs


def test_a_kind_of_one_pair_has_references():
    """There was no place between its skew and itself: the references had no pairs."""
    pairs = Pairs(np.array([0.3]), np.array([0.25]))
    cost = cost_of(pairs, 5.0)
    form = math.log(float(pairs.variation()[0]) ** 2 / cost)
    kind = Kind(ac.NoisyScreening(2.0, 1.0, 2), 10, pairs, pairs, 0.0, cost, form)
    references = make_references([kind], [2, 4, 8], cost / 4, 5.0, 1.0)
    assert [each.pairs.up.size for each in references] == [1, 1, 1]
    assert [cost_of(each.pairs, 5.0) / each.ticks for each in references] == pytest.approx([cost / 4] * 3, rel=2e-3)
