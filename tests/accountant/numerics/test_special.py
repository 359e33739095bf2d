"""Kernels against their definitions in mpmath, over their whole ranges."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.numerics.kernel import Kernel
from accountant.numerics.quadrature import log_integral
from accountant.numerics.special import log_binomial_pmf, log_mean_excess, log_mixture_ratio, log_ndtr_steps, logaddexp
from tests.cases import audit_after

exactly = settings(max_examples=300, deadline=None, derandomize=True)
signs = st.sampled_from([-1.0, 1.0])


def powers_of_ten(low, high):
    return st.floats(low, high).map(lambda x: 10.0**x)


@pytest.fixture(autouse=True)
def _precision():
    with mp.workdps(80):
        yield


@exactly
@given(b=st.one_of(st.just(0.0), powers_of_ten(-12, 12)), sign=signs, size=powers_of_ten(-18, 3.2))
def test_log_mean_excess(b, sign, size):
    u, order = mp.mpf(sign * size), 1 + mp.mpf(b)
    with mp.workdps(120):
        true = u * mp.exp(u) - mp.expm1(u) if b == 0 else (mp.expm1(order * u) - order * mp.expm1(u)) / mp.mpf(b)
        true = mp.log(true)
    assert abs(log_mean_excess(b, sign * size) - true) <= 4e-15 * max(1, abs(true))


@pytest.mark.parametrize("b", [0.0, 1e-6, 1.0, 1e6])
def test_log_mean_excess_of_nothing(b):
    assert log_mean_excess(b, 0.0) == -math.inf


@exactly
@given(data=st.data(), n=powers_of_ten(0.5, 6), p=powers_of_ten(-8, -1e-6))
def test_log_binomial_pmf(data, n, p):
    n = int(n)
    k = data.draw(st.integers(0, n))
    true = mp.log(mp.binomial(n, k)) + k * mp.log(mp.mpf(p)) + (n - k) * mp.log1p(-mp.mpf(p))
    assert abs(log_binomial_pmf(float(n), float(k), p) - true) <= 1e-14 * max(1, abs(true))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("h", audit_after(6, [1e-7, 0.9, 1.0, 8.0, 8.1, 1000.0, 1e-4, 0.003, 1.5, 7.9, 20.0]))
def test_log_ndtr_steps(h):
    """Both log-ratios keep their digits wherever they are representable, out to 40 standard deviations."""
    x = np.concatenate([np.linspace(-40, 40, 13), np.linspace(-2, 2, 5)]) - h / 2
    with mp.workdps(500):
        phi = [
            [mp.erfc(-s * z / mp.sqrt(2)) / 2 for z in (mp.mpf(v), mp.mpf(v) + h)] for v in x.tolist() for s in (1, -1)
        ]
        true = [mp.log(after / before) for before, after in phi]
    got = np.stack(log_ndtr_steps(x, h), axis=1).ravel()
    for value, exact in zip(got.tolist(), true, strict=True):
        if abs(exact) > 1e-290:
            assert abs(value / exact - 1) < 1e-12, (value, exact)
        else:
            assert abs(value) < 1e-289


@exactly
@given(
    rate=st.one_of(powers_of_ten(-15, -1e-9), powers_of_ten(-6, -0.1).map(lambda x: 1 - x)),
    sign=signs,
    size=powers_of_ten(-17, 3.5),
)
def test_log_mixture_ratio(rate, sign, size):
    u = sign * size
    with mp.workdps(2000 if size > 100 else 120):
        true = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(u)))
    value = float(log_mixture_ratio(rate, np.array([u]))[0])
    # next to rate 1 the small share left over carries the rounding of 1 - rate e^u
    assert abs(value - true) <= 1e-15 * max(abs(true) * 8, 1e-300 if sign > 0 else 1e-16 / (1 - rate) * abs(true))


def test_logaddexp_of_infinities():
    assert logaddexp(-math.inf, -math.inf) == -math.inf
    assert logaddexp(-math.inf, 3.0) == 3.0
    assert logaddexp(math.inf, -math.inf) == math.inf
    assert logaddexp(1000.0, 1000.0) == pytest.approx(1000 + math.log(2))


@pytest.mark.parametrize(
    ("log_f", "edges", "true"),
    [
        (lambda x: -(x**2) / 2, [-40.0, 40.0], 0.5 * math.log(2 * math.pi)),
        (lambda x: 1e6 * x, [0.0, 1.0], 1e6 - math.log(1e6)),  # far beyond the floating-point range
        (lambda x: -1e4 * np.abs(x - 0.3), [0.0, 1.0], math.log(2e-4)),  # a kink at a place not given
        (lambda x: np.full_like(x, -math.inf), [0.0, 1.0], -math.inf),
        (lambda x: np.where(x < 0.25, -800.0, -math.inf), [0.0, 0.5, 1.0], -800 + math.log(0.25)),
    ],
)
def test_log_integral(log_f, edges, true):
    value = log_integral(log_f, np.array(edges))
    assert value == true or abs(value - true) < 1e-13 * max(1, abs(true))


def test_kernels_compile_only_when_called_and_call_each_other():
    kernel = Kernel(_outer)
    assert "compiled" not in vars(kernel)
    assert kernel(2.0) == pytest.approx(math.log(2 * math.exp(2.0)))


def _outer(x):
    return logaddexp(x, x)


def test_mills_slope_far_to_the_left():
    """The derivative of the Mills ratio, from which small Gaussian profiles come, on both sides of its seam."""
    from accountant.numerics.mills import _mills_slope

    with mp.workdps(60):
        for z in (-19.99, -20.0, -20.0001, -21.0, -60.0, -1e4):
            exact = 1 + mp.mpf(z) * mp.ncdf(z) / mp.npdf(z)
            assert abs(_mills_slope(np.array([z]))[0] / exact - 1) < 1e-13, z
