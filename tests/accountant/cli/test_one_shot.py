"""Commands without a plan: what they find, print and write, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import accountant as ac
from accountant.cli import main

RECIPE = ["dp-sgd", "--records", "1000", "--batch", "100", "--epochs", "3", "--delta", "1e-4"]


@pytest.fixture
def answer(capsys):
    """What a command prints as JSON."""

    def ask(*arguments):
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture
def refusal(capsys):
    """The one line with which a command is refused."""

    def ask(*arguments):
        assert main(list(arguments)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return err

    return ask


def test_dp_sgd_prices_a_recipe(answer):
    found = answer(*RECIPE, "--sigma", "1.5", "--adjacency", "replace")
    training = ac.dp_sgd(1000, 100, 3, sigma=1.5, delta=1e-4, adjacency="replace")
    assert found["epsilon"] == training.guarantee.epsilon
    assert found["lower"] == training.guarantee.lower
    assert found["renyi"]["epsilon"] == training.renyi.epsilon
    assert (found["adjacency"], found["delta"], found["sigma"], found["steps"]) == ("replace", 1e-4, 1.5, 30)
    assert (found["method"], found["order"]) == ("tight", None)
    assert found["releases"][0]["event"] == "clipped-sum"
    mu, advantage = ac.gaussian_dp(training.run, 1e-9), ac.advantage(training.run)
    assert found["mu"] == {"lower": mu.lower, "upper": mu.upper, "fpr_floor": 1e-9}
    assert found["advantage"] == {"lower": advantage.lower, "upper": advantage.upper}
    assert found["true_positive_rate_at_0.01"]["upper"] < 0.2


def test_dp_sgd_finds_the_noise_and_writes_a_plan(answer, tmp_path, capsys, refusal):
    path = str(tmp_path / "plan.toml")
    found = answer(*RECIPE, "--epsilon", "3", "--stop-at", "20", "--write", path)
    whole = ac.dp_sgd(1000, 100, 3, epsilon=3.0, delta=1e-4)
    assert found["sigma"] == whole.sigma
    assert (found["steps"], found["planned_steps"]) == (20, 30)
    plan = ac.load_plan(path)
    assert plan.run == whole.stop_at(20).run
    assert main(["epsilon", path, "--method", "tight"]) == 0
    capsys.readouterr()
    before = Path(path).read_bytes()
    assert "exists; accepted: another file, or --force" in refusal(*RECIPE, "--sigma", "9", "--write", path)
    assert Path(path).read_bytes() == before
    answer(*RECIPE, "--sigma", "9", "--write", path, "--force")
    assert Path(path).read_bytes() != before


def test_dp_sgd_in_words(capsys):
    arguments = [
        "dp-sgd",
        "--records",
        "1000",
        "--batch",
        "100",
        "--phase",
        "2:10",
        "--phase",
        "3:5",
        "--delta",
        "1e-3",
    ]
    assert main([*arguments, "--stop-at", "12"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Assumes Poisson sampling: each record joins each step on its own, in secret." in text
    for words in (
        "epsilon (tight)",
        "certified to be at least",
        "epsilon (Rényi, order",
        "mu (Gaussian DP",
        "attacker's advantage",
        "Protects: whether any one record is in the private data",
        "Stopped after 12 of 15 steps",
        "Caution: delta = 0.001 is not below 1/1000",
    ):
        assert words in text
    assert main([*arguments, "--markdown"]) == 0
    assert "Assumes Poisson sampling" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "none of --epsilon, --sigma and --phase; accepted: exactly one"),
        (["--sigma", "1", "--epsilon", "1"], "--epsilon, --sigma of"),
        (["--phase", "1"], "'1' is not SIGMA:STEPS"),
        (["--phase", "1:0"], "'0' is not a positive integer"),
        (["--sigma", "1", "--sampler", "shuffle"], "shuffled epochs under add-remove adjacency; accepted: replace"),
        (["--sigma", "1", "--sampler", "fixed-size"], "a fixed size under add-remove adjacency; accepted: replace"),
        (["--sigma", "1", "--stop-at", "31"], "stop_at = 31 is out of range; accepted: an integer in [1, 30]"),
        (["--sigma", "1", "--write", "/no/such/plan.toml"], "accepted: a file in an existing directory"),
        (["--sigma", "1", "--write", "plan.txt"], "accepted: a file ending in .toml"),
        (["--sigma", "0"], "sigma = 0 is out of range"),
    ],
)
def test_dp_sgd_refuses(refusal, more, words):
    assert words in refusal(*RECIPE, *more)


@pytest.mark.audit
def test_dp_sgd_prices_batches_of_a_fixed_size(answer):
    more = ["--sigma", "6", "--sampler", "fixed-size", "--adjacency", "replace", "--tolerance", "0.5"]
    recipe = [*RECIPE[:5], "--epochs", "0.2", *RECIPE[7:]]
    found = answer(*recipe, *more)
    assert (found["sampler"], found["adjacency"]) == ("fixed-size", "replace")
    assert found["epsilon"] > answer(*recipe, *more[:2], *more[4:])["epsilon"]


def test_gaussian_finds_what_is_not_given(answer):
    noise = answer("gaussian", "--epsilon", "1", "--delta", "1e-5")
    assert noise["sigma"] == pytest.approx(3.7306, abs=1e-4)  # Balle & Wang 2018, Thm 8, solved
    assert noise["epsilon"] <= 1.0
    other = answer("gaussian", "--epsilon", "1", "--sigma", str(noise["sigma"]))
    assert other["delta"] == pytest.approx(1e-5, rel=1e-4)
    assert other["lower"] <= other["delta"]
    found = answer("gaussian", "--delta", "1e-5", "--sigma", str(noise["sigma"]), "--count", "4", "--rate", "0.5")
    run = 4 * ac.PoissonSubsampled(ac.Gaussian(noise["sigma"]), 0.5)
    assert found["epsilon"] == ac.epsilon(run, 1e-5, method="tight").epsilon


def test_laplace(answer, tmp_path):
    assert answer("laplace", "--epsilon", "0.5")["scale"] == pytest.approx(2.0, rel=1e-6)
    assert answer("laplace", "--scale", "2")["epsilon"] == 0.5
    path = str(tmp_path / "plan.toml")
    found = answer("laplace", "--scale", "2", "--coordinates", "3", "--delta", "1e-5", "--write", path)
    assert found["epsilon"] <= found["renyi"]["epsilon"] <= 1.5
    assert ac.load_plan(path).run == 1 * ac.Laplace(2.0, coordinates=3)
    assert 0 < answer("laplace", "--scale", "2", "--epsilon", "0.1")["delta"] < 0.3


def test_pate(answer):
    found = answer("pate", "--sigma", "40", "--queries", "100", "--delta", "1e-5")
    assert found["epsilon"] == ac.epsilon(100 * ac.GNMax(40.0), 1e-5, method="tight").epsilon
    found = answer("pate", "--laplace", "--sigma", "40", "--delta", "1e-5")
    assert found["releases"][0] == {"name": "votes", "event": "lnmax", "scale": 40.0, "count": 1}
    screened = ["--screening-sigma", "40", "--threshold", "30", "--teachers", "50", "--answers", "2", "--queries", "3"]
    found = answer("pate", "--sigma", "40", "--delta", "1e-5", "--tolerance", "0.1", *screened)
    assert [line["count"] for line in found["releases"]] == [3, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("gaussian --sigma 1", "--sigma given; accepted: two of --sigma, --epsilon, --delta"),
        ("gaussian --delta 0.1", "--delta given; accepted: --sigma or --epsilon"),
        ("gaussian --sigma 1 --epsilon 1 --delta 0.1", "nothing is left to find; accepted: two of them"),
        ("gaussian --sigma 1 --delta 0", "this run is not pure DP"),
        ("gaussian --sigma 1 --delta 1e-5 --rate 0.1 --adjacency replace", "ClippedSum"),
        ("laplace", "nothing given; accepted: --scale or --epsilon"),
        ("laplace --delta 0.1", "--delta given; accepted: --scale or --epsilon beside it"),
        ("pate --queries 1000 --delta 1e-5", "--delta given; accepted: --sigma or --epsilon beside it"),
        ("gaussian --sigma 1 --delta 1e-5 --rate 20", "accountant: --rate = 20 is out of range; accepted: [0, 1]"),
        ("laplace --epsilon 0", "target = 0; accepted: a larger one, such as 1.00001e-12"),
        ("laplace --scale -1", "scale = -1 is out of range"),
        ("pate --sigma 4 --delta 1e-5 --threshold 3", "a screening without --screening-sigma, --teachers"),
        ("pate --sigma 4 --delta 1e-5 --teachers 100", "--teachers 100; accepted: without it, as"),
        ("pate --sigma 4 --delta 1e-5 --answers 3", "--answers 3; accepted: with a screening"),
    ],
)
def test_single_releases_refuse(refusal, arguments, words):
    assert words in refusal(*arguments.split())
