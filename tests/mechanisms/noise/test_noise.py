"""Noise: reproducible from a seed, exact on a lattice from system entropy, and the price of the lattice."""

import math
import sys

import mpmath
import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.noise import source as noise
from mechanisms.noise.source import Seeded, System, as_randomness, noise_of
from mechanisms.noisy_sgd import GRADIENT_GRAIN
from tests.cases import audit_after

SOURCES = {"system": System(), "seeded": as_randomness(0)}


def test_sources():
    assert isinstance(as_randomness(None), System)
    assert isinstance(as_randomness(np.random.default_rng(1)), Seeded)
    assert not np.array_equal(System().uniform(20), System().uniform(20))
    for refused in (-1, 1.5, True, "0"):
        with pytest.raises(ac.ParameterError, match="accepted: a Generator, a seed >= 0, or None"):
            as_randomness(refused)


def test_without_the_exact_sampler_nothing_is_drawn(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ac.MissingExtra, match=r"opendp.prelude is not installed; accepted: pip install"):
        mx.PrivateKNN(n_neighbors=1, rng=None).fit([[0.0]], [0])


@pytest.mark.parametrize("name", SOURCES)
def test_uniform_draws_are_inside_the_open_interval(name):
    draws = SOURCES[name].uniform(300_000)  # the chance that none is below 1e-4 is e^-30
    assert 0 < draws.min() < 1e-4
    assert 1 - 1e-4 < draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.005


@pytest.mark.each_run(2)
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("scale", [1e-3, 2.0, 1e5])
def test_quantiles(name, scale):
    """Shares within 7 standard deviations, variances within 8: all together fail by chance once in 10^10 runs."""
    source, n = SOURCES[name], 20_000
    normal, double = source.gaussian(scale, n, 1.0) / scale, source.laplace(scale, n, 1.0) / scale
    for draws, beyond in ((normal, 0.15865525393145707), (double, 0.5 / math.e)):
        for tail in (draws > 1, draws < -1):
            assert np.mean(tail) == pytest.approx(beyond, abs=7 * math.sqrt(beyond * (1 - beyond) / n))
    assert normal.var() == pytest.approx(1, abs=8 * math.sqrt(2 / n))
    assert double.var() == pytest.approx(2, abs=8 * math.sqrt(20 / n))


@pytest.mark.parametrize("scale", [1e-9, 0.7, 25.0, 3e6, 1e15])
@pytest.mark.parametrize("grain", [1.0, GRADIENT_GRAIN])
def test_exact_noise_lies_on_a_lattice_finer_than_its_scale_and_than_the_grain(scale, grain):
    source = SOURCES["system"]
    for draw, widest in ((source.gaussian, 2.0**49), (source.laplace, 2.0**46)):
        if scale / grain > widest:
            with pytest.raises(ac.ParameterError, match=r"noise of scale (1e\+15|3e\+06); accepted: at most"):
                draw(scale, 0, grain)
            continue
        values = draw(scale, 50, grain)
        spacing = min(2.0 ** (math.frexp(scale)[1] - 41), grain)
        assert scale / spacing >= 2.0**40
        assert np.array_equal(values, np.round(values / spacing) * spacing)
        assert len(np.unique(values)) >= 49  # two are equal in one of 10^9 runs
        assert draw(scale, 0, grain).shape == (0,)


def test_the_noise_drawn_is_the_noise_priced():
    for event in (
        ac.Gaussian(3.0),
        ac.GNMax(3.0),
        ac.NoisyScreening(3.0, 5, 9),
        ac.PoissonSubsampled(ac.GNMax(3.0), 0.1),
    ):
        assert np.array_equal(noise_of(event, as_randomness(4), 5), as_randomness(4).gaussian(3.0, 5, 1.0))
    for event in (ac.Laplace(3.0), ac.LNMax(3.0), ac.PoissonSubsampled(ac.Laplace(3.0), 0.1)):
        assert np.array_equal(noise_of(event, as_randomness(4), 5), as_randomness(4).laplace(3.0, 5, 1.0))
    with pytest.raises(ac.ParameterError, match="accepted: an event with additive noise"):
        noise_of(ac.PureDP(1.0), as_randomness(4), 1)


@pytest.mark.parametrize("order", [1.5, 2.0, 7.3, 20.0])
@pytest.mark.parametrize("spacing", [0.5, 0.25])
def test_sampled_discrete_gaussian_costs_what_the_continuous_one_costs(order, spacing):
    """On lattices far coarser than the real one: the two differ by at most e^(-2 pi^2 s^2/h)."""
    rate, sigma = 0.2, 1.0
    with mpmath.workdps(40):
        h, s2 = mpmath.mpf(spacing), mpmath.mpf(sigma) ** 2
        points = [h * i for i in range(int(-40 / spacing), int(60 / spacing))]
        weights = [mpmath.exp(-z * z / (2 * s2)) for z in points]
        ratios = [1 - rate + rate * mpmath.exp((2 * z - 1) / (2 * s2)) for z in points]
        # both by the ratio to the lattice's own mixture, as shifting the lattice by 1 maps it to itself
        mean = sum(w * r**order for w, r in zip(weights, ratios, strict=True)) / sum(weights)
        discrete = mpmath.log(mean) / (order - 1)
        continuous = ac.PoissonSubsampled(ac.Gaussian(sigma), rate).renyi(order)
        assert abs(discrete / float(continuous) - 1) < 1e3 * mpmath.exp(-2 * mpmath.pi**2 * s2 / h) + 1e-13


@pytest.mark.audit
@pytest.mark.parametrize("order", audit_after(2, [1.5, 30.0, 2.0]))
def test_discrete_laplace_costs_what_the_continuous_one_costs(order):
    with mpmath.workdps(40):
        for spacing in (2.0**-6, 2.0**-8):
            points = [mpmath.mpf(i) * spacing for i in range(int(-40 / spacing), int(40 / spacing))]
            p = [mpmath.exp(-abs(z)) for z in points]
            q = [mpmath.exp(-abs(z - 1)) for z in points]
            mean = sum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True)) / sum(p)
            discrete = mpmath.log(mean) / (order - 1)
            assert abs(discrete / float(ac.Laplace(1.0).renyi(order)) - 1) < order**2 * spacing**2


def test_weights_of_a_real_training_are_sums_on_the_lattice():
    model = mx.LinearNoisySGD(noise_multiplier=1.5, sampling_rate=1.0, steps=1, learning_rate=1.0, rng=None)
    weights = model.fit([[0.3, 0.1], [0.2, 0.7]], [0, 1]).weights_
    spacing = 2.0**-40  # of noise with scale 1.5
    assert np.array_equal(weights, np.round(weights / spacing) * spacing)


def test_the_outermost_words_stay_inside():
    """The midpoint of the last cell is no double and would round to 1, where quantiles are infinite."""
    words = np.array([0, 2**64 - 1, 2**64 - 2**11, 2**64 - 2**12], dtype=np.uint64)
    draws = noise._to_unit_interval(words)
    assert (draws > 0).all()
    assert (draws < 1).all()
