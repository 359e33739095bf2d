"""Worker processes that end with the process which started them, whatever ends it."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Terminated", "count_processors", "end_with_parent", "free_memory", "heed_termination", "prepare_worker"]

INTERVAL = 0.5
"""Seconds between looks at the parent."""

_watch: threading.Thread | None = None


def count_processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> float:
    """Bytes that this process may still use: of the machine, and of its control group; inf where nobody says."""
    found = math.inf
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        found = min(found, 1024.0 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with suppress(OSError, ValueError):
        limit, used = (
            int(Path("/sys/fs/cgroup", name).read_text("ascii")) for name in ("memory.max", "memory.current")
        )
        found = min(found, float(max(limit - used, 0)))
    return found


class Terminated(KeyboardInterrupt):
    """The process was asked to end, by SIGTERM; what handles Ctrl-C handles it."""


@contextmanager
def heed_termination() -> Iterator[None]:
    """While the block runs SIGTERM raises `Terminated` once, so that workers are ended and what they shared is freed.

    Nothing changes outside the main thread, and where somebody else takes care of the signal.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what cleans up is not broken off
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_with_parent(parent: int) -> None:
    """In a child of the process `parent`: end when that process has ended. Elsewhere nothing happens."""
    global _watch
    if _watch is None and os.getppid() == parent:
        _watch = threading.Thread(target=_watch_parent, args=(parent,), daemon=True, name="parent")
        _watch.start()


def _watch_parent(parent: int) -> None:
    from multiprocessing import parent_process

    known = parent_process()
    if sys.platform == "win32" and known is not None:  # there the number of the parent stays
        known.join()
    else:
        while os.getppid() == parent:
            time.sleep(INTERVAL)
    os._exit(1)


def prepare_worker(parent: int) -> None:
    """At the start of a worker: leave Ctrl-C to the parent, and end with it at once where the system can do that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)
    if sys.platform == "linux":
        import ctypes

        pdeathsig = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
        ctypes.CDLL(None).prctl(pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)
