"""Noisy maxima of Laplace noise: steps of the proof by themselves, the pair against its definition and contests."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import accountant as ac
from accountant.events import laplace_maxima as own
from accountant.events.laplace_maxima import LARGEST_SHIFT, LaplaceMaximum
from accountant.events.two_candidates import Contest
from tests.accountant.events.test_noisy_selection import NOISES, winners
from tests.cases import audit_after


def steepness(chance):
    """G as it is defined, at chances in (0, 1]."""
    k = np.floor(-np.log2(chance))
    return (k - 1) * chance + 0.5**k


@given(st.lists(st.floats(-6.0, 0.0), min_size=1, max_size=9))
@settings(max_examples=30, deadline=None)
def test_no_maximum_is_steeper_and_all_have_concave_logarithms(scores):
    x = np.linspace(-9.0, 9.0, 1801)
    apart = x[:, None] - np.array(scores)
    near = np.exp(-np.abs(apart)) / 2
    logs = np.where(apart < 0, np.log(near), np.log1p(-near))
    log_whole = logs.sum(axis=1)
    density = np.exp(log_whole) * np.sum(np.where(apart < 0, 1.0, near / (1 - near)), axis=1)
    limit = np.where(log_whole > -math.log(2), -np.expm1(log_whole), steepness(np.exp(log_whole)))
    assert (density <= limit * (1 + 1e-12)).all()
    assert np.max(np.diff(np.log(density), 2)) <= 1e-12


def test_a_maximum_of_equal_scores_is_as_steep_where_it_touches():
    for k in range(1, 7):
        density = k * 0.5**k  # of k scores at their common place
        assert float(steepness(np.array([0.5**k]))[0]) == pytest.approx(density, rel=1e-14)


def steepest_at(p):
    """G in high precision, with all its pieces."""
    if p >= mpf(1) / 2:
        return 1 - p
    k = int(mp.floor(-mp.log(p, 2)))
    return (k - 1) * p + mpf(2) ** -k


def place_of(p):
    """Where the steepest distribution function is p: an integral of 1/G between its corners, from its median."""
    if p >= mpf(1) / 2:
        return -mp.log(2 * (1 - p))
    corners = [mpf(2) ** -k for k in range(1, 60) if mpf(2) ** -k > p] + [p]
    found = mpf(0)
    for high, low in itertools.pairwise(corners):
        k = int(mp.floor(-mp.log((high + low) / 2, 2)))
        found -= (
            (high - low) * 2**k
            if k == 1
            else mp.log(((k - 1) * high + mpf(2) ** -k) / ((k - 1) * low + mpf(2) ** -k)) / (k - 1)
        )
    return found


@mp.workdps(20)
def chance_apart(t):
    """Lambda(-t) and lambda(-t), t >= 0, by integrals over the distribution function of the one that is behind."""

    def at(x):  # the steepest distribution function, from places of its corners
        if x >= 0:
            return 1 - mp.exp(-x) / 2
        high, end, k = mpf(1) / 2, mpf(0), 1
        while True:
            low = mpf(2) ** -(k + 1)
            length = (high - low) * 2 if k == 1 else mp.log((k * mpf(2) ** -k) / ((k + 1) * low)) / (k - 1)
            if x >= end - length or k > 40:
                top = k * mpf(2) ** -k
                return high + (x - end) / 2 if k == 1 else (top * mp.exp((k - 1) * (x - end)) - mpf(2) ** -k) / (k - 1)
            high, end, k = low, end - length, k + 1

    cuts = {mpf(2) ** -k for k in range(18)} | {mpf(0)}
    cuts |= {at(place_of(mpf(2) ** -k) - t) for k in range(1, 12) if place_of(mpf(2) ** -k) - t > -2.2}
    edges = sorted(p for p in cuts if 0 <= p <= 1)
    chance = slope = mpf(0)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    for low, high in itertools.pairwise(edges):
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            p = (low + high) / 2 + (high - low) / 2 * node
            moved = at(place_of(p) + t)
            chance += (high - low) / 2 * weight * (1 - moved)
            slope += (high - low) / 2 * weight * steepest_at(moved)
    return float(chance), float(slope)


def test_tangents_by_their_definition():
    """Above g at all places, and near it at those where they touch."""
    lines = own.tangents()
    for t in (0.0, 0.33, 0.75, 1.6):
        chance, slope = chance_apart(t)
        least = min(line.start + line.slope * chance for line in lines)
        assert slope <= least * (1 + 1e-8)
        assert least <= slope * (1 + 1e-3)
    assert chance_apart(0.0) == pytest.approx((0.5, 1 / 3), rel=1e-7)
    assert lines[-1] == pytest.approx((1 / 3, 0.0), abs=1e-7)


def moved_density(x, shift):
    """Lambda(x) and Lambda(x - shift) of the density that is the least of the tangents, by its pieces."""
    density = own.dominating_density()
    ends = np.concatenate([[-60.0], density.places, [60.0]])
    found = []
    for place in (x, x - shift):
        cuts = np.append(ends[ends < place], place)
        logs = density.log_density(cuts)
        widths, rises = np.diff(cuts), np.diff(logs)
        flat = np.abs(rises) < 1e-12
        means = np.where(flat, 1.0, np.expm1(rises) / np.where(flat, 1.0, rises))
        found.append(math.fsum((np.exp(logs[:-1]) * means * widths).tolist()))
    return found


@pytest.mark.parametrize("shift", [1e-3, 0.3, 2.0, 9.0, LARGEST_SHIFT])
def test_the_pair_is_just_above_the_moved_density(shift):
    event = LaplaceMaximum(shift)
    places = np.linspace(-4.0, shift / 2, 60)
    density = own.dominating_density()
    for x in places.tolist():
        epsilon = float(np.diff(density.log_density(np.array([x - shift, x])))[0])
        if 0.0 <= epsilon < shift:
            here, there = moved_density(x, shift)
            truth, found = here - math.exp(epsilon) * there, float(event.profile(epsilon).worst)
            assert truth - 1e-12 * max(shift, 1.0) * here <= found * (1 + 1e-9)
            assert found <= truth * (1 + 1e-3) + 3e-4 * min(shift, 1.0) * here


@given(st.floats(math.log(1e-9), math.log(LARGEST_SHIFT)))
@settings(max_examples=10, deadline=None)
def test_pairs_are_distributions_between_two_candidates_and_laplace_noise(log_shift):
    shift = math.exp(log_shift)
    event, noise = LaplaceMaximum(shift), ac.Laplace(1.0, shift)
    pair = event._pair()
    for logs in (pair.log_p, pair.log_q):
        assert math.fsum(np.exp(logs).tolist()) == pytest.approx(1.0, abs=1e-11)
    assert pair.losses == pytest.approx(-pair.losses[::-1], abs=1e-12 * shift)
    assert pair.losses[0] == shift
    epsilons = np.linspace(0.0, 1.01 * shift, 25)
    found, most = (each.profile(epsilons).worst for each in (event, noise))
    assert (found <= most * (1 + 2e-3)).all()
    assert found[0] < 0.97 * most[0] or shift > 4.0
    assert np.exp(pair.log_profile(epsilons)[0]) == pytest.approx(found, rel=1e-9, abs=1e-300)
    least = np.exp(Contest("laplace", shift).log_reached(epsilons[:20]))
    assert (least <= found[:20] * (1 + 1e-9)).all()
    orders = np.array([1.0, 2.0, 30.0])
    assert (event.renyi(orders) <= noise.renyi(orders) * (1 + 2e-3)).all()


def test_small_shifts_cost_the_integral_of_the_squared_slope():
    slopes = own.dominating_density().slopes
    lines = sorted(own.tangents(), key=lambda line: -line.slope)
    cuts = [0.0, *((b.start - a.start) / (a.slope - b.slope) for a, b in itertools.pairwise(lines)), 0.5]
    square = 2 * sum(line.slope**2 * (b - a) for line, a, b in zip(lines, cuts, cuts[1:], strict=False))
    assert square == pytest.approx(0.55, rel=2e-3)
    assert (np.diff(slopes) < 0).all()
    for shift in (1e-40, 1e-8, 1e-3):
        assert float(LaplaceMaximum(shift).renyi(1.0)) == pytest.approx(square * shift**2 / 2, rel=2e-3)
    assert ac.ReportNoisyMax(1e50).renyi(2.0) <= 1e-99


@pytest.mark.parametrize("other", [1e-3, 0.3, 0.98, 1.02, 3.0, 1e3])
def test_contests_of_noise_of_two_scales_far_out(other):
    """The chance that the leader loses is an integral; where one tail is in no float the other is what counts."""
    with mp.workdps(40):
        r = mp.mpf(other)

        def loses(lead):
            return (mp.exp(-lead) - r**2 * mp.exp(-lead / r)) / (2 * (1 - r**2))

        near = mp.quad(
            lambda x: mp.exp(-abs(x)) / 2 * (mp.exp(-abs(x + 2) / r) / 2 if x > -2 else 1 - mp.exp((x + 2) / r) / 2),
            [-mp.inf, -2, 0, 1, 10, mp.inf],
        )
        assert abs(near / loses(mp.mpf(2)) - 1) < 1e-20
        leads = np.array([1e-6, 0.5, 30.0, 700.0, 720.0, 5e3])
        found = Contest("laplace", 1.0, other).log_wins(np.concatenate([-leads, leads]))
        for lead, behind, ahead in zip(leads, found[:6], found[6:], strict=True):
            exact = loses(mp.mpf(lead))
            assert behind == pytest.approx(float(mp.log(exact)), rel=1e-9)
            assert ahead == pytest.approx(float(mp.log1p(-exact)), rel=1e-9, abs=1e-300)


CONTESTS = [  # scores of those that rise and of all others: even teams are the worst of few, for small moves
    ([0.0, 0.0], [0.0, 0.0]),
    ([0.0], [0.0]),
    ([0.0], [-0.22, -0.22]),
    ([-1.3, -1.3], [0.0, 0.0]),
    ([0.0, -0.7, -2.0], [0.3, -1.0]),
    ([0.0, 0.0], [-2.2, -2.2, -2.2]),
    ([-3.0], [0.0] * 5),
]


@pytest.mark.each_run(1)
@pytest.mark.parametrize("shift", audit_after(2, [1.0, 6.0, 0.05]))
def test_no_contest_costs_more(shift):
    """Of scores of which some rise by the whole shift, or by part of it, against the others."""
    event = ac.ReportNoisyMax(1.0, sensitivity=shift, monotone=True)
    epsilons = np.array([0.0, 0.2, 0.5, 0.9]) * shift
    most = event.profile(epsilons).worst
    reached = np.zeros_like(epsilons)
    for rising, others in CONTESTS:
        for offset in (0.0, 0.5):
            for part in (1.0, np.linspace(0.4, 1.0, len(rising))):
                scores = np.array([*rising, *others])
                scores[: len(rising)] -= shift * offset
                moved = scores.copy()
                moved[: len(rising)] += shift * part
                p, q = (winners(each, NOISES["laplace"], 1.0) for each in (scores, moved))
                for one, other in ((p, q), (q, p)):
                    sticks = np.maximum(one - np.exp(epsilons)[:, None] * other, 0.0).sum(axis=1)
                    assert (sticks <= most + 1e-9).all()
                    reached = np.maximum(reached, sticks / most)
    assert reached[0] > 0.86


def test_beyond_the_largest_shift_stands_laplace_noise():
    inside, beyond = (ac.ReportNoisyMax(1.0, sensitivity=LARGEST_SHIFT * each / 2) for each in (1.0, 1.001))
    noise = ac.Laplace(1.0, LARGEST_SHIFT)
    for order in (1.0, 1.5, 3.0, 40.0):
        assert 0.95 * float(noise.renyi(order)) <= float(inside.renyi(order)) <= float(noise.renyi(order))
        assert beyond.renyi(order) == ac.Laplace(1.0, LARGEST_SHIFT * 1.001).renyi(order)
    group = ac.Group(inside, 2)
    assert float(group.renyi(math.inf)) == pytest.approx(2 * LARGEST_SHIFT)


def test_long_runs_are_known_within_a_third():
    for run in (100 * ac.ReportNoisyMax(5.0), 1000 * ac.ReportNoisyMax(100.0), 100 * ac.ReportNoisyMax(0.25)):
        found = ac.epsilon(run, 1e-6, method="tight")
        assert found.lower <= found.epsilon <= 1.35 * found.lower
