"""Linear NoisySGD: each gradient is clipped, and steps are priced as they are drawn."""

import math

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.labelling_plan import PlanExceeded
from mechanisms.noisy_sgd import GRADIENT_GRAIN, _clipped_gradient

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(3, 4)) * 2
Y = RNG.integers(0, 3, 900)
X = CENTRES[Y] + RNG.normal(size=(900, 4))


def model(**changes):
    return mx.LinearNoisySGD(
        **{"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 300, "n_classes": 3, "rng": 0, **changes}
    )


def test_learns():
    out = model().fit(X[:800], Y[:800])
    assert np.mean(out.predict(X[800:]) == Y[800:]) > 0.85
    assert out.spent_ == out.planned == 300 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1)
    assert out.guarantee(1e-5) == ac.epsilon(out.planned, 1e-5)


def test_noise_hurts():
    accuracy = [
        np.mean(model(noise_multiplier=noise, steps=50).fit(X[:800], Y[:800]).predict(X[800:]) == Y[800:])
        for noise in (0.5, 3000.0)
    ]
    assert accuracy[0] > accuracy[1] + 0.2


@pytest.mark.parametrize("clip", [1e-3, 0.1, 10.0])
def test_one_record_moves_the_gradient_by_at_most_the_clip(clip):
    weights = RNG.normal(size=(5, 3))
    points = (X * 50).astype(np.float32)
    whole = _clipped_gradient(points, Y, weights, clip)
    largest = 0.0
    for gone in range(0, 900, 90):
        left = np.delete(np.arange(900), gone)
        share = whole - _clipped_gradient(points[left], Y[left], weights, clip)
        largest = max(largest, float(np.linalg.norm(share)))
        assert np.array_equal(share, np.round(share / GRADIENT_GRAIN) * GRADIENT_GRAIN)  # a lattice
    assert 0.99 < largest <= 1


def test_gradient_is_that_of_the_cross_entropy():
    weights, points, labels = RNG.normal(size=(5, 3)), X[:7].astype(np.float32), Y[:7]

    def loss(w):
        scores = points.astype(float) @ w[:-1] + w[-1]
        return float(np.sum(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(7), labels]))

    clip = 1e3
    gradient = clip * _clipped_gradient(points, labels, weights, clip)
    for index in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[index] = 1e-6
        assert gradient[index] == pytest.approx(
            (loss(weights + step) - loss(weights - step)) / 2e-6, rel=1e-5, abs=clip * 1e-4
        )


def test_an_empty_batch_is_a_step_of_noise_alone():
    out = model(sampling_rate=1e-9, steps=3).fit(X, Y)
    assert np.isfinite(out.weights_).all()
    assert np.any(out.weights_ != 0)


def test_for_budget():
    found = mx.LinearNoisySGD.for_budget(2.0, 1e-5, sampling_rate=0.1, steps=100)
    assert 2 - 1e-3 < found.guarantee(1e-5).epsilon <= 2.0
    assert found.guarantee(1e-5).method == "tight"
    usual = mx.LinearNoisySGD.for_budget(2.0, 1e-5, sampling_rate=0.1, steps=100, conversion="improved")
    assert found.noise_multiplier < usual.noise_multiplier
    assert 2 - 1e-4 < usual.guarantee(1e-5, "improved").epsilon <= 2.0
    found.fit(X[:50], Y[:50])
    spent = found.spent_
    with pytest.raises(PlanExceeded, match="training 2; accepted: at most n_trainings = 1, for"):
        found.fit(X[:50], Y[:50])
    assert found.spent_ == spent
    assert found.guarantee(1e-5).epsilon <= 2.0


def test_several_trainings_share_a_budget():
    found = mx.LinearNoisySGD.for_budget(2.0, 1e-5, sampling_rate=0.1, steps=5, n_trainings=3)
    for _ in range(3):
        found.fit(X[:50], Y[:50])
    assert 2 - 1e-3 < found.guarantee(1e-5).epsilon <= 2.0
    with pytest.raises(PlanExceeded, match="training 4; accepted: at most n_trainings = 3"):
        found.fit(X[:50], Y[:50])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise_multiplier": 0.0}, "sigma = 0"),
        ({"sampling_rate": 0.0}, "sampling_rate = 0"),
        ({"steps": 0}, "steps = 0"),
        ({"clip": math.nan}, "clip = nan"),
        ({"learning_rate": -1.0}, "learning_rate = -1"),
    ],
)
def test_bad_parameters(changes, words):
    with pytest.raises(ac.ParameterError, match=words):
        model(**changes).fit(X, Y)


def test_predict_before_fit():
    with pytest.raises(ac.ParameterError, match="before fit"):
        model().predict(X)


@pytest.mark.audit
@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (0.4, True)])
def test_audit(share, caught):
    """One step with all records in the batch; the gradient of the differing record is clipped, along one weight."""
    features, labels = np.array([[1.0], [1.0]]), np.array([0, 1])
    other = np.array([[1.0], [1.0], [1.0]]), np.array([0, 1, 1])

    def mechanism(data, rng, runs):
        fits = (
            mx.LinearNoisySGD(2.0 * share, 1.0, 1, clip=1e-3, learning_rate=1.0, n_classes=2, rng=rng).fit(*data)
            for _ in range(runs)
        )
        # along the direction of one record's gradient
        return [float(fit.weights_ @ [1.0, -1.0] @ [1.0, 1.0]) for fit in fits]

    promise = ac.epsilon(ac.Gaussian(2.0), 0.1, conversion="optimal").epsilon
    found = float(
        mx.audit(mechanism, neighbours=((features, labels), other), runs=8_000, delta=0.1, batched=True, rng=3)
    )
    assert (found > promise) is caught


@pytest.mark.parametrize("far", [1.0, 1e15])
def test_scores_that_overflow_say_nothing(far, recwarn):
    """With such weights one record could make all sums nan, which no noise hides."""
    records = np.array(X[:50])
    records[0, 0] = far
    weights = np.full((5, 3), 1e300) * [1.0, -1.0, 0.5]
    gradient = _clipped_gradient(records.astype(np.float32), Y[:50], weights, 0.1)
    assert np.isfinite(gradient).all()
    assert np.linalg.norm(gradient) <= 50
    assert np.isfinite(model(learning_rate=1e300, steps=3, sampling_rate=1.0).fit(records, Y[:50]).weights_).all()
    assert not recwarn
