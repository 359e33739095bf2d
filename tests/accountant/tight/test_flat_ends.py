"""Screenings whose losses are rare and far larger than all else, beside other releases: games that end early."""

import math

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.events.composition import Composition
from accountant.numerics.roots import Interval
from accountant.tight.flat_ends import FlatEnd, split_log_delta, take_apart, take_lower
from accountant.tight.fourier import ComposedLoss, LossSum
from accountant.tight.game_setup import Asked, set_up
from accountant.tight.loss_caps import LossCap
from accountant.tight.loss_grid import bracket
from accountant.tight.polygon import Grid
from accountant.tight.screening_families import solve_capped
from tests.accountant.tight.test_screening_game import brute_force, pairs_of


def screening(sigma: float, rate: float) -> ac.Event:
    return ac.PoissonSubsampled(ac.NoisyScreening(sigma, 2.4, 4), rate)


def gaussian_profile(mu: mp.mpf, x: mp.mpf) -> mp.mpf:
    """At any real epsilon x."""
    return mp.ncdf(-x / mu + mu / 2) - mp.exp(x) * mp.ncdf(-x / mu - mu / 2)


def profile(count: int, rate: float, mu: float, epsilon: float) -> mp.mpf:
    """Of `count` screenings that tell for certain whether a record was drawn, beside Gaussian noise."""
    kept, mu = (1 - mp.mpf(rate)) ** count, mp.mpf(mu)
    forward = 1 - kept + kept * gaussian_profile(mu, epsilon - mp.log(kept))
    return max(forward, gaussian_profile(mu, epsilon + mp.log(kept)))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("sigma", [1e-3, 0.05])
@pytest.mark.parametrize(
    ("count", "rate", "noise", "share"),
    [(1, 0.01, 3.0, 1.1), (2, 0.01, 3.0, 5.0), (1, 0.3, 1.0, 1.1), (3, 0.02, 0.5, 2.0)],
)
def test_what_tells_for_certain_is_as_an_infinite_loss(sigma, count, rate, noise, share):
    run = count * screening(sigma, rate) + ac.Gaussian(noise)
    delta = share * -math.expm1(count * math.log1p(-rate))
    found = ac.epsilon(run, delta=delta, method="tight")
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
    # a screening that is wrong with a chance below 1e-15 is as good as one that never is
    low, high = (profile(count, rate, 1 / noise, mp.mpf(each)) for each in (found.lower, found.epsilon))
    assert low >= delta * (1 - 1e-12)
    assert high <= delta * (1 + 1e-12)


def test_deltas_beside_rare_large_losses():
    run = 2 * screening(0.05, 0.01) + ac.Gaussian(3.0)
    for epsilon in (0.1, 0.5, 1.5):
        found, true = ac.delta(run, epsilon=epsilon, method="tight"), profile(2, 0.01, 1 / 3, mp.mpf(epsilon))
        assert found.lower * (1 - 1e-12) <= true <= found.delta * (1 + 1e-12)
        assert found.delta - found.lower <= 0.01 * found.delta


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("event", "steps"), [(screening(0.3, 0.1), 2), (ac.NoisyScreening(0.4, 4.4, 3), 2)])
def test_games_that_end_early_hold_the_value(event, steps, direction):
    pairs = pairs_of(event, direction)
    largest = float(event.renyi(math.inf)) * steps
    reach = float(set_up(Asked(Composition([(event, steps)]), 1e-3)).reaches(np.ones(1))[0])
    for cap in (0.05 * reach, 0.2 * reach, 0.45 * reach):
        game = solve_capped(Composition([(event, steps)]), 1e-3, cap, 1e-3)[direction]
        x = np.concatenate([[-largest, -cap], np.linspace(-1.0, 1.2 * cap, 6), [0.7 * largest, largest]])
        upper, lower = np.exp(game.log_upper(x)), np.exp(game.log_lower(x))
        true = np.array([float(brute_force(pairs, steps, mp.exp(mp.mpf(each)))) for each in x.tolist()])
        assert (lower <= true * (1 + 1e-12)).all()
        assert (true <= upper * (1 + 1e-12)).all()
        at_end = float(brute_force(pairs, steps, mp.exp(mp.mpf(game.end))))
        assert game.below * (1 - 1e-12) <= at_end <= game.above * (1 + 1e-12)


def test_most_of_a_window_is_not_ended_early():
    run = Composition([(screening(5.0, 0.1), 2)])
    assert solve_capped(run, 1e-3, 1e3, 1e-3) is None


class Flat:
    """max(1 - e^x, 1/8): what an infinite loss of that chance leaves."""

    def log_upper(self, x):
        with np.errstate(over="ignore"):
            return np.log(np.maximum(-np.expm1(np.minimum(x, 0.0)), 0.125))

    log_lower = log_upper


def composed(sign: int) -> ComposedLoss:
    """Gaussian noise, from above or below, on a grid that is tilted a lot."""
    grid = Grid(0.02, 12.0)
    total = LossSum(grid, 2**13, 0.5)
    measures = bracket(ac.Gaussian(2.0), "remove", Interval(-4.0, 20.0), 0.0, grid).measures
    total.add(measures[0 if sign > 0 else 1], 1)
    return total.compose()


def test_what_is_all_flat_says_nothing_of_a_tilt():
    """A thousand exponential mechanisms within 128 nats cost 1 everywhere: there was no tilt, and an IndexError."""
    end = FlatEnd(Flat(), above=1.0, below=0.125, top=0.125, end=5.0)
    log_w, delta = take_apart(end, np.array([-1.0, 1.0]), 1e-3)
    assert np.isfinite(log_w).all()
    assert delta == 1e-3


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_a_constant_apart_from_the_rest_survives_a_tilt(epsilon):
    # E max(1 - u e^-L, 1/8) = 1/8 + 7/8 E(1 - 8/7 u e^-L)_+
    true = 0.125 + 0.875 * float(gaussian_profile(mp.mpf(0.5), epsilon + mp.log(mp.mpf(8) / 7)))
    end = FlatEnd(Flat(), above=0.125, below=0.125, top=0.125, end=5.0)
    for sign in (1, -1):
        found = math.exp(split_log_delta(composed(sign), epsilon, end, sign))
        assert sign * found >= sign * true * (1 - sign * 1e-12)
        assert found == pytest.approx(true, rel=1e-3)
        whole = composed(sign).log_delta(epsilon, Flat(), sign)
        assert sign * whole > sign * math.log(true) + 0.1  # hidden by its rounding


def test_the_lower_constant_holds_up_to_its_end_only():
    end = FlatEnd(Flat(), above=0.125, below=0.125, top=0.125, end=0.4)
    measure = composed(-1)
    assert split_log_delta(measure, 0.5, end, -1) == measure.log_delta(0.5, Flat(), -1)


def test_a_lowered_end_is_the_lower_one():
    low = take_lower(FlatEnd(Flat(), above=0.2, below=0.125, top=0.13, end=5.0))
    assert (low.above, low.below) == (0.125, 0.125)


@pytest.mark.parametrize(("noise", "delta"), [(1.0, 1e-5), (0.3, 1e-3)])
def test_losses_fall_no_further_than_a_cap_says(noise, delta):
    cap = LossCap([(ac.Gaussian(noise), 1)], delta).end(0.0)
    mu = 1 / noise
    # L is N(mu^2/2, mu^2)
    beyond = float(mp.ncdf((-cap - mu * mu / 2) / mu))
    assert beyond <= 1e-5 * delta
    assert cap <= -math.log(delta) + 13.0
    assert LossCap([(ac.Gaussian(noise), 1)], delta).first() > cap
