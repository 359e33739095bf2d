"""The plan that a command is given: built in, a file, standard input, with some of its values changed."""

import csv
import io
import json
import re
import sys
from types import SimpleNamespace

import pytest

import accountant as ac
from accountant.cli import main
from accountant.cli.arguments import change_plan
from accountant.plan import load_plan, parse_plan
from tests.cases import audit_after

PLAN = 'delta = 1e-5\n[[release]]\nname = "votes"\nevent = "gaussian"\nsigma = 20\ncount = 10\n'


@pytest.fixture
def run(capsys, monkeypatch):
    """Status, standard output and standard error of a command, which reads the given bytes."""

    def command(*arguments, given=b""):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(given)))
        status = main(list(arguments))
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return command


RECIPE = f"{PLAN.replace('count = 10', 'count = 2')}records = 600\nbatch = 60\n"


@pytest.mark.parametrize(
    "command",
    [
        ("epsilon", "-", "--method", "renyi"),
        ("epsilon", "-", "--json", "--method", "renyi"),
        ("calibrate", "-", "--vary", "sigma", "--epsilon", "1", "--method", "renyi"),
        ("compare", "-", "figure5-gaussian", "--method", "renyi"),
        ("statement", "-", "--method", "renyi"),
    ],
)
def test_a_large_delta_is_cautioned_where_a_plan_states_records(command, run):
    said = "accountant: warning: standard input: delta = 0.01 is not below 1/600; even"
    status, _, err = run(*command, "--delta", "0.01", given=RECIPE.encode())
    assert status == 0
    assert err.count(said) == 1
    assert "warning" not in run(*command, "--delta", "0.001", given=RECIPE.encode())[2]
    assert "warning" not in run(*command, "--delta", "0.01", given=PLAN.encode())[2]


def test_a_delta_that_is_found_is_cautioned_too(run):
    given = RECIPE.encode()
    assert "is not below 1/600" in run("delta", "-", "--epsilon", "0", "--method", "renyi", given=given)[2]
    assert run("delta", "-", "--epsilon", "5", "--method", "renyi", given=given)[2] == ""


def price(found):
    assert found[0] == 0, found[2]
    return json.loads(found[1])["epsilon"]


def test_a_plan_from_standard_input(run):
    assert price(run("epsilon", "-", "--json", given=PLAN.encode())) == ac.epsilon(10 * ac.Gaussian(20), 1e-5).epsilon
    for given, words in ((b"", "no releases"), (b"\xff", "accepted: a plan as UTF-8"), (b"a = ", "not valid TOML")):
        status, out, err = run("epsilon", "-", "--json", given=given)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "standard input" in err
        assert words in err


def test_a_description_says_that_values_were_changed(run):
    given = f'description = "Ten votes."\n{PLAN}'.encode()
    assert "(with" not in run("epsilon", "-", given=given)[1]
    changed = run("epsilon", "-", "--set", "count=20", "--set", "sigma=30", given=given)[1]
    assert "Ten votes. (with count=20, sigma=30)" in changed
    assert "(with" not in run("epsilon", "-", "--set", "description=Twenty", given=given)[1]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["votes.sigma=30"], 10 * ac.Gaussian(30)),
        (["sigma = 30", "votes.count=7"], 7 * ac.Gaussian(30)),
        (["sampling_rate=0.1"], 10 * ac.PoissonSubsampled(ac.Gaussian(20), 0.1)),
        (["adjacency=replace"], 10 * ac.Gaussian(20, adjacency=ac.Adjacency.REPLACE)),
    ],
)
def test_values_can_be_set(changes, expected, tmp_path, run):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    assert change_plan(load_plan(file), changes).composition == expected
    options = [part for change in changes for part in ("--set", change)]
    found = price(run("epsilon", str(file), "--json", *options))
    assert found == ac.epsilon(expected, 1e-5).epsilon


def test_a_value_at_the_top_may_mend_a_plan(run):
    """And is itself named where it does not."""
    local = 'local = { event = "randomized-response", epsilon = 1 }'
    given = f'delta = 1e-5\nadjacency = "add-remove"\n[[release]]\nevent = "shuffled"\nn = 1000\n{local}\n'.encode()
    status, out, err = run("epsilon", "-", given=given)
    assert (status, out) == (2, "")
    line = 'adjacency = add-remove, and shuffled is defined under replace; accepted: adjacency = "replace" for the plan'
    assert err == f"accountant: standard input: release 1: {line}\n"
    expected = ac.epsilon(ac.Shuffled(ac.RandomizedResponse(1.0), 1000), 1e-5).epsilon
    mended = "epsilon", "-", "--json", "--set", "adjacency=replace"
    assert price(run(*mended, given=given)) == expected
    assert price(run(*mended, "--set", "delta=1e-5", given=given.replace(b"1e-5", b"7"))) == expected
    for other in ("adjacency=swap", "adjacency", "delta=1e-6", "description=x"):
        status, out, err = run("epsilon", "-", "--set", other, given=given)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "accepted: " in err


TRAINING = """delta = 1e-5
[[release]]
event = "clipped-sum"
noise_multiplier = 1.5
records = 60_000
batch = 256
epochs = 20
"""


@pytest.mark.parametrize(
    ("changes", "sigma", "clip", "rate", "count"),
    [
        (["epochs=2"], 1.5, 1.0, 256 / 60_000, 469),
        (["clipped-sum.batch=600", "records=30000"], 1.5, 1.0, 0.02, 1000),
        (["batch=600", "count=7"], 1.5, 1.0, 0.01, 7),
        (["sampling_rate=512/60000"], 1.5, 1.0, 512 / 60_000, 4688),
        (["noise_multiplier=2", "clip=3"], 6.0, 3.0, 256 / 60_000, 4688),
        (["sigma=2", "clip=3"], 2.0, 3.0, 256 / 60_000, 4688),
    ],
)
def test_keys_that_stand_for_others_are_set_as_they_were_written(changes, sigma, clip, rate, count):
    """And what is not named keeps its meaning: the steps follow the batch, the noise the clipping norm."""
    found = change_plan(parse_plan("training", TRAINING), changes).composition
    assert found == count * ac.PoissonSubsampled(ac.ClippedSum(sigma, clip), rate)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["records=100"], "batch = 256"),
        (["epochs=0"], "epochs = 0"),
        (["count=7", "epochs=2"], "no number 'epochs' to vary"),
        (["epoch=2"], "did you mean 'epochs'?"),
    ],
)
def test_keys_that_stand_for_others_are_refused_by_name(changes, words):
    with pytest.raises(ac.PlanError, match=re.escape(words)):
        change_plan(parse_plan("training", TRAINING), changes)


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 5000, "1e-999"])
def test_values_that_toml_cannot_hold_are_refused_in_one_line(value, run):
    status, out, err = run("epsilon", "dp-sgd", "--set", f"count={value}")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "--set count=" in err


@pytest.mark.parametrize("points", ["0:1:100000000000", "0:1:0", "0:1:-1", "0:1", "a:1:2"])
def test_ranges_are_refused_before_they_are_made(points, run):
    status, out, err = run("curve", "dp-sgd", "--epsilons", points)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "N in [1, 100000]" in err


def test_delta_can_be_set(run):
    found = run("epsilon", "dp-sgd", "--set", "delta=1e-7", "--json")
    assert json.loads(found[1])["delta"] == 1e-7


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("votes.sigma", "NAME.KEY=VALUE"),
        ("votes.sigma=", "NAME.KEY=VALUE"),
        ("votes.sigm=3", "did you mean 'sigma'?"),
        ("vote.sigma=3", "did you mean 'votes'?"),
        ("votes.sigma=-3", "sigma = -3"),
        ("votes.sigma=20 votes", "'20 votes' is not a real number"),
        ("votes.count=2.5", "count = 2.5"),
        ("adjacency=swap", "accepted"),
        ("delta=2", "delta = 2"),
        ("votes.sigma=1e-400", "too small"),
    ],
)
def test_what_cannot_be_set_is_one_line(change, words, run):
    status, out, err = run("epsilon", "-", "--set", change, given=PLAN.encode())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.parametrize("command", [("delta", "--epsilon", "1"), ("curve", "--epsilons", "0:1:2")])
def test_other_commands_take_the_same(command, run):
    name, *rest = command
    one = run(name, "-", *rest, "--set", "votes.sigma=40", "--json", given=PLAN.encode())
    other = run(name, "-", *rest, "--json", given=PLAN.replace("20", "40").encode())
    assert one[0] == 0
    assert one[1] == other[1]


@pytest.mark.parametrize("form", ["--latex", "--csv", "--markdown"])
@pytest.mark.parametrize("command", [("epsilon", "dp-sgd"), ("curve", "dp-sgd", "--epsilons", "1:2:2"), ("list",)])
def test_every_table_has_every_form(command, form, run):
    check_table(run(*command, form), form, "" if command[0] == "curve" else "gaussian")


def check_table(found, form, word):
    status, out, err = found
    assert (status, err) == (0, "")
    assert word in out
    if form == "--csv":
        assert len({len(row) for row in csv.reader(io.StringIO(out))}) == 1


@pytest.mark.parametrize("command", ["epsilon", "calibrate", "sweep", "report", "plot", "risk", "dp-sgd", "gaussian"])
def test_a_tolerance_is_relative(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "intervals, relative to their upper ends (default 0.01)" in " ".join(capsys.readouterr().out.split())


def test_a_price_as_csv_holds_the_price(run):
    rows = list(csv.DictReader(io.StringIO(run("epsilon", "private-knn-mnist", "--csv")[1])))
    assert [row["release"] for row in rows] == ["screening", "votes", "whole plan"]
    plan = load_plan("private-knn-mnist")
    assert float(rows[-1]["epsilon"]) == ac.epsilon(plan.composition, 1e-5).epsilon


@pytest.mark.audit
@pytest.mark.parametrize("form", audit_after(2, ["--latex", "--json", "--csv", "--markdown"]))
def test_costs_that_depend_on_private_data_take_the_terminal_alone(form, run):
    secret = "figure5-data-dependent-screening"
    status, out, err = run("epsilon", secret, form)
    assert (status, out) == (2, "")
    assert "depends on private data" in err
    plans = run("plans", form)
    check_table(plans, form, "dp-sgd")
    private = ac.epsilon(load_plan(secret).composition, load_plan(secret).delta).epsilon
    assert f"{private:.4g}" not in plans[1]


@pytest.mark.audit
def test_calibrate_proposes_what_could_be_varied(run):
    command = ("calibrate", "private-knn-mnist", "--epsilon", "0.5", "--method", "renyi", "--json")
    status, out, err = run(*command)
    assert (status, err) == (0, "")
    found = {line["vary"]: line for line in json.loads(out)["proposals"]}
    assert {"screening.sigma,votes.sigma", "votes.sigma", "votes.count", "votes.sampling_rate"} <= found.keys()
    assert all(line["epsilon"] <= 0.5 for line in found.values())
    one = json.loads(run(*command, "--vary", "votes.sigma")[1])
    assert found["votes.sigma"]["value"] == one["value"]
    step = '[[release]]\nevent = "clipped-sum"\nsigma = 1\nclip = 1\nsampling_rate = 0.01\ncount = 10\n'
    status, out, _ = run("calibrate", "-", "--epsilon", "2", "--json", given=f"delta = 1e-5\n{step}".encode())
    assert status == 0  # the noise before the count; not what it is measured by
    names = ["clipped-sum.sigma", "clipped-sum.sampling_rate", "clipped-sum.count"]
    assert [line["vary"] for line in json.loads(out)["proposals"]] == names
    more = PLAN + '[[release]]\nevent = "laplace"\nscale = 5\n'
    status, _, err = run("calibrate", "-", "--epsilon", "0.01", given=more.encode())
    assert status == 2
    assert "accepted: --vary" in err
