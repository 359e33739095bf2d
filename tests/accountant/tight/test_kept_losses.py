"""Composed losses that answer at other epsilons than they were made for."""

import numpy as np
import pytest

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.curve_points import KnownCurve
from accountant.patience import tally_work
from accountant.tight import curve_pairs
from accountant.tight.kept_losses import compose_nothing, deltas_at_hand, keep_losses
from accountant.tight.loss_composition import bound_delta, bound_delta_above, bound_epsilon
from accountant.tight.route import TightRun
from tests.cases import count_calls

LAPLACE = [(ac.Laplace(3.0), 10)]
SAMPLED = [(ac.PoissonSubsampled(ac.Gaussian(1.0), 0.02), 200)]


@pytest.mark.parametrize("run", [LAPLACE, SAMPLED])
def test_answers_of_others_are_certified(run, grids):
    epsilons = np.linspace(0.1, 2.5, 25)
    exact = [bound_delta(run, epsilon, 1e-4) for epsilon in epsilons]
    grids.clear()
    with keep_losses():
        found = [bound_delta(run, epsilon, 0.01) for epsilon in epsilons]
    assert len(grids) < 8
    for one, other in zip(found, exact, strict=True):
        assert one.lower <= other.upper
        assert other.lower <= one.upper
        assert one.upper - one.lower <= 0.01 * one.upper


def test_nothing_is_kept_without_being_told(grids):
    for epsilon in (1.0, 1.01):
        bound_delta(LAPLACE, epsilon, 0.01)
    assert len(grids) == 2


def test_what_is_kept_answers_however_widely_where_nothing_may_be_composed():
    exact = bound_delta(LAPLACE, 3.0, 1e-4)
    with keep_losses():
        with compose_nothing(), pytest.raises(ac.ToleranceUnreachable) as nothing:
            bound_delta(LAPLACE, 3.0, 1e-5)
        assert nothing.value.found is None
        bound_epsilon(LAPLACE, 1e-3, 0.05)
        with compose_nothing(), pytest.raises(ac.ToleranceUnreachable) as wide:
            bound_delta(LAPLACE, 3.0, 1e-5)
        lower, upper = wide.value.found
        assert lower <= exact.upper
        assert exact.lower <= upper
        assert 0.0 < lower <= upper < 1.2 * lower


def test_runs_on_the_way_compose_as_ever():
    """The profile of a selection's try was asked where nothing may be composed, and would have been kept as unknown."""
    run = 10 * ac.Laplace(3.0)
    alone = TightRun(run, 0.01).deltas([0.5, 3.0])
    with keep_losses(), compose_nothing():
        assert TightRun(run, 0.01).deltas([0.5, 3.0]) == alone
        known = KnownCurve(run, [0.5, 3.0])
        assert known.along(0.01)
        with pytest.raises(ac.ToleranceUnreachable):
            bound_delta(SAMPLED, 0.5, 1e-3)
    assert known.at_all().tolist() == [list(each) for each in alone]


def test_what_is_at_hand_of_several_points_is_told_of_each():
    def ask(points):
        return [bound_delta(LAPLACE, point, 1e-5) for point in points]

    with keep_losses():
        assert deltas_at_hand(ask, [1.0, 2.0]) == [(0.0, 1.0)] * 2
        exact = bound_delta(LAPLACE, 2.0, 1e-5)
        assert deltas_at_hand(ask, [2.0]) == [exact]


def test_what_a_refusal_knows_of_each_point():
    error = ac.ToleranceUnreachable("a")
    assert error.known_at(1) is None
    error.found = (0.1, 0.2)
    assert error.known_at(1) == [(0.1, 0.2)]
    assert error.known_at(2) is None
    error.curve = [(0.1, 0.2), (0.0, 1.0)]
    assert error.known_at(2) == error.curve


def test_bounds_from_above_are_kept_apart():
    """They have no lower end, and stand for no certified interval."""
    with keep_losses():
        above = bound_delta_above(LAPLACE, 1.0, 0.01)
        both = bound_delta(LAPLACE, 1.0, 0.01)
    assert above.lower == 0.0
    assert both.lower > 0.99 * both.upper


def test_a_direction_alone_is_kept_apart():
    run = [(ac.PoissonSubsampled(ac.Laplace(0.5), 0.1), 3)]
    alone = [bound_delta(run, 0.1, 1e-3, None, (way,)) for way in DIRECTIONS]
    with keep_losses():
        kept = [bound_delta(run, 0.1, 1e-3, None, (way,)) for way in DIRECTIONS]
    assert kept == alone
    assert alone[0] != alone[1]


@pytest.mark.parametrize("run", [LAPLACE, SAMPLED])
def test_upper_ends_serve_the_epsilons_between_them(run, grids):
    """They were composed anew at every epsilon."""
    epsilons = [0.1, 2.5, *np.linspace(0.2, 2.4, 40)]
    exact = [bound_delta(run, epsilon, 1e-4) for epsilon in epsilons]
    grids.clear()
    with keep_losses():
        found = [bound_delta_above(run, epsilon, 0.01) for epsilon in epsilons]
    assert len(grids) < 12
    for one, other in zip(found, exact, strict=True):
        assert other.lower <= one.upper <= 1.02 * other.upper


def test_pairs_above_a_curve_are_few_and_counted(monkeypatch):
    """Each of 2000 points made one of its own, which took longer than all that was counted."""
    run = 20 * ac.Laplace(4.0) + 3 * ac.ZeroConcentratedDP(0.01)
    made = count_calls(monkeypatch, curve_pairs, "pair_of_points")
    curve_pairs._pair.cache_clear()
    with tally_work() as work:
        curve = ac.curve(run, np.linspace(0.0, 3.0, 400))
    assert 0 < len(made) < 20
    assert work[0] > curve_pairs.PAIR * len(made)
    for place in (0, 133, 399):
        alone = ac.delta(run, float(curve.epsilons[place]))
        assert alone.lower <= curve.upper[place] <= 1.02 * alone.delta
        assert curve.lower[place] <= alone.delta
