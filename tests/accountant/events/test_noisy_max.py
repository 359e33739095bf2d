"""Data-dependent votes where the probability that the winner loses is below the range of floats."""

import mpmath
import numpy as np
import pytest

import accountant as ac


def gnmax(sigma, votes, order):
    """Papernot et al. 2018, Thm 6, Props 7 and 10, for two classes."""
    s = mpmath.mpf(sigma)
    q = mpmath.erfc((votes[0] - votes[1]) / (2 * s)) / 2
    mu2 = s * mpmath.sqrt(-mpmath.log(q))
    mu1 = mu2 + 1
    a = (1 - q) / (1 - (q * mpmath.exp(mu2 / s**2)) ** ((mu2 - 1) / mu2))
    b = mpmath.exp(mu1 / s**2) / q ** (1 / (mu1 - 1))
    return mpmath.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)


def lnmax(scale, votes, order):
    """Papernot et al. 2017, Thm 2 and Lemma 4, for two classes."""
    gamma, moment = 1 / mpmath.mpf(scale), mpmath.mpf(order) - 1
    gap = gamma * (votes[0] - votes[1])
    q = (2 + gap) / (4 * mpmath.exp(gap))
    kept = (1 - q) * ((1 - q) / (1 - mpmath.exp(2 * gamma) * q)) ** moment
    return mpmath.log(kept + q * mpmath.exp(2 * gamma * moment)) / moment


@pytest.mark.parametrize(
    ("event", "exact", "order"),
    [
        (ac.DataDependentGNMax(2.922556390977444, (200, 40)), gnmax, 38.5),
        (ac.DataDependentGNMax(2.9, (200, 40)), gnmax, 20.0),
        (ac.DataDependentGNMax(40.0, (200, 40)), gnmax, 7.0),
        (ac.DataDependentLNMax(0.20969899665551842, (200, 40)), lnmax, 75.0),
        (ac.DataDependentLNMax(0.21, (200, 40)), lnmax, 60.0),
        (ac.DataDependentLNMax(20.0, (200, 40)), lnmax, 7.0),
    ],
)
def test_values(event, exact, order):
    noise = getattr(event, "sigma", None) or event.scale
    with mpmath.workdps(800):
        expected = float(exact(noise, event.votes, mpmath.mpf(order)))
    assert 0 < expected < 1
    assert float(event.renyi(order)) == pytest.approx(expected, rel=2e-13)


def test_no_cost_is_rounded_to_nothing():
    """Below the smallest float a bound is that float, not 0."""
    orders = np.array([1.0, 1.5, 30.0])
    for event in (ac.DataDependentGNMax(1.0, (1e4, 0)), ac.DataDependentLNMax(0.1, (200, 40))):
        assert (event.renyi(orders) > 0).all()
