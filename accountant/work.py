"""A line on a terminal that says what takes long: after two seconds, on standard error, gone when the work is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from accountant.numerics.kernel import first_calls
from accountant.tables import console

__all__ = ["show_work"]

PATIENCE = 2.0
"""Seconds after which the line appears."""


@contextmanager
def show_work(what: str) -> Iterator[None]:
    """While the block runs: say `what` is being done, and for how long, if it lasts and standard error is a terminal.

    While a kernel is compiled, the line says that instead. What the block prints itself must go elsewhere.

    Parameters
    ----------
    what : str
        Such as "drawing".
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    over = threading.Event()
    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=screen, transient=True
    )

    def show() -> None:
        if over.wait(PATIENCE):
            return
        with bar:
            task = bar.add_task(_describe(what))
            while not over.wait(0.5):
                bar.update(task, description=_describe(what))

    thread = threading.Thread(target=show, daemon=True, name="work")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _describe(what: str) -> str:
    if first_calls.running is None:
        return what
    return f"{what}: compiling, once for this version on this machine (up to a minute)"
