"""Trade-off functions: the definition, the closed forms, and never above the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtr, ndtri

import accountant as ac
from accountant import plots
from accountant.tight.trade_off import envelope, supporting_lines

ALPHAS = np.linspace(0.0, 1.0, 1001)


def shown(ax, index: int = 1) -> np.ndarray:
    """The function that a line of the plot is, at ALPHAS; line 0 is the diagonal."""
    return np.interp(ALPHAS, *ax.get_lines()[index].get_xydata().T)


def defined(epsilons, deltas):
    """max over e of max(0, 1 - delta - e^eps a, e^-eps (1 - delta - a)) at ALPHAS."""
    low = 1 - deltas[:, None] - np.exp(epsilons)[:, None] * ALPHAS
    high = np.exp(-epsilons)[:, None] * (1 - deltas[:, None] - ALPHAS)
    return np.maximum(np.max(np.maximum(low, high), axis=0), 0.0)


@settings(deadline=None)
@given(arrays(float, st.integers(1, 12), elements=st.floats(0, 30)), st.randoms())
def test_corners_are_those_of_the_definition(epsilons, random):
    deltas = np.array([random.random() for _ in epsilons])
    places, values = envelope(*supporting_lines(epsilons, deltas))
    assert (places[0], places[-1], values[-1]) == (0, 1, 0)
    assert (np.diff(places) > 0).all()
    np.testing.assert_allclose(np.interp(ALPHAS, places, values), defined(epsilons, deltas), atol=1e-12)


@pytest.mark.parametrize(
    ("epsilons", "deltas", "corners"),
    [
        ([0.0], [0.0], [[0, 1], [1, 0]]),
        ([0.0], [1.0], [[0, 0], [1, 0]]),
        ([np.log(3)], [0.0], [[0, 1], [0.25, 0.25], [1, 0]]),
        ([800.0], [0.5], [[0, 0], [1, 0]]),  # too steep to be told from 0
    ],
)
def test_limits(epsilons, deltas, corners):
    found = np.stack(envelope(*supporting_lines(np.array(epsilons), np.array(deltas))), axis=1)
    np.testing.assert_allclose(found, corners, atol=1e-15)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_is_below_and_near_the_closed_form(mu):
    """Dong, Roth & Su 2022, eq. 6: G_mu(a) = Phi(Phi^-1(1-a) - mu)."""
    run = 100 * ac.GaussianDP(mu / 10)
    truth = ndtr(ndtri(1 - ALPHAS) - mu)
    for ax in (plots.trade_off(run), plots.trade_off(ac.GaussianDP(mu))):
        assert (shown(ax) <= truth + 1e-9).all()
        assert np.max(truth - shown(ax)) < 3e-3


def test_randomized_response_is_two_lines():
    e = 0.7
    truth = np.maximum(1 - np.exp(e) * ALPHAS, np.exp(-e) * (1 - ALPHAS))
    np.testing.assert_allclose(shown(plots.trade_off(ac.RandomizedResponse(e))), truth, atol=1e-9)


def test_directions_are_inverse_functions_of_each_other_and_below_the_truth():
    """Absent against present: N(0, s^2) against the mixture; the tests are thresholds on the sample."""
    sigma, rate = 0.5, 0.3
    ax = plots.trade_off(ac.PoissonSubsampled(ac.Gaussian(sigma), rate))
    absent, present = (ax.get_lines()[index].get_xydata() for index in (1, 2))
    assert [line.get_label() for line in ax.get_lines()[1:]] == ["null hypothesis: absent", "null hypothesis: present"]
    cuts = np.linspace(-4, 5, 901)
    alarms = ndtr(-cuts / sigma)
    missed = (1 - rate) * ndtr(cuts / sigma) + rate * ndtr((cuts - 1) / sigma)
    for curve, alphas, errors in ((absent, alarms, missed), (present, missed, alarms)):
        order = np.argsort(alphas)
        found = np.interp(alphas[order], *curve.T)
        assert (found <= errors[order] + 1e-9).all()
        assert np.max(errors[order] - found) < 3e-3


def test_compositions_show_the_curve_of_the_route_that_was_asked_for():
    run, epsilons = 10 * ac.PoissonSubsampled(ac.Gaussian(2.0), 0.3), [0.0, 0.3, 1.0]
    for method, words in (("tight", "tight; a lower bound"), ("renyi", "Rényi, classic conversion; a lower bound")):
        ax = plots.trade_off(run, epsilons=epsilons, method=method, conversion="classic")
        found = ac.curve(run, epsilons, method=method, conversion="classic", tolerance=0.02)
        np.testing.assert_allclose(shown(ax), defined(found.epsilons, found.upper), atol=1e-12)
        assert words in ax.texts[0].get_text()


def test_several_runs_are_named():
    ax = plots.trade_off({"more": ac.Gaussian(1.0), "less": ac.Gaussian(3.0)})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["more", "less"]
    # next to 0 the bound of either ends where delta is no longer told apart from 0
    assert (shown(ax, 1) <= shown(ax, 2) + 1e-3).all()
    assert shown(ax, 1)[500] < shown(ax, 2)[500] - 0.1


def test_a_free_run_is_the_diagonal():
    np.testing.assert_allclose(shown(plots.trade_off(ac.PureDP(0.0))), 1 - ALPHAS, atol=1e-12)


def test_a_release_between_two_bounds_has_the_line_of_its_price():
    """Three of ten steps: known between two bounds, by no single profile."""
    run = ac.RandomAllocation(ac.Gaussian(2.0), 10, 3)
    lines = plots.trade_off(run, epsilons=[0.0, 0.5, 1.0, 2.0]).get_lines()
    (line,) = [each for each in lines if len(each.get_xdata()) > 2]
    for epsilon in (0.5, 1.0):
        delta = 1.03 * ac.delta(run, epsilon, tolerance=0.02).delta  # both are within 2 %
        for first in (0.01, 0.1):
            least = max(1 - delta - math.exp(epsilon) * first, math.exp(-epsilon) * (1 - delta - first), 0.0)
            assert np.interp(first, line.get_xdata(), line.get_ydata()) >= least - 1e-9
