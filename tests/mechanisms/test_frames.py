"""Frames of pandas, polars and pyarrow, and labels by name, in every mechanism."""

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.frames import Vocabulary, read_labels, read_records

pa = pytest.importorskip("pyarrow")

FEATURES = np.eye(2, dtype=np.float32)[np.arange(60) % 2] * [[1.0, 3.0]]
KINDS = np.array(["naïve 猫", "dog"])[np.arange(60) % 2]
CLASSES = ["dog", "naïve 猫"]
CALM = {"sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 1e-3}


def frame_of(library, columns):
    if library == "arrow":
        return pa.table(columns)
    module = pytest.importorskip(library)
    if library == "pandas":  # rows as a random split leaves them
        return module.DataFrame(columns, index=np.random.default_rng(0).permutation(len(next(iter(columns.values())))))
    return module.DataFrame(columns)


def private(library):
    return frame_of(library, {"a": FEATURES[:, 0], "b": FEATURES[:, 1]})


def reversed_queries(library):
    return frame_of(library, {"b": FEATURES[:4, 1], "a": FEATURES[:4, 0]})


LIBRARIES = pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])


@LIBRARIES
def test_columns_are_matched_by_name_and_labels_come_back_as_text(library):
    knn = mx.PrivateKNN(n_neighbors=5, classes=CLASSES, rng=0, **CALM).fit(private(library), list(KINDS))
    out = knn.label(reversed_queries(library))
    assert out.labels.tolist() == KINDS[:4].tolist()
    with pytest.raises(ac.ParameterError, match=r"queries: no column 'b'; accepted: the columns of the private"):
        knn.label(frame_of(library, {"a": [1.0]}))
    with pytest.raises(ac.ParameterError, match=r"queries: a column 'c'; accepted: "):
        knn.label(frame_of(library, {"a": [1.0], "b": [1.0], "c": [1.0]}))
    with pytest.raises(ac.ParameterError, match=r"column 'b' holds \w+, not numbers; accepted: "):
        knn.label(frame_of(library, {"a": [1.0], "b": ["x"]}))
    with pytest.raises(ac.ParameterError, match="record 1 has no value in column 'a'"):
        mx.PrivateKNN(n_neighbors=1).fit(frame_of(library, {"a": [1.0, None]}), [0, 1])
    assert knn.spent_ == out.composition
    assert len(knn.label(private(library)[:0]).labels) == 0


def make_labels(library):
    columns = frame_of(library, {"kind": KINDS.tolist()})
    return columns.column("kind") if library == "arrow" else columns["kind"]


@LIBRARIES
def test_columns_of_labels_in_every_mechanism(library):
    X, y, queries = private(library), make_labels(library), reversed_queries(library)
    wanted = KINDS[:4].tolist()
    for pate in (mx.GNMax(3, 1e-3, classes=CLASSES, rng=0), mx.LNMax(3, 1e-3, classes=CLASSES, rng=0)):
        assert pate.fit(X, y).label(queries).labels.tolist() == wanted
    knn = mx.IndividualKNN(1e9, 0.5, 1e-3, 1e-3, min_count=1, classes=CLASSES, rng=0).fit(X, y)
    assert knn.predict(queries).tolist() == knn.labels_.tolist() == wanted
    knn.add(range(60, 62), reversed_queries(library)[:2], KINDS[:2])
    sgd = mx.LinearNoisySGD(1e-3, sampling_rate=1.0, steps=20, classes=CLASSES, rng=0).fit(X, y)
    assert sgd.predict(queries).tolist() == wanted
    reverse = mx.ReverseKNN(n_queries=4, epsilon=1e3, classes=CLASSES, rng=0).label(X, y, queries)
    assert reverse.labels.tolist() == wanted


def test_rounds_give_names_back():
    knn = mx.PrivateKNN(n_neighbors=5, classes=CLASSES, rng=0, **CALM)
    found = mx.label_in_rounds(knn, private("arrow"), KINDS, FEATURES[:20], queries=10, rounds=2)
    assert set(found.labels[found.answered]) == set(CLASSES)
    assert set(found.labels[~found.answered]) <= {""}
    assert found.answered.any()
    assert knn.classes == CLASSES


def test_unanswered_queries_have_no_name():
    strict = {**CALM, "screening_sigma": 1e-3, "threshold": 60}
    knn = mx.PrivateKNN(n_neighbors=5, n_records=10**6, classes=CLASSES, rng=0, **strict)
    assert knn.fit(FEATURES, KINDS).label(FEATURES[:2]).labels.tolist() == ["", ""]


@pytest.mark.parametrize(
    ("classes", "labels", "told"),
    [
        (None, ["ox", "cat"], r"y holds text; accepted: integers 0\.\.c-1, or text and classes = "),
        (("ox", "cat"), ["ox", "dog"], "y: record 1 has label 'dog'; accepted: ox, cat"),
        (("ox", "cat"), ["ox", None], "y: record 1 has label None; accepted: ox, cat"),
        (("ox", "cat"), [["ox"], ["cat"]], r"y has shape \(2, 1\); accepted: \(2,\)"),
        (("ox", "ox"), ["ox", "ox"], r"classes = \['ox', 'ox'\]; accepted: a list of two or more different names"),
        (("ox",), ["ox", "ox"], "accepted: a list of two or more different names"),
        ("ox", ["o", "x"], "classes = 'ox'; accepted: a list of two or more different names"),
        (("ox", ""), ["ox", "ox"], "accepted: a list of two or more different names"),
        (5, ["ox", "ox"], "classes = 5; accepted: a list of two or more different names"),
    ],
)
def test_other_labels_and_classes_are_refused_in_one_line(classes, labels, told):
    for mechanism in (mx.PrivateKNN(n_neighbors=1, classes=classes), mx.LinearNoisySGD(classes=classes)):
        with pytest.raises(ac.ParameterError, match=told) as error:
            mechanism.fit(np.eye(2), labels)
        assert "\n" not in str(error.value)


def test_numbers_may_be_names_and_both_counts_must_agree():
    assert read_labels([3, 7, 3], 3, None, ("7", "3"))[0].tolist() == [1, 0, 1]
    assert read_records(np.eye(2), np.array([7, 3]))[1] == Vocabulary(None, ("7", "3"))
    with pytest.raises(ac.ParameterError, match="n_classes = 3; accepted: 2, as classes has, or None"):
        read_labels(["a", "b"], 2, 3, ("a", "b"))
    with pytest.raises(ac.ParameterError, match="classes with clip"):
        mx.PrivateKNN(n_neighbors=1, clip=1.0, classes=("a", "b")).fit(np.eye(2), np.eye(2))
