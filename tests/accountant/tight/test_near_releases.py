"""Sampled Gaussians between two others: chords against the profile in 40 digits, measures, and whole runs."""

import math

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.patience import watch_work
from accountant.tight import loss_composition
from accountant.tight.fourier import LossSum, Mixed, align
from accountant.tight.loss_grid import Grid, bracket, loss_range
from accountant.tight.near_releases import Between, find_near
from accountant.tight.polygon import Masses

ENDS = [(0.99, 1.0), (0.5, 0.55), (2.0, 2.02), (1e-3, 1.02e-3), (7.0, 7.01)]


def profile(mu, u):
    """H(u) of N(mu, 1) against N(0, 1), from its definition."""
    if u <= 0:
        return 1 - u
    at = mp.log(u) / mu + mu / 2
    return mp.ncdf(mu - at) - u * mp.ncdf(-at)


def sampled(mu, rate, u, direction):
    """The same of a sample at a rate, in a direction: P is a mixture with Q, or Q one with P."""
    if direction == DIRECTIONS[0]:
        return rate * profile(mu, 1 + (u - 1) / rate)
    left = 1 - (1 - rate) * u
    return left * profile(mu, u * rate / left) if left > 0 else mp.mpf(0)


def between(low, high, rate=0.01, distance=5.0, shares=(0.03, 0.5, 0.9)):
    mus = np.array([low + share * (high - low) for share in shares])
    events = [ac.PoissonSubsampled(ac.GaussianDP(mu), rate) for mu in (low, high)]
    return Between(*events, (low, high), rate, mus, [1, 2, 3], distance)


@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_chords_bound_the_profile(ends):
    one = between(*ends)
    low, high = (mp.mpf(each) for each in ends)
    with mp.workdps(40):
        for e in np.linspace(0.0, one.end, 9).tolist():
            u = mp.exp(e)
            a, b = profile(low, u), profile(high, u)
            for mu, below, above in zip(one.mus, one.shares_below(), one.shares_above(), strict=True):
                exact = profile(mp.mpf(float(mu)), u)
                assert (1 - below) * a + mp.mpf(below) * b <= exact, (mu, e)
                assert exact <= (1 - above) * a + mp.mpf(above) * b, (mu, e)
        # beyond E the lower chord is one no longer: what is cut off has to be
        u = mp.exp(4 * one.end)
        share = mp.mpf(one.shares_below()[1])
        assert (1 - share) * profile(low, u) + share * profile(high, u) > profile(mp.mpf(float(one.mus[1])), u)
        # and it is no looser than it should: the two differ by a share of the square of the distance
        gap = float(np.max(one.shares_above() - one.shares_below()))
        assert 0 < gap < 2 * (one.end / high) ** 2 * math.log(ends[1] / ends[0])


def curve(masses, share, other, step, tilt, u):
    """E (1 - u e^-l)_+ of a mixture of two measures, in 19 digits."""
    total = np.longdouble(0)
    for part, each in ((1 - share, masses), (share, other)):
        losses = each.offset + (each.first + np.arange(each.weights.size)) * np.longdouble(step)
        weights = each.weights * np.exp(each.log_total - tilt * losses)
        total += part * np.sum(weights * np.maximum(1 - u * np.exp(-losses), 0))
    return total


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("tilt", [0.0, 3.0])
def test_measures_bound_the_profile_everywhere(direction, tilt):
    """Far above E and far below -E, too, with little left out: y is small."""
    rate, grid = 0.05, Grid(0.001, tilt)
    one = between(1.0, 1.02, rate, distance=1.5)
    found = []
    for event in (one.low, one.high):
        reach = loss_range(event, direction, tilt, -30.0, -40.0)
        found.append(bracket(event, direction, reach, 0.0, grid).measures)
    (upper_a, lower_a), (upper_b, lower_b) = found
    assert lower_a.offset == lower_b.offset
    cut_a, cut_b = (one.cut(each, direction, grid) for each in (lower_a, lower_b))
    assert cut_b.weights.size < lower_b.weights.size
    with mp.workdps(40):
        for mu, below, above in zip(one.mus, one.shares_below(), one.shares_above(), strict=True):
            for u in (0, 0.5, 0.949, 0.951, 0.96, 0.99, 1, 1.02, 1.04, 1.05, 1.2, 1.5, 3):
                exact = np.longdouble(str(sampled(mp.mpf(float(mu)), mp.mpf(rate), mp.mpf(u), direction)))
                assert curve(cut_a, below, cut_b, *grid, u) <= exact, (mu, u)
                missing = np.exp(np.longdouble(-30))  # what the last point has at infinity
                assert exact <= curve(upper_a, above, upper_b, *grid, u) + missing, (mu, u)


def test_what_a_sum_knows_of_mixtures_is_that_of_their_masses():
    """Means and cumulants are found without mixing the masses."""
    rng = np.random.default_rng(1)
    low, high = (Masses((w := rng.random(40)) / w.sum(), first, 0.25, total) for first, total in ((3, -1.0), (1, 0.7)))
    total = LossSum(Grid(0.01, 2.0), 64, 0.1)
    shares = np.array([0.0, 0.3, 1.0])
    parts = [total._part(each) for each in align(low, high)]
    mixed = Mixed.of(*parts, shares, total.powers, total.deep)
    for i, share in enumerate(shares.tolist()):
        a, b = (each.masses for each in parts)
        whole = (1 - share) * math.exp(a.log_total) * a.weights + share * math.exp(b.log_total) * b.weights
        exact = total._part(Masses(whole / whole.sum(), a.first, 0.25, math.log(whole.sum())))
        assert mixed.log_totals[i] == pytest.approx(exact.masses.log_total, rel=1e-13)
        assert mixed.means[i] == pytest.approx(exact.mean, rel=1e-13)
        np.testing.assert_allclose(mixed.cumulants[i], exact.cumulants, rtol=1e-9, atol=1e-13)
        assert mixed.deep[i] == pytest.approx(exact.deep, rel=1e-9)
    total.add_between(low, high, shares, [1, 2, 3])
    other = LossSum(Grid(0.01, 2.0), 64, 0.1)
    other.add(low, 1)
    other.add(high, 3)
    a, b = (part.spectrum for part in parts)
    share = mixed.shares[1]
    other.spectrum *= ((1 - share) * a + share * b) ** 2
    turn = np.exp(-2j * np.pi * np.arange(33) / 64 * (low.first - 1))  # one begins two points later
    np.testing.assert_allclose(total.spectrum, other.spectrum * turn, atol=1e-14)


def test_who_stands_for_whom():
    events = [(ac.PoissonSubsampled(ac.Gaussian(1 + i / 100), 0.01), i + 1) for i in range(30)]
    others = [(ac.PoissonSubsampled(ac.Gaussian(1.0), 0.02), 1), (ac.Laplace(2.0), 3)]
    found, rest = find_near(events + others, 0.3, math.log(1e-5), math.log(500))
    assert found
    standing = sum(sum(each.counts) for each in found)
    assert standing + sum(count for _, count in rest) == sum(count for _, count in events + others)
    kept = {event for event, _ in rest}
    for each in found:
        assert {each.low, each.high} <= kept
        assert np.all((each.ends[0] < each.mus) & (each.mus < each.ends[1]))
    assert find_near(events, 0.0, -10.0, 3.0) == ([], events)


def counted(ask):
    """What is answered, and the seconds of work that were counted for it."""
    seen = [0.0]
    with watch_work(lambda done, until: seen.append(until)):
        return ask(), seen[-1]


@pytest.mark.audit
def test_runs_with_and_without(monkeypatch):
    """The same price, by less work; the intervals overlap, and are as narrow."""
    run = ac.Composition((ac.PoissonSubsampled(ac.Gaussian(1 + i / 300), 1e-3), 4) for i in range(40))
    found, work = counted(lambda: ac.epsilon(run, 1e-5, method="tight", tolerance=0.05))
    delta, _ = counted(lambda: ac.delta(run, 0.05, method="tight", tolerance=0.05))
    monkeypatch.setattr(loss_composition, "NEAR", 0.0)
    plain, more = counted(lambda: ac.epsilon(run, 1e-5, method="tight", tolerance=0.03, patience=20.0))
    assert found.lower <= plain.epsilon
    assert plain.lower <= found.epsilon
    assert found.epsilon - found.lower <= 0.05 * found.epsilon
    assert work < more
    exact = ac.delta(run, 0.05, method="tight", tolerance=0.03, patience=20.0)
    assert delta.lower <= exact.delta
    assert exact.lower <= delta.delta
