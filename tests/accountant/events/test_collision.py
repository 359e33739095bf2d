"""The Collision mechanism's profile and compositions, against all inputs and exact sums."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from tests.reference.definitions import collision_pairs


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    epsilon=st.floats(-3.0, 1.3).map(lambda e: 10.0**e),
    c=st.integers(1, 4),
    more=st.integers(1, 9),
    share=st.floats(0.0, 1.1),
)
def test_one_pair_of_inputs_dominates_all(epsilon, c, more, share):
    point = share * epsilon
    found = ac.Collision(epsilon, c, c + more).profile(point)
    with mp.workdps(40):
        u, pairs = mp.exp(mp.mpf(point)), collision_pairs(mp.mpf(epsilon), c, c + more)
        true = max(mp.fsum(max(p - u * q, 0) for p, q in zip(*pair, strict=True)) for pair in pairs)
        for each in (found.remove, found.add):
            assert abs(float(each) - true) <= 1e-12 * true + mp.mpf("1e-300")


@pytest.mark.parametrize(("epsilon", "c", "l", "count"), [(1.0, 2, 8, 3), (0.5, 3, 4, 12), (4.0, 1, 30, 5)])
def test_compositions_are_those_of_one_pair(epsilon, c, l, count):  # noqa: E741
    run = count * ac.Collision(epsilon, c, l)
    with mp.workdps(40):
        each = min(c, l - c) * mp.exp(epsilon) / (c * mp.exp(epsilon) + l - c)
        less = each * mp.exp(-epsilon)

        def delta(point):
            total = mp.mpf(0)
            for up in range(count + 1):
                for down in range(count + 1 - up):
                    ways = mp.binomial(count, up) * mp.binomial(count - up, down)
                    chance = ways * each**up * less**down * (1 - each - less) ** (count - up - down)
                    total += chance * max(0, -mp.expm1(point - (up - down) * epsilon))
            return total

        for share in (0.05, 0.4):
            point = share * count * epsilon
            found = ac.delta(run, point, method="tight", tolerance=1e-3)
            assert found.lower <= delta(point) <= found.delta <= found.lower * 1.001
    found = ac.epsilon(run, 1e-4, method="tight")
    assert 0.99 * found.epsilon <= found.lower <= ac.epsilon(run, 1e-4, method="renyi").epsilon


def test_limits():
    assert ac.epsilon(5 * ac.Collision(0.0, 2, 8), 1e-9, method="tight").epsilon == 0.0
    one = ac.Collision(2.0, 2, 8)
    assert np.all(np.isneginf(one._log_profile(np.array([2.0, 3.0, math.inf]))[0]))
    assert ac.epsilon(3 * one, 0.0, method="tight").epsilon == 6.0
