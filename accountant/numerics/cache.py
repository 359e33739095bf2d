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

from accountant.errors import ParameterError, shorten

__all__ = [
    "ENVIRONMENT",
    "cache_root",
    "can_write_cache",
    "clear_cache",
    "compile_function",
    "find_folder",
    "list_cache",
]

ENVIRONMENT = "ACCOUNTANT_CACHE_DIR"
"""Environment variable that names another directory."""

PACKAGE = Path(__file__).parent.parent

WITHOUT_KERNELS = ("cli", "report", "testing")
"""Folders in which nothing is compiled: what changes there leaves the cache as it is."""

MADE = re.compile(r".+-[0-9a-f]{12}-[0-9a-f]{12}")
"""Names of folders that some version made, see `find_folder`: whatever else stands beside them is somebody's."""

OURS = "knn-accountant"

_lock = threading.Lock()


def cache_root() -> Path:
    """The directory of all versions' compiled functions.

    ``ACCOUNTANT_CACHE_DIR``, else a folder in numba's own ``NUMBA_CACHE_DIR``, else one in the user's cache directory.

    Raises
    ------
    ParameterError
        It stands in the home of a user whom nobody knows.
    """
    if own := os.environ.get(ENVIRONMENT):
        try:
            return Path(own).expanduser() / "kernels"
        except RuntimeError:
            accepted = "a directory, or one in the home of a user who is known"
            raise ParameterError(f"{ENVIRONMENT} = {shorten(own)}; accepted: {accepted}") from None
    if numbas := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(numbas) / OURS / "kernels"
    from platformdirs import user_cache_path

    return user_cache_path(OURS, appauthor=False) / "kernels"


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
        folder = _find_writable()
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


def can_write_cache() -> bool:
    """Whether what is compiled is kept, in a folder that is made if it is not there."""
    return _find_writable() is not None


def _find_writable() -> Path | None:
    """The folder of this version; None where there is none that can be written."""
    try:
        return _make_folder(cache_root())
    except ParameterError:
        return None


@lru_cache
def _make_folder(root: Path) -> Path | None:
    """The folder, made if it is not there; None where it cannot be written."""
    folder = find_folder(root)
    try:
        new = not folder.is_dir()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    if new:
        _remove_stale(folder)
    return folder


def _remove_stale(folder: Path) -> None:
    """Remove what earlier states of this installation left, also beside the package."""
    _, place, _ = _names()
    for other in folder.parent.glob(f"*-{place}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    for left in PACKAGE.rglob("__pycache__/*.nb[ic]"):
        with suppress(OSError):
            left.unlink()


def list_cache() -> list[tuple[Path, int]]:
    """Files of all versions in the cache, with their sizes in bytes; those that can be seen."""
    found, folders = [], list[Path]()
    with suppress(OSError):
        folders = _list_folders(cache_root())
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        with suppress(OSError):
            if path.is_file():
                found.append((path, path.stat().st_size))
    return found


def _list_folders(root: Path) -> list[Path]:
    """Folders that some version made; what else is there is left alone, also a link."""
    try:
        return [
            path for path in root.iterdir() if MADE.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        ]
    except FileNotFoundError:
        return []


def clear_cache() -> None:
    """Remove all that any version keeps; the next price compiles again.

    Raises
    ------
    OSError
        A file cannot be removed.
    """
    root = cache_root()
    _make_folder.cache_clear()
    for folder in _list_folders(root):
        shutil.rmtree(folder)
    with suppress(OSError):  # it may hold something else, or be a link
        root.rmdir()
        if root.parent.name == OURS:  # another was chosen by the user
            root.parent.rmdir()
