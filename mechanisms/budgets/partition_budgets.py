"""Budgets of records in partitions that charge a store themselves: what is known of a record stays there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.budgets.budget_store import BudgetStore
from mechanisms.budgets.identifiers import check_ids
from mechanisms.budgets.ledger import LedgerAddress, reach_ledger
from mechanisms.budgets.record_budgets import KnownRecords, RecordBudgets
from mechanisms.shards.records import Positions, ShardedRecords

__all__ = ["PartitionBudgets"]


class PartitionBudgets(RecordBudgets):
    """As `RecordBudgets`, for partitions, which enter their identifiers into the store and look up their positions.

    A slot is the index of a record among all. This process knows one position for each partition; or those of all of
    its records, 8 bytes each, where they do not follow one another.

    Parameters
    ----------
    filter, store, earlier
        As for `RecordBudgets`.
    ids : object
        Name of the column of identifiers, a dask collection of them that was given with the records, or a list.
    shards : ShardedRecords

    Attributes
    ----------
    address : LedgerAddress
        Of the store.
    """

    def __init__(
        self,
        filter: ac.IndividualFilter,
        store: BudgetStore | None,
        ids: object,
        earlier: RecordBudgets | None,
        shards: ShardedRecords,
    ) -> None:
        super().__init__(filter, store, ids, earlier)
        held: Any = store
        self._store, self.address = held, cast(LedgerAddress, held.ledger())
        self._given: Any = ids
        self._shards, self._settings = shards, dict[str, Any]()
        self._gone_slots = np.empty(0, np.int64)
        self._sizes = [size for size in shards.sizes.tolist() if size]
        self._firsts = (np.cumsum(self._sizes) - self._sizes).tolist()
        self._places: Sequence[Positions] = []

    def names(self, ids: object, features: Singles, labels: Integers) -> list[str]:
        """None: partitions have them."""
        return []

    def settle(self, settings: dict[str, Any]) -> None:
        """As for `RecordBudgets`, but a store without settings gets them once its identifiers are there."""
        self._settings = settings
        if self._store.settings() is not None:
            super().settle(settings)

    def find(self, names: list[str]) -> KnownRecords:
        """Enter the records of all partitions, by the identifiers that these hold, or that are given.

        Raises
        ------
        accountant.ParameterError
            Identifiers are not valid, or one occurs twice, in one partition or in two; nothing was charged.
        """
        if isinstance(self._given, str) or hasattr(self._given, "__dask_graph__"):
            self._places = self._shards.place_by_ids(_Place(self.address))
        else:
            given = check_ids(self._given, len(self._shards))
            self._places = self._shards.place(reach_ledger(self.address).positions(given))
        self._given = None
        self._refuse_twice()
        super().settle(self._settings)
        return KnownRecords([], np.empty(0, np.int64), np.empty(0, np.int64))

    def _refuse_twice(self) -> None:
        """Refuse partitions that have a record in common: every identifier has one position."""
        ends = [self._last(i) + 1 for i in range(len(self._places))]
        taken = np.zeros(max(ends), bool)
        for i, place in enumerate(self._places):
            some = slice(place, ends[i]) if isinstance(place, int) else place
            if taken[some].any():
                where = np.arange(place, ends[i]) if isinstance(place, int) else place
                (twice,) = self._store.names(where[taken[some]][:1])
                raise ac.ParameterError(f"ids holds {ac.shorten(twice)} twice; accepted: every identifier once")
            taken[some] = True

    def _last(self, part: int) -> int:
        place = self._places[part]
        return place + self._sizes[part] - 1 if isinstance(place, int) else int(place.max())

    def leave(self, names: list[str]) -> Integers:
        """As for `RecordBudgets`."""
        positions = reach_ledger(self.address).positions(names, add=False)
        slots = np.full(len(names), -1, np.int64)
        for first, size, place in zip(self._firsts, self._sizes, self._places, strict=True):
            if isinstance(place, int):
                here = np.flatnonzero((positions >= place) & (positions < place + size))
                slots[here] = first + positions[here] - place
            else:
                order = np.argsort(place)
                found = np.minimum(np.searchsorted(place, positions, sorter=order), size - 1)
                here = np.flatnonzero(place[order[found]] == positions)
                slots[here] = first + order[found[here]]
        missing = np.flatnonzero((slots < 0) | np.isin(slots, self._gone_slots))
        if len(missing):
            bad = ac.shorten(names[missing[0]])
            raise ac.ParameterError(f"ids holds {bad}, which is not there; accepted: those in ids_")
        self._gone_slots = np.concatenate([self._gone_slots, slots])
        return slots

    def ids(self) -> list[str]:
        """Identifiers of the present records, read from the store."""
        present: list[str] = self._store.names(self._present())
        return present

    def left(self) -> Integers:
        """What they have left, in the same order, read from the store."""
        left: Integers = self.filter.UNITS - np.minimum(self._store.spent(self._present()), self.filter.UNITS)
        return left

    def read_again(self) -> None:
        """Nothing is remembered."""

    def _present(self) -> Integers:
        """Positions of the present records."""
        pairs = zip(self._places, self._sizes, strict=True)
        whole = [np.arange(place, place + size) if isinstance(place, int) else place for place, size in pairs]
        return np.delete(np.concatenate(whole), self._gone_slots)


@dataclass(frozen=True)
class _Place:
    """Enters the identifiers of a partition into the store at an address; entered again, they are where they were."""

    address: LedgerAddress

    def __call__(self, ids: list[Any], size: int) -> Integers:
        return reach_ledger(self.address).positions(check_ids(ids, size))
