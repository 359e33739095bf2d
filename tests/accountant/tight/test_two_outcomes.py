"""Families of pairs with two outcomes other than screenings: exponential mechanisms, groups; against definitions."""

import math

import numpy as np
import pytest

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.tight.screening_families import solve_game

P, E, S = ac.PoissonSubsampled, ac.ExponentialMechanism, ac.NoisyScreening


def pairs_of_range(epsilon, rate, cells=300):
    """Probabilities of losses t and t - epsilon under P and Q, by t; P mixed with Q."""
    t = np.linspace(0.0, epsilon, cells + 1)[1:-1]
    p = -np.expm1(t - epsilon) / -math.expm1(-epsilon)
    q = np.exp(-t) * p
    return rate * p + (1 - rate) * q, q


def best_profile(pairs, steps, u):
    """W_steps(u), by its recursion, on arrays of u."""
    if steps == 0:
        return np.maximum(1 - u, 0.0)
    p, q = (each[:, None] for each in pairs)
    up = p * best_profile(pairs, steps - 1, (u * q / p).ravel()).reshape(p.size, -1)
    down = (1 - p) * best_profile(pairs, steps - 1, (u * (1 - q) / (1 - p)).ravel()).reshape(p.size, -1)
    return np.max(up + down, axis=0)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("epsilon", "rate"), [(1.0, 1.0), (3.0, 0.3)])
def test_exponential_mechanisms_twice(epsilon, rate, direction):
    """Any t may follow after either outcome."""
    event = P(E(epsilon), rate) if rate < 1.0 else E(epsilon)
    pairs = pairs_of_range(epsilon, rate)
    pairs = pairs if direction == "remove" else pairs[::-1]
    for x in (0.0, 0.3, 0.8):
        true = float(best_profile(pairs, 2, np.array([math.exp(x)]))[0])
        found = solve_game(2 * event, direction, delta=1e-3, tolerance=1e-3).delta(x)
        # the definition looks at 300 of all t
        assert found.lower <= true * (1 + 2e-4) + 1e-9
        assert true <= found.upper <= true * 1.02 + 1e-9


def test_compositions_of_exponential_mechanisms():
    run = 30 * E(0.3)
    found, renyi = ac.epsilon(run, 1e-5, method="tight"), ac.epsilon(run, 1e-5, method="renyi")
    assert 0.99 * found.epsilon <= found.lower <= found.epsilon < 0.97 * renyi.epsilon
    # one pair with a loss range of 0.3 is among the choices; any is 0.3-DP
    assert found.epsilon < ac.epsilon(30 * ac.PureDP(0.3), 1e-5, method="tight").epsilon
    assert found.lower > 0.9 * ac.epsilon(30 * ac.PureDP(0.15), 1e-5, method="tight").lower
    sampled = ac.epsilon(50 * P(E(1.0), 0.1) + 5 * ac.Gaussian(10.0), 1e-5, method="tight")
    assert 0.99 * sampled.epsilon <= sampled.lower
    assert sampled.epsilon < ac.epsilon(50 * P(E(1.0), 0.1) + 5 * ac.Gaussian(10.0), 1e-5, method="renyi").epsilon
    many = ac.epsilon(2000 * E(0.02), 1e-5, method="tight")
    assert 0.99 * many.epsilon <= many.lower


@pytest.mark.audit
def test_groups_of_records_in_screenings():
    one, three = S(5.0, 10.0, 20), ac.Group(S(5.0, 10.0, 20), 3)
    found = ac.epsilon(10 * three, 1e-5, method="tight")
    assert 0.99 * found.epsilon <= found.lower <= found.epsilon < ac.epsilon(10 * three, 1e-5, method="renyi").epsilon
    assert found.lower > ac.epsilon(10 * one, 1e-5, method="tight").epsilon
    mixed = ac.epsilon(10 * three + 10 * ac.Group(P(S(4.0, 10.0, 20), 0.2), 2), 1e-5, method="tight")
    assert found.lower < mixed.lower <= mixed.epsilon
    single = ac.Group(one, 1)
    assert ac.epsilon(10 * single, 1e-5, method="tight").epsilon == pytest.approx(
        ac.epsilon(10 * one, 1e-5, method="tight").epsilon, rel=1e-9
    )
    nothing = ac.Group(P(one, 0.0), 4)
    assert ac.epsilon(10 * one + 7 * nothing, 1e-5, method="tight").epsilon == pytest.approx(
        ac.epsilon(10 * one, 1e-5, method="tight").epsilon, rel=0.01
    )
