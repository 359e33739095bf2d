"""Experiments with data split over clients: one guarantee, and labels that do not depend on the split."""

import json

import numpy as np
import pytest

import accountant as ac
from mechanisms.cli import main
from mechanisms.datasets import load, private_public_test_split
from mechanisms.exclusive import UsageError
from mechanisms.experiment.reverse import ReverseExperiment, ReverseSetting, split_over_clients

CUT = private_public_test_split(load("digits"), (988, 503, 305), 0)
LABELS = np.random.default_rng(0).integers(0, 4, 400)


def test_splits():
    even = split_over_clients(LABELS, 8)
    assert np.bincount(even).tolist() == [50] * 8
    assert min(len(np.unique(LABELS[even == client])) for client in range(8)) == 4
    sorted_ones = split_over_clients(LABELS, 8, "by-label")
    assert np.bincount(sorted_ones).tolist() == [50] * 8
    assert max(len(np.unique(LABELS[sorted_ones == client])) for client in range(8)) <= 2
    uneven = split_over_clients(LABELS, 8, "dirichlet")
    assert uneven.min() >= 0
    assert uneven.max() <= 7
    shares = [np.bincount(uneven[label == LABELS], minlength=8).max() / (label == LABELS).sum() for label in range(4)]
    assert max(shares) > 0.4
    for how in ("iid", "by-label", "dirichlet"):
        assert np.array_equal(split_over_clients(LABELS, 8, how), split_over_clients(LABELS, 8, how))
        assert not np.array_equal(split_over_clients(LABELS, 8, how), split_over_clients(LABELS, 8, how, 1))


@pytest.mark.audit
def test_digits_badly_split():
    """Labels are the same for every split; the student is nearly as good as the noiseless one."""
    runs = {}
    for how, clients in (("iid", 1), ("by-label", 40), ("dirichlet", 25)):
        setting = ReverseSetting(epsilon=1.0, delta=0.0, clients=clients, client_split=how, seed=1)
        experiment = ReverseExperiment(setting, CUT.private, CUT.public, CUT.test)
        assert experiment.guarantee.epsilon == 1.0
        runs[how] = experiment.run(diagnostics=True)
        assert runs[how].spent == experiment.planned == 1 * ac.Laplace(2.0, 1.0, 2, adjacency=ac.Adjacency.REPLACE)
        np.testing.assert_array_equal(runs[how].labels, runs["iid"].labels)
        found = runs[how].diagnostics
        assert found.student_accuracy > found.noiseless_accuracy - 0.08 > 0.8
        assert found.nonprivate_accuracy > 0.9
        assert found.label_accuracy > 0.8


def test_diagnostics_only_when_asked_for_and_one_run():
    experiment = ReverseExperiment(ReverseSetting(epsilon=1.0, delta=0.0, seed=1), CUT.private, CUT.public, CUT.test)
    assert experiment.run().diagnostics is None
    with pytest.raises(UsageError, match=r"ReverseExperiment\.run was called before; accepted: a new"):
        experiment.run()


@pytest.mark.audit
def test_the_command(tmp_path, capsys):
    out = tmp_path / "labels.npz"
    options = ["--data", "digits", "--epsilon", "2", "--delta", "1e-5", "--seed", "0", "--clients", "20"]
    discrete = [*options, "--noise", "discrete-laplace", "--json", "--out", str(out), "--diagnostics"]
    assert main(["label", "reverse-knn", *discrete]) == 0
    said, terminal = capsys.readouterr()
    summary = json.loads(said)
    assert (summary["mechanism"], summary["model"], summary["clients"]) == ("reverse-knn", "central", 20)
    assert 1.9 < summary["epsilon"] <= 2.0
    assert summary["adjacency"] == "replace"
    assert summary["labelled"] == summary["records"]["public"]
    assert summary["records"]["private"] == 988
    assert "accuracy" not in said
    assert "bytes" not in said
    for words in ("not private: do not publish", "label accuracy", "noiseless accuracy", "bytes per client"):
        assert terminal.count(words) == 1
    with np.load(out) as found:
        assert found["answered"].all()
        assert len(found["label"]) == summary["records"]["public"]
        assert json.loads(str(found["summary"])) == summary
    assert (
        main(
            ["label", "reverse-knn", *options, "--model", "local", "--queries", "10", "--out", str(tmp_path / "b.npz")]
        )
        == 0
    )
    assert "epsilon of a report" in capsys.readouterr().out


def test_two_reports_of_each_user(tmp_path, capsys):
    """One for the neighbours and one for the label: the whole is priced."""
    given = ["--model", "local", "--randomizer", "separation", "--data", "digits", "--epsilon", "2", "--delta", "1e-5"]
    out = tmp_path / "labels.npz"
    assert main(["label", "reverse-knn", *given, "--queries", "8", "--out", str(out), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert 1.9 < record["epsilon"] <= 2.0
    assert sum(each["count"] for each in record["spent"]) == 2


def test_nominal_is_for_add_remove_adjacency():
    """Under replace adjacency the number of records is public."""
    replace = ReverseSetting(epsilon=1.0, delta=0.0)
    assert ReverseExperiment(replace, CUT.private, CUT.public).nominal == 988
    with pytest.raises(ac.ParameterError, match="nominal = 900 records under replace adjacency"):
        ReverseExperiment(replace, CUT.private, CUT.public, nominal=900)
    other = ReverseSetting(epsilon=1.0, delta=0.0, adjacency="add-remove")
    assert ReverseExperiment(other, CUT.private, CUT.public).nominal == 990
    assert ReverseExperiment(other, CUT.private, CUT.public, nominal=900).nominal == 900


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--delta", "0", "--noise", "gaussian"], "delta = 0 with noise = 'gaussian'"),
        (["--delta", "0", "--model", "shuffle"], "delta = 0 in the shuffle model"),
        (["--delta", "0", "--clients", "100000"], "clients = 100000"),
        (["--delta", "0", "--queries", "100000"], "queries = 100000"),
        (["--delta", "0", "--model", "local", "--randomizer", "shares"], "randomizer = 'shares' in the local model"),
        (["--delta", "0", "--balance", "-1"], "balance = -1.0; accepted: [0, 1]"),
        (
            ["--delta", "0", "--randomizer", "separation"],
            "--randomizer separation with --model central; accepted: --model local or shuffle, or no --randomizer",
        ),
        (
            ["--delta", "0", "--dropout", "0.1"],
            "--dropout 0.1 with --model central; accepted: --model shuffle, or no --dropout",
        ),
        (
            ["--delta", "0", "--model", "local", "--noise", "gaussian"],
            "--noise gaussian with --model local; accepted: --model central, or no --noise",
        ),
    ],
)
def test_mistakes_are_named_before_anything_is_spent(options, said, capsys):
    assert main(["label", "reverse-knn", "--data", "digits", "--epsilon", "1", "--dry-run", *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
