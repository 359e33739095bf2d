"""Outcomes that are merged on a grid: below the pair in exact arithmetic, and near it."""

import math
import random
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.events.answers import Outcomes
from accountant.numerics.roots import Interval
from accountant.tight.contraction import contract
from accountant.tight.polygon import Grid
from tests.soak.exact import FewOutcomes, compose, delta_of

EVERYWHERE = Interval(-math.inf, math.inf)


def pair_of(seed, size=None):
    """Exact probabilities of P and Q by rising loss, and the same in floats."""
    dice = random.Random(f"outcomes {seed}")
    size = size or dice.randint(1, 30)
    weights = [[dice.choice([1, 3, 1000, dice.randint(1, 10**6)]) for _ in range(size)] for _ in range(2)]
    p, q = ([Fraction(each, sum(some)) for each in some] for some in weights)
    both = sorted(zip(p, q, strict=True), key=lambda each: each[0] / each[1])
    with mp.workdps(40):
        losses = [float(mp.log(mp.mpf(a.numerator) * b.denominator / (a.denominator * b.numerator))) for a, b in both]
    return both, Outcomes(np.array(losses), np.log([float(a) for a, _ in both]))


def masses_of(found, grid):
    """Losses and P-masses of a measure as it is meant, in the working precision."""
    scale, tilt, some = mp.mpf(found.log_total), mp.mpf(grid.tilt), np.flatnonzero(found.weights).tolist()
    places = [mp.mpf(found.offset) + mp.mpf(grid.step) * (found.first + i) for i in some]
    return [(x, mp.exp(scale - tilt * x) * float(found.weights[i])) for i, x in zip(some, places, strict=True)]


def curve_of(masses, u):
    return mp.fsum(mass * max(1 - u * mp.exp(-x), 0) for x, mass in masses)


@pytest.mark.audit
@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    log_step=st.floats(-2.5, 0.5),
    tilt=st.sampled_from([0.0, 0.7, 20.0, 150.0]),
    share=st.floats(-1.0, 1.0),
)
def test_it_is_below_the_pair_everywhere(seed, log_step, tilt, share):
    """Both profiles are convex; the pair's is straight between its losses: at these and at 0 all is decided."""
    both, outcomes = pair_of(seed)
    grid = Grid(10**log_step, tilt)
    with mp.workdps(60):
        found = masses_of(contract(outcomes, 2e-13, EVERYWHERE, share * grid.step, grid), grid)
        assert mp.fsum(mass for _, mass in found) <= 1
        for a, b in both:
            u = mp.mpf(a.numerator) * b.denominator / (a.denominator * b.numerator)
            exact = mp.fsum(
                max(mp.mpf(c.numerator) / c.denominator - u * d.numerator / d.denominator, 0) for c, d in both
            )
            assert curve_of(found, u) <= exact


@pytest.mark.parametrize("mirrored", [False, True])
def test_nothing_but_variance_is_lost(mirrored):
    """P and Q stay; a smooth pair loses at most the square of two steps for every outcome's variance."""
    x = np.linspace(-5.0, 5.0, 4001)
    log_p = -((x - 0.5) ** 2) / 2
    outcomes = Outcomes(x, log_p - np.logaddexp.reduce(log_p))
    outcomes = outcomes.reversed() if mirrored else outcomes
    for step in (0.2, 0.05, 0.0125):
        grid = Grid(step, 0.0)
        found = contract(outcomes, 0.0, EVERYWHERE, 0.3 * step, grid)
        places = found.offset + step * (found.first + np.arange(found.weights.size))
        assert found.log_total == pytest.approx(0.0, abs=1e-4 * step)
        mean, exact = found.weights @ places, np.exp(outcomes.log_p) @ outcomes.losses
        assert abs(mean - exact) < step**2  # rounding down would lower it by half a step
        assert found.weights @ np.exp(-places) == pytest.approx(
            np.exp(outcomes.log_p - outcomes.losses).sum(), rel=1e-4
        )


def test_outcomes_on_the_grid_stay_and_others_may_be_left_out():
    losses = 0.25 * np.array([-3.0, 0.0, 1.0, 6.0])
    outcomes = Outcomes(losses, np.log([0.1, 0.3, 0.4, 0.2]))
    found = contract(outcomes, 0.0, EVERYWHERE, 0.0, Grid(0.25, 2.0))
    kept = np.flatnonzero(found.weights)
    assert (found.first + kept).tolist() == [-3, 0, 1, 6]
    assert found.weights[kept] == pytest.approx(
        np.array([0.1, 0.3, 0.4, 0.2]) * np.exp(2 * losses) / math.exp(found.log_total)
    )
    half = contract(outcomes, 0.0, Interval(-0.1, 0.3), 0.0, Grid(0.25, 2.0))
    assert (half.first + np.flatnonzero(half.weights)).tolist() == [0, 1]
    assert contract(outcomes, 0.0, Interval(10.0, 11.0), 0.0, Grid(0.25, 2.0)).log_total < -1e11


@pytest.mark.parametrize("seed", range(12))
def test_prices_of_finite_runs(seed):
    """Events whose outcomes the tight route knows, against rational numbers, as narrow as asked."""
    dice = random.Random(f"known outcomes {seed}")
    kinds = [
        FewOutcomes(
            tuple(dice.randint(1, 20) for _ in range(3)), tuple(dice.randint(1, 20) for _ in range(3)), told=True
        )
        for _ in range(2)
    ]
    run = ac.Composition((event, dice.randint(1, 6)) for event in kinds)
    exact, epsilon = delta_of(compose(run)), dice.uniform(0.1, 0.7) * float(run.renyi(math.inf))
    found = ac.delta(run, epsilon, method="tight", tolerance=1e-3)
    with mp.workdps(40):
        assert found.lower <= exact(epsilon) <= found.delta
    assert found.delta - found.lower <= 1e-3 * found.delta
