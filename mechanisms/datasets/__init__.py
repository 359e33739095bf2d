"""Labelled data: bundled digits, published image formats, tables in files, and OpenML by name.

Every reader is strict: input that is damaged, incomplete or not finite is refused in one line. Nothing is unpickled.
"""

from mechanisms.datasets.columns import Columns, match_columns
from mechanisms.datasets.dataset import DataError, Dataset, Split, private_public_test_split
from mechanisms.datasets.formats import cifar10_binary, digits, idx, svhn
from mechanisms.datasets.sources import load
from mechanisms.datasets.tables import arrow, csv, frame, npy, npz, openml, parquet, read_column, read_names

__all__ = [
    "Columns",
    "DataError",
    "Dataset",
    "Split",
    "arrow",
    "cifar10_binary",
    "csv",
    "digits",
    "frame",
    "idx",
    "load",
    "match_columns",
    "npy",
    "npz",
    "openml",
    "parquet",
    "private_public_test_split",
    "read_column",
    "read_names",
    "svhn",
]
