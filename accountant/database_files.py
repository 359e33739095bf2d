"""The files that an SQLite database may have beside it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["database_files", "generation_file", "remove_database"]


def generation_file(path: Path) -> Path:
    """The file whose number shows that a database was replaced by an older copy."""
    return path.with_name(f"{path.name}.generation")


def database_files(path: Path) -> tuple[Path, ...]:
    """A database, its generation file, and what SQLite may leave beside it; earlier versions kept a write-ahead log."""
    # the generation file is removed first: left alone, it would refuse the next file of this name
    sqlite = (path.with_name(f"{path.name}{ending}") for ending in ("-journal", "-wal", "-shm"))
    return (generation_file(path), path, *sqlite)


def remove_database(path: Path) -> None:
    """Remove a database and all files beside it."""
    for each in database_files(path):
        with suppress(FileNotFoundError):
            os.remove(each)
