"""NoisySGD of one and two layers: each gradient is clipped, and steps are priced as they are drawn."""

import math
from fractions import Fraction

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms import noisy_sgd
from mechanisms.budgets.journal import JournalError, Part
from mechanisms.clipped_sums import GRADIENT_GRAIN, row_lengths
from mechanisms.labelling_plan import PlanExceeded
from mechanisms.neighbours.kernels import products
from mechanisms.noisy_sgd import _clipped_gradient, _clipped_gradient_of_two

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


@pytest.mark.parametrize("rng", [None, 0])
def test_a_training_in_a_journal_is_given_again_and_charged_once(tmp_path, monkeypatch, rng):
    def fit(labels=Y, **changes):
        with mx.Journal(tmp_path / "journal") as journal:
            out = model(steps=20, rng=rng, **changes).fit(X, labels, journal)
            return out, journal.held()

    draw, drawn = noisy_sgd.noise_of, []

    def killed(*given):
        drawn.append(draw(*given))
        if len(drawn) == 5:
            raise KeyboardInterrupt
        return drawn[-1]

    monkeypatch.setattr(noisy_sgd, "noise_of", killed)
    with pytest.raises(KeyboardInterrupt):
        fit()
    with mx.Journal(tmp_path / "journal") as journal:
        assert journal.held() == (1, 0)
    first, held = fit()
    assert (held, len(drawn)) == ((1, 1), 25)
    again, held = fit()
    assert (held, len(drawn)) == ((1, 1), 25)
    assert np.array_equal(again.weights_, first.weights_)
    assert np.array_equal(again.predict(X), first.predict(X))
    assert again.spent_ == first.spent_ == first.planned
    for other in ({"labels": Y[::-1]}, {"clip": 0.2}, {"noise_multiplier": 2.0}):
        with pytest.raises(JournalError, match="accepted: the same run, or another file"):
            fit(**other)
    assert len(drawn) == 25


@pytest.mark.parametrize("kind", [mx.LinearNoisySGD, mx.TwoLayerNoisySGD])
@pytest.mark.parametrize("at", ["a step", "the answer"])
def test_weights_that_the_journal_does_not_hold_cannot_be_used(tmp_path, monkeypatch, kind, at):
    """Those of a training that was interrupted, or whose answer was not written, were used; then others were made."""
    out = kind(steps=5, n_classes=3, rng=0).fit(X, Y)
    assert out.predict(X).shape == (len(X),)

    def fail(*given):
        raise KeyboardInterrupt

    if at == "a step":
        monkeypatch.setattr(noisy_sgd, "noise_of", fail)
    else:
        monkeypatch.setattr(Part, "answer", fail)
    with mx.Journal(tmp_path / "journal") as journal:
        with pytest.raises(KeyboardInterrupt):
            out.fit(X, Y, journal)
        assert journal.held() == (1, 0)
    assert not hasattr(out, "weights_")
    with pytest.raises(ac.ParameterError, match="predict was called before fit"):
        out.predict(X)
    assert out.guarantee(1e-5) == ac.epsilon(2 * out.planned, 1e-5)  # what was charged stays


def test_a_charge_that_is_refused_leaves_what_was_paid_for(tmp_path, monkeypatch):
    """The weights of the training before it: nothing of another one exists."""
    out = mx.LinearNoisySGD(steps=5, n_classes=3, rng=0).fit(X, Y)
    before = out.predict(X)

    def refuse(*given):
        raise JournalError("no space left")

    monkeypatch.setattr(Part, "charge", refuse)
    with mx.Journal(tmp_path / "journal") as journal, pytest.raises(JournalError):
        out.fit(X, Y, journal)
    assert np.array_equal(out.predict(X), before)
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
        ({"noise_multiplier": 0.0}, "noise_multiplier = 0"),
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


# --- two layers ----------------------------------------------------------------------------------------


def two_layers(**changes):
    return mx.TwoLayerNoisySGD(
        **{
            "noise_multiplier": 1.0,
            "sampling_rate": 0.1,
            "steps": 300,
            "n_classes": 3,
            "rng": 0,
            "hidden": 8,
            **changes,
        }
    )


def made_of(*shapes, scale=1.0):
    return tuple(scale * np.random.default_rng(5).normal(size=shape) for shape in shapes)


def test_two_layers_learn_what_one_cannot():
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (3000, 2))
    labels = (points[:, 0] * points[:, 1] > 0).astype(int)  # four quarters
    sizes = {"noise_multiplier": 0.5, "steps": 400, "clip": 1.0, "n_classes": 2}
    two = two_layers(**sizes, hidden=16).fit(points[:2000], labels[:2000])
    one = model(**sizes).fit(points[:2000], labels[:2000])
    assert np.mean(two.predict(points[2000:]) == labels[2000:]) > 0.9
    assert np.mean(one.predict(points[2000:]) == labels[2000:]) < 0.7
    assert two.spent_ == two.planned == 400 * ac.PoissonSubsampled(ac.Gaussian(0.5), 0.1)


@pytest.mark.parametrize("clip", [1e-3, 0.1, 10.0])
def test_one_record_moves_both_layers_by_at_most_the_clip(clip):
    layers = made_of((5, 6), (7, 3))
    points = (X * 50).astype(np.float32)
    whole = _clipped_gradient_of_two(points, Y, layers, clip)
    squares = []
    for gone in range(0, 900, 90):
        left = np.delete(np.arange(900), gone)
        units = (whole - _clipped_gradient_of_two(points[left], Y[left], layers, clip)) / GRADIENT_GRAIN
        assert np.array_equal(units, np.round(units))  # a lattice, so that the sum of squares is exact
        squares.append(sum(int(each) ** 2 for each in units))
        assert squares[-1] <= (1 / Fraction(GRADIENT_GRAIN)) ** 2
    assert max(squares) > 0.99**2 / GRADIENT_GRAIN**2


def test_gradient_of_two_layers_is_that_of_the_cross_entropy():
    (first, second), points, labels = made_of((5, 6), (7, 3)), X[:7].astype(np.float32), Y[:7]

    def loss(weights):
        hidden = np.maximum(points.astype(float) @ weights[:4] + weights[4], 0.0)
        scores = hidden @ second[:-1] + second[-1]
        return float(np.sum(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(7), labels]))

    clip = 1e3
    gradient = clip * _clipped_gradient_of_two(points, labels, (first, second), clip)[: first.size].reshape(first.shape)
    for index in np.ndindex(first.shape):
        step = np.zeros_like(first)
        step[index] = 1e-6
        slope = (loss(first + step) - loss(first - step)) / 2e-6
        assert gradient[index] == pytest.approx(slope, rel=1e-4, abs=clip * 2e-4)


@pytest.mark.parametrize("far", [1.0, 1e15])
@pytest.mark.parametrize("scale", [1.0, 1e200])
def test_two_layers_that_overflow_say_nothing(far, scale, recwarn):
    records = np.array(X[:50])
    records[0, 0] = far
    gradient = _clipped_gradient_of_two(records.astype(np.float32), Y[:50], made_of((5, 6), (7, 3), scale=scale), 0.1)
    assert np.isfinite(gradient).all()
    assert np.linalg.norm(gradient) <= 50
    out = two_layers(learning_rate=1e300, steps=3, sampling_rate=1.0).fit(records, Y[:50])
    assert np.isfinite(out.weights_).all()
    out.predict(records)
    assert not recwarn


def test_two_layers_begin_with_public_weights():
    first, again, other = (two_layers(steps=1, start=start, rng=3).fit(X, Y).weights_ for start in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert first.shape == (5 * 8 + 9 * 3,)
    for hidden in (0, 2.5):
        with pytest.raises(ac.ParameterError, match=f"hidden = {hidden}; accepted: an integer"):
            two_layers(hidden=hidden).fit(X, Y)
    with pytest.raises(ac.ParameterError, match="start = -1"):
        two_layers(start=-1).fit(X, Y)
    found = mx.TwoLayerNoisySGD.for_budget(2.0, 1e-5, steps=10, hidden=5, conversion="improved")
    assert found.hidden == 5
    assert found.guarantee(1e-5, "improved").epsilon <= 2.0


@pytest.mark.audit
@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (0.4, True)])
def test_audit_of_two_layers(share, caught):
    """As for one layer: the score is along the gradient of the record that is added, which the clip makes 1 long."""
    features, labels = np.array([[1.0], [1.0]]), np.array([0, 1])
    other = np.array([[1.0], [1.0], [1.0]]), np.array([0, 1, 1])
    sizes = {"clip": 1e-3, "learning_rate": 1.0, "n_classes": 2, "hidden": 3}
    begun = mx.TwoLayerNoisySGD(1e-9, 1e-9, 1, **sizes, rng=0).fit(*other)  # nothing is sampled, so nothing is learnt
    start = begun._start(np.ones((1, 1), np.float32), 2)
    np.testing.assert_allclose(begun.weights_, start, atol=1e-7)
    direction = _clipped_gradient_of_two(np.ones((1, 1), np.float32), np.array([1]), begun._layers(), 1e-3)
    assert 0.99 < np.linalg.norm(direction) <= 1

    def mechanism(data, rng, runs):
        fits = (mx.TwoLayerNoisySGD(2.0 * share, 1.0, 1, **sizes, rng=rng).fit(*data) for _ in range(runs))
        return [float((start - fit.weights_) @ direction) for fit in fits]

    promise = ac.epsilon(ac.Gaussian(2.0), 0.1, conversion="optimal").epsilon
    found = float(
        mx.audit(mechanism, neighbours=((features, labels), other), runs=8_000, delta=0.1, batched=True, rng=3)
    )
    assert (found > promise) is caught


def test_what_a_record_adds_depends_on_no_other():
    """The last bits of a matrix product depend on its size: then a record could move another one's gradient."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        n, d, c = rng.integers(1, [40, 70, 20])
        rows, weights = rng.normal(size=(n, d)), rng.normal(size=(d, c))
        whole, lengths = products(rows, weights), row_lengths(rows)
        assert np.allclose(whole, rows @ weights, rtol=1e-12, atol=1e-12)
        some = rng.permutation(n)[: rng.integers(1, n + 1)]
        assert np.array_equal(products(rows[some], weights), whole[some])
        assert np.array_equal(row_lengths(rows[some]), lengths[some])
        assert all(np.array_equal(products(rows[i : i + 1], weights)[0], whole[i]) for i in some[:3])


def test_gradients_of_a_batch_are_the_sum_of_those_of_its_records():
    rng = np.random.default_rng(1)
    for _ in range(20):
        n, d, c = rng.integers([1, 1, 2], [12, 30, 12])
        points, labels = rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, c, n)
        weights = rng.normal(size=(d + 1, c))
        each = [_clipped_gradient(points[i : i + 1], labels[i : i + 1], weights, 0.1) for i in range(n)]
        assert np.array_equal(_clipped_gradient(points, labels, weights, 0.1), np.sum(each, axis=0))
