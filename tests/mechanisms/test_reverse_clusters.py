"""Clusters that were found elsewhere: their queries and assignment decide, the price stays, bad ones are refused."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import accountant as ac
import mechanisms as mx
from mechanisms.budgets.journal import Journal, JournalError

POINTS, TRUTH = make_blobs(500, n_features=4, centers=5, cluster_std=0.8, random_state=3)
X, Y, PUBLIC = POINTS[:350].astype(np.float32), TRUTH[:350], POINTS[350:].astype(np.float32)
CENTRES = np.stack([X[c == Y].mean(axis=0) for c in range(5)])[[3, 1, 4, 0, 2]]
NEAREST = ((PUBLIC[:, None] - CENTRES) ** 2).sum(axis=2).argmin(axis=1)


def knn(**changes):
    return mx.ReverseKNN(**{"n_queries": 5, "epsilon": 2.0, "n_classes": 5, "rng": 1, **changes})


def test_the_given_queries_are_asked_and_the_nearest_decides():
    out = knn().label(X, Y, PUBLIC, queries=CENTRES)
    np.testing.assert_array_equal(out.queries, CENTRES.astype(np.float32))
    np.testing.assert_array_equal(out.rounds[0].centre, NEAREST)
    counts = np.array([[np.sum((c == Y) & (_nearest(X) == q)) for c in range(5)] for q in range(5)])
    assert np.abs(out.counts - counts).max() < 12, "Laplace noise of scale 1"
    np.testing.assert_array_equal(out.labels, out.counts.argmax(axis=1)[NEAREST])


def _nearest(points):
    return ((points[:, None] - CENTRES) ** 2).sum(axis=2).argmin(axis=1)


def test_an_assignment_decides_whose_label_a_point_takes():
    own = np.roll(NEAREST, 7)
    out = knn().label(X, Y, PUBLIC, queries=CENTRES, assignment=own)
    np.testing.assert_array_equal(out.labels, out.counts.argmax(axis=1)[own])
    same = knn().label(X, Y, PUBLIC, queries=CENTRES)
    np.testing.assert_array_equal(out.counts, same.counts, "records vote by distance, whatever points are assigned to")


def test_an_assignment_alone_asks_at_the_means():
    out = knn().label(X, Y, PUBLIC, assignment=NEAREST.astype(np.uint8))
    means = np.stack([PUBLIC[q == NEAREST].mean(axis=0, dtype=float) for q in range(5)])
    np.testing.assert_allclose(out.queries, means, rtol=1e-6)
    np.testing.assert_array_equal(out.rounds[0].centre, NEAREST)


@pytest.mark.parametrize(
    "setting",
    [{}, {"model": "local"}, {"rounds": 2}, {"delta": 1e-5, "noise": "discrete-gaussian", "n_neighbors": 2}],
    ids=str,
)
def test_the_price_does_not_change(setting):
    given = knn(**setting).label(X, Y, PUBLIC, queries=CENTRES, assignment=NEAREST)
    usual = knn(**setting).label(X, Y, PUBLIC)
    assert given.composition == usual.composition
    delta = setting.get("delta", 0.0)
    assert given.guarantee(delta).epsilon == usual.guarantee(delta).epsilon <= 2.0
    assert given.release.event == usual.release.event


def test_later_rounds_choose_their_own_queries():
    out = knn(rounds=2, epsilon=20.0).label(X, Y, PUBLIC, queries=CENTRES, assignment=NEAREST)
    np.testing.assert_array_equal(out.rounds[0].queries, CENTRES.astype(np.float32))
    assert not np.array_equal(out.rounds[1].queries, out.rounds[0].queries)


def test_a_journal_refuses_other_clusters(tmp_path):
    path = tmp_path / "run.journal"
    with Journal(path) as journal:
        first = knn().label(X, Y, PUBLIC, None, journal, queries=CENTRES, assignment=NEAREST)
    with Journal(path) as journal:
        again = knn().label(X, Y, PUBLIC, None, journal, queries=CENTRES, assignment=NEAREST)
    np.testing.assert_array_equal(first.counts, again.counts)
    for other in ({"queries": CENTRES}, {"queries": CENTRES + 1}, {}):
        with Journal(path) as journal, pytest.raises(JournalError):
            knn().label(X, Y, PUBLIC, None, journal, **other)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"queries": CENTRES[:3]}, "queries has 3 rows; accepted: n_queries = 5"),
        ({"queries": CENTRES[:, :2]}, "queries: 2 columns"),
        ({"queries": np.full((5, 4), np.nan)}, "queries"),
        ({"assignment": NEAREST[:9]}, r"assignment has shape \(9,\)"),
        ({"assignment": NEAREST.astype(float)}, "type float64"),
        ({"assignment": NEAREST + 1}, "assignment holds 5; accepted: 0..4"),
        ({"assignment": NEAREST - 1}, "assignment holds -1; accepted: 0..4"),
        ({"assignment": np.minimum(NEAREST, 3)}, "leaves 4 empty"),
    ],
)
def test_bad_clusters_are_refused_in_one_line_and_nothing_is_spent(given, said):
    model = knn()
    with pytest.raises(ac.ParameterError, match=said) as caught:
        model.label(X, Y, PUBLIC, **given)
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "spent_")
