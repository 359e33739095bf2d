"""Poisson samples of many coordinates: the joint distribution between two bounds, against definitions."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.events.joint_pairs import joint_curve, joint_pair
from accountant.events.laplace import laplace_lattice, laplace_log_profile
from accountant.events.subsampling import renyi_from_profile
from accountant.numerics.lattice_powers import lattice_power

POINTS = np.array([0.0, 0.01, 0.1, 0.3, 0.7, 1.5, 3.0])


def both_sides(event, rate, log_lost=-60.0):
    return [joint_pair(event, rate, math.inf, log_lost, sign)._log_profile(POINTS) for sign in (-1, 1)]


def sampled(pairs, rate, epsilons):
    """Profiles of (1-g) Q + g P against Q and of the reverse, by their definition; pairs of probabilities (p, q)."""
    g, found = mp.mpf(rate), []
    for epsilon in epsilons:
        u = mp.exp(mp.mpf(float(epsilon)))
        mixed = [((1 - g) * q + g * p, q) for p, q in pairs]
        found.append([mp.fsum(max(a - u * b, 0) for a, b in pairs_) for pairs_ in (mixed, [(b, a) for a, b in mixed])])
    return np.array([[float(each) for each in row] for row in found]).T


@pytest.mark.parametrize(("scale", "shift", "count"), [(2.0, 3, 2), (0.7, 2, 3), (10.0, 4, 3), (1.0, 5, 2)])
@pytest.mark.parametrize("rate", [1e-9, 0.1, 0.999])
def test_discrete_laplace_by_its_definition(scale, shift, count, rate):
    with mp.workdps(40):
        r = mp.exp(-1 / mp.mpf(scale))
        masses = [1 / (1 + r), *((1 - r) / (1 + r) * r**i for i in range(1, shift)), r**shift / (1 + r)]
        pairs = []
        for each in itertools.product(range(shift + 1), repeat=count):
            pairs.append([mp.fprod(m[i] for i in each) for m in (masses, masses[::-1])])
        exact = sampled(pairs, rate, POINTS)
    below, above = both_sides(ac.DiscreteLaplace(scale, shift, count), rate)
    for row in range(2):
        low, high = np.exp(below[row]), np.exp(above[row])
        assert (low <= exact[row] * (1 + 1e-11) + 1e-25).all()
        assert (exact[row] <= high * (1 + 1e-11)).all()
        assert (high - low <= 1e-6 * high + 1e-25).all()


@pytest.mark.parametrize("t", [0.02, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("count", [2, 3])
def test_laplace_lattices_hold_the_profile_of_few_coordinates(t, count):
    """By Gauss's rule over all but one coordinate, whose profile is known, between the places where it has kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(60)

    def profile(epsilon, left):
        if left == 1:
            return 0.0 if epsilon >= t else -math.expm1((epsilon - t) / 2 if epsilon > -t else epsilon)
        kinks = [(i * t - epsilon + t) / 2 for i in range(-left, left + 1)]
        edges = [0.0, *(w for w in kinks if 0.0 < w < t), t]
        inner = 0.0
        for low, high in itertools.pairwise(edges):
            w = low + (high - low) * (nodes + 1) / 2
            values = [profile(epsilon - t + 2 * each, left - 1) * math.exp(-each) for each in w.tolist()]
            inner += float(np.dot(weights, values)) * (high - low) / 2
        return (profile(epsilon - t, left - 1) + math.exp(-t) * profile(epsilon + t, left - 1) + inner) / 2

    points = [0.3 * t, 1.1 * t] if count == 2 else [0.7 * t]
    exact = [profile(point, count) for point in points]
    for sign in (1, -1):
        lattice = laplace_lattice(t, 1e-3 * min(t, 1.0) ** 2, sign)
        power = lattice_power(lattice.log_masses, count, -lattice.step / 2, -60.0, 2**20)
        losses = lattice.step * (np.arange(power.low.size) + power.first - count * (lattice.log_masses.size - 1) / 2)
        for point, value in zip(points, exact, strict=True):
            gains = -np.expm1(np.minimum(point - losses, 0.0))
            found = float(np.sum(np.exp(power.high if sign > 0 else power.low) * gains))
            assert sign * (found - value) >= -1e-9 * value
            assert found == pytest.approx(value, rel=0.02)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    log_t=st.floats(-4.0, 1.0),
    count=st.integers(17, 64),
    log_rate=st.floats(-9.0, -1e-3),
)
def test_the_pairs_hold_the_exact_profile(log_t, count, log_rate):
    """Up to 64 coordinates the profile is computed otherwise."""
    event, rate = ac.Laplace(math.exp(-log_t), 1.0, count), 10.0**log_rate
    points = np.concatenate([POINTS, np.geomspace(1e-3, 1.0, 9) * rate])
    exact = ac.PoissonSubsampled(event, rate)._log_profile(points)
    below, above = (joint_pair(event, rate, math.inf, -60.0, sign)._log_profile(points) for sign in (-1, 1))
    for low, value, high in zip(below, exact, above, strict=True):
        with np.errstate(under="ignore"):
            # the profile falls by up to 1 for each nat: the rounding of a point moves it by so much
            floor = 1e-20 * rate + 4e-16 * points
            assert (np.exp(low) <= np.exp(value) * (1 + 1e-9) + floor).all()
            assert (np.exp(value) <= np.exp(high) * (1 + 1e-9) + floor).all()


def test_a_profile_is_continuous_where_its_pieces_meet():
    """Where rounding put w/t into the next cell a whole cell was left out."""
    for t, m in itertools.product((0.005, 1 / 3, 0.7, 0.0123), (16, 40, 64)):
        places = np.arange(1, m - 1) * t
        at, left, right = (laplace_log_profile(t, m, places * share) for share in (1.0, 1 - 1e-10, 1 + 1e-10))
        assert (right <= at + 1e-9).all()
        assert (at <= left + 1e-9).all()


@pytest.mark.parametrize(
    "event", [ac.Laplace(10.0, 1.0, 20), ac.Laplace(1.0, 1.0, 30), ac.RandomizedResponse(0.05, 600)]
)
@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_curves_of_few_outcomes_are_above_and_near(event, rate):
    orders = np.array([1.5, 2.0, 5.0, 20.0])
    exact, found = renyi_from_profile(event, orders, rate), joint_curve(event, rate, orders)
    assert (found >= exact * (1 - 1e-9)).all()
    assert (found <= exact * 1.02).all()


@pytest.mark.parametrize(
    "event",
    [
        ac.Laplace(20.0, 1.0, 100),
        ac.Laplace(2.0, 0.01, 10_000),
        ac.DiscreteLaplace(20.0, 3, 40),
        ac.RandomizedResponse(1e-3, 400_000),
    ],
)
def test_prices_are_certified_as_narrowly_as_asked(event):
    run = 20 * ac.PoissonSubsampled(event, 0.05)
    wide, narrow = (ac.epsilon(run, 1e-6, method="tight", tolerance=tolerance) for tolerance in (0.01, 0.001))
    assert wide.epsilon - wide.lower <= 0.01 * wide.epsilon
    assert narrow.epsilon - narrow.lower <= 0.001 * narrow.epsilon
    assert max(wide.lower, narrow.lower) <= min(wide.epsilon, narrow.epsilon)
    assert narrow.epsilon < ac.epsilon(run, 1e-6, method="renyi").epsilon
    delta = ac.delta(run, narrow.epsilon, method="tight")
    assert delta.lower <= 1e-6 * (1 + 1e-9)


def test_more_coordinates_cost_more_across_both_ways_to_price_them():
    prices = [
        ac.epsilon(30 * ac.PoissonSubsampled(ac.Laplace(9.0, 1.0, c), 0.1), 1e-5, tolerance=1e-3) for c in (64, 65)
    ]
    assert prices[0].lower < prices[1].epsilon
    assert prices[1].lower > prices[0].epsilon
    assert prices[1].epsilon < prices[0].epsilon * 1.02


def test_rates_near_none_and_all():
    event = ac.Laplace(30.0, 1.0, 200)
    every = ac.epsilon(10 * event, 1e-6, method="tight")
    nearly = ac.epsilon(10 * ac.PoissonSubsampled(event, 1 - 1e-9), 1e-6, method="tight")
    assert nearly.lower <= every.epsilon
    assert every.lower <= nearly.epsilon * 1.001
    hardly = ac.epsilon(10 * ac.PoissonSubsampled(event, 1e-12), 1e-6)
    assert hardly.epsilon < 1e-6
    assert ac.epsilon(10 * ac.PoissonSubsampled(event, 0.0), 1e-6).epsilon == 0.0


def test_a_lattice_that_is_too_long_is_refused_by_its_size():
    run = 10 * ac.PoissonSubsampled(ac.Laplace(1.0, 1.0, 10**12), 0.1)
    with pytest.raises(ac.ToleranceUnreachable, match=r"add up on a lattice of .* points; accepted: at most"):
        ac.epsilon(run, 1e-6, method="tight")
    assert ac.epsilon(run, 1e-6).method == "renyi"
