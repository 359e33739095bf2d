"""Blocks of votes that were cast: the pair that stands for one is above every adversary, one neighbour below him."""

import math

import numpy as np
import pytest

import accountant as ac
from accountant.patience import allow_work
from accountant.tight import vote_blocks
from accountant.tight.loss_composition import bound_delta, bound_delta_above, bound_epsilon
from accountant.tight.vote_blocks import VoteBlock, cut_votes
from accountant.tight.vote_game import solve_in_order, solve_votes, work_of
from tests.accountant.tight.test_vote_game import game, pairs
from tests.cases import audit_after

GN, LN = ac.DataDependentGNMax, ac.DataDependentLNMax
VOTES = GN(40.0, (200, 40, 10, 0))


@pytest.mark.each_run(3)
@pytest.mark.parametrize("event", [GN(4.0, (9, 5, 1)), LN(2.0, (4, 3, 1)), GN(2.0, (3, 3))])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_blocks_are_above_the_game_by_its_definition(event, epsilon):
    """A block of two and a block of one, in the order that is above all others and in that of any."""
    truth = game((event,) * 3, math.exp(epsilon))
    blocks = [(VoteBlock(event, 2, 1e-3), 1), (VoteBlock(event, 1, 1e-3), 1)]
    found = bound_delta_above(blocks, epsilon, 1e-3)
    assert truth * (1 - 1e-7) <= found.upper <= 1.5 * truth
    below = bound_delta([(block._certain(), count) for block, count in blocks], epsilon, 1e-2)
    assert below.lower <= truth * (1 + 1e-7)


@pytest.mark.audit
@pytest.mark.parametrize(("blocks", "most"), audit_after(1, [(5, 1.06), (2, 1.02)]))
def test_the_longer_blocks_are_the_nearer_they_come(blocks, most):
    whole = solve_votes(((VOTES, 1000),), 1e-6, 1e-3).epsilon(1e-6)
    found = bound_delta_above([(VoteBlock(VOTES, 1000 // blocks, 1e-3), blocks)], whole.upper * most, 1e-3)
    assert found.upper <= 1e-6
    least = bound_delta_above([(VoteBlock(VOTES, 1000 // blocks, 1e-3), blocks)], whole.lower, 1e-3)
    assert least.upper >= 1e-6 * (1 - 1e-9)


@pytest.mark.audit
def test_more_votes_than_a_game_may_have_are_known_nearly():
    found = ac.epsilon(7000 * VOTES, 1e-6, method="tight", patience=5.0)
    assert 0.975 * found.epsilon <= found.lower <= found.epsilon
    less = ac.epsilon(6000 * VOTES, 1e-6, method="tight", patience=60.0)
    assert less.lower <= found.epsilon
    both = ac.epsilon(3000 * VOTES + 3000 * GN(40.0, (100, 90, 40, 20)), 1e-6, method="tight", patience=5.0)
    assert 0.97 * both.epsilon <= both.lower <= both.epsilon


def screened(steps, u):
    """The value of two screenings, by their definition."""
    if steps == 0:
        return max(1 - u, 0.0)
    best = 0.0
    for without, moved in ((0, 1), (1, 0), (1, 2), (2, 1)):
        chances = [[0.5 * math.erfc(sign * (1 - t) / 2) for sign in (1, -1)] for t in (moved, without)]
        best = max(best, sum(p * screened(steps - 1, u * q / p) for p, q in zip(*chances, strict=True)))
    return best


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_votes_before_screenings_are_above_every_order(epsilon, monkeypatch):
    """Two votes and two screenings whose order an adversary chooses as he goes."""
    event, screening = GN(4.0, (9, 5, 1)), ac.NoisyScreening(math.sqrt(2.0), 1.0, 2)
    monkeypatch.setattr(vote_blocks, "LEAST_VOTES", 1)

    def votes_first(votes, u):
        if votes == 0:
            return screened(2, u)
        p, others = pairs(event)
        return max(
            sum(a * votes_first(votes - 1, u * b / a) for a, b in zip(p, q, strict=True) if a > 0) for q in others
        )

    truth = votes_first(2, math.exp(epsilon))
    found = ac.delta(2 * event + 2 * screening, epsilon, method="tight")
    assert found.lower * (1 - 1e-7) <= truth <= found.delta * (1 + 1e-7)
    assert found.delta <= 1.2 * truth


@pytest.mark.parametrize(("votes", "screenings", "delta"), audit_after(1, [(50, 200, 1e-10), (100, 100, 1e-6)]))
def test_votes_beside_screenings_are_known_nearly(votes, screenings, delta):
    found = ac.epsilon(votes * VOTES + screenings * ac.NoisyScreening(85.0, 210.0, 300), delta, method="tight")
    assert 0.98 * found.epsilon <= found.lower <= found.epsilon


@pytest.mark.audit
def test_few_votes_beside_screenings_are_one_block():
    votes = ac.DataDependentGNMax(50.8, (105, 20, 26))
    run = 14 * votes + 202 * ac.PoissonSubsampled(ac.NoisyScreening(2.9, 32.0, 161), 0.0252)
    found = ac.epsilon(run, 1e-5, method="tight")
    assert 0.985 * found.epsilon <= found.lower <= found.epsilon
    at = ac.delta(run, found.lower, method="tight")
    assert at.delta >= 1e-5
    assert at.lower <= 1.1e-5


def test_blocks_hold_all_votes_and_their_games_have_room():
    for count in (32, 100, 1001, 6999):
        lengths, work = cut_votes(VOTES, count, 1e-6, 0.005, 0.0, 2e9)
        assert sum(lengths) == count
        assert lengths == sorted(lengths, reverse=True)
        each = [work_of(((VOTES, length),), 1e-6, 0.005) for length in set(lengths)]
        assert sum(each) == pytest.approx(work)
        assert work <= 2e9
    assert cut_votes(VOTES, 31, 1e-6, 0.005, 0.0, 2e9) == ([31], work_of(((VOTES, 31),), 1e-6, 0.005))
    for count, room in ((31, 1e6), (1, 2e9)):
        assert cut_votes(VOTES, count, 1e-6, 0.005, 1.0, room) == (None, 1.0)
    assert cut_votes(VOTES, 10**7, 1e-6, 0.005, 1.0, 2e9) == (None, 1.0)


def test_a_pair_above_is_a_profile_in_both_directions():
    block = VoteBlock(VOTES, 50, 1e-3)
    x = np.linspace(0.0, 3.0, 61)
    for direction in ("remove", "add"):
        ((pair, count),) = block._surrogates(direction, 1e-3, -40.0, 1)
        assert count == 1
        for logs in pair._log_profile(x):
            u, values = np.exp(x), np.exp(logs)
            assert (np.diff(values) <= 0.0).all()
            slopes = np.diff(values) / np.diff(u)
            assert (np.diff(slopes) >= -1e-9 * np.abs(slopes[:-1]) - 1e-16).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_votes_in_one_order_are_below_those_in_any(epsilon):
    kinds = ((GN(4.0, (9, 5, 1)), 1), (GN(3.0, (4, 3, 1)), 2))
    truth = game((kinds[0][0], kinds[1][0], kinds[1][0]), math.exp(epsilon))
    value = solve_in_order(kinds, 1e-3, 1e-3)
    assert 0.98 * truth <= value.delta(epsilon).lower <= truth * (1 + 1e-7)


@pytest.mark.audit
def test_different_votes_cost_at_least_what_they_do_in_order():
    kinds = tuple((GN(40.0, (150.0 - i, 60.0 + i / 2, 20.0, 5.0)), 1) for i in range(70))
    found = ac.epsilon(ac.Composition(kinds), 1e-6, method="tight")
    in_order = solve_in_order(kinds, 1e-6, 0.008).epsilon(1e-6)
    assert found.lower == pytest.approx(in_order.lower, rel=1e-12)
    assert found.lower <= found.epsilon
    # by one neighbour in each vote
    single = ac.Composition((event._certain(), count) for event, count in kinds)
    alone = bound_epsilon(list(single), 1e-6, 0.01)
    assert alone.lower < 0.995 * found.lower
    beside = ac.epsilon(ac.Composition([*kinds, (ac.Gaussian(20.0), 10)]), 1e-6, method="tight")
    assert found.lower < beside.lower <= beside.epsilon
    delta = ac.delta(ac.Composition(kinds), found.lower, method="tight")
    assert delta.lower == pytest.approx(1e-6, rel=0.01)


def test_votes_in_order_are_left_out_without_patience():
    kinds = tuple((GN(40.0, (150.0 - i, 60.0 + i / 2, 20.0, 5.0)), 1) for i in range(70))
    with allow_work(0.01):
        assert solve_in_order(kinds, 1e-6, 0.008) is None


def test_what_many_different_votes_cost_at_least_takes_little_patience():
    kinds = tuple((GN(40.0, (150.0 - i, 60.0 + i / 2, 20.0, 5.0)), 1) for i in range(70))
    found = ac.epsilon(ac.Composition(kinds), 1e-6, method="tight", patience=0.3)
    assert 0.92 * found.epsilon < found.lower <= found.epsilon
