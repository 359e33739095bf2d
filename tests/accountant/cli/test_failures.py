"""Plans, places and disks that fail: one line each, the value, what is accepted, and nothing half written."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import accountant as ac
from accountant.cli import main

PLAN = """delta = {delta}
[[release]]
name = "a"
event = "gaussian"
sigma = {sigma}
sampling_rate = {rate}
count = {count}
"""
USUAL = {"delta": "1e-5", "sigma": "2", "rate": "0.1", "count": "3"}
TARGET = ["--epsilon", "1"]
COMMANDS = (["epsilon", "-"], ["delta", "-", *TARGET], ["statement", "-"], ["calibrate", "-", *TARGET])
EXTREMES = [{"sigma": "1e50"}, {"sigma": "1e-50", "rate": "1"}, {"rate": "1e-15"}, {"delta": "5e-324"}, {"rate": "0"}]


@pytest.fixture
def complaint(capsys, monkeypatch):
    def run(command, given):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(given)))
        assert main(command) == 2
        shown = capsys.readouterr()
        assert (shown.out, shown.err.count("\n")) == ("", 1)
        return shown.err

    return run


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sigma": '"20 votes"'}, "sigma = '20 votes' is not a real number; accepted: [1e-50, 1e+50]"),
        ({"sigma": "2024-01-01"}, "is not a real number; accepted"),
        ({"sigma": "[2]"}, "sigma = [2] is not a real number; accepted"),
        ({"sigma": "1e400"}, "sigma = inf is out of range; accepted"),
        ({"sigma": "5e-324"}, "sigma = 5e-324 is out of range; accepted"),
        ({"sigma": "1e-400"}, "1e-400 is too small for a floating-point number; accepted"),
        ({"sigma": "nan"}, "sigma = nan is out of range; accepted"),
        ({"rate": "5e-324"}, "out of range; accepted: 0, or [1e-15, 1]"),
        ({"count": "1" + 40 * "0"}, "is out of range; accepted: an integer in [0, 1e+30]"),
        ({"delta": '"1e-5 per year"'}, "delta = '1e-5 per year' is not a real number; accepted: [0, 1)"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_value_that_no_plan_can_have(command, changes, words, complaint):
    assert words in complaint(command, PLAN.format(**USUAL | changes).encode())


@pytest.mark.parametrize("given", [b"", b"\n\n", b"# nothing\n", b"\x00\x01", b"\xff\xfe", b"[[release]]"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_file_without_a_plan(command, given, complaint):
    assert complaint(command, given).startswith("accountant: standard input: ")


@pytest.mark.parametrize("changes", EXTREMES)
@pytest.mark.parametrize("command", COMMANDS[:3], ids=lambda command: command[0])
def test_extreme_values_are_priced(command, changes, capsys, monkeypatch):
    given = PLAN.format(**USUAL | changes).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(given)))
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] >= 0


def test_auto_keeps_the_price_that_the_tight_route_cannot_give():
    run = 3 * ac.PoissonSubsampled(ac.Gaussian(2.0), 0.1)
    assert ac.epsilon(run, 5e-324, method="auto").epsilon == ac.epsilon(run, 5e-324).epsilon


@pytest.mark.parametrize("name", [".", "x" * 5000, "a\0b"])
def test_what_is_no_file(name, complaint):
    assert complaint(["epsilon", name], b"").startswith("accountant: ")


WRITERS = (
    ["plot", "dp-sgd", "--kind", "order", "-o", "{}.svg"],
    ["sweep", "dp-sgd", "--vary", "sigma=1:2:3", "--out", "{}.csv"],
)


@pytest.mark.skipif(sys.platform != "linux", reason="a directory in which nobody can write")
@pytest.mark.parametrize("command", WRITERS, ids=lambda command: command[0])
def test_a_directory_that_cannot_be_written(command, complaint):
    assert "accepted" in complaint([part.format("/proc/plan") for part in command], b"")


FULL = """
import os, resource, sys
sys.dont_write_bytecode = True  # what is imported from here on would be kept cut off
from accountant.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
found = [main(["plot", "dp-sgd", "--kind", "order", "-o", "plot.svg"])]
found.append(main(["sweep", "dp-sgd", "--vary", "sigma=1:2:1000", "--out", "sweep.csv", "--jobs", "1"]))
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
found.append(main(["epsilon", "dp-sgd"]))
sys.exit(0 if found == [2, 2, 2] else 1)
"""


@pytest.mark.audit
@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
def test_a_full_disk(tmp_path):
    """Files that may not grow, as on a full disk, and a full standard output."""
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines)) == (0, 3), done.stderr
    assert all(line.startswith("accountant: ") and "accepted: " in line for line in lines)
    assert "plot.svg" in lines[0]
    assert "sweep.csv" in lines[1]
    assert "standard output: No space left on device" in lines[2]
    assert not list(Path(tmp_path).iterdir())


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
@pytest.mark.parametrize(("declared", "status"), [("fixed:2", 0), ("fixed:1", 1)])
def test_a_reader_who_leaves_does_not_change_what_was_found(declared, status, form, tmp_path):
    """Status 1 says that the sampler is another one, and 0 that it need not be."""
    stream = tmp_path / "stream.txt"
    stream.write_text("0 1\n2 3\n0 3\n")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "accountant", "check-sampler", str(stream), "--declared", declared, *form]
    found = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (found.returncode, found.stderr) == (status, b"")
