"""Releases that are known by points of their profile: the hull by its definition, random pairs that keep the points."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.plan import parse_plan


@mp.workdps(60)
def hull_at(event, epsilon):
    """The least height at u of a chord between two of the points of which a convex falling function is known."""
    u = mp.exp(epsilon)
    known = [(mpf(0), mpf(1)), (mpf(10) ** 400, mpf(min(event.deltas)))]
    for place, delta in zip(event.epsilons, event.deltas, strict=True):
        at = mp.exp(mpf(place))
        known += [(at, mpf(delta)), (1 / at, 1 - (1 - mpf(delta)) / at)]
    left, right = ([each for each in known if sign * (each[0] - u) <= 0] for sign in (1, -1))
    return min(a[1] if a[0] == b[0] else a[1] + (b[1] - a[1]) * (u - a[0]) / (b[0] - a[0]) for a in left for b in right)


def random_points(rng):
    count = int(rng.integers(1, 9))
    epsilons = rng.choice([0.0, 1e-9, 0.1, 0.5, 0.5000001, 2.0, 9.0, 40.0], count, replace=False)
    return ac.ProfilePoints(tuple(epsilons), tuple(10.0 ** -rng.uniform(0.01, 12, count)))


@pytest.mark.parametrize("seed", range(12))
def test_the_profile_is_the_convex_hull_of_what_is_known(seed):
    event = random_points(np.random.default_rng(seed))
    for epsilon in (0.0, 1e-9, 0.05, 0.3, 0.5, 1.0, 5.0, 50.0):
        exact = hull_at(event, mpf(epsilon))
        found = event.profile(epsilon)
        assert found.remove == found.add == pytest.approx(float(exact), rel=1e-11)


def pair_keeping_points(rng):
    """Random P and Q, and some points of their profile in the worse direction."""
    p, q = (rng.dirichlet(np.full(5, 0.7)) for _ in range(2))
    if rng.random() < 0.5:
        p[0], q[1] = 0.0, 0.0
        p, q = p / p.sum(), q / q.sum()
    epsilons = np.sort(rng.uniform(0, 3, int(rng.integers(1, 5))))
    deltas = [max(hockey_stick(p, q, e), hockey_stick(q, p, e)) for e in epsilons]
    return p, q, ac.ProfilePoints(tuple(epsilons), tuple(min(max(d, 1e-300), 0.999999) for d in deltas))


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.each_run(1)
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_no_release_that_keeps_the_points_costs_more(rate):
    rng = np.random.default_rng(5)
    nearest = 0.0
    for _ in range(15):
        p, q, event = pair_keeping_points(rng)
        p = rate * p + (1 - rate) * q
        once = event if rate == 1.0 else ac.PoissonSubsampled(event, rate)
        for count in (1, 3):
            first = second = np.ones(1)
            for _ in range(count):
                first, second = np.outer(first, p).ravel(), np.outer(second, q).ravel()
            for epsilon in (0.0, 0.4, 1.5):
                exact = max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))
                found = ac.delta(count * once, epsilon, method="tight", tolerance=1e-3).delta
                assert exact <= found * (1 + 1e-9)
                nearest = max(nearest, exact / found)
    assert nearest > 0.9


def test_one_point_is_approximate_dp_and_many_are_the_profile():
    one, other = ac.ProfilePoints((0.5,), (1e-3,)), ac.ApproximateDP(0.5, 1e-3)
    for kind in (lambda event: 4 * event, lambda event: 4 * ac.PoissonSubsampled(event, 0.2)):
        ours, known = (ac.epsilon(kind(event), 5e-3, method="tight", tolerance=1e-3) for event in (one, other))
        assert max(ours.lower, known.lower) <= min(ours.epsilon, known.epsilon)
    gaussian, places = ac.Gaussian(2.0), np.linspace(0, 4, 40)
    many = ac.ProfilePoints(tuple(places), tuple(gaussian.profile(places).remove))
    assert ac.epsilon(5 * gaussian, 1e-5, method="tight", tolerance=1e-3).lower <= (
        found := ac.epsilon(5 * many, 1e-5, method="tight", tolerance=1e-3).epsilon
    )
    assert found <= 1.01 * ac.epsilon(5 * gaussian, 1e-5, method="tight", tolerance=1e-3).epsilon


def test_points_at_the_ends_of_their_ranges():
    assert ac.ProfilePoints((0.0,), (0.0,)).profile([0.0, 1.0]).remove.tolist() == [0.0, 0.0]
    far = ac.ProfilePoints((700.0, 1e-50), (1e-300, 0.9))
    near_end = float(hull_at(far, mpf("699.999")))
    assert far.profile([0.0, 699.999, 700.0]).remove == pytest.approx([0.9, near_end, 1e-300], rel=1e-9)
    pure = ac.ProfilePoints((1.0, 2.0), (0.0, 0.5))
    assert pure.renyi([2.0, math.inf]) == pytest.approx(ac.PureDP(1.0).renyi([2.0, math.inf]), rel=1e-12)
    assert ac.epsilon(pure, 1e-5).epsilon <= 1.0 + 1e-9
    with pytest.raises(ac.NoGuarantee):
        ac.epsilon(ac.ProfilePoints((1.0,), (1e-3,)), 1e-4, method="tight")


@pytest.mark.parametrize(
    ("epsilons", "deltas", "message"),
    [
        ((), (), "accepted: 1 to 1000 numbers"),
        ((1.0,), (0.1, 0.2), "accepted: as many of both"),
        ((-1.0,), (0.1,), "accepted"),
        ((701.0,), (0.1,), "accepted"),
        ((1.0,), (1.0,), "accepted"),
        ((1.0,), (1e-301,), "accepted"),
        ("1", (0.1,), "accepted"),
    ],
)
def test_bad_points(epsilons, deltas, message):
    with pytest.raises(ac.ParameterError, match=message):
        ac.ProfilePoints(epsilons, deltas)


def test_points_in_plans():
    run = 3 * ac.ProfilePoints((0.5, 1.0), (1e-4, 1e-6))
    assert parse_plan("points", "delta = 1e-5\n" + run.to_toml()).composition == run
