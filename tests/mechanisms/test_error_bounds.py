"""Error bounds of reverse k-NN against exact tails of binomials, the mechanism itself, and the paper's formulas."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import accountant as ac
import mechanisms as mx
from mechanisms.error_bounds import (
    collision_error,
    discrete_laplace_error,
    laplace_error,
    least_gap,
    randomized_response_error,
)
from mechanisms.local_reports import CollisionReports, RandomizedBits
from mechanisms.noise.source import as_randomness

BETA, CLASSES = 0.05, 10


def exact_tail(n, owners, responses, error):
    """P[an estimated count is off by more than `error`], of n records of which `owners` have the entry."""
    first = binom.pmf(np.arange(owners + 1), owners, responses.p)
    second = binom.pmf(np.arange(n - owners + 1), n - owners, responses.q)
    off = np.abs(np.arange(n + 1) - owners * responses.p - (n - owners) * responses.q) / responses.gap
    return float(np.convolve(first, second)[off > error].sum())


def collision(nonzeros, epsilon):
    buckets = max(round(2 * nonzeros - 1 + nonzeros * math.exp(epsilon)), nonzeros + 1)
    return CollisionReports(max(CLASSES, nonzeros), nonzeros, epsilon, buckets).responses


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("n", [1, 20, 700])
def test_proven_bounds_hold_for_every_number_of_owners(epsilon, k, n):
    """The exact tail of one class never exceeds its share of beta, so that all classes together keep beta."""
    bits = RandomizedBits(max(CLASSES, k), k, epsilon).responses
    for responses, bound in (
        (bits, randomized_response_error(n, CLASSES, BETA, epsilon, k)),
        (collision(k, epsilon), collision_error(n, CLASSES, BETA, epsilon, k)),
    ):
        for owners in {0, 1, n // 3, n}:
            assert exact_tail(n, owners, responses, bound.proven) <= BETA / CLASSES


def test_theorem_1_as_printed_is_proven_where_epsilon_is_small():
    for epsilon in (0.1, 0.4, 1.0, 2.0):
        bound = randomized_response_error(500, CLASSES, BETA, epsilon)
        nats = math.log(CLASSES / BETA)
        assert math.exp(epsilon / 2) + 1 <= 6 * nats / (nats + math.log(2))
        assert bound.proven <= bound.printed


def test_the_theorems_as_printed_are_exceeded_elsewhere():
    """What the module says of them: one flipped bit; an entry that all records have."""
    printed = randomized_response_error(1, CLASSES, BETA, 8.0).printed
    bits = RandomizedBits(CLASSES, 1, 8.0).responses
    assert exact_tail(1, 0, bits, printed) > 3 * BETA / CLASSES
    printed = collision_error(5000, CLASSES, BETA, 1.0, 10).printed
    assert exact_tail(5000, 5000, collision(10, 1.0), printed) > 3 * BETA / CLASSES
    assert exact_tail(5000, 0, collision(10, 1.0), printed) < BETA / CLASSES


def test_formulas_are_those_of_the_paper_at_30_digits():
    with mp.workdps(30):
        e = mp.exp(mp.mpf(1) / 4)
        theorem = (e + 1) / (e - 1) * mp.sqrt(3 * 400 * mp.log(10 / mp.mpf("0.05")) / (e + 1))
        assert abs(randomized_response_error(400, 10, 0.05, 1.0, 2).printed / theorem - 1) < 1e-13
        c, e = 4, mp.exp(mp.mpf("0.5"))
        front = (c * e + 2 * c - 1) * (2 * c * e + c - 1) / (c * (e**2 - 1) - (e - 1))
        theorem = front * mp.sqrt(2 * 400 * mp.log(10 / mp.mpf("0.05")) / (2 * c - 1 + c * e))
        assert abs(collision_error(400, 10, 0.05, 0.5, 2, 2).printed / theorem - 1) < 1e-13
    assert laplace_error(10, 0.05, 0.5, 3, 2) == pytest.approx(2 * 6 * math.log(200) / 0.5)
    printed = 2 * laplace_error(10, 0.05, 0.5)  # of shares; their noise is whole
    assert laplace_error(10, 0.05, 0.5, shares=True) == math.floor(printed)


def test_laplace_against_the_exact_maximum():
    """P[one of c values exceeds t] = 1 - (1 - e^{-t/b})^c, which is at most beta and close to it."""
    for classes in (2, 10, 1000):
        for beta in (0.5, 0.01):
            error, scale = laplace_error(classes, beta, 0.8, 2), 4 / 0.8
            exceeded = -math.expm1(classes * math.log1p(-math.exp(-error / scale)))
            assert 0.75 * beta < exceeded <= beta


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 100), st.floats(1e-6, 0.999), st.floats(0.01, 60), st.integers(1, 5), st.booleans())
def test_discrete_noise_is_within_its_bound_and_not_within_less(classes, beta, epsilon, k, shares):
    """The exact tail at 40 digits, at the bound and one below."""
    error = discrete_laplace_error(classes, beta, epsilon, k, shares=shares)
    assert error == math.floor(error) >= 0
    with mp.workdps(40):
        x = mp.exp(-mp.mpf(epsilon) / ((4 if shares else 2) * k))
        at, below = (2 * x ** (t + 1) / (1 + x) for t in (error, error - 1))
        assert at <= mp.mpf(beta) / classes
        assert error == 0 or below > mp.mpf(beta) / classes * (1 - mp.mpf(10) ** -9)
    if shares:
        assert laplace_error(classes, beta, epsilon, k, shares=True) == error


def test_discrete_noise_by_its_draws():
    """Noise of scale 0.5 is off by 1 or more with probability 0.238: a bound of 0.98 for 0.14 was none."""
    assert laplace_error(1, 0.14, 8.0, shares=True) == 1.0
    assert discrete_laplace_error(1, 0.14, 4.0) == 1.0
    off = np.abs(as_randomness(0).discrete_laplace(0.5, 100_000))
    assert (off > 0.983).mean() > 0.23
    assert (off > 1.0).mean() < 0.14
    assert discrete_laplace_error(10, 0.05, 1e9) == 0.0
    assert discrete_laplace_error(10, 0.05, 1e-320) == math.inf


def test_the_mechanism_keeps_all_three_and_the_gap_is_enough():
    """Counts of ReverseKNN against the truth, and labels where the true gap is twice the error (Remark 1)."""
    rng = np.random.default_rng(0)
    centres = 10.0 * np.eye(4, dtype=np.float32)
    group = rng.integers(0, 4, 600)
    labels = np.where(rng.random(600) < 0.9, group, rng.integers(0, 4, 600))
    records = (centres[group] + 0.1 * rng.standard_normal((600, 4))).astype(np.float32)
    truth = np.array([np.bincount(labels[group == q], minlength=4) for q in range(4)])
    gaps = np.sort(truth, axis=1)[:, -1] - np.sort(truth, axis=1)[:, -2]
    for setting, error in (
        ({"epsilon": 0.5}, laplace_error(4, 0.2, 0.5)),
        ({"epsilon": 6.0, "model": "local", "randomizer": "collision"}, None),
        ({"epsilon": 6.0, "model": "local", "randomizer": "randomized-response"}, None),
    ):
        if error is None:
            found = collision_error if setting["randomizer"] == "collision" else randomized_response_error
            error = found(600, 4, 0.2, 6.0).proven
        off, right = [], []
        for seed in range(100 if setting["epsilon"] < 1 else 5):
            out = mx.ReverseKNN(4, n_classes=4, rng=seed, **setting).label(records, labels, centres, queries=centres)
            off.append(np.abs(out.counts - truth).max(axis=1))
            right.append(out.counts.argmax(axis=1) == truth.argmax(axis=1))
        assert np.mean(np.array(off) > error) <= 0.2 + 4.5 * math.sqrt(0.16 / 400), "of 400"
        if (gaps >= least_gap(error)).all():
            assert np.mean(right) >= 0.8 - 4.5 * math.sqrt(0.16 / 400)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6), st.integers(2, 100), st.floats(1e-6, 0.9), st.floats(0.05, 8), st.integers(1, 5))
def test_bounds_fall_with_epsilon_and_beta_and_grow_with_the_classes(n, classes, beta, epsilon, k):
    for bound in (randomized_response_error, collision_error):
        here = bound(n, classes, beta, epsilon, k)
        assert bound(n, classes, beta / 2, epsilon, k).proven >= here.proven > 0
        assert bound(n, 2 * classes, beta, epsilon, k).proven >= here.proven
        assert bound(4 * n, classes, beta, epsilon, k).proven >= here.proven
    less = randomized_response_error(n, classes, beta, epsilon / 2, k).proven
    assert less > 0.999 * randomized_response_error(n, classes, beta, epsilon, k).proven


def test_both_limits():
    """Next to no noise costs nothing in the central model; next to no epsilon makes every bound useless."""
    assert laplace_error(10, 0.05, 1e9) < 1e-7
    assert randomized_response_error(1000, 10, 0.05, 1e-6).proven > 1e6
    assert collision_error(1000, 10, 0.05, 1e-6).proven > 1e6


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: laplace_error(0, 0.1, 1.0), "classes = 0"),
        (lambda: laplace_error(10, 0.0, 1.0), "beta = 0.0"),
        (lambda: laplace_error(10, 0.1, -1.0), "epsilon = -1.0"),
        (lambda: randomized_response_error(0, 10, 0.1, 1.0), "records = 0"),
        (lambda: randomized_response_error(10, 10, 0.1, 1.0, 200, 2), "neighbors \\* labels = 400"),
        (lambda: collision_error(10, 10, 0.1, 1.0, labels=11), "labels = 11"),
        (lambda: collision_error(10, 10, 0.1, 20.0), "epsilon = 20.0"),
        (lambda: least_gap(0.0), "error = 0.0"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, named):
    with pytest.raises(ac.ParameterError, match=named):
        call()
