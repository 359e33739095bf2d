"""Names of processes, by which another process of the same machine knows that one has ended."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

__all__ = ["has_ended", "this_process"]


def this_process() -> str:
    """The name of this process: of the machine since it was started, of the process and of its beginning.

    Empty where the operating system does not tell.
    """
    where = _place()
    begun = _begun(os.getpid())
    return "" if where is None or begun is None else json.dumps([*where, os.getpid(), begun])


def has_ended(process: str) -> bool:
    """Whether a process certainly has ended; False of one that cannot be seen from here."""
    where = _place()
    try:
        *there, number, begun = json.loads(process)
    except ValueError:
        return False
    return where is not None and there == where and _begun(number) != begun


def _place() -> list[str] | None:
    """The start of the machine, and the space of its process numbers."""
    with suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return [started, os.readlink("/proc/self/ns/pid")]
    return None


def _begun(number: int) -> int | None:
    """When a process began, in ticks since the machine was started; None if there is none, or only what is left of it.

    /proc shows it after the name of the program, which may hold anything but stands in parentheses.
    """
    with suppress(OSError):
        fields = Path(f"/proc/{number}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    return None
