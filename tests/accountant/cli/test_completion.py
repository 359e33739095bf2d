"""Tab completion: what each shell reads, and what is offered."""

import io
import os
import select
import shutil
import subprocess
import sys
import time
from argparse import Namespace

import pytest

from accountant.cli import main, make_parser
from accountant.cli.completion import SHELLS, complete_event, complete_number, complete_plan

argcomplete = pytest.importorskip("argcomplete")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_code_for_both_commands(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "accountant" in text
    assert "mechanisms" in text
    assert {"bash": "complete ", "zsh": "compdef", "fish": "complete --command accountant"}[shell] in text


def offer(line, monkeypatch, parser=None):
    """What is offered at the end of a line."""
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    monkeypatch.setenv("_ARGCOMPLETE_IFS", "\n")
    # its stream for debugging would take a file descriptor of the tests
    monkeypatch.setattr(argcomplete.CompletionFinder, "_init_debug_stream", lambda _: None)
    found = io.StringIO()
    with pytest.raises(SystemExit):
        argcomplete.CompletionFinder()(parser or make_parser(), exit_method=_leave, output_stream=found)
    return {each.strip() for each in found.getvalue().split("\n")}


def _leave(status):
    raise SystemExit(status)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("accountant eps", "epsilon"),
        ("accountant epsilon private-knn-m", "private-knn-mnist"),
        ("accountant epsilon dp-sgd --meth", "--method"),
        ("accountant epsilon dp-sgd --method ti", "tight"),
        ("accountant calibrate private-knn-mnist --vary vot", "votes.sigma"),
        ("accountant list gnm", "gnmax"),
        ("accountant show dp", "dp-sgd"),
    ],
)
def test_commands_options_and_plans_are_offered(line, expected, monkeypatch):
    assert expected in offer(line, monkeypatch)


def test_the_other_command_completes_too(monkeypatch):
    pytest.importorskip("sklearn")
    from mechanisms.cli import make_parser as make_other

    assert "private-knn" in offer("mechanisms label pri", monkeypatch, make_other())


def test_files_that_may_be_plans_are_offered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("")
    (tmp_path / "mine.csv").write_text("")
    (tmp_path / "more").mkdir()
    assert sorted(complete_plan("m")) == ["mine.toml", "more" + os.sep]
    assert complete_plan(f"{tmp_path}{os.sep}mi") == [str(tmp_path / "mine.toml")]
    assert complete_plan(f"no{os.sep}such") == []


def test_nothing_is_offered_for_a_plan_that_cannot_be_read():
    assert complete_number("", Namespace(plan="absent.toml")) == []
    assert complete_number("", Namespace()) == []
    assert complete_event("zzz") == []


def test_without_the_library_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "argcomplete.shell_integration", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install 'knn-accountant[completion]'" in capsys.readouterr().err


@pytest.mark.parametrize("more", ["", "noise_multiplier = 1.0\n"])
def test_nothing_is_imported_for_what_a_plan_names(more, tmp_path, monkeypatch):
    """A plan may come from somebody else; TAB after its name must not run what stands beside it."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "named_in_a_plan.py").write_text("")
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[[release]]\nevent = "named_in_a_plan:Mine"\n{more}')
    assert complete_number("", Namespace(plan=str(plan))) == []
    assert "named_in_a_plan" not in sys.modules


# --- in the shells themselves ---------------------------------------------------------------------------

WORDS = "accountant epsilon private-knn-mn"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory with the command, and what a shell reads."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "accountant"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m accountant "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return tmp_path


def code_for(shell, home, capsys):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    assert main(["completion", shell]) == 0
    path = home / f"completion.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.mark.parametrize(
    ("shell", "options", "before"),
    [("bash", ["--norc", "-i"], ""), ("zsh", ["-f", "-i"], "autoload -U compinit; compinit -u -D; ")],
)
def test_a_tab_completes_in_the_shell(shell, options, before, home, capsys):
    """Typed into a terminal, as it is: the shell must write the rest of the word."""
    pty = pytest.importorskip("pty")
    path = code_for(shell, home, capsys)
    ours, theirs = pty.openpty()
    with subprocess.Popen([shell, *options], stdin=theirs, stdout=theirs, stderr=theirs, cwd=home) as process:
        try:
            os.close(theirs)
            os.write(ours, f"{before}. {path}; echo rea''dy\n".encode())
            assert "ready" in read_until(ours, "ready")
            os.write(ours, f"{WORDS}\t".encode())
            assert "private-knn-mnist" in "".join(read_until(ours, "private-knn-mnist").split())
        finally:
            process.kill()
            os.close(ours)


def read_until(terminal, wanted, patience=120.0):
    found, until = "", time.monotonic() + patience
    while wanted not in found and time.monotonic() < until:
        if select.select([terminal], [], [], 1.0)[0]:
            found += os.read(terminal, 4096).decode(errors="replace")
    return found


def test_fish_completes(home, capsys):
    path = code_for("fish", home, capsys)
    script = f"source {path}; complete -C '{WORDS}'"
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=False, cwd=home)
    assert done.stdout.split()[:1] == ["private-knn-mnist"], done
