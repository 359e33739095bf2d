"""Output files: the path checked before the work begins, and written whole or not at all."""

from __future__ import annotations

import glob
import json
import os
import secrets
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from accountant.errors import ParameterError

try:
    import fcntl
except ImportError:  # not where it is no POSIX system; a file that is open cannot be removed there
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_output", "open_whole", "same_file", "write_json", "write_text"]

Refuse = Callable[[str], Exception]

MODE = ".partial-mode"
"""Ending of an empty file that shows which mode new files get."""

LOCKS = fcntl is not None
"""Whether files can be locked."""


def check_output(
    path: str | Path,
    endings: Collection[str] = (),
    *,
    keep: Collection[str] = (),
    name: str = "output",
    refuse: Refuse = ParameterError,
) -> Path:
    """The path as a `Path`, if a file can be written there; what killed processes have left of it is removed.

    Parameters
    ----------
    path : str or Path
    endings : collection of str
        Accepted suffixes, such as ".csv"; none: any.
    keep : collection of str
        What is read, and must not be replaced: paths, among which may be names of what is no file.
    name : str
        What the message calls the path, such as an option.
    refuse : callable
        From a message to the exception that is raised.

    Raises
    ------
    ParameterError
        Or what `refuse` makes: the ending is another, it is one of the files to keep, or no file can be made there,
        which is tried with the hidden file of `open_whole`.
    """
    target = Path(path)
    for each in keep:
        if os.path.exists(each) and same_file(each, target):
            raise refuse(f"{name} {str(path)!r}: would replace {str(each)!r}, which is read; accepted: another file")
    if endings and target.suffix not in endings:
        raise refuse(f"{name} {str(path)!r}; accepted: a file ending in {', '.join(endings)}")
    end = _follow_link(target)
    if os.path.isdir(target) or not os.path.isdir(end.parent):  # also of names that are too long
        raise refuse(f"{name} {str(path)!r}; accepted: a file in an existing directory that can be written")
    partial = _partial_path(end)
    with _name_failure(path, name, refuse):
        _remove_left(end)
        try:
            os.close(_create(partial))
        finally:
            with suppress(OSError):
                partial.unlink()
    return target


def same_file(first: str | Path, second: str | Path) -> bool:
    """Whether two paths name one file, there or not: links are followed, and names are told apart as they are there."""
    one, other = (Path(os.path.realpath(each)) for each in (first, second))
    with suppress(OSError):
        if os.path.samefile(one, other):
            return True
    with suppress(OSError):  # directories that are not there hold no file
        return os.path.samefile(one.parent, other.parent) and _same_name(one.parent, one.name, other.name)
    return False


def _same_name(directory: Path, first: str, second: str) -> bool:
    """Whether two names are one to a directory's file system, which may take "A" for "a", or accents for one another.

    A hidden file finds out, and is removed.
    """
    if first == second:
        return True
    if len({unicodedata.normalize("NFC", each).casefold() for each in (first, second)}) > 1:
        return False
    mark = secrets.token_hex(4)
    made, found = (directory / f".{each}.{mark}.partial" for each in (first, second))
    try:
        os.close(_create(made))
        return found.exists()
    finally:
        with suppress(OSError):
            made.unlink()


@contextmanager
def open_whole(
    path: str | Path,
    *,
    private: bool = False,
    replace: bool = True,
    name: str = "output",
    refuse: Refuse = ParameterError,
) -> Iterator[BinaryIO]:
    """A binary stream whose content becomes the file, durably, when the block ends; after an exception nothing changes.

    The content goes to a hidden file beside the target, which only its owner can read, is forced to the disk (fsync),
    and is then moved over the target. Of a symbolic link the file that it names is replaced. Readers see the old file
    or the new one. What a killed process left before that move is removed by the next one that writes the target.

    Parameters
    ----------
    path : str or Path
    private : bool
        Only the owner may read and write the file (mode 0600); otherwise the umask decides.
    replace : bool
        Whether a file that is there when the block ends is replaced.
    name, refuse
        As for `check_output`.

    Raises
    ------
    ParameterError
        Or what `refuse` makes: the file cannot be written, or is there and may not be replaced.
    """
    target = _follow_link(Path(path))
    partial = _partial_path(target)
    try:
        with _name_failure(path, name, refuse):
            _remove_left(target)
            mode = _usual_mode(partial)
            opened = _create(partial)
            with _keep_lock(opened):
                with os.fdopen(opened, "wb") as stream:
                    yield stream
                    stream.flush()
                    os.fsync(stream.fileno())
                if not _give_name(partial, target, replace):
                    raise refuse(f"{name} {str(path)!r}: was made meanwhile; accepted: a file that is not there")
                if not private:
                    with suppress(OSError):  # a file system without modes
                        os.chmod(target, mode)
            _sync_directory(target.parent)
    finally:
        with suppress(OSError):
            os.remove(partial)


def _give_name(partial: Path, target: Path, replace: bool) -> bool:
    """Give whole content its name; False if another file has it and may not be replaced."""
    if replace:
        os.replace(partial, target)
        return True
    try:
        os.link(partial, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            return False
        os.rename(partial, target)
    return True


def _follow_link(path: Path) -> Path:
    """The file that a symbolic link names."""
    return path.resolve() if os.path.islink(path) else path


def _partial_path(target: Path) -> Path:
    """Where content waits until it is whole."""
    # a name that nobody else makes, also of the threads of this process: who removes what was left removes that alone
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def _usual_mode(partial: Path) -> int:
    """That of a new file there, found out with an empty one: the umask can only be read by setting it."""
    empty = partial.with_suffix(MODE)
    opened = os.open(empty, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        return stat.S_IMODE(os.fstat(opened).st_mode)
    finally:
        os.close(opened)
        empty.unlink(missing_ok=True)


def _create(partial: Path) -> int:
    """A new file for its owner alone, open for writing, and locked: others see that its process lives."""
    while True:
        opened = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        if not LOCKS:
            return opened
        with suppress(OSError):  # a file system without locks
            fcntl.flock(opened, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(opened), os.stat(partial)):
                return opened
        os.close(opened)  # it was removed before it was locked


@contextmanager
def _keep_lock(opened: int) -> Iterator[None]:
    """A block to whose end an open file stays locked, though it is closed before."""
    if not LOCKS:
        yield
        return
    copy = os.dup(opened)
    try:
        yield
    finally:
        os.close(copy)


def _remove_left(target: Path) -> None:
    """Remove what killed processes left: it was never released under the target's name."""
    for each in target.parent.glob(f".{glob.escape(target.name)}.*{MODE}"):
        with suppress(OSError):
            os.remove(each)  # a living process needs it no longer, once it is open
    for each in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
        with suppress(OSError):  # its process lives, or it is gone
            if not LOCKS:
                os.remove(each)
                continue
            opened = os.open(each, os.O_RDWR)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(opened), os.stat(each)):
                    os.remove(each)
            finally:
                os.close(opened)


@contextmanager
def _name_failure(path: str | Path, name: str, refuse: Refuse) -> Iterator[None]:
    """A block whose failures of the disk are one line about the path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise refuse(f"{name} {str(path)!r}: {reason}; accepted: a file that can be written") from None


def write_text(
    path: str | Path,
    text: str,
    *,
    private: bool = False,
    replace: bool = True,
    name: str = "output",
    refuse: Refuse = ParameterError,
) -> None:
    """Write a text as UTF-8, as `open_whole` does."""
    with open_whole(path, private=private, replace=replace, name=name, refuse=refuse) as stream:
        stream.write(text.encode())


def write_json(
    path: str | Path, value: Any, *, private: bool = False, name: str = "output", refuse: Refuse = ParameterError
) -> None:
    """Write a value as JSON with an indent of two, as `open_whole` does; nan and infinities are a ValueError."""
    text = json.dumps(value, indent=2, allow_nan=False)
    write_text(path, text + "\n", private=private, name=name, refuse=refuse)


def _sync_directory(directory: Path) -> None:
    """Force the new name to the disk; systems without that are left as they are."""
    with suppress(OSError):
        opened = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
