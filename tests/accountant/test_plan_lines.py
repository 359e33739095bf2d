"""Keys of a plan's lines that stand for others, and events of classes of one's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import accountant as ac
from accountant.cli import main

TRAINING = """\
delta = 1e-5

[[release]]
name = "step"
event = "gaussian"
"""
RUN = 4688 * ac.PoissonSubsampled(ac.Gaussian(1.1), 256 / 60_000)

MODULE = '''
from dataclasses import dataclass

import accountant as ac


@dataclass(frozen=True)
class Mine(ac.Event):
    """Of one's own."""

    rho: float
    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    def _curve(self, orders):
        return self.rho * orders


@dataclass(frozen=True)
class Wrapped(Mine):
    inner: ac.Event = ac.Gaussian(1.0)


nothing = 3
'''


def load(tmp_path: Path, line: str, head: str = TRAINING) -> ac.Plan:
    path = tmp_path / "plan.toml"
    path.write_text(head + line)
    return ac.load_plan(path)


def refusal(tmp_path: Path, line: str, head: str = TRAINING) -> str:
    with pytest.raises(ac.PlanError) as caught:
        load(tmp_path, line, head)
    message = str(caught.value)
    assert "\n" not in message
    assert "release 1 (step)" in message
    return message


@pytest.mark.parametrize(
    "line",
    [
        'sigma = 1.1\nsampling_rate = "256/60000"\ncount = 4688',
        'sigma = 1.1\nsampling_rate = " 256 / 60_000 "\ncount = 4688',
        "sigma = 1.1\nrecords = 60000\nbatch = 256\nepochs = 20",
        "noise_multiplier = 1.1\nrecords = 60000\nbatch = 256\ncount = 4688",
        "noise_multiplier = 1.1\nsampling_rate = 0.004266666666666667\ncount = 4688",
    ],
)
def test_ways_to_state_the_same_training(tmp_path, line):
    plan = load(tmp_path, line)
    assert plan.run == plan.composition == RUN
    assert plan.tables["release"][0]["sigma"] == 1.1
    assert ac.Plan.from_tables("again", plan.tables).run == RUN


def test_noise_multiplier_is_in_units_of_the_clipping_norm(tmp_path):
    assert load(tmp_path, "noise_multiplier = 1.5\nsensitivity = 2").run == 1 * ac.Gaussian(3.0, 2.0)
    head = 'adjacency = "replace"\n' + TRAINING.replace("gaussian", "clipped-sum")
    run = load(tmp_path, 'noise_multiplier = 1.5\nclip = 0.5\nsampling_rate = "1/10"', head).run
    assert run == 1 * ac.PoissonSubsampled(ac.ClippedSum(0.75, 0.5, "replace"), 0.1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('sigma = 1\nsampling_rate = "256/0"', "sampling_rate = '256/0'; accepted: a number in [0, 1], or \"BATCH/REC"),
        ('sigma = 1\nsampling_rate = "3/2"', "accepted: a number in [0, 1]"),
        ('sigma = 1\nsampling_rate = "often"', "accepted: a number in [0, 1]"),
        ('sigma = 1\nsampling_rate = "1e/2"', "accepted: a number in [0, 1]"),
        ("sigma = 1\nrecords = 10", "records without batch"),
        ("sigma = 1\nepochs = 10", "epochs without records"),
        ("sigma = 1\nrecords = 10\nbatch = 11", "batch = 11 is out of range; accepted: an integer in [1, 10]"),
        (
            "sigma = 1\nrecords = 10\nbatch = 2\nsampling_rate = 0.2",
            "sampling_rate beside records, batch; accepted",
        ),
        ("sigma = 1\nrecords = 10\nbatch = 2\nepochs = 2\ncount = 3", "count beside records, batch, epochs"),
        ("sigma = 1\nrecords = 10\nbatch = 2\nepochs = 0", "epochs = 0 is out of range"),
        ("sigma = 1\nnoise_multiplier = 1", "noise_multiplier beside sigma; accepted: one of them"),
        ("noise_multiplier = -1", "noise_multiplier = -1 is out of range"),
    ],
)
def test_refusals(tmp_path, line, words):
    assert words in refusal(tmp_path, line)


def test_noise_multiplier_is_refused_where_it_means_two_things(tmp_path):
    head = 'adjacency = "replace"\n' + TRAINING
    assert 'accepted: sigma and sensitivity, or event = "clipped-sum"' in refusal(
        tmp_path, "noise_multiplier = 1", head
    )
    for event in ("gnmax", "laplace"):
        head = TRAINING.replace("gaussian", event)
        assert f"noise_multiplier for {event}" in refusal(tmp_path, "noise_multiplier = 1", head)


@pytest.mark.parametrize(
    ("head", "words"), [("", "event is missing"), ('event = "gausian"\n', "unknown event 'gausian'")]
)
def test_an_event_that_is_wrong_is_named_before_its_noise(tmp_path, head, words):
    message = refusal(tmp_path, head + "noise_multiplier = 1", TRAINING.replace('event = "gaussian"\n', ""))
    assert words in message
    assert message.count("release 1") == 1


def test_epochs_are_rounded_up_to_whole_steps(tmp_path):
    for records, batch, epochs, steps in ((10, 3, 1, 4), (10, 5, 3, 6), (60_000, 256, 20, 4688), (7, 7, 0.5, 1)):
        run = load(tmp_path, f"sigma = 1\nrecords = {records}\nbatch = {batch}\nepochs = {epochs}").run
        assert run.releases == steps


# --- events of one's own ---------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module in the current directory, which Python does not search by itself."""
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    monkeypatch.chdir(tmp_path)
    Path("module_of_mine.py").write_text(MODULE)
    yield TRAINING.replace("gaussian", "module_of_mine:Mine")
    sys.modules.pop("module_of_mine", None)


def test_own_event_in_a_plan_and_back(tmp_path, own):
    plan = load(tmp_path, "rho = 0.1\ncount = 3", own)
    assert ac.epsilon(plan.run, 1e-5).epsilon == pytest.approx(ac.epsilon(3 * ac.ZeroConcentratedDP(0.1), 1e-5).epsilon)
    Path("again.toml").write_text(plan.run.to_toml(1e-5))
    assert ac.load_plan("again.toml").run == plan.run
    kind = type(next(iter(plan.run.entries)))
    wrapped = 2 * sys.modules[kind.__module__].Wrapped(0.1, inner=kind(0.5))
    Path("again.toml").write_text(wrapped.to_toml())
    assert ac.load_plan("again.toml").run == wrapped
    assert load(tmp_path, "rho = 0.1", own.replace('name = "step"\n', "")).releases[0].name == "Mine"


@pytest.mark.audit
def test_own_event_in_commands(tmp_path, own, capsys):
    load(tmp_path, "rho = 0.1\ncount = 3", own)
    assert main(["epsilon", "plan.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["releases"][0]["event"] == "module_of_mine:Mine"
    assert main(["sweep", "plan.toml", "--vary", "step.rho=0.1:0.3:600", "--out", "s.csv", "--jobs", "2"]) == 0
    assert len(Path("s.csv").read_text().splitlines()) == 601
    assert main(["report", "plan.toml", "-o", "page.html", "--tolerance", "0.1"]) == 0
    assert "Of one's own" in Path("page.html").read_text("utf-8").replace("&#x27;", "'").replace("&#39;", "'")
    assert main(["plot", "plan.toml", "--kind", "order", "--out", "order.svg"]) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "no_such_module:Mine",
            "ModuleNotFoundError: No module named 'no_such_module'; accepted: MODULE:NAME",
        ),
        ("module_of_mine:Yours", "AttributeError"),
        ("module_of_mine:nothing", "is 3; accepted: a class derived from accountant.Event"),
        ("accountant:Event", "accepted: a class derived from accountant.Event that is a frozen dataclass"),
        ("../evil:Mine", "unknown event '../evil:Mine'"),
    ],
)
def test_own_event_that_is_none(tmp_path, own, name, words):
    assert words in refusal(tmp_path, "rho = 1", own.replace("module_of_mine:Mine", name))


def test_own_module_that_ends_the_program(tmp_path, own):
    Path("module_of_mine.py").write_text("raise SystemExit(0)")
    assert "SystemExit: 0; accepted: MODULE:NAME" in refusal(tmp_path, "rho = 1", own)


def test_tables_from_elsewhere_import_nothing(own):
    with pytest.raises(ac.PlanError, match="unknown event"):
        ac.composition_from_tables([{"event": "module_of_mine:Mine", "rho": 0.1}])
    Path("plan.toml").write_text(own)
    with pytest.raises(ac.PlanError, match="unknown event"):
        ac.load_plan("plan.toml", own=False)
    assert "module_of_mine" not in sys.modules


# --- runs as plans ---------------------------------------------------------------------------------------


def test_runs_are_saved_and_loaded_exactly(tmp_path):
    third, path = 1 / 3, tmp_path / "run.toml"
    runs = [
        RUN + 10**25 * ac.Laplace(third * 1e22, coordinates=3) + ac.GaussianDP(1e-17),
        5 * ac.PoissonSubsampled(ac.ClippedSum(third, 0.7, "replace"), third) + ac.PureDP(third, adjacency="replace"),
        2 * ac.Shuffled(ac.RandomizedResponse(third, 2, ac.Adjacency.REPLACE), 1000),
        3 * ac.DataDependentGNMax(100.0, [990, 5, 5]),
    ]
    for run in runs:
        ac.files.write_text(path, run.to_toml(delta=1e-7))
        plan = ac.load_plan(path)
        assert plan.run == run
        assert plan.delta == 1e-7
        ac.files.write_text(path, plan.to_toml())
        assert ac.load_plan(path).run == run


def test_runs_that_cannot_be_saved():
    class Local(ac.Gaussian):
        """Nobody can import it."""

    for run, words in ((ac.Composition(), "an empty run"), (1 * Local(1.0), "no name in plans")):
        with pytest.raises(ac.ParameterError, match=words):
            run.to_toml()
    with pytest.raises(ac.ParameterError, match="delta = 2"):
        RUN.to_toml(delta=2)
