"""Noisy votes at the votes that were cast: exact probabilities, every neighbour, and compositions between bounds."""

import itertools
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

import accountant as ac
from accountant.events.vote_pairs import pairs_of
from accountant.events.votes_seen import CurveOfPairs, OneNeighbour, WorstNeighbour
from accountant.numerics.noisy_max_chances import fill_gaussian_moves, gaussian_log_chance, laplace_log_chance
from tests.cases import audit_after

GN, LN = ac.DataDependentGNMax, ac.DataDependentLNMax
DELTA = 1e-6


def ones(gaps):
    return np.array(gaps, dtype=float), np.ones(len(gaps))


@pytest.mark.parametrize("gap", [-900.0, -40.0, -1.5, 0.0, 2.0, 30.0])
def test_two_counts_in_closed_form(gap):
    """A difference of two Gaussian variables is one, and that of two Laplace variables has a known tail."""
    with mp.workdps(40):
        gaussian = mp.log(mpmath.ncdf(mpf(gap) / mp.sqrt(2)))
        tail = (2 + abs(mpf(gap))) / 4 * mp.exp(-abs(mpf(gap)))
        laplace = mp.log(tail if gap <= 0 else 1 - tail)
        for found, exact in ((gaussian_log_chance, gaussian), (laplace_log_chance, laplace)):
            assert abs(found(*ones([gap])) - exact) <= 1e-14 * (1 + abs(exact))


@cache
def weight(noise, gaps, step):
    """The integral by the trapezoidal rule (Gaussian) or by Gauss-Legendre panels (Laplace) at 30 digits."""
    with mp.workdps(30):
        if noise == "gaussian":
            top = max(0.0, -min(gaps)) / 2
            points = [mpf(top) + step * k for k in range(-int(25 / step), int(25 / step) + 1)]
            return mp.log(step * mp.fsum(mpmath.npdf(x) * mp.fprod(mpmath.ncdf(x + g) for g in gaps) for x in points))
        corners = sorted({0.0, *(-g for g in gaps)})
        places = [corners[0] - 80, *np.arange(corners[0] - 60, corners[-1] + 60, 4.0), corners[-1] + 80]
        return mp.log(
            mp.quad(
                lambda x: mp.exp(-abs(x)) / 2 * mp.fprod(cumulative(x + mpf(g)) for g in gaps),
                sorted({*map(float, places), *corners}),
            )
        )


def cumulative(x):
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


@pytest.mark.each_run(1)
@pytest.mark.parametrize("gaps", [(-9.0, -7.5, 3.0), (-6.0, -6.0, -6.0, 1.0), (0.5, -0.25, 2.0), (-30.0, 12.0)])
def test_several_counts_at_30_digits(gaps):
    numbers = np.ones(len(gaps))
    exact = float(weight("gaussian", gaps, 0.0625)), float(weight("laplace", gaps, 1.0))
    found = gaussian_log_chance(np.array(gaps), numbers), laplace_log_chance(np.array(gaps), numbers)
    assert found == pytest.approx(exact, rel=4e-14, abs=4e-14)


@pytest.mark.parametrize("others", [30, 300])
def test_many_equal_counts(others):
    """All of n + 1 equal counts win as often; and their number is as good as a list of them."""
    for chance in (gaussian_log_chance, laplace_log_chance):
        found = chance(np.zeros(1), np.array([float(others)]))
        assert found == pytest.approx(-math.log(others + 1), rel=4e-14)
        gaps = np.array([-1.25, 0.5])
        listed = chance(np.repeat(gaps, others // 10), np.ones(2 * (others // 10)))
        assert chance(gaps, np.full(2, others // 10.0)) == pytest.approx(listed, rel=4e-14)


def test_a_lead_over_all_but_one_makes_the_integrand_level():
    with mp.workdps(40):
        exact = mp.log((2 + mpf(400)) / 4) - 400
    assert laplace_log_chance(*ones([-400.0, 300.0])) == pytest.approx(float(exact), rel=1e-14)


@given(st.lists(st.integers(0, 300), min_size=2, max_size=6), st.floats(1.0, 100.0))
def test_moves_together_are_moves_one_by_one(votes, scale):
    values, numbers = (part.astype(float) for part in np.unique(votes, return_counts=True))
    moves = np.array([(a, b) for a in range(-1, values.size) for b in range(-1, values.size)], dtype=float)
    logs = np.empty((len(moves), values.size + 2))
    fill_gaussian_moves(values, numbers, scale, moves, logs)
    for (lost, gained), row in zip(moves.astype(int), logs, strict=True):
        left, after = np.append(numbers, [0.0, 0.0]), np.append(values, [0.0, 0.0])
        for place, column, step in ((lost, -2, -1.0), (gained, -1, 1.0)):
            if place >= 0:
                left[place], left[column], after[column] = left[place] - 1.0, 1.0, values[place] + step
        if left.min() < 0.0:
            continue
        for column in np.flatnonzero(left):
            others = left - (np.arange(left.size) == column)
            gaps = (after[column] - after[others > 0]) / scale
            assert row[column] == pytest.approx(gaussian_log_chance(gaps, others[others > 0]), rel=1e-14, abs=1e-14)


# --- profiles: all neighbours at 40 digits --------------------------------------------------------------


def neighbours(votes):
    """All votes after one voter changed."""
    labels = range(len(votes))
    for lost, gained in itertools.product([None, *labels], repeat=2):
        if lost == gained or (lost is not None and not votes[lost] > 0):
            continue
        yield tuple(v - (i == lost) + (i == gained) for i, v in enumerate(votes))


@cache
def law(noise, scale, votes):
    chances = [
        mp.exp(weight(noise, tuple((v - w) / scale for j, w in enumerate(votes) if j != i), 0.125))
        for i, v in enumerate(votes)
    ]
    return [each / mp.fsum(chances) for each in chances]


def height(p, q, epsilon):
    return mp.fsum(max(a - mp.exp(mpf(epsilon)) * b, 0) for a, b in zip(p, q, strict=True))


CASES = [
    (GN(4.0, (9, 5, 1)), "gaussian"),
    (GN(4.0, (3, 3, 3)), "gaussian"),
    (GN(2.0, (20, 0)), "gaussian"),
    (GN(0.5, (2, 1, 0)), "gaussian"),
    (LN(3.0, (9, 5, 1)), "laplace"),
    (LN(1.0, (12, 2)), "laplace"),
]


@pytest.mark.audit
@pytest.mark.parametrize(("event", "noise"), audit_after(2, [CASES[5], CASES[3], *CASES[:3], CASES[4]]))
def test_the_profile_is_the_largest_of_all_neighbours(event, noise):
    scale = event.sigma if noise == "gaussian" else event.scale
    with mp.workdps(30):
        own = law(noise, scale, event.votes)
        epsilons = [0.0, 1e-3, 0.05, 0.2, 0.5, 1.0]
        exact = [float(max(height(own, law(noise, scale, n), e) for n in neighbours(event.votes))) for e in epsilons]
    found = event.profile(epsilons)
    np.testing.assert_array_equal(found.remove, found.add)
    # never below, and above by rounding alone
    for value, truth in zip(found.remove, exact, strict=True):
        assert truth * (1 - 1e-13) <= value <= truth * (1 + 1e-9) + 1e-15


@pytest.mark.each_run(1)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("event", "noise"), audit_after(2, [CASES[1], CASES[4], CASES[0]]))
def test_what_is_composed_is_above_every_neighbour_and_near_the_worst(event, noise, direction):
    scale = event.sigma if noise == "gaussian" else event.scale
    above, below = WorstNeighbour(event, direction, -100.0), event._certain()
    below = OneNeighbour(event, below.neighbour, direction)
    epsilons = [0.0, 1e-3, 0.03, 0.1, 0.3]
    remove, add = above._log_profile(np.array(epsilons))
    first, second = (remove, add) if direction == "remove" else (add, remove)
    least = below._log_profile(np.array(epsilons))[0 if direction == "remove" else 1]
    with mp.workdps(30):
        own = law(noise, scale, event.votes)
        others = [law(noise, scale, n) for n in neighbours(event.votes)]
        for place, epsilon in enumerate(epsilons):
            worst = max(height(own, other, epsilon) for other in others), max(height(o, own, epsilon) for o in others)
            for log_value, truth in zip((first[place], second[place]), worst, strict=True):
                assert truth * (1 - 1e-13) <= math.exp(log_value)
                assert math.exp(log_value) <= truth * 1.02 + 1e-9
            assert math.exp(least[place]) <= worst[0] * (1 + 1e-13)


@pytest.mark.audit
@pytest.mark.parametrize(("event", "noise"), [*CASES[:3], *CASES[4:]])
def test_the_smaller_curve_is_the_largest_divergence_of_all_neighbours(event, noise):
    """And Papernot et al. 2018, Thm 6, and 2017, Thm 3, are not below it."""
    scale = event.sigma if noise == "gaussian" else event.scale
    orders = [1.0, 1.5, 4.0, 32.0]
    with mp.workdps(30):
        own, exact = law(noise, scale, event.votes), []
        others = [law(noise, scale, n) for n in neighbours(event.votes)]
        for a in map(mpf, orders):
            if a == 1:
                exact.append(max(mp.fsum(p * mp.log(p / q) for p, q in zip(own, o, strict=True)) for o in others))
                continue
            means = (mp.fsum(p**a * q ** (1 - a) for p, q in zip(own, other, strict=True)) for other in others)
            exact.append(mp.log(max(means)) / (a - 1))
    found = CurveOfPairs(event).renyi(orders)
    for value, truth in zip(found, map(float, exact), strict=True):
        assert truth * (1 - 1e-12) <= value <= truth * (1 + 1e-9)
    assert (event.renyi(orders) >= found * (1 - 1e-9)).all()
    losses = [mp.log(max(p / q for p, q in zip(own, other, strict=True))) for other in others]
    assert CurveOfPairs(event).renyi(math.inf) == pytest.approx(float(max(losses)), rel=1e-9)


def test_one_release_is_exact_and_many_are_cheaper_than_the_papers_bound():
    votes = GN(40.0, (200, 40, 10, 0))
    one = ac.epsilon(votes, DELTA)
    assert one.method == "tight"
    assert one.lower == pytest.approx(one.epsilon, rel=1e-9)
    assert float(votes.profile(one.epsilon).remove) == pytest.approx(DELTA, rel=1e-6)
    many, papers = ac.epsilon(1000 * votes, DELTA), ac.epsilon(1000 * votes, DELTA, method="renyi")
    assert many.epsilon < 0.5 * papers.epsilon
    assert many.lower > 0.99 * many.epsilon
    assert many.data_dependent


@pytest.mark.audit
@given(
    st.sampled_from([GN, LN]),
    st.lists(st.integers(0, 60), min_size=2, max_size=5),
    st.floats(0.3, 30.0),
    st.integers(1, 50),
    st.floats(-9.0, -1.0),
)
def test_no_attack_exceeds_the_papers_bound(kind, votes, scale, count, log_delta):
    """Papernot et al. 2018, Thm 6, and 2017, Thm 3, bound what the pair of a neighbour costs."""
    run, delta = count * kind(scale, votes), 10.0**log_delta
    found = ac.epsilon(run, delta, method="auto")
    assert (found.lower or 0.0) <= ac.epsilon(run, delta, method="renyi").epsilon * (1 + 1e-9)
    assert (found.lower or 0.0) <= found.epsilon


@pytest.mark.parametrize("delta", [1e-13, 1e-12, 1e-9])
def test_one_release_is_known_from_both_sides_at_tiny_deltas(delta):
    """Chances of two counts in closed form; the error of a computed one is more than a share of such a delta."""
    scale, votes = 20.472607284853833, (21.0, 19.0)
    price = ac.epsilon(GN(scale, votes), delta)

    def exact(epsilon):
        p = mpmath.ncdf((votes[0] - votes[1]) / (mpf(scale) * mp.sqrt(2)))
        others = [mpmath.ncdf((votes[0] - votes[1] + move) / (mpf(scale) * mp.sqrt(2))) for move in (-2, -1, 1, 2)]
        pairs = [pair for q in others for pair in (((p, 1 - p), (q, 1 - q)), ((q, 1 - q), (p, 1 - p)))]
        return max(mp.fsum(max(a - mp.exp(epsilon) * b, 0) for a, b in zip(*pair, strict=True)) for pair in pairs)

    with mp.workdps(60):
        assert exact(mpf(price.epsilon)) <= delta <= exact(mpf(price.lower))
    assert price.epsilon - price.lower <= 1e-9


def test_limits():
    """A certain winner costs nothing, a tie what two unknown votes may; and huge noise nothing."""
    assert ac.epsilon(10 * GN(1.0, (1e4, 0)), DELTA).epsilon == 0.0
    assert ac.epsilon(10 * LN(1e-3, (200, 40)), DELTA).epsilon == 0.0
    assert ac.epsilon(10 * GN(1e9, (5, 5)), DELTA).epsilon == 0.0
    tie = GN(1e-3, (5, 5))
    assert float(tie.profile(0.0).remove) == pytest.approx(0.5, rel=1e-9)
    assert ac.epsilon(tie, 0.4, method="tight").epsilon > 1e3


def test_a_release_that_tells_nothing_is_left_out():
    """Ten votes that are certain to within e^-3000, beside others."""
    sure, rest = GN(0.25, (30, 2)), 10 * ac.PoissonSubsampled(ac.Gaussian(2.0), 0.1)
    both, alone = (ac.epsilon(run, DELTA, method="tight") for run in (10 * sure + rest, rest))
    assert both.epsilon == pytest.approx(alone.epsilon, rel=1e-12)
    assert both.lower == alone.lower
    assert both.epsilon >= alone.epsilon * (1 - 1e-15)


def test_neighbours_that_are_told_apart_are_those_of_the_values():
    """A thousand classes without votes are one."""
    few = pairs_of("gaussian", 40.0, (200.0, 100.0, *[0.0] * 8))
    many = pairs_of("gaussian", 40.0, (200.0, 100.0, *[0.0] * 998))
    assert few.losses.shape == many.losses.shape


def test_what_may_be_lost_is_counted():
    event = GN(4.0, (40, 5, 1))
    whole, cut = WorstNeighbour(event, "remove", -600.0), WorstNeighbour(event, "remove", -30.0)
    assert whole.lost == 0.0
    assert 0.0 < cut.lost <= math.exp(-30.0) * 1.01
    epsilons = np.linspace(0.0, 6.0, 40)
    for above, below in zip(cut._log_profile(epsilons), whole._log_profile(epsilons), strict=True):
        assert (above >= below - 1e-9).all()
        assert (above <= np.logaddexp(below, math.log(cut.lost)) + 1e-9).all()
