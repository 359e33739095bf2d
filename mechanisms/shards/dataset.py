"""Private records in Parquet files as commands name them: what their footers say, without reading a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import accountant as ac
from mechanisms.datasets import Columns, DataError
from mechanisms.datasets.columns import choose_features
from mechanisms.datasets.dataset import name_errors
from mechanisms.shards.pieces import file_system, list_files
from mechanisms.validation import require

__all__ = ["PartitionedDataset", "load_partitioned"]


@dataclass(frozen=True, eq=False)
class PartitionedDataset:
    """As `mechanisms.datasets.Dataset`, for records that stay in their files.

    Attributes
    ----------
    name, features : str
        Where the files are.
    labels : Columns
        What their columns are for.
    size, width : int
        Number of records, and of their features.
    columns, ignored : tuple of str
        Columns that are features, and that are not used; None for one column of lists.
    """

    name: str
    features: str
    labels: Columns
    size: int
    width: int
    columns: tuple[str, ...] | None
    ignored: tuple[str, ...] = ()
    images: None = None
    ids: None = None
    classes: None = None
    class_names: None = None

    def __len__(self) -> int:
        return self.size


def load_partitioned(where: str, columns: Columns) -> PartitionedDataset:
    """The records at a path, a pattern or an address.

    Raises
    ------
    DataError
        There are no Parquet files, or their columns are not as described.
    """
    parquet, (files, _), size = require("pyarrow.parquet"), file_system(where), 0
    first: Any = None
    for path in list_files(where):
        with name_errors(path, "a Parquet file"), parquet.ParquetFile(files.open_input_file(path)) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
        size += rows
        if rows and (first is None or not schema.equals(first[1])):
            chosen, ignored = _choose_columns(path, schema, columns)
            first = first or (path, schema, chosen, ignored)
            _refuse_others(first[0], first[2], path, chosen)
    if not size:
        raise DataError(f"{where}: no records; accepted: at least one")
    path, schema, chosen, ignored = first
    kind = schema.field(chosen[0]).type
    lists = hasattr(kind, "value_field")
    width = getattr(kind, "list_size", 0) if lists else len(chosen)
    if not width:
        raise DataError(f"{path}: lists of no fixed length; accepted: lists of a fixed size, or a column for each")
    return PartitionedDataset(where, where, columns, size, width, None if lists else tuple(chosen), ignored)


def _choose_columns(path: str, schema: Any, columns: Columns) -> tuple[list[str], tuple[str, ...]]:
    """The features of a file, and its columns that are not used; one without labels is refused."""
    with name_errors(path, "columns of numbers, and a column of labels"):
        found = choose_features(schema, columns)
        if columns.label not in schema.names:
            raise ValueError(f"no column {columns.label!r} among {ac.shorten(schema.names)}")
    return found


def _refuse_others(first: str, names: list[str], path: str, others: list[str]) -> None:
    """Refuse a file that lacks a feature of another."""
    for lacking, own, having, known in ((path, others, first, names), (first, names, path, others)):
        if lone := [name for name in known if name not in own]:
            accepted = "the same features in all files"
            raise DataError(f"{lacking}: no feature {lone[0]!r}, which {having} has; accepted: {accepted}")
