"""What a client or a shuffler has answered and spent: on disk, or in memory where a restart may forget it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import accountant as ac
from mechanisms.budgets.sqlite import Database
from mechanisms.exclusive import Exclusive, exclusive
from mechanisms.federation.messages import DuplicateMessage, LateMessage
from mechanisms.federation.targets import Charge, Target, total_price

__all__ = ["AnyLedger", "Ledger", "LedgerError", "MemoryLedger", "as_ledger"]

_MARK = 0x526B4E4C
"""SQLite's application id of a ledger: other databases are left alone."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS answers (session BLOB, round INTEGER, epsilon REAL NOT NULL, "
    "PRIMARY KEY (session, round))",
    "CREATE TABLE IF NOT EXISTS charges (session BLOB, round INTEGER, charge TEXT NOT NULL, "
    "PRIMARY KEY (session, round))",
)

WAIT = 60.0
"""Seconds for which another process may hold the file."""


class LedgerError(ac.AccountantError, ValueError):
    """A ledger that cannot be used; the message names the file."""


class AnyLedger(Protocol):
    """Remembers which rounds were answered and what they cost a record."""

    def charge(self, session: bytes, round: int, charge: Charge | None, target: Target | None) -> None:
        """Record one answer before it is drawn.

        Parameters
        ----------
        session : bytes
        round : int
        charge : Charge or None
            What it costs a record; None for bare counts, which cost nothing here.
        target : Target or None
            Most that all answers together may cost.

        Raises
        ------
        MessageError
            The round or a later one was answered before, or the target would be passed. Nothing has changed.
        """
        ...

    def spent(self) -> ac.Composition:
        """What all answers together cost a record."""
        ...


class Ledger:
    """An SQLite file with a row for every answer. Rows are never changed, and none is ever removed.

    It holds what servers asked and nothing of the records. Any number of clients of the same records may use it, in
    any number of processes. A row is on disk before `charge` returns; an answer that is lost after that stays charged,
    and is never given again. A file that was put back from an older copy forgets; `mechanisms.budgets.sqlite` says when
    that is noticed. This object notices it also where all that lies beside the file is gone, too.

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

        def add(run: Callable[..., Iterable[tuple[object, ...]]]) -> None:
            values = {"session": session, "round": round}
            ((last,),) = run("SELECT coalesce(max(round), 0) FROM answers WHERE session = :session", values)
            _refuse_again(round, int(str(last)))
            alone = 0.0
            if charge is not None:
                if target is not None:
                    target.check(_composition(run) + charge.event)
                alone = _alone(charge)
                run("INSERT INTO charges VALUES (:session, :round, :charge)", {**values, "charge": charge.text()})
            run("INSERT INTO answers VALUES (:session, :round, :epsilon)", {**values, "epsilon": alone})

        self._run(add, changes=1)

    def spent(self) -> ac.Composition:
        """As for `AnyLedger`; nothing where there is no file yet."""
        if self._seen is None and not self.path.exists():
            return ac.Composition()
        found: list[ac.Composition] = []
        self._run(lambda run: found.append(_composition(run)))
        return found[0]

    def _run(self, work: Callable[[Callable[..., Iterable[tuple[object, ...]]]], None], changes: int = 0) -> None:
        """One transaction. The file is opened for it alone: no process keeps what another one changes."""
        database = Database(self.path, _MARK, _TABLES, self._refused, "a ledger", WAIT)
        try:
            with database.transaction() as run:
                seen = self._looked(run)
                work(run)
            self._seen = seen[0], seen[1] + changes
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise self._refused(f"a charge that cannot be read ({error}); accepted: a ledger, or a new file") from None
        finally:
            database.close()

    def _looked(self, run: Callable[..., Iterable[tuple[object, ...]]]) -> tuple[str, int]:
        """Identity and generation of the file, if it is the one that was here before and no older."""
        ((identity, number),) = run("SELECT identity, number FROM generation")
        found = str(identity), int(str(number))
        if self._seen is not None and (found[0] != self._seen[0] or found[1] < self._seen[1]):
            raise self._refused(
                "it was taken away or put back from an older copy while it was in use, and forgets what was spent; "
                "accepted: the latest one"
            )
        return found

    def _refused(self, what: str) -> LedgerError:
        return LedgerError(f"{self.path}: {what}")


class MemoryLedger(Exclusive):
    """Remembers as long as the process lives. A restart forgets all that was answered and spent.

    For simulations, and for parties that are told to be gone when their process is.
    """

    def __init__(self) -> None:
        self._claim()  # a fork would have it twice
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
    """A ledger from a path, or one as it is.

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


def _composition(run: Callable[..., Iterable[tuple[object, ...]]]) -> ac.Composition:
    """What the rows cost together; rows of earlier versions hold the pure-DP price alone."""
    spent = ac.Composition()
    for text, count in run("SELECT charge, count(*) FROM charges GROUP BY charge ORDER BY min(rowid)"):
        spent = spent + int(str(count)) * Charge.of_text(str(text)).event
    older = "SELECT epsilon, count(*) FROM answers LEFT JOIN charges USING (session, round) WHERE charge IS NULL"
    for epsilon, count in run(f"{older} AND epsilon > 0 GROUP BY epsilon"):
        spent = spent + int(str(count)) * ac.PureDP(float(str(epsilon)), ac.Adjacency.REPLACE)
    return spent


def _alone(charge: Charge) -> float:
    """The epsilon of a report by itself, for whoever reads the file; infinite where only a crowd protects it."""
    try:
        return float(total_price(1 * charge.event, 0.0))
    except ac.NoGuarantee:
        return float("inf")
