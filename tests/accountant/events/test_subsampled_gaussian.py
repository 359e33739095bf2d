"""The subsampled Gaussian against binomial sums at integer orders, where those are exact, and in its limits."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.events.subsampled_gaussian import integrated_log_mean
from accountant.events.subsampled_moments import log_mean_apart


def binomial_sum(sigma: float, rate: float, order: int) -> tuple[mp.mpf, mp.mpf]:
    """sum_j C(a,j) (1-g)^(a-j) g^j e^{j(j-1)/(2 sigma^2)} (Mironov et al. 2019, section 3.3), as a curve.

    Beside it, by how much the logarithm of the sum changes with log g.
    """
    g, s = mp.mpf(rate), mp.mpf(sigma)
    odds, step = g / (1 - g), mp.exp(1 / s**2)
    term, growth = (1 - g) ** order, mp.mpf(1)
    terms = []
    for j in range(order + 1):
        terms.append(term)
        term *= mp.mpf(order - j) / (j + 1) * odds * growth
        growth *= step
    moment = mp.fsum(terms)
    slope = mp.fsum(each * (j - (order - j) * odds) for j, each in enumerate(terms)) / moment
    return mp.log(moment) / (order - 1), slope


@pytest.mark.audit
@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    sigma=st.floats(-2, 4).map(lambda x: 10.0**x),
    rate=st.one_of(st.floats(-10, -0.001).map(lambda x: 10.0**x), st.floats(0.01, 0.999)),
    order=st.one_of(st.integers(2, 40), st.integers(2, 900)),
)
def test_integer_orders(sigma, rate, order):
    with mp.workdps(120):
        # the slope is the relative change of the result per relative change of the rate: what rounding inputs costs
        true, slope = binomial_sum(sigma, rate, order)
        condition = abs(slope)
    value = float(ac.PoissonSubsampled(ac.Gaussian(sigma), rate).renyi(order))
    assert abs(value / true - 1) < 1e-12 + 4e-16 * float(condition)


@pytest.mark.each_run(27)
@pytest.mark.parametrize("sigma", [1e-3, 0.05, 0.3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("rate", [1e-12, 1e-6, 0.01, 0.5, 0.999999, 1 - 1e-15])
def test_between_integer_orders_the_curve_is_smooth_and_convex(sigma, rate):
    """A missed peak or a wrong quadrature step would show as a kink."""
    b = np.geomspace(1e-6, 1e6, 600)
    curve = ac.PoissonSubsampled(ac.Gaussian(sigma), rate).renyi(1 + b)
    exact_b = (1 + b) - 1
    cumulant = exact_b * curve
    assert np.all(np.isfinite(curve))
    assert np.all(curve >= 0)
    assert np.all(np.diff(curve) >= -1e-12 * curve[1:])
    share = (exact_b[2:] - exact_b[1:-1]) / (exact_b[2:] - exact_b[:-2])
    chord = share * cumulant[:-2] + (1 - share) * cumulant[2:]
    assert np.all(cumulant[1:-1] <= chord * (1 + 1e-10))
    assert np.all(curve <= ac.Gaussian(sigma).renyi(1 + b) * (1 + 1e-15))


@pytest.mark.parametrize("rate", [1e-8, 0.3])
def test_order_one_is_the_kl_divergence(rate):
    sigma = 0.7
    with mp.workdps(30):
        g, mu = mp.mpf(rate), 1 / mp.mpf(sigma)

        def integrand(y):
            u = mp.log1p(g * mp.expm1(mu * y - mu * mu / 2))
            return mp.npdf(y) * (u * mp.exp(u) - mp.expm1(u))

        true = mp.quad(integrand, [-14, -7, -3, 0, 0.5, 1, 2, 4, 7, 10, 16])
    event = ac.PoissonSubsampled(ac.Gaussian(sigma), rate)
    assert float(event.renyi(1.0)) == pytest.approx(float(true), rel=1e-12)
    assert float(event.renyi(1 + 1e-12)) == pytest.approx(float(true), rel=1e-9)


@pytest.mark.parametrize(
    ("event", "mu"),
    [(ac.Gaussian(3.0, 1.5), 0.5), (ac.GaussianDP(0.5), 0.5), (ac.GNMax(2 * 2**0.5), 0.5)],
    ids=["gaussian", "gaussian-dp", "gnmax"],
)
def test_all_gaussian_like_events_amplify_alike(event, mu):
    orders = np.array([1.0, 1.5, 7.0, 300.0])
    expected = ac.PoissonSubsampled(ac.Gaussian(1 / mu), 0.07).renyi(orders)
    np.testing.assert_allclose(ac.PoissonSubsampled(event, 0.07).renyi(orders), expected, rtol=1e-13)


def test_infinite_order_is_infinite_unless_nothing_is_sampled():
    assert ac.PoissonSubsampled(ac.Gaussian(1.0), 1e-10).renyi(math.inf) == math.inf
    assert ac.PoissonSubsampled(ac.Gaussian(1.0), 0.0).renyi(math.inf) == 0.0


def test_samples_of_samples_multiply():
    nested = ac.PoissonSubsampled(ac.PoissonSubsampled(ac.Gaussian(1.0), 0.5), 0.25)
    assert nested == ac.PoissonSubsampled(ac.Gaussian(1.0), 0.125)


@pytest.mark.parametrize("sigma", [1e-3, 1e-10, 2.36e-24, 1e-49])
@pytest.mark.parametrize("order", [1 + 1e-9, 2.0, 1e6])
def test_next_to_no_noise_ends(sigma, order):
    """The sum begins at half the distance of the means, which has to be a number that it can count to."""
    rate = 1.9e-8
    event = ac.PoissonSubsampled(ac.Gaussian(sigma), rate)
    curve = float(event.renyi(order))
    assert -math.log1p(-rate) < curve <= float(ac.Gaussian(sigma).renyi(order)) * (1 + 1e-12)


def largest_exponent(square: float, rate: float) -> mp.mpf:
    """max over s of log(1 - g + g e^s) - s^2 / (2 c): for c = a mu^2 the curve at large orders a, but for log(a)/a.

    Its terms are a s mu - s^2 / 2 mu^2 of the exponent; maxima s = c g e^s / (1 - g + g e^s) are looked for from both
    ends, and between them.
    """
    c, g = mp.mpf(square), mp.mpf(rate)
    found = []
    for start in mp.linspace(0, c, 41):
        s = start
        for _ in range(200):
            s = c * g / (g + (1 - g) * mp.exp(-s))
        found.append(mp.log(1 - g + g * mp.exp(s)) - s * s / (2 * c))
    return max(found)


@pytest.mark.each_run(5)
@pytest.mark.parametrize("square", [0.01, 1.0, 3.9, 4.1, 8.0, 30.0])
@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.5, 0.999])
def test_huge_orders_end_and_are_right(square, rate):
    for order in (1e14, 1e18, 1e32, 1e80):
        event = ac.PoissonSubsampled(ac.Gaussian(math.sqrt(order / square)), rate)
        with mp.workdps(40):
            expected = largest_exponent(order * event.event._mu() ** 2, rate)
            # what is left out: half the logarithm of the curvature, and the hump of u^2 next to 0
            assert abs(event.renyi(order) - expected) <= (1e-12 + 100 / order) * expected, order


@pytest.mark.parametrize(("mu", "order", "rate"), [(2e-6, 1e12, 0.5), (2e-6, 1e12, 0.99), (1e-5, 1e11, 0.03)])
def test_large_orders_are_the_integral(mu, order, rate):
    with mp.workdps(60):
        a, m, g = mp.mpf(order), mp.mpf(mu), mp.mpf(rate)
        places = set()
        for start in (0, a * m):  # both outermost maxima
            y = mp.mpf(start)
            for _ in range(3000):
                y = a * m * g / (g + (1 - g) * mp.exp(m * m / 2 - m * y))
            places.add(mp.nint(y))
        terms = [
            a * mp.log(1 - g + g * mp.exp(m * y - m * m / 2)) - y * y / 2
            for place in places
            for y in mp.linspace(place - 200, place + 200, 1601)
        ]
        top = max(terms)
        expected = (top + mp.log(mp.fsum(mp.exp(each - top) for each in terms) / 4 / mp.sqrt(2 * mp.pi))) / (a - 1)
        assert ac.PoissonSubsampled(ac.GaussianDP(mu), rate).renyi(order) == pytest.approx(float(expected), rel=1e-13)


@given(
    st.floats(5.0, 60.0), st.floats(-9.0, -0.01).map(lambda power: 10**power), st.floats(-6.0, 3.0).map(lambda x: 10**x)
)
@settings(max_examples=200)
def test_closed_forms_are_the_integral_wherever_they_are_taken(mu, rate, b):
    closed = log_mean_apart(b, mu, rate)
    if not math.isnan(closed):
        assert closed == pytest.approx(integrated_log_mean(b, mu, rate), rel=1e-12, abs=1e-12)


def test_closed_forms_are_taken_where_components_are_far_apart_alone():
    assert math.isnan(log_mean_apart(0.01, 5.0, 0.1))
    assert not math.isnan(log_mean_apart(0.01, 40.0, 0.1))


@pytest.mark.parametrize("noise", [ac.Gaussian, ac.ClippedSum])
@pytest.mark.parametrize(("method", "what"), [("auto", "a Rényi curve"), ("renyi", "orders of 1000 releases")])
def test_many_integrals_with_a_small_step_are_counted(method, what, noise):
    run = ac.Composition([(ac.PoissonSubsampled(noise(0.05 * (1 + i / 1000)), 0.01), 1) for i in range(1000)])
    with pytest.raises(ac.OutOfPatience, match=f"{what} .*; accepted: patience = [2-9]"):
        ac.epsilon(run, 1e-5, patience=1, method=method)
