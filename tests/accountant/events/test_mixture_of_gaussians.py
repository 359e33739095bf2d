"""Mixtures of Gaussians: integrals of the definition, in high precision; vectors of any direction cost no more."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from tests.cases import audit_after

CASES = [
    (1.0, (0.0, 1.0, 2.5), (0.5, 0.3, 0.2)),
    (0.4, (1.0, 2.0), (0.75, 0.25)),
    (3.0, (0.0, 1.0, 40.0), (0.9, 0.0999, 1e-4)),
    (1e4, (0.0, 3.0), (0.25, 0.75)),
]


def ratio(case):
    sigma, lengths, shares = case
    parts = [(mpf(p), mpf(s) / mpf(sigma)) for p, s in zip(shares, lengths, strict=True)]
    return lambda y: mp.fsum(p * mp.exp(s * (y - s / 2)) for p, s in parts)


def integral(f, case):
    far = 25 + 3 * max(case[1]) / case[0]
    return mp.quad(lambda y: mp.npdf(y) * f(y), mp.linspace(-far, far, 61))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("case", audit_after(2, [(case,) for case in CASES]), ids=repr)
def test_profile_is_the_integral(case):
    event, r = ac.MixtureOfGaussians(*case), ratio(case)
    largest = max(case[1]) / case[0]
    with mp.workdps(25):
        for epsilon in (0.0, 0.02 * largest, 0.5 * largest, 2.0 * largest):
            u = mp.exp(mpf(epsilon))
            found = event.profile(epsilon)
            # where the ratio is u the integrand has a corner
            low, high = mpf(-60), mpf(60) + mpf(largest)
            for target, side, value, exact in (
                (u, 1, float(found.remove), lambda y, u=u: r(y) - u),
                (1 / u, -1, float(found.add), lambda y, u=u: 1 - u * r(y)),
            ):
                if r(low) >= target:
                    assert value == 0.0
                    continue
                a, b = low, high
                for _ in range(90):
                    middle = (a + b) / 2
                    a, b = (middle, b) if r(middle) < target else (a, middle)
                ends = [a + side * 2 * mpf(k) for k in range(30)]
                truth = side * float(mp.quad(lambda y, exact=exact: mp.npdf(y) * exact(y), ends))
                assert value == pytest.approx(truth, rel=2e-11, abs=1e-300)


@pytest.mark.audit
@pytest.mark.parametrize("case", audit_after(1, [(case,) for case in CASES[:2]]), ids=repr)
def test_curve_is_the_integral(case):
    event, r = ac.MixtureOfGaussians(*case), ratio(case)
    with mp.workdps(25):
        for order in (1.5, 3.0):
            forward = mp.log(integral(lambda y, a=order: r(y) ** mpf(a), case)) / (order - 1)
            backward = mp.log(integral(lambda y, a=order: r(y) ** mpf(1 - a), case)) / (order - 1)
            assert float(event.renyi(order)) == pytest.approx(float(max(forward, backward)), rel=1e-11)
        kl = max(integral(lambda y: r(y) * mp.log(r(y)), case), integral(lambda y: -mp.log(r(y)), case))
        assert float(event.renyi(1.0)) == pytest.approx(float(kl), rel=1e-11)


@pytest.mark.parametrize(("lengths", "signs"), [((1.0, 2.0), (1, -1)), ((0.5, 3.0), (-1, 1)), ((2.0, 2.0), (1, -1))])
def test_other_directions_and_shorter_vectors_cost_no_more(lengths, signs):
    event = ac.MixtureOfGaussians(1.0, (0.0, *lengths), (0.3, 0.4, 0.3))
    y = np.linspace(-14, 14, 280001)
    q = np.exp(-y * y / 2) / math.sqrt(2 * math.pi)
    for shrink in (1.0, 0.8):
        p = 0.3 * q
        for share, length, sign in zip((0.4, 0.3), lengths, signs, strict=True):
            p = p + share * np.exp(-((y - shrink * sign * length) ** 2) / 2) / math.sqrt(2 * math.pi)
        for epsilon in (0.0, 0.5, 2.0):
            found = event.profile(epsilon)
            for first, second, bound in ((p, q, found.remove), (q, p, found.add)):
                value = np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0), y)
                assert value <= float(bound) + 1e-8


def test_single_components_and_samples_are_gaussian_noise():
    orders, epsilons = [1.0, 1.3, 20.0, 3e4, math.inf], [-1.0, 0.0, 0.01, 1.0, 20.0]
    for sigma in (0.05, 1.0, 1e8):
        plain, mixture = ac.Gaussian(sigma, 2.0), ac.MixtureOfGaussians(sigma, [2.0], [1.0])
        thin = ac.PoissonSubsampled(plain, 0.1)
        as_mixture = ac.MixtureOfGaussians(sigma, [0.0, 2.0], [0.9, 0.1])
        for first, second in ((plain, mixture), (thin, as_mixture), (thin, ac.PoissonSubsampled(mixture, 0.1))):
            assert second.renyi(orders) == pytest.approx(first.renyi(orders), rel=1e-11)
            for half in ("remove", "add"):
                expected = getattr(first.profile(epsilons), half)
                assert getattr(second.profile(epsilons), half) == pytest.approx(expected, rel=2e-11, abs=1e-300)


def test_a_sample_of_a_mixture_is_a_mixture():
    event = ac.MixtureOfGaussians(1.0, (0.0, 1.0, 3.0), (0.2, 0.5, 0.3))
    thin = ac.MixtureOfGaussians(1.0, (0.0, 1.0, 3.0), (0.92, 0.05, 0.03))
    run = 50 * ac.PoissonSubsampled(event, 0.1)
    assert run.renyi([1.5, 8.0]) == pytest.approx((50 * thin).renyi([1.5, 8.0]), rel=1e-11)
    prices = [ac.epsilon(each, 1e-5, method="tight", tolerance=1e-3) for each in (run, 50 * thin)]
    assert prices[0].lower <= prices[1].epsilon
    assert prices[1].lower <= prices[0].epsilon <= ac.epsilon(run, 1e-5, method="renyi").epsilon


def test_far_orders_are_bounded_from_above_and_join():
    event = ac.MixtureOfGaussians(0.01, (0.0, 1.0, 2.0), (0.9, 0.08, 0.02))
    orders = np.geomspace(100.0, 1e6, 40)
    curve = event.renyi(orders)
    # the longest alone is a lower bound
    b = orders - 1
    assert (curve >= orders * (math.log(0.02) / b + 0.5 * 200.0**2) * (1 - 1e-12)).all()
    assert (np.diff(curve) > 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, (1.0,), (0.5, 0.5)), "1 sensitivities, 2 probabilities"),
        ((1.0, (1.0, 2.0), (0.5, 0.4)), "of sum 1"),
        ((1.0, (1.0, 2.0), (0.0, 1.0)), "numbers above 0"),
        ((1.0, (-1.0,), (1.0,)), "sensitivities = -1"),
        ((1.0, "12", (1.0,)), "sensitivities = '12'"),
        ((1.0, (), ()), "accepted: 1 to 1000"),
        ((0.0, (1.0,), (1.0,)), "sigma = 0"),
        ((1.0, (1.0,), (1.0,), "replace"), "accepted: add-remove"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ac.ParameterError, match=message):
        ac.MixtureOfGaussians(*arguments)
