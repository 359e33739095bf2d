"""Names for what a long run is doing, for whoever shows its progress; nobody hears them unless a command listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "Tick", "listen", "phase"]

Tick = Callable[[int], None]
"""Takes the number of steps that are done."""

Listener = Callable[[str, int | None], AbstractContextManager[Tick]]
"""Takes the name of a phase and its number of steps, None if it is not known beforehand."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Let `listener` hear of all phases that begin in the block, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def phase(name: str, total: int | None = None) -> Iterator[Tick]:
    """A part of a run; yields a function that takes the number of steps done.

    Parameters
    ----------
    name : str
        What is being done, such as "indexing the private records". It and `total` depend on public settings only: a
        listener may keep them.
    total : int or None
    """
    listener = _listener.get()
    if listener is None:
        yield _ignore
        return
    with listener(name, total) as tick:
        yield tick


def _ignore(done: int) -> None:
    """Nobody listens."""
