"""Where compiled functions are kept on disk: in the user's cache directory, never beside the package.

What numba leaves in ``__pycache__`` survives an uninstallation, and then hides an editable installation.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from accountant.errors import ParameterError

__all__ = [
    "ENVIRONMENT",
    "cache_root",
    "clear_cache",
    "compile_function",
    "find_folder",
    "list_cache",
    "why_nothing_is_kept",
]

ENVIRONMENT = "ACCOUNTANT_CACHE_DIR"
"""Environment variable that names another directory."""

PACKAGE = Path(__file__).parent.parent

WITHOUT_KERNELS = ("cli", "report", "testing")
"""Folders in which nothing is compiled: what changes there leaves the cache as it is."""

OURS = re.compile(r"[^-]+-[0-9a-f]{12}-[0-9a-f]{12}")
"""Names of folders that any version of this package makes, as `find_folder` does; what has another is somebody's."""

_lock = threading.Lock()


def cache_root() -> Path:
    """The directory of all versions' compiled functions.

    ``ACCOUNTANT_CACHE_DIR``, else a folder in numba's own ``NUMBA_CACHE_DIR``, else one in the user's cache directory.

    Raises
    ------
    ParameterError
        It is to stand in the home directory of a user who has none.
    """
    own = os.environ.get(ENVIRONMENT, "")
    try:
        if own:
            return Path(own).expanduser() / "kernels"
        if numbas := os.environ.get("NUMBA_CACHE_DIR"):
            return Path(numbas) / "knn-accountant" / "kernels"
        from platformdirs import user_cache_path

        return user_cache_path("knn-accountant", appauthor=False).expanduser() / "kernels"
    except RuntimeError:
        raise ParameterError(
            f"{ENVIRONMENT} = {own!r}, and no home directory is known for it; accepted: the absolute path of a folder"
        ) from None


def compile_function(function: Callable[..., Any], **options: Any) -> Any:
    """A function compiled by ``numba.njit`` with these options, and kept in the user's cache directory.

    What was compiled for another state of the package's sources is never used. Where nothing can be written, it is
    compiled anew by every process.

    Parameters
    ----------
    function : callable
        Pure and scalar, or a loop over arrays.
    **options
        As for ``numba.njit``, but for ``cache``.

    Returns
    -------
    callable
    """
    import numba

    with _lock:  # numba reads the directory when a function is given to it
        folder = _find_place()
        if folder is None:
            return numba.njit(**options)(function)
        if options.get("no_cpython_wrapper"):  # numba's names of files do not tell it from one that has a wrapper
            folder /= "within"
        settings: Any = numba.config
        users, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)
        try:
            compiled = numba.njit(cache=True, **options)(function)
        finally:
            settings.CACHE_DIR = users
    _forgive(compiled)
    return compiled


def _forgive(compiled: Any) -> None:
    """Let a full disk cost the time of another compilation, not the price."""
    cache = getattr(compiled, "_cache", None)  # none where numba is told not to compile
    save = getattr(cache, "save_overload", None)
    if save is None:
        return

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    cache.save_overload = save_if_possible  # type: ignore[union-attr]


def find_folder(root: Path) -> Path:
    """The folder of this version, of this installation and in this state of its sources."""
    return root / "-".join(_names())


@lru_cache
def _names() -> tuple[str, str, str]:
    """Version, installation and state of the sources.

    numba looks only at the file in which a cached function stands, but a kernel inlines those that it calls.
    """
    import hashlib

    import numba

    from accountant import __version__

    place = f"{PACKAGE.resolve()}\n{numba.__version__}\n{sys.implementation.cache_tag}"
    state = hashlib.sha256()
    for source in sorted(PACKAGE.rglob("*.py")):
        if source.parent.name not in WITHOUT_KERNELS:
            state.update(source.read_bytes())
    return __version__, hashlib.sha256(place.encode()).hexdigest()[:12], state.hexdigest()[:12]


def _find_place() -> Path | None:
    """The folder, made if it is not there; None where there can be none, or it cannot be written."""
    try:
        return _make_folder(cache_root())
    except ParameterError:
        return None


@lru_cache
def _make_folder(root: Path) -> Path | None:
    folder = find_folder(root)
    try:
        new = not folder.is_dir()
        _try_folder(folder)
    except OSError:
        return None
    if new:
        _remove_stale(folder)
    return folder


def _try_folder(folder: Path) -> None:
    """Make the folder, if it is not there, and a file in it that does not stay."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tempfile.TemporaryFile(dir=folder).close()


def why_nothing_is_kept() -> str | None:
    """Why the folder cannot be written; None where it can. What is made to find that out is removed."""
    try:
        folder = find_folder(cache_root())
    except ParameterError as error:
        return str(error)
    made = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        _try_folder(folder)
    except FileExistsError as error:
        return f"no folder, and no link to one: {error.filename}"
    except OSError as error:
        return error.strerror or str(error)
    finally:
        for path in made:
            with suppress(OSError):  # not made, or used by another process meanwhile
                path.rmdir()
    return None


def _remove_stale(folder: Path) -> None:
    """Remove what earlier states of this installation left, also beside the package."""
    _, place, _ = _names()
    with suppress(OSError):  # what may be written may still be hidden
        for other in _folders(folder.parent):
            if other != folder and other.name.split("-")[1] == place:
                shutil.rmtree(other, ignore_errors=True)
    for left in PACKAGE.rglob("__pycache__/*.nb[ic]"):
        with suppress(OSError):
            left.unlink()


def _folders(root: Path) -> list[Path]:
    """Folders of all versions; an OSError where nobody may look."""
    try:
        found = sorted(path for path in root.iterdir() if OURS.fullmatch(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in found if path.is_dir() and not path.is_symlink()]


def list_cache() -> list[tuple[Path, int]]:
    """Files of all versions in the cache that can be seen, with their sizes in bytes."""
    found: list[tuple[Path, int]] = []
    with suppress(OSError, ParameterError):
        for path in (path for folder in _folders(cache_root()) for path in sorted(folder.rglob("*"))):
            with suppress(OSError):
                if path.is_file():
                    found.append((path, path.stat().st_size))
    return found


def clear_cache() -> None:
    """Remove all that any version keeps, and nothing else; the next price compiles again.

    Raises
    ------
    ParameterError
        There can be no cache.
    OSError
        A file cannot be removed.
    """
    root = cache_root()
    _make_folder.cache_clear()
    for folder in _folders(root):
        shutil.rmtree(folder)
    with suppress(OSError):  # it is a link, or holds what is somebody's
        root.rmdir()
        if not os.environ.get(ENVIRONMENT):
            root.parent.rmdir()
