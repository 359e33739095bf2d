"""SQLite files that remember what was spent: complete after every commit, by themselves.

Changes go through a rollback journal that exists while a transaction ends and at no other time, so that a copy of the
one file is all there is to copy. Beside it, `<file>.generation` holds a number that grows with every commit: a file
that was put back from an older copy is noticed by it.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

__all__ = ["Database", "remove_database"]

GENERATION = "CREATE TABLE IF NOT EXISTS generation (identity TEXT NOT NULL, number INTEGER NOT NULL)"

WIDTH = 64
"""Bytes of the file beside a database: it is written in place, and never changes its length."""


_OPEN: WeakSet[Database] = WeakSet()


def _abandon() -> None:
    """In a forked child: never close what the parent has open, which would undo its transaction, and end its locks."""
    for database in list(_OPEN):
        connection = database.__dict__.get("_connection")
        if connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


os.register_at_fork(after_in_child=_abandon)


class Database:
    """A file of one kind, opened by any number of processes, one writer at a time.

    Parameters
    ----------
    path : Path
    mark : int
        SQLite's application id of this kind of file: other databases are left alone.
    tables : sequence of str
        Statements that make the tables where they are not there yet.
    refuse : callable
        ``refuse(path, what)`` makes the exception to be raised, from one line that says what is wrong.
    what : str
        What such a file is called in messages, such as "a store".
    wait : float
        Seconds to wait for other processes.
    alone : bool
        Hold the file until it is closed, so that no other process can open it.
    """

    def __init__(
        self,
        path: Path,
        mark: int,
        tables: Sequence[str],
        refuse: Callable[[str], Exception],
        what: str,
        wait: float = 0.0,
        alone: bool = False,
    ) -> None:
        # the file itself, as SQLite does: under a second name of it nothing beside it would be found
        self.path, self.what, self.wait, self._refuse = path.resolve(), what, wait, refuse
        _OPEN.add(self)
        self._beside = _beside(self.path)
        _create_for_owner(self.path)
        self._refuse_second_names()
        with self._clear():
            # autocommit: transactions begin and end where they are written
            # absolute, since ":memory:" would not be a file; threads take turns (`mechanisms.exclusive`)
            self._connection = sqlite3.connect(self.path, timeout=wait, isolation_level=None, check_same_thread=False)
        try:
            with self._clear():
                if alone:
                    self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._connection.execute("BEGIN")  # of one moment, while others make the file
                self._refuse_others(mark)
                self._connection.execute("COMMIT")
                self._leave_write_ahead()
                self._connection.execute("PRAGMA synchronous = EXTRA")
            with self.transaction() as run:
                self._refuse_others(mark)
                for statement in (f"PRAGMA application_id = {mark}", *tables, GENERATION):
                    run(statement)
                self._check_generation(run)
                self._check_pages(run)
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """One transaction; what it yields runs a statement. On disk when it ends, or not there at all."""
        with self._clear():
            try:
                self._connection.execute("BEGIN IMMEDIATE")  # which may begin, and be interrupted then
                before = self._connection.total_changes
                yield self._connection.execute
                changed = self._connection.total_changes != before
                if changed:
                    self._connection.execute("UPDATE generation SET number = number + 1")
                    ((identity, number),) = self._connection.execute("SELECT identity, number FROM generation")
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        if changed:
            self._write_generation(identity, number)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _refuse_second_names(self) -> None:
        """SQLite's journal lies beside the name: after a kill, another name would find the file half-written."""
        with suppress(OSError):  # which SQLite meets again, and names
            found = os.stat(self.path)
            if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                raise self._refuse(f"a file of {found.st_nlink} names (hard links); accepted: one, or a copy")

    def _refuse_others(self, mark: int) -> None:
        ((found,),) = self._connection.execute("PRAGMA application_id")
        ((tables,),) = self._connection.execute("SELECT count(*) FROM sqlite_master")
        if tables and found != mark:
            raise self._refuse(f"a database of something else; accepted: {self.what}, or a new file")

    def _leave_write_ahead(self) -> None:
        """For good; where others are about to do the same, SQLite refuses at once and does not wait."""
        until = time.monotonic() + self.wait
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = DELETE")
                return
            except sqlite3.OperationalError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.01)

    def _check_pages(self, run: Callable[..., sqlite3.Cursor]) -> None:
        """Refuse a file that was copied while it was being written."""
        ((found,),) = run("PRAGMA quick_check(1)")
        if found != "ok":
            found = " ".join(found.split())
            raise self._refuse(f"damaged ({found}); accepted: {self.what}, copied while nobody writes to it")

    def _check_generation(self, run: Callable[..., sqlite3.Cursor]) -> None:
        """Refuse a file that is older than the number beside it says."""
        found = list(run("SELECT identity, number FROM generation"))
        if not found:
            run("INSERT INTO generation VALUES (:identity, 0)", {"identity": secrets.token_hex(8)})
            found = list(run("SELECT identity, number FROM generation"))
        ((identity, number),) = found
        try:
            seen = self._beside.read_text(encoding="ascii").split()
        except (FileNotFoundError, UnicodeDecodeError):
            return
        except OSError as error:
            raise self._refuse(f"{self._beside.name}: {error.strerror}; accepted: one that can be read") from None
        if len(seen) == 2 and seen[1].isdecimal() and (seen[0] != identity or int(seen[1]) > number):
            found_text = f"generation {number}, but generation {seen[1]} was here"
            found_text += "" if seen[0] == identity else " in another file of this name"
            raise self._refuse(
                f"{found_text}: it was put back from an older copy, and forgets what was spent since; accepted: the "
                f"latest one, or this one without {self._beside.name}, if nothing was released since"
            )

    def _write_generation(self, identity: str, number: int) -> None:
        """In place and without waiting for the disk: what a crash loses of it can only hide an older copy."""
        line = f"{identity} {number}".ljust(WIDTH - 1) + "\n"
        with suppress(OSError):
            file = os.open(self._beside, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(file, line.encode("ascii"), 0)
            finally:
                os.close(file)

    @contextmanager
    def _clear(self) -> Iterator[None]:
        """Errors of SQLite in the words of this kind of file."""
        try:
            yield
        except sqlite3.Error as error:
            text = " ".join(str(error).split())
            if "locked" in text:
                held = f"another process held it for {self.wait:g} seconds" if self.wait else "another process holds it"
                raise self._refuse(f"{held}; accepted: one process at a time, or try again") from None
            raise self._refuse(f"{text}; accepted: {self.what}, or a new file") from None


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.generation")


def _create_for_owner(path: Path) -> None:
    """A new file that nobody else can read: what it will hold is the operator's. One that is there is not touched.

    Opening one that is there, and closing it, would also let go of this process's locks on it.
    """
    with suppress(OSError):  # which SQLite meets again, and names
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def remove_database(path: Path) -> None:
    """The file and what lies beside it."""
    # the number first: by itself it would refuse the next file of this name
    for each in (_beside(path), path, path.with_name(f"{path.name}-journal")):
        with suppress(FileNotFoundError):
            os.remove(each)
