"""Rounds of any pure-DP randomizer: all data of few users, mixtures of rays, and sums by their definition."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import accountant as ac
from accountant.events import shuffled_any
from accountant.events.blanket import blanket, log_shuffled_delta
from accountant.events.shuffled_any import log_any_delta, log_sums, mixtures
from tests.accountant.test_shuffling import bits, collision, exact_worst, k_ary
from tests.cases import audit_after

RANDOMIZERS = [
    # laws of the reports of all inputs, and users
    (lambda e: k_ary(math.exp(e), 3), 5),
    (lambda e: k_ary(math.exp(e), 4), 3),
    (lambda e: k_ary(math.exp(e), 2), 7),
    (lambda e: collision(e, 2, 4), 3),
    (lambda e: bits(e / 2, 2), 3),
]


@pytest.mark.parametrize(("laws", "users"), RANDOMIZERS, ids=["3-ary", "4-ary", "2-ary", "collision", "two bits"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_never_below_all_data_of_few_users(laws, users, epsilon, monkeypatch):
    monkeypatch.setattr(shuffled_any, "FEWEST", 0.0)
    points = np.linspace(0.0, 0.95, 8) * epsilon
    exact = exact_worst(laws(epsilon), users, points)
    found = np.exp([log_any_delta(epsilon, users, point) for point in points.tolist()])
    assert np.all(exact <= found)


def test_random_randomizers_of_few_users(monkeypatch):
    """Tables whose entries are anywhere between 1 and p of each other in every column."""
    monkeypatch.setattr(shuffled_any, "FEWEST", 0.0)
    rng = np.random.default_rng(7)
    for _ in range(10):
        scales, laws = rng.exponential(size=4), rng.choice([1.0, 2.2, 3.0], size=(3, 4))
        laws = laws * scales / np.sum(laws * scales, axis=1, keepdims=True)
        epsilon = float(np.log(np.max(laws[:, None] / laws[None])))
        points = np.array([0.0, 0.3, 0.7]) * epsilon
        found = np.exp([log_any_delta(epsilon, 4, point) for point in points.tolist()])
        assert np.all(exact_worst(laws, 4, points) <= found)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 4.0, 8.0])
def test_mixtures_are_of_three_distributions_with_ratios_up_to_p(epsilon):
    first, second, masses = mixtures(epsilon)
    p = math.exp(epsilon) * (1 + 1e-14)
    assert np.all(masses >= 0)
    for each in (masses, masses * first, masses * second):
        assert np.sum(each, axis=1) == pytest.approx(np.ones(len(masses)), rel=1e-13)
    for ratios in (first, second, first / second):
        assert np.all((ratios <= p) & (ratios >= 1 / p))
    # response with three values is one
    assert any(sorted(row) == pytest.approx([1 / (p + 2), 1 / (p + 2), p / (p + 2)], rel=1e-9) for row in masses)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_nothing_is_above_all_mixtures(epsilon):
    """Convex functions of (P0 - u P1)/R have the largest mean at one of them."""
    first, second, masses = mixtures(epsilon)
    rng, p = np.random.default_rng(3), math.exp(epsilon)
    for _ in range(300):
        scales = rng.exponential(size=5)
        laws = scales * p ** rng.uniform(0.0, 1.0, size=(3, 5))
        x, y, r = laws / laws.sum(axis=1, keepdims=True)
        wide = float(np.max(np.log([x / y, y / x, x / r, r / x, y / r, r / y])))
        if wide > epsilon:
            continue
        u, kink = float(p ** rng.uniform()), float(rng.normal())
        mean = float(r @ np.maximum((x - u * y) / r - kink, 0.0))
        assert mean <= np.max(np.sum(masses * np.maximum(first - u * second - kink, 0.0), axis=1)) + 1e-12


@pytest.mark.parametrize("point", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("slots", [2, 12, 60])
def test_sums_by_their_definition(point, slots):
    """Each mixture alone is below the bound for all, and the largest near it."""
    first, second, masses = mixtures(1.0)
    values, largest = first - math.exp(point) * second, 0.0
    for y, m in zip(values, masses, strict=True):
        exact = 0.0
        for a in range(slots + 1):
            for b in range(slots + 1 - a):
                c = slots - a - b
                ways = math.comb(slots, a) * math.comb(slots - a, b)
                exact += ways * m[0] ** a * m[1] ** b * m[2] ** c * max(a * y[0] + b * y[1] + c * y[2], 0.0)
        largest = max(largest, exact)
    found = math.exp(log_sums(values, masses, np.array([float(slots)]))[0])
    assert largest <= found <= 2 * largest
    if point == 0.0 and slots > 2:
        assert found <= 1.1 * largest


@pytest.mark.parametrize(
    ("epsilon", "users", "delta"), audit_after(1, [(1.0, 10**4, 1e-6), (0.1, 10**4, 1e-6), (4.0, 10**5, 1e-6)])
)
def test_both_ends_are_within_a_percent(epsilon, users, delta):
    found = ac.epsilon(ac.Shuffled(epsilon, users), delta)
    assert found.lower < found.epsilon < 1.01 * found.lower


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0])
def test_large_crowds_are_normal(epsilon):
    """At u = 1 and in the tail: three values are the worst, or two, where the others' reports are like P0."""
    users, p = 10**12, math.exp(epsilon)
    deviation = math.expm1(epsilon) * math.sqrt(max(2 / (p + 2), 1 / p) / users)
    for x in (0.0, 2.0, 5.0):
        exact = deviation * float(mpmath.npdf(x) - x * mpmath.ncdf(-x))
        found = math.exp(log_any_delta(epsilon, users, x * deviation))
        assert exact * (1 - 1e-3) < found < 1.03 * exact


def test_where_it_is_not_computed():
    assert log_any_delta(9.0, 10**9, 0.1) == math.inf
    assert log_any_delta(1.0, 10, 0.1) == math.inf
    assert log_any_delta(1.0, 10**4, 1.0) == math.inf
    assert log_any_delta(1.0, 10**4, 0.01) < log_shuffled_delta(blanket(1.0), 10**4, 0.01) - 0.1


def test_falls_with_users_and_points():
    users = [30 * 2**k for k in range(1, 12)]
    for share in (0.0, 0.02, 0.1):
        logs = [log_any_delta(1.0, n, share) for n in users]
        assert all(a > b for a, b in itertools.pairwise(logs))
    logs = [log_any_delta(1.0, 1000, share) for share in np.linspace(0.0, 0.5, 20).tolist()]
    assert all(a > b for a, b in itertools.pairwise(logs))
