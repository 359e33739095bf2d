"""What the commands write: results all at once, beside them the journal of a run that goes on, and earlier prices."""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.validation import shorten

if TYPE_CHECKING:
    from mechanisms.budgets.journal import Journal

__all__ = [
    "Kept",
    "OptionError",
    "Output",
    "add_output",
    "check_output",
    "output_of",
    "progress_bar",
    "refuse_finished",
    "write_results",
]

OUTPUTS = (".npz", ".parquet")

Tick = Callable[[int], None]


class OptionError(ac.AccountantError, ValueError):
    """Options that do not go together, or an output that cannot be written."""


def add_output(parser: argparse.ArgumentParser, out: str) -> None:
    """Options about results; `out` says what the file holds."""
    add = parser.add_argument
    add("--out", metavar="FILE", help=out)
    add("--again", action="store_true", help="release and pay again, though FILE holds the results of a finished run")
    add("--json", action="store_true", help="one JSON object instead of a table")


# --- a file that holds a finished run -------------------------------------------------------------------


def refuse_finished(options: argparse.Namespace) -> dict[str, Any] | None:
    """Refuse an output that cannot be written, or that holds a finished run; before anything is spent.

    Returns
    -------
    dict or None
        With ``--again``, the summary that the file of the finished run holds; None where there is no such file.

    Raises
    ------
    OptionError
        The file cannot be written; it holds a finished run, and ``--again`` was not given; or it holds something else.
    """
    if not options.out:
        if options.again:
            raise OptionError("--again was given without --out; accepted: with the file of a finished run")
        return None
    path = Path(options.out)
    check_output(path)
    check_output(meant(path))
    if not path.exists():
        return None
    found = _summary_in(path)
    if not options.again:
        accepted = "another file, or --again, which releases and pays again"
        raise OptionError(f"--out {path}: holds the results of a finished run; accepted: {accepted}")
    return found


def _summary_in(path: Path) -> dict[str, Any]:
    """What a results file says of its run."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                text = str(archive["summary"])
        else:
            import pyarrow.parquet

            text = pyarrow.parquet.read_schema(path).metadata[b"summary"].decode()
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError("no summary")
    except Exception:  # whatever a decoder raises on other files
        accepted = "another file, this one is left as it is"
        raise OptionError(f"--out {path}: is there and holds no results of a run; accepted: {accepted}") from None
    return found


@dataclass(frozen=True)
class Output:
    """Where a labelling command writes its results, and what the file there says was released before.

    Attributes
    ----------
    path : Path or None
    earlier : list of dict
        For every release that the file tells of, oldest first: mechanism, epsilon, delta, and `releases`, the tables of
        what it could spend (see `accountant.composition_to_tables`).
    composition : accountant.Composition
        All of `earlier` together.
    """

    path: Path | None
    earlier: list[dict[str, Any]]
    composition: ac.Composition

    def journal(self, number: int | None = None) -> Path:
        """Beside the results; a file of its own for every release, so that none goes on with a finished one."""
        number = len(self.earlier) if number is None else number
        assert self.path is not None
        return self.path.with_name(f"{self.path.name}{f'.again-{number}' if number else ''}.journal")

    @contextmanager
    def opened(self) -> Iterator[Kept]:
        """The journal of the next release, once those of earlier ones are gone; one that was made for nothing goes.

        Raises
        ------
        OptionError
            Another process has finished a run into the same file since it was looked at.
        JournalError
            Another process holds the journal, or it cannot be used.
        """
        from mechanisms.budgets.journal import Journal

        if self.path is None:
            yield Kept(None, None, None)
            return
        self._remove_journals(len(self.earlier))
        path = self.journal()
        begun, kept, empty = path.exists(), None, False
        try:
            with Journal(path) as journal:
                self._refuse_newer()
                charges, answers = journal.held()
                kept = Kept(self.path, journal, answers if charges else None)
                try:
                    yield kept
                finally:
                    empty = not begun and journal.held() == (0, 0)
        finally:
            if kept is not None and kept.written:
                self._remove_journals(len(self.earlier) + 1)
            elif empty:
                _remove_journal(path)

    def _refuse_newer(self) -> None:
        """While the journal is held, nobody else can finish; what was finished before must be what was seen."""
        assert self.path is not None
        there = len(_summary_in(self.path).get("earlier", [])) + 1 if self.path.exists() else 0
        if there != len(self.earlier):
            accepted = "one process at a time"
            raise OptionError(
                f"--out {self.path}: another process has just finished a run into it; accepted: {accepted}"
            )

    def _remove_journals(self, finished: int) -> None:
        """Of releases whose results are there."""
        for number in range(finished):
            _remove_journal(self.journal(number))


class Kept:
    """The journal of a run, if it has one, what an interrupted run left in it, and where results go.

    Parameters
    ----------
    path : Path or None
    journal : Journal or None
    answers : int or None
        Answers that are in it; None where nothing was charged before.
    """

    def __init__(self, path: Path | None, journal: Journal | None, answers: int | None) -> None:
        self.journal, self.written = journal, False
        self._path, self._answers = path, answers

    def write(self, columns: dict[str, Any], summary: dict[str, Any]) -> None:
        """The results, while no other process can hold the journal."""
        if self._path is not None:
            write_results(self._path, columns, summary)
            self.written = True

    def announce(self) -> None:
        """Say once that a run goes on; not before it was found to be the same run."""
        if self.journal is not None and self._answers is not None:
            text = f"going on with the interrupted run in {self.journal.path}, {self._answers} answers are kept"
            print(f"mechanisms: {text}", file=sys.stderr)
            self._answers = None

    def before(self, progress: Tick | None) -> Tick:
        """`progress`, with the announcement before its first step."""

        def tick(done: int) -> None:
            self.announce()
            if progress is not None:
                progress(done)

        return tick


def output_of(options: argparse.Namespace) -> Output:
    """What `--out` and `--again` ask for; errors as for `refuse_finished`."""
    if options.again and options.seed is not None:
        reason = "its noise could repeat that of an earlier release"
        raise OptionError(f"--again was given with --seed: {reason}; accepted: --again without --seed")
    found = refuse_finished(options)
    if not options.out:
        return Output(None, [], ac.Composition())
    path = meant(Path(options.out))
    if found is None:
        later = sorted(path.parent.glob(f"{glob.escape(path.name)}.again-*.journal"))
        if later:
            accepted = "the results file beside it, or another name"
            raise OptionError(
                f"--out {path}: is not there, but {later[0].name} of a later release is; accepted: {accepted}"
            )
        return Output(path, [], ac.Composition())
    try:
        released = {key: found[key] for key in ("mechanism", "epsilon", "delta", "releases")}
        earlier = [*found["earlier"], released]
        composition = sum((ac.composition_from_tables(each["releases"]) for each in earlier), ac.Composition())
    except (ac.AccountantError, KeyError, TypeError) as error:
        what = f"its summary does not tell what was released ({shorten(str(error))})"
        raise OptionError(f"--out {path}: {what}; accepted: another file") from None
    return Output(path, earlier, composition)


def _remove_journal(path: Path) -> None:
    from mechanisms.budgets.sqlite import remove_database

    remove_database(path)
    for suffix in ("-wal", "-shm"):  # of earlier versions
        with suppress(FileNotFoundError):
            os.remove(f"{path}{suffix}")


def meant(path: Path) -> Path:
    """The file that a symbolic link names: under either name it tells of the same releases."""
    return path.resolve() if path.is_symlink() else path


# --- files ---------------------------------------------------------------------------------------------


def check_output(path: Path) -> None:
    """Refuse an output that could not be written, before anything is spent."""
    if path.suffix not in OUTPUTS:
        raise OptionError(f"--out {path}: accepted: a file ending in {' or '.join(OUTPUTS)}")
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise OptionError(f"--out {path}: accepted: a file in an existing directory that can be written")
    if path.suffix == ".parquet":
        from mechanisms.validation import require

        require("pyarrow.parquet")


def write_results(path: Path, columns: dict[str, Any], summary: dict[str, Any]) -> None:
    """All of the results or nothing: written beside the file, then moved over it."""
    about, path = json.dumps(summary, allow_nan=True), meant(path)
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
        _sync(path.parent)  # the name, too, before anything is removed that the results stand for
    except OSError as error:
        raise OptionError(f"--out {path}: {error.strerror}; accepted: a file that can be written") from None
    finally:
        with suppress(FileNotFoundError):
            os.remove(partial)


def _sync(directory: Path) -> None:
    with suppress(OSError):  # some systems have no such thing
        opened = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


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
