"""`accountant risk`: a table, plain words, JSON, a picture; and one line for what is wrong."""

import json

import pytest

import accountant as ac
from accountant.cli import main

PLAN = 'delta = 1e-5\n[[release]]\nname = "noise"\nevent = "gaussian"\nsigma = 2\ncount = 4\n'


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN)
    return "plan.toml"


def test_words_and_table(plan, capsys):
    assert main(["risk", plan]) == 0
    said = capsys.readouterr().out
    assert "An attacker who is wrong once in 1,000 about outsiders recognises at most 1.83 % of members" in said
    assert "mu = 0.9999 to 1" in said or "mu = 1 to 1" in said
    assert "wherever both error rates are at least 1e-09" in said
    assert "Protects: whether any one record is in the private data" in said


def test_json(plan, capsys):
    assert main(["risk", plan, "--json", "--fpr", "0.1,0.001", "--base-rate", "0.02", "--fpr-floor", "1e-6"]) == 0
    found = json.loads(capsys.readouterr().out)
    rates = ac.true_positive_rate(ac.GaussianDP(1.0), [0.001, 0.1])
    assert found["fpr"] == [0.001, 0.1]
    assert found["true_positive_rate"]["upper"] == pytest.approx(rates.upper.tolist(), rel=1e-9)
    assert found["precision"]["upper"] == pytest.approx(
        ac.precision(ac.GaussianDP(1.0), [0.001, 0.1], 0.02).upper.tolist(), rel=1e-9
    )
    assert found["fpr_floor"] == 1e-6
    assert found["mu"]["lower"] <= 1.0 <= found["mu"]["upper"]


@pytest.mark.audit
def test_picture(plan, tmp_path):
    assert main(["risk", plan, "-o", "risk.svg"]) == 0
    assert "members recognised" in (tmp_path / "risk.svg").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--fpr", "2"], "fpr = 2 is out of range; accepted: [0, 1]"),
        (["--fpr", "a"], "--fpr a: accepted: numbers in [0, 1]"),
        (["--prior", "1"], "prior = 1 is out of range"),
        (["--fpr-floor", "0.7"], "fpr_floor = 0.7 is out of range"),
        (["--direction", "up"], "invalid choice"),
        (["-o", "risk.txt"], "risk.txt"),
    ],
)
def test_one_line_for_what_is_wrong(plan, options, says, capsys, tmp_path):
    assert main(["risk", plan, *options]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml"]


def test_private_costs_are_refused(tmp_path, capsys):
    path = tmp_path / "secret.toml"
    path.write_text('delta = 1e-5\n[[release]]\nevent = "data-dependent-gnmax"\nsigma = 20\nvotes = [30, 2]\n')
    assert main(["risk", str(path)]) == 2
    assert "depends on private data" in capsys.readouterr().err
