"""The file of ``mechanisms tune``, with the journal beside it that holds the charge before the first try."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import accountant as ac
from mechanisms.cli.results_file import OptionError, ResultsFile, find_results, write_results

if TYPE_CHECKING:
    from mechanisms.budgets.journal import Journal

__all__ = ["TuningFile", "find_tuning"]

ENDINGS = (".json",)


@dataclass(frozen=True)
class TuningFile(ResultsFile):
    """Where a tuning writes its result, and what was charged before.

    Attributes
    ----------
    killed : int
        Charges of runs that were killed before they had a result.
    finished : bool
        Whether a run got its result and was killed before it wrote the file: that result is written now, at no cost.
    """

    killed: int = 0
    finished: bool = False

    @property
    def charges(self) -> int:
        """How often the coming run will have been charged, with those that were killed."""
        return self.killed + (not self.finished)

    @contextmanager
    def open_for_run(self) -> Iterator[Journal]:
        """The journal of the run; errors as for `ResultsFile.open_journal`."""
        from mechanisms.budgets.journal import Journal

        self._remove_journals(len(self.earlier))
        empty, path = False, self.journal_path()
        try:
            with Journal(path) as journal:
                self._refuse_newer()
                try:
                    yield journal  # after a result the file is gone, see `write`
                except BaseException:
                    empty = journal.held() == (0, 0)
                    raise
        finally:
            if empty:  # refused before the charge
                ac.database.remove_database(path)

    def write(self, columns: dict[str, Any], summary: dict[str, Any]) -> None:
        """Write the result, then remove the journals: from now on the file holds what was charged."""
        assert self.path is not None  # a run without a file is refused
        write_results(self.path, columns, summary)
        self._remove_journals(len(self.earlier) + 1)


def find_tuning(options: argparse.Namespace) -> TuningFile:
    """The file that ``--out`` and ``--again`` ask for.

    Raises
    ------
    OptionError
        As for `find_results`; or a killed run was charged, and ``--again`` was not given.
    """
    from mechanisms.budgets.journal import Journal

    options.endings = ENDINGS
    found = find_results(options)
    if found.path is None:
        return TuningFile(None, [], ac.Composition())
    path, charges, answers = found.journal_path(), 0, 0
    if path.exists():
        with Journal(path) as journal:
            charges, answers = journal.held()
    seeded = options.seed is not None
    if charges and not answers and not (options.again or seeded or options.dry_run):
        accepted = "--again, which makes new tries and pays again"
        raise OptionError(f"--out {found.path}: a killed run is charged in {path}; accepted: {accepted}")
    killed = 0 if seeded and not answers else charges
    return TuningFile(found.path, found.earlier, found.composition, killed, bool(answers))
