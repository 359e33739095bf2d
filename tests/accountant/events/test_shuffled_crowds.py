"""Lower ends of rounds of very many users, by the central limit theorem: against exact sums and the other ends."""

import math

import mpmath
import numpy as np
import pytest

import accountant as ac
from accountant.events import shuffled_crowds
from accountant.events.shuffled_attacks import Attack, attacks_on
from accountant.events.shuffled_crowds import log_normal_delta
from tests.cases import audit_after


def exact_delta(attack, users, u):
    """E (sum of Y)_+/users of two classes, by the binomial law."""
    with mpmath.workdps(40):
        p, q, r = ([mpmath.mpf(x) for x in each.tolist()] for each in attack[:3])
        y = [(a - mpmath.mpf(u) * b) / c for a, b, c in zip(p, q, r, strict=True)]
        total, mass = mpmath.mpf(0), r[1] ** users
        for k in range(users + 1):
            total += mass * max(k * y[0] + (users - k) * y[1], 0)
            mass *= mpmath.mpf(users - k) / (k + 1) * r[0] / r[1]
        return float(total / users)


@pytest.mark.each_run(12)
@pytest.mark.parametrize("share", [0.5, 0.3, 0.05])
@pytest.mark.parametrize("users", [400, 3000])
@pytest.mark.parametrize("point", [0.0, 0.02, 0.1, 0.3])
def test_below_exact_sums_and_near_them_in_the_middle(share, users, point):
    first, second = np.array([0.7, 0.3]), np.array([0.45, 0.55])
    attack = Attack(first, second, np.array([share, 1 - share]), 1e-15, False)
    exact = exact_delta(attack, users, math.exp(point))
    found = math.exp(log_normal_delta(attack, users, np.array([point]))[0])
    assert found <= exact
    if point == 0.0 and share == 0.5:
        assert found > exact * (1 - 3 / math.sqrt(users))


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("local", "near"),
    [(1.0, 1.01), (0.1, 1.02), (ac.RandomizedResponse(1.0), 1.01), (ac.Collision(1.0, 2, 8), 1.01)],
    ids=str,
)
@pytest.mark.parametrize("users", audit_after(1, [10**12, 10**10]))
def test_both_ends_of_large_crowds_are_near_each_other(local, near, users):
    """The lower one was 0."""
    found = ac.epsilon(ac.Shuffled(local, users), 0.1 / math.sqrt(users) * 1e-2)
    assert found.lower < found.epsilon < near * found.lower


@pytest.mark.audit
def test_more_users_say_the_same_both_ways(monkeypatch):
    """Where sums of scores still have their digits they say a little more."""
    event = ac.Shuffled(1.0, 10**8)
    epsilons = np.array([1e-5, 1e-4])
    sums = event._certain(0)._log_profile(epsilons)[0]
    normal = np.max([log_normal_delta(attack, 10**8, epsilons) for attack in attacks_on(ac.PureDP(1.0))], axis=0)
    assert np.all(normal <= event._log_profile(epsilons)[0])
    assert np.all(normal <= sums + 1e-12)
    monkeypatch.setattr(shuffled_crowds, "FARTHEST", 0.0)
    assert np.all(np.isneginf(log_normal_delta(attacks_on(ac.PureDP(1.0))[0], 10**8, epsilons)))


def test_nothing_is_known_where_both_inputs_are_alike_or_others_lack_a_report():
    half = np.array([0.5, 0.5])
    assert np.isneginf(log_normal_delta(Attack(half, half, half, 1e-15, False), 10**9, np.array([0.0]))[0])
    lacking = Attack(half, np.array([0.4, 0.6]), np.array([1.0, 0.0]), 1e-15, False)
    assert np.isneginf(log_normal_delta(lacking, 10**9, np.array([0.0]))[0])


@pytest.mark.parametrize("epsilon0", [200.0, 400.0, 500.0])
def test_ratios_whose_squares_are_too_large_for_a_number(epsilon0):
    """The attack on any randomizer has reports of probability e^-2 epsilon0: nothing is known, and nothing is wrong."""
    found = ac.delta(ac.Shuffled(epsilon0, 10**9), 0.1, method="tight")
    assert 0.0 <= found.lower <= found.delta <= 1.0
