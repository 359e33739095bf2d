"""Label sets: PATE, rounds, students, experiments and the command, as for single labels."""

import itertools
import json

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.cli import main
from mechanisms.datasets import Dataset, digits
from mechanisms.experiment import Experiment, ReverseExperiment, ReverseSetting, Setting
from mechanisms.rounds import label_in_rounds
from mechanisms.students.network import NetworkStudent
from mechanisms.voting import clip_votes, clipped_sensitivity

WHOLE = digits()
SETS = np.stack([WHOLE.labels % 2, WHOLE.labels >= 5, WHOLE.labels % 3 == 0], axis=1).astype(np.int64)
PRIVATE, PUBLIC, TEST = (
    Dataset(name, WHOLE.features[rows], SETS[rows], (8, 8))
    for name, rows in (("private", slice(0, 1000)), ("public", slice(1000, 1300)), ("test", slice(1300, 1500)))
)


def quick():
    return NetworkStudent(hidden=16, max_iter=60)


def test_a_teacher_moves_the_votes_no_further_than_is_priced():
    """All pairs of label sets of four labels: clipped to L1 norm c, they are at most sqrt(2 c) apart."""
    every = np.array(list(itertools.product((0, 1), repeat=4)))
    for clip in (0.5, 1.0, 2.0, 3.0, 4.0):
        votes = clip_votes(every, clip)
        apart = np.linalg.norm(votes[:, None] - votes[None, :], axis=2).max()
        event = mx.GNMax(10, 5.0, clip=clip).vote_event
        assert apart <= event.sensitivity * (1 + 1e-12)
        assert event == ac.Gaussian(5.0, event.sensitivity)
    assert np.linalg.norm(votes[3] - votes[12]) == pytest.approx(2.0)


def test_votes_of_teachers_are_clipped_sums():
    model = mx.GNMax(5, 1.0, make_teacher=None, clip=2.0, rng=0).fit(PRIVATE.features, PRIVATE.labels)
    votes = model.votes(PUBLIC.features[:20])
    sets = np.stack([teacher(PUBLIC.features[:20]) for teacher in model._teachers])
    np.testing.assert_allclose(votes, sum(clip_votes(each, 2.0) for each in sets))
    assert votes.sum(axis=1).max() <= 10 + 1e-9


def test_pate_labels_sets():
    model = mx.GNMax(10, 0.5, clip=3.0, max_labels=40, rng=0).fit(PRIVATE.features, PRIVATE.labels)
    out = model.label(PUBLIC.features[:40])
    assert out.labels.shape == (40, 3)
    assert np.mean(out.labels == PUBLIC.labels[:40]) > 0.8
    assert out.composition == 40 * ac.Gaussian(0.5, clipped_sensitivity(3.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mx.GNMax(5, clip=2.0, classes=("a", "b", "c")).fit(PRIVATE.features, PRIVATE.labels), "without names"),
        (lambda: mx.GNMax(5, clip=2.0).fit(PRIVATE.features, PRIVATE.labels * 2), "values other than 0 and 1"),
        (lambda: mx.GNMax(5, clip=-2.0).fit(PRIVATE.features, PRIVATE.labels), "clip = -2.0"),
        (lambda: mx.GNMax(5, clip=2.0).fit(PRIVATE.features, WHOLE.labels[:1000]), "accepted with clip"),
        (lambda: Setting("lnmax", 1.0, 1e-5, clip=2.0), "clip = 2.0 with lnmax"),
        (lambda: Setting("gnmax", 1.0, 1e-5, clip=2.0, screening_ratio=3.0), "without screening"),
        (lambda: Setting("private-knn", 1.0, 1e-5, clip=2.0, student="conv"), "student network"),
        (lambda: Experiment(Setting("gnmax", 1.0, 1e-5), PRIVATE, PUBLIC), "one label for each record"),
        (lambda: Experiment(Setting("gnmax", 1.0, 1e-5, clip=2.0), PRIVATE, PUBLIC, n_classes=4), "classes = 4"),
        (lambda: Experiment(Setting("gnmax", 1.0, 1e-5, clip=2.0), WHOLE, PUBLIC), "label sets for each record"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ac.ParameterError, match=message):
        make()


def test_rounds_and_students_learn_sets():
    knn = mx.PrivateKNN(30, 0.5, screening_sigma=None, vote_sigma=2.0, clip=3.0, max_labels=40, rng=0)
    asks = {"queries": 40, "rounds": 2, "choose": "first", "make_student": quick}
    out = label_in_rounds(knn, PRIVATE.features, PRIVATE.labels, PUBLIC.features, **asks)
    assert out.labels.shape == (300, 3)
    assert out.answered.sum() == 80
    assert np.mean(out.student.predict(TEST.features) == TEST.labels) > 0.7
    assert out.student.predict(TEST.features[:0]).shape == (0, 3)
    assert out.student.transform(TEST.features).shape == (200, 16)
    assert out.composition == 80 * ac.PoissonSubsampled(ac.Gaussian(2.0, clipped_sensitivity(3.0)), 0.5)


@pytest.mark.parametrize("labels", [np.full((3, 2), -1), np.array([[0, 1], [1, 2], [0, 0]]), np.array([[0, -1]] * 3)])
def test_sets_that_a_student_refuses(labels):
    with pytest.raises(ac.ParameterError, match=r"label set|0 and 1"):
        NetworkStudent().fit(WHOLE.features[:3], labels)


def test_reverse_experiment_with_sets():
    """One label of three for each record: as many ones in each row, as the paper asks."""
    one = np.eye(3, dtype=np.int64)
    parts = [Dataset(each.name, each.features, one[each.labels.sum(axis=1) % 3]) for each in (PRIVATE, PUBLIC, TEST)]
    experiment = ReverseExperiment(ReverseSetting(2.0, 0.0, queries=20, seed=0), *parts)
    experiment.make_student = quick
    outcome = experiment.run()
    assert outcome.labels.shape == outcome.predictions.shape == (300, 3)
    assert np.mean(outcome.labels == parts[1].labels) > 0.6
    with pytest.raises(ac.ParameterError, match="client_split = 'by-label' with label sets"):
        ReverseExperiment(ReverseSetting(2.0, 0.0, client_split="by-label"), *parts)


@pytest.mark.parametrize("out", ["out.csv", "out.npz", "out.parquet"])
def test_the_command(tmp_path, capsys, monkeypatch, out):
    monkeypatch.setattr(NetworkStudent.__init__, "__defaults__", (16, 7, 0.2, 40, 0))
    for each in (PRIVATE, PUBLIC):
        np.savez(tmp_path / each.name, features=each.features, labels=each.labels)
    files = ["--private", str(tmp_path / "private.npz"), "--public", str(tmp_path / "public.npz")]
    noise = ["--vote-sigma", "4", "--queries", "30", "--choose", "first", "--clip", "2", "--delta", "1e-4"]
    assert main(["label", "private-knn", *files, *noise, "--seed", "0", "--json", "--out", str(tmp_path / out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["labelled"], found["classes"], found["answered"]) == (30, 3, 30)
    if out.endswith("csv"):
        head, first, *_, last = (tmp_path / out).read_text().splitlines()
        assert head == "id,answered,label_0,label_1,label_2,prediction_0,prediction_1,prediction_2"
        assert first.split(",")[1] == "true"
        assert last.split(",")[1:5] == ["false", "-1", "-1", "-1"]
