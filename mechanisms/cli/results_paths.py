"""Names of the files that results are made of, and what none of them may be: a store, or what is read."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import accountant as ac
from mechanisms.cli.cluster_option import on_cluster
from mechanisms.cli.output_option import OptionError
from mechanisms.validation import require

__all__ = [
    "ENDINGS",
    "check_results_path",
    "follow_link",
    "journal_path",
    "refuse_shared_files",
    "summary_path",
    "waiting_path",
]

ENDINGS = (".npz", ".parquet", ".csv")


def follow_link(path: Path) -> Path:
    """The file that a symbolic link names, so that both names have the same earlier releases."""
    return path.resolve() if path.is_symlink() else path


def check_results_path(path: Path, endings: tuple[str, ...] = ENDINGS) -> None:
    """Refuse an output that could not be written, before anything is spent."""
    ac.files.check_output(path, endings, name="--out", refuse=OptionError)
    if path.suffix == ".parquet":
        require("pyarrow.parquet")
    about = summary_path(path)
    if path.suffix == ".csv" and about.exists() and not path.exists():
        raise OptionError(f"--out {path}: is not there, but its summary {about.name} is; accepted: another name")


def summary_path(path: Path) -> Path:
    """Where the summary of a results file stands that is a plain table; a JSON file is its own."""
    return path if path.suffix == ".json" else path.with_name(f"{path.name}.json")


def waiting_path(path: Path) -> Path:
    """Where a summary waits until its table is written."""
    return path.with_name(f"{path.name}.json.waiting")


def journal_path(path: Path, number: int) -> Path:
    """The journal of a release into a results file, beside it; `number` counts the releases before."""
    return path.with_name(f"{path.name}{f'.again-{number}' if number else ''}.journal")


# --- files that must not be one --------------------------------------------------------------------------


def refuse_shared_files(options: argparse.Namespace) -> None:
    """Refuse a store, results and sources of which one would overwrite another, before anything is read.

    Raises
    ------
    OptionError
        The store is a file of the results or the other way round, a source is one of either, or either would be among
        the files of a directory or a pattern from which private records are read.
    """
    read, store, out = _list_sources(options), getattr(options, "store", None), options.out
    kept = [] if store is None else _list_store(store)
    made = [] if out is None else [Path(out), *_list_results(Path(os.path.realpath(out)), kept)]
    if on_cluster(options) and options.private is not None:
        _refuse_partitions(options.private, {f"--store {store}": kept, f"--out {out}": made})
    for option, source in read.items():
        if _share([Path(source)], kept):
            _refuse(f"--store {store}", f"{option} {source}")
        if _share([Path(source)], made):
            _refuse(f"--out {out}", f"{option} {source}")
    if _share(kept, made):
        _refuse(f"--store {store}", f"--out {out}")


def _refuse_partitions(private: str, written: Mapping[str, Sequence[Path]]) -> None:
    """Refuse files, by option, that would be read as private records from then on."""
    from mechanisms.shards.pieces import would_list

    for given, files in written.items():
        for file in files:
            if would_list(private, file):
                accepted = "a file in another directory, or of another name"
                raise OptionError(f"{given}: {file.name} would be read with --private {private}; accepted: {accepted}")


def _share(some: Sequence[Path], others: Sequence[Path]) -> bool:
    return any(ac.files.same_file(one, other) for one in some for other in others)


def _refuse(given: str, other: str) -> None:
    raise OptionError(f"{given}: shares a file with {other}; accepted: names of different files")


def _list_sources(options: argparse.Namespace) -> dict[str, str]:
    """Files and directories that are read, by option; patterns, which are no names of files, are left out."""
    from mechanisms.datasets import parse_source

    third = "validation" if options.command == "tune" else "test"
    given = {"data": options.data, "private": options.private, "public": options.public, third: options.test}
    bases = {f"--{name}": parse_source(source).base for name, source in given.items() if source is not None}
    return {option: base for option, base in bases.items() if os.path.exists(base)}


def _list_store(where: str) -> Sequence[Path]:
    """The files of a store; none of one on a server."""
    from mechanisms.budgets.backends import locate_store

    place = locate_store(where)
    return [place, *ac.database.database_files(Path(os.path.realpath(place)))] if isinstance(place, Path) else ()


def _list_results(path: Path, kept: Sequence[Path]) -> Iterator[Path]:
    """The files that results are made of, with journals of those later releases that names of files to keep tell of."""
    yield path
    if path.suffix == ".csv":
        yield from (summary_path(path), waiting_path(path))
    later = {int(each) for name in kept for each in re.findall(r"(?i)\.again-([0-9]{1,9})\.", name.name)}
    for number in sorted({0, *later}):
        yield from ac.database.database_files(journal_path(path, number))
