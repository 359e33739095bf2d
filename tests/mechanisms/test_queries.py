"""Which public points are asked about: different ones, in the middle of clusters."""

import numpy as np
import pytest

import accountant as ac
from mechanisms import queries
from mechanisms.queries import central_points

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(60, 3)).astype(np.float32)
CENTRES = np.float32([[0, 0], [50, 0], [0, 50], [50, 50]])
SIZES = (40, 30, 20, 10)
CLUSTERS = np.concatenate([c + RNG.normal(size=(n, 2)) for c, n in zip(CENTRES, SIZES, strict=True)])


@pytest.fixture(params=["refined", "as drawn"])
def passes(request, monkeypatch):
    """Small data, and data so large that centres are not refined."""
    if request.param == "as drawn":
        monkeypatch.setattr(queries, "LARGEST", 0)
    return request.param


@pytest.mark.parametrize("count", [1, 2, 31, 59, 60])
def test_different_points_and_as_many_as_asked(count, passes):
    chosen = central_points(POINTS, count)
    assert chosen.dtype == np.int64
    assert chosen.shape == (count,)
    assert len(set(chosen.tolist())) == count
    assert chosen.min() >= 0
    assert chosen.max() < 60


def test_all_of_them_in_order():
    assert central_points(POINTS, 60).tolist() == list(range(60))


@pytest.mark.parametrize("count", [3, 4, 12, 29])
def test_repeated_points(count, passes):
    """Fewer distinct points than are asked for."""
    points = np.repeat(np.eye(3), 10, axis=0)
    chosen = central_points(points, count)
    assert len(set(chosen.tolist())) == count
    assert set(chosen // 10) == {0, 1, 2}, "each distinct point is among them"


def test_one_point_over_and_over(passes):
    chosen = central_points(np.ones((9, 2)), 5)
    assert len(set(chosen.tolist())) == 5


def test_the_middle_of_every_cluster_largest_first():
    chosen = central_points(CLUSTERS, 4)
    assert np.repeat(np.arange(4), SIZES)[chosen].tolist() == [0, 1, 2, 3]
    for cluster, index in enumerate(chosen):
        members = CLUSTERS[np.repeat(np.arange(4), SIZES) == cluster]
        distances = np.linalg.norm(members - members.mean(axis=0), axis=1)
        distance = np.linalg.norm(CLUSTERS[index] - members.mean(axis=0))
        assert distance == pytest.approx(distances.min(), rel=1e-5)


def test_every_cluster_is_drawn_from(passes):
    assert set(np.repeat(np.arange(4), SIZES)[central_points(CLUSTERS, 4)]) == {0, 1, 2, 3}


def test_seeds(passes):
    first, again, *others = (central_points(POINTS, 9, seed).tolist() for seed in (3, 3, 4, 5))
    assert first == again
    assert first not in others


@pytest.mark.parametrize("count", [0, -1, 61, 1.5, True])
def test_other_counts(count):
    with pytest.raises(ac.ParameterError, match=r"count = .*; accepted: an integer in \[1, 60\]"):
        central_points(POINTS, count)


def test_bad_points():
    with pytest.raises(ac.ParameterError, match="public"):
        central_points([[np.nan]], 1)
