"""Events of users' own: infinite curves, profiles without end, narrow mistakes, and what is not an event at all."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import accountant as ac
from accountant.testing import broken_laws, check_event


@dataclass(frozen=True)
class Own(ac.Event):
    """A Gaussian with sigma 2, by way of the public extension points."""

    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    def _curve(self, orders):
        return ac.Gaussian(2.0)._curve(orders)


class NarrowDip(Own):
    def _curve(self, orders):
        return super()._curve(orders) * np.where((orders > 10) & (orders < 10.5), 0.9, 1.0)


class SlopeHalves(Own):
    def _curve(self, orders):
        return super()._curve(np.minimum(orders, 1000 + (orders - 1000) / 2))


class Cut(Own):
    """Finite below order 10 only, and no profile."""

    def _curve(self, orders):
        return np.where(orders < 10, super()._curve(orders), math.inf)


class Approximate(Own):
    """(1, 0.01)-DP: no Rényi curve is finite, but there is a profile."""

    def _curve(self, orders):
        return np.full_like(orders, math.inf)

    def _log_profile(self, epsilons):
        both = np.log(0.01 + 0.99 * np.maximum(-np.expm1(epsilons - 1), 0) / (1 + math.e) * math.e)
        return both, both


@dataclass(frozen=True)
class TwoLobes(ac.Event):
    """P = (1-w) N(1,1) + w atom, Q = (1 - w e^-L) N(0,1) + w e^-L atom: a rare but enormous loss L."""

    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE
    loss = 300.0

    def _curve(self, orders):
        moments = np.where(np.isinf(orders), math.inf, 0.0)
        finite = np.isfinite(orders)
        b = orders[finite] - 1
        log_moment = np.logaddexp(0.5 * (b + 1) * b, -self.loss + b * self.loss)
        moments[finite] = np.where(b > 0, log_moment / np.maximum(b, 1e-300), 0.5)
        return moments

    def _log_profile(self, epsilons):
        gaussian = ac.Gaussian(1.0)._log_profile(epsilons)[0]
        with np.errstate(divide="ignore"):
            atom = -self.loss + np.log(-np.expm1(np.minimum(epsilons - self.loss, 0.0)))
        return np.logaddexp(gaussian, atom), gaussian


@pytest.mark.parametrize("event", [Own(), Cut()], ids=repr)
def test_right_events_pass(event):
    check_event(event, max_examples=20)


@pytest.mark.parametrize(
    ("event", "law"),
    [(NarrowDip(), "non-decreasing in order"), (SlopeHalves(), "(a-1) times the curve is convex")],
    ids=["narrow dip", "slope halves"],
)
def test_narrow_mistakes_are_found(event, law):
    assert law in [failure.law for failure in broken_laws(event, max_examples=5)]


def test_infinite_curves_are_priced_where_they_are_finite():
    sampled = ac.PoissonSubsampled(Cut(), 0.1)
    curve = sampled.renyi([2.0, 8.5, 9.0, 9.5, 20.0])
    np.testing.assert_array_equal(np.isfinite(curve), [True, True, True, True, False])
    assert np.all(curve[:3] <= Cut().renyi([2.0, 8.5, 9.0]))
    assert ac.epsilon(100 * sampled, 1e-5).epsilon < math.inf


def test_a_curve_that_is_infinite_everywhere_has_no_guarantee():
    with pytest.raises(ac.NoGuarantee, match="infinite at every order"):
        ac.epsilon(Approximate(), 1e-5, method="renyi")
    with np.errstate(over="ignore"), pytest.raises(ac.NoGuarantee, match="a loss may be infinite"):
        ac.epsilon(Approximate(), 1e-5)
    assert ac.PoissonSubsampled(Approximate(), 0.1).renyi(2.0) == math.inf


def test_a_profile_without_end_is_not_trusted_where_it_was_not_looked_at():
    exact = math.log1p(0.25 * (math.e + 1 - 1))  # log(1 + g^2 (E_Q[(P/Q)^2] - 1)) with E = e + 1
    assert float(ac.PoissonSubsampled(TwoLobes(), 0.5).renyi(2.0)) >= exact * (1 - 1e-12)


@pytest.mark.parametrize("sigma", [1e-2, 1e-4, 1e-8, 1e-20, 1e-50])
@pytest.mark.parametrize("rate", [1e-10, 0.1, 0.9])
def test_sampled_gaussian_with_next_to_no_noise(sigma, rate):
    """Two laws that do not overlap: the KL divergence is g/(2 sigma^2) less the entropy of the choice."""
    entropy = -(rate * math.log(rate) + (1 - rate) * math.log1p(-rate))
    exact = rate / (2 * sigma**2) - entropy
    event = ac.PoissonSubsampled(ac.Gaussian(sigma), rate)
    if exact > 1e-6:  # else the laws do overlap
        assert float(event.renyi(1.0)) == pytest.approx(exact, rel=1e-11)
    curve = event.renyi([1.0, 1 + 1e-9, 1.5, 2.0, 30.0])
    assert np.all(np.diff(curve) >= 0)


class Unhashable(Own):
    __hash__ = None


def test_what_is_not_an_event_is_named():
    class NoAdjacency(Own):
        adjacency = None

        def __post_init__(self):
            pass

    with pytest.raises(ac.ParameterError, match="no adjacency"):
        check_event(NoAdjacency(None))
    with pytest.raises(ac.ParameterError, match="frozen dataclass"):
        check_event(Unhashable())
    with pytest.raises(ac.ParameterError, match="no adjacency"):
        check_event("gaussian")
