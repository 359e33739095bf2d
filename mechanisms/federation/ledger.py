"""What a client or a shuffler has answered and spent, on disk or in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import accountant as ac
from mechanisms.exclusive import Exclusive, exclusive
from mechanisms.federation.messages import DuplicateMessage, LateMessage
from mechanisms.federation.targets import Charge, Target, total_price

__all__ = ["AnyLedger", "Ledger", "LedgerError", "MemoryLedger", "as_ledger"]

LEDGER_WAIT = 60.0
"""Seconds that a process waits for others."""


class LedgerError(ac.AccountantError, ValueError):
    """A ledger that cannot be used; the message names the file."""


LEDGER = ac.database.FileKind(
    "a ledger",
    0x526B4E4C,
    (
        "CREATE TABLE IF NOT EXISTS answers (session BLOB, round INTEGER, epsilon REAL NOT NULL, "
        "PRIMARY KEY (session, round))",
        "CREATE TABLE IF NOT EXISTS charges (session BLOB, round INTEGER, charge TEXT NOT NULL, "
        "PRIMARY KEY (session, round))",
    ),
    LedgerError,
)


class AnyLedger(Protocol):
    """Remembers which rounds were answered, and what they cost a record."""

    def charge(self, session: bytes, round: int, charge: Charge | None, target: Target | None) -> None:
        """Record one answer before it is drawn.

        Parameters
        ----------
        session : bytes
        round : int
        charge : Charge or None
            What it costs a record; None for exact counts, for which the server pays.
        target : Target or None
            Upper bound for the cost of all answers together.

        Raises
        ------
        MessageError
            The round or a later one was answered before, or the target would be exceeded. Nothing has changed.
        """
        ...

    def spent(self) -> ac.Composition:
        """What all answers together cost a record."""
        ...


class Ledger:
    """An SQLite file with a row for every answer; rows are never changed or removed.

    It holds what servers asked, and nothing about the records. Any number of clients of the same records may use it, in
    any number of processes. A row is on disk before `charge` returns; an answer that is lost after that stays charged
    and is never given again. A file that was replaced by an older copy is refused by its generation file
    (`accountant.database`); while this object exists, it notices the same even without that file.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[str, int] | None = None

    def charge(self, session: bytes, round: int, charge: Charge | None, target: Target | None) -> None:
        """As for `AnyLedger`; on disk before this returns.

        Raises
        ------
        LedgerError
            The file is not a ledger, or cannot be written.
        """

        def add(run: ac.database.RunStatement) -> None:
            values = {"session": session, "round": round}
            ((last,),) = run("SELECT coalesce(max(round), 0) FROM answers WHERE session = :session", values)
            _refuse_again(round, last)
            alone = 0.0
            if charge is not None:
                if target is not None:
                    target.check(_composition(run) + charge.event)
                alone = _alone(charge)
                run("INSERT INTO charges VALUES (:session, :round, :charge)", {**values, "charge": charge.text()})
            run("INSERT INTO answers VALUES (:session, :round, :epsilon)", {**values, "epsilon": alone})

        self._run(add, changes=1)

    def spent(self) -> ac.Composition:
        """As for `AnyLedger`; an empty composition while there is no file yet."""
        if self._seen is None and not self.path.exists():
            return ac.Composition()
        found: list[ac.Composition] = []
        self._run(lambda run: found.append(_composition(run)))
        return found[0]

    def _run(self, work: Callable[[ac.database.RunStatement], None], changes: int = 0) -> None:
        """One transaction; the file is opened for it alone, so that no process holds it in between."""
        database = ac.database.Database(self.path, LEDGER, LEDGER_WAIT)
        try:
            with database.transaction() as run:
                seen = self._generation(database, run)
                work(run)
            self._seen = seen[0], seen[1] + changes
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise database.refuse(
                f"a charge that cannot be read ({error}); accepted: a ledger, or a new file"
            ) from None
        finally:
            database.close()

    def _generation(self, database: ac.database.Database, run: ac.database.RunStatement) -> tuple[str, int]:
        """Identity and generation of the file; refused if it is another file than before, or an older copy."""
        ((identity, number),) = run("SELECT identity, number FROM generation")
        found = identity, number
        if self._seen is not None and (found[0] != self._seen[0] or found[1] < self._seen[1]):
            raise database.refuse(
                "it was removed or replaced by an older copy while it was in use, and lacks what was spent since; "
                "accepted: the latest one"
            )
        return found


class MemoryLedger(Exclusive):
    """Remembers as long as the process lives; a restart forgets everything that was answered and spent.

    For simulations, and for parties that never come back after their process ends.
    """

    def __init__(self) -> None:
        self._claim()  # a forked child would have a second copy
        self._last: dict[bytes, int] = {}
        self._spent = ac.Composition()

    @exclusive
    def charge(self, session: bytes, round: int, charge: Charge | None, target: Target | None) -> None:
        """As for `AnyLedger`."""
        _refuse_again(round, self._last.get(session, 0))
        spent = self._spent if charge is None else self._spent + charge.event
        if target is not None and charge is not None:
            target.check(spent)
        self._last[session], self._spent = round, spent

    def spent(self) -> ac.Composition:
        """As for `AnyLedger`."""
        return self._spent


def as_ledger(ledger: object) -> AnyLedger:
    """A `Ledger` at a path; a ledger is returned as it is.

    Raises
    ------
    accountant.ParameterError
        It is something else.
    """
    if isinstance(ledger, Ledger | MemoryLedger):
        return ledger
    if isinstance(ledger, str | Path) and str(ledger):
        return Ledger(ledger)
    raise ac.ParameterError(f"ledger = {ledger!r}; accepted: a path, a Ledger, or a MemoryLedger")


def _refuse_again(round: int, last: int) -> None:
    if round <= last:
        error = DuplicateMessage if round == last else LateMessage
        raise error(f"a setup of round {round}; accepted: one after {last}, which was answered")


def _composition(run: ac.database.RunStatement) -> ac.Composition:
    """What all rows cost together; rows of earlier versions hold nothing but a pure-DP price."""
    spent = ac.Composition()
    for text, count in run("SELECT charge, count(*) FROM charges GROUP BY charge ORDER BY min(rowid)"):
        spent = spent + count * Charge.of_text(text).event
    older = "SELECT epsilon, count(*) FROM answers LEFT JOIN charges USING (session, round) WHERE charge IS NULL"
    for epsilon, count in run(f"{older} AND epsilon > 0 GROUP BY epsilon"):
        spent = spent + count * ac.PureDP(epsilon, ac.Adjacency.REPLACE)
    return spent


def _alone(charge: Charge) -> float:
    """The epsilon of a single report, for people who read the file; infinite where only shuffling protects it."""
    try:
        return float(total_price(1 * charge.event, 0.0))
    except ac.NoGuarantee:
        return float("inf")
