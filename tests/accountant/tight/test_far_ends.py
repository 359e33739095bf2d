"""Prices at the far ends: deltas next to 0 and 1, noise next to none, losses that are infinite for certain."""

import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.numerics.roots import Interval
from accountant.tight.loss_grid import Grid, bracket

P, S = ac.PoissonSubsampled, ac.NoisyScreening


@pytest.mark.parametrize("method", ["auto", "tight"])
@pytest.mark.parametrize("delta", [1e-251, 1e-300, 5e-324])
@pytest.mark.parametrize(
    "run", [300 * S(45.2, 3.96, 3), 2 * S(45.2, 3.96, 3) + ac.Gaussian(1e3)], ids=["game", "mixed"]
)
def test_screenings_at_deltas_below_those_of_games(run, delta, method):
    """They were refused, by the default route too, as if 1e-250 were the least delta."""
    found = ac.epsilon(run, delta, method=method)
    assert ac.epsilon(run, 1e-200, method="tight").lower <= found.epsilon
    assert found.epsilon <= ac.epsilon(run, delta, method="renyi").epsilon * (1.01 if method == "tight" else 1 + 1e-11)
    assert 0.99 * found.epsilon <= found.lower <= found.epsilon


def test_screenings_that_never_pass():
    """A normal variable is 4.5e6 deviations away with a probability that is no float: nothing is told."""
    assert ac.epsilon(1000 * S(1e-6, 7.4876612236400275, 3), 2e-7, tolerance=1e-6).epsilon == 0.0


def test_infinite_losses_for_certain():
    run = 10**9 * ac.ApproximateDP(6.2, 1.4e-6) + P(ac.Laplace(3.0), 0.02)
    with pytest.raises(ac.NoGuarantee, match="accepted: above 1, the probability of an infinite loss"):
        ac.epsilon(run, 1e-142)
    assert ac.delta(run, 1.0).delta == 1.0


def test_a_delta_next_to_one():
    assert ac.epsilon(1000 * P(ac.RandomizedResponse(0.6656, 5), 0.003), 0.999999999999).epsilon == 0.0


def test_shuffled_reports_that_tell_next_to_nothing():
    found = ac.epsilon(1000 * ac.Shuffled(1e-50, 1000), 1e-300, method="renyi")
    assert 0.0 <= found.epsilon <= 1000 * 1e-50 * (1 + 1e-9)


@pytest.mark.audit
def test_a_certified_end_that_the_renyi_curve_gives_holds_its_rounding():
    """9 of 10 steps of pure DP, twice: in direction "add" the loss is 18 epsilon with a probability next to 1."""
    epsilon, delta = 9.783030784950833, 6.204735494320222e-12
    found = ac.epsilon(2 * ac.RandomAllocation(ac.PureDP(epsilon), 10, 9), delta, method="tight", tolerance=1.0)
    with mp.workdps(60):
        odds = mp.exp(mpf(epsilon))
        likely = (odds / (1 + odds)) ** 20
        assert likely * -mp.expm1(mpf(found.epsilon) - 18 * mpf(epsilon)) <= delta


@pytest.mark.parametrize("method", ["auto", "tight"])
def test_releases_whose_curve_is_zero_in_floating_point(method):
    """Screenings and votes that are certain to within 1e-300: they divided by the spread of their losses."""
    delta, screening = 0.0780, ac.DataDependentScreening(0.2797163830978149, 75.1741033734257, 89)
    alone = ac.epsilon(10 * ac.ZeroConcentratedDP(0.0204, 0.2), delta, method="renyi")
    found = ac.epsilon(10 * ac.ZeroConcentratedDP(0.0204, 0.2) + screening, delta, method=method)
    assert 0.0 <= found.lower <= found.epsilon <= alone.epsilon * (1 + 1e-9)
    votes, sampled = ac.DataDependentGNMax(0.24471477316166138, (30.0, 2.0)), P(ac.ExponentialMechanism(0.5), 6.2e-4)
    both = ac.epsilon(10 * votes + 10 * sampled, 1e-4, method=method)
    assert both.epsilon == pytest.approx(ac.epsilon(10 * sampled, 1e-4, method=method).epsilon, rel=0.02)
    assert ac.epsilon(10 * votes + 10 * sampled, 0.0734, method=method).epsilon == 0.0


def test_a_grid_that_is_too_fine_is_refused_before_it_is_made():
    """Losses of 2e-57 on a grid that reaches where a range is first looked for, at 1e-18."""
    tiny = ac.Laplace(1e43, 2e-14)
    with pytest.raises(
        ac.ToleranceUnreachable, match=r"takes a grid of \S+ points at a step of 1e-58; accepted: at most"
    ):
        bracket(tiny, "remove", Interval(-1e-18, 1e-18), 0.0, Grid(1e-58, 0.0))


@pytest.mark.each_run(3)
@pytest.mark.parametrize("selected", [1, 2])
@pytest.mark.parametrize("event", [ac.Laplace(1e43, 2e-14), ac.Laplace(1e20), ac.Gaussian(1e20), ac.PureDP(1e-17)])
def test_allocation_of_losses_next_to_nothing(event, selected):
    """Their ratios are all 1 in floats: there is no tight price, and the curve is that of a step."""
    steps = 3 * ac.RandomAllocation(event, 18, selected)
    with pytest.raises(ac.ToleranceUnreachable):
        ac.epsilon(steps, 1e-10, method="tight")
    assert ac.epsilon(steps, 1e-10) == ac.epsilon(steps, 1e-10, method="renyi")
    assert 0.0 <= ac.delta(steps, 1e-9).delta < 1e-9


def test_losses_that_are_infinite_for_all_that_floats_tell():
    run = ac.PoissonSubsampled(ac.GaussianDP(2e-4), 3e-6) + 4_000_000 * ac.PoissonSubsampled(
        ac.ApproximateDP(3.7, 0.75), 0.5
    )
    found = ac.delta(run, 1.0, method="tight")
    assert 1 - 1e-9 < found.lower <= found.delta == 1.0


HARDLY = S(0.04692, -37.97, 300)
"""Votes pass for certain but for e^-327000."""


@pytest.mark.parametrize("method", ["auto", "tight"])
@pytest.mark.parametrize("silent", [131700 * HARDLY, 131700 * S(0.04692, 337.97, 300), 10 * P(HARDLY, 0.1)], ids=str)
def test_screenings_that_say_nothing_are_free(silent, method):
    """Their total variation together is below every float; they were refused, and cost 0.4 by their Rényi curve."""
    (event, count), *_ = silent
    with mp.workdps(30):
        plain = event.unsampled
        farthest = min(abs(t - plain.threshold) for t in (0, 300)) / plain.sigma
        assert count * mp.ncdf(-farthest) < mpf("5e-324")
    found = ac.epsilon(silent, 1e-5, method=method)
    assert (found.epsilon, found.lower) == (0.0, 0.0)
    at = ac.delta(silent, 0.1, method=method)
    assert (at.lower, at.delta) == (0.0, 5e-324)


@pytest.mark.parametrize("rest", [100 * ac.Gaussian(50.0), 5 * S(20.0, 3.0, 30)], ids=str)
def test_screenings_that_say_nothing_leave_the_price_of_the_rest(rest):
    whole = rest + 131700 * HARDLY
    alone, both = (ac.epsilon(run, 1e-5, method="tight") for run in (rest, whole))
    assert (both.epsilon, both.lower) == pytest.approx((alone.epsilon, alone.lower), rel=1e-12)
    alone, both = (ac.delta(run, 0.1, method="tight") for run in (rest, whole))
    assert both.lower == alone.lower
    assert alone.delta <= both.delta <= alone.delta * (1 + 1e-12)


def test_screenings_that_say_little_are_not_left_out():
    """One whose votes pass but for a share of 2e-4 decides what is known at smaller deltas."""
    event = S(1.0, -3.5, 1)
    assert ac.epsilon(event, 1e-5, method="tight").lower > 0.1
    assert ac.delta(100 * event, 0.1, method="tight").lower > 1e-3
