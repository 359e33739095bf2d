"""Ind-KNN on worst-case neighbours: within its promise, and detected with half its noise."""

import numpy as np
import pytest

import mechanisms as mx

pytestmark = pytest.mark.audit

RUNS = 3_000
NEAR, FAR = [1.0, 0.0], [0.0, 1.0]

# name: (records of class 1 that differ are the last one; queries; parameters)
AUDITS = {
    # nobody else near the query
    "empty": ([FAR], [NEAR], {"budget": 0.6, "count_sigma": 1.0, "vote_sigma": 0.5, "min_count": 0.05}),
    # after the first answers less than a full vote is left: the record spends all of it
    "retiring": ([FAR], [NEAR] * 2, {"budget": 0.6, "count_sigma": 1.5, "vote_sigma": 1.5, "min_count": 0.05}),
    # a budget that holds one count and the rest of it a vote
    "last breath": ([NEAR] * 3, [NEAR], {"budget": 0.3, "count_sigma": 1.5, "vote_sigma": 0.2, "min_count": 1.0}),
    # the number of neighbours reveals everything
    "count": ([NEAR] * 3, [NEAR], {"budget": 0.5, "count_sigma": 1.0, "vote_sigma": 1e4, "min_count": 1.0}),
}


def audited(case, share, runs=RUNS, rng=True):
    """The promise, and the lower bound if only this share of the noise is drawn."""
    others, queries, parameters = AUDITS[case]
    neighbours = [np.array(others + [NEAR] * more, np.float32) for more in (0, 1)]

    class Quieter:
        def __init__(self, source):
            self.source = source

        def gaussian(self, sigma, size, grain):
            return share * self.source.gaussian(sigma, size, grain)

    def mechanism(features, generator):
        labels = [0] * len(others) + [1] * (len(features) - len(others))
        model = mx.IndividualKNN(**parameters, threshold=0.5, n_classes=2, rng=generator if rng else None)
        model.fit(features, labels)
        model._source = Quieter(model._source)
        votes = model.predict(queries).sum()
        return float(model.counts_.sum() / parameters["count_sigma"] ** 2 + votes)

    delta = 0.02
    found = mx.audit(mechanism, neighbours=neighbours, runs=runs, delta=delta, rng=4)
    promise = mx.IndividualKNN(**parameters, threshold=0.5).guarantee(delta).epsilon
    print(f"{case}: promised {promise:.3f}, at least {float(found):.3f}")
    return promise, float(found)


@pytest.mark.parametrize("case", AUDITS)
def test_it_keeps_its_promise(case):
    promise, found = audited(case, 1.0)
    assert 0.05 < found <= promise


@pytest.mark.parametrize("case", AUDITS)
def test_half_the_noise_is_caught(case):
    promise, found = audited(case, 0.5, 8_000 if case == "retiring" else RUNS)
    assert found > promise


def test_exact_noise_keeps_the_promise():
    """With noise from system entropy, as in real releases."""
    pytest.importorskip("opendp.prelude")
    promise, found = audited("last breath", 1.0, runs=2000, rng=False)
    assert found <= promise
