"""A sweep over a Dask cluster of processes, one of which is killed, gives what it gives in this process."""

import functools
import os
import time

import numpy as np
import pytest

import accountant as ac
from tests.mechanisms.shards.kills import Killer, cluster_of

pytest.importorskip("distributed")

KILLS = int(os.environ.get("SWEEP_KILLS", 1))


def slow_gaussian(sigma, wait=0.0):
    time.sleep(wait)
    return ac.Gaussian(sigma)


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("separate", [False, True], ids=["local", "separate"])
def test_a_worker_that_is_killed_changes_no_price(separate):
    grid = {"sigma": np.linspace(1.0, 5.0, 120)}
    expected = ac.sweep(slow_gaussian, grid, delta=1e-5, n_jobs=1)
    kills = runs = 0
    with cluster_of(separate) as workers:
        while kills < KILLS:
            with Killer(workers, KILLS - kills) as killer:
                found = ac.sweep(functools.partial(slow_gaussian, wait=0.1), grid, delta=1e-5, backend="dask")
            kills, runs = kills + killer.kills, runs + 1
            for name, column in expected.items():
                assert np.array_equal(found[name], column), name
    assert kills >= KILLS
    assert runs >= 1
