"""PATE: shards that do not depend on other records, votes, and their price."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

import accountant as ac
import mechanisms as mx

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(3, 4)) * 4
Y = RNG.integers(0, 3, 600)
X = CENTRES[Y] + RNG.normal(size=(600, 4))
TRUTH = RNG.integers(0, 3, 50)
QUERIES = CENTRES[TRUTH] + RNG.normal(size=(50, 4))


def gnmax(**changes):
    return mx.GNMax(**{"n_teachers": 20, "sigma": 2.0, "make_teacher": GaussianNB, "n_classes": 3, "rng": 0, **changes})


def test_labels_are_right_when_the_noise_is_small():
    out = gnmax().fit(X, Y).label(QUERIES)
    assert np.mean(out.labels == TRUTH) > 0.9
    assert out.composition == 50 * ac.GNMax(2.0)
    assert out.odometer


def test_laplace_baseline():
    model = mx.LNMax(n_teachers=20, scale=1.0, make_teacher=GaussianNB, n_classes=3, max_labels=50, rng=0)
    out = model.fit(X, Y).label(QUERIES)
    assert np.mean(out.labels == TRUTH) > 0.9
    assert out.planned == 50 * ac.LNMax(1.0)
    assert not out.odometer


def test_screening_is_priced_and_a_cap_stops_the_run():
    model = gnmax(screening_sigma=3.0, threshold=14, max_labels=10)
    out = model.fit(X, Y).label(QUERIES)
    assert out.answered.sum() == 10
    screening = ac.NoisyScreening(3.0, 14, 20)
    last = int(np.flatnonzero(out.answered)[-1])
    assert out.composition == (last + 1) * screening + 10 * ac.GNMax(2.0)
    assert out.planned == 50 * screening + 10 * ac.GNMax(2.0)
    assert model.spent_ == out.composition


def test_one_more_record_changes_one_teacher():
    whole, fewer = gnmax().fit(X, Y), gnmax().fit(X[:-1], Y[:-1])
    votes = np.abs(whole.votes(QUERIES) - fewer.votes(QUERIES))
    assert votes.sum(axis=1).max() <= 2
    assert votes.max() <= 1


@pytest.mark.parametrize("teachers", [1, 300])
def test_few_and_many_shards(teachers):
    """Shards of one class, and empty ones, still vote."""
    model = gnmax(n_teachers=teachers, make_teacher=lambda: DummyClassifier(strategy="most_frequent"))
    assert np.all(model.fit(X, Y).votes(QUERIES).sum(axis=1) == teachers)


def test_default_teacher_and_no_queries():
    out = mx.GNMax(n_teachers=2, sigma=1.0, rng=0).fit(X, Y).label([])
    assert out.labels.shape == (0,)
    assert out.composition.releases == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_teachers": 0}, "n_teachers = 0"),
        ({"n_teachers": 601}, "at most the 600 records"),
        ({"sigma": -1.0}, r"sigma = -1"),
        ({"screening_sigma": 0.0}, "^screening_sigma = 0"),
        ({"n_classes": 2}, r"label 2; accepted: 0\.\.1"),
    ],
)
def test_bad_parameters(changes, words):
    with pytest.raises(ac.ParameterError, match=words):
        gnmax(**changes).fit(X, Y)


def test_label_before_fit():
    with pytest.raises(ac.ParameterError, match="before fit"):
        gnmax().label(QUERIES)


class Recorder:
    """Answers 0 unless the differing record is in its shard."""

    def fit(self, features, labels):
        self.answer = int((features[:, 0] > 100).any())

    def predict(self, features):
        return np.full(len(features), self.answer)


@pytest.mark.audit
@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (0.5, True)])
def test_audit(share, caught):
    """The only teacher changes its vote, and so the winner."""
    features, labels = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    other = features.copy()
    other[0] = 200.0

    def mechanism(data, rng, runs):
        model = mx.GNMax(1, 2.0 * share, make_teacher=Recorder, n_classes=2, rng=rng)
        return model.fit(data, labels).label(np.zeros((runs, 1))).labels

    promise = ac.epsilon(ac.GNMax(2.0), 0.1, conversion="optimal").epsilon
    found = float(mx.audit(mechanism, neighbours=(features, other), runs=25_000, delta=0.1, batched=True, rng=3))
    assert (found > promise) is caught


def test_a_teacher_that_fails_to_answer_stops_no_run():
    """It fails or not, depending on its shard."""
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(0)
    records, labels = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    model = mx.GNMax(20, 5.0, lambda: KNeighborsClassifier(5), n_classes=3, rng=0).fit(records, labels)
    assert model.votes(records[:4]).sum(axis=1).tolist() == [20] * 4
    assert model.label(records[:4]).answered.all()


class Picky:
    """Learns from three records of each class, or not at all, as classifiers with cross-validation do."""

    def fit(self, features, labels):
        if np.bincount(labels).min() < 3:
            raise ValueError(f"less than 3 records of a class: {labels}")
        return self

    def predict(self, features):
        return np.ones(len(features), int)


@pytest.mark.parametrize("records", [40, 39])
def test_a_teacher_that_cannot_learn_answers_class_0(records):
    """An error would tell that the shard has too few records of a class."""
    labels = np.r_[[0] * 37, [1] * 3][:records]
    model = mx.GNMax(1, 50.0, Picky, n_classes=2, rng=0).fit(np.zeros((records, 3)), labels)
    assert model.votes(np.zeros((1, 3))).tolist() == [[0, 1] if records == 40 else [1, 0]]
