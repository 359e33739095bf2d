"""A line on a terminal that says what takes long: after a second, on standard error, gone when the work is done."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from accountant.numerics.kernel import first_calls
from accountant.patience import watch_work
from accountant.tables import console

__all__ = ["show_work"]

DELAY = 1.0
"""Seconds after which the line appears."""


class Counted:
    """How much work was counted (see `accountant.patience`): what is done, and what will be after the present piece."""

    def __init__(self) -> None:
        self.done, self.until, self.since = 0.0, 0.0, time.monotonic()

    def __call__(self, done: float, until: float) -> None:
        self.done, self.until, self.since = done, until, time.monotonic()

    def share(self) -> float | None:
        """Share of the work that is done by now, about; None where none was counted."""
        if self.until == 0.0:
            return None
        # the present piece never seems to be finished
        piece = (self.until - self.done) * -math.expm1(-2 * (time.monotonic() - self.since) / (self.until - self.done))
        return (self.done + piece) / self.until


@contextmanager
def show_work(what: str) -> Iterator[None]:
    """While the block runs: say `what` is being done, and for how long, if it lasts and standard error is a terminal.

    Where the work is counted before it is done a bar shows how much of it is done. While a kernel is compiled, the line
    says that instead. What the block prints itself must go elsewhere.

    Parameters
    ----------
    what : str
        Such as "drawing".
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    over, counted = threading.Event(), Counted()
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=screen, transient=True)

    def show() -> None:
        if over.wait(DELAY):
            return
        with bar:
            task = bar.add_task(_describe(what), total=None)
            while not over.wait(0.2):
                share = counted.share()
                total = None if share is None or first_calls.compiling else 1.0
                bar.update(task, description=_describe(what), total=total, completed=share or 0.0)

    thread = threading.Thread(target=show, daemon=True, name="work")
    thread.start()
    try:
        with watch_work(counted):
            yield
    finally:
        over.set()
        thread.join()


def _describe(what: str) -> str:
    if not first_calls.compiling:
        return what
    return f"{what}: compiling, once for this version on this machine (up to half a minute)"
