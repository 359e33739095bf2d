"""Sound audits of small mechanisms whose epsilon is known exactly: above it no more often than confidence allows.

AUDITS=10000 makes so many of each; the figures are in notebooks/audits.md.
"""

import math
import os

import numpy as np
import pytest
from scipy import stats

import accountant as ac
import mechanisms as mx
from tests.mechanisms.audit.test_audit import laplace, randomized_response
from tests.mechanisms.audit.test_one_run import responses

pytestmark = pytest.mark.audit

AUDITS = int(os.environ.get("AUDITS", "1000"))
CONFIDENCE = 0.95
DELTA = 0.1


def gaussian(value, rng, runs):
    return value + rng.normal(0, 1.0, runs)


def noisy_bits(included, rng):
    return included + rng.normal(0, 1.0, len(included)) - 0.5


MANY_RUNS = {
    "randomized response": (randomized_response(1.0), 0.0, 1.0),
    "with a leak": (randomized_response(1.0, leak=0.1), 0.1, 1.0),
    "laplace": (laplace(1.0), 0.0, 1.0),
    "gaussian": (gaussian, DELTA, ac.epsilon(ac.Gaussian(1.0), DELTA, method="auto").lower),
}

# m, r, delta, the epsilon that holds at delta
ONE_RUN = {
    "randomized response": (responses(1.0), 40, 40, 0.0, 1.0),
    "abstentions": (responses(1.0), 40, 25, 0.0, 1.0),
    "with a leak": (responses(1.0, leak=0.02), 40, 10, 0.02, 1.0),
    "nothing but a leak": (responses(0.0, leak=0.05), 20, 3, 0.05, 0.0),
    "gaussian": (noisy_bits, 60, 20, 1e-3, ac.epsilon(ac.Gaussian(1.0), 1e-3, method="auto").lower),
}


def assert_as_seldom_as_promised(name, bounds, truth):
    above = sum(bound > truth + 1e-9 for bound in bounds)
    chance = stats.binom.sf(above - 1, len(bounds), 1 - CONFIDENCE)
    print(f"{name}: {above} of {len(bounds)} above {truth:.3f} (p = {chance:.2g}), largest {max(bounds):.3f}")
    assert chance > 1e-3


@pytest.mark.parametrize("name", MANY_RUNS)
def test_many_runs(name):
    mechanism, delta, truth = MANY_RUNS[name]
    settings = {"neighbours": (0, 1), "runs": 200, "delta": delta, "confidence": CONFIDENCE, "batched": True}
    bounds = [float(mx.audit(mechanism, **settings, rng=seed)) for seed in range(AUDITS)]
    assert_as_seldom_as_promised(name, bounds, truth)


@pytest.mark.parametrize("name", ONE_RUN)
def test_one_run(name):
    mechanism, records, guesses, delta, truth = ONE_RUN[name]
    settings = {"records": records, "guesses": guesses, "delta": delta, "confidence": CONFIDENCE}
    bounds = [float(mx.audit_one_run(mechanism, **settings, rng=seed)) for seed in range(AUDITS)]
    assert_as_seldom_as_promised(name, bounds, truth)


def test_p_values_of_whole_promises():
    refuted = [
        mx.audit_one_run(noisy_bits, records=40, guesses=15, delta=0.0, rng=seed).p_value(ac.Gaussian(1.0)) <= 0.05
        for seed in range(AUDITS // 10)
    ]
    assert stats.binom.sf(np.sum(refuted) - 1, len(refuted), 0.05) > 1e-3


def test_at_low_confidence_one_run_does_go_wrong_so_the_tests_above_can_fail():
    settings = {"records": 40, "guesses": 40, "delta": 0.0, "confidence": 0.3}
    bounds = [float(mx.audit_one_run(responses(1.0), **settings, rng=seed)) for seed in range(200)]
    assert 60 < sum(bound > 1.0 for bound in bounds) <= 160
    assert math.isfinite(max(bounds))
