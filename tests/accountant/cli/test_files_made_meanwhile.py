"""A file that was not there when a command began is not replaced when it ends, unless that was asked for."""

import json
import os
from pathlib import Path

import pytest

from accountant.cli import main
from accountant.cli.sweep_journal import SweepJournal

SPENT = {"mechanism": "rdp", "history": [[1.0, 0.01, 10]]}
TRAINING = ["dp-sgd", "--records", "1000", "--batch", "100", "--epochs", "1", "--delta", "1e-4", "--sigma", "2"]
SWEEP = ["sweep", "dp-sgd", "--vary", "sigma=1:2:3", "--jobs", "1"]
PLAN = '[[release]]\nevent = "gaussian"\nsigma = 1.0\n'
COMMANDS = {
    "training": ([*TRAINING, "--write", "out.toml"], "--force"),
    "registry": (["registry", "private-knn-mnist", "-o", "out.yaml"], "--force"),
    "import": (["import", "state.json", "--delta", "1e-5", "-o", "out.toml"], "--force"),
    "sweep": ([*SWEEP, "--out", "out.csv"], "--again"),
}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("state.json").write_text(json.dumps(SPENT))
    return tmp_path


def make_at_the_end(monkeypatch, path):
    """Just before the content gets its name somebody else makes the file."""
    for move in ("link", "replace"):
        own = getattr(os, move)
        monkeypatch.setattr(os, move, lambda *names, own=own: (path.write_text("theirs"), own(*names)))


@pytest.mark.parametrize("name", COMMANDS)
def test_what_was_made_meanwhile_stays(name, monkeypatch, capsys):
    command, option = COMMANDS[name]
    out = Path(command[-1])
    with monkeypatch.context() as patch:
        make_at_the_end(patch, out)
        assert main(command) == 2
        assert capsys.readouterr().err.endswith(f" '{out}': was made meanwhile; accepted: a file that is not there\n")
        assert out.read_text() == "theirs"
        assert main([*command, option]) == 0
    assert out.read_text() != "theirs"
    assert not list(Path().glob(".*.partial"))


def test_a_picture_that_was_made_meanwhile_stays(monkeypatch, capsys):
    command, out = ["plot", "private-knn-mnist", "--kind", "order"], Path("private-knn-mnist-order.svg")
    make_at_the_end(monkeypatch, out)
    assert main(command) == 2
    assert "was made meanwhile; accepted: a file that is not there" in capsys.readouterr().err
    assert out.read_text() == "theirs"
    assert main([*command, "-o", str(out)]) == 0
    assert out.read_text() != "theirs"


def test_a_sweep_that_was_finished_while_another_one_began_is_not_computed_again(monkeypatch, capsys):
    """It priced its first setting while the other one had the journal, and all others after that."""
    out = Path("out.csv")
    enter = SweepJournal.__enter__

    def finished(journal):
        out.write_text("theirs")
        return enter(journal)

    monkeypatch.setattr(SweepJournal, "__enter__", finished)
    monkeypatch.setattr("accountant.cli.sweep_blocks.price_missing", lambda *_: pytest.fail("priced"))
    assert main([*SWEEP, "--out", "out.csv"]) == 2
    assert "out.csv: is there, so its sweep is finished; accepted: another file, or --again" in capsys.readouterr().err
    assert out.read_text() == "theirs"
    assert not Path("out.csv.partial").exists()


@pytest.mark.parametrize(
    "command",
    [
        [*SWEEP[:1], "in.csv", *SWEEP[2:], "--again", "--out", "./in.csv"],
        ["report", "dp-sgd", "in.html", "-o", "./in.html"],
        ["plot", "in.svg", "-o", "./in.svg"],
        ["risk", "in.svg", "-o", "./in.svg"],
        ["import", "in.toml", "--force", "-o", "./in.toml"],
        ["registry", "in.link", "--force", "-o", "./in.yaml"],
    ],
    ids=lambda command: command[0],
)
def test_a_plan_is_not_replaced_by_what_is_made_of_it(command, capsys):
    out = Path(command[-1])
    out.write_text(PLAN)
    Path("in.link").symlink_to(out)
    assert main(command) == 2
    assert "which is read; accepted: another file" in capsys.readouterr().err
    assert out.read_text() == PLAN
