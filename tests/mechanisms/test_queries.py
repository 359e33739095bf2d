"""The public points that are asked about: all different, in the middle of clusters."""

import numpy as np
import pytest

import accountant as ac
from mechanisms import queries
from mechanisms.queries import central_points, cluster_centres

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(60, 3)).astype(np.float32)
CENTRES = np.float32([[0, 0], [50, 0], [0, 50], [50, 50]])
SIZES = (40, 30, 20, 10)
CLUSTERS = np.concatenate([c + RNG.normal(size=(n, 2)) for c, n in zip(CENTRES, SIZES, strict=True)])


@pytest.fixture(params=["refined", "as drawn"])
def passes(request, monkeypatch):
    """Small data, and data so large that centres are not refined."""
    if request.param == "as drawn":
        monkeypatch.setattr(queries, "LARGEST_PASS", 0)
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
    """Fewer distinct points than the number asked for."""
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


@pytest.fixture(params=["often", "few passes", "of some points"])
def k_means(request, monkeypatch):
    """k-means with many starts, over many points, and over a random choice of them."""
    if request.param != "often":
        monkeypatch.setattr(queries, "SMALL_PASS", 0)
    if request.param == "of some points":
        monkeypatch.setattr(queries, "LARGEST_PASS", 160)  # 80 points ... of 2 columns, for 4 centres, halved
    return request.param


def test_centres_are_the_middles_of_clusters(k_means):
    centres = cluster_centres(CLUSTERS, 4)
    assert centres.dtype == np.float32
    np.testing.assert_array_equal(centres, cluster_centres(CLUSTERS, 4))
    order = np.argsort(centres[:, 0] + 2 * centres[:, 1])
    np.testing.assert_allclose(centres[order], [[0, 0], [50, 0], [0, 50], [50, 50]], atol=1.5)


def test_weight_attracts_centres(k_means):
    first = (np.linalg.norm(CLUSTERS, axis=1) < 10).astype(float)
    for floor in (0.0, 1e-9):
        centres = cluster_centres(CLUSTERS, 3, first + floor)
        assert (np.linalg.norm(centres, axis=1) < 10).sum() >= 2


@pytest.mark.each_run(9)
@pytest.mark.parametrize("count", [1, 2, 59, 60])
def test_as_many_centres_as_asked(count, k_means):
    repeated = np.repeat(POINTS[:3], 20, axis=0)
    for points in (POINTS, repeated):
        centres = cluster_centres(points, count)
        assert centres.shape == (count, 3)
        assert np.isfinite(centres).all()
