"""What filters and odometers have in common: the releases of a run, their running sums, and where these are kept."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from accountant.adjacency import Adjacency
from accountant.errors import AdjacencyMismatch, FilterError, ParameterError, shorten
from accountant.events.composition import MAX_COUNT, Composition
from accountant.events.event import Event
from accountant.filters.mixture import Mixture
from accountant.filters.spending import Charge, Charges, Released, Spent
from accountant.guarantee import Guarantee
from accountant.price import epsilon as price

if TYPE_CHECKING:
    from accountant.filters.stored import StoredRun

__all__ = ["Run"]


class Run:
    """What filters and odometers have in common: releases, their running sums, and where these are kept."""

    def __init__(self, mixture: Mixture, path: str | Path | None, wait: float, about: dict[str, object]) -> None:
        self._mixture, self._charges = mixture, Charges(mixture.orders)
        self._lock, self._process = threading.Lock(), os.getpid()
        self._state = Released(Spent.nothing(mixture.orders.size), None, None)
        self._counts: dict[Event, int] = {}
        self._stored: StoredRun | None = None
        if path is not None:
            from accountant.filters.stored import StoredRun

            self._stored = StoredRun(path, {**about, "orders": mixture.orders.tolist()}, wait)

    @property
    def run(self) -> Composition:
        """What was released so far."""
        if (stored := self._stored) is not None:
            self._enter()
        # in a forked child of one in memory the lock may be held by a thread that is not here, and nothing is spent
        with self._lock if self._process == os.getpid() else nullcontext():
            return Composition(self._counts if stored is None else stored.releases())

    @property
    def adjacency(self) -> Adjacency | None:
        """That of all releases; None before the first one."""
        with self._turn():
            return self._state.adjacency

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._stored is not None:
            self._stored.close()

    def reading(self, delta: float, *, method: str = "auto", tolerance: float = 0.01) -> Guarantee:
        """What the releases so far cost if they had been fixed in advance: a reading, no guarantee.

        Parameters as for `epsilon`. It is true of a run that would have made the same releases whatever came out of
        them. The result has ``odometer`` set.

        Raises
        ------
        ParameterError, NoGuarantee, ProfileUnavailable, ToleranceUnreachable
            As for `epsilon`.
        """
        return replace(price(self.run, delta, method=method, tolerance=tolerance), odometer=True)

    def __getstate__(self) -> object:
        """Refuse copies and pickles: what one spends the other would not know.

        Raises
        ------
        FilterError
            Always.
        """
        kind = type(self).__name__
        raise FilterError(
            f"a copy of this {kind} would not know what the other one spends; accepted: a {kind} with a path, made "
            "again from its file"
        )

    def _enter(self) -> None:
        """In a forked child: refuse what is in memory alone, and open a file anew, as SQLite wants it.

        Raises
        ------
        FilterError
            There is no file: the parent would not know what the child spends.
        """
        if self._process == os.getpid():
            return
        if self._stored is None:
            raise FilterError(
                f"a {type(self).__name__} in the memory of process {self._process}, which would not know what is spent "
                "here; accepted: one with a path, or one that was made in this process"
            )
        # the lock may be held by a thread that is not here
        self._lock, self._process = threading.Lock(), os.getpid()
        self._stored.reopen()

    def _turn(self) -> AbstractContextManager[object]:
        """One thread at a time, and one process at a time where there is a file, whose sums are read first."""
        self._enter()
        return self._lock if self._stored is None else self._stored_turn(self._stored)

    @contextmanager
    def _stored_turn(self, stored: StoredRun) -> Iterator[None]:
        with self._lock:
            before = self._state
            try:
                with stored.transaction() as kept:
                    self._state = kept or before  # of a file without releases: nothing
                    yield
            except BaseException:
                self._state = before  # what could not be written is not charged
                raise

    def _charge(self, release: Event | Composition) -> Charge:
        return self._charges.of(release)

    def _next(self, release: Event | Composition, charge: Charge, count: int) -> tuple[Released, float]:
        """The sums after a release, and by how much it may raise the log of the mixture's delta."""
        state, adjacency = self._state, release.adjacency
        if state.adjacency is not None and adjacency is not state.adjacency and adjacency is not None:
            raise AdjacencyMismatch(
                f"cannot compose {state.adjacency} with {adjacency}: their guarantees protect different things"
            )
        gaussian = charge.square < math.inf if state.gaussian is None else state.gaussian
        curve, rise = self._mixture.advance(state.spent.curve, charge.curve, count)
        return Released(state.spent.plus(charge, count, curve), adjacency or state.adjacency, gaussian), rise

    def _counts_after(self, release: Event | Composition, count: int) -> dict[Event, int]:
        """How often each event of a release will have happened.

        Raises
        ------
        ParameterError
            More often than a composition can say.
        """
        entries = [(release, 1)] if isinstance(release, Event) else list(release)
        find = self._counts.get if self._stored is None else self._stored.find_count
        counts = {}
        for event, number in entries:
            before = find(event) or 0
            counts[event] = before + number * count
            if counts[event] > MAX_COUNT:
                most = (MAX_COUNT - before) // number
                made = f"count = {count} of {shorten(release)}, after {before} of {shorten(event)}"
                raise ParameterError(f"{made}, is out of range; accepted: an integer in [0, {most}]")
        return counts

    def _record(self, after: Released, counts: dict[Event, int]) -> None:
        """Keep the sums after a release, and how often each of its events has happened."""
        if self._stored is not None:
            self._stored.write(after, counts)
        else:
            for event, number in counts.items():
                self._counts[event] = number
        self._state = after
