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
    if where is None or there != where:
        return False
    found = _begun(number)
    return found != begun if found is not None else not _lives(number)


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
    fields = _stat(number)
    return None if not fields or fields[0] in "ZX" else int(fields[19])


def _lives(number: int) -> bool:
    """Whether there may be a process of which nothing is seen: /proc can be set to hide those of other users."""
    if _stat(number):
        return False  # what is left of one
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _stat(number: int) -> list[str]:
    """The fields after the name; none where they cannot be read."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    return []
