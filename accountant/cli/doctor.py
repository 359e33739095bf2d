"""``accountant doctor``: what is installed, where compiled kernels are kept, and how long a first price takes."""

from __future__ import annotations

import argparse
import os
import platform
import re
import time
from typing import Any

from accountant.errors import ParameterError, PlanError
from accountant.events.gaussian import Gaussian
from accountant.events.subsampled import PoissonSubsampled
from accountant.numerics.cache import ENVIRONMENT, cache_root, clear_cache, list_cache, why_nothing_is_kept
from accountant.numerics.kernel import first_calls
from accountant.price import epsilon
from accountant.processes import count_processors
from accountant.tables import Column, Table, add_forms, write_table
from accountant.terminal import show_work

__all__ = ["add_doctor"]

DISTRIBUTION = "knn-accountant"

NEEDED = ("numpy", "scipy", "numba", "llvmlite", "rich", "platformdirs")


def add_doctor(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "What is installed: versions, extras, the cache of compiled kernels, the time of a first price, threads."
    parser = commands.add_parser("doctor", help=text, description=text)
    parser.set_defaults(run=_run)
    parser.add_argument(
        "--clear-cache", action="store_true", help="remove the compiled kernels of all versions, and do nothing else"
    )
    add_forms(parser)


def _run(options: argparse.Namespace) -> int:
    if options.clear_cache:
        return _clear(options.form)
    found = {
        "versions": _versions(),
        "extras": _extras(),
        "cache": _cache(),
        "compilation": _compilation(),
        "threads": _threads(),
    }
    rows = [(group, *line) for group, values in found.items() for line in _lines(values)]
    columns = [Column("", wrap=False), Column("what", wrap=False), Column("found")]
    write_table(Table("accountant doctor", columns, rows), options.form, found)
    return 0


def _clear(form: str) -> int:
    held = list_cache()
    try:
        clear_cache()
    except OSError as error:
        raise PlanError(
            f"{cache_root()}: {error.strerror or error}; accepted: a cache that can be read and written, or another "
            f"by {ENVIRONMENT}"
        ) from None
    values = {"removed files": len(held), "removed bytes": sum(size for _, size in held), "folder": str(cache_root())}
    columns = [Column("what"), Column("found")]
    write_table(Table("cache", columns, [(name, _word(value)) for name, value in values.items()]), form, values)
    return 0


def _versions() -> dict[str, str]:
    from accountant import __version__

    found = {DISTRIBUTION: __version__, "python": platform.python_version(), "system": platform.platform()}
    return found | {name: _version(name) or "not installed" for name in NEEDED}


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _extras() -> dict[str, str]:
    """For each extra of the distribution, what it lacks."""
    from importlib import metadata

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {"unknown": f"{DISTRIBUTION} is not installed; it runs from its sources"}
    needs: dict[str, list[str]] = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"""extra == ['"]([\w-]+)['"]""", marker)
        name = re.match(r"[\w.-]+", requirement.strip())
        if extra and name and name[0] != DISTRIBUTION:
            needs.setdefault(extra[1], []).append(name[0])
    found: dict[str, str] = {}
    for name_of_extra, names in needs.items():
        lacking = [each for each in names if _version(each) is None]
        way = f"lacks {', '.join(lacking)}: pip install '{DISTRIBUTION}[{name_of_extra}]'"
        found[name_of_extra] = way if lacking else "there"
    return found


def _cache() -> dict[str, Any]:
    held, reason = list_cache(), why_nothing_is_kept()
    try:
        folder = str(cache_root())
    except ParameterError:
        folder = "none"
    found = {"folder": folder, "files": len(held), "bytes": sum(size for _, size in held), "writable": reason is None}
    return found if reason is None else {**found, "reason": reason}


def _compilation() -> dict[str, Any]:
    """The time of the first price in this process, and whether it had to compile."""
    before, start = set(list_cache()), time.perf_counter()
    with show_work("a first price"):
        epsilon(1000 * PoissonSubsampled(Gaussian(1.0), 0.01), 1e-5, method="renyi")
    seconds, compiled = time.perf_counter() - start, bool(set(list_cache()) - before)
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        how = "not at all: NUMBA_DISABLE_JIT is set, prices are slow"
    else:
        how = "compiled now" if compiled else "from the cache" if before else "compiled in every process"
    return {"first price in seconds": round(seconds, 3), "kernels called": first_calls.count, "kernels": how}


def _threads() -> dict[str, Any]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    stated = {name: os.environ[name] for name in names if name in os.environ}
    return {"processors": count_processors(), **stated}


def _lines(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values in words; the reason why a cache is not writable stands behind the no."""
    words = {name: _word(value) for name, value in values.items()}
    if reason := words.pop("reason", None):
        words["writable"] += f": {reason}"
    return list(words.items())


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
