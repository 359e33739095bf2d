"""Durable record of a labelling run: every charge is on disk before the draw that it pays for."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import accountant as ac
from mechanisms.budgets.sqlite import Database
from mechanisms.exclusive import Exclusive, exclusive

__all__ = ["Journal", "JournalError", "Part"]

_MARK = 0x6B6E6E6A
"""SQLite's application id of a journal: other databases are left alone."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS head (last INTEGER NOT NULL, key BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, part TEXT NOT NULL, kind TEXT NOT NULL, "
    "query INTEGER NOT NULL, text TEXT NOT NULL, state TEXT NOT NULL, digest BLOB NOT NULL)",
)
"""Headers, charges and answers in one log, numbered from 1 on without gaps: whatever is there, all that it follows
from is there as well. `head` says how many rows there are, in the same transaction as the row itself."""


class JournalError(ac.AccountantError, ValueError):
    """A journal that cannot be used; the message names the file and what would be accepted."""


class Journal(Exclusive):
    """A file that lets an interrupted run go on, and that never shows less than was spent.

    An SQLite database that one process holds at a time; each charge is committed and synchronised to disk before
    its draw. The one file is complete after every commit: a copy of it, taken at any time, holds whatever was charged
    when the copying began, or is refused as damaged.

    For the operator's eyes only: it holds digests of private records together with the key that they were made with,
    and in seeded experiments the generator's state.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    JournalError
        The file is not a journal, is damaged or older than one that was here, cannot be written, or another process
        holds it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._parts = 0
        self.about: dict[str, Any] = {}
        self._database = Database(self.path, _MARK, _TABLES, self._refused, "a journal", alone=True)
        try:
            with self._turn("opening"):
                self._key, self._identity = self._verified()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @exclusive
    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    @exclusive
    def part(self, header: dict[str, Any]) -> Part:
        """The next run of this process: a new one, or the one that the journal holds in its place.

        `about`, what a caller says of all runs together, is part of every header.

        Raises
        ------
        JournalError
            The journal holds a run with another header in its place.
        UsageError
            The journal was opened by another process.
        """
        name, text = f"run {self._parts}", json.dumps({**self.about, **header}, sort_keys=True, default=_plain)
        found = next((row[3] for row in self._rows(name) if row[1] == "header"), None)
        if found is None:
            self._append(name, "header", 0, text)
            found = text
        before, now = json.loads(found), json.loads(text)
        differ = ", ".join(key for key in now if before.get(key) != now[key])
        if differ:
            raise self._refused(f"holds a run with other {differ}; accepted: the same run, or another file")
        self._parts += 1
        return Part(self, name)

    @exclusive
    def held(self) -> tuple[int, int]:
        """Charges and answers that are in the file, of all runs together."""
        with self._database.transaction() as run:
            ((charges, answers),) = run("SELECT total(kind = 'charge'), total(kind = 'answer') FROM log")
        return int(charges), int(answers)

    def keyed_digest(self, *arrays: ArrayLike) -> str:
        """A digest of arrays that tells nothing to whoever lacks the journal's key.

        HMAC-SHA256, with 32 random bytes that were made with the journal, over the type, shape and bytes of each
        array: the same arrays have the same digest in the same journal, and in no other one. In a run's header it
        refuses other private records, of which a digest without a key would tell whether a guess at them is right.

        Raises
        ------
        accountant.ParameterError
            An array holds Python objects, which have no bytes of their own.
        """
        made = hmac.new(self._key, digestmod=hashlib.sha256)
        for each in arrays:
            values = np.ascontiguousarray(each)
            if values.dtype.hasobject:
                raise ac.ParameterError(f"an array of {values.dtype} to be digested; accepted: numbers, or fixed text")
            about = json.dumps([values.dtype.str, np.shape(each)]).encode()
            for part in (len(about).to_bytes(8, "big"), about, values.nbytes.to_bytes(8, "big"), values.tobytes()):
                made.update(part)
        return made.hexdigest()

    # --- the log ---------------------------------------------------------------------------------------

    def _rows(self, part: str) -> list[Any]:
        """(number, kind, query, text, state) of a part, in order."""
        with self._database.transaction() as run:
            columns = "number, kind, query, text, state"
            return list(run(f"SELECT {columns} FROM log WHERE part = :part ORDER BY number", {"part": part}))

    def _append(self, part: str, kind: str, query: int, text: str, state: str = "") -> None:
        """One row more, on disk when this returns."""
        names = ("number", "part", "kind", "query", "text", "state")
        with self._database.transaction() as run:
            ((last,),) = run("SELECT last FROM head")
            row = (last + 1, part, kind, query, text, state)
            values = {**dict(zip(names, row, strict=True)), "digest": _digest(row)}
            run("INSERT INTO log VALUES (:number, :part, :kind, :query, :text, :state, :digest)", values)
            run("UPDATE head SET last = :number", {"number": row[0]})

    def _verified(self) -> tuple[bytes, str]:
        """The key, and which file it is; all that was there when the head was written has to be there now."""
        with self._database.transaction() as run:
            if list(run("SELECT 1 FROM sqlite_master WHERE name = 'parts'")):
                raise self._refused("made by an earlier version; accepted: a new file")
            head = list(run("SELECT last, key FROM head"))
            rows = list(run("SELECT number, part, kind, query, text, state, digest FROM log ORDER BY number"))
            if not head and not rows:
                head = [(0, secrets.token_bytes(32))]
                run("INSERT INTO head VALUES (0, :key)", {"key": head[0][1]})
            whole = len(head) == 1 and all(
                row[0] == number and row[-1] == _digest(row[:-1]) for number, row in enumerate(rows, 1)
            )
            if not whole or len(rows) < head[0][0]:
                raise self._refused("damaged (rows are missing); accepted: a journal, copied while nobody writes to it")
            if len(rows) > head[0][0]:  # copied while this was being written
                run("UPDATE head SET last = :last", {"last": len(rows)})
            ((identity,),) = run("SELECT identity FROM generation")
        return head[0][1], f"{self._database.path} {identity}"

    def _refused(self, what: str) -> JournalError:
        return JournalError(f"{self.path}: {what}")


class Part:
    """What one labelling run was charged, and what it answered; in memory alone if there is no journal.

    Its methods refuse every process but the one that opened the journal (`UsageError`).

    Attributes
    ----------
    charges : set of (int, str)
        Query and release of every charge so far.
    answers : dict
        From a query to (answer, state of the generator after it); the answer is None where screening refused it.
    identity : str or None
        The same whenever the same part of the same file is opened, and of no other one; None without a journal.
    """

    def __init__(self, journal: Journal | None = None, name: str = "") -> None:
        self._journal, self._name = journal, name
        self.identity = None if journal is None else f"{journal._identity} {name}"
        self.charges: set[tuple[int, str]] = set()
        self.answers: dict[int, tuple[Any, Any]] = {}
        for _, kind, query, text, state in [] if journal is None else journal._rows(name):
            if kind == "charge":
                self.charges.add((query, text))
            elif kind == "answer":
                self.answers[query] = json.loads(text), json.loads(state)
        self.charged_queries = {query for query, _ in self.charges}

    def charge(self, query: int, release: str) -> bool:
        """Record a charge, on disk before this returns; False if it was there already."""
        with self._turn("charge"):
            if (query, release) in self.charges:
                return False
            if self._journal is not None:
                self._journal._append(self._name, "charge", query, release)
            self.charges.add((query, release))
            return True

    def answer(self, query: int, answer: Any, state: Any) -> None:
        """Record what came of a query."""
        with self._turn("answer"):
            if self._journal is not None:
                texts = [json.dumps(each, default=_plain) for each in (answer, state)]
                self._journal._append(self._name, "answer", query, *texts)

    def _turn(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self._journal is None else self._journal._turn(name)


def _digest(row: tuple[Any, ...]) -> bytes:
    """What tells that a row is as it was written."""
    return hashlib.blake2b(json.dumps(row).encode(), digest_size=16).digest()


def _plain(value: Any) -> Any:
    """numpy's arrays and numbers as JSON has them."""
    return value.tolist()
