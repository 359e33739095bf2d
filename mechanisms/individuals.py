"""Private records whose budgets are counted one by one, as `fit` gets them: in memory, or in partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Singles
from mechanisms.budgets.budget_store import BudgetStore
from mechanisms.budgets.partition_budgets import PartitionBudgets
from mechanisms.budgets.record_budgets import RecordBudgets
from mechanisms.frames import Vocabulary, read_labels, read_records
from mechanisms.neighbours.hashing import Hashing, hashing_of
from mechanisms.neighbours.kernels import Similarity
from mechanisms.neighbours.records import Records
from mechanisms.noise.source import Randomness
from mechanisms.shards import ShardedRecords, Staying, is_sharded, shard_records
from mechanisms.shards.similar import ShardedSimilar

__all__ = ["Individuals", "read_individuals"]


@dataclass(frozen=True, eq=False)
class Individuals:
    """Records, before it is known what they have spent.

    Attributes
    ----------
    features : array of shape (n, d)
        Without columns, if the records stay in partitions; without rows, if these pay.
    labels : int array of shape (n,)
        Zeros, if they stay in partitions; set to what these tell.
    width, n_classes : int
    names : Vocabulary
    ids : object
        Identifiers, "digest" or None; the column of them, or a dask collection, if partitions pay.
    shards : ShardedRecords or None
    pay : bool
        Whether partitions charge their own records in the store.
    """

    features: Singles
    labels: NDArray[np.int64]
    width: int
    n_classes: int
    names: Vocabulary
    ids: Any
    shards: ShardedRecords | None = None
    pay: bool = False

    def budgets(
        self, filter: ac.IndividualFilter, store: BudgetStore | None, earlier: RecordBudgets | None
    ) -> RecordBudgets:
        """Their budgets; parameters as for `RecordBudgets`."""
        if self.pay and self.shards is not None:
            return PartitionBudgets(filter, store, self.ids, earlier, self.shards)
        found = RecordBudgets(filter, store, self.ids, earlier)
        found.hold_digests({**asdict(self.names), "width": self.width})
        return found

    def hash(self, hashing: object, source: Randomness) -> Hashing | None:
        """Their tables, empty; parameters as for `hashing_of`.

        Raises
        ------
        accountant.ParameterError
            The parameter is not as described, or records stay in partitions.
        """
        if self.shards is not None and hashing is not None:
            raise ac.ParameterError(f"hashing = {ac.shorten(hashing)} with records in partitions; accepted: None")
        return hashing_of(hashing, self.width, source)

    def hold(self, kernel: Similarity) -> tuple[Records | ShardedSimilar, Singles]:
        """What finds the records that are similar to a query, and the prepared features."""
        if self.shards is not None:
            return ShardedSimilar(kernel, self.shards, self.labels), self.features
        rows = kernel.prepare(self.features)
        return Records(kernel, rows), rows


def read_individuals(
    X: Any, y: Any, ids: Any, n_classes: int | None, classes: Sequence[str] | None, store: object
) -> Individuals:
    """Private records, checked; with a store that workers reach, identifiers of partitions stay there.

    Raises
    ------
    accountant.ParameterError
        They are not as described for `IndividualKNN.fit`.
    """
    if not is_sharded(X):
        features, names = read_records(X, classes)
        labels, found = read_labels(y, len(features), n_classes, names.classes)
        return Individuals(features, labels, features.shape[1], found, names, ids)
    column = isinstance(ids, str)
    if column and ids == "digest":
        raise ac.ParameterError("ids = 'digest' with records in partitions; accepted: identifiers, or their column")
    apart, pay = column or hasattr(ids, "__dask_graph__"), hasattr(store, "ledger")
    wanted = (Staying(ids) if pay else ids) if apart else None
    shards = shard_records(X, y, classes, n_classes, wanted)
    size = 0 if pay else len(shards)
    empty, zeros = np.empty((size, 0), np.float32), np.zeros(size, np.int64)
    return Individuals(empty, zeros, shards.width, shards.n_classes, shards.names, shards.ids or ids, shards, pay)
