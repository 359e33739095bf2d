"""Ind-KNN over records in partitions that charge budgets themselves: only counts and sums of votes come back.

Selection depends on what records have left, which depends on K of earlier queries, and K on counts of all partitions.
To ask for each query separately would take two rounds of tasks for each. Instead a partition counts for many queries at
once, from bounds on their K; see `mechanisms.individual_votes.count_between`. Counts that do not depend on where in its
bounds K lies are exact, and K follows from them; where they do, the bounds are made narrower and asked with again.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.budgets.backends import StoreError
from mechanisms.budgets.ledger import TAKEN, LedgerAddress, reach_ledger
from mechanisms.individual_votes import Prices, Selected, count_between, pay_for
from mechanisms.neighbours.kernels import Similarity
from mechanisms.neighbours.records import Answered, Records
from mechanisms.shards.records import UnreadShard
from mechanisms.shards.similar import ShardedSimilar

__all__ = ["Noise", "PayingPartitions"]

ROUNDS = 4
"""Most times that bounds are made narrower before the queries whose counts are known are paid for."""

ATTEMPTS = 20
"""How often counts are asked for again because other processes charged the same records meanwhile."""

KEPT_BYTES = 2.0**28
"""Bytes of selected records that a worker remembers, so that it searches a partition once for a pass."""


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise of one query, drawn in the order of the queries; it is added to nothing before the charges are made.

    Attributes
    ----------
    count : float
    votes : float array of shape (c,)
        For votes in units of their noise.
    """

    count: float
    votes: Floats


@dataclass(frozen=True, eq=False)
class _Pass:
    """Queries for which partitions are searched together, and what is needed to charge for them."""

    name: str
    kernel: Similarity
    queries: Singles
    prices: Prices
    gone: Integers
    ledger: LedgerAddress
    more: int
    """Answered queries that each of them counts beside its records."""


class PayingPartitions:
    """Partitions that answer queries and charge their own records in a store.

    Parameters
    ----------
    records : ShardedSimilar
    prices : Prices
    address : LedgerAddress
        Of the store.
    draw : callable
        Noise for the next query.
    answered : Answered
        Answered queries, which join the records.
    """

    def __init__(
        self,
        records: ShardedSimilar,
        prices: Prices,
        address: LedgerAddress,
        draw: Callable[[], Noise],
        answered: Answered,
    ) -> None:
        self._records, self._prices, self._address = records, prices, address
        self._draw, self._answered = draw, answered
        self.store: Any = reach_ledger(address)

    def answer_missing(
        self, points: Singles, labels: Integers, counts: Floats, entered: int, place: tuple[str, int]
    ) -> Iterator[int]:
        """Answer queries without a label; yields the position of every query once its answer is in the store.

        Parameters
        ----------
        points : array of shape (m, d)
            Prepared queries.
        labels, counts : array of shape (m,)
            Labels, -1 where there is none; they are filled in.
        entered : int
            Queries before it are among the answered ones that are remembered.
        place : (str, int)
            Name of the run, or "", and number of the first of the queries.
        """
        missing = np.flatnonzero(labels < 0)
        for i in np.flatnonzero(labels >= 0).tolist():
            if i >= entered:
                self._answered.remember(points[i], int(labels[i]))
            yield i
        groups = np.split(missing, np.arange(1, len(missing))) if self._answered.most else [missing]
        for group in groups:  # what is answered joins the records: then one query after another
            for some in self._answer(points, group, (labels, counts), place):
                for i in some.tolist():
                    self._answered.remember(points[i], int(labels[i]))
                    yield i

    def _answer(
        self, points: Singles, group: Integers, answers: tuple[Integers, Floats], place: tuple[str, int]
    ) -> Iterator[Integers]:
        """Answer queries, as many together as can be; yields those whose answers are in the store."""
        noise = [self._draw() for _ in group]
        drawn = np.array([each.count for each in noise])
        known, similar = np.empty(0, np.int64), np.empty(0)
        if len(group) == 1:
            known, similar = self._answered.find_similar(points[group[0]])
        held = self._records
        asked = _Pass(uuid.uuid4().hex, held.kernel, points[group], self._prices, held.gone, self._address, len(known))
        first = 0
        while first < len(group):
            batch, sizes, votes = self._pay(asked, first, drawn[first:], place[0])
            with self._give_back_after_errors(batch):
                some = group[first : first + len(sizes)]
                if len(known):
                    votes = votes + self._prices.sum_votes(known, similar / self._prices.scale(sizes[0]))
                noisy = votes + np.array([each.votes for each in noise[first : first + len(sizes)]])
                labels, counts = answers[0].copy(), answers[1].copy()
                labels[some], counts[some] = noisy.argmax(axis=1), sizes
                self.store.end_batch(batch, *place, labels, counts)
            answers[0][:], answers[1][:] = labels, counts
            yield some
            first += len(sizes)

    def _pay(self, asked: _Pass, first: int, drawn: Floats, run: str) -> tuple[str, Floats, Floats]:
        """Name of a batch that is paid for: the queries from `first` on, their K, and sums of votes without noise."""
        for _ in range(ATTEMPTS):
            counts, sizes = self._count(asked, first, drawn)
            batch = self.store.begin_batch(run)
            with self._give_back_after_errors(batch):
                paid = self._records.ask("pay", _Pay(), (asked, first, sizes, batch), _add_up)
            if paid is None:
                raise StoreError(TAKEN)
            if np.array_equal(paid[0], counts):
                return batch, sizes, paid[1]
            self.store.cancel_batch(batch)  # K was made of other counts than those that are paid for
        accepted = "one process at a time, or try again"
        raise StoreError(f"other processes charge the same records all the time; accepted: {accepted}")

    @contextmanager
    def _give_back_after_errors(self, batch: str) -> Iterator[None]:
        """Cancel a batch after an error; if its answers are in the store nevertheless, this changes nothing."""
        try:
            yield
        except BaseException:
            with suppress(StoreError):  # whoever begins the next batch gives it back
                self.store.cancel_batch(batch)
            raise

    def _count(self, asked: _Pass, first: int, drawn: Floats) -> tuple[Integers, Floats]:
        """Counts and K of the queries from `first` on, as far as they can be known before any of them is paid for."""
        low, high = np.full(len(drawn), self._prices.min_count), np.full(len(drawn), np.inf)
        done = 0
        for _ in range(ROUNDS):
            question = asked, first, low, high
            fewest, most = self._records.ask("count", _Count(), question, _add_up)
            sizes, largest = (np.maximum(each + asked.more + drawn, self._prices.min_count) for each in (fewest, most))
            # a count is exact if every K before it was within its bounds
            inside = np.append(True, ((low <= sizes) & (sizes <= high))[:-1])
            exact = int(np.logical_and.accumulate((fewest == most) & inside).sum())
            if exact == len(drawn) or exact <= done:
                break
            done, low, high = exact, sizes, largest
        return fewest[:exact], sizes[:exact]


def _add_up(parts: Sequence[tuple[Any, Any] | None]) -> tuple[Any, Any] | None:
    """Sums over partitions: of integers, or of multiples of the votes' grain, which are exact in any order."""
    there = [part for part in parts if part is not None]
    if len(there) < len(parts):
        return None
    return sum(part[0] for part in there), sum(part[1] for part in there)


# --- on the workers ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Found:
    """The records of a partition that are similar to the queries of a pass.

    Attributes
    ----------
    queries : sequence of Selected
        Rows count from 0 among `rows`.
    rows : int array
        Of all of these records, in order.
    """

    queries: Sequence[Selected]
    rows: Integers

    @property
    def size(self) -> int:
        return self.rows.nbytes + sum(24 * len(each.rows) for each in self.queries)


_kept: OrderedDict[tuple[str, int], _Found] = OrderedDict()
_lock = threading.Lock()


def _find(part: UnreadShard, asked: _Pass) -> _Found:
    place = asked.name, part.first
    with _lock:
        if place in _kept:
            _kept.move_to_end(place)
            return _kept[place]
    shard = part.read()
    records = Records(asked.kernel, asked.kernel.prepare(shard.features))
    there = np.ones(len(shard.features), bool)
    there[asked.gone[(asked.gone >= part.first) & (asked.gone < part.first + part.size)] - part.first] = False
    near = [records.select(query, slots[there[slots]]) for query, slots in records.near(asked.queries)]
    touched = np.zeros(len(there), bool)
    for slots, _ in near:
        touched[slots] = True
    number = np.cumsum(touched) - 1
    queries = [Selected(number[slots], kernels, shard.labels[slots]) for slots, kernels in near]
    found = _Found(queries, np.flatnonzero(touched))
    with _lock:
        _kept[place] = found
        while len(_kept) > 1 and sum(each.size for each in _kept.values()) > KEPT_BYTES:
            _kept.popitem(last=False)
    return found


def _positions(part: UnreadShard, rows: Integers) -> Integers:
    places: Integers = part.positions + rows if isinstance(part.positions, int) else part.positions[rows]
    return places


class _Count:
    """How many records of a partition can be counted for each query; charges nothing."""

    lazy = True

    def __call__(self, part: UnreadShard, question: tuple[_Pass, int, Floats, Floats]) -> tuple[Integers, Integers]:
        asked, first, low, high = question
        found, units = _find(part, asked), asked.prices.filter.UNITS
        spent = reach_ledger(asked.ledger).spent(_positions(part, found.rows))
        left = units - np.minimum(spent, units)
        return count_between(found.queries[first : first + len(low)], left, low, high, asked.prices)


class _Pay:
    """Charges the records of a partition for a batch of queries; gives how many each counted, and its votes.

    None if the batch was cancelled. It has a side effect, but one that happens once: see `Ledger.pay`.
    """

    lazy = True

    def __call__(self, part: UnreadShard, question: tuple[_Pass, int, Floats, str]) -> tuple[Integers, Floats] | None:
        asked, first, sizes, batch = question
        found, units = _find(part, asked), asked.prices.filter.UNITS
        queries = found.queries[first : first + len(sizes)]

        def charge(spent: Integers) -> tuple[Integers, bytes]:
            before = units - np.minimum(spent, units)
            left = before.copy()
            counts, votes = pay_for(queries, left, sizes, asked.prices)
            return before - left, counts.astype("<i8").tobytes() + votes.astype("<f8").tobytes()

        answer = reach_ledger(asked.ledger).pay(batch, part.first, _positions(part, found.rows), charge)
        if answer is None:
            return None
        end = 8 * len(sizes)
        votes = np.frombuffer(answer[end:], "<f8").reshape(len(sizes), asked.prices.n_classes)
        return np.frombuffer(answer[:end], "<i8").astype(np.int64), votes.astype(np.float64)
