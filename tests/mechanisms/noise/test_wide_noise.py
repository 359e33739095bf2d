"""Noise too wide for exact draws is refused before anything is charged or written."""

import math

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.federation.protocols import central_event
from mechanisms.federation.server import Server
from mechanisms.noise.source import WIDEST, System, as_randomness
from mechanisms.noisy_sgd import GRADIENT_GRAIN

X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0])
REFUSED = "noise of scale .*; accepted: at most"


@pytest.mark.parametrize("draw", ["gaussian", "laplace", "discrete_gaussian", "discrete_laplace"])
def test_no_draw_is_beyond_what_floats_hold(draw):
    """At the limit each draw is beyond 2^53 steps with probability e^-128; odd draws show that none was rounded."""
    widest = WIDEST[draw.removeprefix("discrete_")]
    grain = () if "discrete" in draw else (1.0,)
    drawn = getattr(System(), draw)(widest, 2000, *grain)
    assert np.abs(drawn).max() < 2.0**53
    assert abs((drawn % 2 == 1).mean() - 0.5) < 7 * 0.5 / math.sqrt(2000)  # standard deviations: chance 3e-12
    with pytest.raises(ac.ParameterError, match=REFUSED):
        getattr(System(), draw)(math.nextafter(widest, math.inf), 1, *grain)


def test_the_limits_have_the_probability_that_is_stated():
    assert math.exp(-(2.0**53) / WIDEST["laplace"]) == math.exp(-128)
    assert math.erfc(2.0**53 / WIDEST["gaussian"] / math.sqrt(2)) < math.exp(-128)


@pytest.mark.parametrize("noise", ["laplace", "discrete-laplace"])
def test_counts(noise, tmp_path):
    model = mx.ReverseKNN(n_queries=1, epsilon=2.0**-51, delta=0, n_classes=2, noise=noise)
    with mx.Journal(tmp_path / "counts.journal") as journal:
        with pytest.raises(ac.ParameterError, match=REFUSED):
            model.label([[0.0]], [1], [[0.0]], journal=journal)
        assert journal.held() == (0, 0)
    assert not hasattr(model, "spent_")
    assert not hasattr(model, "_promised")


def test_a_server_with_gaussian_noise():
    assert Server("central", central_event("gaussian", 2.0**49, 2)).spent_ == ac.Composition()
    with pytest.raises(ac.ParameterError, match=REFUSED):
        Server("central", central_event("gaussian", 2.0**50, 2))


def test_gradients():
    """They are multiples of 2^-30, so that less noise is too much."""
    model = mx.LinearNoisySGD(noise_multiplier=2.0**22, sampling_rate=1.0, steps=1, n_trainings=1)
    with pytest.raises(ac.ParameterError, match=REFUSED):
        model.fit(X, Y)
    assert not hasattr(model, "spent_")
    model.noise_multiplier = WIDEST["gaussian"] * GRADIENT_GRAIN
    model.fit(X, Y)
    assert model.spent_ == model.planned


def test_votes():
    wide = {"clip": 1.0, "max_labels": 1, "rng": None}
    sets = np.eye(2, dtype=int)[Y]
    for model in (mx.PrivateKNN(1, 1.0, vote_sigma=1e20, **wide), mx.GNMax(1, 1e20, make_teacher=None, **wide)):
        with pytest.raises(ac.ParameterError, match=REFUSED):
            model.fit(X, sets)
        assert not hasattr(model, "spent_")
    with pytest.raises(ac.ParameterError, match=REFUSED):
        mx.IndividualKNN(1.0, 0.5, vote_sigma=1.0, count_sigma=1e20, n_classes=2).fit(X, Y)


def test_a_tuning(tmp_path):
    def tuner(make, score_sigma, **grid):
        return mx.Tuner(make, grid, X, tries=ac.Geometric(2.0), score_sigma=score_sigma, n_records=3)

    def counts(epsilon):
        return mx.ReverseKNN(n_queries=1, epsilon=epsilon, n_classes=2)

    def similar(count_sigma):
        return mx.IndividualKNN(1.0, 0.5, vote_sigma=1.0, count_sigma=count_sigma, n_classes=2)

    tunings = tuner(counts, 1e20, epsilon=[1.0]), tuner(counts, 1.0, epsilon=[1.0, 2.0**-51])
    for each in (*tunings, tuner(similar, 1.0, count_sigma=[1.0, 1e20])):
        with mx.Journal(tmp_path / "tuning.journal") as journal:
            with pytest.raises(ac.ParameterError, match=REFUSED):
                each.run(X, Y, (X, Y), journal)
            assert journal.held() == (0, 0)


def test_a_seed_draws_any_noise():
    assert len(as_randomness(0).gaussian(1e20, 3, 1.0)) == 3
