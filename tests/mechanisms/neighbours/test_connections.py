"""The queries that a record votes for: by definition, with ties, and independent of other records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accountant as ac
from mechanisms.neighbours import reverse as connections
from mechanisms.neighbours.reverse import Connections, votes_of


def by_definition(records, queries, k, prices):
    """In exact arithmetic on the integers, ties to the lower index."""
    chosen = []
    for record in records.astype(int).tolist():
        scores = [
            (sum((a - b) ** 2 for a, b in zip(record, query, strict=True)) + int(price), i)
            for i, (query, price) in enumerate(zip(queries.astype(int).tolist(), prices.tolist(), strict=True))
        ]
        chosen.append(sorted(i for _, i in sorted(scores)[:k]))
    return np.array(chosen)


@given(data=st.data())
def test_the_definition_with_many_ties(data):
    seed, s, d = data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))
    k, far = data.draw(st.integers(1, s)), data.draw(st.sampled_from([0, 4000]))
    rng = np.random.default_rng(seed)
    records = (rng.integers(-2, 3, (30, d)) + far).astype(np.float32)
    queries = (rng.integers(-2, 3, (s, d)) + far).astype(np.float32)
    prices = rng.integers(-3, 4, s).astype(float)
    np.testing.assert_array_equal(
        Connections(queries, k, prices).find_nearest(records), by_definition(records, queries, k, prices)
    )


@pytest.mark.parametrize("scale", [1e-38, 1e-25, 1e-3, 1.0, 1e6, 1e15])
@pytest.mark.parametrize("k", [1, 3])
def test_a_record_votes_the_same_whatever_it_is_batched_with(scale, k, monkeypatch):
    """For queries that single precision cannot tell apart, and blocks of records of every shape."""
    rng = np.random.default_rng(1)
    centre = rng.normal(size=64)
    queries = (scale * (centre + 1e-7 * rng.normal(size=(20, 64)))).astype(np.float32)
    queries = np.clip(queries, -1e15, 1e15)
    records = np.clip(scale * rng.normal(size=(97, 64)), -1e15, 1e15).astype(np.float32)
    voting = Connections(queries, k)
    together = voting.find_nearest(records)
    alone = np.concatenate([voting.find_nearest(record[None]) for record in records])
    np.testing.assert_array_equal(together, alone)
    order = rng.permutation(97)
    np.testing.assert_array_equal(voting.find_nearest(records[order]), together[order])
    monkeypatch.setattr(connections, "SCORES", 20 * 7)
    monkeypatch.setattr(connections, "PAIRS", 64 * 5)
    np.testing.assert_array_equal(voting.find_nearest(records), together)
    exact = np.array(
        [
            [sum((x - q) ** 2 for x, q in zip(r, c, strict=True)) for c in queries.astype(float)]
            for r in records.astype(float)
        ]
    )
    chosen = np.take_along_axis(exact, together, axis=1).max(axis=1)
    np.testing.assert_allclose(chosen, np.sort(exact, axis=1)[:, k - 1], rtol=1e-12)


def test_single_precision_alone_would_get_it_wrong():
    """The inputs above are hard: the product in single precision chooses other queries for some records."""
    rng = np.random.default_rng(1)
    centre = rng.normal(size=64)
    queries = (centre + 1e-7 * rng.normal(size=(20, 64))).astype(np.float32)
    records = rng.normal(size=(97, 64)).astype(np.float32)
    plain = ((queries**2).sum(axis=1) - 2 * records @ queries.T).argmin(axis=1)
    assert (plain != Connections(queries).find_nearest(records)[:, 0]).any()


def test_prices_turn_records_away():
    queries, records = np.float32([[0.0], [1.0]]), np.float32([[0.0], [0.4], [1.0]])
    assert Connections(queries).find_nearest(records)[:, 0].tolist() == [0, 0, 1]
    assert Connections(queries, 1, [0.3, 0.0]).find_nearest(records)[:, 0].tolist() == [0, 1, 1]
    assert Connections(queries, 1, [2.0, 0.0]).find_nearest(records)[:, 0].tolist() == [1, 1, 1]
    # however large: a shift common to all changes nothing
    assert Connections(queries, 1, [1e9, 1e9]).find_nearest(records)[:, 0].tolist() == [0, 0, 1]
    assert Connections(queries, 2).find_nearest(records).tolist() == [[0, 1]] * 3
    assert Connections(queries, 2).find_best(records).tolist() == [0, 0, 1]


def test_a_vote_is_one_in_every_label_of_every_query():
    entries = votes_of(np.array([[0, 2], [1, 3]]), np.array([[1, 2], [0, 4]]), 5)
    assert entries.tolist() == [[1, 2, 11, 12], [5, 9, 15, 19]]


def test_no_records_have_no_votes():
    assert Connections(np.ones((3, 2)), 2).find_nearest(np.empty((0, 2), np.float32)).shape == (0, 2)


@pytest.mark.parametrize(
    "bad", [{"n_neighbors": 0}, {"n_neighbors": 4}, {"prices": [1, 2]}, {"prices": "x"}, {"prices": [1e31, 0, 0]}]
)
def test_bad_values_are_named(bad):
    with pytest.raises(ac.ParameterError, match="accepted"):
        Connections(np.ones((3, 2)), **bad)
