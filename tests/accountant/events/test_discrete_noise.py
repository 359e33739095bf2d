"""Discrete Laplace and Gaussian noise, against direct sums in high precision."""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import accountant as ac
from accountant.events.discrete_gaussian import FINE, LARGE_TABLE, TABLE, discrete_gaussian_log_profile, shortfall
from tests.cases import audit_after
from tests.reference.definitions import hockey_stick, mixture, renyi

ORDERS = [1.0, 1 + 1e-12, 1 + 1e-6, 1.01, 1.3, 1.5, 2.0, 2.5, 3.47, 10.3, 100.5, 1e4, 1e6 + 0.25]
EPSILON = mpf(2) ** -52


def laplace_law(scale, s):
    """Noise, and noise moved by s, on 0 or less, 1, ..., s - 1, s or more."""
    r = mpmath.exp(-1 / mpf(scale))
    law = [1 / (1 + r), *(r**i * (1 - r) / (1 + r) for i in range(1, s)), r**s / (1 + r)]
    return law, law[::-1]


def gaussian_law(sigma, s, reach=None):
    """Noise, and noise moved by s, on the integers from -reach to reach."""
    reach = reach or math.ceil(16 * sigma) + 2
    weights = {x: mpmath.exp(-(x**2) / (2 * mpf(sigma) ** 2)) for x in range(-reach - s, reach + s + 1)}
    theta = mpmath.fsum(weights.values())
    inside = range(-reach, reach + 1)
    return [weights[x] / theta for x in inside], [weights[x - s] / theta for x in inside]


def direct_renyi(pair, order):
    p, q = pair
    if order == 1:
        return mpmath.fsum(x * mpmath.log(x / y) for x, y in zip(p, q, strict=True))
    return mpmath.log(mpmath.fsum(x**order * y ** (1 - order) for x, y in zip(p, q, strict=True))) / (order - 1)


def stick(pair, epsilon):
    return mpmath.fsum(max(x - mpmath.exp(epsilon) * y, mpf(0)) for x, y in zip(*pair, strict=True))


def assert_profile(log_found, truth, epsilon, least=3e-14):
    """Right to `least`, what rounding the logarithm costs, and how the profile itself answers to one ulp of epsilon."""
    exact = mpmath.log(truth(epsilon))
    moved = abs(mpmath.log(truth(epsilon * (1 + EPSILON))) - exact)
    assert abs(log_found - exact) <= least + 3e-16 * abs(exact) + 3 * moved, (epsilon, float(exact), log_found)


def log_profile(event, *epsilons):
    remove, add = event._log_profile(np.array(epsilons, dtype=float))
    assert remove is add  # the pairs are mirror images
    return remove.tolist()


# --- discrete Laplace ----------------------------------------------------------------------------------


@pytest.mark.parametrize("s", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("scale", [1e-3, 0.05, 0.3, 1.0, 2.5, 20.0, 1e3, 1e6, 1e12])
def test_laplace_curve_is_the_sum(scale, s):
    with mp.workdps(150):
        truth = [direct_renyi(laplace_law(scale, s), mpf(order)) for order in ORDERS]
    found = ac.DiscreteLaplace(scale, s, 12).renyi(ORDERS)
    assert np.allclose(found, [float(12 * value) for value in truth], rtol=2e-15 * 4, atol=0)


@pytest.mark.parametrize(("scale", "s"), [*product([1e-3, 0.3, 2.5, 1e3], [1, 2, 3, 40]), (1e6, 1), (1e6, 5)])
def test_laplace_profile_is_the_sum(scale, s):
    with mp.workdps(60):
        law = laplace_law(scale, s)
        for share in (0.0, 1e-9, 0.01, 0.2, 0.37, 0.5, 0.73, 0.99, 1 - 1e-6):
            epsilon = share * s / scale
            (found,) = log_profile(ac.DiscreteLaplace(scale, s), epsilon)
            assert_profile(found, lambda e: stick(law, e), epsilon)
    assert log_profile(ac.DiscreteLaplace(scale, s), s / scale * (1 + 1e-12), 2 * s / scale, 1e300) == [-math.inf] * 3


@pytest.mark.parametrize("scale", [1e-4, 0.2, 3.0, 1e5])
def test_a_shift_of_one_is_randomized_response(scale):
    orders = [*ORDERS, math.inf]
    for m in (1, 9, 1000):
        discrete, bits = ac.DiscreteLaplace(scale, coordinates=m), ac.RandomizedResponse(1 / scale, m)
        assert np.allclose(discrete.renyi(orders), bits.renyi(orders), rtol=1e-12, atol=0)
        points = np.linspace(0, m / scale, 7)[:-1]
        assert np.allclose(discrete.profile(points), bits.profile(points), rtol=1e-11, atol=1e-300)
    assert np.all(np.asarray(discrete.renyi(orders)) >= 0.999999 * ac.Laplace(scale, coordinates=m).renyi(orders))


def test_shifts_of_many_integers_are_continuous_laplace_noise():
    """As s grows at s/b fixed, from above: noise rounded to a lattice loses more than the noise itself."""
    for shift in (0.01, 1.0, 30.0):
        limit = ac.Laplace(1 / shift).renyi(ORDERS)
        coarse, fine = (np.asarray(ac.DiscreteLaplace(s / shift, s).renyi(ORDERS)) for s in (10**3, 10**9))
        assert np.allclose(fine, limit, rtol=1e-8, atol=0)
        assert np.all(coarse >= limit * (1 - 1e-13))
        assert np.allclose(
            ac.DiscreteLaplace(1e9 / shift, 10**9).profile([0, shift / 3]),
            ac.Laplace(1 / shift).profile([0, shift / 3]),
            rtol=1e-8,
        )


@pytest.mark.parametrize(("event", "rate"), [((2.0, 3, 1), 0.1), ((0.4, 4, 1), 1e-3), ((1.5, 1, 3), 0.5)])
def test_sampled_laplace_is_exact(event, rate):
    s, m = event[1:]
    with mp.workdps(60):
        p, q = laplace_law(event[0], s)
        bits = [(math.prod(x), math.prod(y)) for x, y in zip(product(p, repeat=m), product(q, repeat=m), strict=True)]
        without = [y for _, y in bits]
        both = mixture([x for x, _ in bits], without, mpf(rate))
        for order in (1.5, 2.0, 7.3, 200.0):
            truth = max(renyi(both, without, mpf(order)), renyi(without, both, mpf(order)))
            found = float(ac.PoissonSubsampled(ac.DiscreteLaplace(*event), rate).renyi(order))
            assert found == pytest.approx(float(truth), rel=1e-12)


def test_sampled_laplace_of_many_coordinates_stays_below_its_limit():
    sampled = ac.PoissonSubsampled(ac.DiscreteLaplace(1.5, 2, 9), 1e-6)
    orders = [2.0, 50.5, 1e6, 1e6 + 1, 1e12, math.inf]
    curve = sampled.renyi(orders)
    assert np.all(np.diff(curve) >= 0)
    assert curve[-2] <= curve[-1] < 0.16


# --- discrete Gaussian ---------------------------------------------------------------------------------


@pytest.mark.each_run(11)
@pytest.mark.parametrize("s", [1, 2, 17])
@pytest.mark.parametrize("sigma", [1e-3, 0.1, 0.3, 0.349, 0.35, 0.4, 0.7, 1.5, 5.0])
def test_gaussian_curve_is_the_sum(sigma, s):
    """By the square completed: exp((a-1) D) = e^{a (a-1) s^2/(2 sigma^2)} theta((a-1) s)/theta(0)."""
    worst = 0.0
    with mp.workdps(110):
        reach = math.ceil(22 * sigma) + 2

        def theta(c):
            return mpmath.fsum(mpmath.exp(-((x + c) ** 2) / (2 * mpf(sigma) ** 2)) for x in range(-reach, reach + 1))

        for order in map(mpf, ORDERS):
            truth, b = order * s**2 / (2 * mpf(sigma) ** 2), order - 1
            if b > 0:
                truth -= mpmath.log(theta(0) / theta(b * s - mpmath.nint(b * s))) / b
            found = float(ac.DiscreteGaussian(sigma, s, 3).renyi(float(order)))
            worst = max(worst, float(abs(found / (3 * truth) - 1)))
    assert worst < 2e-15


def test_the_square_is_completed_rightly():
    with mp.workdps(60):
        for sigma, s, order in ((0.3, 1, 1.3), (1.0, 2, 2.7), (0.6, 3, 1.5)):
            truth = direct_renyi(gaussian_law(sigma, s, 40), mpf(order))
            assert float(ac.DiscreteGaussian(sigma, s).renyi(order)) == pytest.approx(float(truth), rel=1e-14)


@given(
    sigma=st.floats(-3, 3).map(lambda x: 10**x),
    s=st.integers(1, 50),
    b=st.floats(-8, 8).map(lambda x: 10**x),
)
@settings(max_examples=200, deadline=None)
def test_gaussian_curve_never_above_the_continuous_one(sigma, s, b):
    discrete, continuous = (
        float(event.renyi(1 + b)) for event in (ac.DiscreteGaussian(sigma, s), ac.Gaussian(sigma, s))
    )
    assert discrete <= continuous * (1 + 1e-15)
    assert discrete >= float(ac.Gaussian(sigma, s).renyi(1.0)) * (1 - 1e-12)
    assert float(ac.DiscreteGaussian(sigma, s).renyi(7.0)) == pytest.approx(float(ac.Gaussian(sigma, s).renyi(7.0)))


def test_shortfall_meets_itself_where_its_formula_changes():
    c = np.linspace(0, 0.5, 11)
    below, above = (shortfall(np.array([0.35 * (1 + share)]), c) for share in (-1e-12, 1e-12))
    assert np.allclose(below, above, rtol=1e-10, atol=0)
    assert shortfall(np.array([50.0]), c).max() == 0.0


def gaussian_stick(sigma, s, epsilon):
    """The profile from its definition, summed until terms are below 1e-22 of the sum."""
    sigma, epsilon = mpf(sigma), mpf(epsilon)
    h = s / sigma**2
    v = epsilon / h - mpf(s) / 2
    n = max(int(mpmath.floor(v)) + 1, -int(16 * sigma) - 3)
    term, fall, steeper = (mpmath.exp(-mpf(power) / (2 * sigma**2)) for power in (n * n, 2 * n + 1, 2))
    gone, step = mpmath.exp(-(n - v) * h), mpmath.exp(-h)
    total = mpf(0)
    while True:
        total += term * (1 - gone)
        if n > 0 and term < total * mpf(10) ** -22:
            break
        term, fall, gone, n = term * fall, fall * steeper, gone * step, n + 1
    if sigma < 1:
        return total / mpmath.fsum(mpmath.exp(-(x**2) / (2 * sigma**2)) for x in range(-16, 17))
    return total / (sigma * mpmath.sqrt(2 * mpmath.pi) * mpmath.jtheta(3, 0, mpmath.exp(-2 * (mpmath.pi * sigma) ** 2)))


@pytest.mark.each_run(5)
@pytest.mark.parametrize(
    ("sigma", "s"),
    [
        (1e-3, 1),
        (0.05, 1),
        (0.2, 2),
        (0.35, 1),
        (0.6, 1),
        (1.0, 50),
        (7.0, 2),
        (20.0, 1),
        (TABLE, 1),
        (TABLE * 1.001, 1),
        (300.0, int(300**2 * FINE) - 1),
        (300.0, int(300**2 * FINE) + 1),
    ],
)
def test_gaussian_profile_is_the_sum(sigma, s):
    mu = s / sigma
    with mp.workdps(40):
        for z in (-60.0, -8.0, -1.0, 0.337, 2.5, 8.1, 20.3, 33.0, 36.7):
            epsilon = z * mu + mu * mu / 2
            if epsilon >= 0:
                (found,) = log_profile(ac.DiscreteGaussian(sigma, s), epsilon)
                # the continuous profile, to which far sums are compared, is right to 2e-12
                least = 2e-12 if sigma > TABLE else 3e-14
                assert_profile(found, lambda e: gaussian_stick(sigma, s, e), epsilon, least)


def test_gaussian_profile_between_its_three_ways():
    """Where one computation hands over to the next, in sigma and in epsilon, the profile goes on."""
    for s in (1, 15):
        mu = s / TABLE
        points = np.array([0.0, 0.3, 1.0, 4.0, 12.0, 30.0, 39.0, 41.0, 60.0]) * mu
        tabled, summed = (discrete_gaussian_log_profile(TABLE * (1 + share), s, 1, points) for share in (0.0, 1e-13))
        assert np.allclose(tabled, summed, rtol=0, atol=5e-10)
    for sigma, edge in ((20.0, 40 * 20.0 + 1), (1000.0, 1000.0**2 / 8)):
        points = (edge + 0.5 + np.array([-1e-9, 1e-9])) / sigma**2
        before, after = discrete_gaussian_log_profile(sigma, 1, 1, points)
        assert before >= after >= before - 1e-6


def convolved(sigma, s, m, reach):
    """The profile of m coordinates as a function of epsilon, from the law of the sum of all noise."""
    weights = [mpmath.exp(-(x**2) / (2 * mpf(sigma) ** 2)) for x in range(-reach, reach + 1)]
    one = [w / mpmath.fsum(weights) for w in weights]
    law = [mpf(1)]
    for _ in range(m):
        wider = [mpf(0)] * (len(law) + 2 * reach)
        for i, x in enumerate(law):
            for j, y in enumerate(one):
                wider[i + j] += x * y
        law = wider
    h, centre = s / mpf(sigma) ** 2, m * reach

    def delta(e):
        losses = ((n - centre + mpf(m * s) / 2) * h for n in range(len(law)))
        return mpmath.fsum(p * -mpmath.expm1(e - loss) for p, loss in zip(law, losses, strict=True) if loss > e)

    return delta


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("sigma", "m", "s"), audit_after(3, [(2.5, 2, 1), (3.0, 4, 2), (2.0, 3, 1), (2.5, 5, 1)]))
def test_gaussian_profile_of_several_coordinates_is_the_convolution(sigma, m, s):
    with mp.workdps(40):
        truth = convolved(sigma, s, m, 70)
        for epsilon in (0.0, 0.3, 1.234, 5.0, 11.1):
            (found,) = log_profile(ac.DiscreteGaussian(sigma, s, m), epsilon)
            assert_profile(found, truth, epsilon)


@pytest.mark.parametrize("sigma", [1e3, 1e6, 1e12, 1e50])
def test_much_noise_is_continuous_noise(sigma):
    mu = 1 / sigma
    points = np.array([0.0, 0.5, 3.0, 30.0]) * mu
    discrete, continuous = ac.DiscreteGaussian(sigma).profile(points).worst, ac.Gaussian(sigma).profile(points).worst
    assert np.allclose(discrete, continuous, rtol=1e-3 if sigma == 1e3 else 1e-9, atol=0)
    assert np.array_equal(ac.DiscreteGaussian(sigma).renyi([1, 2.5]), ac.Gaussian(sigma).renyi([1, 2.5]))


def test_refusals_name_what_is_accepted():
    with pytest.raises(ac.ProfileUnavailable, match=r"sigma = 1 and coordinates = 3 .*accepted: 1, .* 2\.5 or more"):
        ac.DiscreteGaussian(1.0, coordinates=3).profile(1.0)
    with pytest.raises(ac.ProfileUnavailable, match=rf"= 0\.1, .* of 1e\+04.*: at most {FINE:g}, or {LARGE_TABLE}"):
        ac.DiscreteGaussian(1e4, 10**7).profile(1.0)
    with pytest.raises(ac.ProfileUnavailable, match=r"coordinates = 9 of sensitivity 2 .* up to 100000 of"):
        ac.DiscreteLaplace(1.0, 2, 9).profile(1.0)
    for kind in (ac.DiscreteLaplace, ac.DiscreteGaussian):
        with pytest.raises(ac.ParameterError, match=r"sensitivity = 1\.5; accepted: an integer in \[1, 1e\+12\]"):
            kind(1.0, 1.5)


@pytest.mark.parametrize(("sigma", "s", "rate"), [(0.5, 1, 0.1), (1.0, 2, 1e-3), (3.0, 1, 0.9), (0.2, 1, 0.3)])
def test_sampled_gaussian_is_exact(sigma, s, rate):
    with mp.workdps(200):
        p, q = gaussian_law(sigma, s, math.ceil(30 * sigma) + 60)
        both = mixture(p, q, mpf(rate))
        for order in (1.3, 2.0, 7.6):
            truth = max(renyi(both, q, mpf(order)), renyi(q, both, mpf(order)))
            found = float(ac.PoissonSubsampled(ac.DiscreteGaussian(sigma, s), rate).renyi(order))
            assert found == pytest.approx(float(truth), rel=1e-12)
        truth = hockey_stick(both, q, mpf("0.05"))
        found = ac.PoissonSubsampled(ac.DiscreteGaussian(sigma, s), rate).profile(0.05).remove
        assert float(found) == pytest.approx(float(truth), rel=1e-12)


def test_sampled_gaussian_meets_the_generic_bound_at_whole_orders():
    """From one integer on the bound takes over from the sum: the curve goes on, rising."""
    event = ac.PoissonSubsampled(ac.DiscreteGaussian(533.0), 0.3)
    orders = np.array([2.0, 1e3, 7196, 7197, 7197.5, 7198, 7199.5, 7201.5])
    curve = np.asarray(event.renyi(orders))
    assert np.all(np.diff(curve) > 0)
    assert np.allclose(curve[[0, 1]], ac.PoissonSubsampled(ac.Gaussian(533.0), 0.3).renyi(orders[:2]), rtol=1e-11)


@pytest.mark.parametrize(("sigma", "m", "s"), [(0.3, 8, 1), (0.8, 6, 1), (1.5, 5, 2)])
def test_composed_gaussians_of_little_noise_are_the_convolution(sigma, m, s):
    with mp.workdps(40):
        truth = convolved(sigma, s, m, math.ceil(14 * sigma) + 2)
        spread = math.sqrt(m) * s / sigma
        for z in (-1.0, 1.0, 5.0):
            epsilon = z * spread + spread**2 / 2
            for run in (m * ac.DiscreteGaussian(sigma, s), ac.DiscreteGaussian(sigma, s, m)):
                found = ac.delta(run, epsilon, method="tight")
                assert found.lower <= float(truth(mpf(epsilon))) * (1 + 1e-9)
                assert float(truth(mpf(epsilon))) <= found.delta * (1 + 1e-9) <= 1.02 * float(truth(mpf(epsilon)))


# --- prices --------------------------------------------------------------------------------------------


def test_what_is_drawn_is_what_is_priced():
    """At one count, discrete Laplace noise costs more than continuous, discrete Gaussian noise no more."""
    for delta in (1e-3, 1e-9):
        prices = [
            ac.epsilon(m * event, delta, method=method).epsilon
            for event in (ac.DiscreteLaplace(2.0), ac.Laplace(2.0), ac.DiscreteGaussian(0.7), ac.Gaussian(0.7))
            for m, method in ((40, "renyi"), (40, "tight"))
        ]
        assert prices[0] > prices[2]
        assert prices[1] > prices[3]
        assert prices[4] <= prices[6]
        assert prices[5] <= prices[7] * 1.01
        assert all(tight < bound for bound, tight in zip(prices[::2], prices[1::2], strict=True))


@pytest.mark.audit
@given(scale=st.floats(0.3, 30), m=st.integers(1, 40), exponent=st.floats(-30, -2), kind=st.sampled_from("lg"))
@settings(max_examples=15, deadline=None)
def test_tight_is_below_renyi(scale, m, exponent, kind):
    event = ac.DiscreteLaplace(scale, 2, m) if kind == "l" else ac.DiscreteGaussian(scale, 1, m)
    delta = 10**exponent
    found = ac.epsilon(event, delta, method="tight")
    assert 0 <= found.lower <= found.epsilon <= 1.01 * ac.epsilon(event, delta, conversion="optimal").epsilon
    assert found.lower <= ac.epsilon(event, delta, conversion="optimal").epsilon
