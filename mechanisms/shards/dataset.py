"""Private records in Parquet files as commands name them: what their footers say, without reading a record."""

from __future__ import annotations

from dataclasses import dataclass

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
    paths = list_files(where)
    for path in paths:
        with name_errors(path, "a Parquet file"), parquet.ParquetFile(files.open_input_file(path)) as file:
            size += file.metadata.num_rows
            if path == paths[0]:
                schema = file.schema_arrow
    with name_errors(paths[0], "columns of numbers, and a column of labels"):
        chosen, ignored = choose_features(schema, columns)
        if columns.label not in schema.names:
            raise ValueError(f"no column {columns.label!r} among {schema.names}")
    kind = schema.field(chosen[0]).type
    lists = hasattr(kind, "value_field")
    width = getattr(kind, "list_size", 0) if lists else len(chosen)
    if not width:
        raise DataError(f"{paths[0]}: lists of no fixed length; accepted: lists of a fixed size, or a column for each")
    if not size:
        raise DataError(f"{where}: no records; accepted: at least one")
    return PartitionedDataset(where, where, columns, size, width, None if lists else tuple(chosen), ignored)
