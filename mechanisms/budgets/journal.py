"""Durable record of labelling runs: every charge is on disk before the noise that it pays for is drawn."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import accountant as ac
from mechanisms.exclusive import Exclusive, exclusive

__all__ = ["Journal", "JournalError", "JournalWarning", "Part"]


class JournalError(ac.AccountantError, ValueError):
    """A journal that cannot be used; the message names the file and what would be accepted."""


class JournalWarning(UserWarning):
    """A journal of an earlier version, which holds counts of a round but not what they were asked with."""


JOURNAL = ac.database.FileKind(
    "a journal",
    0x6B6E6E6A,
    (
        "CREATE TABLE IF NOT EXISTS head (last INTEGER NOT NULL, key BLOB NOT NULL)",
        "CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, part TEXT NOT NULL, kind TEXT NOT NULL, "
        "query INTEGER NOT NULL, text TEXT NOT NULL, state TEXT NOT NULL, digest BLOB NOT NULL)",
    ),
    JournalError,
)
"""Headers, setups, charges and answers are rows of one log, numbered from 1 without gaps: a lost row is noticed.

`head` holds the number of the last row; it changes in the same transaction as the row is added."""


class Journal(Exclusive):
    """A file that lets an interrupted run go on, and that never shows less than was spent.

    It is an SQLite database that one process holds at a time. Each charge is committed and forced to disk before its
    noise is drawn. A copy of the file, taken at any time, holds everything that was charged when the copying began, or
    is refused as damaged.

    Keep it secret: it holds digests of private records together with their key, and in seeded experiments the state of
    the random generator.

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
        self._database = ac.database.Database(self.path, JOURNAL, alone=True)
        try:
            with self._turn("opening"):
                self._key, self._identity = self._verify()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @exclusive
    def close(self) -> None:
        """Close the file, so that another process can open it."""
        self._database.close()

    @exclusive
    def recall(self, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """What the next run is asked with: public arrays that the file holds, or these, on disk before this returns.

        Another processor or library could make others. A run that an earlier version began is asked with these.

        Parameters
        ----------
        about : dict
            Public; what must be the same when a run goes on.
        arrays : dict of arrays

        Raises
        ------
        JournalError
            The journal holds arrays with another `about` at this place.
        """
        name = f"run {self._parts}"
        rows = {kind: (text, state) for _, kind, _, text, state in self._rows(name)}
        if "setup" not in rows:
            if "header" not in rows:
                self._append(name, "setup", 0, _pack(arrays), json.dumps(about, default=_plain))
            return arrays
        text, before = rows["setup"]
        self._refuse(_differ(json.loads(before), json.loads(json.dumps(about, default=_plain))))
        return _unpack(text)

    @exclusive
    def part(self, header: dict[str, Any], earlier: Callable[[], dict[str, Any]] | None = None) -> Part:
        """The next run of this process: the one that the journal holds at this place, or a new one.

        The n-th call returns the n-th run. `about`, which describes all runs together, is added to every header.

        Parameters
        ----------
        header : dict
        earlier : callable, optional
            Makes the header that an earlier version would have written for the same run; accepted, too.

        Raises
        ------
        JournalError
            The journal holds a run with another header at this place.
        UsageError
            The journal was opened by another process.
        """
        name, text = f"run {self._parts}", self._write_header(header)
        found = next((row[3] for row in self._rows(name) if row[1] == "header"), None)
        if found is None:
            self._append(name, "header", 0, text)
            found = text
        differ = _differ(json.loads(found), json.loads(text))
        if differ and (earlier is None or _differ(json.loads(found), json.loads(self._write_header(earlier())))):
            self._refuse(differ)
        self._parts += 1
        return Part(self, name)

    def _write_header(self, header: dict[str, Any]) -> str:
        return json.dumps({**self.about, **header}, sort_keys=True, default=_plain)

    def _refuse(self, differ: str) -> None:
        """Refuse a run that differs in something; nothing does if the text is empty."""
        if differ:
            raise self._database.refuse(f"holds a run with other {differ}; accepted: the same run, or another file")

    @exclusive
    def held(self) -> tuple[int, int]:
        """Number of charges and of answers in the file, over all runs."""
        with self._database.transaction() as run:
            ((charges, answers),) = run("SELECT total(kind = 'charge'), total(kind = 'answer') FROM log")
        return int(charges), int(answers)

    def keyed_digest(self, *arrays: ArrayLike) -> str:
        """A digest of arrays that reveals nothing without the journal's key.

        It is an HMAC-SHA256 over the type, shape and bytes of each array; the key is 32 random bytes that were made
        with the journal. In a run's header it shows whether the private records are still the same. A digest without a
        key would let anybody test guesses of them.

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
        """Add a row, on disk when this returns."""
        names = ("number", "part", "kind", "query", "text", "state")
        with self._database.transaction() as run:
            ((last,),) = run("SELECT last FROM head")
            row = (last + 1, part, kind, query, text, state)
            values = {**dict(zip(names, row, strict=True)), "digest": _digest(row)}
            run("INSERT INTO log VALUES (:number, :part, :kind, :query, :text, :state, :digest)", values)
            run("UPDATE head SET last = :number", {"number": row[0]})

    def _verify(self) -> tuple[bytes, str]:
        """The key and the file's identity, after a check that no row is missing or changed."""
        with self._database.transaction() as run:
            if list(run("SELECT 1 FROM sqlite_master WHERE name = 'parts'")):
                raise self._database.refuse("made by an earlier version; accepted: a new file")
            head = list(run("SELECT last, key FROM head"))
            rows = list(run("SELECT number, part, kind, query, text, state, digest FROM log ORDER BY number"))
            if not head and not rows:
                head = [(0, secrets.token_bytes(32))]
                run("INSERT INTO head VALUES (0, :key)", {"key": head[0][1]})
            whole = len(head) == 1 and all(
                row[0] == number and row[-1] == _digest(row[:-1]) for number, row in enumerate(rows, 1)
            )
            if not whole or len(rows) < head[0][0]:
                raise self._database.refuse(
                    "damaged (rows are missing); accepted: a journal, copied while nobody writes to it"
                )
            if len(rows) > head[0][0]:  # a copy that was taken during a commit
                run("UPDATE head SET last = :last", {"last": len(rows)})
            ((identity,),) = run("SELECT identity FROM generation")
        return head[0][1], f"{self._database.path} {identity}"


class Part:
    """Charges and answers of one labelling run; kept in memory only if there is no journal.

    Its methods raise `UsageError` in every process but the one that opened the journal.

    Attributes
    ----------
    charges : set of (int, str)
        Query and release of every charge so far.
    answers : dict
        From a query to (answer, state of the generator after it); the answer is None where screening refused it.
    identity : str or None
        Names this run of this file; the same whenever it is opened again. None without a journal.
    """

    def __init__(self, journal: Journal | None = None, name: str = "") -> None:
        self._journal, self._name = journal, name
        self.identity = None if journal is None else f"{journal._identity} {name}"
        self.charges: set[tuple[int, str]] = set()
        self.answers: dict[int, tuple[Any, Any]] = {}
        self._setups: dict[int, dict[str, NDArray[Any]]] = {}
        for _, kind, query, text, state in [] if journal is None else journal._rows(name):
            if kind == "charge":
                self.charges.add((query, text))
            elif kind == "answer":
                self.answers[query] = json.loads(text), json.loads(state)
            elif kind == "setup":
                self._setups[query] = _unpack(text)
        self.charged_queries = {query for query, _ in self.charges}

    def recall(self, number: int, make: Callable[[], dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        """What round `number` is asked with: as the journal holds it, or as `make` makes it, on disk before it is used.

        Another processor or library could make it otherwise. It must be public. `JournalWarning` tells of a round that
        an earlier version asked without keeping this.
        """
        if number in self._setups:
            return self._setups[number]
        made = make()
        with self._turn("recall"):
            if self._journal is not None and number in self.answers:
                held = f"{self._journal.path}: holds counts of round {number + 1}, but not its queries"
                same = "they are made again, and are the same only by the same student on the same kind of processor"
                warnings.warn(f"{held}, as written by an earlier version: {same}", JournalWarning, stacklevel=2)
            elif self._journal is not None:
                self._journal._append(self._name, "setup", number, _pack(made))
        return made

    def charge(self, query: int, release: str) -> bool:
        """Record a charge, on disk before this returns; False if the run has paid for it already."""
        with self._turn("charge"):
            if (query, release) in self.charges:
                return False
            if self._journal is not None:
                self._journal._append(self._name, "charge", query, release)
            self.charges.add((query, release))
            return True

    def answer(self, query: int, answer: Any, state: Any) -> None:
        """Record the answer of a query and the generator's state after it."""
        with self._turn("answer"):
            if self._journal is not None:
                texts = [json.dumps(each, default=_plain) for each in (answer, state)]
                self._journal._append(self._name, "answer", query, *texts)

    def _turn(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self._journal is None else self._journal._turn(name)


def _digest(row: tuple[Any, ...]) -> bytes:
    """Checksum of a row, by which a changed row is noticed."""
    return hashlib.blake2b(json.dumps(row).encode(), digest_size=16).digest()


def _differ(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Names of what is not as before."""
    return ", ".join(key for key in now if before.get(key) != now[key])


def _plain(value: Any) -> Any:
    """Arrays and numbers of numpy as JSON can hold them."""
    return value.tolist()


def _pack(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Arrays as text that keeps every bit."""
    return json.dumps(
        {name: [each.dtype.str, each.shape, b64encode(each.tobytes()).decode()] for name, each in arrays.items()}
    )


def _unpack(text: str) -> dict[str, NDArray[Any]]:
    return {
        name: np.frombuffer(b64decode(data), kind).reshape(shape).copy()
        for name, (kind, shape, data) in json.loads(text).items()
    }
