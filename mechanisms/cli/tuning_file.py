"""The file of ``mechanisms tune``, with the journal beside it that holds the charge before the first try."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import accountant as ac
from mechanisms.cli.results_file import OptionError, ResultsFile, find_results, write_results

if TYPE_CHECKING:
    from mechanisms.budgets.journal import Journal

__all__ = ["TuningFile", "find_tuning", "refuse_unwritable"]

ENDINGS = (".json",)


@dataclass(frozen=True)
class TuningFile(ResultsFile):
    """Where a tuning writes its result, and what was charged before.

    Attributes
    ----------
    held : (int, int)
        Charges and results in the journal when it was read.
    seeded : bool
        A rehearsal, which makes the tries of a killed one again.
    """

    held: tuple[int, int] = (0, 0)
    seeded: bool = False

    @property
    def finished(self) -> bool:
        """Whether a run got its result and was killed before it wrote the file: it is written now, at no cost."""
        return self.held[1] > 0

    @property
    def killed(self) -> int:
        """Charges of runs that were killed before they had a result."""
        return 0 if self.seeded and not self.finished else self.held[0]

    @property
    def charges(self) -> int:
        """How often the coming run will have been charged, with those that were killed."""
        return self.killed + (not self.finished)

    @contextmanager
    def open_for_run(self) -> Iterator[Journal]:
        """The journal of the run; after a result it is gone, see `write`.

        Raises
        ------
        OptionError
            As for `ResultsFile.hold`; or the journal is not as it was when the run was priced.
        """
        with self.hold() as journal:
            if journal.held() != self.held:
                accepted = "the same command again, which states the price with all charges"
                raise OptionError(
                    f"--out {self.path}: another process was charged in {journal.path} meanwhile; accepted: {accepted}"
                )
            yield journal

    def write(self, journal: Journal, columns: dict[str, Any], summary: dict[str, Any]) -> None:
        """Write the result, then remove the journals: from now on the file holds what was charged.

        Errors as for `ResultsFile.held_path`.
        """
        write_results(self.held_path(journal), columns, summary)
        self._remove_journals(len(self.earlier) + 1)


def refuse_unwritable(name: str, value: object) -> None:
    """Refuse, before anything is charged, what the file could not hold.

    Raises
    ------
    OptionError
    """
    if isinstance(value, dict):
        for key, each in value.items():
            refuse_unwritable(key, each)
    elif isinstance(value, list):
        for each in value:
            refuse_unwritable(name, each)
    else:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            accepted = "what JSON holds, such as a finite number"
            raise OptionError(f"{name} = {ac.shorten(value)}; accepted: {accepted}") from None


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
    path, held, seeded = found.journal_path(), (0, 0), options.seed is not None
    if path.exists():
        with Journal(path) as journal:
            held = journal.held()
    file = TuningFile(found.path, found.earlier, found.composition, held, seeded)
    if file.killed and not (file.finished or options.again or options.dry_run):
        accepted = "--again, which makes new tries and pays again"
        raise OptionError(f"--out {found.path}: a killed run is charged in {path}; accepted: {accepted}")
    return file
