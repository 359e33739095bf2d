"""SQLite files for what must outlive a process; each file is complete by itself after every commit.

SQLite keeps a rollback journal beside the file only while a transaction is committed, so that a backup has to copy
the one file alone. Files that remember what was spent have a second file, `<file>.generation`. It holds a number that
grows with every commit, and shows when the database was replaced by an older copy.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

from accountant.database_files import database_files, generation_file, remove_database

try:
    import fcntl
except ImportError:  # not where it is no POSIX system; the number is then compared without a lock
    fcntl = None  # type: ignore[assignment]

__all__ = ["Database", "FileKind", "RunStatement", "database_files", "remove_database"]

RunStatement = Callable[..., sqlite3.Cursor]
"""``run(sql, values)`` runs a statement and returns its rows."""

GENERATION = "CREATE TABLE IF NOT EXISTS generation (identity TEXT NOT NULL, number INTEGER NOT NULL)"

GENERATION_BYTES = 64
"""Length of the file beside a database: it is overwritten in place and never changes its length."""

NO_PLACE = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)
"""Codes of errors that another directory or more room would cure."""

FORK_WAIT = 10.0
"""Seconds that a fork waits for transactions of other threads."""

_OPEN: WeakSet[Database] = WeakSet()
_HELD = threading.local()


def _find_open() -> list[Database]:
    while True:
        try:
            return list(_OPEN)
        except RuntimeError:  # another thread has opened one meanwhile
            continue


def _wait_for_turns() -> None:
    """Before a fork: wait until no other thread is within a transaction.

    SQLite keeps the locks of a process in its memory. A child made in the middle of a transaction would take the
    parent's lock for one of its own connections for ever, and could never write to that file.
    """
    until = time.monotonic() + FORK_WAIT
    turns = [database._turn for database in _find_open()]
    _HELD.turns = [turn for turn in turns if turn.acquire(timeout=max(until - time.monotonic(), 0.0))]


def _give_turns_back() -> None:
    for turn in getattr(_HELD, "turns", ()):  # none if another thread has imported this module meanwhile
        turn.release()


def _abandon() -> None:
    """In a forked child: never close the parent's connections, which would roll back its transactions and drop locks.

    The extra reference keeps Python from closing them when the child drops its copies.
    """
    for database in _find_open():
        database._turn = threading.RLock()  # the old one may be that of a thread which is not here
        connection = database.__dict__.get("_connection")
        if connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):  # where processes can fork
    os.register_at_fork(before=_wait_for_turns, after_in_parent=_give_turns_back, after_in_child=_abandon)


@dataclass(frozen=True)
class FileKind:
    """What the files of one kind have in common.

    Parameters
    ----------
    name : str
        What messages call such a file, such as "a store".
    mark : int
        SQLite's application_id of these files; a database with another one is never changed.
    tables : tuple of str
        Statements that create the tables where they do not exist.
    error : type
        The exception that is raised, made from one line of text.
    refuse_older : bool
        Keep a generation file, and refuse a file that was replaced by an older copy. Files that remember what was spent
        need it.
    version : int
        Of the tables, kept in the file as SQLite's user_version; a file of a later version is refused, and not changed.
    """

    name: str
    mark: int
    tables: tuple[str, ...]
    error: type[Exception]
    refuse_older: bool = True
    version: int = 1


class Database:
    """A file of one kind; any number of processes may open it, and one at a time writes.

    Parameters
    ----------
    path : Path
    kind : FileKind
    wait : float
        Seconds to wait for other processes.
    alone : bool
        Keep the file locked until it is closed, so that no other process can open it.

    Raises
    ------
    Exception
        `kind.error`: the file is of another kind, damaged, older than its generation file says, has several names
        (hard links), is held by another process or cannot be written. Transactions raise it, too, where the file was
        removed, or replaced by another or older one, since it was opened.
    """

    def __init__(self, path: Path, kind: FileKind, wait: float = 0.0, alone: bool = False) -> None:
        self._name, self._kind, self.wait = str(path), kind, wait
        self._turn = threading.RLock()
        # SQLite resolves symbolic links too: the generation file must lie beside the same file for every name of it
        self.path = path.resolve()
        _OPEN.add(self)
        with self._turn:
            self._open(alone)

    def _open(self, alone: bool) -> None:
        self._generation = generation_file(self.path)
        created = _create_for_owner(self.path)
        self._refuse_second_names()
        self._file = _identify(self.path)
        self._known: tuple[str, int] | None = None  # identity and generation, as this object has last seen them
        with self._translate_errors():
            # isolation_level=None: transactions begin and end only with the statements below
            # the path is absolute, as ":memory:" would not be a file; threads take turns
            options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
            self._connection = sqlite3.connect(self.path, timeout=self.wait, **options)
        try:
            with self._translate_errors():
                if alone:
                    self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._connection.execute("BEGIN")  # one snapshot, as another process may be creating the tables
                self._refuse_others()
                self._connection.execute("COMMIT")
                self._leave_write_ahead()
                self._connection.execute("PRAGMA synchronous = EXTRA")
            with self.transaction() as run:
                self._refuse_others()
                marks = f"PRAGMA application_id = {self._kind.mark}", f"PRAGMA user_version = {self._kind.version}"
                for statement in (*marks, *self._kind.tables):
                    run(statement)
                if self._kind.refuse_older:
                    run(GENERATION)
                    self._check_generation(run)
                self._check_pages(run)
            self._refuse_another()  # another process found no room for it, see below
        except BaseException:
            self._connection.close()
            if created:
                self._remove_empty()
            raise

    @contextmanager
    def transaction(self) -> Iterator[RunStatement]:
        """One transaction, on disk when the block ends or not there at all; yields a function that runs a statement."""
        with self._turn:
            with self._translate_errors():
                try:
                    # inside the try: an interrupt after SQLite has begun must roll back
                    self._connection.execute("BEGIN IMMEDIATE")
                    if self._known is not None:
                        self._refuse_another()
                        self._check_generation(self._connection.execute)
                    before = self._connection.total_changes
                    yield self._connection.execute
                    counted = self._kind.refuse_older and self._connection.total_changes != before
                    if counted:
                        self._connection.execute("UPDATE generation SET number = number + 1")
                        ((identity, number),) = self._connection.execute("SELECT identity, number FROM generation")
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            if counted:
                self._known = identity, number
                self._write_generation(identity, number)

    def reopen(self) -> Database:
        """Another connection to the same file, for a forked child: SQLite's connections must not be carried over.

        It refuses what this one would: another file of this name, or an older state of it.
        """
        self._refuse_another()
        found = Database(self.path, self._kind, self.wait)
        found._name = self._name
        try:
            found._file = self._file
            found._refuse_another()
            if self._known is not None and found._known is not None:
                found._refuse_older(self._known, *found._known, "")
        except BaseException:
            found.close()
            raise
        return found

    def close(self) -> None:
        """Close the file and release its locks."""
        self._connection.close()

    def refuse(self, what: str) -> Exception:
        """The error of this kind of file, with the path as it was given."""
        return self._kind.error(f"{self._name}: {what}")

    def _refuse_second_names(self) -> None:
        """Refuse hard links: SQLite names its rollback journal after the path, so a second name would not find it."""
        with suppress(OSError):  # SQLite meets the same error when it opens the file, and reports it
            found = os.stat(self.path)
            if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                raise self.refuse(f"a file of {found.st_nlink} names (hard links); accepted: one, or a copy")

    def _refuse_another(self) -> None:
        """Refuse to go on in a file that has lost its name: what is written there would be found by nobody."""
        if _identify(self.path) != self._file:
            raise self.refuse("removed or replaced while it was open; accepted: the file that was opened, in its place")

    def _remove_empty(self) -> None:
        """Remove the file that this object created if nothing could be written to it, as on a full disk.

        Another process that has opened it looks for its name after the first commit. The name is therefore taken away
        before the look into the file: who commits later finds it gone, who committed before gets it back.
        """
        aside = self.path.with_name(f"{self.path.name}.{os.getpid()}.empty")
        with suppress(OSError):
            os.rename(self.path, aside)
            if os.stat(aside).st_size > 0:
                os.link(aside, self.path)
            os.remove(aside)

    def _refuse_others(self) -> None:
        ((found,),) = self._connection.execute("PRAGMA application_id")
        ((tables,),) = self._connection.execute("SELECT count(*) FROM sqlite_master")
        if tables and found != self._kind.mark:
            raise self.refuse(f"a database of something else; accepted: {self._kind.name}, or a new file")
        ((version,),) = self._connection.execute("PRAGMA user_version")
        if tables and version > self._kind.version:
            found = f"{self._kind.name} of version {version}, of a later program"
            raise self.refuse(f"{found}; accepted: version {self._kind.version}, or this file by that program")

    def _leave_write_ahead(self) -> None:
        """Switch from a write-ahead log (files of earlier versions) to a rollback journal, for good.

        SQLite does not apply its timeout to this statement, so that it is repeated here until other processes let it.
        """
        until = time.monotonic() + self.wait
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = DELETE")
                return
            except sqlite3.OperationalError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.01)

    def _check_pages(self, run: RunStatement) -> None:
        """Refuse a file that was copied while it was being written."""
        ((found,),) = run("PRAGMA quick_check(1)")
        if found != "ok":
            found = " ".join(found.split())
            raise self.refuse(f"damaged ({found}); accepted: {self._kind.name}, copied while nobody writes to it")

    def _check_generation(self, run: RunStatement) -> None:
        """Refuse a file whose number of commits is below that in its generation file."""
        found = list(run("SELECT identity, number FROM generation"))
        if not found:
            run("INSERT INTO generation VALUES (:identity, 0)", {"identity": secrets.token_hex(8)})
            found = list(run("SELECT identity, number FROM generation"))
        ((identity, number),) = found
        if self._known is not None:
            self._refuse_older(self._known, identity, number, "")
        self._known = identity, number
        try:
            seen = _parse_generation(self._generation.read_bytes())
        except FileNotFoundError:
            return
        except OSError as error:
            raise self.refuse(f"{self._generation.name}: {error.strerror}; accepted: one that can be read") from None
        if seen is not None:
            other = f", or this one without {self._generation.name}, if nothing was released since"
            self._refuse_older(seen, identity, number, other)

    def _refuse_older(self, seen: tuple[str, int], identity: str, number: int, other: str) -> None:
        if seen[0] == identity and seen[1] <= number:
            return
        found = f"generation {number}, but generation {seen[1]} was here"
        found += "" if seen[0] == identity else " in another file of this name"
        raise self.refuse(
            f"{found}: it was replaced by an older copy, which lacks what was spent since; accepted: the "
            f"latest one{other}"
        )

    def _write_generation(self, identity: str, number: int) -> None:
        """Overwrite the generation file in place, without fsync, unless another process has written a later number.

        After a crash it may hold a smaller number: an older copy may then go unnoticed, but no file is refused wrongly.
        The lock between look and write is that of the open file, which ends with the process.
        """
        line = f"{identity} {number}".ljust(GENERATION_BYTES - 1) + "\n"
        with suppress(OSError):
            file = os.open(self._generation, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if fcntl is not None:
                    with suppress(OSError):  # a file system without locks
                        fcntl.flock(file, fcntl.LOCK_EX)
                seen = _parse_generation(os.read(file, GENERATION_BYTES))
                if seen is None or (seen[0] == identity and seen[1] < number):
                    os.lseek(file, 0, os.SEEK_SET)
                    os.write(file, line.encode("ascii"))
            finally:
                if fcntl is not None:
                    with suppress(OSError):  # a child that was forked meanwhile holds the file, and with it the lock
                        fcntl.flock(file, fcntl.LOCK_UN)
                os.close(file)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise errors of SQLite as errors of this kind of file."""
        try:
            yield
        except sqlite3.Error as error:
            text = " ".join(str(error).split())
            if "locked" in text:
                held = f"another process held it for {self.wait:g} seconds" if self.wait else "another process holds it"
                raise self.refuse(f"{held}; accepted: one process at a time, or try again") from None
            no_place = getattr(error, "sqlite_errorcode", 0) & 0xFF in NO_PLACE
            accepted = " in a directory that can be written, with room" if no_place else ", or a new file"
            raise self.refuse(f"{text}; accepted: {self._kind.name}{accepted}") from None


def _parse_generation(line: bytes) -> tuple[str, int] | None:
    """Identity and number of a generation file; None if it holds something else."""
    seen = line.decode("ascii", errors="replace").split()
    return (seen[0], int(seen[1])) if len(seen) == 2 and seen[1].isdecimal() else None


def _identify(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None if there is none."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def _create_for_owner(path: Path) -> bool:
    """Create the file with mode 0600, as only its owner may read it; leave an existing file alone, and return False.

    To open and close an existing file would also release this process's POSIX locks on it.
    """
    with suppress(OSError):  # SQLite meets the same error when it opens the file, and reports it
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return True
    return False
