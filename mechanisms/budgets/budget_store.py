"""The interface of a store of budgets, as Ind-KNN uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.arrays import Integers

__all__ = ["BudgetStore"]


class BudgetStore(Protocol):
    """Spent budgets that outlive the process; implemented by `mechanisms.budgets.store.Store`.

    Optional methods: `batch`, a context manager at whose end all charges are committed; `key`, for identifiers that are
    made from records; `begin`, `answers` and `answer`, which keep answers together with their charges.
    """

    def settle(self, settings: dict[str, Any]) -> None:
        """Fix the settings for ever; refuse settings other than those that were fixed."""
        ...

    def positions(self, ids: Sequence[object]) -> Integers:
        """Position of each identifier, which never changes; new identifiers are added."""
        ...

    def spent(self, positions: Integers) -> Integers:
        """Units that have been spent so far."""
        ...

    def charge(self, positions: Integers, units: Integers, cap: int) -> NDArray[np.bool_]:
        """Add units durably to records whose total stays within the cap; True for these."""
        ...
