"""Answers of runs, kept in the store in the same transaction as the charges that they cost."""

from __future__ import annotations

import json
from typing import Any, Protocol

import numpy as np

from mechanisms.arrays import Floats, Integers
from mechanisms.budgets.backends import Execute, RunDiffers, StoreError
from mechanisms.budgets.store_format import ANSWERS_PER_ROW, digest, pack_answers, unpack_answers

__all__ = ["Mixed", "StoredRuns"]


class Mixed(Protocol):
    """What keeps the checksum of all rows of a store."""

    def mix(self, *digests: bytes) -> None:
        """Add digests of new rows to the checksum of all rows, or remove those of rows that go."""
        ...


class StoredRuns:
    """The runs of a store, read and changed within an open transaction.

    Parameters
    ----------
    name : str
        Of the store.
    snapshot : Mixed
    run : Execute
    """

    def __init__(self, name: str, snapshot: Mixed, run: Execute) -> None:
        self._name, self._snapshot, self._run = name, snapshot, run

    def begin(self, name: str, header: dict[str, Any], size: int) -> None:
        """Create the rows of a run, without answers; an existing run must have the same `header` and `size`.

        Raises
        ------
        RunDiffers
            The run was begun with another header or size.
        """
        now = json.loads(json.dumps({**header, "size": size}))
        found = self._header(name)
        if found is None:
            return self._create(name, now)
        before = found[1]
        differ = ", ".join(key for key in sorted({*before, *now}) if before.get(key, ...) != now.get(key, ...))
        if differ:
            raise RunDiffers(
                f"{self._name}: run {name!r} was begun with other {differ}; accepted: the same, or another name"
            )
        return None

    def _create(self, name: str, header: dict[str, Any]) -> None:
        ((number,),) = self._run("SELECT coalesce(max(number), 0) + 1 FROM knn_runs")
        texts = json.dumps(name), json.dumps(header)
        check = digest(number, *texts)
        self._snapshot.mix(check)
        insert = "INSERT INTO knn_runs VALUES (:number, :name, :header, :digest)"
        self._run(insert, number=number, name=texts[0], header=texts[1], digest=check)
        insert = "INSERT INTO knn_answers VALUES (:place, :answers, :digest)"
        for first in range(0, header["size"], ANSWERS_PER_ROW):
            place, count = (number << 32) + first // ANSWERS_PER_ROW, min(ANSWERS_PER_ROW, header["size"] - first)
            empty = pack_answers(np.full(count, -1), np.full(count, np.nan))
            check = digest(place, empty)
            self._snapshot.mix(check)
            self._run(insert, place=place, answers=empty, digest=check)

    def _header(self, name: str) -> tuple[int, dict[str, Any]] | None:
        rows = list(self._run("SELECT number, header FROM knn_runs WHERE name = :name", name=json.dumps(name)))
        return (rows[0][0], json.loads(rows[0][1])) if rows else None

    def names(self, ending: str) -> list[str]:
        """Names that end so, which is to be ASCII letters, digits and spaces."""
        rows = self._run("SELECT name FROM knn_runs WHERE name LIKE :pattern", pattern=f'%{ending}"')
        found = (json.loads(name) for (name,) in rows)
        return [name for name in found if name.endswith(ending)]  # SQLite takes a for A

    def answers(self, name: str, first: int, stop: int) -> tuple[Integers, Floats]:
        """Labels, -1 where there is none yet, and counts of the queries from `first` to before `stop`."""
        labels, counts = np.empty(0, np.int64), np.empty(0)
        for _, text, _ in self._rows(name, first, stop):
            row = unpack_answers(text)
            labels, counts = np.concatenate([labels, row[0]]), np.concatenate([counts, row[1]])
        some = slice(first % ANSWERS_PER_ROW, first % ANSWERS_PER_ROW + stop - first)
        return labels[some], counts[some]

    def put(self, name: str, first: int, labels: Integers, counts: Floats) -> None:
        """Replace the answers of the queries from `first` on."""
        stop = first + len(labels)
        for place, text, check in self._rows(name, first, stop):
            start = (place & 0xFFFFFFFF) * ANSWERS_PER_ROW
            row = unpack_answers(text)
            low, high = max(first, start), min(stop, start + ANSWERS_PER_ROW)
            for column, new in zip(row, (labels, counts), strict=True):
                column[low - start : high - start] = new[low - first : high - first]
            packed = pack_answers(*row)
            update = "UPDATE knn_answers SET answers = :answers, digest = :digest WHERE place = :place"
            self._run(update, answers=packed, digest=digest(place, packed), place=place)
            self._snapshot.mix(check, digest(place, packed))

    def _rows(self, name: str, first: int, stop: int) -> list[tuple[int, bytes, bytes]]:
        """(place, answers, digest) of the rows that hold these queries."""
        found = self._header(name)
        if found is None or not 0 <= first <= stop <= found[1]["size"]:
            raise StoreError(f"{self._name}: queries {first} to {stop} of run {name!r}; accepted: those of a run begun")
        low, high = ((found[0] << 32) + each // ANSWERS_PER_ROW for each in (first, stop - 1))
        between = "WHERE place >= :low AND place <= :high ORDER BY place"
        rows = self._run(f"SELECT place, answers, digest FROM knn_answers {between}", low=low, high=high)
        return [(place, bytes(text), bytes(check)) for place, text, check in rows]
