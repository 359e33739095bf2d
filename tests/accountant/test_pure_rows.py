"""Rényi prices of Laplace noise and of bits by the compiled search: against definitions in high precision."""

import math

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.events.answers import LARGEST_ROW, bits_row, laplace_row
from accountant.renyi import route
from accountant.renyi.order_search import best_orders
from accountant.renyi.rows import Place, pure_cumulant, pure_row


def laplace_cumulant(t, b):
    """log E_Q[(P/Q)^(1+b)] of Laplace(t, 1) against Laplace(0, 1): the densities are exponential on three pieces."""
    t, a = mp.mpf(t), 1 + mp.mpf(b)
    middle = mp.exp(-a * t) * mp.expm1((2 * a - 1) * t) / (2 * a - 1)
    return mp.log((mp.exp(-a * t) + middle + mp.exp((a - 1) * t)) / 2)


def test_the_pieces_are_the_integral():
    def piece(x):
        return mp.exp(-3 * abs(x - 2) + 2 * abs(x)) / 2

    parts = [-40, -20, -5, 0], [0, 1, 2], [2, 20, 60]
    whole = mp.log(sum(mp.quad(piece, part) for part in parts))
    assert abs(whole - laplace_cumulant(2, 2)) < 1e-12


def bits_cumulant(t, b):
    """The same of a bit that is true with odds e^t against one that is false with them."""
    likely, a = 1 / (1 + mp.exp(-mp.mpf(t))), 1 + mp.mpf(b)
    return mp.log(likely**a * (1 - likely) ** (1 - a) + (1 - likely) ** a * likely ** (1 - a))


KINDS = [
    (ac.Laplace, lambda scale: 1 / mp.mpf(scale), laplace_cumulant, laplace_row),
    (ac.RandomizedResponse, mp.mpf, bits_cumulant, bits_row),
]


@pytest.mark.parametrize(("make", "shift", "cumulant", "row"), KINDS, ids=["laplace", "bits"])
@pytest.mark.parametrize(("parameter", "count", "delta"), [(0.5, 40, 1e-6), (1.0, 1000, 1e-3), (0.05, 7, 0.05)])
def test_the_least_epsilon_over_orders(make, shift, cumulant, row, parameter, count, delta):
    run = count * make(parameter)
    assert best_orders([run], np.array([math.log(delta)]), 1, -20.0, 27.0) is not None
    found = ac.epsilon(run, delta, method="renyi")
    with mp.workdps(30):
        t = shift(parameter)

        def epsilon(b):
            return (
                count * cumulant(t, b) / b - mp.log(1 + 1 / b) - (mp.log(delta) + mp.log(1 + b)) / b
            )  # Canonne, Kamath & Steinke 2020, Prop. 12

        at = mp.mpf(found.order) - 1
        # read off a curve that is larger by CURVE_ROUNDING
        assert 0 < found.epsilon - epsilon(at) < 1.1e-12 * (count * cumulant(t, at) / at)
        beside = [epsilon(at * (1 + share)) for share in (-1e-3, 1e-3)]
        assert min(beside) >= found.epsilon * (1 - 1e-13)
        back = ac.delta(run, found.epsilon, method="renyi").delta
        assert back == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize(("cumulant", "row"), [(laplace_cumulant, laplace_row), (bits_cumulant, bits_row)])
@pytest.mark.parametrize(("t", "b"), [(0.3, 0.5), (0.3, 20.0), (2.0, 0.7), (2.0, 9.0), (5.0, 3.0)])
def test_derivatives(cumulant, row, t, b):
    found = pure_cumulant(b, row(t, 3))
    with mp.workdps(30):
        value, slope = 3 * cumulant(t, b), 3 * mp.diff(lambda x: cumulant(t, x), b)
        bend = 3 * mp.diff(lambda x: cumulant(t, x), b, 2)
        assert abs(found.value / (value / b) - 1) < 1e-13
        assert abs(found.first - (b * slope - value)) < 1e-6 * abs(value)
        if b * t > 1:
            assert abs(found.first - (b * slope - value)) < 1e-12 * (1 + abs(value))
            assert abs(found.second - b * b * bend) < 1e-10 * (1 + abs(b * b * bend))
        else:
            assert math.isnan(found.second)


@pytest.mark.parametrize("make", [lambda t: ac.Laplace(1 / t), ac.RandomizedResponse, ac.PureDP])
def test_both_limits(make):
    event = make(0.25)
    assert pure_row(event._row(), math.inf, True, Place(0.0, 0.0)).value == 0.25
    run = 8 * event
    far = ac.epsilon(run, 1e-300, method="renyi")
    assert far.epsilon <= 2.0
    assert ac.epsilon(run, 5e-324, method="renyi").epsilon <= 2.0
    assert ac.delta(run, 2.0, method="renyi").delta == 0.0
    assert ac.delta(run, math.nextafter(2.0, 0.0), method="renyi").delta > 0.0
    assert ac.epsilon(10**6 * make(1e-7), 0.5, method="renyi").epsilon >= 0.0
    assert make(2 * LARGEST_ROW)._row() is None
    assert ac.epsilon(make(2 * LARGEST_ROW), 1e-5, method="renyi").epsilon == pytest.approx(2 * LARGEST_ROW, rel=1e-8)


def test_random_runs_against_the_plain_search(monkeypatch):
    """The search that is not compiled, from curves alone, finds no order that is better by more than rounding."""
    dice = np.random.default_rng(3)
    runs = []
    for _ in range(40):
        run = ac.Composition()
        for _ in range(int(dice.integers(1, 4))):
            t, count = 10 ** dice.uniform(-4, 1.5), int(10 ** dice.uniform(0, 4))
            kind = dice.integers(3)
            event = ac.Laplace(1 / t, coordinates=2) if kind == 0 else ac.RandomizedResponse(t)
            run = run + count * (ac.Gaussian(1 / t) if kind == 2 else event)
        runs.append((run, 10 ** dice.uniform(-20, -0.5)))
    quick = [ac.epsilon(run, delta, method="renyi") for run, delta in runs]
    monkeypatch.setattr(route, "best_orders", lambda *_: None)
    for (run, delta), found in zip(runs, quick, strict=True):
        plain = ac.epsilon(run, delta, method="renyi")
        assert found.epsilon == pytest.approx(plain.epsilon, rel=1e-9, abs=1e-12), run
