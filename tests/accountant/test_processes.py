"""Workers end with the process that started them."""

import os
import subprocess
import sys
import time

import pytest

from accountant import processes
from accountant.processes import count_processors, end_with_parent

CHILD = """
import os, sys, time
from accountant.processes import end_with_parent
end_with_parent(int(sys.argv[1]))
print(os.getpid(), flush=True)
time.sleep(300)
"""
PARENT = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], str(os.getpid())])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_worker_ends_when_its_parent_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True)
    with parent.stdout:
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 60
        while alive(child) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(child)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_process_itself_is_not_watched():
    end_with_parent(os.getpid())
    assert processes._watch is None


def test_processors():
    assert 1 <= count_processors() <= os.cpu_count()
