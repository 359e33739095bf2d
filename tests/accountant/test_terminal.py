"""What the commands say while they work, and one line when they cannot go on."""

import argparse
import io
import json
import sys
import time

import pytest
from rich.console import Console

import accountant as ac
from accountant import work
from accountant.cli import main, pricing
from accountant.numerics.kernel import first_calls
from accountant.terminal import Parser, number_range, run_command, show_work


@pytest.fixture
def screen(monkeypatch):
    """What a terminal would show."""
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=120, highlight=False)
    monkeypatch.setattr(work, "console", lambda *, stderr: terminal)
    monkeypatch.setattr(work, "DELAY", 0.01)
    return shown


def wait_for(words, shown):
    end = time.monotonic() + 120
    while words not in shown.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    return words in shown.getvalue()


def test_what_lasts_is_said_on_a_terminal(screen):
    with show_work("searching"):
        assert wait_for("searching", screen)


def test_compilation_is_called_by_its_name(screen, monkeypatch):
    monkeypatch.setattr(first_calls, "compiling", 1)
    with show_work("pricing"):
        assert wait_for("pricing: compiling, once for this version", screen)


def test_what_is_quick_is_silent(screen, monkeypatch):
    monkeypatch.setattr(work, "DELAY", 60.0)
    with show_work("pricing"):
        pass
    assert screen.getvalue() == ""


def test_nothing_is_said_where_nobody_looks(capsys, monkeypatch):
    monkeypatch.setattr(work, "DELAY", 0.0)
    with show_work("pricing"):
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_a_line_that_is_shown_goes_when_the_work_fails(screen):
    def fail():
        with show_work("dividing"):
            assert wait_for("dividing", screen)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "\x1b[2K" in screen.getvalue(), "the line was erased"


def test_a_price_that_takes_long_says_so(screen, monkeypatch, capsys):
    def price(*arguments, **options):
        assert wait_for("pricing", screen)
        return ac.epsilon(*arguments, **options)

    monkeypatch.setattr(pricing, "epsilon", price)
    assert main(["epsilon", "figure5-gaussian", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["delta"] == 1e-5


def test_a_page_that_takes_long_says_so_and_may_be_interrupted(screen, monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    from accountant.report import html

    def make_page(*_, **__):
        assert wait_for("dp-sgd: pricing", screen)
        raise KeyboardInterrupt

    monkeypatch.setattr(html, "report", make_page)
    assert main(["report", "dp-sgd", "-o", str(tmp_path / "page.html")]) == 130
    line = "accountant: interrupted: nothing was written; the same command begins anew\n"
    assert capsys.readouterr() == ("", line)
    assert not list(tmp_path.iterdir())


def command(run):
    parser = Parser(prog="tool")
    parser.set_defaults(run=run)
    return parser


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (KeyboardInterrupt(), 130, "tool: interrupted: nothing was written\n"),
        (KeyboardInterrupt("3 are kept"), 130, "tool: interrupted: 3 are kept\n"),
        (OSError(28, "No space left on device"), 2, "tool: standard output: No space left on device; accepted: "),
        (PermissionError(13, "Permission denied", "x.toml"), 2, "tool: x.toml: Permission denied; accepted: "),
    ],
)
def test_every_end_is_one_line(error, status, line, capsys):
    def run(options: argparse.Namespace) -> int:
        raise error

    assert run_command("tool", command(run), [], interrupted="nothing was written") == status
    shown = capsys.readouterr()
    assert shown.err.startswith(line)
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_what_the_encoding_of_the_output_lacks_is_escaped(monkeypatch):
    bytes_out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_out, "ascii"))
    assert run_command("tool", command(lambda _: print("Übung") or 0), []) == 0
    assert bytes_out.getvalue() == b"\\xdcbung\n"


def test_a_closed_output_is_refused_before_the_work(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert run_command("tool", command(lambda _: pytest.fail("begun")), []) == 2
    line = "tool: standard output is closed; accepted: a file or a terminal, such as /dev/null\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("text", ["0:inf:3", "nan:1:3", "0:1", "0:1:0", "a:b:3", "1e308:-1e308:3"])
def test_ranges_have_finite_ends(text, recwarn):
    with pytest.raises(ac.PlanError, match=f"^--epsilons {text}: accepted: A:B:N, such as 0:4:41, with finite A and B"):
        number_range("--epsilons", text)
    assert not recwarn


def test_output_that_cannot_be_written_is_noticed(monkeypatch, capsys):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert run_command("tool", command(lambda _: print("text") or 0), []) == 2
    assert "No space left on device" in capsys.readouterr().err
