"""Shuffled epochs: both ends against integrals over two steps, and what is refused."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

import accountant as ac
from accountant.samplers.shuffled_epoch import largest_step_pair


def two_steps(with_record, without, epsilon):
    """Both directions of one of two normal steps shifted by `with_record` against `without`, by a sum over a grid."""
    x = np.linspace(-9, 9 + with_record, 1501)
    cell = (x[1] - x[0]) ** 2

    def density(shift):
        one, plain = (np.exp(-((x - s) ** 2) / 2) / math.sqrt(2 * math.pi) for s in (shift, 0.0))
        return (np.outer(one, plain) + np.outer(plain, one)) / 2 * cell

    p, q = density(with_record), density(without)
    u = math.exp(epsilon)
    return np.maximum(p - u * q, 0).sum(), np.maximum(q - u * p, 0).sum()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("sigma", "epsilon"), [(1.0, 0.5), (0.5, 2.0), (3.0, 0.1)])
def test_two_steps_by_integrals(adjacency, sigma, epsilon):
    event = ac.Gaussian(sigma, adjacency=adjacency)
    shifts = (2 / sigma, 1 / sigma) if adjacency == "add-remove" else (1 / sigma, 0.0)
    exact = max(two_steps(*shifts, epsilon))
    found = ac.delta(ac.ShuffledEpoch(event, 2), epsilon, method="tight", tolerance=1e-3)
    assert 0.5 * exact <= found.lower <= exact * (1 + 1e-6) <= found.delta * (1 + 2e-6)
    own = ac.delta(event, epsilon, method="tight").delta
    assert own <= found.delta <= own * 1.002


@pytest.mark.parametrize(("steps", "cut"), [(2, 3.0), (50, 3.0), (50, 4.5), (1000, 4.5), (10**6, 6.0)])
def test_the_attack_is_no_weaker_than_any_threshold(steps, cut):
    """One event, the largest sum above a cut (Chua et al. 2024), is among those that the cells tell apart."""

    def above(shift):
        return -math.expm1(log_ndtr(cut - shift) + (steps - 1) * log_ndtr(cut))

    p, q = above(2.0), above(1.0)
    for epsilon in (0.1, 1.0):
        found = ac.delta(ac.ShuffledEpoch(ac.Gaussian(1.0), steps), epsilon, method="tight", tolerance=1e-3)
        assert found.lower >= (p - math.exp(epsilon) * q) * (1 - 1e-2)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("shifts", "steps"), [((2.0, 1.0), 2), ((0.2, 0.0), 1000), ((40.0, 20.0), 10**9)])
def test_cells_are_probabilities(direction, shifts, steps):
    pair = largest_step_pair(*shifts, steps, direction)
    assert math.fsum(pair._masses) == pytest.approx(1.0, abs=1e-9)
    assert math.fsum(pair._masses * pair._places) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.each_run(3)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("sigma", "steps"), [(0.02, 2), (1 / 75, 2051), (0.00620, 10**9), (1e-3, 2051)])
def test_sums_that_nothing_hides_are_told_apart(adjacency, sigma, steps):
    """No cell is in reach of both: one is certain with the record, and 1e-280 likely without it."""
    epochs = ac.ShuffledEpoch(ac.Gaussian(sigma, adjacency=adjacency), steps)
    for delta in (1e-200, 1e-6, 0.9):
        found = ac.epsilon(epochs, delta, method="tight")
        assert 630 < found.lower < 280 * math.log(10) < found.epsilon
    assert ac.delta(epochs, 600.0, method="tight").lower > 0.999
    several = ac.epsilon(42 * epochs, 1e-6, method="tight", tolerance=0.1)
    assert 20_000 < several.lower < several.epsilon


def test_both_ends_meet_where_nothing_hides_the_record():
    noise = ac.Gaussian(1.0)
    one = ac.epsilon(ac.ShuffledEpoch(ac.Gaussian(2.0), 1), 1e-5, method="tight", tolerance=1e-3)
    assert one.lower <= ac.epsilon(ac.Gaussian(2.0), 1e-5, method="tight").epsilon <= one.epsilon <= one.lower * 1.002
    clear = ac.epsilon(ac.ShuffledEpoch(ac.Gaussian(0.2), 1000), 1e-5, method="tight", tolerance=1e-3)
    assert clear.epsilon <= clear.lower * 1.01
    epoch, step = (ac.epsilon(event, 1e-5, method="renyi") for event in (ac.ShuffledEpoch(noise, 100), noise))
    assert epoch.epsilon == pytest.approx(step.epsilon, rel=1e-12)
    # from below what an attack reaches, from above what a step costs
    found = ac.advantage(ac.ShuffledEpoch(noise, 100))
    assert 0.1 < found.lower < found.upper <= ac.advantage(noise).upper * (1 + 1e-9)


def test_a_shuffle_costs_more_than_poisson_samples():
    """What Poisson samples, or random allocation, would cost is below what an attack on shuffled batches reaches."""
    noise, steps = ac.Gaussian(1.0), 1000
    shuffled = ac.epsilon(10 * ac.ShuffledEpoch(noise, steps), 1e-5, method="tight")
    for other in (10 * steps * ac.PoissonSubsampled(noise, 1 / steps), 10 * ac.RandomAllocation(noise, steps)):
        assert ac.epsilon(other, 1e-5, method="tight").epsilon < shuffled.lower
    assert any("no amplification" in line for line in ac.ShuffledEpoch(noise, steps).caveats())


def test_attacks_that_rounding_hides_reach_nothing():
    found = ac.delta(ac.ShuffledEpoch(ac.Gaussian(5.0), 10**6), 0.1, method="tight")
    assert 0 <= found.lower <= 1e-9
    assert found.delta >= ac.delta(ac.Gaussian(5.0), 0.1, method="tight").delta


def test_plans(tmp_path):
    run = 3 * ac.ShuffledEpoch(ac.ClippedSum(1.1, adjacency="replace"), 100)
    path = tmp_path / "plan.toml"
    path.write_text(run.to_toml())
    assert ac.load_plan(path).run == run


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ac.ShuffledEpoch(ac.Gaussian(1.0), 0), "steps = 0"),
        (lambda: ac.ShuffledEpoch(ac.Laplace(1.0), 10), "accepted: sums with Gaussian noise"),
        (lambda: ac.ShuffledEpoch(1.0, 10), "event = 1.0; accepted: an event"),
        (lambda: ac.PoissonSubsampled(ac.ShuffledEpoch(ac.Gaussian(1.0), 10), 0.1), "accepted"),
    ],
)
def test_what_has_no_price_is_refused(make, message):
    with pytest.raises(ac.AccountantError, match=message):
        make()
