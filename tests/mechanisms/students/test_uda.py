"""Unsupervised data augmentation, the small network, devices, and convolutional students of every mechanism."""

import json
import math
import pickle

import numpy as np
import pytest

import accountant as ac
from mechanisms.cli import main
from mechanisms.students.architectures import check_device
from mechanisms.students.augmentation import LIMITS, Augmentation
from mechanisms.students.consistency import augmentation_loss
from mechanisms.students.convolutional import ConvStudent

SMALL = {"consistency": "uda", "network": "32-64-128"}
NOTHING = dict.fromkeys(LIMITS, 0.0)


@pytest.fixture(scope="module")
def student(torch, digits):
    return ConvStudent((8, 8), 10, **SMALL, epochs=40).fit(*digits[:2])


def pictures(torch, shape=(1, 12, 16), n=200):
    return torch.rand((n, *shape), generator=torch.Generator().manual_seed(2))


# --- what is learnt ------------------------------------------------------------------------------------


def test_unanswered_images_help(student, digits):
    X, y, queries, labels = digits
    alone = ConvStudent((8, 8), 10, **SMALL, epochs=40, uda_weight=0).fit(X, y)
    with_uda, without = (np.mean(each.predict(queries) == labels) for each in (student, alone))
    assert with_uda > 0.9
    assert with_uda > without + 0.01
    assert (alone.losses_[:, 1] == 0).all()


def test_answered_images_are_learnt(student):
    first = student.losses_[:, 0]
    assert student.losses_.shape == (40, 2)
    assert np.isfinite(student.losses_).all()
    assert first[-5:].mean() < 0.4 * first[0]


def test_probabilities_and_features(student, digits):
    queries = digits[2]
    chances = student.predict_proba(queries)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    assert np.array_equal(chances.argmax(axis=1), student.predict(queries))
    outside = np.array(queries[:3]) * 3 - 1  # a private record that is out of range must not be told from others
    np.testing.assert_array_equal(student.transform(outside), student.transform(np.clip(outside, 0, 1)))


def test_colour_is_learnt(torch):
    y = np.arange(60) % 3
    X = np.random.default_rng(0).random((60, 64, 3), dtype=np.float32)
    X[np.arange(60), :, y] = 0.5 + X[np.arange(60), :, y] / 2
    X = X.reshape(60, -1)
    student = ConvStudent((8, 8, 3), 3, **SMALL, epochs=20, batch_size=30).fit(X, np.where(np.arange(60) < 20, y, -1))
    assert np.mean(student.predict(X) == y) > 0.9


def test_small_network(torch):
    y, pixels = np.array([0, 1, -1, 2]), np.random.default_rng(0).random((4, 28 * 28 * 3), dtype=np.float32)
    for shape, inputs, area in (((28, 28), 1, 16), ((28, 28, 3), 3, 16), ((9, 17), 1, 6)):
        network = ConvStudent(shape, 10, **SMALL, epochs=1).fit(pixels[:, : math.prod(shape)], y).network_
        sizes = [tuple(w.shape) for w in network.parameters() if w.ndim > 1]
        assert sizes[:3] == [(32, inputs, 3, 3), (64, 32, 3, 3), (128, 64, 3, 3)]
        assert sizes[3:] == [(192, 128 * area), (10, 192)]


def test_reproducible(torch, digits):
    X, y = digits[0][:70], np.arange(70) % 11 - 1
    before = torch.get_rng_state()
    first, again, other, fresh = (
        ConvStudent((8, 8), 10, **SMALL, epochs=2, batch_size=32, rng=seed).fit(X, y).transform(X)
        for seed in (3, 3, 4, None)
    )
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first, fresh)
    assert torch.equal(before, torch.get_rng_state())


def test_loss_is_that_of_its_definition(torch):
    rng = np.random.default_rng(0)
    logits, changed = rng.normal(size=(6, 4)) * 2, rng.normal(size=(6, 4))
    confidence, temperature, total = 0.7, 0.4, 0.0

    def softmax(row):
        return np.exp(row) / np.exp(row).sum()

    counted = [softmax(row).max() >= confidence for row in logits]
    assert 0 < sum(counted) < 6
    for sure, p, q in zip(counted, logits, changed, strict=True):
        sharp, other = softmax(p / temperature), softmax(q)
        total += sure * (sharp * np.log(sharp / other)).sum() / 6
    held = torch.tensor(logits, requires_grad=True)
    moved = torch.tensor(changed, requires_grad=True)
    found = augmentation_loss(held, moved, confidence, temperature)
    assert found.item() == pytest.approx(total, rel=1e-9)
    found.backward()
    assert held.grad is None  # answers to images as they are stay fixed
    assert moved.grad.abs().max() > 0


def test_images_that_are_learnt_too_fast_do_not_count(torch, digits):
    X, y = digits[0][:40], np.arange(40) % 10
    sizes = {"epochs": 1, "batch_size": 40, "uda_weight": 0}
    slow, fast = (ConvStudent((8, 8), 10, **SMALL, **sizes, uda_annealing=how) for how in ("linear", "none"))
    network = lambda pixels: 20 * torch.nn.functional.one_hot(torch.zeros(len(pixels), dtype=int), 10).float()  # noqa: E731
    losses = [each._answered_loss(network, X, y, 0.0, torch.Generator()) for each in (slow, fast)]
    assert float(losses[1]) == pytest.approx(18.0, rel=1e-3)  # nine tenths of the labels are not 0
    assert float(losses[0]) == pytest.approx(20.0, rel=1e-3)  # those that are 0 are known for sure


# --- changes of images ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 12, 16), (3, 12, 16), (1, 8, 8)])
def test_changes_keep_the_range(torch, shape):
    images = pictures(torch, shape)
    images[0], images[1] = 0.0, 1.0
    kept = images.clone()
    changed = Augmentation(flip=True, cutout=0.5).apply(images, torch.Generator().manual_seed(0))
    assert changed.shape == images.shape
    assert changed.dtype == images.dtype
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert (changed - images).abs().amax(dim=(1, 2, 3))[2:].min() > 0.1
    assert torch.equal(images, kept)


def test_changes_follow_the_generator(torch):
    images, state = pictures(torch), torch.get_rng_state()
    first, again, other = (Augmentation().apply(images, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", LIMITS)
def test_each_change_does_something(torch, name):
    images = pictures(torch, (3, 12, 16))
    changed = Augmentation(**{**NOTHING, name: 0.2 if name != "rotation" else 20.0}).apply(images, torch.Generator())
    assert (changed - images).abs().max() > 0.1
    assert torch.equal(Augmentation(**NOTHING).apply(images, torch.Generator()), images)


def test_flips_mirror_half_of_the_images(torch):
    images = pictures(torch)
    changed = Augmentation(**NOTHING, flip=True).apply(images, torch.Generator().manual_seed(0))
    mirrored = [bool(torch.allclose(a, b.flip(-1), atol=1e-5)) for a, b in zip(changed, images, strict=True)]
    same = [bool(torch.allclose(a, b, atol=1e-5)) for a, b in zip(changed, images, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True))
    assert 70 < sum(mirrored) < 130


def test_geometry_is_in_pixels(torch):
    """A bright square near the middle of an image that is no square stays a square, and moves within the limits."""
    images = torch.zeros((300, 1, 30, 60))
    images[:, :, 10:20, 25:35] = 1.0
    turned = Augmentation(**{**NOTHING, "rotation": 45.0}).apply(images, torch.Generator().manual_seed(0))
    area = turned.sum(dim=(1, 2, 3))
    assert area.min() > 93
    assert area.max() < 107
    shifted = Augmentation(**{**NOTHING, "shift": 0.1}).apply(images, torch.Generator().manual_seed(0))
    rows = (shifted.sum(dim=(1, 3)) * torch.arange(30.0)).sum(dim=1) / shifted.sum(dim=(1, 2, 3)) - 14.5
    columns = (shifted.sum(dim=(1, 2)) * torch.arange(60.0)).sum(dim=1) / shifted.sum(dim=(1, 2, 3)) - 29.5
    for found, limit in ((rows, 3.0), (columns, 6.0)):
        assert 0.95 * limit < found.abs().max() <= limit * 1.001
        assert found.min() < 0 < found.max()


# --- devices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps"])
def test_a_device_that_is_not_there(torch, monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(
        ac.ParameterError, match=f"device = '{device}', which PyTorch does not find here; accepted: cpu$"
    ):
        ConvStudent((8, 8), 10, device=device)


def test_devices_that_are_there(torch, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert [check_device(name) for name in ("cpu", "cuda", "cuda:1", "mps")] == ["cpu", "cuda", "cuda:1", "mps"]
    with pytest.raises(ac.ParameterError, match=r"accepted: cpu, cuda, cuda:0, cuda:1, mps$"):
        check_device("cuda:2")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:one", "cpu:0", "", None, 0])
def test_a_device_of_no_known_name(torch, device):
    with pytest.raises(ac.ParameterError, match=r"; accepted: cpu, cuda, cuda:0 \(or another number\), mps"):
        ConvStudent((8, 8), 10, device=device)


def test_a_student_of_a_device_is_stored_for_all(student, digits, monkeypatch):
    monkeypatch.setattr(student, "device", "cuda:0")  # as if it had learnt there
    copy = pickle.loads(pickle.dumps(student))
    assert {each.device.type for each in copy.network_.parameters()} == {"cpu"}
    assert np.array_equal(copy.predict(digits[2]), student.predict(digits[2]))


# --- students of every mechanism -----------------------------------------------------------------------

CONV = ["--student", "conv", "--consistency", "uda", "--student-network", "32-64-128", "--student-epochs", "2"]
DIGITS = ["--data", "digits", "--split", "1000,300,200", "--delta", "1e-4", "--seed", "0", "--json"]


@pytest.mark.parametrize(
    "arguments",
    [
        "private-knn --epsilon 8 --queries 60 --rounds 2",
        "gnmax --epsilon 8 --queries 60 --teachers 40 --teacher nearest",
        "lnmax --epsilon 8 --queries 60 --teachers 40 --teacher nearest",
        "reverse-knn --epsilon 2",
        "reverse-knn --epsilon 2 --rounds 2 --features hog",
    ],
)
def test_commands_of_all_mechanisms(torch, capsys, tmp_path, arguments):
    pytest.importorskip("cryptography")
    mechanism, *options = arguments.split()
    status = main(["label", mechanism, *DIGITS, *options, *CONV, "--out", str(tmp_path / "labels.npz")])
    out, err = capsys.readouterr()
    assert status == 0, err
    setting = json.loads(out)["setting"]
    assert setting["student"] == "conv"
    assert (setting["consistency"], setting["student_network"], setting["student_epochs"]) == ("uda", "32-64-128", 2)
    assert (np.load(tmp_path / "labels.npz")["prediction"] >= 0).all()


def test_a_missing_device_is_refused_before_labels_are_paid_for(torch, capsys, tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for mechanism in ("private-knn", "gnmax", "reverse-knn"):
        out = tmp_path / "labels.npz"
        status = main(["label", mechanism, *DIGITS, "--epsilon", "1", *CONV, "--device", "cuda", "--out", str(out)])
        err = capsys.readouterr().err
        assert status == 2
        assert "device = 'cuda', which PyTorch does not find here" in err
        assert err.count("\n") == 1
        assert not list(tmp_path.iterdir())
