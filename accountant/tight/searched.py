"""Whether a price is one of many of a search, which needs no lower ends, and as many prices as its patience has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["is_quick", "is_searched", "play_games", "skip_lower_ends"]

_skips = ContextVar("skips", default=False)

_plays = ContextVar("plays", default=False)


@contextmanager
def _set(variable: ContextVar[bool]) -> Iterator[None]:
    token = variable.set(True)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def skip_lower_ends() -> Iterator[None]:
    """While the block runs lower ends that take work of their own are 0: whoever searches a price needs none."""
    with _set(_skips):
        yield


def is_searched() -> bool:
    """Whether such a block runs."""
    return _skips.get()


@contextmanager
def play_games() -> Iterator[None]:
    """While the block runs games are played in a search, too: they make prices smaller, and take most of their work."""
    with _set(_plays):
        yield


def is_quick() -> bool:
    """Whether a price is one of many, of which games would leave no patience for others."""
    return _skips.get() and not _plays.get()
