"""Our accountant in the training plans of jax_privacy, beside its own default."""

import functools

import numpy as np
import pytest

pytest.importorskip("dp_accounting")
pytest.importorskip("jax_privacy")

import dp_accounting as dpa
from jax_privacy.experimental import execution_plan as plans

from accountant.interop.dp_accounting import Accountant

SPECIAL = dpa.NeighboringRelation.REPLACE_SPECIAL

STRATEGIES = {"independent noise": ([1.0], 0.1), "four bands": ([1.0, 0.5, 0.2, 0.1], 0.4)}


@pytest.mark.parametrize("name", STRATEGIES)
def test_plans_are_calibrated_by_our_accountant(name):
    strategy, rate = STRATEGIES[name]
    make = functools.partial(
        plans.BandMFExecutionPlanConfig,
        strategy=np.array(strategy),
        iterations=100,
        epsilon=1.0,
        delta=1e-5,
        sampling_prob=rate,
    )
    ours, theirs = make(accountant=Accountant(SPECIAL)).plan.dp_event, make().plan.dp_event
    found, known = (event.event.event.noise_multiplier for event in (ours, theirs))
    assert found == pytest.approx(known, rel=1e-4)
    assert Accountant(SPECIAL).compose(ours).get_epsilon(1e-5) <= 1.0
    assert Accountant(SPECIAL).compose(ours).guarantee(1e-5).lower > 0.999


def test_truncated_batches_too():
    make = functools.partial(
        plans.BandMFExecutionPlanConfig,
        strategy=np.array([1.0]),
        iterations=50,
        epsilon=1.0,
        delta=1e-5,
        sampling_prob=0.1,
        num_examples=1000,
        truncated_batch_size=110,
    )
    ours, theirs = make(accountant=Accountant(SPECIAL)).plan.dp_event, make().plan.dp_event
    assert ours.event.noise_multiplier == pytest.approx(theirs.event.noise_multiplier, rel=1e-4)
    assert 0.999 < Accountant(SPECIAL).compose(ours).guarantee(1e-5).lower < 1.0
