"""Randomized response of very many bits, against the binomial sum in high precision."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.events.randomized_response import LARGE, PROFILE_BITS, _log_masses, bernoulli_log_profile


def log_mass(epsilon, bits, k):
    p, q = 1 / (1 + mpmath.exp(-mpf(epsilon))), 1 / (1 + mpmath.exp(mpf(epsilon)))
    log_choose = mpmath.loggamma(bits + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(bits - k + 1)
    return log_choose + k * mpmath.log(p) + (bits - k) * mpmath.log(q)


def log_delta(epsilon, bits, at):
    """The sum over the bits told truly, until terms are below 1e-22 of it."""
    epsilon, at = mpf(epsilon), mpf(at)
    k = int(mpmath.floor((at / epsilon + bits) / 2)) + 1
    term, odds, total = mpmath.exp(log_mass(epsilon, bits, k)), mpmath.exp(epsilon), mpf(0)
    while k <= bits:
        total += term * -mpmath.expm1(at - (2 * k - bits) * epsilon)
        if term < total * mpf(10) ** -22 and k > bits / (1 + 1 / odds):
            break
        term, k = term * (bits - k) / (k + 1) * odds, k + 1
    return mpmath.log(total)


@pytest.mark.each_run(7)
@pytest.mark.parametrize("epsilon", [1e-6, 3e-3, 0.1, 0.7, 3.0, 36.0, 650.0])
@pytest.mark.parametrize("bits", [1, 7, 1000, PROFILE_BITS])
def test_profile_of_many_bits(epsilon, bits):
    mean, deviation = (
        bits * epsilon * math.tanh(epsilon / 2),
        math.sqrt(bits) * epsilon / math.cosh(min(epsilon / 2, 300)),
    )
    with mp.workdps(45):
        for z in (-2.0, 0.3, 8.0, 20.0, 36.0):
            at = mean + z * deviation
            if not 0 <= at < bits * epsilon:
                continue
            exact = log_delta(epsilon, bits, at)
            moved = abs(log_delta(epsilon, bits, at * (1 + mpf(2) ** -53)) - exact)
            (found,) = bernoulli_log_profile(epsilon, bits, np.array([at])).tolist()
            # as near as a double can be asked: an ulp of epsilon moves the profile as much
            assert abs(found - exact) <= 3e-14 + 3e-16 * abs(exact) + 2 * moved, (z, float(exact), found)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-3, 1.0, 20.0, LARGE * (1 - 1e-15), LARGE * (1 + 1e-15), 1e4, 1e6])
def test_masses(epsilon):
    with mp.workdps(45):
        for bits in (1, 2, 30, PROFILE_BITS):
            k = np.unique(np.array([0, 1, bits // 3, bits // 2, bits - 1, bits], dtype=float))
            for told, found in zip(k.tolist(), _log_masses(epsilon, bits, k).tolist(), strict=True):
                exact = log_mass(epsilon, bits, int(told))
                assert found == pytest.approx(float(exact), rel=1e-15 * 4, abs=1e-14)


def test_one_bit_more_than_the_table():
    """The largest run with a binomial sum and the smallest without it, which is taken apart."""
    prices = [ac.epsilon(ac.RandomizedResponse(1e-3, bits), 1e-6, method="tight") for bits in (10**5, 10**5 + 1)]
    assert "binomial" in prices[0].source
    assert "privacy-loss distribution" in prices[1].source
    assert prices[1].lower <= prices[0].epsilon * (1 + 1e-5)
    assert prices[0].lower <= prices[1].epsilon <= prices[0].epsilon * 1.01
