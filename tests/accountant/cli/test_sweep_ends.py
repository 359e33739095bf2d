"""A sweep that is asked to end, as schedulers do, ends all its workers, leaks nothing and says what is kept."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from accountant.cli import main
from accountant.processes import Terminated, heed_termination

PLAN = "delta = 1e-5\n[[release]]\nevent = 'gaussian'\nsigma = 20\nsampling_rate = 0.1\ncount = 40\n"

SAYS_WHEN_KEPT = """
import sys
from accountant.cli import main, sweep_blocks

def main_and_say():
    sweep_blocks.ALONE, sweep_blocks.SECONDS = 0.0, 0.0
    add = sweep_blocks.SweepJournal.add

    def add_and_say(*given):
        add(*given)
        print("kept", flush=True)

    sweep_blocks.SweepJournal.add = add_and_say
    sys.exit(main(sys.argv[1:]))

if __name__ == "__main__":
    main_and_say()
"""


@pytest.mark.audit
@pytest.mark.parametrize("whole_group", [False, True])
def test_workers_are_ended_and_one_line_is_printed(tmp_path, whole_group):
    """What workers shared was left to a warning of Python's resource tracker."""
    script, plan, out = tmp_path / "sweep.py", tmp_path / "plan.toml", tmp_path / "sweep.npz"
    script.write_text(SAYS_WHEN_KEPT)
    plan.write_text(PLAN)
    arguments = ["sweep", str(plan), "--vary", "sigma=10:20:100000", "--method", "tight", "--jobs", "2"]
    command = [sys.executable, str(script), *arguments, "--out", str(out)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout.readline() == "kept\n"
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGTERM)
        _, says = process.communicate(timeout=120)  # until nobody holds its ends any more: workers are gone
    assert process.returncode == 143
    assert says.startswith("accountant: terminated: ")
    assert says.endswith(f" of 100000 settings are kept in {out}.partial; the same command goes on with them\n")
    assert says.count("\n") == 1


@contextmanager
def ended_again():
    """Another SIGTERM while what is ended cleans up."""
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def test_the_signal_is_heeded_once_and_in_the_main_thread_alone(tmp_path, capsys, monkeypatch):
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(Terminated), heed_termination(), ended_again():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    seen = []

    def look():
        with heed_termination():
            seen.append(signal.getsignal(signal.SIGTERM))

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert seen == [signal.SIG_DFL]
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    monkeypatch.setattr("accountant.cli.sweep_blocks.price_missing", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["sweep", str(plan), "--vary", "sigma=10:20:5", "--out", str(tmp_path / "sweep.npz")]) == 143
    assert capsys.readouterr().err == "accountant: terminated: nothing was priced, nothing is kept\n"
