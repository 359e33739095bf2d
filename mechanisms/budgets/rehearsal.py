"""What a store would refuse, found out without changing it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.arrays import Integers
from mechanisms.budgets.store import Store

__all__ = ["RehearsedStore", "undo"]


class _Undone(Exception):
    """Ends a transaction without committing it."""


@contextmanager
def undo(store: Store) -> Iterator[None]:
    """A block after which the store is as it was."""
    with suppress(_Undone), store.batch():
        yield
        raise _Undone


class RehearsedStore:
    """A `BudgetStore` with the key and the settings of a store, if there is one; what is charged is forgotten.

    Settings that the store would refuse are refused; all records have spent nothing.
    """

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._key = secrets.token_bytes(32) if store is None else store.key()
        self._places: dict[object, int] = {}
        self._spent: Integers = np.empty(0, np.int64)

    def key(self) -> bytes:
        return self._key

    def settle(self, settings: dict[str, Any]) -> None:
        if self._store is not None:
            with undo(self._store):
                self._store.settle(settings)

    def positions(self, ids: Sequence[object]) -> Integers:
        found = [self._places.setdefault(each, len(self._places)) for each in ids]
        self._spent = np.append(self._spent, np.zeros(len(self._places) - len(self._spent), np.int64))
        return np.array(found, np.int64)

    def spent(self, positions: Integers) -> Integers:
        return self._spent[positions]

    def charge(self, positions: Integers, units: Integers, cap: int) -> NDArray[np.bool_]:
        granted: NDArray[np.bool_] = self._spent[positions] <= cap - units
        self._spent[positions[granted]] += units[granted]
        return granted
