"""Random runs in the objects of dp_accounting against exact prices in 30 digits."""

import math

import numpy as np
import pytest

pytest.importorskip("dp_accounting")
pytest.importorskip("mpmath")

import dp_accounting as dpa
import mpmath

from accountant.interop.dp_accounting import Accountant

ADD, REPLACE, SPECIAL = dpa.NeighboringRelation


def gaussian_delta(square, epsilon):
    """Of N(mu, 1) against N(0, 1), mu the root of `square` (Balle & Wang 2018, Thm 8)."""
    mu = mpmath.sqrt(square)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def draw_gaussians(rng):
    relation = (ADD, REPLACE, SPECIAL)[rng.integers(3)]
    moved = 2 if relation is REPLACE else 1
    parts = [(float(rng.uniform(0.5, 20)), int(10 ** rng.uniform(0, 4))) for _ in range(rng.integers(1, 5))]
    event = dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(s), count) for s, count in parts])
    square = sum(count * mpmath.mpf(moved) ** 2 / mpmath.mpf(s) ** 2 for s, count in parts)
    return event, relation, lambda epsilon: gaussian_delta(square, epsilon)


def draw_sample(rng):
    sigma, rate = float(rng.uniform(0.3, 5)), float(10 ** rng.uniform(-4, -0.1))
    event = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(sigma))

    def delta(epsilon):
        inner = mpmath.log1p(mpmath.expm1(epsilon) / mpmath.mpf(rate))
        return mpmath.mpf(rate) * gaussian_delta(1 / mpmath.mpf(sigma) ** 2, inner)

    return event, ADD, delta


def draw_responses(rng):
    """Binary responses: the binomial sum over those that were flipped."""
    noise, count = float(rng.uniform(0.3, 0.95)), int(rng.integers(1, 60))
    event = dpa.SelfComposedDpEvent(dpa.RandomizedResponseDpEvent(noise, 2), count)
    wrong = mpmath.mpf(noise) / 2
    step = mpmath.log((1 - wrong) / wrong)

    def delta(epsilon):
        terms = (
            mpmath.binomial(count, i) * wrong**i * (1 - wrong) ** (count - i) * (1 - mpmath.exp(epsilon - loss))
            for i in range(count + 1)
            if (loss := (count - 2 * i) * step) > epsilon
        )
        return mpmath.fsum(terms)

    return event, REPLACE, delta


@pytest.mark.parametrize("draw", [draw_gaussians, draw_sample, draw_responses])
def test_no_run_costs_less_than_the_truth_nor_noticeably_more(draw):
    rng = np.random.default_rng(16)
    for _ in range(20):
        event, relation, exact = draw(rng)
        target = float(10 ** rng.uniform(-12, -2))
        epsilon = Accountant(relation).compose(event).get_epsilon(target)
        with mpmath.workdps(30):
            found = mpmath.mpf(epsilon)
            assert exact(found) <= mpmath.mpf(target) * (1 + mpmath.mpf("1e-9")), (event, target)
            if epsilon > 1e-9:
                assert exact(found * (1 - mpmath.mpf("5e-6"))) > mpmath.mpf(target), (event, target)
        point = float(rng.uniform(0.1, 2)) * max(epsilon, 0.1)
        delta = Accountant(relation).compose(event).get_delta(point)
        with mpmath.workdps(30):
            truth = exact(mpmath.mpf(point))
            assert mpmath.mpf(delta) >= truth * (1 - mpmath.mpf("1e-9"))
            assert delta <= float(truth) * 1.002 + 1e-300 or math.isclose(delta, float(truth), rel_tol=2e-3)
