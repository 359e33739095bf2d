"""Progress on the operator's terminal: the phase of a run, its rate and the time left, gone when the work is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import accountant as ac
from mechanisms.phases import Tick, listen

__all__ = ["describe_pace", "show_phases"]


@contextmanager
def show_phases() -> Iterator[None]:
    """While the block runs, show every phase on standard error if it is a terminal; otherwise nothing is written."""
    console = ac.terminal.console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with listen(_Display(console)):
        yield


class _Display:
    """Shows the phases that are under way, the outermost first; between phases the terminal is free for tables."""

    def __init__(self, console: Any) -> None:
        self._console, self._open = console, 0
        self._bar: Any = None

    @contextmanager
    def __call__(self, name: str, total: int | None) -> Iterator[Tick]:
        if self._bar is None:
            self._bar = _make_bar(self._console)
            self._bar.start()
        bar, self._open = self._bar, self._open + 1
        task = bar.add_task(name, total=total)
        try:
            yield lambda done: bar.update(task, completed=done)
        finally:
            bar.remove_task(task)
            self._open -= 1
            if self._open == 0:
                bar.stop()
                self._bar = None


def _make_bar(console: Any) -> Any:
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
    from rich.text import Text

    class Pace(ProgressColumn):
        def render(self, task: Any) -> Any:
            steps = None if task.total is None else (int(task.completed), int(task.total))
            return Text(describe_pace(task.elapsed or 0.0, task.speed, task.time_remaining, steps))

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), Pace()
    return Progress(*columns, console=console, transient=True)


def describe_pace(elapsed: float, speed: float | None, left: float | None, steps: tuple[int, int] | None) -> str:
    """How far a phase has come, how fast it goes and how long it will take; without a number of steps, since when.

    Parameters
    ----------
    elapsed, left : float
        Seconds.
    speed : float or None
        Steps in a second; None before it is known.
    steps : (int, int) or None
        Done, and all.
    """
    if steps is None:
        return f"for {_format_seconds(elapsed)}"
    said = f"{steps[0]} of {steps[1]}"
    if speed:
        said += f", {speed:.3g} a second"
    return said if left is None else f"{said}, {_format_seconds(left)} left"


def _format_seconds(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
