"""What Fourier inversion takes: the estimates, and prices that it must not stand in the way of."""

import math

import numpy as np
import pytest

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.errors import OutOfPatience
from accountant.patience import allow_work
from accountant.tight import inversion, loss_composition
from accountant.tight.directed_run import Question
from accountant.tight.inversion import prepare_inversion
from accountant.tight.inversion_kernels import transform_run
from accountant.tight.inversion_plan import MOST_PLANNING, plan_inversion, rows_of
from accountant.tight.inversion_work import SHRINK, estimate_falls


def sampled(sigma, rate):
    return ac.PoissonSubsampled(ac.Gaussian(sigma), rate)


def random_run(seed):
    """Mild where the seed is even; else of any noise, rates and counts."""
    dice = np.random.default_rng(seed)
    mild = seed % 2 == 0
    middle = math.exp(dice.uniform(-0.5, 1.5)) if mild else 10 ** dice.uniform(-1.2, 2.0)
    rate = 10 ** (dice.uniform(-4, -1) if mild else dice.uniform(-8, -0.2))
    spread = dice.uniform(0.0, 0.3 if mild else 1.0)
    events = [
        (
            sampled(middle * math.exp(spread * dice.normal()), min(rate * math.exp(spread * dice.normal()), 0.999)),
            int(10 ** dice.uniform(1, 2 if mild else 6)),
        )
        for _ in range(int(10 ** dice.uniform(0, 2.4)))
    ]
    return ac.Composition(events)


@pytest.mark.parametrize("part", range(3))
def test_the_work_is_about_what_is_expected(part):
    """One run took 4.2 times as much, and one 13 times less."""
    seen = 0
    for seed in range(8 * part, 8 * part + 8):
        attempt = prepare_inversion(random_run(seed), Question(1e-6, 0.0, 0.01))
        for way in () if attempt is None else attempt.ways:
            if way.work > 2e8:
                continue
            done = transform_run(
                way.rows, attempt.plan.slope, way.line, way.log_least, math.inf, np.empty((3, way.line.last + 1))
            )
            assert 0.4 < done.work / way.work < 1.8, seed
            seen += 1
    assert seen >= 6


@pytest.mark.audit
@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0, 12.0])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.7])
@pytest.mark.parametrize("alpha", [2.5, -1.5])
def test_falls_are_about_what_is_estimated(mu, rate, alpha):
    """Against sums over points that resolve them."""
    high = 12.0 + max(alpha * mu, 0.0)
    y = np.linspace(-12.0, high, 200_001)
    losses = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * y - mu * mu / 2)
    logs = alpha * losses - y * y / 2
    density = np.exp(logs - logs.max())
    density /= density.sum()
    losses -= density @ losses
    spread = math.sqrt(density @ losses**2)
    places = 3.0 / spread * SHRINK ** -np.arange(20.0)
    found = estimate_falls(mu, rate, 1e3, alpha, (-12.0, high), places)
    for x, fall in zip(places, found, strict=True):
        lost = density @ (2 * np.sin(x * losses / 2) ** 2)
        actual = -500.0 * math.log1p(-2 * lost + lost**2 + (density @ np.sin(x * losses)) ** 2)
        assert fall == pytest.approx(actual, rel=0.25, abs=0.01)


SLOW = ac.Composition([(sampled(0.05 + 0.0001 * j, 0.001 + 1e-5 * j), 1) for j in range(125)])


def test_planning_takes_no_more_than_a_share_of_the_patience():
    """Its orders left nothing for the Rényi price: 1000 such releases were refused where 2.6 s would do."""
    work = rows_of(SLOW).order_work / 1e9
    assert 0.02 < work < 0.05
    with allow_work(20 * work) as allowance:
        assert plan_inversion(SLOW, Question(1e-6, 0.0, 0.01)) is None
    assert allowance.taken == 0.0
    with allow_work(26 * work / MOST_PLANNING) as allowance:
        assert plan_inversion(SLOW, Question(1e-6, 0.0, 0.01)) is not None
    assert 24 * work < allowance.taken < 27 * work


@pytest.mark.audit
def test_a_rényi_price_is_counted_once_within_a_price():
    with allow_work(100.0) as allowance:
        first = ac.epsilon(SLOW, 1e-6, method="renyi")
        once = allowance.taken
        assert once > 0.25
        assert ac.epsilon(SLOW, 1e-6, method="renyi") == first
        assert allowance.taken == once
        ac.epsilon(SLOW, 1e-7, method="renyi")
        assert allowance.taken == pytest.approx(2 * once)
        ac.delta(SLOW, first.epsilon, method="renyi")
        assert allowance.taken == pytest.approx(3 * once)
    with allow_work(100.0) as allowance:  # it counts again in another one
        ac.epsilon(SLOW, 1e-6, method="renyi")
    assert allowance.taken == once


@pytest.mark.audit
def test_where_inversion_takes_too_long_there_is_the_rényi_price():
    run = ac.Composition([(sampled(0.05 + 5e-5 * j, 0.001 + 9e-6 * j), 1) for j in range(1000)])
    with pytest.raises(OutOfPatience):
        ac.epsilon(run, 1e-6, method="tight")
    found = ac.epsilon(run, 1e-6)
    assert found.epsilon == ac.epsilon(run, 1e-6, method="renyi").epsilon


FAR = 200 * sampled(2.2, 0.0044)


def test_another_attempt_that_does_not_fit_is_not_begun():
    """It was refused, and with it what grids may do."""
    attempt = prepare_inversion(FAR, Question(1e-12, 0.0, 1e-3))
    with allow_work((attempt.work + 1.0) / 1e9):
        assert attempt.solve() is None
    assert attempt.solve() is not None


def test_what_does_not_fit_is_left_to_grids(monkeypatch):
    """A quick inversion that patience does not allow is no reason to refuse."""
    run = 3 * sampled(1.0, 0.3) + 40 * sampled(2.0, 0.01)
    question = Question(1e-5, 0.0, 0.1)
    attempt = prepare_inversion(run, question)
    assert attempt is not None
    assert attempt.quick
    known = loss_composition.settle_on_grids(run, question, None, DIRECTIONS)
    monkeypatch.setattr(inversion.Attempt, "quick", True)
    monkeypatch.setattr(loss_composition, "prepare_inversion", lambda *_: attempt._replace(work=1e12))
    with allow_work(5.0):
        found = loss_composition.bound_epsilon(list(run), 1e-5, 0.1)
    assert max(found.lower, known.lower) <= min(found.upper, known.upper)
