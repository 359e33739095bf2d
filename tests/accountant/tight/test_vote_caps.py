"""Votes one by one: little noise beside clear votes, whose losses are hardly ever above that of one label."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accountant as ac
from accountant.tight.vote_caps import cap_delta, cap_delta_beside, cap_epsilon, cap_epsilon_beside
from tests.accountant.tight.test_vote_game import GN, LN, RUNS, game

SURE = LN(1e-6, (5, 3, 2))
"""The label that is sure has one chance in two if the voter changes: the loss is log 2, but with probability e^-1e6."""


@pytest.mark.audit
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.3])
@pytest.mark.parametrize(("votes", "count"), [(SURE, 10), (LN(1e-3, (5, 3, 2)), 1000), (GN(0.02, (5, 3, 2)), 50)])
def test_votes_that_are_sure_lose_one_loss_each(votes, count, delta):
    truth = count * math.log(2) + math.log1p(-delta)
    found = ac.epsilon(count * votes, delta)
    assert found.lower <= truth <= found.epsilon
    assert found.epsilon - found.lower <= 1e-3 * truth


def test_their_delta_is_that_of_one_loss():
    for epsilon in (0.5, 6.2):
        found = ac.delta(10 * SURE, epsilon)
        assert found.lower <= -math.expm1(epsilon - 10 * math.log(2)) <= found.delta
        assert found.delta - found.lower <= 1e-9 * found.delta
    assert ac.delta(10 * SURE, 6.94).delta <= 1e-200


def test_beside_other_releases_their_losses_are_added():
    """Of a sure loss of 10 log 2 and the Gaussian's: its price is moved by that."""
    noise = ac.Gaussian(5.0)
    moved, found = ac.epsilon(noise, 1e-5), ac.epsilon(10 * SURE + noise, 1e-5)
    assert found.lower <= moved.epsilon + 10 * math.log(2)
    assert moved.lower + 10 * math.log(2) <= found.epsilon
    assert found.epsilon - found.lower <= 1e-3
    moved, found = ac.delta(noise, 0.5), ac.delta(10 * SURE + noise, 0.5 + 10 * math.log(2))
    assert found.lower <= moved.delta * (1 + 1e-9)
    assert moved.lower * (1 - 1e-9) <= found.delta
    assert found.delta - found.lower <= 0.01 * found.delta


@pytest.mark.parametrize("kinds", RUNS)
def test_no_game_is_beyond_the_bounds(kinds):
    run = tuple((kind, kinds.count(kind)) for kind in dict.fromkeys(kinds))
    for epsilon in (0.0, 0.3, 1.5):
        truth = game(kinds, math.exp(epsilon))
        lower, upper = cap_delta(run, epsilon)
        assert lower * (1 - 1e-7) <= truth <= upper * (1 + 1e-7)
    lower, upper = cap_epsilon(run, 1e-2)
    assert game(kinds, math.exp(upper)) <= 1e-2 * (1 + 1e-7)
    assert game(kinds, math.exp(lower)) >= 1e-2 * (1 - 1e-7) or lower == 0.0


@pytest.mark.audit
@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=3).map(tuple),
    st.floats(0.7, 4.0),
    st.floats(0.0, 4.0),
    st.floats(0.05, 0.9),
)
def test_no_game_of_two_is_beyond_the_bounds(votes, scale, epsilon, chance):
    """Alone, and beside randomized response, whichever of its inputs comes first."""
    event = GN(scale, votes)
    lower, upper = cap_delta(((event, 2),), epsilon)
    assert lower - 1e-9 <= game((event, event), math.exp(epsilon)) <= upper + 1e-9
    bit = np.array([chance, 1 - chance])
    truth = sum(a * game((event, event), math.exp(epsilon) * b / a) for a, b in zip(bit, bit[::-1], strict=True))

    def above(at):
        return max(np.maximum(bit - math.exp(at) * bit[::-1], 0.0).sum(), 0.0)

    lower, upper = cap_delta_beside(((event, 2),), epsilon, 1.0, above, above)
    assert lower - 1e-9 <= truth <= upper + 1e-9


@pytest.mark.parametrize("delta", [1e-6, 0.05])
def test_beside_others_no_epsilon_is_beyond_the_bounds(delta):
    """Between a profile at the lower end above delta and one at the upper end below."""
    event, bit = GN(0.5, (2, 1)), ac.RandomizedResponse(0.7)
    p = np.array([math.exp(0.7), 1.0]) / (1 + math.exp(0.7))
    lower, upper = cap_epsilon_beside(
        ((event, 2),), delta, lambda at: ac.epsilon(bit, at).epsilon, lambda at: ac.epsilon(bit, at).lower
    )

    def truth(epsilon):
        return sum(a * game((event, event), math.exp(epsilon) * b / a) for a, b in zip(p, p[::-1], strict=True))

    assert truth(lower) >= delta * (1 - 1e-7)
    assert truth(upper) <= delta * (1 + 1e-7)


def test_without_patience_for_them_nothing_is_said(monkeypatch):
    run = ((GN(4.0, (9, 5, 1)), 3),)
    monkeypatch.setattr("accountant.tight.vote_caps.fits", lambda operations: False)
    assert cap_epsilon(run, 0.1) == (0.0, math.inf)
    assert cap_delta(run, 0.1) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("votes", "epsilon"), [(LN(0.725, (2, 5)), 0.0), (LN(0.68, (6, 2, 5)), 0.0), (LN(0.68, (6, 2, 5)), 0.3)]
)
def test_before_screenings_the_neighbour_is_chosen_for_the_question(votes, epsilon):
    """The largest D_8 is that of a neighbour whose labels hardly differ; the screening tells nearly nothing."""
    truth = game((votes,), math.exp(epsilon))
    found = ac.delta(ac.DataDependentScreening(20.0, -38.0, 10) + votes, epsilon)
    assert truth * (1 - 1e-7) <= found.delta
    assert found.delta - found.lower <= 0.01 * found.delta
    assert found.lower <= truth * 1.01
