"""References of kinds that share a game on a clock, and pairs that are left out."""

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.tight import clock_ladders
from accountant.tight.both_sides import BothSides
from accountant.tight.clock_blocks import set_clock_run
from accountant.tight.clock_ladders import OWN_FINENESS, find_clocks, ladder_of
from accountant.tight.clock_references import cost_of, find_kinds
from accountant.tight.screening_blocks import Aim
from tests.accountant.tight.test_clocks import LEAST, kinds_between, one_clock
from tests.soak.exact import play

S = ac.NoisyScreening


@given(ratio=st.floats(1.0, 80.0), fineness=st.floats(1.0, 4.0))
@settings(deadline=None, derandomize=True)
def test_ladders_hold_the_smallest_and_the_largest_kind(ratio, fineness):
    ticks = ladder_of(ratio, fineness)
    assert all(one < two for one, two in pairwise(ticks))
    assert ticks[-2] / ticks[0] >= ratio * (1 - 1e-12)
    assert all(two / one <= 1.51 for one, two in pairwise(ticks))


def excess_of(clock, order):
    """By how much of itself each kind costs more as a mixture."""
    tick = cost_of(clock.references[-1].pairs, order) / clock.references[-1].ticks
    found = []
    for kind, (low, high), share in zip(clock.kinds, clock.rungs, clock.shares, strict=True):
        taken = clock.ticks[low] + share * (clock.ticks[high] - clock.ticks[low])
        found.append(taken * tick / kind.cost - 1)
    return found


def test_kinds_of_other_skews_have_references_of_their_own(monkeypatch):
    """Where references are fine: shared ones have the pairs of all kinds, and cost more."""
    run, order = [(S(92.0 + i, 40.0 + 60.0 * i, 50 + 60 * i), 2) for i in range(4)], 80.0
    kinds = find_kinds(run, order, LEAST)
    (own,), alone = find_clocks(kinds, order, OWN_FINENESS)
    monkeypatch.setattr(clock_ladders, "OWN_FINENESS", math.inf)
    (shared,), none = find_clocks(kinds, order, OWN_FINENESS)
    assert alone == none == []
    assert max(excess_of(shared, order)) > 0.01
    assert max(excess_of(own, order)) < 0.005
    assert min(excess_of(own, order)) > -0.002


def test_kinds_whose_costs_are_far_apart_share_a_game_where_that_loses_less():
    """Of 16 kinds, of one screening each, the 6 cheapest had a game of their own, which lost a third of delta."""
    run, order, log_delta = [(S(17.5 * 5.0 ** (i / 15), 210.0, 300), 1) for i in range(16)], 50.0, math.log(1e-9)
    clocks = set_clock_run(run, Aim(order, log_delta - 12.0, 1e-9, 0.01), log_delta)
    assert [len(setup.references) > 1 for setup in clocks.setups] == [True, False]
    assert [len(clock.kinds) for clock in find_clocks(find_kinds(run, order, LEAST), order)[0]] == [10, 6]


def test_pairs_that_are_left_out_add_what_they_may():
    """Counts far from the threshold, of which a third are no pairs of any reference."""
    run = ac.Composition((S(3.0 + 0.1 * i, 20.0, 40), 2) for i in range(3))
    (clock,), _ = one_clock(run, least=1e-6)
    for kind, own in zip(clock.kinds, find_kinds([(k.event, k.times) for k in clock.kinds], 5.0, LEAST), strict=True):
        assert 0 < kind.above.up.size < own.above.up.size
        far = np.min(own.above, axis=0) <= 1e-6
        assert kind.above.up.size + np.count_nonzero(far) == own.above.up.size
        assert float(np.max(own.above.variation()[far])) <= kind.lost <= 1.001e-6
    assert clock.lost == pytest.approx(6e-6, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-3, 1e-2])
def test_what_is_left_out_is_part_of_the_price(delta, monkeypatch):
    """Beyond the losses of the pairs that are kept nothing else is left of delta, against the game of all pairs."""
    run, order = ac.Composition((S(1.0 + 0.05 * i, 5.5, 6), 1) for i in range(3)), 3.0
    monkeypatch.setattr("accountant.tight.clock_blocks.FAR", math.log(1.2))
    clocks = set_clock_run(list(run), Aim(order, math.log(delta) - 12.0, 0.01, 0.01), math.log(delta))
    assert not clocks.alone
    assert 0.0 < clocks.lost < delta
    blocks, lost = clocks.play()
    assert lost >= clocks.lost
    sides = BothSides(list(run), [], blocks, order, lambda _: delta, 1.0, lost=lost)
    beyond = 1.001 * sum(setup.end for setup in clocks.setups)
    with mp.workdps(30):
        assert play(run, sides.epsilon(delta).upper) <= delta
        for epsilon in (0.5, beyond):
            assert 0.0 < play(run, epsilon) <= sides.deltas([epsilon])[0].upper


def test_a_part_of_the_kinds_far_from_the_threshold_changes_nothing():
    """Kinds of which all pairs are left out take no ticks, and no game from below."""
    run, aim = kinds_between(10.0, 14.0, 8, 3), Aim(5.0, math.log(1e-5) - 12.0, 0.01, 0.01)
    with_idle = run + 3 * S(1.0, 40.0, 10)
    plain, idle = (set_clock_run(list(each), aim, math.log(1e-5)) for each in (run, with_idle))
    assert idle.order.steps == plain.order.steps
    assert len(idle.alone) == len(plain.alone)
    assert idle.lost > plain.lost
