"""Blocks of steps of which two are drawn, and laws of scores: against all outcomes, integrals and exact sums."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

import accountant as ac
from accountant.patience import allow_work
from accountant.samplers.pairs_of_steps import pair_of_two
from accountant.samplers.score_laws import Scores, bounds_on_sums, window_of
from tests.accountant.samplers.test_random_allocation import outcomes
from tests.cases import audit_after

DIRECTIONS = "remove", "add"


def heights(pair, direction, epsilons):
    """From above, rounding included."""
    return np.exp(pair._log_profile(np.array(epsilons))[DIRECTIONS.index(direction)] + pair._profile_error)


@pytest.mark.each_run(7)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("steps", [2, 3, 5])
def test_two_steps_are_above_all_outcomes(steps, epsilon):
    pairs = outcomes(epsilon, steps, 2)
    for index, direction in enumerate(DIRECTIONS):
        places = [0.0, 0.5 * epsilon, 1.1 * epsilon]
        found = heights(pair_of_two(ac.PureDP(epsilon), steps, direction, -40.0, most=5e8), direction, places)
        for place, upper in zip(places, found.tolist(), strict=True):
            u = Fraction(math.exp(place))
            truth = float((sum(max(p - u * q, 0) for p, q in pairs), sum(max(q - u * p, 0) for p, q in pairs))[index])
            assert truth * (1 - 1e-12) <= upper <= 1.01 * truth + 1e-12


def two_of_three(sigma, epsilon, direction):
    """By integrals over two steps, of what the third has in closed form: R = (X (Y + Z) + Y Z)/3."""
    mu, u = 1 / sigma, math.exp(epsilon)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    z, density = 9 * nodes, 9 * weights * np.exp(-0.5 * (9 * nodes) ** 2) / math.sqrt(2 * math.pi)
    y = np.exp(mu * z - mu**2 / 2)
    slope, start = (y[:, None] + y) / 3, y[:, None] * y / 3
    strike = np.log(np.maximum((u if direction == "remove" else 1 / u) - start, 1e-300) / slope)
    first, second = ndtr(mu / 2 - strike / mu), ndtr(-mu / 2 - strike / mu)
    inside = start < (u if direction == "remove" else 1 / u)
    if direction == "remove":
        value = np.where(inside, slope * first + (start - u) * second, slope + start - u)
    else:
        value = np.where(inside, (1 - u * start) * (1 - second) - u * slope * (1 - first), 0.0)
    return float(density @ value @ density)


@pytest.mark.parametrize("sigma", audit_after(1, [0.7, 1.0, 3.0]))
def test_two_of_three_gaussian_steps_are_just_above_an_integral(sigma):
    for direction in DIRECTIONS:
        pair = pair_of_two(ac.Gaussian(sigma), 3, direction, -45.0, most=6e8)
        places = np.array([0.0, 1.0, 2.5]) / sigma
        for place, upper in zip(places.tolist(), heights(pair, direction, places).tolist(), strict=True):
            truth = two_of_three(sigma, place, direction)
            assert truth * (1 - 1e-7) <= upper <= 1.02 * truth + 1e-12


def test_two_of_two_steps_are_both_of_them():
    both = ac.Gaussian(1 / math.sqrt(2))
    truth = np.exp(both._log_profile(np.array([0.0, 2.0, 5.0]))[0])
    for direction in DIRECTIONS:
        found = heights(pair_of_two(ac.Gaussian(1.0), 2, direction, -45.0), direction, [0.0, 2.0, 5.0])
        assert (found >= truth * (1 - 1e-12)).all()
        assert (found <= 1.01 * truth).all()


def test_what_takes_long_is_left_to_single_steps():
    assert pair_of_two(ac.Gaussian(1.0), 100, "remove", -45.0) is None
    assert pair_of_two(ac.Gaussian(1.0), 10, "remove", -45.0, most=1e4) is None
    with allow_work(0.05):
        assert pair_of_two(ac.Gaussian(1.0), 10, "remove", -45.0) is None


@pytest.mark.parametrize("event", [ac.PureDP(1e-9), ac.PureDP(1e-15), ac.Gaussian(1e8), ac.Laplace(1e12)])
def test_grids_of_small_losses_are_counted_and_not_made(event):
    """The grid of 2 w/s^2 has 3e11 points for losses of 1e-9, and was made for its length."""
    for limit in (math.inf, 5.0):
        with allow_work(limit):
            assert pair_of_two(event, 14, "remove", -45.0, most=1e9) is None
    found = ac.epsilon(ac.RandomAllocation(event, 50, 7), 1e-30)
    assert found.lower <= found.epsilon <= 1.01 * ac.epsilon(7 * event, 1e-30).epsilon


def test_losses_of_which_no_grid_can_be_made_leave_the_price_to_single_steps(monkeypatch):
    """A refusal of the grid was one of the whole route."""

    def refuse(*_):
        raise ac.ToleranceUnreachable("a grid of 1e9 points")

    monkeypatch.setattr("accountant.samplers.pairs_of_steps.bracket_step", refuse)
    assert pair_of_two(ac.Gaussian(1.0), 10, "remove", -45.0) is None


@pytest.mark.parametrize(
    ("sigma", "steps", "selected", "width"), audit_after(1, [(1.0, 5, 4, 0.04), (1.0, 20, 4, 0.04)])
)
def test_several_of_few_steps_are_known_nearly(sigma, steps, selected, width):
    found = ac.epsilon(ac.RandomAllocation(ac.Gaussian(sigma), steps, selected), 1e-5, method="tight")
    assert 0 < found.epsilon - found.lower <= width * found.epsilon


def test_almost_all_steps_cost_what_the_sum_of_all_outcomes_tells():
    """Of 19 of 20 steps the sum is normal, of mean 19 and variance 20."""
    found = ac.epsilon(ac.RandomAllocation(ac.Gaussian(1.0), 20, 19), 1e-5, method="tight")
    told = ac.epsilon(ac.Gaussian(math.sqrt(20) / 19), 1e-5).epsilon
    assert 0.995 * told <= found.lower
    assert found.epsilon <= ac.epsilon(19 * ac.Gaussian(1.0), 1e-5).epsilon


@pytest.mark.parametrize(("counts", "least"), [((12, 0), 1e-18), ((7, 5), 1e-17), ((1, 11), 2e-12)])
def test_sums_of_scores_are_bounded_far_into_their_tails(counts, least):
    """Against rationals, in a window that both laws share."""
    places = np.array([-3, 0, 1, 7])
    masses = [Fraction(1, 64), Fraction(1, 2), Fraction(31, 64) - Fraction(1, 2**12), Fraction(1, 2**12)]
    other = [Fraction(1, 2**11), Fraction(1, 4), Fraction(1, 4) - Fraction(1, 2**11), Fraction(1, 2)]
    exact = {0: Fraction(1)}
    for law, count in ((masses, counts[0]), (other, counts[1])):
        for _ in range(count):
            after = {}
            for total, mass in exact.items():
                for place, own in zip(places.tolist(), law, strict=True):
                    after[total + place] = after.get(total + place, 0) + mass * own
            exact = after
    logs = tuple(np.log(np.array([float(each) for each in law])) for law in (masses, other))
    scores = Scores(places, logs, counts)
    first, last = window_of([scores, Scores(places, logs, (0, 12))], -45.0)
    low, high = bounds_on_sums(scores, first, last - first + 1, (first, last))
    near = []
    for index, (below, above) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        truth = exact.get(first + index, Fraction(0))
        assert below <= truth <= above
        if 0 < above <= below * 1.00001:
            near.append(float(truth))
    assert len(near) >= 0.85 * sum(1 for each in exact if first <= each <= last)
    assert min(near) < least


@pytest.mark.audit
def test_sums_that_no_float_tells_from_nothing_count_as_far_as_they_are_known():
    """Losses of up to 2400, of which delta = 1e-7 is far out in both laws."""
    found = ac.epsilon(ac.RandomAllocation(ac.PureDP(8.0), 1000, 300), 1e-7, method="tight")
    assert 500.0 < found.lower <= found.epsilon <= 2400.0
