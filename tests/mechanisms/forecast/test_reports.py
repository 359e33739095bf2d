"""Chances of labels from private reports: against enumeration in rationals, and against reports that were drawn."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.forecast.report_chances import report_probability
from mechanisms.local_reports.collision import CollisionReports
from mechanisms.local_reports.randomized_response import RandomizedBits
from mechanisms.local_reports.randomizer import Responses
from mechanisms.noise.source import as_randomness
from mechanisms.queries import cluster_centres
from tests.mechanisms.forecast.test_forecasts import CLASSES, PRIVATE, PUBLIC, TRUTH, N


def by_enumeration(p, q, votes, n, label):
    """Over all numbers of ones of all labels."""

    def law(t):
        found = [Fraction(0)] * (n + 1)
        for hits, misses in product(range(t + 1), range(n - t + 1)):
            own = comb(t, hits) * p**hits * (1 - p) ** (t - hits)
            found[hits + misses] += own * comb(n - t, misses) * q**misses * (1 - q) ** (n - t - misses)
        return found

    laws, total = [law(t) for t in votes], Fraction(0)
    for ones in product(range(n + 1), repeat=len(votes)):
        if ones.index(max(ones)) == label:  # ties go to the lower label
            chance = Fraction(1)
            for each, number in zip(laws, ones, strict=True):
                chance *= each[number]
            total += chance
    return total


@pytest.mark.parametrize(("p", "q"), [(Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 2), Fraction(1, 8))])
@pytest.mark.parametrize("votes", [[2, 1, 0], [0, 3, 1], [1, 1, 1], [5, 0, 0], [0, 0, 0]])
def test_chances_are_those_of_an_enumeration(p, q, votes):
    responses = Responses(float(p), float(q), float(p - q))
    labels = np.arange(3)
    found = report_probability(responses, np.tile(np.array(votes, float), (3, 1)), 5, labels)
    exact = [float(by_enumeration(p, q, votes, 5, label)) for label in labels]
    assert found == pytest.approx(exact, abs=1e-14)
    assert sum(exact) == pytest.approx(1.0)


def test_limits():
    """Reports without noise return the plurality; reports without signal guess, and ties favour lower labels."""
    votes, labels = np.array([[40.0, 30, 2], [7, 9, 90]]), np.array([0, 2])
    assert report_probability(Responses(1.0, 0.0, 1.0), votes, 200, labels).tolist() == [1.0, 1.0]
    same = report_probability(Responses(0.5, 0.5, 1e-18), np.tile([40.0, 30, 2], (3, 1)), 5000, np.arange(3))
    assert same == pytest.approx([1 / 3] * 3, abs=0.01)
    assert same[0] > same[1] > same[2]


@pytest.mark.parametrize("make", [CollisionReports, RandomizedBits])
def test_chances_are_those_of_drawn_reports(make):
    """Three queries of four classes; the first label of each is compared, within five standard errors."""
    randomizer = make(12, 1, 1.5)
    entries = np.repeat(np.arange(12), [30, 22, 5, 3, 8, 8, 8, 6, 0, 9, 4, 2])
    truth = np.bincount(entries, minlength=12).reshape(3, 4)
    runs, right = 600, np.zeros(3)
    for seed in range(runs):
        counts = randomizer.estimate(randomizer.randomize_many(entries[:, None], as_randomness(seed))).counts
        right += counts.reshape(3, 4).argmax(axis=1) == truth.argmax(axis=1)
    found = report_probability(randomizer.responses, truth.astype(float), len(entries), truth.argmax(axis=1))
    assert np.abs(right / runs - found).max() < 5 * 0.5 / np.sqrt(runs)


@pytest.mark.audit
@pytest.mark.parametrize("randomizer", ["collision", "randomized-response"])
def test_local_models_label_as_well_as_foreseen(randomizer):
    values = {"queries": 15, "n_neighbors": 1, "model": "local", "randomizer": randomizer}
    best = mx.plan_labelling("reverse-knn", PUBLIC, TRUTH, epsilon=3.0, n_records=N, **values).best
    assert (best.parameters["model"], best.parameters["randomizer"]) == ("local", randomizer)
    assert best.epsilon <= 3.0
    centres, right = cluster_centres(PUBLIC, 15), []
    for number, (records, labels) in enumerate(PRIVATE):
        for seed in range(10):
            model = best.estimator(rng=10 * number + seed)
            right.append(np.mean(model.label(records, labels, PUBLIC, queries=centres).labels == TRUTH))
    assert best.accuracy == pytest.approx(np.mean(right), abs=0.05)


@pytest.mark.parametrize("models", [("central", "local"), pytest.param(("local", "shuffle"), marks=pytest.mark.audit)])
def test_a_plan_compares_trust_models(models):
    """Who trusts more gets more for the same epsilon."""
    values = {"queries": 10, "n_neighbors": 1, "noise": "laplace", "randomizer": "collision"}
    found = mx.plan_labelling(
        "reverse-knn", PUBLIC, TRUTH, epsilon=1.0, delta=1e-5, n_records=N, model=models, **values
    )
    reach = {each.parameters.get("model", "central"): each.reach for each in found.forecasts}
    assert set(reach) == set(models)
    assert max(reach, key=reach.get) == ("central" if "central" in models else "shuffle")
    assert reach["local"] > 1 / CLASSES
    assert all(each.epsilon <= 1.0 for each in found.forecasts)


def test_reports_without_known_chances_are_refused():
    with pytest.raises(ac.ParameterError, match="randomizer = 'separation'; accepted: collision"):
        mx.plan_labelling(
            "reverse-knn", PUBLIC, TRUTH, epsilon=1.0, n_records=N, model="local", randomizer="separation"
        )
    with pytest.raises(ac.ParameterError, match="delta = 0 in the shuffle model"):
        mx.plan_labelling("reverse-knn", PUBLIC, TRUTH, epsilon=1.0, n_records=N, model="shuffle")
