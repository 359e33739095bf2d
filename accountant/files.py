"""Output files: the path checked before the work begins, and written whole or not at all."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from accountant.errors import ParameterError

__all__ = ["check_output", "open_whole", "write_json", "write_text"]

Refuse = Callable[[str], Exception]


def check_output(
    path: str | Path, endings: Collection[str] = (), *, name: str = "output", refuse: Refuse = ParameterError
) -> Path:
    """The path as a `Path`, if a file can be written there.

    Parameters
    ----------
    path : str or Path
    endings : collection of str
        Accepted suffixes, such as ".csv"; none: any.
    name : str
        What the message calls the path, such as an option.
    refuse : callable
        From a message to the exception that is raised.

    Raises
    ------
    ParameterError
        Or what `refuse` makes: the ending is another, or no file can be made there, which is tried with the hidden
        file of `open_whole`.
    """
    target = Path(path)
    if endings and target.suffix not in endings:
        raise refuse(f"{name} {str(path)!r}; accepted: a file ending in {', '.join(endings)}")
    end = _follow_link(target)
    if os.path.isdir(target) or not os.path.isdir(end.parent):  # also of names that are too long
        raise refuse(f"{name} {str(path)!r}; accepted: a file in an existing directory that can be written")
    partial = _partial_path(end)
    with _name_failure(path, name, refuse):
        try:
            os.close(_create(partial, private=True))
        finally:
            with suppress(OSError):
                partial.unlink()
    return target


@contextmanager
def open_whole(
    path: str | Path, *, private: bool = False, name: str = "output", refuse: Refuse = ParameterError
) -> Iterator[BinaryIO]:
    """A binary stream whose content becomes the file, durably, when the block ends; after an exception nothing changes.

    The content goes to a hidden file beside the target, is forced to the disk (fsync), and is then moved over the
    target. Of a symbolic link the file that it names is replaced. Readers see the old file or the new one.

    Parameters
    ----------
    path : str or Path
    private : bool
        Only the owner may read and write the file (mode 0600); otherwise the umask decides.
    name, refuse
        As for `check_output`.

    Raises
    ------
    ParameterError
        Or what `refuse` makes: the file cannot be written.
    """
    target = _follow_link(Path(path))
    partial = _partial_path(target)
    try:
        with _name_failure(path, name, refuse):
            with os.fdopen(_create(partial, private), "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, target)
            _sync_directory(target.parent)
    finally:
        with suppress(OSError):
            os.remove(partial)


def _follow_link(path: Path) -> Path:
    """The file that a symbolic link names."""
    return path.resolve() if os.path.islink(path) else path


def _partial_path(target: Path) -> Path:
    """Where content waits until it is whole."""
    # threads that write the same target must not replace it by each other's unfinished content
    thread = "" if threading.current_thread() is threading.main_thread() else f".{threading.get_ident()}"
    return target.with_name(f".{target.name}.{os.getpid()}{thread}.partial")


def _create(partial: Path, private: bool) -> int:
    """A new file, open for writing."""
    with suppress(FileNotFoundError):
        os.remove(partial)  # of a killed process that had this number
    return os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)


@contextmanager
def _name_failure(path: str | Path, name: str, refuse: Refuse) -> Iterator[None]:
    """A block whose failures of the disk are one line about the path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise refuse(f"{name} {str(path)!r}: {reason}; accepted: a file that can be written") from None


def write_text(
    path: str | Path, text: str, *, private: bool = False, name: str = "output", refuse: Refuse = ParameterError
) -> None:
    """Write a text as UTF-8, as `open_whole` does."""
    with open_whole(path, private=private, name=name, refuse=refuse) as stream:
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
