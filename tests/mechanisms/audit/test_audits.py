"""Every mechanism on worst-case neighbours: within its promise, and detected with half its noise."""

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.local_reports import local_randomizer
from mechanisms.noise.source import Seeded, noise_of
from tests.cases import audit_after

QUERY = 0.0
RUNS = 8_000


def records(near, far):
    """Records of class 0 near the query, and of class 1 far from it."""
    return np.array([[QUERY]] * near + [[1.0]] * far), np.array([0] * near + [1] * far)


def sets_nearest(n):
    """The last record is nearest to the query, and shares no label with the one before it."""
    return np.arange(n, 0.0, -1)[:, None], np.array([[1, 1, 0, 0], [0, 0, 1, 1]] * n)[:n]


# name: (data without and with the record, parameters, delta)
CASES = {
    # the winner changes: one count rises, another falls
    "votes": ((records(0, 3), records(1, 3)), {"n_neighbors": 1, "screening_sigma": None, "vote_sigma": 3.0}, 0.1),
    # the plurality crosses the threshold, where a screening reveals most
    "screening": (
        (records(1, 3), records(2, 3)),
        {"n_neighbors": 2, "screening_sigma": 3.0, "threshold": 1.5, "vote_sigma": 1e6},
        0.0,
    ),
    "both": (
        (records(1, 3), records(2, 3)),
        {"n_neighbors": 2, "screening_sigma": 1.0, "threshold": 2.0, "vote_sigma": 2.0},
        0.1,
    ),
    "both, sampled": (
        (records(1, 1), records(2, 1)),
        {"n_neighbors": 2, "screening_sigma": 0.7, "threshold": 2.0, "vote_sigma": 2.0, "sampling_rate": 0.7},
        0.1,
    ),
    # one neighbour takes the place of another that shares no label: every count changes by one
    "label sets": (
        (sets_nearest(2), sets_nearest(3)),
        {"n_neighbors": 1, "clip": 2.0, "vote_sigma": 2.0},
        0.05,
    ),
    # a sample smaller than k: the count only rises
    "few records": (
        (records(0, 2), records(1, 2)),
        {"n_neighbors": 2, "screening_sigma": 1.0, "threshold": 0.5, "vote_sigma": 1.0, "sampling_rate": 0.5},
        0.05,
    ),
}


def halved(parameters, share):
    """Parameters with this share of every noise."""
    noise = ("screening_sigma", "vote_sigma", "sigma", "scale")
    return {name: value * share if name in noise and value else value for name, value in parameters.items()}


def promised(plan, delta):
    """The price of a plan; at delta 0 only that of the screening, where votes have too much noise to matter."""
    if delta == 0.0 and len(plan.entries) > 1:
        (plan,) = (event for event in plan.entries if "Screening" in repr(event))
    return ac.epsilon(plan, delta, conversion="optimal").epsilon


def compared(name, promise, mechanism, neighbours, delta, runs=RUNS):
    """(promise, the audit's lower bound)."""
    found = mx.audit(mechanism, neighbours=neighbours, runs=runs, delta=delta, batched=True, rng=2)
    print(f"{name}: promised {promise:.3f}, at least {float(found):.3f}")
    return promise, float(found)


def audited(case, share, runs=RUNS, **source):
    """The promise, and the lower bound if only this share of the priced noise is drawn."""
    neighbours, changes, delta = CASES[case]
    parameters = {"sampling_rate": 1.0, "n_classes": 2, **changes}

    def mechanism(data, rng, runs):
        model = mx.PrivateKNN(**{**halved(parameters, share), "rng": rng, **source})
        return model.fit(*data).label(np.full((runs, 1), QUERY)).labels

    promise = promised(mx.PrivateKNN(**parameters, max_labels=1).planned(1), delta)
    return compared(case, promise, mechanism, neighbours, delta, runs)


@pytest.mark.audit
@pytest.mark.parametrize("case", CASES)
def test_private_knn_keeps_its_promise(case):
    promise, found = audited(case, 1.0, RUNS * {"votes": 2, "few records": 4}.get(case, 1))
    assert 0.05 < found <= promise


@pytest.mark.audit
# not "few records": there the price of a swap is far above the true epsilon
@pytest.mark.parametrize("case", [case for case in CASES if case != "few records"])
def test_private_knn_with_half_the_noise_is_caught(case):
    promise, found = audited(case, 0.5)
    assert found > promise


@pytest.mark.audit
@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (0.5, True)])
def test_exact_noise(share, caught):
    """With noise from system entropy, as in real releases: both limits are 8 standard deviations away."""
    pytest.importorskip("opendp.prelude")
    promise, found = audited("both", share, runs=6000, rng=None)
    assert found > 0.05
    assert (found > promise) is caught


# --- PATE ----------------------------------------------------------------------------------------------


class Teacher:
    """Answers 1 if its shard holds the differing record."""

    def fit(self, features, labels):
        self.answer = int(labels.any())

    def predict(self, features):
        return np.full(len(features), self.answer)


# name: (mechanism, parameters, delta); a record of class 1 joins 40 of class 0: one teacher's vote changes
PATE = {
    # the class that gains is far behind and wins rarely, which makes the ratio large
    "LNMAX": (mx.LNMax, {"n_teachers": 4, "scale": 2.0}, 0.0),
    # whether the vote is unanimous decides the screening and the vote
    "GNMAX with screening": (
        mx.GNMax,
        {"n_teachers": 2, "sigma": 2.0, "screening_sigma": 1.0, "threshold": 2.0},
        0.1,
    ),
}


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (0.5, True)])
@pytest.mark.parametrize("case", audit_after(1, PATE))
def test_pate(case, share, caught):
    make, parameters, delta = PATE[case]
    neighbours = [np.array([0] * 40 + [1] * extra) for extra in (0, 1)]

    def mechanism(labels, rng, runs):
        model = make(**halved(parameters, share), make_teacher=Teacher, n_classes=2, rng=rng)
        return model.fit(np.zeros((len(labels), 1)), labels).label(np.full((runs, 1), QUERY)).labels

    promise = promised(make(**parameters, max_labels=1).planned(1), delta)
    promise, found = compared(case, promise, mechanism, neighbours, delta)
    assert found > 0.05
    assert (found > promise) is caught


# --- noise and reports by themselves -------------------------------------------------------------------

DRAWN = [
    (ac.Gaussian(1.0), ac.Gaussian(0.5), 0.05),
    (ac.Laplace(1.0), ac.Laplace(0.5), 0.0),
    (ac.DiscreteGaussian(1.0), ac.DiscreteGaussian(0.5), 0.05),
    (ac.DiscreteLaplace(1.0), ac.DiscreteLaplace(0.5), 0.0),
]


@pytest.mark.parametrize(("promised", "quieter", "delta"), DRAWN, ids=lambda value: repr(value))
def test_noise_is_what_its_event_says(promised, quieter, delta):
    found = {}
    for drawn in (promised, quieter):

        def mechanism(value, rng, runs, drawn=drawn):
            return value + noise_of(drawn, Seeded(rng), runs)

        found[drawn] = float(mx.audit(mechanism, neighbours=(0, 1), runs=RUNS, delta=delta, batched=True, rng=3))
    price = ac.epsilon(promised, delta, method="auto").epsilon
    assert 0.5 * price < found[promised] <= price < found[quieter]


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("name", "kind"), [("randomized-response", ac.RandomizedResponse), ("collision", ac.Collision)]
)
def test_reports_are_what_their_event_says(name, kind):
    found = {}
    for epsilon in (1.0, 2.0):
        randomizer = local_randomizer(name, queries=2, classes=2, epsilon=epsilon, neighbours=1, label_ones=1)
        assert isinstance(randomizer.event, kind)

        def mechanism(entry, rng, runs, randomizer=randomizer):
            return list(map(bytes, randomizer.randomize_many(np.full((runs, 1), entry), Seeded(rng))))

        def score(reports, randomizer=randomizer):
            rows = np.frombuffer(b"".join(reports), np.uint8).reshape(len(reports), -1)
            counts = np.array([randomizer.estimate(row[None]).counts for row in rows]).reshape(len(reports), -1)
            return counts[:, 3] - counts[:, 0]

        settings = {"runs": 4000, "delta": 0.0, "batched": True, "rng": 3, "score": score}
        found[epsilon] = float(mx.audit(mechanism, neighbours=(0, 3), **settings))
    assert 0.3 < found[1.0] <= 1.0 < found[2.0]
