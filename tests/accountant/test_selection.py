"""Selection: bounds against enumeration of every order of scores, limits, peers and refusals."""

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac
from accountant.events.finite_pairs import FinitePair


@dataclass(frozen=True)
class Finite(ac.Event):
    """P against Q on a few outcomes."""

    p: tuple[int, ...] = (1,)
    q: tuple[int, ...] = (1,)
    adjacency: ac.Adjacency = field(default=ac.Adjacency.ADD_REMOVE)

    def probabilities(self):
        return tuple([Fraction(each, sum(weights)) for each in weights] for weights in (self.p, self.q))

    def _pair(self):
        p, q = (np.array([float(each) for each in part]) for part in self.probabilities())
        return FinitePair(np.log(q), np.log(p) - np.log(q))

    def _curve(self, orders):
        return self._pair().curve(orders)

    def _log_profile(self, epsilons):
        return self._pair().log_profile(epsilons)

    def _profile_knots(self):
        return tuple(abs(each) for each in self._pair().losses.tolist() if each)


def generating(tries, s):
    """E s^K, from the distribution itself."""
    if isinstance(tries, ac.Poisson):
        return mp.exp(tries.mean * (s - 1))
    if tries.shape == 1:
        g = mp.mpf(1) / tries.mean
        return g * s / (1 - (1 - g) * s)
    if tries.shape == 0:
        g = mp.findroot(lambda g: (1 / g - 1) / mp.log(1 / g) - tries.mean, (mp.mpf("1e-6"), 0.999), solver="anderson")
        return mp.log(1 - (1 - g) * s) / mp.log(g)
    h = tries.shape
    g = mp.findroot(lambda g: h * (1 - g) / (g * (1 - g**h)) - tries.mean, (mp.mpf("1e-6"), 0.999), solver="anderson")
    return ((1 - (1 - g) * s) ** -h - 1) / (g**-h - 1)


def best_of(weights, ranking, tries):
    """Probabilities of the outcomes of a selection, then of no try; `ranking` has groups of equals, the worst first.

    Ties are broken at random.
    """
    found, below = {}, Fraction(0)
    for group in ranking:
        mass = sum(weights[each] for each in group)
        low, high = (generating(tries, mp.mpf(x.numerator) / x.denominator) for x in (below, below + mass))
        for each in group:
            share = weights[each] / mass
            found[each] = (high - low) * mp.mpf(share.numerator) / share.denominator
        below += mass
    return [found[each] for each in range(len(weights))] + [generating(tries, mp.mpf(0))]


def rankings(size):
    """All orders of the scores of so many outcomes, with ties."""
    for levels in itertools.product(range(size), repeat=size):
        if set(levels) == set(range(max(levels) + 1)):
            yield [[each for each in range(size) if levels[each] == level] for level in range(max(levels) + 1)]


TRIES = [
    ac.Poisson(3.0),
    ac.Poisson(0.4),
    ac.Geometric(4.0),
    *(ac.NegativeBinomial(3.0, shape) for shape in (0.0, 0.5)),
]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=2, max_size=3),
    st.sampled_from(TRIES),
    st.sampled_from([1.3, 2.0, 7.0, 40.0]),
)
def test_no_order_of_scores_costs_more(pairs, tries, order):
    event = Finite(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
    selection = ac.Selection(event, tries)
    bound, at_infinity = float(selection.renyi(order)), float(selection.renyi(math.inf))
    delta = 0.01
    price = selection.guarantee(delta).epsilon
    assert price <= ac.epsilon(selection, delta).epsilon
    with mp.workdps(40):
        for ranking in rankings(len(pairs)):
            both = [best_of(part, ranking, tries) for part in event.probabilities()]
            for p, q in (both, both[::-1]):
                rows = [(a, b) for a, b in zip(p, q, strict=True) if a > 0]
                moment = mp.fsum(a**order * b ** (1 - order) for a, b in rows)
                assert mp.log(moment) / (order - 1) <= bound + 1e-12
                assert max(mp.log(a / b) for a, b in rows) <= at_infinity + 1e-12
                assert mp.fsum(max(a - mp.exp(price) * b, 0) for a, b in rows) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("tries", [*TRIES, ac.Geometric(1.0), ac.NegativeBinomial(1e6, 3.0)])
def test_the_mean_is_that_of_the_distribution(tries):
    with mp.workdps(40):
        slope = mp.diff(lambda s: generating(tries, s), 1) if tries.mean > 1 and tries.mean < 1e3 else tries.mean
    assert float(tries.log_slope(np.zeros(1))[0]) == pytest.approx(math.log(float(slope)), rel=1e-9, abs=1e-9)
    x = np.array([0.3, 0.9])
    if 1 < tries.mean < 1e3:
        with mp.workdps(40):
            exact = [float(mp.log(mp.diff(lambda s: generating(tries, s), 1 - mp.mpf(each)))) for each in x]
        assert tries.log_slope(x) == pytest.approx(exact, rel=1e-9)


def test_limits():
    orders = np.array([1.5, 4.0, 30.0, math.inf])
    one = ac.Laplace(2.0)
    assert ac.Selection(one, ac.Geometric(1.0)).renyi(orders) == pytest.approx(one.renyi(orders), rel=1e-8)
    free = ac.Selection(ac.PureDP(1e-9), ac.Geometric(10.0)).renyi(orders)
    assert (free < 1e-8).all()
    assert float(ac.Selection(ac.PureDP(0.5), ac.Poisson(1e-9)).renyi(2.0)) < 1e-8
    many = [float(ac.Selection(ac.PureDP(0.5), ac.Geometric(mean)).renyi(math.inf)) for mean in (2.0, 10.0, 1e9)]
    assert many == sorted(many)
    # Liu & Talwar 2019: three epsilon
    assert 1.499 < many[-1] <= 1.5 + 1e-9


@pytest.mark.parametrize("mean", [2.0, 100.0])
@pytest.mark.parametrize("rho", [0.1])
def test_never_above_the_printed_theorems(mean, rho):
    """Papernot & Steinke 2022, Thm 2 (shape 1) with the best second order, and Thm 6 by the profile."""
    event, orders = ac.ZeroConcentratedDP(rho), np.array([2.0, 5.0, 20.0])
    others = np.geomspace(1.01, 1e4, 4000)
    second = float(np.min(2 * ((1 - 1 / others) * rho * others + math.log(mean) / others)))
    printed = rho * orders + second + math.log(mean) / (orders - 1)
    assert (ac.Selection(event, ac.Geometric(mean)).renyi(orders) <= printed).all()
    for order in orders.tolist():
        inner = ac.delta(event, math.log1p(1 / (order - 1))).delta
        printed = rho * order + mean * inner + math.log(mean) / (order - 1)
        none = math.exp(-mean) * math.exp(-(order - 1) * printed) / (order - 1)  # the outcome of no try
        assert float(ac.Selection(event, ac.Poisson(mean)).renyi(order)) <= (printed + none) * 1.002


def test_whole_runs():
    run = 20 * ac.Gaussian(20.0) + 1 * ac.Gaussian(30.0)
    selection = ac.Selection(run, ac.Geometric(8.0))
    assert selection.adjacency is ac.Adjacency.ADD_REMOVE
    single, chosen = ac.epsilon(run, 1e-6), selection.guarantee(1e-6)
    assert single.epsilon < chosen.epsilon < 3 * single.epsilon
    assert chosen.lower is None
    twice = ac.epsilon(2 * selection, 1e-6).epsilon
    assert chosen.epsilon < twice < 2 * ac.epsilon(selection, 1e-6).epsilon + 1e-9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ac.Selection(ac.Composition(), ac.Geometric(2.0)), "accepted: an event, or a composition"),
        (lambda: ac.Selection(ac.Gaussian(1.0), 40), r"tries = 40; accepted: ac\.Poisson"),
        (lambda: ac.Poisson(0.0), "mean = 0 is out of range"),
        (lambda: ac.Geometric(0.5), "mean = 0.5 is out of range"),
        (lambda: ac.NegativeBinomial(2.0, -0.5), "shape = -0.5 is out of range"),
        (
            lambda: (1 * ac.Selection(ac.Gaussian(1.0), ac.Poisson(3.0))).to_toml(),
            "has no form in plans: what",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ac.ParameterError, match=message):
        make()


def test_no_pure_price_without_a_pure_limit():
    with pytest.raises(ac.NoGuarantee):
        ac.Selection(ac.Gaussian(1.0), ac.Geometric(3.0)).guarantee(0.0)
