"""What a client has answered and spent, on disk: Flower starts a new process for every message."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import accountant as ac
from mechanisms.messages import DuplicateMessage, LateMessage, UnsuitableMessage

__all__ = ["Ledger", "LedgerError"]

_MARK = 0x526B4E4C
"""SQLite's application id of a ledger: other databases are left alone."""

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (session BLOB, round INTEGER, epsilon REAL NOT NULL, PRIMARY KEY (session, round))
"""


class LedgerError(ac.AccountantError, ValueError):
    """A ledger that cannot be used; the message names the file."""


class Ledger:
    """An SQLite database with a row for every answer. Rows are never changed, and none is ever removed.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def charge(self, session: bytes, round: int, epsilon: float, cap: float | None) -> None:
        """Record one answer, on disk before this returns; it may leave only then.

        Parameters
        ----------
        session : bytes
        round : int
        epsilon : float
            What the answer costs a record by itself (pure DP, which adds up).
        cap : float or None
            Most that all answers together may cost.

        Raises
        ------
        MessageError
            The round or a later one was answered before, or the cap would be passed. Nothing has changed.
        LedgerError
            The file is not a ledger, or cannot be written.
        """
        try:
            # autocommit: the transaction begins and ends where it is written
            with closing(sqlite3.connect(self.path.absolute(), timeout=60, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("BEGIN IMMEDIATE")
                self._mark(database)
                self._check(database, session, round, epsilon, cap)
                database.execute("INSERT INTO answers VALUES (?, ?, ?)", (session, round, epsilon))
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerError(f"{self.path}: {error}; accepted: a ledger, or a new file") from None

    def _mark(self, database: sqlite3.Connection) -> None:
        ((mark,),) = database.execute("PRAGMA application_id")
        ((tables,),) = database.execute("SELECT count(*) FROM sqlite_master")
        if tables and mark != _MARK:
            raise LedgerError(f"{self.path}: a database of something else; accepted: a ledger, or a new file")
        database.execute(f"PRAGMA application_id = {_MARK}")
        database.execute(_TABLE)

    @staticmethod
    def _check(database: sqlite3.Connection, session: bytes, round: int, epsilon: float, cap: float | None) -> None:
        ((last,),) = database.execute("SELECT coalesce(max(round), 0) FROM answers WHERE session = ?", (session,))
        if round <= last:
            error = DuplicateMessage if round == last else LateMessage
            raise error(f"a setup of round {round}; accepted: one after {last}, which was answered")
        if cap is None:
            return
        # exact: a sum of doubles would drift
        spent = sum((Fraction(cost) for (cost,) in database.execute("SELECT epsilon FROM answers")), Fraction(epsilon))
        if spent > Fraction(cap):
            found = f"a setup that brings a record's epsilon to {float(spent):g}"
            raise UnsuitableMessage(f"{found}; accepted: at most max-epsilon = {cap:g}")
