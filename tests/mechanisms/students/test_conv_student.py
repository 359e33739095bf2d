"""The convolutional student: learns from unanswered images too, by virtual adversarial training."""

import math
import pickle
import sys

import numpy as np
import pytest

import accountant as ac
from mechanisms.students.consistency import divergence, perturbation
from mechanisms.students.convolutional import ConvStudent

FAST = {"epochs": 2, "batch_size": 32}


@pytest.fixture(scope="module")
def student(torch, digits):
    return ConvStudent((8, 8), 10, epochs=25).fit(*digits[:2])


def noise(n, shape=(8, 8), seed=0):
    return np.random.default_rng(seed).random((n, math.prod(shape)), dtype=np.float32)


def test_unanswered_images_help(student, digits):
    X, y, queries, labels = digits
    alone = ConvStudent((8, 8), 10, epochs=25, vat_weight=0).fit(X, y)
    with_vat, without = (np.mean(each.predict(queries) == labels) for each in (student, alone))
    assert with_vat > 0.9
    assert with_vat > without + 0.02


def test_unanswered_images_move_the_weights(torch, student, digits):
    X, y, _, _ = digits
    for weights in student.network_.parameters():
        weights.grad = None
    student._roughness(student.network_, X[y < 0][:64], torch.Generator().manual_seed(0)).backward()
    assert all(weights.grad.abs().max() > 0 for weights in student.network_.parameters())


def test_transform_is_the_input_of_the_last_layer(student, digits):
    queries = digits[2]
    hidden = student.transform(queries)
    assert hidden.shape == (len(queries), 192)
    assert hidden.dtype == np.float32
    assert (hidden >= 0).all()
    last = student.network_[-1]
    logits = hidden @ last.weight.detach().numpy().T + last.bias.detach().numpy()
    whole = student.network_(student._tensor(queries)).detach().numpy()
    np.testing.assert_allclose(logits, whole, rtol=1e-4, atol=1e-4)
    labels = student.predict(queries)
    assert labels.dtype == np.int64
    assert np.mean(labels == logits.argmax(axis=1)) > 0.999
    assert np.array_equal(hidden, student.transform(queries))


def test_perturbation_is_adversarial(torch, student, digits):
    pixels = student._tensor(digits[2][:200])
    generator = torch.Generator().manual_seed(1)
    logits = student.network_(pixels).detach()
    r = perturbation(student.network_, pixels, logits, 0.5, student.vat_finite_difference, generator)
    assert not r.requires_grad
    np.testing.assert_allclose(r.flatten(1).norm(dim=1), 0.5, rtol=1e-5)
    random = torch.randn(r.shape, generator=generator)
    random *= 0.5 / random.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    found, chance = (divergence(logits, student.network_(pixels + step)).detach() for step in (r, random))
    assert found.mean() > 3 * chance.mean()
    assert (found > chance).float().mean() > 0.9


def test_perturbation_keeps_its_norm_without_a_gradient(torch):
    pixels = torch.zeros(3, 1, 8, 8)
    r = perturbation(lambda x: 0 * x.flatten(1), pixels, torch.zeros(3, 64), 2.0, 0.01, torch.Generator())
    np.testing.assert_allclose(r.flatten(1).norm(dim=1), 2.0, rtol=1e-5)


def testdivergence(torch):
    p, q = np.array([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]]), np.array([[0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    logits = [torch.tensor(np.log(each) + 7) for each in (p, q)]
    np.testing.assert_allclose(divergence(*logits), (p * np.log(p / q)).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("shape", [(8, 8), (9, 13), (28, 28), (8, 8, 3), (10, 9, 3)])
def test_shapes(torch, shape):
    X, y = noise(12, shape), np.arange(12) % 4 - 1
    student = ConvStudent(shape, 3, epochs=1, batch_size=8).fit(X, y)
    assert student.transform(X).shape == (12, 192)
    assert set(student.predict(X)) <= {0, 1, 2}
    assert student.vat_radius == pytest.approx(2.0 * math.sqrt(math.prod(shape)) / 28)
    assert student.predict(X[:0]).shape == (0,)
    assert student.transform(X[:0]).shape == (0, 192)


def test_channels_come_last(torch):
    X = noise(2, (8, 9, 3))
    tensor = ConvStudent((8, 9, 3), 3)._tensor(X).numpy()
    assert tensor[1, 2, 3, 4] == X.reshape(2, 8, 9, 3)[1, 3, 4, 2]


def test_colour_is_learnt(torch):
    y = np.arange(60) % 3
    X = noise(60, (8, 8, 3)).reshape(60, 64, 3)
    X[np.arange(60), :, y] = 0.5 + X[np.arange(60), :, y] / 2
    X = X.reshape(60, -1)
    student = ConvStudent((8, 8, 3), 3, epochs=20, batch_size=30).fit(X, np.where(np.arange(60) < 20, y, -1))
    assert np.mean(student.predict(X) == y) > 0.9


def test_networks_are_those_of_the_paper(torch):
    y = np.array([0, 1, -1, 2])
    grey = ConvStudent((28, 28), 10, epochs=1).fit(noise(4, (28, 28)), y).network_
    colour = ConvStudent((8, 8, 3), 10, epochs=1).fit(noise(4, (8, 8, 3)), y).network_
    sizes = [[tuple(w.shape) for w in network.parameters() if w.ndim > 1] for network in (grey, colour)]
    assert sizes[0] == [(64, 1, 5, 5), (128, 64, 5, 5), (384, 128 * 49), (192, 384), (10, 192)]
    convolutions = [(96, 3), (96, 96), (96, 96), (192, 96), (192, 192), (192, 192)]
    assert sizes[1][:7] == [*((*size, 3, 3) for size in convolutions), (192, 192, 5, 5)]
    assert sizes[1][7:] == [(192, 192 * 4), (192, 192), (10, 192)]


def test_reproducible(torch):
    X, y = noise(70), np.arange(70) % 11 - 1
    X.flags.writeable = y.flags.writeable = False
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first, again, other, fresh = (
        ConvStudent((8, 8), 10, **FAST, rng=seed).fit(X, y).transform(X) for seed in (3, 3, 4, None)
    )
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first, fresh)
    assert torch.equal(before, torch.get_rng_state())
    assert threads == torch.get_num_threads()


def test_can_be_stored(student, digits):
    assert np.array_equal(pickle.loads(pickle.dumps(student)).predict(digits[2]), student.predict(digits[2]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": (64,)}, r"images = \(64,\); accepted: \(height, width\)"),
        ({"images": (7, 8)}, "sides >= 8"),
        ({"images": (8, 8, 1)}, r"\(height, width, 3\)"),
        ({"images": (8.0, 8)}, "accepted"),
        ({"images": "8x8"}, "images = '8x8'"),
        ({"n_classes": 1}, "n_classes = 1"),
        ({"epochs": 0}, "epochs = 0"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"learning_rate": 0.0}, r"learning_rate = 0.0; accepted: a finite number above 0"),
        ({"learning_rate": "fast"}, "learning_rate = 'fast'"),
        ({"vat_radius": math.inf}, "vat_radius = inf"),
        ({"vat_finite_difference": -1.0}, "vat_finite_difference = -1"),
        ({"vat_weight": math.nan}, "vat_weight = nan"),
        ({"rng": -1}, "rng = -1"),
    ],
)
def test_refuses_parameters(changes, message):
    with pytest.raises(ac.ParameterError, match=message) as caught:
        ConvStudent(**{"images": (8, 8), "n_classes": 10, **changes})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.full((3, 64), np.nan), [0, 1, -1], r"X\[0\]"),
        (np.zeros((3, 63)), [0, 1, -1], r"X has 63 columns; accepted: 64, as images of shape \(8, 8\)"),
        (np.zeros((3, 8, 8)), [0, 1, -1], "shape"),
        (np.eye(3, 64) * 255, [0, 1, -1], r"X\[0\] has pixels out of range; accepted: \[0, 1\]"),
        (np.zeros((3, 64)), [0, 1], r"\(3,\)"),
        (np.zeros((3, 64)), [0, 1, -2], "-1"),
        (np.zeros((3, 64)), [0, 1, 10], "y holds the label 10; accepted: -1..9"),
        (np.zeros((3, 64)), [0.0, 1.0, -1.0], "integers"),
        (np.zeros((3, 64)), [-1, -1, -1], "at least one"),
        (np.zeros((0, 64)), np.zeros(0, np.int64), "at least one"),
    ],
)
def test_refuses_data(torch, X, y, message):
    student = ConvStudent((8, 8), 10, **FAST)
    with pytest.raises(ac.ParameterError, match=message) as caught:
        student.fit(X, y)
    assert "\n" not in str(caught.value)
    for use in (student.predict, student.transform):
        with pytest.raises(ac.ParameterError, match=r"called before fit; accepted: fit\(X, y\)"):
            use(np.zeros((1, 64)))


def test_refuses_to_diverge(torch):
    with pytest.raises(ac.ParameterError, match=r"learning_rate = 1e\+30 diverges; accepted: a smaller one"):
        ConvStudent((8, 8), 10, **FAST, learning_rate=1e30).fit(noise(40), np.arange(40) % 10)


def test_missing_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ac.MissingExtra, match=r"torch is not installed; accepted: .*'knn-accountant\[torch\]'"):
        ConvStudent((8, 8), 10)
