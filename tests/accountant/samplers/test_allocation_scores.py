"""Scores that tell who took part in several steps: all are below, and the one that is chosen tells much."""

import math
from fractions import Fraction

import numpy as np
import pytest

import accountant as ac
from accountant.samplers.allocation_scores import best_rate
from accountant.samplers.allocation_subsets import Drawn, subset_pair
from accountant.tight.loss_composition import bound_epsilon
from tests.accountant.samplers.test_random_allocation import outcomes


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5, 0.9])
@pytest.mark.parametrize(("steps", "selected"), [(3, 2), (4, 2), (5, 3)])
def test_scores_at_any_rate_are_below_all_outcomes(steps, selected, rate):
    pairs, epsilon = outcomes(1.0, steps, selected), np.array([0.0, 0.4, 0.9])
    for index, direction in enumerate(("remove", "add")):
        pair = subset_pair(ac.PureDP(1.0), Drawn(steps, selected, rate), direction, 0.1, -40.0)
        below = np.exp(pair._log_profile(epsilon)[index])
        for e, found in zip(epsilon.tolist(), below.tolist(), strict=True):
            u = Fraction(math.exp(e))
            both = sum(max(p - u * q, 0) for p, q in pairs), sum(max(q - u * p, 0) for p, q in pairs)
            assert found <= float(both[index]) * (1 + 1e-12)
            assert found >= 0.9 * float(both[index]) - 1e-3  # the number of ones tells all of these


@pytest.mark.audit
@pytest.mark.parametrize(
    ("sigma", "steps", "selected", "times"), [(1.0, 20, 4, 1), (1.0, 20, 2, 1), (0.7, 20, 4, 1), (1.0, 10, 5, 3)]
)
def test_the_rate_that_is_chosen_is_near_the_best(sigma, steps, selected, times):
    """And none costs more than blocks do."""
    event, direction = ac.Gaussian(sigma), "remove"
    drawn, share = Drawn(steps, selected, 0.0), selected / steps
    chosen = best_rate(event, drawn, direction, math.log(1e-5), times)
    assert 0.03 * share <= chosen < 0.8 * share

    def price(rate):
        run = [(Told(event, drawn._replace(rate=rate)), times)]
        return bound_epsilon(run, 1e-5, 0.02, None, (direction,)).lower

    prices = [price(factor * share) for factor in (1.0, 0.7, 0.5, 0.35, 0.25)]
    assert price(chosen) >= 0.99 * max(prices)
    blocks = ac.epsilon(times * ac.RandomAllocation(event, steps, selected), 1e-5, method="tight")
    assert max(prices) <= blocks.epsilon
    assert blocks.lower >= 0.98 * max(prices)
    assert blocks.lower > 1.003 * prices[0]


class Told(ac.Event):
    """Scores at one rate."""

    between_bounds = True

    def __init__(self, event, drawn):
        self.__dict__.update(adjacency=ac.Adjacency.ADD_REMOVE, event=event, drawn=drawn)

    def _curve(self, orders):
        return ac.RandomAllocation(self.event, self.drawn.steps, self.drawn.selected)._curve(orders)

    def _log_profile(self, epsilons):
        raise NotImplementedError

    def _surrogates(self, direction, step, log_lost, sign):
        return [(subset_pair(self.event, self.drawn, direction, step, log_lost), 1)]


def test_the_rate_of_a_sample_is_kept_where_no_other_is_better():
    for drawn in (Drawn(1000, 10, 0.0), Drawn(100, 10, 0.0)):
        event = ac.Gaussian(2.0)
        assert best_rate(event, drawn, "add", math.log(1e-5), 1) == pytest.approx(drawn.selected / drawn.steps)
    assert best_rate(ac.Gaussian(2.0), Drawn(20, 20, 0.0), "add", math.log(1e-5), 1) == 0.9
