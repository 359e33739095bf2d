"""The table of a sweep as Parquet, NumPy archive or CSV, written as it is read back from the journal."""

from __future__ import annotations

import csv
import io
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from accountant.cli.sweep_journal import SweepJournal
from accountant.errors import MissingExtra, PlanError
from accountant.files import check_output, open_whole
from accountant.sweep import COLUMNS, Column, Values, column_at

__all__ = ["SweepTable", "check_sweep_output", "refuse_beyond_disk", "refuse_finished"]

FORMATS = (".parquet", ".npz", ".csv")

OVERHEAD = 40
"""Bytes that the journal holds of a setting, beside its columns in the table."""


def check_sweep_output(text: str, plan: str, again: bool) -> Path:
    """The path of the table, if it can be written; a file that is there only if `again`, and never the plan's.

    Raises
    ------
    PlanError
    """
    out = check_output(text, FORMATS, keep=[plan], name="--out", refuse=PlanError)
    if not again:
        refuse_finished(out)
    if out.suffix == ".parquet":
        _parquet()
    return out


def refuse_finished(out: Path) -> None:
    """Refuse a sweep whose table is there.

    Raises
    ------
    PlanError
    """
    if out.exists():
        raise PlanError(
            f"--out {out}: is there, so its sweep is finished; accepted: another file, or --again, which computes "
            "again and replaces it"
        )


def refuse_beyond_disk(out: Path, size: int, names: int) -> None:
    """Refuse a sweep whose results have no room where they are to be written.

    Raises
    ------
    PlanError
        There is less free space than the journal and the table may need.
    """
    needed = size * (8 * (names + len(COLUMNS)) + OVERHEAD)
    free = shutil.disk_usage(out.parent).free
    if needed > free:
        raise PlanError(
            f"--out {out}: {size} settings need up to {needed / 1e9:.3g} GB, {free / 1e9:.3g} GB are free; "
            "accepted: fewer settings, or a directory with more room"
        )


@dataclass(frozen=True)
class SweepTable:
    """All columns of a sweep; memory holds some of their rows at a time."""

    values: Values
    journal: SweepJournal

    @property
    def names(self) -> list[str]:
        return [*self.values, *COLUMNS]

    def write(self, out: Path, replace: bool) -> None:
        """Write the table, wholly or not at all."""
        write: dict[str, Callable[[BinaryIO], None]] = {
            ".parquet": self._write_parquet,
            ".npz": self._write_npz,
            ".csv": self._write_csv,
        }
        with open_whole(out, replace=replace, name="--out", refuse=PlanError) as file:
            write[out.suffix](file)

    def _chunks(self, names: Sequence[str]) -> Iterator[dict[str, Column]]:
        for start, rows in self.journal.chunks():
            end = start + len(rows)
            yield {
                name: column_at(self.values, name, start, end) if name in self.values else rows[:, COLUMNS.index(name)]
                for name in names
            }

    def _write_parquet(self, file: BinaryIO) -> None:
        pyarrow, parquet = _parquet()
        writer: Any = None
        for columns in self._chunks(self.names):
            table = pyarrow.table({name: np.ascontiguousarray(column) for name, column in columns.items()})
            writer = writer or parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
        writer.close()

    def _write_npz(self, file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in self.names:
                kind = np.array(self.values[name]).dtype if name in self.values else np.dtype(float)
                header = {
                    "descr": np.lib.format.dtype_to_descr(kind),
                    "fortran_order": False,
                    "shape": (self.journal.size,),
                }
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array_header_1_0(entry, header)
                    for columns in self._chunks([name]):
                        entry.write(np.ascontiguousarray(columns[name], dtype=kind).tobytes())

    def _write_csv(self, file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.names)
        for columns in self._chunks(self.names):
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        text.detach()  # the file is closed by whoever opened it


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("parquet needs pyarrow: pip install 'knn-accountant[mechanisms]'; or .npz, .csv") from None
    return pyarrow, pyarrow.parquet
