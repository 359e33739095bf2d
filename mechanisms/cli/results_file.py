"""The file that a command writes: refused or kept when it holds a finished run, with a journal beside it meanwhile."""

from __future__ import annotations

import argparse
import csv
import glob
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli.output_option import OptionError, add_output, refuse_no_output, refuse_seeded_repeat
from mechanisms.cli.results_paths import (
    ENDINGS,
    check_results_path,
    follow_link,
    journal_path,
    refuse_shared_files,
    summary_path,
    waiting_path,
)

if TYPE_CHECKING:
    from mechanisms.budgets.journal import Journal

__all__ = [
    "OptionError",
    "ResultsFile",
    "RunFiles",
    "add_output",
    "check_results_path",
    "count_answers",
    "csv_writer",
    "find_results",
    "follow_link",
    "refuse_finished",
    "refuse_no_output",
    "refuse_seeded_repeat",
    "write_results",
]

# --- a file that holds a finished run -------------------------------------------------------------------


def refuse_finished(options: argparse.Namespace) -> dict[str, Any] | None:
    """Refuse an output that cannot be written, or that holds a finished run; before anything is spent.

    Returns
    -------
    dict or None
        With ``--again``, the summary in the file of the finished run; None if there is no such file.

    Raises
    ------
    OptionError
        The file cannot be written; it holds a finished run, and ``--again`` was not given; it holds something else; or
        it is not apart from the store and what is read.
    """
    refuse_shared_files(options)
    if options.out is None:
        if options.again:
            raise OptionError("--again was given without --out; accepted: with the file of a finished run")
        return None
    path, endings = Path(options.out), getattr(options, "endings", ENDINGS)
    check_results_path(path, endings)
    check_results_path(follow_link(path), endings)
    if not path.exists():
        return None
    _finish_csv(follow_link(path))
    found = _read_summary(path)
    if not options.again:
        accepted = "another file, or --again, which releases and pays again"
        raise OptionError(f"--out {path}: holds the results of a finished run; accepted: {accepted}")
    return found


def _read_summary(path: Path) -> dict[str, Any]:
    """The summary of the run in a results file."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                text = str(archive["summary"])
        elif path.suffix in (".csv", ".json"):
            text = summary_path(path).read_text(encoding="utf-8")
        else:
            import pyarrow.parquet

            text = pyarrow.parquet.read_schema(path).metadata[b"summary"].decode()
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError("no summary")
    except Exception:  # decoders raise errors of many types on other files
        accepted = "another file, this one is left as it is"
        raise OptionError(f"--out {path}: is there and holds no results of a run; accepted: {accepted}") from None
    return found


@dataclass(frozen=True)
class ResultsFile:
    """Where a labelling command writes its results, and what the file there says was released before.

    Attributes
    ----------
    path : Path or None
    earlier : list of dict
        For every release that the file lists, oldest first: mechanism, epsilon, delta, and `releases`, the tables of
        the composition that it could spend at most (see `accountant.composition_to_tables`).
    composition : accountant.Composition
        The compositions of all `earlier` releases together.
    """

    path: Path | None
    earlier: list[dict[str, Any]]
    composition: ac.Composition

    def journal_path(self, number: int | None = None) -> Path:
        """The journal of a release, beside the results; by default of the next one.

        Every release has its own, so that no run continues the journal of a finished one.
        """
        assert self.path is not None
        return journal_path(self.path, len(self.earlier) if number is None else number)

    @contextmanager
    def hold(self) -> Iterator[Journal]:
        """The journal of the next release, which one process holds at a time.

        One that is still empty is removed at the end; but not one that was there before, if the run is refused.

        Raises
        ------
        OptionError
            Another process has finished a run into the same file since it was read.
        JournalError
            Another process holds the journal, or it cannot be used.
        """
        from mechanisms.budgets.journal import Journal, JournalError

        assert self.path is not None  # a run without a results file is refused
        self._remove_journals(len(self.earlier))
        path = self.journal_path()
        kept = path.exists()
        with Journal(path) as journal:
            try:
                self._refuse_newer()
                yield journal
                kept = False
            finally:
                with suppress(OSError, JournalError):  # what is left is removed by the next release
                    if not kept and path.exists() and journal.held() == (0, 0):
                        _remove_journal(path)  # while no other process can charge in it

    @contextmanager
    def open_journal(self) -> Iterator[RunFiles]:
        """What `hold` yields, and the file for the results; once they are written the journals are removed.

        Errors as for `hold`.
        """
        with self.hold() as journal:
            charges, answers = journal.held()
            assert self.path is not None
            files = RunFiles(self, journal, answers if charges else None)
            try:
                yield files
            except KeyboardInterrupt:
                raise KeyboardInterrupt(files.describe_interruption()) from None
            except OptionError as error:  # the results cannot be written
                raise OptionError(f"{error}; {files.describe_interruption()}") from None
            finally:
                if files.written:
                    self._remove_journals(len(self.earlier) + 1)

    def held_path(self, journal: Journal) -> Path:
        """The path of the results, if this process still holds it, so that no other one has written there.

        Raises
        ------
        OptionError
            Another process has finished a run into the same file.
        JournalError
            The journal was removed or replaced.
        """
        assert self.path is not None
        journal.held()
        self._refuse_newer()
        return self.path

    def _refuse_newer(self) -> None:
        """Refuse results that another process has finished since; while this one holds the journal, none can."""
        assert self.path is not None
        finished = len(_read_summary(self.path).get("earlier", [])) + 1 if self.path.exists() else 0
        if finished != len(self.earlier):
            accepted = "one process at a time"
            raise OptionError(
                f"--out {self.path}: another process has just finished a run into it; accepted: {accepted}"
            )

    def _remove_journals(self, finished: int) -> None:
        """Remove the journals of releases whose results were written."""
        for number in range(finished):
            with suppress(OSError):  # what is left is removed by the next release
                _remove_journal(self.journal_path(number))


class RunFiles:
    """The open journal of a run, if it has one, and the file for its results.

    Parameters
    ----------
    results : ResultsFile
    journal : Journal
    answers : int or None
        Answers that an interrupted run left in the journal; None if it had not charged anything.

    Attributes
    ----------
    journal : Journal
    written : bool
        Whether the results are on disk.
    """

    def __init__(self, results: ResultsFile, journal: Journal, answers: int | None) -> None:
        self.journal, self.written = journal, False
        self._results, self._answers = results, answers

    def write(self, columns: dict[str, Any], summary: dict[str, Any]) -> None:
        """Write the results while no other process can open the journal; errors as for `ResultsFile.held_path`."""
        write_results(self._results.held_path(self.journal), columns, summary)
        self.written = True

    def announce(self, done: int = 0) -> None:
        """Say once that an interrupted run goes on; called after the journal was found to hold the same run.

        It can be given as the `progress` of a run, which begins after that.
        """
        if self._answers is not None:
            kept = count_answers(self._answers)
            text = f"going on with the interrupted run in {self.journal.path}, {kept} kept"
            print(f"mechanisms: {text}", file=sys.stderr)
            self._answers = None

    def describe_interruption(self) -> str:
        """What an interrupted run has saved, and how to go on."""
        if self.written:
            return f"the results are in {self._results.path}"
        charges, answers = self.journal.held()
        if not charges:
            return "nothing was released, and nothing is to be paid for"
        kept = count_answers(answers)
        return f"{kept} kept in {self.journal.path}; the same command goes on, for the same price"


def count_answers(answers: int) -> str:
    """How many answers there are, as the subject of a sentence."""
    return "1 answer is" if answers == 1 else f"{answers} answers are"


def find_results(options: argparse.Namespace) -> ResultsFile:
    """The results file that `--out` and `--again` ask for; errors as for `refuse_finished`."""
    refuse_seeded_repeat(options)
    found = refuse_finished(options)
    refuse_no_output(options)
    if options.out is None:
        return ResultsFile(None, [], ac.Composition())
    path = follow_link(Path(options.out))
    if found is None:
        later = sorted(path.parent.glob(f"{glob.escape(path.name)}.again-*.journal"))
        if later:
            accepted = "the results file beside it, or another name"
            raise OptionError(
                f"--out {path}: is not there, but {later[0].name} of a later release is; accepted: {accepted}"
            )
        return ResultsFile(path, [], ac.Composition())
    try:
        released = {key: found[key] for key in ("mechanism", "epsilon", "delta", "releases")}
        earlier = [*found["earlier"], released]
        composition = sum((ac.composition_from_tables(each["releases"]) for each in earlier), ac.Composition())
    except (ac.AccountantError, KeyError, TypeError) as error:
        what = f"its summary does not tell what was released ({ac.shorten(str(error))})"
        raise OptionError(f"--out {path}: {what}; accepted: another file") from None
    return ResultsFile(path, earlier, composition)


def _remove_journal(path: Path) -> None:
    ac.database.remove_database(path)


# --- files ---------------------------------------------------------------------------------------------


def csv_writer(stream: Any) -> Any:
    """A writer of CSV with lines that end in "\\n"; values with any line break are quoted, also with a lone "\\r"."""

    class Lines:
        def write(self, line: str) -> None:
            stream.write(line.removesuffix("\r\n") + "\n")

    # before Python 3.13 only characters of the line end are quoted
    return csv.writer(Lines(), lineterminator="\r\n")


def _write_csv(path: Path, columns: dict[str, Any], about: str) -> None:
    """Write a table with a header, and its summary beside it: both, or what `_finish_csv` makes of them later."""
    text = io.StringIO(newline="")
    writer = csv_writer(text)
    writer.writerow(columns)
    lists = [column.tolist() for column in columns.values()]
    writer.writerows(
        [str(each).lower() if isinstance(each, bool) else each for each in row] for row in zip(*lists, strict=True)
    )
    table, waiting = text.getvalue().encode(), waiting_path(path)
    if path.is_file() and path.read_bytes() == table:  # the same labels as in the release before
        ac.files.write_text(summary_path(path), f"{about}\n", name="--out", refuse=OptionError)
        return
    try:
        for where, content in ((waiting, f"{sha256(table).hexdigest()}\n{about}\n".encode()), (path, table)):
            with ac.files.open_whole(where, private=where == waiting, name="--out", refuse=OptionError) as stream:
                stream.write(content)
    except BaseException:
        with suppress(OSError):
            os.remove(waiting)
        raise
    _finish_csv(path)


def _finish_csv(path: Path) -> None:
    """Put the summary beside a table that was written whole, unless that has been done.

    The summary waits with the digest of its table, so that a process that is killed between the two loses neither,
    and a table that is not of this run is left alone.
    """
    waiting = waiting_path(path)
    if path.suffix != ".csv" or not path.is_file() or not waiting.is_file():
        return
    digest, _, about = waiting.read_text(encoding="utf-8").partition("\n")
    if digest != sha256(path.read_bytes()).hexdigest():
        return
    ac.files.write_text(summary_path(path), about, name="--out", refuse=OptionError)
    with suppress(FileNotFoundError):  # another process may have done the same
        os.remove(waiting)


def write_results(path: Path, columns: dict[str, Any], summary: dict[str, Any]) -> None:
    """Write columns and summary; the file appears whole, and is on disk before the journals are removed.

    The summary of a ``.csv`` file stands beside it, in ``FILE.csv.json``; a ``.json`` file is one object of all.
    """
    if path.suffix == ".json":
        summary = {**summary, **{name: column.tolist() for name, column in columns.items()}}
        return ac.files.write_json(path, summary, name="--out", refuse=OptionError)
    about = json.dumps(summary, allow_nan=True)
    if path.suffix == ".csv":
        _write_csv(path, columns, about)
        return
    with ac.files.open_whole(path, name="--out", refuse=OptionError) as stream:
        if path.suffix == ".npz":
            np.savez(stream, summary=np.array(about), **columns)
        else:
            import pyarrow
            import pyarrow.parquet

            table = pyarrow.table(columns).replace_schema_metadata({"summary": about})
            pyarrow.parquet.write_table(table, stream)
