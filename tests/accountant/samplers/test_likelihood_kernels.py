"""Products of all masses, several at once, are what pairs of masses give one by one."""

import numpy as np
import pytest

from accountant.samplers import likelihoods
from accountant.samplers.likelihood_kernels import (
    convolve_contractions,
    convolve_few_contractions,
    convolve_few_spreads,
    convolve_spreads,
)
from accountant.samplers.likelihoods import Contraction, Spread, add_contractions, add_spreads

STEP = 0.03


def law(size, seed):
    masses = np.random.default_rng(seed).random(size)
    return masses / masses.sum()


def joined(low, high):
    low[1:] += high[:-1]
    return low


def bounds(a, b, apart):
    """As a sum arranges them: where it begins, and more points than it has."""
    least = apart + int(np.log1p(np.exp(-STEP * max(a, b + apart))) / STEP)
    return least, max(a, b + apart) + 40


@pytest.mark.parametrize(("a", "b", "apart"), [(7, 7, 0), (1, 1, 0), (9, 4, 0), (4, 9, 3), (5, 6, 40), (30, 2, 11)])
def test_spreads_and_contractions_by_pairs(a, b, apart):
    first, second = law(a, 1), law(b, 2)
    every = np.arange(a), np.arange(b)
    least, size = bounds(a, b, apart)
    by_lag, by_pair = ([np.zeros(size), np.zeros(size)] for _ in range(2))
    convolve_spreads(first, second, apart, least, STEP, False, *by_lag)
    convolve_few_spreads(first, second, apart, least, STEP, *every, *by_pair)
    assert np.allclose(joined(*by_lag), joined(*by_pair), rtol=1e-13, atol=0.0)
    assert np.isclose(by_lag[0].sum(), 1.0)

    edges = np.exp(STEP * (least + np.arange(size + 1.0)))
    places = np.exp(STEP * (np.arange(a) + 0.4)), np.exp(STEP * (apart + np.arange(b) + 0.7))
    found = [np.zeros(size) for _ in range(4)]
    expected = [np.zeros(size) for _ in range(2)]
    convolve_contractions(first, places[0], second, places[1], apart, least, STEP, False, edges, *found)
    convolve_few_contractions(first, places[0], second, places[1], apart, least, STEP, *every, edges, *expected)
    assert np.allclose(joined(found[0], found[2]), expected[0], rtol=1e-13, atol=0.0)
    assert np.allclose(joined(found[1], found[3]), expected[1], rtol=1e-13, atol=0.0)


def test_pairs_of_one_law_are_taken_once():
    masses, size = law(12, 3), 60
    once, all_of_them = ([np.zeros(size), np.zeros(size)] for _ in range(2))
    least, _ = bounds(12, 12, 0)
    convolve_spreads(masses, masses, 0, least, STEP, True, *once)
    convolve_spreads(masses, masses, 0, least, STEP, False, *all_of_them)
    assert np.allclose(once, all_of_them, rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("add", [add_spreads, add_contractions])
def test_hardly_a_product_underflows(add, monkeypatch):
    """With masses down to 1e-300 on both sides, sums took twice the time that was counted."""
    name = "convolve_spreads" if add is add_spreads else "convolve_contractions"
    convolve, least = getattr(likelihoods, name), []

    def look(a, second, third, *rest):
        b = second if add is add_spreads else third
        least.append(float(a[a > 0].min()) * float(b[b > 0].min()))
        convolve(a, second, third, *rest)

    monkeypatch.setattr(likelihoods, name, look)
    masses = np.geomspace(1e-300, 0.1, 200)
    grid = (-100, 0.0, 0.01)
    places = np.exp(0.01 * (np.arange(200) - 99.5))
    one = Spread(masses, *grid) if add is add_spreads else Contraction(masses, places, *grid)
    found = add(one, one)
    assert least[0] > np.finfo(float).tiny
    assert found.masses.sum() == pytest.approx(masses.sum() ** 2, rel=1e-12)
    assert np.sum(found.masses * found.places) == pytest.approx(2 * masses.sum() * (masses @ one.places), rel=1e-12)


def test_moments_of_a_million_ratios_are_floats():
    """Their mean is as large as their number, and is multiplied twice."""
    steps, size = 10**6, 150
    places = np.exp(0.01 * (np.arange(size) + 0.5)) * steps / 2
    half = Contraction(law(size, 4), places, 0, float(np.log(steps / 2)), 0.01)
    found = add_contractions(half, half)
    assert np.isfinite(found.places).all()
    assert found.masses @ found.places == pytest.approx(2 * (half.masses @ places), rel=1e-12)


def test_moments_of_rare_large_ratios_are_no_infinite_places():
    """A place of 1e19 that has a mass of 2e-11 overflowed, and a bound from below had an infinite likelihood ratio."""
    size = 400
    places = np.exp(0.125 * (np.arange(size) - 40) + 0.06)
    masses = law(size, 5)
    masses[-1] = 2e-11
    one = Contraction(masses, places, -40, 0.0, 0.125)
    found = add_contractions(one, one)
    assert np.isfinite(found.places).all()
    total = float(found.masses.sum())
    assert float((found.masses * found.places).sum()) == pytest.approx(2 * float((masses * places).sum()) * total**0.5)
