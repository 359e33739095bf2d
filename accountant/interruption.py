"""Ctrl-C in a command: one line and exit status 130 while it is still being imported; not lost while it compiles."""

from __future__ import annotations

import os
import signal
import sys
from _thread import interrupt_main
from contextlib import suppress
from itertools import pairwise
from threading import Timer, main_thread
from types import FrameType

__all__ = ["CALLBACKS", "await_command", "begin_command", "interrupt"]

COMMANDS = ("accountant", "mechanisms")
"""The commands that this distribution installs; ``python -m`` runs them, too."""


CALLBACKS = ("_raw_object_cache_notify", "_raw_object_cache_getbuffer")
"""Functions of llvmlite that are called by compiled code, which drops what they raise."""

AGAIN = 0.05
"""Seconds until an interruption that came within one of them comes again."""


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
    """From here on Ctrl-C is `interrupt`, if it was `await_command` that changed it."""
    if _waiting and signal.getsignal(signal.SIGINT) is _waiting.pop():
        signal.signal(signal.SIGINT, interrupt)


def interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; a moment later, if the compiler would drop it now.

    Python learns of a signal when the compiler comes back to it, which may be in one of these callbacks.
    """
    while frame is not None:
        if frame.f_code.co_name in CALLBACKS:
            again = Timer(AGAIN, _interrupt_again)
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_again() -> None:
    """Interrupt the main thread from another one; where the system can, also while it waits."""
    main = main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        interrupt_main()


_waiting: list[object] = []


def _command() -> str | None:
    """The command that this process was started as; none in a worker of one, whose own arguments are others."""
    first, given = sys.argv[:1], sys.orig_argv
    if first == ["-m"]:  # while Python looks for the module
        return next((name for flag, name in pairwise(given) if flag == "-m" and name in COMMANDS), None)
    name = os.path.basename(first[0]).removesuffix(".exe") if first and first[0] in given else None
    return name if name in COMMANDS else None
