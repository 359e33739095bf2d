"""One `predict` of Ind-KNN; a run with a name keeps its answers in the store, together with their charges."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Floats, Singles
from mechanisms.budgets.budget_store import BudgetStore

__all__ = ["PredictionRun"]

COMMIT_BATCH = 128
"""Most queries whose charges are committed together."""

FIRST_BATCH = 4
"""How many are, before it is known how long they take."""

COMMIT_SECONDS, COMMIT_SHARE = 1.0, 4.0
"""About how long queries of a batch take at most, as other processes wait for it: in seconds, or as a multiple of what
the commit takes, if that is more."""


class PredictionRun:
    """Queries that are answered in order; some may have been answered before an interruption.

    Parameters
    ----------
    store : BudgetStore or None
    name : str or None
        None keeps no answers.
    points : array of shape (m, d)
        The queries, prepared.
    about : dict
        What else must be the same when an interrupted run goes on.

    Attributes
    ----------
    kept : int
        Number of queries that were answered before.
    kept_together : int
        The same without those of the last batch: partitions that charge budgets themselves answer as many queries of a
        batch together as these allow, which is private.

    Raises
    ------
    accountant.ParameterError
        There is a name, but no store that keeps answers.
    StoreError
        The run was begun with other queries or another `about`.
    """

    def __init__(self, store: BudgetStore | None, name: object, points: Singles, about: dict[str, Any]) -> None:
        self._store = cast(Any, store)
        self.name, self.kept, self.kept_together = "", 0, 0
        self._answered = 0.0, 0.0  # when the queries of the last batch began and ended
        if name is None:
            return
        if not hasattr(self._store, "begin") or not isinstance(name, str) or not name:
            raise ac.ParameterError(f"run = {ac.shorten(name)}; accepted: text, with a store that keeps answers")
        self.name = name
        queries = hashlib.sha256(points.tobytes()).hexdigest()
        self._store.begin(name, {"queries": queries, "width": points.shape[1], **about}, len(points))
        answered = np.flatnonzero(self.read_answers(0, len(points))[0] >= 0)
        self.kept = len(answered)
        self.kept_together = int(np.max(answered, initial=0)) // COMMIT_BATCH * COMMIT_BATCH

    def batches(self, size: int) -> Iterator[slice]:
        """Which of `size` queries are committed together, by how long those before took.

        A store without transactions keeps nobody waiting, as where partitions charge budgets themselves.
        """
        waits = hasattr(self._store, "batch")
        first, most = 0, FIRST_BATCH if waits else COMMIT_BATCH
        while first < size:
            yield slice(first, min(first + most, size))
            first += most
            begun, ended = self._answered
            limit = max(COMMIT_SECONDS, COMMIT_SHARE * (time.monotonic() - ended))
            if ended - begun > limit:
                most = max(most // 2, 1)
            elif ended - begun < limit / 2:
                most = min(2 * most, COMMIT_BATCH)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One transaction of the store, if it has transactions."""
        with getattr(self._store, "batch", nullcontext)():
            begun = time.monotonic()
            yield
            self._answered = begun, time.monotonic()

    def read_answers(self, first: int, stop: int) -> tuple[NDArray[np.int64], Floats]:
        """Labels, -1 where there is none yet, and counts of the queries from `first` to before `stop`."""
        if not self.name:
            return np.full(stop - first, -1), np.full(stop - first, np.nan)
        labels, counts = self._store.answers(self.name, first, stop)
        return labels, counts

    def keep(self, first: int, labels: NDArray[np.int64], counts: Floats) -> None:
        """Keep answers of the queries from `first` on, committed with the batch."""
        if self.name:
            self._store.answer(self.name, first, labels, counts)
