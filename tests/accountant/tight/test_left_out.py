"""Releases that are left out of a run add next to nothing to its price, and nothing is asked twice for them."""

import math

import mpmath as mp
import pytest

import accountant as ac
from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.numerics.roots import Interval
from accountant.patience import allow_work
from accountant.tight.left_out import BESIDE, beside_left_out, leave_out
from accountant.tight.route import TightRun

S = ac.NoisyScreening
IDLE = S(1.0, 40.0, 10)


def gaussian_profile(mu, epsilon):
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.02])
def test_the_upper_end_holds_at_the_next_smaller_delta(mu, delta):
    """Of Gaussian noise, whose epsilon at either delta is known, and by no more than rounding."""
    run, asked = 1 * ac.Gaussian(1 / mu), []
    with mp.workdps(50):
        at, beside = (
            mp.findroot(
                lambda x, d=d: mp.log(gaussian_profile(mp.mpf(mu), x)) - mp.log(d),
                (0.0, 1.5 * mu**2 + 9 * mu),
                solver="anderson",
                tol=1e-60,
            )
            for d in (mp.mpf(delta), mp.mpf(delta) * (1 - mp.mpf(BESIDE) / 2))
        )
        exact = float(at) + math.ulp(float(at))

        def ask(point):
            asked.append(point)
            return Interval(0.0, exact)

        found = beside_left_out(run, delta, ask)
        assert mp.mpf(found.upper) >= beside
        assert found.upper <= exact * (1 + 1e-12)
        assert asked == [delta]


def test_what_is_left_out_is_less_than_what_is_kept_free():
    assert len(leave_out(3 * S(4.0, 12.0, 20) + 5 * IDLE, 1e-5)) == 1
    assert math.exp(-40.0) < BESIDE / 2


def test_what_is_far_from_half_of_delta_is_asked_again():
    """Where no epsilon is known at half of it, as of a loss that may be infinite."""
    asked = []

    def ask(point):
        asked.append(point)
        return Interval(0.5, 1.0 + 0.5 * (point < 0.01))

    run = 1 * ac.ApproximateDP(1.0, 0.009)
    assert beside_left_out(run, 0.01, ask) == (0.5, 1.5)
    assert asked == [0.01, math.nextafter(0.01, 0.0)]


def test_a_refusal_knows_the_upper_end_of_the_whole_run():
    refusal = ToleranceUnreachable("no nearer")
    refusal.found = (1.0, 2.0)

    def ask(_):
        raise refusal

    with pytest.raises(ToleranceUnreachable):
        beside_left_out(1 * ac.Gaussian(1.0), 1e-5, ask)
    lower, upper = refusal.found
    assert lower == 1.0
    assert 2.0 < upper < 2.0 + 1e-12


def test_screenings_that_are_left_out_take_no_patience():
    """The patience that just does without them does with them."""
    run, delta = 3 * S(4.0, 12.0, 20) + 2 * S(5.0, 12.0, 20), 1e-5
    with allow_work(math.inf) as work:
        plain = TightRun(run, 0.01).epsilon(delta)
    with allow_work(1.01 * work.taken):
        beside = TightRun(run + 5 * IDLE, 0.01).epsilon(delta)
    with allow_work(0.99 * work.taken), pytest.raises(OutOfPatience):
        TightRun(run, 0.01).epsilon(delta)
    assert beside.lower == plain.lower
    assert plain.epsilon <= beside.epsilon <= plain.epsilon * (1 + 1e-12)


def test_what_costs_nothing_changes_nothing():
    """Not even by a rounding: a kind that is never shown."""
    run = 3 * S(2.0, 3.0, 5) + 2 * S(3.0, 2.0, 5)
    free = ac.PoissonSubsampled(S(1.0, 3.0, 5), 0.0)
    assert TightRun(run + 5 * free, 0.01).epsilon(1e-3) == TightRun(run, 0.01).epsilon(1e-3)
