"""What a mechanism asks of a store of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.arrays import Integers

__all__ = ["BudgetStore"]


class BudgetStore(Protocol):
    """Where spent budgets outlive the process, as in `mechanisms.budgets.store`.

    If it has a context manager `batch`, charges within are committed at its end. `key` makes identifiers from records;
    `begin`, `answers` and `answer` keep answers together with what they cost. See `mechanisms.budgets.store.Store`.
    """

    def settle(self, settings: dict[str, Any]) -> None:
        """Fix the settings for ever, or refuse others than those that were fixed."""
        ...

    def positions(self, ids: Sequence[object]) -> Integers:
        """Where each identifier is, for good; new ones are entered."""
        ...

    def spent(self, positions: Integers) -> Integers:
        """Units that have been spent so far."""
        ...

    def charge(self, positions: Integers, units: Integers, cap: int) -> NDArray[np.bool_]:
        """Add units, durably, where the total stays within the cap; tells where."""
        ...
