"""Every mechanism, run on worst-case neighbours: never above its promise, and caught with half its noise."""

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx

QUERY = 0.0


def records(near, far):
    """So many records next to the query, all of class 0, and so many far from it, of class 1."""
    return np.array([[QUERY]] * near + [[1.0]] * far), np.array([0] * near + [1] * far)


# name: (data without and with the record, parameters, delta)
CASES = {
    # the winner changes: one count rises, another falls
    "votes": ((records(0, 3), records(1, 3)), {"n_neighbors": 1, "screening_sigma": None, "vote_sigma": 2.0}, 0.1),
    # the plurality crosses the threshold, where a screening tells most
    "screening": (
        (records(1, 3), records(2, 3)),
        {"n_neighbors": 2, "screening_sigma": 3.0, "threshold": 1.5, "vote_sigma": 1e6},
        0.0,
    ),
    "both": (
        (records(1, 3), records(2, 3)),
        {"n_neighbors": 2, "screening_sigma": 2.0, "threshold": 1.5, "vote_sigma": 2.0},
        0.05,
    ),
    "both, sampled": (
        (records(1, 3), records(2, 3)),
        {"n_neighbors": 2, "screening_sigma": 1.0, "threshold": 1.5, "vote_sigma": 1.0, "sampling_rate": 0.7},
        0.05,
    ),
    # a sample smaller than k: the count only rises
    "few records": (
        (records(0, 2), records(1, 2)),
        {"n_neighbors": 2, "screening_sigma": 1.0, "threshold": 0.5, "vote_sigma": 1.0, "sampling_rate": 0.5},
        0.05,
    ),
}


def audited(case, noise_share):
    """The promise, and the audit's lower bound when only that share of the priced noise is drawn."""
    neighbours, changes, delta = CASES[case]
    parameters = {"sampling_rate": 1.0, "n_classes": 2, **changes}

    def mechanism(data, rng, runs):
        drawn = dict(parameters)
        for name in ("screening_sigma", "vote_sigma"):
            drawn[name] = drawn[name] and drawn[name] * noise_share
        return mx.PrivateKNN(**drawn, rng=rng).fit(*data).label(np.full((runs, 1), QUERY)).labels

    plan = mx.PrivateKNN(**parameters, max_labels=1).planned(1)
    if delta == 0.0:  # what the label adds at this noise is below the audit's resolution
        (promise,) = (float(event.renyi(np.inf)) for event in plan.entries if "Screening" in repr(event))
    else:
        promise = ac.epsilon(plan, delta, conversion="optimal").epsilon
    found = mx.audit(mechanism, neighbours=neighbours, runs=25_000, delta=delta, batched=True, rng=2)
    print(f"{case}: promised {promise:.3f}, at least {float(found):.3f}")
    return promise, float(found)


@pytest.mark.parametrize("case", CASES)
def test_private_knn_keeps_its_promise(case):
    promise, found = audited(case, 1.0)
    assert 0.05 < found <= promise


@pytest.mark.parametrize("case", ["votes", "screening"])
def test_private_knn_with_half_the_noise_is_caught(case):
    promise, found = audited(case, 0.5)
    assert found > promise
