"""Bounds on a profile from a Rényi curve: at every epsilon the best of the orders that are asked, fewer where slow."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

import accountant as ac
from accountant import attack
from accountant.renyi.route import LONG

RUNS = {
    "Gaussian": 1 * ac.Gaussian(2.0),
    "sampled": 50 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1),
    "pure": 3 * ac.PureDP(0.5),
    "screenings": 2 * ac.NoisyScreening(1.0, 2.0, 5) + 1 * ac.Laplace(3.0),
    "infinite": 1 * ac.ApproximateDP(0.3, 1e-6) + 1 * ac.Gaussian(2.0),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("skip", attack.SKIPPED)
def test_the_bound_is_the_least_of_all_orders(name, skip):
    run, b = RUNS[name], attack.ORDERS[::skip]
    x = np.concatenate([[0.0], np.geomspace(1e-4, 800.0, 60)])
    upper = attack.renyi_bounds(run, b)(x)[1]
    curve, end = run.renyi(1 + b), float(run.renyi(math.inf))
    for size, found in zip(x.tolist(), upper.tolist(), strict=True):
        logs = [s * (d - size - math.log1p(1 / s)) - math.log1p(s) for s, d in zip(b, curve, strict=True)]
        wanted = -math.inf if size >= end else min(0.0, *logs)
        assert found == pytest.approx(wanted, rel=1e-12, abs=2e-12)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=30, unique_by=lambda e: e[0])
)
def test_the_least_of_many_lines(lines):
    falls, heights = np.array(sorted(lines)).T
    kept, cuts = attack._least_lines(falls, heights)
    for s in (0.0, 1e-3, 0.1, 1.0, 7.0, 1e3):
        at = kept[np.searchsorted(cuts, s)]
        least = np.min(heights - falls * s)
        assert heights[at] - falls[at] * s == pytest.approx(least, rel=1e-9, abs=1e-9 * (1 + abs(least)))


def test_fewer_orders_are_asked_where_they_take_long():
    assert attack._orders_within(0.05, 0.0).size == attack.ORDERS.size
    assert attack._orders_within(0.05, LONG / 400).size < attack.ORDERS.size / 3
    assert attack._orders_within(1e3, LONG / 400).size == attack.ORDERS.size
    few = attack._orders_within(0.05, 1e12)
    assert set(few.tolist()) <= set(attack.ORDERS.tolist())


def test_twenty_kinds_have_a_renyi_bound_soon():
    """All orders of all kinds took a second, and each of hundreds of epsilons was compared with all orders."""
    run = ac.Composition((ac.NoisyScreening(3.0 + i, 4.0 + i, 300), 10) for i in range(20))
    ac.assess(run, [1e-3, 0.1], patience=0.05)
    since = time.process_time()
    found = ac.assess(run, [1e-3, 0.1], patience=0.05)
    assert time.process_time() - since < 1.0
    assert found.advantage.method == "renyi"
    whole = ac.assess(run, [1e-3, 0.1], method="renyi")
    assert found.true_positive_rates.upper == pytest.approx(whole.true_positive_rates.upper, rel=0.2)
    assert (found.true_positive_rates.upper >= whole.true_positive_rates.upper * (1 - 1e-9)).all()


FPRS = np.array([1e-9, 1e-4, 0.01, 0.1552, 0.7])


@pytest.mark.parametrize(
    "run",
    [
        *RUNS.values(),
        *(1 * ac.ZeroConcentratedDP(rho) for rho in (1e-9, 0.01, 2.0)),
        1 * ac.RandomizedResponse(0.1),
        1 * ac.RandomizedResponse(8.0),
    ],
    ids=str,
)
def test_rates_are_the_least_over_all_u(run):
    """They were those of the first 65 points that were looked at, up to 70 % more."""
    bound, log_fprs = attack.renyi_bounds(run), np.log(FPRS)[:, None]
    x = np.concatenate([np.linspace(-40.0, 22.0, 200001), np.linspace(-0.3, 0.3, 100001)])
    least = np.minimum(np.exp(np.min(np.logaddexp(bound(x)[1], x + log_fprs), axis=1)), 1.0)
    found = ac.true_positive_rate(run, FPRS, method="renyi").upper
    assert (found <= np.maximum(least, FPRS) * (1 + 1e-9)).all()
    assert (found >= np.maximum(least, FPRS) * (1 - 1e-3)).all()  # where it ends in a corner, that is off the grid


def test_rates_agree_with_the_advantage():
    """No attack has more than its false positives and the advantage."""
    run = ac.ZeroConcentratedDP(1e-9)
    most = FPRS + ac.advantage(run).upper
    assert (ac.true_positive_rate(run, FPRS).upper <= most * (1 + 1e-9)).all()
    assert ac.precision(run, 0.01, 0.5).upper < 0.5007


def test_mu_rises_with_what_is_released_and_is_that_of_the_rates():
    """Lines of a bound that is not convex, between those of its hull, are no lines of T: mu was up to 10 % more."""
    rhos, places, floor = np.linspace(1.3, 2.0, 15), np.geomspace(8.07e-8, 0.5, 4001), 8.07e-8
    found = [ac.gaussian_dp(ac.ZeroConcentratedDP(rho), floor).upper for rho in rhos.tolist()]
    assert (np.diff(found) > 0.0).all()
    for rho, mu in zip(rhos.tolist(), found, strict=True):
        rates = ac.true_positive_rate(ac.ZeroConcentratedDP(rho), places).upper
        kept = 1 - rates >= places
        least = float(np.max(ndtri(rates[kept]) - ndtri(places[kept])))
        assert least * (1 - 1e-9) <= mu <= least * 1.001
    x = ac.calibrate(ac.ZeroConcentratedDP, target="mu", value=2.84, fpr_floor=8e-8)
    assert 2.84 * 0.999 <= ac.gaussian_dp(ac.ZeroConcentratedDP(x), 8e-8).upper <= 2.84
