"""The network student: learns from few labels and many points; its hidden layer gives features."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

import accountant as ac
from mechanisms.students.network import NetworkStudent, check_answers

RNG = np.random.default_rng(0)
BUNCH = load_digits()
ORDER = RNG.permutation(len(BUNCH.data))
DIGITS, TRUTH = BUNCH.data[ORDER].astype(np.float32), BUNCH.target[ORDER]
FEW = np.where(np.arange(900) < 90, TRUTH[:900], -1)
"""900 public points, one in ten answered."""


@pytest.fixture(scope="module")
def student():
    return NetworkStudent().fit(DIGITS[:900], FEW)


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_unanswered_points_help(student):
    accuracy = np.mean(student.predict(DIGITS[900:]) == TRUTH[900:])
    alone = NetworkStudent().fit(DIGITS[:90], FEW[:90])
    assert accuracy > 0.9
    assert accuracy > np.mean(alone.predict(DIGITS[900:]) == TRUTH[900:]) + 0.02


def test_wrong_answers_are_outvoted():
    labels = TRUTH[:900].copy()
    wrong = RNG.random(900) < 0.2
    labels[wrong] = RNG.integers(0, 10, wrong.sum())
    assert np.mean(NetworkStudent(clamping=0.9).fit(DIGITS[:900], labels).labels_ == TRUTH[:900]) > 0.9


def test_transform_is_the_hidden_layer(student):
    """The last layer's weights applied to it give the network's output."""
    hidden = student.transform(DIGITS[900:])
    assert hidden.shape == (len(DIGITS) - 900, 64)
    assert hidden.dtype == np.float32
    assert hidden.min() == 0
    network = student.network_
    found = softmax(hidden @ network.coefs_[1] + network.intercepts_[1])
    scaled = (DIGITS[900:] - DIGITS[:900].mean(axis=0)) / DIGITS[:900].std()
    np.testing.assert_allclose(found, network.predict_proba(scaled), atol=1e-4)
    assert np.mean(student.predict(DIGITS[900:]) == found.argmax(axis=1)) > 0.999


def test_a_row_is_transformed_by_itself(student):
    """Equal in every bit: one private record more must not reorder other neighbours."""
    whole = student.transform(DIGITS)
    for gone in range(0, 900, 90):
        fewer = student.transform(np.delete(DIGITS, gone, axis=0))
        assert np.array_equal(fewer, np.delete(whole, gone, axis=0))
    assert np.array_equal(student.transform(DIGITS[7:8]), whole[7:8])


@pytest.mark.audit
def test_reproducible(student):
    again = NetworkStudent().fit(DIGITS[:900], FEW)
    assert np.array_equal(student.transform(DIGITS), again.transform(DIGITS))
    other = NetworkStudent(seed=1).fit(DIGITS[:900], FEW)
    assert not np.array_equal(student.transform(DIGITS), other.transform(DIGITS))


@pytest.mark.parametrize("answer", [0, 7])
def test_one_answer_is_everyones(answer):
    labels = np.full(50, -1)
    labels[20] = answer
    student = NetworkStudent(max_iter=5).fit(DIGITS[:50], labels)
    assert np.all(student.predict(DIGITS[:80]) == answer)
    assert student.transform(DIGITS[:80]).shape == (80, 64)


def test_one_point():
    assert NetworkStudent(max_iter=5).fit(DIGITS[:1], [3]).predict(DIGITS[:2]).tolist() == [3, 3]


def test_labels_need_not_be_all_classes(student):
    labels = np.where(np.isin(FEW, (2, 9)), FEW, -1)
    assert set(NetworkStudent(max_iter=20).fit(DIGITS[:900], labels).predict(DIGITS)) == {2, 9}


def test_where_the_graph_does_not_reach():
    """Two far groups without answers get the label of the nearest answered point."""
    centres = np.array([[0, 0], [100, 0], [0, 20], [100, 20]])
    points = np.repeat(centres, 20, axis=0) + RNG.normal(size=(80, 2))
    labels = np.full(80, -1)
    labels[:20], labels[20:40] = 4, 6
    student = NetworkStudent(hidden=8).fit(points, labels)
    assert student.labels_.tolist() == [4] * 20 + [6] * 20 + [4] * 20 + [6] * 20
    assert student.predict([[0, 20], [100, 20]]).tolist() == [4, 6]


def test_repeated_points():
    """With more copies of a point than neighbours in the graph, copies connect to nothing else."""
    points = np.repeat([[0.0, 0.0], [5.0, 5.0]], 20, axis=0)
    labels = np.full(40, -1)
    labels[[0, 20]] = 1, 2
    student = NetworkStudent(hidden=8, max_iter=400).fit(points, labels)
    assert student.labels_.tolist() == [1] * 20 + [2] * 20
    assert student.predict(points[[0, 20]]).tolist() == [1, 2]


def test_points_that_are_all_the_same():
    student = NetworkStudent(max_iter=5).fit(np.ones((20, 2)), [3] * 20)
    assert student.predict(np.ones((2, 2))).tolist() == [3, 3]
    assert np.isfinite(student.transform(np.zeros((2, 2)))).all()


def test_scikit_learn_says_nothing(student):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NetworkStudent(max_iter=1).fit(DIGITS[:100], FEW[:100])


def test_no_points_to_predict(student):
    assert student.predict([]).shape == (0,)
    assert student.transform([]).shape == (0, 64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden": 0}, "hidden = 0"),
        ({"n_neighbors": 0}, "n_neighbors = 0"),
        ({"clamping": 0.0}, "clamping = 0.0"),
        ({"clamping": 1.0}, "clamping = 1.0"),
        ({"max_iter": 0}, "max_iter = 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_bad_parameters_are_named_before_labels_are_paid_for(changes, words):
    with pytest.raises(ac.ParameterError, match=f"{words}; accepted: "):
        NetworkStudent(**changes)


@pytest.mark.parametrize("use", ["predict", "transform"])
def test_use_before_fit(use):
    with pytest.raises(ac.ParameterError, match=f"{use} was called before fit"):
        getattr(NetworkStudent(), use)(DIGITS)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([-1, -1, -1], "none of 3 points was answered"),
        ([0, 1], r"shape \(2,\); accepted: integers of shape \(3,\)"),
        ([0, 1, -2], "-1 where unanswered"),
        ([0.0, 1.0, 0.5], "float64 values"),
        ([[0], [1], [0]], r"shape \(3, 1\)"),
    ],
)
def test_answers_that_are_refused(labels, words):
    with pytest.raises(ac.ParameterError, match=words):
        check_answers(labels, 3)
    with pytest.raises(ac.ParameterError, match=words):
        NetworkStudent().fit(DIGITS[:3], labels)


def test_other_widths(student):
    with pytest.raises(ac.ParameterError, match="63 columns; accepted: 64"):
        student.predict(DIGITS[:, :63])
    with pytest.raises(ac.ParameterError, match="63 columns; accepted: 64"):
        student.transform(DIGITS[:, :63])
