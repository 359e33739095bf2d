"""What the commands read and write: records by source, results all at once."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac

if TYPE_CHECKING:
    from mechanisms.datasets import Dataset

__all__ = ["UsageError", "add_data", "check_output", "parts", "progress_bar", "seed", "write_results"]

SPLIT = (0.55, 0.28, 0.17)
"""Shares of private, public and test records where one data set is cut into three."""

OUTPUTS = (".npz", ".parquet")


class UsageError(ac.AccountantError, ValueError):
    """Options that do not go together, or an output that cannot be written."""


def add_data(parser: argparse.ArgumentParser) -> None:
    """Options that name private, public and test records."""
    add = parser.add_argument
    add("--data", metavar="SOURCE", help="labelled records to cut in three: digits, openml:NAME, file, directory")
    add("--split", metavar="A,B,C", help=f"shares or numbers of private, public, test records (default {_text(SPLIT)})")
    add("--private", metavar="SOURCE", help="labelled private records, instead of --data")
    add("--public", metavar="SOURCE", help="public points; labels, if any, are used for accuracies only")
    add("--test", metavar="SOURCE", help="labelled test records, for accuracies")
    add("--classes", type=ac.terminal.whole, help="number of classes (default: the largest label that occurs, plus 1)")


def seed(text: str) -> int:
    """A seed, for argparse."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= 0")
    return int(text)


def _text(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)


def parts(options: argparse.Namespace) -> tuple[Dataset, Dataset, Dataset | None]:
    """Private, public and test records."""
    from mechanisms.datasets import load, private_public_test_split

    if options.data is not None:
        if options.private or options.public or options.test:
            raise UsageError("--data was given with --private, --public or --test; accepted: one or the other")
        data = load(options.data)
        # the cut is public and has to be the same when an interrupted run goes on
        cut = private_public_test_split(data, _sizes(options.split, len(data)), options.seed or 0)
        return cut.private, cut.public, cut.test
    if not options.private or not options.public or options.split:
        raise UsageError("accepted: --data SOURCE [--split A,B,C], or --private SOURCE --public SOURCE [--test SOURCE]")
    return load(options.private), load(options.public, labelled=False), load(options.test) if options.test else None


def _sizes(split: str | None, n: int) -> tuple[int, int, int]:
    """Numbers of private, public and test records from shares or numbers."""
    accepted = f"accepted: three shares that sum to at most 1, or three whole numbers that sum to at most {n}"
    try:
        values = [float(part) for part in (split or _text(SPLIT)).split(",")]
    except ValueError:
        values = []
    shares = sum(values) <= 1 + 1e-12
    if len(values) != 3 or not all(value > 0 and (shares or value == int(value)) for value in values):
        raise UsageError(f"--split {split}: {accepted}")
    first, second, third = (int(value * n + 1e-9) if shares else int(value) for value in values)
    if first + second + third > n or min(first, second, third) < 1:
        raise UsageError(f"--split {split}: {accepted}")
    return first, second, third


def check_output(path: Path) -> None:
    """Refuse an output that could not be written, before anything is spent."""
    if path.suffix not in OUTPUTS:
        raise UsageError(f"--out {path}: accepted: a file ending in {' or '.join(OUTPUTS)}")
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"--out {path}: accepted: a file in an existing directory that can be written")
    if path.suffix == ".parquet":
        from mechanisms.validation import needed

        needed("pyarrow.parquet")


def write_results(path: Path, columns: dict[str, Any], summary: dict[str, Any]) -> None:
    """All of the results or nothing: written beside the file, then moved over it."""
    about = json.dumps(summary, allow_nan=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as stream:
            if path.suffix == ".npz":
                np.savez(stream, summary=np.array(about), **columns)
            else:
                import pyarrow
                import pyarrow.parquet

                table = pyarrow.table(columns).replace_schema_metadata({"summary": about})
                pyarrow.parquet.write_table(table, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}; accepted: a file that can be written") from None
    finally:
        with suppress(FileNotFoundError):
            os.remove(partial)


@contextmanager
def progress_bar(what: str, total: int, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A bar on the terminal's error stream, moved by the number of queries done."""
    console = ac.terminal.console(stderr=True)
    if quiet or not console.is_terminal or total == 0:
        yield None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
