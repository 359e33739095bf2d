"""Games on clocks whose ticks are in proportion to what references cost on a grid."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant import patience
from accountant.tight import clock_blocks
from accountant.tight.clock_game import play_on_clock, set_clock, size_clock
from accountant.tight.clock_grids import fit_to_grid, fit_work, most_taken
from accountant.tight.clock_ladders import Spread, find_clocks, own_clocks
from accountant.tight.clock_plans import Plan
from accountant.tight.clock_references import cost_of, find_kinds
from accountant.tight.clock_tuning import tune_clocks
from accountant.tight.game_value import GameValue
from accountant.tight.pairs import Pairs
from tests.accountant.tight.test_clocks import LEAST, assert_mixtures_are_above, delta_of_games, draw_run, near_run
from tests.soak.exact import play

S, P = ac.NoisyScreening, ac.PoissonSubsampled
FAR = Spread(1e3, 1e3)
SLOW = [HealthCheck.too_slow]

# 4580 ticks, of references of 3 to 11
ALIKE = [
    (P(S(3.96, 29.3, 40), 0.561), 316),
    (P(S(4.82, 31.9, 40), 0.517), 30),
    (P(S(6.94, 33.2, 40), 0.735), 64),
    (P(S(4.74, 16.2, 40), 0.406), 133),
]
ORDER, LOG_DELTA = 3.131470157542064, -13.940309448895611


def one_game(run, order, log_delta, ticks=9.0):
    (clock,), alone = tune_clocks(find_kinds(run, order, LEAST), order, ticks, FAR)
    assert not alone
    return size_clock(clock, order, log_delta)


def exact_cost(up, down, order, step):
    """The divergence of a pair whose outcomes are moved to the grid points next to them, linear in u."""
    up, down, b = mp.mpf(up), mp.mpf(down), mp.mpf(order) - 1

    def at(loss):
        """Grid points around a loss, and their shares, for which the mean of e^-loss is as before."""
        below = step * mp.floor(loss / step)
        share = (mp.exp(-below) - mp.exp(-loss)) / (mp.exp(-below) - mp.exp(-below - step))
        return [(below, 1 - share), (below + step, share)]

    found = []
    for one, other in ((up, down), (down, up)):
        p = mp.expm1(-other) / mp.expm1(-one - other)
        outcomes = [(p * share, each) for each, share in at(one)]
        outcomes += [((1 - p) * share, each) for each, share in at(-other)]
        assert abs(mp.fsum(mass * mp.exp(-each) for mass, each in outcomes) - 1) < mp.mpf(10) ** -40
        found.append(mp.log(mp.fsum(mass * mp.exp(b * each) for mass, each in outcomes)) / b)
    return max(found)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    up=st.floats(1e-4, 20.0),
    down=st.floats(1e-4, 20.0),
    order=st.sampled_from([1.01, 2.0, 6.0, 30.0]),
    step=st.sampled_from([2.0**-9, 0.03, 0.5, 40.0]),
)
def test_what_a_pair_costs_on_a_grid(up, down, order, step):
    with mp.workdps(60):
        exact = float(exact_cost(up, down, order, mp.mpf(step)))
    found = cost_of(Pairs(np.array([up]), np.array([down])), order, step)
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-12 / (order - 1))
    # interpolation adds to a convex moment
    assert found >= cost_of(Pairs(np.array([up]), np.array([down])), order) * (1 - 1e-9) - 1e-12 / (order - 1)


def test_what_a_pair_costs_on_a_grid_at_its_limits():
    pairs = Pairs(np.array([0.3, 0.25]), np.array([0.25, 0.3]))
    plain = cost_of(pairs, 3.0)
    assert cost_of(pairs, 3.0, 0.0) == plain
    assert cost_of(pairs, 3.0, 1e-5) == pytest.approx(plain, rel=1e-8)
    assert cost_of(Pairs(np.array([0.5]), np.array([0.25])), 3.0, 0.25) == pytest.approx(
        cost_of(Pairs(np.array([0.5]), np.array([0.25])), 3.0), rel=1e-12
    )  # on the grid already
    one = Pairs(np.array([0.3]), np.array([0.3]))
    p, rest, _, _ = one.masses()
    added = (0.05 / 0.3) ** 2 / (4 * 4 * float(p[0] * rest[0]))  # a quarter of the square of its step to the variance
    assert cost_of(one, 2.0, 0.04) / cost_of(one, 2.0) - 1 == pytest.approx(added, rel=0.5)


@pytest.mark.parametrize("step", [0.001, 0.01, 0.05])
def test_every_reference_costs_the_same_for_a_tick(step):
    sized = one_game(ALIKE, ORDER, LOG_DELTA)
    cut = sized.cuts(None, [1e-3])[0]._replace(step=step)
    fitted, _ = fit_to_grid(sized, cut)
    rates = [cost_of(each.pairs, ORDER, step) / each.ticks for each in fitted.clock.references]
    assert max(rates) / min(rates) <= 1 + 2e-3
    before = [cost_of(each.pairs, ORDER, step) / each.ticks for each in sized.clock.references]
    assert max(rates) <= max(before) * (1 + 1e-7)
    assert most_taken(fitted.clock, ORDER, step) <= most_taken(sized.clock, ORDER, step)
    assert {id(each.event) for each in fitted.clock.kinds} == {id(each.event) for each in sized.clock.kinds}


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(
    seed=st.integers(0, 10**6),
    x=st.floats(-2.0, 2.0),
    near=st.booleans(),
    tuned=st.booleans(),
    coarse=st.sampled_from([1e-4, 3e-3, 0.1, 3.0]),
    order=st.sampled_from([2.0, 6.0, 30.0]),
)
def test_references_that_fit_a_grid_are_above_their_kind(seed, x, near, tuned, coarse, order):
    """For random convex falling W, at random u, in high precision; however coarse the grid is."""
    kinds = find_kinds(list(near_run(seed) if near else draw_run(seed)), order, LEAST)
    clocks, _ = tune_clocks(kinds, order, 9.0, FAR) if tuned else find_clocks(kinds, order, 1.0, FAR)
    fitted = []
    for clock in clocks:
        sized = size_clock(clock, order, math.log(1e-5))
        cut = sized.cuts(None, [1e-3])[0]._replace(step=coarse * sized.deviation)
        fitted.append(fit_to_grid(sized, cut)[0].clock)
    assert_mixtures_are_above(fitted, seed, x, tried=4, apart=0.4)


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 0.8),
    order=st.sampled_from([2.0, 6.0, 30.0]),
    near=st.booleans(),
    cut=st.booleans(),
    tolerance=st.sampled_from([3e-3, 3e-2]),
)
def test_games_that_fit_a_grid_bound_every_interleaving(seed, share, order, near, cut, tolerance):
    """Three kinds and up to six steps; whole, and with strides."""
    run = near_run(seed) if near else draw_run(seed)
    epsilon = share * float(run.renyi(math.inf))
    clocks, alone = tune_clocks(find_kinds(list(run), order, LEAST), order, 6.0, FAR)
    if alone:
        return
    with mp.workdps(40):
        assert play(run, epsilon) <= delta_of_games(clocks, order, epsilon, cut, tolerance, fit_to_grid)


def test_nothing_is_fitted_where_there_is_no_patience_for_it(monkeypatch):
    """Of a thousand kinds it is a part of the price that was not counted."""
    sized = one_game(ALIKE, ORDER, LOG_DELTA)
    plan = Plan([sized], sized.cuts(None, [3e-3]), [], 0.0)
    with patience.allow_work(1e3) as work:
        (fitted,) = clock_blocks._set_up(plan, 0.0)
    assert work.taken >= fit_work(sized.clock) / patience.OPERATIONS_PER_SECOND
    assert fitted.references is not sized.clock.references
    monkeypatch.setattr(clock_blocks, "fit_to_grid", None)
    with patience.allow_work((plan.cuts[0].played + clock_blocks.SPARE) / patience.OPERATIONS_PER_SECOND):
        (plain,) = clock_blocks._set_up(plan, 0.0)
    assert plain.references is sized.clock.references
    many = sized.clock._replace(kinds=1000 * sized.clock.kinds)
    assert fit_work(many) >= 50 * fit_work(sized.clock)
    assert fit_work(own_clocks(sized.clock.kinds)[0][0]) == 0.0


def test_one_kind_stays_as_it_is_and_kinds_that_cost_nothing_stay():
    kinds = find_kinds([(S(5.0, 20.0, 40), 30)], 3.0, LEAST)
    sized = size_clock(own_clocks(kinds)[0][0], 3.0, -10.0)
    cut = sized.cuts(None, [1e-3])[0]
    assert fit_to_grid(sized, cut) == (sized, cut)
    run = [*ALIKE, (S(1.0, 300.0, 2), 7)]
    sized = one_game(run, ORDER, LOG_DELTA)
    assert sum(kind.cost == 0.0 for kind in sized.clock.kinds) == 1
    fitted, _ = fit_to_grid(sized, sized.cuts(None, [1e-3])[0])
    assert sorted(kind.times for kind in fitted.clock.kinds) == sorted(times for _, times in run)
    assert fitted.clock.lost == sized.clock.lost


def value_of(game, x):
    return math.exp(max(float(GameValue(game, game, way).log_upper(x)) for way in range(2)))


def test_a_coarse_grid_loses_no_more_by_short_references():
    """The adversary who takes the shortest reference all the time had a grid's variance in 2.4 times as many steps."""
    sized, epsilon = one_game(ALIKE, ORDER, LOG_DELTA), 14.2
    coarse, fine = sized.cuts(None, [3e-3, 5e-4])
    (near, _), *_ = play_on_clock(set_clock(*fit_to_grid(sized, fine)))[0]
    exact = value_of(near, epsilon)
    lost = []
    for setup in ((sized, coarse), fit_to_grid(sized, coarse)):
        (game, _), *_ = play_on_clock(set_clock(*setup))[0]
        lost.append(value_of(game, epsilon) / exact - 1)
    assert 0.0 < lost[1] < 0.6 * lost[0]


def test_a_finer_grid_is_no_dearer_far_out():
    """Covers that were kept for 64 ticks left out what was good enough only while another kind was the best one."""
    sized = one_game(ALIKE, ORDER, LOG_DELTA)
    values = []
    for tolerance in (1e-3, 1e-4):
        setup = set_clock(*fit_to_grid(sized, sized.cuts(None, [tolerance])[0]))
        places = setup.law._replace(first=2000, chances=np.ones(1), beyond=0.0)
        (game, _), *_ = play_on_clock(setup._replace(law=places, reach=setup.reach[:2001], ends=setup.ends[:2001]))[0]
        values.append([value_of(game, x) for x in np.arange(0.0, 9.0, 0.5)])
    coarse, fine = np.array(values)
    assert np.all(fine < coarse * (1 + 1e-4))
