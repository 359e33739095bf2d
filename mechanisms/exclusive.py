"""Objects that remember what they spent: one process, one thread at a time, no copies.

A fork, a pickle or a copy would be a second object that does not know what the first one spends, and two threads in one
method could charge once for two draws.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import accountant as ac

__all__ = ["Exclusive", "UsageError", "exclusive"]

Method = TypeVar("Method", bound=Callable[..., Any])


class UsageError(ac.AccountantError, RuntimeError):
    """An object was used in another process, from within one of its own methods, or as a copy.

    What it spends could then be forgotten.
    """


class Exclusive:
    """Base of objects that remember what they spent; `exclusive` marks the methods that read or change it."""

    def __getstate__(self) -> Any:
        """What a copy or a pickle holds.

        Raises
        ------
        UsageError
            The object has been used.
        """
        if "_owner" in self.__dict__:
            raise UsageError(
                f"a copy of a {type(self).__name__} that has been used would not know what the other one spends; "
                "accepted: a new one with the same parameters (sklearn.base.clone)"
            )
        return super().__getstate__()

    def _claim(self) -> None:
        """Bind the object to this process, as its first use does."""
        with self._turn("claim"):
            pass

    @contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        """Let this thread use the object; other threads wait until it is done."""
        owner: _Owner = self.__dict__.setdefault("_owner", _Owner())
        if owner.process != os.getpid():
            raise UsageError(
                f"{name} of a {type(self).__name__} that belongs to process {owner.process}; accepted: one made in "
                "this process, as neither of two would know what the other one spends"
            )
        if owner.thread == threading.get_ident():
            raise UsageError(f"{name} was called from within another method of the same {type(self).__name__}")
        with owner.lock:
            owner.thread = threading.get_ident()
            try:
                yield
            finally:
                owner.thread = None


class _Owner:
    """The process that first used an object, and the thread whose turn it is."""

    def __init__(self) -> None:
        self.process, self.thread = os.getpid(), cast("int | None", None)
        self.lock = threading.Lock()


def exclusive(method: Method) -> Method:
    """Decorate a method of an `Exclusive`: one thread at a time, and only in the process that first used the object."""

    @wraps(method)
    def turn(self: Exclusive, *arguments: Any, **named: Any) -> Any:
        with self._turn(method.__name__):
            return method(self, *arguments, **named)

    return cast(Method, turn)
