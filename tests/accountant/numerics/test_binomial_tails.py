"""Tails of binomial counts against sums in high precision."""

import math
import random

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.numerics.binomial_tails import log_binomial_tails


def tails(n, k, p):
    """The smaller tail summed, the other one what it leaves."""
    p, upwards = mp.mpf(p), k > n * p
    j = k if upwards else k - 1
    term, total = mp.binomial(n, j) * p**j * (1 - p) ** (n - j), mp.mpf(0)
    while term > total * mp.mpf(10) ** -40:
        total += term
        if j == (n if upwards else 0):
            break
        term *= mp.mpf(n - j) / (j + 1) * p / (1 - p) if upwards else mp.mpf(j) / (n - j + 1) / p * (1 - p)
        j += 1 if upwards else -1
    return (1 - total, total) if upwards else (total, 1 - total)


def assert_near(n, k, p):
    with mp.workdps(60):
        for found, true in zip(log_binomial_tails(n, k, p), tails(n, k, p), strict=True):
            assert found == pytest.approx(float(mp.log(true)), rel=2e-14, abs=2e-13)


@given(seed=st.integers(0, 10**6))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_tails_of_few_among_many(seed):
    dice = random.Random(seed)
    n = int(10 ** dice.uniform(0, 10))
    k = min(max(int(10 ** dice.uniform(0, 3.5)), 1), n)
    mean = k * 10 ** dice.uniform(-0.5, 0.5) if dice.random() < 0.5 else k + dice.gauss(0, 2) * math.sqrt(k)
    assert_near(n, k, min(max(mean / n, 1e-12), 1 - 1e-9))


@pytest.mark.parametrize(
    ("n", "k", "p"),
    [
        (1655512720, 11, 6.87e-9),  # a continued fraction lost eight digits of these
        (2032704366, 12, 8.122865427457615e-09),
        (2010570659, 6, 4.050344657389769e-09),
        (33699552, 2, 1.06e-7),
        (10**12, 1, 1e-300),
        (10**9, 10**9, 1 - 1e-12),
        (1, 1, 1 - 2.0**-53),
        (1, 1, 5e-324),
        (6, 3, 0.5),
    ],
)
def test_tails_at_the_edge(n, k, p):
    assert_near(n, k, p)


def test_tails_beyond_all_counts():
    assert log_binomial_tails(5, 0, 0.3) == (-math.inf, 0.0)
    assert log_binomial_tails(5, 6, 0.3) == (0.0, -math.inf)
