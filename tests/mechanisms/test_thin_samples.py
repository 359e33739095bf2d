"""Warnings about samples that are too small for the neighbours or the threshold: once, early, from public numbers."""

import warnings

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.private_knn import ThinSampleWarning


def records(n, n_classes=10):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_classes, n)
    return np.eye(n_classes)[labels] * 5 + rng.normal(size=(n, n_classes)), labels


def warnings_of(knn, n):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        knn.fit(*records(n))
        knn.fit(*records(n))
    return [str(each.message) for each in caught if each.category is ThinSampleWarning]


def test_what_is_said_and_what_would_pass():
    (said,) = warnings_of(mx.PrivateKNN(rng=0, n_classes=10), 3000)
    assert said == (
        "n_neighbors = 300, threshold = 180: of 3000 records, sampled at rate 0.15, about 450 vote, 45 of each of 10 "
        "classes, so that few queries pass the screening; would pass: threshold of at most 36, sampling_rate of at "
        "least 0.75, or n_neighbors of at most 45"
    )


@pytest.mark.parametrize(
    "better", [{"n_neighbors": 45}, {"threshold": 36.0}, {"sampling_rate": 0.75}, {"screening_sigma": None}]
)
def test_what_would_pass_is_not_warned_of(better):
    assert warnings_of(mx.PrivateKNN(rng=0, n_classes=10).set_params(**better), 3000) == []


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ({}, (0, 0.2)),
        ({"n_neighbors": 45}, (0.9, 1)),
        ({"sampling_rate": 0.75}, (0.9, 1)),
        ({"threshold": 36.0}, (0.9, 1)),
    ],
)
def test_advice_is_right_where_noise_is_small(given, answered):
    knn = mx.PrivateKNN(screening_sigma=1e-3, vote_sigma=1e-3, n_classes=10, rng=0).set_params(**given)
    with warnings.catch_warnings(action="ignore", category=ThinSampleWarning):
        out = knn.fit(*records(3000)).label(records(3000)[0][:40])
    assert answered[0] <= out.answered.mean() <= answered[1]


def test_more_neighbours_than_a_sample_has():
    (said,) = warnings_of(mx.PrivateKNN(200, 0.1, screening_sigma=None, n_classes=10, rng=0), 1000)
    assert said == (
        "n_neighbors = 200: of 1000 records, sampled at rate 0.1, about 100 vote, all of them on every query; accepted "
        "without a warning: up to 100"
    )


def test_neighbouring_data_get_the_same_warning():
    """With a public number of records, and without one where both round to the same."""
    for given, sizes in (({"n_records": 2500}, (400, 401)), ({}, (2951, 3049))):
        found = [warnings_of(mx.PrivateKNN(rng=0, n_classes=10, **given), n) for n in sizes]
        assert found[0] == found[1] != []


def test_rounds_warn_once():
    features, labels = records(500)
    knn = mx.PrivateKNN(100, 0.2, threshold=30.0, screening_sigma=500.0, vote_sigma=1.0, n_classes=10, rng=0)
    with pytest.warns(ThinSampleWarning) as caught:
        mx.label_in_rounds(knn, features, labels, features[:60], queries=20, rounds=2)
    assert len([each for each in caught if each.category is ThinSampleWarning]) == 1


def test_the_number_of_records_is_checked():
    with pytest.raises(ac.ParameterError, match=r"n_records = 0; accepted: an integer in \[1"):
        mx.PrivateKNN(n_classes=10, n_records=0).fit(*records(400))
