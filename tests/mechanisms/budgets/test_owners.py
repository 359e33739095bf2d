"""A process is known to have ended by its number and by when it began."""

import json
import os
import subprocess
import sys

import pytest

from mechanisms.budgets import open_store, owners
from mechanisms.budgets.ledger import close_ledgers, reach_ledger
from tests.mechanisms.budgets.test_ledger import IDS, PLACES, double, spent

PRINT = "from mechanisms.budgets.owners import this_process; print(this_process(), flush=True); input()"

pytestmark = pytest.mark.skipif(not owners.this_process(), reason="the system does not tell when a process began")


@pytest.fixture
def child():
    """Another process, and its name."""
    with subprocess.Popen([sys.executable, "-c", PRINT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process, process.stdout.readline().decode().strip()
        process.kill()


def test_what_is_certain(child):
    process, name = child
    assert not owners.has_ended(owners.this_process())
    assert not owners.has_ended(name)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number is still taken
    assert owners.has_ended(name)
    process.wait()
    assert owners.has_ended(name)
    *here, number, begun = json.loads(owners.this_process())
    assert owners.has_ended(json.dumps([*here, number, begun - 1])), "another one has its number now"
    for elsewhere in ("", "[]", json.dumps(["other", here[1], number, 1]), json.dumps([here[0], "other", number, 1])):
        assert not owners.has_ended(elsewhere)


def test_a_process_that_is_hidden_has_not_certainly_ended(child, monkeypatch):
    """/proc can be set to hide processes of other users; another user's may not be asked either."""
    process, name = child
    read = owners.Path.read_text

    def hide(path, *given):
        if path.parts[:2] == ("/", "proc") and path.parts[2].isdigit() and int(path.parts[2]) != os.getpid():
            raise FileNotFoundError
        return read(path, *given)

    monkeypatch.setattr(owners.Path, "read_text", hide)
    assert not owners.has_ended(name)
    with monkeypatch.context() as change:
        change.setattr(owners.os, "kill", lambda number, _: (_ for _ in ()).throw(PermissionError(number)))
        assert not owners.has_ended(name)
    process.kill()
    process.wait()
    assert owners.has_ended(name)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("run", ["", "named"])
def test_only_batches_of_processes_that_have_ended_are_given_back(child, tmp_path, monkeypatch, run):
    process, name = child
    with open_store(tmp_path / "store") as store:
        store.positions(IDS)
        ledger = reach_ledger(store.ledger())
        with monkeypatch.context() as change:
            change.setattr("mechanisms.budgets.ledger.this_process", lambda: name)
            theirs = ledger.begin_batch("")
        ledger.pay(theirs, 0, PLACES, double)
        ours = ledger.begin_batch("")
        assert spent(store) == [1, 2, 3, 4], "both go on"
        process.kill()
        process.wait()
        ledger.begin_batch(run)
        assert spent(store) == [0] * 4
        assert ledger.pay(theirs, 0, PLACES, double) is None
        ledger.pay(ours, 0, PLACES, double)
        assert spent(store) == [1, 2, 3, 4]
    close_ledgers()
