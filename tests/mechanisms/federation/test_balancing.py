"""Public prices: about equally many points prefer each query, and prices depend on public points alone."""

import numpy as np
import pytest

import accountant as ac
from mechanisms.federation import balancing
from mechanisms.federation.balancing import balanced_prices
from mechanisms.neighbours.reverse import Connections

RNG = np.random.default_rng(0)
CROWDED = np.concatenate([RNG.normal(0, 1, (900, 5)), RNG.normal(3, 0.1, (100, 5))]).astype(np.float32)
QUERIES = CROWDED[RNG.choice(1000, 20, replace=False)]


def loads(points, prices=None):
    return np.bincount(Connections(QUERIES, 1, prices).find_best(points), minlength=20)


def test_prices_even_out_public_points():
    prices = balanced_prices(CROWDED, QUERIES)
    before, after = loads(CROWDED), loads(CROWDED, prices)
    assert before.max() > 2 * 50
    assert before.min() < 50 / 2
    assert after.min() >= 0.8 * 50
    assert after.max() <= 1.2 * 50
    assert abs(prices.mean()) < 1e-9 * np.abs(prices).max()


def test_records_like_the_public_points_are_evened_out_too():
    others = np.concatenate([RNG.normal(0, 1, (4500, 5)), RNG.normal(3, 0.1, (500, 5))]).astype(np.float32)
    prices = balanced_prices(CROWDED, QUERIES)
    assert loads(others, prices).std() < loads(others).std() / 2


def test_equal_queries_need_no_prices():
    assert balanced_prices(CROWDED, np.zeros((4, 5))).tolist() == [0.0] * 4
    assert balanced_prices(CROWDED, QUERIES[:1]).tolist() == [0.0]


def test_many_public_points_are_sampled_by_a_seed(monkeypatch):
    monkeypatch.setattr(balancing, "MOST_POINTS", 300)
    prices = balanced_prices(CROWDED, QUERIES)
    np.testing.assert_array_equal(prices, balanced_prices(CROWDED, QUERIES))
    assert loads(CROWDED, prices).std() < loads(CROWDED).std() / 2


def test_bad_values_are_named():
    for public, queries in ((CROWDED, QUERIES[:, :3]), (CROWDED[:0], QUERIES), (CROWDED, QUERIES[:0])):
        with pytest.raises(ac.ParameterError, match="accepted"):
            balanced_prices(public, queries)
    with pytest.raises(ac.ParameterError, match="passes"):
        balanced_prices(CROWDED, QUERIES, passes=0)
