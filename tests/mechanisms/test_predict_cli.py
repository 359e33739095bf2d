"""`mechanisms predict ind-knn`: answers, a histogram of spent budgets, durable stores, one line for every mistake."""

import json

import numpy as np
import pytest

import accountant as ac
from mechanisms.cli import main
from mechanisms.datasets import Dataset, digits, private_public_test_split
from mechanisms.prediction import PredictionSetting, completed, predict

IND = ["predict", "ind-knn", "--data", "digits", "--epsilon", "2", "--delta", "1e-4", "--queries", "60"]


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def summary(capsys, *arguments):
    status, out, err = run(capsys, *IND, *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_table_and_histogram(capsys):
    status, out, err = run(capsys, *IND, "--seed", 0)
    assert (status, err) == (0, "")
    for words in (
        "60 of 60 queries",
        "accuracy",
        "-DP under add-remove",
        "private: not to be published",
        "from a seed",
    ):
        assert words in out
    counts = [int(line.split("%")[1].split()[0]) for line in out.splitlines() if " to " in line and "%  " in line]
    assert len(counts) == 10
    assert sum(counts) == 988


def test_json(capsys):
    found = summary(capsys, "--seed", 0)
    assert 1.999 < found["epsilon"] <= 2
    assert found["answered"] == found["queries"] == 60
    assert found["accuracy"] > 0.7
    assert found["budget"] == ac.IndividualFilter.budget_for(2, 1e-4)
    assert "spent" not in found  # which depends on private data
    renyi = summary(capsys, "--seed", 0, "--conversion", "renyi")
    assert renyi["budget"] < found["budget"]
    for extra in (["--kernel", "rbf", "--bandwidth", 3], ["--hash", "8,4"], ["--reuse"], ["--threshold", 0.9]):
        assert summary(capsys, "--seed", 0, *extra)["accuracy"] > 0.5, extra


def test_results_and_store(capsys, tmp_path):
    store = tmp_path / "budgets.db"
    first = summary(capsys, "--store", store, "--out", tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as results:
        assert results["label"].shape == (60,)
        assert json.loads(str(results["summary"])) == first
    again = summary(capsys, "--store", store)
    assert again["accuracy"] < first["accuracy"] + 0.2  # the same records have less to spend
    status, _, err = run(capsys, *IND, "--store", store, "--vote-sigma", 3)
    assert status == 2
    assert "settled with" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--queries", "504"], "queries = 504; accepted: an integer in [1, 503]"),
        (["--threshold", "2"], "threshold = 2"),
        (["--selectivity", "0"], "selectivity = 0.0; accepted: (0, 1)"),
        (["--vote-sigma", "0"], "vote_sigma = 0"),
        (["--hash", "30"], "'30'; accepted: TABLES,BITS such as 30,8"),
        (["--conversion", "classic"], "invalid choice: 'classic'"),
        (["--store", "x.db", "--seed", "1"], "--store keeps what real answers cost; accepted: without --seed"),
        (["--out", "labels.txt"], "--out labels.txt: accepted: a file ending in .npz or .parquet"),
        (["--delta", "0"], "delta"),
    ],
)
def test_mistakes(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *IND, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("mechanisms: ")
    assert err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.iterdir())


def test_defaults_see_public_points_alone():
    parts = private_public_test_split(digits(), (900, 400, 300), 0)
    setting = PredictionSetting(2.0, 1e-4, queries=20, seed=0)
    other = Dataset("other", parts.private.features[::-1].copy(), parts.private.labels)
    models = [predict(setting, private, parts.public).model for private in (parts.private, other)]
    expected = completed(setting, 20, 900, Dataset("unlabelled", parts.public.features, None))
    for model in models:
        assert (model.threshold, model.vote_sigma) == (expected.threshold, expected.vote_sigma)
    unit = parts.public.features / np.linalg.norm(parts.public.features, axis=1, keepdims=True)
    pairs = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    assert np.mean(pairs >= expected.threshold) == pytest.approx(0.05, abs=0.002)
    # T votes of such a kernel, at K = n, take half the budget
    square = np.mean(pairs[pairs >= expected.threshold] ** 2)
    assert 20 * square / (2 * expected.vote_sigma**2 * 900) == pytest.approx(models[0].budget / 2, rel=1e-5)
    with pytest.raises(ac.ParameterError, match="one public point; accepted: several, or threshold and vote_sigma"):
        completed(setting, 1, 900, parts.public.take(np.array([0])))
