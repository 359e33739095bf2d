"""The command line: tables for people, JSON for programs, one line and status 2 for every mistake."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import accountant as ac
from accountant.cli import main
from accountant.guarantee import format_down, format_up
from accountant.plan import EVENTS, builtin_plans, load_plan
from accountant.terminal import short
from tests.cases import audit_after

GAUSSIAN = 'delta = 1e-5\n\n[[release]]\nevent = "gaussian"\nsigma = 20\ncount = 10\n'
PURE = 'delta = 0\n\n[[release]]\nname = "bits"\nevent = "randomized-response"\nepsilon = 0.5\nbits = 3\n'
SECRET = "figure5-data-dependent-screening"


@dataclass(frozen=True)
class Keeps(ac.Event):
    """An event that keeps every law: zCDP under another name."""

    rho: float = 0.5
    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    def _curve(self, orders):
        return self.rho * orders


@dataclass(frozen=True)
class Falls(Keeps):
    """Deliberately wrong: its curve falls in the order."""

    def _curve(self, orders):
        return 1 / orders


@dataclass(frozen=True)
class Negative(Keeps):
    """Deliberately wrong: its curve is negative."""

    def _curve(self, orders):
        return -orders


@dataclass(frozen=True)
class Undefined(Keeps):
    """Deliberately wrong: its curve is not a number."""

    def _curve(self, orders):
        return np.full_like(orders, math.nan)


kept = Keeps(2.0)
number = 3.0


@pytest.fixture
def plan_file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "plan.toml"
        path.write_text(text, "utf-8")
        return str(path)

    return write


@pytest.fixture
def run(capsys):
    """Run the command line in this process; returns status, standard output and standard error."""

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


@pytest.fixture
def table(run):
    """Words that a command which succeeds prints, on one line."""

    def command(*arguments: str) -> str:
        status, out, err = run(*arguments)
        assert (status, err) == (0, "")
        return " ".join(out.split())

    return command


@pytest.fixture
def answer(run):
    """The JSON object of a command which succeeds, and nothing else."""

    def command(*arguments: str) -> dict:
        status, out, err = run(*arguments, "--json")
        assert (status, err) == (0, "")

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(out, parse_constant=refuse)

    return command


@pytest.fixture
def complaint(run):
    """The single line that a command which fails prints."""

    def command(*arguments: str) -> str:
        status, out, err = run(*arguments)
        assert (status, out) == (2, "")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert err.startswith("accountant: ")
        assert "Traceback" not in err
        return err.removeprefix("accountant: ").strip()

    return command


# --- epsilon and delta ---------------------------------------------------------------------------------


def test_epsilon_as_json(answer):
    found = answer("epsilon", "private-knn-mnist")
    plan = load_plan("private-knn-mnist")
    price = ac.epsilon(plan.composition, 1e-5)
    assert {"epsilon", "delta", "adjacency", "method", "order", "releases"} <= found.keys()
    assert found["epsilon"] == price.epsilon
    assert (found["lower"], found["source"]) == (price.lower, price.source)
    assert (found["delta"], found["adjacency"], found["method"]) == (1e-5, "add-remove", "tight")
    assert (found["order"], found["conversion"], found["data_dependent"]) == (None, None, False)
    renyi = answer("epsilon", "private-knn-mnist", "--method", "renyi")
    assert renyi["order"] == ac.epsilon(plan.composition, 1e-5, method="renyi").order
    assert (renyi["method"], renyi["conversion"], renyi["order_at_edge"]) == ("renyi", "improved", False)
    assert [release["name"] for release in found["releases"]] == ["screening", "votes"]
    assert found["releases"][1] == {
        "name": "votes",
        "event": "gnmax",
        "sigma": 25,
        "sampling_rate": 0.15,
        "count": 735,
        "share": found["releases"][1]["share"],
    }


def test_shares_are_of_the_curve_at_the_order(answer):
    found = answer("epsilon", "private-knn-mnist", "--method", "renyi")
    plan = load_plan("private-knn-mnist")
    costs = [float(release.composition.renyi(found["order"])) for release in plan.releases]
    shares = [release["share"] for release in found["releases"]]
    certified = answer("epsilon", "private-knn-mnist")["releases"]
    assert [release["share"] for release in certified] == shares, "of the Rényi curve, whichever route sets the price"
    assert shares == pytest.approx([cost / sum(costs) for cost in costs], rel=1e-12)
    assert math.fsum(shares) == pytest.approx(1, rel=1e-15)


def test_infinite_order_is_text(answer, plan_file):
    found = answer("epsilon", plan_file(PURE), "--method", "renyi")
    assert (found["epsilon"], found["delta"], found["order"]) == (1.5, 0, "inf")
    assert float(found["order"]) == math.inf


def test_epsilon_as_a_table(table):
    text = table("epsilon", "private-knn-mnist")
    for words in (
        "private-knn-mnist",
        "noisy-screening: sigma 75, threshold 180,",
        "max_votes 300",
        "gnmax: sigma 25",
        "share of the cost",
        "4.6%",
        "95.4%",
        "epsilon = 0.872834 at delta = 1e-05 (tight; epsilon is at least 0.868731)",
        "(0.872834, 1e-05)-DP under add-remove adjacency (tight, privacy-loss distribution of blocks of screenings, "
        "certified from below at 0.868731)",
        "Protects: whether any one record is in the private data (add-remove adjacency).",
        "Sampling: screening at rate 0.15, votes at rate 0.15; every record joins each release independently",
        "Assumes: the noise has the stated distribution; sensitivities hold for every possible neighbour; counts are "
        "upper limits fixed before the run.",
    ):
        assert words in text


def test_table_of_replace_adjacency(table):
    text = table("epsilon", "reverse-knn-central-1.0")
    assert "under replace adjacency" in text
    assert "Protects: the content of any one record, but not its presence (replace adjacency)." in text
    assert "Sampling" not in text


def test_table_says_what_is_not_sampled_and_what_is_assumed(table, plan_file):
    plan = """\
delta = 1e-5
[[release]]
event = "noisy-screening"
sigma = 85
threshold = 210
max_votes = 300
min_votes = 30
sampling_rate = 0.25
[[release]]
name = "answers"
event = "gnmax"
sigma = 25
"""
    text = table("epsilon", plan_file(plan))
    assert "Sampling: noisy-screening at rate 0.25;" in text
    assert "Not sampled: answers." in text
    assert "in noisy-screening at least 30 votes always agree" in text


def test_table_of_nothing(table, plan_file):
    text = table("epsilon", plan_file(GAUSSIAN.replace("= 10", "= 0")))
    assert "(0, 1e-05)-DP under any adjacency" in text
    assert "nothing is released" in text


def test_share_of_nothing(table, plan_file):
    assert "100.0%" not in table("epsilon", plan_file(GAUSSIAN.replace("= 10", "= 0")))


def test_conversions_on_the_command_line(answer):
    prices = [
        answer("epsilon", "dp-sgd", "--conversion", rule)["epsilon"] for rule in ("optimal", "improved", "classic")
    ]
    assert prices == sorted(prices)
    assert prices[1] == pytest.approx(6.71227, abs=1e-5)
    assert prices[2] == pytest.approx(7.42849, abs=1e-5)


def test_delta_option_goes_before_the_plan(answer, plan_file):
    assert answer("epsilon", "dp-sgd", "--delta", "1e-300")["delta"] == 1e-300
    without = plan_file(GAUSSIAN.replace("delta = 1e-5\n", ""))
    assert answer("epsilon", without, "--delta", "1e-5") == answer("epsilon", plan_file(GAUSSIAN)) | {"plan": without}


def test_delta_is_priced(answer, table):
    found = answer("delta", "private-knn-mnist", "--epsilon", "1")
    plan = load_plan("private-knn-mnist")
    assert found["delta"] == ac.delta(plan.composition, 1).delta
    assert found["epsilon"] == 1
    back = answer("epsilon", "private-knn-mnist", "--delta", repr(found["delta"]))
    assert back["lower"] <= 1 <= back["epsilon"] * 1.01
    assert "(1, 4.29917e-06)-DP" in table("delta", "private-knn-mnist", "--epsilon", "1", "--method", "renyi")
    text = table("delta", "private-knn-mnist", "--epsilon", "1")
    low = format_down(found["lower"])
    assert f"epsilon = 1 at delta = {format_up(found['delta'])} (tight; delta is at least {low})" in text


@pytest.mark.each_run(11)
@pytest.mark.parametrize("name", builtin_plans())
def test_every_builtin_plan_has_a_table(name, table):
    text = table("epsilon", name)
    plan = load_plan(name)
    assert name in text
    assert "Protects:" in text
    for release in plan.releases:
        assert release.name in text


# --- data-dependent costs ------------------------------------------------------------------------------


@pytest.mark.audit
def test_data_dependent_table_has_its_caution(table):
    text = table("epsilon", SECRET)
    assert "Caution: this cost was computed from private votes and is private itself. Do not publish it." in text


@pytest.mark.audit
def test_data_dependent_guarantee_is_marked_in_the_table(table):
    assert "[depends on private data: do not publish]" in table("epsilon", SECRET)


@pytest.mark.parametrize(
    "arguments",
    [("curve", "--epsilons", "0:1:3"), ("calibrate", "--epsilon", "0.5"), ("delta", "--epsilon", "0.5")],
)
def test_every_table_of_private_costs_says_so(table, plan_file, arguments):
    plan = 'delta = 1e-5\n[[release]]\nevent = "data-dependent-screening"\nsigma = 85\nthreshold = 210\nplurality = 9\n'
    command, *options = arguments
    text = table(command, plan_file(plan + "count = 1000\n"), *options)
    assert "Caution: this cost was computed from private votes and is private itself. Do not publish it." in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("epsilon", SECRET, "--json"),
        ("delta", SECRET, "--epsilon", "4", "--json"),
        ("calibrate", SECRET, "--vary", "screening-90.sigma", "--epsilon", "4", "--json"),
    ],
)
def test_data_dependent_json_is_refused(complaint, arguments):
    assert "depends on private data" in complaint(*arguments)


def test_plans_as_json_leaves_data_dependent_costs_out(answer):
    found = answer("plans")
    assert found.keys() == set(builtin_plans())
    assert found["dp-sgd"]["improved"] == pytest.approx(6.71227, abs=1e-5)
    secret = found[SECRET]
    assert secret["data_dependent"]
    assert secret["improved"] is secret["classic"] is secret["optimal"] is None
    assert secret["epsilon"] is secret["lower"] is secret["method"] is None
    assert (found["dp-sgd"]["epsilon"], found["dp-sgd"]["method"]) == (answer("epsilon", "dp-sgd")["epsilon"], "tight")
    assert all(each["epsilon"] <= each["improved"] for each in found.values() if not each["data_dependent"])


# --- calibrate -----------------------------------------------------------------------------------------


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("plan", "vary", "target"),
    audit_after(
        3,
        [
            ("private-knn-cifar10", "screening.sigma,votes.sigma", 2.0),
            ("dp-sgd", "step.sampling_rate", 0.5),
            ("private-knn-mnist", "votes.count", 1.0),
            ("private-knn-mnist", "votes.sigma", 1.0),
            ("private-knn-mnist", "screening.sigma", 1.0),
            ("private-knn-mnist", "screening.sampling_rate,votes.sampling_rate", 0.5),
            ("dp-sgd", "sigma", 1.0),
            ("reverse-knn-central-1.0", "counts.scale", 0.3),
        ],
    ),
)
def test_calibrated_value_meets_the_target(answer, plan_file, plan, vary, target):
    found = answer("calibrate", plan, "--vary", vary, "--epsilon", repr(target))
    assert found["epsilon"] <= target
    assert found["vary"] == vary
    # write the value into a plan of one's own and price that
    text = _written(load_plan(plan).with_value(vary, found["value"]))
    again = answer("epsilon", plan_file(text))
    assert again["epsilon"] == found["epsilon"]
    if vary != "votes.count":
        assert again["epsilon"] >= target * (1 - 1e-3)
    else:
        assert isinstance(found["value"], int)
        more = load_plan(plan).with_value(vary, found["value"] + 1)
        assert ac.epsilon(more.composition, more.delta).epsilon > target


def _written(plan) -> str:
    lines = [f"delta = {plan.delta!r}"]
    lines += [f'adjacency = "{plan.tables["adjacency"]}"'] if "adjacency" in plan.tables else []
    for release in plan.tables["release"]:
        lines += ["[[release]]", *(f"{key} = {json.dumps(value)}" for key, value in release.items())]
    return "\n".join(lines)


def test_calibrate_as_a_table(table):
    text = table("calibrate", "dp-sgd", "--vary", "sigma", "--epsilon", "1", "--method", "renyi")
    assert text.startswith("sigma = 4.1252635")
    assert "with sigma = 4.1252635" in text
    assert "(1, 1e-05)-DP" in text


# --- listings ------------------------------------------------------------------------------------------


def test_list(table, answer):
    text = table("list")
    for name in (*EVENTS, *builtin_plans(), "max_votes", "sampling_rate", "sensitivity=1"):
        assert name in text
    found = answer("list")
    assert found["events"].keys() == EVENTS.keys()
    assert found["events"]["gaussian"] == {"sigma": None, "sensitivity": 1.0}
    assert found["plans"].keys() == set(builtin_plans())


def test_plans(table):
    text = table("plans")
    for name in builtin_plans():
        assert name in text
    assert "6.71228" in text, "dp-sgd by the Rényi route, rounded up"
    assert re.search(r"dp-sgd +│ 1e-05 │ +6.18773 │ +6.18752 │ tight", text), "between certified ends"
    assert f"{SECRET} *" in text
    assert "* depends on private votes" in text


def test_show_prints_a_plan_to_start_from(run, answer, plan_file):
    status, text, err = run("show", "private-knn-mnist")
    assert (status, err) == (0, "")
    own = plan_file(text)
    assert load_plan(own).composition == load_plan("private-knn-mnist").composition
    assert answer("epsilon", own)["epsilon"] == answer("epsilon", "private-knn-mnist")["epsilon"]


# --- verify --------------------------------------------------------------------------------------------


@pytest.mark.audit
@pytest.mark.parametrize("name", ["kept", "Keeps"])
def test_verify_an_event_of_ones_own(run, name):
    status, out, _ = run("verify", "--event", f"{__name__}:{name}", "--examples", "10")
    assert status == 0
    assert "Keeps(rho=" in out
    assert "none" in out


def test_verify_takes_a_class_by_its_examples(run):
    status, out, _ = run("verify", "accountant:PureDP", "--event", f"{__name__}:kept", "--examples", "5")
    assert status == 0
    for event in ac.PureDP.examples():
        assert short(event) in out
    assert short(kept) in out


def test_verify_says_what_it_takes(run):
    status, out, err = run("verify", "accountant:PoissonSubsampled")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "accepted: an event, a class with `examples`" in err
    status, _, err = run("verify", "gaussian")
    assert (status, err) == (2, "accountant: event 'gaussian'; accepted: MODULE:NAME, such as accountant:Gaussian\n")
    status, _, err = run("verify", "no_such_module:x")
    assert status == 2
    assert err.startswith("accountant: event 'no_such_module:x': ModuleNotFoundError")


def test_verify_names_the_law_that_broke(run):
    status, out, _ = run("verify", "--event", f"{__name__}:Falls", "--event", f"{__name__}:kept", "--examples", "10")
    assert status == 1
    assert "Falls" in out
    assert "non-decreasing in order" in out
    assert "Keeps(rho=2.0)" in out


def test_verify_as_json(run):
    status, out, _ = run("verify", "--event", f"{__name__}:Falls", "--examples", "10", "--json")
    assert status == 1
    (found,) = json.loads(out)["events"]
    assert "non-decreasing in order" in found["laws"]
    assert any(line.startswith("non-decreasing in order: broken at order") for line in found["broken"])


@pytest.mark.parametrize("name", ["Negative", "Undefined"])
def test_verify_survives_an_event_that_raises(run, name):
    status, out, _ = run("verify", "--event", f"{__name__}:{name}", "--examples", "2")
    assert status == 1
    assert name in out


def test_a_plan_with_an_event_that_returns_no_curve_is_one_line(run, plan_file):
    own = plan_file(f'delta = 1e-5\n[[release]]\nevent = "{__name__}:Undefined"\nrho = 0.1\n')
    status, out, err = run("epsilon", own)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "is not a number at order" in err
    assert "see 'accountant verify MODULE:NAME'" in err


def test_bounds_hold_at_the_numbers_that_are_shown_beside_them(run, plan_file):
    """An epsilon of a curve that is rounded down has a larger delta than the one beside it."""
    plan = plan_file("delta = 1e-5\n[[release]]\nevent = 'gaussian'\nsigma = 1.0\n")
    status, out, _ = run("curve", plan, "--epsilons", "0:20:7", "--csv")
    given = [float(line.split(",")[0]) for line in out.splitlines()[1:]]
    status, out, _ = run("curve", plan, "--epsilons", "0:20:7", "--markdown")
    assert status == 0
    rows = [[float(cell) for cell in line.strip("|").split("|")] for line in out.splitlines() if "e-" in line]
    assert len(rows) > 3
    for epsilon, upper, lower in rows:
        assert epsilon in given
        exact = float(ac.GaussianDP(1.0).profile(epsilon).worst)
        assert lower <= exact * (1 + 1e-9)
        assert exact * (1 - 1e-9) <= upper
    status, out, _ = run("delta", plan, "--epsilon", "13.33333333333")
    assert "epsilon = 13.33333333333 at delta = " in out


# --- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["COMMAND", "--help"]),
        (["epsilom", "dp-sgd"], ["'epsilom'", "'epsilon'"]),
        (["epsilon"], ["PLAN"]),
        (["epsilon", "dp-sgd", "extra"], ["unrecognized arguments: extra"]),
        (["epsilon", "dp-sgd", "--jason"], ["--jason"]),
        (["epsilon", "dp-sgd", "--conversion", "clasic"], ["'clasic'", "'classic'"]),
        (["epsilon", "dp-sgd", "--method", "exact"], ["'exact'", "renyi"]),
        (["epsilon", "dp-sg"], ["'dp-sg'", "did you mean 'dp-sgd'?"]),
        (["epsilon", "dp-sgd", "--delta", "small"], ["--delta", "'small' is not a number"]),
        (["epsilon", "dp-sgd", "--delta", "-1"], ["delta = -1", "[0, 1)"]),
        (["epsilon", "dp-sgd", "--delta", "1"], ["delta = 1", "[0, 1)"]),
        (["epsilon", "dp-sgd", "--delta", "nan"], ["delta = nan", "[0, 1)"]),
        (["epsilon", "dp-sgd", "--delta", "0"], ["delta = 0", "not pure DP", "(0, 1)"]),
        (["delta", "dp-sgd"], ["--epsilon"]),
        (["delta", "dp-sgd", "--epsilon", "-1"], ["epsilon = -1", "[0, 1e+300]"]),
        (["delta", "dp-sgd", "--epsilon", "inf"], ["epsilon = inf", "[0, 1e+300]"]),
        (["calibrate", "dp-sgd", "--vary", "sigma"], ["--epsilon"]),
        (["calibrate", "dp-sgd", "--vary", "step.sigm", "--epsilon", "1"], ["'sigm'", "did you mean 'sigma'?"]),
        (["calibrate", "dp-sgd", "--vary", "stp.sigma", "--epsilon", "1"], ["'stp'", "did you mean 'step'?"]),
        (["calibrate", "dp-sgd", "--vary", "sigma", "--epsilon", "-1"], ["epsilon = -1"]),
        (
            ["calibrate", "private-knn-mnist", "--vary", "votes.sigma", "--epsilon", "0.01"],
            ["no value in [1e-09, 1e+12] meets the target"],
        ),
        (
            ["calibrate", "private-knn-mnist", "--vary", "votes.sigma,votes.count", "--epsilon", "1"],
            ["votes.sigma,votes.count", "whole numbers"],
        ),
        (["show", "nothing"], ["'nothing'", "accepted: a TOML file, or a built-in plan", "accountant list"]),
        (["list", "dp-sgd"], ["unknown event 'dp-sgd'", "accepted: gaussian"]),
        (["verify", "--event", "keeps"], ["--event keeps", "MODULE:NAME"]),
        (["verify", "--event", "no_such_module:x"], ["--event", "no_such_module"]),
        (["verify", "--event", f"{__name__}:nothing"], ["--event", "'nothing'"]),
        (["verify", "--event", f"{__name__}:number"], ["--event", "number"]),
        (["verify", "--event", "math:sqrt"], ["--event math:sqrt"]),
        (["verify", "--event", "builtins:dict"], ["--event builtins:dict", "an event"]),
        (["verify", "--examples", "0"], ["'0' is not a positive integer"]),
        (["verify", "--examples", "many"], ["'many' is not a positive integer"]),
    ],
    ids=" ".join,
)
def test_mistakes_on_the_command_line(complaint, arguments, words):
    line = complaint(*arguments)
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GAUSSIAN.replace("delta = 1e-5\n", ""), ["delta is missing", "delta = 1e-5", "--delta"]),
        (GAUSSIAN.replace("20", "-20"), ["release 1", "sigma = -20", "[1e-50, 1e+50]"]),
        (GAUSSIAN.replace("gaussian", "gausian"), ["'gausian'", "did you mean 'gaussian'?"]),
        (GAUSSIAN.replace("sigma", "sigm"), ["'sigm'", "did you mean 'sigma'?"]),
        (GAUSSIAN + "sampling_rate = 1.5\n", ["sampling_rate = 1.5", "[0, 1]"]),
        (GAUSSIAN.replace("= 20", "="), ["not valid TOML", "line 5"]),
        ("", ["no releases"]),
        (GAUSSIAN.replace("1e-5", "0"), ["delta = 0", "not pure DP"]),
    ],
)
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_mistakes_in_a_plan(complaint, plan_file, text, words, extra):
    line = complaint("epsilon", plan_file(text), *extra)
    for word in words:
        assert word in line


def test_show_of_ones_own_file(complaint, plan_file):
    assert "is not a built-in plan" in complaint("show", plan_file(GAUSSIAN))


@pytest.mark.parametrize("name", ["[bold]", "[/bold]", "[/x] y"])
@pytest.mark.parametrize("key", ["name", "description"])
def test_brackets_in_a_plan_are_printed(table, plan_file, key, name):
    line = f'{key} = "{name}"\n'
    plan = line + GAUSSIAN if key == "description" else GAUSSIAN + line
    assert name in table("epsilon", plan_file(plan))


def test_plurality_can_be_varied(table, plan_file):
    plan = 'delta = 1e-5\n[[release]]\nevent = "data-dependent-screening"\nsigma = 85\nthreshold = 210\nplurality = 9\n'
    plan_text = plan + "count = 1000\n"
    assert "plurality = " in table("calibrate", plan_file(plan_text), "--vary", "plurality", "--epsilon", "0.5")


def test_target_met_by_every_value(table, plan_file):
    plan = plan_file(GAUSSIAN.replace("sigma = 20", "sigma = 50\nsampling_rate = 0.1"))
    out = table("calibrate", plan, "--vary", "sampling_rate", "--epsilon", "10")
    assert "sampling_rate = 1.0" in out
    assert "every value in its range meets the target" in out


def test_value_that_does_not_matter(complaint, plan_file):
    plan = plan_file(GAUSSIAN.replace("= 10", "= 0"))
    assert "the cost is the same" in complaint("calibrate", plan, "--vary", "sigma", "--epsilon", "1")


def test_help_and_version(capsys):
    for arguments, words in ((["--help"], "calibrate"), (["--version"], ac.__version__), (["epsilon", "-h"], "PLAN")):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        assert words in capsys.readouterr().out


# --- as a program --------------------------------------------------------------------------------------


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(ac.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-m", "accountant", *arguments], capture_output=True, text=True, env=environment, timeout=120
    )


def test_program_prices_a_plan():
    done = program("epsilon", "dp-sgd", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["epsilon"] == pytest.approx(6.18773, abs=1e-5)


def test_program_refuses_in_one_line(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(GAUSSIAN.replace("20", "-20"))
    done = program("epsilon", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"accountant: {path}: release 1: sigma = -20 is out of range; accepted: [1e-50, 1e+50]\n"


@pytest.mark.audit
def test_program_verifies_an_event_in_the_present_directory(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import accountant as ac\n\n\ndef wide():\n    return ac.Gaussian(20.0)\n", encoding="utf-8"
    )
    root = str(Path(ac.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "accountant", "verify", "--event", "mine:wide", "--examples", "3"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Gaussian(sigma=20.0" in done.stdout
