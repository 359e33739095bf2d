"""Phases of runs: named in order, with public totals, whatever the private records are."""

from contextlib import contextmanager

import numpy as np
import pytest

import mechanisms as mx
from mechanisms.phases import listen, phase


@pytest.fixture
def heard():
    """(name, total, largest number of steps done) of every phase, in the order in which they began."""
    phases = []

    @contextmanager
    def listener(name, total):
        one = [name, total, 0]
        phases.append(one)
        yield lambda done: one.__setitem__(2, done)

    with listen(listener):
        yield phases


def records(n):
    rng = np.random.default_rng(n)
    labels = np.arange(n) % 3
    return np.eye(3)[labels] * 4 + rng.normal(size=(n, 3)), labels


def test_nobody_needs_to_listen():
    with phase("anything", 3) as tick:
        tick(1)


@pytest.mark.parametrize("n", [60, 61])
def test_private_knn(heard, n):
    features = records(n)[0]
    knn = mx.PrivateKNN(5, 0.5, screening_sigma=None, vote_sigma=1.0, max_labels=8, n_classes=3, n_records=60, rng=0)
    mx.label_in_rounds(knn, features, records(n)[1], records(40)[0], queries=8)
    assert heard == [
        ["choosing the queries", None, 0],
        ["indexing the private records", None, 0],
        ["labelling", 8, 8],
        ["training the student", None, 0],
    ]


@pytest.mark.parametrize("n", [60, 61])
def test_others(heard, n):
    features, labels = records(n)
    mx.GNMax(4, 1.0, n_classes=3, max_labels=6, rng=0).fit(features, labels).label(features[:6])
    mx.LinearNoisySGD(1.0, 0.5, 7, n_classes=3, rng=0).fit(features, labels)
    mx.ReverseKNN(5, epsilon=1.0, n_classes=3, rng=0).label(features, labels, records(30)[0])
    assert heard == [
        ["training teachers", 4, 4],
        ["asking teachers", None, 0],
        ["labelling", 6, 6],
        ["training by noisy gradients", 7, 7],
        ["giving records to clients", None, 0],
        ["counting votes, round 1 of 1", None, 0],
    ]


def test_a_phase_ends_with_an_error():
    ended = []

    @contextmanager
    def listener(name, total):
        try:
            yield lambda done: None
        finally:
            ended.append(name)

    with listen(listener), pytest.raises(KeyboardInterrupt), phase("reading"):
        raise KeyboardInterrupt
    assert ended == ["reading"]
