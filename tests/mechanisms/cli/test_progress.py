"""Progress: on a terminal alone, with rate and time left; Ctrl-C ends in one line that says what is kept."""

import io
import os

import pytest
from rich.console import Console

import accountant as ac
from mechanisms.budgets.journal import Part
from mechanisms.cli import main, preparation, progress
from mechanisms.phases import phase

GNMAX = ["label", "gnmax", "--data", "digits", "--epsilon", "2", "--delta", "1e-4", "--teacher", "nearest"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((75.9, None, None, None), "for 1:15"),
        ((3700.0, None, None, None), "for 1:01:40"),
        ((0.1, None, None, (0, 14)), "0 of 14"),
        ((2.0, 3.14159, 61.0, (6, 200)), "6 of 200, 3.14 a second, 1:01 left"),
    ],
)
def test_pace(given, said):
    assert progress.describe_pace(*given) == said


@pytest.mark.parametrize("terminal", [True, False])
def test_phases_are_shown_on_a_terminal_alone(monkeypatch, terminal):
    written = io.StringIO()
    screen = Console(file=written, force_terminal=terminal, width=100)
    monkeypatch.setattr(ac.terminal, "console", lambda stderr=False: screen)
    with progress.show_phases(), phase("labelling", 4) as tick:
        tick(2)
        with phase("indexing"):
            pass
    with progress.show_phases(), phase("training"):
        pass
    assert [words in written.getvalue() for words in ("labelling", "2 of 4", "training")] == 3 * [terminal]
    assert bool(written.getvalue()) is terminal


def test_interrupted_before_anything_is_spent(here, capsys, monkeypatch):
    def stop(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(preparation, "load_data", stop)
    assert main([*GNMAX, "--out", "a.npz"]) == 130
    assert capsys.readouterr() == ("", "mechanisms: interrupted: before anything was spent\n")
    assert not list(here.iterdir())


@pytest.mark.audit
@pytest.mark.parametrize(
    ("stopping", "said"),
    [
        ("charge", "nothing was released, and nothing is to be paid for"),
        ("answer", "0 answers are kept in a.npz.journal; the same command goes on, for the same price"),
    ],
)
def test_interrupted_run_says_what_is_kept(here, capsys, monkeypatch, stopping, said):
    def stop(self, *given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Part, stopping, stop)
        assert main([*GNMAX, "--out", "a.npz"]) == 130
        assert capsys.readouterr() == ("", f"mechanisms: interrupted: {said}\n")
    assert main([*GNMAX, "--out", "a.npz"]) == 0
    assert ("going on" in capsys.readouterr().err) is (stopping == "answer")


@pytest.mark.audit
def test_results_that_cannot_be_written_are_kept(here, capsys, monkeypatch):
    """A disk that is full when the run is over."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *given: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        assert main([*GNMAX, "--out", "a.npz", "--queries", "12"]) == 2
    assert capsys.readouterr() == (
        "",
        "mechanisms: --out 'a.npz': No space left on device; accepted: a file that can be written; 12 answers are kept "
        "in a.npz.journal; the same command goes on, for the same price\n",
    )
    assert main([*GNMAX, "--out", "a.npz", "--queries", "12"]) == 0
    assert "12 answers are kept" in capsys.readouterr().err
    assert [each.name for each in here.iterdir()] == ["a.npz"]
