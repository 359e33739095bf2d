"""The sum behind the generic subsampling bound against all of its terms, also where all but a few are negligible."""

import math

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.events.generic_subsampling import log_binomial_excess
from accountant.testing import check_event

sampled = ac.PoissonSubsampled

GROWTHS = {  # the largest term is in the middle, at the last count, at both ends and at the first
    "pure": lambda j: (j - 1) * 0.7,
    "zcdp": lambda j: 0.3 * j * (j - 1),
    "both ends": lambda j: 0.0007 * j * (j - 1),
    "flat": lambda j: 1e-9 * (j - 1),
    "infinite": lambda j: np.where(j > 2, math.inf, 1.0),
    "nothing": lambda j: np.full_like(j, -math.inf),
}


@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.999])
@pytest.mark.parametrize("n", [2, 3, 1500])
@pytest.mark.parametrize("growth", GROWTHS)
def test_no_term_that_counts_is_left_out(growth, n, rate):
    j = np.arange(n + 2, dtype=float)
    logs = GROWTHS[growth](j)
    with mp.workdps(30):
        g, h = mp.mpf(rate), 1 - mp.mpf(rate)
        odds, term, whole = g / h, h**n, mp.mpf(0)
        for i in range(n + 1):
            whole += term * mp.exp(mp.mpf(logs[i])) if i >= 2 and logs[i] > -math.inf else 0
            term *= mp.mpf(n - i) / (i + 1) * odds
        expected = float(mp.log(whole)) if whole else -math.inf
    found = log_binomial_excess(n, logs, j * np.log(np.maximum(j, 1.0)), rate)
    assert found == pytest.approx(expected, rel=1e-14, abs=1e-13)


HULLS = [
    sampled(ac.ZeroConcentratedDP(2.2537), 0.5),
    sampled(ac.ZeroConcentratedDP(30.0), 0.99),
    sampled(ac.DiscreteGaussian(0.5, 1, 3), 0.5),
    sampled(ac.Laplace(0.2, 1.0, 20), 0.9),
    sampled(ac.SparseVector(2.0, 3.0, 2), 0.8),
    sampled(ac.DiscreteLaplace(0.3, 3, 4), 0.999),
]


@pytest.mark.parametrize("event", HULLS, ids=repr)
def test_the_generic_bound_is_a_hull(event):
    """(a-1) times it is convex over all orders, and nowhere above what it is the hull of."""
    b = np.unique(np.concatenate([np.geomspace(1e-5, 50.0, 700), np.arange(1.0, 40.0), np.linspace(7.0, 9.0, 99)]))
    curve, own, rate = event.renyi(1 + b), event.unsampled.renyi(1 + b), event.sampling_rate
    whole = b * curve
    chords = whole[:-2] + (whole[2:] - whole[:-2]) * (b[1:-1] - b[:-2]) / (b[2:] - b[:-2])
    assert (whole[1:-1] <= chords * (1 + 1e-11)).all()
    assert (curve <= own).all()
    assert (curve <= event.renyi(math.inf) * (1 + 1e-14)).all()
    assert float(event.renyi(1.0)) <= curve[0] * (1 + 1e-12)
    orders = np.arange(2, 12)
    for order in orders.tolist():  # at integers never above the sum, written as it stands
        terms = (
            math.comb(order, j) * rate**j * (1 - rate) ** (order - j) * mp.expm1((j - 1) * float(event.event.renyi(j)))
            for j in range(2, order + 1)
        )
        assert float(event.renyi(order)) <= float(mp.log(1 + mp.fsum(terms))) / (order - 1) * (1 + 1e-12)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("event", HULLS[:1] + HULLS[2:3], ids=repr)
def test_hulls_keep_the_laws(event):
    check_event(event, max_examples=3)


def test_hulls_bound_what_is_known_exactly():
    """Gaussian noise, told by its curve alone: the hull is nowhere below the exact curve, between integers too."""
    for mu, rate in ((0.3, 0.1), (1.0, 0.9), (3.0, 0.5), (3.0, 0.99)):
        orders = 1 + np.geomspace(1e-4, 60.0, 300)
        exact = sampled(ac.GaussianDP(mu), rate).renyi(orders)
        assert (sampled(ac.ZeroConcentratedDP(mu * mu / 2), rate).renyi(orders) >= exact * (1 - 1e-12)).all()


@pytest.mark.parametrize(
    "event", [ac.Laplace(1.0, 1.0, 20), ac.Laplace(1e7, 1.0, 20), ac.ZeroConcentratedDP(1e-7)], ids=repr
)
def test_the_last_sum_is_gone_on_from(event):
    """Beyond order 1e6 the bound goes on without a leap, and convex, to what is known of all orders."""
    sample = sampled(event, 0.5)
    b = np.concatenate([1e6 - np.array([3.0, 2.0, 1.5, 1.0, 0.5, 0.1, 1e-3]), 1e6 + np.geomspace(1e-2, 1e12, 200)])
    whole = b * sample.renyi(1 + b)
    chords = whole[:-2] + (whole[2:] - whole[:-2]) * (b[1:-1] - b[:-2]) / (b[2:] - b[:-2])
    assert (whole[1:-1] <= chords * (1 + 1e-9)).all()
    assert (np.diff(sample.renyi(1 + b)) >= -1e-12 * sample.renyi(1 + b)[1:]).all()
    assert (sample.renyi(1 + b) <= np.minimum(sample.renyi(math.inf), event.renyi(1 + b)) * (1 + 1e-14)).all()
