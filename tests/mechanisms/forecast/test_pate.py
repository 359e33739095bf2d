"""Forecasts of PATE: against runs of teachers with these votes, exact chances, the guarantee, and the command."""

import json
import shlex

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.cli import main

VOTES = np.array([[150, 60, 40], [120, 110, 20], [20, 30, 200], [84, 83, 83]])
TARGET = {"epsilon": 2.0, "delta": 1e-5}


class Fixed:
    """A teacher that always gives the same answers: those of the table that its number says."""

    def __init__(self, answers):
        self.answers = answers

    def __call__(self, points):
        return self.answers[points[:, 0].astype(int)]


class Untaught:
    """A teacher that learns nothing; its answers are replaced."""

    def fit(self, features, labels):
        return self

    def predict(self, points):
        return np.zeros(len(points), int)


def run(model, queries, rng):
    """Labels of queries whose votes are rows of VOTES; teachers' own answers do not matter, only their counts."""
    model.fit(np.zeros((250, 1)), np.arange(250) % 3)
    answers = np.stack([np.repeat(np.arange(3), row) for row in VOTES])
    model._teachers = [Fixed(column) for column in answers.T]
    kinds = np.random.default_rng(rng).integers(0, len(VOTES), queries)
    return model.label(kinds[:, None].astype(float)), kinds


@pytest.mark.each_run(1)
@pytest.mark.parametrize("mechanism", ["gnmax", "lnmax"])
@pytest.mark.parametrize("screening", [{"screening_ratio": None}, {"screening_ratio": 2.0, "threshold": 0.45}], ids=str)
def test_as_many_and_as_good_answers_come_out_as_foreseen(mechanism, screening):
    best = mx.plan_votes(VOTES, **TARGET, queries=60, mechanism=mechanism, max_labels=0.8, **screening).best
    assert best.mechanism == mechanism
    assert best.epsilon <= 2.0
    answered, right = [], []
    for seed in range(40):
        out, kinds = run(best.estimator(rng=seed, make_teacher=Untaught), 60, seed)
        answered.append(out.answered.sum())
        right.append((out.labels == VOTES.argmax(axis=1)[kinds]).sum())
    assert best.answers == pytest.approx(np.mean(answered), abs=4 * np.std(answered) / 40**0.5 + 1e-6)
    assert best.accuracy == pytest.approx(np.sum(right) / np.sum(answered), abs=4 * 0.5 / np.sum(answered) ** 0.5)


def test_accuracy_is_the_mean_of_exact_chances():
    """Of Gaussian noise without screening, by mpmath's quadrature."""
    best = mx.plan_votes(VOTES, **TARGET, queries=100, mechanism="gnmax", screening_ratio=None).best
    sigma = best.parameters["sigma"]
    with mp.workdps(30):
        exact = []
        for row in VOTES.tolist():
            top = row.index(max(row))
            gaps = [(row[top] - other) / sigma for j, other in enumerate(row) if j != top]
            exact.append(
                mp.quad(lambda x, gaps=gaps: mp.npdf(x) * mp.fprod(mp.ncdf(x + g) for g in gaps), [-12, 0, 12])
            )
        assert abs(mp.mpf(best.accuracy) - sum(exact) / len(exact)) < 1e-12


@pytest.mark.audit
def test_every_setting_keeps_the_guarantee_and_good_ones_come_first():
    found = mx.plan_votes(VOTES[:3], epsilon=1.0, delta=1e-5, queries=(10, 60), least_accuracy=0.8)
    good = [each for each in found.forecasts if each.accuracy >= 0.8]
    assert 0 < len(good) < len(found.forecasts)
    assert list(found.forecasts[: len(good)]) == sorted(good, key=lambda each: (-each.reach, each.queries))
    assert {each.mechanism for each in found.forecasts} == {"gnmax", "lnmax"}
    for each in found.forecasts:
        model = each.estimator()
        assert ac.epsilon(model.planned(each.queries), 1e-5, method="renyi").epsilon <= 1.15
        price = ac.epsilon(model.planned(each.queries), 1e-5)
        assert each.epsilon <= 1.0
        assert price.lower is None or price.lower <= each.epsilon, "the price that is told is no smaller than the truth"
        assert 0 <= each.answers <= each.parameters["max_labels"]
        assert each.reach == pytest.approx(each.accuracy * each.answers / 60)
        assert not hasattr(model, "spent_"), "a plan spends nothing"


def test_labels_say_what_is_right():
    plurality = mx.plan_votes(VOTES, **TARGET, queries=50, screening_ratio=None, mechanism="gnmax").best
    wrong = (VOTES.argmax(axis=1) + 1) % 3
    other = mx.plan_votes(VOTES, **TARGET, queries=50, screening_ratio=None, mechanism="gnmax", labels=wrong).best
    assert other.parameters == plurality.parameters
    assert other.accuracy < 0.5 < plurality.accuracy


@pytest.mark.parametrize("gap", [0, 7, 10, 100, 249, 250])
def test_assumed_gaps_are_gaps(gap):
    (row,) = mx.gap_votes([gap], 250, 10)
    assert row.sum() == 250
    assert row.min() >= 0
    assert row.argmax() == 0
    assert set(row[0] - row[1:]) <= {gap - 1, gap}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"votes": [[1, 2], [3, 1]]}, "votes of a query add up to from 3 to 4"),
        ({"votes": [[1.5, 2]]}, "whole numbers"),
        ({"votes": [1, 2]}, "shape (2,)"),
        ({"votes": "many"}, "votes = 'many'"),
        ({"votes": [[0, 0]]}, "the number of teachers"),
        ({"mechanism": "private-knn"}, "mechanism = 'private-knn'; accepted: gnmax, lnmax"),
        ({"queries": ()}, "queries = ()"),
        ({"queries": 0}, "queries = 0"),
        ({"epsilon": 0}, "epsilon = 0"),
        ({"delta": 0}, "delta = 0"),
        ({"threshold": 120}, "threshold = 120"),
        ({"least_accuracy": 2}, "least_accuracy = 2"),
        ({"sigma": 2}, "sigma = 2; accepted: screening_ratio"),
        ({"labels": [5] * 4}, "label"),
    ],
)
def test_bad_input_is_refused_in_one_line(changes, named):
    with pytest.raises(ac.ParameterError) as caught:
        mx.plan_votes(**{"votes": VOTES, **TARGET, "queries": 20, **changes})
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


# --- the command -----------------------------------------------------------------------------------------


def test_the_command_plans_from_gaps_and_from_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("votes.npy", mx.gap_votes([60, 200], 250, 10))
    np.savetxt("votes.csv", np.load("votes.npy"), fmt="%d", delimiter=",")
    usual = ["--epsilon", "2", "--delta", "1e-5", "--queries", "30", "--json"]
    found = []
    for given in (
        ["--gaps", "60,200", "--teachers", "250", "--classes", "10"],
        ["--votes", "votes.npy"],
        ["--votes", "votes.csv"],
    ):
        assert main(["plan", "pate", *given, *usual]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1] == found[2]
    best = mx.plan_votes(mx.gap_votes([60, 200], 250, 10), **TARGET, queries=30).best
    assert found[0]["best"]["accuracy"] == best.accuracy
    _, *proposed = shlex.split(found[0]["command"])
    assert main([*proposed, "--data", "digits", "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["epsilon"] <= 2.0
    assert planned["queries"] == 30
    noise = best.parameters.get("sigma", best.parameters.get("scale"))
    assert planned["noise"] == pytest.approx(noise, rel=1e-2)


def test_the_table_says_what_is_assumed(capsys):
    given = [
        "--gaps",
        "5",
        "--teachers",
        "250",
        "--classes",
        "10",
        "--epsilon",
        "0.1",
        "--delta",
        "1e-5",
        "--queries",
        "50",
    ]
    assert main(["plan", "pate", *given]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for said in ("spent: nothing", "public or assumed", "no setting has 90% right answers", "mechanisms label"):
        assert said in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--votes", "none.npy"], "none.npy: No such file"),
        (["--votes", "text.csv"], "text.csv: holds something else"),
        (["--votes", "half.csv"], "half.csv: holds other numbers"),
        (["--gaps", "5"], "with --teachers N and --classes N"),
        (["--gaps", "300", "--teachers", "250", "--classes", "10"], "gap = 300"),
        (["--votes", "half.csv", "--teachers", "9"], "--teachers with --votes"),
    ],
)
def test_bad_options_are_one_line(capsys, tmp_path, monkeypatch, given, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.csv").write_text("a,b\n")
    (tmp_path / "half.csv").write_text("1,2.5\n")
    assert main(["plan", "pate", *given, "--epsilon", "1", "--delta", "1e-5"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert said in error
    assert error.count("\n") == 1
