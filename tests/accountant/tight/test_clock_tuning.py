"""Clocks whose tick is chosen for kinds that have references of their own."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.tight import clock_tuning
from accountant.tight.clock_ladders import Spread, find_clocks
from accountant.tight.clock_references import cost_of, find_kinds
from accountant.tight.clock_tuning import tune_clocks
from tests.accountant.tight.test_clock_ladders import excess_of
from tests.accountant.tight.test_clocks import (
    LEAST,
    assert_mixtures_are_above,
    delta_of_games,
    draw_run,
    kinds_between,
    near_run,
)
from tests.soak.exact import play

S, P = ac.NoisyScreening, ac.PoissonSubsampled
FAR = Spread(1e3, 1e3)
SLOW = [HealthCheck.too_slow]


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(
    seed=st.integers(0, 10**6),
    x=st.floats(-2.0, 2.0),
    near=st.booleans(),
    ticks=st.sampled_from([1.0, 4.0, 9.0, 30.0]),
    order=st.sampled_from([2.0, 6.0, 30.0]),
)
def test_own_references_are_above_their_kind(seed, x, near, ticks, order):
    """For random convex falling W, at random u, in high precision."""
    kinds = find_kinds(list(near_run(seed) if near else draw_run(seed)), order, LEAST)
    assert_mixtures_are_above(tune_clocks(kinds, order, ticks, FAR)[0], seed, x, tried=4, apart=0.4)


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 0.8),
    order=st.sampled_from([2.0, 6.0, 30.0]),
    near=st.booleans(),
    cut=st.booleans(),
    ticks=st.sampled_from([2.0, 6.0, 13.0]),
)
def test_tuned_games_bound_every_interleaving(seed, share, order, near, cut, ticks):
    """Three kinds and up to six steps; whole, and with strides."""
    run = near_run(seed) if near else draw_run(seed)
    epsilon = share * float(run.renyi(math.inf))
    clocks, alone = tune_clocks(find_kinds(list(run), order, LEAST), order, ticks, FAR)
    if alone:
        return
    with mp.workdps(40):
        assert play(run, epsilon) <= delta_of_games(clocks, order, epsilon, cut)


def test_kinds_of_whole_numbers_of_ticks_are_their_own_references():
    """The costs of these are 1 to 0.5031 to 0.2506: as 4 to 2 to 1, about; nearer still at another tick."""
    run, order = [(S(20.0, 30.0, 60), 40), (S(28.2, 30.0, 60), 50), (S(40.0, 30.0, 60), 60)], 6.0
    kinds = find_kinds(run, order, LEAST)
    costs = sorted((kind.cost for kind in kinds), reverse=True)
    for ticks in (6.0, 13.0, 30.0):
        (clock,), alone = tune_clocks(kinds, order, ticks, FAR)
        assert not alone
        assert ticks * (1 - 1e-6) <= costs[0] / (cost_of(clock.references[-1].pairs, order) / clock.longest) <= 46.0
        assert any(share == 1.0 and low == 0 for (low, _), share in zip(clock.rungs, clock.shares, strict=True))
        # what is lost falls with the square of the ticks, and is no more than was foreseen
        tick = kinds[0].cost / float(np.max([each.ticks for each in clock.references]))
        foreseen = np.minimum(*clock_tuning.lost_ticks(np.array(costs) / tick)) / (np.array(costs) / tick)
        assert max(excess_of(clock, order)) <= max(float(np.max(foreseen)), 1e-3)


def test_a_tuned_clock_loses_less_than_a_ladder():
    """Of kinds whose costs have no common measure, at about the same number of ticks."""
    run, order = [(S(6.57, 24.0, 40), 52), (S(2.53, 24.0, 40), 14), (S(4.98, 24.0, 40), 218)], 2.5
    kinds = find_kinds(run, order, LEAST)
    (ladder,), _ = find_clocks(kinds, order, 2.5, FAR)
    (tuned,), _ = tune_clocks(kinds, order, 20.0, FAR)
    costs = [sum(k.times * k.cost for k in kinds), 0.0]
    lost = []
    for clock in (ladder, tuned):
        tick = max(cost_of(each.pairs, order) / each.ticks for each in clock.references)
        lost.append(clock.mean() * tick / costs[0] - 1)
    assert lost[1] >= -1e-9
    assert lost[1] < lost[0] / 4


@pytest.mark.parametrize("many", [1, 2, 11, 25])
def test_no_game_has_more_kinds_than_may_be(many):
    kinds = find_kinds(list(kinds_between(12.0, 15.0, many, 3)), 5.0, LEAST)
    clocks, alone = tune_clocks(kinds, 5.0, 6.0, FAR)
    assert not alone
    assert sum(len(clock.kinds) for clock in clocks) == many
    assert max(len(clock.kinds) for clock in clocks) <= clock_tuning.MOST_TUNED
