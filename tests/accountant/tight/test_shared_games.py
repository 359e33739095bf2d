"""Many deltas of several kinds of screening by games that all share: certified, near, and composed a few times."""

from dataclasses import replace

import numpy as np
import pytest

import accountant as ac
from accountant.curve_points import KnownCurve
from accountant.patience import allow_work
from accountant.tight.kept_losses import keep_losses
from accountant.tight.route import TightRun
from tests.cases import audit_after

P, S = ac.PoissonSubsampled, ac.NoisyScreening
SMALL = 12 * S(10, 5, 9) + 9 * S(8, 4, 7)
KINDS = 60 * S(30, 20, 42) + 80 * S(40, 30, 42) + 5 * ac.Gaussian(5)


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    "beside", audit_after(2, [2 * ac.Gaussian(3), 1 * ac.ApproximateDP(0.1, 1e-4), 2 * ac.Laplace(4)])
)
def test_every_way_is_certified(beside):
    """The whole game of few screenings is known nearly exactly."""
    run, epsilons = SMALL + beside, [0.1, 0.6, 1.2]
    exact = [ac.delta(run, epsilon, tolerance=0.01) for epsilon in epsilons]
    ways = 0
    with keep_losses():
        for ask in TightRun(run, 0.01).shared(epsilons):
            ways += 1
            for found, known in zip(ask(epsilons), exact, strict=True):
                assert found.lower <= known.delta
                assert known.lower <= found.upper
                assert found.lower > 0.8 * found.upper
    assert ways == 2  # each kind by itself, and both together


@pytest.mark.audit
def test_a_few_compositions_serve_hundreds_of_points(grids):
    """Every point asked for games of its own: 500 were known within 0.8 where one is within 0.03."""
    with allow_work(2.0), keep_losses():
        known = KnownCurve(KINDS, np.linspace(0.0, 3.0, 300))
        known._ask_shared(0.01)
    assert 0 < len(grids) < 12
    lower, upper = known.at_all().T
    assert np.median(1 - lower / upper) < 0.02
    assert np.max(1 - lower / upper) < 0.1
    assert np.all(np.diff(lower) <= 0)
    assert np.all(np.diff(upper) <= 0)


def test_very_many_screenings_have_one_pair_below_where_their_order_takes_too_long():
    run, epsilons = 18_000 * P(S(85, 210, 300), 0.2) + 5 * ac.Gaussian(10), [0.5, 1.5, 2.5]
    with allow_work(3.0), keep_losses():
        answers = next(TightRun(run, 0.01)._answers.shared(epsilons))
        assert answers.unseen is not None
        for found in TightRun(run, 0.01)._by_shared(answers, epsilons):
            assert 0.9 * found.upper < found.lower <= found.upper


def test_what_is_at_hand_beside_other_releases_has_a_lower_end():
    """It had none: the game was not composed with them again."""
    with keep_losses():
        route = TightRun(KINDS, 0.05)
        answers = next(route._answers.shared([0.5, 1.0, 2.0]))
        price = answers.epsilon(1e-3)
        assert price.lower > 0.8 * price.upper
        (found,) = answers.deltas_at_hand([price.lower])
    assert 0.5e-3 < found.lower <= found.upper
    assert found.upper >= 1e-3


def test_points_of_which_none_is_played():
    """No way to share: no screening costs anything at a single order, or all are played in a few steps."""
    assert list(TightRun(3 * S(10, 5, 9) + 2 * S(8, 4, 7), 0.01)._answers.shared([0.1, 0.5, 1.0])) == []
    assert list(TightRun(20 * ac.Laplace(4.0), 0.01).shared([0.1, 0.5, 1.0])) == []


def test_what_screenings_may_add_is_in_what_is_at_hand_too():
    """Where nothing was composed that is near enough the refusal's upper end is taken."""
    run = ac.Composition([*((S(40 * 1.22**i, 150, 300), 20) for i in range(9)), (S(1, 19.5, 13, 12), 1)])
    with keep_losses():
        answers = next(TightRun(run, 0.01)._answers.shared([0.3, 0.5, 1.0]))
        answers.epsilon(1e-3)
        more = replace(answers, lost=answers.lost + 1e-3)
        for one, other in zip(answers.deltas_at_hand([0.5, 1.0]), more.deltas_at_hand([0.5, 1.0]), strict=True):
            assert other.upper >= min(one.upper + 0.999e-3, 1.0)
            assert one.upper < 0.5
