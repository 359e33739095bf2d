"""`accountant compare`: what differs, and no verdict that the prices do not carry."""

import csv
import io
import json
from pathlib import Path

import pytest

import accountant as ac
from accountant.cli import main

PLAN = 'delta = {delta}\n[[release]]\nname = "votes"\nevent = "{event}"\n{scale} = {value}\ncount = 10\n'


@pytest.fixture
def plan(tmp_path):
    def write(name, value=20.0, delta=1e-5, event="gaussian", more=""):
        path = tmp_path / f"{name}.toml"
        scale = "rho" if event == "zero-concentrated-dp" else "sigma"
        path.write_text(more + PLAN.format(delta=delta, event=event, scale=scale, value=value))
        return str(path)

    return write


@pytest.fixture
def compare(capsys):
    def run(*arguments):
        status = main(["compare", *arguments, "--json"])
        shown = capsys.readouterr()
        assert (status, shown.err) == (0, "")
        return json.loads(shown.out)

    return run


def test_the_cheaper_plan_is_named_with_what_differs(plan, compare, capsys):
    a, b = plan("a"), plan("b", 30.0)
    found = compare(a, b)
    prices = {each["plan"]: each for each in found["plans"]}
    assert prices[b]["epsilon"] == ac.epsilon(10 * ac.Gaussian(30), 1e-5, method="auto").epsilon
    assert found["differences"] == [{"what": "votes: sigma", "values": [20.0, 30.0]}]
    (verdict,) = found["verdict"]
    assert verdict.startswith(f"{b} has the lowest epsilon")
    assert "certified to cost less" in verdict
    assert main(["compare", a, b]) == 0
    assert "lowest epsilon" in " ".join(capsys.readouterr().out.split())
    assert main(["compare", a, b, "--csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["", a, b]
    assert float(rows[1][2]) == prices[b]["epsilon"]


def test_deltas_that_differ_are_said_and_one_is_used(plan, compare):
    found = compare(plan("a"), plan("b", delta=1e-7))
    assert {each["delta"] for each in found["plans"]} == {1e-7}
    assert found["verdict"][0].startswith("The plans state different deltas")
    assert "cost the same" in found["verdict"][1]
    assert compare(plan("a"), plan("b", delta=1e-7), "--delta", "1e-3")["delta"] == 1e-3


def test_tables_within_a_release_are_told_in_words(tmp_path, compare, capsys):
    """They were shown as Python writes them: {'event': 'gaussian', ...}."""
    paths = []
    for sigma in (2, 3):
        paths.append(str(tmp_path / f"{sigma}.toml"))
        inner = f'[release.of]\nevent = "gaussian"\nsigma = {sigma}\n'
        Path(paths[-1]).write_text(f'delta = 1e-5\n[[release]]\nevent = "random-allocation"\nsteps = 9\n{inner}')
    (found,) = compare(*paths)["differences"]
    assert found == {"what": "random-allocation: of", "values": ["(gaussian: sigma 2)", "(gaussian: sigma 3)"]}


def test_other_adjacency_has_no_verdict(plan, compare):
    found = compare(plan("a"), plan("b", 50.0, more='adjacency = "replace"\n'))
    assert found["verdict"][0].startswith("Their adjacency differs, so their epsilons do not compare")
    assert not any("lowest" in line for line in found["verdict"])


def test_upper_bounds_alone_certify_nothing(plan, compare):
    """A sample of what is known by a zCDP bound has no lower end; what is not sampled may be Gaussian noise."""
    path = plan("b", 0.1, event="zero-concentrated-dp")
    assert "certified to cost less" in compare(plan("a"), path)["verdict"][0]
    with open(path, "a") as file:
        file.write("sampling_rate = 0.9\n")
    found = compare(plan("a"), path)
    assert "These are upper bounds" in found["verdict"][0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dp-sgd"], "dp-sgd: one plan; accepted: two or more"),
        (["-", "-"], "- for 2 plans; accepted: at most once"),
        (["dp-sgd", "figure5-data-dependent-screening"], "depends on private data"),
        (["dp-sgd", "dp-sg"], "did you mean"),
    ],
)
def test_what_cannot_be_compared_is_one_line(arguments, words, capsys):
    assert main(["compare", *arguments]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)
