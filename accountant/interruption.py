"""Ctrl-C while a command is still being imported: one line and exit status 130, as later, not a traceback."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from itertools import pairwise

__all__ = ["await_command", "begin_command"]

COMMANDS = ("accountant", "mechanisms")
"""The commands that this distribution installs; ``python -m`` runs them, too."""


def await_command() -> None:
    """Until `begin_command`, let Ctrl-C end the process at once if it is one of our commands.

    Nothing happens elsewhere. Where Ctrl-C is ignored, or somebody else takes care of it, that stays as it is.
    """
    name = _command()
    if name is None or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return

    def end(*_: object) -> None:
        os.write(2, f"{name}: interrupted: nothing was begun\n".encode())
        os._exit(130)

    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, end)
        _waiting.append(end)


def begin_command() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt again, if it was `await_command` that changed it."""
    if _waiting and signal.getsignal(signal.SIGINT) is _waiting.pop():
        signal.signal(signal.SIGINT, signal.default_int_handler)


_waiting: list[object] = []


def _command() -> str | None:
    """The command that this process was started as; none in a worker of one, whose own arguments are others."""
    first, given = sys.argv[:1], sys.orig_argv
    if first == ["-m"]:  # while Python looks for the module
        return next((name for flag, name in pairwise(given) if flag == "-m" and name in COMMANDS), None)
    name = os.path.basename(first[0]).removesuffix(".exe") if first and first[0] in given else None
    return name if name in COMMANDS else None
