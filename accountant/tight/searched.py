"""What a price is asked for: one of many of a search, which needs no lower ends, or one that is near or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from accountant.variables import set_while

__all__ = ["is_quick", "is_searched", "play_games", "refuse_early", "refuses_early", "skip_lower_ends"]

_skips = ContextVar("skips", default=False)

_plays = ContextVar("plays", default=False)

_refuses = ContextVar("refuses", default=False)


@contextmanager
def skip_lower_ends() -> Iterator[None]:
    """While the block runs lower ends that take work of their own are 0: whoever searches a price needs none."""
    with set_while((_skips, True)):
        yield


def is_searched() -> bool:
    """Whether such a block runs."""
    return _skips.get()


@contextmanager
def play_games() -> Iterator[None]:
    """While the block runs games are played in a search, too: they make prices smaller, and take most of their work."""
    with set_while((_plays, True)):
        yield


def is_quick() -> bool:
    """Whether a price is one of many, of which games would leave no patience for others."""
    return _skips.get() and not _plays.get()


@contextmanager
def refuse_early() -> Iterator[None]:
    """While the block runs games are not begun that are foreseen to be too wide: what they certify is not asked for."""
    with set_while((_refuses, True)):
        yield


def refuses_early() -> bool:
    """Whether such a block runs."""
    return _refuses.get()
